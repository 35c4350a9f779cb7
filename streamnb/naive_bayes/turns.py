"""Whose turn it is: whether a message comes in a run of its class."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Self

from streamnb import _core
from streamnb.naive_bayes.beside import Beside, check_numbers


class Turns(Beside):
    r"""How far a message has its turn, from 1 in a mixed stream to 0 within a run of one class.

    People teach one folder after the other. What is fitted to how often classes come (the bias of
    the recalibration, the estimate of wrong labels) would then be fitted to the folder. So each
    class has a credit: a message of one of the other n - 1 classes adds 7 r to it, up to 20 r or 1,
    whichever is more; a message of the class itself has the turn min(1, credit) and spends it.
    While one class is known nothing is earned.

    r is how many messages of the class come, in a mixed stream, for each of another: 1 / (n - 1),
    or what lies between two messages of others, the mean of about the last 20 times, whichever is
    more. So a class of 99 % has its turn, too: its messages come between those of others. After a
    folder of it there is only one such time, and the folder that follows brings the mean down.

    `missed` is how many came in runs. A run of a tenth of all messages is let pass: so much of the
    credit may be spent in it, and what lies beyond is missed.

    Examples
    --------
    >>> from streamnb.naive_bayes.turns import Turns
    >>> turns = Turns()
    >>> for k, known in [(0, [0]), (1, [0, 1]), (0, [0, 1])]:
    ...     _ = turns.learn(k, known)
    >>> turns.turn(0), turns.turn(1)
    (1.0, 1.0)
    >>> for _ in range(30):
    ...     _ = turns.learn(0, [0, 1])
    >>> turns.turn(0), turns.turn(1)
    (0.0, 1.0)
    >>> for i in range(2000):
    ...     _ = turns.learn(int(i % 50 == 0), [0, 1])  # one of fifty
    >>> turns.turn(0), turns.turn(1)
    (1.0, 1.0)
    """

    parts = ("turns", "runs")

    def __init__(self) -> None:
        self.missed = 0.0  # the sum of what messages lacked of their turn
        self.credits: list[float] = []
        # Of classes in a run, or that had some: how long it is by now, and how long they were.
        self.runs: dict[int, tuple[float, float]] = {}

    def turn(self, k: int) -> float:
        """How far the next message has its turn if it is of class number k."""
        return min(max(self.credits[k], 0.0), 1.0) if k < len(self.credits) else 0.0

    def learn(self, k: int, known: list[int], learned: float = math.inf) -> dict[str, list[float]]:
        """Learn that a message was of class k of `known`; gives the changes, for `move`.

        `learned` is how many messages are known.
        """
        self._widen(known[-1] + 1)
        turns, runs = _core.earnings(self.credits, self.runs, known, k, learned)
        self.missed += turns[0]
        _core.add_times(self.credits, turns[1:], 1)
        _core.add_runs(self.runs, runs, 1)
        return {"turns": turns, "runs": runs}

    def move(self, parts: Mapping[str, Any], sign: int) -> None:
        """Make again what a receipt says (sign 1), or take it back (-1), exactly; in any order."""
        turns, runs = parts.get("turns", ()), parts.get("runs", ())
        if turns:
            self.missed += sign * turns[0]
            self._widen(len(turns) - 1)
            _core.add_times(self.credits, turns[1:], sign)
        _core.add_runs(self.runs, runs, sign)

    def check(self, parts: Mapping[str, Any], classes: int) -> None:
        """Raise ValueError for a receipt that none of so many classes can have given."""
        said = self.from_state(parts)
        if max([len(said.credits), *(c + 1 for c in said.runs)]) > classes:
            raise ValueError("a receipt of more classes")

    def remap_classes(
        self, parts: Mapping[str, Any], order: Sequence[int | None]
    ) -> Mapping[str, Any]:
        """A receipt's parts where class k was number order[k] before; None: there was none."""
        if "turns" not in parts:
            return parts
        return {**parts, **self.from_state(parts).of_classes(order).state()}

    def of_classes(self, places: Sequence[int | None]) -> Self:
        """The same for classes in another order: class k was number places[k], or not known."""
        out = type(self)()
        out.missed = self.missed
        out.credits = [
            self.credits[place] if place is not None and place < len(self.credits) else 0.0
            for place in places
        ]
        out.runs = {k: self.runs[place] for k, place in enumerate(places) if place in self.runs}
        return out

    def _widen(self, classes: int) -> None:
        if classes > len(self.credits):
            self.credits += [0.0] * (classes - len(self.credits))

    def state(self) -> dict[str, Any]:
        """Everything learned, as JSON can hold it."""
        runs = [(float(c), length, mean) for c, (length, mean) in sorted(self.runs.items())]
        return {"turns": [self.missed, *self.credits], "runs": list(chain.from_iterable(runs))}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """What `state` gave, or a receipt; ValueError where it is not sound."""
        turns, runs = state.get("turns", ()), state.get("runs", ())
        check_numbers(turns)
        check_numbers(runs)
        if len(runs) % 3 or not all(c >= 0 and c == int(c) for c in runs[::3]):
            raise ValueError("the turns are not sound")
        self = cls()
        self.move({"turns": turns, "runs": runs}, 1)
        return self
