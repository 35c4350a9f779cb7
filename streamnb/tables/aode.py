"""Averaged one-dependence estimators."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb._core import CountTable
from streamnb.counts.protocol import Floats, Ints, Keys
from streamnb.parameters import POSITIVE, Boolean, NameList, Number, parameter, parameter_class
from streamnb.tables.base import TabularNB
from streamnb.tables.level_counts import LevelCounts, Levels, log_shares
from streamnb.tables.parameters import PriorParameter


class _Coded(NamedTuple):
    """The levels of one row: their numbers, in rising order, and those of their features."""

    levels: Ints
    features: Ints


_FEATURE = 1 << 31  # in a key: what follows is the number of a feature, not of a level


def _key(a: Ints, b: Ints) -> Keys:
    """Keys of parents' levels and others, or features marked as such."""
    return ((a << 32) | b).astype(np.uint64)


def _parts(keys: Keys) -> tuple[Ints, Ints]:
    """Both numbers of keys."""
    low = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return (keys >> np.uint64(32)).astype(np.int64), low


def _renumbered(keys: Keys, levels: Ints, features: Ints) -> Keys:
    """Keys with other numbers: of level n that of levels[n], and so for features."""
    a, b = _parts(keys)
    known = b >= _FEATURE
    b[known] = _FEATURE | features[b[known] - _FEATURE]
    b[~known] = levels[b[~known]]
    return _key(levels[a], b)


class PairCounts(LevelCounts):
    """Counts of levels, and of pairs of a parent's level and another level of the same row.

    A pair is one entry of a count table. How often a parent's level was there together with a
    feature, at whatever level, is counted too: that is what pairs are divided by. Of sparse rows
    only its own feature, and as its pair with itself how many other features there were with it.

    Parameters
    ----------
    parents
        Names of the features that are parents; or how many a row has at most, those whose names
        have the smallest fingerprints (a choice that depends on the row alone); or None for all.
    sparse
        Whether rows name only what is there.
    """

    def __init__(self, parents: int | Collection[Hashable] | None, sparse: bool) -> None:
        super().__init__()
        self.sparse = sparse
        self.parents = parents if parents is None or isinstance(parents, int) else set(parents)
        self.pairs = CountTable(0, False)
        self._ranks: list[tuple[int, str]] = []

    def add_classes(self, classes: int) -> None:
        """Have room for so many classes."""
        super().add_classes(classes)
        self.pairs.widen(classes)

    def parents_of(self, row: _Coded) -> Ints:
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

    def pair_keys(self, row: _Coded, parents: Ints) -> Keys:
        """Keys of parents with all levels of the row, (p, n)."""
        return _key(row.levels[parents, None], row.levels[None])

    def known_keys(self, row: _Coded, parents: Ints) -> Keys:
        """Keys of parents with all features of the row, (p, n)."""
        return _key(row.levels[parents, None], _FEATURE | row.features[None])

    def own_keys(self, row: _Coded, parents: Ints) -> Keys:
        """Keys of parents with their own feature, (p,): how often each was a parent."""
        return _key(row.levels[parents], _FEATURE | row.features[parents])

    def _entries(self, row: _Coded) -> tuple[Keys, Floats]:
        """Keys of all that a row adds to, each once, and how much."""
        parents = self.parents_of(row)
        pairs = self.pair_keys(row, parents)
        amounts = np.ones(pairs.shape)
        if not self.sparse:
            known = self.known_keys(row, parents)
            return np.concatenate((pairs.ravel(), known.ravel())), np.ones(2 * pairs.size)
        amounts[np.arange(len(parents)), parents] = len(row.levels) - 1
        some = amounts > 0
        keys = np.concatenate((pairs[some], self.own_keys(row, parents)))
        return keys, np.concatenate((amounts[some], np.ones(len(parents))))

    def learn(self, rows: Levels, places: Ints, weights: Floats) -> None:
        """Add rows of classes `places`."""
        super().learn(rows, places, weights)
        for row, place, weight in zip(
            self.coded(rows), places.tolist(), weights.tolist(), strict=True
        ):
            if weight:
                self.pairs.add(*self._entries(row), place, weight)

    def unlearn(self, rows: Levels, place: int, weight: float, left: float) -> None:
        """Take a row away."""
        self.check_unlearn(rows, place, weight, left)
        (row,) = self.coded(rows)
        try:
            self.pairs.subtract(*self._entries(row), place, weight)
        except ValueError:
            raise ValueError("cannot unlearn: this was never learned") from None
        self.take(rows, place, weight)

    def check_merge(self, other: Any) -> None:
        """Raise ValueError where others count different pairs."""
        if self.parents != other.parents:
            raise ValueError("cannot merge: the models have other parents")
        if self.sparse != other.sparse:
            raise ValueError("cannot merge: one model is of sparse rows, and the other is not")

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
        keys, cells, _, _ = self.pairs.arrays()
        saved = _renumbered(keys, np.argsort(self.saved_order()), np.arange(len(self.ids)))
        rising = np.argsort(saved)
        return described, {**arrays, "pairs": saved[rising], "pair_counts": cells[rising]}

    def restore(self, described: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave."""
        super().restore(described, arrays)
        keys, cells = arrays["pairs"], arrays["pair_counts"]
        a, b = _parts(keys)
        known = np.where(b < _FEATURE, b < self._size, b < _FEATURE + len(self.ids))
        sound = known & (a < self._size)
        if cells.shape != (len(keys), self._counts.shape[1]) or not sound.all():
            raise ValueError("pairs and levels do not belong together")
        if not ((cells >= 0) & (cells <= 1e300)).all():
            raise ValueError("a count is negative or not finite")
        self.pairs.load(keys, None, None, cells, cells.sum(axis=0).tolist())


class _Parents(NameList):
    """A number of features, or their names."""

    def __init__(self) -> None:
        super().__init__(object, none=True)
        names = self.fits

        def fits(value: Any) -> bool:
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            return whole or names(value)

        self.fits = fits
        self.what = "a number of features >= 1, or a list of their names, or None"

    def plain(self, value: Any) -> Any:
        """A number as it is, names as a list."""
        return value if isinstance(value, int) else super().plain(value)


@parameter_class()
class AODE(PriorParameter, TabularNB):
    r"""Averaged one-dependence estimators: each feature in turn is what all others depend on.

        P(c) * mean over parents i of P(x_i | c) * product over j of P(x_j | c, x_i)

    Every probability is a ratio of counts, (n + alpha) / (N + alpha L) with L the number of levels.
    So two features can say together what neither says alone, and nothing has to be searched.

    Levels are any hashable values; numbers should be cut into ranges before. Missing values are
    left out. All parameters but `parents` and `sparse` can be set after training.

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

    parents: int | Collection[Hashable] | None = parameter(
        _Parents(),
        "counts",
        "None for all features; or how many a row has at most (those whose names have the "
        "smallest fingerprints, a choice that depends on the row alone); or their names. A row of "
        "n features costs n times the number of its parents: the bound is what makes this usable "
        "on text.",
        default=None,
    )
    least: float = parameter(
        Number(),
        "formula",
        "Only a parent whose level was a parent's this often counts (by weight); where there is "
        "none, the features are taken for independent.",
        default=1.0,
    )
    sparse: bool = parameter(
        Boolean(),
        "counts",
        "For text and other rows that name only what is there: P(x_j | c, x_i) is the share of x_j "
        "in all that was there beside x_i, as in multinomial naive Bayes.",
        default=False,
    )
    back_off: float = parameter(
        POSITIVE,
        "formula",
        "Of sparse rows: how many features of class c as a whole are mixed into those beside x_i. "
        "(Pairs of words are rare.)",
        default=200.0,
    )
    alpha: float = parameter(Number(), "formula", "Additive smoothing.", default=1.0)

    def _new_statistics(self) -> PairCounts:
        return PairCounts(self.parents, self.sparse)

    def _evidence(self, rows: Levels) -> Floats:
        scores = [self._of_row(row) for row in self.statistics.coded(rows)]
        return np.array(scores).reshape(len(scores), len(self.labels))

    def _of_row(self, row: _Coded) -> Floats:
        known = self.statistics
        cells = known.counts[row.levels]
        alive = cells.any(axis=1)
        row, cells = _Coded(row.levels[alive], row.features[alive]), cells[alive]
        if not len(row.levels):
            return np.zeros(len(self.labels))
        single = self._single(row, cells)
        parents = known.parents_of(row)
        often = known.pairs.get_counts(known.own_keys(row, parents))[0].sum(axis=1)
        parents = parents[(often >= self.least) & (often > 0)]
        if not len(parents):
            return single.sum(axis=0)
        logs = self._given(row, parents, single)
        logs[np.arange(len(parents)), parents] = single[parents]  # the parent itself
        joint = logs.sum(axis=1)
        top = joint.max(axis=0)
        top = np.where(np.isneginf(top), 0.0, top)
        with np.errstate(divide="ignore"):
            mean: Floats = np.log(np.exp(joint - top).mean(axis=0)) + top
        return mean

    def _single(self, row: _Coded, cells: Floats) -> Floats:
        """Log P(x_j | c) of each feature of a row, (n, K)."""
        known = self.statistics
        if self.sparse:
            every = np.broadcast_to(known.totals, cells.shape)
            living = np.full((len(cells), 1), float(known.alive.sum()))
            return log_shares(cells, every, self.alpha, living)
        levels = known.alive[row.features, None]
        return log_shares(cells, known.known[row.features], self.alpha, levels)

    def _given(self, row: _Coded, parents: Ints, single: Floats) -> Floats:
        """Log P(x_j | c, x_i) for each parent i and feature j, (p, n, K)."""
        known = self.statistics
        shape = (len(parents), *single.shape)
        pairs = known.pairs.get_counts(known.pair_keys(row, parents).ravel())[0].reshape(shape)
        if self.sparse:
            beside = pairs[np.arange(len(parents)), parents][:, None]
            shares = (pairs + self.back_off * np.exp(single)) / (beside + self.back_off)
            return np.log(np.maximum(shares, _SMALLEST))
        given = known.pairs.get_counts(known.known_keys(row, parents).ravel())[0].reshape(shape)
        return log_shares(pairs, given, self.alpha, known.alive[row.features, None][None])


_SMALLEST = 1e-300  # instead of a probability of 0


def _fingerprint(name: Hashable) -> int:
    try:
        return _core.fingerprint(name)
    except (TypeError, ValueError):  # a name of a type of its own
        return _core.fingerprint(repr(name))
