"""Intervals by a block bootstrap over time: neighbouring messages err together."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from streamnb.evaluate.outcomes import Outcomes

RESAMPLES = 1000

Interval = tuple[float, float]


def blocks(
    n: int, times: int = RESAMPLES, seed: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Resample n messages in blocks, so many times over: where blocks begin and end.

    Blocks of sqrt(n) messages that follow each other, beginning anywhere, the last joined to the
    first (Politis and Romano 1992). Mail comes in campaigns and threads: a bootstrap of single
    messages would take a dozen copies of one mail for a dozen independent observations.

    References
    ----------
    Künsch, H. R. (1989). The jackknife and the bootstrap for general stationary observations.
    Annals of Statistics 17. Politis, D. N. and Romano, J. P. (1992). A circular block-resampling
    procedure for stationary data.

    Examples
    --------
    >>> from streamnb.evaluate.intervals import blocks
    >>> starts, ends = blocks(10, times=2)
    >>> starts.shape, (ends - starts).sum(axis=1).tolist()
    ((2, 4), [10, 10])
    """
    length = max(1, round(math.sqrt(n)))
    number = -(-n // length)
    lengths = np.full(number, length)
    lengths[-1] = n - length * (number - 1)
    starts = np.random.default_rng(seed).integers(0, n, (times, number))
    return starts, starts + lengths


def resample(run: Outcomes, times: int = RESAMPLES) -> dict[str, NDArray[np.float64]]:
    """Each figure of a run in so many resamplings: the same messages for runs over one stream.

    So the resampled figures of two runs can be subtracted: what is hard for both cancels out.
    """
    return run.resampled(*blocks(len(run), times))


def interval(values: NDArray[np.float64]) -> Interval:
    """The 95 % interval of a resampled figure."""
    good = np.sort(values[~np.isnan(values)])
    if not len(good):
        return math.nan, math.nan
    # What np.percentile gives, without its import of numpy.ma.
    last = len(good) - 1
    low, high = np.interp([0.025 * last, 0.975 * last], np.arange(len(good)), good)
    return float(low), float(high)
