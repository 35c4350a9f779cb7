"""Naive Bayes models: counts that are learned, and formulas over them worked out when asked."""

from streamnb.naive_bayes.bernoulli import BernoulliNB
from streamnb.naive_bayes.complement import ComplementNB
from streamnb.naive_bayes.discriminative import DiscriminativeMultinomialNB
from streamnb.naive_bayes.multinomial import MultinomialNB
from streamnb.naive_bayes.storage import load
from streamnb.naive_bayes.tabular.aode import AODE
from streamnb.naive_bayes.tabular.categorical import CategoricalNB
from streamnb.naive_bayes.tabular.discriminant import GaussianDiscriminantAnalysis
from streamnb.naive_bayes.tabular.gaussian import GaussianNB
from streamnb.naive_bayes.tabular.lazy import LazyBayesianRules
from streamnb.naive_bayes.tabular.mixed import MixedNB
from streamnb.naive_bayes.views import ViewsNB
from streamnb.naive_bayes.window import WindowNB

__all__ = [
    "AODE",
    "BernoulliNB",
    "CategoricalNB",
    "ComplementNB",
    "DiscriminativeMultinomialNB",
    "GaussianDiscriminantAnalysis",
    "GaussianNB",
    "LazyBayesianRules",
    "MixedNB",
    "MultinomialNB",
    "ViewsNB",
    "WindowNB",
    "load",
]
