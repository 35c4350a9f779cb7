"""A part of a table of counts in memory: the features of a few messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamnb.counts.memory import MemoryCounts
from streamnb.counts.protocol import Counts, Floats, Keys, Label, UnsupportedError
from streamnb.features.token_counts import TokenCounts


class SubsetCounts(MemoryCounts):
    """Counts of some features of a table, with the totals of the whole table.

    If it includes all features of a message that have a count, models give the same result for the
    message as with the whole table.
    """

    @property
    def features(self) -> int:
        """Number of features of the whole table that have a count."""
        return len(self.table) + self.table.unloaded


class BufferedCounts(SubsetCounts):
    """Counts checked out of a database, to learn in memory and write once.

    Parameters
    ----------
    fingerprints
        The features, shape (n,), sorted.
    cells
        Counts of the features, shape (n, K).
    store
        The counts of the database. A new class is added to its lists, too.

    Attributes
    ----------
    learned
        The features of each learned message.
    located
        The places of the features, which `store` needs for writing.
    """

    located: Any = None

    def __init__(self, fingerprints: Keys, cells: Floats, store: Counts) -> None:
        super().__init__()
        self.add_classes(store.labels)
        self.labels: list[Label] = store.labels
        self.weights: list[float] = store.weights
        is_counted = cells.any(axis=1)
        counted_cells = np.ascontiguousarray(cells[is_counted])
        self.table.load(fingerprints[is_counted], None, None, counted_cells, list(store.totals))
        self.table.unloaded = store.features - len(self.table)
        self.version: int = store.version
        self.learned: list[Keys] = []

    def add(
        self, tokens: TokenCounts, label: Label, weight: float, class_weight: float | None = None
    ) -> None:
        """Learn a message and record its features."""
        super().add(tokens, label, weight, class_weight)
        if weight:
            self.learned.append(tokens.fingerprints)

    def subtract(
        self, tokens: TokenCounts, label: Label, weight: float, class_weight: float | None = None
    ) -> None:
        """Raise UnsupportedError, because numbers of messages can only grow here."""
        raise UnsupportedError("checked-out counts do not support unlearning")

    def times(self) -> TokenCounts:
        """Return the number of learned messages of each feature, with the features' names."""
        fingerprints, _, names, ends = self.table.arrays()
        places = None if ends is None else ends.astype(np.uint32)
        learned = np.concatenate([*self.learned, fingerprints[:0]])
        # leave out features without a change
        learned = learned[np.isin(learned, fingerprints)]
        indices = np.searchsorted(fingerprints, learned)
        times = np.bincount(indices, minlength=len(fingerprints)).astype(np.float64)
        return TokenCounts.unchecked(fingerprints, times, names, places).select(times > 0)
