"""Bernoulli Naive Bayes."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from streamnb import _core
from streamnb.constraints import Number
from streamnb.counts.protocol import Counts, Floats
from streamnb.features.token_counts import TokenCounts
from streamnb.naive_bayes.counting import CountingNB
from streamnb.naive_bayes.counting_parameters import CountingParameters
from streamnb.parameters import parameter, parameter_class


@parameter_class()
class BernoulliParameters(CountingParameters):
    """Parameters of `BernoulliNB`.

    Parameters
    ----------
    binarize
        A feature is present if its value is above this. None counts as 0.
    """

    binarize: float | None = parameter(Number(none=True), "counts", default=0.0)


@parameter_class()
class BernoulliNB(BernoulliParameters, CountingNB):
    r"""Naive Bayes over the presence and absence of features.

    The messages of class c have the weight D_c. Its messages with feature w have the weight n_cw.
    Then p_cw = (n_cw + alpha) / (D_c + 2 alpha). The joint log-likelihood of message x is

        log P(c) + sum over w in x of log p_cw + sum over w not in x of log(1 - p_cw)

    The sum over absent features does not visit each of them. Features with equal n_cw have equal
    terms, and the table stores the number of features for each n_cw. A hundred thousand features
    have only a few hundred different n_cw. (With fractional weights there are more, so predictions
    are slower.)

    A present feature that was never learned is left out, as in river. With `unseen="smooth"`, its
    probability is alpha / (D_c + 2 alpha).

    Attributes
    ----------
    counts : MemoryCounts
        All counts.

    References
    ----------
    McCallum, A. and Nigam, K. (1998). A comparison of event models for naive Bayes text
    classification. AAAI-98 workshop on learning for text categorization.

    Examples
    --------
    The weather table of Witten and Frank's "Data Mining"; each value of an attribute is a feature.
    The book multiplies the probabilities of the present features only: .0053 and .0206. The
    Bernoulli model also uses the absent features. Both predict "no".

    >>> from math import exp, prod
    >>> from streamnb import BernoulliNB
    >>> days = '''overcast hot high false yes, overcast cool normal true yes,
    ... overcast mild high true yes, overcast hot normal false yes, rainy mild high false yes,
    ... rainy cool normal false yes, rainy cool normal true no, rainy mild normal false yes,
    ... rainy mild high true no, sunny hot high false no, sunny hot high true no,
    ... sunny mild high false no, sunny cool normal false yes, sunny mild normal true yes'''
    >>> model = BernoulliNB(alpha=1e-9)
    >>> for day in days.split(","):
    ...     *values, play = day.split()
    ...     model.learn_one(dict.fromkeys(values, 1), play)
    >>> today = ["sunny", "cool", "high", "true"]
    >>> counts = dict(zip(model.counts.labels, model.counts.weights))
    >>> shares = {value: model.feature_counts(value) for value in today}
    >>> for play in ("yes", "no"):
    ...     share = [shares[value][play] / counts[play] for value in today]
    ...     print(play, f"{prod(share) * counts[play] / 14:.4f}")
    yes 0.0053
    no 0.0206
    >>> model.predict_one(dict.fromkeys(today, 1))
    'no'
    """

    track_values = True
    unpickled_attributes: ClassVar[tuple[str, ...]] = (
        *CountingNB.unpickled_attributes,
        "_absent_cache",
    )
    _absent_cache: tuple[Counts, tuple[Any, ...], list[float]] | None = None

    @property
    def _threshold(self) -> float:
        return self.binarize or 0.0

    def as_tokens(self, x: Any) -> TokenCounts:
        """Return a message with 1 for each value above the threshold, without other features."""
        if not isinstance(x, TokenCounts):
            return TokenCounts.from_dict(x, self._threshold, self.keep_names)
        present = x.counts > self._threshold
        if not present.all():
            x = x.select(present)
        return TokenCounts.unchecked(x.fingerprints, np.ones(len(x)), x.names, x.ends)

    def _feature_weights(self, cells: Floats, factor: float = 1.0) -> Floats:
        alpha = self._smoothing(factor)
        absent = np.array(self.counts.weights) - cells
        return _core.log_cells(cells, alpha) - _core.log_cells(absent, alpha)

    def _unseen_weights(self, factor: float = 1.0) -> list[float]:
        # The sum over absent features does not include unseen ones, so log p needs no correction.
        alpha = self._smoothing(factor)
        return [_core.log(alpha) - _core.log(weight + 2 * alpha) for weight in self.counts.weights]

    def _empty_log_likelihoods(self, factor: float = 1.0) -> list[float]:
        """Return the log-likelihood of a message without features for each class, (K,).

        The result is cached until something is learned or a parameter changes.
        """
        counts, cached = self.counts, self._absent_cache
        key = (counts.version, self._params_version, factor)
        if cached is None or cached[0] is not counts or cached[1] != key:
            cached = (counts, key, self._sum_absent(factor))
            object.__setattr__(self, "_absent_cache", cached)
        return cached[2]

    def _sum_absent(self, factor: float) -> list[float]:
        values, features = self.counts.count_histogram()
        alpha = self._smoothing(factor)
        base = []
        for k, weight in enumerate(self.counts.weights):
            occurs = features[:, k] > 0
            used = features[occurs, k]
            # Rounding of fractions can make an absence slightly negative.
            absences = np.maximum(weight - values[occurs], 0.0)
            logs = _core.log_cells((absences + alpha) / (weight + 2 * alpha))
            # With fsum, the result does not depend on the order of the values in the table.
            terms = (used * logs).tolist()
            unused = self.counts.features - float(used.sum())
            terms.append(unused * _core.log((weight + alpha) / (weight + 2 * alpha)))
            base.append(math.fsum(terms))
        return base
