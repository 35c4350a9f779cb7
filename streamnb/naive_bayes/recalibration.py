"""Online recalibration: what the evidence of several models is worth, learned from labels given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from streamnb import _core
from streamnb.naive_bayes.beside import Beside, check_numbers

_MOST_OCTAVES = 64
Lists = tuple[list[float], list[float], list[float], list[float]]


class Adjustment(NamedTuple):
    """What a message changed: enough to take it back exactly, whatever was learned since."""

    gains: Sequence[float]
    gain_squares: Sequence[float]
    biases: Sequence[float]
    bias_squares: Sequence[float]

    def remap_classes(self, order: Sequence[int | None]) -> Adjustment:
        """The same where class k was number order[k] before; None: there was none."""
        biases, squares = (
            tuple(part[k] if k is not None and k < len(part) else 0.0 for k in order)
            for part in (self.biases, self.bias_squares)
        )
        return Adjustment(self.gains, self.gain_squares, biases, squares)

    def check(self, models: int, classes: int) -> None:
        """Raise ValueError for an adjustment of other models or more classes."""
        for numbers in self:
            check_numbers(numbers)
        if not len(self.gains) == len(self.gain_squares) == models or not (
            len(self.biases) == len(self.bias_squares) <= classes
        ):
            raise ValueError("a step of other views or classes")


def _differences(after: Sequence[float], before: Sequence[float]) -> tuple[float, ...]:
    return tuple(a - b for a, b in zip(after, before, strict=True))


class Weights:
    """A gain for each model and a bias for each class, with sums of their squared gradients."""

    def __init__(self, models: int, gain: float) -> None:
        self.gains, self.gain_squares = [gain] * models, [1.0] * models
        self.biases: list[float] = []
        self.bias_squares: list[float] = []

    def bias(self, k: int) -> float:
        """What class number k has before any evidence."""
        return self.biases[k] if k < len(self.biases) else 0.0

    def move(self, step: Adjustment, sign: int) -> None:
        """Make an adjustment again (sign 1), or take it back (-1), exactly; in any order."""
        self.widen(len(step.biases))
        # A merged model may be told to take back a step that it never made itself.
        least_of = (-math.inf, 1.0, -math.inf, 1.0)
        for numbers, changes, least in zip(self.lists(), step, least_of, strict=True):
            for i, change in enumerate(changes):
                numbers[i] = max(numbers[i] + sign * change, least)

    def since(self, before: Weights) -> Adjustment:
        """The step that leads here from another state of no more classes."""
        before = before.of_classes(range(len(self.biases)))
        pairs = zip(self.lists(), before.lists(), strict=True)
        return Adjustment(*(_differences(mine, theirs) for mine, theirs in pairs))

    def of_classes(self, places: Sequence[int | None]) -> Weights:
        """The same for classes in another order: class k was number places[k], or not known."""
        out = Weights(len(self.gains), 0.0)
        out.gains, out.gain_squares = list(self.gains), list(self.gain_squares)
        for place in places:
            known = place is not None and place < len(self.biases)
            out.biases.append(self.biases[place or 0] if known else 0.0)
            out.bias_squares.append(self.bias_squares[place or 0] if known else 1.0)
        return out

    def is_neutral(self) -> bool:
        """Whether nothing was learned, or all of it taken back."""
        return not any(self.gains + self.biases) and set(self.gain_squares + self.bias_squares) == {
            1.0
        }

    def lists(self) -> Lists:
        """What is learned, to be changed in place."""
        return self.gains, self.gain_squares, self.biases, self.bias_squares

    def widen(self, classes: int) -> None:
        """Have biases for so many classes."""
        more = classes - len(self.biases)
        if more > 0:
            self.biases += [0.0] * more
            self.bias_squares += [1.0] * more

    def state(self) -> dict[str, list[float]]:
        """Everything learned, as JSON can hold it."""
        return {name: list(of) for name, of in zip(Adjustment._fields, self.lists(), strict=True)}

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """What `state` gave; ValueError where it is not sound."""
        lists = [[float(x) for x in state[name]] for name in Adjustment._fields]
        gains, gain_squares, biases, bias_squares = lists
        if (
            not all(abs(x) <= 1e15 for numbers in lists for x in numbers)
            or not gains
            or min(gain_squares + bias_squares) < 1
            or min(gains) < -1e3  # steps taken back may lead below the least
            or len(gains) != len(gain_squares)
            or len(biases) != len(bias_squares)
        ):
            raise ValueError("the recalibration is not sound")
        self = cls(len(gains), 0.0)
        self.gains, self.gain_squares, self.biases, self.bias_squares = lists
        return self


class Recalibration(Beside):
    r"""Logistic regression on the evidence of a few models, learned a message at a time.

    With e_jk what model j says for class k, the score of class k is

        z_k = sum over j of gain_j e_jk + bias_k

    and the probabilities are the softmax of z. Naive Bayes ranks well and exaggerates; a few
    numbers put that right. Each is learned by gradient descent on the log loss with AdaGrad's step
    sizes (Duchi, Hazan and Singer 2011). To begin with, z is the mean of the models. Steps can be
    taken back.

    Evidence of short messages is worth something else than that of long ones, and classes differ in
    length. So messages of each octave of length may have gains and biases of their own, which are
    added to those of all.

    In a run of one class the bias would learn nothing but that this class comes again, and the next
    class would pay for it; and the gains would learn which view speaks for it. So a message counts
    as far as it has its `turn` (`Turns`); else it shows, a little, how strong evidence is in all:
    what is common to all gains. Where mistakes alone are corrected, gains learn what mistakes can
    say of them (`Corrections`).

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
    >>> from streamnb.scores import probabilities
    >>> recalibration, sure = Recalibration(1), [[9.0, 0.0]]
    >>> for _ in range(20):  # sure of the first class, and wrong a third of the time
    ...     for k in (0, 0, 1):
    ...         shares = probabilities(recalibration.scores(sure, [0, 1]))
    ...         _ = recalibration.learn(sure, shares, k, [0, 1])
    >>> 0.6 < probabilities(recalibration.scores(sure, [0, 1]))[0] < 0.73
    True
    """

    parts = ("recalibration", "lengths")

    def __init__(self, models: int, rate: float = 0.3) -> None:
        if not 0 <= rate <= 100:
            raise ValueError(f"rate: {rate!r} is not a number from 0 to 100")
        self.rate = rate
        self.models = models
        self.of_all = Weights(models, 1.0 / models)
        self.of_length: dict[int, Weights] = {}

    def bias(self, k: int, octave: int | None = None) -> float:
        """What class number k has before any evidence, in messages of an octave of length."""
        more = None if octave is None else self.of_length.get(octave)
        return self.of_all.bias(k) + (0.0 if more is None else more.bias(k))

    def gains(self, octave: int | None = None) -> list[float]:
        """What the evidence of each model is multiplied by."""
        return _core.gains(self.of_all.lists(), self._more(octave))

    def _more(self, octave: int | None) -> Lists | None:
        """What is added for an octave of length."""
        more = None if octave is None else self.of_length.get(octave)
        return None if more is None else more.lists()

    def scores(
        self, evidence: list[list[float]], known: list[int], octave: int | None = None
    ) -> list[float]:
        """Score the classes whose numbers are `known`, in that order.

        Parameters
        ----------
        evidence
            For each model, what it says for each class.
        known
            Numbers of the classes that anything was learned of.
        octave
            Octave of the message's length; None where lengths make no difference.
        """
        return _core.combined(self.of_all.lists(), self._more(octave), evidence, known)

    def learn(
        self,
        evidence: list[list[float]],
        shares: list[float],
        k: int,
        known: list[int],
        trust: float = 1.0,
        turn: float = 1.0,
        octave: int | None = None,
        told: float = 1.0,
        top: int = 0,
    ) -> dict[str, Any]:
        """Learn that a message with this evidence is, so far as trusted, of class k of `known`.

        Parameters
        ----------
        evidence, known, octave
            As for `scores`.
        shares
            The probabilities of the classes that follow from the scores.
        k
            Its class.
        trust
            How probably the label is right.
        turn
            How far the message has its turn.
        told
            How far its label would have been told whatever it was called (`Corrections`).
        top
            Position in `known` of the class that was predicted; read only if `told` is below 1.

        Returns
        -------
        dict
            What was changed, for `move`.
        """
        self.of_all.widen(known[-1] + 1)
        more = None
        if octave is not None:
            of_length = self._of(octave)
            of_length.widen(known[-1] + 1)
            more = of_length.lists()
        steps = _core.recalibrated(
            self.of_all.lists(), more, evidence, known, shares, k, trust, turn, told, top, self.rate
        )
        changed: dict[str, Any] = {"recalibration": Adjustment(*steps[0])}
        if more is not None:
            changed["lengths"] = [(octave, *steps[1])]
        return changed

    def _of(self, octave: int) -> Weights:
        """The weights of an octave of length."""
        return self.of_length.setdefault(octave, Weights(self.models, 0.0))

    def move(self, parts: Mapping[str, Any], sign: int) -> None:
        """Make again what a receipt says (sign 1), or take it back (-1), exactly; in any order."""
        if "recalibration" in parts:
            self.of_all.move(Adjustment(*parts["recalibration"]), sign)
        for octave, *step in parts.get("lengths", ()):
            self._of(octave).move(Adjustment(*step), sign)

    def check(self, parts: Mapping[str, Any], classes: int) -> None:
        """Raise ValueError for a receipt of other models or more classes."""
        if "recalibration" in parts:
            Adjustment(*parts["recalibration"]).check(self.models, classes)
        for octave, *step in parts.get("lengths", ()):
            _checked_octave(octave)
            Adjustment(*step).check(self.models, classes)

    def remap_classes(self, parts: Mapping[str, Any], order: Sequence[int | None]) -> dict[str, Any]:
        """A receipt's parts where class k was number order[k] before; None: there was none."""
        out = dict(parts)
        if "recalibration" in out:
            out["recalibration"] = Adjustment(*out["recalibration"]).remap_classes(order)
        if "lengths" in out:
            out["lengths"] = [
                (octave, *Adjustment(*step).remap_classes(order)) for octave, *step in out["lengths"]
            ]
        return out

    def since(self, before: Recalibration) -> dict[str, Any]:
        """What leads here from another state of no more classes."""
        changed: dict[str, Any] = {"recalibration": self.of_all.since(before.of_all)}
        nothing = Weights(self.models, 0.0)
        lengths = [
            (octave, *of.since(before.of_length.get(octave, nothing)))
            for octave, of in self.of_length.items()
        ]
        return changed | ({"lengths": lengths} if lengths else {})

    def of_classes(self, places: Sequence[int | None]) -> Self:
        """The same for classes in another order: class k was number places[k], or not known."""
        out = type(self)(self.models, self.rate)
        out.of_all = self.of_all.of_classes(places)
        out.of_length = {octave: of.of_classes(places) for octave, of in self.of_length.items()}
        return out

    def state(self) -> dict[str, Any]:
        """Everything learned, as JSON can hold it."""
        lengths = {
            str(octave): of.state()
            for octave, of in sorted(self.of_length.items())
            if not of.is_neutral()
        }
        known: dict[str, Any] = {"rate": self.rate, **self.of_all.state()}
        return {"recalibration": known | ({"lengths": lengths} if lengths else {})}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """What `state` gave; any exception where it is not sound."""
        known = state["recalibration"]
        of_all = Weights.from_state(known)
        self = cls(len(of_all.gains), float(known["rate"]))
        self.of_all = of_all
        for octave, of in known.get("lengths", {}).items():
            weights = self.of_length[_checked_octave(int(octave))] = Weights.from_state(of)
            if len(weights.gains) != self.models:
                raise ValueError("the recalibration is not sound")
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recalibration) and self.state() == other.state()

    __hash__ = None  # type: ignore[assignment]  # it changes


def _checked_octave(octave: Any) -> int:
    if type(octave) is not int or not 0 <= octave < _MOST_OCTAVES:
        raise ValueError("the recalibration is of no length that a message can have")
    return octave
