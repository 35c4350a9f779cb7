"""Counts of the levels of categorical features by class."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.counts.protocol import Bools, Floats, Ints, is_missing
from streamnb.storage import label_from_json, label_to_json
from streamnb.tables.base import Statistics
from streamnb.tables.columns import Columns, plain_value

MISSING, UNSEEN = -1, -2  # instead of the number of a level


class Levels(NamedTuple):
    """Rows of levels.

    Attributes
    ----------
    names
        Names of the columns.
    levels
        For each column the different levels in it.
    places
        int64, shape (n, d): which of them each row has; MISSING for none.
    """

    names: list[Hashable]
    levels: list[list[Hashable]]
    places: Ints

    @classmethod
    def of_feature(cls, name: Hashable, levels: list[Hashable]) -> Levels:
        """A column that has these levels one after the other."""
        return cls([name], [levels], np.arange(len(levels))[:, None])


class LevelCounts(Statistics):
    """How often each level of each feature was there in each class.

    Attributes
    ----------
    features, names
        The number of each feature, and its name; F in all.
    ids
        For each feature, the number of each of its levels; V in all, over all features.
    feature_of
        Shape (V,): the feature of each level.
    alive
        Shape (F,): how many levels of each feature have a count.
    totals
        Shape (K,): the sum of the counts of each class.
    """

    def __init__(self) -> None:
        self.features: dict[Hashable, int] = {}
        self.names: list[Hashable] = []
        self.ids: list[dict[Hashable, int]] = []
        self._size = 0
        self._classes = 0
        # With room for more levels and classes.
        self._of_levels = np.zeros((0, 0))
        self._of_features = np.zeros((0, 0))
        self.feature_of = np.zeros(0, dtype=np.int64)
        self.alive = np.zeros(0, dtype=np.int64)
        self.totals = np.zeros(0)

    @property
    def counts(self) -> Floats:
        """Weight of the examples of each class (K) that have each level (V)."""
        return self._counts[: self._size]

    @property
    def _counts(self) -> Floats:
        return self._of_levels[:, : self._classes]

    @property
    def known(self) -> Floats:
        """Weight of the examples of each class (K) that have any level of each feature (F)."""
        return self._of_features[:, : self._classes]

    def add_classes(self, classes: int) -> None:
        """Have room for so many classes."""
        room = self._of_levels.shape[1]
        if classes > room:
            room = max(classes, room + room // 2)
            wider = (0, 0), (0, room - self._of_levels.shape[1])
            self._of_levels = np.pad(self._of_levels, wider)
            self._of_features = np.pad(self._of_features, wider)
        if classes > self._classes:
            self._classes = classes
            self.totals = np.pad(self.totals, (0, classes - len(self.totals)))

    def read(self, table: Columns) -> Levels:
        """Rows of levels; ValueError where one is not hashable."""
        places = np.empty(table.values.shape, dtype=np.int64)
        levels = []
        for j, name in enumerate(table.names):
            column = table.values[:, j]
            found, places[:, j] = (
                _factors(column, name) if column.dtype == object else _sorted(column)
            )
            levels.append(found)
        return Levels(table.names, levels, places)

    def codes(self, rows: Levels) -> tuple[Ints, Ints]:
        """Numbers of the features (d,) and of the levels (n, d); what has none is below 0."""
        places = np.array([self.features.get(name, -1) for name in rows.names], dtype=np.int64)
        codes = np.full(rows.places.shape, MISSING, dtype=np.int64)
        for j, place in enumerate(places.tolist()):
            if place >= 0:
                ids = self.ids[place]
                numbers = [ids.get(level, UNSEEN) for level in rows.levels[j]]
                codes[:, j] = np.array([*numbers, MISSING])[rows.places[:, j]]
        return places, codes

    def enter(self, rows: Levels) -> None:
        """Give features and levels that are new their numbers."""
        new: list[int] = []
        for j, name in enumerate(rows.names):
            place = self.features.setdefault(name, len(self.ids))
            if place == len(self.ids):
                self.names.append(name)
                self.ids.append({})
            ids = self.ids[place]
            for level in rows.levels[j]:
                if level not in ids:
                    ids[level] = self._size + len(new)
                    new.append(place)
        self._size += len(new)
        if self._size > len(self._of_levels):
            more = np.zeros((self._size, self._of_levels.shape[1]))
            self._of_levels = np.vstack((self._of_levels, more))
            self.feature_of = np.concatenate((self.feature_of, np.zeros(len(more), np.int64)))
        self.feature_of[self._size - len(new) : self._size] = new
        if len(self.ids) > len(self._of_features):
            more = np.zeros((len(self.ids) - len(self._of_features), self._of_features.shape[1]))
            self._of_features = np.vstack((self._of_features, more))
            self.alive = np.concatenate((self.alive, np.zeros(len(more), np.int64)))

    def learn(self, rows: Levels, places: Ints, weights: Floats) -> None:
        """Add rows of classes `places`."""
        self.enter(rows)
        features, codes = self.codes(rows)
        some = (codes >= 0) & (weights[:, None] > 0)
        levels, often = codes[some], some.sum(axis=1)
        columns = np.broadcast_to(features, codes.shape)[some]
        touched = _distinct(levels, self._size)
        dead = touched[~self._counts[touched].any(axis=1)]
        of_class, amounts = np.repeat(places, often), np.repeat(weights, often)
        _add(self._counts, levels, of_class, amounts)
        _add(self.known, columns, of_class, amounts)
        np.add.at(self.totals, places, weights * often)
        self.revive(dead)

    def unlearn(self, rows: Levels, place: int, weight: float, left: float) -> None:
        """Take a row away."""
        self.check_unlearn(rows, place, weight, left)
        self.take(rows, place, weight)

    def take(self, rows: Levels, place: int, weight: float) -> None:
        """Take a row away of which `check_unlearn` has said that it was learned."""
        if not weight:
            return
        features, codes = self.codes(rows)
        features, levels = features[codes[0] >= 0], codes[0, codes[0] >= 0]
        self._counts[levels, place] = subtract_exactly(self._counts[levels, place], weight)
        self.known[features, place] = subtract_exactly(self.known[features, place], weight)
        dead = levels[~self._counts[levels].any(axis=1)]
        self.totals[place] = max(self.totals[place] - weight * len(levels), 0.0)
        self.bury(dead)

    def check_unlearn(self, rows: Levels, place: int, weight: float, left: float) -> None:
        """Raise ValueError where this row was never learned, as far as the counts tell."""
        features, codes = self.codes(rows)
        there = rows.places[0] != MISSING
        lost = weight > 0 and (codes[0, there] < 0).any()
        if not lost:
            features, levels = features[there], codes[0, there]
            rest = self.known[:, place].copy()
            rest[features] -= weight
            # Of weights that are not whole numbers counts may be some roundings off.
            lost = (subtract_exactly(self._counts[levels, place], weight) < 0).any() or (
                rest > left + 1e-9 * (left + weight)
            ).any()
        if lost:
            raise ValueError("cannot unlearn: this was never learned")

    def revive(self, levels: Ints) -> None:
        """Note levels that have a count now and had none."""
        np.add.at(self.alive, self.feature_of[levels], 1)

    def bury(self, levels: Ints) -> None:
        """Note levels that had a count and have none now."""
        np.subtract.at(self.alive, self.feature_of[levels], 1)

    def check_merge(self, other: Any) -> None:
        """Levels of any others can be added."""

    def merge(self, other: LevelCounts, places: list[int]) -> None:
        """Add what others know."""
        features, ids = self.translated(other)
        if len(ids):
            dead = ids[~self._counts[ids].any(axis=1) & other.counts.any(axis=1)]
            self.revive(dead)
        for theirs, ours in enumerate(places):
            self._counts[ids, ours] += other.counts[:, theirs]
            self.totals[ours] += other.totals[theirs]
            self.known[features, ours] += other.known[:, theirs]

    def translated(self, other: LevelCounts) -> tuple[Ints, Ints]:
        """Our numbers of others' features and levels; those that are new are entered."""
        features = np.zeros(len(other.ids), dtype=np.int64)
        ids = np.zeros(other._size, dtype=np.int64)
        for place, (name, theirs) in enumerate(zip(other.names, other.ids, strict=True)):
            self.enter(Levels.of_feature(name, list(theirs)))
            features[place] = self.features[name]
            ours = self.ids[self.features[name]]
            for level, number in theirs.items():
                ids[number] = ours[level]
        return features, ids

    def logs(self, rows: Levels, alpha: float, smooth_unseen: bool) -> tuple[Floats, Bools]:
        """Log of (n_kv + alpha) / (n_k + alpha L) for each value: (n, d, K); and what takes part.

        L is the number of levels of the feature, n_k the weight of the examples of the class that
        have it. A class that has none of them has all levels alike.
        """
        features, codes = self.codes(rows)
        n, d, classes = *codes.shape, self._counts.shape[1]
        if not self._size:
            return np.zeros((n, d, classes)), np.zeros((n, d), bool)
        cells = np.where((codes >= 0)[:, :, None], self._counts[np.maximum(codes, 0)], 0.0)
        valid = (codes != MISSING) & (features >= 0) & (self.alive[features] > 0)
        if not smooth_unseen:  # a level of which nothing is left is as one that never was
            valid &= cells.any(axis=2)
        levels = self.alive[features, None].astype(np.float64)
        return log_shares(cells, self.known[features], alpha, levels), valid

    def state(self) -> tuple[Any, dict[str, NDArray[Any]]]:
        """Names and levels as JSON, counts as an array."""
        described = []
        for name, ids in zip(self.names, self.ids, strict=True):
            levels = [label_to_json(level, "a level") for level in ids]
            described.append([label_to_json(name, "a feature"), levels])
        known = self.known.copy()  # what is saved must not change
        return {"features": described}, {"levels": self.counts[self.saved_order()], "known": known}

    def saved_order(self) -> Ints:
        """The levels (V,), those of a feature after one another, as `state` has them."""
        numbers = [number for ids in self.ids for number in ids.values()]
        return np.array(numbers, dtype=np.int64)

    def restore(self, described: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave."""
        classes = self._counts.shape[1]
        for name, levels in described["features"]:
            found = [label_from_json(level) for level in levels]
            self.enter(Levels.of_feature(label_from_json(name), found))
        counts, known = arrays["levels"], arrays["known"]
        if counts.shape != (self._size, classes) or known.shape != (len(self.ids), classes):
            raise ValueError("levels and counts do not belong together")
        for numbers in (counts, known):
            if not ((numbers >= 0) & (numbers <= 1e300)).all():
                raise ValueError("a count is negative or not finite")
        sums = np.zeros_like(known)
        np.add.at(sums, self.feature_of[: self._size], counts)
        # Of weights of very different sizes there may be roundings in one and not in the other.
        self._counts[: self._size] = counts
        self.known[:] = np.where(np.isclose(sums, known, rtol=1e-6, atol=1e-6), known, sums)
        self.totals = counts.sum(axis=0)
        self.revive(np.flatnonzero(counts.any(axis=1)))


def _factors(column: NDArray[Any], name: Hashable) -> tuple[list[Hashable], list[int]]:
    """The different levels of a column of objects, and which of them each row has."""
    numbers: dict[Hashable, int] = {}
    places = []
    for i, value in enumerate(column.tolist()):
        level = plain_value(value)
        try:
            place = numbers.get(level)
        except TypeError:
            raise ValueError(
                f"row {i}, {name!r:.80}: {value!r:.80} is no level: it is not hashable"
            ) from None
        if place is None:
            place = MISSING if is_missing(level) else numbers.setdefault(level, len(numbers))
        places.append(place)
    return list(numbers), places


def _add(table: Floats, rows: Ints, columns: Ints, amounts: Floats) -> None:
    """Add amounts to cells, which may occur more than once."""
    if len(rows) < table.size:
        np.add.at(table, (rows, columns), amounts)
    else:  # several times as fast
        cells = rows * table.shape[1] + columns
        table += np.bincount(cells, amounts, table.size).reshape(table.shape)


def _distinct(numbers: Ints, most: int) -> Ints:
    """Which numbers below `most` occur, in rising order."""
    if len(numbers) < most:
        return np.unique(numbers)
    there = np.zeros(most, dtype=bool)
    there[numbers] = True
    return np.flatnonzero(there)


def _sorted(column: NDArray[Any]) -> tuple[list[Hashable], Ints]:
    """The same for a column of numbers."""
    if column.dtype.kind in "bui" and len(column):
        low, high = int(column.min()), int(column.max())
        if high - low < len(column):  # no need to sort
            whole = column.view(np.uint8) if column.dtype == bool else column
            offsets = (whole - whole.min()).astype(np.int64)
            there = _distinct(offsets, high - low + 1)
            places = np.zeros(high - low + 1, dtype=np.int64)
            places[there] = np.arange(len(there))
            kind = bool if column.dtype == bool else int
            return [kind(low + number) for number in there.tolist()], places[offsets]
    levels, places = np.unique(column, return_inverse=True)
    if len(levels) and levels[-1] != levels[-1]:  # NaN comes last
        levels = levels[:-1]
        places = np.where(places == len(levels), MISSING, places)
    return levels.tolist(), places.reshape(-1)


def log_shares(n: Floats, whole: Floats, alpha: float, levels: NDArray[Any]) -> Floats:
    """Log of (n + alpha) / (N + alpha L), of shapes that go together; of nothing, all alike."""
    bottom = np.ascontiguousarray(whole + alpha * levels)
    nothing = bottom == 0
    some = np.where(nothing, 1.0, bottom)
    logs: Floats = _core.log_cells(np.ascontiguousarray(n), alpha)
    logs = logs - _core.log_cells(some)
    if nothing.any():
        alike = np.ascontiguousarray(np.maximum(np.broadcast_to(levels, bottom.shape), 1.0))
        logs = np.where(nothing, -_core.log_cells(alike), logs)
    return logs


def subtract_exactly(before: Floats, weight: float) -> Floats:
    """What is left of counts; exact for whole numbers, see `_core.subtract_exactly`."""
    return np.array([_core.subtract_exactly(count, weight) for count in before.tolist()])


def total_logs(logs: Floats, valid: Bools) -> Floats:
    """Sum (n, d, K) over the features that take part: (n, K), in an order that does not matter."""
    n, d, classes = logs.shape
    impossible = np.isneginf(logs)
    entries = np.flatnonzero(valid.ravel())
    indptr = np.concatenate(([0], np.cumsum(valid.sum(axis=1)))).astype(np.int64)
    values = np.ascontiguousarray(np.where(impossible, 0.0, logs).reshape(n * d, classes))
    sums, _, _ = _core.row_sums(indptr, entries.astype(np.int64), np.ones(len(entries)), values)
    sums[(impossible & valid[:, :, None]).any(axis=1)] = -np.inf
    return sums
