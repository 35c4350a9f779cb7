"""What a run gave, message by message, and the figures of it or of any resampling of it.

Sums are of whole numbers, or exact, and logarithms are our own: the figures are the same on every
machine, whatever its linear algebra library and its processor make of a dot product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamnb import _core


class Figure(NamedTuple):
    """What is said of a figure, and how it is shown.

    Attributes
    ----------
    title
        What it is called.
    digits
        How many are shown after the point.
    of_two
        Whether it has a meaning only where there are two classes.
    as_percent
        Whether it is a share, shown as percent.
    lower_is_better
        Whether a smaller value is the better one.
    """

    title: str
    digits: int = 2
    of_two: bool = True
    as_percent: bool = False
    lower_is_better: bool = True

    def shown(self, value: float, sign: str = "") -> str:
        """A value as text."""
        if self.as_percent:
            return f"{100 * value:{sign}.{self.digits}f} %"
        return f"{value:{sign}.{self.digits}f}"


FIGURES = {
    "accuracy": Figure("accuracy", of_two=False, as_percent=True, lower_is_better=False),
    "one_minus_roca_percent": Figure("(1-ROCA)%", 4),
    "sm_at_hm_0_1_percent": Figure("sm% at hm% = .1"),
    "sm_at_hm_0_5_percent": Figure("sm% at hm% = .5"),
    "sm_at_hm_1_percent": Figure("sm% at hm% = 1"),
    "hm_percent": Figure("hm%"),
    "sm_percent": Figure("sm%"),
    "lam_percent": Figure("lam%"),
    "log_loss": Figure("log loss", 4, of_two=False),
    "brier": Figure("Brier score", 4, of_two=False),
}
_HM = {"sm_at_hm_0_1_percent": 0.001, "sm_at_hm_0_5_percent": 0.005, "sm_at_hm_1_percent": 0.01}

LEAST_PROBABILITY = 1e-15  # that log loss reckons with, as river and scikit-learn

_GRAIN = 2.0**-30  # of losses where resamplings are summed: an error of 5e-10 at most


def _logit(errors: float, n: float) -> float:
    p = (errors + 0.5) / (n + 1)
    return _core.log(p / (1 - p))


@dataclass(frozen=True)
class Outcomes:
    """A run, message by message.

    Attributes
    ----------
    right
        bool, shape (n,): whether the class given was the true one.
    scores
        float64, shape (n,): log-odds of the positive class.
    positive, claimed
        bool, shape (n,): whether the message is of the positive class, and was taken for it; None
        where there are not two classes.
    losses, squares
        float64, shape (n,), or None: log loss and Brier score of each message.
    """

    right: NDArray[np.bool_]
    scores: NDArray[np.float64]
    positive: NDArray[np.bool_] | None = None
    claimed: NDArray[np.bool_] | None = None
    losses: NDArray[np.float64] | None = None
    squares: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.right)

    @property
    def known(self) -> list[str]:
        """The figures that have a meaning for this run."""
        means, two = self._means, self._two
        return [name for name, of in FIGURES.items() if (two if of.of_two else name in means)]

    @property
    def _two(self) -> bool:
        """Whether there are messages of both of two classes."""
        return self.positive is not None and bool(0 < self.positive.sum() < len(self))

    @property
    def _means(self) -> dict[str, NDArray[np.bool_] | NDArray[np.float64]]:
        """What each message adds to the figures that are means."""
        found = {"accuracy": self.right, "log_loss": self.losses, "brier": self.squares}
        return {name: values for name, values in found.items() if values is not None}

    def figures(self) -> dict[str, float]:
        """All figures that have a meaning."""
        n = len(self)
        found = {name: math.fsum(values.tolist()) / n for name, values in self._means.items()}
        if self._two:
            whole = self._rankings(np.array([[0]]), np.array([[n]]))
            found |= {name: float(value) for name, (value,) in whole.items()}
            found |= self._errors(*(int(column.sum()) for column in self._kinds))
        return {name: found[name] for name in self.known}

    def resampled(
        self, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> dict[str, NDArray[np.float64]]:
        """The figures of resamplings of the run, NaN where one of the classes is not in one.

        Parameters
        ----------
        starts, ends
            Shape (m, b): first message, and the one after the last, of each block of each of m
            resamplings. Blocks begin within the run; one that goes beyond its end goes on at its
            beginning.

        Returns
        -------
        dict
            For each of `known`, float64 of shape (m,).
        """

        def sums(column: NDArray[np.int64]) -> NDArray[np.int64]:
            before = np.concatenate(([0], np.cumsum(np.concatenate((column, column)))))
            return (before[ends] - before[starts]).sum(axis=1)

        n = len(self)
        found = {
            name: sums(np.rint(values / _GRAIN).astype(np.int64)) * _GRAIN / n
            for name, values in self._means.items()
        }
        if self._two:
            found |= self._rankings(starts, ends)
            kinds = zip(*(sums(column).tolist() for column in self._kinds), strict=True)
            rows = [self._errors(*counts) for counts in kinds]
            found |= {name: np.array([row[name] for row in rows]) for name in rows[0]}
        return {name: found[name] for name in self.known}

    @cached_property
    def _kinds(self) -> tuple[NDArray[np.int64], ...]:
        """Of each message, as 0 or 1: negative, positive, false alarm, miss."""
        if self.positive is None or self.claimed is None:
            raise ValueError("there are not two classes")
        kinds = (
            ~self.positive,
            self.positive,
            ~self.positive & self.claimed,
            self.positive & ~self.claimed,
        )
        return tuple(kind.astype(np.int64) for kind in kinds)

    @staticmethod
    def _errors(hams: int, spams: int, false_alarms: int, misses: int) -> dict[str, float]:
        if not hams or not spams:
            return dict.fromkeys(("hm_percent", "sm_percent", "lam_percent"), math.nan)
        lam = (_logit(false_alarms, hams) + _logit(misses, spams)) / 2
        return {
            "hm_percent": 100 * false_alarms / hams,
            "sm_percent": 100 * misses / spams,
            "lam_percent": 100 / (1 + _core.exp(-lam)),
        }

    def _rankings(
        self, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> dict[str, NDArray[np.float64]]:
        """What depends on the order of the scores, for `resampled`."""
        order = np.argsort(self.scores, kind="stable")
        ordered = self.scores[order]
        last = np.concatenate((ordered[1:] != ordered[:-1], [True])).astype(np.uint8)
        positive = self._kinds[1][order].astype(np.uint8)
        shares = np.array(list(_HM.values()))
        spams, hams, wrong, below = _core.rank_resampled(
            order, positive, last, starts, ends, shares
        )
        with np.errstate(invalid="ignore"):  # of a resampling without one of the classes
            found = {"one_minus_roca_percent": 100 * (wrong / 2) / (spams * hams)}
            for name, taken in zip(_HM, below.T, strict=True):
                found[name] = np.where(hams > 0, 100 * taken / spams, np.nan)
        return found
