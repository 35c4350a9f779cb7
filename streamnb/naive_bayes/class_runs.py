"""Runs of one class in the order of the messages, which have less weight in the calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain
from typing import Any, ClassVar, Self

from streamnb import _core
from streamnb.naive_bayes.online_estimator import (
    IndexMap,
    OnlineEstimator,
    check_numbers,
    remap_values,
)


class ClassRuns(OnlineEstimator):
    r"""The weight of a message for calibration: 1 in a mixed stream, 0 inside a run of one class.

    Users often train one folder after the other. Estimates of class frequencies (the intercepts of
    the recalibration, the label noise) would then fit the last folder only. So each class has a
    credit. A message of another class sets it to max(20 r, 1). A message of the class itself has
    the weight min(1, credit), which is subtracted from the credit. While only one class has
    messages, the credit is 0.

    r is the expected length of a run of the class in a mixed stream. It is 1 / (K - 1), or the mean
    length of about the last 20 runs of the class if that is larger. So a frequent class, with a
    share of 99 %, has full weight in a mixed stream, too.

    `messages_in_runs` is the sum of 1 minus the weight of each message. A run of up to a tenth of
    all messages is not counted, because small data sets have such runs by chance.

    Examples
    --------
    >>> from streamnb.naive_bayes.class_runs import ClassRuns
    >>> runs = ClassRuns()
    >>> for k, active in [(0, [0]), (1, [0, 1]), (0, [0, 1])]:
    ...     _ = runs.learn(k, active)
    >>> runs.mix_weight(0), runs.mix_weight(1)
    (1.0, 1.0)
    >>> for _ in range(30):
    ...     _ = runs.learn(0, [0, 1])
    >>> runs.mix_weight(0), runs.mix_weight(1)
    (0.0, 1.0)
    >>> for i in range(2000):
    ...     _ = runs.learn(int(i % 50 == 0), [0, 1])  # one message in fifty
    >>> runs.mix_weight(0), runs.mix_weight(1)
    (1.0, 1.0)
    """

    delta_names: ClassVar[tuple[str, ...]] = ("turns", "runs")
    MEMORY: ClassVar[float] = 20.0  # runs in the mean length, and r in the largest credit

    def __init__(self) -> None:
        self.messages_in_runs: float = 0.0
        self.credits: list[float] = []
        # For each class that is or was in a run: the current length, and the mean length.
        self.runs: dict[int, tuple[float, float]] = {}

    def mix_weight(self, class_index: int) -> float:
        """Return the weight, from 0 to 1, that the next message gets if this is its class."""
        if class_index >= len(self.credits):
            return 0.0
        return min(max(self.credits[class_index], 0.0), 1.0)

    def learn(
        self, class_index: int, active: list[int], total_weight: float = math.inf
    ) -> dict[str, list[float]]:
        """Update the credits with a message's class, and return the changes for its receipt.

        Parameters
        ----------
        class_index
            Index of the message's class.
        active
            Indices of the classes that have messages, this one included, ascending.
        total_weight
            Weight of all messages learned before.
        """
        self._widen(active[-1] + 1)
        turns, runs = _core.class_run_step(
            self.credits, self.runs, active, class_index, total_weight, self.MEMORY
        )
        self.messages_in_runs += turns[0]
        return {"turns": turns, "runs": runs}

    def apply(self, deltas: Mapping[str, Any], sign: int) -> None:
        """Apply the updates of a receipt (`sign` 1), or undo them (-1)."""
        turns, runs = deltas.get("turns", ()), deltas.get("runs", ())
        if turns:
            self.messages_in_runs += sign * turns[0]
            self._widen(len(turns) - 1)
            _core.add_scaled(self.credits, turns[1:], sign)
        _core.add_runs(self.runs, runs, sign)

    def check(self, deltas: Mapping[str, Any], n_classes: int) -> None:
        """Raise ValueError if the updates cannot come from a model of `n_classes` classes."""
        runs = self.from_state(deltas)
        if max([len(runs.credits), *(k + 1 for k in runs.runs)]) > n_classes:
            raise ValueError(f"receipt: it has more than {n_classes} classes")

    def remap_classes(self, index_map: IndexMap) -> Self:
        """Return a copy with class indices changed, as in `OnlineEstimator`."""
        copied = type(self)()
        copied.messages_in_runs = self.messages_in_runs
        copied.credits = remap_values(self.credits, index_map, 0.0)
        copied.runs = {new: self.runs[k] for new, k in enumerate(index_map) if k in self.runs}
        return copied

    def _widen(self, n_classes: int) -> None:
        self.credits += [0.0] * (n_classes - len(self.credits))

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        runs = [(float(k), length, mean) for k, (length, mean) in sorted(self.runs.items())]
        return {
            "turns": [self.messages_in_runs, *self.credits],
            "runs": list(chain.from_iterable(runs)),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Create the credits from a state or a receipt. Raise ValueError if it is not valid."""
        turns, runs = state.get("turns", ()), state.get("runs", ())
        check_numbers(turns)
        check_numbers(runs)
        if len(runs) % 3 or not all(k >= 0 and k == int(k) for k in runs[::3]):
            raise ValueError("the runs of classes are not valid")
        credits_and_runs = cls()
        credits_and_runs.apply({"turns": turns, "runs": runs}, 1)
        return credits_and_runs
