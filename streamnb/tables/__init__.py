"""Models of tables, whose rows have named values. A model is a few sums."""

from streamnb.tables.aode import AODE
from streamnb.tables.discriminant import GaussianDiscriminantAnalysis
from streamnb.tables.lazy import LazyBayesianRules
from streamnb.tables.naive_bayes import CategoricalNB, GaussianNB, MixedNB

__all__ = [
    "AODE",
    "CategoricalNB",
    "GaussianDiscriminantAnalysis",
    "GaussianNB",
    "LazyBayesianRules",
    "MixedNB",
]
