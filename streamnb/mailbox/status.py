"""Numbers of learned messages, recent errors, and the messages that each class still needs."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from streamnb.classifier import Classifier
from streamnb.counts.protocol import Label
from streamnb.errors import StreamNBError, damage_error
from streamnb.mailbox.blend import Opinion, messages_of_both
from streamnb.mailbox.ledger import HUMAN, IMPORT, IS_RETIRED
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.rebuild import file_problems, is_due
from streamnb.naive_bayes.class_sums import ClassReliability
from streamnb.naive_bayes.receipt import Receipt

_MAX_MESSAGES = 1 << 20  # messages of other classes; more do not make a class ready


def site_opinion(mailbox: Mailbox) -> Opinion | None:
    """Return messages and ready classes of the site's model; None without a usable model."""
    with suppress(StreamNBError):
        return None if mailbox.base is None else mailbox.base.opinion(b"")
    return None


def readiness_by_label(mailbox: Mailbox, labels: Iterable[Label] | None = None) -> dict[str, str]:
    """Return the `readiness` of classes, with the site's model; of all classes for None."""
    site = site_opinion(mailbox)
    with mailbox.reading():
        return {
            str(label): readiness(mailbox.classifier, label, site)
            for label in (mailbox.active_labels if labels is None else labels)
        }


def is_ready(classifier: Classifier, label: Label, site: Opinion | None) -> bool:
    """Return whether a verdict of this class can be sure, with the site's model."""
    is_proven = classifier.model.is_ready(label) or _is_ready_at(site, label)
    messages = messages_of_both(classifier, site)
    return is_proven and classifier.is_sure_of_clear(label, messages)


def _is_ready_at(site: Opinion | None, label: Label) -> bool:
    return site is not None and str(label) in site.ready


def readiness(classifier: Classifier, label: Label, site: Opinion | None = None) -> str:
    """Describe the messages that a class needs to be ready; "ready" if it is.

    A class is ready under two conditions. It has enough correct predictions, each made before the
    message was learned. The other classes have enough messages: after a few messages, their next
    one is probably of a new kind, which the model cannot recognise.

    Examples
    --------
    >>> from streamnb import MailClassifier
    >>> classifier = MailClassifier()
    >>> for label in ("spam", "ham"):
    ...     _ = classifier.learn_one(b"Subject: " + label.encode(), label)
    >>> readiness(classifier, "spam")
    'sure after about 20 more spam and 45 more ham messages'
    """
    with classifier.model.lock:
        if is_ready(classifier, label, site):
            return "ready"
        messages = messages_of_both(classifier, site)
        is_own = label in classifier.messages()
        record = classifier.model.reliability_counts(label) if is_own else (0, 0)
        others = {y: n for y, n in messages.items() if y != label and n > 0}
        other_count = _missing_others(classifier, label, messages, others)
    own_count = 0
    if record is not None and not _is_ready_at(site, label):
        correct, wrong = record
        needed = max(ClassReliability.MIN_CORRECT, ClassReliability.CORRECT_PER_WRONG * wrong)
        own_count = max(needed - correct, 0)
    if other_count is None:
        return "never sure with these costs"
    other_name = next(iter(others)) if len(others) == 1 else None
    if not others:
        other_name = {"spam": "ham", "ham": "spam"}.get(str(label))
    own_messages = messages.get(label)
    if own_messages and not others:
        # No prediction counts before a second class is known. The next `learn` then rebuilds the
        # mailbox, which predicts all messages of the first class again.
        return f"needs about {_count_text(max(other_count, 1), str(other_name or 'other'))} first"
    if not own_messages or not other_count:
        own_count = max(own_count, 1)
    counts = [(own_count, f"more {label}"), (other_count, f"more {other_name or 'other'}")]
    *first, last = [(count, name) for count, name in counts if count]
    parts = [*(f"{count:,} {name}" for count, name in first), _count_text(*last)]
    return f"sure after about {' and '.join(parts)}"


def _count_text(count: int, name: str) -> str:
    return f"{count:,} {name} message{'s' if count > 1 else ''}"


def _missing_others(
    classifier: Classifier, label: Label, messages: dict[Label, float], others: dict[Label, float]
) -> int | None:
    """Return the number of missing messages of other classes; None if no number is enough."""
    largest = max(others, key=others.__getitem__, default=None)
    if largest is None:
        largest = "ham" if label == "spam" else "spam" if label == "ham" else "other"

    def is_sure(extra: int) -> bool:
        counts = dict(messages)
        counts[label] = max(counts.get(label, 0.0), float(ClassReliability.MIN_CORRECT))
        counts[largest] = counts.get(largest, 0.0) + extra
        return classifier.is_sure_of_clear(label, counts)

    if not is_sure(_MAX_MESSAGES):
        return None
    return bisect_left(range(_MAX_MESSAGES), True, key=is_sure)


_FIRST_WORD = "substr(source, 1, instr(source || ' ', ' ') - 1)"
RECENT = 1000  # number of messages for the error rate


class LabelOrigin(NamedTuple):
    """The number of messages of a class whose labels have the same author and source."""

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
    learned: list[LabelOrigin]
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


def _count_learned(mailbox: Mailbox) -> list[LabelOrigin]:
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
        learned.append(LabelOrigin(str(mailbox.labels[k]), labelled_by, source, messages))
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
