"""Rows of a table as names and values, from dicts, matrices and data frames."""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamnb.counts.protocol import Floats, Ints, is_missing
from streamnb.features.text_input import as_data, frame_of, is_frame
from streamnb.naive_bayes.matrices import values_of

LARGEST = 1e100  # largest value: squares and their sums stay finite
_CATEGORIES = ("Categorical", "Enum")  # types of columns in narwhals
_LARGEST_DENSE = 10**8  # maximum number of cells of a sparse matrix


def plain_value(value: Any) -> Any:
    """Return a value as a Python object; numpy scalars are converted."""
    return value.item() if isinstance(value, np.generic) else value


def is_number(value: Any) -> bool:
    """Return whether a value is a real number; truth values are levels, not numbers."""
    return _is_number_type(type(value))  # type: ignore[arg-type]  # a type is hashable


@lru_cache(maxsize=64)  # a check of an abstract class takes most of the time of a value
def _is_number_type(kind: type) -> bool:
    return issubclass(kind, (numbers.Real, Decimal)) and not issubclass(
        kind, (bool, np.timedelta64)
    )


@dataclass(frozen=True)
class Columns:
    """Rows of unchecked values.

    Attributes
    ----------
    names
        Names of the columns, all different.
    values
        Shape (n, d): float64, or object if a column has other values than numbers.
    level_names
        Names of the columns of a frame that are declared as categories.
    """

    names: list[Hashable]
    values: NDArray[Any]
    level_names: frozenset[Hashable] = frozenset()

    @classmethod
    def from_dict(cls, x: Any) -> Columns:
        """Return one row from a dict of features and values, as in river."""
        if not isinstance(x, Mapping):
            raise ValueError(f"expected a dict of features and values, not {type(x).__name__}")
        values = np.empty((1, len(x)), dtype=object)
        values[0, :] = list(x.values())
        return cls(list(x), values)

    @classmethod
    def from_data(cls, X: Any) -> Columns:
        """Return rows from a matrix, with column numbers as names, a frame, dicts or `Columns`.

        Raises
        ------
        ValueError
            If X is not two-dimensional, or two columns have the same name.
        """
        if isinstance(X, cls):
            return X
        X = as_data(X)
        if isinstance(X, tuple | Iterator):
            X = list(X)
        if is_frame(X):
            return cls(*_frame(X))
        if isinstance(X, list) and X and all(isinstance(row, Mapping) for row in X):
            return cls(*_cells_of_dicts(X))
        if hasattr(X, "toarray"):
            if X.shape[0] * X.shape[1] > _LARGEST_DENSE:
                raise ValueError(
                    f"a sparse matrix of shape {X.shape} is too large, because its zeros are "
                    "values here; select columns, or use a model of counts such as MultinomialNB"
                )
            X = X.toarray()
        if isinstance(X, np.ma.MaskedArray):
            masked, X = np.ma.getmaskarray(X), X.data.astype(object)
            X[masked] = None
        values = np.asarray(X) if isinstance(X, np.ndarray) else _cells_of_lists(X)
        if values.ndim != 2:
            raise ValueError(
                f"expected a matrix with a row for each example, got shape {values.shape}"
            )
        return cls(list(range(values.shape[1])), values)

    def numbers(self) -> Floats:
        """Return the values as numbers; missing values are NaN.

        Raises
        ------
        ValueError
            If a value is not a number, or larger than 1e100; the message names row and column.
        """
        values = self.values
        if values.dtype.kind in "biuf":
            numbers = np.ascontiguousarray(values, dtype=np.float64)
        elif len(values) == 1:
            row = values[0].tolist()
            if set(map(type, row)) == {float} and max(map(abs, row)) <= LARGEST:
                return np.array([row])  # includes NaN, because comparisons with NaN are false
            numbers = np.array([[self._number(value, 0, j) for j, value in enumerate(row)]])
        else:
            numbers = np.empty(values.shape)
            for j in range(values.shape[1]):
                numbers[:, j] = [self._number(value, i, j) for i, value in enumerate(values[:, j])]
        is_too_large = np.abs(numbers) > LARGEST
        if is_too_large.any():
            i, j = (int(place[0]) for place in np.nonzero(is_too_large))
            raise ValueError(
                f"row {i}, {self.names[j]!r:.80}: the value is {numbers[i, j]}: it must be finite "
                "and at most 1e100"
            )
        return numbers

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
        """Return a selection of the rows."""
        return Columns(self.names, self.values[rows], self.level_names)


def _cells_of_dicts(X: list[Mapping[Hashable, Any]]) -> tuple[list[Hashable], NDArray[Any]]:
    names = list(dict.fromkeys(name for row in X for name in row))
    return names, _cells_of_lists([[row.get(name) for name in names] for row in X])


def _cells_of_lists(X: Any) -> NDArray[Any]:
    if isinstance(X, Mapping) or any(isinstance(row, Mapping | str | bytes) for row in X):
        raise ValueError("expected a matrix, a frame, or a list of rows or of dicts")
    try:
        rows = [list(row) for row in X]
    except TypeError:
        return np.asarray(X)
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"rows of different lengths: row 0 has {len(rows[0])} values, and row {i} "
                f"has {len(row)}"
            )
    values = np.empty((len(rows), len(rows[0]) if rows else 0), dtype=object)
    for i, row in enumerate(rows):
        values[i, :] = row
    return values


def _frame(frame: Any) -> tuple[list[Hashable], NDArray[Any], frozenset[Hashable]]:
    columns_frame = frame_of(frame)
    schema = columns_frame.schema.items()
    level_names = frozenset(name for name, kind in schema if str(kind).startswith(_CATEGORIES))
    columns = [values_of(column) for column in columns_frame.iter_columns()]
    dtype: Any = np.float64 if all(column.dtype.kind in "iuf" for column in columns) else object
    values = np.empty(columns_frame.shape, dtype=dtype)
    for j, column in enumerate(columns):
        values[:, j] = column
    return list(columns_frame.columns), values, level_names
