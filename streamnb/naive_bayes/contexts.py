"""Discriminative Naive Bayes over nested grams: each given what stands before it, backing off."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.counts.protocol import Floats, Keys
from streamnb.features.token_counts import TokenCounts
from streamnb.naive_bayes.counting import CountingNB
from streamnb.naive_bayes.discriminative import DiscriminativeMultinomialNB
from streamnb.parameters import Number, Integer, parameter, parameter_class


@parameter_class()
class ContextNB(DiscriminativeMultinomialNB):
    r"""Learns from nested grams of bytes how probable their ends are after what stands before them.

    The features of a message are its grams of n bytes, and those of n - s, n - 2s ... that they end
    in (`ByteGrams(n=6, step=2)`). With n_g counts of gram g, h the gram without its last s bytes
    and g' the gram without its first s,

        P(g) = (n_g + u P(g')) / (n_h + u),   u = spread sqrt(n_h)

    and for the shortest grams (n_g + alpha) / (N + 256^s alpha), or with the alpha of `background`,
    V being 256^s. So a gram that is rare in a class is judged by its end: by what is known of
    shorter contexts, as the models do that compress text. The evidence is the sum of log P over the
    longest grams, each byte of which is in s of them, divided by s and what the length of the
    message asks for. All of it is counts of grams, which add, subtract and merge; they are learned
    as `DiscriminativeMultinomialNB` does.

    A feature that is no gram of `ByteGrams` has nothing before it.

    References
    ----------
    Bratko, A., Cormack, G., Filipic, B., Lynam, T. and Zupan, B. (2006). Spam filtering using
    statistical data compression models. Journal of Machine Learning Research 7. MacKay, D. and
    Peto, L. (1995). A hierarchical Dirichlet language model. Natural Language Engineering 1.

    Examples
    --------
    >>> from streamnb.features.byte_grams import ByteGrams
    >>> from streamnb.naive_bayes.contexts import ContextNB
    >>> grams, model = ByteGrams(n=6, step=2, mail=False), ContextNB()
    >>> model.learn_one(grams.count("free offer"), "spam")
    >>> model.learn_one(grams.count("lunch at noon"), "ham")
    >>> model.predict_one(grams.count("offers"))
    'spam'
    """

    step: int = parameter(
        Integer(1, 6), "counts", "Bytes by which grams grow, as `ByteGrams` has it.", default=2
    )
    spread: float = parameter(
        Number(),
        "teaching",
        "How much a shorter gram stands for a longer one; u above.",
        default=3.0,
    )

    def _weights_of(self, fingerprints: Keys) -> tuple[Floats, NDArray[np.uint8] | None]:
        cells, _ = self.counts.get_counts(fingerprints)
        return self._backed_off(fingerprints, cells)

    def _backed_off(self, fingerprints: Keys, cells: Floats) -> tuple[Floats, NDArray[np.uint8]]:
        """Log P of grams among which are those they end in, and which no longer one ends in."""
        # u goes with the root of a count, which grows with the scale of counts that have aged.
        spread = self.spread * math.sqrt(self.counts.scale)
        return _core.backoff_log_probabilities(
            fingerprints,
            cells,
            self.counts.totals,
            self._smoothing,
            spread,
            self.step,
            self._background,
        )

    def _all_feature_weights(self) -> Iterator[tuple[Keys, Floats]]:
        # Of all at once: what a gram says depends on others.
        fingerprints, cells = self.counts.items()
        weights, longest = self._backed_off(fingerprints, cells)
        some = longest.astype(bool)
        yield fingerprints[some], weights[some] / self.step

    def _sums(self, tokens: TokenCounts) -> tuple[list[float], int]:
        # What a gram says depends on others: not the multinomial formula's one call.
        return CountingNB._sums(self, tokens)

    def _length_divisor(self, used: int) -> float:
        return self.step * super()._length_divisor(used)
