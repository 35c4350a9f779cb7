"""Why a message scored as it did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from streamnb.counts.protocol import Label
from streamnb.features.token_counts import Feature


@dataclass(frozen=True)
class Explanation:
    """Why a message scored as it did.

    Attributes
    ----------
    scores
        Joint log-likelihood of each class.
    base
        What each class had before any feature was looked at: the prior, and for Bernoulli the
        absence of every feature.
    contributions
        For each feature that took part, what it added to each class. With the base they add up to
        the scores.
    """

    scores: dict[Label, float]
    base: dict[Label, float]
    contributions: dict[Feature, dict[Label, float]]

    @classmethod
    def summed(
        cls, views: Sequence[Explanation], parts: dict[Feature, dict[Label, float]]
    ) -> Explanation:
        """One explanation of several views: their sums, and the contributions as given."""
        labels = list(views[0].scores)
        scores = {label: math.fsum(view.scores[label] for view in views) for label in labels}
        base = {label: math.fsum(view.base[label] for view in views) for label in labels}
        return cls(scores, base, parts)

    def scaled(self, gain: float, bias: dict[Label, float]) -> Explanation:
        """The same times a gain, for the classes that have a bias."""

        def weighed(of: dict[Label, float]) -> dict[Label, float]:
            return {label: gain * of[label] + bias[label] for label in bias}

        parts = {
            feature: {label: gain * of[label] for label in bias}
            for feature, of in self.contributions.items()
        }
        return Explanation(weighed(self.scores), weighed(self.base), parts)

    def top_features(self, label: Label, n: int = 10) -> list[tuple[Feature, float]]:
        """The n features that spoke most for a class, over the best of the others."""
        others = [other for other in self.scores if other != label]

        def speaks(of: dict[Label, float]) -> float:
            return of[label] - max((of[other] for other in others), default=0.0)

        found = [(feature, speaks(of)) for feature, of in self.contributions.items()]
        return sorted(found, key=lambda item: -item[1])[:n]
