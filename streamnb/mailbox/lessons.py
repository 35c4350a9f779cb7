"""What is done to one message within a transaction: learn it, confirm it, take it back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from streamnb.counts.protocol import Label
from streamnb.errors import StateError
from streamnb.mailbox.blend import blended, evidence_of, remember, scores_of
from streamnb.mailbox.ledger import HUMAN, PROGRAM, Row, check_label, of_known
from streamnb.mailbox.memory import Memory
from streamnb.scores import best_label


class Outcome(NamedTuple):
    """What became of a label that was given.

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
    memory: Memory,
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
    now = memory.moment(when)
    label = of_known(memory.labels, check_label(label))
    said = memory.ledger.said_of(key)
    number = memory.labels.index(label) if label in memory.labels else None
    if said is not None and said[0] == number and (labelled_by != HUMAN or said[1] == HUMAN):
        return Outcome("known", label)
    before = None if said is None else memory.ledger.active(key)
    if before is not None:
        outcome = _overrule(memory, before, label, labelled_by, source, now)
        if outcome is not None:
            return outcome
    counted, site = count()
    predicted = _predicted(memory, counted, key, site)
    receipt = memory.classifier.model.learn(counted, label)
    number = memory.labels.index(label)
    predicted_index = None if predicted is None else memory.labels.index(predicted)
    at = time.time() if when is None else when
    views = memory.classifier.model.views_of(counted)
    memory.ledger.write(
        Row(
            0, key, number, labelled_by, source, at, now, None, predicted_index,
            memory.tokenizer_id, receipt, views,
        )
    )  # fmt: skip
    if before is None:
        return Outcome("learned")
    return Outcome("corrected", memory.labels[before.label])


def _predicted(
    memory: Memory, counted: Any, key: bytes, site: dict[str, float] | None
) -> Label | None:
    """What a message that is about to be learned would be taken for; None for nothing known."""
    if site is None or memory.base is None:
        return memory.classifier.model.predict_one(counted)
    evidence = evidence_of(scores_of(memory.classifier, counted), site)
    remember(memory.database.connection, key, memory.base.version, evidence)
    memory.gains_left = True
    scores = blended(evidence, memory.gains)
    best = best_label(scores)
    return next((known for known in memory.labels if str(known) == best), None)


def _overrule(
    memory: Memory, before: Row, label: Label, labelled_by: str, source: str, now: float
) -> Outcome | None:
    """Make way for another label of a message; an outcome where it is not to be learned."""
    said = memory.labels[before.label]
    if said == label:
        confirm(memory, before, source, now)
        return Outcome("confirmed", said)
    if before.labelled_by == HUMAN and labelled_by == PROGRAM:
        return Outcome("kept", said)
    if before.tokens is None:
        return Outcome("retired", said)
    take_back(memory, before, now)
    return None


def confirm(memory: Memory, before: Row, source: str, now: float) -> None:
    """A person says what a program had said."""
    memory.ledger.end(before, now)
    memory.ledger.write(before._replace(labelled_by=HUMAN, source=source, time=now, added_at=now))


def retract(
    memory: Memory, key: bytes, back_to: Sequence[Label] | None, when: float | None
) -> Outcome:
    """Take back the last word on a message: what it had corrected holds again.

    Only if that is one of `back_to`; None for all.
    """
    row = memory.ledger.active(key)
    if row is None:
        return Outcome("unknown")
    label = memory.labels[row.label]
    if row.tokens is None:
        return Outcome("retired", label)
    now = memory.moment(when)
    take_back(memory, row, now)
    where = "digest = ? AND removed_at = ? AND id < ?"
    for old in list(memory.ledger.rows(where, (key, row.added_at, row.id)))[-1:]:
        if old.tokens is not None and (back_to is None or memory.labels[old.label] in back_to):
            # Later than what was taken back removed_at: it did not correct that.
            add_row(memory, old._replace(id=0, added_at=memory.moment(when), removed_at=None))
    return Outcome("forgotten", label)


def unlearn_row(memory: Memory, row: Row) -> None:
    """Take a row's counts back."""
    memory.fit_gains_anew()
    model = memory.classifier.model
    try:
        label = memory.labels[row.label]
        model.unlearn(model.join_views(memory.views_of(row)), label, row.receipt)
    except (ValueError, IndexError) as error:
        raise StateError(
            f"{memory.path}: the counts do not agree with the ledger ({error}); "
            "see `streamnb verify`"
        ) from None


def take_back(memory: Memory, row: Row, now: float) -> None:
    """Unlearn a row."""
    unlearn_row(memory, row)
    memory.ledger.end(row, now)


def add_row(memory: Memory, row: Row) -> None:
    """Add a row and what its receipt says."""
    relearn_row(memory, row)
    memory.ledger.write(row)


def relearn_row(memory: Memory, row: Row) -> None:
    """Add a row's counts."""
    memory.fit_gains_anew()
    model = memory.classifier.model
    message = model.join_views(memory.views_of(row))
    model.reapply(message, memory.labels[row.label], row.receipt)
