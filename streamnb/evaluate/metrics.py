"""Figures of a run: kept as four numbers a message, worked out when asked for."""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.evaluate.margin import log_odds
from streamnb.evaluate.prequential import Step

__all__ = ["ClassFigures", "Summary", "Tally", "one_minus_roca", "sm_at_hm", "wilson"]

# The logarithm of the smallest probability that log loss reckons with, as river and scikit-learn.
_LEAST = math.log(1e-15)


@dataclass(frozen=True)
class ClassFigures:
    """How well one class was told from the others."""

    messages: int
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class Summary:
    """Figures of a whole run; None where a figure has no meaning (no message, not two classes).

    Attributes
    ----------
    messages
        How many were classified.
    accuracy, accuracy_interval
        Share classified right, and its 95 % Wilson interval.
    log_loss
        Mean of -log of the probability given to the true class, that taken as at least 1e-15.
    classes
        Messages, precision, recall and F1 of each class.
    confusion
        How often each class (first key) was taken for which (second key; "?" before anything was
        learned).
    positive
        The class that scores are for.
    one_minus_roca_percent
        100 times the probability that a random negative scores above a random positive.
    sm_at_hm_0_1_percent
        Percent of positives missed at the threshold that misjudges .1 % of the negatives.
    hm_percent, sm_percent
        Negatives and positives misjudged.
    lam_percent
        Logistic average of hm and sm, each smoothed as (errors + .5) / (n + 1).
    score_ties_percent
        Messages whose score another one shares.
    """

    messages: int
    accuracy: float | None = None
    accuracy_interval: tuple[float, float] | None = None
    log_loss: float | None = None
    classes: dict[str, ClassFigures] = field(default_factory=dict)
    confusion: dict[str, dict[str, int]] = field(default_factory=dict)
    positive: str | None = None
    one_minus_roca_percent: float | None = None
    sm_at_hm_0_1_percent: float | None = None
    hm_percent: float | None = None
    sm_percent: float | None = None
    lam_percent: float | None = None
    score_ties_percent: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return asdict(self)


def wilson(successes: int, n: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Interval of a proportion (Wilson 1927), 95 % by default.

    Examples
    --------
    >>> low, high = wilson(95, 100)
    >>> f"{low:.4f} {high:.4f}"
    '0.8882 0.9785'
    """
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def one_minus_roca(positives: NDArray[np.float64], negatives: NDArray[np.float64]) -> float:
    """Percent of pairs in which the negative scores above the positive, ties one half."""
    values, places = np.unique(np.concatenate((positives, negatives)), return_inverse=True)
    ups = np.bincount(places[: len(positives)], minlength=len(values))
    downs = np.bincount(places[len(positives) :], minlength=len(values))
    above = downs[::-1].cumsum()[::-1] - downs
    inversions = int((ups * above).sum()) + int((ups * downs).sum()) / 2
    return 100 * inversions / (len(positives) * len(negatives))


def sm_at_hm(positives: NDArray[np.float64], negatives: NDArray[np.float64], hm: float) -> float:
    """Percent of positives at or below the threshold that a share `hm` of negatives exceeds."""
    threshold = np.sort(negatives)[::-1][int(hm * len(negatives))]
    return 100 * float(np.mean(positives <= threshold))


def _logit(errors: int, n: int) -> float:
    p = (errors + 0.5) / (n + 1)
    return math.log(p / (1 - p))


class Tally:
    """Records steps; gives the score of each, and the figures of all.

    Parameters
    ----------
    positive
        The class that scores are for. None: "spam" if it is one of the first two classes, else the
        second class to come.
    window
        Length of the window of `window_accuracy`, in messages.
    fading
        Factor by which an error counts less with each message that follows.
    """

    def __init__(
        self, positive: str | None = None, window: int = 1000, fading: float = 0.999
    ) -> None:
        self.positive = positive
        self.fading = fading
        self.messages = 0
        self.correct = 0
        self._labels: dict[Any, int] = {}
        self._truth = array("l")
        self._predicted = array("l")
        self._scores = array("d")
        self._loss = 0.0
        self._most_classes = 0
        self._recent: deque[bool] = deque(maxlen=window)
        self._recent_correct = 0
        self._faded_correct = 0.0
        self._faded_messages = 0.0

    def record(self, step: Step) -> float:
        """Take a step in, and give its score: log-odds of the positive class, or, where there are
        more than two classes, of the predicted one; 0 before two classes are known.
        """  # noqa: D205 (one sentence)
        y, predicted, scores, _ = step
        right = predicted is not None and predicted == y
        self._most_classes = max(self._most_classes, len(scores))
        self.messages += 1
        self.correct += right
        self._truth.append(self._number(y))
        self._predicted.append(self._number(predicted))
        score = self._score(predicted, scores)
        self._scores.append(score)
        self._loss += _log_loss(y, scores)
        if len(self._recent) == self._recent.maxlen:
            self._recent_correct -= self._recent[0]
        self._recent.append(right)
        self._recent_correct += right
        self._faded_correct = right + self.fading * self._faded_correct
        self._faded_messages = 1.0 + self.fading * self._faded_messages
        return score

    def _number(self, label: Any) -> int:
        number = self._labels.get(label)
        if number is None:
            number = self._labels[label] = len(self._labels)
        return number

    def _score(self, predicted: Any, scores: dict[Any, float]) -> float:
        if len(scores) < 2:
            return 0.0
        if self.positive is None:
            first, second = list(scores)[:2]
            self.positive = "spam" if "spam" in (first, second) else second
        if len(scores) == 2 and self.positive in scores:
            (first, a), (_, b) = scores.items()
            difference = a - b if a != b else 0.0
            return difference if first == self.positive else -difference
        return log_odds(scores, predicted)

    @property
    def accuracy(self) -> float:
        """Share of all messages classified right."""
        return self.correct / self.messages if self.messages else math.nan

    @property
    def window_accuracy(self) -> float:
        """Share of the last messages classified right."""
        return self._recent_correct / len(self._recent) if self._recent else math.nan

    @property
    def fading_accuracy(self) -> float:
        """Share classified right, older messages counting less (Gama et al. 2013)."""
        return self._faded_correct / self._faded_messages if self.messages else math.nan

    def checkpoint(self) -> dict[str, float]:
        """The running figures."""
        return {
            "messages": self.messages,
            "accuracy": self.accuracy,
            "window_accuracy": self.window_accuracy,
            "fading_accuracy": self.fading_accuracy,
        }

    def summary(self) -> Summary:
        """Work out the figures of everything recorded."""
        if not self.messages:
            return Summary(0)
        truth, predicted = np.array(self._truth), np.array(self._predicted)
        known = [label for label in self._labels if label is not None]
        confusion = np.zeros((len(self._labels),) * 2, dtype=np.int64)
        np.add.at(confusion, (truth, predicted), 1)
        occurring = [label for label in known if confusion[self._labels[label]].any()]
        figures: dict[str, Any] = {}
        if len(occurring) == 2 and self.positive in occurring and self._most_classes <= 2:
            figures = self._binary(truth, predicted)
        return Summary(
            messages=self.messages,
            accuracy=self.correct / self.messages,
            accuracy_interval=wilson(self.correct, self.messages),
            log_loss=self._loss / self.messages,
            classes={str(label): self._figures(confusion, self._labels[label]) for label in known},
            confusion={str(label): self._taken_for(confusion, label) for label in occurring},
            positive=None if self.positive is None else str(self.positive),
            **figures,
        )

    def _taken_for(self, confusion: NDArray[np.int64], label: Any) -> dict[str, int]:
        """How often a class was taken for which; "?" before anything was learned."""
        row: dict[str, int] = {}
        for other, k in self._labels.items():
            if times := int(confusion[self._labels[label], k]):
                name = "?" if other is None else str(other)
                row[name] = row.get(name, 0) + times
        return row

    @staticmethod
    def _figures(confusion: NDArray[np.int64], k: int) -> ClassFigures:
        right, messages, claimed = confusion[k, k], confusion[k].sum(), confusion[:, k].sum()
        precision = float(right / claimed) if claimed else 0.0
        recall = float(right / messages) if messages else 0.0
        f1 = 2 * precision * recall / (precision + recall) if right else 0.0
        return ClassFigures(int(messages), precision, recall, f1)

    def _binary(self, truth: NDArray[np.int64], predicted: NDArray[np.int64]) -> dict[str, float]:
        scores = np.array(self._scores)
        is_positive = truth == self._labels[self.positive]
        claimed = predicted == self._labels[self.positive]
        positives, negatives = scores[is_positive], scores[~is_positive]
        false_alarms, misses = (
            int((claimed & ~is_positive).sum()),
            int((~claimed & is_positive).sum()),
        )
        lam = (_logit(false_alarms, len(negatives)) + _logit(misses, len(positives))) / 2
        return {
            "one_minus_roca_percent": one_minus_roca(positives, negatives),
            "sm_at_hm_0_1_percent": sm_at_hm(positives, negatives, 0.001),
            "hm_percent": 100 * false_alarms / len(negatives),
            "sm_percent": 100 * misses / len(positives),
            "lam_percent": 100 / (1 + math.exp(-lam)),
            "score_ties_percent": 100 * (1 - len(np.unique(scores)) / len(scores)),
        }


def _log_loss(y: Any, scores: dict[Any, float]) -> float:
    if y not in scores:
        return -_LEAST
    values: Sequence[float] = list(scores.values())
    top = max(values)
    if top == -math.inf:
        return _core.log(len(values))
    total = 0.0
    for value in values:
        total += _core.exp(value - top)
    return -max(scores[y] - top - _core.log(total), _LEAST)
