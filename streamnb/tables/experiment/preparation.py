"""What is done to values before models see them, made from the rows that are learned alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from streamnb.errors import ConfigError
from streamnb.tables.columns import Columns

Transform = Callable[[Columns], Columns]
Preparation = Callable[[Columns], Transform]


def as_it_is(learned: Columns) -> Transform:
    """Nothing is done."""
    return lambda table: table


def ranges(bins: int) -> Preparation:
    """Numbers as levels: ranges that hold equally many of the rows that are learned.

    Examples
    --------
    >>> learned = Columns(["a"], np.array([[1.0], [2.0], [3.0], [4.0]]))
    >>> halves = ranges(2)(learned)
    >>> halves(Columns(["a"], np.array([[2.4], [2.6], [9.0], [np.nan]]))).values.T.tolist()
    [[0, 1, 1, None]]
    """

    def prepare(learned: Columns) -> Transform:
        edges = [_edges(column, bins) for column in learned.values.T]

        def transform(table: Columns) -> Columns:
            values = np.empty(table.values.shape, dtype=object)
            for j, of in enumerate(edges):
                values[:, j] = table.values[:, j] if of is None else _levels(table, j, of)
            return Columns(table.names, values)

        return transform

    return prepare


def _edges(column: NDArray[np.float64], bins: int) -> NDArray[np.float64] | None:
    """Where ranges end; None of a column that is not numbers."""
    if not all(isinstance(value, float) for value in column.tolist()):
        return None
    numbers = column.astype(np.float64)
    numbers = numbers[~np.isnan(numbers)]
    if not len(numbers):
        return np.empty(0)
    return np.unique(np.quantile(numbers, np.arange(1, bins) / bins))


def _levels(table: Columns, j: int, edges: NDArray[np.float64]) -> list[int | None]:
    numbers = Columns([table.names[j]], table.values[:, [j]]).numbers()[:, 0]
    levels = np.searchsorted(edges, numbers, side="right").tolist()
    return [None if gone else k for gone, k in zip(np.isnan(numbers).tolist(), levels, strict=True)]


def scaling(learned: Columns) -> Transform:
    """Smallest and largest of all values that are learned become 0 and 1."""
    if learned.values.dtype == object:
        raise ConfigError("data.scale: only numbers can be scaled, and there is text in the table")
    known = learned.values[~np.isnan(learned.values)]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 0.0)
    if not high > low:
        raise ConfigError("data.scale: all values are alike")
    return lambda table: Columns(table.names, (table.numbers() - low) / (high - low))
