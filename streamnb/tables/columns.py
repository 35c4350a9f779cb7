"""Rows of a table, of whatever kind: dicts, matrices and data frames as names and values."""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamnb.counts.protocol import Floats, Ints, is_missing
from streamnb.naive_bayes.rows import frame_of, is_frame, values_of

LARGEST = 1e100  # squares and their sums stay finite
_LARGEST_DENSE = 10**8  # cells that a sparse matrix may have


def plain_value(value: Any) -> Any:
    """A value as Python's own object; numpy's scalars are not."""
    return value.item() if isinstance(value, np.generic) else value


def is_number(value: Any) -> bool:
    """Whether this is a real number; a truth value is a level, not a number."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


@dataclass(frozen=True)
class Columns:
    """Rows whose values are not looked at yet.

    Attributes
    ----------
    names
        Names of the columns, all different.
    values
        Shape (n, d): float64, or object where a column holds anything else.
    """

    names: list[Hashable]
    values: NDArray[Any]

    @classmethod
    def of_one(cls, x: Any) -> Columns:
        """One row, as river has it: a dict of features and values."""
        if not isinstance(x, Mapping):
            raise ValueError(f"expected a dict of features and values, not {type(x).__name__}")
        values = np.empty((1, len(x)), dtype=object)
        values[0, :] = list(x.values())
        return cls(list(x), values)

    @classmethod
    def of(cls, X: Any) -> Columns:
        """A matrix, whose columns are named by their numbers, a frame, or a table already.

        Raises
        ------
        ValueError
            Where X is not two-dimensional, or two columns have one name.
        """
        if isinstance(X, cls):
            return X
        if is_frame(X):
            return cls(*_frame(X))
        if isinstance(X, list) and X and all(isinstance(row, Mapping) for row in X):
            return cls(*_of_dicts(X))
        if hasattr(X, "toarray"):
            if X.shape[0] * X.shape[1] > _LARGEST_DENSE:
                raise ValueError(f"a sparse matrix of shape {X.shape}: its zeros are values here")
            X = X.toarray()
        if isinstance(X, np.ma.MaskedArray):
            masked, X = np.ma.getmaskarray(X), X.data.astype(object)
            X[masked] = None
        values = X if isinstance(X, np.ndarray) else _of_lists(X)
        if values.ndim != 2:
            raise ValueError(
                f"expected a matrix with a row for each example, got shape {values.shape}"
            )
        return cls(list(range(values.shape[1])), values)

    def numbers(self) -> Floats:
        """The values as numbers, NaN where they are missing.

        Raises
        ------
        ValueError
            Where a value is no number, or larger than 1e100; row and column are named.
        """
        values = self.values
        if values.dtype.kind in "biuf":
            found = np.ascontiguousarray(values, dtype=np.float64)
        elif len(values) == 1:
            row = values[0].tolist()
            if set(map(type, row)) == {float} and max(map(abs, row)) <= LARGEST:
                return np.array([row])  # NaN or not: what is compared with NaN is not larger
            found = np.array([[self._number(value, 0, j) for j, value in enumerate(row)]])
        else:
            found = np.empty(values.shape)
            for j in range(values.shape[1]):
                found[:, j] = [self._number(value, i, j) for i, value in enumerate(values[:, j])]
        bad = np.abs(found) > LARGEST
        if bad.any():
            i, j = (int(place[0]) for place in np.nonzero(bad))
            raise ValueError(
                f"row {i}, {self.names[j]!r:.80}: the value is {found[i, j]}: it must be finite "
                "and at most 1e100"
            )
        return found

    def _number(self, value: Any, i: int, j: int) -> float:
        if type(value) is float or (type(value) is int and -LARGEST < value < LARGEST):
            return float(value)
        if is_missing(value):
            return math.nan
        if isinstance(value, (bool, np.bool_)) or is_number(value):
            try:
                return float(value)
            except OverflowError:
                return math.inf
        raise ValueError(f"row {i}, {self.names[j]!r:.80}: {value!r:.80} is not a number")

    def select(self, rows: Ints) -> Columns:
        """Some of the rows."""
        return Columns(self.names, self.values[rows])


def _of_dicts(X: list[Mapping[Hashable, Any]]) -> tuple[list[Hashable], NDArray[Any]]:
    names = list(dict.fromkeys(name for row in X for name in row))
    return names, _of_lists([[row.get(name) for name in names] for row in X])


def _of_lists(X: Any) -> NDArray[Any]:
    if isinstance(X, Mapping) or any(isinstance(row, Mapping | str | bytes) for row in X):
        raise ValueError("expected a matrix, a frame, or a list of rows or of dicts")
    try:
        rows = [list(row) for row in X]
    except TypeError:
        return np.asarray(X)
    if len({len(row) for row in rows}) > 1:
        raise ValueError("the rows are not of one length")
    values = np.empty((len(rows), len(rows[0]) if rows else 0), dtype=object)
    for i, row in enumerate(rows):
        values[i, :] = row
    return values


def _frame(frame: Any) -> tuple[list[Hashable], NDArray[Any]]:
    found = frame_of(frame)
    columns = [values_of(column) for column in found.iter_columns()]
    kind: Any = np.float64 if all(column.dtype.kind in "iuf" for column in columns) else object
    values = np.empty(found.shape, dtype=kind)
    for j, column in enumerate(columns):
        values[:, j] = column
    return list(found.columns), values
