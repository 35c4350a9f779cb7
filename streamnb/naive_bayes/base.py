"""What all counting models share: learning is adding, predicting is a formula over a few counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.counts import Label, MemoryCounts, checked_weight
from streamnb.naive_bayes.many import ManyClassifier
from streamnb.tokens import Feature, TokenCounts

__all__ = ["CountingNB", "Explanation", "Prior", "probabilities"]

Prior = str | Mapping[Any, float]


def probabilities(scores: list[float]) -> list[float]:
    """Turn joint log-likelihoods into probabilities; uniform where all are -inf."""
    top = max(scores)
    if top == -math.inf:
        return [1 / len(scores)] * len(scores)
    powers = [math.exp(score - top) for score in scores]
    total = math.fsum(powers)
    return [power / total for power in powers]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _check_alpha(value: Any) -> None:
    if not _is_number(value) or not 0 < value <= 1e100:
        raise ValueError(f"alpha: {value!r} is not a finite number > 0")


def _check_prior(value: Any) -> None:
    if isinstance(value, Mapping):
        shares = list(value.values())
        if not all(_is_number(share) and 0 <= share <= 1e100 for share in shares):
            raise ValueError(f"prior: {value!r} has a value that is not a number >= 0")
        if not sum(shares) > 0:
            raise ValueError("prior: no class has a probability above 0")
    elif value not in ("learned", "uniform", "none"):
        raise ValueError(f"prior: {value!r} is not 'learned', 'uniform', 'none' or a dict")


def _check_unseen(value: Any) -> None:
    if value not in ("ignore", "smooth"):
        raise ValueError(f"unseen: {value!r} is neither 'ignore' nor 'smooth'")


def _check_tau(value: Any) -> None:
    if value is not None and (not _is_number(value) or not 0 < value <= 1e100):
        raise ValueError(f"tau: {value!r} is neither None nor a finite number > 0")


def _check_binarize(value: Any) -> None:
    if not _is_number(value) or not 0 <= value <= 1e100:
        raise ValueError(f"binarize: {value!r} is not a number >= 0 (features left out count 0)")


_CHECKS: dict[str, Callable[[Any], None]] = {
    "alpha": _check_alpha,
    "prior": _check_prior,
    "unseen": _check_unseen,
    "tau": _check_tau,
    "binarize": _check_binarize,
}


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

    def strongest(self, label: Label, n: int = 10) -> list[tuple[Feature, float]]:
        """The n features that spoke most for a class, over the best of the others."""
        others = [other for other in self.scores if other != label]

        def speaks(of: dict[Label, float]) -> float:
            return of[label] - max((of[other] for other in others), default=0.0)

        found = [(feature, speaks(of)) for feature, of in self.contributions.items()]
        return sorted(found, key=lambda item: -item[1])[:n]


class CountingNB(ManyClassifier):
    """A Naive Bayes model over a table of counts.

    A subclass says what a feature's counts mean (`_feature_weights`) and, if need be, what a
    message without features is worth (`_base_evidence`). Nothing else differs between the models,
    and nothing is stored but counts, so every parameter can change after training.
    """

    _track_values = False

    def __init__(
        self, alpha: float, prior: Prior, unseen: str, tau: float | None, keep_names: bool
    ) -> None:
        self.alpha = alpha
        self.prior = prior
        self.unseen = unseen
        self.tau = tau
        self.keep_names = keep_names
        self.counts = self._new_counts()

    def __setattr__(self, name: str, value: Any) -> None:
        check = _CHECKS.get(name)
        if check is not None:
            check(value)
        super().__setattr__(name, value)

    def _new_counts(self) -> MemoryCounts:
        return MemoryCounts(self.keep_names, self._track_values)

    @property
    def _multiclass(self) -> bool:
        return True

    def _tokens(self, x: Any) -> TokenCounts:
        return x if isinstance(x, TokenCounts) else TokenCounts.from_dict(x, None, self.keep_names)

    def _feature_weights(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        """What one occurrence of each feature adds to each class, (n, K), given its counts."""
        raise NotImplementedError

    def _base_evidence(self) -> list[float]:
        """What a message without features has for each class, the prior apart."""
        return [0.0] * len(self.counts.labels)

    def _unseen_weights(self) -> list[float]:
        """What one occurrence of a feature that was never learned adds to each class."""
        nothing = np.zeros((1, len(self.counts.labels)))
        weights: list[float] = self._feature_weights(nothing)[0].tolist()
        return weights

    def _log_prior(self) -> list[float]:
        """Log prior of each class; -inf for one that nothing is left of, unless it is given."""
        labels, weights = self.counts.labels, self.counts.weights
        alive = [weight > 0 for weight in weights]
        if not any(alive):  # nothing is known of any class
            alive, weights = [True] * len(labels), [1.0] * len(labels)
        if self.prior == "none":
            return [0.0 if some else -math.inf for some in alive]
        if isinstance(self.prior, Mapping):
            shares = [float(self.prior.get(label, 0.0)) for label in labels]
        else:
            shares = weights if self.prior == "learned" else [float(some) for some in alive]
        total = math.fsum(shares)
        if total == 0:  # a given prior that names none of the classes says nothing
            return [0.0] * len(labels)
        return [_core.log(share / total) for share in shares]

    def _weights_of(
        self, fingerprints: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float64], NDArray[np.uint8] | None]:
        """Weights (n, K) of features, and which take part (None: all)."""
        cells, seen = self.counts.gather(fingerprints)
        weights = self._feature_weights(cells)
        if self.unseen == "ignore":
            return weights, seen
        weights[seen == 0] = self._unseen_weights()
        return weights, None

    def _scale(self, used: int) -> float:
        """What the evidence of that many features is divided by."""
        return self.tau * math.sqrt(used) if self.tau and used else 1.0

    def _scores(self, x: Any) -> list[float]:
        tokens = self._tokens(x)
        weights, seen = self._weights_of(tokens.fingerprints)
        sums, used = _core.weighted_sums(tokens.counts, weights, seen)
        scale = self._scale(used)
        return [
            prior + (base + total) / scale
            for prior, base, total in zip(
                self._log_prior(), self._base_evidence(), sums, strict=True
            )
        ]

    def learn_one(self, x: Any, y: Label, w: float = 1.0) -> None:
        """Learn a message.

        Parameters
        ----------
        x
            A dict of features and their counts, or a `TokenCounts`.
        y
            Its label: str, bool, int or any other hashable.
        w
            Its weight, >= 0.

        Raises
        ------
        ValueError
            For a count or weight that is NaN, infinite, negative or no number. Nothing has changed.
        """
        self.counts.add(self._tokens(x), y, 1.0 if w == 1 else checked_weight(w))

    def unlearn_one(self, x: Any, y: Label, w: float = 1.0) -> None:
        """Undo `learn_one` with the same arguments: exactly, while weights are whole numbers.

        A class of which nothing is left stays known, with probability 0.

        Raises
        ------
        ValueError
            Where this was never learned (a count would fall below zero). Nothing has changed.
        """
        self.counts.subtract(self._tokens(x), y, checked_weight(w))

    def joint_log_likelihood(self, x: Any) -> dict[Label, float]:
        """Log of prior times likelihood, for each class."""
        return dict(zip(self.counts.labels, self._scores(x), strict=True))

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """Probability of each class; {} before anything was learned."""
        if not self.counts.labels:
            return {}
        return dict(zip(self.counts.labels, probabilities(self._scores(x)), strict=True))

    def predict_one(self, x: Any, **kwargs: Any) -> Label | None:
        """The most probable class, the first learned of equals; None where nothing was learned."""
        if not self.counts.labels:
            return None
        scores = self._scores(x)
        return self.counts.labels[scores.index(max(scores))]

    def merge(self, other: CountingNB) -> None:
        """Add what another model learned: the same as having learned both streams.

        Raises
        ------
        ValueError
            Where the models count different things.
        """
        if type(other) is not type(self):
            raise ValueError(f"cannot merge a {type(other).__name__} into a {type(self).__name__}")
        if getattr(other, "binarize", None) != getattr(self, "binarize", None):
            raise ValueError("cannot merge: the models binarize differently")
        self.counts.merge(other.counts)

    def explain_one(self, x: Any) -> Explanation:
        """Say what each feature of a message added to each class.

        Examples
        --------
        >>> from streamnb import MultinomialNB
        >>> model = MultinomialNB()
        >>> model.learn_one({"free": 2, "now": 1}, "spam")
        >>> model.learn_one({"lunch": 1, "now": 1}, "ham")
        >>> why = model.explain_one({"free": 1, "lunch": 1, "moon": 1})
        >>> [(word, round(gain, 3)) for word, gain in why.strongest("spam")]
        [('free', 0.916), ('lunch', -0.875)]
        """
        tokens = self._tokens(x)
        labels = self.counts.labels
        weights, seen = self._weights_of(tokens.fingerprints)
        took_part = np.ones(len(tokens), bool) if seen is None else seen.astype(bool)
        scale = self._scale(int(took_part.sum()))
        parts = tokens.counts[:, None] * weights / scale
        base = [
            prior + evidence / scale
            for prior, evidence in zip(self._log_prior(), self._base_evidence(), strict=True)
        ]
        return Explanation(
            self.joint_log_likelihood(x),
            dict(zip(labels, base, strict=True)),
            {
                tokens.name(i): dict(zip(labels, parts[i].tolist(), strict=True))
                for i in np.flatnonzero(took_part).tolist()
            },
        )

    def feature_counts(self, feature: Feature) -> dict[Label, float]:
        """How often a feature was counted in each class, by its name."""
        cells, _ = self.counts.gather(np.array([_core.fingerprint(feature)], dtype=np.uint64))
        return dict(zip(self.counts.labels, cells[0].tolist(), strict=True))

    def top_features(self, label: Label, n: int = 10) -> list[tuple[Feature, float]]:
        """The n features that speak most for a class, and by how much.

        Parameters
        ----------
        label
            A class that was learned.
        n
            How many.

        Returns
        -------
        list
            Pairs of name and the log-odds one occurrence adds, against the best other class, the
            strongest first. Features whose names were not kept are shown as #fingerprint.
        """
        k = self.counts.index(label)
        if k is None:
            raise ValueError(f"nothing was ever learned of class {label!r:.80}")
        fingerprints, cells = self.counts.everything()
        if not len(fingerprints):
            return []
        weights = self._feature_weights(cells)
        others = np.delete(weights, k, axis=1)
        gain = weights[:, k] - (others.max(axis=1) if others.shape[1] else 0.0)
        # Of equals, those with the smaller fingerprint, so that the order has no history.
        order = np.lexsort((fingerprints, -gain))[:n]
        return [(self._name(fingerprints[i]), float(gain[i])) for i in order]

    def _name(self, fingerprint: int) -> Feature:
        name = self.counts.name(int(fingerprint))
        return f"#{fingerprint:016x}" if name is None or not self.keep_names else name

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
