"""Undo and redo: restore an earlier state of a mailbox, and reverse the restoration."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

from streamnb.mailbox.ledger import COLUMNS, IS_RETIRED
from streamnb.mailbox.rebuild import is_rebuilt_since, rebuild
from streamnb.mailbox.stored_classifier import StoredClassifier

# Rows that the last `undo` removed from the ledger ('removed') or restored ('restored').
_SCHEMA = "CREATE TABLE undone AS SELECT 'removed' AS kind, * FROM ledger WHERE FALSE"


class UndoCounts(NamedTuple):
    """Numbers of labels that `undo` removes, restores, and cannot remove.

    A message whose features `compact` dropped cannot be unlearned.
    """

    unlearned: int
    restored: int
    retired: int


class LabelledMessage(NamedTuple):
    """A label of the ledger: when it was learned, its author, source, digest and subject.

    The subject is "" if the database has no verdict on the message.
    """

    time: float
    label: str
    labelled_by: str
    source: str
    digest: str
    subject: str


class RedoCounts(NamedTuple):
    """Numbers of labels that `redo` learns again, removes again, and leaves unchanged.

    A message is unchanged if its label was changed after the undo.
    """

    learned: int
    removed: int
    unchanged: int


def last_learned(mailbox: StoredClassifier, many: int = 1) -> float | None:
    """Return the moment at which the last `many` changes began; None if there are none.

    The messages of one command are one change. The rows of one import are one change, too.
    """
    # Rows come in descending order. The current change has the row `first` and all rows later than
    # `before`.
    first, before = None, math.inf
    changes = 0
    with mailbox.reading():
        spans = mailbox.ledger.command_spans()
        rows = mailbox.database.connection.execute(
            f"SELECT added_at FROM ledger WHERE NOT {IS_RETIRED} ORDER BY added_at DESC"  # noqa: S608
        )
        for (added_at,) in rows:
            if added_at != first and added_at <= before:
                changes += 1
                if changes > many:
                    break
                before = min(
                    (start for start, end in spans if start < added_at <= end), default=added_at
                )
            first = added_at
    return first


def moment_of(mailbox: StoredClassifier, timestamp: float) -> float:
    """Return the moment of the ledger for a time by the clock, in seconds since 1970.

    Moments always increase (`StoredClassifier.moment`). If the clock was once ahead, moments stay
    ahead until the clock reaches them. Until then, the times of the rows decide: the result is the
    first moment after which all rows have a time of at least `timestamp`.
    """
    now = time.time()
    with mailbox.reading():
        run = mailbox.database.connection.execute
        newest = run("SELECT max(added_at), max(removed_at) FROM ledger").fetchone()
        if max(moment or 0.0 for moment in newest) <= now:
            return timestamp
        moment = math.inf
        learned_rows = (
            f"SELECT added_at, time FROM ledger WHERE NOT {IS_RETIRED} ORDER BY added_at DESC"  # noqa: S608
        )
        for added_at, row_time in run(learned_rows):
            if row_time < timestamp:
                break
            moment = added_at
    return moment if math.isfinite(moment) else math.nextafter(max(filter(None, newest)), math.inf)


def undo(mailbox: StoredClassifier, since: float, dry_run: bool = False) -> UndoCounts:
    """Restore the state at a time: remove all labels that were added since.

    If the mailbox was rebuilt after that time, it is rebuilt again, because the rebuild learned the
    removed messages, too.

    Parameters
    ----------
    mailbox
        The mailbox.
    since
        Seconds since 1970.
    dry_run
        Count only; change nothing.
    """
    if not math.isfinite(since):
        raise ValueError(f"since: expected a finite number, not {since}")

    def undone() -> UndoCounts:
        """Remove the labels since that time and restore the earlier ones, within a transaction."""
        find = (
            "SELECT id, digest, tokens IS NULL, removed_at IS NULL FROM ledger "  # noqa: S608 (ours)
            f"WHERE NOT {IS_RETIRED} AND "
        )
        run = mailbox.database.connection.execute
        new = run(f"{find} added_at >= ?", (since,)).fetchall()
        old = run(f"{find} added_at < ? AND removed_at >= ?", (since, since)).fetchall()
        # Without features, only a change of `labelled_by` can be undone.
        same = {key for _, key, retired, _ in old if retired}
        lost = {key for _, key, retired, holds in new if retired and holds and key not in same}
        new = [number for number, key, *_ in new if key not in lost]
        old = [number for number, key, *_ in old if key not in lost]
        if not dry_run and (new or old):
            mailbox.database.store_value("undone", mailbox.moment())
            mailbox.database.drop_undo_log()
            run(_SCHEMA)
            keep = "INSERT INTO undone SELECT CAST(? AS TEXT), * FROM ledger WHERE id = ?"
            for number in reversed(new):
                row = mailbox.ledger.row(number)
                if row.removed_at is None and row.tokens is not None:
                    mailbox.unlearn_row(row)
                run(keep, ("removed", number))
                mailbox.ledger.remove(row)
            for number in old:
                row = mailbox.ledger.row(number)
                if row.tokens is not None:
                    mailbox.relearn_row(row)
                run(keep, ("restored", number))
                mailbox.ledger.end(row, None)
        return UndoCounts(len(new), len(old), len(lost))

    def count_undone() -> UndoCounts:
        with mailbox.reading():
            return undone()

    if dry_run:
        return mailbox.database.retry(count_undone)
    result = mailbox.transact(undone)
    if (result.unlearned or result.restored) and is_rebuilt_since(mailbox, since):
        rebuild(mailbox)
    return result


def labels_since(mailbox: StoredClassifier, since: float, most: int) -> list[LabelledMessage]:
    """Return the first labels since a moment, at most `most`."""
    with mailbox.reading():
        subject = "''"
        if "verdicts" in mailbox.database.tables():
            subject = "(SELECT subject FROM verdicts AS v WHERE v.digest = ledger.digest)"
        rows = mailbox.database.connection.execute(
            f"SELECT added_at, label, labelled_by, source, digest, {subject} FROM ledger "  # noqa: S608
            f"WHERE NOT {IS_RETIRED} AND tokens IS NOT NULL AND added_at >= ? "
            "ORDER BY added_at, id LIMIT ?",
            (since, most),
        ).fetchall()
        return [
            LabelledMessage(
                added, str(mailbox.labels[label]), author, source, key.hex(), title or ""
            )
            for added, label, author, source, key, title in rows
        ]


def redo(mailbox: StoredClassifier) -> RedoCounts:
    """Reverse the last `undo`, once: learn again the labels that it removed, exactly."""

    def redone() -> RedoCounts:
        """Learn again the labels that `undo` removed, and remove those that it restored."""
        removed_at = 0
        run = mailbox.database.connection.execute
        if "undone" not in mailbox.database.tables():
            return RedoCounts(0, 0, 0)
        since = float(mailbox.database.read_value("undone") or 0.0)
        undone_rows = run("SELECT kind, id, digest, removed_at FROM undone ORDER BY id").fetchall()
        changed = "SELECT digest FROM ledger WHERE added_at >= ? OR removed_at >= ?"
        later = {key for (key,) in run(changed, (since, since))}
        later &= {key for _, _, key, _ in undone_rows}
        undone_rows = [row for row in undone_rows if row[2] not in later]
        for number, removal in [(n, end) for kind, n, _, end in undone_rows if kind == "restored"]:
            rows = mailbox.ledger.find("id = ? AND removed_at IS NULL", (number,))
            for row in rows:
                if row.tokens is not None:
                    mailbox.unlearn_row(row)
                mailbox.ledger.end(row, removal)
            removed_at += len(rows)
        learned = 0
        insert = f"INSERT INTO ledger({COLUMNS}) VALUES (?{', ?' * 11})"  # noqa: S608
        select = f"SELECT {COLUMNS} FROM undone WHERE kind = 'removed' ORDER BY id"  # noqa: S608
        for columns in mailbox.database.stream(select):
            if columns[1] not in later:
                learned += 1
                run(insert, columns)
                row = mailbox.ledger.row(columns[0])
                if row.removed_at is None and row.tokens is not None:
                    mailbox.relearn_row(row)
        mailbox.database.drop_undo_log()
        return RedoCounts(learned, removed_at, len(later))

    with mailbox.database.reading():
        undone_at = float(mailbox.database.read_value("undone") or 0.0)
    result = mailbox.transact(redone)
    if (result.learned or result.removed) and is_rebuilt_since(mailbox, undone_at):
        rebuild(mailbox)
    return result


def undone_messages(mailbox: StoredClassifier) -> set[bytes]:
    """Return the digests of messages that the last `undo` changed."""
    if "undone" not in mailbox.database.tables():
        return set()
    return {key for (key,) in mailbox.database.connection.execute("SELECT digest FROM undone")}
