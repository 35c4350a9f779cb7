"""Message in, verdict out: a tokenizer, a model, and what decisions cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from river import base

from streamnb.byte_tokens import ByteGrams
from streamnb.counts import Label
from streamnb.errors import ModelFileError
from streamnb.mail_tokens import MailTokenizer
from streamnb.naive_bayes.base import CountingNB, Receipt
from streamnb.naive_bayes.discriminative import DiscriminativeMultinomialNB
from streamnb.naive_bayes.multinomial import MultinomialNB
from streamnb.naive_bayes.scores import Explanation, probabilities
from streamnb.naive_bayes.storage import read, save
from streamnb.naive_bayes.views import ViewsNB
from streamnb.tokens import Feature, Tokenizer
from streamnb.views import Views

__all__ = ["Classifier", "Costs", "MailClassifier", "Reason", "TextClassifier", "Verdict"]

Model = CountingNB | ViewsNB
AnyTokenizer = MailTokenizer | Tokenizer | Views


class Costs(NamedTuple):
    """What it costs to decide wrongly, or not at all; those of SpamBayes to begin with.

    Attributes
    ----------
    false_alarm
        A message is taken for the positive class and is of another.
    miss
        Any other mistake: with spam for the positive class, a spam that gets through.
    unsure
        Somebody has to look.
    """

    false_alarm: float = 10.0
    miss: float = 1.0
    unsure: float = 0.2


class Reason(NamedTuple):
    """A feature that spoke for or against the label of a verdict.

    Attributes
    ----------
    feature
        Its name: a token, or bytes for an n-gram of bytes.
    log_odds
        What it added to the log-odds of the label against the best other class.
    counts
        How much of it was learned in each class.
    """

    feature: Feature
    log_odds: float
    counts: dict[Label, float]


@dataclass(frozen=True)
class Verdict:
    """What a classifier says of a message.

    Attributes
    ----------
    label
        The class that is expected to cost least, or where that is unsure the most probable one;
        None before anything was learned.
    probability
        Calibrated probability of that class.
    log_odds
        Its logarithm of p / (1 - p), which never saturates.
    unsure
        Whether it is expected to cost less if somebody looks.
    probabilities
        That of each class.
    reasons
        The features that spoke loudest, for the label or (negative) against it.
    """

    label: Label | None
    probability: float
    log_odds: float
    unsure: bool
    probabilities: dict[Label, float]
    reasons: list[Reason]


class Classifier(base.Classifier):
    """A tokenizer and a model: learns and classifies messages as they are.

    It is a river classifier, whose x is a message: bytes, str, or with `on` a dict that has one.

    Parameters
    ----------
    tokenizer
        What makes features of a message, or `Views` of it.
    model
        A counting model, or a `ViewsNB` with a model for each view.
    positive
        The class that false alarms are for.
    costs
        What decisions cost.
    on
        Key of the message where x is a dict.

    Examples
    --------
    >>> from streamnb import Classifier, MultinomialNB, Tokenizer
    >>> classifier = Classifier(Tokenizer(), MultinomialNB())
    >>> classifier.learn_one("free offer", "spam")
    >>> classifier.learn_one("lunch at noon", "ham")
    >>> verdict = classifier.classify("free lunch offer")
    >>> verdict.label, verdict.unsure, round(verdict.probability, 2)
    ('spam', True, 0.75)
    >>> [(reason.feature, round(reason.log_odds, 2)) for reason in verdict.reasons]
    [('free', 0.83), ('offer', 0.83), ('lunch', -0.56)]
    """

    def __init__(
        self,
        tokenizer: AnyTokenizer,
        model: Model,
        positive: Label = "spam",
        costs: Costs = Costs(),  # noqa: B008 (a constant)
        on: str | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.model = model
        self.positive = positive
        self.costs = costs
        self.on = on

    @property
    def _multiclass(self) -> bool:
        return True

    def _more_tags(self) -> set[str]:
        return {"text input"}

    def count(self, x: Any) -> Any:
        """The features of a message, as the model takes them."""
        return self.tokenizer.count(x if self.on is None else x[self.on])

    @property
    def receipt(self) -> Receipt | None:
        """What the last `learn_one` added: keep it to be able to unlearn."""
        return self.model.receipt

    @property
    def features(self) -> int:
        """How many features are known, of all views."""
        return sum(model.counts.features for model in self.models)

    @property
    def models(self) -> Sequence[CountingNB]:
        """The counting model of each view."""
        return self.model.models if isinstance(self.model, ViewsNB) else [self.model]

    def learn_one(self, x: Any, y: Label, w: float = 1.0) -> None:
        """Learn a message of class y, with weight w."""
        self.model.learn_one(self.count(x), y, w)

    def unlearn_one(self, x: Any, y: Label, w: float = 1.0, receipt: Receipt | None = None) -> None:
        """Undo `learn_one`, given the `receipt` it left."""
        self.model.unlearn_one(self.count(x), y, w, receipt)

    def joint_log_likelihood(self, x: Any) -> dict[Label, float]:
        """Score of each class; their differences are log-odds."""
        return self.model.joint_log_likelihood(self.count(x))

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """Probability of each class; {} before anything was learned."""
        return self.model.predict_proba_one(self.count(x))

    def predict_one(self, x: Any, **kwargs: Any) -> Label | None:
        """The most probable class, whatever mistakes cost; None where nothing was learned."""
        return self.model.predict_one(self.count(x))

    def classify(self, x: Any, reasons: int = 10) -> Verdict:
        """Decide what to do with a message.

        Parameters
        ----------
        x
            The message.
        reasons
            How many reasons to give; 0 is faster.
        """
        tokens = self.count(x)
        scores = self.model.joint_log_likelihood(tokens)
        if not scores:
            return Verdict(None, 0.0, 0.0, True, {}, [])
        labels = list(scores)
        shares = dict(zip(labels, probabilities(list(scores.values())), strict=True))
        expected = {
            label: math.fsum(shares[other] for other in labels if other != label)
            * (self.costs.false_alarm if label == self.positive else self.costs.miss)
            for label in labels
        }
        cheapest = min(labels, key=expected.__getitem__)
        unsure = len(labels) < 2 or self.costs.unsure < expected[cheapest]
        label = max(labels, key=shares.__getitem__) if unsure else cheapest
        others = [scores[other] for other in labels if other != label]
        return Verdict(
            label,
            shares[label],
            _log_odds(scores[label], others),
            unsure,
            shares,
            self._reasons(tokens, label, reasons) if reasons else [],
        )

    def explain_one(self, x: Any) -> Explanation:
        """Say what each feature of a message added to each class."""
        why, _ = self._explained(self.count(x))
        return why

    def _explained(self, tokens: Any) -> tuple[Explanation, dict[Feature, tuple[int, int]]]:
        """An explanation with names a reader knows, and each feature's view and fingerprint."""
        if isinstance(self.model, ViewsNB):
            views, seen = self.model.explain_views(tokens), tokens
        else:
            views, seen = [self.model.explain_one(tokens)], (tokens,)
        parts: dict[Feature, dict[Label, float]] = {}
        places: dict[Feature, tuple[int, int]] = {}
        for j, (view, counted) in enumerate(zip(views, seen, strict=True)):
            for i in range(len(counted)):
                part = view.contributions.get(counted.name(i))
                if part is not None:
                    fingerprint = int(counted.fingerprints[i])
                    name = self._name(j, fingerprint, counted.name(i))
                    parts[name] = part
                    places[name] = j, fingerprint
        labels = list(views[0].scores)
        why = Explanation(
            {label: sum(view.scores[label] for view in views) for label in labels},
            {label: sum(view.base[label] for view in views) for label in labels},
            parts,
        )
        return why, places

    def _name(self, view: int, fingerprint: int, known: Feature) -> Feature:
        """The name of a feature; `known` is what tokens or model say."""
        if isinstance(self.tokenizer, Views):
            return self.tokenizer.name(view, fingerprint, known)
        return known

    def top_features(
        self, label: Label, n: int = 10
    ) -> list[tuple[Feature, float, dict[Label, float]]]:
        """The n features, of all views, that speak most for a class.

        Returns
        -------
        list
            Name, the log-odds one occurrence adds against the best other class (before a message's
            length is allowed for), and how much of it was learned in each class.
        """
        found = []
        for j, model in enumerate(self.models):
            for fingerprint, gain in model.top_fingerprints(label, n):
                name = self._name(j, fingerprint, model.name_of(fingerprint))
                found.append((name, gain, model.counts_of(fingerprint)))
        return sorted(found, key=lambda one: (-one[1], str(one[0])))[:n]

    def _reasons(self, tokens: Any, label: Label, most: int) -> list[Reason]:
        why, places = self._explained(tokens)
        found = why.strongest(label, len(why.contributions))
        loudest = sorted(found, key=lambda item: (-abs(item[1]), str(item[0])))[:most]
        reasons = []
        for feature, gain in loudest:
            view, fingerprint = places[feature]
            reasons.append(Reason(feature, gain, self.models[view].counts_of(fingerprint)))
        return reasons

    def save(self, path: str | Path) -> None:
        """Write model and tokenizer to a file; what was there is replaced whole or not at all."""
        extra = {
            "tokenizer": _describe(self.tokenizer),
            "positive": self.positive,
            "costs": list(self.costs),
        }
        save(self.model, path, extra)

    @classmethod
    def load(cls, path: str | Path) -> Classifier:
        """Read what `save` wrote.

        Raises
        ------
        ModelFileError
            Where the file is missing, damaged or not ours, or holds a model without a tokenizer.
        """
        model, extra = read(path)
        if not isinstance(extra, dict):
            raise ModelFileError(f"{path}: the model was saved without its tokenizer")
        try:
            tokenizer = _restored(extra["tokenizer"])
            costs = Costs(*(float(cost) for cost in extra["costs"]))
            return Classifier(tokenizer, model, extra["positive"], costs)
        except Exception as error:
            raise ModelFileError(f"{path}: the tokenizer is not sound ({error!s:.100})") from None


def _log_odds(mine: float, others: Sequence[float]) -> float:
    if not others:
        return 0.0
    top = max(others)
    if top == -math.inf:
        return 0.0 if mine == -math.inf else math.inf
    return mine - top - math.log(math.fsum(math.exp(other - top) for other in others))


_TOKENIZERS = {"MailTokenizer": MailTokenizer, "Tokenizer": Tokenizer, "ByteGrams": ByteGrams}


def _describe(tokenizer: Any) -> dict[str, Any]:
    """A tokenizer as JSON can hold it."""
    if isinstance(tokenizer, Views):
        views = [_describe(view) for view in tokenizer.tokenizers]
        return {"kind": "Views", "views": views, "mail": tokenizer.mail}
    return {"kind": type(tokenizer).__name__, "options": dict(tokenizer._get_params())}


def _restored(described: Any) -> Any:
    if described["kind"] == "Views":
        return Views([_restored(view) for view in described["views"]], bool(described["mail"]))
    options = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in described["options"].items()
    }
    tokenizer = _TOKENIZERS[described["kind"]](**options)
    _ = tokenizer.scanner
    return tokenizer


class _Ready(Classifier):
    """A classifier whose views and parameters were chosen by measurement (README, figures)."""

    model: ViewsNB

    def _assemble(
        self,
        words: MailTokenizer | Tokenizer,
        grams: ByteGrams,
        positive: Label,
        costs: Costs,
        on: str | None,
    ) -> None:
        known = {"words": words, "bytes": grams}
        wrong = [view for view in self.views if view not in known]
        if wrong or not self.views or len(set(self.views)) < len(self.views):
            raise ValueError(f"views: {self.views!r} is not a choice of 'words' and 'bytes'")
        made = DiscriminativeMultinomialNB if self.discriminative else MultinomialNB
        models = [
            made(
                self.alpha,
                tau=self.tau,
                length_power=self.length_power,
                decay=self.decay,
                keep_names=self.keep_names and view == "words",
            )
            for view in self.views
        ]
        views = Views([known[view] for view in self.views], grams.mail)
        Classifier.__init__(
            self, views, ViewsNB(models, self.rate, self.label_noise), positive, costs, on
        )

    views: Sequence[str]
    alpha: float
    tau: float | None
    length_power: float
    rate: float
    label_noise: float | None
    decay: float
    discriminative: bool
    keep_names: bool

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in ("alpha", "tau", "length_power", "decay") and "model" in vars(self):
            for model in self.model.models:  # nothing has to be learned again
                setattr(model, name, value)


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
    >>> classifier.unlearn_one(spam, "spam", receipt=receipt)  # it was none, after all
    """

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
        words: MailTokenizer | None = None,
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
        tokenizer = MailTokenizer(binary=True, keep_names=keep_names) if words is None else words
        grams = ByteGrams(gram, first_bytes, drop_headers=tokenizer.drop_headers)
        self._assemble(tokenizer, grams, positive, costs, on)


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
        words: Tokenizer | None = None,
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
        default = Tokenizer(binary=True, ngrams=(1, 2), keep_names=keep_names)
        grams = ByteGrams(gram, first_bytes, mail=False)
        self._assemble(default if words is None else words, grams, positive, costs, on)
