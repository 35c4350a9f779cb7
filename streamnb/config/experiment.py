"""What the configuration of an experiment may say: a table, models, and how it is split."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from streamnb.config.conversion import Section, converted, one_of_kinds, section_of
from streamnb.config.schema import Name, PathName, Seed, _as_tuple, section_of_counting
from streamnb.tables import (
    AODE,
    CategoricalNB,
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LazyBayesianRules,
    MixedNB,
)

Names = Annotated[tuple[Name, ...], BeforeValidator(_as_tuple)]
SomeNames = Annotated[tuple[Name, ...], BeforeValidator(_as_tuple), Field(min_length=1)]


class _Data(Section):
    """What is done to any table once it is read."""

    classes: Annotated[tuple[Name, ...], BeforeValidator(_as_tuple), Field(min_length=2)] | None = (
        None
    )
    scale: Literal["none", "min-max"] = "none"
    bins: Annotated[int, Field(ge=2, le=1000)] | None = None


class CsvConfig(_Data):
    """A CSV file with a header; transposed, each column but the first is an example."""

    kind: Literal["csv"] = "csv"
    path: PathName
    label: Name | None = None
    columns: Names | None = None
    text: Names = ()
    transposed: bool = False


class IdxConfig(_Data):
    """Images in the format of MNIST, compressed or not; several pairs of files are put together."""

    kind: Literal["idx"] = "idx"
    images: SomeNames
    labels: SomeNames


class BundledConfig(_Data):
    """Data that scikit-learn brings along."""

    kind: Literal["bundled"] = "bundled"
    name: Literal["digits", "iris", "wine", "breast_cancer"] = "digits"


class ScikitConfig(Section):
    """An estimator of scikit-learn, to compare with."""

    kind: Literal["scikit-learn"] = "scikit-learn"
    estimator: Literal[
        "GaussianNB",
        "BernoulliNB",
        "MultinomialNB",
        "LinearDiscriminantAnalysis",
        "QuadraticDiscriminantAnalysis",
    ]
    parameters: dict[str, float | int | str | bool | None] = Field(default_factory=dict)


TABULAR = {
    "gaussian": GaussianNB,
    "categorical": CategoricalNB,
    "mixed": MixedNB,
    "discriminant": GaussianDiscriminantAnalysis,
    "aode": AODE,
    "lazy": LazyBayesianRules,
}
_tabular = {kind: section_of(made, kind) for kind, made in TABULAR.items()}

Share = Annotated[float, Field(gt=0, lt=1)]
Trials = Annotated[int, Field(ge=1, le=10**6)]


class TestShares(Section):
    """Shares at equal distances, both ends included."""

    __test__ = False  # no test of pytest's, whatever its name

    first: Share
    last: Share
    steps: Annotated[int, Field(ge=2, le=10**4)]


class _Splits(Section):
    """Repeated splits into a part to learn and a part to test."""

    test: (
        Share
        | Annotated[tuple[Share, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
        | TestShares
    ) = 0.3
    trials: (
        Trials | Annotated[tuple[Trials, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
    ) = 100
    seed: Seed = 1


class RandomConfig(_Splits):
    """Any rows may be tested."""

    kind: Literal["random"] = "random"


class StratifiedConfig(_Splits):
    """Of each class the same share is tested."""

    kind: Literal["stratified"] = "stratified"


class PrequentialConfig(Section):
    """Each row is classified, then learned; in a random order every time."""

    kind: Literal["prequential"] = "prequential"
    trials: Trials = 10
    seed: Seed = 1


class NoSplitsConfig(Section):
    """Nothing is tested: all rows are learned, and what is asked is answered."""

    kind: Literal["none"] = "none"


if TYPE_CHECKING:  # made of the models' tables of parameters, of which type checkers know nothing
    DataConfig = Any
    LearnedModel = Any
    SplitsConfig = Any
else:
    DataConfig = one_of_kinds(CsvConfig, IdxConfig, BundledConfig)
    LearnedModel = one_of_kinds(
        *_tabular.values(),
        *map(section_of_counting, ("multinomial", "bernoulli", "complement")),
        ScikitConfig,
    )
    SplitsConfig = one_of_kinds(
        RandomConfig, StratifiedConfig, PrequentialConfig, NoSplitsConfig, default="random"
    )


class ExperimentConfig(Section):
    """A whole experiment."""

    data: DataConfig
    models: Annotated[dict[Name, LearnedModel], Field(min_length=1)] = Field(
        default_factory=lambda: {"gaussian": _tabular["gaussian"]()}
    )
    splits: SplitsConfig = RandomConfig()
    ask: Annotated[
        tuple[dict[Name, float | int | str | bool | None], ...], BeforeValidator(_as_tuple)
    ] = ()


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
    return converted(data, ExperimentConfig, source)
