"""The weight with which messages of each class were counted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Self

from streamnb.naive_bayes.online_estimator import (
    IndexMap,
    OnlineEstimator,
    check_numbers,
    remap_values,
)

# Sums are multiples of this step, so they are exact and each update can be undone.
_STEP = 2.0**-12


class CountedWeights(OnlineEstimator):
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

    def __init__(self, n_views: int) -> None:
        self.n_views = n_views
        self._sums: list[list[float]] = []  # by class and view

    def shortfalls(self, class_index: int, class_weight: float) -> list[float]:
        """Return by how much each view's sum is too small for a class of this weight.

        A shortfall below 1/2 is returned as 0.
        """
        smallest = math.sqrt(self._SHARE * class_weight)
        sums = self._sums[class_index] if class_index < len(self._sums) else [0.0] * self.n_views
        return [smallest - total if smallest - total >= self._SMALLEST else 0.0 for total in sums]

    def learn(self, class_index: int, update_weights: Sequence[float]) -> dict[str, list[float]]:
        """Add the update weights of a message, and return the change for the receipt."""
        weights = [round(min(weight, self._LARGEST) / _STEP) * _STEP for weight in update_weights]
        if not any(weights):
            return {}
        change = [self.n_views, class_index, *weights]
        self._add(change, 1)
        return {"counted": change}

    def apply(self, deltas: Mapping[str, Any], sign: int) -> None:
        """Apply the updates of a receipt (`sign` 1), or undo them (-1)."""
        self._add(deltas.get("counted", ()), sign)

    def _add(self, changes: Sequence[float], sign: int) -> None:
        """Add the number of views, and then rows: a class index and the weight of each view."""
        n_views = self.n_views
        for i in range(1, len(changes), n_views + 1):
            k = int(changes[i])
            while len(self._sums) <= k:
                self._sums.append([0.0] * n_views)
            for view, weight in enumerate(changes[i + 1 : i + 1 + n_views]):
                self._sums[k][view] += sign * weight

    def check(self, deltas: Mapping[str, Any], n_classes: int) -> None:
        """Raise ValueError if the updates cannot come from a model of `n_classes` classes."""
        changes = deltas.get("counted", (self.n_views,))
        check_numbers(changes)
        if not changes or changes[0] != self.n_views or len(changes) % (self.n_views + 1) != 1:
            raise ValueError("the sums of update weights have another number of views")
        if not all(k == int(k) and 0 <= k < n_classes for k in changes[1 :: self.n_views + 1]):
            raise ValueError(f"the sums of update weights have more than {n_classes} classes")

    def diff(self, before: Self) -> dict[str, Any]:
        """Return the updates from the state `before`, which has no further classes, to this one."""
        difference = type(self)(self.n_views)
        difference.apply(self.state(), 1)
        difference.apply(before.state(), -1)
        return difference.state()

    def remap_classes(self, index_map: IndexMap) -> Self:
        """Return a copy with class indices changed, as in `OnlineEstimator`."""
        copied = type(self)(self.n_views)
        numbers = remap_values(range(len(self._sums)), index_map, -1)
        copied._sums = [[0.0] * self.n_views if k < 0 else list(self._sums[k]) for k in numbers]
        return copied

    def state(self) -> dict[str, Any]:
        """Return the sums as JSON values: the number of views, then a row for each class."""
        rows = [[k, *sums] for k, sums in enumerate(self._sums) if any(sums)]
        return {"counted": [self.n_views, *chain.from_iterable(rows)]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Create the sums from `state`. Raise ValueError if it is not valid."""
        n_views = state["counted"][0]
        if type(n_views) is not int or n_views < 1:
            raise ValueError("the sums of update weights have no number of views")
        counted = cls(n_views)
        counted.check(state, 1 << 20)
        counted.apply(state, 1)
        return counted
