"""Where the features of a view lie in a database, and the blocks that they lie in."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from streamnb import _core
from streamnb.counts.blocks import (
    BLOCK,
    Page,
    distinct,
    features_of,
    joined,
    places_within,
    positions,
    read_blocks,
    written_blocks,
)
from streamnb.counts.memory import NO_NAME
from streamnb.counts.protocol import Bools, Ints, Keys, Label
from streamnb.errors import corrupted
from streamnb.features.token_counts import Feature, TokenCounts

_AT_ONCE = 20_000  # features asked for in one statement
MOST_PLACES = 1 << 48  # more than there can be
_LOOKS = 8  # messages by their features' places, before the features of all places are read
# So many places a feature, the first ones, are looked through for a message's features. What is
# common came early: two thirds of the features lie there, and one by one they take twice as long.
_FIRST = 3


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


class Found(NamedTuple):
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

    fingerprints: Keys
    places: Ints
    page: Page
    rows: Ints


def found_of(fingerprints: Keys, places: Ints, page: Page) -> Found:
    """Features that lie at these places, with the page that has their blocks."""
    known = places >= 0
    return Found(fingerprints, places, page, page.rows(places if known.all() else places[known]))


class Places:
    """Where features lie, and what is written there.

    Parameters
    ----------
    database
        Where they are kept.
    view
        Number of the view.

    Attributes
    ----------
    labels
        The classes: a block has a count for each of them.
    """

    def __init__(self, database: Store, view: int) -> None:
        self.database = database
        self.view = view
        self.labels: list[Label] = []
        self.places = 0
        self._changes = 0
        self._found: tuple[int, Found] | None = None
        # Where the features that were asked for last lie, also when counts were written since.
        # Places are given anew only by `SqlCounts.lay_out`, and by others between two calls of
        # `SqlCounts.load`.
        self._known: tuple[Keys, Ints] | None = None
        self._looks = 0, 0  # version, and how many messages were looked for by place
        self._keys: tuple[int, Page] | None = None  # version, and the features of all places

    def _forget(self) -> None:
        """Forget what was read, which others may have changed."""
        self._found = self._known = self._keys = None

    @property
    def version(self) -> int:
        """A number that changes whenever what was read may no longer hold."""
        return self.database.changes + self._changes

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
            raise corrupted(self.database.path, "a name")
        return _core.decode_name(row[0])

    def name_features(self, names: Iterable[tuple[int, bytes]]) -> None:
        """Say what features are called, by their fingerprints, where that is not known."""
        self.database.connection.executemany(
            f"UPDATE features_{self.view} SET name = ? "  # noqa: S608 (a number)
            "WHERE fingerprint = ? AND name IS NULL",
            [(name, _key(fingerprint)) for fingerprint, name in names],
        )

    def _read(self, fingerprints: Keys) -> Found:
        """Read what a message is about, or take what was read last."""
        if self._found is not None and self._found[0] == self.version:
            found = self._found[1]
            if found.fingerprints is fingerprints:
                return found
        first = -(-_FIRST * len(fingerprints) // BLOCK)
        blocks, written = self._first_blocks(first)
        with self._sound_blocks():
            places = places_within(blocks, written, fingerprints)
        left = np.flatnonzero(places < 0)
        places[left] = self._find(fingerprints[left])
        others = distinct(places[left][places[left] >= 0] // BLOCK)
        if len(others) and others[0] < first:  # the block itself says otherwise
            raise corrupted(self.database.path, "a place")
        read = ((len(blocks) + number, cells) for number, cells in self._blocks(others))
        page = self._page(np.concatenate((blocks, others)), [*enumerate(written), *read])
        found = found_of(fingerprints, places, page)
        self._check_keys(found)
        return self._note(found)

    def _check_keys(self, found: Found) -> None:
        """Raise StateError unless the blocks have the features where those say that they lie."""
        lying = found.fingerprints[found.places >= 0]
        if (found.page.keys[found.rows] != lying).any():
            raise corrupted(self.database.path, "a place")

    def _note(self, found: Found) -> Found:
        self._found = self.version, found
        self._known = found.fingerprints, found.places
        return found

    def places_of(self, fingerprints: Keys) -> Ints:
        """Where features lie; -1 for those that were never learned."""
        if self._known is not None:
            known, places = self._known
            if known is fingerprints:
                return places
            at, there = positions(known, fingerprints)  # in order after `take_in`
            if len(known) and there.all():
                return places[at]
        self._known = fingerprints, self._find(fingerprints)
        return self._known[1]

    def features_at(self, places: Ints) -> Keys:
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
            raise corrupted(self.database.path, "a place")
        rows = page.rows(places)
        fingerprints = page.keys[rows]
        if not fingerprints.all():
            raise corrupted(self.database.path, "a place")
        if looks <= _LOOKS:
            self._note(Found(fingerprints, places, page, rows))
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
        with self._sound_blocks():
            for i, (block,) in enumerate(written):
                page.keys[i * BLOCK : (i + 1) * BLOCK] = features_of([block])
        self._keys = self.version, page
        return page

    def _ask(self, statement: str, keys: Ints) -> list[tuple[Any, Any]]:
        """Pairs for those of the keys that are there: the key's number, and what was asked for."""
        run, numbers = self.database.connection.execute, self.database.numbers
        if len(keys) <= _AT_ONCE:
            return run(statement, (numbers(keys.tolist()),)).fetchall()
        return [
            (start + number, found)
            for start in range(0, len(keys), _AT_ONCE)
            for number, found in run(statement, (numbers(keys[start : start + _AT_ONCE].tolist()),))
        ]

    def _find(self, fingerprints: Keys) -> Ints:
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

    def _checked(self, places: Sequence[Any] | Ints) -> Ints:
        try:
            checked = np.array(places, dtype=np.int64)
        except (TypeError, ValueError, OverflowError):  # SQLite keeps anything in any column
            raise corrupted(self.database.path, "a place") from None
        if len(checked) and (checked.min() < 0 or checked.max() >= self.places):
            raise corrupted(self.database.path, "a place")
        return checked

    def _first_blocks(self, many: int) -> tuple[Ints, list[Any]]:
        """The numbers of the first blocks, rising, and what is written there."""
        found = self.database.connection.execute(
            f"SELECT block, cells FROM blocks_{self.view} WHERE block < ? ORDER BY block",  # noqa: S608
            (many,),
        ).fetchall()
        return np.array([block for block, _ in found], np.int64), [cells for _, cells in found]

    def _blocks(self, blocks: Ints) -> list[tuple[int, Any]]:
        """What is written in some blocks, with which of those asked for it is."""
        return self._ask(
            f"SELECT j.key, b.cells FROM json_each(?) j "  # noqa: S608 (a number)
            f"CROSS JOIN blocks_{self.view} b ON b.block = j.value",
            blocks,
        )

    def _page(self, blocks: Ints, written: Iterable[tuple[int, Any]]) -> Page:
        """A page of some blocks, of what is written there."""
        page = Page(blocks, len(self.labels))
        with self._sound_blocks():
            read_blocks(written, page)
        return page

    def _read_page(self, places: Ints) -> Page:
        """Read the blocks that some places are in."""
        blocks = distinct(places // BLOCK)
        return self._page(blocks, self._blocks(blocks))

    @contextlib.contextmanager
    def _sound_blocks(self) -> Iterator[None]:
        """Raise StateError for what is no block."""
        try:
            yield
        except (LookupError, TypeError, ValueError):
            raise corrupted(self.database.path, "a block") from None

    def _write(self, page: Page, rows: Ints) -> None:
        """Write the blocks that some rows lie in."""
        if not len(rows):
            return
        touched = distinct(rows // BLOCK)
        self.database.connection.executemany(
            f"INSERT INTO blocks_{self.view} VALUES (?, ?) "  # noqa: S608 (a number)
            "ON CONFLICT (block) DO UPDATE SET cells = excluded.cells",
            zip(page.blocks[touched].tolist(), written_blocks(page, touched), strict=True),
        )

    def _with_places(self, found: Found, tokens: TokenCounts) -> Found:
        """Give the features that are new places of their own, the most frequent ones together."""
        new = np.flatnonzero(found.places < 0)
        new = new[np.argsort(-tokens.counts[new], kind="stable")]
        places = found.places.copy()
        places[new] = self.places + np.arange(len(new))
        self.places += len(new)
        self._insert(tokens, new, places[new])
        fresh = self._read_page(places[new])  # the first of these blocks may be half full
        page = joined(len(self.labels), fresh, found.page)
        page.keys[page.rows(places[new])] = found.fingerprints[new]
        return self._note(found_of(found.fingerprints, places, page))

    def _insert(self, tokens: TokenCounts, new: Ints, places: Ints) -> None:
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

    def _everywhere(self) -> Found:
        """Every feature, in the order of SQLite's integers."""
        listed = self.database.connection.execute(
            f"SELECT fingerprint, place FROM features_{self.view} ORDER BY fingerprint"  # noqa: S608
        ).fetchall()
        keys = np.array([row[0] for row in listed], dtype=np.int64)
        places = self._checked([row[1] for row in listed])
        found = found_of(keys.view(np.uint64), places, self._read_page(places))
        self._check_keys(found)
        return found

    def check_places(self) -> None:
        """Raise StateError unless features and blocks agree on where all features lie."""
        self._everywhere()

    def erase(self, fingerprints: Keys, named: Bools) -> None:
        """Know nothing more of features that have no count and that the ledger does not have.

        Which places the ledger has is said by `named`. Of some features with no count, the names
        go, too.
        """
        found = self._everywhere()
        page, rows = found.page, found.rows
        keys = found.fingerprints.view(np.int64)
        empty = ~page.cells[rows].any(axis=1)
        kept = named[found.places]
        asked = np.isin(found.fingerprints, fingerprints)
        run = self.database.connection.executemany
        run(
            f"UPDATE features_{self.view} SET name = NULL WHERE fingerprint = ?",  # noqa: S608
            [(key,) for key in keys[empty & kept & asked].tolist()],
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
