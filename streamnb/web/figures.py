"""Accuracy of a mailbox: comparison of predictions with later labels."""

from __future__ import annotations

import math
from datetime import datetime
from itertools import groupby, pairwise
from typing import NamedTuple

from streamnb.evaluate.outcomes import wilson_interval
from streamnb.mailbox.ledger import HUMAN
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.verdict_log import VerdictLog

_MAX_PERIODS = 12  # points of the chart
_BINS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
_TICK_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25)  # distances of ticks on an axis of shares
_MAX_TICKS = 4
_ROWS_OF_PERIOD = 10  # minimum number of messages in a period within one day


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
    return Proportion(name, count, total, *(wilson_interval(count, total) if total else (0.0, 1.0)))


def mistakes(mailbox: Mailbox) -> list[Proportion]:
    """Return the proportion of a person's labels that were predicted wrongly, by period."""
    with mailbox.reading():
        rows = mailbox.database.connection.execute(
            "SELECT time, predicted != label FROM ledger WHERE removed_at IS NULL "
            "AND labelled_by = ? AND predicted IS NOT NULL ORDER BY id DESC LIMIT 10000",
            (HUMAN,),
        ).fetchall()[::-1]
    return [
        _proportion(name, sum(is_wrong), len(is_wrong))
        for name, is_wrong in split_periods([(time_s, bool(wrong)) for time_s, wrong in rows])
    ]


def split_periods(rows: list[tuple[float, bool]]) -> list[tuple[str, list[bool]]]:
    """Split rows of times in seconds into at most twelve periods, each with its name.

    Periods are days, or groups of days. If all rows are of one day, periods are groups of messages.
    """
    by_day = [
        (day, [wrong for _, wrong in group])
        for day, group in groupby(rows, lambda row: f"{datetime.fromtimestamp(row[0]):%F}")
    ]
    if len(by_day) == 1:
        values = by_day[0][1]
        bounds = _even_bounds(len(values), max(len(values) // _ROWS_OF_PERIOD, 1))
        return [(f"{a + 1} to {b}", values[a:b]) for a, b in bounds]
    periods = []
    for a, b in _even_bounds(len(by_day), len(by_day)):
        first, last = by_day[a][0], by_day[b - 1][0]
        name = first if first == last else f"{first} to {last}"
        periods.append((name, [wrong for _, day in by_day[a:b] for wrong in day]))
    return periods


def _even_bounds(count: int, parts: int) -> list[tuple[int, int]]:
    """Return start and end of at most `_MAX_PERIODS` parts of nearly equal size."""
    parts = min(parts, _MAX_PERIODS)
    return list(pairwise(count * i // parts for i in range(parts + 1))) if count else []


def axis_ticks(largest: float) -> list[float]:
    """Return round shares from 0 up to the largest share.

    Examples
    --------
    >>> axis_ticks(0.03), axis_ticks(0.31)
    ([0.0, 0.01, 0.02, 0.03], [0.0, 0.1, 0.2, 0.3, 0.4])
    """
    step = next((step for step in _TICK_STEPS if _MAX_TICKS * step >= largest), _TICK_STEPS[-1])
    count = max(math.ceil(largest / step - 1e-9), 1)
    return [round(step * i, 2) for i in range(count + 1)]


def reliability(mailbox: Mailbox) -> list[Proportion]:
    """Return the proportion of correct verdicts, by their probability."""
    labelled = [
        entry
        for entry in VerdictLog(mailbox).entries("labelled", most=100_000)
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
        name = f"{100 * low:.0f} to {100 * high:.0f} %"
        proportions.append(_proportion(name, correct, len(matches)))
    return proportions


def ledger_rows(mailbox: Mailbox) -> list[LedgerRow]:
    """Return the last labels in the ledger, the newest first."""
    with mailbox.reading():
        labels = dict(enumerate(map(str, mailbox.labels)))
        rows = mailbox.database.connection.execute(
            "SELECT id, digest, time, label, labelled_by, source, predicted FROM ledger "
            "WHERE removed_at IS NULL AND labelled_by IN ('human', 'program') "
            "ORDER BY id DESC LIMIT 25"
        ).fetchall()
        entries = VerdictLog(mailbox).entries("labelled", most=1000)
    subjects = {entry.digest: entry.subject for entry in entries}
    return [
        LedgerRow(
            row_id, time_s, labels[label], labelled_by, source, labels.get(predicted),
            subjects.get(digest),
        )
        for row_id, digest, time_s, label, labelled_by, source, predicted in rows
    ]  # fmt: skip
