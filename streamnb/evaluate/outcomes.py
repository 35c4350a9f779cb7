"""Figures of a run from its messages, and their 95 % intervals by a block bootstrap over time.

All sums are exact, and `streamnb._core` computes the logarithms. So figures do not depend on the
processor or the linear algebra library.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb._core import ranking

RESAMPLES = 1000

Interval = tuple[float, float]


class Figure(NamedTuple):
    """Name and format of a figure.

    Attributes
    ----------
    title
        Name in tables.
    digits
        Digits after the decimal point.
    needs_two_classes
        Whether it is defined only for two classes.
    needs_class_numbers
        Whether it needs the true and the predicted class of each message. Means over classes and
        kappa do.
    as_percent
        Whether it is a fraction, printed as percent.
    lower_is_better
        Whether a smaller value is better.
    """

    title: str
    digits: int = 2
    needs_two_classes: bool = True
    as_percent: bool = False
    lower_is_better: bool = True
    needs_class_numbers: bool = False

    def format(self, value: float, sign: str = "") -> str:
        """Return a value as text; with `sign` "+", also the sign of positive values."""
        if self.as_percent:
            return f"{100 * value:{sign}.{self.digits}f} %"
        return f"{value:{sign}.{self.digits}f}"


FIGURES = {
    "accuracy": Figure("accuracy", needs_two_classes=False, as_percent=True, lower_is_better=False),
    **{
        name: Figure(title, 4, False, lower_is_better=False, needs_class_numbers=True)
        for name, title in (
            ("kappa", "kappa"),
            ("macro_precision", "macro precision"),
            ("macro_recall", "macro recall"),
            ("macro_f1", "macro F1"),
        )
    },
    "one_minus_roca_percent": Figure("(1-ROCA)%", 4),
    "sm_at_hm_0_1_percent": Figure("sm% at hm% = .1"),
    "sm_at_hm_0_5_percent": Figure("sm% at hm% = .5"),
    "sm_at_hm_1_percent": Figure("sm% at hm% = 1"),
    "hm_percent": Figure("hm%"),
    "sm_percent": Figure("sm%"),
    "lam_percent": Figure("lam%"),
    "log_loss": Figure("log loss", 4, needs_two_classes=False),
    "brier": Figure("Brier score", 4, needs_two_classes=False),
}
# False positive rates at which the miss rate is reported.
_HM = {"sm_at_hm_0_1_percent": 0.001, "sm_at_hm_0_5_percent": 0.005, "sm_at_hm_1_percent": 0.01}

MIN_PROBABILITY = 1e-15  # lower bound of probabilities in the log loss, as river and scikit-learn

_LOSS_GRID = 2.0**-30  # losses of resamplings are multiples of this (error at most 5e-10)


def _smoothed_logit(errors: float, n: float) -> float:
    p = (errors + 0.5) / (n + 1)
    return _core.log(p / (1 - p))


@dataclass(frozen=True)
class Outcomes:
    """The outcome of each message of a run.

    Attributes
    ----------
    correct
        bool, shape (n,): whether the predicted class was the true one.
    scores
        float64, shape (n,): log-odds of the positive class.
    positive, predicted_positive
        bool, shape (n,): whether the message is of the positive class, and was predicted to be.
        None unless there are two classes.
    losses, squares
        float64, shape (n,): log loss and Brier score of each message; None if unknown.
    true_classes, predicted_classes
        int64, shape (n,): number of the true and of the predicted class; None to leave out the
        figures of classes.
    """

    correct: NDArray[np.bool_]
    scores: NDArray[np.float64]
    positive: NDArray[np.bool_] | None = None
    predicted_positive: NDArray[np.bool_] | None = None
    losses: NDArray[np.float64] | None = None
    squares: NDArray[np.float64] | None = None
    true_classes: NDArray[np.int64] | None = None
    predicted_classes: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.correct)

    @property
    def figure_names(self) -> list[str]:
        """Names of the figures that are defined for this run."""
        means = self._mean_terms
        return [
            name
            for name, figure in FIGURES.items()
            if (self._has_two_classes and figure.needs_two_classes)
            or (self.true_classes is not None and figure.needs_class_numbers)
            or name in means
        ]

    @property
    def _has_two_classes(self) -> bool:
        return self.positive is not None and bool(0 < self.positive.sum() < len(self))

    @property
    def _mean_terms(self) -> dict[str, NDArray[np.bool_] | NDArray[np.float64]]:
        """The terms of each figure that is a mean over messages."""
        terms = {"accuracy": self.correct, "log_loss": self.losses, "brier": self.squares}
        return {name: values for name, values in terms.items() if values is not None}

    @property
    def proportions(self) -> dict[str, tuple[NDArray[np.bool_], float]]:
        """For each figure that is a proportion: a bool for each case, and a factor (100 for %)."""
        cases: dict[str, tuple[NDArray[np.bool_], float]] = {"accuracy": (self.correct, 1.0)}
        if self.positive is not None and self.predicted_positive is not None:
            cases["hm_percent"] = self.predicted_positive[~self.positive], 100.0
            cases["sm_percent"] = ~self.predicted_positive[self.positive], 100.0
        return cases

    def figures(self) -> dict[str, float]:
        """Return all figures that are defined for this run, by name."""
        n = len(self)
        values = {name: math.fsum(terms.tolist()) / n for name, terms in self._mean_terms.items()}
        if self._has_two_classes:
            ranking = self._ranking_figures(np.array([[0]]), np.array([[n]]))
            values |= {name: float(value) for name, (value,) in ranking.items()}
            values |= self._error_figures(*(int(column.sum()) for column in self._indicators))
        class_figures = self._class_figures(lambda column: np.array([column.sum()]))
        values |= {name: float(value) for name, (value,) in class_figures.items()}
        return {name: values[name] for name in self.figure_names}

    def resample_figures(
        self, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> dict[str, NDArray[np.float64]]:
        """Return the figures of resamplings of the run.

        Parameters
        ----------
        starts, ends
            Shape (m, b): first message, and the one after the last, of each block of each of m
            resamplings. Blocks begin within the run; a block that goes beyond its end continues
            at the beginning.

        Returns
        -------
        dict
            For each name of `figure_names`, float64 of shape (m,); NaN for a resampling without
            one of the classes.
        """

        def block_sums(column: NDArray[np.int64]) -> NDArray[np.int64]:
            sums = np.concatenate(([0], np.cumsum(np.concatenate((column, column)))))
            return (sums[ends] - sums[starts]).sum(axis=1)

        n = len(self)
        values = {
            name: block_sums(np.rint(terms / _LOSS_GRID).astype(np.int64)) * _LOSS_GRID / n
            for name, terms in self._mean_terms.items()
        }
        if self._has_two_classes:
            values |= self._ranking_figures(starts, ends)
            counts = zip(*(block_sums(col).tolist() for col in self._indicators), strict=True)
            rows = [self._error_figures(*row) for row in counts]
            values |= {name: np.array([row[name] for row in rows]) for name in rows[0]}
        values |= self._class_figures(block_sums)
        return {name: values[name] for name in self.figure_names}

    @cached_property
    def _indicators(self) -> tuple[NDArray[np.int64], ...]:
        """Return four arrays of 0 and 1: negatives, positives, false positives, false negatives."""
        if self.positive is None or self.predicted_positive is None:
            raise ValueError("figures of a ranking, such as (1-ROCA)%, need exactly two classes")
        indicators = (
            ~self.positive,
            self.positive,
            ~self.positive & self.predicted_positive,
            self.positive & ~self.predicted_positive,
        )
        return tuple(indicator.astype(np.int64) for indicator in indicators)

    @staticmethod
    def _error_figures(
        negatives: int, positives: int, false_positives: int, false_negatives: int
    ) -> dict[str, float]:
        if not negatives or not positives:
            return dict.fromkeys(("hm_percent", "sm_percent", "lam_percent"), math.nan)
        mean_logit = (
            _smoothed_logit(false_positives, negatives)
            + _smoothed_logit(false_negatives, positives)
        ) / 2
        return {
            "hm_percent": 100 * false_positives / negatives,
            "sm_percent": 100 * false_negatives / positives,
            "lam_percent": 100 / (1 + _core.exp(-mean_logit)),
        }

    def _class_figures(
        self, add_up: Callable[[NDArray[np.int64]], NDArray[np.int64]]
    ) -> dict[str, NDArray[np.float64]]:
        """Return the figures of classes, given a function that sums a column of 0 and 1."""
        truth, predicted = self.true_classes, self.predicted_classes
        if truth is None or predicted is None:
            return {}
        sums = []
        for k in np.unique(truth):
            is_true, is_predicted = truth == k, predicted == k
            columns = is_true, is_predicted, is_true & is_predicted
            sums.append([add_up(column.astype(np.int64)) for column in columns])
        messages, predictions, correct = np.moveaxis(np.array(sums), 1, 0)  # (classes, resamplings)
        accuracy = correct.sum(axis=0) / len(self)
        chance = (messages * predictions).sum(axis=0) / len(self) ** 2
        occurring = (messages > 0).sum(axis=0)
        return {
            "kappa": np.where(chance < 1, (accuracy - chance) / np.maximum(1 - chance, 1e-300), 0),
            "macro_precision": (correct / np.maximum(predictions, 1)).sum(axis=0) / occurring,
            "macro_recall": (correct / np.maximum(messages, 1)).sum(axis=0) / occurring,
            "macro_f1": (2 * correct / np.maximum(messages + predictions, 1)).sum(axis=0)
            / occurring,
        }

    def _ranking_figures(
        self, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> dict[str, NDArray[np.float64]]:
        """Return the figures that depend on the order of the scores, for `resample_figures`."""
        order = np.argsort(self.scores, kind="stable")
        ordered = self.scores[order]
        is_last = np.concatenate((ordered[1:] != ordered[:-1], [True])).astype(np.uint8)
        positive = self._indicators[1][order].astype(np.uint8)
        thresholds = np.array(list(_HM.values()))
        positives, negatives, inversions, missed = ranking.rank_resampled(
            order, positive, is_last, starts, ends, thresholds
        )
        with np.errstate(invalid="ignore"):  # a resampling can lack one of the classes
            figures = {"one_minus_roca_percent": 100 * (inversions / 2) / (positives * negatives)}
            for name, column in zip(_HM, missed.T, strict=True):
                figures[name] = np.where(negatives > 0, 100 * column / positives, np.nan)
        return figures


def bootstrap_blocks(
    n: int, resamples: int = RESAMPLES, seed: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw resamplings of n messages in blocks; return where the blocks begin and end.

    Blocks are sqrt(n) consecutive messages that begin anywhere; the last message is followed by
    the first (Politis and Romano 1992). Mail comes in campaigns and threads, so single messages
    are not independent. Resampling single messages would give intervals that are too short.

    Returns
    -------
    starts, ends
        int64, shape (resamples, blocks).

    References
    ----------
    Künsch, H. R. (1989). The jackknife and the bootstrap for general stationary observations.
    Annals of Statistics 17. Politis, D. N. and Romano, J. P. (1992). A circular block-resampling
    procedure for stationary data.

    Examples
    --------
    >>> from streamnb.evaluate.outcomes import bootstrap_blocks
    >>> starts, ends = bootstrap_blocks(10, resamples=2)
    >>> starts.shape, (ends - starts).sum(axis=1).tolist()
    ((2, 4), [10, 10])
    """
    block_length = max(1, round(math.sqrt(n)))
    blocks = -(-n // block_length)
    lengths = np.full(blocks, block_length)
    lengths[-1] = n - block_length * (blocks - 1)
    starts = np.random.default_rng(seed).integers(0, n, (resamples, blocks))
    return starts, starts + lengths


def resample(run: Outcomes, resamples: int = RESAMPLES) -> dict[str, NDArray[np.float64]]:
    """Return each figure of a run in each resampling, float64 of shape (resamples,).

    Runs over the same stream get the same resamplings, so differences of their figures are paired.
    """
    return run.resample_figures(*bootstrap_blocks(len(run), resamples))


def percentile_interval(values: NDArray[np.float64]) -> Interval:
    """Return the 95 % interval of a resampled figure; NaN, NaN if every value is NaN."""
    ordered = np.sort(values[~np.isnan(values)])
    if not len(ordered):
        return math.nan, math.nan
    # The result of np.percentile, without its import of numpy.ma.
    last = len(ordered) - 1
    low, high = np.interp([0.025 * last, 0.975 * last], np.arange(len(ordered)), ordered)
    return float(low), float(high)


def wilson_interval(successes: int, n: int) -> Interval:
    """Return the 95 % interval of a proportion by Wilson (1927).

    Examples
    --------
    >>> from streamnb.evaluate.outcomes import wilson_interval
    >>> low, high = wilson_interval(95, 100)
    >>> f"{low:.4f} {high:.4f}"
    '0.8882 0.9785'
    """
    p, z = successes / n, 1.959963984540054  # z is the quantile of .975
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def confidence_intervals(
    run: Outcomes, samples: dict[str, NDArray[np.float64]]
) -> dict[str, Interval]:
    """Return the 95 % interval of each figure, from its values in resamplings of the run.

    If a run has no errors, its resamplings have none. So a proportion of 0 or 1 has Wilson's
    interval.
    """
    intervals = {name: percentile_interval(values) for name, values in samples.items()}
    for name, (cases, unit) in run.proportions.items():
        successes, n = int(cases.sum()), len(cases)
        if name in intervals and n and successes in (0, n):
            low, high = wilson_interval(successes, n)
            intervals[name] = unit * low, unit * high
    return intervals
