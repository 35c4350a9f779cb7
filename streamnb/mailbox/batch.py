"""Batches: many messages in one transaction, with one read and one write of their counts."""

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
from streamnb.mailbox.blend import Opinion
from streamnb.mailbox.digest import digest
from streamnb.mailbox.ledger import HUMAN, check_label, check_origin, of_known
from streamnb.mailbox.stored_classifier import Outcome, StoredClassifier

Item = TypeVar("Item")

# Limits of a group: messages, counts, bytes, and seconds of reading. Within them, other writers
# wait for about a second, and progress is reported often.
_GROUP_LIMITS = 256, 1_200_000, 1 << 25
_MEAN_ENTRIES = 16  # at most so many classes, on average, have a count of a feature
_MAX_READING_S = 1.0
_MIN_BUFFERED = 4  # messages: a smaller group shares too few features to be faster
_CHANGES = frozenset(("learned", "corrected", "confirmed"))  # outcomes that add a row
_BATCHES = "batches"  # state: the number of the last batch of each stream


class LabelledMessage(NamedTuple):
    """A message, its class and its source (None for the source of the whole call)."""

    message: bytes
    label: Label
    source: str | None = None


# Such as a `LabelledMessage`.
MessageAndLabel = tuple[bytes, Label] | tuple[bytes, Label, str | None]


class MessageFeatures(NamedTuple):
    """A message's features, the classifier that computed them, and the site's opinion."""

    features: Any
    site: Opinion | None
    classifier: Classifier


class _PreparedExample(NamedTuple):
    """A labelled message with its digest and features.

    The features are None if the message is already learned with this label.
    """

    example: LabelledMessage
    key: bytes
    counted: MessageFeatures | None

    def views(self) -> Sequence[TokenCounts]:
        """Return the message's features by view, () if they are not needed."""
        counted = self.counted
        return () if counted is None else counted.classifier.model.views_of(counted.features)


def learn_many(
    mailbox: StoredClassifier,
    examples: Iterable[MessageAndLabel],
    labelled_by: str = HUMAN,
    source: str = "learn",
) -> Iterator[tuple[LabelledMessage, Outcome]]:
    """Learn messages in transactions of a few hundred.

    The result equals one `learn` for each message.

    Iterating over the result learns them.

    Yields
    ------
    LabelledMessage and Outcome
        Each message with its result, after the commit. If `examples` raises an error, the messages
        before it are learned.
    """
    check_origin(labelled_by, source)
    start: float | None = None
    for group in _prepared_groups(mailbox, examples):
        start, outcomes = mailbox.transact(
            partial(_learned_by_command, mailbox, group, labelled_by, source, start)
        )
        yield from zip([item.example for item in group], outcomes, strict=True)


def _learned_by_command(
    mailbox: StoredClassifier,
    items: Sequence[_PreparedExample],
    labelled_by: str,
    source: str,
    start: float | None,
) -> tuple[float | None, list[Outcome]]:
    """Learn messages of a command within a transaction.

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
    examples: Iterable[MessageAndLabel],
    stream: str,
    number: int,
    source: str = "batch",
) -> int:
    """Learn a numbered batch, as `Mailbox.learn_batch` describes it."""
    examples = list(examples)

    def learned() -> int:
        changed = 0
        done = mailbox.database.read_value(_BATCHES) or {}
        if number <= done.get(stream, -1):
            return 0
        start: float | None = None
        for group in _prepared_groups(mailbox, examples):
            start, outcomes = _learned_by_command(mailbox, group, HUMAN, source, start)
            changed += sum(outcome.result in ("learned", "corrected") for outcome in outcomes)
        mailbox.database.store_value(_BATCHES, {**done, stream: number})
        return changed

    return mailbox.transact(learned)


def _prepare(
    mailbox: StoredClassifier, labelled: MessageAndLabel, search_ledger: bool
) -> _PreparedExample:
    """Prepare a labelled message; with `search_ledger`, compute no features of a known message."""
    example = LabelledMessage(*labelled)
    example = example._replace(label=check_label(example.label))
    key = digest(example.message)
    check_origin(HUMAN, example.source or "")
    if search_ledger and mailbox.has_learned(key, example.label):
        return _PreparedExample(example, key, None)
    return _PreparedExample(example, key, counted_by(mailbox, example.message))


def counted_by(mailbox: StoredClassifier, message: bytes) -> MessageFeatures:
    """Return the features of a message, the site's opinion, and the classifier."""
    site = None if mailbox.base is None else mailbox.base.opinion(message)
    return MessageFeatures(mailbox.classifier.count(message), site, mailbox.classifier)


def _prepare_all(
    mailbox: StoredClassifier, examples: Iterable[MessageAndLabel]
) -> Iterator[_PreparedExample]:
    """Prepare labelled messages.

    Users often learn a folder again, and a query of the ledger takes a tenth of the time of
    tokenizing. In a run of new messages, only the messages 0, 1, 2, 4, 8, ... are looked up.
    """
    new = 0  # number of consecutive messages that the ledger does not have
    for example in examples:
        item = _prepare(mailbox, example, search_ledger=new & (new - 1) == 0)
        new = new + 1 if item.counted else 0
        yield item


def _prepared_groups(
    mailbox: StoredClassifier, examples: Iterable[MessageAndLabel]
) -> Iterator[list[_PreparedExample]]:
    ready = _prepare_all(mailbox, examples)
    return group_items(
        mailbox, ready, _PreparedExample.views, lambda item: len(item.example.message)
    )


def group_items(
    mailbox: StoredClassifier,
    items: Iterable[Item],
    views: Callable[[Item], Sequence[TokenCounts]],
    size: Callable[[Item], int] = lambda _: 0,
) -> Iterator[list[Item]]:
    """Yield groups of messages that are learned together.

    If `items` raises an error, the messages before it are yielded first.

    Parameters
    ----------
    mailbox
        The mailbox that learns them.
    items
        The messages, in any form.
    views
        Returns the features of an item by view.
    size
        Returns the bytes of an item in memory, without features.
    """
    group: list[Item] = []
    budget: tuple[int, ...] = _GROUP_LIMITS
    begun = time.monotonic()
    try:
        for item in items:
            group.append(item)
            # The counts of all classes are read and written; most features have few.
            counts = sum(map(len, views(item))) * min(len(mailbox.labels) + 1, _MEAN_ENTRIES)
            budget = tuple(map(sub, budget, (1, counts, size(item))))
            if min(budget) <= 0 or time.monotonic() - begun > _MAX_READING_S:
                yield group
                group, budget, begun = [], _GROUP_LIMITS, time.monotonic()
    except (Exception, KeyboardInterrupt):
        if group:
            yield group
        raise
    if group:
        yield group


def _learned_within(
    mailbox: StoredClassifier, items: Sequence[_PreparedExample], labelled_by: str, source: str
) -> list[Outcome]:
    """Learn messages, within a transaction."""
    labels_by_digest = mailbox.ledger.labels_of([item.key for item in items], mailbox.labels)

    def is_current(item: _PreparedExample) -> bool:
        # Another process may have unlearned the message, or set another classifier, since the
        # features were computed.
        if item.counted is None:
            return labels_by_digest.get(item.key) == of_known(mailbox.labels, item.example.label)
        return item.counted.classifier is mailbox.classifier

    items = [
        item if is_current(item) else _prepare(mailbox, item.example, search_ledger=False)
        for item in items
    ]
    coming: list[Label] = []  # classes that can be learned before the next message
    outcomes: list[Outcome] = []

    def adds(item: _PreparedExample) -> bool:
        label = of_known((*mailbox.labels, *coming), item.example.label)
        if item.key not in labels_by_digest and label not in coming:
            coming.append(label)
        same = labels_by_digest.setdefault(item.key, label) == label
        labels_by_digest[item.key] = label
        return same

    def learn(item: _PreparedExample) -> None:
        example = item.example
        message_source = example.source or source

        def count() -> tuple[Any, Opinion | None]:
            return (item.counted or counted_by(mailbox, example.message))[:2]

        outcomes.append(
            mailbox.learn_features(
                count, item.key, example.label, labelled_by, message_source, None
            )
        )

    in_order(mailbox, items, adds, _PreparedExample.views, learn)
    return outcomes


def in_order(
    mailbox: StoredClassifier,
    items: Iterable[Item],
    adds: Callable[[Item], bool],
    views: Callable[[Item], Sequence[TokenCounts]],
    act: Callable[[Item], None],
) -> None:
    """Call `act` for each message, in order.

    In a long run of messages that only add counts, the counts are updated in memory. They are
    written at the end of the run.

    Parameters
    ----------
    mailbox
        Within a transaction.
    items
        The messages, in any form.
    adds
        Returns whether `act` only adds counts; called once for each item, in order.
    views
        Returns the features of an item by view, () if they are not needed.
    act
        Called with each item.
    """
    for adding, group in groupby(items, adds):
        if not adding:
            for item in group:
                act(item)
            continue
        run = list(group)
        messages = [item_views for item in run if (item_views := views(item))]
        with _in_memory(mailbox, messages) if len(messages) >= _MIN_BUFFERED else nullcontext():
            for item in run:
                act(item)


@contextmanager
def _in_memory(
    mailbox: StoredClassifier, messages: Sequence[Sequence[TokenCounts]]
) -> Iterator[None]:
    """Hold the counts of these messages in memory, and write them at the end."""
    stored = mailbox.counts
    lent = [
        counts.checkout(views)
        for counts, views in zip(stored, zip(*messages, strict=True), strict=True)
    ]
    with mailbox.ledger.deferring_writes():
        try:
            for member, counts in zip(mailbox.models, lent, strict=True):
                member.counts = counts
            yield
        finally:
            for member, stored_counts in zip(mailbox.models, stored, strict=True):
                member.counts = stored_counts
        for stored_counts, buffer in zip(stored, lent, strict=True):
            stored_counts.commit(buffer)
