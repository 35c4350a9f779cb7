"""Counts of the levels of categorical features by class."""

from __future__ import annotations

import contextlib
import itertools
import math
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from datetime import date, timedelta
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.counts.protocol import Bools, Floats, Ints, is_missing
from streamnb.features.token_counts import feature_text
from streamnb.storage import label_from_json, label_to_json
from streamnb.tables.base import Statistics
from streamnb.tables.columns import Columns, plain_value

MISSING, UNSEEN = -1, -2  # in place of the index of a level
# A feature with more distinct numbers than this is measured: its numbers are no levels. At half the
# value, the twelve months would be measured; at twice, the ages of pupils would be levels.
MANY_NUMBERS = 20
# The kind of a feature is judged by this number of its first levels, for speed. With 500, a column
# that begins with other values is misjudged more often; with 2,000, the check takes twice the time.
SAMPLED_LEVELS = 1000
_TRUTH_VALUES = {"true": True, "false": False}
_LARGEST_WHOLE = np.float64(2**53)  # float64 has all whole numbers up to this one
_MOST_DIGITS = 400  # of whole numbers; all float64 have fewer, and the time is quadratic


class Levels(NamedTuple):
    """Rows of levels.

    Attributes
    ----------
    names
        Names of the columns.
    levels
        The distinct levels of each column.
    places
        int64, shape (n, d): the index of each row's level in `levels`, or MISSING.
    """

    names: list[Hashable]
    levels: list[list[Hashable]]
    places: Ints

    @classmethod
    def of_feature(cls, name: Hashable, levels: list[Hashable]) -> Levels:
        """Return a column with these levels, one for each row."""
        return cls([name], [levels], np.arange(len(levels))[:, None])


class LevelCounts(Statistics):
    """Counts of the levels of each feature in each class.

    Attributes
    ----------
    features, names
        The index and the name of each of the F features.
    level_ids
        For each feature, the index of each of its levels. V is the number of levels of all
        features.
    feature_of
        Shape (V,): the feature of each level.
    alive
        Shape (F,): the number of levels with a count, for each feature.
    totals
        Shape (K,): the sum of the counts of each class.
    """

    def __init__(self) -> None:
        self.features: dict[Hashable, int] = {}
        self.names: list[Hashable] = []
        self.level_ids: list[dict[Hashable, int]] = []
        self._number_texts: list[_NumberTexts] = []  # of the learned levels of each feature
        self._size = 0
        self._classes = 0
        # The array has spare room for levels and classes.
        self._of_levels = np.zeros((0, 0))
        self._of_features = np.zeros((0, 0))
        self.feature_of: Ints = np.zeros(0, dtype=np.int64)
        self.alive: Ints = np.zeros(0, dtype=np.int64)
        self.totals: Floats = np.zeros(0)

    @property
    def counts(self) -> Floats:
        """Weight of the examples with each level (V) in each class (K)."""
        return self._counts[: self._size]

    @property
    def _counts(self) -> Floats:
        return self._of_levels[:, : self._classes]

    @property
    def feature_weights(self) -> Floats:
        """Weight of the examples with a value of each feature (F) in each class (K)."""
        return self._of_features[:, : self._classes]

    def add_classes(self, classes: int) -> None:
        """Allocate a number of classes."""
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
        """Return rows of levels.

        Raises
        ------
        ValueError
            If a level is not hashable, or is a number as text where the number is a level.
        """
        values = table.values
        if values.dtype == object:
            levels, places = _object_levels(values, table.names)
        else:
            levels, places = _number_levels(values)
        for name, column_levels in zip(table.names, levels, strict=True):
            self._check_types(name, column_levels)
        return Levels(table.names, levels, places)

    def check_kinds(self, rows: Levels) -> None:
        """Warn if most levels of a column are measured values, each of which rarely repeats."""
        columns = zip(rows.names, rows.levels, strict=True)
        measured = {name: levels[0] for name, levels in columns if are_measured(levels)}
        if measured:
            name, level = next(iter(measured.items()))
            others = f" (and {len(measured) - 1} more columns)" if len(measured) > 1 else ""
            warnings.warn(
                f"{name!r:.80}{others}: each measured value ({level!r:.40}) is a level here; "
                "convert the values to ranges (text), or learn them as float with MixedNB",
                UserWarning,
                stacklevel=2,
            )

    def learned_levels(self, name: Hashable) -> Mapping[Hashable, int]:
        """Return the learned levels of a feature, and the index of each."""
        place = self.features.get(name)
        return {} if place is None else self.level_ids[place]

    def has_levels(self, name: Hashable) -> bool:
        """Return whether a level of a feature has a count."""
        place = self.features.get(name)
        return place is not None and bool(self.alive[place])

    def find_twin(self, name: Hashable, level: Hashable) -> Hashable | None:
        """Return the counted level of another type with the same text, such as 3 for "3"."""
        place = self.features.get(name)
        if place is None:
            return None
        level_ids = self.level_ids[place]
        twins = _find_twins(level, level_ids, self._number_texts[place])
        return next((twin for twin in twins if self._counts[level_ids[twin]].any()), None)

    def _check_types(self, name: Hashable, levels: Iterable[Hashable]) -> None:
        """Raise ValueError for a new level with the text of a level that has another type."""
        learned_levels = self.learned_levels(name)
        new_levels = {level: 0 for level in levels if level not in learned_levels}
        is_mixed = len(set(map(type, new_levels))) > 1
        number_texts = _index_number_texts(new_levels) if is_mixed else {}
        for level in new_levels:
            twin = self.find_twin(name, level)
            if twin is None and is_mixed:
                twin = next(iter(_find_twins(level, new_levels, number_texts)), None)
            if twin is not None:
                raise ValueError(
                    f"{name!r:.80}: the level {_shorten(level)} is {_type_name(level)}, but "
                    f"{_shorten(twin)} is {_type_name(twin)}: use one type for both"
                )

    def codes(self, rows: Levels) -> tuple[Ints, Ints]:
        """Return the indices of features (d,) and of levels (n, d); < 0 if missing or unseen."""
        features, level_codes, starts = self._level_codes(rows)
        return features, level_codes[rows.places + starts]

    def _level_codes(self, rows: Levels) -> tuple[Ints, Ints, Ints]:
        """Return features (d,), codes of MISSING and of all levels (B,), starts of columns (d,).

        The code of a cell is `codes[place + start]`.
        """
        features = np.array([self.features.get(name, -1) for name in rows.names], dtype=np.int64)
        codes: list[int] = []
        starts = []
        for feature, levels in zip(features.tolist(), rows.levels, strict=True):
            level_ids, default = (
                (self.level_ids[feature], UNSEEN) if feature >= 0 else ({}, MISSING)
            )
            starts.append(len(codes) - MISSING)
            codes += [MISSING, *(level_ids.get(level, default) for level in levels)]
        return features, np.array(codes, dtype=np.int64), np.array(starts, dtype=np.int64)

    def enter(self, rows: Levels) -> None:
        """Assign indices to new features and levels."""
        new: list[int] = []
        for j, name in enumerate(rows.names):
            place = self.features.setdefault(name, len(self.level_ids))
            if place == len(self.level_ids):
                self.names.append(name)
                self.level_ids.append({})
                self._number_texts.append({})
            level_ids = self.level_ids[place]
            new_texts: list[Hashable] = []
            for level in rows.levels[j]:
                if level not in level_ids:
                    level_ids[level] = self._size + len(new)
                    new.append(place)
                    if isinstance(level, str):
                        new_texts.append(level)
            _index_number_texts(new_texts, self._number_texts[place])
        self._size += len(new)
        if self._size > len(self._of_levels):
            new_cells = np.zeros((self._size, self._of_levels.shape[1]))
            self._of_levels = np.vstack((self._of_levels, new_cells))
            self.feature_of = np.concatenate((self.feature_of, np.zeros(len(new_cells), np.int64)))
        self.feature_of[self._size - len(new) : self._size] = new
        if len(self.level_ids) > len(self._of_features):
            new_cells = np.zeros(
                (len(self.level_ids) - len(self._of_features), self._of_features.shape[1])
            )
            self._of_features = np.vstack((self._of_features, new_cells))
            self.alive = np.concatenate((self.alive, np.zeros(len(new_cells), np.int64)))

    def feature_names(self) -> Set[Hashable]:
        """Return the names of the features that were learned."""
        return self.features.keys()

    def number_names(self) -> Set[Hashable]:
        """Return no names, because any value can be a level."""
        return set()

    def learn(self, rows: Levels, places: Ints, weights: Floats) -> None:
        """Add rows, with the index of the class of each."""
        self.enter(rows)
        features, codes = self.codes(rows)
        is_counted = (codes >= 0) & (weights[:, None] > 0)
        levels, levels_per_row = codes[is_counted], is_counted.sum(axis=1)
        columns = np.broadcast_to(features, codes.shape)[is_counted]
        touched = _distinct(levels, self._size)
        dead = touched[~self._counts[touched].any(axis=1)]
        row_classes, amounts = np.repeat(places, levels_per_row), np.repeat(weights, levels_per_row)
        _add(self._counts, levels, row_classes, amounts)
        _add(self.feature_weights, columns, row_classes, amounts)
        np.add.at(self.totals, places, weights * levels_per_row)
        self.count_added_levels(dead)

    def unlearn(self, rows: Levels, place: int, weight: float, remaining_weight: float) -> None:
        """Subtract a row."""
        self.check_unlearn(rows, place, weight, remaining_weight)
        self.take(rows, place, weight)

    def take(self, rows: Levels, place: int, weight: float) -> None:
        """Subtract a row that passed `check_unlearn`."""
        if not weight:
            return
        features, codes = self.codes(rows)
        features, levels = features[codes[0] >= 0], codes[0, codes[0] >= 0]
        self._counts[levels, place] = subtract_exactly(self._counts[levels, place], weight)
        self.feature_weights[features, place] = subtract_exactly(
            self.feature_weights[features, place], weight
        )
        dead = levels[~self._counts[levels].any(axis=1)]
        self.totals[place] = max(self.totals[place] - weight * len(levels), 0.0)
        self.count_removed_levels(dead)

    def check_unlearn(
        self, rows: Levels, place: int, weight: float, remaining_weight: float
    ) -> None:
        """Raise ValueError if the counts show that this row was never learned."""
        features, codes = self.codes(rows)
        is_present = rows.places[0] != MISSING
        is_unknown = weight > 0 and (codes[0, is_present] < 0).any()
        if not is_unknown:
            features, levels = features[is_present], codes[0, is_present]
            other_weights = self.feature_weights[:, place].copy()
            other_weights[features] -= weight
            # Counts have rounding errors if weights are not whole numbers.
            is_unknown = (subtract_exactly(self._counts[levels, place], weight) < 0).any() or (
                other_weights > remaining_weight + 1e-9 * (remaining_weight + weight)
            ).any()
        if is_unknown:
            raise ValueError("cannot unlearn: this row was never learned")

    def count_added_levels(self, levels: Ints) -> None:
        """Update the number of levels after counts became positive."""
        np.add.at(self.alive, self.feature_of[levels], 1)

    def count_removed_levels(self, levels: Ints) -> None:
        """Update the number of levels after counts became 0."""
        np.subtract.at(self.alive, self.feature_of[levels], 1)

    def check_merge(self, other: Any) -> None:
        """Raise ValueError if a level has one type here and another type in the other counts."""
        for name, other_ids in zip(other.names, other.level_ids, strict=True):
            if name in self.features:
                self._check_types(
                    name, [level for level, i in other_ids.items() if other.counts[i].any()]
                )

    def merge(self, other: LevelCounts, places: list[int]) -> None:
        """Add other statistics."""
        features, level_ids = self.translate(other)
        if len(level_ids):
            dead = level_ids[~self._counts[level_ids].any(axis=1) & other.counts.any(axis=1)]
            self.count_added_levels(dead)
        for other_index, own_index in enumerate(places):
            self._counts[level_ids, own_index] += other.counts[:, other_index]
            self.totals[own_index] += other.totals[other_index]
            self.feature_weights[features, own_index] += other.feature_weights[:, other_index]

    def translate(self, other: LevelCounts) -> tuple[Ints, Ints]:
        """Add the features and levels of another object; return their indices in this object."""
        features = np.zeros(len(other.level_ids), dtype=np.int64)
        level_ids = np.zeros(other._size, dtype=np.int64)
        for place, (name, other_ids) in enumerate(zip(other.names, other.level_ids, strict=True)):
            self.enter(Levels.of_feature(name, list(other_ids)))
            features[place] = self.features[name]
            own_ids = self.level_ids[self.features[name]]
            for level, number in other_ids.items():
                level_ids[number] = own_ids[level]
        return features, level_ids

    def logs(self, rows: Levels, alpha: float, smooth_unseen: bool) -> tuple[Floats, Bools]:
        """Return log((n_kv + alpha) / (n_k + alpha L)), shape (n, d, K), and their validity.

        L is the number of levels of the feature, and n_k the weight of the examples of the class
        with the feature. If n_k is 0, all levels have the same probability.
        """
        logs, is_valid, cells = self._level_logs(rows, alpha, smooth_unseen)
        return logs[cells], is_valid[cells]

    def log_likelihoods(self, rows: Levels, alpha: float, smooth_unseen: bool) -> Floats:
        """Return the sum of `logs` over valid features (n, K), independent of their order."""
        logs, is_valid, cells = self._level_logs(rows, alpha, smooth_unseen)
        n, d = cells.shape
        starts = np.arange(0, n * d + 1, d) if d else np.zeros(n + 1, int)
        sums, _, _ = _core.row_sums(starts, cells.ravel(), None, logs, is_valid.view(np.uint8))
        sums[np.isnan(sums)] = -np.inf  # a logarithm is -inf
        return sums

    def _level_logs(
        self, rows: Levels, alpha: float, smooth_unseen: bool
    ) -> tuple[Floats, Bools, Ints]:
        """Return the logs of all levels (B, K), their validity (B,), and the index of each cell."""
        features, codes, starts = self._level_codes(rows)
        feature_of = np.repeat(features, np.diff(starts, append=len(codes) - MISSING))
        cells = rows.places + starts
        if not self._size:
            return np.zeros((len(codes), self._classes)), np.zeros(len(codes), bool), cells
        counts = np.where((codes >= 0)[:, None], self._counts[np.maximum(codes, 0)], 0.0)
        is_valid = (codes != MISSING) & (feature_of >= 0) & (self.alive[feature_of] > 0)
        if not smooth_unseen:  # a level with count 0 counts as never learned
            is_valid &= counts.any(axis=1)
        levels = self.alive[feature_of, None].astype(np.float64)
        weights = self.feature_weights[feature_of]
        return log_probabilities(counts, weights, alpha, levels), is_valid, cells

    def state(self) -> tuple[Any, dict[str, NDArray[Any]]]:
        """Return names and levels as plain data for JSON, counts as arrays."""
        described = []
        for name, level_ids in zip(self.names, self.level_ids, strict=True):
            levels = [label_to_json(level, "a level") for level in level_ids]
            described.append([label_to_json(name, "a feature"), levels])
        # copies, because saved arrays must not change
        feature_weights = self.feature_weights.copy()
        return {"features": described}, {
            "levels": self.counts[self.saved_order()],
            "known": feature_weights,
        }

    def saved_order(self) -> Ints:
        """Return the levels (V,) in the order of `state`: feature by feature."""
        numbers = [number for level_ids in self.level_ids for number in level_ids.values()]
        return np.array(numbers, dtype=np.int64)

    def restore(self, described: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `state` returned."""
        classes = self._counts.shape[1]
        for name, levels in described["features"]:
            level_list = [label_from_json(level) for level in levels]
            self.enter(Levels.of_feature(label_from_json(name), level_list))
        counts, feature_weights = arrays["levels"], arrays["known"]
        if counts.shape != (self._size, classes) or feature_weights.shape != (
            len(self.level_ids),
            classes,
        ):
            raise ValueError("levels and counts do not match")
        for numbers in (counts, feature_weights):
            if not ((numbers >= 0) & (numbers <= 1e300)).all():
                raise ValueError("a count is negative or not finite")
        sums = np.zeros_like(feature_weights)
        np.add.at(sums, self.feature_of[: self._size], counts)
        # If weights have very different sizes, the two sums can be rounded differently.
        self._counts[: self._size] = counts
        self.feature_weights[:] = np.where(
            np.isclose(sums, feature_weights, rtol=1e-6, atol=1e-6), feature_weights, sums
        )
        self.totals = counts.sum(axis=0)
        self.count_added_levels(np.flatnonzero(counts.any(axis=1)))


def _object_levels(
    values: NDArray[Any], names: list[Hashable]
) -> tuple[list[list[Hashable]], Ints]:
    """Return the distinct levels of columns of objects, and the index of each cell's level."""
    all_levels = []
    all_places = np.empty(values.shape, dtype=np.int64)
    for j, name in enumerate(names):
        numbers: dict[Hashable, int] = {}
        places = []
        for i, value in enumerate(values[:, j].tolist()):
            level = plain_value(value)
            try:
                place = numbers.get(level)
            except TypeError:
                raise ValueError(
                    f"row {i}, {name!r:.80}: {value!r:.80} cannot be a level, because it is not "
                    "hashable"
                ) from None
            if place is None:
                place = MISSING if is_missing(level) else numbers.setdefault(level, len(numbers))
            places.append(place)
        all_levels.append(list(numbers))
        all_places[:, j] = places
    return all_levels, all_places


_NumberTexts = dict[tuple[bool, Any], list[str]]  # the texts of each number or truth value


def number_of_text(text: str) -> Any:
    """Return the finite number or the truth value that a text stands for; None without one."""
    if text.lower() in _TRUTH_VALUES:
        return _TRUTH_VALUES[text.lower()]
    if "_" in text:  # Python reads 1_000 as a number
        return None
    with contextlib.suppress(ValueError):
        if len(text) <= _MOST_DIGITS:
            return int(text)
    with contextlib.suppress(ValueError):
        number = float(text)
        return number if math.isfinite(number) else None
    return None


def are_measured(levels: Sequence[Hashable]) -> bool:
    """Return whether the levels are many, and mostly dates or numbers with a fraction.

    Examples
    --------
    >>> are_measured([f"{n}.5" for n in range(50)]), are_measured(list(range(50)))
    (True, False)
    """
    if len(levels) <= MANY_NUMBERS:
        return False
    levels = levels[:SAMPLED_LEVELS]
    numbers = [number_of_text(level) if isinstance(level, str) else level for level in levels]
    measured = [
        x
        for x in numbers
        if isinstance(x, date | timedelta) or (isinstance(x, float) and not x.is_integer())
    ]
    return 2 * len(measured) > len(levels)


def _index_number_texts(
    levels: Iterable[Hashable], index: _NumberTexts | None = None
) -> _NumberTexts:
    """Add the texts of numbers and truth values to an index, and return it."""
    index = {} if index is None else index
    for level in levels:
        number = number_of_text(level) if isinstance(level, str) else None
        if number is not None:
            index.setdefault((isinstance(number, bool), number), []).append(str(level))
    return index


def _find_twins(
    level: Hashable, levels: Mapping[Hashable, Any], number_texts: _NumberTexts
) -> list[Hashable]:
    """Return the levels of another type with the same text, such as 3 for "3".

    Parameters
    ----------
    level
        A level.
    levels
        Other levels.
    number_texts
        The index of the texts among them.
    """
    if isinstance(level, Number):
        return list(number_texts.get((isinstance(level, bool), level), ()))
    if not isinstance(level, str):
        return [text for text in [feature_text(level)] if text in levels]
    value = number_of_text(level)
    if value is None or value not in levels:
        return []
    twin = next(candidate for candidate in levels if candidate == value)
    # 1 and True are one key of a dict
    return [twin] if isinstance(twin, bool) == isinstance(value, bool) else []


def _shorten(level: Hashable) -> str:
    try:
        return f"{level!r:.80}"
    except ValueError:  # an integer of too many digits
        return "a long integer"


def _type_name(level: Hashable) -> str:
    return "text" if isinstance(level, str) else f"of the type {type(level).__name__}"


def _add(table: Floats, rows: Ints, columns: Ints, amounts: Floats) -> None:
    """Add amounts to cells, which may be repeated."""
    if len(rows) < table.size:
        np.add.at(table, (rows, columns), amounts)
    else:  # this is several times as fast as ufunc.at
        cells = rows * table.shape[1] + columns
        table += np.bincount(cells, amounts, table.size).reshape(table.shape)


def _distinct(numbers: Ints, limit: int) -> Ints:
    """Return the distinct numbers, all below `limit`, ascending."""
    if len(numbers) < limit:
        return np.unique(numbers)
    is_present = np.zeros(limit, dtype=bool)
    is_present[numbers] = True
    return np.flatnonzero(is_present)


def _number_levels(values: NDArray[Any]) -> tuple[list[list[Hashable]], Ints]:
    """Return the distinct levels of columns of numbers, and the index of each cell's level."""
    ranges = _narrow_ranges(values)
    if ranges and all(ranges):
        return _levels_in_ranges(values, ranges)
    all_levels: list[list[Hashable]] = []
    places = np.empty(values.shape, dtype=np.int64)
    for j, column in enumerate(values.T):
        if ranges[j]:
            levels, places[:, j : j + 1] = _levels_in_ranges(column[:, None], ranges[j : j + 1])
            all_levels += levels
            continue
        numbers, indices = np.unique(column, return_inverse=True)
        if len(numbers) and numbers[-1] != numbers[-1]:  # NaN is last
            numbers = numbers[:-1]
            indices = np.where(indices == len(numbers), MISSING, indices)
        places[:, j] = indices.reshape(-1)
        all_levels.append(numbers.tolist())
    return all_levels, places


def _narrow_ranges(values: NDArray[Any]) -> list[range]:
    """Return the range of each column of whole numbers; empty if it has more numbers than rows."""
    if not values.size or values.dtype.kind not in "biuf":  # a matrix of texts has no range
        return [range(0)] * values.shape[1]
    is_whole = np.ones(values.shape[1], dtype=bool)
    if values.dtype.kind == "f":
        is_whole = ((np.abs(values) < _LARGEST_WHOLE) & (np.floor(values) == values)).all(axis=0)
    limits = zip(values.min(axis=0).tolist(), values.max(axis=0).tolist(), is_whole, strict=True)
    ranges = [range(int(low), int(high) + 1) if whole else range(0) for low, high, whole in limits]
    is_narrow = [r.stop - r.start <= len(values) and r.stop <= 2**63 for r in ranges]
    return [r if narrow else range(0) for r, narrow in zip(ranges, is_narrow, strict=True)]


def _levels_in_ranges(
    values: NDArray[Any], ranges: list[range]
) -> tuple[list[list[Hashable]], Ints]:
    """Return `_number_levels` of columns with these ranges, without sorting."""
    starts = np.cumsum([0, *map(len, ranges)])
    cells = values.astype(np.int64)
    cells += starts[:-1] - np.array([numbers.start for numbers in ranges])
    is_present = np.zeros(starts[-1], dtype=bool)
    is_present[cells] = True
    ranks = np.cumsum(is_present)
    ranks -= np.repeat(ranks[starts[:-1]], np.diff(starts))  # each range begins with a level
    kind = type(values[0, 0].item())
    levels = [
        [kind(numbers[offset]) for offset in np.flatnonzero(is_present[a:b]).tolist()]
        for numbers, (a, b) in zip(ranges, itertools.pairwise(starts), strict=True)
    ]
    return levels, ranks[cells]


def log_probabilities(n: Floats, totals: Floats, alpha: float, levels: NDArray[Any]) -> Floats:
    """Return log of (n + alpha) / (N + alpha L); 1 / L if the denominator is 0."""
    raw_denominators = np.ascontiguousarray(totals + alpha * levels)
    is_empty = raw_denominators == 0
    denominators = np.where(is_empty, 1.0, raw_denominators)
    logs: Floats = _core.log_cells(np.ascontiguousarray(n), alpha)
    logs = logs - _core.log_cells(denominators)
    if is_empty.any():
        equal_shares = np.ascontiguousarray(
            np.maximum(np.broadcast_to(levels, raw_denominators.shape), 1.0)
        )
        logs = np.where(is_empty, -_core.log_cells(equal_shares), logs)
    return logs


def subtract_exactly(before: Floats, weight: float) -> Floats:
    """Return counts minus a weight, exactly for whole numbers (`_core.subtract_exactly`)."""
    return np.array([_core.subtract_exactly(count, weight) for count in before.tolist()])
