"""Whose turn it is: whether a message comes in a run of its class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from streamnb import _core

__all__ = ["Turns"]

_EARNED, _MOST = 7, 20
_GRAIN = 2.0**-36  # changes are multiples of this, so that sums of them are exact


class Turns:
    r"""How far a message has its turn, from 1 in a mixed stream to 0 within a run of one class.

    People teach one folder after the other. What is fitted to how often classes come (the bias of
    the recalibration, the estimate of wrong labels) would then be fitted to the folder. So each
    class has a credit: a message of one of the other n - 1 classes adds 7 / (n - 1) to it, up to
    20 / (n - 1) or 1, whichever is more; a message of the class itself has the turn min(1, credit)
    and spends it. While one class is known nothing is earned. In a mixed stream of two classes, up
    to 7 to 1, nearly every message has its turn.

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
    """

    def __init__(self) -> None:
        self.missed = 0.0  # the sum of what messages lacked of their turn
        self.credits: list[float] = []

    def turn(self, k: int) -> float:
        """How far the next message has its turn if it is of class number k."""
        return min(max(self.credits[k], 0.0), 1.0) if k < len(self.credits) else 0.0

    def learn(self, k: int, known: list[int], learned: float = math.inf) -> list[float]:
        """Learn that a message was of class k of `known`; gives the change, for `move`.

        `learned` is how many messages are known.
        """
        self._widen(known[-1] + 1)
        turn = self.turn(k)
        others = max(len(known) - 1, 1)
        earned = round(_EARNED / others / _GRAIN) * _GRAIN
        most = max(round(_MOST / others / _GRAIN) * _GRAIN, 1.0)
        change = _core.earnings(self.credits, known, earned, most)
        change[k] = -turn
        passing = min(max(learned / 10, 1.0), most)
        kept = round((most - passing) / _GRAIN) * _GRAIN
        change = [1 - min(max(self.credits[k] - kept, 0.0), 1.0), *change]
        self.move(change, 1)
        return change

    def move(self, change: Sequence[float], sign: int) -> None:
        """Make a change again (sign 1), or take it back (-1), exactly; in any order."""
        if change:
            self.missed += sign * change[0]
        self._widen(len(change) - 1)
        _core.add_times(self.credits, change[1:], sign)

    def of_classes(self, places: Sequence[int | None]) -> Turns:
        """The same for classes in another order: class k was number places[k], or not known."""
        out = Turns()
        out.missed = self.missed
        out.credits = [
            self.credits[place] if place is not None and place < len(self.credits) else 0.0
            for place in places
        ]
        return out

    def _widen(self, classes: int) -> None:
        self.credits += [0.0] * (classes - len(self.credits))

    def state(self) -> list[float]:
        """Everything learned, as JSON can hold it."""
        return [self.missed, *self.credits]

    @classmethod
    def from_state(cls, state: Any) -> Turns:
        """What `state` gave; ValueError where it is not sound."""
        if not isinstance(state, list | tuple) or not all(
            type(number) in (int, float) and abs(number) <= 1e15 for number in state
        ):
            raise ValueError("the turns are not sound")
        self = cls()
        self.move([float(number) for number in state], 1)
        return self
