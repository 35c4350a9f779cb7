"""What all counting models share: learning is adding, predicting is a formula over a few counts."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.counts import Label, MemoryCounts, checked_weight
from streamnb.naive_bayes.many import ManyClassifier
from streamnb.naive_bayes.parameters import CHECKS, Prior
from streamnb.naive_bayes.recalibration import Step
from streamnb.naive_bayes.scores import Explanation, Scored, log_prior
from streamnb.tokens import Feature, TokenCounts

__all__ = ["CountingNB", "Receipt"]


class Receipt(NamedTuple):
    """What learning a message added: enough to unlearn it exactly, whatever was learned since.

    Attributes
    ----------
    exponent
        How often 2 the weights have been divided by until then (see `MemoryCounts.age`).
    mass
        What it added to the weight of its class.
    weights
        How many times its counts went in: one number for each model it was learned by.
    step
        What it changed in the recalibration, where there is one.
    noise
        What it changed in the estimate of wrong labels, where there is one.
    """

    exponent: int
    mass: float
    weights: tuple[float, ...]
    step: Step | None = None
    noise: tuple[float, int] | None = None


class CountingNB(Scored, ManyClassifier):
    """A Naive Bayes model over a table of counts.

    A subclass says what a feature's counts mean (`_feature_weights`) and, if need be, what a
    message without features is worth (`_base_evidence`). Nothing else differs between the models,
    and nothing is stored but counts, so every parameter can change after training.
    """

    _track_values = False
    _caution = 1.0  # more where labels are known to be bad (`LabelNoise`)
    _memo: tuple[TokenCounts, MemoryCounts, tuple[int, float], tuple[float, ...]] | None = None

    def __init__(
        self,
        alpha: float,
        prior: Prior,
        unseen: str,
        tau: float | None,
        length_power: float,
        decay: float,
        keep_names: bool,
    ) -> None:
        self.alpha = alpha
        self.prior = prior
        self.unseen = unseen
        self.tau = tau
        self.length_power = length_power
        self.decay = decay
        self.keep_names = keep_names
        self.counts = self._new_counts()
        self.receipt: Receipt | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        check = CHECKS.get(name)
        if check is not None:
            check(value)
            super().__setattr__("_memo", None)
        super().__setattr__(name, value)

    def _new_counts(self) -> MemoryCounts:
        return MemoryCounts(self.keep_names, self._track_values)

    @property
    def _labels(self) -> list[Label]:
        return self.counts.labels

    @property
    def _smoothing(self) -> float:
        """Alpha in the unit of the counts: where those have aged, it has not."""
        return self.alpha * self.counts.scale * self._caution

    def as_tokens(self, x: Any) -> TokenCounts:
        """A message as the model counts it, good for as long as one likes."""
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
        return log_prior(self.prior, self.counts.labels, self.counts.weights)

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
        if not self.tau or not used:
            return 1.0
        if self.length_power == 0.5:
            return self.tau * math.sqrt(used)
        return self.tau * _core.exp(self.length_power * _core.log(used))

    def evidence(self, x: Any) -> list[float]:
        """What a message says for each class, the prior apart, its length allowed for."""
        memo = self._memo
        state = (self.counts.version, self._caution)
        if memo is not None and memo[0] is x and memo[1] is self.counts and memo[2] == state:
            return list(memo[3])
        tokens = self.as_tokens(x)
        weights, seen = self._weights_of(tokens.fingerprints)
        sums, used = _core.weighted_sums(tokens.counts, weights, seen)
        scale = self._scale(used)
        evidence = [
            (base + total) / scale for base, total in zip(self._base_evidence(), sums, strict=True)
        ]
        if isinstance(x, TokenCounts):  # a message is often classified and then learned
            self._memo = (x, self.counts, state, tuple(evidence))
        return evidence

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_memo": None}

    def _scores(self, x: Any) -> list[float]:
        return [
            prior + evidence
            for prior, evidence in zip(self._log_prior(), self.evidence(x), strict=True)
        ]

    def _lesson(self, x: TokenCounts, y: Label) -> float:
        """How many times a message's counts are learned."""
        return 1.0

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
        tokens = self.as_tokens(x)
        weight = 1.0 if w == 1 else checked_weight(w)
        self._teach(tokens, y, weight, self._lesson(tokens, y))

    def _teach(self, tokens: TokenCounts, y: Label, w: float, lesson: float) -> None:
        counts = self.counts
        mass = w * counts.scale
        receipt = Receipt(counts.exponent, mass, (mass * lesson,))
        counts.add(tokens, y, mass * lesson, mass)
        if self.decay != 1:
            counts.age(self.decay)
        self.receipt = receipt

    @property
    def _needs_receipt(self) -> bool:
        return self.decay != 1

    def unlearn_one(self, x: Any, y: Label, w: float = 1.0, receipt: Receipt | None = None) -> None:
        """Undo `learn_one` with the same arguments: exactly, while weights are whole numbers.

        A class of which nothing is left stays known, with probability 0.

        Parameters
        ----------
        x, y, w
            What was learned.
        receipt
            `receipt` as it was right after the learning. A model whose messages do not all weigh
            the same (discriminative ones, and those that decay) needs it; `w` is then not looked
            at.

        Raises
        ------
        ValueError
            Where this was never learned (a count would fall below zero), or a receipt is missing.
            Nothing has changed. Where weights decay, what is left of a message cannot be told from
            the rest: no more is taken than is there.
        """
        if receipt is None:
            if self._needs_receipt:
                raise ValueError(
                    "to unlearn, this model needs the receipt: keep `model.receipt` after learn_one"
                )
            weight = checked_weight(w)
            receipt = Receipt(self.counts.exponent, weight, (weight,))
        self._untake(self.as_tokens(x), y, receipt.exponent, receipt.mass, receipt.weights[0])

    def _untake(self, tokens: TokenCounts, y: Label, exponent: int, mass: float, w: float) -> None:
        counts = self.counts
        if self.decay == 1 and exponent == counts.exponent:
            counts.subtract(tokens, y, w, mass)
            return
        # Ageing rounds, and drops what is too small to matter: no more can be taken than is left.
        k = counts.index(y)
        if k is None:
            raise ValueError(f"cannot unlearn: nothing was ever learned of class {y!r:.80}")
        shrunk = 2.0 ** (exponent - counts.exponent)
        cells, _ = counts.gather(tokens.fingerprints)
        left = np.minimum(tokens.counts * (w * shrunk), cells[:, k])
        some = left > 0
        kept = TokenCounts._trusted(tokens.fingerprints[some], left[some], None, None)
        counts.subtract(kept, y, 1.0, min(mass * shrunk, counts.weights[k]))

    def merge(self, other: CountingNB) -> None:
        """Add what another model learned: the same as having learned both streams.

        Raises
        ------
        ValueError
            Where the models count different things.
        """
        self.check_merge(other)
        self.counts.merge(other.counts)

    def check_merge(self, other: CountingNB) -> None:
        """Raise ValueError where another model counts different things."""
        if type(other) is not type(self):
            raise ValueError(f"cannot merge a {type(other).__name__} into a {type(self).__name__}")
        if other.decay != self.decay:
            raise ValueError("cannot merge: the models forget at different rates")
        if getattr(other, "binarize", None) != getattr(self, "binarize", None):
            raise ValueError("cannot merge: the models binarize differently")
        self.counts.check_merge(other.counts)

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
        tokens = self.as_tokens(x)
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
        return self.counts_of(_core.fingerprint(feature))

    def counts_of(self, fingerprint: int) -> dict[Label, float]:
        """How often a feature was counted in each class, by its fingerprint."""
        cells, _ = self.counts.gather(np.array([fingerprint], dtype=np.uint64))
        return dict(zip(self.counts.labels, (cells[0] / self.counts.scale).tolist(), strict=True))

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
        return [(self.name_of(of), gain) for of, gain in self.top_fingerprints(label, n)]

    def top_fingerprints(self, label: Label, n: int = 10) -> list[tuple[int, float]]:
        """As `top_features`, by fingerprint."""
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
        return [(int(fingerprints[i]), float(gain[i])) for i in order]

    def name_of(self, fingerprint: int) -> Feature:
        """The name of a feature; #fingerprint where it was not kept."""
        name = self.counts.name(int(fingerprint))
        return f"#{fingerprint:016x}" if name is None or not self.keep_names else name
