"""Correct and wrong predictions of each class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from streamnb.naive_bayes.online_estimator import ClassSums


class ClassReliability(ClassSums):
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
