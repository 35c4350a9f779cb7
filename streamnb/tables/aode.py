"""Averaged one-dependence estimators."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb._core import CountTable
from streamnb.constraints import POSITIVE, Boolean, Constraint, NameList, Number
from streamnb.counts.protocol import Floats, Ints, Keys
from streamnb.parameters import parameter, parameter_class
from streamnb.tables.base import TabularNB
from streamnb.tables.level_counts import LevelCounts, Levels, log_probabilities
from streamnb.tables.parameters import PriorParameter


class _CodedRow(NamedTuple):
    """The levels of one row: their ascending indices, and the indices of their features."""

    levels: Ints
    features: Ints


_FEATURE = 1 << 31  # flag in a key: the lower bits are the index of a feature, not of a level


def _key(a: Ints, b: Ints) -> Keys:
    """Return the key of each pair: the level of a parent (a), and a level or a feature (b)."""
    return ((a << 32) | b).astype(np.uint64)


def _parts(keys: Keys) -> tuple[Ints, Ints]:
    """Return the two indices in each key."""
    low = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return (keys >> np.uint64(32)).astype(np.int64), low


def _remap_keys(keys: Keys, levels: Ints, features: Ints) -> Keys:
    """Return keys with remapped indices: level n becomes levels[n], feature n features[n]."""
    a, b = _parts(keys)
    is_feature = b >= _FEATURE
    b[is_feature] = _FEATURE | features[b[is_feature] - _FEATURE]
    b[~is_feature] = levels[b[~is_feature]]
    return _key(levels[a], b)


class PairCounts(LevelCounts):
    """Counts of levels, and of pairs of a parent's level with another level of the same row.

    The table has two kinds of entries for a level of a parent:

    - with a level of the same row: the weight of the rows with both, a numerator;
    - with a feature: the weight of the rows with this level and any level of the feature, a
      denominator.

    For sparse rows, the second kind exists only for the parent's own feature. The denominator is
    then the entry of the level with itself: the number of other features in its rows.

    Parameters
    ----------
    parents
        The features that are parents: their names, the maximum number for a row, or None for all.
        With a number, the features with the smallest fingerprints are parents, so the choice
        depends only on the row.
    sparse
        Whether rows contain only the present features.
    """

    def __init__(self, parents: int | Collection[Hashable] | None, sparse: bool) -> None:
        super().__init__()
        self.sparse = sparse
        self.parents: int | set[Hashable] | None = (
            parents if parents is None or isinstance(parents, int) else set(parents)
        )
        self.pairs: CountTable = CountTable(0, False)
        self._ranks: list[tuple[int, str]] = []

    def add_classes(self, classes: int) -> None:
        """Allocate a number of classes."""
        super().add_classes(classes)
        self.pairs.widen(classes)

    def parents_of(self, row: _CodedRow) -> Ints:
        """Return the positions in a row of the levels that are parents."""
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

    def coded(self, rows: Levels) -> list[_CodedRow]:
        """Return the known levels of each row."""
        features, codes = self.codes(rows)
        coded_rows = []
        for row in codes:
            known_positions = np.flatnonzero(row >= 0)
            order = known_positions[np.argsort(row[known_positions])]
            coded_rows.append(_CodedRow(row[order], features[order]))
        return coded_rows

    def pair_keys(self, row: _CodedRow, parents: Ints) -> Keys:
        """Return the keys of the pairs of each parent's level and each level, (p, n)."""
        return _key(row.levels[parents, None], row.levels[None])

    def known_keys(self, row: _CodedRow, parents: Ints) -> Keys:
        """Return the keys of the pairs of each parent's level and each feature, (p, n)."""
        return _key(row.levels[parents, None], _FEATURE | row.features[None])

    def own_keys(self, row: _CodedRow, parents: Ints) -> Keys:
        """Return for each parent the key of the pair of its level and its own feature, (p,)."""
        return _key(row.levels[parents], _FEATURE | row.features[parents])

    def _entries(self, row: _CodedRow) -> tuple[Keys, Floats]:
        """Return the distinct keys that a row adds to, and the amounts."""
        parents = self.parents_of(row)
        pairs = self.pair_keys(row, parents)
        amounts = np.ones(pairs.shape)
        if not self.sparse:
            feature_keys = self.known_keys(row, parents)
            return np.concatenate((pairs.ravel(), feature_keys.ravel())), np.ones(2 * pairs.size)
        amounts[np.arange(len(parents)), parents] = len(row.levels) - 1
        is_counted = amounts > 0
        keys = np.concatenate((pairs[is_counted], self.own_keys(row, parents)))
        return keys, np.concatenate((amounts[is_counted], np.ones(len(parents))))

    def learn(self, rows: Levels, places: Ints, weights: Floats) -> None:
        """Add rows, with the index of the class of each."""
        super().learn(rows, places, weights)
        for row, place, weight in zip(
            self.coded(rows), places.tolist(), weights.tolist(), strict=True
        ):
            if weight:
                self.pairs.add(*self._entries(row), place, weight)

    def unlearn(self, rows: Levels, place: int, weight: float, remaining_weight: float) -> None:
        """Subtract a row."""
        self.check_unlearn(rows, place, weight, remaining_weight)
        (row,) = self.coded(rows)
        try:
            self.pairs.subtract(*self._entries(row), place, weight)
        except ValueError:
            raise ValueError("cannot unlearn: this row was never learned") from None
        self.take(rows, place, weight)

    def check_merge(self, other: Any) -> None:
        """Raise ValueError if the other statistics have other parents or another kind of rows."""
        if self.parents != other.parents:
            raise ValueError("cannot merge: the models have different parents")
        if self.sparse != other.sparse:
            raise ValueError("cannot merge: sparse=True in one model, sparse=False in the other")
        super().check_merge(other)

    def merge(self, other: Any, places: list[int]) -> None:
        """Add other statistics."""
        super().merge(other, places)
        features, ids = self.translate(other)
        keys, cells, _, _ = other.pairs.arrays()
        own_keys = _remap_keys(keys, ids, features)
        self.pairs.add_matrix(
            own_keys, np.ascontiguousarray(cells), np.array(places, dtype=np.int64)
        )

    def state(self) -> tuple[Any, dict[str, NDArray[Any]]]:
        """Return the levels, and the table of pairs with indices in saved order."""
        described, arrays = super().state()
        keys, cells, _, _ = self.pairs.arrays()
        saved = _remap_keys(keys, np.argsort(self.saved_order()), np.arange(len(self.level_ids)))
        rising = np.argsort(saved)
        return described, {**arrays, "pairs": saved[rising], "pair_counts": cells[rising]}

    def restore(self, described: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `state` returned."""
        super().restore(described, arrays)
        keys, cells = arrays["pairs"], arrays["pair_counts"]
        a, b = _parts(keys)
        is_known = np.where(b < _FEATURE, b < self._size, b < _FEATURE + len(self.level_ids))
        is_sound = is_known & (a < self._size)
        if cells.shape != (len(keys), self._counts.shape[1]) or not is_sound.all():
            raise ValueError("pairs and levels do not match")
        if not ((cells >= 0) & (cells <= 1e300)).all():
            raise ValueError("a count is negative or not finite")
        self.pairs.load(keys, None, None, cells, cells.sum(axis=0).tolist())


class _Parents(NameList):
    """A number of features, or their names."""

    def __init__(self) -> None:
        super().__init__(object, none=True)
        is_name_list = self.fits

        def fits(value: Any) -> bool:
            is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            return is_number or is_name_list(value)

        description = "a number of features >= 1, or a list of their names"
        Constraint.__init__(self, fits, description, none=True)

    def plain(self, value: Any) -> Any:
        """Return a number unchanged, or names as a list."""
        return value if isinstance(value, int) else super().plain(value)


@parameter_class()
class AODEParameters(PriorParameter):
    """Parameters of `AODE`.

    Parameters
    ----------
    parents
        The features that are parents: None for all, their names, or the maximum number for a row.
        With a number, the features with the smallest fingerprints are parents. The time for a row
        is proportional to features times parents, so text needs a maximum.
    min_count
        A parent is used only if its level was learned with at least this weight. A row without such
        a parent is classified by naive Bayes.
    sparse
        True for text and other rows that contain only present features. P(x_j | c, x_i) is then the
        share of x_j in all features that occurred together with x_i, as in multinomial naive Bayes.
    back_off
        For sparse rows: P(x_j | c, x_i) is estimated from the rows with x_i and from all rows of
        class c. The estimate from all rows of c counts as much as `back_off` features with x_i.
        This helps because pairs of words are rare.
    alpha
        Additive smoothing.
    """

    parents: int | Collection[Hashable] | None = parameter(_Parents(), "counts", default=None)
    min_count: float = parameter(Number(), "formula", default=1.0)
    sparse: bool = parameter(Boolean(), "counts", default=False)
    back_off: float = parameter(POSITIVE, "formula", default=200.0)
    alpha: float = parameter(Number(), "formula", default=1.0)


@parameter_class()
class AODE(AODEParameters, TabularNB):
    r"""Averaged one-dependence estimators: each feature in turn is the parent of all others.

        P(c) * mean over parents i of P(x_i | c) * product over j of P(x_j | c, x_i)

    Each probability is a ratio of counts, (n + alpha) / (N + alpha L), where L is the number of
    levels. The model uses the evidence of pairs of features, without a search for a structure.

    Levels are any hashable values. Convert numbers to ranges first. Missing values are left out.
    All parameters except `parents` and `sparse` can be set after training.

    References
    ----------
    Webb, G. I., Boughton, J. R. and Wang, Z. (2005). Not so naive Bayes: aggregating one-dependence
    estimators. Machine Learning 58. (There P(c, x_i) is smoothed as one probability; here P(c) is
    the prior.)

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

    def _new_statistics(self) -> PairCounts:
        return PairCounts(self.parents, self.sparse)

    def _evidence(self, rows: Levels) -> Floats:
        scores = [self._row_scores(row) for row in self.statistics.coded(rows)]
        return np.array(scores).reshape(len(scores), len(self.labels))

    def _row_scores(self, row: _CodedRow) -> Floats:
        """Return the log-likelihood of a row for each class, (K,), without the prior."""
        _, single_logs, parents, logs = self._row_logs(row)
        return _mean_likelihood(logs.sum(axis=1)) if len(parents) else single_logs.sum(axis=0)

    def _gains(self, rows: Levels) -> tuple[list[Hashable], Floats]:
        (row,) = self.statistics.coded(rows)
        row, gains, parents, logs = self._row_logs(row)
        if len(parents):
            is_impossible = np.isneginf(logs)
            terms = np.where(is_impossible, 0.0, logs)
            joint = terms.sum(axis=1, keepdims=True) - terms
            joint[is_impossible.sum(axis=1, keepdims=True) > is_impossible] = -np.inf
            is_parent = np.zeros(len(gains), bool)
            is_parent[parents] = True
            joint[np.arange(len(parents)), parents] = -np.inf
            without = _mean_likelihood(joint)
            if len(parents) > 1:
                without[parents] += np.log(len(parents) / (len(parents) - 1))
            else:
                without[parents] = (gains.sum(axis=0) - gains)[parents]
            whole = _mean_likelihood(logs.sum(axis=1))
            gains = np.where(np.isneginf(whole) | np.isneginf(without), gains, whole - without)
        return [self.statistics.names[j] for j in row.features.tolist()], gains

    def _row_logs(self, row: _CodedRow) -> tuple[_CodedRow, Floats, Ints, Floats]:
        """Return the learned levels, their logs (n, K), the p parents, and logs (p, n, K)."""
        statistics = self.statistics
        cells = statistics.counts[row.levels]
        alive = cells.any(axis=1)
        row, cells = _CodedRow(row.levels[alive], row.features[alive]), cells[alive]
        single_logs = self._single_logs(row, cells)
        parents = statistics.parents_of(row)
        often = statistics.pairs.get_counts(statistics.own_keys(row, parents))[0].sum(axis=1)
        parents = parents[(often >= self.min_count) & (often > 0)]
        logs = self._pair_logs(row, parents, single_logs)
        logs[np.arange(len(parents)), parents] = single_logs[parents]  # a parent with itself
        return row, single_logs, parents, logs

    def _single_logs(self, row: _CodedRow, cells: Floats) -> Floats:
        """Return log P(x_j | c) of each feature of a row, shape (n, K)."""
        statistics = self.statistics
        if self.sparse:
            totals = np.broadcast_to(statistics.totals, cells.shape)
            level_count = np.full((len(cells), 1), float(statistics.alive.sum()))
            return log_probabilities(cells, totals, self.alpha, level_count)
        levels = statistics.alive[row.features, None]
        return log_probabilities(
            cells, statistics.feature_weights[row.features], self.alpha, levels
        )

    def _pair_logs(self, row: _CodedRow, parents: Ints, single_logs: Floats) -> Floats:
        """Return log P(x_j | c, x_i) for each parent i and feature j, shape (p, n, K)."""
        statistics = self.statistics
        shape = (len(parents), *single_logs.shape)
        pairs = statistics.pairs.get_counts(statistics.pair_keys(row, parents).ravel())[0].reshape(
            shape
        )
        if self.sparse:
            pair_totals = pairs[np.arange(len(parents)), parents][:, None]
            shares = (pairs + self.back_off * np.exp(single_logs)) / (pair_totals + self.back_off)
            return np.log(np.maximum(shares, _SMALLEST))
        feature_counts = statistics.pairs.get_counts(statistics.known_keys(row, parents).ravel())[
            0
        ].reshape(shape)
        return log_probabilities(
            pairs, feature_counts, self.alpha, statistics.alive[row.features, None][None]
        )


def _mean_likelihood(joint: Floats) -> Floats:
    """Return the log of the mean of likelihoods over the first axis."""
    top = joint.max(axis=0)
    top = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        mean: Floats = np.log(np.exp(joint - top).mean(axis=0)) + top
    return mean


_SMALLEST = 1e-300  # replaces a probability of 0


def _fingerprint(name: Hashable) -> int:
    try:
        return _core.fingerprint(name)
    except (TypeError, ValueError):  # a name of a type that has no fingerprint
        return _core.fingerprint(repr(name))
