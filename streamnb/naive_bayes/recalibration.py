"""Logistic regression on the log-likelihoods of a few views, and a pool of such systems."""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Self

from streamnb import _core
from streamnb.naive_bayes.online_estimator import (
    LARGEST_NUMBER,
    IndexMap,
    OnlineEstimator,
    check_numbers,
    remap_values,
)
from streamnb.scores import best_index

_MAX_LENGTH_BINS = 64  # number of length bins: powers of two up to the longest message


class CalibrationWeights(NamedTuple):
    """A slope for each view and an intercept for each class, with sums of squared gradients.

    The lists change in place. The change that a message makes to weights has the same fields.
    """

    slopes: list[float]
    slope_squares: list[float]
    intercepts: list[float]
    intercept_squares: list[float]

    @classmethod
    def constant(cls, n_views: int, slope: float) -> Self:
        """Return weights with the same slope for each view, and no intercepts."""
        return cls([slope] * n_views, [1.0] * n_views, [], [])

    def intercept(self, class_index: int) -> float:
        """Return the intercept of a class, 0 for one that has none yet."""
        return self.intercepts[class_index] if class_index < len(self.intercepts) else 0.0

    def apply(self, delta: CalibrationWeights, sign: int) -> None:
        """Apply a change (`sign` 1) or undo it (-1)."""
        self.widen(len(delta.intercepts))
        # A merged model can undo a receipt of a step that it did not take.
        minimums = (-math.inf, 1.0, -math.inf, 1.0)
        for numbers, changes, minimum in zip(self, delta, minimums, strict=True):
            for i, change in enumerate(changes):
                numbers[i] = max(numbers[i] + sign * change, minimum)

    def diff(self, before: CalibrationWeights) -> CalibrationWeights:
        """Return the change from `before`, which has at most as many classes, to this state."""
        before = before.remap_classes(range(len(self.intercepts)))
        pairs = zip(self, before, strict=True)
        return CalibrationWeights(
            *([a - b for a, b in zip(new, old, strict=True)] for new, old in pairs)
        )

    def check_change(self, n_views: int, n_classes: int) -> None:
        """Raise ValueError if a change has other than `n_views` views, or too many classes."""
        for numbers in self:
            check_numbers(numbers)
        if not len(self.slopes) == len(self.slope_squares) == n_views or not (
            len(self.intercepts) == len(self.intercept_squares) <= n_classes
        ):
            raise ValueError("receipt: it comes from a model with other views or classes")

    def remap_classes(self, index_map: IndexMap, new_square: float = 1.0) -> CalibrationWeights:
        """Return a copy with class indices changed, as in `OnlineEstimator.remap_classes`.

        `new_square` is the sum of squares of a new class: 1, but 0 in the changes of a message.
        """
        return CalibrationWeights(
            list(self.slopes),
            list(self.slope_squares),
            remap_values(self.intercepts, index_map, 0.0),
            remap_values(self.intercept_squares, index_map, new_square),
        )

    def is_neutral(self) -> bool:
        """Return whether nothing was learned, or all updates were undone."""
        squares = set(self.slope_squares + self.intercept_squares)
        return not any(self.slopes + self.intercepts) and squares == {1.0}

    def widen(self, n_classes: int) -> None:
        """Add intercepts of 0 up to `n_classes`."""
        missing = n_classes - len(self.intercepts)
        if missing > 0:
            self.intercepts.extend([0.0] * missing)
            self.intercept_squares.extend([1.0] * missing)

    def state(self) -> dict[str, list[float]]:
        """Return the weights as JSON values."""
        return {name: list(numbers) for name, numbers in self._asdict().items()}

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Create the weights from `state`. Raise ValueError if it is not valid."""
        weights = cls(*([float(x) for x in state[name]] for name in cls._fields))
        slopes, slope_squares, intercepts, intercept_squares = weights
        if (
            not all(abs(x) <= LARGEST_NUMBER for numbers in weights for x in numbers)
            or not slopes
            or min(slope_squares + intercept_squares) < 1
            or min(slopes) < -1e3  # a slope can be below the minimum after an undo
            or len(slopes) != len(slope_squares)
            or len(intercepts) != len(intercept_squares)
        ):
            raise ValueError("the recalibration is not valid")
        return weights


class LabelStep(NamedTuple):
    """The label of a message, and its weights in a gradient step.

    Parameters
    ----------
    class_index
        Index of the label's class.
    classes
        Indices of the classes between which the label decides, ascending.
    label_trust
        Probability that the label is correct.
    in_run
        Whether the message is in a run of one class (`PresentClasses`).
    length_bin
        Bin of the message's length; None without length bins.
    sampling_weight
        Probability that the message would have been labelled after any prediction
        (`SelectiveFeedback`).
    predicted
        Position in `classes` of the predicted class, -1 if it is not there; read if
        `sampling_weight` is below 1.
    """

    class_index: int
    classes: list[int]
    label_trust: float = 1.0
    in_run: bool = False
    length_bin: int | None = None
    sampling_weight: float = 1.0
    predicted: int = 0


class Recalibration:
    r"""Logistic regression on the log-likelihoods of a few views, learned message by message.

    With e_vk the log-likelihood of class k in view v, the score of class k is

        z_k = sum over v of slope_v e_vk + intercept_k

    and the probabilities are the softmax of z (Platt 1999). Naive Bayes ranks well, but its
    probabilities are too extreme. Slopes and intercepts correct that. They are learned by gradient
    descent on the log loss, with the step sizes of AdaGrad (Duchi, Hazan and Singer 2011). Before
    training, z is the mean of the views. The minimum of a slope is .02, because a negative slope
    would invert a view's evidence.

    The reliability of log-likelihoods depends on the length of a message, and so does the
    frequency of classes. So messages of each length bin (a power of two) have slopes and
    intercepts of their own, which are added to the shared ones.

    In a run of one class (`PresentClasses`), intercepts would only learn the frequency of this
    class. So only the factor that all slopes have in common is updated, with the weight 0.1. If the
    user labels mistakes only, slopes learn from the conditional likelihood (`SelectiveFeedback`).

    Parameters
    ----------
    n_views
        Number of views.
    rate
        Step size.

    References
    ----------
    Platt, J. (1999). Probabilistic outputs for support vector machines. Duchi, J., Hazan, E. and
    Singer, Y. (2011). Adaptive subgradient methods for online learning and stochastic optimization.
    Journal of Machine Learning Research 12.

    Examples
    --------
    >>> from streamnb.naive_bayes.recalibration import LabelStep, Recalibration
    >>> from streamnb.scores import probabilities
    >>> recalibration, certain = Recalibration(1), [[9.0, 0.0]]
    >>> for _ in range(20):  # the view is certain of class 0, and wrong in a third
    ...     for k in (0, 0, 1):
    ...         proba = probabilities(recalibration.scores(certain, [0, 1]))
    ...         _ = recalibration.learn(certain, proba, LabelStep(k, [0, 1]))
    >>> 0.6 < probabilities(recalibration.scores(certain, [0, 1]))[0] < 0.73
    True
    """

    def __init__(self, n_views: int, rate: float = 0.3) -> None:
        if not 0 <= rate <= 100:
            raise ValueError(f"rate: {rate!r} is not a number from 0 to 100")
        self.rate = rate
        self.n_views = n_views
        self.shared: CalibrationWeights = CalibrationWeights.constant(n_views, 1.0 / n_views)
        # Keys are int. Any lets `get` take None, which is no key.
        self.by_length: dict[Any, CalibrationWeights] = {}

    def intercept(self, class_index: int, length_bin: int | None = None) -> float:
        """Return the intercept of a class for messages of a length bin."""
        total = self.shared.intercept(class_index)
        if length_bin in self.by_length:
            total += self.by_length[length_bin].intercept(class_index)
        return total

    def slopes(self, length_bin: int | None = None) -> list[float]:
        """Return the slope of each view for messages of a length bin."""
        return _core.slopes(self.shared, self.by_length.get(length_bin))

    def scores(
        self, log_likelihoods: list[list[float]], active: list[int], length_bin: int | None = None
    ) -> list[float]:
        """Return the scores of the `active` classes.

        Parameters
        ----------
        log_likelihoods
            For each view, the log-likelihood of each class.
        active
            Indices of the classes that have messages, ascending.
        length_bin
            Bin of the message's length; None without length bins.
        """
        weights = self.by_length.get(length_bin)
        return _core.combine_scores(self.shared, weights, log_likelihoods, active)

    def learn(
        self,
        log_likelihoods: list[list[float]],
        proba: list[float],
        step: LabelStep,
        targets: list[float] | None = None,
    ) -> list[tuple[tuple[float, ...], ...]]:
        """Take one gradient step. Return the changes of the shared weights and the bin's weights.

        Parameters
        ----------
        log_likelihoods
            As in `scores`.
        proba
            Probabilities of the active classes, which follow from the scores.
        step
            The label and its weights.
        targets
            Posterior probabilities of the active classes, given the label; None to derive them
            from the trust in the label.
        """
        weights = None if step.length_bin is None else self.weights_of(step.length_bin)
        return _core.calibration_step(
            self.shared, weights, log_likelihoods, proba, self.rate, step, targets
        )

    def weights_of(self, length_bin: int | None) -> CalibrationWeights:
        """Return the weights of a length bin, created if missing, or the shared ones for None."""
        if length_bin is None:
            return self.shared
        weights = self.by_length.get(length_bin)
        if weights is None:
            weights = self.by_length[length_bin] = CalibrationWeights.constant(self.n_views, 0.0)
        return weights

    def diff_at(self, length_bin: int, before: Recalibration) -> CalibrationWeights | tuple[()]:
        """Return the change of a length bin's weights from the state `before`; empty if none."""
        if length_bin not in self.by_length:
            return ()
        neutral = CalibrationWeights.constant(self.n_views, 0.0)
        return self.by_length[length_bin].diff(before.by_length.get(length_bin, neutral))

    def remap_classes(self, index_map: IndexMap) -> Self:
        """Return a copy with class indices changed, as in `OnlineEstimator.remap_classes`."""
        copied = type(self)(self.n_views, self.rate)
        copied.shared = self.shared.remap_classes(index_map)
        copied.by_length = {
            length_bin: weights.remap_classes(index_map)
            for length_bin, weights in self.by_length.items()
        }
        return copied

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        lengths = {
            str(length_bin): weights.state()
            for length_bin, weights in sorted(self.by_length.items())
            if not weights.is_neutral()
        }
        state: dict[str, Any] = {"rate": self.rate, **self.shared.state()}
        return {"recalibration": state | ({"lengths": lengths} if lengths else {})}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Create the recalibration from `state`. Invalid state raises an exception of any type."""
        values = state["recalibration"]
        shared = CalibrationWeights.from_state(values)
        recalibration = cls(len(shared.slopes), float(values["rate"]))
        recalibration.shared = shared
        for length_bin, weight_state in values.get("lengths", {}).items():
            weights = CalibrationWeights.from_state(weight_state)
            if len(weights.slopes) != recalibration.n_views:
                raise ValueError("the recalibration is not valid")
            recalibration.by_length[check_length_bin(int(length_bin))] = weights
        return recalibration


def check_length_bin(length_bin: Any) -> int:
    """Return `length_bin`. Raise ValueError if it is not valid."""
    if type(length_bin) is not int or not 0 <= length_bin < _MAX_LENGTH_BINS:
        raise ValueError(f"recalibration: the length bin {length_bin!r} is not valid")
    return length_bin


# Probability per message that another system becomes the best one. Chosen on mail and texts; the
# results with 1e-3 and 0 differ little. With 0, the weights do not follow drift.
SWITCH_RATE = 1e-4


# A system skips a step if each of its probabilities differs by less than this from the posterior.
# At twice the value, results are the same; with 0, receipts are longer.
MIN_ERROR = 2.0**-9


def alpha_factors(n_systems: int) -> list[float]:
    """Return the factor of alpha of each system.

    Examples
    --------
    >>> from streamnb.naive_bayes.recalibration import alpha_factors
    >>> for n in range(1, 5):
    ...     [round(factor, 2) for factor in alpha_factors(n)]
    [1.0]
    [1.0, 10.0]
    [0.32, 1.0, 10.0]
    [0.32, 1.0, 3.16, 10.0]
    """
    root = math.sqrt(10.0)
    return [[1.0], [1.0, 10.0], [1 / root, 1.0, 10.0], [1 / root, 1.0, root, 10.0]][n_systems - 1]


class SystemPool(OnlineEstimator):
    r"""A linear pool of systems, each with its own recalibration of the views.

    System s has scores z_sk from its own `Recalibration`, and probabilities P_s. The pool predicts

        P_k = sum over s of pi_s P_sk

    After each message, pi_s is multiplied by the probability of the label by system s (Bayes' rule;
    Hedge with the log loss, Vovk 1990). So the total log loss of the pool is at most that of its
    best system plus ln S. A fraction of the weights, `SWITCH_RATE`, is shared equally after each
    message (Herbster and Warmuth 1998).

    Parameters
    ----------
    n_systems, n_views
        Number of systems and of views.
    rate
        Step size of each recalibration.

    References
    ----------
    Vovk, V. (1990). Aggregating strategies. COLT 1990. Herbster, M. and Warmuth, M. (1998).
    Tracking the best expert. Machine Learning 32.

    Examples
    --------
    >>> from streamnb.naive_bayes.recalibration import SystemPool
    >>> from streamnb.scores import probabilities
    >>> pool = SystemPool(2, 1)
    >>> for _ in range(20):
    ...     _ = pool.learn_weights([0.9, 0.5])
    >>> [round(weight, 3) for weight in probabilities(pool.log_weights)]
    [1.0, 0.0]
    """

    delta_names: ClassVar[tuple[str, ...]] = ("recalibration", "lengths", "pool")

    def __init__(self, n_systems: int, n_views: int, rate: float = 0.3) -> None:
        self.systems: list[Recalibration] = [Recalibration(n_views, rate) for _ in range(n_systems)]
        # Log weights up to a constant; multiples of the update step.
        self.log_weights: list[float] = [0.0] * n_systems

    @property
    def rate(self) -> float:
        """Step size of each recalibration."""
        return self.systems[0].rate

    @rate.setter
    def rate(self, rate: float) -> None:
        for system in self.systems:
            system.rate = rate

    @property
    def n_views(self) -> int:
        """Number of views."""
        return self.systems[0].n_views

    def best(self) -> int:
        """Return the index of the system with the largest weight."""
        return best_index(self.log_weights)

    def learn_weights(self, label_proba: list[float]) -> dict[str, Any]:
        """Multiply each weight by the label's probability by that system; return the changes."""
        if len(self.systems) == 1:
            return {}
        return {"pool": _core.pool_step(self.log_weights, label_proba, SWITCH_RATE)}

    def learn(
        self,
        log_likelihoods: array[float],
        scores: array[float],
        active: list[int],
        step: LabelStep,
        rates: list[float],
        noise_weight: float,
        noise: bool,
    ) -> dict[str, Any]:
        """Take a gradient step of each system (`Recalibration.learn`), then update the log-weights.

        Return the changes. Log-weights do not change in a run, or if the user labels mistakes only.

        Parameters
        ----------
        log_likelihoods, scores
            The predictions of the systems (`Prediction`).
        active
            Indices of the classes that have messages, ascending.
        step
            The label and its weights.
        rates, noise_weight
            Fraction of wrong labels of each active class, and the weight of the label noise.
        noise
            Whether labels can be wrong. Otherwise log-weights learn from the label's class.
        """
        shared, lengths, *proba = _core.learn_systems(
            self.systems, log_likelihoods, scores, active, rates, noise_weight, step, MIN_ERROR
        )
        deltas: dict[str, Any] = {}
        if shared is not None:
            deltas["recalibration"] = shared
            if step.length_bin is not None:
                deltas["lengths"] = [(step.length_bin, lengths)]
        if step.sampling_weight == 1 and not step.in_run:
            deltas |= self.learn_weights(proba[0 if noise else 1])
        return deltas

    def apply(self, deltas: Mapping[str, Any], sign: int) -> None:
        """Apply the updates of a receipt (`sign` 1), or undo them (-1)."""
        for length_bin, changes in _by_bin(deltas):
            for system, change in zip(self.systems, changes, strict=True):
                if change:
                    system.weights_of(length_bin).apply(CalibrationWeights(*change), sign)
        _core.add_scaled(self.log_weights, deltas.get("pool", ()), sign)

    def check(self, deltas: Mapping[str, Any], n_classes: int) -> None:
        """Raise ValueError if the updates cannot come from a model of `n_classes` classes."""
        check_numbers(deltas.get("pool", ()))
        for length_bin, _ in deltas.get("lengths", ()):
            check_length_bin(length_bin)
        parts = [changes for _, changes in _by_bin(deltas)]
        if {len(deltas.get("pool", self.systems)), *map(len, parts)} != {len(self.systems)}:
            raise ValueError("receipt: it has another number of systems")
        for change in filter(None, itertools.chain.from_iterable(parts)):
            CalibrationWeights(*change).check_change(self.n_views, n_classes)

    def remap_deltas(self, deltas: Mapping[str, Any], index_map: IndexMap) -> dict[str, Any]:
        """Return the updates with class indices changed, as in `OnlineEstimator`."""

        def remap(changes: list[Any]) -> list[Any]:
            return [
                change and CalibrationWeights(*change).remap_classes(index_map, 0.0)
                for change in changes
            ]

        remapped = dict(deltas)
        if "recalibration" in deltas:
            remapped["recalibration"] = remap(deltas["recalibration"])
        if "lengths" in deltas:
            remapped["lengths"] = [(number, remap(parts)) for number, parts in deltas["lengths"]]
        return remapped

    def diff(self, before: SystemPool) -> dict[str, Any]:
        """Return the updates from the state `before`, which has no further classes, to this one."""
        pairs = list(zip(self.systems, before.systems, strict=True))
        deltas: dict[str, Any] = {
            "recalibration": [new.shared.diff(old.shared) for new, old in pairs]
        }
        lengths = [
            (length_bin, [new.diff_at(length_bin, old) for new, old in pairs])
            for length_bin in sorted({key for system in self.systems for key in system.by_length})
        ]
        if lengths:
            deltas["lengths"] = lengths
        if len(self.systems) > 1:
            deltas["pool"] = [
                a - b for a, b in zip(self.log_weights, before.log_weights, strict=True)
            ]
        return deltas

    def remap_classes(self, index_map: IndexMap) -> Self:
        """Return a copy with class indices changed, as in `OnlineEstimator`."""
        copied = type(self)(len(self.systems), self.n_views, self.rate)
        copied.systems = [system.remap_classes(index_map) for system in self.systems]
        copied.log_weights = list(self.log_weights)
        return copied

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        systems = {str(s): system.state() for s, system in enumerate(self.systems)}
        return {
            "recalibration": {"rate": self.rate, "pool": list(self.log_weights), "systems": systems}
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Create the pool from `state`. Invalid state raises an exception of any type."""
        values = state["recalibration"]
        systems = [
            Recalibration.from_state(values["systems"][str(s)])
            for s in range(len(values["systems"]))
        ]
        log_weights = values["pool"]
        check_numbers(log_weights)
        rate = float(values["rate"])
        pool = cls(len(systems), systems[0].n_views, rate)
        if len(log_weights) != len(systems) or any(
            system.n_views != pool.n_views for system in systems
        ):
            raise ValueError("the recalibration is not valid")
        pool.systems, pool.log_weights = systems, [float(number) for number in log_weights]
        pool.rate = rate
        return pool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SystemPool) and self.state() == other.state()

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # it changes


def _by_bin(deltas: Mapping[str, Any]) -> Iterator[tuple[int | None, Any]]:
    """Yield each length bin, None for the shared weights, with the change of each system."""
    if "recalibration" in deltas:
        yield None, deltas["recalibration"]
    yield from deltas.get("lengths", ())
