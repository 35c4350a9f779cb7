"""Bounded growth by choice: drop what is old, and say what was dropped."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamnb.counts.database import today
from streamnb.counts.memory import MemoryCounts
from streamnb.features.token_counts import TokenCounts
from streamnb.mailbox.ledger import Row, pack_tokens
from streamnb.mailbox.store import Mailbox
from streamnb.mailbox.undo import forget_undone
from streamnb.naive_bayes.receipt import Receipt

__all__ = ["Compacted", "compact"]


class Compacted(NamedTuple):
    """What `compact` dropped.

    Attributes
    ----------
    features
        Features that only one message had, long ago.
    retired
        Messages whose features were dropped: their counts stay, and cannot be taken back.
    history
        Learnings that had been taken back long ago: `undo` does not reach there any more.
    before, after
        Size of the database in bytes.
    """

    features: int
    retired: int
    history: int
    before: int
    after: int


def compact(
    mailbox: Mailbox, once: float | None = 180, ledger: float | None = None, dry_run: bool = False
) -> Compacted:
    """Drop what is old.

    Parameters
    ----------
    once
        Features that one message had, and none for so many days, are dropped; None for none. The
        message can still be forgotten: the ledger drops them too.
    ledger
        How many days back the ledger reaches; None for for ever.
    dry_run
        Only say what would go.
    """
    before = mailbox.database.size()
    retired = history = dropped = 0
    with mailbox.writing():
        if ledger is not None:
            at = time.time() - ledger * 86400
            retired, history = _retire(mailbox, at, dry_run)
        found = [_kept(mailbox, view, once) for view in range(len(mailbox.counts))]
        dropped = sum(int((~kept).sum()) for _, kept in found)
        if not dry_run:
            forget_undone(mailbox)
            if dropped:
                _drop_from_ledger(mailbox, [features[~kept] for features, kept in found])
            for counts, (features, kept) in zip(mailbox.counts, found, strict=True):
                counts.lay_out(features[kept])
    if not dry_run:
        mailbox.database.shrink()
    return Compacted(dropped, retired, history, before, mailbox.database.size())


def _kept(
    mailbox: Mailbox, view: int, once: float | None
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """All features of a view, and which of them stay."""
    fingerprints, _, seen, _ = mailbox.counts[view].rows()
    if once is None:
        return fingerprints, np.ones(len(fingerprints), dtype=bool)
    kept = (seen[:, 0] > 1) | (seen[:, 1].astype(np.int64) >= today() - once)
    # A row of an import, or of what was dropped, stands for many messages.
    for row in mailbox.ledger.rows("teacher IN ('import', 'retired') AND ended IS NULL"):
        if row.tokens is not None:
            kept |= _among(fingerprints, np.sort(row.tokens[view].fingerprints))
    return fingerprints, kept


def _drop_from_ledger(mailbox: Mailbox, dropped: list[NDArray[np.uint64]]) -> None:
    """Let no message have these features of each view, so that it can still be taken back."""
    ordered = [np.sort(features) for features in dropped]
    for (number,) in _numbers(mailbox, "tokens IS NOT NULL"):
        (row,) = mailbox.ledger.rows("id = ?", (number,))
        tokens = tuple(
            view.select(~_among(view.fingerprints, features))
            for view, features in zip(row.tokens or (), ordered, strict=True)
        )
        if any(len(a) < len(b) for a, b in zip(tokens, row.tokens or (), strict=True)):
            mailbox.ledger.replace_tokens(row._replace(tokens=tokens))


def _among(some: NDArray[np.uint64], ordered: NDArray[np.uint64]) -> NDArray[np.bool_]:
    at = np.minimum(np.searchsorted(ordered, some), max(len(ordered) - 1, 0))
    found: NDArray[np.bool_] = ordered[at] == some if len(ordered) else np.zeros(len(some), bool)
    return found


def _numbers(mailbox: Mailbox, where: str, values: tuple[float, ...] = ()) -> list[tuple[int]]:
    found: list[tuple[int]] = mailbox.database.connection.execute(
        f"SELECT id FROM ledger WHERE {where} ORDER BY id",  # noqa: S608 (ours)
        values,
    ).fetchall()
    return found


def _retire(mailbox: Mailbox, at: float, dry_run: bool) -> tuple[int, int]:
    """Put the counts of rows older than that into one row a class."""
    old = _numbers(
        mailbox, "ended IS NULL AND tokens IS NOT NULL AND time < ? AND teacher != 'retired'", (at,)
    )
    gone = _numbers(mailbox, "ended < ?", (at,))
    if dry_run:
        return len(old), len(gone)
    tables = [MemoryCounts(keep_names=False) for _ in mailbox.counts]
    for counts in tables:
        counts.declare(mailbox.labels)
    former = list(mailbox.ledger.rows("teacher = 'retired' AND ended IS NULL"))
    for row in (*former, *_rows(mailbox, old)):
        for j, counts in enumerate(tables):
            if row.tokens is not None:
                counts.add(row.tokens[j], mailbox.labels[row.label], row.receipt.weights[j], 0.0)
        if row.teacher == "retired":
            mailbox.ledger.remove(row)
        else:
            mailbox.ledger.replace_tokens(row._replace(tokens=None))
    if old or former:
        _write_retired(mailbox, tables)
    for (number,) in gone:
        mailbox.database.connection.execute("DELETE FROM ledger WHERE id = ?", (number,))
    return len(old), len(gone)


def _rows(mailbox: Mailbox, numbers: list[tuple[int]]) -> Iterator[Row]:
    for number in numbers:
        yield from mailbox.ledger.rows("id = ?", number)


def _write_retired(mailbox: Mailbox, tables: list[MemoryCounts]) -> None:
    everything = [counts.everything() for counts in tables]
    for k, label in enumerate(mailbox.labels):
        tokens = []
        for fingerprints, cells in everything:
            some = cells[:, k] > 0
            amounts = np.ascontiguousarray(cells[some, k])
            tokens.append(TokenCounts._trusted(fingerprints[some], amounts, None, None))
        if not any(map(len, tokens)):
            continue
        receipt = Receipt(0, 0.0, (1.0,) * len(tables))
        # Not only of the label: two databases may be merged.
        key = hashlib.sha256(str(label).encode() + pack_tokens(tokens)).digest()
        mailbox.ledger.write(
            Row(0, key, k, "retired", "retired", 0.0, 0.0, None, None, "", receipt, tuple(tokens))
        )
