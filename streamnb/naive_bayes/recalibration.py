"""Online recalibration: what the evidence of several models is worth, learned from labels given."""

from __future__ import annotations

import math
from typing import Any

from streamnb.naive_bayes.scores import probabilities

__all__ = ["Recalibration"]

_LEAST_GAIN = 0.02  # evidence may come to be worth little, but never speaks for its opposite


class Recalibration:
    r"""Logistic regression on the evidence of a few models, learned a message at a time.

    With e_jk what model j says for class k, the score of class k is

        z_k = sum over j of gain_j e_jk + bias_k

    and the probabilities are the softmax of z. Naive Bayes ranks well and exaggerates; two or three
    numbers put that right. Each is learned by gradient descent on the log loss with AdaGrad's step
    sizes (Duchi, Hazan and Singer 2011). To begin with, z is the mean of the models.

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
    ...         recalibration.learn([[9.0, 0.0]], k, [0, 1])
    >>> from streamnb.naive_bayes.scores import probabilities
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

    def scores(self, evidence: list[list[float]], known: list[int]) -> list[float]:
        """Score the classes whose numbers are `known`, in that order.

        Parameters
        ----------
        evidence
            For each model, what it says for each class.
        known
            Numbers of the classes that anything was learned of.
        """
        return [
            self.bias(k) + sum(gain * of[k] for gain, of in zip(self.gains, evidence, strict=True))
            for k in known
        ]

    def learn(
        self, evidence: list[list[float]], k: int, known: list[int], trust: float = 1.0
    ) -> None:
        """Learn that a message with this evidence is, so far as trusted, of class k of `known`."""
        more = known[-1] + 1 - len(self.biases)
        self.biases += [0.0] * more
        self._bias_squares += [1.0] * more
        shares = probabilities(self.scores(evidence, known))
        errors = [
            trust * (share - (number == k)) for share, number in zip(shares, known, strict=True)
        ]
        for j, of in enumerate(evidence):
            gradient = sum(error * of[number] for error, number in zip(errors, known, strict=True))
            self._gain_squares[j] += gradient * gradient
            step = self.rate * gradient / math.sqrt(self._gain_squares[j])
            self.gains[j] = max(self.gains[j] - step, _LEAST_GAIN)
        for error, number in zip(errors, known, strict=True):
            self._bias_squares[number] += error * error
            self.biases[number] -= self.rate * error / math.sqrt(self._bias_squares[number])

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
            or min(lists["gains"]) < _LEAST_GAIN
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
