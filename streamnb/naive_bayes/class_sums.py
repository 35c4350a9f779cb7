"""Sums of each class: its correct and wrong predictions, and the update weights of each view."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Self

from streamnb import _core
from streamnb.naive_bayes.online_estimator import (
    MAX_VIEWS,
    IndexMap,
    OnlineEstimator,
    check_numbers,
)


class ClassSums(OnlineEstimator):
    """Base class of an estimator that has a row of sums for each class.

    A state or difference is a list: the header, then the index and the row of each class that has a
    sum other than 0.

    Parameters
    ----------
    zeros
        The row of a new class.
    header
        The numbers at the beginning of each state and difference: the arguments of the subclass.
    """

    header_size: ClassVar[int] = 0

    def __init__(self, zeros: list[Any], header: Sequence[int] = ()) -> None:
        self._zeros = zeros
        self._header = header
        self._sums: list[list[Any]] = []

    def sums(self, class_index: int | None) -> Sequence[Any]:
        """Return the row of a class, zeros for an unknown one."""
        is_known = class_index is not None and class_index < len(self._sums)
        return self._sums[class_index] if is_known else self._zeros  # type: ignore[index]

    def add(self, class_index: int, changes: Sequence[Any]) -> dict[str, list[Any]]:
        """Add to the row of a class, and return the change for the receipt."""
        deltas = {self.delta_names[0]: [*self._header, class_index, *changes]}
        self.apply(deltas, 1)
        return deltas

    def apply(self, deltas: Mapping[str, Any], sign: int) -> None:
        """Apply the updates of a receipt (`sign` 1), or undo them (-1)."""
        changes = deltas.get(self.delta_names[0], ())
        _core.add_rows(self._sums, changes, self.header_size, self._zeros, sign)

    def check(self, deltas: Mapping[str, Any], n_classes: int) -> None:
        """Raise ValueError if the updates cannot come from a model of `n_classes` classes."""
        name, width = self.delta_names[0], len(self._zeros) + 1
        changes = deltas.get(name, self._header)
        check_numbers(changes)
        header, rows = changes[: self.header_size], changes[self.header_size :]
        if [*header] != [*self._header] or len(rows) % width:
            raise ValueError(f"{name}: the number of columns is wrong")
        if not all(k == int(k) and 0 <= k < n_classes for k in rows[::width]):
            raise ValueError(f"{name}: there are more than {n_classes} classes")

    def diff(self, before: Self) -> dict[str, Any]:
        """Return the updates from the state `before`, which has no further classes, to this one."""
        difference = self.remap_classes([])
        difference.apply(self.state(), 1)
        difference.apply(before.state(), -1)
        return difference.state()

    def remap_classes(self, index_map: IndexMap) -> Self:
        """Return a copy with class indices changed, as in `OnlineEstimator`."""
        copied = copy.copy(self)
        copied._sums = [[*self.sums(k)] for k in index_map]
        return copied

    def state(self) -> dict[str, Any]:
        """Return the header, then index and sums of each class with a sum other than 0."""
        rows = [[k, *sums] for k, sums in enumerate(self._sums) if any(sums)]
        return {self.delta_names[0]: [*self._header, *chain.from_iterable(rows)]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Create the sums from `state`. Invalid state raises an exception of any type."""
        changes = state[cls.delta_names[0]]
        check_numbers(changes)
        estimator = cls(*changes[: cls.header_size])
        estimator.check(state, 1 << 20)
        estimator.apply(state, 1)
        return estimator


class ClassReliability(ClassSums):
    """Prequential count of correct and wrong predictions of each class.

    A class is ready after 20 correct predictions, if these are at least four times as many as the
    wrong ones. At most ten wrong predictions count. Programs act on predictions of a ready class
    without review. Its numbers then stop changing: users of a working filter label only its
    mistakes, and these labels would bias the numbers. Each message counts once, regardless of its
    weight.

    Examples
    --------
    >>> from streamnb.naive_bayes.class_sums import ClassReliability
    >>> reliability = ClassReliability()
    >>> for predicted, true in [(0, 0), (1, 0), (1, 1)]:
    ...     _ = reliability.learn(predicted, true)
    >>> reliability.counts(1), reliability.is_ready(1)
    ((1, 1), False)
    """

    delta_names: ClassVar[tuple[str, ...]] = ("record",)

    MIN_CORRECT = 20
    CORRECT_PER_WRONG = 4
    _MAX_WRONG = 10

    def __init__(self) -> None:
        super().__init__([0, 0])

    def counts(self, class_index: int | None) -> tuple[int, int]:
        """Return the number of correct and of wrong predictions of a class."""
        correct, wrong = self.sums(class_index)
        return correct, wrong

    def is_ready(self, class_index: int | None) -> bool:
        """Return whether programs can act on predictions of a class without review."""
        correct, wrong = self.sums(class_index)
        return correct >= self.MIN_CORRECT and correct >= self.CORRECT_PER_WRONG * wrong

    def learn(self, predicted: int, class_index: int) -> dict[str, list[int]]:
        """Count a prediction, and return the change for the receipt."""
        is_correct = predicted == class_index
        if self.is_ready(predicted) or (
            not is_correct and self.sums(predicted)[1] >= self._MAX_WRONG
        ):
            return {}
        return self.add(predicted, [int(is_correct), int(not is_correct)])

    def check(self, deltas: Mapping[str, Any], n_classes: int) -> None:
        """Raise ValueError if the updates cannot come from a model of `n_classes` classes."""
        super().check(deltas, n_classes)
        if not all(type(x) is int for x in deltas.get("record", ())):
            raise ValueError("record: the counts of predictions are not whole numbers")


# Sums are multiples of this step, so they are exact and each update can be undone.
_STEP = 2.0**-12


class CountedWeights(ClassSums):
    """Sums of the update weights of each view and class, and their shortfall from a smallest sum.

    Update weights are 1 - P, so an accurate model adds few counts: on easy mail, 600 messages add
    the counts of 4. A few wrong labels could then outweigh all of them. So each view counts n
    messages of a class with a sum of at least the square root of n / 2. Streams with more mistakes
    have larger sums anyway. `decay` does not reduce the sums. A message adds at most 2^24 to a sum.

    Examples
    --------
    >>> from streamnb.naive_bayes.class_sums import CountedWeights
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
            raise ValueError(f"update weights: the number of views is not valid: {n_views!r:.80}")
        super().__init__([0.0] * n_views, [n_views])
        self.n_views = n_views

    def shortfalls(self, class_index: int, class_weight: float) -> list[float]:
        """Return by how much each view's sum is too small for a class of this weight.

        A shortfall below 1/2 is returned as 0.
        """
        smallest = math.sqrt(self._SHARE * class_weight)
        totals = self.sums(class_index)
        return [x if (x := smallest - total) >= self._SMALLEST else 0.0 for total in totals]

    def learn(self, class_index: int, update_weights: Sequence[float]) -> dict[str, list[float]]:
        """Add the update weights of a message, and return the change for the receipt."""
        if not any(update_weights):
            return {}
        weights = [round(min(weight, self._LARGEST) / _STEP) * _STEP for weight in update_weights]
        return self.add(class_index, weights) if any(weights) else {}
