"""Explanations: contributions of features to scores, and the features with the largest ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np

from streamnb.counts.protocol import Floats, Ints, Keys, Label
from streamnb.features.token_counts import Feature, TokenCounts


class Contributions(Mapping[Feature, dict[Label, float]]):
    """Contributions of features to classes, as an array. A name is looked up when it is read.

    Parameters
    ----------
    tokens : TokenCounts
        The message.
    used : ndarray
        Indices of the features that have a contribution, shape (m,).
    labels : list
        The K classes.
    values : ndarray
        Contribution of each of these features to each class, shape (m, K).
    """

    def __init__(self, tokens: TokenCounts, used: Ints, labels: list[Label], values: Floats):
        self.tokens = tokens
        self.used = used
        self.labels = labels
        self.values_by_class = values
        self._dict: dict[Feature, dict[Label, float]] | None = None

    @classmethod
    def none(cls, tokens: TokenCounts, labels: list[Label]) -> Contributions:
        """Return the contributions of a message in which no feature counts."""
        return cls(tokens, np.empty(0, np.int64), labels, np.empty((0, len(labels))))

    def margins(self, label: Label) -> Floats:
        """Return each feature's contribution to a class minus the largest to another, (m,)."""
        k = self.labels.index(label)
        own = self.values_by_class[:, k]
        if len(self.labels) < 2:
            return own
        if len(self.labels) == 2:  # five times as fast
            other: Floats = self.values_by_class[:, 1 - k]
            return own - other
        others = self.values_by_class.copy()
        others[:, k] = -np.inf
        return own - others.max(axis=1)

    def scaled(self, slope: float, labels: Iterable[Label]) -> Contributions:
        """Return the contributions to the chosen classes, multiplied by a slope."""
        chosen = list(labels)
        values = self.values_by_class
        if chosen != self.labels:
            columns = {label: column for column, label in enumerate(self.labels)}
            values = values[:, [columns[label] for label in chosen]]
        return Contributions(self.tokens, self.used, chosen, values * slope)

    def _by_name(self) -> dict[Feature, dict[Label, float]]:
        if self._dict is None:
            rows = zip(self.used.tolist(), self.values_by_class.tolist(), strict=True)
            self._dict = {
                self.tokens.name(i): dict(zip(self.labels, row, strict=True)) for i, row in rows
            }
        return self._dict

    def __getitem__(self, feature: Feature) -> dict[Label, float]:
        return self._by_name()[feature]

    def __iter__(self) -> Iterator[Feature]:
        return iter(self._by_name())

    def __len__(self) -> int:
        return len(self.used)

    def __repr__(self) -> str:
        return repr(self._by_name())


@dataclass(frozen=True)
class Explanation:
    """The score of a message as a sum over its features.

    Attributes
    ----------
    scores
        Joint log-likelihood of each class.
    base
        Score of each class without features: the prior and, for Bernoulli, the absence of all
        features.
    contributions
        Contribution of each feature with a count to each class. The scores are base plus
        contributions.
    """

    scores: dict[Label, float]
    base: dict[Label, float]
    contributions: Mapping[Feature, dict[Label, float]]

    @classmethod
    def sum_views(
        cls, views: Sequence[Explanation], contributions: Mapping[Feature, dict[Label, float]]
    ) -> Explanation:
        """Return the explanation of all views: the sums of scores, and these contributions."""
        labels = list(views[0].scores)
        scores = {label: math.fsum(view.scores[label] for view in views) for label in labels}
        base = {label: math.fsum(view.base[label] for view in views) for label in labels}
        return cls(scores, base, contributions)

    def scaled(self, slope: float, intercepts: dict[Label, float]) -> Explanation:
        """Return slope times this explanation of a view plus an intercept for each class.

        Classes without an intercept are left out.
        """

        def calibrate(by_class: dict[Label, float]) -> dict[Label, float]:
            return {label: slope * by_class[label] + intercepts[label] for label in intercepts}

        scaled = cast("Contributions", self.contributions).scaled(slope, intercepts)
        return Explanation(calibrate(self.scores), calibrate(self.base), scaled)

    def top_features(self, label: Label, n: int = 10) -> list[tuple[Feature, float]]:
        """Return the n features with the largest log-odds for a class against the best other.

        Returns
        -------
        list
            Pairs of feature and log-odds, the largest first.

        Raises
        ------
        ValueError
            If the model has no such class.
        """
        if self.scores and label not in self.scores:
            raise ValueError(
                f"{label!r:.80} is not a class; the classes are {', '.join(map(repr, self.scores))}"
            )
        others = [key for key in self.scores if key != label]

        def margin(by_class: dict[Label, float]) -> float:
            return by_class[label] - max((by_class[key] for key in others), default=0.0)

        pairs = [(feature, margin(by_class)) for feature, by_class in self.contributions.items()]
        return sorted(pairs, key=lambda pair: -pair[1])[:n]


def margin_over_runner_up(weights: Floats) -> Floats:
    """Return weights (n, K) minus the largest weight of the other classes in each row.

    With one class, the weights are returned unchanged.

    Examples
    --------
    >>> margin_over_runner_up(np.array([[3.0, 1.0, 2.0]])).tolist()
    [[1.0, -2.0, -1.0]]
    """
    best = np.full(len(weights), -np.inf)
    second = best if weights.shape[1] > 1 else np.zeros(len(weights))
    for column in weights.T:
        second = np.maximum(second, np.minimum(best, column))
        best = np.maximum(best, column)
    is_best = weights == best[:, None]
    return weights - np.where(is_best, second[:, None], best[:, None])


class TopFeatures:
    """Collector of the n features with the largest gains for each of K classes.

    Of equal gains, the smaller fingerprint comes first, so the order of blocks has no effect.
    Memory holds one block, and at most a few times the size of the result.

    Parameters
    ----------
    classes : int
        Number of classes.
    n : int
        Number of features for each class.

    Examples
    --------
    >>> top = TopFeatures(classes=2, n=1)
    >>> top.add(np.array([7, 9], np.uint64), np.array([[1.0, -1.0], [-2.0, 2.0]]))
    >>> top.result()
    [[(7, 1.0)], [(9, 2.0)]]
    """

    def __init__(self, classes: int, n: int) -> None:
        self.n: int = max(n, 0)
        self.max_held: int = 2 * self.n * classes
        # For each class, the gain and fingerprint of the n-th feature of the blocks so far.
        self.min_gains: Floats = np.full(classes, -np.inf)
        self.last_fingerprints: Keys = np.full(classes, np.iinfo(np.uint64).max, dtype=np.uint64)
        # The collected features: class index, fingerprint, gain.
        self.columns: Ints = np.empty(0, np.int64)
        self.fingerprints: Keys = np.empty(0, np.uint64)
        self.gains: Floats = np.empty(0)

    def add(self, fingerprints: Keys, gains: Floats) -> None:
        """Add a block of features (m,) with their gains for each class (m, K)."""
        min_gains = self.min_gains
        if len(gains) > self.n > 0 and np.isneginf(min_gains).any():
            # A feature outside the n largest of its block is outside the n largest of all.
            min_gains = np.maximum(min_gains, np.partition(gains, -self.n, axis=0)[-self.n])
        rows, columns = np.nonzero(gains >= min_gains)
        keys, values = fingerprints[rows], gains[rows, columns]
        is_top = (values > self.min_gains[columns]) | (keys <= self.last_fingerprints[columns])
        self.columns = np.append(self.columns, columns[is_top])
        self.fingerprints = np.append(self.fingerprints, keys[is_top])
        self.gains = np.append(self.gains, values[is_top])
        if len(self.columns) > self.max_held:
            self._sort()

    def result(self) -> list[list[tuple[int, float]]]:
        """Return fingerprints and gains of each class, the largest gain first."""
        self._sort()
        pairs = list(zip(self.fingerprints.tolist(), self.gains.tolist(), strict=True))
        ends = np.searchsorted(self.columns, np.arange(len(self.min_gains) + 1)).tolist()
        return [pairs[start:end] for start, end in pairwise(ends)]

    def _sort(self) -> None:
        """Sort the collected features, and keep only the first n of each class."""
        order = np.lexsort((self.fingerprints, -self.gains, self.columns))
        columns = self.columns[order]
        starts = np.searchsorted(columns, np.arange(len(self.min_gains)))
        rank = np.arange(len(columns)) - starts[columns]
        top = order[rank < self.n]
        last = order[rank == self.n - 1]
        self.min_gains[self.columns[last]] = self.gains[last]
        self.last_fingerprints[self.columns[last]] = self.fingerprints[last]
        self.columns, self.fingerprints = self.columns[top], self.fingerprints[top]
        self.gains = self.gains[top]
