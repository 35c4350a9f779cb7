"""Accuracy of a mailbox: its predictions compared with labels that came later."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from streamnb.mailbox.ledger import HUMAN
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.verdict_log import VerdictLog

_MAX_PERIODS = 12  # points of the chart
_BINS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0)


class Proportion(NamedTuple):
    """A proportion with its 95 % interval (Wilson's).

    Attributes
    ----------
    name
        The period or the probabilities.
    hits, total
        Numerator and denominator.
    low, high
        Bounds of the interval.
    """

    name: str
    hits: int
    total: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The proportion; 0 if the total is 0."""
        return self.hits / self.total if self.total else 0.0


class LedgerRow(NamedTuple):
    """A label in the ledger, with the subject of its message."""

    id: int
    time: float
    label: str
    labelled_by: str
    source: str
    predicted: str | None
    subject: str | None


def _proportion(name: str, count: int, total: int) -> Proportion:
    from scipy.stats import binomtest

    if total == 0:
        return Proportion(name, 0, 0, 0.0, 1.0)
    interval = binomtest(count, total).proportion_ci(method="wilson")
    return Proportion(name, count, total, float(interval.low), float(interval.high))


def mistakes(mailbox: Mailbox) -> list[Proportion]:
    """Return the proportion of a person's labels that were predicted wrongly, by period."""
    with mailbox.reading():
        rows = mailbox.database.connection.execute(
            "SELECT time, predicted != label FROM ledger WHERE removed_at IS NULL "
            "AND labelled_by = ? AND predicted IS NOT NULL ORDER BY id DESC LIMIT 10000",
            (HUMAN,),
        ).fetchall()[::-1]
    is_one_day = bool(rows) and _day(rows[0][0]) == _day(rows[-1][0])
    groups = min(_MAX_PERIODS, max(len(rows) // 10, 1))
    periods = []
    for i in range(groups):
        period = rows[i * len(rows) // groups : (i + 1) * len(rows) // groups]
        if period:
            end = _period_end(period[-1][0], is_one_day)
            periods.append(_proportion(end, sum(wrong for _, wrong in period), len(period)))
    return periods


def reliability(mailbox: Mailbox) -> list[Proportion]:
    """Return the proportion of correct verdicts, by their probability."""
    labelled = [
        entry
        for entry in VerdictLog(mailbox).entries("taught", most=100_000)
        if entry.labelled_by == HUMAN and entry.label is not None
    ]
    proportions = []
    for low, high in pairwise(_BINS):
        matches = [
            entry
            for entry in labelled
            if low <= entry.probability < high or entry.probability == high == 1
        ]
        correct = sum(entry.label == entry.learned_label for entry in matches)
        proportions.append(_proportion(f"{low:.0%} to {high:.0%}", correct, len(matches)))
    return proportions


def ledger_rows(mailbox: Mailbox, limit: int = 25) -> list[LedgerRow]:
    """Return the last labels in the ledger, the newest first."""
    with mailbox.reading():
        labels = dict(enumerate(map(str, mailbox.labels)))
        rows = mailbox.database.connection.execute(
            "SELECT id, digest, time, label, labelled_by, source, predicted FROM ledger "
            "WHERE removed_at IS NULL AND labelled_by IN ('human', 'program') "
            "ORDER BY id DESC LIMIT ?",
            (limit,),
        ).fetchall()
        entries = VerdictLog(mailbox).entries("taught", most=1000)
    subjects = {entry.digest: entry.subject for entry in entries}
    return [
        LedgerRow(
            row_id, time_s, labels[label], labelled_by, source, labels.get(predicted),
            subjects.get(digest),
        )
        for row_id, digest, time_s, label, labelled_by, source, predicted in rows
    ]  # fmt: skip


def _day(time_s: float) -> str:
    return f"{datetime.fromtimestamp(time_s):%F}"


def _period_end(time_s: float, is_one_day: bool) -> str:
    """Return the end of a period: its time of day if all periods are within one day."""
    return f"{datetime.fromtimestamp(time_s):%H:%M}" if is_one_day else _day(time_s)
