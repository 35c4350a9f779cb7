"""Counts in a database: only what a message asks for is ever read."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.counts.blocks import BLOCK, LAST_DAY, Page, distinct, joined, positions
from streamnb.counts.part import BufferedCounts
from streamnb.counts.places import MOST_PLACES, Places, Store, found_of
from streamnb.counts.protocol import (
    Bools,
    Counts,
    Floats,
    Keys,
    Label,
    UnsupportedError,
    check_labels,
)
from streamnb.errors import corrupted
from streamnb.features.token_counts import TokenCounts
from streamnb.storage import label_from_json, label_to_json


def today() -> int:
    """Days since 1970, as far as a block has room for what the clock says."""
    return min(max(0, int(time.time() // 86400)), LAST_DAY)


def is_rare(seen: NDArray[np.uint32], day: float) -> Bools:
    """Which features one message had, and none since that day; `seen` as `Page` has it."""
    return (seen[:, 0] <= 1) & (seen[:, 1].astype(np.int64) < day)


class SqlCounts(Places):
    """The counts of one view; a `Counts` within a transaction of a database.

    It is made as `Places` are.
    """

    scale = 1.0
    decay_halvings = 0

    def __init__(self, database: Store, view: int) -> None:
        super().__init__(database, view)
        self.weights: list[float] = []
        self.totals: list[float] = []
        self.features = 0

    def state(self) -> dict[str, Any]:
        """The few numbers that every classification needs, as JSON can hold them."""
        return {
            "labels": [label_to_json(label) for label in self.labels],
            "weights": self.weights,
            "totals": self.totals,
            "features": self.features,
            "places": self.places,
        }

    def load(self, state: Any) -> None:
        """Take over what `state` gave; any exception where it is not sound."""
        self.labels = [label_from_json(pair) for pair in state["labels"]]
        self.weights = [float(x) for x in state["weights"]]
        self.totals = [float(x) for x in state["totals"]]
        self.features, self.places = int(state["features"]), int(state["places"])
        if not len(self.labels) == len(self.weights) == len(self.totals):
            raise ValueError("labels, weights and totals do not belong together")
        if not 0 <= self.features <= self.places < MOST_PLACES:
            raise ValueError("more features than places")
        self._forget()

    @property
    def free_slots(self) -> int:
        """Number of places of features that have no count."""
        return self.places - self.features

    def decay(self, decay: float) -> None:
        """Not here: what a database counts does not age."""
        raise UnsupportedError("counts in a database do not age")

    def index(self, label: Label) -> int | None:
        """The column of a class, or None where it is not known."""
        return self.labels.index(label) if label in self.labels else None

    def add_classes(self, labels: Iterable[Label]) -> None:
        """Make classes known that nothing has been learned of."""
        new = [label for label in dict.fromkeys(labels) if label not in self.labels]
        check_labels(new)
        for label in new:
            self.labels.append(label)
            self.weights.append(0.0)
            self.totals.append(0.0)
        self._changed()

    def get_counts(self, fingerprints: Keys) -> tuple[Floats, NDArray[np.uint8]]:
        """Counts (n, K) of features, and which of them have any."""
        found = self._read(fingerprints)
        cells = np.zeros((len(fingerprints), len(self.labels)))
        cells[found.places >= 0] = found.page.cells[found.rows]
        seen: NDArray[np.uint8] = np.any(cells, axis=1).astype(np.uint8)
        return cells, seen

    def log_likelihood_sums(
        self, tokens: TokenCounts, alpha: float, background: float, unseen: bool
    ) -> tuple[list[float], int]:
        """As the protocol says."""
        cells, seen = self.get_counts(tokens.fingerprints)
        mask = None if unseen else seen
        return _core.log_likelihood_sums(
            cells, mask, tokens.counts, self.totals, self.features, alpha, background
        )

    def log_likelihood_grid(
        self, tokens: TokenCounts, alphas: list[float], background: float, unseen: bool
    ) -> tuple[list[list[float]], int]:
        """Return `log_likelihood_sums` for each alpha, as the protocol says."""
        cells, seen = self.get_counts(tokens.fingerprints)
        mask = None if unseen else seen
        grid, used = [], 0
        for alpha in alphas:
            values, used = _core.log_likelihood_sums(
                cells, mask, tokens.counts, self.totals, self.features, alpha, background
            )
            grid.append(values)
        return grid, used

    def add(
        self, tokens: TokenCounts, label: Label, weight: float, class_weight: float | None = None
    ) -> None:
        """Learn a message: all of it or nothing, as the transaction has it.

        Its counts are multiplied by `weight`. `class_weight` is added to the weight of the class;
        None stands for `weight`.
        """
        self.add_classes((label,)) if label not in self.labels else None
        k = self.labels.index(label)
        if weight and len(tokens):
            found = self._read(tokens.fingerprints)
            if (found.places < 0).any():
                found = self._with_places(found, tokens)
            page, rows = found.page, found.rows
            amounts = tokens.counts * weight
            before = page.cells[rows].any(axis=1)
            page.cells[rows, k] += amounts
            page.seen[rows, 0] += 1
            page.seen[rows, 1] = today()
            self.totals[k] += math.fsum(amounts.tolist())
            self.features += int((page.cells[rows].any(axis=1) & ~before).sum())
            self._write(page, rows)
        self.weights[k] += weight if class_weight is None else class_weight
        self._changed()

    def checkout(self, messages: Sequence[TokenCounts]) -> BufferedCounts:
        """What is counted of the features of some messages, so that they are learned in memory.

        Until `take_in` has written what was learned there, nothing is to be learned here.
        """
        some = np.concatenate([np.empty(0, np.uint64), *[of.fingerprints for of in messages]])
        fingerprints = distinct(some)
        cells, _ = self.get_counts(fingerprints)
        lent = BufferedCounts(fingerprints, cells, self)
        lent.found = self._read(fingerprints)
        return lent

    def commit(self, lent: BufferedCounts) -> None:
        """Write what was learned in counts that were lent."""
        self.totals, self.features = lent.totals, lent.features
        times = lent.times()
        if len(times):
            page = lent.found.page
            if page.cells.shape[1] < len(self.labels):  # classes have come since
                page = joined(len(self.labels), page)
            places = lent.found.places.copy()
            at = np.searchsorted(lent.found.fingerprints, times.fingerprints)
            found = found_of(times.fingerprints, places[at], page)
            if (found.places < 0).any():
                found = self._with_places(found, times)
            page, rows = found.page, found.rows
            page.cells[rows] = lent.get_counts(times.fingerprints)[0]
            page.seen[rows, 0] += times.counts.astype(np.uint32)
            page.seen[rows, 1] = today()
            self._write(page, rows)
            places[at] = found.places
            self._known = lent.found.fingerprints, places
        self._changed()

    def subtract(
        self, tokens: TokenCounts, label: Label, weight: float, class_weight: float | None = None
    ) -> None:
        """Unlearn a message, or raise ValueError and change nothing."""
        class_weight = weight if class_weight is None else class_weight
        k = self.index(label)
        left = -1.0 if k is None else _core.subtract_exactly(self.weights[k], class_weight)
        if k is None or left < 0:
            raise ValueError(f"cannot unlearn weight {class_weight:g} of class {label!r:.80}")
        if weight and len(tokens):
            self._take(tokens, k, weight)
        self.weights[k] = left
        self._changed()

    def _take(self, tokens: TokenCounts, k: int, weight: float) -> None:
        found = self._read(tokens.fingerprints)
        if (found.places < 0).any():
            raise ValueError("cannot unlearn: a feature was never learned")
        page, rows = found.page, found.rows
        amounts = tokens.counts * weight
        column = page.cells[rows, k]
        rest = column - amounts
        rest[np.abs(rest) <= 1e-12 * column] = 0.0  # of sums that are not exact
        if (rest < 0).any() or (page.seen[rows, 0] < 1).any():
            raise ValueError("cannot unlearn: more than was learned of a feature")
        before = page.cells[rows].any(axis=1)
        page.cells[rows, k] = rest
        page.seen[rows, 0] -= 1
        left = page.cells[rows].any(axis=1)
        self.totals[k] = max(0.0, self.totals[k] - math.fsum((column - rest).tolist()))
        self.features -= int((before & ~left).sum())
        self._write(page, rows)

    def add_matrix(
        self, tokens: TokenCounts, sums: Floats, labels: Sequence[Label], weights: Sequence[float]
    ) -> None:
        """Learn many messages summed up; `sums` has a column for each of `labels`."""
        for column, label, weight in zip(sums.T, labels, weights, strict=True):
            some = tokens.select(column > 0)
            part = TokenCounts.unchecked(
                some.fingerprints, column[column > 0], some.names, some.ends
            )
            self.add(part, label, 1.0, weight)

    def items(self) -> tuple[Keys, Floats]:
        """Every feature (V,) and its counts (V, K): not for a single message."""
        fingerprints, cells, _, _ = self.rows()
        return fingerprints, cells

    def parts(self) -> Iterator[tuple[Keys, Floats]]:
        """As `everything`, in one part."""
        yield self.items()

    def rows(self) -> tuple[Keys, Floats, NDArray[np.uint32], list[bytes | None]]:
        """Every feature that has a count: fingerprints, counts, `Page.seen` and names."""
        run = self.database.connection.execute
        named = run(f"SELECT name FROM features_{self.view} ORDER BY fingerprint").fetchall()  # noqa: S608
        if not all(name is None or isinstance(name, bytes) for (name,) in named):
            raise corrupted(self.database.path, "a name")
        found = self._everywhere()
        at = found.rows
        cells = found.page.cells[at]
        some: Bools = np.any(cells, axis=1)
        names = [name for (name,), there in zip(named, some.tolist(), strict=True) if there]
        return found.fingerprints[some], cells[some], found.page.seen[at][some], names

    def count_histogram(self) -> tuple[Floats, Floats]:
        """Not here: no model of a database asks for it."""
        raise UnsupportedError("counts in a database are not told by their value")

    def merge(self, other: Counts) -> None:
        """Not here: databases are merged message by message."""
        raise UnsupportedError("counts in a database are merged by its ledger")

    def check_merge(self, other: Counts) -> None:
        """Not here."""
        self.merge(other)

    def clear(self) -> None:
        """Know nothing, as in a database that was just made."""
        self.labels, self.weights, self.totals = [], [], []
        self.features = self.places = 0
        self._known = None
        self._changed()

    def drop(self, fingerprints: Keys, day: float) -> int:
        """Drop those of some features that one message had, before that day; how many."""
        found = self._read(fingerprints)
        page, rows = found.page, found.rows
        rare = is_rare(page.seen[rows], day) & page.cells[rows].any(axis=1)
        rows = rows[rare]
        for k, column in enumerate(page.cells[rows].T):
            self.totals[k] = max(0.0, self.totals[k] - math.fsum(column.tolist()))
        self.features -= len(rows)
        page.cells[rows], page.seen[rows] = 0.0, 0
        self._write(page, rows)
        self._changed()
        return len(rows)

    def replace(self, fingerprints: Keys, cells: Floats, times: Floats) -> None:
        """Count these features instead of what is counted, each in so many messages.

        Those that are known keep their names, and lie where they lie.
        """
        known = self._everywhere()
        page = known.page
        page.cells[:] = 0
        page.seen[:, 0] = 0
        order, keys = known.fingerprints.view(np.int64), fingerprints.view(np.int64)
        at, there = positions(order, keys)
        places = np.full(len(keys), -1, dtype=np.int64)
        places[there] = known.places[at[there]]
        found = found_of(fingerprints, places, page)
        if (places < 0).any():
            found = self._with_places(found, TokenCounts.unchecked(fingerprints, times, None, None))
        page, rows = found.page, found.rows
        page.cells[rows] = cells
        page.seen[rows, 0] = times
        page.seen[rows[page.seen[rows, 1] == 0], 1] = today()
        self._write_all(page)

    def lay_out(self) -> None:
        """Write all features that have a count anew; the most used ones lie together.

        What lies unloaded and names places is wrong then.
        """
        fingerprints, cells, seen, names = self.rows()
        order = np.argsort(-seen[:, 0].astype(np.int64), kind="stable")
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
        fresh = Page(np.arange(-(-len(order) // BLOCK)), len(self.labels))
        fresh.keys[: len(order)] = fingerprints[order]
        fresh.cells[: len(order)] = cells[order]
        fresh.seen[: len(order)] = seen[order]
        self._write_all(fresh)

    def _write_all(self, page: Page) -> None:
        """Write all rows there are, and what they add up to."""
        self._write(page, np.arange(len(page.cells)))
        self.totals = [math.fsum(column.tolist()) for column in page.cells.T]
        self.features = int(np.any(page.cells, axis=1).sum())
        self._known = None
        self._changed()
