"""The features that speak most for each class, found without sorting all of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from streamnb.counts.protocol import Floats, Keys


def margin_over_runner_up(weights: Floats) -> Floats:
    """Weights (n, K) less the largest of the other classes in each row, or 0 where there is none.

    Examples
    --------
    >>> margin_over_runner_up(np.array([[3.0, 1.0, 2.0]])).tolist()
    [[1.0, -2.0, -1.0]]
    """
    best = np.full(len(weights), -np.inf)
    second = best if weights.shape[1] > 1 else np.zeros(len(weights))
    for column in weights.T:
        second = np.maximum(second, np.minimum(best, column))
        best = np.maximum(best, column)
    is_best = weights == best[:, None]
    return weights - np.where(is_best, second[:, None], best[:, None])


class TopFeatures:
    """The n features of the largest gain for each of K classes, of parts that come one by one.

    Of equal gains, those with the smaller fingerprint, so that the order has no history. It holds
    at most a few times what it will give, and a part.

    Parameters
    ----------
    classes : int
        How many classes.
    n : int
        How many features of each are wanted.

    Examples
    --------
    >>> strongest = TopFeatures(classes=2, n=1)
    >>> strongest.add(np.array([7, 9], np.uint64), np.array([[1.0, -1.0], [-2.0, 2.0]]))
    >>> strongest.found()
    [[(7, 1.0)], [(9, 2.0)]]
    """

    def __init__(self, classes: int, n: int) -> None:
        self.n = max(n, 0)
        self.most = 2 * self.n * classes
        # Of each class: the gain of the last that is wanted, and its fingerprint.
        self.least = np.full(classes, -np.inf)
        self.last = np.full(classes, np.iinfo(np.uint64).max, dtype=np.uint64)
        # What is held: class, fingerprint, gain.
        self.columns = np.empty(0, np.int64)
        self.fingerprints = np.empty(0, np.uint64)
        self.gains = np.empty(0)

    def add(self, fingerprints: Keys, gains: Floats) -> None:
        """Take more features (m,) and what each says for each class (m, K)."""
        least = self.least
        if len(gains) > self.n > 0 and np.isneginf(least).any():
            # What is not among this part's own n largest cannot be among those of all.
            least = np.maximum(least, np.partition(gains, -self.n, axis=0)[-self.n])
        rows, columns = np.nonzero(gains >= least)
        found, values = fingerprints[rows], gains[rows, columns]
        some = (values > self.least[columns]) | (found <= self.last[columns])
        self.columns = np.append(self.columns, columns[some])
        self.fingerprints = np.append(self.fingerprints, found[some])
        self.gains = np.append(self.gains, values[some])
        if len(self.columns) > self.most:
            self._sort()

    def found(self) -> list[list[tuple[int, float]]]:
        """Fingerprints and gains of each class, the largest first."""
        self._sort()
        pairs = list(zip(self.fingerprints.tolist(), self.gains.tolist(), strict=True))
        ends = np.searchsorted(self.columns, np.arange(len(self.least) + 1)).tolist()
        return [pairs[start:end] for start, end in pairwise(ends)]

    def _sort(self) -> None:
        """Put in order what is held, and drop what is too much of a class."""
        order = np.lexsort((self.fingerprints, -self.gains, self.columns))
        columns = self.columns[order]
        starts = np.searchsorted(columns, np.arange(len(self.least)))
        rank = np.arange(len(columns)) - starts[columns]
        kept = order[rank < self.n]
        last = order[rank == self.n - 1]
        self.least[self.columns[last]] = self.gains[last]
        self.last[self.columns[last]] = self.fingerprints[last]
        self.columns, self.fingerprints = self.columns[kept], self.fingerprints[kept]
        self.gains = self.gains[kept]
