"""Averaged one-dependence estimators."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb._core import CountTable
from streamnb.naive_bayes.parameters import CHECKS, Prior, from_zero, names_of
from streamnb.naive_bayes.tabular.base import TabularNB
from streamnb.naive_bayes.tabular.levels import LevelCounts, Levels

__all__ = ["AODE"]


class _Coded(NamedTuple):
    """The levels of one row: their numbers, in rising order, and those of their features."""

    levels: NDArray[np.int64]
    features: NDArray[np.int64]


_FEATURE = 1 << 31  # in a key: what follows is the number of a feature, not of a level


def _key(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Keys of parents' levels and others, or features marked as such."""
    keys: NDArray[np.uint64] = ((a << 32) | b).astype(np.uint64)
    return keys


def _parts(keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Both numbers of keys."""
    low = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return (keys >> np.uint64(32)).astype(np.int64), low


def _renumbered(
    keys: NDArray[np.uint64], levels: NDArray[np.int64], features: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Keys with other numbers: of level n that of levels[n], and so for features."""
    a, b = _parts(keys)
    known = b >= _FEATURE
    b[known] = _FEATURE | features[b[known] - _FEATURE]
    b[~known] = levels[b[~known]]
    return _key(levels[a], b)


class PairCounts(LevelCounts):
    """Counts of levels, and of pairs of a parent's level and another level of the same row.

    A pair is one entry of a count table. How often a parent's level was there together with a
    feature, at whatever level, is counted too: pairs are divided by that where values are missing.
    A parent's level with itself counts how often it was a parent.

    Parameters
    ----------
    parents
        Names of the features that are parents; or how many a row has at most, those whose names
        have the smallest fingerprints (a choice that depends on the row alone); or None for all.
    """

    def __init__(self, parents: int | Collection[Hashable] | None) -> None:
        super().__init__()
        self.parents = parents if parents is None or isinstance(parents, int) else set(parents)
        self.pairs = CountTable(0, False)
        self._ranks: list[tuple[int, str]] = []

    def declare(self, classes: int) -> None:
        """Have room for so many classes."""
        super().declare(classes)
        self.pairs.widen(classes)

    def parents_of(self, row: _Coded) -> NDArray[np.int64]:
        """Which levels of a row are parents', by their places in it."""
        if self.parents is None:
            return np.arange(len(row.features))
        if isinstance(self.parents, set):
            names = [self.names[j] for j in row.features.tolist()]
            return np.flatnonzero([name in self.parents for name in names])
        for name in self.names[len(self._ranks) :]:
            self._ranks.append((_fingerprint(name), repr(name)))
        ranks = [self._ranks[j] for j in row.features.tolist()]
        order = sorted(range(len(ranks)), key=ranks.__getitem__)
        return np.array(sorted(order[: self.parents]), dtype=np.int64)

    def coded(self, rows: Levels) -> list[_Coded]:
        """The known levels of each row."""
        features, codes = self.codes(rows)
        found = []
        for row in codes:
            known = np.flatnonzero(row >= 0)
            order = known[np.argsort(row[known])]
            found.append(_Coded(row[order], features[order]))
        return found

    def pair_keys(self, row: _Coded, parents: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Keys of parents with all levels of the row, (p, n)."""
        return _key(row.levels[parents, None], row.levels[None])

    def known_keys(self, row: _Coded, parents: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Keys of parents with all features of the row, (p, n)."""
        return _key(row.levels[parents, None], _FEATURE | row.features[None])

    def _entries(self, row: _Coded) -> NDArray[np.uint64]:
        """Keys of all that a row adds to, each once."""
        parents = self.parents_of(row)
        keys = (self.pair_keys(row, parents).ravel(), self.known_keys(row, parents).ravel())
        return np.concatenate(keys)

    def learn(self, rows: Levels, places: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
        """Add rows of classes `places`."""
        super().learn(rows, places, weights)
        for row, place, weight in zip(
            self.coded(rows), places.tolist(), weights.tolist(), strict=True
        ):
            if weight:
                entries = self._entries(row)
                self.pairs.add(entries, np.ones(len(entries)), place, weight)

    def unlearn(self, rows: Levels, place: int, weight: float) -> None:
        """Take a row away."""
        (row,) = self.coded(rows)
        entries = self._entries(row)
        ones = np.ones(len(entries))
        try:
            self.pairs.subtract(entries, ones, place, weight)
        except ValueError:
            raise ValueError("cannot unlearn: this was never learned") from None
        try:
            super().unlearn(rows, place, weight)
        except ValueError:
            self.pairs.add(entries, ones, place, weight)
            raise

    def merge(self, other: Any, places: list[int]) -> None:
        """Add what others know."""
        super().merge(other, places)
        features, ids = self.translated(other)
        keys, cells, _, _ = other.pairs.arrays()
        ours = _renumbered(keys, ids, features)
        self.pairs.add_matrix(ours, np.ascontiguousarray(cells), np.array(places, dtype=np.int64))

    def state(self) -> tuple[Any, dict[str, NDArray[Any]]]:
        """Levels, and the table of pairs with numbers as they are in there."""
        described, arrays = super().state()
        numbers = np.zeros(self._size, dtype=np.int64)
        order = [number for j in self.features.values() for number in self.ids[j].values()]
        numbers[order] = np.arange(self._size)
        keys, cells, _, _ = self.pairs.arrays()
        saved = _renumbered(keys, numbers, np.arange(len(self.ids)))
        rising = np.argsort(saved)
        return described, {**arrays, "pairs": saved[rising], "pair_counts": cells[rising]}

    def restore(self, described: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave."""
        super().restore(described, arrays)
        keys, cells = arrays["pairs"], arrays["pair_counts"]
        a, b = _parts(keys)
        sound = (a < self._size) & np.where(
            b < _FEATURE, b < self._size, b < _FEATURE + len(self.ids)
        )
        if cells.shape != (len(keys), self._counts.shape[1]) or not sound.all():
            raise ValueError("pairs and levels do not belong together")
        if not ((cells >= 0) & (cells <= 1e300)).all():
            raise ValueError("a count is negative or not finite")
        self.pairs.load(keys, cells, cells.sum(axis=0).tolist())


def _check_parents(value: Any) -> None:
    if isinstance(value, int) and (isinstance(value, bool) or value < 1):
        raise ValueError(f"parents: {value!r} is not a whole number >= 1")
    if not isinstance(value, int):
        names_of("parents")(value)


class AODE(TabularNB):
    r"""Averaged one-dependence estimators: each feature in turn is what all others depend on.

        P(c) * mean over parents i of P(x_i | c) * product over j of P(x_j | c, x_i)

    Every probability is a ratio of counts, (n + alpha) / (N + alpha L) with L the number of levels.
    So two features can say together what neither says alone, and nothing has to be searched.

    Parameters
    ----------
    parents
        None for all features; or how many a row has at most (those whose names have the smallest
        fingerprints, a choice that depends on the row alone); or their names. A row of n features
        costs n times the number of its parents: the bound is what makes this usable on text.
    least
        Only a parent whose level was seen this often counts (by weight); where there is none, the
        features are taken for independent.
    sparse
        For text and other rows that name what is there: what is not there is a level of its own,
        which says nothing for itself, but counts in the denominators.
    alpha
        Additive smoothing, >= 0.
    prior
        "learned" (share of the weight learned), "uniform", or a dict of labels to probabilities.

    Levels are any hashable values; numbers should be cut into ranges before. Missing values are
    left out. All parameters but `parents` can be set after training.

    References
    ----------
    Webb, G. I., Boughton, J. R. and Wang, Z. (2005). Not so naive Bayes: aggregating one-dependence
    estimators. Machine Learning 58. (There P(c, x_i) is smoothed as one; here P(c) is the prior.)

    Examples
    --------
    The exclusive or of two features, which naive Bayes cannot learn:

    >>> from streamnb import AODE, CategoricalNB
    >>> aode, naive = AODE(), CategoricalNB()
    >>> for a in (0, 1):
    ...     for b in (0, 1):
    ...         for model in (aode, naive):
    ...             model.learn_one({"a": a, "b": b}, a != b)
    >>> naive.predict_proba_one({"a": 0, "b": 1})[True]
    0.5
    >>> round(aode.predict_proba_one({"a": 0, "b": 1})[True], 3)
    0.667
    """

    _checks: ClassVar = {
        **CHECKS,
        "alpha": from_zero("alpha"),
        "least": from_zero("least"),
        "parents": _check_parents,
    }
    statistics: PairCounts

    def __init__(
        self,
        parents: int | Collection[Hashable] | None = None,
        least: float = 1.0,
        sparse: bool = False,
        alpha: float = 1.0,
        prior: Prior = "learned",
    ) -> None:
        self.parents = parents
        super().__init__(prior)
        self.least = least
        self.sparse = sparse
        self.alpha = alpha

    def _new_statistics(self) -> PairCounts:
        return PairCounts(self.parents)

    def _evidence(self, rows: Levels) -> NDArray[np.float64]:
        weights = np.array([one.weight for one in self._weights])
        scores = [self._of_row(row, weights) for row in self.statistics.coded(rows)]
        return np.array(scores).reshape(len(scores), len(self.labels))

    def _of_row(self, row: _Coded, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        known = self.statistics
        cells = known.counts[row.levels]
        alive = cells.any(axis=1)
        row, cells = _Coded(row.levels[alive], row.features[alive]), cells[alive]
        if not len(row.levels):
            return np.zeros(len(self.labels))
        many = known.alive[row.features, None] + float(self.sparse)
        whole = np.broadcast_to(weights, cells.shape) if self.sparse else known.known[row.features]
        single = _share(cells, whole, self.alpha, many)
        parents = known.parents_of(row)
        parents = parents[cells[parents].sum(axis=1) >= self.least]
        if not len(parents):
            independent: NDArray[np.float64] = single.sum(axis=0)
            return independent
        shape = (len(parents), len(row.levels), len(self.labels))
        pairs = known.pairs.gather(known.pair_keys(row, parents).ravel())[0].reshape(shape)
        if self.sparse:
            given = pairs[np.arange(len(parents)), parents][:, None]
        else:
            given = known.pairs.gather(known.known_keys(row, parents).ravel())[0].reshape(shape)
        logs = _share(pairs, np.broadcast_to(given, shape), self.alpha, many[None])
        logs[np.arange(len(parents)), parents] = single[parents]  # the parent itself
        joint = logs.sum(axis=1)
        top = joint.max(axis=0)
        top = np.where(np.isneginf(top), 0.0, top)
        with np.errstate(divide="ignore"):
            mean: NDArray[np.float64] = np.log(np.exp(joint - top).mean(axis=0)) + top
        return mean

    def check_merge(self, other: TabularNB) -> None:
        """Raise ValueError where another model counts different things."""
        super().check_merge(other)
        theirs = other.statistics
        if not isinstance(theirs, PairCounts) or self.statistics.parents != theirs.parents:
            raise ValueError("cannot merge: the models have other parents")


def _fingerprint(name: Hashable) -> int:
    try:
        return _core.fingerprint(name)
    except (TypeError, ValueError):  # a name of a type of its own
        return _core.fingerprint(repr(name))


def _share(
    n: NDArray[np.float64], whole: NDArray[np.float64], alpha: float, levels: NDArray[Any]
) -> NDArray[np.float64]:
    """Log of (n + alpha) / (N + alpha L); of nothing, all levels alike."""
    bottom = np.ascontiguousarray(whole + alpha * levels)
    shares = _core.log_cells(np.ascontiguousarray(n), alpha) - _core.log_cells(bottom)
    nothing = bottom == 0
    if nothing.any():
        alike = -np.log(np.maximum(np.broadcast_to(levels, bottom.shape), 1.0))
        shares = np.where(nothing, alike, shares)
    return shares
