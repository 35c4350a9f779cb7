"""Ready-made classifiers for mail and for plain text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from streamnb.classifier.message_classifier import Classifier, DecisionParameters
from streamnb.constraints import Boolean, Choice, Integer, NameList
from streamnb.features.grams import ByteGrams, CharacterGrams, WordPairs
from streamnb.features.mail_words import MailTokenizer
from streamnb.features.views import (
    OPTIONAL_TOKENIZER,
    Views,
    as_tokenizer,
    tokenizer_config,
    tokenizer_from_config,
)
from streamnb.features.words import ScanningTransformer, Tokenizer
from streamnb.naive_bayes.contexts import ContextNB
from streamnb.naive_bayes.discriminative import DiscriminativeMultinomialNB
from streamnb.naive_bayes.multinomial import MultinomialNB
from streamnb.naive_bayes.text_model import TextModel
from streamnb.naive_bayes.views import ViewsNB
from streamnb.parameters import (
    attribute,
    inherited,
    parameter,
    parameter_class,
    parameters_from_json,
    parameters_to_json,
)

_VIEWS = ("words", "header", "body", "pairs", "bytes", "characters")


@parameter_class(kw_only=True)
class PresetParameters(DecisionParameters):
    """Parameters of `TextClassifier` and `MailClassifier`.

    Parameters
    ----------
    preset
        The set of views, used if `views` is None. "default" has all views; "small" has no pairs of
        tokens and no characters. It takes two thirds of the time and less than half of the memory.
    views
        Names of the views: "words", "pairs" (of tokens) and "bytes"; for mail also "header" and
        "body" (the words of each), for plain text "characters" (beyond ASCII). None for the views
        of `preset`.
    ngram_max
        Length of the longest byte n-gram.
    ngram_step
        Difference in length, in bytes, between an n-gram and the next longer one. The probability
        of a rare n-gram is taken from shorter ones. 0 for n-grams of one length.
    first_bytes
        Length of the start of a message to read: in bytes for the view "bytes", in characters for
        the view "characters".
    discriminative
        True to give a message a larger weight if its class was less probable; False for equal
        weights.
    words
        Tokenizer of the view of words: a MailTokenizer, Tokenizer or function from a text to its
        tokens. Only a MailTokenizer has views of header and body. None for the default.
    """

    alpha: float = inherited(DiscriminativeMultinomialNB, "alpha")
    complement: bool = inherited(DiscriminativeMultinomialNB, "complement", default=True)
    length_norm: float | None = inherited(DiscriminativeMultinomialNB, "length_norm")
    length_norm_power: float = inherited(DiscriminativeMultinomialNB, "length_norm_power")
    decay: float = inherited(DiscriminativeMultinomialNB, "decay")
    max_features: int | None = inherited(DiscriminativeMultinomialNB, "max_features")
    preset: str = parameter(Choice(("default", "small")), "counts", default="default")
    views: Sequence[str] | None = parameter(
        NameList(required=True, choices=_VIEWS, ordered=True, none=True), "counts", default=None
    )
    ngram_max: int = parameter(Integer(1, 8), "counts", default=4)
    ngram_step: int = parameter(Integer(0, 6), "counts", default=0)
    first_bytes: int = parameter(Integer(1, 1 << 24), "counts", default=1500)
    discriminative: bool = parameter(Boolean(), "counts", default=True)
    rate: float = inherited(ViewsNB, "rate", default=0.15)
    bound: float | None = inherited(ViewsNB, "bound", default=8.0)
    by_length: bool = inherited(ViewsNB, "by_length", default=True)
    min_update: float = inherited(DiscriminativeMultinomialNB, "min_update", default=0.03)
    systems: int = inherited(ViewsNB, "systems", default=4)
    label_noise: float | None = inherited(ViewsNB, "label_noise")
    words: MailTokenizer | Tokenizer | Callable[[str], Iterable[Any]] | None = parameter(
        OPTIONAL_TOKENIZER, "counts", default=None
    )
    keep_names: bool = inherited(DiscriminativeMultinomialNB, "keep_names")


@parameter_class(kw_only=True)
class PresetClassifier(PresetParameters, Classifier):
    """A classifier whose views and parameters were chosen by measurement (see the benchmarks)."""

    tokenizer: Views = attribute(init=False)
    model: ViewsNB = attribute(init=False)

    tokenizer_class: ClassVar[type[MailTokenizer | Tokenizer]]
    word_options: ClassVar[dict[str, Any]]  # options of the default tokenizer for the view "words"
    presets: ClassVar[dict[str, tuple[str, ...]]]  # views

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.startswith("streamnb."):  # files can only name classes of streamnb
            Classifier.ready[cls.__name__] = cls

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}

    def __post_init__(self) -> None:
        self._chosen = tuple(self.views or self.presets[self.preset])
        words = self.words
        if words is None:
            words = self.tokenizer_class(**self.word_options, keep_names=self.keep_names)
        self.tokenizer = self._views(as_tokenizer(words))
        self.model = ViewsNB(
            [self._member(view) for view in self._chosen],
            **{name: getattr(self, name) for name in self._names_in(ViewsNB)},
        )

    def _names_in(self, model: type[TextModel]) -> list[str]:
        """Return the names of parameters that this class shares with a model."""
        return [name for name in self.parameter_table if name in model.parameter_table]

    @property
    def view_names(self) -> tuple[str, ...]:
        """Names of the views: `views` or, if that is None, those of the preset."""
        return self._chosen

    def _member(self, view: str) -> MultinomialNB:
        """Return an untrained model for a view."""
        has_contexts = view == "bytes" and self.ngram_step
        discriminative = ContextNB if has_contexts else DiscriminativeMultinomialNB
        model_class = discriminative if self.discriminative else MultinomialNB
        shared = {name: getattr(self, name) for name in self._names_in(model_class)}
        shared["keep_names"] = self.keep_names and view not in ("bytes", "characters")
        if model_class is ContextNB:
            shared["step"] = self.ngram_step
        return model_class(**shared)

    def _views(self, words: MailTokenizer | Tokenizer) -> Views:
        """Return the tokenizers of the chosen views, given the tokenizer of words."""
        mail = isinstance(words, MailTokenizer)
        step = self.ngram_step if self.discriminative else 0
        if step and (self.ngram_max > 6 or self.ngram_max % step) and "bytes" in self._chosen:
            raise ValueError(
                f"ngram_max: {self.ngram_max} is above 6 or not a multiple of ngram_step "
                f"({step}); for n-grams of one length set ngram_step=0"
            )
        views: dict[str, ScanningTransformer] = {
            "words": words,
            "pairs": WordPairs(mail=mail, keep_names=self.keep_names),
            "bytes": ByteGrams(n=self.ngram_max, step=step, first=self.first_bytes, mail=mail),
        }
        if not isinstance(words, MailTokenizer):
            views["characters"] = CharacterGrams(first=self.first_bytes)
        else:
            views |= {part: words.clone({"part": part}) for part in ("header", "body")}
            # all views leave out the same fields
            for view in (views["pairs"], views["bytes"]):
                view.headers, view.drop_headers = words.headers, words.drop_headers
        if unknown := set(self._chosen) - set(views):
            kind = "a mail" if mail else "plain text"
            problem = f"{kind} has no {' or '.join(sorted(unknown))}"
            if self.views is None:
                raise ValueError(
                    f"words: {problem}: give a MailTokenizer, or choose views=('words', ...)"
                )
            raise ValueError(f"views: {problem}")
        return Views([views[view] for view in self._chosen], mail)

    def _has_learned(self) -> bool:
        return "model" in vars(self)  # views and counts cannot change after construction

    def _check_change(self, name: str, value: Any) -> None:
        super()._check_change(name, value)
        if "model" in vars(self):
            for member in self.models:  # all models check the value before one of them changes
                if name in member.parameter_table:
                    member._check_change(name, value)

    def _on_change(self, name: str) -> None:
        super()._on_change(name)
        if "model" not in vars(self):
            return
        for model in (self.model, *self.models):
            if name in model.parameter_table:
                setattr(model, name, getattr(self, name))

    def settings(self) -> dict[str, Any]:
        """The settings without the model, as JSON values."""
        return {
            **super().settings(),
            "class": type(self).__name__,
            "parameters": parameters_to_json(self, exclude=("positive", "costs", "on", "words")),
            # Views are stored because a preset can have other views in another version.
            "views": list(self._chosen),
            "words": None if self.words is None else tokenizer_config(as_tokenizer(self.words)),
        }

    @classmethod
    def _of_settings(
        cls, tokenizer: Any, model: TextModel, settings: Any, decision: dict[str, Any]
    ) -> Classifier:
        parameters = parameters_from_json(settings["parameters"], cls)
        views = tuple(settings["views"])
        words = settings.get("words")
        ready = cls(
            **{**parameters, "views": views},
            words=None if words is None else tokenizer_from_config(words),
            **decision,
        )
        if len(ready.models) != len(model.view_models) or not isinstance(model, ViewsNB):
            raise ValueError("its views are not those of its model")
        # Tokenizer and model replace those of `ready`, because they can have been changed after
        # construction.
        object.__setattr__(ready, "views", parameters["views"])
        object.__setattr__(ready, "tokenizer", tokenizer)
        object.__setattr__(ready, "model", model)
        return ready


@parameter_class(kw_only=True)
class MailClassifier(PresetClassifier):
    r"""The default classifier for mail. It needs no tuning.

    A mail has four views: words of the header, words of the body (`MailTokenizer`, each word
    counted once), pairs of neighbouring tokens (`WordPairs`) and the first bytes (`ByteGrams`).
    Each view has a `DiscriminativeMultinomialNB`. `ViewsNB` bounds, recalibrates and sums their
    log-odds. With `ngram_step` > 0, the model of the bytes is a `ContextNB`.

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

    tokenizer_class: ClassVar[type[MailTokenizer | Tokenizer]] = MailTokenizer
    word_options: ClassVar[dict[str, Any]] = {"binary": True}
    presets: ClassVar[dict[str, tuple[str, ...]]] = {
        "default": ("header", "body", "pairs", "bytes"),
        "small": ("header", "body", "bytes"),
    }


@parameter_class(kw_only=True)
class TextClassifier(PresetClassifier):
    r"""Classifies plain texts as `MailClassifier` does, with all words in one view.

    A word that a text has n times counts about 1 + log2(n) times. The fourth view has n-grams of
    characters beyond ASCII (`CharacterGrams`). It is empty for texts in ASCII.

    Examples
    --------
    >>> from streamnb import TextClassifier
    >>> classifier = TextClassifier()
    >>> for text, label in [("goal in the last minute", "sport"), ("the vote was close", "news")]:
    ...     classifier.learn_one(text, label)
    >>> classifier.predict_one("a late goal")
    'sport'
    """

    tokenizer_class: ClassVar[type[MailTokenizer | Tokenizer]] = Tokenizer
    word_options: ClassVar[dict[str, Any]] = {"sublinear": True}
    presets: ClassVar[dict[str, tuple[str, ...]]] = {
        "default": ("words", "pairs", "bytes", "characters"),
        "small": ("words", "bytes"),
    }
