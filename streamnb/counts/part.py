"""A part of a table of counts in memory: the features of a few messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamnb._core import SparseRows
from streamnb.counts.memory import MemoryCounts
from streamnb.counts.protocol import Counts, Keys, Label, UnsupportedError
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
        Counts of the features.
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

    def __init__(self, fingerprints: Keys, cells: SparseRows, store: Counts) -> None:
        super().__init__()
        self.add_classes(store.labels)
        self.labels: list[Label] = store.labels
        self.weights: list[float] = store.weights
        is_counted = cells.is_counted
        self.table.load(
            fingerprints[is_counted], cells.ends[is_counted], cells.classes, cells.counts,
            list(store.totals),
        )  # fmt: skip
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

    def learned_rows(self) -> tuple[TokenCounts, SparseRows]:
        """Return the number of learned messages of each feature, with names, and their counts."""
        fingerprints, row_ends, classes, counts, names, ends = self.table.entries()
        places = None if ends is None else ends.astype(np.uint32)
        learned = np.concatenate([*self.learned, fingerprints[:0]])
        # leave out features without a change
        learned = learned[np.isin(learned, fingerprints)]
        indices = np.searchsorted(fingerprints, learned)
        times = np.bincount(indices, minlength=len(fingerprints)).astype(np.float64)
        tokens = TokenCounts.unchecked(fingerprints, times, names, places).select(times > 0)
        return tokens, SparseRows(row_ends, classes, counts).take(np.flatnonzero(times > 0))
