"""The explanation of a message by several views: the terms besides the counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from streamnb.counts.protocol import Label
from streamnb.features.token_counts import TokenCounts
from streamnb.naive_bayes.counting import CountingNB
from streamnb.naive_bayes.explanation import Explanation


class ExplanationTerms(NamedTuple):
    """The terms of the explanation of a message that are not in the counts.

    Attributes
    ----------
    views
        The features of each view.
    labels
        The K classes.
    active
        Indices of the classes that have messages.
    base
        Intercept of each active class in the best system, and the difference to the pool.
    log_likelihoods
        Bounded log-likelihood of each view and active class in the best system.
    slopes
        Slope of each view in the best system.
    factor
        Factor of alpha in the best system.
    bound
        The parameter of the model.
    """

    views: tuple[TokenCounts, ...]
    labels: list[Label]
    active: list[int]
    base: dict[Label, float]
    log_likelihoods: list[list[float]]
    slopes: list[float]
    factor: float
    bound: float | None

    def explain(self, models: Sequence[CountingNB]) -> list[Explanation]:
        """Return the explanation of each view, given the counting models."""
        if len(self.active) < 2:  # with a single class there is nothing to compare
            zeros = dict.fromkeys(self.labels, 0.0)
            return [Explanation(zeros, zeros, {}) for _ in models]
        base = self.base
        explanations: list[Explanation] = []
        for j, (model, view) in enumerate(zip(models, self.views, strict=True)):
            if self.bound is not None:
                clipped = self.log_likelihoods[j]
                unclipped = model.system_log_likelihoods(view, [self.factor])[0]
                base = {
                    label: value + self.slopes[j] * (clipped[k] - unclipped[k])
                    for k, (label, value) in zip(self.active, base.items(), strict=True)
                }
            object.__setattr__(model, "smoothing_scale", self.factor)
            try:
                explanation = model.explain_tokens(view, [0.0] * len(self.labels))
            finally:
                object.__setattr__(model, "smoothing_scale", 1.0)
            explanations.append(explanation.scaled(self.slopes[j], base))
            base = dict.fromkeys(base, 0.0)
        return explanations
