"""Several systems over the same counts. Better predictions give a system a larger weight."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

from streamnb import _core
from streamnb.naive_bayes.online_estimator import IndexMap, OnlineEstimator, check_numbers
from streamnb.naive_bayes.recalibration import CalibrationWeights, Recalibration, check_length_bin
from streamnb.scores import best_index, probabilities

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
    >>> from streamnb.naive_bayes.systems import alpha_factors
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
    >>> from streamnb.naive_bayes.systems import SystemPool
    >>> pool = SystemPool(2, 1)
    >>> for _ in range(20):
    ...     _ = pool.learn_weights([0.9, 0.5])
    >>> [round(weight, 3) for weight in pool.weights()]
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

    def weights(self) -> list[float]:
        """Return the weight pi of each system; they sum to 1."""
        return probabilities(self.log_weights)

    def best(self) -> int:
        """Return the index of the system with the largest weight."""
        return best_index(self.log_weights)

    def scores(
        self,
        log_likelihoods: list[list[list[float]]],
        active: list[int],
        length_bin: int | None = None,
    ) -> list[list[float]]:
        """Return the scores of the `active` classes by each system (`Recalibration.scores`)."""
        return [
            system.scores(values, active, length_bin)
            for system, values in zip(self.systems, log_likelihoods, strict=True)
        ]

    def pooled(self, scores: list[list[float]]) -> list[float]:
        """Return log P of each class, given its scores by each system."""
        return scores[0] if len(scores) == 1 else _core.pool_scores(scores, self.weights())

    def learn_weights(self, label_proba: list[float], weight: float = 1.0) -> dict[str, Any]:
        """Multiply each weight by the label's probability by that system.

        `weight` is the power of those probabilities. Return the changes for the receipt.
        """
        if len(self.systems) == 1 or weight <= 0:
            return {}
        deltas = _core.pool_step(self.log_weights, label_proba, weight, SWITCH_RATE)
        _core.add_scaled(self.log_weights, deltas, 1)
        return {"pool": deltas}

    def learn(
        self,
        log_likelihoods: list[list[list[float]]],
        proba: list[list[float]],
        targets: list[list[float]],
        errors: list[float],
        class_index: int,
        active: list[int],
        trust: float = 1.0,
        mix_weight: float = 1.0,
        length_bin: int | None = None,
        sampling_weight: float = 1.0,
        predicted: int = 0,
    ) -> dict[str, Any]:
        """Take a gradient step of each system (`Recalibration.learn`), and return the changes."""
        steps: list[Any] = [
            system.learn(
                values,
                shares,
                class_index,
                active,
                trust,
                mix_weight,
                length_bin,
                sampling_weight,
                predicted,
                target,
            )
            if error >= MIN_ERROR
            else ((), ())
            for system, values, shares, target, error in zip(
                self.systems, log_likelihoods, proba, targets, errors, strict=True
            )
        ]
        deltas: dict[str, Any] = {"recalibration": [step[0] for step in steps]}
        if length_bin is not None:
            deltas["lengths"] = [(length_bin, [step[1] for step in steps])]
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
