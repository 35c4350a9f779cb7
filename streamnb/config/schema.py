"""What the configuration of a replay may say: sections, keys, their types and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamnb.classifier.ready import PresetClassifier
from streamnb.config.sections import (
    Section,
    converted,
    key,
    list_of,
    mapping_of,
    section,
    section_of,
)
from streamnb.corpus import KINDS
from streamnb.corpus.order import ORDERS
from streamnb.features.mail_words import MailTokenizer
from streamnb.features.words import Tokenizer
from streamnb.naive_bayes import COUNTING
from streamnb.parameters import (
    MIN_POSITIVE,
    Boolean,
    Choice,
    ClassPrior,
    Constraint,
    Integer,
    Number,
    Text,
)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != ""


NAME = Constraint(_is_name, "text that is not empty")
MAYBE_NAME = Constraint(_is_name, "text that is not empty", none=True)
NATURAL, MAYBE_NATURAL = Integer(), Integer(none=True)
SEED = Integer(0, 10**18)
SHARE = Number(0, 1)


def _order(path: str, value: Any) -> Any:
    kind, colon, seed = str(value).partition(":")
    seeded = kind == "shuffled" and seed.isdecimal() and len(seed) <= 18
    if kind not in ORDERS or (colon and not seeded):
        raise ValueError(f"{path}: expected one of {', '.join([*ORDERS, 'shuffled:SEED'])}")
    return value


class CorpusConfig(Section):
    """Which messages, in which order."""

    path: str | None = key(MAYBE_NAME, default=None)
    kind: str | None = key(Choice(KINDS, none=True), default=None)
    order: str = key(_order, default="indexed")
    limit: int | None = key(MAYBE_NATURAL, default=None)
    label_header: str | None = key(Text(none=True), default=None)
    label_column: str | None = key(Text(none=True), default=None)
    text_column: str | None = key(Text(none=True), default=None)
    on_error: str = key(Choice(("stop", "skip")), default="stop")


class _TokenizerConfig(Section):
    """What counts as a token; what is not set has the default of the tokenizer that is used."""

    kind: str = key(Choice(("auto", "text", "mail")), default="auto")

    def options(self) -> dict[str, Any]:
        """The options that are set."""
        asked = self.explicit_keys - {"kind"}
        return {name: getattr(self, name) for name in self.declared if name in asked}

    def to_dict(self) -> dict[str, Any]:
        """What is set, and the kind."""
        return {
            name: of
            for name, of in super().to_dict().items()
            if name in self.explicit_keys | {"kind"}
        }


_tokens = {
    name: key(known.check, default=None)
    for name, known in {**Tokenizer.parameter_table, **MailTokenizer.parameter_table}.items()
    if name not in ("keep_names", "on")
}

_window = key(MAYBE_NATURAL, default=None)


ClassifierConfig = section_of(
    PresetClassifier, "classifier", ("positive", "costs", "on", "words"), window=_window
)


class ImmediateConfig(Section, kind="immediate"):
    """Every label, right after its message."""


class DelayedConfig(Section, kind="delayed"):
    """Labels come late: one of these says by how much."""

    messages: int | None = key(Integer(0, none=True), default=None)
    hours: float | None = key(Number(0, 1e9, none=True), default=None)
    mean: float | None = key(Number(0, 1e9, none=True), default=None)
    seed: int = key(SEED, default=1)


class PartialConfig(Section, kind="partial"):
    """Some labels never come: a share of them does, or those of some recipients."""

    share: float | None = key(Number(0, 1, none=True), default=None)
    recipients: tuple[str, ...] | None = key(list_of(NAME, 1, none=True), default=None)
    seed: int = key(SEED, default=1)


class OnErrorConfig(Section, kind="on_error"):
    """Errors only."""


class MarginConfig(Section, kind="margin"):
    """Errors, and what was right by less than so many log-odds."""

    log_odds: float = key(Number(0, 1e9), default=3.0)


class ActiveConfig(Section, kind="active"):
    """A share of the labels, asked for by the learner."""

    budget: float = key(SHARE, default=0.1)


def _class_name(value: Any) -> Any:
    """Classes that are called 0 and 1 are numbers to YAML."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _positive(path: str, value: Any) -> Any:
    return Text(none=True).read(path, _class_name(value))


def _shares(path: str, value: Any) -> Any:
    """A share of all classes, or of each that is named."""
    if not isinstance(value, dict):
        return SHARE.read(path, value)
    return {
        NAME.read(path, _class_name(label)): SHARE.read(f"{path}.{label}", share)
        for label, share in value.items()
    }


class NoisyConfig(Section, kind="noisy"):
    """A share of the labels is wrong; of all classes, or of each that is named."""

    share: float | dict[str, float] = key(_shares, default=0.1)
    seed: int = key(SEED, default=1)


class EvaluateConfig(Section):
    """Which figures."""

    positive: str | None = key(_positive, default=None)
    window: int = key(Integer(1, 10**6), default=1000)
    fading: float = key(Number(MIN_POSITIVE, 1, below=True), default=0.999)
    every: int = key(NATURAL, default=100)
    intervals: bool = key(Boolean(), default=True)


class OutputConfig(Section):
    """Where results go."""

    folder: str | None = key(MAYBE_NAME, default=None)
    model: str | None = key(MAYBE_NAME, default=None)


class SparkConfig(Section):
    """What is Spark's, where a configuration is for `streamnb spark`."""

    input: str | None = key(MAYBE_NAME, default=None)
    format: str = key(NAME, default="parquet")
    output: str | None = key(MAYBE_NAME, default=None)
    parts: int = key(Integer(1, 10**6), default=8)
    block: int = key(Integer(1, 10**9), default=4096)
    memory: float = key(Number(MIN_POSITIVE, 1e9), default=512.0)
    least: float = key(Number(), default=0.0)
    shards: int | None = key(Integer(1, 10**6, none=True), default=None)
    rounds: int | None = key(Integer(1, 10**6, none=True), default=None)
    classes: bool = key(Boolean(), default=False)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


_named = mapping_of(Constraint(lambda value: True))


def _swept(path: str, value: Any) -> Any:
    """Lists of values by key, or a list of settings; lists become tuples."""
    if isinstance(value, Mapping) and all(map(_is_list, value.values())):
        return {name: tuple(values) for name, values in _named(path, value).items()}
    if _is_list(value) and all(isinstance(one, Mapping) for one in value):
        return tuple(_named(f"{path}[{i}]", one) for i, one in enumerate(value))
    raise ValueError(f"{path}: expected a list of values for each key, or of settings")


_regime = section(
    ImmediateConfig,
    DelayedConfig,
    PartialConfig,
    OnErrorConfig,
    MarginConfig,
    ActiveConfig,
    NoisyConfig,
)
_regimes = list_of(_regime)


def _feedback(path: str, value: Any) -> Any:
    """One regime, or several that are combined."""
    return _regimes(path, value) if _is_list(value) else (_regime(path, value),)


TokenizerConfig: Any = type("TokenizerConfig", (_TokenizerConfig,), _tokens)


def _prior(path: str, value: Any) -> Any:
    """Probabilities by class, or a word."""
    if isinstance(value, dict):
        value = {_class_name(label): share for label, share in value.items()}
    return ClassPrior().read(path, value)


_counting = {"window": _window, "prior": key(_prior, default="learned")}
_model = section(
    ClassifierConfig,
    *(section_of(made, kind, **_counting) for kind, made in COUNTING.items()),
    default="classifier",
)


class Config(Section):
    """A whole replay."""

    corpus: CorpusConfig = key(section(CorpusConfig), default=CorpusConfig())
    tokenizer: Any = key(section(TokenizerConfig), default=TokenizerConfig())
    model: Any = key(_model, default=ClassifierConfig())
    feedback: tuple[Any, ...] = key(_feedback, default=(ImmediateConfig(),))
    evaluate: EvaluateConfig = key(section(EvaluateConfig), default=EvaluateConfig())
    output: OutputConfig = key(section(OutputConfig), default=OutputConfig())
    sweep: Any = key(_swept, default={})
    jobs: int = key(Integer(1, 256), default=1)
    spark: SparkConfig | None = key(section(SparkConfig), default=None)

    def to_dict(self) -> dict[str, Any]:
        """As of any section, without what is not there."""
        return {name: of for name, of in super().to_dict().items() if of is not None}

    def __reduce__(self) -> tuple[Any, ...]:
        """As plain data: sections that are made of tables have no name to be found by."""
        return build, (self.to_dict(),)


def build(data: dict[str, Any], source: str = "configuration") -> Config:
    """Make the configuration of plain data.

    Raises
    ------
    ConfigError
        With the key's path, what was expected, and the nearest known key.

    Examples
    --------
    >>> build({"model": {"alhpa": 1}})
    Traceback (most recent call last):
        ...
    streamnb.errors.ConfigError: configuration: model.alhpa: unknown key; did you mean 'alpha'?
    """
    return converted(data, Config, source)
