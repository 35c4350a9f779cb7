"""Counts in a database: only what a message asks for is ever read."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.counts.blocks import (
    BLOCK,
    LAST_DAY,
    Page,
    distinct,
    features_of,
    read_blocks,
    read_former_blocks,
    written_blocks,
)
from streamnb.counts.memory import NO_NAME
from streamnb.counts.part import LentCounts
from streamnb.counts.protocol import Counts, Label, UnsupportedError, check_labels
from streamnb.errors import StateError
from streamnb.features.token_counts import Feature, TokenCounts
from streamnb.storage import plain_label, read_label

__all__ = ["SqlCounts", "Store", "is_rare", "make_tables", "today"]

_AT_ONCE = 20_000  # features asked for in one statement
_PLACES = 1 << 48  # more than there can be
_LOOKS = 8  # messages by their features' places, before the features of all places are read


def today() -> int:
    """Days since 1970, as far as a block has room for what the clock says."""
    return min(max(0, int(time.time() // 86400)), LAST_DAY)


def _key(fingerprint: int) -> int:
    """A fingerprint as SQLite's integers are: with a sign."""
    return fingerprint - (1 << 64) if fingerprint >= 1 << 63 else fingerprint


class Store(Protocol):
    """What the counts need of a database."""

    connection: Any
    path: Path | str
    changes: int  # grows whenever others may have changed what was read

    def tables(self) -> set[str]:
        """The names of the tables there are."""

    def stream(self, statement: str) -> Iterator[Any]:
        """Rows of a table that may be large, while others are asked for."""

    def numbers(self, numbers: list[int]) -> Any:
        """A list of numbers as the value of ``json_each(?) j``, whose columns are key and value."""


def is_rare(seen: NDArray[np.uint32], day: float) -> NDArray[np.bool_]:
    """Which features one message had, and none since that day; `seen` as `Page` has it."""
    rare: NDArray[np.bool_] = (seen[:, 0] <= 1) & (seen[:, 1].astype(np.int64) < day)
    return rare


# A view's features. They lie in blocks in the order in which they came: what is common came early,
# so a message changes few blocks (a third of the pages, measured, that one row a feature in the
# order of fingerprints does). The ledger has places for features, which are smaller.
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


class _Found(NamedTuple):
    """Features and their blocks.

    Attributes
    ----------
    fingerprints
        The features, shape (n,).
    places
        Where each lies, shape (n,); -1 for one that was never learned.
    page
        The blocks.
    rows
        Which rows of the page those are that were learned.
    """

    fingerprints: NDArray[np.uint64]
    places: NDArray[np.int64]
    page: Page
    rows: NDArray[np.int64]


def _found(fingerprints: NDArray[np.uint64], places: NDArray[np.int64], page: Page) -> _Found:
    known = places >= 0
    return _Found(fingerprints, places, page, page.rows(places if known.all() else places[known]))


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
        self._changes = 0
        self._found: tuple[int, _Found] | None = None
        self.keyed = True  # whether blocks have fingerprints, as they do from version 2 on
        # Where the features that were asked for last lie, also when counts were written since.
        # Places are given anew only by `lay_out`, and by others between two calls of `load`.
        self._known: tuple[NDArray[np.uint64], NDArray[np.int64]] | None = None
        self._looks = 0, 0  # version, and how many messages were looked for by place
        self._keys: tuple[int, Page] | None = None  # version, and the features of all places

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
        if not 0 <= self._features <= self._places < _PLACES:
            raise ValueError("more features than places")
        self._found = self._known = self._keys = None

    @property
    def totals(self) -> list[float]:
        """Sum of the counts of each class."""
        return self._totals

    @property
    def features(self) -> int:
        """Number of features that have a count."""
        return self._features

    @property
    def holes(self) -> int:
        """Number of places of features that have no count."""
        return self._places - self._features

    @property
    def version(self) -> int:
        """A number that changes whenever what was read may no longer hold."""
        return self.database.changes + self._changes

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
        self._changes += 1
        self._found = None

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

    def name_features(self, names: Iterable[tuple[int, bytes]]) -> None:
        """Say what features are called, by their fingerprints, where that is not known."""
        self.database.connection.executemany(
            f"UPDATE features_{self.view} SET name = ? "  # noqa: S608 (a number)
            "WHERE fingerprint = ? AND name IS NULL",
            [(name, _key(fingerprint)) for fingerprint, name in names],
        )

    def gather(
        self, fingerprints: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
        """Counts (n, K) of features, and which of them have any."""
        found = self._read(fingerprints)
        cells = np.zeros((len(fingerprints), len(self.labels)))
        cells[found.places >= 0] = found.page.cells[found.rows]
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

    def _read(self, fingerprints: NDArray[np.uint64]) -> _Found:
        """Read what a message is about, or take what was read last."""
        if self._found is not None and self._found[0] == self.version:
            found = self._found[1]
            if found.fingerprints is fingerprints:
                return found
        places = self._find(fingerprints)
        known = places >= 0
        found = _found(fingerprints, places, self._read_page(places[known]))
        self._check_keys(found)
        return self._note(found)

    def _check_keys(self, found: _Found) -> None:
        """Raise StateError unless the blocks have the features where those say that they lie."""
        if self.keyed:
            lying = found.fingerprints[found.places >= 0]
            if (found.page.keys[found.rows] != lying).any():
                raise self._damaged("a place")

    def _note(self, found: _Found) -> _Found:
        self._found = self.version, found
        self._known = found.fingerprints, found.places
        return found

    def places_of(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Where features lie; -1 for those that were never learned."""
        if self._known is not None:
            known, places = self._known
            if known is fingerprints:
                return places
            at = np.searchsorted(known, fingerprints)  # in order after `take_in`
            at[at == len(known)] = 0
            if len(known) and (known[at] == fingerprints).all():
                return places[at]
        self._known = fingerprints, self._find(fingerprints)
        return self._known[1]

    def features_at(self, places: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Which features lie at some places, as the blocks say.

        Of a few messages counts are read, too, since they are about to be taken back; of many, the
        features of all places.

        Raises
        ------
        StateError
            Where nothing lies at one.
        """
        version, looks = self._looks
        looks = looks + 1 if version == self.version else 1
        self._looks = self.version, looks
        self._checked(places)
        page = self._read_page(places) if looks <= _LOOKS else self._all_keys()
        if not page.has(places):
            raise self._damaged("a place")
        rows = page.rows(places)
        fingerprints = page.keys[rows]
        if not fingerprints.all():
            raise self._damaged("a place")
        if looks <= _LOOKS:
            self._note(_Found(fingerprints, places, page, rows))
        return fingerprints

    def _all_keys(self) -> Page:
        """The features of all blocks, without counts."""
        if self._keys is not None and self._keys[0] == self.version:
            return self._keys[1]
        listed = self.database.connection.execute(
            f"SELECT block FROM blocks_{self.view} ORDER BY block"  # noqa: S608 (a number)
        ).fetchall()
        page = Page(np.array([block for (block,) in listed], np.int64), 0)
        written = self.database.stream(f"SELECT cells FROM blocks_{self.view} ORDER BY block")  # noqa: S608
        try:
            for i, (block,) in enumerate(written):
                page.keys[i * BLOCK : (i + 1) * BLOCK] = features_of(block)
        except (TypeError, ValueError):
            raise self._damaged("a block") from None
        self._keys = self.version, page
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

    def _checked(self, places: Sequence[Any] | NDArray[np.int64]) -> NDArray[np.int64]:
        try:
            checked = np.array(places, dtype=np.int64)
        except (TypeError, ValueError, OverflowError):  # SQLite keeps anything in any column
            raise self._damaged("a place") from None
        if len(checked) and (checked.min() < 0 or checked.max() >= self._places):
            raise self._damaged("a place")
        return checked

    def _read_page(self, places: NDArray[np.int64]) -> Page:
        """Read the blocks that some places are in."""
        page = Page(distinct(places // BLOCK), len(self.labels))
        found = self._ask(
            f"SELECT j.key, b.cells FROM json_each(?) j "  # noqa: S608 (a number)
            f"CROSS JOIN blocks_{self.view} b ON b.block = j.value",
            page.blocks,
        )
        try:
            (read_blocks if self.keyed else read_former_blocks)(found, page)
        except (LookupError, TypeError, ValueError):
            raise self._damaged("a block") from None
        return page

    def _write(self, page: Page, rows: NDArray[np.int64]) -> None:
        """Write the blocks that some rows lie in."""
        if not len(rows):
            return
        touched = distinct(rows // BLOCK)
        self.database.connection.executemany(
            f"INSERT INTO blocks_{self.view} VALUES (?, ?) "  # noqa: S608 (a number)
            "ON CONFLICT (block) DO UPDATE SET cells = excluded.cells",
            zip(page.blocks[touched].tolist(), written_blocks(page, touched), strict=True),
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
            found = self._read(tokens.fingerprints)
            if (found.places < 0).any():
                found = self._with_places(found, tokens)
            page, rows = found.page, found.rows
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

    def _with_places(self, found: _Found, tokens: TokenCounts) -> _Found:
        """Give the features that are new places of their own, the most frequent ones together."""
        new = np.flatnonzero(found.places < 0)
        new = new[np.argsort(-tokens.counts[new], kind="stable")]
        places = found.places.copy()
        places[new] = self._places + np.arange(len(new))
        self._places += len(new)
        self._insert(tokens, new, places[new])
        fresh = self._read_page(places[new])  # the first of these blocks may be half full
        blocks = distinct(np.concatenate((fresh.blocks, found.page.blocks)))
        page = Page(blocks, len(self.labels))
        page.take(fresh)
        page.take(found.page)
        page.keys[page.rows(places[new])] = found.fingerprints[new]
        return self._note(_found(found.fingerprints, places, page))

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
        fingerprints = distinct(some)
        cells, _ = self.gather(fingerprints)
        lent = LentCounts(
            fingerprints, cells, self.labels, self.weights, self._totals, self._features,
            self.version,
        )  # fmt: skip
        lent.found = self._read(fingerprints)
        return lent

    def take_in(self, lent: LentCounts) -> None:
        """Write what was learned in counts that were lent."""
        self._totals, self._features = lent.totals, lent.features
        times = lent.times()
        if len(times):
            page = lent.found.page
            if page.cells.shape[1] < len(self.labels):  # classes have come since
                page = Page(page.blocks, len(self.labels))
                page.take(lent.found.page)
            places = lent.found.places.copy()
            at = np.searchsorted(lent.found.fingerprints, times.fingerprints)
            found = _found(times.fingerprints, places[at], page)
            if (found.places < 0).any():
                found = self._with_places(found, times)
            page, rows = found.page, found.rows
            page.cells[rows] = lent.gather(times.fingerprints)[0]
            page.seen[rows, 0] += times.counts.astype(np.uint32)
            page.seen[rows, 1] = today()
            self._write(page, rows)
            places[at] = found.places
            self._known = lent.found.fingerprints, places
        self._changed()

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
        """Every feature that has a count: fingerprints, counts, `Page.seen` and names."""
        run = self.database.connection.execute
        named = run(f"SELECT name FROM features_{self.view} ORDER BY fingerprint").fetchall()  # noqa: S608
        if not all(name is None or isinstance(name, bytes) for (name,) in named):
            raise self._damaged("a name")
        found = self._everywhere()
        at = found.rows
        cells = found.page.cells[at]
        some: NDArray[np.bool_] = np.any(cells, axis=1)
        names = [name for (name,), there in zip(named, some.tolist(), strict=True) if there]
        return found.fingerprints[some], cells[some], found.page.seen[at][some], names

    def _everywhere(self) -> _Found:
        """Every feature, in the order of SQLite's integers."""
        listed = self.database.connection.execute(
            f"SELECT fingerprint, place FROM features_{self.view} ORDER BY fingerprint"  # noqa: S608
        ).fetchall()
        keys = np.array([row[0] for row in listed], dtype=np.int64)
        places = self._checked([row[1] for row in listed])
        found = _found(keys.view(np.uint64), places, self._read_page(places))
        self._check_keys(found)
        return found

    def check_places(self) -> None:
        """Raise StateError unless features and blocks agree on where all features lie."""
        self._everywhere()

    def give_keys(self) -> None:
        """Write the features' fingerprints into blocks of version 1."""
        found = self._everywhere()
        found.page.keys[found.rows] = found.fingerprints
        self._write(found.page, found.rows)
        self.keyed = True
        self._changed()

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
        self._known = None
        self.keyed = True
        self._changed()

    def drop(self, fingerprints: NDArray[np.uint64], day: float) -> int:
        """Drop those of some features that one message had, before that day; how many."""
        found = self._read(fingerprints)
        page, rows = found.page, found.rows
        rare = is_rare(page.seen[rows], day) & page.cells[rows].any(axis=1)
        rows = rows[rare]
        for k, column in enumerate(page.cells[rows].T):
            self._totals[k] = max(0.0, self._totals[k] - math.fsum(column.tolist()))
        self._features -= len(rows)
        page.cells[rows], page.seen[rows] = 0.0, 0
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
        known = self._everywhere()
        page = known.page
        page.cells[:] = 0
        page.seen[:, 0] = 0
        order, keys = known.fingerprints.view(np.int64), fingerprints.view(np.int64)
        numbers = np.minimum(np.searchsorted(order, keys), max(len(order) - 1, 0))
        places = np.full(len(keys), -1, dtype=np.int64)
        if len(order):
            there = order[numbers] == keys
            places[there] = known.places[numbers[there]]
        found = _found(fingerprints, places, page)
        if (places < 0).any():
            found = self._with_places(found, TokenCounts._trusted(fingerprints, times, None, None))
        page, rows = found.page, found.rows
        page.cells[rows] = cells
        page.seen[rows, 0] = times
        page.seen[rows[page.seen[rows, 1] == 0], 1] = today()
        self._write_all(page)

    def erase(self, fingerprints: NDArray[np.uint64], still_named: NDArray[np.int64]) -> None:
        """Know nothing more of those of some features that have no count.

        Of those at the places `still_named`, which the ledger has elsewhere, only the name goes.
        """
        found = self._read(fingerprints)
        page, rows = found.page, found.rows
        keys = found.fingerprints[found.places >= 0].view(np.int64)
        places = found.places[found.places >= 0]
        empty = ~page.cells[rows].any(axis=1)
        kept = np.isin(places, still_named)
        run = self.database.connection.executemany
        run(
            f"UPDATE features_{self.view} SET name = NULL WHERE fingerprint = ?",  # noqa: S608
            [(key,) for key in keys[empty & kept].tolist()],
        )
        run(
            f"DELETE FROM features_{self.view} WHERE fingerprint = ?",  # noqa: S608 (a number)
            [(key,) for key in keys[empty & ~kept].tolist()],
        )
        gone = rows[empty & ~kept]
        page.keys[gone], page.seen[gone] = 0, 0
        self._write(page, gone)
        self._known = None
        self._changed()

    def lay_out(self) -> None:
        """Write all features that have a count anew; the most used ones lie together.

        What lies elsewhere and names places is wrong then.
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
        self._places = len(order)
        fresh = Page(np.arange(-(-len(order) // BLOCK)), len(self.labels))
        fresh.keys[: len(order)] = fingerprints[order]
        fresh.cells[: len(order)] = cells[order]
        fresh.seen[: len(order)] = seen[order]
        self._write_all(fresh)

    def _write_all(self, page: Page) -> None:
        """Write all rows there are, and what they add up to."""
        self._write(page, np.arange(len(page.cells)))
        self._totals = [math.fsum(column.tolist()) for column in page.cells.T]
        self._features = int(np.any(page.cells, axis=1).sum())
        self._known = None
        self._changed()
