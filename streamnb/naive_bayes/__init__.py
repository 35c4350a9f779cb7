"""Naive Bayes models: counts that are learned, and formulas over them worked out when asked."""

from streamnb.naive_bayes.bernoulli import BernoulliNB
from streamnb.naive_bayes.complement import ComplementNB
from streamnb.naive_bayes.multinomial import MultinomialNB
from streamnb.naive_bayes.storage import load

__all__ = ["BernoulliNB", "ComplementNB", "MultinomialNB", "load"]
