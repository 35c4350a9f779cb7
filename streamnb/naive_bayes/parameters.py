"""What the parameters of the models may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

__all__ = ["CHECKS", "Prior", "above_zero", "from_zero", "names_of", "one_of", "whole_number"]

Prior = str | Mapping[Any, float]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def above_zero(name: str) -> Callable[[Any], None]:
    """A check of a parameter that may not be 0."""

    def check(value: Any) -> None:
        if not _is_number(value) or not 1e-100 <= value <= 1e100:
            raise ValueError(f"{name}: {value!r} is not a number > 0 (from 1e-100 to 1e100)")

    return check


def _check_prior(value: Any) -> None:
    if isinstance(value, Mapping):
        shares = list(value.values())
        if not all(_is_number(share) and 0 <= share <= 1e100 for share in shares):
            raise ValueError(f"prior: {value!r} has a value that is not a number >= 0")
        if not sum(shares) > 0:
            raise ValueError("prior: no class has a probability above 0")
    elif value not in ("learned", "uniform", "none"):
        raise ValueError(f"prior: {value!r} is not 'learned', 'uniform', 'none' or a dict")


def names_of(parameter: str) -> Callable[[Any], None]:
    """A check of a list of names of features."""

    def check(value: Any) -> None:
        if value is not None and not isinstance(value, (tuple, list, set, frozenset)):
            raise ValueError(f"{parameter}: {value!r:.80} is not a list of names of features")

    return check


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


def _check_ddof(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value not in (0, 1):
        raise ValueError(f"ddof: {value!r} is neither 0 (maximum likelihood) nor 1 (unbiased)")


def from_zero(name: str, most: float = 1e100) -> Callable[[Any], None]:
    """A check of a parameter that may be 0."""

    def check(value: Any) -> None:
        if not _is_number(value) or not 0 <= value <= most:
            raise ValueError(f"{name}: {value!r} is not a number from 0 to {most:g}")

    return check


def one_of(name: str, *choices: Any) -> Callable[[Any], None]:
    """A check of a parameter that has a few values."""

    def check(value: Any) -> None:
        if not isinstance(value, type(choices[0])) or value not in choices:
            said = ", ".join(map(repr, choices))
            raise ValueError(f"{name}: {value!r:.80} is not one of {said}")

    return check


def whole_number(name: str) -> Callable[[Any], None]:
    """A check of a number of things."""

    def check(value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise ValueError(f"{name}: {value!r:.80} is not a whole number >= 1")

    return check


CHECKS: dict[str, Callable[[Any], None]] = {
    "alpha": above_zero("alpha"),
    "prior": _check_prior,
    "unseen": _check_unseen,
    "tau": _check_tau,
    "length_power": _check_length_power,
    "decay": _check_decay,
    "binarize": _check_binarize,
    "ddof": _check_ddof,
    "var_smoothing": from_zero("var_smoothing"),
    "epsilon": from_zero("epsilon"),
}
