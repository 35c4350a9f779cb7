"""Models of tables: rows of named values, learned by adding to a few sums."""

from streamnb.tables.aode import AODE
from streamnb.tables.base import TabularNB
from streamnb.tables.categorical import CategoricalNB
from streamnb.tables.discriminant import GaussianDiscriminantAnalysis
from streamnb.tables.gaussian import GaussianNB
from streamnb.tables.lazy import LazyBayesianRules
from streamnb.tables.mixed import MixedNB

# The models of tables that a configuration can name.
TABULAR: dict[str, type[TabularNB]] = {
    "gaussian": GaussianNB,
    "categorical": CategoricalNB,
    "mixed": MixedNB,
    "discriminant": GaussianDiscriminantAnalysis,
    "aode": AODE,
    "lazy": LazyBayesianRules,
}

__all__ = [
    "AODE",
    "TABULAR",
    "CategoricalNB",
    "GaussianDiscriminantAnalysis",
    "GaussianNB",
    "LazyBayesianRules",
    "MixedNB",
]
