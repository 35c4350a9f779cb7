"""Constraints on the values of parameters, with descriptions and advice for error messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from streamnb.storage import label_from_json, label_to_json

Prior = str | Mapping[Any, float]


def is_number(value: Any) -> bool:
    """Return whether a value is a number of Python or numpy, and not a bool."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def describe(value: Any) -> str:
    """Return a value as text for an error message."""
    try:
        return f"{' '.join(repr(value).split()):.80}"
    except ValueError:  # Python refuses to convert numbers with thousands of digits
        return f"a number of {value.bit_length()} bits" if type(value) is int else "this value"


def suggest(value: Any, choices: Iterable[Any]) -> str:
    """Return a question for the choice nearest to a value, in any case; "" if none is near.

    Examples
    --------
    >>> suggest("LazyBayesianRules", ["lazy", "mixed"])
    "; did you mean 'lazy'?"
    """
    import difflib  # here: only errors need it

    names = {choice.lower(): choice for choice in choices if isinstance(choice, str)}
    text = value if isinstance(value, str) else ""
    near = difflib.get_close_matches(text.lower(), names, n=1)
    near += [word for word in re.findall("[A-Z][a-z]+", text) if word.lower() in names]
    return f"; did you mean {names[near[0].lower()]!r}?" if near else ""


class Constraint:
    """A condition on the values of a parameter, and its description for error messages.

    Parameters
    ----------
    fits
        Returns whether a value satisfies the condition.
    description
        A description of valid values.
    none
        Whether None is also valid.
    """

    listed = False  # whether a list is also valid, and becomes a tuple where only a tuple is

    def __init__(
        self, fits: Callable[[Any], bool], description: str = "anything", *, none: bool = False
    ) -> None:
        self.fits = fits
        self.description: str = f"{description}, or None" if none else description
        self.none = none

    def or_none(self) -> Self:
        """Return the constraint that also allows None."""
        optional = copy(self)
        Constraint.__init__(optional, self.fits, self.description, none=True)
        return optional

    def plain(self, value: Any) -> Any:
        """Return a value as a JSON value."""
        return value.item() if isinstance(value, np.generic) else value

    def from_plain(self, value: Any) -> Any:
        """Return the value of the parameter for the result of `plain`."""
        return tuple(value) if self.listed and isinstance(value, list) else value

    def read(self, name: str, plain: Any) -> Any:
        """Check a value from YAML, and return it as the value of the parameter."""
        value = self.from_plain(plain)
        self(name, value)
        return value

    def __call__(self, name: str, value: Any) -> None:
        """Raise ValueError unless a value is valid."""
        if not (value is None and self.none) and not self.fits(value):
            raise ValueError(
                f"{name}: {describe(value)} is not {self.description}{self._hint(name, value)}"
            )

    def _hint(self, name: str, value: Any) -> str:
        """Return advice for a wrong value."""
        return _value_hint(name, value)


def _value_hint(name: str, value: Any) -> str:
    """Return advice for a value that is valid in other libraries.

    The name of a parameter is the last part of a key, such as model.alpha.
    """
    name = name.rpartition(".")[2]
    if name == "stop_words" and isinstance(value, str):
        return (
            ": streamnb has no lists of stop words; pass the words, such as "
            "sklearn.feature_extraction.text.ENGLISH_STOP_WORDS"
        )
    if hasattr(value, "build_analyzer"):
        return ": pass its build_analyzer()"
    if name == "model" and hasattr(value, "tokenizer"):
        return ": pass the classifier's `model`, and a Classifier with its `tokenizer` around all"
    if name == "alpha" and is_number(value) and value == 0:
        return ": for (almost) no smoothing use alpha=1e-10"
    if name == "prior" and not isinstance(value, str):
        return ": write {label: share, ...}"
    return ""


class Number(Constraint):
    """A number from `low` to `high`; with `below`, less than `high`."""

    def __init__(
        self, low: float = 0.0, high: float = 1e100, below: bool = False, *, none: bool = False
    ) -> None:
        def fits(value: Any) -> bool:
            # numpy would convert the bounds to the precision of its number.
            number = value.item() if isinstance(value, np.generic) else value
            return is_number(value) and low <= number <= high and not (below and number == high)

        bounds = f"from {low:g} to {'below ' * below}{high:g}"
        text = f"a number > 0 ({bounds})" if low == MIN_POSITIVE else f"a number {bounds}"
        super().__init__(fits, text, none=none)


MIN_POSITIVE = 1e-100
POSITIVE = Number(MIN_POSITIVE)


class Integer(Constraint):
    """A whole number from `low` to `high`."""

    def __init__(self, low: int = 1, high: int = 10**12, *, none: bool = False) -> None:
        def fits(value: Any) -> bool:
            whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            return whole and low <= value <= high

        super().__init__(fits, f"a whole number from {low} to {high}", none=none)


class Boolean(Constraint):
    """True or False."""

    def __init__(self) -> None:
        super().__init__(lambda value: isinstance(value, (bool, np.bool_)), "true or false")


class Text(Constraint):
    """Text."""

    def __init__(self, *, none: bool = False) -> None:
        super().__init__(lambda value: isinstance(value, str), "text", none=none)


class Choice(Constraint):
    """One of a few values."""

    def __init__(self, choices: tuple[Any, ...], *, none: bool = False) -> None:
        kind = type(choices[0])

        def fits(value: Any) -> bool:
            truth = isinstance(value, bool) and kind is not bool
            return isinstance(value, kind) and value in choices and not truth

        super().__init__(fits, f"one of {', '.join(map(str, choices))}", none=none)
        self._choices = choices

    def _hint(self, name: str, value: Any) -> str:
        return suggest(value, self._choices)


class NameList(Constraint):
    """A list of names of a type; with `required`, at least one name and no repetition."""

    listed = True

    def __init__(
        self,
        name_type: type = str,
        required: bool = False,
        choices: tuple[str, ...] | None = None,
        ordered: bool = False,
        *,
        none: bool = False,
    ) -> None:
        def fits(value: Any) -> bool:
            return (
                isinstance(value, (tuple, list) if ordered else (tuple, list, set, frozenset))
                and all(isinstance(name, name_type) for name in value)
                and (choices is None or all(name in choices for name in value))
                and (not required or 0 < len(value) == len(set(value)))
            )

        items = "names" if choices is None else f"some of {', '.join(choices)}"
        super().__init__(fits, f"a list of {items}", none=none)
        self.ordered = ordered

    def plain(self, value: Any) -> Any:
        """Return the names as a list; it is sorted if their order has no meaning."""
        if value is None:
            return None
        return list(value) if self.ordered else sorted(value, key=repr)


class IntegerRange(Constraint):
    """Two whole numbers in ascending order; they can be equal."""

    listed = True

    def __init__(self, low: int = 1, high: int = 8) -> None:
        bound = Integer(low, high)

        def fits(value: Any) -> bool:
            pair = isinstance(value, tuple) and len(value) == 2 and all(map(bound.fits, value))
            return pair and value[0] <= value[1]

        super().__init__(fits, f"a pair of whole numbers from {low} to {high} in ascending order")


class ClassPrior(Constraint):
    """A word that names a prior, or a mapping of labels to probabilities."""

    def __init__(self, words: tuple[str, ...] = ("learned", "uniform")) -> None:
        def fits(value: Any) -> bool:
            return isinstance(value, Mapping) or (isinstance(value, str) and value in words)

        super().__init__(fits, f"one of {', '.join(words)}, or probabilities by class")
        self._words = words

    def _hint(self, name: str, value: Any) -> str:
        return suggest(value, self._words) or super()._hint(name, value)

    def plain(self, value: Any) -> Any:
        """Return a word unchanged, and a mapping as pairs: labels need not be text."""
        if isinstance(value, str):
            return value
        return [[label_to_json(label), float(p)] for label, p in value.items()]

    def from_plain(self, value: Any) -> Any:
        """Return the value of the parameter for the result of `plain`."""
        if isinstance(value, str):
            return value
        return {label_from_json(label): float(p) for label, p in value}

    def read(self, name: str, plain: Any) -> Any:
        """Return the checked value of a word or mapping from YAML."""
        self(name, plain)
        return plain

    def __call__(self, name: str, value: Any) -> None:
        """Raise ValueError unless a value and its probabilities are valid."""
        super().__call__(name, value)
        if isinstance(value, Mapping):
            shares = list(value.values())
            if not all(is_number(share) and 0 <= share <= 1e100 for share in shares):
                raise ValueError(f"{name}: {value!r:.80} has a value that is not a number >= 0")
            if not sum(shares) > 0:
                raise ValueError(f"{name}: no class has a probability above 0")


def has_method(method: str, description: str) -> Constraint:
    """Return the constraint that an object has a method; `description` is for errors."""

    def fits(value: Any) -> bool:
        # str also has a method `count`.
        return not isinstance(value, type | Sequence) and callable(getattr(value, method, None))

    return Constraint(fits, description)
