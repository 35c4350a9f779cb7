"""Correct and wrong predictions of each class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from streamnb.naive_bayes.online_estimator import (
    LARGEST_NUMBER,
    IndexMap,
    OnlineEstimator,
    remap_values,
)


class ClassReliability(OnlineEstimator):
    """Prequential count of correct and wrong predictions of each class.

    A class is ready after 20 correct predictions, if these are at least four times as many as the
    wrong ones. At most ten wrong predictions count. Programs act on predictions of a ready class
    without review. Its numbers then stop changing: users of a working filter label only its
    mistakes, and these labels would bias the numbers. Each message counts once, regardless of its
    weight.

    Examples
    --------
    >>> from streamnb.naive_bayes.reliability import ClassReliability
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
        self.correct: list[int] = []
        self.wrong: list[int] = []

    def counts(self, class_index: int | None) -> tuple[int, int]:
        """Return the number of correct and of wrong predictions of a class."""
        if class_index is None or class_index >= len(self.correct):
            return 0, 0
        return self.correct[class_index], self.wrong[class_index]

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
        change = [predicted, int(is_correct), int(not is_correct)]
        self._add(change, 1)
        return {"record": change}

    def apply(self, deltas: Mapping[str, Any], sign: int) -> None:
        """Apply the updates of a receipt (`sign` 1), or undo them (-1)."""
        self._add(deltas.get("record", ()), sign)

    def _add(self, changes: Sequence[int], sign: int) -> None:
        """Add triples of class index, correct and wrong predictions."""
        for k, correct, wrong in zip(changes[::3], changes[1::3], changes[2::3], strict=True):
            missing = [0] * (k + 1 - len(self.correct))
            self.correct += missing
            self.wrong += missing
            self.correct[k] += sign * correct
            self.wrong[k] += sign * wrong

    def check(self, deltas: Mapping[str, Any], n_classes: int) -> None:
        """Raise ValueError if the updates cannot come from a model of `n_classes` classes."""
        changes = deltas.get("record", [])
        is_list = isinstance(changes, list) and len(changes) % 3 == 0
        if not is_list or not all(type(x) is int and abs(x) <= LARGEST_NUMBER for x in changes):
            raise ValueError("the counts of predictions are not valid")
        if not all(0 <= k < n_classes for k in changes[::3]):
            raise ValueError(f"the counts of predictions have more than {n_classes} classes")

    def diff(self, before: Self) -> dict[str, Any]:
        """Return the updates from the state `before`, which has no further classes, to this one."""
        difference = ClassReliability()
        difference.apply(self.state(), 1)
        difference.apply(before.state(), -1)
        return difference.state()

    def remap_classes(self, index_map: IndexMap) -> Self:
        """Return a copy with class indices changed, as in `OnlineEstimator`."""
        copied = type(self)()
        copied.correct = remap_values(self.correct, index_map, 0)
        copied.wrong = remap_values(self.wrong, index_map, 0)
        return copied

    def state(self) -> dict[str, Any]:
        """Return the counts as JSON values: a list of class index, correct, wrong, and so on."""
        rows = [(k, *self.counts(k)) for k in range(len(self.correct))]
        return {"record": [x for row in rows if any(row[1:]) for x in row]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Create the counts from `state`. Raise ValueError if it is not valid."""
        reliability = cls()
        reliability.check({"record": state["record"]}, 1 << 20)
        reliability.apply(state, 1)
        return reliability
