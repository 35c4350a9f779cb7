"""Complement Naive Bayes."""

from __future__ import annotations

import math

import numpy as np

from streamnb import _core
from streamnb.counts.protocol import Counts, Floats
from streamnb.naive_bayes.counting import CountingNB, CountingParameters
from streamnb.parameters import ClassPrior, Prior, parameter, parameter_class


def complement_weights(cells: Floats, counts: Counts, alpha: float) -> Floats:
    """Return what one occurrence of each feature adds to each class, given its counts (n, K)."""
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
        '"none", "learned", "uniform", or a dict of labels to shares, whatever they add up to.',
        default="none",
    )


@parameter_class()
class ComplementNB(ComplementParameters, CountingNB):
    r"""Naive Bayes over how badly a message fits all the other classes.

    With n_cw the count of feature w in class c, T_w = sum of n_cw over the classes, N_c the sum of
    all counts of c, T their sum and V the number of features, the score of message x is

        - sum over w of x_w [log(T_w - n_cw + alpha) - log(T - N_c + alpha V)]

    The other classes have more counts together than a small class has alone, so small classes are
    estimated better. There is no prior unless one is asked for. The scores are no log-likelihoods
    of the class, so the "probabilities" made of them are only good for ranking. With two classes
    this is the multinomial model without its prior.

    Attributes
    ----------
    counts : MemoryCounts
        Everything that was learned.

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

    def _feature_weights(self, cells: Floats) -> Floats:
        return complement_weights(cells, self.counts, self._smoothing)
