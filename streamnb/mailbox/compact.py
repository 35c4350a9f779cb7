"""Compaction: drop old features and rows of a mailbox, and report their numbers."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from streamnb.counts.database import is_rare, today
from streamnb.counts.memory import MemoryCounts, column_of
from streamnb.counts.places import positions
from streamnb.counts.protocol import Keys
from streamnb.mailbox.ledger import IS_MESSAGE, IS_RETIRED, IS_SUM, RETIRED, Row, pack_tokens
from streamnb.mailbox.mailbox import Mailbox
from streamnb.naive_bayes.receipt import Receipt

_PART_ROWS = 200  # rows of the ledger per transaction, which takes about .1 s
_REPACK_ROWS = 1000  # rows to repack per transaction, which takes about .5 s
# ratio of empty places to places with a count above which `compact` rewrites the features
_MAX_HOLES = 0.1


class CompactionResult(NamedTuple):
    """The numbers of rows and features that `compact` dropped.

    Attributes
    ----------
    features
        Number of features that were dropped because only one message had them.
    retired
        Number of messages whose features were dropped. Their counts stay, and they cannot be
        unlearned.
    history
        Number of dropped rows of removed labels. `undo` cannot restore these labels.
    before, after
        Size of the database in bytes.
    """

    features: int
    retired: int
    history: int
    before: int
    after: int


def compact(
    mailbox: Mailbox,
    rare_days: float | None = 180,
    ledger: float | None = None,
    dry_run: bool = False,
) -> CompactionResult:
    """Drop old features and rows in parts. Other processes can learn between two parts.

    Each part is a transaction, so you can interrupt compaction at any time. Committed parts stay
    dropped.

    Parameters
    ----------
    rare_days
        Days after which features of only one message are dropped; None to keep them. The message
        can still be forgotten, because the ledger drops these features, too.
    ledger
        Number of days that the ledger reaches back; None for no limit.
    dry_run
        Count only; change nothing.
    """
    before = mailbox.database.size()
    retired = history = dropped = 0
    before_s = -math.inf if ledger is None else time.time() - ledger * 86400
    if ledger is not None:
        retired, history = _retire(mailbox, before_s, dry_run)
    if rare_days is not None:
        dropped = _drop(mailbox, rare_days, before_s, dry_run)
    if not dry_run:
        with mailbox.reading():
            holes = max(counts.free_slots / (counts.features + 1) for counts in mailbox.counts)
        if holes > _MAX_HOLES:
            _repack(mailbox, by_place=False)
            _do_part(mailbox, partial(_lay_out, mailbox))
        _repack(mailbox, by_place=True)
        mailbox.database.shrink()
    return CompactionResult(dropped, retired, history, before, mailbox.database.size())


def _do_part(mailbox: Mailbox, act: Callable[[], int]) -> int:
    """Run `act` in a transaction and return its result, then pause to let other processes write."""
    begun = time.monotonic()

    def done() -> int:
        # Rows for `redo` can refer to rows that this transaction drops.
        mailbox.database.drop_undo_log()
        dropped = act()
        mailbox.compactions += dropped > 0
        return dropped

    dropped = mailbox.transact(done)
    pause(min(time.monotonic() - begun, 1.0))  # leave other processes as much time
    return dropped


def _in_parts(
    mailbox: Mailbox, numbers: list[int], size: int, act: Callable[[list[int]], int]
) -> int:
    """Return the sum of `act` over parts of the ledger's rows, `size` rows each."""
    starts = range(0, len(numbers), size)
    return sum(_do_part(mailbox, partial(act, numbers[i : i + size])) for i in starts)


def _rows(mailbox: Mailbox, numbers: list[int]) -> list[Row]:
    """Return the rows with these ids; rows that were deleted meanwhile are left out."""
    return [row for number in numbers for row in mailbox.ledger.find("id = ?", (number,))]


def _drop(mailbox: Mailbox, rare_days: float, before_s: float, dry_run: bool) -> int:
    """Drop features of only one message that was learned at least `rare_days` ago.

    Features of messages before `before_s` stay, because compaction adds these messages to sums.
    """
    with mailbox.reading():
        rare_features = [
            _rare(mailbox, view, rare_days, before_s) for view in range(len(mailbox.counts))
        ]
        numbers = mailbox.ledger.numbers(IS_MESSAGE)
    if dry_run:
        return sum(map(len, rare_features))

    def drop(part_numbers: list[int]) -> int:
        rows = [row for row in _rows(mailbox, part_numbers) if row.tokens is not None]
        dropped_features = []
        dropped = 0
        for view, (counts, rare) in enumerate(zip(mailbox.counts, rare_features, strict=True)):
            counted = [
                row for row in rows if row.removed_at is None and row.receipt.view_weights[view]
            ]
            # One of these rows is the only message with the feature. Counts that other processes
            # have added stay.
            dropped += counts.drop(_features(counted, view, rare), today() - rare_days)
            features = _features(rows, view, rare)
            dropped_features.append(features[counts.get_counts(features)[1] == 0])
        for row in rows:
            _remove_features(mailbox, row, dropped_features)
        return dropped

    return _in_parts(mailbox, numbers, _PART_ROWS, drop) if any(map(len, rare_features)) else 0


def _lay_out(mailbox: Mailbox) -> int:
    """Rewrite all features that have a count, within a transaction. Nothing is dropped.

    Places change, so rows of the ledger that are packed by place are packed by fingerprint first.
    """
    mailbox.ledger.repack(mailbox.ledger.packed(by_place=True), by_place=False)
    for counts in mailbox.counts:
        counts.lay_out()
    return 0


def _repack(mailbox: Mailbox, by_place: bool) -> None:
    """Replace fingerprints in the ledger by places (`by_place`), or places by fingerprints.

    It works in parts, and the database is consistent after each part.
    """
    with mailbox.reading():
        if not by_place:  # without this check, damage in the blocks would be copied into the ledger
            mailbox.check_places()
        numbers = mailbox.ledger.packed(not by_place)

    def part(part_numbers: list[int]) -> int:
        present = set(mailbox.ledger.packed(not by_place))  # other processes remove rows
        mailbox.ledger.repack([number for number in part_numbers if number in present], by_place)
        return 0

    _in_parts(mailbox, numbers, _REPACK_ROWS, part)


def _rare(mailbox: Mailbox, view: int, rare_days: float, before_s: float) -> Keys:
    """Return the sorted features of a view that can be dropped."""
    fingerprints, _, usage, _ = mailbox.counts[view].rows()
    rare = np.sort(fingerprints[is_rare(usage, today() - rare_days)])
    sums = f"({IS_SUM} OR time < ?) AND removed_at IS NULL"
    for row in mailbox.ledger.rows(sums, (before_s,)):
        if row.tokens is not None:
            rare = rare[~positions(np.sort(row.tokens[view].fingerprints), rare)[1]]
    return rare


def _features(rows: list[Row], view: int, candidates: Keys) -> Keys:
    """Return the sorted features among `candidates` that messages have."""
    fingerprints = [row.tokens[view].fingerprints for row in rows if row.tokens]
    features = np.unique(np.concatenate([candidates[:0], *fingerprints]))
    return features[positions(candidates, features)[1]]


def _remove_features(mailbox: Mailbox, row: Row, going: list[Keys]) -> None:
    """Remove features from a row. Its message can still be unlearned."""
    tokens = tuple(
        view.select(~positions(features, view.fingerprints)[1])
        for view, features in zip(row.tokens or (), going, strict=True)
    )
    if any(len(a) < len(b) for a, b in zip(tokens, row.tokens or (), strict=True)):
        mailbox.ledger.replace_tokens(row._replace(tokens=tokens), by_place=False)


def _retire(mailbox: Mailbox, before_s: float, dry_run: bool) -> tuple[int, int]:
    """Replace rows older than the limit by one row of sums for each class."""
    old = f"removed_at IS NULL AND tokens IS NOT NULL AND time < ? AND NOT {IS_RETIRED}"
    with mailbox.reading():
        numbers = mailbox.ledger.numbers(old, (before_s,))
        removed_count = len(mailbox.ledger.numbers("removed_at < ?", (before_s,)))
    if dry_run:
        return len(numbers), removed_count

    def retire(part_numbers: list[int]) -> int:
        rows = _rows(mailbox, part_numbers)
        rows = [row for row in rows if row.removed_at is None and row.tokens is not None]
        _write_sums(mailbox, rows)
        for row in rows:
            mailbox.ledger.replace_tokens(row._replace(tokens=None))
        return len(rows)

    def merge() -> int:
        former = list(mailbox.ledger.rows(f"{IS_RETIRED} AND removed_at IS NULL"))
        for row in former:
            mailbox.ledger.remove(row)
        _write_sums(mailbox, former)
        mailbox.database.connection.execute("DELETE FROM ledger WHERE removed_at < ?", (before_s,))
        return 0

    retired = _in_parts(mailbox, numbers, _PART_ROWS, retire)
    with mailbox.reading():
        sums, classes = mailbox.database.connection.execute(
            f"SELECT count(*), count(DISTINCT label) FROM ledger WHERE {IS_RETIRED}"  # noqa: S608
        ).fetchone()
    if removed_count or sums > classes:  # a later compaction continues one that was interrupted
        _do_part(mailbox, merge)
    return retired, removed_count


def _write_sums(mailbox: Mailbox, rows: list[Row]) -> None:
    """Write the sums of messages, one row for each class."""
    tables = [MemoryCounts(keep_names=False) for _ in mailbox.counts]
    for counts in tables:
        counts.add_classes(mailbox.labels)
    for row in rows:
        for j, counts in enumerate(tables):
            if row.tokens is not None:
                counts.add(
                    row.tokens[j], mailbox.labels[row.label], row.receipt.view_weights[j], 0.0
                )
    sums = [counts.items() for counts in tables]
    for k, label in enumerate(mailbox.labels):
        tokens = tuple(column_of(*view, k) for view in sums)
        if not any(map(len, tokens)):
            continue
        receipt = Receipt(0, 0.0, (1.0,) * len(tables))
        # The digest depends on more than the label, so the sums of two databases can be merged.
        identity = str([row.digest.hex() for row in rows if row.label == k]) + str(label)
        key = hashlib.sha256(identity.encode() + pack_tokens(tokens)).digest()
        mailbox.ledger.write(
            Row(0, key, k, RETIRED, RETIRED, 0.0, 0.0, None, None, "", receipt, tokens)
        )


def pause(seconds: float) -> None:
    """Let other processes write."""
    time.sleep(seconds)
