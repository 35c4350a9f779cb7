"""Feedback regimes: what a learner is told of the messages it classified, and when.

A regime takes the lessons that have just become due and passes on those to be learned now. Regimes
chain: noise, then delay, is labels that are wrong and late.
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
from streamnb.scores import log_odds

_FEWEST_DATES = 9


class Lesson(NamedTuple):
    """A message that was classified, and the label the learner is to be told.

    Attributes
    ----------
    x
        The message as the model takes it.
    y
        The label.
    predicted, scores
        What the model said of it, before.
    number
        Its place among the messages classified, from 0.
    date
        When it was sent, in seconds since 1970; None where that is not known.
    recipients
        The addresses it was sent to.
    """

    x: Any
    y: Any
    predicted: Any = None
    scores: Mapping[Any, float] = {}
    number: int = 0
    date: float | None = None
    recipients: Sequence[str] = ()


class Regime:
    """Anything that passes lessons on: now, later, changed or not at all."""

    blind: ClassVar[bool] = True  # whether what it passes on is the same whatever the model said
    wants_envelope: ClassVar[bool] = False  # whether it asks for dates or recipients

    def due(self, lessons: list[Lesson], now: Lesson) -> list[Lesson]:
        """Take in lessons, and give those that are due once message `now` has been classified."""
        raise NotImplementedError


def told(regimes: Sequence[Regime], lesson: Lesson, learn: bool = True) -> list[Lesson]:
    """What the learner is told after a message, through all the regimes in turn.

    Parameters
    ----------
    regimes
        In their order.
    lesson
        The message that has just been classified.
    learn
        Whether its label is ever to be told; earlier ones may be due in any case.

    Examples
    --------
    >>> from streamnb.evaluate.feedback import Delayed, Lesson, OnError, told
    >>> regimes = [OnError(), Delayed(messages=1)]
    >>> stream = [("spam", "ham"), ("ham", "ham"), ("ham", "spam")]
    >>> for number, (y, predicted) in enumerate(stream):
    ...     lessons = told(regimes, Lesson({}, y, predicted, number=number))
    ...     print([(lesson.number, lesson.y) for lesson in lessons])
    []
    [(0, 'spam')]
    []
    """
    lessons = [lesson] if learn else []
    for regime in regimes:
        lessons = regime.due(lessons, lesson)
    return lessons


class _Queue:
    """Lessons by the time they are due; those of one time in their order."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, Lesson]] = []
        self._entered = 0

    def put(self, time: float, lesson: Lesson) -> None:
        heapq.heappush(self._waiting, (time, self._entered, lesson))
        self._entered += 1

    def until(self, time: float) -> list[Lesson]:
        out = []
        while self._waiting and self._waiting[0][0] <= time:
            out.append(heapq.heappop(self._waiting)[2])
        return out


@dataclass
class Delayed(Regime):
    """Labels come so many messages later."""

    messages: int
    _waiting: _Queue = field(default_factory=_Queue, repr=False)

    def due(self, lessons: list[Lesson], now: Lesson) -> list[Lesson]:
        """Pass on what has waited long enough."""
        for lesson in lessons:
            self._waiting.put(now.number + self.messages, lesson)
        return self._waiting.until(now.number)


@dataclass
class DelayedByTime(Regime):
    """Labels come so many seconds after their message; for a stream in the order of its dates.

    What time it is, the messages tell: the median date of the last 51. A single date proves
    nothing, senders write what they like: before nine messages have told a date, no label comes.
    The median is behind the newest date by half the window, so a lesson's time is read when that
    many messages more have come.
    """

    wants_envelope = True
    seconds: float
    _clock: float = field(default=-math.inf, repr=False)
    _dates: deque[float] = field(default_factory=lambda: deque(maxlen=51), repr=False)
    _arrived: deque[Lesson] = field(default_factory=deque, repr=False)
    _queue: _Queue = field(default_factory=_Queue, repr=False)

    def due(self, lessons: list[Lesson], now: Lesson) -> list[Lesson]:
        """Pass on what has waited long enough."""
        from statistics import median  # here: few replays tell labels hours late

        if now.date is not None:
            self._dates.append(now.date)
            if len(self._dates) >= _FEWEST_DATES:
                time = median(self._dates)
                full = len(self._dates) == self._dates.maxlen
                self._clock = max(self._clock, time) if full else time
        self._arrived += lessons
        if self._clock == -math.inf:
            return []
        while self._arrived and self._arrived[0].number <= now.number - len(self._dates) // 2 - 1:
            self._queue.put(self._clock + self.seconds, self._arrived.popleft())
        return self._queue.until(self._clock)


@dataclass
class DelayedAtRandom(Regime):
    """Labels come some messages later: geometrically distributed, with the given mean."""

    mean: float
    seed: int = 1
    _queue: _Queue = field(default_factory=_Queue, repr=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 (an experiment, not a secret)

    def due(self, lessons: list[Lesson], now: Lesson) -> list[Lesson]:
        """Pass on what has waited long enough."""
        stay = self.mean / (1 + self.mean)  # of the mean of a geometric distribution from 0
        for lesson in lessons:
            u = 1.0 - self._random.random()
            wait = math.floor(_core.log(u) / _core.log(stay)) if stay > 0 else 0
            self._queue.put(now.number + wait, lesson)
        return self._queue.until(now.number)


@dataclass
class Partial(Regime):
    """Only a share of the labels ever comes, at random."""

    share: float
    seed: int = 1

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311

    def due(self, lessons: list[Lesson], now: Lesson) -> list[Lesson]:
        """Pass on those that come."""
        return [lesson for lesson in lessons if self._random.random() < self.share]


@dataclass
class Recipients(Regime):
    """Only some recipients tell what their mail was.

    Parameters
    ----------
    names
        Their addresses, or `@example.org` for all of a domain; case makes no difference.
    """

    wants_envelope = True
    names: Sequence[str]

    def due(self, lessons: list[Lesson], now: Lesson) -> list[Lesson]:
        """Pass on their lessons."""
        return [lesson for lesson in lessons if self._wanted(lesson.recipients)]

    def _wanted(self, recipients: Sequence[str]) -> bool:
        names = {name.lower() for name in self.names}
        addresses = [address.lower() for address in recipients]
        return any(one in names or one[one.rfind("@") :] in names for one in addresses)


class OnError(Regime):
    """The learner is told of its errors only, as by somebody who moves mail that lies wrong."""

    blind = False

    def due(self, lessons: list[Lesson], now: Lesson) -> list[Lesson]:
        """Pass on what was misjudged."""
        return [lesson for lesson in lessons if lesson.predicted != lesson.y]


@dataclass
class Margin(Regime):
    """The learner is told of errors and of what it got right by less than so many log-odds.

    References
    ----------
    Siefkes, C., Assis, F., Chhabra, S. and Yerazunis, W. S. (2004). Combining Winnow and orthogonal
    sparse bigrams for incremental spam filtering. PKDD 2004 ("thick threshold training").
    """

    blind = False
    log_odds: float

    def due(self, lessons: list[Lesson], now: Lesson) -> list[Lesson]:
        """Pass on what was misjudged or nearly so."""
        return [lesson for lesson in lessons if self._near(lesson)]

    def _near(self, lesson: Lesson) -> bool:
        if lesson.predicted != lesson.y or len(lesson.scores) < 2:
            return True
        return log_odds(dict(lesson.scores), lesson.y) < self.log_odds


@dataclass
class Active(Regime):
    """The learner asks for a share of the labels: those it is least sure of.

    It asks where its log-odds are within a band, which widens while it stays quiet and narrows when
    it asks, and only while the budget lasts. It does not look at the label.

    References
    ----------
    Žliobaitė, I., Bifet, A., Pfahringer, B. and Holmes, G. (2014). Active learning with drifting
    streaming data. IEEE Transactions on Neural Networks and Learning Systems 25 ("variable
    uncertainty").
    """

    blind = False
    budget: float
    step: float = 0.01
    _band: float = field(default=1.0, repr=False)
    _asked: int = field(default=0, repr=False)
    _seen: int = field(default=0, repr=False)

    def due(self, lessons: list[Lesson], now: Lesson) -> list[Lesson]:
        """Pass on what was asked for."""
        return [lesson for lesson in lessons if self._asks(lesson)]

    def _asks(self, lesson: Lesson) -> bool:
        self._seen += 1
        if self._asked >= self.budget * self._seen:
            return False
        sure = abs(log_odds(dict(lesson.scores), lesson.predicted)) if lesson.scores else 0.0
        if len(lesson.scores) >= 2 and sure >= self._band:
            self._band *= 1 + self.step
            return False
        self._band *= 1 - self.step
        self._asked += 1
        return True


@dataclass
class Noisy(Regime):
    """A share of the labels is wrong: another of the labels met so far, at random.

    Parameters
    ----------
    share
        The share, or one for each class (those not named are told right).
    seed
        Of the random numbers.
    """

    share: float | Mapping[Any, float]
    seed: int = 1
    _labels: dict[Any, None] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311

    def due(self, lessons: list[Lesson], now: Lesson) -> list[Lesson]:
        """Pass on all, some with another label."""
        return [self._told(lesson) for lesson in lessons]

    def _told(self, lesson: Lesson) -> Lesson:
        self._labels[lesson.y] = None
        share = self.share.get(lesson.y, 0.0) if isinstance(self.share, Mapping) else self.share
        wrong = self._random.random() < share
        others = [label for label in self._labels if label != lesson.y]
        return lesson._replace(y=self._random.choice(others)) if wrong and others else lesson
