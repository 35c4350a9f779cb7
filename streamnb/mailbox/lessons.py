"""Learning, confirming and unlearning one message within a transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from streamnb.counts.protocol import Label
from streamnb.errors import StateError
from streamnb.mailbox.blend import blended, evidence_of, remember, scores_of
from streamnb.mailbox.ledger import HUMAN, PROGRAM, Row, check_label, of_known
from streamnb.mailbox.stored_classifier import StoredClassifier
from streamnb.scores import best_label


class Outcome(NamedTuple):
    """The result of learning or forgetting a message.

    Attributes
    ----------
    what
        "learned"; "corrected" (another label was unlearned first); "known" (nothing to do);
        "confirmed" (a person says what a program had said); "kept" (a program contradicts a
        person); "forgotten"; "unknown" (nothing to forget); "retired" (learned so long ago that its
        features were dropped: nothing changed).
    before
        The label it had, None where it had none.
    """

    what: str
    before: Label | None = None


def learn(
    mailbox: StoredClassifier,
    count: Callable[[], tuple[Any, dict[str, float] | None]],
    key: bytes,
    label: Label,
    labelled_by: str,
    source: str,
    when: float | None,
) -> Outcome:
    """Learn a message.

    `count` gives its features and what the site says of it, where that is asked for.
    """
    now = mailbox.moment(when)
    label = of_known(mailbox.labels, check_label(label))
    current = mailbox.ledger.said_of(key)
    number = mailbox.labels.index(label) if label in mailbox.labels else None
    if (
        current is not None
        and current[0] == number
        and (labelled_by != HUMAN or current[1] == HUMAN)
    ):
        return Outcome("known", label)
    before = None if current is None else mailbox.ledger.active(key)
    if before is not None:
        outcome = _overrule(mailbox, before, label, labelled_by, source, now)
        if outcome is not None:
            return outcome
    counted, site = count()
    predicted = _predicted(mailbox, counted, key, site)
    receipt = mailbox.classifier.model.learn(counted, label)
    number = mailbox.labels.index(label)
    predicted_index = None if predicted is None else mailbox.labels.index(predicted)
    row_time = time.time() if when is None else when
    views = mailbox.classifier.model.views_of(counted)
    mailbox.ledger.write(
        Row(
            0, key, number, labelled_by, source, row_time, now, None, predicted_index,
            mailbox.tokenizer_id, receipt, views,
        )
    )  # fmt: skip
    if before is None:
        return Outcome("learned")
    return Outcome("corrected", mailbox.labels[before.label])


def _predicted(
    mailbox: StoredClassifier, counted: Any, key: bytes, site: dict[str, float] | None
) -> Label | None:
    """Return the class predicted for a message before it is learned, None without any class."""
    if site is None or mailbox.base is None:
        return mailbox.classifier.model.predict_one(counted)
    evidence = evidence_of(scores_of(mailbox.classifier, counted), site)
    remember(mailbox.database.connection, key, mailbox.base.version, evidence)
    mailbox.gains_left = True
    scores = blended(evidence, mailbox.gains)
    best = best_label(scores)
    return next((label for label in mailbox.labels if str(label) == best), None)


def _overrule(
    mailbox: StoredClassifier, before: Row, label: Label, labelled_by: str, source: str, now: float
) -> Outcome | None:
    """Make way for another label of a message; an outcome where it is not to be learned."""
    current_label = mailbox.labels[before.label]
    if current_label == label:
        confirm(mailbox, before, source, now)
        return Outcome("confirmed", current_label)
    if before.labelled_by == HUMAN and labelled_by == PROGRAM:
        return Outcome("kept", current_label)
    if before.tokens is None:
        return Outcome("retired", current_label)
    take_back(mailbox, before, now)
    return None


def confirm(mailbox: StoredClassifier, before: Row, source: str, now: float) -> None:
    """A person says what a program had said."""
    mailbox.ledger.end(before, now)
    mailbox.ledger.write(before._replace(labelled_by=HUMAN, source=source, time=now, added_at=now))


def retract(
    mailbox: StoredClassifier, key: bytes, back_to: Sequence[Label] | None, when: float | None
) -> Outcome:
    """Take back the last word on a message: what it had corrected holds again.

    Only if that is one of `back_to`; None for all.
    """
    row = mailbox.ledger.active(key)
    if row is None:
        return Outcome("unknown")
    label = mailbox.labels[row.label]
    if row.tokens is None:
        return Outcome("retired", label)
    now = mailbox.moment(when)
    take_back(mailbox, row, now)
    condition = "digest = ? AND removed_at = ? AND id < ?"
    for old in list(mailbox.ledger.rows(condition, (key, row.added_at, row.id)))[-1:]:
        if old.tokens is not None and (back_to is None or mailbox.labels[old.label] in back_to):
            # Later than what was taken back removed_at: it did not correct that.
            add_row(mailbox, old._replace(id=0, added_at=mailbox.moment(when), removed_at=None))
    return Outcome("forgotten", label)


def unlearn_row(mailbox: StoredClassifier, row: Row) -> None:
    """Take a row's counts back."""
    mailbox.fit_gains_anew()
    model = mailbox.classifier.model
    try:
        label = mailbox.labels[row.label]
        model.unlearn(model.join_views(mailbox.views_of(row)), label, row.receipt)
    except (ValueError, IndexError) as error:
        raise StateError(
            f"{mailbox.path}: the counts do not agree with the ledger ({error}); "
            "see `streamnb verify`"
        ) from None


def take_back(mailbox: StoredClassifier, row: Row, now: float) -> None:
    """Unlearn a row."""
    unlearn_row(mailbox, row)
    mailbox.ledger.end(row, now)


def add_row(mailbox: StoredClassifier, row: Row) -> None:
    """Add a row and what its receipt says."""
    relearn_row(mailbox, row)
    mailbox.ledger.write(row)


def relearn_row(mailbox: StoredClassifier, row: Row) -> None:
    """Add a row's counts."""
    mailbox.fit_gains_anew()
    model = mailbox.classifier.model
    message = model.join_views(mailbox.views_of(row))
    model.reapply(message, mailbox.labels[row.label], row.receipt)
