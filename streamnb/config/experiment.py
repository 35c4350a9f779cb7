"""The configuration of an experiment: a table, models, and how rows are split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamnb.config.schema import DELIMITER, NAME, SEED
from streamnb.config.sections import (
    Converter,
    ParameterSection,
    Section,
    build_section,
    convert_name,
    key,
    list_type,
    mapping_type,
    section_type,
)
from streamnb.constraints import MIN_POSITIVE, Boolean, Choice, Constraint, Integer, Number
from streamnb.naive_bayes import (
    BernoulliNB,
    ComplementNB,
    DiscriminativeMultinomialNB,
    MultinomialNB,
)
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


def _one_or_list(item_type: Constraint, mapping: Converter | None = None) -> Converter:
    """Return the converter of input that is a value, a list of values, or a mapping."""
    convert_list = list_type(item_type, 1)

    def convert(path: str, data: Any) -> Any:
        if isinstance(data, (Mapping, Section)) and mapping is not None:
            return mapping(path, data)
        if isinstance(data, (list, tuple)):
            return convert_list(path, data)
        return item_type.read(path, data)

    return convert


class _DataSection(Section):
    """A table, and its preparation."""

    classes: tuple[str, ...] | None = key(list_type(convert_name, 2), default=None)
    scale: str = key(Choice(("none", "min-max")), default="none")
    bins: int | None = key(Integer(2, 1000), default=None)


def _convert_missing(path: str, value: Any) -> str:
    """Return the spelling of a missing value, which can be the empty text."""
    return value if value == "" else convert_name(path, value)


class TableConfig(_DataSection, kind="table"):
    """A tabular file, or several with the same header. If transposed, each column is an example."""

    path: str | tuple[str, ...] = key(_one_or_list(NAME))
    label: str | None = key(convert_name, default=None)
    columns: tuple[str, ...] | None = key(list_type(convert_name), default=None)
    text: tuple[str, ...] = key(list_type(convert_name), default=())
    transposed: bool = key(Boolean(), default=False)
    delimiter: str | None = key(DELIMITER, default=None)
    header: bool | None = key(Boolean(), default=None)
    decimal: str | None = key(Choice((".", ",")), default=None)
    missing: tuple[str, ...] | None = key(list_type(_convert_missing), default=None)


class IdxConfig(_DataSection, kind="idx"):
    """Images in the format of MNIST, compressed or not; several files are concatenated."""

    images: tuple[str, ...] = key(list_type(NAME, 1))
    labels: tuple[str, ...] = key(list_type(NAME, 1))


class BundledConfig(_DataSection, kind="bundled"):
    """A data set that scikit-learn contains."""

    name: str = key(Choice(("digits", "iris", "wine", "breast_cancer")), default="digits")


class GaussianConfig(ParameterSection, kind="gaussian", parameters=GaussianNB):
    """Parameters of `GaussianNB`."""


class CategoricalConfig(ParameterSection, kind="categorical", parameters=CategoricalNB):
    """Parameters of `CategoricalNB`."""


class MixedConfig(ParameterSection, kind="mixed", parameters=MixedNB):
    """Parameters of `MixedNB`."""


class DiscriminantConfig(
    ParameterSection, kind="discriminant", parameters=GaussianDiscriminantAnalysis
):
    """Parameters of `GaussianDiscriminantAnalysis`."""


class AodeConfig(ParameterSection, kind="aode", parameters=AODE):
    """Parameters of `AODE`."""


class LazyConfig(ParameterSection, kind="lazy", parameters=LazyBayesianRules):
    """Parameters of `LazyBayesianRules`."""


class MultinomialConfig(ParameterSection, kind="multinomial", parameters=MultinomialNB):
    """Parameters of `MultinomialNB`."""


class BernoulliConfig(ParameterSection, kind="bernoulli", parameters=BernoulliNB):
    """Parameters of `BernoulliNB`."""


class ComplementConfig(ParameterSection, kind="complement", parameters=ComplementNB):
    """Parameters of `ComplementNB`."""


class DiscriminativeConfig(
    ParameterSection, kind="discriminative", parameters=DiscriminativeMultinomialNB
):
    """Parameters of `DiscriminativeMultinomialNB`."""


MODEL_SECTIONS: tuple[type[ParameterSection], ...] = (
    GaussianConfig, CategoricalConfig, MixedConfig, DiscriminantConfig, AodeConfig, LazyConfig,
    MultinomialConfig, BernoulliConfig, ComplementConfig, DiscriminativeConfig,
)  # fmt: skip


class ScikitConfig(Section, kind="scikit-learn"):
    """An estimator of scikit-learn, for comparison."""

    estimator: str = key(
        Choice(
            (
                "GaussianNB",
                "BernoulliNB",
                "MultinomialNB",
                "LinearDiscriminantAnalysis",
                "QuadraticDiscriminantAnalysis",
            )
        )
    )
    parameters: dict[str, Any] = key(mapping_type(CELL), default={})


FRACTION = Number(MIN_POSITIVE, 1, below=True)
TRIALS = Integer(1, 10**6)


class HoldoutFractions(Section):
    """Fractions of the rows to test, equally spaced from the first to the last."""

    first: float = key(FRACTION)
    last: float = key(FRACTION)
    steps: int = key(Integer(2, 10**4))


class _RepeatedSplits(Section):
    """Repeated splits into rows to learn and rows to test."""

    test: float | tuple[float, ...] | HoldoutFractions = key(
        _one_or_list(FRACTION, section_type(HoldoutFractions)), default=0.3
    )
    trials: int | tuple[int, ...] = key(_one_or_list(TRIALS), default=100)
    seed: int = key(SEED, default=1)


class RandomConfig(_RepeatedSplits, kind="random"):
    """Rows to test are drawn at random."""


class StratifiedConfig(_RepeatedSplits, kind="stratified"):
    """The same fraction of each class is tested."""


class PrequentialConfig(Section, kind="prequential"):
    """Each row is classified, then learned; each trial has its own random order."""

    trials: int = key(TRIALS, default=10)
    seed: int = key(SEED, default=1)


class NoSplitsConfig(Section, kind="none"):
    """No row is tested; models learn all rows and answer the queries."""


# The sections whose keys are suggested.
SETTINGS: dict[str, type[Section]] = {"splits": RandomConfig, "data": TableConfig}


class ExperimentConfig(Section):
    """The configuration of an experiment."""

    data: TableConfig | IdxConfig | BundledConfig = key(
        section_type(TableConfig, IdxConfig, BundledConfig)
    )
    models: dict[str, Any] = key(
        mapping_type(section_type(*MODEL_SECTIONS, ScikitConfig), 1),
        default={"gaussian": GaussianConfig()},
    )
    splits: Any = key(
        section_type(
            RandomConfig, StratifiedConfig, PrequentialConfig, NoSplitsConfig, default="random"
        ),
        default=RandomConfig(),
    )
    queries: tuple[dict[str, Any], ...] = key(list_type(mapping_type(CELL)), default=())


def build_experiment(data: dict[str, Any], source: str = "configuration") -> ExperimentConfig:
    """Return the configuration of an experiment for plain data.

    Parameters
    ----------
    data
        Sections and keys, as read from YAML.
    source
        The name of the file, for errors.

    Raises
    ------
    ConfigError
        With the path of the key, what was expected, and the nearest known key.

    Examples
    --------
    >>> build_experiment({"data": {"kind": "bundled", "name": "digits"}}).splits.trials
    100
    """
    return build_section(data, ExperimentConfig, source)
