"""Splits into rows to learn and rows to test, the same for the same seed on every machine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamnb.config.experiment import HoldoutFractions, RandomConfig, StratifiedConfig
from streamnb.errors import ConfigError

Split = tuple[NDArray[np.int64], NDArray[np.int64]]


def shares_of(config: RandomConfig | StratifiedConfig) -> list[float]:
    """The shares to be tested.

    Examples
    --------
    >>> from streamnb.config.experiment import RandomConfig
    >>> shares_of(RandomConfig(test=HoldoutFractions(first=0.01, last=0.98, steps=3)))
    [0.01, 0.495, 0.98]
    """
    if isinstance(config.test, HoldoutFractions):
        first, last, steps = config.test.first, config.test.last, config.test.steps
        return [round(first + (last - first) * i / (steps - 1), 12) for i in range(steps)]
    return [config.test] if isinstance(config.test, float) else list(config.test)


def trials_of(config: RandomConfig | StratifiedConfig) -> list[int]:
    """After how many trials to report, in rising order."""
    return [config.trials] if isinstance(config.trials, int) else sorted(set(config.trials))


def splits(
    labels: Sequence[Any], config: RandomConfig | StratifiedConfig, number: int
) -> Iterator[Split]:
    """The splits of the share of that number: rows to learn and rows to test, each sorted.

    Of n rows, n (1 - share) are learned, rounded, a half upwards; but at least one, and all but one
    at most. Stratified, that holds for each class by itself, and a class of one row is learned.

    Examples
    --------
    >>> from streamnb.config.experiment import StratifiedConfig
    >>> labels = ["no"] * 5 + ["yes"] * 9  # 4 and 6 to learn, 1 and 3 to test
    >>> learned, tested = next(splits(labels, StratifiedConfig(test=0.3), 0))
    >>> sum(learned < 5), sum(learned >= 5), sum(tested < 5), sum(tested >= 5)
    (np.int64(4), np.int64(6), np.int64(1), np.int64(3))
    """
    share = shares_of(config)[number]
    rng = np.random.default_rng([config.seed, number])
    groups = [np.arange(len(labels))]
    if isinstance(config, StratifiedConfig):
        places = {label: k for k, label in enumerate(dict.fromkeys(labels))}
        of = np.array([places[label] for label in labels])
        groups = [np.flatnonzero(of == k) for k in range(len(places))]
    sizes = [_learned(len(group), share) for group in groups]
    if sum(sizes) == len(labels):
        raise ConfigError("splits.kind: 'stratified' has nothing to test: every class has one row")
    for _ in range(max(trials_of(config))):
        orders = [rng.permutation(group) for group in groups]
        learned = np.concatenate([o[:n] for o, n in zip(orders, sizes, strict=True)])
        tested = np.concatenate([o[n:] for o, n in zip(orders, sizes, strict=True)])
        yield np.sort(learned), np.sort(tested)


def _learned(n: int, share: float) -> int:
    return max(1, min(n - 1, math.floor(n * (1 - share) + 0.5)))
