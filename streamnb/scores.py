"""From joint log-likelihoods to probabilities and log-odds."""

from __future__ import annotations

import math
from typing import Any

from streamnb import _core


def probabilities(scores: list[float]) -> list[float]:
    """Turn joint log-likelihoods into probabilities; uniform where all are -inf."""
    return _core.probabilities(scores)


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
