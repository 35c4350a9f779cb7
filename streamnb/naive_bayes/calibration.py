"""State that `ViewsNB` learns online next to its counts, each update of which can be undone."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Self

from streamnb import _core

# Updates are multiples of such a step, so that sums of them are exact and any can be undone.
_STEP = 2.0**-36
_NOISE_STEP = 2.0**-44
_LARGEST_NUMBER = 1e15  # a state or receipt with larger numbers is refused
_MAX_LENGTH_BINS = 64  # powers of two that the length of a message can have

IndexMap = Sequence[int | None]
WeightLists = tuple[list[float], list[float], list[float], list[float]]


class OnlineEstimator:
    """Base class of state learned online next to the counts.

    Every update is recorded in the receipt of its message as a difference, so that it can be undone
    exactly and in any order. States and differences are JSON values, under names that no other
    estimator uses.
    """

    delta_names: ClassVar[tuple[str, ...]]
    """Names of its entries in a receipt."""

    def apply(self, deltas: Mapping[str, Any], sign: int) -> None:
        """Apply the updates of a receipt (`sign` 1), or undo them (-1)."""
        raise NotImplementedError

    def check(self, deltas: Mapping[str, Any], n_classes: int) -> None:
        """Raise ValueError unless a model of `n_classes` classes can have given these updates."""
        raise NotImplementedError

    def remap_deltas(self, deltas: Mapping[str, Any], index_map: IndexMap) -> Mapping[str, Any]:
        """Return the updates with class indices changed.

        Class k had index `index_map[k]` before, or is new if that is None.
        """
        return deltas

    def diff(self, before: Self) -> dict[str, Any]:
        """Return the updates that lead from `before`, which has no more classes, to this state."""
        return {}

    def remap_classes(self, index_map: IndexMap) -> Self:
        """Return a copy with class indices changed, as in `remap_deltas`."""
        return copy.copy(self)

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        raise NotImplementedError

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Create the estimator from `state`. Raise any exception if it is not valid."""
        raise NotImplementedError


def check_numbers(numbers: Any) -> None:
    """Raise ValueError unless `numbers` is a list of finite numbers, each at most 1e15 in size."""
    if not isinstance(numbers, (list, tuple)) or not all(
        type(x) in (int, float) and abs(x) <= _LARGEST_NUMBER for x in numbers
    ):
        raise ValueError("receipt: not a list of finite numbers")


# Recalibration


class WeightDelta(NamedTuple):
    """The change of `CalibrationWeights` by one message."""

    slopes: Sequence[float]
    slope_squares: Sequence[float]
    intercepts: Sequence[float]
    intercept_squares: Sequence[float]

    def remap(self, index_map: IndexMap) -> WeightDelta:
        """Return the change with class indices changed, as in `OnlineEstimator.remap_deltas`."""
        intercepts, squares = (
            tuple(part[k] if k is not None and k < len(part) else 0.0 for k in index_map)
            for part in (self.intercepts, self.intercept_squares)
        )
        return WeightDelta(self.slopes, self.slope_squares, intercepts, squares)

    def check(self, n_views: int, n_classes: int) -> None:
        """Raise ValueError unless the change is one of `n_views` views and at most `n_classes`."""
        for numbers in self:
            check_numbers(numbers)
        if not len(self.slopes) == len(self.slope_squares) == n_views or not (
            len(self.intercepts) == len(self.intercept_squares) <= n_classes
        ):
            raise ValueError("receipt: it comes from a model with other views or classes")


class CalibrationWeights:
    """A slope for each view and an intercept for each class, with sums of squared gradients."""

    def __init__(self, n_views: int, slope: float) -> None:
        self.slopes: list[float] = [slope] * n_views
        self.slope_squares: list[float] = [1.0] * n_views
        self.intercepts: list[float] = []
        self.intercept_squares: list[float] = []

    def intercept(self, class_index: int) -> float:
        """Return the intercept of a class, 0 for one that has none yet."""
        return self.intercepts[class_index] if class_index < len(self.intercepts) else 0.0

    def apply(self, delta: WeightDelta, sign: int) -> None:
        """Apply a change (`sign` 1) or undo it (-1)."""
        self.widen(len(delta.intercepts))
        # A merged model can be asked to undo a step that it never took.
        minimums = (-math.inf, 1.0, -math.inf, 1.0)
        for numbers, changes, minimum in zip(self.lists(), delta, minimums, strict=True):
            for i, change in enumerate(changes):
                numbers[i] = max(numbers[i] + sign * change, minimum)

    def diff(self, before: CalibrationWeights) -> WeightDelta:
        """Return the change that leads from `before`, which has no more classes, to this."""
        before = before.remap_classes(range(len(self.intercepts)))
        pairs = zip(self.lists(), before.lists(), strict=True)
        return WeightDelta(
            *(tuple(a - b for a, b in zip(new, old, strict=True)) for new, old in pairs)
        )

    def remap_classes(self, index_map: IndexMap) -> CalibrationWeights:
        """Return a copy with class indices changed, as in `OnlineEstimator.remap_classes`."""
        copied = CalibrationWeights(len(self.slopes), 0.0)
        copied.slopes, copied.slope_squares = list(self.slopes), list(self.slope_squares)
        for k in index_map:
            has_intercept = k is not None and k < len(self.intercepts)
            copied.intercepts.append(self.intercepts[k or 0] if has_intercept else 0.0)
            copied.intercept_squares.append(
                self.intercept_squares[k or 0] if has_intercept else 1.0
            )
        return copied

    def is_neutral(self) -> bool:
        """Return whether nothing was learned, or all of it undone."""
        squares = set(self.slope_squares + self.intercept_squares)
        return not any(self.slopes + self.intercepts) and squares == {1.0}

    def lists(self) -> WeightLists:
        """Return slopes, their squared gradients, intercepts and theirs, to be changed in place."""
        return self.slopes, self.slope_squares, self.intercepts, self.intercept_squares

    def widen(self, n_classes: int) -> None:
        """Add intercepts of 0 up to `n_classes`."""
        missing = n_classes - len(self.intercepts)
        if missing <= 0:
            return
        self.intercepts += [0.0] * missing
        self.intercept_squares += [1.0] * missing

    def state(self) -> dict[str, list[float]]:
        """Return the weights as JSON values."""
        pairs = zip(WeightDelta._fields, self.lists(), strict=True)
        return {name: list(numbers) for name, numbers in pairs}

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Create the weights from `state`. Raise ValueError if it is not valid."""
        lists = [[float(x) for x in state[name]] for name in WeightDelta._fields]
        slopes, slope_squares, intercepts, intercept_squares = lists
        if (
            not all(abs(x) <= _LARGEST_NUMBER for numbers in lists for x in numbers)
            or not slopes
            or min(slope_squares + intercept_squares) < 1
            or min(slopes) < -1e3  # undoing steps may lead below the least slope
            or len(slopes) != len(slope_squares)
            or len(intercepts) != len(intercept_squares)
        ):
            raise ValueError("the recalibration is not valid")
        weights = cls(len(slopes), 0.0)
        weights.slopes, weights.slope_squares = slopes, slope_squares
        weights.intercepts, weights.intercept_squares = intercepts, intercept_squares
        return weights


class Recalibration(OnlineEstimator):
    r"""Logistic regression on the log-likelihoods of a few views, learned message by message.

    With e_vk the log-likelihood of class k in view v, the score of class k is

        z_k = sum over v of slope_v e_vk + intercept_k

    and the probabilities are the softmax of z (Platt 1999). Naive Bayes ranks well but exaggerates;
    a few numbers correct that. Each is learned by gradient descent on the log loss, with the step
    sizes of AdaGrad (Duchi, Hazan and Singer 2011). At first z is the mean of the views. A
    slope stays at .02 or above: a view can become worthless, but never counts in reverse.

    Log-likelihoods of short messages are worth something else than those of long ones, and classes
    differ in length. So messages of each length bin (a power of two) have slopes and
    intercepts of their own, which are added to the shared ones.

    In a run of one class the intercepts would only learn that this class is frequent. So updates
    are scaled by `mix_weight` (`ClassRuns`); a tenth of the rest still updates the common scale of
    all slopes. If the user labels mistakes only, slopes learn from the conditional
    likelihood (`SelectiveFeedback`).

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
    >>> from streamnb.naive_bayes.calibration import Recalibration
    >>> from streamnb.scores import probabilities
    >>> recalibration, certain = Recalibration(1), [[9.0, 0.0]]
    >>> for _ in range(20):  # the view is certain of the first class, and wrong a third of the time
    ...     for k in (0, 0, 1):
    ...         proba = probabilities(recalibration.scores(certain, [0, 1]))
    ...         _ = recalibration.learn(certain, proba, k, [0, 1])
    >>> 0.6 < probabilities(recalibration.scores(certain, [0, 1]))[0] < 0.73
    True
    """

    delta_names: ClassVar[tuple[str, ...]] = ("recalibration", "lengths")

    def __init__(self, n_views: int, rate: float = 0.3) -> None:
        if not 0 <= rate <= 100:
            raise ValueError(f"rate: {rate!r} is not a number from 0 to 100")
        self.rate = rate
        self.n_views = n_views
        self.shared: CalibrationWeights = CalibrationWeights(n_views, 1.0 / n_views)
        self.by_length: dict[int, CalibrationWeights] = {}

    def intercept(self, class_index: int, length_bin: int | None = None) -> float:
        """Return the intercept of a class for messages of a length bin."""
        total = self.shared.intercept(class_index)
        if length_bin in self.by_length:
            total += self.by_length[length_bin].intercept(class_index)
        return total

    def slopes(self, length_bin: int | None = None) -> list[float]:
        """Return the slope of each view for messages of a length bin."""
        return _core.slopes(self.shared.lists(), self._lists_of(length_bin))

    def _lists_of(self, length_bin: int | None) -> WeightLists | None:
        weights = None if length_bin is None else self.by_length.get(length_bin)
        return None if weights is None else weights.lists()

    def scores(
        self, log_likelihoods: list[list[float]], active: list[int], length_bin: int | None = None
    ) -> list[float]:
        """Return the scores of the `active` classes.

        Parameters
        ----------
        log_likelihoods
            A list for each view, which has a number for each class.
        active
            Indices of the classes that have messages, ascending.
        length_bin
            Bin of the message's length; None if lengths make no difference.
        """
        weights = self._lists_of(length_bin)
        return _core.combine_scores(self.shared.lists(), weights, log_likelihoods, active)

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
    ) -> dict[str, Any]:
        """Take one gradient step for a message, and return the changes for its receipt.

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
            Probability that the message would have been labelled whatever was predicted
            (`SelectiveFeedback`).
        predicted
            Position in `active` of the predicted class; read if `sampling_weight` is below 1.
        targets
            Posterior probabilities of the active classes, given the label; None to derive them
            from `label_trust`.
        """
        self.shared.widen(active[-1] + 1)
        lists = None
        if length_bin is not None:
            weights = self._weights_of(length_bin)
            weights.widen(active[-1] + 1)
            lists = weights.lists()
        steps = _core.calibration_step(
            self.shared.lists(),
            lists,
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
        deltas: dict[str, Any] = {"recalibration": WeightDelta(*steps[0])}
        if lists is not None:
            deltas["lengths"] = [(length_bin, *steps[1])]
        return deltas

    def _weights_of(self, length_bin: int) -> CalibrationWeights:
        return self.by_length.setdefault(length_bin, CalibrationWeights(self.n_views, 0.0))

    def apply(self, deltas: Mapping[str, Any], sign: int) -> None:
        """Apply the updates of a receipt (`sign` 1), or undo them (-1)."""
        if "recalibration" in deltas:
            self.shared.apply(WeightDelta(*deltas["recalibration"]), sign)
        for length_bin, *delta in deltas.get("lengths", ()):
            self._weights_of(length_bin).apply(WeightDelta(*delta), sign)

    def check(self, deltas: Mapping[str, Any], n_classes: int) -> None:
        """Raise ValueError unless a model of `n_classes` classes can have given these updates."""
        if "recalibration" in deltas:
            WeightDelta(*deltas["recalibration"]).check(self.n_views, n_classes)
        for length_bin, *delta in deltas.get("lengths", ()):
            _check_length_bin(length_bin)
            WeightDelta(*delta).check(self.n_views, n_classes)

    def remap_deltas(self, deltas: Mapping[str, Any], index_map: IndexMap) -> dict[str, Any]:
        """Return the updates with class indices changed, as in `OnlineEstimator`."""
        remapped = dict(deltas)
        if "recalibration" in deltas:
            remapped["recalibration"] = WeightDelta(*deltas["recalibration"]).remap(index_map)
        if "lengths" in deltas:
            remapped["lengths"] = [
                (length_bin, *WeightDelta(*delta).remap(index_map))
                for length_bin, *delta in deltas["lengths"]
            ]
        return remapped

    def diff(self, before: Recalibration) -> dict[str, Any]:
        """Return the updates that lead from `before`, which has no more classes, to this state."""
        deltas: dict[str, Any] = {"recalibration": self.shared.diff(before.shared)}
        neutral = CalibrationWeights(self.n_views, 0.0)
        lengths = [
            (length_bin, *weights.diff(before.by_length.get(length_bin, neutral)))
            for length_bin, weights in self.by_length.items()
        ]
        return deltas | ({"lengths": lengths} if lengths else {})

    def remap_classes(self, index_map: IndexMap) -> Self:
        """Return a copy with class indices changed, as in `OnlineEstimator`."""
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
        """Create the recalibration from `state`. Raise any exception if it is not valid."""
        values = state["recalibration"]
        shared = CalibrationWeights.from_state(values)
        recalibration = cls(len(shared.slopes), float(values["rate"]))
        recalibration.shared = shared
        for length_bin, weight_state in values.get("lengths", {}).items():
            weights = CalibrationWeights.from_state(weight_state)
            if len(weights.slopes) != recalibration.n_views:
                raise ValueError("the recalibration is not valid")
            recalibration.by_length[_check_length_bin(int(length_bin))] = weights
        return recalibration

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recalibration) and self.state() == other.state()

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # it changes


def _check_length_bin(length_bin: Any) -> int:
    if type(length_bin) is not int or not 0 <= length_bin < _MAX_LENGTH_BINS:
        raise ValueError(f"recalibration: no message has the length bin {length_bin!r}")
    return length_bin


# Label noise


class LabelNoise(OnlineEstimator):
    r"""Online estimate of the fraction of wrong labels of each true class.

    A message of class t gets a wrong label with probability e_t: each of the other K - 1 classes
    with equal probability. So with Q[t][y] = 1 - e_t if t = y, else e_t / (K - 1), and P the
    probabilities before the label y is known, the posterior of the true class is (Dawid and Skene
    1979)

        posterior_t proportional to Q[t][y] P_t

    and the estimate of e_t is the mean of posterior_t over labels other than t: online expectation
    maximisation with step n_t^-.75, where n_t is 10 plus the sum of posterior_t (Cappé and Moulines
    2009). e_t starts at .1 and falls within a few dozen correct labels. It is averaged with the
    rate of all classes, which counts as 30 messages.

    After n of N messages of a class, many kinds of its messages are still unseen. So the posterior
    uses (P_y + d) / (1 + d) in place of P_y, with d = .002 (N - n) / n^2. Chosen on spamassassin,
    sms and 20 Newsgroups; .001 and .004 differ little. After n correct labels the next one is wrong
    with a probability of about 1 / n. So in the posterior e_t is at least 1 / n_t.

    Parameters
    ----------
    rate
        Fraction of wrong labels, below .5; None to estimate it. With 0 every label is trusted.

    References
    ----------
    Dawid, A. P. and Skene, A. M. (1979). Maximum likelihood estimation of observer error-rates
    using the EM algorithm. Applied Statistics 28. Cappé, O. and Moulines, E. (2009). On-line
    expectation-maximization algorithm for latent data models. JRSS B 71.

    Examples
    --------
    >>> from streamnb.naive_bayes.calibration import LabelNoise
    >>> noise = LabelNoise()
    >>> [round(rate, 3) for rate in noise.rates([0, 1])]
    [0.1, 0.1]
    >>> for _ in range(500):
    ...     posterior, _ = noise.posterior([0.999, 0.001], [0, 1], 0)
    ...     _ = noise.learn(posterior, [0, 1], 0)
    >>> [round(rate, 3) for rate in noise.rates([0, 1])]  # no label of class 1 was seen
    [0.0, 0.028]
    """

    delta_names: ClassVar[tuple[str, ...]] = ("noise",)

    _INITIAL_RATE = round(0.1 / _NOISE_STEP) * _NOISE_STEP
    _INITIAL_LABELS = 10.0
    _SHARED_LABELS = 30.0  # 0 and 100 differ little on texts; 0 is worse on one-sided noise
    _MAX_RATE = 0.49  # with more wrong labels, a class would be the other one
    _UNSEEN_KINDS = 0.002  # d for a class of one message, for each message of another class
    _LARGEST_SUM = 2.0**8  # sums of multiples of the step are exact up to this

    def __init__(self, rate: float | None = None) -> None:
        if rate is not None and not 0 <= rate < 0.5:
            raise ValueError(
                f"label_noise: {rate!r} is neither None nor a number from 0 to below .5"
            )
        self.fixed = rate
        self._rates: list[float] = []
        self._labels: list[float] = []

    def _widen(self, n_classes: int) -> None:
        missing = n_classes - len(self._rates)
        self._rates += [self._INITIAL_RATE] * missing
        self._labels += [self._INITIAL_LABELS] * missing

    @property
    def rate(self) -> float:
        """Fraction of wrong labels, over all classes."""
        if self.fixed is not None:
            return self.fixed
        labels = math.fsum(self._labels)
        if not labels:
            return self._INITIAL_RATE
        pairs = zip(self._rates, self._labels, strict=True)
        mean = math.fsum(rate * weight for rate, weight in pairs) / labels
        return min(max(mean, 0.0), self._MAX_RATE)

    def rates(self, active: list[int], *, has_floor: bool = False) -> list[float]:
        """Return the rate e of each active class, with `has_floor` at least 1 / n."""
        if self.fixed is not None:
            return [self.fixed] * len(active)
        self._widen(active[-1] + 1)
        return _core.noise_rates(
            self._rates, self._labels, active, self._SHARED_LABELS, self._MAX_RATE, has_floor
        )

    def posterior(
        self,
        proba: list[float],
        active: list[int],
        position: int,
        class_weight: float = math.inf,
        other_weight: float = 0.0,
    ) -> tuple[list[float], list[float]]:
        """Return the posterior of the active classes given the label, and their rates.

        Parameters
        ----------
        proba
            Probabilities of the active classes before the label is known.
        active
            Indices of the classes that have messages.
        position
            Position of the label in `active`.
        class_weight, other_weight
            Weight of the messages learned of its class, and of all other classes.
        """
        rates = self.rates(active, has_floor=True)
        unseen = self._UNSEEN_KINDS * other_weight / max(class_weight, 2.0**-60) ** 2
        values = [p / (1 + unseen) for p in proba]
        values[position] = (proba[position] + unseen) / (1 + unseen)
        return _core.label_posterior(values, rates, position)[0], rates

    def learn(self, posterior: list[float], active: list[int], position: int) -> dict[str, Any]:
        """Update the rates with a label, and return the changes for its receipt."""
        if self.fixed is not None:
            return {}
        self._widen(active[-1] + 1)
        changes = _core.noise_step(
            self._rates, self._labels, posterior, active, position, _NOISE_STEP
        )
        self._add(changes, 1)
        return {"noise": changes}

    def apply(self, deltas: Mapping[str, Any], sign: int) -> None:
        """Apply the updates of a receipt (`sign` 1), or undo them (-1)."""
        self._add(deltas.get("noise", ()), sign)

    def _add(self, changes: Sequence[float], sign: int) -> None:
        """Add triples of class index, change of its labels, and change of its rate."""
        for k, labels, rate in zip(changes[::3], changes[1::3], changes[2::3], strict=True):
            self._widen(int(k) + 1)
            self._labels[int(k)] += sign * labels
            self._rates[int(k)] += sign * rate

    def check(self, deltas: Mapping[str, Any], n_classes: int) -> None:
        """Raise ValueError unless a model of `n_classes` classes can have given these updates."""
        changes = deltas.get("noise", ())
        check_numbers(changes)
        if len(changes) % 3 or not all(k == int(k) and 0 <= k < n_classes for k in changes[::3]):
            raise ValueError("receipt: its label noise is not valid")

    def remap_deltas(self, deltas: Mapping[str, Any], index_map: IndexMap) -> Mapping[str, Any]:
        """Return the updates with class indices changed, as in `OnlineEstimator`."""
        if "noise" not in deltas:
            return deltas
        old = deltas["noise"]
        changes = {int(old[i]): old[i + 1 : i + 3] for i in range(0, len(old), 3)}
        remapped: list[float] = []
        for new, k in enumerate(index_map):
            if k in changes:
                remapped += [float(new), *changes[k]]
        return {**deltas, "noise": remapped}

    def diff(self, before: Self) -> dict[str, Any]:
        """Return the updates that lead from `before`, which has no more classes, to this state."""
        before._widen(len(self._rates))
        changes: list[float] = []
        for k, (rate, labels) in enumerate(zip(self._rates, self._labels, strict=True)):
            changes += [float(k), labels - before._labels[k], rate - before._rates[k]]
        return {"noise": changes}

    def remap_classes(self, index_map: IndexMap) -> Self:
        """Return a copy with class indices changed, as in `OnlineEstimator`."""
        copied = type(self)(self.fixed)
        copied._widen(len(index_map))
        for new, k in enumerate(index_map):
            if k is not None and k < len(self._rates):
                copied._rates[new], copied._labels[new] = self._rates[k], self._labels[k]
        return copied

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values, without classes that have no labels."""
        n = len(self._labels)
        while n and (self._labels[n - 1], self._rates[n - 1]) == (
            self._INITIAL_LABELS,
            self._INITIAL_RATE,
        ):
            n -= 1
        return {
            "noise": {"fixed": self.fixed, "rates": self._rates[:n], "labels": self._labels[:n]}
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Create the estimate from `state`. Raise any exception if it is not valid."""
        values = state["noise"]
        rates, labels, fixed = values["rates"], values["labels"], values["fixed"]
        check_numbers(rates)
        check_numbers(labels)
        if len(rates) != len(labels) or any(abs(rate) > cls._LARGEST_SUM for rate in rates):
            raise ValueError("the stored rates of label noise are not valid")
        noise = cls(None if fixed is None else float(fixed))
        noise._rates, noise._labels = list(map(float, rates)), list(map(float, labels))
        return noise


# Runs of one class


class ClassRuns(OnlineEstimator):
    r"""The weight of a message for calibration: 1 in a mixed stream, 0 inside a run of one class.

    Users often train one folder after the other. Estimates of how frequent classes are (the
    intercepts of the recalibration, the label noise) would then be those of the last folder. So
    each class has a credit. A message of another class adds 7 r to it, up to max(20 r, 1). A
    message of the class itself has weight min(1, credit) and spends it. No credit is earned
    while only one class has messages.

    r is the number of messages of the class for each message of another class, in a mixed stream:
    1 / (K - 1), or the mean length of about its last 20 runs if that is more. So messages of a
    class of 99 % have full weight too: they stand between those of others.

    `messages_in_runs` is the total weight that messages lacked. A run of up to a tenth of all
    messages is not counted, since small data sets have such runs by chance.

    Examples
    --------
    >>> from streamnb.naive_bayes.calibration import ClassRuns
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
    ...     _ = runs.learn(int(i % 50 == 0), [0, 1])  # one of fifty
    >>> runs.mix_weight(0), runs.mix_weight(1)
    (1.0, 1.0)
    """

    delta_names: ClassVar[tuple[str, ...]] = ("turns", "runs")

    def __init__(self) -> None:
        self.messages_in_runs: float = 0.0
        self.credits: list[float] = []
        # Of classes that are or were in a run: its current length, and the mean length.
        self.runs: dict[int, tuple[float, float]] = {}

    def mix_weight(self, class_index: int) -> float:
        """Return the weight of the next message if it is of this class, from 0 to 1."""
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
            self.credits, self.runs, active, class_index, total_weight
        )
        self.messages_in_runs += turns[0]
        _core.add_scaled(self.credits, turns[1:], 1)
        _core.add_runs(self.runs, runs, 1)
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
        """Raise ValueError unless a model of `n_classes` classes can have given these updates."""
        runs = self.from_state(deltas)
        if max([len(runs.credits), *(k + 1 for k in runs.runs)]) > n_classes:
            raise ValueError(f"receipt: it is of more than {n_classes} classes")

    def remap_deltas(self, deltas: Mapping[str, Any], index_map: IndexMap) -> Mapping[str, Any]:
        """Return the updates with class indices changed, as in `OnlineEstimator`."""
        if "turns" not in deltas:
            return deltas
        return {**deltas, **self.from_state(deltas).remap_classes(index_map).state()}

    def remap_classes(self, index_map: IndexMap) -> Self:
        """Return a copy with class indices changed, as in `OnlineEstimator`."""
        copied = type(self)()
        copied.messages_in_runs = self.messages_in_runs
        copied.credits = [
            self.credits[k] if k is not None and k < len(self.credits) else 0.0 for k in index_map
        ]
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


# Labels of mistakes alone


class SelectiveFeedback(OnlineEstimator):
    r"""Online estimate of whether the user labels all messages, or corrects mistakes only.

    Many users correct mistakes and label nothing else. Each label then contradicts the model,
    however good it is. Taken as a sample of all messages, such labels say that the log-likelihoods
    are worthless and that labels are often wrong. So the probabilities of predicted classes are
    summed over consecutive mistakes; a correct prediction resets the sum. Between 3 and 4
    the sampling weight of a mistake falls from 1 to 0. Wrong labels are consecutive mistakes,
    too, so the noise weight falls only between 10 and 20. A model that was never right starts at
    20.

    A corrected message is sampled given that the predicted class m is wrong. Its likelihood is then
    p_y / (1 - p_m), conditional on the selection (compare Heckman 1979). With two classes that is
    1, and slopes learn nothing. Intercepts learn as from any message, like a perceptron, until
    mistakes are of both classes.

    References
    ----------
    Heckman, J. J. (1979). Sample selection bias as a specification error. Econometrica 47.

    Examples
    --------
    >>> from streamnb.naive_bayes.calibration import SelectiveFeedback
    >>> feedback = SelectiveFeedback()
    >>> feedback.weights(False)
    (0.0, 0.0)
    >>> _ = feedback.learn(True, 0.9)
    >>> feedback.weights(False)
    (1.0, 1.0)
    >>> for _ in range(5):
    ...     _ = feedback.learn(False, 0.7)
    >>> sampling_weight, noise_weight = feedback.weights(False)
    >>> round(sampling_weight, 9), noise_weight
    (0.5, 1.0)
    """

    delta_names: ClassVar[tuple[str, ...]] = ("corrections",)

    # Sums of probabilities over consecutive mistakes: up to _CHANCE they may be chance, up to
    # _WRONG_LABELS wrong labels; the sum stops at _LARGEST_SUM.
    _CHANCE, _WRONG_LABELS, _LARGEST_SUM = 3.0, 10.0, 20.0

    def __init__(self, mistakes: float = _LARGEST_SUM) -> None:
        self.mistakes: float = mistakes

    def weights(self, is_correct: bool, feedback: str | None = None) -> tuple[float, float]:
        """Return the sampling weight and the noise weight of a message, each from 0 to 1.

        Parameters
        ----------
        is_correct
            Whether its class was predicted.
        feedback
            "all" or "errors" if the caller knows which messages get labels; None to infer it.
        """
        if is_correct or feedback == "all":
            return 1.0, 1.0
        if feedback == "errors":
            return 0.0, 0.0
        noise_weight = (self._LARGEST_SUM - self.mistakes) / (
            self._LARGEST_SUM - self._WRONG_LABELS
        )
        return (
            min(max(1 + self._CHANCE - self.mistakes, 0.0), 1.0),
            min(max(noise_weight, 0.0), 1.0),
        )

    def learn(self, is_correct: bool, proba: float) -> dict[str, float]:
        """Update the sum, and return the change for the receipt.

        `proba` is the probability of the predicted class.
        """
        if is_correct and self.mistakes == 0:
            return {}
        mistakes = min(max(self.mistakes, 0.0), self._LARGEST_SUM)
        after = 0.0
        if not is_correct:
            after = min(mistakes + round(proba / _STEP) * _STEP, self._LARGEST_SUM)
        change = after - self.mistakes
        self.mistakes = after
        return {"corrections": change} if change else {}

    def apply(self, deltas: Mapping[str, Any], sign: int) -> None:
        """Apply the updates of a receipt (`sign` 1), or undo them (-1)."""
        self.mistakes += sign * deltas.get("corrections", 0.0)

    def check(self, deltas: Mapping[str, Any], n_classes: int) -> None:
        """Raise ValueError unless a model can have given these updates."""
        self.from_state({"corrections": 0.0, **deltas})

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {"corrections": self.mistakes}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Create the estimate from `state`. Raise ValueError if it is not valid."""
        mistakes = state["corrections"]
        if type(mistakes) not in (int, float) or not abs(mistakes) <= _LARGEST_NUMBER:
            raise ValueError("the sum of consecutive mistakes is not valid")
        return cls(float(mistakes))


# Reliability


class ClassReliability(OnlineEstimator):
    """Prequential count of correct and wrong predictions of each class.

    Programs act on predictions of a class without review once it is ready: after at least 20
    correct predictions, and four times as many as wrong ones, of which ten count at most.
    Once ready, a class is no longer updated: users of a working filter label only its mistakes,
    which would bias the count. Each message counts once, whatever its weight.

    Examples
    --------
    >>> from streamnb.naive_bayes.calibration import ClassReliability
    >>> reliability = ClassReliability()
    >>> for predicted, true in [(0, 0), (1, 0), (1, 1)]:
    ...     _ = reliability.learn(predicted, true)
    >>> reliability.counts(1), reliability.is_ready(1)
    ((1, 1), False)
    """

    delta_names: ClassVar[tuple[str, ...]] = ("record",)

    MIN_CORRECT = 20
    CORRECT_PER_WRONG = 4
    _MAX_WRONG = 10

    def __init__(self) -> None:
        self.correct: list[int] = []
        self.wrong: list[int] = []

    def counts(self, class_index: int | None) -> tuple[int, int]:
        """Return the number of correct and of wrong predictions of a class."""
        if class_index is None or class_index >= len(self.correct):
            return 0, 0
        return self.correct[class_index], self.wrong[class_index]

    def is_ready(self, class_index: int | None) -> bool:
        """Return whether predictions of a class can be acted on without review."""
        correct, wrong = self.counts(class_index)
        return correct >= self.MIN_CORRECT and correct >= self.CORRECT_PER_WRONG * wrong

    def learn(self, predicted: int, class_index: int) -> dict[str, list[int]]:
        """Count a prediction, and return the change for the receipt."""
        _, wrong = self.counts(predicted)
        is_correct = predicted == class_index
        if self.is_ready(predicted) or (not is_correct and wrong >= self._MAX_WRONG):
            return {}
        change = [predicted, int(is_correct), int(not is_correct)]
        self._add(change, 1)
        return {"record": change}

    def apply(self, deltas: Mapping[str, Any], sign: int) -> None:
        """Apply the updates of a receipt (`sign` 1), or undo them (-1)."""
        self._add(deltas.get("record", ()), sign)

    def _add(self, changes: Sequence[int], sign: int) -> None:
        """Add triples of class index, correct and wrong predictions."""
        for k, correct, wrong in zip(changes[::3], changes[1::3], changes[2::3], strict=True):
            missing = [0] * (k + 1 - len(self.correct))
            self.correct += missing
            self.wrong += missing
            self.correct[k] += sign * correct
            self.wrong[k] += sign * wrong

    def check(self, deltas: Mapping[str, Any], n_classes: int) -> None:
        """Raise ValueError unless a model of `n_classes` classes can have given these updates."""
        changes = deltas.get("record", [])
        is_list = isinstance(changes, list) and len(changes) % 3 == 0
        if not is_list or not all(type(x) is int and abs(x) <= _LARGEST_NUMBER for x in changes):
            raise ValueError("the counts of predictions are not valid")
        if not all(0 <= k < n_classes for k in changes[::3]):
            raise ValueError(f"the counts of predictions are of more than {n_classes} classes")

    def remap_deltas(self, deltas: Mapping[str, Any], index_map: IndexMap) -> Mapping[str, Any]:
        """Return the updates with class indices changed, as in `OnlineEstimator`."""
        if "record" not in deltas:
            return deltas
        return {**deltas, **self.from_state(deltas).remap_classes(index_map).state()}

    def diff(self, before: Self) -> dict[str, Any]:
        """Return the updates that lead from `before`, which has no more classes, to this state."""
        difference = ClassReliability()
        difference.apply(self.state(), 1)
        difference.apply(before.state(), -1)
        return difference.state()

    def remap_classes(self, index_map: IndexMap) -> Self:
        """Return a copy with class indices changed, as in `OnlineEstimator`."""
        copied = type(self)()
        pairs = [self.counts(k) for k in index_map]
        copied.correct, copied.wrong = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        return copied

    def state(self) -> dict[str, Any]:
        """Return the counts as JSON values: a list of class index, correct, wrong, and so on."""
        rows = [(k, *self.counts(k)) for k in range(len(self.correct))]
        return {"record": [x for row in rows if any(row[1:]) for x in row]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Create the counts from `state`. Raise ValueError if it is not valid."""
        reliability = cls()
        reliability.check({"record": state["record"]}, 1 << 20)
        reliability.apply(state, 1)
        return reliability
