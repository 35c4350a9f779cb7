"""The weight with which messages of each class were counted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from streamnb.naive_bayes.online_estimator import MAX_VIEWS, ClassSums

# Sums are multiples of this step, so they are exact and each update can be undone.
_STEP = 2.0**-12


class CountedWeights(ClassSums):
    """Sums of the update weights of each view and class, and their shortfall from a smallest sum.

    Update weights are 1 - P, so an accurate model adds few counts: on easy mail, those of 4
    messages of 600. A few wrong labels could then outweigh all of them. So each view counts n
    messages of a class with a sum of at least the square root of n / 2. Streams with more mistakes
    have larger sums anyway. `decay` does not reduce the sums. A message adds at most 2^24 to a sum.

    Examples
    --------
    >>> from streamnb.naive_bayes.counted_weights import CountedWeights
    >>> counted = CountedWeights(n_views=2)
    >>> counted.shortfalls(0, 32.0)
    [4.0, 4.0]
    >>> _ = counted.learn(0, [3.0, 3.875])
    >>> counted.shortfalls(0, 32.0)
    [1.0, 0.0]
    """

    delta_names: ClassVar[tuple[str, ...]] = ("counted",)

    _SHARE = 0.5
    _SMALLEST = 0.5  # a smaller shortfall waits for later messages, so most messages add no counts
    _LARGEST = 2.0**24  # update weight of a message; sums of 2^17 such messages are exact

    header_size: ClassVar[int] = 1

    def __init__(self, n_views: int) -> None:
        if type(n_views) is not int or not 1 <= n_views <= MAX_VIEWS:
            raise ValueError(f"the sums of update weights have no number of views: {n_views!r:.80}")
        super().__init__([0.0] * n_views, [n_views])
        self.n_views = n_views

    def shortfalls(self, class_index: int, class_weight: float) -> list[float]:
        """Return by how much each view's sum is too small for a class of this weight.

        A shortfall below 1/2 is returned as 0.
        """
        smallest = math.sqrt(self._SHARE * class_weight)
        shortfalls = [smallest - total for total in self.sums(class_index)]
        return [x if x >= self._SMALLEST else 0.0 for x in shortfalls]

    def learn(self, class_index: int, update_weights: Sequence[float]) -> dict[str, list[float]]:
        """Add the update weights of a message, and return the change for the receipt."""
        weights = [round(min(weight, self._LARGEST) / _STEP) * _STEP for weight in update_weights]
        return self.add(class_index, weights) if any(weights) else {}
