"""Running figures of a run, and its summary."""

from __future__ import annotations

import math
from array import array
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb._core import ranking
from streamnb.evaluate.outcomes import (
    MIN_PROBABILITY,
    Interval,
    Outcomes,
    confidence_intervals,
    resample,
    wilson_interval,
)
from streamnb.evaluate.prequential import Step
from streamnb.markup import html_table
from streamnb.scores import label_keys, log_odds

BINS = 10  # number of bins of the reliability table
_MIN_LOG_PROBABILITY = math.log(MIN_PROBABILITY)


@dataclass(frozen=True)
class ClassFigures:
    """Number of messages, precision, recall and F1 of one class."""

    messages: int
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class ReliabilityBin:
    """The messages whose predicted probability lies between `low` and `high`.

    Attributes
    ----------
    low, high
        Bounds of the probability.
    messages
        Number of messages.
    mean_probability
        Mean of their predicted probabilities.
    fraction_true
        Fraction of the messages that are of the predicted class.
    """

    low: float
    high: float
    messages: int
    mean_probability: float
    fraction_true: float


@dataclass(frozen=True)
class Summary:
    """Figures of a whole run. Undefined figures (no message, not two classes) are None.

    Attributes
    ----------
    messages
        Number of messages classified.
    accuracy, accuracy_interval
        Fraction classified correctly, and its 95 % Wilson interval for independent messages.
    kappa, kappa_temporal
        Accuracy relative to guessing by class frequencies (Cohen 1960), and to predicting the
        class of the previous message (Žliobaitė et al. 2015). 1 is perfect, 0 is no better.
    label_changes
        Number of messages whose class differs from that of the message before.
    log_loss
        Mean of -log of the probability of the true class. The probability is at least 1e-15, and
        one half before two classes are known.
    brier
        Mean squared error of the probabilities, summed over the classes and halved.
    expected_calibration_error, reliability
        Mean distance between predicted probability and fraction true over ten bins, and the bins.
        Two classes: of the positive class. Otherwise: of the predicted class.
    macro_precision, macro_recall, macro_f1
        Means over the classes that occur.
    classes
        Messages, precision, recall and F1 of each class.
    confusion
        Number of messages of each true class (first key) and predicted class (second key; "?"
        before anything was learned).
    positive
        The class whose log-odds the scores are.
    one_minus_roca_percent
        100 times the probability that a random negative scores above a random positive.
    sm_at_hm_0_1_percent, sm_at_hm_0_5_percent, sm_at_hm_1_percent
        Percent of positives missed at the threshold with .1, .5 or 1 % false positives.
    hm_percent, sm_percent
        Percent of negatives and of positives misclassified.
    lam_percent
        Logistic average of hm and sm, each smoothed as (errors + .5) / (n + 1).
    score_ties_percent
        Percent of messages that share their score with another message.
    intervals
        95 % intervals of the figures, by a block bootstrap over time.
    """

    messages: int
    accuracy: float | None = None
    accuracy_interval: Interval | None = None
    kappa: float | None = None
    kappa_temporal: float | None = None
    label_changes: int = 0
    log_loss: float | None = None
    brier: float | None = None
    expected_calibration_error: float | None = None
    macro_precision: float | None = None
    macro_recall: float | None = None
    macro_f1: float | None = None
    classes: dict[str, ClassFigures] = field(default_factory=dict)
    confusion: dict[str, dict[str, int]] = field(default_factory=dict)
    positive: str | None = None
    one_minus_roca_percent: float | None = None
    sm_at_hm_0_1_percent: float | None = None
    sm_at_hm_0_5_percent: float | None = None
    sm_at_hm_1_percent: float | None = None
    hm_percent: float | None = None
    sm_percent: float | None = None
    lam_percent: float | None = None
    score_ties_percent: float | None = None
    intervals: dict[str, Interval] = field(default_factory=dict)
    reliability: list[ReliabilityBin] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return all figures as plain data for JSON."""
        return asdict(self)

    def _repr_html_(self) -> str:
        """Return the single figures as a table for notebooks."""
        rows = [
            (name, float(value))
            for name, value in vars(self).items()
            if isinstance(value, (int, float)) and name != "messages"
        ]
        return html_table(f"{self.messages:,} messages", ["figure", "value"], rows)


def kappa(agreement: float, chance: float) -> float:
    """Return (agreement - chance) / (1 - chance); 0 if chance is 1."""
    return (agreement - chance) / (1 - chance) if chance < 1 else 0.0


def reliability_table(
    probabilities: NDArray[np.float64], is_true: NDArray[np.bool_]
) -> list[ReliabilityBin]:
    """Compare predicted probabilities with outcomes in ten bins; empty bins are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from streamnb.evaluate.metrics import reliability_table
    >>> reliability_table(np.array([0.91, 0.99]), np.array([True, False]))
    [ReliabilityBin(low=0.9, high=1.0, messages=2, mean_probability=0.95, fraction_true=0.5)]
    """
    bin_of_each = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    bins = []
    for index in sorted(set(bin_of_each.tolist())):
        in_bin = bin_of_each == index
        bins.append(
            ReliabilityBin(
                index / BINS,
                (index + 1) / BINS,
                int(in_bin.sum()),
                float(probabilities[in_bin].mean()),
                float(is_true[in_bin].mean()),
            )
        )
    return bins


def calibration_error(bins: list[ReliabilityBin]) -> float:
    """Return the expected calibration error (Naeini, Cooper and Hauskrecht 2015)."""
    messages = sum(row.messages for row in bins)
    distances = (row.messages * abs(row.mean_probability - row.fraction_true) for row in bins)
    return math.fsum(distances) / messages


class ScoredPrediction(NamedTuple):
    """The data of a prediction that figures need, in addition to both labels.

    Attributes
    ----------
    score
        Log-odds of the positive class. With more than two classes and a positive class that is
        neither given nor "spam": log-odds of the predicted class. 0 before two classes and the
        positive one are known.
    loss, square
        Log loss and Brier score.
    p_positive, p_predicted
        Probabilities of the positive and of the predicted class.
    classes
        Number of classes known to the model.
    """

    score: float
    loss: float
    square: float
    p_positive: float
    p_predicted: float
    classes: int


class RunningMetrics:
    """Accumulator of predictions, with the score of each and the figures of all.

    Parameters
    ----------
    positive
        The class whose log-odds the scores are. None: "spam" as soon as it is one of the classes,
        before that the second class that occurs.
    window
        Number of messages of the window of `window_accuracy`.
    fading
        Factor by which each message multiplies the weight of earlier messages in `fading_accuracy`.
    """

    def __init__(
        self, positive: str | None = None, window: int = 1000, fading: float = 0.999
    ) -> None:
        self.positive: str | None = positive
        # Whether scores are for this class with any number of classes.
        self._is_named = positive is not None
        self.fading = fading
        self.messages: int = 0
        self.correct: int = 0
        self._label_ids: dict[Any, int] = {}
        self._truth = array("l")
        self._predicted = array("l")
        # the fields of each `ScoredPrediction` but the number of classes
        self._predictions = array("d")
        self._max_classes = 0
        self._window: deque[bool] = deque(maxlen=window)
        self._window_correct = 0
        self._faded_correct = 0.0
        self._faded_messages = 0.0

    def record(self, step: Step) -> float:
        """Add a step and return its score: the log-odds of the positive class.

        `ScoredPrediction.score` describes it.
        """
        prediction = self.score_step(step)
        self.add(step.y, step.predicted, prediction)
        return prediction.score

    def add(self, y: Any, predicted: Any, prediction: ScoredPrediction) -> None:
        """Add a scored prediction of a message of class y."""
        is_correct = predicted is not None and predicted == y
        self._max_classes = max(self._max_classes, prediction.classes)
        self.messages += 1
        self.correct += is_correct
        label_ids = self._label_ids
        self._truth.append(label_ids.setdefault(y, len(label_ids)))
        self._predicted.append(label_ids.setdefault(predicted, len(label_ids)))
        self._predictions.extend(prediction[:-1])
        if len(self._window) == self._window.maxlen:
            self._window_correct -= self._window[0]
        self._window.append(is_correct)
        self._window_correct += is_correct
        self._faded_correct = is_correct + self.fading * self._faded_correct
        self._faded_messages = 1.0 + self.fading * self._faded_messages

    def score_step(self, step: Step) -> ScoredPrediction:
        """Return score, losses and probabilities of a step, without adding it."""
        y, predicted, scores, _ = step
        if len(scores) < 2:  # with fewer than two classes, both are equally probable
            return ScoredPrediction(0.0, _core.log(2.0), 0.25, 0.5, 0.5, len(scores))
        score = self.score_of(predicted, scores)
        index = list(scores).index
        losses_and_probabilities = ranking.prediction_losses(
            list(scores.values()),
            index(y) if y in scores else -1,
            index(predicted) if predicted in scores else -1,
            index(self.positive) if self.positive in scores else -1,
            _MIN_LOG_PROBABILITY,
        )
        return ScoredPrediction(score, *losses_and_probabilities, len(scores))

    def score_of(self, predicted: Any, scores: dict[Any, float]) -> float:
        """Return `ScoredPrediction.score`, given the predicted class and joint log-likelihoods."""
        if len(scores) < 2:
            return 0.0
        if not self._is_named and "spam" in scores:
            self.positive, self._is_named = "spam", True
        elif self.positive is None:
            self.positive = list(scores)[1]
        if self._is_named or (len(scores) == 2 and self.positive in scores):
            return log_odds(scores, self.positive) if self.positive in scores else 0.0
        return log_odds(scores, predicted)

    @property
    def accuracy(self) -> float:
        """Fraction of all messages classified correctly."""
        return self.correct / self.messages if self.messages else math.nan

    @property
    def window_accuracy(self) -> float:
        """Fraction of the last `window` messages classified correctly."""
        return self._window_correct / len(self._window) if self._window else math.nan

    @property
    def fading_accuracy(self) -> float:
        """Fraction classified correctly; older messages have less weight (Gama et al. 2013)."""
        return self._faded_correct / self._faded_messages if self.messages else math.nan

    def checkpoint(self) -> dict[str, float]:
        """Return the running figures by name."""
        return {
            "messages": self.messages,
            "accuracy": self.accuracy,
            "window_accuracy": self.window_accuracy,
            "fading_accuracy": self.fading_accuracy,
        }

    def outcomes(self) -> Outcomes:
        """Return the outcome of each message."""
        truth, predicted = np.array(self._truth), np.array(self._predicted)
        positive = predicted_positive = None
        if self._has_two_classes(truth):
            label_id = self._label_ids[self.positive]
            positive, predicted_positive = truth == label_id, predicted == label_id
        scores, losses, squares, _, _ = self._columns()
        return Outcomes(truth == predicted, scores, positive, predicted_positive, losses, squares)

    def _columns(self) -> NDArray[np.float64]:
        """Return each field of the predictions but the number of classes, (fields, n)."""
        n_fields = len(ScoredPrediction._fields) - 1
        return np.array(self._predictions).reshape(-1, n_fields).T.copy()

    def _has_two_classes(self, truth: NDArray[np.int64]) -> bool:
        labels = [label for label in self._label_ids if label is not None]
        return (
            len(labels) == 2
            and self.positive in labels
            and self._max_classes <= 2
            and bool((truth != truth[0]).any())
        )

    def summary(self, with_intervals: bool = True) -> Summary:
        """Return the figures of everything recorded.

        Parameters
        ----------
        with_intervals
            Whether to compute 95 % intervals: 10 ms for 1,000 messages.
        """
        if not self.messages:
            return Summary(0)
        outcomes = self.outcomes()
        truth, predicted = np.array(self._truth), np.array(self._predicted)
        labels = [label for label in self._label_ids if label is not None]
        confusion = np.zeros((len(self._label_ids),) * 2, dtype=np.int64)
        np.add.at(confusion, (truth, predicted), 1)
        occurring = [label for label in labels if confusion[self._label_ids[label]].any()]
        keys = label_keys(labels)
        classes = {
            keys[label]: self._class_figures(confusion, self._label_ids[label]) for label in labels
        }
        rows = [classes[keys[label]] for label in occurring]
        fractions = confusion / self.messages
        accuracy = self.correct / self.messages
        repeats = int((truth[1:] == truth[:-1]).sum())
        *_, p_positive, p_predicted = self._columns()
        if outcomes.positive is None:
            probabilities, is_true = p_predicted, outcomes.correct
        else:
            probabilities, is_true = p_positive, outcomes.positive
        bins = reliability_table(probabilities, is_true)
        positive = self.positive if self._is_named or len(labels) <= 2 else None
        ties_percent = 100 * (1 - len(set(outcomes.scores.tolist())) / self.messages)
        return Summary(
            messages=self.messages,
            accuracy_interval=wilson_interval(self.correct, self.messages),
            kappa=kappa(accuracy, math.fsum(fractions.sum(axis=0) * fractions.sum(axis=1))),
            kappa_temporal=kappa(accuracy, repeats / self.messages),
            label_changes=self.messages - 1 - repeats,
            expected_calibration_error=calibration_error(bins),
            reliability=bins,
            macro_precision=math.fsum(row.precision for row in rows) / len(rows),
            macro_recall=math.fsum(row.recall for row in rows) / len(rows),
            macro_f1=math.fsum(row.f1 for row in rows) / len(rows),
            classes=classes,
            confusion={
                keys[label]: self._confusion_row(confusion, label, keys) for label in occurring
            },
            positive=None if positive is None else keys.get(positive, str(positive)),
            score_ties_percent=None if outcomes.positive is None else ties_percent,
            intervals=confidence_intervals(outcomes, resample(outcomes)) if with_intervals else {},
            **outcomes.figures(),
        )

    def _confusion_row(
        self, confusion: NDArray[np.int64], label: Any, keys: dict[Any, str]
    ) -> dict[str, int]:
        """Return the number of messages of a class by predicted class."""
        counts = confusion[self._label_ids[label]]
        labels = list(self._label_ids)
        row: dict[str, int] = {}
        for k in np.flatnonzero(counts).tolist():
            key = keys.get(labels[k], "?")
            row[key] = row.get(key, 0) + int(counts[k])
        return row

    @staticmethod
    def _class_figures(confusion: NDArray[np.int64], k: int) -> ClassFigures:
        correct, messages, predicted = confusion[k, k], confusion[k].sum(), confusion[:, k].sum()
        precision = float(correct / predicted) if predicted else 0.0
        recall = float(correct / messages) if messages else 0.0
        f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
        return ClassFigures(int(messages), precision, recall, f1)
