"""What a run gave, message by message, and the figures of it or of any resampling of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

__all__ = ["FIGURES", "LEAST_PROBABILITY", "Outcomes", "lower_is_better"]

FIGURES = {
    "accuracy": "accuracy",
    "one_minus_roca_percent": "(1-ROCA)%",
    "sm_at_hm_0_1_percent": "sm% at hm% = .1",
    "sm_at_hm_0_5_percent": "sm% at hm% = .5",
    "sm_at_hm_1_percent": "sm% at hm% = 1",
    "hm_percent": "hm%",
    "sm_percent": "sm%",
    "lam_percent": "lam%",
    "log_loss": "log loss",
    "brier": "Brier score",
}
_HM = {"sm_at_hm_0_1_percent": 0.001, "sm_at_hm_0_5_percent": 0.005, "sm_at_hm_1_percent": 0.01}

LEAST_PROBABILITY = 1e-15  # that log loss reckons with, as river and scikit-learn

Weights = NDArray[np.float64]


def lower_is_better(figure: str) -> bool:
    """Whether a smaller value of a figure is the better one."""
    return figure != "accuracy"


def _logit(errors: float, n: float) -> float:
    p = (errors + 0.5) / (n + 1)
    return math.log(p / (1 - p))


@dataclass(frozen=True)
class Outcomes:
    """A run, message by message.

    Attributes
    ----------
    right
        bool, shape (n,): whether the class given was the true one.
    positive, claimed
        bool, shape (n,): whether the message is of the positive class, and was taken for it; None
        where there are not two classes.
    scores
        float64, shape (n,): log-odds of the positive class.
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

    @cached_property
    def _places(self) -> tuple[NDArray[np.intp], int]:
        """The place of each message among the distinct scores, and how many of those there are."""
        values, places = np.unique(self.scores, return_inverse=True)
        return places, len(values)

    @property
    def known(self) -> list[str]:
        """The figures that have a meaning for this run."""
        two = self.positive is not None and 0 < self.positive.sum() < len(self)
        means = [
            name
            for name, values in (("log_loss", self.losses), ("brier", self.squares))
            if values is not None
        ]
        ranks = [name for name in FIGURES if name not in ("accuracy", "log_loss", "brier")]
        return [name for name in FIGURES if name in ["accuracy", *means, *(ranks if two else ())]]

    def figure(self, name: str, weights: Weights | None = None) -> float:
        """One figure, each message counted `weights` times (None: once).

        Parameters
        ----------
        name
            One of `known`.
        weights
            float64 of whole numbers, shape (n,).
        """
        w = np.ones(len(self)) if weights is None else weights
        if name == "accuracy":
            return float(w @ self.right / w.sum())
        if name in ("log_loss", "brier"):
            values = self.losses if name == "log_loss" else self.squares
            return float(w @ np.asarray(values) / w.sum())
        if self.positive is None or self.claimed is None:
            raise ValueError(f"{name} needs two classes")
        ups, downs = w * self.positive, w * ~self.positive
        if not ups.any() or not downs.any():
            return math.nan  # a resampling without one of the classes
        if name == "one_minus_roca_percent":
            return self._one_minus_roca(ups, downs)
        if name in _HM:
            return self._sm_at_hm(ups, downs, _HM[name])
        false_alarms, misses = float(downs @ self.claimed), float(ups @ ~self.claimed)
        hams, spams = float(downs.sum()), float(ups.sum())
        if name == "hm_percent":
            return 100 * false_alarms / hams
        if name == "sm_percent":
            return 100 * misses / spams
        lam = (_logit(false_alarms, hams) + _logit(misses, spams)) / 2
        return 100 / (1 + math.exp(-lam))

    def _one_minus_roca(self, ups: Weights, downs: Weights) -> float:
        places, values = self._places
        up = np.bincount(places, ups, values)
        down = np.bincount(places, downs, values)
        above = down[::-1].cumsum()[::-1] - down
        # Whole numbers below 2^53, so the sums are exact.
        inversions = float(up @ above) + float(up @ down) / 2
        return 100 * inversions / (float(ups.sum()) * float(downs.sum()))

    def _sm_at_hm(self, ups: Weights, downs: Weights, hm: float) -> float:
        places, values = self._places
        from_the_top = np.bincount(places, downs, values)[::-1].cumsum()
        # The highest threshold that so many negatives do not exceed.
        at = values - 1 - int(np.searchsorted(from_the_top, int(hm * downs.sum()), side="right"))
        return 100 * float(ups[places <= at].sum() / ups.sum())

    def figures(self, weights: Weights | None = None) -> dict[str, float]:
        """All figures that have a meaning."""
        return {name: self.figure(name, weights) for name in self.known}
