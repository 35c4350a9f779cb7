"""Means and variances of numeric features by class, from sums without rounding.

Pairs of features of many rows are summed by matrix products. Numbers are split into slices of few
bits, so each product of two slices and each sum of such products fits into a double. Matrix
products of slices are then exact in any order of summation (Ozaki, Ogita, Oishi and Rump 2012,
Error-free transformations of matrix multiplication).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamnb._core.exact_sums import MAX_PAIRED_FEATURES, ExactSums
from streamnb.counts.protocol import Bools, Floats, Ints
from streamnb.storage import label_from_json, label_to_json
from streamnb.tables.base import Statistics
from streamnb.tables.columns import Columns

_BITS = 18
MOST_ROWS = 1 << 16  # 2 * 18 + 16 bits fit into the 53 bits of a double
_MOST_SLICES = 5
_ROUNDER = 1.5 * 2.0**52
# lowest bit of numbers whose squares have no bits below 2^-640, the lowest bit of sums
_SMALLEST_UNIT = 2.0**-320


def _slices(X: Floats) -> list[Floats] | None:
    """Return slices of few bits that sum to X; None if there would be too many."""
    unit = np.exp2(np.frexp(np.abs(X).max(initial=0.0))[1] - float(_BITS))
    remainder, slices = X, list[Floats]()
    while remainder.any():
        if len(slices) == _MOST_SLICES or unit < _SMALLEST_UNIT:
            return None
        # The last bit of a double of this size is the unit, so the sum is rounded to it.
        piece = remainder + _ROUNDER * unit
        piece -= _ROUNDER * unit
        slices.append(piece)
        remainder = remainder - piece
        unit *= 2.0**-_BITS
    return slices


def cells_of_rows(X: Floats) -> Iterator[Floats] | None:
    """Yield arrays to add to the cells of an `ExactSums` of pairs for rows of weight 1.

    Parameters
    ----------
    X
        Shape (n, d), n at most `MOST_ROWS`; NaN where a value is missing.

    Returns
    -------
    None if the magnitudes of the numbers differ too much.
    """
    columns = np.ascontiguousarray(X.T)  # sums over contiguous columns are faster
    is_present = ~np.isnan(columns)
    slices = _slices(np.where(is_present, columns, 0.0))
    return None if slices is None else _pair_cells(slices, is_present)


def _pair_cells(slices: list[Floats], is_present: Bools) -> Iterator[Floats]:
    d, n = is_present.shape
    j, i = np.tril_indices(d)  # all pairs i <= j, in the order of the cells
    presence = is_present.astype(np.float64)
    counts = np.zeros(1 + 4 * len(i))
    counts[0], counts[1::4] = n, (presence @ presence.T)[i, j]
    yield counts
    for piece in slices:
        paired_sums = piece @ presence.T  # sum of x_i over rows with x_j
        cells = np.zeros(1 + 4 * len(i))
        cells[2::4], cells[3::4] = paired_sums[i, j], paired_sums[j, i]
        yield cells
        for other_piece in slices:
            cells = np.zeros(1 + 4 * len(i))
            cells[4::4] = (piece @ other_piece.T)[i, j]
            yield cells


_MANY_ROWS = 16  # minimum number of values for which matrix products are faster
_MANY_PRODUCTS = 1 << 15


class Numeric(NamedTuple):
    """Rows of numbers: names of the columns, and float64 (n, d), NaN where a value is missing."""

    names: list[Hashable]
    values: Floats


class NumericSums(Statistics):
    """Sums of numeric features: one `ExactSums` per class, all with the same order of features.

    Parameters
    ----------
    pairs
        Whether to sum products of pairs of features, too.
    """

    def __init__(self, pairs: bool = False) -> None:
        self.pairs = pairs
        self.features: dict[Hashable, int] = {}
        self.sums: list[ExactSums] = []

    def add_classes(self, classes: int) -> None:
        """Allocate a number of classes."""
        while len(self.sums) < classes:
            self.sums.append(ExactSums(self.pairs))
            self.sums[-1].grow(len(self.features))

    def read(self, table: Columns) -> Numeric:
        """Return rows of numbers; raise ValueError if there would be too many pairs."""
        self._check_room(table.names)
        return Numeric(table.names, table.numbers())

    def _check_room(self, names: Iterable[Hashable]) -> None:
        if self.pairs:
            feature_count = len(self.features.keys() | set(names))
            if feature_count > MAX_PAIRED_FEATURES:
                raise ValueError(
                    f"{feature_count:,} features: at most {MAX_PAIRED_FEATURES:,} can be paired; "
                    "select features, or use GaussianNB"
                )

    def _enter(self, names: list[Hashable]) -> None:
        new = [name for name in names if name not in self.features]
        if not new:
            return
        known_count = len(self.features)
        try:
            for class_sums in self.sums:
                class_sums.grow(known_count + len(new))
        except MemoryError:
            for class_sums in self.sums:
                class_sums.cut(known_count)
            raise
        for name in new:
            self.features[name] = len(self.features)

    def aligned(self, rows: Numeric) -> Floats:
        """Return the values in the order of `features`, without unknown features."""
        if rows.names == list(self.features):
            return rows.values
        places = [self.features.get(name, -1) for name in rows.names]
        known_columns = [j for j, place in enumerate(places) if place >= 0]
        values = np.full((len(rows.values), len(self.features)), np.nan)
        values[:, [places[j] for j in known_columns]] = rows.values[:, known_columns]
        return values

    def logs(self, rows: Numeric, means: Floats, halves: Floats, constants: Floats) -> Floats:
        """Return the terms of `gaussian_rows` for the first row, (d, K); 0 without a value."""
        columns = Numeric(rows.names, np.arange(len(rows.names))[None].astype(np.float64))
        places = self.aligned(columns)[0]
        known_features = np.flatnonzero(places >= 0)
        known_columns = places[known_features].astype(np.int64)
        logs = np.zeros((len(rows.names), len(means)))
        deviations = rows.values[0, known_columns] - means[:, known_features]
        terms = constants[:, known_features] - deviations**2 * halves[:, known_features]
        logs[known_columns] = np.where(
            np.isnan(deviations), 0.0, np.nan_to_num(terms, nan=-np.inf, neginf=-np.inf)
        ).T
        return logs

    def check_kinds(self, rows: Numeric) -> None:
        """Accept all rows, because `read` has checked that they are numbers."""

    def feature_names(self) -> Set[Hashable]:
        """Return the names of the features that were learned."""
        return self.features.keys()

    number_names = feature_names

    def learn(self, rows: Numeric, places: Ints, weights: Floats) -> None:
        """Add rows, with the index of the class of each."""
        self._enter(rows.names)
        values = self.aligned(rows)
        for place in set(places.tolist()):
            is_many = self.pairs and len(values) >= _MANY_ROWS
            if not is_many or not self._add_pairs(values, places == place, weights, place):
                self.sums[place].add(values, places, place, weights)

    def _add_pairs(self, values: Floats, is_of_class: Bools, weights: Floats, place: int) -> bool:
        """Add many rows of weight 1 by matrix products, and return whether that was done."""
        n = int(is_of_class.sum())
        is_small = n * values.shape[1] ** 2 < _MANY_PRODUCTS
        if is_small or n > MOST_ROWS or (weights[is_of_class] != 1).any():
            return False
        cell_arrays = cells_of_rows(values[is_of_class])
        if cell_arrays is None:
            return False
        for cells in cell_arrays:
            self.sums[place].add_cells(cells)
        return True

    def unlearn(self, rows: Numeric, place: int, weight: float, remaining_weight: float) -> None:
        """Subtract a row; raise ValueError if no examples can have the remaining sums."""
        values = self.aligned(rows)
        known_names = set(self.features)
        new = [
            name
            for j, name in enumerate(rows.names)
            if name not in known_names and rows.values[0, j] == rows.values[0, j]
        ]
        if new and weight:
            raise ValueError(f"cannot unlearn: the feature {new[0]!r:.80} was never learned")
        sums, first_row = self.sums[place], np.zeros(1, dtype=np.int64)
        sums.add(values, first_row, 0, np.array([weight]), -1.0)
        if not sums.possible():
            sums.add(values, first_row, 0, np.array([weight]))
            raise ValueError("cannot unlearn: no such example was learned")

    def check_merge(self, other: NumericSums) -> None:
        """Raise ValueError if there would be too many pairs."""
        self._check_room(other.features)

    def merge(self, other: NumericSums, places: list[int]) -> None:
        """Add other statistics."""
        self._enter(list(other.features))
        order = [self.features[name] for name in other.features]
        for place, other_sums in zip(places, other.sums, strict=True):
            self.sums[place].merge(other_sums, order)

    def total(self) -> ExactSums:
        """Return the sums over all classes."""
        total = ExactSums(self.pairs)
        total.grow(len(self.features))
        for class_sums in self.sums:
            total.merge(class_sums)
        return total

    def state(self) -> tuple[Any, dict[str, NDArray[Any]]]:
        """Return names as plain data for JSON, limbs as arrays."""
        lows, limbs = [], {}
        for k, class_sums in enumerate(self.sums):
            low, limbs[f"sums{k}"] = class_sums.arrays()
            lows.append(low)
        return {
            "features": [label_to_json(name, "a feature") for name in self.features],
            "lows": lows,
        }, limbs

    def restore(self, described: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `state` returned."""
        names = [label_from_json(name) for name in described["features"]]
        self.features = {name: j for j, name in enumerate(names)}
        if len(self.features) != len(names):
            raise ValueError("a feature occurs twice")
        self.sums = []
        for k, low in enumerate(described["lows"]):
            class_sums = ExactSums(self.pairs)
            class_sums.load(len(names), low, arrays[f"sums{k}"])
            if not class_sums.possible():
                raise ValueError("the sums are not valid")
            self.sums.append(class_sums)
