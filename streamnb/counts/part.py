"""Some features of a table of counts, in memory: those that a few messages have."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamnb.counts.memory import MemoryCounts
from streamnb.counts.protocol import Counts, Floats, Keys, Label, UnsupportedError
from streamnb.features.token_counts import TokenCounts


class SubsetCounts(MemoryCounts):
    """Counts of some features, which know how many there are beside them.

    To a model they are the whole table, as long as messages have no other features that are
    counted.
    """

    @property
    def features(self) -> int:
        """Number of features that have a count, here and unloaded."""
        return len(self.table) + self.table.unloaded


class BufferedCounts(SubsetCounts):
    """What a store lends, and takes back with what was learned meanwhile.

    Parameters
    ----------
    fingerprints
        The features, shape (n,), rising.
    cells
        Their counts, shape (n, K).
    store
        Who lends: a class that comes new comes into its own lists, too.

    Attributes
    ----------
    learned
        The features of each message that was learned.
    found
        What the store wants to find again.
    """

    found: Any = None

    def __init__(self, fingerprints: Keys, cells: Floats, store: Counts) -> None:
        super().__init__()
        self.add_classes(store.labels)
        self.labels, self.weights = store.labels, store.weights
        known = cells.any(axis=1)
        some = np.ascontiguousarray(cells[known])
        self.table.load(fingerprints[known], None, None, some, list(store.totals))
        self.table.unloaded = store.features - len(self.table)
        self.version = store.version
        self.learned: list[Keys] = []

    def add(
        self, tokens: TokenCounts, label: Label, weight: float, class_weight: float | None = None
    ) -> None:
        """As of all counts; what was learned is noted."""
        super().add(tokens, label, weight, class_weight)
        if weight:
            self.learned.append(tokens.fingerprints)

    def subtract(
        self, tokens: TokenCounts, label: Label, weight: float, class_weight: float | None = None
    ) -> None:
        """Not here: in how many messages a feature was is counted upwards."""
        raise UnsupportedError("nothing is taken back of counts that are lent")

    def times(self) -> TokenCounts:
        """In how many messages each feature was learned, as counts, with its name."""
        fingerprints, _, names, ends = self.table.arrays()
        places = None if ends is None else ends.astype(np.uint32)
        learned = np.concatenate([*self.learned, fingerprints[:0]])
        learned = learned[np.isin(learned, fingerprints)]  # not those that it added nothing to
        at = np.searchsorted(fingerprints, learned)
        times = np.bincount(at, minlength=len(fingerprints)).astype(np.float64)
        return TokenCounts.unchecked(fingerprints, times, names, places).select(times > 0)
