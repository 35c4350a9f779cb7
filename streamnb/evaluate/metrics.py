"""The running figures of a run, and the records its summary is made of."""

from __future__ import annotations

import math
from array import array
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.evaluate.intervals import interval, resample
from streamnb.evaluate.outcomes import LEAST_PROBABILITY, Outcomes
from streamnb.evaluate.prequential import Step
from streamnb.evaluate.summary import (
    ClassFigures,
    Summary,
    calibration_error,
    kappa,
    reliability,
    wilson,
)
from streamnb.scores import log_odds

_LEAST = math.log(LEAST_PROBABILITY)


class Judged(NamedTuple):
    """What a step was worth: all that the figures need of it, beside the two labels.

    Attributes
    ----------
    score
        Log-odds of the positive class; of the predicted one where there are more than two classes;
        0 before two classes are known.
    loss, square
        Log loss and Brier score.
    claim, given
        Probabilities of the positive class and of the predicted one.
    classes
        How many classes were known.
    """

    score: float
    loss: float
    square: float
    claim: float
    given: float
    classes: int


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
        self._losses = array("d")
        self._squares = array("d")
        self._claims = array("d")  # probability of the positive class
        self._given = array("d")  # and of the class given
        self._most_classes = 0
        self._recent: deque[bool] = deque(maxlen=window)
        self._recent_correct = 0
        self._faded_correct = 0.0
        self._faded_messages = 0.0

    def record(self, step: Step) -> float:
        """Take a step in, and give its score (`Judged.score`)."""
        judged = self.judge(step)
        self.take(step.y, step.predicted, judged)
        return judged.score

    def take(self, y: Any, predicted: Any, judged: Judged) -> None:
        """Take in what was judged, of a message of class y."""
        right = predicted is not None and predicted == y
        self._most_classes = max(self._most_classes, judged.classes)
        self.messages += 1
        self.correct += right
        self._truth.append(self._number(y))
        self._predicted.append(self._number(predicted))
        self._scores.append(judged.score)
        self._losses.append(judged.loss)
        self._squares.append(judged.square)
        self._claims.append(judged.claim)
        self._given.append(judged.given)
        if len(self._recent) == self._recent.maxlen:
            self._recent_correct -= self._recent[0]
        self._recent.append(right)
        self._recent_correct += right
        self._faded_correct = right + self.fading * self._faded_correct
        self._faded_messages = 1.0 + self.fading * self._faded_messages

    def judge(self, step: Step) -> Judged:
        """Say what a step was worth; nothing is recorded."""
        y, predicted, scores, _ = step
        if len(scores) < 2:  # nothing can be said yet: every class alike
            return Judged(0.0, _core.log(2.0), 0.25, 0.5, 0.5, len(scores))
        ranked = self.score_of(predicted, scores)
        place = list(scores).index
        true = place(y) if y in scores else -1
        given = place(predicted) if predicted in scores else -1
        positive = place(self.positive) if self.positive in scores else -1
        worth = _core.prediction_losses(list(scores.values()), true, given, positive, _LEAST)
        return Judged(ranked, *worth, len(scores))

    def _number(self, label: Any) -> int:
        number = self._labels.get(label)
        if number is None:
            number = self._labels[label] = len(self._labels)
        return number

    def score_of(self, predicted: Any, scores: dict[Any, float]) -> float:
        """As `Judged.score` has it."""
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

    def outcomes(self) -> Outcomes:
        """The run, message by message."""
        truth, predicted = np.array(self._truth), np.array(self._predicted)
        positive = said = None
        if self._of_two(truth):
            number = self._labels[self.positive]
            positive, said = truth == number, predicted == number
        losses, squares = np.array(self._losses), np.array(self._squares)
        return Outcomes(truth == predicted, np.array(self._scores), positive, said, losses, squares)

    def _of_two(self, truth: NDArray[np.int64]) -> bool:
        occurring = [label for label in self._labels if label is not None]
        return (
            len(occurring) == 2
            and self.positive in occurring
            and self._most_classes <= 2
            and bool((truth != truth[0]).any())
        )

    def summary(self, with_intervals: bool = True) -> Summary:
        """Work out the figures of everything recorded.

        Parameters
        ----------
        with_intervals
            Whether intervals are wanted: a hundredth of a second for a thousand messages.
        """
        if not self.messages:
            return Summary(0)
        run = self.outcomes()
        truth, predicted = np.array(self._truth), np.array(self._predicted)
        known = [label for label in self._labels if label is not None]
        confusion = np.zeros((len(self._labels),) * 2, dtype=np.int64)
        np.add.at(confusion, (truth, predicted), 1)
        occurring = [label for label in known if confusion[self._labels[label]].any()]
        classes = {str(label): self._figures(confusion, self._labels[label]) for label in known}
        of = [classes[str(label)] for label in occurring]
        shares = confusion / self.messages
        right = self.correct / self.messages
        if run.positive is None:
            claims, came_true = np.array(self._given), run.right
        else:
            claims, came_true = np.array(self._claims), run.positive
        bins = reliability(claims, came_true)
        return Summary(
            messages=self.messages,
            accuracy_interval=wilson(self.correct, self.messages),
            kappa=kappa(right, math.fsum(shares.sum(axis=0) * shares.sum(axis=1))),
            kappa_temporal=kappa(right, float((truth[1:] == truth[:-1]).sum()) / self.messages),
            expected_calibration_error=calibration_error(bins),
            reliability=bins,
            macro_precision=math.fsum(one.precision for one in of) / len(of),
            macro_recall=math.fsum(one.recall for one in of) / len(of),
            macro_f1=math.fsum(one.f1 for one in of) / len(of),
            classes=classes,
            confusion={str(label): self._taken_for(confusion, label) for label in occurring},
            positive=None if self.positive is None else str(self.positive),
            score_ties_percent=self._ties() if run.positive is not None else None,
            intervals={name: interval(drawn) for name, drawn in resample(run).items()}
            if with_intervals
            else {},
            **run.figures(),
        )

    def _ties(self) -> float:
        return 100 * (1 - len(set(self._scores)) / len(self._scores))

    def _taken_for(self, confusion: NDArray[np.int64], label: Any) -> dict[str, int]:
        """How often a class was taken for which; "?" before anything was learned."""
        taken = confusion[self._labels[label]]
        labels = list(self._labels)
        row: dict[str, int] = {}
        for k in np.flatnonzero(taken).tolist():
            name = "?" if labels[k] is None else str(labels[k])
            row[name] = row.get(name, 0) + int(taken[k])
        return row

    @staticmethod
    def _figures(confusion: NDArray[np.int64], k: int) -> ClassFigures:
        right, messages, claimed = confusion[k, k], confusion[k].sum(), confusion[:, k].sum()
        precision = float(right / claimed) if claimed else 0.0
        recall = float(right / messages) if messages else 0.0
        f1 = 2 * precision * recall / (precision + recall) if right else 0.0
        return ClassFigures(int(messages), precision, recall, f1)
