"""The figures of a whole run."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

BINS = 10


@dataclass(frozen=True)
class ClassFigures:
    """How well one class was told from the others."""

    messages: int
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class Bin:
    """Messages of which a class was claimed with a probability from `low` to `high`.

    Attributes
    ----------
    low, high
        Bounds of the probability.
    messages
        How many there are.
    claimed
        The mean of their probabilities.
    true
        The share of them for which it was so.
    """

    low: float
    high: float
    messages: int
    claimed: float
    true: float


@dataclass(frozen=True)
class Summary:
    """Figures of a whole run; None where a figure has no meaning (no message, not two classes).

    Attributes
    ----------
    messages
        How many were classified.
    accuracy, accuracy_interval
        Share classified right, and its 95 % Wilson interval, as if messages were independent.
    kappa, kappa_temporal
        What accuracy is better than a guess by the classes' shares (Cohen 1960), and than saying
        the class of the message before (Žliobaitė et al. 2015); 1 is best, 0 no better.
    log_loss
        Mean of -log of the probability given to the true class, that taken as at least 1e-15; one
        half before two classes are known.
    brier
        Mean squared error of the probabilities, summed over the classes and halved.
    expected_calibration_error, reliability
        Mean distance between the probability claimed and the share that came true, over ten bins,
        and those bins: of the positive class where there are two, else of the class given.
    macro_precision, macro_recall, macro_f1
        Means over the classes that occur.
    classes
        Messages, precision, recall and F1 of each class.
    confusion
        How often each class (first key) was taken for which (second key; "?" before anything was
        learned).
    positive
        The class that scores are for.
    one_minus_roca_percent
        100 times the probability that a random negative scores above a random positive.
    sm_at_hm_0_1_percent, sm_at_hm_0_5_percent, sm_at_hm_1_percent
        Percent of positives missed at the threshold that misjudges .1, .5 or 1 % of the negatives.
    hm_percent, sm_percent
        Negatives and positives misjudged.
    lam_percent
        Logistic average of hm and sm, each smoothed as (errors + .5) / (n + 1).
    score_ties_percent
        Messages whose score another one shares.
    intervals
        95 % intervals of the figures, by a block bootstrap over time.
    """

    messages: int
    accuracy: float | None = None
    accuracy_interval: tuple[float, float] | None = None
    kappa: float | None = None
    kappa_temporal: float | None = None
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
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    reliability: list[Bin] = field(default_factory=list)

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


def kappa(right: float, by_chance: float) -> float:
    """How far agreement is better than chance; 0 where chance is always right."""
    return (right - by_chance) / (1 - by_chance) if by_chance < 1 else 0.0


def reliability(claimed: NDArray[np.float64], true: NDArray[np.bool_]) -> list[Bin]:
    """Compare probabilities with what came true, in ten bins; those without a message are left out.

    Examples
    --------
    >>> import numpy as np
    >>> reliability(np.array([0.91, 0.99, 0.2]), np.array([True, False, False]))[1]
    Bin(low=0.9, high=1.0, messages=2, claimed=0.95, true=0.5)
    """
    places = np.minimum((claimed * BINS).astype(int), BINS - 1)
    bins = []
    for place in sorted(set(places.tolist())):
        mine = places == place
        low, high = place / BINS, (place + 1) / BINS
        share = float(claimed[mine].mean())
        bins.append(Bin(low, high, int(mine.sum()), share, float(true[mine].mean())))
    return bins


def calibration_error(bins: list[Bin]) -> float:
    """Expected calibration error (Naeini, Cooper and Hauskrecht 2015) of a reliability table."""
    messages = sum(one.messages for one in bins)
    return math.fsum(one.messages * abs(one.claimed - one.true) for one in bins) / messages
