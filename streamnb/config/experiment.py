"""What the configuration of an experiment may say: a table, models, and how it is split."""

from __future__ import annotations

from typing import Any

from streamnb.config.schema import NAME, SEED
from streamnb.config.sections import (
    Reader,
    Section,
    converted,
    key,
    list_of,
    mapping_of,
    section,
    section_of,
)
from streamnb.naive_bayes import COUNTING
from streamnb.parameters import MIN_POSITIVE, Boolean, Choice, Constraint, Integer, Number, Text
from streamnb.tables import (
    AODE,
    CategoricalNB,
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LazyBayesianRules,
    MixedNB,
)


def _is_cell(value: Any) -> bool:
    return value is None or isinstance(value, (float, int, str))


CELL = Constraint(_is_cell, "a number, text, a truth value or null")


class _Data(Section):
    """What is done to any table once it is read."""

    classes: tuple[str, ...] | None = key(list_of(NAME, 2, none=True), default=None)
    scale: str = key(Choice(("none", "min-max")), default="none")
    bins: int | None = key(Integer(2, 1000, none=True), default=None)


class CsvConfig(_Data, kind="csv"):
    """A CSV file with a header; transposed, each column but the first is an example."""

    path: str = key(NAME)
    label: str | None = key(Text(none=True), default=None)
    columns: tuple[str, ...] | None = key(list_of(NAME, none=True), default=None)
    text: tuple[str, ...] = key(list_of(NAME), default=())
    transposed: bool = key(Boolean(), default=False)


class IdxConfig(_Data, kind="idx"):
    """Images in the format of MNIST, compressed or not; several pairs of files are put together."""

    images: tuple[str, ...] = key(list_of(NAME, 1))
    labels: tuple[str, ...] = key(list_of(NAME, 1))


class BundledConfig(_Data, kind="bundled"):
    """Data that scikit-learn brings along."""

    name: str = key(Choice(("digits", "iris", "wine", "breast_cancer")), default="digits")


_ESTIMATORS = (
    "GaussianNB",
    "BernoulliNB",
    "MultinomialNB",
    "LinearDiscriminantAnalysis",
    "QuadraticDiscriminantAnalysis",
)


class ScikitConfig(Section, kind="scikit-learn"):
    """An estimator of scikit-learn, to compare with."""

    estimator: str = key(Choice(_ESTIMATORS))
    parameters: dict[str, Any] = key(mapping_of(CELL), default={})


TABULAR = {
    "gaussian": GaussianNB,
    "categorical": CategoricalNB,
    "mixed": MixedNB,
    "discriminant": GaussianDiscriminantAnalysis,
    "aode": AODE,
    "lazy": LazyBayesianRules,
}
_tabular = {kind: section_of(made, kind) for kind, made in TABULAR.items()}

SHARE = Number(MIN_POSITIVE, 1, below=True)
TRIALS = Integer(1, 10**6)


class HoldoutFractions(Section):
    """Shares at equal distances, both ends included."""

    __test__ = False  # no test of pytest's, whatever its name

    first: float = key(SHARE)
    last: float = key(SHARE)
    steps: int = key(Integer(2, 10**4))


def _one_or_some(of: Constraint, among: Reader | None = None) -> Reader:
    """Read a value, a list of such values, or, of a mapping, what `among` makes of it."""
    some = list_of(of, 1)

    def read(path: str, plain: Any) -> Any:
        if isinstance(plain, (dict, Section)) and among is not None:
            return among(path, plain)
        return some(path, plain) if isinstance(plain, (list, tuple)) else of.read(path, plain)

    return read


class _Splits(Section):
    """Repeated splits into a part to learn and a part to test."""

    test: float | tuple[float, ...] | HoldoutFractions = key(
        _one_or_some(SHARE, section(HoldoutFractions)), default=0.3
    )
    trials: int | tuple[int, ...] = key(_one_or_some(TRIALS), default=100)
    seed: int = key(SEED, default=1)


class RandomConfig(_Splits, kind="random"):
    """Any rows may be tested."""


class StratifiedConfig(_Splits, kind="stratified"):
    """Of each class the same share is tested."""


class PrequentialConfig(Section, kind="prequential"):
    """Each row is classified, then learned; in a random order every time."""

    trials: int = key(TRIALS, default=10)
    seed: int = key(SEED, default=1)


class NoSplitsConfig(Section, kind="none"):
    """Nothing is tested: all rows are learned, and what is asked is answered."""


_data = section(CsvConfig, IdxConfig, BundledConfig)
_model = section(
    *_tabular.values(),
    *(section_of(made, kind) for kind, made in COUNTING.items()),
    ScikitConfig,
)
_splits = section(
    RandomConfig, StratifiedConfig, PrequentialConfig, NoSplitsConfig, default="random"
)


class ExperimentConfig(Section):
    """A whole experiment."""

    data: CsvConfig | IdxConfig | BundledConfig = key(_data)
    models: dict[str, Any] = key(
        mapping_of(_model, 1), default={"gaussian": _tabular["gaussian"]()}
    )
    splits: Any = key(_splits, default=RandomConfig())
    ask: tuple[dict[str, Any], ...] = key(list_of(mapping_of(CELL)), default=())


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
