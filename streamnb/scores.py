"""From joint log-likelihoods to probabilities and log-odds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamnb import _core

LabelT = TypeVar("LabelT")


def probabilities(scores: list[float]) -> list[float]:
    """Turn joint log-likelihoods into probabilities; uniform where all are -inf."""
    return _core.probabilities(scores)


def best_index(scores: Sequence[float]) -> int:
    """Return the index of the largest score, the first of equals.

    Scores are equal if they differ by at most 1e-9 + 1e-12 |largest|. The same sum in another
    order differs by less, so rounding never decides between classes.

    Examples
    --------
    >>> from streamnb.scores import best_index
    >>> best_index([-1.5, 0.1 + 0.2, 0.3])
    1
    >>> best_index([0.3, 0.1 + 0.2])
    0
    """
    return _core.best_index(list(scores))


def best_label(scores: Mapping[LabelT, float]) -> LabelT | None:
    """Return the label of the largest score, the first of equals; None without scores."""
    return list(scores)[best_index(list(scores.values()))] if scores else None


def best_columns(scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return `best_index` of each row of scores (n, K)."""
    if not scores.shape[1]:
        raise ValueError("cannot choose among no classes")
    return np.array([_core.best_index(row) for row in scores.tolist()], dtype=np.intp)


def log_odds(scores: dict[Any, float], label: Any) -> float:
    """Log-odds of a class against all others, given joint log-likelihoods; 0 for an only class.

    Examples
    --------
    >>> from streamnb.scores import log_odds
    >>> log_odds({"spam": -700.0, "ham": -900.0}, "spam")
    200.0
    """
    if len(scores) < 2:
        return 0.0
    mine = scores[label]
    others = [score for other, score in scores.items() if other != label]
    top = max(others)
    if len(others) > 1 and top > -math.inf:
        top += _core.log(math.fsum(_core.exp(score - top) for score in others))
    return mine - top if mine != top else 0.0
