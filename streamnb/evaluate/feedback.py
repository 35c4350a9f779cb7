"""Feedback policies decide which labels a model learns, and when.

Pass a list of policies to `prequential`. Each policy gets the labels that the one before it
releases: ``[Noisy(0.1), Delayed(100)]`` makes 10 % of the labels wrong, and all labels late.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from streamnb import _core
from streamnb.constraints import Constraint, Integer, Number, is_number
from streamnb.scores import log_odds

_MIN_DATES = 9  # minimum number of messages with a date before the stream's clock is used
_CLOCK_WINDOW = 51  # number of messages whose median date is the stream's time


class PendingLabel(NamedTuple):
    """A classified message and the label that may be learned.

    Attributes
    ----------
    x
        The input of the model.
    y
        The label.
    predicted, scores
        The model's prediction and the joint log-likelihood of each class.
    position
        Number of messages classified before it.
    date
        Date sent, in seconds since 1970; None if unknown.
    recipients
        Addresses of the recipients.
    """

    x: Any
    y: Any
    predicted: Any = None
    scores: Mapping[Any, float] = {}
    position: int = 0
    date: float | None = None
    recipients: Sequence[str] = ()


class FeedbackPolicy:
    """Base class of policies. A policy releases a label now, later, changed, or never.

    Attributes
    ----------
    ignores_predictions
        True if the released labels do not depend on the model's predictions.
    needs_envelope
        True if `PendingLabel.date` or `PendingLabel.recipients` must be filled in.
    constraints
        What the values of some fields must be, by the field's name.
    """

    ignores_predictions: ClassVar[bool] = True
    needs_envelope: ClassVar[bool] = False
    constraints: ClassVar[Mapping[str, Constraint]] = {}

    def __post_init__(self) -> None:
        for name, check in self.constraints.items():
            value = getattr(self, name)
            for number in value.values() if isinstance(value, Mapping) else [value]:
                check(name, number)
        # an experiment, not a secret
        self._random = random.Random(getattr(self, "seed", None))  # noqa: S311
        self._queue = _DueQueue()

    def release(self, pending: list[PendingLabel], latest: PendingLabel) -> list[PendingLabel]:
        """Accept labels and return those that are due after message `latest` was classified."""
        raise NotImplementedError


def release_labels(
    policies: Sequence[FeedbackPolicy], latest: PendingLabel, learn: bool = True
) -> list[PendingLabel]:
    """Return the labels to learn after a message, passed through all policies in order.

    Parameters
    ----------
    policies
        The policies, in order.
    latest
        The message that was just classified.
    learn
        False to never release the label of this message. Earlier labels can still become due.

    Examples
    --------
    >>> from streamnb.evaluate.feedback import Delayed, OnError, PendingLabel, release_labels
    >>> policies = [OnError(), Delayed(messages=1)]
    >>> stream = [("spam", "ham"), ("ham", "ham"), ("ham", "spam")]
    >>> for position, (y, predicted) in enumerate(stream):
    ...     labels = release_labels(policies, PendingLabel({}, y, predicted, position=position))
    ...     print([(label.position, label.y) for label in labels])
    []
    [(0, 'spam')]
    []
    """
    pending = [latest] if learn else []
    for policy in policies:
        pending = policy.release(pending, latest)
    return pending


class _DueQueue:
    """Pending labels ordered by due time; equal times keep their order of arrival."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, PendingLabel]] = []
        self._count = 0

    def put(self, due_time: float, label: PendingLabel) -> None:
        heapq.heappush(self._heap, (due_time, self._count, label))
        self._count += 1

    def pop_until(self, time: float) -> list[PendingLabel]:
        released = []
        while self._heap and self._heap[0][0] <= time:
            released.append(heapq.heappop(self._heap)[2])
        return released


class _DelayedByMessages(FeedbackPolicy):
    """Base class of policies that release each label a number of messages later."""

    def release(self, pending: list[PendingLabel], latest: PendingLabel) -> list[PendingLabel]:
        """Queue the labels and return those that are due."""
        for label in pending:
            self._queue.put(latest.position + self._delay(), label)
        return self._queue.pop_until(latest.position)

    def _delay(self) -> int:
        """Return the number of messages for the next label."""
        raise NotImplementedError


@dataclass
class Delayed(_DelayedByMessages):
    """A policy that releases each label a fixed number of messages later.

    Parameters
    ----------
    messages
        Number of messages.
    """

    constraints: ClassVar[Mapping[str, Constraint]] = {"messages": Integer(0)}
    messages: int

    def _delay(self) -> int:
        return self.messages


@dataclass
class DelayedByTime(FeedbackPolicy):
    """A policy that releases each label some time after its message, in a stream ordered by date.

    Each message needs a date (`Example.date`). The time of the stream is the median date of the
    last 51 messages, because a single date can be wrong. So each label is released about 25
    messages later than by the exact time. No label is released before nine messages with a date.

    Parameters
    ----------
    seconds
        Seconds from the date of the message to the release of its label.
    """

    needs_envelope = True
    constraints: ClassVar[Mapping[str, Constraint]] = {"seconds": Number()}
    seconds: float
    _clock: float = field(default=-math.inf, repr=False)
    _dates: deque[float] = field(default_factory=lambda: deque(maxlen=_CLOCK_WINDOW), repr=False)
    _arrived: deque[PendingLabel] = field(default_factory=deque, repr=False)

    def release(self, pending: list[PendingLabel], latest: PendingLabel) -> list[PendingLabel]:
        """Queue the labels and return those that are due by the stream's clock."""
        from statistics import median  # here: slow to import, and few replays delay labels by time

        if latest.date is not None:
            if not is_number(latest.date):
                raise TypeError(
                    f"date: expected seconds since 1970, not {latest.date!r:.80}; for a datetime, "
                    "pass its timestamp()"
                )
            self._dates.append(latest.date)
            if len(self._dates) >= _MIN_DATES:
                time = median(self._dates)
                is_full = len(self._dates) == self._dates.maxlen
                self._clock = max(self._clock, time) if is_full else time
        self._arrived += pending
        if self._clock == -math.inf:
            return []
        while (
            self._arrived
            and self._arrived[0].position <= latest.position - len(self._dates) // 2 - 1
        ):
            self._queue.put(self._clock + self.seconds, self._arrived.popleft())
        return self._queue.pop_until(self._clock)


@dataclass
class DelayedAtRandom(_DelayedByMessages):
    """A policy that releases each label a random number of messages later.

    Parameters
    ----------
    mean
        Mean number of messages; the number has a geometric distribution.
    seed
        Seed of the random numbers.
    """

    constraints: ClassVar[Mapping[str, Constraint]] = {"mean": Number()}
    mean: float
    seed: int = 1

    def _delay(self) -> int:
        # parameter of a geometric distribution that starts at 0
        p_wait = self.mean / (1 + self.mean)
        u = 1.0 - self._random.random()
        return math.floor(_core.log(u) / _core.log(p_wait)) if p_wait > 0 else 0


class _Selection(FeedbackPolicy):
    """Base class of policies that release some labels at once, and drop the others."""

    def release(self, pending: list[PendingLabel], latest: PendingLabel) -> list[PendingLabel]:
        """Return the selected labels."""
        return list(filter(self._is_selected, pending))

    def _is_selected(self, label: PendingLabel) -> bool:
        raise NotImplementedError


@dataclass
class Partial(_Selection):
    """A policy that releases a random fraction of the labels, and drops the others.

    Parameters
    ----------
    share
        The fraction, from 0 to 1.
    seed
        Seed of the random numbers.
    """

    constraints: ClassVar[Mapping[str, Constraint]] = {"share": Number(0, 1)}
    share: float
    seed: int = 1

    def _is_selected(self, label: PendingLabel) -> bool:
        return self._random.random() < self.share


@dataclass
class Recipients(_Selection):
    """A policy that releases only the labels of mail to some recipients.

    Parameters
    ----------
    names
        Their addresses, or `@example.org` for all of a domain. Case is ignored.
    """

    needs_envelope = True
    names: Sequence[str]

    def _is_selected(self, label: PendingLabel) -> bool:
        names = {name.lower() for name in self.names}
        addresses = [address.lower() for address in label.recipients]
        return any(
            address in names or address[address.rfind("@") :] in names for address in addresses
        )


class OnError(_Selection):
    """A policy that releases only the labels of wrong predictions, as if a user corrected them."""

    ignores_predictions = False

    def _is_selected(self, label: PendingLabel) -> bool:
        return bool(label.predicted != label.y)


@dataclass
class Margin(_Selection):
    """A policy that releases the labels of wrong predictions, and of uncertain correct ones.

    Parameters
    ----------
    log_odds
        A correct prediction is uncertain if the log-odds of the true class are below this.

    References
    ----------
    Siefkes, C., Assis, F., Chhabra, S. and Yerazunis, W. S. (2004). Combining Winnow and orthogonal
    sparse bigrams for incremental spam filtering. PKDD 2004 ("thick threshold training").
    """

    ignores_predictions = False
    constraints: ClassVar[Mapping[str, Constraint]] = {"log_odds": Number()}
    log_odds: float

    def _is_selected(self, label: PendingLabel) -> bool:
        if label.predicted != label.y or len(label.scores) < 2:
            return True
        return log_odds(dict(label.scores), label.y) < self.log_odds


@dataclass
class Active(_Selection):
    """A policy that requests the labels of the least certain predictions, and drops the others.

    It requests a label within the budget, if the *margin* is below a bound: the difference between
    the two largest joint log-likelihoods. After each message without a request, the bound is
    multiplied by 1 + `step`. After each request, it is multiplied by 1 - `step`.

    Parameters
    ----------
    budget
        Largest fraction of the labels to request, from 0 to 1.
    step
        Relative change of the bound after each message.

    References
    ----------
    Žliobaitė, I., Bifet, A., Pfahringer, B. and Holmes, G. (2014). Active learning with drifting
    streaming data. IEEE Transactions on Neural Networks and Learning Systems 25 ("variable
    uncertainty").
    """

    ignores_predictions = False
    constraints: ClassVar[Mapping[str, Constraint]] = {"budget": Number(0, 1), "step": Number(0, 1)}
    budget: float
    step: float = 0.01
    _band: float = field(default=1.0, repr=False)
    _requests: int = field(default=0, repr=False)
    _messages: int = field(default=0, repr=False)

    def _is_selected(self, label: PendingLabel) -> bool:
        self._messages += 1
        if self._requests >= self.budget * self._messages:
            return False
        if len(label.scores) >= 2:
            top, second = heapq.nlargest(2, label.scores.values())
            if top - second >= self._band:
                self._band *= 1 + self.step
                return False
        self._band *= 1 - self.step
        self._requests += 1
        return True


@dataclass
class Noisy(FeedbackPolicy):
    """A policy that replaces a random fraction of the labels by another label that occurred before.

    Parameters
    ----------
    share
        The fraction, or one for each class. Labels of other classes stay correct.
    seed
        Seed of the random numbers.
    """

    constraints: ClassVar[Mapping[str, Constraint]] = {"share": Number(0, 1)}
    share: float | Mapping[Any, float]
    seed: int = 1
    _labels: dict[Any, None] = field(default_factory=dict, repr=False)

    def release(self, pending: list[PendingLabel], latest: PendingLabel) -> list[PendingLabel]:
        """Return all labels, some of them replaced."""
        return [self._corrupt(label) for label in pending]

    def _corrupt(self, label: PendingLabel) -> PendingLabel:
        self._labels[label.y] = None
        share = self.share.get(label.y, 0.0) if isinstance(self.share, Mapping) else self.share
        is_wrong = self._random.random() < share
        others = [other for other in self._labels if other != label.y]
        return label._replace(y=self._random.choice(others)) if is_wrong and others else label
