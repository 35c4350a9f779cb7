"""What the parameters of the models may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

__all__ = ["CHECKS", "Prior"]

Prior = str | Mapping[Any, float]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _check_alpha(value: Any) -> None:
    if not _is_number(value) or not 1e-100 <= value <= 1e100:
        raise ValueError(f"alpha: {value!r} is not a number > 0 (from 1e-100 to 1e100)")


def _check_prior(value: Any) -> None:
    if isinstance(value, Mapping):
        shares = list(value.values())
        if not all(_is_number(share) and 0 <= share <= 1e100 for share in shares):
            raise ValueError(f"prior: {value!r} has a value that is not a number >= 0")
        if not sum(shares) > 0:
            raise ValueError("prior: no class has a probability above 0")
    elif value not in ("learned", "uniform", "none"):
        raise ValueError(f"prior: {value!r} is not 'learned', 'uniform', 'none' or a dict")


def _check_unseen(value: Any) -> None:
    if value not in ("ignore", "smooth"):
        raise ValueError(f"unseen: {value!r} is neither 'ignore' nor 'smooth'")


def _check_tau(value: Any) -> None:
    if value is not None and (not _is_number(value) or not 1e-100 <= value <= 1e100):
        raise ValueError(f"tau: {value!r} is neither None nor a finite number > 0")


def _check_binarize(value: Any) -> None:
    if not _is_number(value) or not 0 <= value <= 1e100:
        raise ValueError(f"binarize: {value!r} is not a number >= 0 (features left out count 0)")


def _check_length_power(value: Any) -> None:
    if not _is_number(value) or not 0 <= value <= 2:
        raise ValueError(f"length_power: {value!r} is not a number from 0 to 2")


def _check_decay(value: Any) -> None:
    if not _is_number(value) or not 0.5 <= value <= 1:
        raise ValueError(f"decay: {value!r} is not a number from .5 to 1 (1 forgets nothing)")


CHECKS: dict[str, Callable[[Any], None]] = {
    "alpha": _check_alpha,
    "prior": _check_prior,
    "unseen": _check_unseen,
    "tau": _check_tau,
    "length_power": _check_length_power,
    "decay": _check_decay,
    "binarize": _check_binarize,
}
