"""How well a mailbox does, by the labels that came later."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from streamnb.mailbox.ledger import HUMAN
from streamnb.mailbox.record import Record
from streamnb.mailbox.store import Mailbox

_GROUPS = 12
_BINS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0)


class Share(NamedTuple):
    """How many of some, with a 95 % interval (Wilson's).

    Attributes
    ----------
    name
        Of what.
    hits, of
        How many, of how many.
    low, high
        Bounds of the share.
    """

    name: str
    hits: int
    of: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The share itself."""
        return self.hits / self.of if self.of else 0.0


class Lesson(NamedTuple):
    """Something that was learned."""

    id: int
    time: float
    label: str
    labelled_by: str
    source: str
    predicted: str | None
    subject: str | None


def _share(name: str, count: int, of: int) -> Share:
    from scipy.stats import binomtest

    if of == 0:
        return Share(name, 0, 0, 0.0, 1.0)
    found = binomtest(count, of).proportion_ci(method="wilson")
    return Share(name, count, of, float(found.low), float(found.high))


def mistakes(mailbox: Mailbox) -> list[Share]:
    """How many of a person's labels were not what had been predicted, in groups over time."""
    with mailbox.reading():
        rows = mailbox.database.connection.execute(
            "SELECT time, predicted != label FROM ledger WHERE removed_at IS NULL AND labelled_by = ? "
            "AND predicted IS NOT NULL ORDER BY id DESC LIMIT 10000",
            (HUMAN,),
        ).fetchall()[::-1]
    groups = min(_GROUPS, max(len(rows) // 10, 1))
    found = []
    for i in range(groups):
        some = rows[i * len(rows) // groups : (i + 1) * len(rows) // groups]
        if some:
            until = f"{datetime.fromtimestamp(some[-1][0]):%F}"
            found.append(_share(until, sum(wrong for _, wrong in some), len(some)))
    return found


def reliability(mailbox: Mailbox) -> list[Share]:
    """Of recorded verdicts of about some probability, how many were right by a later label."""
    taught = [
        entry
        for entry in Record(mailbox).entries("taught", most=100_000)
        if entry.labelled_by == HUMAN and entry.label is not None
    ]
    found = []
    for low, high in pairwise(_BINS):
        some = [
            one for one in taught if low <= one.probability < high or one.probability == high == 1
        ]
        right = sum(one.label == one.taught for one in some)
        found.append(_share(f"{low:.0%} to {high:.0%}", right, len(some)))
    return found


def lessons(mailbox: Mailbox, most: int = 25) -> list[Lesson]:
    """What was learned last."""
    with mailbox.reading():
        labels = dict(enumerate(map(str, mailbox.labels)))
        rows = mailbox.database.connection.execute(
            "SELECT id, digest, time, label, labelled_by, source, predicted FROM ledger "
            "WHERE removed_at IS NULL AND labelled_by IN ('human', 'program') ORDER BY id DESC LIMIT ?",
            (most,),
        ).fetchall()
        subjects = {one.digest: one.subject for one in Record(mailbox).entries("taught", most=1000)}
    return [
        Lesson(number, at, labels[y], labelled_by, source, labels.get(predicted), subjects.get(key))
        for number, key, at, y, labelled_by, source, predicted in rows
    ]
