"""What the configuration of a replay may say: sections, keys, their types and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PlainValidator,
    SerializerFunctionWrapHandler,
    create_model,
)
from pydantic import model_serializer as serializer_of
from pydantic_core import PydanticCustomError

from streamnb.classifier.ready import ReadyClassifier
from streamnb.config.conversion import Section, converted, leaf, one_of_kinds, section_of
from streamnb.corpus import KINDS
from streamnb.corpus.order import ORDERS
from streamnb.features.mail_words import MailTokenizer
from streamnb.features.words import Tokenizer
from streamnb.naive_bayes import (
    BernoulliNB,
    ComplementNB,
    DiscriminativeMultinomialNB,
    MultinomialNB,
)
from streamnb.naive_bayes.counting import CountingNB

Natural = Annotated[int, Field(ge=1, le=10**12)]
Length = Annotated[int, Field(ge=1, le=10**6)]
Name = Annotated[str, Field(min_length=1)]


def _path(value: Any) -> Any:
    """As `Name`; a path's bytes may be no UTF-8, which pydantic's own check of text refuses."""
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "Input should be a valid string")
    if not value:
        raise PydanticCustomError("string_too_short", "String should have at least 1 character")
    return value


PathName = Annotated[str, PlainValidator(_path)]
Seed = Annotated[int, Field(ge=0, le=10**18)]
Share = Annotated[float, Field(ge=0, le=1)]


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _order(value: Any) -> Any:
    kind, colon, seed = str(value).partition(":")
    seeded = kind == "shuffled" and seed.isdecimal() and len(seed) <= 18
    if kind not in ORDERS or (colon and not seeded):
        choices = ", ".join([*ORDERS, "shuffled:SEED"])
        raise PydanticCustomError("refused", "expected one of {choices}", {"choices": choices})
    return value


def _corpus_kind(value: Any) -> Any:
    if value is not None and value not in KINDS:
        choices = ", ".join(KINDS)
        raise PydanticCustomError("refused", "expected one of {choices}", {"choices": choices})
    return value


class CorpusConfig(Section):
    """Which messages, in which order."""

    path: PathName | None = None
    kind: Annotated[str | None, BeforeValidator(_corpus_kind)] = None
    order: Annotated[str, BeforeValidator(_order)] = "indexed"
    limit: Natural | None = None
    label_header: str | None = None
    label_column: str | None = None
    text_column: str | None = None
    on_error: Literal["stop", "skip"] = "stop"


class _TokenizerConfig(Section):
    """What counts as a token; what is not set has the default of the tokenizer that is used."""

    kind: Literal["auto", "text", "mail"] = "auto"

    def options(self) -> dict[str, Any]:
        """The options that are set."""
        return {key: getattr(self, key) for key in self.model_fields_set if key != "kind"}

    @serializer_of(mode="wrap")
    def _set_ones(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain = handler(self)
        return {key: plain[key] for key in plain if key == "kind" or key in self.model_fields_set}


_options = {**Tokenizer._table, **MailTokenizer._table}
_tokens: dict[str, Any] = {
    name: (leaf(name, known), None)
    for name, known in _options.items()
    if name not in ("keep_names", "on")
}

COUNTING: dict[str, type[CountingNB]] = {
    "multinomial": MultinomialNB,
    "bernoulli": BernoulliNB,
    "complement": ComplementNB,
    "discriminative": DiscriminativeMultinomialNB,
}
_window = (Natural | None, None)


def section_of_counting(kind: str) -> type[Section]:
    """The section of a counting model."""
    return section_of(COUNTING[kind], kind, window=_window)


ClassifierConfig = section_of(
    ReadyClassifier, "classifier", ("positive", "costs", "on", "words"), window=_window
)


class ImmediateConfig(Section):
    """Every label, right after its message."""

    kind: Literal["immediate"] = "immediate"


class DelayedConfig(Section):
    """Labels come late: one of these says by how much."""

    kind: Literal["delayed"] = "delayed"
    messages: Annotated[int, Field(ge=0, le=10**12)] | None = None
    hours: Annotated[float, Field(ge=0, le=1e9)] | None = None
    mean: Annotated[float, Field(ge=0, le=1e9)] | None = None
    seed: Seed = 1


class PartialConfig(Section):
    """Some labels never come: a share of them does, or those of some recipients."""

    kind: Literal["partial"] = "partial"
    share: Share | None = None
    recipients: (
        Annotated[tuple[Name, ...], BeforeValidator(_as_tuple), Field(min_length=1)] | None
    ) = None
    seed: Seed = 1


class OnErrorConfig(Section):
    """Errors only."""

    kind: Literal["on_error"] = "on_error"


class MarginConfig(Section):
    """Errors, and what was right by less than so many log-odds."""

    kind: Literal["margin"] = "margin"
    log_odds: Annotated[float, Field(ge=0, le=1e9)] = 3.0


class ActiveConfig(Section):
    """A share of the labels, asked for by the learner."""

    kind: Literal["active"] = "active"
    budget: Share = 0.1


def _class_name(value: Any) -> Any:
    """Classes that are called 0 and 1 are numbers to YAML."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _shares(value: Any) -> Any:
    if isinstance(value, dict):
        return {_class_name(label): share for label, share in value.items()}
    return value


class NoisyConfig(Section):
    """A share of the labels is wrong; of all classes, or of each that is named."""

    kind: Literal["noisy"] = "noisy"
    share: Annotated[Share | dict[str, Share], BeforeValidator(_shares)] = 0.1
    seed: Seed = 1


class EvaluateConfig(Section):
    """Which figures."""

    positive: Annotated[str | None, BeforeValidator(_class_name)] = None
    window: Length = 1000
    fading: Annotated[float, Field(gt=0, lt=1)] = 0.999
    every: Natural = 100
    intervals: bool = True


class OutputConfig(Section):
    """Where results go."""

    folder: PathName | None = None
    model: PathName | None = None


class SparkConfig(Section):
    """What is Spark's, where a configuration is for `streamnb spark`."""

    input: PathName | None = None
    format: Name = "parquet"
    output: PathName | None = None
    parts: Annotated[int, Field(ge=1, le=10**6)] = 8
    block: Annotated[int, Field(ge=1, le=10**9)] = 4096
    memory: Annotated[float, Field(gt=0, le=1e9)] = 512.0
    least: Annotated[float, Field(ge=0, le=1e100)] = 0.0
    shards: Annotated[int, Field(ge=1, le=10**6)] | None = None
    rounds: Annotated[int, Field(ge=1, le=10**6)] | None = None
    classes: bool = False


def _swept(value: Any) -> Any:
    """Lists of values by key, or a list of settings; lists become tuples."""
    if isinstance(value, Mapping) and all(
        isinstance(key, str) and isinstance(values, (list, tuple)) for key, values in value.items()
    ):
        return {key: tuple(values) for key, values in value.items()}
    if isinstance(value, (list, tuple)) and all(isinstance(one, Mapping) for one in value):
        return tuple(value)
    raise PydanticCustomError("refused", "expected a list of values for each key, or of settings")


def _regimes(value: Any) -> Any:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


if TYPE_CHECKING:  # made of the models' tables of parameters, of which type checkers know nothing
    TokenizerConfig = Any
    ModelConfig = Any
    RegimeConfig = Any
else:
    TokenizerConfig = create_model("TokenizerConfig", __base__=_TokenizerConfig, **_tokens)
    ModelConfig = one_of_kinds(
        ClassifierConfig, *map(section_of_counting, COUNTING), default="classifier"
    )
    RegimeConfig = one_of_kinds(
        ImmediateConfig,
        DelayedConfig,
        PartialConfig,
        OnErrorConfig,
        MarginConfig,
        ActiveConfig,
        NoisyConfig,
    )


def _default(**keys: Any) -> Any:
    """A section of which nothing is said; checked with the others, without a schema of its own."""
    return Field(default_factory=lambda: keys, validate_default=True)


class Config(Section):
    """A whole replay."""

    corpus: CorpusConfig = _default()
    tokenizer: TokenizerConfig = _default()
    model: ModelConfig = _default()
    feedback: Annotated[tuple[RegimeConfig, ...], BeforeValidator(_regimes)] = _default(
        kind="immediate"
    )
    evaluate: EvaluateConfig = _default()
    output: OutputConfig = _default()
    sweep: Annotated[Any, BeforeValidator(_swept)] = Field(default_factory=dict)
    jobs: Annotated[int, Field(ge=1, le=256)] = 1
    spark: SparkConfig | None = None

    @serializer_of(mode="wrap")
    def _without_what_is_not_there(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = handler(self)
        return {key: plain[key] for key in plain if key != "spark" or self.spark is not None}

    def __reduce__(self) -> tuple[Any, ...]:
        """As plain data: sections that are made of tables have no name to be found by."""
        return build, (self.model_dump(mode="json"),)


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
