"""The evidence for label noise, against classes that overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from streamnb import _core
from streamnb.naive_bayes.online_estimator import OnlineEstimator, check_numbers
from streamnb.naive_bayes.recalibration import SWITCH_RATE


class NoiseEvidence(OnlineEstimator):
    r"""The probability that labels are wrong, and not the classes that overlap.

    Both explain why labels often contradict predictions. Let e be the mean rate of wrong labels. If
    labels are noisy, they contradict even the surest prediction with a probability of about e. If
    classes overlap, all labels are correct, and sure predictions are rarely contradicted. Then P is
    too sure: the probability of class c is proportional to P(c)^a, with a = 1 - e K / (K - 1). For
    two classes and P = 1/2, this agrees with the label probability of noisy labels, and with its
    slope.

    Each label multiplies the weights of the two hypotheses by the probability that they gave it.
    As in `SystemPool`, a fraction `SWITCH_RATE` of the weights is then shared equally. The
    predicted probability is the mean of both hypotheses with these weights. If e is small, the
    hypotheses do not differ.

    Attributes
    ----------
    log_weights : list of float
        Logarithm of the weight of label noise and of overlapping classes, up to a constant.

    Examples
    --------
    >>> from streamnb.naive_bayes.noise_evidence import NoiseEvidence
    >>> from streamnb.scores import probabilities
    >>> scores = [-0.001, -7.0]  # a sure prediction
    >>> evidence = NoiseEvidence()
    >>> for _ in range(8):
    ...     _ = evidence.learn(scores, [0.1, 0.1], 1)  # contradicted
    >>> [round(p, 3) for p in probabilities(evidence.mean_scores(scores, [0.1, 0.1]))]
    [0.999, 0.001]
    """

    delta_names: ClassVar[tuple[str, ...]] = ("noise_evidence",)

    def __init__(self, log_weights: Sequence[float] = (0.0, 0.0)) -> None:
        self.log_weights: list[float] = list(log_weights)

    def mean_scores(self, scores: list[float], rates: list[float]) -> list[float]:
        """Return the logarithm of the mean of both hypotheses.

        Parameters
        ----------
        scores
            Logarithm of the probability of each class if labels are noisy.
        rates
            Rate of wrong labels of each class.
        """
        return _core.mean_scores(scores, rates, self.log_weights)

    def mean_label_proba(
        self, labels: list[float], scores: list[float], rates: list[float]
    ) -> list[float]:
        """Return the mean of the label probabilities of both hypotheses.

        Parameters
        ----------
        labels
            Probability of each label if labels are noisy.
        scores, rates
            As in `mean_scores`.
        """
        weight, _ = _core.probabilities(self.log_weights)
        overlapping = _core.probabilities(_core.overlap_scores(scores, rates))
        return [weight * p + (1 - weight) * q for p, q in zip(labels, overlapping, strict=True)]

    def learn(self, scores: list[float], rates: list[float], position: int) -> dict[str, Any]:
        """Update the weights with a label, and return the changes for its receipt.

        Parameters
        ----------
        scores, rates
            As in `mean_scores`.
        position
            Position of the label in these lists.
        """
        changes = _core.evidence_step(scores, rates, self.log_weights, position, SWITCH_RATE)
        return {"noise_evidence": changes}

    def apply(self, deltas: Mapping[str, Any], sign: int) -> None:
        """Apply the updates of a receipt (`sign` 1), or undo them (-1)."""
        _core.add_scaled(self.log_weights, deltas.get("noise_evidence", ()), sign)

    def check(self, deltas: Mapping[str, Any], n_classes: int) -> None:
        """Raise ValueError if the updates cannot come from a model."""
        if "noise_evidence" in deltas:
            self.from_state(deltas)

    def remap_deltas(self, deltas: Mapping[str, Any], index_map: Any) -> Mapping[str, Any]:
        """Return the updates, which do not depend on class indices."""
        return deltas

    def diff(self, before: Self) -> dict[str, Any]:
        """Return the updates from the state `before` to this one."""
        pairs = zip(self.log_weights, before.log_weights, strict=True)
        return {"noise_evidence": [a - b for a, b in pairs]}

    def remap_classes(self, index_map: Any) -> Self:
        """Return a copy, which does not depend on class indices."""
        return type(self)(self.log_weights)

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {"noise_evidence": list(self.log_weights)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Create the estimator from `state`. Invalid state raises an exception of any type."""
        log_weights = state["noise_evidence"]
        check_numbers(log_weights)
        if len(log_weights) != 2:
            raise ValueError("receipt: its noise evidence is not valid")
        return cls([float(weight) for weight in log_weights])
