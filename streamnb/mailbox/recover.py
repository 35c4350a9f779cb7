"""Recovery of the readable rows of a damaged database into a new one."""

from __future__ import annotations

import os
import sqlite3
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamnb.classifier import Classifier
from streamnb.counts.blocks import BLOCK, features_of, positions
from streamnb.counts.protocol import Ints, Keys, Label
from streamnb.errors import BusyError, StateError, convert_os_errors
from streamnb.features.token_counts import TokenCounts
from streamnb.mailbox.database import Database
from streamnb.mailbox.ledger import Row, check_row, row_of, select_row
from streamnb.mailbox.location import WAIT, is_url
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.stored_classifier import classifier_of
from streamnb.mailbox.transactions import STATE, STATE_COPY
from streamnb.mailbox.transfer.ledger_export import LedgerExport, MergeResult, merge_export
from streamnb.mailbox.upgrade import copy_settings
from streamnb.naive_bayes.text_model import TextModel
from streamnb.storage import label_from_json

_PROBES = 20_000  # numbers that are tried in a row where no page can be read
_ANY_CLASS = 1 << 16  # more classes than a database has


class Recovered(NamedTuple):
    """The result of a recovery.

    Attributes
    ----------
    rows_added
        Rows of the ledger that are in the new database.
    losses
        Everything that could not be recovered, a line each.
    """

    rows_added: int
    losses: list[str]


def recover(
    damaged: str | Path, new: str | Path, classes: Sequence[str] = (), wait: float = WAIT
) -> Recovered:
    """Copy every sound row of a damaged database's ledger to a new database.

    The counts are summed up from those rows, so damage to the counts does not matter. Removed rows
    are not copied, so `undo` cannot restore them.

    Parameters
    ----------
    damaged
        The damaged database; it is only read.
    new
        The database to create.
    classes
        The classes in the order in which they came, if the database has lost their names.
    wait
        Seconds to wait for other processes.

    Raises
    ------
    StateError
        If nothing can be recovered: the file is no database, the description of the classifier is
        lost, or the new database exists. Nothing is created then.
    """
    if os.path.lexists(new):
        raise StateError(f"{new}: it exists already: name a new database")
    losses: Counter[str] = Counter()
    if is_url(damaged) or is_url(new):
        raise StateError(
            "a database of a server is not recovered: restore the server's backup, or what "
            "`streamnb export` wrote"
        )
    database = Database(damaged, create=False, wait=wait, is_damaged=True)
    making = f"{new}.partial"  # the name says what it is, whenever this is killed
    try:
        _remove(making)
        with database.reading():  # one state of it, whatever others do
            done = _absorbed(database, making, classes, wait, losses)
        if done.rows_added == 0:
            reason = (
                "no row of its ledger can be kept" if losses else "its ledger has no rows to keep"
            )
            raise StateError(f"{damaged}: {reason}; nothing was made")
        with convert_os_errors(StateError, f"{new}: cannot be made"):
            os.link(making, new)  # fails where a file of that name was made meanwhile
    finally:
        _remove(making)
        database.close()
    if done.unchanged or done.overruled:
        losses["a message that is in the ledger twice"] += done.unchanged + done.overruled
    return Recovered(
        done.rows_added + done.overruling,
        [
            f"{reason}: {times:,} times" if times > 1 else reason
            for reason, times in sorted(losses.items())
        ],
    )


def _absorbed(
    database: Database, making: str, classes: Sequence[str], wait: float, losses: Counter[str]
) -> MergeResult:
    """Create a database from the readable rows of a damaged one."""
    classifier = _classifier(database)
    views = len(classifier.models)
    places = [_Places(database, view) for view in range(views)]
    labels = _labels(database) or list(classes)
    if not labels:
        raise StateError(f"{database.path}: {_what_to_name(database, places, classifier.model)}")

    def rows() -> Iterator[Row]:
        for number in _numbers(database, "ledger", "id", losses):
            row = _row(database, number, places, classifier.model, len(labels), losses)
            if row is not None:
                yield row

    def lost(description: str, error: Exception) -> None:
        if isinstance(error, BusyError):
            raise error
        losses[description] += 1

    names = partial(_names, database, views, losses)
    with Mailbox(making, wait=wait) as mailbox:
        done = merge_export(
            mailbox, LedgerExport(str(database.path), classifier, labels, rows, names)
        )
        copy_settings(database, mailbox.database, lost)
        return done


def _remove(path: str) -> None:
    for ending in ("", "-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)


def _state(database: Database, name: str, read: Callable[[Any], Any], table: str = "state") -> Any:
    """Return `read` of a stored value, None if the value is damaged."""
    try:
        return read(database.read_value(name, table))
    except BusyError:
        raise
    except Exception:  # whatever was done to the file
        return None


def _classifier(database: Database) -> Classifier:
    for table in ("state", STATE_COPY):
        classifier: Classifier | None = _state(database, "identity", classifier_of, table)
        if classifier is not None:
            return classifier
    raise StateError(
        f"{database.path}: how its features were made is lost, so nothing can be kept; restore "
        "it from a backup"
    )


def _labels(database: Database) -> list[Label] | None:
    """Return the classes, None if they are lost."""

    def read(now: Any) -> list[Label]:
        return [label_from_json(pair) for pair in now["views"][0]["labels"]]

    labels: list[Label] | None = _state(database, STATE, read)
    return labels


def _what_to_name(database: Database, places: Sequence[_Places], model: TextModel) -> str:
    """Return what the user can do if the names of the classes are lost."""
    lost: Counter[str] = Counter()
    rows = (
        _row(database, number, places, model, _ANY_CLASS, lost)
        for number in _numbers(database, "ledger", "id", lost)
    )
    messages = Counter(row.label for row in rows if row is not None)
    if not messages:
        return "no row of its ledger can be kept; nothing was made"
    counts = ", ".join(str(messages[k]) for k in range(max(messages) + 1))
    return (
        "the names of the classes are lost; name all of them in the order in which they were first "
        f"learned, as --class ham --class spam (messages left of each, in this order: {counts})"
    )


def _numbers(database: Database, table: str, key: str, losses: Counter[str]) -> Iterator[int]:
    """Yield the ids of a table's rows; behind a damaged page, try the ids that it may have held.

    A leaf of the table holds few rows, and a node above it some hundred leaves.
    """
    find = f"SELECT {key} FROM {table} WHERE {key} > ? ORDER BY {key}"  # noqa: S608 (ours)
    last, misses = -(1 << 63), 0
    tried: set[int] = set()  # of a damaged table numbers may come twice, and in any order
    while misses < _PROBES:
        try:
            for (number,) in database.connection.execute(find, (last,)):
                last = number
                if number not in tried:
                    tried.add(number)
                    misses = 0
                    yield number
            return
        except sqlite3.Error as error:
            if misses == 0:
                losses[f"what a page of the {table} held ({error!s:.100})"] += 1
            last, misses = max(last + 1, 0), misses + 1
    losses[f"all rows after number {last:,}, if there are any"] += 1


class _Places:
    """The places of a view's features, from the tables of features and of blocks.

    Attributes
    ----------
    lost
        Numbers that stand for unknown features.
    """

    def __init__(self, database: Database, view: int) -> None:
        self._places, self._keys = _agreed(*_read_places(database, view))
        self.lost: set[int] = set()

    def features_at(self, places: Ints) -> Keys:
        """Return the features at some places."""
        indices, is_known = positions(self._places, places)
        features: Keys = ~places.astype(np.uint64)
        features[is_known] = self._keys[indices[is_known]]
        self.lost.update(features[~is_known].tolist())
        return features

    def without_lost(self, tokens: TokenCounts) -> TokenCounts:
        """Return the tokens without unknown features."""
        if not self.lost:
            return tokens
        return tokens.select(
            np.array([f not in self.lost for f in tokens.fingerprints.tolist()], bool)
        )


def _read_places(database: Database, view: int) -> tuple[Sequence[int], Sequence[int]]:
    """Return the readable places and fingerprints of features; most come twice."""
    places, keys = array("q"), array("Q")
    for order in ("ASC", "DESC"):  # of a damaged table, what lies before and behind the damage
        try:
            listed = f"SELECT fingerprint, place FROM features_{view} ORDER BY fingerprint {order}"  # noqa: S608
            for key, place in database.connection.execute(listed):
                if isinstance(key, int) and isinstance(place, int):
                    places.append(place)
                    keys.append(key % (1 << 64))
            break
        except sqlite3.Error:
            continue
    for number in _numbers(database, f"blocks_{view}", "block", Counter()):
        with suppress(sqlite3.Error, ArithmeticError, TypeError, ValueError):
            (block,) = database.connection.execute(
                f"SELECT cells FROM blocks_{view} WHERE block = ?",  # noqa: S608 (a number)
                (number,),
            ).fetchone()
            features = features_of([block])
            occupied = np.flatnonzero(features)
            places.extend((number * BLOCK + occupied).tolist())
            keys.extend(features[occupied].tolist())
    return places, keys


def _agreed(places: Sequence[int], keys: Sequence[int]) -> tuple[Ints, Keys]:
    """Return the sorted places with a single fingerprint, and these fingerprints."""
    pairs = np.unique(
        np.column_stack((np.array(places, np.int64), np.array(keys, np.uint64).view(np.int64))),
        axis=0,
    )
    _, first, times = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    alone = first[times == 1]
    return pairs[alone, 0], pairs[alone, 1].view(np.uint64)


def _row(
    database: Database,
    number: int,
    places: Sequence[_Places],
    model: TextModel,
    classes: int,
    losses: Counter[str],
) -> Row | None:
    """Return an active and sound row, else None; count the reason if it is damaged."""
    try:
        columns = select_row(database, number)
        if columns is None:
            raise ValueError("it is listed, and is not found")
        row = row_of(columns, lambda view, row_places: places[view].features_at(row_places))
        check_row(row, model, classes)
        if row.tokens is not None:
            tokens = tuple(
                view_places.without_lost(v)
                for view_places, v in zip(places, row.tokens, strict=True)
            )
            kept_count, feature_count = sum(map(len, tokens)), sum(map(len, row.tokens))
            if 2 * kept_count < feature_count:
                raise ValueError("where its features lie is lost")
            if kept_count < feature_count and row.removed_at is None:
                losses["some features of a message"] += 1
            row = row._replace(tokens=tokens)
        return row if row.removed_at is None else None
    except Exception as error:  # whatever was done to the file
        losses[f"a row of the ledger ({error!s:.100})"] += 1
        return None


def _names(
    database: Database, views: int, losses: Counter[str]
) -> Iterator[tuple[int, int, bytes]]:
    for view in range(views):
        statement = f"SELECT fingerprint, name FROM features_{view} WHERE name IS NOT NULL"  # noqa: S608
        try:
            for key, name in database.connection.execute(statement):
                if isinstance(key, int) and isinstance(name, bytes):
                    yield view, key % (1 << 64), name
        except sqlite3.Error as error:
            losses[f"names of words ({error!s:.100})"] += 1
