"""Online recalibration: what the evidence of several models is worth, learned from labels given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from streamnb.scores import probabilities

__all__ = ["Adjustment", "Recalibration"]

_LEAST_GAIN = 0.02  # evidence may come to be worth little, but never speaks for its opposite
# Steps are multiples of these, so that sums of them are exact and any of them can be taken back.
_GRAIN, _SQUARES_GRAIN = 2.0**-36, 2.0**-16


class Adjustment(NamedTuple):
    """What a message changed: enough to take it back exactly, whatever was learned since."""

    gains: tuple[float, ...]
    gain_squares: tuple[float, ...]
    biases: tuple[float, ...]
    bias_squares: tuple[float, ...]


def _differences(after: list[float], before: list[float]) -> tuple[float, ...]:
    return tuple(a - b for a, b in zip(after, before, strict=True))


def _rounded(x: float, grain: float = _GRAIN) -> float:
    return round(x / grain) * grain


class Recalibration:
    r"""Logistic regression on the evidence of a few models, learned a message at a time.

    With e_jk what model j says for class k, the score of class k is

        z_k = sum over j of gain_j e_jk + bias_k

    and the probabilities are the softmax of z. Naive Bayes ranks well and exaggerates; two or three
    numbers put that right. Each is learned by gradient descent on the log loss with AdaGrad's step
    sizes (Duchi, Hazan and Singer 2011). To begin with, z is the mean of the models. Steps can be
    taken back.

    Parameters
    ----------
    models
        How many models there are.
    rate
        Step size.

    References
    ----------
    Platt, J. (1999). Probabilistic outputs for support vector machines. Duchi, J., Hazan, E. and
    Singer, Y. (2011). Adaptive subgradient methods for online learning and stochastic optimization.
    Journal of Machine Learning Research 12.

    Examples
    --------
    >>> from streamnb.naive_bayes.recalibration import Recalibration
    >>> recalibration = Recalibration(1)
    >>> for _ in range(20):  # sure of the first class, and wrong a third of the time
    ...     for k in (0, 0, 1):
    ...         _ = recalibration.learn([[9.0, 0.0]], k, [0, 1])
    >>> from streamnb.scores import probabilities
    >>> p = probabilities(recalibration.scores([[9.0, 0.0]], [0, 1]))[0]
    >>> 0.6 < p < 0.73
    True
    """

    def __init__(self, models: int, rate: float = 0.3) -> None:
        if not 0 <= rate <= 100:
            raise ValueError(f"rate: {rate!r} is not a number from 0 to 100")
        self.rate = rate
        self.gains = [1.0 / models] * models
        self.biases: list[float] = []
        self._gain_squares = [1.0] * models
        self._bias_squares: list[float] = []

    def bias(self, k: int) -> float:
        """What class number k has before any evidence."""
        return self.biases[k] if k < len(self.biases) else 0.0

    def gain(self, j: int) -> float:
        """What the evidence of model number j is multiplied by."""
        return max(self.gains[j], _LEAST_GAIN)

    def scores(self, evidence: list[list[float]], known: list[int]) -> list[float]:
        """Score the classes whose numbers are `known`, in that order.

        Parameters
        ----------
        evidence
            For each model, what it says for each class.
        known
            Numbers of the classes that anything was learned of.
        """
        gains = [self.gain(j) for j in range(len(self.gains))]
        return [
            self.bias(k) + sum(gain * of[k] for gain, of in zip(gains, evidence, strict=True))
            for k in known
        ]

    def learn(
        self, evidence: list[list[float]], k: int, known: list[int], trust: float = 1.0
    ) -> Adjustment:
        """Learn that a message with this evidence is, so far as trusted, of class k of `known`."""
        classes = known[-1] + 1
        shares = probabilities(self.scores(evidence, known))
        errors = dict.fromkeys(range(classes), 0.0)
        for share, number in zip(shares, known, strict=True):
            errors[number] = trust * (share - (number == k))
        gradients = [sum(errors[number] * of[number] for number in known) for of in evidence]
        self._widen(classes)
        gain_squares = [_rounded(g * g, _SQUARES_GRAIN) for g in gradients]
        bias_squares = [_rounded(g * g, _SQUARES_GRAIN) for g in errors.values()]
        gains = [
            max(self.gain(j) - self._descent(g, self._gain_squares[j] + more), _LEAST_GAIN)
            - self.gains[j]
            for j, (g, more) in enumerate(zip(gradients, gain_squares, strict=True))
        ]
        biases = [
            -self._descent(g, self._bias_squares[number] + more)
            for (number, g), more in zip(errors.items(), bias_squares, strict=True)
        ]
        step = Adjustment(
            tuple(map(_rounded, gains)),
            tuple(gain_squares),
            tuple(map(_rounded, biases)),
            tuple(bias_squares),
        )
        self.move(step, 1)
        return step

    def move(self, step: Sequence[Sequence[float]], sign: int) -> None:
        """Make an adjustment again (sign 1), or take it back (-1), exactly; in any order."""
        self._widen(len(step[2]))
        for numbers, changes in zip(
            (self.gains, self._gain_squares, self.biases, self._bias_squares), step, strict=True
        ):
            # A merged model may be told to take back a step that it never made itself.
            least = -math.inf if numbers is self.gains or numbers is self.biases else 1.0
            for i, change in enumerate(changes):
                numbers[i] = max(numbers[i] + sign * change, least)

    def check(self, step: Sequence[Sequence[float]], classes: int) -> None:
        """Raise ValueError for an adjustment of other models or more classes."""
        gains, gain_squares, biases, bias_squares = step
        models = len(self.gains)
        if not len(gains) == len(gain_squares) == models or not (
            len(biases) == len(bias_squares) <= classes
        ):
            raise ValueError("a step of other views or classes")

    def renumbered(
        self, step: Sequence[Sequence[float]], order: Sequence[int | None]
    ) -> Adjustment:
        """An adjustment where class k was number order[k] before; None: there was none."""
        gains, gain_squares, *of_classes = step
        biases, squares = (
            tuple(part[k] if k is not None and k < len(part) else 0.0 for k in order)
            for part in of_classes
        )
        return Adjustment(tuple(gains), tuple(gain_squares), biases, squares)

    def since(self, before: Recalibration) -> Adjustment:
        """The step that leads here from another state of no more classes."""
        more = len(self.biases) - len(before.biases)
        zeros, ones = before.biases + [0.0] * more, before._bias_squares + [1.0] * more
        return Adjustment(
            _differences(self.gains, before.gains),
            _differences(self._gain_squares, before._gain_squares),
            _differences(self.biases, zeros),
            _differences(self._bias_squares, ones),
        )

    def _descent(self, gradient: float, squares: float) -> float:
        return self.rate * gradient / math.sqrt(squares)

    def _widen(self, classes: int) -> None:
        more = classes - len(self.biases)
        self.biases += [0.0] * more
        self._bias_squares += [1.0] * more

    def of_classes(self, places: list[int | None]) -> Recalibration:
        """The same for classes in another order: class k was number places[k], or not known."""
        out = Recalibration(len(self.gains), self.rate)
        out.gains, out._gain_squares = list(self.gains), list(self._gain_squares)
        for place in places:
            known = place is not None and place < len(self.biases)
            out.biases.append(self.biases[place or 0] if known else 0.0)
            out._bias_squares.append(self._bias_squares[place or 0] if known else 1.0)
        return out

    def state(self) -> dict[str, Any]:
        """Everything learned, as JSON can hold it."""
        return {
            "rate": self.rate,
            "gains": self.gains,
            "biases": self.biases,
            "gain_squares": self._gain_squares,
            "bias_squares": self._bias_squares,
        }

    @classmethod
    def from_state(cls, state: Any) -> Recalibration:
        """What `state` gave; ValueError where it is not sound."""
        lists = {
            name: [float(x) for x in state[name]]
            for name in ("gains", "biases", "gain_squares", "bias_squares")
        }
        sound = all(abs(x) <= 1e15 for numbers in lists.values() for x in numbers)
        squares = lists["gain_squares"] + lists["bias_squares"]
        if (
            not sound
            or not lists["gains"]
            or min(squares) < 1
            or min(lists["gains"]) < -1e3  # steps taken back may lead below the least
            or len(lists["gains"]) != len(lists["gain_squares"])
            or len(lists["biases"]) != len(lists["bias_squares"])
        ):
            raise ValueError("the recalibration is not sound")
        self = cls(len(lists["gains"]), float(state["rate"]))
        self.gains, self.biases = lists["gains"], lists["biases"]
        self._gain_squares, self._bias_squares = lists["gain_squares"], lists["bias_squares"]
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recalibration) and self.state() == other.state()

    __hash__ = None  # type: ignore[assignment]  # it changes
