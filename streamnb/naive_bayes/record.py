"""How well a model did on what it learned, each message judged before it was learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from streamnb.naive_bayes.beside import Beside

READY = 20  # how often a class must have been called rightly,
_TIMES = 4  # and how many times as often as wrongly,
_MOST_WRONG = 10  # of which so many count


class Record(Beside):
    """How often each class was called rightly and wrongly, before messages were learned.

    It is the model's own prequential record: nothing is judged that was learned already. What is
    done with messages of a class without anybody looking should wait until it is ready: until it
    was called rightly at least 20 times, and four times as often as wrongly, of which ten count at
    most. From then on nothing is noted of it: who teaches mistakes alone, as one does with a filter
    that works, would make it look bad. A message counts once, whatever it weighs.

    Examples
    --------
    >>> from streamnb.naive_bayes.record import Record
    >>> record = Record()
    >>> for said, was in [(0, 0), (1, 0), (1, 1)]:
    ...     _ = record.learn(said, was)
    >>> record.of(1), record.is_ready(1)
    ((1, 1), False)
    """

    parts = ("record",)

    def __init__(self) -> None:
        self.right: list[int] = []
        self.wrong: list[int] = []

    def of(self, k: int | None) -> tuple[int, int]:
        """How often class k was called rightly and wrongly."""
        if k is None or k >= len(self.right):
            return 0, 0
        return self.right[k], self.wrong[k]

    def is_ready(self, k: int | None) -> bool:
        """Whether class k is ready."""
        right, wrong = self.of(k)
        return right >= READY and right >= _TIMES * wrong

    def learn(self, said: int, k: int) -> dict[str, list[int]]:
        """Note that a message of class k was called `said`; gives what changed, for `move`."""
        _, wrong = self.of(said)
        if self.is_ready(said) or (said != k and wrong >= _MOST_WRONG):
            return {}
        change = [said, int(said == k), int(said != k)]
        self._add(change, 1)
        return {"record": change}

    def move(self, parts: Mapping[str, Any], sign: int) -> None:
        """Make again what a receipt says (sign 1), or take it back (-1), exactly; in any order."""
        self._add(parts.get("record", ()), sign)

    def _add(self, change: Sequence[int], sign: int) -> None:
        """Add changes: numbers of classes, each with how often it was called right and wrong."""
        for k, right, wrong in zip(change[::3], change[1::3], change[2::3], strict=True):
            more = [0] * (k + 1 - len(self.right))
            self.right += more
            self.wrong += more
            self.right[k] += sign * right
            self.wrong[k] += sign * wrong

    def check(self, parts: Mapping[str, Any], classes: int) -> None:
        """Raise ValueError for a receipt that none of so many classes can have given."""
        _check(parts.get("record", []), classes)

    def remap_classes(
        self, parts: Mapping[str, Any], order: Sequence[int | None]
    ) -> Mapping[str, Any]:
        """A receipt's parts where class k was number order[k] before; None: there was none."""
        if "record" not in parts:
            return parts
        return {**parts, **self.from_state(parts).of_classes(order).state()}

    def since(self, before: Self) -> dict[str, Any]:
        """What a receipt would say that leads here from another state."""
        changed = Record()
        changed.move(self.state(), 1)
        changed.move(before.state(), -1)
        return changed.state()

    def of_classes(self, places: Sequence[int | None]) -> Self:
        """The same for classes in another order: class k was number places[k], or not known."""
        out = type(self)()
        pairs = [self.of(place) for place in places]
        out.right, out.wrong = [right for right, _ in pairs], [wrong for _, wrong in pairs]
        return out

    def state(self) -> dict[str, Any]:
        """Everything noted, as JSON can hold it: the changes that lead here from nothing."""
        noted = enumerate(zip(self.right, self.wrong, strict=True))
        return {"record": [x for k, of in noted if any(of) for x in (k, *of)]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """What `state` gave; ValueError where it is not sound."""
        self = cls()
        _check(state["record"], 1 << 20)
        self.move(state, 1)
        return self


def _check(changes: Any, classes: int) -> None:
    """Raise ValueError for what no `Record` of so many classes can have given."""
    sound = isinstance(changes, list) and len(changes) % 3 == 0
    if not sound or not all(type(x) is int and abs(x) <= 10**15 for x in changes):
        raise ValueError("the record is not sound")
    if not all(0 <= k < classes for k in changes[::3]):
        raise ValueError("a record of more classes")
