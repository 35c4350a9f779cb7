"""Naive Bayes models of texts: counts, and formulas that use them."""

from streamnb.naive_bayes.bernoulli import BernoulliNB
from streamnb.naive_bayes.contexts import ContextNB
from streamnb.naive_bayes.discriminative import DiscriminativeMultinomialNB
from streamnb.naive_bayes.multinomial import ComplementNB, MultinomialNB
from streamnb.naive_bayes.views import ViewsNB
from streamnb.naive_bayes.window import WindowNB

__all__ = [
    "BernoulliNB",
    "ComplementNB",
    "ContextNB",
    "DiscriminativeMultinomialNB",
    "MultinomialNB",
    "ViewsNB",
    "WindowNB",
]
