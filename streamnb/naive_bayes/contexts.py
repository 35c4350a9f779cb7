"""Discriminative Naive Bayes over nested byte n-grams, with back-off to shorter contexts."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.constraints import Integer, Number
from streamnb.counts.protocol import Floats, Keys
from streamnb.features.token_counts import TokenCounts
from streamnb.naive_bayes.counting import CountingNB
from streamnb.naive_bayes.discriminative import DiscriminativeMultinomialNB
from streamnb.parameters import parameter, parameter_class


@parameter_class()
class ContextNB(DiscriminativeMultinomialNB):
    r"""Naive Bayes over nested byte n-grams, each given its first bytes, with back-off.

    The features of a message are its grams of n bytes, and their suffixes of n - s, n - 2s, ...
    bytes (`ByteGrams(n=6, step=2)`). With n_g the count of gram g, h the gram without its last s
    bytes and g' the gram without its first s,

        P(g) = (n_g + u P(g')) / (n_h + u),   u = spread sqrt(n_h)

    For the shortest grams, P is (n_g + alpha) / (N + 256^s alpha). So the probability of a gram
    that is rare in a class comes from shorter contexts, as in models that compress text. The
    log-likelihood is the sum of log P over the longest grams. It is divided by s, because each byte
    is in s of them, and by the length normalisation. Counts can be added, subtracted and merged.
    They are learned as in `DiscriminativeMultinomialNB`.

    A feature that is not a gram of `ByteGrams` has no context.

    Parameters
    ----------
    step
        Difference in bytes between the lengths of n-grams; the same as in `ByteGrams`.
    spread
        Weight of the probability of the next shorter n-gram: spread times the square root of the
        count of all n-grams with the same first bytes.

    References
    ----------
    Bratko, A., Cormack, G., Filipic, B., Lynam, T. and Zupan, B. (2006). Spam filtering using
    statistical data compression models. Journal of Machine Learning Research 7. MacKay, D. and
    Peto, L. (1995). A hierarchical Dirichlet language model. Natural Language Engineering 1.

    Examples
    --------
    >>> from streamnb.features.grams import ByteGrams
    >>> from streamnb.naive_bayes.contexts import ContextNB
    >>> grams, model = ByteGrams(n=6, step=2, mail=False), ContextNB()
    >>> model.learn_one(grams.count("free offer"), "spam")
    >>> model.learn_one(grams.count("lunch at noon"), "ham")
    >>> model.predict_one(grams.count("offers"))
    'spam'
    """

    step: int = parameter(Integer(1, 6), "counts", default=2)
    spread: float = parameter(Number(), "training", default=3.0)

    def _check_change(self, name: str, value: Any) -> None:
        super()._check_change(name, value)
        if name == "max_features" and value is not None:
            raise ValueError(
                "max_features: not supported with ngram_step > 0, because an n-gram needs the "
                "counts of its parts; set ngram_step=0"
            )

    def _weights_of(
        self, fingerprints: Keys, factor: float = 1.0
    ) -> tuple[Floats, NDArray[np.uint8] | None]:
        cells, _ = self.counts.get_counts(fingerprints)
        return self._backed_off(fingerprints, cells, factor)

    def _backed_off(
        self, fingerprints: Keys, cells: Floats, factor: float = 1.0
    ) -> tuple[Floats, NDArray[np.uint8]]:
        """Return log P of n-grams and their suffixes, and a mask of those that are not suffixes."""
        # u is proportional to the root of a count, so it depends on the scale of decayed counts.
        spread = self.spread * math.sqrt(self.counts.scale)
        return _core.backoff_log_probabilities(
            fingerprints, cells, self.counts.totals, self._smoothing(factor), spread, self.step
        )

    def _all_feature_weights(self) -> Iterator[tuple[Keys, Floats]]:
        # All n-grams are computed at once, because log P of an n-gram depends on others.
        fingerprints, cells = self.counts.items()
        weights, longest = self._backed_off(fingerprints, cells)
        is_longest = longest.astype(bool)
        yield fingerprints[is_longest], weights[is_longest] / self.step

    @property
    def _has_complement(self) -> bool:
        return False  # P of an n-gram is not defined for all other classes together

    def _sums(self, tokens: TokenCounts, factor: float = 1.0) -> tuple[Sequence[float], int]:
        # Log P of an n-gram depends on other n-grams, so the formula for several alphas does not
        # apply.
        return CountingNB._sums(self, tokens, factor)

    def system_log_likelihoods(self, tokens: TokenCounts, factors: list[float]) -> array[float]:
        """Return the log-likelihoods (factors, K) for several factors of alpha."""
        return CountingNB.system_log_likelihoods(self, tokens, factors)

    def _length_divisor(self, used: int) -> float:
        return self.step * super()._length_divisor(used)
