"""Gaussian Naive Bayes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from streamnb._core.exact_sums import gaussian_rows, normal_parameters
from streamnb.counts.protocol import Floats, Label
from streamnb.parameters import parameter_class
from streamnb.tables.base import TabularNB
from streamnb.tables.numeric_sums import Numeric, NumericSums
from streamnb.tables.parameters import NormalParameters, PriorParameter


class Normal(NamedTuple):
    """Weight, mean and variance of one feature in one class."""

    weight: float
    mean: float
    variance: float


@parameter_class()
class GaussianNB(NormalParameters, PriorParameter, TabularNB):
    r"""Naive Bayes over numeric features, normally distributed in each class.

        log P(c) + sum over j of -log(2 pi v_cj) / 2 - (x_j - m_cj)^2 / (2 v_cj)

    The model stores the sums of weights, values and squares for each class and feature, without
    rounding. So means and variances are accurate far from zero, and unlearning is exact. Two
    merged models equal one that learned both streams.

    An example of weight w counts as w examples, in variances, too.

    All parameters can be set after training. Missing values (not in the dict, None or NaN) are
    left out, in training and in prediction.

    References
    ----------
    John, G. H. and Langley, P. (1995). Estimating continuous distributions in Bayesian classifiers.
    UAI.

    Examples
    --------
    Who is 6 feet tall, weighs 130 pounds and has shoe size 8? (Eight people, with unbiased
    variances; the example of the Brilliant wiki, which has 6.120e-9 and 5.378e-4.)

    >>> from math import exp
    >>> from streamnb import GaussianNB
    >>> model = GaussianNB(ddof=1, var_smoothing=0)
    >>> male = [(6.0, 180, 12), (5.92, 190, 11), (5.58, 170, 12), (5.92, 165, 10)]
    >>> female = [(5.0, 100, 6), (5.5, 150, 8), (5.42, 130, 7), (5.75, 150, 9)]
    >>> for y, people in [("male", male), ("female", female)]:
    ...     for height, weight, shoe in people:
    ...         model.learn_one({"height": height, "weight": weight, "shoe": shoe}, y)
    >>> known = model.feature_moments("male", "height")
    >>> known.weight, known.mean, round(known.variance, 4)
    (4.0, 5.855, 0.035)
    >>> jll = model.joint_log_likelihood({"height": 6, "weight": 130, "shoe": 8})
    >>> f"{exp(jll['male']):.4g} {exp(jll['female']):.4g}"
    '6.197e-09 0.0005378'
    """

    def _new_statistics(self) -> NumericSums:
        return NumericSums()

    def _evidence(self, rows: Numeric) -> Floats:
        if self._cache is None:
            sums = self.statistics.sums
            self._cache = normal_parameters(sums, self.ddof, self.var_smoothing, self.epsilon)
        return gaussian_rows(self.statistics.aligned(rows), *self._cache)

    def _gains(self, rows: Numeric) -> tuple[list[Hashable], Floats]:
        return rows.names, self.statistics.logs(rows, *self._cache)

    def feature_moments(self, label: Label, feature: Hashable) -> Normal:
        """Return weight, mean and variance (before smoothing) of a feature in a class.

        Raises
        ------
        ValueError
            If the class or the feature was never learned.
        """
        place, j = self._find_indices(self.statistics.features, label, feature)
        weight, mean, squares = self.statistics.sums[place].moments()[:, j].tolist()
        variance = squares / (weight - self.ddof) if weight > self.ddof else 0.0
        return Normal(weight, mean, max(variance, 0.0))
