"""New databases from older ones: recovery of readable rows, and upgrade to the current views."""

from __future__ import annotations

import os
import sqlite3
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from streamnb.classifier import Classifier
from streamnb.classifier.presets import PresetClassifier
from streamnb.counts.places import BLOCK, features_of, positions
from streamnb.counts.protocol import Ints, Keys, Label
from streamnb.database import Database
from streamnb.errors import BusyError, OutputError, StateError, convert_os_errors
from streamnb.features.token_counts import TokenCounts
from streamnb.features.views import tokenizer_config
from streamnb.mailbox.digest import digest
from streamnb.mailbox.ledger import ERASED, IS_RETIRED, Row, check_row, row_of, select_row
from streamnb.mailbox.location import WAIT, is_url
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.schema import STATE, STATE_COPY
from streamnb.mailbox.sqlite import SqliteDatabase
from streamnb.mailbox.stored_classifier import Outcome, classifier_of
from streamnb.mailbox.transfer.ledger_export import LedgerExport, MergeResult, merge_export
from streamnb.naive_bayes.text_model import TextModel
from streamnb.storage import label_from_json, move_file

# SQL for the limits of the log of verdicts, the watched folders, and the locations of messages.
_SELECT_STATES = (
    "SELECT name, value FROM state WHERE name = 'record' OR substr(name, 1, 8) = 'watched '"
)
_WATCHED = "account, folder, uid, key, keyword, moved_to, first_seen, missing_since"
_OWNER_SETTINGS = ("positive", "costs", "label_noise", "preset", "keep_names", "words")


def create_upgraded(old: Mailbox, new: str | Path, wait: float = WAIT) -> Mailbox:
    """Create a mailbox with the current views and the settings of `old`.

    The settings are costs, positive class, tokenizer of words, preset, label noise, limits of the
    log of verdicts, and the state of `watch`.

    Raises
    ------
    StateError
        If the user chose the old views, both databases are the same, or the new one exists with
        other views.
    """
    classifier = old.classifier
    if not isinstance(classifier, PresetClassifier) or classifier.views is not None:
        raise StateError(
            f"{old.path}: its views were chosen by hand, so there is no newer version of them"
        )
    files = not is_url(old.location) and Path(new).exists()
    if str(new) == old.location or (files and Path(new).samefile(old.path)):
        raise StateError(f"{old.path}: the file is the old database; name another file")
    fresh = type(classifier)(**{name: getattr(classifier, name) for name in _OWNER_SETTINGS})
    renewed = Mailbox(new, create=True, wait=wait, classifier=fresh)
    if tokenizer_config(renewed.classifier.tokenizer) != tokenizer_config(fresh.tokenizer):
        renewed.close()
        raise StateError(f"{renewed.path}: the file exists and has other views; name another file")
    copy_settings(old.database, renewed.database)
    return renewed


def copy_label(old: Mailbox, new: Mailbox, message: bytes) -> Outcome:
    """Learn a message with the old mailbox's label; the outcome is "unknown" without one."""
    with old.reading():
        row = old.ledger.active(digest(message))
        if row is None:
            return Outcome("unknown")
        label = old.labels[row.label]
    return new.learn(message, label, row.labelled_by, row.source, row.time)


def count_missing(old: Mailbox, new: Mailbox) -> int:
    """Return the number of messages that only the old mailbox has learned."""
    # Neither sums of old messages nor erased rows have the digest of a message.
    find = f"SELECT digest FROM ledger WHERE removed_at IS NULL AND NOT {IS_RETIRED}"  # noqa: S608
    with old.reading(), new.reading():
        keys = old.database.connection.execute(f"{find} AND source <> ?", (ERASED,))
        return sum(new.ledger.label_of(key) is None for (key,) in keys)


def copy_settings(
    old: Database, new: Database, on_loss: Callable[[str, Exception], None] | None = None
) -> None:
    """Copy the owner's settings and the state of `watch`, unless the new database has them.

    Parameters
    ----------
    old
        The database to read.
    new
        The database to write, in one transaction for each kind.
    on_loss
        Called with a description of what cannot be read and the error. None raises the error.
    """
    parts = (
        (
            "the limits of the log and the watched folders",
            _SELECT_STATES,
            "INTO state VALUES (?, ?)",
        ),
        (
            "the locations of messages in watched folders",
            f"SELECT {_WATCHED} FROM watched",  # noqa: S608 (a constant)
            f"INTO watched({_WATCHED}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        ),
    )
    for description, find, target in parts:
        try:
            with old.reading() as connection:
                rows: list[tuple[Any, ...]] = connection.execute(find).fetchall()
        except Exception as error:
            if on_loss is None:
                raise
            on_loss(description, error)
            continue
        with new.writing() as connection:
            for row in rows:
                connection.execute(f"INSERT {target} ON CONFLICT DO NOTHING", row)


_PROBES = 20_000  # number of consecutive ids to try without a readable page
_ANY_CLASS = 1 << 16  # larger than the number of classes of any database


class RecoveryResult(NamedTuple):
    """The result of a recovery.

    Attributes
    ----------
    rows_added
        Rows of the ledger that are in the new database.
    losses
        One line for each loss.
    """

    rows_added: int
    losses: list[str]


def recover(
    damaged: str | Path, new: str | Path, classes: Sequence[str] = (), wait: float = WAIT
) -> RecoveryResult:
    """Copy every undamaged row of a damaged database's ledger to a new database.

    Counts are computed from these rows, so damaged counts do not matter. Removed rows are not
    copied, so `undo` cannot restore them.

    Parameters
    ----------
    damaged
        The damaged database; it is only read.
    new
        The database to create.
    classes
        The classes in the order in which they were first learned, if their names are damaged.
    wait
        Seconds to wait for other processes.

    Raises
    ------
    StateError
        If the file is not a database, the description of the classifier is lost, or the new
        database exists. Nothing is created.
    OutputError
        If the new database cannot be created.
    """
    if os.path.lexists(new):
        raise StateError(f"{new}: the file exists; name a new database")
    losses: Counter[str] = Counter()
    if is_url(damaged) or is_url(new):
        raise StateError(
            "`recover` works on files, not on a server's database; restore the server's backup, "
            "or import a file from `streamnb export`"
        )
    making = f"{new}.partial"  # after a kill, the name shows that the file is incomplete
    with convert_os_errors(OutputError, f"{new}: the database cannot be created"):
        remove_database(making)
    database = SqliteDatabase(damaged, create=False, wait=wait, is_damaged=True)
    try:
        with database.reading():  # one transaction hides changes of other processes
            done = _create_from_rows(database, making, classes, wait, losses)
        if done.rows_added == 0:
            reason = (
                "no row of its ledger can be read" if losses else "its ledger has no rows to copy"
            )
            raise StateError(f"{damaged}: {reason}; no database was created")
        with convert_os_errors(StateError, f"{new}: cannot be made"):
            move_file(
                making, os.fspath(new)
            )  # fails if another process has created a file of that name
    finally:
        remove_database(making)
        database.close()
    if done.unchanged or done.overruled:
        losses["a message that is in the ledger twice"] += done.unchanged + done.overruled
    return RecoveryResult(
        done.rows_added + done.overruling,
        [
            f"{reason}: {times:,} times" if times > 1 else reason
            for reason, times in sorted(losses.items())
        ],
    )


def _create_from_rows(
    database: SqliteDatabase, making: str, classes: Sequence[str], wait: float, losses: Counter[str]
) -> MergeResult:
    """Create a database from the readable rows of a damaged one."""
    classifier = _classifier(database)
    views = len(classifier.models)
    places = [_Places(database, view) for view in range(views)]
    labels = _labels(database) or list(classes)
    if not labels:
        raise StateError(
            f"{database.path}: {_lost_names_advice(database, places, classifier.model)}"
        )

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


def remove_database(path: str) -> None:
    """Remove a file of SQLite and its log, if they exist."""
    for ending in ("", "-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)


def _state(
    database: SqliteDatabase, name: str, read: Callable[[Any], Any], table: str = "state"
) -> Any:
    """Return the result of `read` for a stored value, None if the value is damaged."""
    try:
        return read(database.read_value(name, table))
    except BusyError:
        raise
    except Exception:  # the file can have any content
        return None


def _classifier(database: SqliteDatabase) -> Classifier:
    for table in ("state", STATE_COPY):
        classifier: Classifier | None = _state(database, "identity", classifier_of, table)
        if classifier is not None:
            return classifier
    raise StateError(
        f"{database.path}: the description of its features is damaged, so nothing can be "
        "recovered; restore it from a backup"
    )


def _labels(database: SqliteDatabase) -> list[Label] | None:
    """Return the classes, None if they are lost."""

    def read(now: Any) -> list[Label]:
        return [label_from_json(pair) for pair in now["views"][0]["labels"]]

    return cast("list[Label] | None", _state(database, STATE, read))


_MOST_COUNTS = 50  # maximum number of classes in an error: a damaged number can be huge


def _lost_names_advice(
    database: SqliteDatabase, places: Sequence[_Places], model: TextModel
) -> str:
    """Return advice for the user if the names of the classes are lost."""
    lost: Counter[str] = Counter()
    rows = (
        _row(database, number, places, model, _ANY_CLASS, lost)
        for number in _numbers(database, "ledger", "id", lost)
    )
    messages = Counter(row.label for row in rows if row is not None)
    if not messages:
        return "no row of its ledger can be recovered; no database was created"
    counts = ", ".join(str(messages[k]) for k in range(min(max(messages) + 1, _MOST_COUNTS)))
    return (
        "the names of the classes are lost; name all classes in the order in which they were first "
        "learned, such as --class ham --class spam. In this order, the numbers of their readable "
        f"messages are {counts}"
    )


def _numbers(database: SqliteDatabase, table: str, key: str, losses: Counter[str]) -> Iterator[int]:
    """Yield the ids of a table's rows. After a damaged page, try the ids that it may contain.

    A leaf of the table has few rows, and a node above it has some hundred leaves.
    """
    find = f"SELECT {key} FROM {table} WHERE {key} > ? ORDER BY {key}"  # noqa: S608 (ours)
    last, misses = -(1 << 63), 0
    tried: set[int] = set()  # a damaged table can return ids twice and in any order
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
                losses[f"the content of a page of the {table} ({error!s:.100})"] += 1
            last, misses = max(last + 1, 0), misses + 1
    losses[f"all rows after number {last:,}, if there are any"] += 1


class _Places:
    """The places of a view's features, from the tables of features and of blocks.

    Attributes
    ----------
    lost
        Fingerprints that represent unknown features.
    """

    def __init__(self, database: SqliteDatabase, view: int) -> None:
        self._places, self._keys = _unanimous_places(*_read_places(database, view))
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


def _read_places(database: SqliteDatabase, view: int) -> tuple[Sequence[int], Sequence[int]]:
    """Return the readable places and fingerprints of features; most appear twice."""
    places, keys = array("q"), array("Q")
    for order in ("ASC", "DESC"):  # read a damaged table from both ends
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


def _unanimous_places(places: Sequence[int], keys: Sequence[int]) -> tuple[Ints, Keys]:
    """Return the sorted places that all pairs give one fingerprint, and these fingerprints."""
    pairs = np.unique(
        np.column_stack((np.array(places, np.int64), np.array(keys, np.uint64).view(np.int64))),
        axis=0,
    )
    _, first, times = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    alone = first[times == 1]
    return pairs[alone, 0], pairs[alone, 1].view(np.uint64)


def _row(
    database: SqliteDatabase,
    number: int,
    places: Sequence[_Places],
    model: TextModel,
    classes: int,
    losses: Counter[str],
) -> Row | None:
    """Return an active, undamaged row. Otherwise return None, and count the reason for damage."""
    try:
        columns = select_row(database, number)
        if columns is None:
            raise ValueError("a row of the ledger is in the index, but cannot be read")
        row = row_of(columns, lambda view, row_places: places[view].features_at(row_places))
        check_row(row, model, classes)
        if row.tokens is not None:
            tokens = tuple(
                view_places.without_lost(v)
                for view_places, v in zip(places, row.tokens, strict=True)
            )
            kept_count, feature_count = sum(map(len, tokens)), sum(map(len, row.tokens))
            if 2 * kept_count < feature_count:
                raise ValueError("most features of a message are lost")
            if kept_count < feature_count and row.removed_at is None:
                losses["some features of a message"] += 1
            row = row._replace(tokens=tokens)
        return row if row.removed_at is None else None
    except Exception as error:  # the file can have any content
        losses[f"a row of the ledger ({error!s:.100})"] += 1
        return None


def _names(
    database: SqliteDatabase, views: int, losses: Counter[str]
) -> Iterator[tuple[int, int, bytes]]:
    for view in range(views):
        statement = f"SELECT fingerprint, name FROM features_{view} WHERE name IS NOT NULL"  # noqa: S608
        try:
            for key, name in database.connection.execute(statement):
                if isinstance(key, int) and isinstance(name, bytes):
                    yield view, key % (1 << 64), name
        except sqlite3.Error as error:
            losses[f"names of words ({error!s:.100})"] += 1
