"""Complement Naive Bayes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from streamnb import _core
from streamnb.counts.protocol import Counts, Floats
from streamnb.naive_bayes.counting import CountingNB, CountingParameters
from streamnb.parameters import ClassPrior, Prior, parameter, parameter_class


def complement_weights(cells: Floats, counts: Counts, alpha: float) -> Floats:
    """Return the term that one occurrence of a feature adds to each class, given counts (n, K)."""
    if not counts.features:
        return np.zeros_like(cells)
    totals = counts.totals
    total = math.fsum(totals)
    smoothing = alpha * counts.features
    # Rounding of fractions can make a complement slightly negative.
    denominators = [_core.log(max(total - class_total, 0.0) + smoothing) for class_total in totals]
    others = cells.sum(axis=1, keepdims=True) - cells
    return np.array(denominators) - _core.log_cells(others, alpha)


@parameter_class()
class ComplementParameters(CountingParameters):
    """Parameters of `ComplementNB`."""

    prior: Prior = parameter(
        ClassPrior(("none", "learned", "uniform")),
        "formula",
        'Class prior: "none", "learned" (proportional to the weight learned), "uniform", or a '
        "dict of labels to shares, which need not sum to 1.",
        default="none",
    )
    foreign_names: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("fit_prior", "class_prior"),
        "scikit-learn ignores it if there are two classes or more; leave it out, or use prior=",
    )


@parameter_class()
class ComplementNB(ComplementParameters, CountingNB):
    r"""Complement Naive Bayes: scores a class by the counts of all other classes.

    The count of feature w in class c is n_cw, and T_w is the sum of n_cw over all classes. N_c is
    the sum of all counts of c, T is the sum of N_c over all classes, and V the number of features.
    The score of message x is

        - sum over w of x_w [log(T_w - n_cw + alpha) - log(T - N_c + alpha V)]

    All other classes together have more counts than a small class, so the estimates for small
    classes are better. By default there is no prior. The scores are not log-likelihoods, so use the
    probabilities for ranking only. With two classes, the model is the multinomial one without its
    prior.

    Attributes
    ----------
    counts : MemoryCounts
        All counts.

    References
    ----------
    Rennie, J. D. M., Shih, L., Teevan, J. and Karger, D. R. (2003). Tackling the poor assumptions
    of naive Bayes text classifiers. ICML.

    Examples
    --------
    >>> from streamnb import ComplementNB
    >>> model = ComplementNB()
    >>> model.learn_one({"goal": 3, "team": 2}, "sport")
    >>> model.learn_one({"vote": 2, "party": 3}, "politics")
    >>> model.learn_one({"team": 1, "vote": 1, "share": 3}, "business")
    >>> model.predict_one({"team": 1, "goal": 1})
    'sport'
    """

    def _more_tags(self) -> set[str]:
        return {"positive input"}

    def _feature_weights(self, cells: Floats, factor: float = 1.0) -> Floats:
        return complement_weights(cells, self.counts, self._smoothing(factor))
