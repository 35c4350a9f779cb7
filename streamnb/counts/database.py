"""Counts in a database: only what a message asks for is ever read."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.counts.memory import NO_NAME
from streamnb.counts.part import LentCounts
from streamnb.counts.protocol import Counts, Label, UnsupportedError, check_labels
from streamnb.errors import StateError
from streamnb.features.token_counts import Feature, TokenCounts
from streamnb.storage import plain_label, read_label

__all__ = ["BLOCK", "SqlCounts", "Store", "is_rare", "make_tables", "today"]

Number = TypeVar("Number", np.int64, np.uint64)

BLOCK = 32  # features a block
_AT_ONCE = 20_000  # features asked for in one statement


def today() -> int:
    """Days since 1970; 0 where the clock says that it was before."""
    return max(0, int(time.time() // 86400))


def _key(fingerprint: int) -> int:
    """A fingerprint as SQLite's integers are: with a sign."""
    return fingerprint - (1 << 64) if fingerprint >= 1 << 63 else fingerprint


def _distinct(numbers: NDArray[Number]) -> NDArray[Number]:
    """As numpy.unique, which imports numpy.ma: that is long for a process of one message."""
    rising = np.sort(numbers)
    first = np.ones(len(rising), bool)
    np.not_equal(rising[1:], rising[:-1], out=first[1:])
    return rising[first]


class Store(Protocol):
    """What the counts need of a database."""

    connection: Any
    path: Path | str
    changes: int  # grows whenever what was read may no longer hold

    def tables(self) -> set[str]:
        """The names of the tables there are."""

    def numbers(self, numbers: list[int]) -> Any:
        """A list of numbers as the value of ``json_each(?) j``, whose columns are key and value."""


def is_rare(seen: NDArray[np.uint32], day: float) -> NDArray[np.bool_]:
    """Which features one message had, and none since that day; `seen` as `_Page` has it."""
    rare: NDArray[np.bool_] = (seen[:, 0] <= 1) & (seen[:, 1].astype(np.int64) < day)
    return rare


# A view's features. Rows of counts lie in blocks in the order in which features came: what is
# common came early, so a message changes few blocks (a third of the pages, measured, that one row
# a feature in the order of fingerprints does).
_TABLES = (
    "CREATE TABLE features_{view}"
    "(fingerprint INTEGER PRIMARY KEY, place INTEGER NOT NULL, name BLOB)",
    "CREATE TABLE blocks_{view}(block INTEGER PRIMARY KEY, cells BLOB NOT NULL)",
)


def make_tables(database: Store, views: int) -> None:
    """Make empty tables for so many views, within a transaction; older ones go."""
    run = database.connection.execute
    for name in database.tables():
        if re.fullmatch(r"(?:features|blocks)_[0-9]+", name):
            run(f'DROP TABLE "{name}"')
    for view in range(views):
        for statement in _TABLES:
            run(statement.format(view=view))


class _Page:
    """What a message's features are about: the blocks they lie in, read into memory.

    Parameters
    ----------
    fingerprints
        The features, shape (n,).
    places
        Where each lies, shape (n,); -1 for a feature that was never learned.
    blocks
        Numbers of the blocks, shape (b,), rising.
    data
        Their rows, shape (b * BLOCK, K + 1): the counts of a feature, and in the bytes of one more
        number how many messages it was learned from, and on what day last.
    """

    def __init__(
        self,
        fingerprints: NDArray[np.uint64],
        places: NDArray[np.int64],
        blocks: NDArray[np.int64],
        data: NDArray[np.float64],
    ) -> None:
        self.fingerprints = fingerprints
        self.places = places
        self.blocks = blocks
        self.data = data
        self.cells = data[:, :-1]
        self.seen = data[:, -1:].view(np.uint32)

    def rows(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which rows of `cells` the places are."""
        rows: NDArray[np.int64] = np.searchsorted(self.blocks, places // BLOCK) * BLOCK
        return rows + places % BLOCK


class SqlCounts:
    """The counts of one view; a `Counts` within a transaction of a database.

    Parameters
    ----------
    database
        Where they are kept.
    view
        Number of the view.
    """

    scale = 1.0
    exponent = 0

    def __init__(self, database: Store, view: int) -> None:
        self.database = database
        self.view = view
        self.labels: list[Label] = []
        self.weights: list[float] = []
        self._totals: list[float] = []
        self._features = 0
        self._places = 0
        self._page: tuple[int, _Page] | None = None

    def state(self) -> dict[str, Any]:
        """The few numbers that every classification needs, as JSON can hold them."""
        return {
            "labels": [plain_label(label) for label in self.labels],
            "weights": self.weights,
            "totals": self._totals,
            "features": self._features,
            "places": self._places,
        }

    def load(self, state: Any) -> None:
        """Take over what `state` gave; any exception where it is not sound."""
        self.labels = [read_label(pair) for pair in state["labels"]]
        self.weights = [float(x) for x in state["weights"]]
        self._totals = [float(x) for x in state["totals"]]
        self._features, self._places = int(state["features"]), int(state["places"])
        if not len(self.labels) == len(self.weights) == len(self._totals):
            raise ValueError("labels, weights and totals do not belong together")
        self._page = None

    @property
    def totals(self) -> list[float]:
        """Sum of the counts of each class."""
        return self._totals

    @property
    def features(self) -> int:
        """Number of features that have a count."""
        return self._features

    @property
    def version(self) -> int:
        """A number that changes whenever what was read may no longer hold."""
        return self.database.changes

    def age(self, decay: float) -> None:
        """Not here: what a database counts does not age."""
        raise UnsupportedError("counts in a database do not age")

    def index(self, label: Label) -> int | None:
        """The column of a class, or None where it is not known."""
        return self.labels.index(label) if label in self.labels else None

    def declare(self, labels: Iterable[Label]) -> None:
        """Make classes known that nothing has been learned of."""
        new = [label for label in dict.fromkeys(labels) if label not in self.labels]
        check_labels(new)
        for label in new:
            self.labels.append(label)
            self.weights.append(0.0)
            self._totals.append(0.0)
        self._changed()

    def _changed(self) -> None:
        self.database.changes += 1
        self._page = None

    def name(self, fingerprint: int) -> Feature | None:
        """The name of a feature, or None where it is not known."""
        statement = f"SELECT name FROM features_{self.view} WHERE fingerprint = ?"  # noqa: S608
        row = self.database.connection.execute(statement, (_key(fingerprint),)).fetchone()
        if row is None or row[0] is None:
            return None
        if not isinstance(row[0], bytes):
            raise self._damaged("a name")
        found: Feature = _core.decode_name(row[0])
        return found

    def name_feature(self, fingerprint: int, name: bytes) -> None:
        """Say what a feature is called, where that is not known."""
        self.database.connection.execute(
            f"UPDATE features_{self.view} SET name = ? "  # noqa: S608 (a number)
            "WHERE fingerprint = ? AND name IS NULL",
            (name, _key(fingerprint)),
        )

    def gather(
        self, fingerprints: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
        """Counts (n, K) of features, and which of them have any."""
        page = self._read(fingerprints)
        cells = np.zeros((len(fingerprints), len(self.labels)))
        known = page.places >= 0
        cells[known] = page.cells[page.rows(page.places[known])]
        seen: NDArray[np.uint8] = np.any(cells, axis=1).astype(np.uint8)
        return cells, seen

    def log_sums(
        self, tokens: TokenCounts, alpha: float, background: float, unseen: bool
    ) -> tuple[list[float], int]:
        """As the protocol says."""
        cells, seen = self.gather(tokens.fingerprints)
        mask = None if unseen else seen
        return _core.log_sums(
            cells, mask, tokens.counts, self.totals, self.features, alpha, background
        )

    def _read(self, fingerprints: NDArray[np.uint64]) -> _Page:
        """Read what a message is about, or take what was read last."""
        if self._page is not None and self._page[0] == self.version:
            page = self._page[1]
            if page.fingerprints is fingerprints:
                return page
        page = self._read_blocks(fingerprints, self._find(fingerprints))
        self._page = self.version, page
        return page

    def _ask(self, statement: str, keys: NDArray[np.int64]) -> list[tuple[Any, Any]]:
        """Pairs for those of the keys that are there: the key's number, and what was asked for."""
        run, numbers = self.database.connection.execute, self.database.numbers
        if len(keys) <= _AT_ONCE:
            found: list[tuple[Any, Any]] = run(statement, (numbers(keys.tolist()),)).fetchall()
            return found
        return [
            (start + number, found)
            for start in range(0, len(keys), _AT_ONCE)
            for number, found in run(statement, (numbers(keys[start : start + _AT_ONCE].tolist()),))
        ]

    def _find(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        keys = fingerprints.view(np.int64)
        order = np.argsort(keys)  # neighbours lie on one page
        found = self._ask(
            f"SELECT j.key, f.place FROM json_each(?) j "  # noqa: S608 (a number)
            f"CROSS JOIN features_{self.view} f ON f.fingerprint = j.value",
            keys[order],
        )
        places = np.full(len(keys), -1, dtype=np.int64)
        if found:
            numbers, at = zip(*found, strict=True)
            places[order[list(numbers)]] = self._checked(at)
        return places

    def _damaged(self, what: str) -> StateError:
        return StateError(
            f"{self.database.path}: the database is damaged: {what}; restore it from a backup, or "
            "see `streamnb rescue`"
        )

    def _checked(self, places: Sequence[Any]) -> NDArray[np.int64]:
        try:
            checked = np.array(places, dtype=np.int64)
        except (TypeError, ValueError, OverflowError):  # SQLite keeps anything in any column
            raise self._damaged("a place") from None
        if len(checked) and (checked.min() < 0 or checked.max() >= self._places):
            raise self._damaged("a place")
        return checked

    def _read_blocks(self, fingerprints: NDArray[np.uint64], places: NDArray[np.int64]) -> _Page:
        blocks = _distinct(places[places >= 0] // BLOCK)
        classes = len(self.labels)
        found = self._ask(
            f"SELECT j.key, b.cells FROM json_each(?) j "  # noqa: S608 (a number)
            f"CROSS JOIN blocks_{self.view} b ON b.block = j.value",
            blocks,
        )
        found.sort(key=itemgetter(0))  # SQLite has them in order, a server perhaps not
        rows = np.zeros((len(blocks), BLOCK, classes + 1))
        try:
            data = bytearray().join([some for _, some in found])
        except TypeError:
            raise self._damaged("a block") from None
        if len(found) == len(blocks) and len(data) == rows.nbytes:  # as it nearly always is
            rows = np.frombuffer(data, dtype="<f8").reshape(rows.shape)
        else:
            self._spread(found, rows)
        return _Page(fingerprints, places, blocks, rows.reshape(-1, classes + 1))

    def _spread(self, found: list[tuple[Any, Any]], rows: NDArray[np.float64]) -> None:
        """Read blocks of which some are new, or were written when fewer classes were known."""
        classes = rows.shape[2] - 1
        for number, some in found:
            fewer = len(some) // (8 * BLOCK) - 1
            if not 0 <= fewer <= classes or 8 * BLOCK * (fewer + 1) != len(some):
                raise self._damaged("a block")
            block = np.frombuffer(some, dtype="<f8").reshape(BLOCK, fewer + 1)
            rows[number, :, :fewer] = block[:, :fewer]
            rows[number, :, classes] = block[:, fewer]

    def _write(self, page: _Page, rows: NDArray[np.int64]) -> None:
        """Write the blocks that some rows lie in."""
        if not len(rows):
            return
        data = page.data.astype("<f8", copy=False).reshape(len(page.blocks), -1)
        touched = _distinct(rows // BLOCK)
        self.database.connection.executemany(
            f"INSERT INTO blocks_{self.view} VALUES (?, ?) "  # noqa: S608 (a number)
            "ON CONFLICT (block) DO UPDATE SET cells = excluded.cells",
            [
                (block, data[i].tobytes())
                for i, block in zip(touched.tolist(), page.blocks[touched].tolist(), strict=True)
            ],
        )

    def add(
        self, tokens: TokenCounts, label: Label, weight: float, mass: float | None = None
    ) -> None:
        """Learn a message: all of it or nothing, as the transaction has it.

        Its counts go in `weight` times, and it adds `mass` (None: as much) to the class's weight.
        """
        self.declare((label,)) if label not in self.labels else None
        k = self.labels.index(label)
        if weight and len(tokens):
            page = self._read(tokens.fingerprints)
            if (page.places < 0).any():
                page = self._with_places(page, tokens)
            rows = page.rows(page.places)
            amounts = tokens.counts * weight
            before = page.cells[rows].any(axis=1)
            page.cells[rows, k] += amounts
            page.seen[rows, 0] += 1
            page.seen[rows, 1] = today()
            self._totals[k] += math.fsum(amounts.tolist())
            self._features += int((page.cells[rows].any(axis=1) & ~before).sum())
            self._write(page, rows)
        self.weights[k] += weight if mass is None else mass
        self._changed()

    def _with_places(self, page: _Page, tokens: TokenCounts) -> _Page:
        """Give the features that are new places of their own, the most frequent ones together."""
        new = np.flatnonzero(page.places < 0)
        new = new[np.argsort(-tokens.counts[new], kind="stable")]
        places = page.places.copy()
        places[new] = self._places + np.arange(len(new))
        self._places += len(new)
        self._insert(tokens, new, places[new])
        fresh = self._read_blocks(page.fingerprints, places[new])
        more = ~np.isin(fresh.blocks, page.blocks)
        blocks = np.concatenate((page.blocks, fresh.blocks[more]))
        order = np.argsort(blocks)
        width = page.data.shape[1]
        data = np.concatenate(
            (page.data.reshape(-1, BLOCK, width), fresh.data.reshape(-1, BLOCK, width)[more])
        )
        return _Page(page.fingerprints, places, blocks[order], data[order].reshape(-1, width))

    def _insert(
        self, tokens: TokenCounts, new: NDArray[np.int64], places: NDArray[np.int64]
    ) -> None:
        names: list[bytes | None] = [None] * len(new)
        if tokens.names is not None and tokens.ends is not None:
            ends = [0, *tokens.ends.tolist()]
            text = tokens.names
            found = (text[ends[i] : ends[i + 1]] for i in new.tolist())
            names = [None if name == NO_NAME else name for name in found]
        keys = tokens.fingerprints[new].view(np.int64).tolist()
        self.database.connection.executemany(
            f"INSERT INTO features_{self.view} VALUES (?, ?, ?)",  # noqa: S608 (a number)
            sorted(zip(keys, places.tolist(), names, strict=True)),
        )

    def lend(self, messages: Sequence[TokenCounts]) -> LentCounts:
        """What is counted of the features of some messages, so that they are learned in memory.

        Until `take_in` has written what was learned there, nothing is to be learned here.
        """
        some = np.concatenate([np.empty(0, np.uint64), *[of.fingerprints for of in messages]])
        fingerprints = _distinct(some)
        cells, _ = self.gather(fingerprints)
        lent = LentCounts(
            fingerprints, cells, self.labels, self.weights, self._totals, self._features,
            self.version,
        )  # fmt: skip
        lent.page = self._read(fingerprints)
        return lent

    def take_in(self, lent: LentCounts) -> None:
        """Write what was learned in counts that were lent."""
        self._totals, self._features = lent.totals, lent.features
        times = lent.times()
        if len(times):
            page = self._widened(lent.page)
            places = page.places[np.searchsorted(page.fingerprints, times.fingerprints)]
            page = _Page(times.fingerprints, places, page.blocks, page.data)
            if (page.places < 0).any():
                page = self._with_places(page, times)
            rows = page.rows(page.places)
            page.cells[rows] = lent.gather(times.fingerprints)[0]
            page.seen[rows, 0] += times.counts.astype(np.uint32)
            page.seen[rows, 1] = today()
            self._write(page, rows)
        self._changed()

    def _widened(self, page: _Page) -> _Page:
        """A page that has room for classes that have come since it was read."""
        rows, width = page.data.shape
        if width == len(self.labels) + 1:
            return page
        data = np.zeros((rows, len(self.labels) + 1))
        data[:, : width - 1], data[:, -1] = page.cells, page.data[:, -1]
        return _Page(page.fingerprints, page.places, page.blocks, data)

    def subtract(
        self, tokens: TokenCounts, label: Label, weight: float, mass: float | None = None
    ) -> None:
        """Unlearn a message, or raise ValueError and change nothing."""
        mass = weight if mass is None else mass
        k = self.index(label)
        left = -1.0 if k is None else _core.subtracted(self.weights[k], mass)
        if k is None or left < 0:
            raise ValueError(f"cannot unlearn weight {mass:g} of class {label!r:.80}")
        if weight and len(tokens):
            self._take(tokens, k, weight)
        self.weights[k] = left
        self._changed()

    def _take(self, tokens: TokenCounts, k: int, weight: float) -> None:
        page = self._read(tokens.fingerprints)
        if (page.places < 0).any():
            raise ValueError("cannot unlearn: a feature was never learned")
        rows = page.rows(page.places)
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
        self._totals[k] = max(0.0, self._totals[k] - math.fsum((column - rest).tolist()))
        self._features -= int((before & ~left).sum())
        self._write(page, rows)

    def add_matrix(
        self,
        tokens: TokenCounts,
        sums: NDArray[np.float64],
        labels: Sequence[Label],
        weights: Sequence[float],
    ) -> None:
        """Learn many messages summed up; `sums` has a column for each of `labels`."""
        for column, label, weight in zip(sums.T, labels, weights, strict=True):
            some = tokens.select(column > 0)
            part = TokenCounts._trusted(
                some.fingerprints, column[column > 0], some.names, some.ends
            )
            self.add(part, label, 1.0, weight)

    def everything(self) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
        """Every feature (V,) and its counts (V, K): not for a single message."""
        fingerprints, cells, _, _ = self.rows()
        return fingerprints, cells

    def rows(
        self,
    ) -> tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.uint32], list[bytes | None]]:
        """Every feature that has a count: fingerprints, counts, `_Page.seen` and names."""
        run = self.database.connection.execute
        found = run(
            f"SELECT fingerprint, place, name FROM features_{self.view} "  # noqa: S608 (a number)
            "ORDER BY fingerprint"
        ).fetchall()
        if not all(row[2] is None or isinstance(row[2], bytes) for row in found):
            raise self._damaged("a name")
        keys = np.array([row[0] for row in found], dtype=np.int64)
        places = self._checked([row[1] for row in found])
        fingerprints = keys.view(np.uint64)
        page = self._read_blocks(fingerprints, places)
        at = page.rows(places)
        cells = page.cells[at]
        some: NDArray[np.bool_] = np.any(cells, axis=1)
        names = [row[2] for row, there in zip(found, some.tolist(), strict=True) if there]
        return fingerprints[some], cells[some], page.seen[at][some], names

    def value_counts(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
        self.labels, self.weights, self._totals = [], [], []
        self._features = self._places = 0
        self._changed()

    def drop(self, fingerprints: NDArray[np.uint64], day: float) -> int:
        """Drop those of some features that one message had, before that day; how many."""
        page = self._read(fingerprints)
        known = page.places >= 0
        rows = page.rows(page.places[known])
        rare = is_rare(page.seen[rows], day) & page.cells[rows].any(axis=1)
        rows = rows[rare]
        for k, column in enumerate(page.cells[rows].T):
            self._totals[k] = max(0.0, self._totals[k] - math.fsum(column.tolist()))
        self._features -= len(rows)
        page.data[rows] = 0.0
        self._write(page, rows)
        self._changed()
        return len(rows)

    def replace(
        self,
        fingerprints: NDArray[np.uint64],
        cells: NDArray[np.float64],
        times: NDArray[np.float64],
    ) -> None:
        """Count these features instead of what is counted, each in so many messages.

        Those that are known keep their names, and lie where they lie.
        """
        found = self.database.connection.execute(
            f"SELECT fingerprint, place FROM features_{self.view} ORDER BY fingerprint"  # noqa: S608
        ).fetchall()
        known = np.array([row[0] for row in found], dtype=np.int64)
        at = self._checked([row[1] for row in found])
        page = self._read_blocks(fingerprints, at)
        page.cells[:] = 0
        page.seen[:, 0] = 0
        keys = fingerprints.view(np.int64)
        numbers = np.minimum(np.searchsorted(known, keys), max(len(known) - 1, 0))
        places = np.full(len(keys), -1, dtype=np.int64)
        if len(known):
            there = known[numbers] == keys
            places[there] = at[numbers[there]]
        page = _Page(fingerprints, places, page.blocks, page.data)
        if (places < 0).any():
            page = self._with_places(page, TokenCounts._trusted(fingerprints, times, None, None))
        rows = page.rows(page.places)
        page.cells[rows] = cells
        page.seen[rows, 0] = times
        page.seen[rows[page.seen[rows, 1] == 0], 1] = today()
        self._write_all(page)

    def lay_out(self) -> None:
        """Write all features that have a count anew; the most used ones lie together."""
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
        self._places = len(order)
        blocks = np.arange(-(-len(order) // BLOCK))
        data = np.zeros((len(blocks) * BLOCK, len(self.labels) + 1))
        fresh = _Page(fingerprints[order], np.arange(len(order)), blocks, data)
        fresh.cells[: len(order)] = cells[order]
        fresh.seen[: len(order)] = seen[order]
        self._write_all(fresh)

    def _write_all(self, page: _Page) -> None:
        """Write all rows there are, and what they add up to."""
        self._write(page, np.arange(len(page.data)))
        self._totals = [math.fsum(column.tolist()) for column in page.cells.T]
        self._features = int(np.any(page.cells, axis=1).sum())
        self._changed()
