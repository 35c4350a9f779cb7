"""Numbers of learned messages, reliability of the classes, recent errors."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, NamedTuple

from streamnb.errors import damage_error
from streamnb.mailbox.blend import Opinion
from streamnb.mailbox.ledger import HUMAN, IMPORT, IS_RETIRED
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.readiness import is_ready, site_opinion
from streamnb.mailbox.rebuild import is_due
from streamnb.mailbox.verify import file_problems
from streamnb.naive_bayes.receipt import Receipt

_FIRST_WORD = "substr(source, 1, instr(source || ' ', ' ') - 1)"
RECENT = 1000  # number of messages for the error rate


class Learned(NamedTuple):
    """Number of messages of a class by label's author and source."""

    label: str
    labelled_by: str
    source: str
    messages: int


class Class(NamedTuple):
    """Reliability of a class.

    Attributes
    ----------
    label
        The class.
    right, wrong
        Numbers of correct and wrong predictions of the class, each made before the message was
        learned. None if the model has no such record.
    ready
        Whether verdicts of the class can be sure.
    """

    label: str
    right: int | None
    wrong: int | None
    ready: bool


class Status(NamedTuple):
    """Statistics of a mailbox.

    Attributes
    ----------
    path
        The database.
    bytes
        Its size, including its write-ahead log.
    learned
        Numbers of messages by class, `labelled_by` and source.
    classes
        Reliability of each class.
    features
        Number of features of each view.
    recent, wrong
        Number of the last labels by a person with a prediction, at most `RECENT`; and number of
        wrong predictions among them.
    corrected, removed
        Numbers of labels that were replaced by another label, and of labels that were removed.
    last
        Time of the last learned message, in seconds since 1970. None if there is none.
    one_sided
        Whether the next `learn` learns all messages again, because many came in runs of one class.
    """

    path: str
    bytes: int
    learned: list[Learned]
    classes: list[Class]
    features: list[int]
    recent: int
    wrong: int
    corrected: int
    removed: int
    last: float | None
    one_sided: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the statistics as JSON values."""
        groups = ("learned", "classes")
        return self._asdict() | {
            name: [group._asdict() for group in getattr(self, name)] for name in groups
        }


def check_file(mailbox: Mailbox) -> None:
    """Raise DamagedDatabaseError if a page is damaged, or a table or column is missing.

    It reads 1 GB in about 1 s.
    """
    if problems := file_problems(mailbox):
        raise damage_error(mailbox.path, f"{' '.join(problems[0].split()):.200}")


def status(mailbox: Mailbox) -> Status:
    """Return the numbers of learned messages, the reliability of each class, and recent errors."""
    try:
        return _status(mailbox)
    except (TypeError, ValueError, IndexError) as error:
        raise damage_error(mailbox.path, f"a row of the ledger cannot be read ({error})") from None


def _status(mailbox: Mailbox) -> Status:
    """Compute the result of `status` in one transaction."""
    run = mailbox.database.connection.execute
    site = site_opinion(mailbox)
    with mailbox.reading():
        recent = run(
            "SELECT predicted != label FROM ledger WHERE removed_at IS NULL AND labelled_by = ? "
            "AND predicted IS NOT NULL ORDER BY id DESC LIMIT ?",
            (HUMAN, RECENT),
        ).fetchall()
        (removed_at,) = run("SELECT count(*) FROM ledger WHERE removed_at IS NOT NULL").fetchone()
        # A join, because SQLite reads the whole ledger again for each row of EXISTS.
        (corrected,) = run(
            "SELECT count(DISTINCT old.id) FROM ledger AS old JOIN ledger AS new "
            "ON new.digest = old.digest AND new.added_at = old.removed_at "
            "AND new.label != old.label"
        ).fetchone()
        (last,) = run("SELECT max(time) FROM ledger").fetchone()
        return Status(
            str(mailbox.path),
            mailbox.database.size(),
            _count_learned(mailbox),
            _classes(mailbox, site),
            [counts.features for counts in mailbox.counts],
            len(recent),
            sum(wrong for (wrong,) in recent),
            corrected,
            removed_at - corrected,
            None if last is None else min(last, time.time()),
            is_due(mailbox),
        )


def _count_learned(mailbox: Mailbox) -> list[Learned]:
    """Return the numbers of learned messages, within a transaction."""
    # A row of an import represents many messages, a row of `compact` none.
    groups = mailbox.database.connection.execute(
        f"SELECT label, labelled_by, {_FIRST_WORD}, count(*) FROM ledger "  # noqa: S608 (ours)
        f"WHERE removed_at IS NULL AND NOT {IS_RETIRED} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    ).fetchall()
    if not all(isinstance(text, str) for _, *texts, _ in groups for text in texts):
        raise TypeError("labelled_by or source is not text")
    imported = _count_imported(mailbox)
    learned = []
    for k, labelled_by, source, rows in groups:
        messages = imported[k, source] if labelled_by == IMPORT else rows
        learned.append(Learned(str(mailbox.labels[k]), labelled_by, source, messages))
    return learned


def _count_imported(mailbox: Mailbox) -> Counter[tuple[int, str]]:
    """Return the numbers of imported messages by class index and source."""
    rows = mailbox.database.connection.execute(
        f"SELECT label, {_FIRST_WORD}, receipt FROM ledger "  # noqa: S608 (ours)
        f"WHERE removed_at IS NULL AND labelled_by = '{IMPORT}'"
    )
    imported: Counter[tuple[int, str]] = Counter()
    for label, source, receipt in rows:
        imported[label, source] += round(Receipt.from_text(receipt).class_weight)
    return imported


def _classes(mailbox: Mailbox, site: Opinion | None) -> list[Class]:
    """Return the reliability of each class that has messages."""
    model = mailbox.classifier.model
    classes = []
    for label in mailbox.active_labels:
        right, wrong = model.reliability_counts(label) or (None, None)
        classes.append(Class(str(label), right, wrong, is_ready(mailbox.classifier, label, site)))
    return classes
