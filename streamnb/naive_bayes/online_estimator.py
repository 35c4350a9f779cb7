"""State that `ViewsNB` learns online next to its counts: the interface, sums by class, and runs."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Self, TypeVar

from streamnb import _core
from streamnb.naive_bayes.receipt import has_only_numbers, is_bounded

LARGEST_NUMBER = 1e15  # a state or receipt with larger numbers is refused
MAX_VIEWS = 1 << 10  # a state with more views is refused

IndexMap = Sequence[int | None]
Number = TypeVar("Number", int, float)


class OnlineEstimator:
    """Base class of state learned online next to the counts.

    Every update is recorded in the receipt of its message as a difference, so that it can be undone
    exactly and in any order. States and differences are JSON values. Each estimator has its own
    names for them.
    """

    delta_names: ClassVar[tuple[str, ...]]
    """Names of its entries in a receipt."""

    def apply(self, deltas: Mapping[str, Any], sign: int) -> None:
        """Apply the updates of a receipt (`sign` 1), or undo them (-1)."""
        raise NotImplementedError

    def check(self, deltas: Mapping[str, Any], n_classes: int) -> None:
        """Raise ValueError if the updates cannot come from a model of `n_classes` classes."""
        raise NotImplementedError

    def remap_deltas(self, deltas: Mapping[str, Any], index_map: IndexMap) -> Mapping[str, Any]:
        """Return the updates with class indices changed.

        Class k had index `index_map[k]` before, or is new if that is None. This method is for
        estimators whose updates have the form of a state.
        """
        if self.delta_names[0] not in deltas:
            return deltas
        return {**deltas, **self.from_state(deltas).remap_classes(index_map).state()}

    def diff(self, before: Self) -> dict[str, Any]:
        """Return the updates from the state `before`, which has no further classes, to this one."""
        return {}

    def remap_classes(self, index_map: IndexMap) -> Self:
        """Return a copy with class indices changed, as in `remap_deltas`."""
        return copy.copy(self)

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        raise NotImplementedError

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Create the estimator from `state`. Invalid state raises an exception of any type."""
        raise NotImplementedError


def remap_values(values: Sequence[Number], index_map: IndexMap, initial: Number) -> list[Number]:
    """Return one value for each class after `remap_deltas`; new classes have `initial`."""
    return [values[k] if k is not None and k < len(values) else initial for k in index_map]


def check_numbers(numbers: Any) -> None:
    """Raise ValueError unless `numbers` is a list of finite numbers, each at most 1e15 in size."""
    if (
        not isinstance(numbers, (list, tuple))
        or not has_only_numbers(numbers)
        or not is_bounded(numbers, LARGEST_NUMBER)
    ):
        raise ValueError("receipt: not a list of finite numbers")


class ClassSums(OnlineEstimator):
    """Base class of an estimator that has a row of sums for each class.

    A state or difference is a list: the header, then the index and the row of each class that has a
    sum other than 0.

    Parameters
    ----------
    zeros
        The row of a new class.
    header
        The arguments of the subclass, which its states and differences begin with.
    """

    header_size: ClassVar[int] = 0

    def __init__(self, zeros: Sequence[Any], header: Sequence[int] = ()) -> None:
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
        for i in range(self.header_size, len(changes), len(self._zeros) + 1):
            k = int(changes[i])
            while len(self._sums) <= k:
                self._sums.append([*self._zeros])
            for j in range(len(self._zeros)):
                self._sums[k][j] += sign * changes[i + 1 + j]

    def check(self, deltas: Mapping[str, Any], n_classes: int) -> None:
        """Raise ValueError if the updates cannot come from a model of `n_classes` classes."""
        name, width = self.delta_names[0], len(self._zeros) + 1
        changes = deltas.get(name, self._header)
        check_numbers(changes)
        header, rows = changes[: self.header_size], changes[self.header_size :]
        if [*header] != [*self._header] or len(rows) % width:
            raise ValueError(f"{name}: the sums have other columns")
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
    >>> from streamnb.naive_bayes.online_estimator import ClassReliability
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
        super().__init__((0, 0))

    def counts(self, class_index: int | None) -> tuple[int, int]:
        """Return the number of correct and of wrong predictions of a class."""
        correct, wrong = self.sums(class_index)
        return correct, wrong

    def is_ready(self, class_index: int | None) -> bool:
        """Return whether programs can act on predictions of a class without review."""
        correct, wrong = self.counts(class_index)
        return correct >= self.MIN_CORRECT and correct >= self.CORRECT_PER_WRONG * wrong

    def learn(self, predicted: int, class_index: int) -> dict[str, list[int]]:
        """Count a prediction, and return the change for the receipt."""
        _, wrong = self.counts(predicted)
        is_correct = predicted == class_index
        if self.is_ready(predicted) or (not is_correct and wrong >= self._MAX_WRONG):
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

    Update weights are 1 - P, so an accurate model adds few counts: on easy mail, those of 4
    messages of 600. A few wrong labels could then outweigh all of them. So each view counts n
    messages of a class with a sum of at least the square root of n / 2. Streams with more mistakes
    have larger sums anyway. `decay` does not reduce the sums. A message adds at most 2^24 to a sum.

    Examples
    --------
    >>> from streamnb.naive_bayes.online_estimator import CountedWeights
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


class ClassRuns(OnlineEstimator):
    r"""The weight of a message for calibration: 1 in a mixed stream, 0 inside a run of one class.

    Users often train one folder after the other. Estimates of class frequencies (the intercepts of
    the recalibration, the label noise) would then fit the last folder only. So each class has a
    credit. A message of another class sets it to max(20 r, 1). A message of the class itself has
    the weight min(1, credit), which is subtracted from the credit. While only one class has
    messages, the credit is 0.

    r is the expected length of a run of the class in a mixed stream. It is 1 / (K - 1), or the mean
    length of about the last 20 runs of the class if that is larger. So a frequent class, with a
    share of 99 %, has full weight in a mixed stream, too.

    `messages_in_runs` is the sum of 1 minus the weight of each message. A run of up to a tenth of
    all messages is not counted, because small data sets have such runs by chance.

    Examples
    --------
    >>> from streamnb.naive_bayes.online_estimator import ClassRuns
    >>> runs = ClassRuns()
    >>> for k, active in [(0, [0]), (1, [0, 1]), (0, [0, 1])]:
    ...     _ = runs.learn(k, active)
    >>> runs.mix_weight(0), runs.mix_weight(1)
    (1.0, 1.0)
    >>> for _ in range(30):
    ...     _ = runs.learn(0, [0, 1])
    >>> runs.mix_weight(0), runs.mix_weight(1)
    (0.0, 1.0)
    >>> for i in range(2000):
    ...     _ = runs.learn(int(i % 50 == 0), [0, 1])  # one message in fifty
    >>> runs.mix_weight(0), runs.mix_weight(1)
    (1.0, 1.0)
    """

    delta_names: ClassVar[tuple[str, ...]] = ("turns", "runs")
    MEMORY: ClassVar[float] = 20.0  # runs in the mean length, and r in the largest credit

    def __init__(self) -> None:
        self.messages_in_runs: float = 0.0
        self.credits: list[float] = []
        # For each class that is or was in a run: the current length, and the mean length.
        self.runs: dict[int, tuple[float, float]] = {}

    def mix_weight(self, class_index: int) -> float:
        """Return the weight, from 0 to 1, that the next message gets if this is its class."""
        if class_index >= len(self.credits):
            return 0.0
        return min(max(self.credits[class_index], 0.0), 1.0)

    def learn(
        self, class_index: int, active: list[int], total_weight: float = math.inf
    ) -> dict[str, list[float]]:
        """Update the credits with a message's class, and return the changes for its receipt.

        Parameters
        ----------
        class_index
            Index of the message's class.
        active
            Indices of the classes that have messages, this one included, ascending.
        total_weight
            Weight of all messages learned before.
        """
        self._widen(active[-1] + 1)
        turns, runs = _core.class_run_step(
            self.credits, self.runs, active, class_index, total_weight, self.MEMORY
        )
        self.messages_in_runs += turns[0]
        _core.add_scaled(self.credits, turns[1:], 1)
        _core.add_runs(self.runs, runs, 1)
        return {"turns": turns, "runs": runs}

    def apply(self, deltas: Mapping[str, Any], sign: int) -> None:
        """Apply the updates of a receipt (`sign` 1), or undo them (-1)."""
        turns, runs = deltas.get("turns", ()), deltas.get("runs", ())
        if turns:
            self.messages_in_runs += sign * turns[0]
            self._widen(len(turns) - 1)
            _core.add_scaled(self.credits, turns[1:], sign)
        _core.add_runs(self.runs, runs, sign)

    def check(self, deltas: Mapping[str, Any], n_classes: int) -> None:
        """Raise ValueError if the updates cannot come from a model of `n_classes` classes."""
        runs = self.from_state(deltas)
        if max([len(runs.credits), *(k + 1 for k in runs.runs)]) > n_classes:
            raise ValueError(f"receipt: it has more than {n_classes} classes")

    def remap_classes(self, index_map: IndexMap) -> Self:
        """Return a copy with class indices changed, as in `OnlineEstimator`."""
        copied = type(self)()
        copied.messages_in_runs = self.messages_in_runs
        copied.credits = remap_values(self.credits, index_map, 0.0)
        copied.runs = {new: self.runs[k] for new, k in enumerate(index_map) if k in self.runs}
        return copied

    def _widen(self, n_classes: int) -> None:
        self.credits += [0.0] * (n_classes - len(self.credits))

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        runs = [(float(k), length, mean) for k, (length, mean) in sorted(self.runs.items())]
        return {
            "turns": [self.messages_in_runs, *self.credits],
            "runs": list(chain.from_iterable(runs)),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Create the credits from a state or a receipt. Raise ValueError if it is not valid."""
        turns, runs = state.get("turns", ()), state.get("runs", ())
        check_numbers(turns)
        check_numbers(runs)
        if len(runs) % 3 or not all(k >= 0 and k == int(k) for k in runs[::3]):
            raise ValueError("the runs of classes are not valid")
        credits_and_runs = cls()
        credits_and_runs.apply({"turns": turns, "runs": runs}, 1)
        return credits_and_runs
