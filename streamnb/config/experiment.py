"""What the configuration of an experiment may say: a table, models, and how it is split."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from streamnb.config.build import converted
from streamnb.config.schema import (
    BernoulliConfig,
    ComplementConfig,
    MultinomialConfig,
    Name,
    Positive,
    Seed,
    Shares,
    by_kind,
)

__all__ = [
    "BundledConfig",
    "CsvConfig",
    "ExperimentConfig",
    "IdxConfig",
    "LearnedModel",
    "NoSplitsConfig",
    "PrequentialConfig",
    "ScikitConfig",
    "SplitsConfig",
    "TestShares",
    "build_experiment",
]

Prior = Literal["learned", "uniform"] | Shares
Smoothing = Annotated[float, Meta(ge=0, le=1e100)]
Names = tuple[Name, ...]


class _Section(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A part of the configuration: unknown keys are errors."""


class _Data(_Section, frozen=True):
    """What is done to any table once it is read."""

    classes: Annotated[tuple[Name, ...], Meta(min_length=2)] | None = None
    scale: Literal["none", "min-max"] = "none"
    bins: Annotated[int, Meta(ge=2, le=1000)] | None = None


class CsvConfig(_Data, tag_field="kind", tag="csv", frozen=True, kw_only=True):
    """A CSV file with a header; transposed, each column but the first is an example."""

    path: Name
    label: Name | None = None
    columns: Names | None = None
    text: Names = ()
    transposed: bool = False


class IdxConfig(_Data, tag_field="kind", tag="idx", frozen=True, kw_only=True):
    """Images in the format of MNIST, compressed or not; several pairs of files are put together."""

    images: Annotated[Names, Meta(min_length=1)]
    labels: Annotated[Names, Meta(min_length=1)]


class BundledConfig(_Data, tag_field="kind", tag="bundled", frozen=True, kw_only=True):
    """Data that scikit-learn brings along."""

    name: Literal["digits", "iris", "wine", "breast_cancer"] = "digits"


class GaussianConfig(_Section, tag_field="kind", tag="gaussian", frozen=True):
    """Parameters of `GaussianNB`."""

    prior: Prior = "learned"
    ddof: Literal[0, 1] = 0
    var_smoothing: Smoothing = 1e-9
    epsilon: Smoothing = 0.0


class CategoricalConfig(_Section, tag_field="kind", tag="categorical", frozen=True):
    """Parameters of `CategoricalNB`."""

    alpha: Smoothing = 1.0
    prior: Prior = "learned"
    unseen: Literal["ignore", "smooth"] = "ignore"


class MixedConfig(_Section, tag_field="kind", tag="mixed", frozen=True):
    """Parameters of `MixedNB`."""

    numeric: Names | None = None
    categorical: Names | None = None
    alpha: Smoothing = 1.0
    unseen: Literal["ignore", "smooth"] = "ignore"
    ddof: Literal[0, 1] = 0
    var_smoothing: Smoothing = 1e-9
    epsilon: Smoothing = 0.0
    prior: Prior = "learned"


class DiscriminantConfig(_Section, tag_field="kind", tag="discriminant", frozen=True):
    """Parameters of `GaussianDiscriminantAnalysis`."""

    covariance: Literal["shared", "own"] = "shared"
    shrinkage: Annotated[float, Meta(ge=0, le=1)] = 0.0
    ddof: Literal[0, 1] = 0
    var_smoothing: Smoothing = 1e-9
    prior: Prior = "learned"


class AodeConfig(_Section, tag_field="kind", tag="aode", frozen=True):
    """Parameters of `AODE`."""

    parents: Annotated[int, Meta(ge=1)] | Names | None = None
    least: Smoothing = 1.0
    sparse: bool = False
    back_off: Positive = 200.0
    alpha: Smoothing = 1.0
    prior: Prior = "learned"


class LazyConfig(_Section, tag_field="kind", tag="lazy", frozen=True):
    """Parameters of `LazyBayesianRules`."""

    size: Annotated[int, Meta(ge=2, le=10**6)] = 1000
    alpha: Positive = 1.0
    level: Annotated[float, Meta(gt=0, lt=1)] = 0.05


class ScikitConfig(_Section, tag_field="kind", tag="scikit-learn", frozen=True, kw_only=True):
    """An estimator of scikit-learn, to compare with."""

    estimator: Literal[
        "GaussianNB",
        "BernoulliNB",
        "MultinomialNB",
        "LinearDiscriminantAnalysis",
        "QuadraticDiscriminantAnalysis",
    ]
    parameters: dict[str, float | int | str | bool | None] = {}


LearnedModel = (
    GaussianConfig
    | CategoricalConfig
    | MixedConfig
    | DiscriminantConfig
    | AodeConfig
    | LazyConfig
    | MultinomialConfig
    | BernoulliConfig
    | ComplementConfig
    | ScikitConfig
)

Share = Annotated[float, Meta(gt=0, lt=1)]
Trials = Annotated[int, Meta(ge=1, le=10**6)]


class TestShares(_Section, frozen=True):
    """Shares at equal distances, both ends included."""

    __test__ = False  # no test of pytest's, whatever its name

    first: Share
    last: Share
    steps: Annotated[int, Meta(ge=2, le=10**4)]


class _Splits(_Section, frozen=True):
    """Repeated splits into a part to learn and a part to test."""

    test: Share | Annotated[tuple[Share, ...], Meta(min_length=1)] | TestShares = 0.3
    trials: Trials | Annotated[tuple[Trials, ...], Meta(min_length=1)] = 100
    seed: Seed = 1


class RandomConfig(_Splits, tag_field="kind", tag="random", frozen=True):
    """Any rows may be tested."""


class StratifiedConfig(_Splits, tag_field="kind", tag="stratified", frozen=True):
    """Of each class the same share is tested."""


class PrequentialConfig(_Section, tag_field="kind", tag="prequential", frozen=True):
    """Each row is classified, then learned; in a random order every time."""

    trials: Trials = 10
    seed: Seed = 1


class NoSplitsConfig(_Section, tag_field="kind", tag="none", frozen=True):
    """Nothing is tested: all rows are learned, and what is asked is answered."""


SplitsConfig = RandomConfig | StratifiedConfig


class ExperimentConfig(_Section, frozen=True, kw_only=True):
    """A whole experiment."""

    data: CsvConfig | IdxConfig | BundledConfig
    models: Annotated[dict[Name, LearnedModel], Meta(min_length=1)] = msgspec.field(
        default_factory=lambda: {"gaussian": GaussianConfig()}
    )
    splits: RandomConfig | StratifiedConfig | PrequentialConfig | NoSplitsConfig = RandomConfig()
    ask: tuple[dict[Name, float | int | str | bool | None], ...] = ()


_KINDS = {
    "data": by_kind(CsvConfig | IdxConfig | BundledConfig),
    "models": by_kind(LearnedModel),
    "splits": by_kind(RandomConfig | StratifiedConfig | PrequentialConfig | NoSplitsConfig),
}


def build_experiment(data: dict[str, Any], source: str = "configuration") -> ExperimentConfig:
    """Make the configuration of plain data.

    Raises
    ------
    ConfigError
        With the key's path, what was expected, and the nearest known key.

    Examples
    --------
    >>> build_experiment({"data": {"kind": "bundled", "name": "digits"}}).splits.trials
    100
    """
    return converted(data, ExperimentConfig, _KINDS, source)
