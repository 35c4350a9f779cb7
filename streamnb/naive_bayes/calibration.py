"""All that `ViewsNB` learns next to its counts, and its update by one message."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

from streamnb import _core
from streamnb.features.token_counts import TokenCounts
from streamnb.naive_bayes.class_sums import ClassReliability, CountedWeights
from streamnb.naive_bayes.label_noise import LabelNoise
from streamnb.naive_bayes.mistake_tests import MistakeTests
from streamnb.naive_bayes.noise_evidence import NoiseEvidence
from streamnb.naive_bayes.online_estimator import IndexMap, OnlineEstimator
from streamnb.naive_bayes.present_classes import PresentClasses
from streamnb.naive_bayes.recalibration import LabelStep, SystemPool
from streamnb.naive_bayes.selective_feedback import SelectiveFeedback

# Number of messages. If `decay` forgets faster, label noise counts less, because the user expects
# classes to change.
_SHORT_MEMORY = 1000.0
# Entry of a receipt: 1 if the label probably corrected a wrong prediction; 0 if the caller passed
# feedback="all".
CORRECTED = "corrected"
# by the value of that entry
_FEEDBACK: dict[float | None, str | None] = {None: None, 0: "all", 1: "errors"}


def feedback_of(deltas: Mapping[str, Any]) -> str | None:
    """Return the feedback that a receipt records; raise ValueError if it is not valid."""
    value = deltas.get(CORRECTED)
    if not isinstance(value, (int, float, type(None))) or value not in _FEEDBACK:
        raise ValueError("the receipt comes from another kind of model")
    return _FEEDBACK[value]


class Prediction(NamedTuple):
    """A cached prediction of a message.

    `log_likelihoods` are clipped, by system, view and class, (S, V, K). `system_scores` are by
    system and active class, `scores` by active class after pooling.
    """

    views: tuple[TokenCounts, ...]
    version_key: list[int]
    active: list[int]
    length_bin: int | None
    log_likelihoods: array[float]
    system_scores: array[float]
    scores: list[float]

    def log_likelihoods_of(self, system: int) -> list[list[float]]:
        """Return the log-likelihoods (V, K) of a system."""
        n_views = len(self.views)
        n_rows = len(self.system_scores) // len(self.active) * n_views
        width = len(self.log_likelihoods) // n_rows
        rows = range(system * n_views, (system + 1) * n_views)
        return [self.log_likelihoods[row * width : (row + 1) * width].tolist() for row in rows]

    def scores_of(self, system: int) -> list[float]:
        """Return the scores of a system, by active class."""
        n_active = len(self.active)
        return self.system_scores[system * n_active : (system + 1) * n_active].tolist()


@dataclass(eq=False)
class Calibration:
    """The estimators of a `ViewsNB`."""

    reliability: ClassReliability
    recalibration: SystemPool
    noise: LabelNoise
    present_classes: PresentClasses
    feedback: SelectiveFeedback
    counted: CountedWeights
    mistake_tests: MistakeTests
    noise_evidence: NoiseEvidence

    @classmethod
    def create(cls, systems: int, n_views: int, rate: float, label_noise: float | None) -> Self:
        """Create the estimators of a model that has learned nothing.

        Parameters
        ----------
        systems, n_views
            Numbers of systems and of views.
        rate, label_noise
            The parameters of `ViewsNB`.
        """
        return cls(
            ClassReliability(),
            SystemPool(systems, n_views, rate),
            LabelNoise(label_noise),
            PresentClasses(),
            SelectiveFeedback(),
            CountedWeights(n_views),
            MistakeTests(),
            NoiseEvidence(),
        )

    @property
    def estimators(self) -> dict[str, OnlineEstimator]:
        """All estimators, by attribute name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def learn(
        self,
        prediction: Prediction,
        class_index: int,
        class_weight: float,
        total_weight: float,
        present: list[int],
        decay: float,
        feedback: str | None,
    ) -> tuple[float, dict[str, Any]]:
        """Update all estimators but `present_classes` and `counted` with a message.

        Parameters
        ----------
        prediction, class_index
            The prediction for the message, and the index of its label.
        class_weight, total_weight
            Weight of all earlier messages with this label, and of all earlier messages.
        present
            Indices of the classes that are present, ascending (`PresentClasses`).
        decay
            The parameter of the view models.
        feedback
            "all" or "errors" if the caller knows which messages get labels; None to infer it.

        Returns
        -------
        float
            The probability that the label is correct.
        dict
            The changes, for the receipt.
        """
        active = prediction.active
        position = active.index(class_index)
        proba = _core.probabilities(prediction.scores)
        best = _core.best_index(prediction.scores)
        predicted, is_correct = active[best], best == position
        sampling_weight, noise_weight = self.feedback.weights(is_correct, feedback)
        in_run = len(present) < 2
        noise_weight = self._noise_weight(noise_weight, decay)
        if in_run:
            noise_weight *= self.present_classes.mixed_fraction(class_index)
        if not is_correct and not self.noise.fixed:
            noise_weight *= self.mistake_tests.noise_weight(
                predicted, class_index, prediction.views
            )
        is_random_possible = feedback is None and not self.noise.fixed
        random = self.feedback.random_proba(is_correct) if is_random_possible else 0.0
        posterior, rates, label_weight = self.noise.posterior(
            proba, active, position, class_weight, total_weight - class_weight, random
        )
        deltas: dict[str, Any] = {}
        if is_random_possible:
            deltas |= self.mistake_tests.learn(
                predicted,
                class_index,
                prediction.views,
                proba[best] if is_correct else 1 - posterior[position],
                rates[best],
                len(active) - 1,
            )
        if feedback is None:
            random = random / len(active) / label_weight if random else 0.0
            deltas |= self.feedback.learn(is_correct, proba[best], random)
        if feedback == "errors" or sampling_weight < 1:
            deltas[CORRECTED] = 1
        elif feedback == "all":
            deltas[CORRECTED] = 0
        if not in_run:
            deltas |= self.reliability.learn(predicted, class_index)
        posterior = [noise_weight * p for p in posterior]
        posterior[position] += 1 - noise_weight
        classes = active if in_run else present
        step = LabelStep(
            class_index, classes, posterior[position], in_run, prediction.length_bin,
            sampling_weight, classes.index(predicted) if predicted in classes else -1,
        )  # fmt: skip
        if sampling_weight == 1:
            if self.noise.fixed is None and not in_run:
                deltas |= self.noise_evidence.learn(
                    prediction.scores, self.noise.rates(active), position
                )
            deltas |= self.noise.learn(posterior, active, position)
        deltas |= self.recalibration.learn(
            prediction.log_likelihoods, prediction.system_scores, active, step, rates,
            noise_weight, self.noise.fixed != 0,
        )  # fmt: skip
        return 1.0 if self.noise.fixed == 0 else posterior[position], deltas

    def scores(self, prediction: Prediction) -> list[float]:
        """Return the logarithm of the probability of each active class, up to a constant."""
        if self.noise.fixed is not None:
            return list(prediction.scores)
        return self.noise_evidence.mean_scores(
            prediction.scores, self.noise.rates(prediction.active)
        )

    def label_proba(self, prediction: Prediction) -> list[float]:
        """Return the probability of each label, including wrong labels, of each active class."""
        proba = _core.probabilities(prediction.scores)
        rates = self.noise.rates(prediction.active)
        wrong = [e * p / (len(proba) - 1) for e, p in zip(rates, proba, strict=True)]
        total = math.fsum(wrong)
        labels = [
            (1 - e) * p + total - share for e, p, share in zip(rates, proba, wrong, strict=True)
        ]
        if self.noise.fixed is not None:
            return labels
        return self.noise_evidence.mean_label_proba(labels, prediction.scores, rates)

    def _noise_weight(self, noise_weight: float, decay: float) -> float:
        """Return the weight of the label noise, given the noise weight of `SelectiveFeedback`.

        A small `decay` reduces it, because correct labels seem wrong just after a drift.
        """
        if self.noise.fixed:  # the user set the noise
            return 1.0
        return (
            noise_weight * min(1.0, 1 / (1 - decay) / _SHORT_MEMORY) if decay < 1 else noise_weight
        )

    def apply(self, deltas: Mapping[str, Any], sign: int) -> None:
        """Apply the updates of a receipt (`sign` 1), or undo them (-1)."""
        for estimator in self.estimators.values():
            estimator.apply(deltas, sign)

    def check(self, deltas: Mapping[str, Any], n_classes: int) -> None:
        """Raise ValueError if the updates cannot come from a model of `n_classes` classes."""
        names = {CORRECTED}
        for estimator in self.estimators.values():
            names.update(estimator.delta_names)
        if not names >= deltas.keys():
            raise ValueError("the receipt comes from another kind of model")
        feedback_of(deltas)
        for estimator in self.estimators.values():
            estimator.check(deltas, n_classes)

    def remap_deltas(self, deltas: Mapping[str, Any], index_map: IndexMap) -> Mapping[str, Any]:
        """Return the updates with class indices changed, as in `OnlineEstimator`."""
        for estimator in self.estimators.values():
            deltas = estimator.remap_deltas(deltas, index_map)
        return deltas

    def diff(self, before: Self) -> dict[str, Any]:
        """Return the updates from the state `before`, which has no further classes, to this one."""
        deltas: dict[str, Any] = {}
        for name, estimator in self.estimators.items():
            deltas |= estimator.diff(before.estimators[name])
        return deltas

    def remap_classes(self, index_map: IndexMap) -> Self:
        """Return a copy with class indices changed, as in `OnlineEstimator`."""
        estimators: list[Any] = [
            estimator.remap_classes(index_map) for estimator in self.estimators.values()
        ]
        return type(self)(*estimators)

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        state: dict[str, Any] = {}
        for estimator in self.estimators.values():
            state |= estimator.state()
        return state

    def from_state(self, state: Mapping[str, Any]) -> Self:
        """Create a calibration for the same views. Invalid state raises any exception."""
        estimators: list[Any] = [
            estimator.from_state(state) for estimator in self.estimators.values()
        ]
        restored = type(self)(*estimators)
        if {restored.recalibration.n_views, restored.counted.n_views} != {self.counted.n_views}:
            raise ValueError("the state has another number of views")
        return restored
