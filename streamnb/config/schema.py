"""What a configuration may say: sections, keys, their types and defaults."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from streamnb.corpus.order import ORDERS

__all__ = [
    "MODELS",
    "REGIMES",
    "ActiveConfig",
    "ClassifierConfig",
    "Config",
    "DelayedConfig",
    "DiscriminativeConfig",
    "ImmediateConfig",
    "MarginConfig",
    "NoisyConfig",
    "OnErrorConfig",
    "PartialConfig",
    "by_kind",
]

Positive = Annotated[float, Meta(gt=0, le=1e100)]
Natural = Annotated[int, Meta(ge=1, le=10**12)]
Length = Annotated[int, Meta(ge=1, le=10**6)]
Name = Annotated[str, Meta(min_length=1)]
Size = Annotated[int, Meta(ge=1, le=8)]


class _Section(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A part of the configuration: unknown keys are errors."""


class CorpusConfig(_Section, frozen=True):
    """Which messages, in which order."""

    path: Name | None = None
    kind: Literal["trec", "folders", "maildir", "mbox", "tabs", "csv"] | None = None
    order: Annotated[str, Meta(pattern=rf"^({'|'.join(ORDERS)}|shuffled:[0-9]{{1,18}})$")] = (
        "indexed"
    )
    limit: Natural | None = None
    label_header: str | None = None
    label_column: str | None = None
    text_column: str | None = None
    on_error: Literal["stop", "skip"] = "stop"


class TokenizerConfig(_Section, frozen=True):
    """What counts as a token; what is not set has the default of the tokenizer that is used."""

    kind: Literal["auto", "text", "mail"] = "auto"
    casefold: bool | UnsetType = UNSET
    inner: str | UnsetType = UNSET
    min_length: Length | UnsetType = UNSET
    max_length: Length | UnsetType = UNSET
    ngrams: tuple[Size, Size] | UnsetType = UNSET
    analyzer: Literal["word", "char"] | UnsetType = UNSET
    stop_words: tuple[str, ...] | UnsetType | None = UNSET
    urls: bool | UnsetType = UNSET
    binary: bool | UnsetType = UNSET
    headers: bool | UnsetType = UNSET
    drop_headers: tuple[str, ...] | UnsetType | None = UNSET

    def options(self) -> dict[str, Any]:
        """The options that are set."""
        given = msgspec.structs.asdict(self)
        return {key: value for key, value in given.items() if key != "kind" and value is not UNSET}


Power = Annotated[float, Meta(ge=0, le=2)]
Decay = Annotated[float, Meta(ge=0.5, le=1)]


class _Learner(_Section, frozen=True):
    """What every model has: forgetting, and whether features keep their names."""

    decay: Decay = 1.0
    window: Natural | None = None
    keep_names: bool = True


class _Model(_Learner, frozen=True):
    alpha: Positive = 1.0
    unseen: Literal["ignore", "smooth"] = "ignore"
    tau: Positive | None = None
    length_power: Power = 0.5


Shares = dict[str, Annotated[float, Meta(ge=0, le=1e100)]]


class MultinomialConfig(_Model, tag_field="kind", tag="multinomial", frozen=True):
    """Parameters of `MultinomialNB`."""

    prior: Literal["learned", "uniform"] | Shares = "learned"


class BernoulliConfig(_Model, tag_field="kind", tag="bernoulli", frozen=True):
    """Parameters of `BernoulliNB`."""

    prior: Literal["learned", "uniform"] | Shares = "learned"
    binarize: Annotated[float, Meta(ge=0, le=1e100)] = 0.0


class ComplementConfig(_Model, tag_field="kind", tag="complement", frozen=True):
    """Parameters of `ComplementNB`."""

    prior: Literal["none", "learned", "uniform"] | Shares = "none"


class DiscriminativeConfig(_Learner, tag_field="kind", tag="discriminative", frozen=True):
    """Parameters of `DiscriminativeMultinomialNB`."""

    alpha: Positive = 0.1
    prior: Literal["learned", "uniform"] | Shares = "learned"
    unseen: Literal["ignore", "smooth"] = "ignore"
    tau: Positive | None = 0.8
    length_power: Power = 2 / 3


View = Literal["words", "bytes"]


class ClassifierConfig(_Learner, tag_field="kind", tag="classifier", frozen=True):
    """Parameters of `MailClassifier` and `TextClassifier`."""

    alpha: Positive = 0.1
    tau: Positive | None = 0.8
    length_power: Power = 2 / 3
    views: tuple[View, ...] = ("words", "bytes")
    gram: Size = 4
    first_bytes: Annotated[int, Meta(ge=1, le=1 << 20)] = 2000
    discriminative: bool = True
    rate: Annotated[float, Meta(ge=0, le=100)] = 0.3
    label_noise: Annotated[float, Meta(ge=0, lt=0.5)] | None = None


ModelConfig = (
    ClassifierConfig | MultinomialConfig | BernoulliConfig | ComplementConfig | DiscriminativeConfig
)


Share = Annotated[float, Meta(ge=0, le=1)]
Seed = Annotated[int, Meta(ge=0, le=10**18)]


class ImmediateConfig(_Section, tag_field="kind", tag="immediate", frozen=True):
    """Every label, right after its message."""


class DelayedConfig(_Section, tag_field="kind", tag="delayed", frozen=True):
    """Labels come late: one of these says by how much."""

    messages: Annotated[int, Meta(ge=0, le=10**12)] | None = None
    hours: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    mean: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    seed: Seed = 1


class PartialConfig(_Section, tag_field="kind", tag="partial", frozen=True):
    """Some labels never come: a share of them does, or those of some recipients."""

    share: Share | None = None
    recipients: Annotated[tuple[Name, ...], Meta(min_length=1)] | None = None
    seed: Seed = 1


class OnErrorConfig(_Section, tag_field="kind", tag="on_error", frozen=True):
    """Errors only."""


class MarginConfig(_Section, tag_field="kind", tag="margin", frozen=True):
    """Errors, and what was right by less than so many log-odds."""

    log_odds: Annotated[float, Meta(ge=0, le=1e9)] = 3.0


class ActiveConfig(_Section, tag_field="kind", tag="active", frozen=True):
    """A share of the labels, asked for by the learner."""

    budget: Share = 0.1


class NoisyConfig(_Section, tag_field="kind", tag="noisy", frozen=True):
    """A share of the labels is wrong; of all classes, or of each that is named."""

    share: Share | dict[str, Share] = 0.1
    seed: Seed = 1


RegimeConfig = (
    ImmediateConfig
    | DelayedConfig
    | PartialConfig
    | OnErrorConfig
    | MarginConfig
    | ActiveConfig
    | NoisyConfig
)


class EvaluateConfig(_Section, frozen=True):
    """Which figures."""

    positive: str | None = None
    window: Length = 1000
    fading: Annotated[float, Meta(gt=0, lt=1)] = 0.999
    every: Natural = 100
    intervals: bool = True


class OutputConfig(_Section, frozen=True):
    """Where results go."""

    folder: Name | None = None
    model: Name | None = None


class Config(_Section, frozen=True):
    """A whole replay."""

    corpus: CorpusConfig = CorpusConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelConfig = ClassifierConfig()
    feedback: RegimeConfig | tuple[RegimeConfig, ...] = ImmediateConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    output: OutputConfig = OutputConfig()
    sweep: dict[str, tuple[Any, ...]] | tuple[dict[str, Any], ...] = {}
    jobs: Annotated[int, Meta(ge=1, le=256)] = 1


def by_kind(union: Any) -> dict[str, type[Struct]]:
    """The sections that a key can hold, by their `kind`."""
    return {made.__struct_config__.tag: made for made in get_args(union)}


MODELS = by_kind(ModelConfig)
REGIMES = by_kind(RegimeConfig)
