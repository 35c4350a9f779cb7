"""Many messages in one transaction: read what they have once, learn in memory, write it once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import groupby
from operator import sub
from typing import Any, NamedTuple, TypeVar

from streamnb.classifier import Classifier
from streamnb.counts.protocol import Label
from streamnb.features.token_counts import TokenCounts
from streamnb.mailbox.digest import digest
from streamnb.mailbox.ledger import HUMAN, check_label, check_origin, of_known
from streamnb.mailbox.stored_classifier import Outcome, StoredClassifier

Item = TypeVar("Item")

# A group is learned when it has so many messages, counts or bytes, or when reading it took so
# many seconds: others wait for about a second then, and who waits for an answer sees them come.
_LIMITS = 256, 1_200_000, 1 << 25
_SECONDS = 1.0
_MANY = 4  # fewer messages have little in common
_CHANGES = frozenset(("learned", "corrected", "confirmed"))  # outcomes that add a row
_BATCHES = "batches"  # the number of the last batch of each stream


class LabelledMessage(NamedTuple):
    """A message, its class, and where it came from (None: as is said of all)."""

    message: bytes
    label: Label
    source: str | None = None


MessageAndLabel = tuple[bytes, Label] | tuple[bytes, Label, str | None]  # a LabelledMessage is one


class Counted(NamedTuple):
    """The features of a message, as a classifier sees them, and what the site says of it."""

    features: Any
    site: dict[str, float] | None
    classifier: Classifier


class _Prepared(NamedTuple):
    """A lesson, and what can be known of it before a transaction begins.

    What was learned already need not be counted.
    """

    lesson: LabelledMessage
    key: bytes
    counted: Counted | None

    def views(self) -> Sequence[TokenCounts]:
        """Its features; none where they need not be known."""
        counted = self.counted
        return () if counted is None else counted.classifier.model.views_of(counted.features)


def learn_many(
    mailbox: StoredClassifier,
    lessons: Iterable[MessageAndLabel],
    labelled_by: str = HUMAN,
    source: str = "learn",
) -> Iterator[tuple[LabelledMessage, Outcome]]:
    """Learn messages as `Mailbox.learn` does one after the other, some hundred a transaction.

    They are learned while what this gives is gone through, as ``for lesson, outcome in ...``.

    Yields
    ------
    LabelledMessage and Outcome
        What became of each: from then on it is safe. Where `lessons` raises an error, what came
        before it is learned all the same.
    """
    check_origin(labelled_by, source)
    start: float | None = None
    for group in _prepared_groups(mailbox, lessons):
        start, outcomes = mailbox.transact(
            partial(_learned_by_command, mailbox, group, labelled_by, source, start)
        )
        yield from zip([item.lesson for item in group], outcomes, strict=True)


def _learned_by_command(
    mailbox: StoredClassifier,
    items: Sequence[_Prepared],
    labelled_by: str,
    source: str,
    start: float | None,
) -> tuple[float | None, list[Outcome]]:
    """Learn messages of a command that began after `start`, or begins now, within a transaction.

    Returns
    -------
    start and outcomes
        The moment before the command's first change, None if it has changed nothing yet.
    """
    before = mailbox.latest_moment if start is None else start
    outcomes = _learned_within(mailbox, items, labelled_by, source)
    if any(outcome.result in _CHANGES for outcome in outcomes):
        mailbox.ledger.record_command(before, mailbox.latest_moment)
        start = before
    return start, outcomes


def learn_batch(
    mailbox: StoredClassifier,
    lessons: Iterable[MessageAndLabel],
    stream: str,
    number: int,
    source: str = "batch",
) -> int:
    """See `Mailbox.learn_batch`."""
    lessons = list(lessons)

    def learned() -> int:
        changed = 0
        done = mailbox.database.value(_BATCHES) or {}
        if number <= done.get(stream, -1):
            return 0
        start: float | None = None
        for group in _prepared_groups(mailbox, lessons):
            start, outcomes = _learned_by_command(mailbox, group, HUMAN, source, start)
            changed += sum(outcome.result in ("learned", "corrected") for outcome in outcomes)
        mailbox.database.keep(_BATCHES, {**done, stream: number})
        return changed

    return mailbox.transact(learned)


def _prepare(mailbox: StoredClassifier, teaching: MessageAndLabel, look: bool) -> _Prepared:
    """A lesson that can be learned; where to look is worth it, perhaps without its features."""
    lesson = LabelledMessage(*teaching)
    lesson = lesson._replace(label=check_label(lesson.label))
    key = digest(lesson.message)
    check_origin(HUMAN, lesson.source or "")
    if look and mailbox.has_learned(key, lesson.label):
        return _Prepared(lesson, key, None)
    return _Prepared(lesson, key, counted_by(mailbox, lesson.message))


def counted_by(mailbox: StoredClassifier, message: bytes) -> Counted:
    """Return the features of a message and the site's scores, before a transaction begins."""
    site = None if mailbox.base is None else mailbox.base.scores(message)
    return Counted(mailbox.classifier.count(message), site, mailbox.classifier)


def _prepare_all(
    mailbox: StoredClassifier, lessons: Iterable[MessageAndLabel]
) -> Iterator[_Prepared]:
    """Lessons that can be learned.

    Folders are taught again and again, and to count what is known takes ten times as long as to
    look whether it is. Who teaches what is new is spared most of the looking.
    """
    new = 0  # messages in a row
    for lesson in lessons:
        item = _prepare(mailbox, lesson, look=new & (new - 1) == 0)
        new = new + 1 if item.counted else 0
        yield item


def _prepared_groups(
    mailbox: StoredClassifier, lessons: Iterable[MessageAndLabel]
) -> Iterator[list[_Prepared]]:
    ready = _prepare_all(mailbox, lessons)
    return grouped(mailbox, ready, _Prepared.views, lambda item: len(item.lesson.message))


def grouped(
    mailbox: StoredClassifier,
    items: Iterable[Item],
    views: Callable[[Item], Sequence[TokenCounts]],
    size: Callable[[Item], int] = lambda _: 0,
) -> Iterator[list[Item]]:
    """Put messages into groups that can be learned together.

    Where `items` raises an error, what came before it is a group all the same.

    Parameters
    ----------
    mailbox
        Which is to learn them.
    items
        What stands for the messages.
    views
        The features of one.
    size
        How many bytes one takes, beside those.
    """
    group: list[Item] = []
    budget: tuple[int, ...] = _LIMITS
    begun = time.monotonic()
    try:
        for item in items:
            group.append(item)
            # Counts are read and written for all classes.
            counts = sum(map(len, views(item))) * (len(mailbox.labels) + 1)
            budget = tuple(map(sub, budget, (1, counts, size(item))))
            if min(budget) <= 0 or time.monotonic() - begun > _SECONDS:
                yield group
                group, budget, begun = [], _LIMITS, time.monotonic()
    except (Exception, KeyboardInterrupt):
        if group:
            yield group
        raise
    if group:
        yield group


def _learned_within(
    mailbox: StoredClassifier, items: Sequence[_Prepared], labelled_by: str, source: str
) -> list[Outcome]:
    """Learn messages, within a transaction."""
    labels_by_digest = mailbox.ledger.labels_of([item.key for item in items], mailbox.labels)

    def is_current(item: _Prepared) -> bool:
        # Others may have taken it back, or made it another kind of database, since it was counted.
        if item.counted is None:
            return labels_by_digest.get(item.key) == of_known(mailbox.labels, item.lesson.label)
        return item.counted.classifier is mailbox.classifier

    items = [
        item if is_current(item) else _prepare(mailbox, item.lesson, look=False) for item in items
    ]
    coming: list[Label] = []  # classes that may be learned before it comes to the next one
    outcomes: list[Outcome] = []

    def adds(item: _Prepared) -> bool:
        label = of_known((*mailbox.labels, *coming), item.lesson.label)
        if item.key not in labels_by_digest and label not in coming:
            coming.append(label)
        same = labels_by_digest.setdefault(item.key, label) == label
        labels_by_digest[item.key] = label
        return same

    def learn(item: _Prepared) -> None:
        lesson = item.lesson
        message_source = lesson.source or source

        def count() -> tuple[Any, dict[str, float] | None]:
            return (item.counted or counted_by(mailbox, lesson.message))[:2]

        outcomes.append(
            mailbox.learn_features(count, item.key, lesson.label, labelled_by, message_source, None)
        )

    in_order(mailbox, items, adds, _Prepared.views, learn)
    return outcomes


def in_order(
    mailbox: StoredClassifier,
    items: Iterable[Item],
    adds: Callable[[Item], bool],
    views: Callable[[Item], Sequence[TokenCounts]],
    act: Callable[[Item], None],
) -> None:
    """Do something with each message, in memory where that only adds to what is counted.

    Parameters
    ----------
    mailbox
        Within a transaction.
    items
        What stands for the messages.
    adds
        Whether it only adds for one of them; asked once for each, in order.
    views
        The features of one; none where they are known not to be asked for.
    act
        What is done with one.
    """
    for adding, group in groupby(items, adds):
        if not adding:
            for item in group:
                act(item)
            continue
        run = list(group)
        messages = [item_views for item in run if (item_views := views(item))]
        with _in_memory(mailbox, messages) if len(messages) >= _MANY else nullcontext():
            for item in run:
                act(item)


@contextmanager
def _in_memory(
    mailbox: StoredClassifier, messages: Sequence[Sequence[TokenCounts]]
) -> Iterator[None]:
    """Let the models learn these messages in memory, and write it in the end."""
    stored = mailbox.counts
    lent = [
        counts.checkout(views)
        for counts, views in zip(stored, zip(*messages, strict=True), strict=True)
    ]
    with mailbox.ledger.holding_back():
        try:
            for member, counts in zip(mailbox.models, lent, strict=True):
                member.counts = counts
            yield
        finally:
            for member, stored_counts in zip(mailbox.models, stored, strict=True):
                member.counts = stored_counts
        for stored_counts, buffer in zip(stored, lent, strict=True):
            stored_counts.commit(buffer)
