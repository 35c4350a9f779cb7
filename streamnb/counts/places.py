"""The places of a view's features in the blocks of a database.

A block has 32 features with their counts. `streamnb._core.sparse_rows` reads and writes it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb._core import BLOCK_ROWS, SparseRows, read_blocks, write_blocks
from streamnb.counts.memory import NO_NAME
from streamnb.counts.protocol import Bools, Ints, Keys, Label
from streamnb.database import Database
from streamnb.errors import DamagedDatabaseError, damage_error
from streamnb.features.token_counts import Feature, TokenCounts

Number = TypeVar("Number", np.int64, np.uint64)

BLOCK = BLOCK_ROWS  # features of a block
LAST_DAY = (1 << 16) - 1  # largest day since 1970 that a block can store


def positions(rising: NDArray[Any], values: NDArray[Any]) -> tuple[Ints, Bools]:
    """Return the index of each value in a sorted array, and whether it is in the array."""
    indices = np.searchsorted(rising, values)
    indices[indices == len(rising)] = 0
    return indices, rising[indices] == values if len(rising) else np.zeros(len(values), bool)


def distinct(numbers: NDArray[Number]) -> NDArray[Number]:
    """Return the sorted distinct numbers, without the slow import of numpy.ma by numpy.unique."""
    rising = np.sort(numbers)
    first = np.ones(len(rising), bool)
    np.not_equal(rising[1:], rising[:-1], out=first[1:])
    return rising[first]


class Page(NamedTuple):
    """Blocks in memory.

    Attributes
    ----------
    blocks
        The numbers of the blocks, shape (b,), sorted.
    keys
        Fingerprints of the features, shape (b * BLOCK,).
    usage
        Number of messages and last day of each feature, shape (b * BLOCK, 2).
    cells
        Counts of the features, b * BLOCK rows.
    """

    blocks: Ints
    keys: Keys
    usage: NDArray[np.uint32]
    cells: SparseRows

    def rows(self, places: Ints) -> Ints:
        """Return the rows of the features at these places."""
        rows: Ints = np.searchsorted(self.blocks, places // BLOCK) * BLOCK
        return rows + places % BLOCK

    def has(self, places: Ints) -> bool:
        """Return whether the page has the blocks of all these places."""
        return bool(positions(self.blocks, places // BLOCK)[1].all())


def join_pages(first: Page, second: Page) -> Page:
    """Return a page with the blocks of two pages that share none."""
    blocks = np.concatenate((first.blocks, second.blocks))
    order = np.argsort(blocks)
    rows = (order[:, None] * BLOCK + np.arange(BLOCK)).ravel()
    first_cells, second_cells = first.cells, second.cells
    cells = SparseRows(
        np.concatenate((first_cells.ends, second_cells.ends + np.uint64(len(first_cells.counts)))),
        np.concatenate((first_cells.classes, second_cells.classes)),
        np.concatenate((first_cells.counts, second_cells.counts)),
    )
    return Page(
        blocks[order],
        np.concatenate((first.keys, second.keys))[rows],
        np.concatenate((first.usage, second.usage))[rows],
        cells.take(rows),
    )


def features_of(written: Iterable[bytes]) -> Keys:
    """Return the fingerprints of the features of b blocks, shape (b * BLOCK,).

    Raises
    ------
    ValueError, TypeError
        If a block is damaged.
    """
    keys = [block[1 : 1 + 8 * BLOCK] for block in written]
    if any(len(block_keys) != 8 * BLOCK for block_keys in keys):
        raise ValueError("a block is truncated")
    return np.frombuffer(b"".join(keys), "<u8").astype(np.uint64)


def places_within(blocks: Ints, written: Iterable[bytes], fingerprints: Keys) -> Ints:
    """Return the place of each feature in these blocks, -1 for a feature in no block.

    Raises
    ------
    ValueError, TypeError
        If a block is damaged.
    """
    keys = features_of(written)
    order = np.argsort(fingerprints)
    rising = fingerprints[order]
    indices, is_present = positions(rising, keys)
    rows = np.flatnonzero(is_present)
    places = np.full(len(fingerprints), -1, np.int64)
    places[order[indices[rows]]] = blocks[rows // BLOCK] * BLOCK + rows % BLOCK
    return places


_AT_ONCE = 20_000  # number of features in one query
MOST_PLACES = 1 << 48  # larger than any number of places
_LOOKS = 8  # messages of a transaction to read by place, before all places are read
# A message of n features is first searched for in the blocks of the first 3 n places. Features are
# placed as they come, so common ones come first: the blocks have two thirds of the features. Only
# the others are looked up by feature. Looking up all features takes twice as long.
_FIRST = 3


def _key(fingerprint: int) -> int:
    """Return a fingerprint as a signed integer, as SQLite stores it."""
    return fingerprint - (1 << 64) if fingerprint >= 1 << 63 else fingerprint


# A view's features. Blocks store them in the order in which they were first learned. Common
# features come early, so a message changes few blocks. It changes a third of the pages of a table
# with a row for each feature (measured). The ledger stores features by place, which takes fewer
# bytes.
_TABLES = (
    "CREATE TABLE features_VIEW"
    "(fingerprint {integer} PRIMARY KEY, place {integer} NOT NULL, name {blob})",
    "CREATE TABLE blocks_VIEW(block {integer} PRIMARY KEY, cells {blob} NOT NULL)",
)


def table_statements(views: int) -> list[str]:
    """Return the statements that create the tables of a number of views."""
    return [statement.replace("VIEW", str(view)) for view in range(views) for statement in _TABLES]


def make_tables(database: Database, views: int) -> None:
    """Drop existing tables, and create empty ones for a number of views, within a transaction."""
    for name in database.tables():
        if re.fullmatch(r"(?:features|blocks)_[0-9]+", name):
            database.connection.execute(f'DROP TABLE "{name}"')
    for statement in table_statements(views):
        database.create(statement)


class LocatedFeatures(NamedTuple):
    """Features, their places and their blocks.

    Attributes
    ----------
    fingerprints
        The features, shape (n,).
    places
        Place of each feature, shape (n,); -1 if it was never learned.
    page
        The blocks.
    rows
        Rows of the page of the features that were learned.
    """

    fingerprints: Keys
    places: Ints
    page: Page
    rows: Ints


def locate_features(fingerprints: Keys, places: Ints, page: Page) -> LocatedFeatures:
    """Return features with their places, and their rows in a page that has the blocks of all."""
    is_known = places >= 0
    return LocatedFeatures(
        fingerprints, places, page, page.rows(places if is_known.all() else places[is_known])
    )


class Places:
    """The places of a view's features; it reads and writes their blocks.

    Parameters
    ----------
    database
        The database.
    view
        Number of the view.

    Attributes
    ----------
    labels
        The classes: a block has a count for each of them.
    """

    def __init__(self, database: Database, view: int) -> None:
        self.database = database
        self.view = view
        self.labels: list[Label] = []
        self.places: int = 0
        self._changes = 0
        self._last_read: tuple[int, LocatedFeatures] | None = None
        # Places of the features in the last query. Writing counts does not change them.
        # `SqlCounts.lay_out` changes places, and so can another process between two calls of
        # `SqlCounts.load`.
        self._place_cache: tuple[Keys, Ints] | None = None
        self._looks = 0, 0  # version, and number of messages read by place
        self._keys: tuple[int, Page] | None = None  # version, and the features of all places

    def forget(self) -> None:
        """Drop all caches, because other processes may have changed the data."""
        self._last_read = self._place_cache = self._keys = None

    @property
    def version(self) -> int:
        """A number that stays the same only while the database does not change."""
        return self.database.changes + self._changes

    def _mark_changed(self) -> None:
        self._changes += 1
        self._last_read = None

    def name(self, fingerprint: int) -> Feature | None:
        """Return the name of a feature, None if it is unknown."""
        statement = f"SELECT name FROM features_{self.view} WHERE fingerprint = ?"  # noqa: S608
        row = self.database.connection.execute(statement, (_key(fingerprint),)).fetchone()
        if row is None or row[0] is None:
            return None
        if not isinstance(row[0], bytes):
            raise damage_error(self.database.path, "a feature's name is not valid")
        return _core.decode_name(row[0])

    def name_features(self, names: Iterable[tuple[int, bytes]]) -> None:
        """Store the names of features that have none, by fingerprint."""
        self.database.connection.executemany(
            f"UPDATE features_{self.view} SET name = ? "  # noqa: S608 (a number)
            "WHERE fingerprint = ? AND name IS NULL",
            [(name, _key(fingerprint)) for fingerprint, name in names],
        )

    def _read(self, fingerprints: Keys) -> LocatedFeatures:
        """Return the blocks of a message's features, cached for the last message."""
        if self._last_read is not None and self._last_read[0] == self.version:
            located = self._last_read[1]
            if located.fingerprints is fingerprints:
                return located
        first = -(-_FIRST * len(fingerprints) // BLOCK)
        blocks, written = self._first_blocks(first)
        with self._convert_damage():
            places = places_within(blocks, written, fingerprints)
        missing = np.flatnonzero(places < 0)
        places[missing] = self._find(fingerprints[missing])
        others = distinct(places[missing][places[missing] >= 0] // BLOCK)
        if len(others) and others[0] < first:  # the block has another feature there
            raise self._misplacement()
        page = self._page(np.concatenate((blocks, others)), written + self._blocks(others))
        located = locate_features(fingerprints, places, page)
        self._check_keys(located)
        return self._note(located)

    def _check_keys(self, located: LocatedFeatures) -> None:
        """Raise StateError unless each feature is in its block at its place."""
        lying = located.fingerprints[located.places >= 0]
        if (located.page.keys[located.rows] != lying).any():
            raise self._misplacement()

    def _misplacement(self) -> DamagedDatabaseError:
        return damage_error(self.database.path, "a feature refers to a wrong place in its block")

    def _note(self, located: LocatedFeatures) -> LocatedFeatures:
        self._last_read = self.version, located
        self._place_cache = located.fingerprints, located.places
        return located

    def places_of(self, fingerprints: Keys) -> Ints:
        """Return the place of each feature, -1 for one that was never learned."""
        if self._place_cache is not None:
            cached, places = self._place_cache
            if cached is fingerprints:
                return places
            indices, is_cached = positions(cached, fingerprints)
            # If `cached` is not sorted, some of its features are missed, and the query finds them.
            if len(cached) and is_cached.all():
                return places[indices]
        self._place_cache = fingerprints, self._find(fingerprints)
        return self._place_cache[1]

    def features_at(self, places: Ints) -> Keys:
        """Return the features at these places.

        The first 8 calls for a state of the database read the blocks of the places. They cache the
        counts, too, because unlearning needs them. Later calls use the features of all places,
        which are read once.

        Raises
        ------
        StateError
            If a place has no feature.
        """
        version, looks = self._looks
        looks = looks + 1 if version == self.version else 1
        self._looks = self.version, looks
        self._valid_places(places)
        page = self._read_page(places) if looks <= _LOOKS else self._all_keys()
        if not page.has(places):
            raise self._misplacement()
        rows = page.rows(places)
        fingerprints = page.keys[rows]
        if not fingerprints.all():
            raise self._misplacement()
        if looks <= _LOOKS:
            self._note(LocatedFeatures(fingerprints, places, page, rows))
        return fingerprints

    def _all_keys(self) -> Page:
        """Return a page with the features of all blocks, without counts."""
        if self._keys is not None and self._keys[0] == self.version:
            return self._keys[1]
        listed = self.database.connection.execute(
            f"SELECT block FROM blocks_{self.view} ORDER BY block"  # noqa: S608 (a number)
        ).fetchall()
        blocks = np.array([block for (block,) in listed], np.int64)
        page = Page(blocks, *read_blocks([None] * len(blocks), 0))
        written = self.database.stream(f"SELECT cells FROM blocks_{self.view} ORDER BY block")  # noqa: S608
        with self._convert_damage():
            for i, (block,) in enumerate(written):
                page.keys[i * BLOCK : (i + 1) * BLOCK] = features_of([block])
        self._keys = self.version, page
        return page

    def _query_keys(self, statement: str, keys: Ints) -> list[tuple[Any, Any]]:
        """Return (index in `keys`, selected value) for each key that is stored."""
        run, numbers = self.database.connection.execute, self.database.numbers
        if len(keys) <= _AT_ONCE:
            return run(statement, (numbers(keys.tolist()),)).fetchall()
        return [
            (start + number, value)
            for start in range(0, len(keys), _AT_ONCE)
            for number, value in run(statement, (numbers(keys[start : start + _AT_ONCE].tolist()),))
        ]

    def _find(self, fingerprints: Keys) -> Ints:
        keys = fingerprints.view(np.int64)
        order = np.argsort(keys)  # adjacent rows share a page
        pairs = self._query_keys(
            # CROSS JOIN makes SQLite loop over the list and look up each number.
            f"SELECT j.key, f.place FROM {self.database.dialect.number_table} AS j "  # noqa: S608 (ours)
            f"CROSS JOIN features_{self.view} AS f WHERE f.fingerprint = j.value",
            keys[order],
        )
        places = np.full(len(keys), -1, dtype=np.int64)
        if pairs:
            numbers, values = zip(*pairs, strict=True)
            places[order[list(numbers)]] = self._valid_places(values)
        return places

    def _valid_places(self, places: Sequence[Any] | Ints) -> Ints:
        try:
            checked = np.array(places, dtype=np.int64)
        except (TypeError, ValueError, OverflowError):  # SQLite columns can have any type
            raise self._misplacement() from None
        if len(checked) and (checked.min() < 0 or checked.max() >= self.places):
            raise self._misplacement()
        return checked

    def _first_blocks(self, count: int) -> tuple[Ints, list[Any]]:
        """Return the sorted numbers and the content of the stored blocks before number `count`."""
        pairs = self.database.connection.execute(
            f"SELECT block, cells FROM blocks_{self.view} WHERE block < ? ORDER BY block",  # noqa: S608
            (count,),
        ).fetchall()
        return np.array([block for block, _ in pairs], np.int64), [cells for _, cells in pairs]

    def _blocks(self, blocks: Ints) -> list[Any]:
        """Return the content of blocks, None for one that is not stored."""
        written: list[Any] = [None] * len(blocks)
        for number, cells in self._query_keys(
            f"SELECT j.key, b.cells FROM {self.database.dialect.number_table} AS j "  # noqa: S608 (ours)
            f"CROSS JOIN blocks_{self.view} AS b WHERE b.block = j.value",
            blocks,
        ):
            written[number] = cells
        return written

    def _page(self, blocks: Ints, written: list[Any]) -> Page:
        """Return a page of blocks from their content."""
        with self._convert_damage():
            return Page(blocks, *read_blocks(written, len(self.labels)))

    def _read_page(self, places: Ints) -> Page:
        """Read the blocks of these places."""
        blocks = distinct(places // BLOCK)
        return self._page(blocks, self._blocks(blocks))

    @contextlib.contextmanager
    def _convert_damage(self) -> Iterator[None]:
        """Raise StateError for a damaged block."""
        try:
            yield
        except (LookupError, TypeError, ValueError):
            raise damage_error(self.database.path, "a block of counts cannot be read") from None

    def _write(self, page: Page, rows: Ints) -> None:
        """Write the blocks of these rows."""
        if not len(rows):
            return
        touched = distinct(rows // BLOCK)
        written = write_blocks(page.keys, page.usage, page.cells, touched, len(self.labels))
        self.database.connection.executemany(
            f"INSERT INTO blocks_{self.view} VALUES (?, ?) "  # noqa: S608 (a number)
            "ON CONFLICT (block) DO UPDATE SET cells = excluded.cells",
            zip(page.blocks[touched].tolist(), written, strict=True),
        )

    def _with_places(self, located: LocatedFeatures, tokens: TokenCounts) -> LocatedFeatures:
        """Assign places to new features, in order of decreasing frequency."""
        new = np.flatnonzero(located.places < 0)
        new = new[np.argsort(-tokens.counts[new], kind="stable")]
        places = located.places.copy()
        places[new] = self.places + np.arange(len(new))
        self.places += len(new)
        self._insert(tokens, new, places[new])
        page, new_places = located.page, places[new]
        fresh = new_places[~positions(page.blocks, new_places // BLOCK)[1]]
        if len(fresh):
            page = join_pages(page, self._read_page(fresh))  # the first one may be partly full
        page.keys[page.rows(new_places)] = located.fingerprints[new]
        return self._note(locate_features(located.fingerprints, places, page))

    def _insert(self, tokens: TokenCounts, new: Ints, places: Ints) -> None:
        names: list[bytes | None] = [None] * len(new)
        if tokens.names is not None and tokens.ends is not None:
            ends = [0, *tokens.ends.tolist()]
            text = tokens.names
            texts = (text[ends[i] : ends[i + 1]] for i in new.tolist())
            names = [None if name == NO_NAME else name for name in texts]
        keys = tokens.fingerprints[new].view(np.int64).tolist()
        self.database.connection.executemany(
            f"INSERT INTO features_{self.view} VALUES (?, ?, ?)",  # noqa: S608 (a number)
            sorted(zip(keys, places.tolist(), names, strict=True)),
        )

    def _locate_all(self) -> LocatedFeatures:
        """Return all features in the order of signed integers, as in SQLite."""
        listed = self.database.connection.execute(
            f"SELECT fingerprint, place FROM features_{self.view} ORDER BY fingerprint"  # noqa: S608
        ).fetchall()
        keys = np.array([row[0] for row in listed], dtype=np.int64)
        places = self._valid_places([row[1] for row in listed])
        located = locate_features(keys.view(np.uint64), places, self._read_page(places))
        self._check_keys(located)
        return located

    def check_places(self) -> None:
        """Raise StateError if a feature's place has the counts of another feature."""
        self._locate_all()

    def erase(self, fingerprints: Keys, named: Bools) -> None:
        """Delete features without a count that the ledger does not refer to.

        `named` is a mask of the places in the ledger. Names of features in `fingerprints` without a
        count are deleted, too.
        """
        located = self._locate_all()
        page, rows = located.page, located.rows
        keys = located.fingerprints.view(np.int64)
        empty = ~page.cells.is_counted[rows]
        is_named = named[located.places]
        is_requested = np.isin(located.fingerprints, fingerprints)
        run = self.database.connection.executemany
        run(
            f"UPDATE features_{self.view} SET name = NULL WHERE fingerprint = ?",  # noqa: S608
            [(key,) for key in keys[empty & is_named & is_requested].tolist()],
        )
        run(
            f"DELETE FROM features_{self.view} WHERE fingerprint = ?",  # noqa: S608 (a number)
            [(key,) for key in keys[empty & ~is_named].tolist()],
        )
        erased_rows = rows[empty & ~is_named]
        page.keys[erased_rows], page.usage[erased_rows] = 0, 0
        self._write(page, erased_rows)
        self._place_cache = None
        self._mark_changed()
