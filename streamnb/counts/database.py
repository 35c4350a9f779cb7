"""Counts in a database, read only for the features of a message."""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb._core import SparseRows, read_blocks
from streamnb.counts.memory import BufferedCounts
from streamnb.counts.places import (
    BLOCK,
    LAST_DAY,
    MOST_PLACES,
    Page,
    Places,
    distinct,
    locate_features,
    positions,
)
from streamnb.counts.protocol import (
    Bools,
    Counts,
    Floats,
    Ints,
    Keys,
    Label,
    UnsupportedError,
    check_labels,
    distinct_labels,
)
from streamnb.database import Database
from streamnb.errors import damage_error
from streamnb.features.token_counts import TokenCounts
from streamnb.storage import label_from_json, label_to_json


def today() -> int:
    """Return the days since 1970, at most the largest day of a block."""
    return min(max(0, int(time.time() // 86400)), LAST_DAY)


def is_rare(usage: NDArray[np.uint32], day: float) -> Bools:
    """Return whether each feature was last learned before `day`, and in at most one message."""
    return (usage[:, 0] <= 1) & (usage[:, 1].astype(np.int64) < day)


def _class_sums(cells: SparseRows, classes: int) -> list[float]:
    """Return the exact sum of the counts of each class."""
    order = np.argsort(cells.classes, kind="stable")
    ends = np.cumsum(np.bincount(cells.classes, minlength=classes))
    columns = np.split(cells.counts[order], ends)[:classes]
    return [math.fsum(column.tolist()) for column in columns]


class SqlCounts(Places):
    """The counts of one view in a database; use it as a `Counts` within a transaction.

    The parameters are those of `Places`.
    """

    in_transaction: ClassVar[bool] = True
    scale: float = 1.0
    decay_halvings: int = 0
    evictions: int = 0
    labels: list[Label]
    places: int

    def __init__(self, database: Database, view: int) -> None:
        super().__init__(database, view)
        self.weights: list[float] = []
        self.totals: list[float] = []
        self.features: int = 0

    def state(self) -> dict[str, Any]:
        """Return the numbers that every prediction needs, as JSON values."""
        return {
            "labels": [label_to_json(label) for label in self.labels],
            "weights": self.weights,
            "totals": self.totals,
            "features": self.features,
            "places": self.places,
        }

    def load(self, state: Any) -> None:
        """Restore from the result of `state`. Damaged data raises an exception of any type."""
        self.labels = [label_from_json(pair) for pair in state["labels"]]
        self.weights = [float(x) for x in state["weights"]]
        self.totals = [float(x) for x in state["totals"]]
        self.features, self.places = int(state["features"]), int(state["places"])
        if not len(self.labels) == len(self.weights) == len(self.totals):
            raise ValueError("labels, weights and totals do not match")
        if not 0 <= self.features <= self.places < MOST_PLACES:
            raise ValueError("the number of features exceeds the number of places")
        self.forget()

    @property
    def free_slots(self) -> int:
        """Number of places of features that have no count."""
        return self.places - self.features

    def decay(self, decay: float) -> None:
        """Raise UnsupportedError: counts in a database do not decay."""
        raise UnsupportedError("counts in a database do not support decay; use decay=1")

    def evict(self, max_features: int) -> None:
        """Raise UnsupportedError, because a database is compacted instead."""
        raise UnsupportedError("max_features is for counts in memory; compact the database instead")

    def index(self, label: Label) -> int | None:
        """Return the column of a class, None for an unknown class."""
        return self.labels.index(label) if label in self.labels else None

    def add_classes(self, labels: Iterable[Label]) -> None:
        """Add classes without messages."""
        new = [label for label in distinct_labels(labels) if label not in self.labels]
        check_labels(new)
        for label in new:
            self.labels.append(label)
            self.weights.append(0.0)
            self.totals.append(0.0)
        self._mark_changed()

    def _cells(self, fingerprints: Keys) -> SparseRows:
        """Return the counts of features, without entries for unknown ones."""
        located = self._read(fingerprints)
        rows = np.full(len(fingerprints), -1, np.int64)
        rows[located.places >= 0] = located.rows
        return located.page.cells.take(rows)

    def get_counts(self, fingerprints: Keys) -> tuple[Floats, NDArray[np.uint8]]:
        """Return the counts (n, K) of features, and a mask of the features with a count."""
        cells = self._cells(fingerprints)
        return cells.dense(len(self.labels)), cells.is_counted.view(np.uint8)

    def log_likelihood_grid(
        self,
        tokens: TokenCounts,
        alpha: float,
        factors: list[float],
        unseen: bool,
        complement: bool = False,
        length_norm: float = 0.0,
        length_power: float = 0.0,
    ) -> tuple[array[float], int]:
        """Return log-likelihoods as `Counts.log_likelihood_grid` defines them."""
        return self._cells(tokens.fingerprints).log_likelihood_grid(
            tokens.counts, self.totals, self.features, alpha, factors, unseen, complement,
            length_norm, length_power,
        )  # fmt: skip

    def add(
        self, tokens: TokenCounts, label: Label, weight: float, class_weight: float | None = None
    ) -> None:
        """Learn a message, completely or not at all, as part of the transaction.

        Its counts are multiplied by `weight`. `class_weight` is added to the weight of the class;
        None stands for `weight`.
        """
        if label not in self.labels:
            self.add_classes((label,))
        k = self.labels.index(label)
        if weight and len(tokens):
            located = self._read(tokens.fingerprints)
            if (located.places < 0).any():
                located = self._with_places(located, tokens)
            page, rows = located.page, located.rows
            amounts = tokens.counts * weight
            cells = page.cells.take(rows)
            page.usage[rows, 0] += 1
            page.usage[rows, 1] = today()
            self.totals[k] += math.fsum(amounts.tolist())
            self._set_rows(page, rows, cells, cells.with_column(k, cells.column(k) + amounts))
        self.weights[k] += weight if class_weight is None else class_weight
        self._mark_changed()

    def _set_rows(self, page: Page, rows: Ints, before: SparseRows, after: SparseRows) -> None:
        """Write other counts of rows, and update the number of features with a count."""
        self.features += int(after.is_counted.sum()) - int(before.is_counted.sum())
        self._write(page._replace(cells=page.cells.with_rows(rows, after)), rows)

    def checkout(self, messages: Sequence[TokenCounts]) -> BufferedCounts:
        """Return the counts of all features of these messages, to learn the messages in memory.

        Do not learn other messages before `commit` has written them.
        """
        all_fingerprints = np.concatenate(
            [np.empty(0, np.uint64), *[message.fingerprints for message in messages]]
        )
        fingerprints = distinct(all_fingerprints)
        buffer = BufferedCounts(fingerprints, self._cells(fingerprints), self)
        buffer.located = self._read(fingerprints)
        return buffer

    def commit(self, buffer: BufferedCounts) -> None:
        """Write the counts that changed in a buffer from `checkout`."""
        self.totals, self.features = buffer.totals, buffer.features
        times, cells = buffer.learned_rows()
        if len(times):
            places = buffer.located.places.copy()
            indices = np.searchsorted(buffer.located.fingerprints, times.fingerprints)
            located = locate_features(times.fingerprints, places[indices], buffer.located.page)
            if (located.places < 0).any():
                located = self._with_places(located, times)
            page, rows = located.page, located.rows
            page.usage[rows, 0] += times.counts.astype(np.uint32)
            page.usage[rows, 1] = today()
            self._write(page._replace(cells=page.cells.with_rows(rows, cells)), rows)
            places[indices] = located.places
            self._place_cache = buffer.located.fingerprints, places
        self._mark_changed()

    def subtract(
        self, tokens: TokenCounts, label: Label, weight: float, class_weight: float | None = None
    ) -> None:
        """Unlearn a message, or raise ValueError and change nothing."""
        class_weight = weight if class_weight is None else class_weight
        k = self.index(label)
        class_weight_after = (
            -1.0 if k is None else _core.subtract_exactly(self.weights[k], class_weight)
        )
        if k is None or class_weight_after < 0:
            raise ValueError(
                f"cannot unlearn weight {class_weight:g} of class {label!r:.80}: it is more than "
                "the learned weight"
            )
        if weight and len(tokens):
            self._take(tokens, k, weight)
        self.weights[k] = class_weight_after
        self._mark_changed()

    def _take(self, tokens: TokenCounts, k: int, weight: float) -> None:
        located = self._read(tokens.fingerprints)
        if (located.places < 0).any():
            raise ValueError("cannot unlearn: a feature was never learned")
        page, rows = located.page, located.rows
        amounts = tokens.counts * weight
        cells = page.cells.take(rows)
        column = cells.column(k)
        differences = column - amounts
        # sums of fractions can differ by rounding
        differences[np.abs(differences) <= 1e-12 * column] = 0.0
        if (differences < 0).any() or (page.usage[rows, 0] < 1).any():
            raise ValueError("cannot unlearn: a count would fall below zero")
        page.usage[rows, 0] -= 1
        self.totals[k] = max(0.0, self.totals[k] - math.fsum((column - differences).tolist()))
        self._set_rows(page, rows, cells, cells.with_column(k, differences))

    def add_matrix(
        self, tokens: TokenCounts, sums: Floats, labels: Sequence[Label], weights: Sequence[float]
    ) -> None:
        """Learn messages by their sums, shape (n, K) with a column for each of `labels`."""
        for column, label, weight in zip(sums.T, labels, weights, strict=True):
            present = tokens.select(column > 0)
            part = TokenCounts.unchecked(
                present.fingerprints, column[column > 0], present.names, present.ends
            )
            self.add(part, label, 1.0, weight)

    def items(self) -> tuple[Keys, Floats]:
        """Return all features (V,) and their counts (V, K)."""
        fingerprints, cells, _, _ = self.rows()
        return fingerprints, cells.dense(len(self.labels))

    def parts(self) -> Iterator[tuple[Keys, Floats]]:
        """Yield the result of `items` as one part."""
        yield self.items()

    def rows(self) -> tuple[Keys, SparseRows, NDArray[np.uint32], list[bytes | None]]:
        """Return fingerprints, counts, `Page.usage` and names of all features with a count."""
        run = self.database.connection.execute
        named = run(f"SELECT name FROM features_{self.view} ORDER BY fingerprint").fetchall()  # noqa: S608
        if not all(name is None or isinstance(name, bytes) for (name,) in named):
            raise damage_error(self.database.path, "a feature's name is not valid")
        located = self._locate_all()
        rows = located.rows
        is_counted = located.page.cells.is_counted[rows]
        names = [
            name for (name,), is_named in zip(named, is_counted.tolist(), strict=True) if is_named
        ]
        return (
            located.fingerprints[is_counted],
            located.page.cells.take(rows[is_counted]),
            located.page.usage[rows][is_counted],
            names,
        )

    def count_histogram(self) -> tuple[Floats, Floats]:
        """Raise UnsupportedError: no model of a database needs it."""
        raise UnsupportedError("counts in a database have no histogram")

    def merge(self, other: Counts) -> None:
        """Raise UnsupportedError: databases are merged by their ledgers."""
        raise UnsupportedError("counts in a database cannot be merged; run `streamnb merge`")

    def check_merge(self, other: Counts) -> None:
        """Raise UnsupportedError."""
        self.merge(other)

    def clear(self) -> None:
        """Reset to the state of a new database."""
        self.labels, self.weights, self.totals = [], [], []
        self.features = self.places = 0
        self._place_cache = None
        self._mark_changed()

    def drop(self, fingerprints: Keys, day: float) -> int:
        """Drop features that only one message had, learned before `day`; return their number."""
        located = self._read(fingerprints)
        page, rows = located.page, located.rows
        rows = rows[is_rare(page.usage[rows], day) & page.cells.is_counted[rows]]
        cells = page.cells.take(rows)
        for k, dropped in enumerate(_class_sums(cells, len(self.labels))):
            self.totals[k] = max(0.0, self.totals[k] - dropped)
        page.usage[rows] = 0
        self._set_rows(page, rows, cells, cells.take(np.full(len(rows), -1)))
        self._mark_changed()
        return len(rows)

    def replace(self, fingerprints: Keys, cells: SparseRows, times: Floats) -> None:
        """Replace all counts; `times` is the number of messages of each feature.

        Stored features keep their names and places.
        """
        stored = self._locate_all()
        page = stored.page
        page.usage[:, 0] = 0
        page = page._replace(cells=page.cells.take(np.full(len(page.cells), -1)))
        order, keys = stored.fingerprints.view(np.int64), fingerprints.view(np.int64)
        indices, is_stored = positions(order, keys)
        places = np.full(len(keys), -1, dtype=np.int64)
        places[is_stored] = stored.places[indices[is_stored]]
        located = locate_features(fingerprints, places, page)
        if (places < 0).any():
            located = self._with_places(
                located, TokenCounts.unchecked(fingerprints, times, None, None)
            )
        page, rows = located.page, located.rows
        page.usage[rows, 0] = times
        page.usage[rows[page.usage[rows, 1] == 0], 1] = today()
        self._write_all(page._replace(cells=page.cells.with_rows(rows, cells)))

    def lay_out(self) -> None:
        """Rewrite all features with a count, so the most frequent ones share blocks.

        This changes places, so packed ledger rows must be rewritten, too.
        """
        fingerprints, cells, usage, names = self.rows()
        order = np.argsort(-usage[:, 0].astype(np.int64), kind="stable")
        run = self.database.connection.execute
        run(f"DELETE FROM features_{self.view}")  # noqa: S608 (a number)
        run(f"DELETE FROM blocks_{self.view}")  # noqa: S608 (a number)
        places = np.empty(len(order), dtype=np.int64)
        places[order] = np.arange(len(order))
        by_key = np.argsort(fingerprints.view(np.int64))
        self.database.connection.executemany(
            f"INSERT INTO features_{self.view} VALUES (?, ?, ?)",  # noqa: S608 (a number)
            zip(
                fingerprints.view(np.int64)[by_key].tolist(),
                places[by_key].tolist(),
                (names[i] for i in by_key.tolist()),
                strict=True,
            ),
        )
        self.places = len(order)
        blocks = np.arange(-(-len(order) // BLOCK))
        fresh = Page(blocks, *read_blocks([None] * len(blocks), 0))
        fresh.keys[: len(order)] = fingerprints[order]
        fresh.usage[: len(order)] = usage[order]
        counted = fresh.cells.with_rows(np.arange(len(order)), cells.take(order))
        self._write_all(fresh._replace(cells=counted))

    def _write_all(self, page: Page) -> None:
        """Write all rows of a page and recompute the totals."""
        self._write(page, np.arange(len(page.cells)))
        self.totals = _class_sums(page.cells, len(self.labels))
        self.features = int(page.cells.is_counted.sum())
        self._place_cache = None
        self._mark_changed()
