"""Logistic regression on the log-likelihoods of a few views."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from streamnb import _core
from streamnb.naive_bayes.online_estimator import (
    LARGEST_NUMBER,
    IndexMap,
    check_numbers,
    remap_values,
)

# Updates are multiples of this step, so sums are exact and each update can be undone.
_STEP = 2.0**-36
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

        `new_square` is the sum of squares of a class that has none: 1, but 0 in a change.
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

    In a run of one class, intercepts would only learn the frequency of this class. So updates are
    multiplied by `mix_weight` (`ClassRuns`). The factor that all slopes have in common is still
    updated, with the weight 0.1 (1 - `mix_weight`). If the user labels mistakes only, slopes learn
    from the conditional likelihood (`SelectiveFeedback`).

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
    >>> from streamnb.naive_bayes.recalibration import Recalibration
    >>> from streamnb.scores import probabilities
    >>> recalibration, certain = Recalibration(1), [[9.0, 0.0]]
    >>> for _ in range(20):  # the view is certain of class 0, and wrong in a third
    ...     for k in (0, 0, 1):
    ...         proba = probabilities(recalibration.scores(certain, [0, 1]))
    ...         _ = recalibration.learn(certain, proba, k, [0, 1])
    >>> 0.6 < probabilities(recalibration.scores(certain, [0, 1]))[0] < 0.73
    True
    """

    def __init__(self, n_views: int, rate: float = 0.3) -> None:
        if not 0 <= rate <= 100:
            raise ValueError(f"rate: {rate!r} is not a number from 0 to 100")
        self.rate = rate
        self.n_views = n_views
        self.shared: CalibrationWeights = CalibrationWeights.constant(n_views, 1.0 / n_views)
        self.by_length: dict[int, CalibrationWeights] = {}

    def intercept(self, class_index: int, length_bin: int | None = None) -> float:
        """Return the intercept of a class for messages of a length bin."""
        total = self.shared.intercept(class_index)
        if length_bin in self.by_length:
            total += self.by_length[length_bin].intercept(class_index)
        return total

    def slopes(self, length_bin: int | None = None) -> list[float]:
        """Return the slope of each view for messages of a length bin."""
        return _core.slopes(self.shared, self._weights_at(length_bin))

    def _weights_at(self, length_bin: int | None) -> CalibrationWeights | None:
        return None if length_bin is None else self.by_length.get(length_bin)

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
        weights = self._weights_at(length_bin)
        return _core.combine_scores(self.shared, weights, log_likelihoods, active)

    def learn(
        self,
        log_likelihoods: list[list[float]],
        proba: list[float],
        class_index: int,
        active: list[int],
        label_trust: float = 1.0,
        mix_weight: float = 1.0,
        length_bin: int | None = None,
        sampling_weight: float = 1.0,
        predicted: int = 0,
        targets: list[float] | None = None,
    ) -> list[tuple[tuple[float, ...], ...]]:
        """Take one gradient step. Return the changes of the shared weights and the bin's weights.

        Parameters
        ----------
        log_likelihoods, active, length_bin
            As in `scores`.
        proba
            Probabilities of the active classes, which follow from the scores.
        class_index
            Index of the message's class.
        label_trust
            Probability that the label is correct.
        mix_weight
            Weight of the message in its run of one class (`ClassRuns`).
        sampling_weight
            Probability that the message would have been labelled after any prediction
            (`SelectiveFeedback`).
        predicted
            Position in `active` of the predicted class; read if `sampling_weight` is below 1.
        targets
            Posterior probabilities of the active classes, given the label; None to derive them
            from `label_trust`.
        """
        self.shared.widen(active[-1] + 1)
        weights = None
        if length_bin is not None:
            weights = self.weights_of(length_bin)
            weights.widen(active[-1] + 1)
        return _core.calibration_step(
            self.shared,
            weights,
            log_likelihoods,
            active,
            proba,
            class_index,
            label_trust,
            mix_weight,
            sampling_weight,
            predicted,
            self.rate,
            targets,
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
