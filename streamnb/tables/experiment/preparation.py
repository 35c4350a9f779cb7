"""Splits into rows to learn and rows to test, and the preparation of values from learned rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamnb.config.experiment import HoldoutFractions, RandomConfig, StratifiedConfig
from streamnb.errors import ConfigError
from streamnb.tables.columns import Columns

Split = tuple[NDArray[np.int64], NDArray[np.int64]]
Transform = Callable[[Columns], Columns]
Preparation = Callable[[Columns], Transform]  # fitted to the learned rows


def holdout_fractions(config: RandomConfig | StratifiedConfig) -> list[float]:
    """Return the fractions of the rows to test.

    Examples
    --------
    >>> from streamnb.config.experiment import RandomConfig
    >>> holdout_fractions(RandomConfig(test=HoldoutFractions(first=0.01, last=0.98, steps=3)))
    [0.01, 0.495, 0.98]
    """
    if isinstance(config.test, HoldoutFractions):
        first, last, steps = config.test.first, config.test.last, config.test.steps
        return [round(first + (last - first) * i / (steps - 1), 12) for i in range(steps)]
    return [config.test] if isinstance(config.test, float) else list(config.test)


def trial_counts(config: RandomConfig | StratifiedConfig) -> list[int]:
    """Return the numbers of trials after which to report, ascending."""
    return [config.trials] if isinstance(config.trials, int) else sorted(set(config.trials))


def split_rows(
    labels: Sequence[Any], config: RandomConfig | StratifiedConfig, fraction_index: int
) -> Iterator[Split]:
    """Yield two sorted arrays for each trial: the rows to learn and the rows to test.

    The same seed gives the same splits on all machines. With n rows, n (1 - fraction) are learned,
    halves rounded up: at least one row, and at most n - 1. In stratified splits, n is the number of
    rows of a class; a class with one row is learned.

    Parameters
    ----------
    labels
        The label of each row.
    config
        Fractions, trials and seed.
    fraction_index
        The index of the fraction to test in `holdout_fractions(config)`.

    Raises
    ------
    ConfigError
        If no row can be tested, because each class of a stratified split has one row.

    Examples
    --------
    >>> from streamnb.config.experiment import StratifiedConfig
    >>> labels = ["no"] * 5 + ["yes"] * 9  # 4 and 6 to learn, 1 and 3 to test
    >>> learned, tested = next(split_rows(labels, StratifiedConfig(test=0.3), 0))
    >>> sum(learned < 5), sum(learned >= 5), sum(tested < 5), sum(tested >= 5)
    (np.int64(4), np.int64(6), np.int64(1), np.int64(3))
    """
    fraction = holdout_fractions(config)[fraction_index]
    rng = np.random.default_rng([config.seed, fraction_index])
    groups = [np.arange(len(labels))]
    if isinstance(config, StratifiedConfig):
        class_indices = {label: k for k, label in enumerate(dict.fromkeys(labels))}
        row_classes = np.array([class_indices[label] for label in labels])
        groups = [np.flatnonzero(row_classes == k) for k in range(len(class_indices))]
    sizes = [_learned_count(len(group), fraction) for group in groups]
    if sum(sizes) == len(labels):
        raise ConfigError(
            "splits.kind: 'stratified' has nothing to test, because each class has only one "
            "row; add rows, or set splits.kind to random"
        )
    for _ in range(max(trial_counts(config))):
        orders = [rng.permutation(group) for group in groups]
        learned = np.concatenate([order[:n] for order, n in zip(orders, sizes, strict=True)])
        tested = np.concatenate([order[n:] for order, n in zip(orders, sizes, strict=True)])
        yield np.sort(learned), np.sort(tested)


def _learned_count(n: int, fraction: float) -> int:
    return max(1, min(n - 1, math.floor(n * (1 - fraction) + 0.5)))


def keep_values(learned: Columns) -> Transform:
    """Return the transform that changes nothing."""
    return lambda table: table


def bin_values(bins: int) -> Preparation:
    """Return the preparation of numbers as levels: bins with equally many learned rows.

    Examples
    --------
    >>> learned = Columns(["a"], np.array([[1.0], [2.0], [3.0], [4.0]]))
    >>> halves = bin_values(2)(learned)
    >>> halves(Columns(["a"], np.array([[2.4], [2.6], [9.0], [np.nan]]))).values.T.tolist()
    [[0, 1, 1, None]]
    """

    def prepare(learned: Columns) -> Transform:
        column_edges = [_bin_edges(column, bins) for column in learned.values.T]

        def transform(table: Columns) -> Columns:
            values = np.empty(table.values.shape, dtype=object)
            for j, edges in enumerate(column_edges):
                cells = table.values[:, j]
                values[:, j] = cells if edges is None else _bin_indices(table, j, edges)
            return Columns(table.names, values)

        return transform

    return prepare


def _bin_edges(column: NDArray[np.float64], bins: int) -> NDArray[np.float64] | None:
    """Return the upper ends of bins; None for a column that is not numeric."""
    if not all(isinstance(value, float) for value in column.tolist()):
        return None
    numbers = column.astype(np.float64)
    numbers = numbers[~np.isnan(numbers)]
    if not len(numbers):
        return np.empty(0)
    return np.unique(np.quantile(numbers, np.arange(1, bins) / bins))


def _bin_indices(table: Columns, j: int, edges: NDArray[np.float64]) -> list[int | None]:
    numbers = Columns([table.names[j]], table.values[:, [j]]).numbers()[:, 0]
    indices = np.searchsorted(edges, numbers, side="right").tolist()
    is_missing = np.isnan(numbers).tolist()
    return [None if missing else k for missing, k in zip(is_missing, indices, strict=True)]


def scale_values(learned: Columns) -> Transform:
    """Return the transform that maps the smallest and largest learned value to 0 and 1."""
    if learned.values.dtype == object:
        raise ConfigError("data.scale: only numbers can be scaled; the table contains text")
    numbers = learned.values[~np.isnan(learned.values)]
    low, high = (numbers.min(), numbers.max()) if len(numbers) else (0.0, 0.0)
    if not high > low:
        raise ConfigError(
            "data.scale: all values are equal, so they cannot be scaled; set data.scale to none"
        )
    return lambda table: Columns(table.names, (table.numbers() - low) / (high - low))
