"""From scores to probabilities, labels and reasons: what every model does alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from streamnb import _core
from streamnb.counts import Label
from streamnb.naive_bayes.parameters import Prior
from streamnb.tokens import Feature

__all__ = ["Explanation", "Scored", "log_prior", "probabilities"]


def probabilities(scores: list[float]) -> list[float]:
    """Turn joint log-likelihoods into probabilities; uniform where all are -inf."""
    top = max(scores)
    if top == -math.inf:
        return [1 / len(scores)] * len(scores)
    powers = [_core.exp(score - top) for score in scores]
    total = math.fsum(powers)
    return [power / total for power in powers]


def log_prior(prior: Prior, labels: list[Label], weights: list[float]) -> list[float]:
    """Log prior of each class; -inf for one that nothing is left of, unless it is given."""
    alive = [weight > 0 for weight in weights]
    if not any(alive):  # nothing is known of any class
        alive, weights = [True] * len(labels), [1.0] * len(labels)
    if prior == "none":
        return [0.0 if some else -math.inf for some in alive]
    if isinstance(prior, Mapping):
        shares = [float(prior.get(label, 0.0)) for label in labels]
    else:
        shares = weights if prior == "learned" else [float(some) for some in alive]
    total = math.fsum(shares)
    if total == 0:  # a given prior that names none of the classes says nothing
        return [0.0] * len(labels)
    return [_core.log(share / total) for share in shares]


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
        scores = {label: sum(view.scores[label] for view in views) for label in labels}
        base = {label: sum(view.base[label] for view in views) for label in labels}
        return cls(scores, base, parts)

    def strongest(self, label: Label, n: int = 10) -> list[tuple[Feature, float]]:
        """The n features that spoke most for a class, over the best of the others."""
        others = [other for other in self.scores if other != label]

        def speaks(of: dict[Label, float]) -> float:
            return of[label] - max((of[other] for other in others), default=0.0)

        found = [(feature, speaks(of)) for feature, of in self.contributions.items()]
        return sorted(found, key=lambda item: -item[1])[:n]


class Scored:
    """A model that scores a message (`_scores`) for each of its `_labels`, and can be saved."""

    @property
    def _labels(self) -> list[Label]:
        raise NotImplementedError

    def _scores(self, x: Any) -> list[float]:
        raise NotImplementedError

    @property
    def _multiclass(self) -> bool:
        return True

    def joint_log_likelihood(self, x: Any) -> dict[Label, float]:
        """Log of prior times likelihood, for each class."""
        return dict(zip(self._labels, self._scores(x), strict=True))

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """Probability of each class; {} before anything was learned."""
        if not self._labels:
            return {}
        return dict(zip(self._labels, probabilities(self._scores(x)), strict=True))

    def predict_one(self, x: Any, **kwargs: Any) -> Label | None:
        """The most probable class, the first learned of equals; None where nothing was learned."""
        if not self._labels:
            return None
        scores = self._scores(x)
        return self._labels[scores.index(max(scores))]

    def save(self, path: str | Path) -> None:
        """Write the model to a file; what was there is replaced whole or not at all."""
        from streamnb.naive_bayes.storage import save

        save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model that `save` wrote.

        Raises
        ------
        ModelFileError
            Where the file is missing, damaged, not ours or of another model.
        """
        from streamnb.naive_bayes.storage import load

        model: Self = load(path, cls)
        return model
