"""The classifiers for mail and for plain text, with everything chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from streamnb.byte_tokens import ByteGrams
from streamnb.classifier.general import Classifier
from streamnb.classifier.verdict import Costs
from streamnb.counts import Label
from streamnb.mail_tokens import MailTokenizer
from streamnb.naive_bayes.discriminative import DiscriminativeMultinomialNB
from streamnb.naive_bayes.multinomial import MultinomialNB
from streamnb.naive_bayes.views import ViewsNB
from streamnb.tokens import Tokenizer
from streamnb.views import Views

__all__ = ["MailClassifier", "TextClassifier"]


class _Ready(Classifier):
    """A classifier whose views and parameters were chosen by measurement (README, figures)."""

    tokenizer_class: ClassVar[type[MailTokenizer | Tokenizer]]
    word_options: ClassVar[dict[str, Any]]  # of the default tokenizer of the words view
    model: ViewsNB

    def __init__(
        self,
        alpha: float = 0.1,
        tau: float | None = 0.8,
        length_power: float = 2 / 3,
        decay: float = 1.0,
        views: Sequence[str] = ("words", "bytes"),
        gram: int = 4,
        first_bytes: int = 2000,
        discriminative: bool = True,
        rate: float = 0.3,
        label_noise: float | None = None,
        words: MailTokenizer | Tokenizer | None = None,
        keep_names: bool = True,
        positive: Label = "spam",
        costs: Costs = Costs(),  # noqa: B008 (a constant)
        on: str | None = None,
    ) -> None:
        self.alpha = alpha
        self.tau = tau
        self.length_power = length_power
        self.decay = decay
        self.views = views
        self.gram = gram
        self.first_bytes = first_bytes
        self.discriminative = discriminative
        self.rate = rate
        self.label_noise = label_noise
        self.words = words
        self.keep_names = keep_names
        if words is None:
            words = self.tokenizer_class(**self.word_options, keep_names=keep_names)
        made = DiscriminativeMultinomialNB if discriminative else MultinomialNB
        models = [
            made(
                alpha,
                tau=tau,
                length_power=length_power,
                decay=decay,
                keep_names=keep_names and view == "words",
            )
            for view in views
        ]
        super().__init__(
            self._views(words), ViewsNB(models, rate, label_noise), positive, costs, on
        )

    def _views(self, words: MailTokenizer | Tokenizer) -> Views:
        mail = isinstance(words, MailTokenizer)
        grams = ByteGrams(self.gram, self.first_bytes, mail=mail)
        if isinstance(words, MailTokenizer):  # what one view must not read, none reads
            grams.headers, grams.drop_headers = words.headers, words.drop_headers
        _ = grams.scanner  # refuses what cannot be
        known = {"words": words, "bytes": grams}
        wrong = [view for view in self.views if view not in known]
        if wrong or not self.views or len(set(self.views)) < len(self.views):
            raise ValueError(f"views: {self.views!r} is not a choice of 'words' and 'bytes'")
        return Views([known[view] for view in self.views], mail)

    def __setattr__(self, name: str, value: Any) -> None:
        if "model" in vars(self) and name in _FIXED:
            raise AttributeError(f"{name} is chosen when a {type(self).__name__} is made")
        super().__setattr__(name, value)


# What has shaped the counts or the learning so far.
_FIXED = {
    "decay", "discriminative", "first_bytes", "gram", "keep_names", "label_noise", "rate", "views",
    "words",
}  # fmt: skip


class MailClassifier(_Ready):
    r"""Tells mail apart: the default, good for any stream of mail without tuning.

    Two views of a mail, its words (`MailTokenizer`, each counted once) and its first bytes
    (`ByteGrams`), each with a `DiscriminativeMultinomialNB`, summed and recalibrated by `ViewsNB`.

    Parameters
    ----------
    alpha, tau, length_power, decay
        As for `DiscriminativeMultinomialNB`.
    views
        Which views: "words", "bytes" or both.
    gram, first_bytes
        n and first of `ByteGrams`.
    discriminative
        Whether a message is learned as much as it was a surprise; False learns each as a whole.
    rate
        Step size of the recalibration; with 0 the mean of the views is the score.
    label_noise
        Share of labels that are wrong; None to estimate it, 0 to believe every label.
    words
        Tokenizer of the words view; None for the default.
    keep_names
        Keep the words, so that they can be shown.
    positive, costs, on
        As for `Classifier`.

    Examples
    --------
    >>> from streamnb import MailClassifier
    >>> classifier = MailClassifier()
    >>> spam = b"From: Pills <pills@example.com>\nSubject: Cheap pills\n\nBuy pills now"
    >>> ham = b"From: Ann <ann@example.org>\nSubject: Lunch\n\nShall we meet at noon?"
    >>> classifier.learn_one(spam, "spam")
    >>> receipt = classifier.receipt
    >>> classifier.learn_one(ham, "ham")
    >>> classifier.predict_one(b"Subject: pills\n\nBuy cheap pills")
    'spam'
    >>> classifier.unlearn_one(spam, "spam", receipt=receipt)  # to the last bit
    """

    tokenizer_class = MailTokenizer
    word_options: ClassVar[dict[str, Any]] = {"binary": True}


class TextClassifier(_Ready):
    r"""Tells plain texts apart: as `MailClassifier`, with words and pairs of words.

    Parameters
    ----------
    alpha, tau, length_power, decay, views, gram, first_bytes, discriminative, rate, label_noise
        As for `MailClassifier`.
    words, keep_names, positive, costs, on
        As for `MailClassifier`.

    Examples
    --------
    >>> from streamnb import TextClassifier
    >>> classifier = TextClassifier()
    >>> for text, label in [("goal in the last minute", "sport"), ("the vote was close", "news")]:
    ...     classifier.learn_one(text, label)
    >>> classifier.predict_one("a late goal")
    'sport'
    """

    tokenizer_class = Tokenizer
    word_options: ClassVar[dict[str, Any]] = {"binary": True, "ngrams": (1, 2)}
