"""Intervals by a block bootstrap over time: neighbouring messages err together."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from streamnb.evaluate.outcomes import Outcomes

__all__ = ["RESAMPLES", "difference_intervals", "intervals", "resamplings"]

RESAMPLES = 1000

Interval = tuple[float, float]


def resamplings(n: int, times: int = RESAMPLES, seed: int = 1) -> Iterator[NDArray[np.float64]]:
    """Resample n messages in blocks: how often each is taken, so many times over.

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
    >>> from streamnb.evaluate.intervals import resamplings
    >>> [(len(taken), float(taken.sum())) for taken in resamplings(10, times=2)]
    [(10, 10.0), (10, 10.0)]
    """
    rng = np.random.default_rng(seed)
    block = max(1, round(math.sqrt(n)))
    blocks = -(-n // block)
    for _ in range(times):
        starts = rng.integers(0, n, blocks)
        lengths = np.full(blocks, block)
        lengths[-1] = n - block * (blocks - 1)
        steps = np.bincount(starts, minlength=2 * n + 1) - np.bincount(
            starts + lengths, minlength=2 * n + 1
        )
        taken = np.cumsum(steps)
        yield (taken[:n] + taken[n : 2 * n]).astype(np.float64)


def _percentiles(values: NDArray[np.float64]) -> Interval:
    good = values[~np.isnan(values)]
    if not len(good):
        return math.nan, math.nan
    low, high = np.percentile(good, [2.5, 97.5])
    return float(low), float(high)


def intervals(run: Outcomes, times: int = RESAMPLES) -> dict[str, Interval]:
    """95 % interval of each figure of a run."""
    drawn = [run.figures(taken) for taken in resamplings(len(run), times)]
    return {name: _percentiles(np.array([one[name] for one in drawn])) for name in run.known}


def difference_intervals(
    run: Outcomes, other: Outcomes, times: int = RESAMPLES
) -> dict[str, Interval]:
    """95 % interval of the difference, run minus other, of each figure both have.

    The same messages are drawn for both, so what is hard for both cancels out.
    """
    names = [name for name in run.known if name in other.known]
    drawn = [
        [run.figure(name, taken) - other.figure(name, taken) for name in names]
        for taken in resamplings(len(run), times)
    ]
    columns = np.array(drawn).reshape(times, len(names)).T
    return {name: _percentiles(column) for name, column in zip(names, columns, strict=True)}
