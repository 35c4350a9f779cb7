"""Means and variances of numeric features by class, from sums that do not round."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamnb._core import MAX_PAIRED_FEATURES, ExactSums
from streamnb.counts.protocol import Bools, Floats, Ints
from streamnb.storage import label_from_json, label_to_json
from streamnb.tables.base import Statistics
from streamnb.tables.columns import Columns
from streamnb.tables.exact_products import MOST_ROWS, cells_of_rows

_MANY_ROWS = 16  # from where on matrix products are faster
_MANY_VALUES, _MANY_PRODUCTS = 2048, 1 << 15


class Numeric(NamedTuple):
    """Rows of numbers: names of the columns, and float64 (n, d), NaN where a value is missing."""

    names: list[Hashable]
    values: Floats


class NumericSums(Statistics):
    """Sums of numeric features: one `ExactSums` a class, the features in one order for all.

    Parameters
    ----------
    pairs
        Whether products of pairs of features are summed, too.
    """

    def __init__(self, pairs: bool = False) -> None:
        self.pairs = pairs
        self.features: dict[Hashable, int] = {}
        self.sums: list[ExactSums] = []

    def add_classes(self, classes: int) -> None:
        """Have room for so many classes."""
        while len(self.sums) < classes:
            self.sums.append(ExactSums(self.pairs))
            self.sums[-1].grow(len(self.features))

    def read(self, table: Columns) -> Numeric:
        """Rows of numbers; ValueError where they would make too many pairs."""
        self._check_room(table.names)
        return Numeric(table.names, table.numbers())

    def _check_room(self, names: Iterable[Hashable]) -> None:
        if self.pairs:
            found = len(self.features.keys() | set(names))
            if found > MAX_PAIRED_FEATURES:
                raise ValueError(
                    f"{found:,} features: at most {MAX_PAIRED_FEATURES:,} can be paired"
                )

    def _enter(self, names: list[Hashable]) -> None:
        new = [name for name in names if name not in self.features]
        if not new:
            return
        known = len(self.features)
        try:
            for one in self.sums:
                one.grow(known + len(new))
        except MemoryError:
            for one in self.sums:
                one.cut(known)
            raise
        for name in new:
            self.features[name] = len(self.features)

    def aligned(self, rows: Numeric) -> Floats:
        """The values in the order of `features`; what is not known is left out."""
        if rows.names == list(self.features):
            return rows.values
        places = [self.features.get(name, -1) for name in rows.names]
        known = [j for j, place in enumerate(places) if place >= 0]
        values = np.full((len(rows.values), len(self.features)), np.nan)
        values[:, [places[j] for j in known]] = rows.values[:, known]
        return values

    def learn(self, rows: Numeric, places: Ints, weights: Floats) -> None:
        """Add rows of classes `places`."""
        self._enter(rows.names)
        values = self.aligned(rows)
        for place in set(places.tolist()):
            if len(values) < _MANY_ROWS or not self._add_at_once(
                values, places == place, weights, place
            ):
                self.sums[place].add(values, places, place, weights)

    def _add_at_once(self, values: Floats, mine: Bools, weights: Floats, place: int) -> bool:
        """Add many rows of weight 1 by matrix products, where that pays; the sums are the same."""
        n = int(mine.sum())
        d = values.shape[1]
        few = n * d * d < _MANY_PRODUCTS if self.pairs else n * d < _MANY_VALUES
        if few or n > MOST_ROWS or (weights[mine] != 1).any():
            return False
        found = cells_of_rows(values[mine], self.pairs)
        if found is None:
            return False
        for cells in found:
            self.sums[place].add_cells(cells)
        return True

    def unlearn(self, rows: Numeric, place: int, weight: float, left: float) -> None:
        """Take a row away; what shows that it was never there is a sum that cannot be."""
        values = self.aligned(rows)
        known = set(self.features)
        new = [
            name
            for j, name in enumerate(rows.names)
            if name not in known and rows.values[0, j] == rows.values[0, j]
        ]
        if new and weight:
            raise ValueError(f"cannot unlearn: the feature {new[0]!r:.80} was never learned")
        sums, at = self.sums[place], np.zeros(1, dtype=np.int64)
        sums.add(values, at, 0, np.array([weight]), -1.0)
        if not sums.possible():
            sums.add(values, at, 0, np.array([weight]))
            raise ValueError("cannot unlearn: this was never learned")

    def check_merge(self, other: NumericSums) -> None:
        """Raise ValueError where there would be too many pairs."""
        self._check_room(other.features)

    def merge(self, other: NumericSums, places: list[int]) -> None:
        """Add what others know."""
        self._enter(list(other.features))
        order = [self.features[name] for name in other.features]
        for place, theirs in zip(places, other.sums, strict=True):
            self.sums[place].merge(theirs, order)

    def total(self) -> ExactSums:
        """Sums over all classes."""
        total = ExactSums(self.pairs)
        total.grow(len(self.features))
        for one in self.sums:
            total.merge(one)
        return total

    def state(self) -> tuple[Any, dict[str, NDArray[Any]]]:
        """Names as JSON, limbs as arrays."""
        lows, limbs = [], {}
        for k, one in enumerate(self.sums):
            low, limbs[f"sums{k}"] = one.arrays()
            lows.append(low)
        return {
            "features": [label_to_json(name, "a feature") for name in self.features],
            "lows": lows,
        }, limbs

    def restore(self, described: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave."""
        names = [label_from_json(name) for name in described["features"]]
        self.features = {name: j for j, name in enumerate(names)}
        if len(self.features) != len(names):
            raise ValueError("a feature occurs twice")
        self.sums = []
        for k, low in enumerate(described["lows"]):
            one = ExactSums(self.pairs)
            one.load(len(names), low, arrays[f"sums{k}"])
            if not one.possible():
                raise ValueError("no examples have such sums")
            self.sums.append(one)
