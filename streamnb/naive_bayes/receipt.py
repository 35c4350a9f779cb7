"""The changes that learning a message made to a model."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from streamnb.counts.protocol import Label
from streamnb.scores import ScorerMixin

_NO_DELTAS: Mapping[str, Any] = {}
_POSITIONAL = ("recalibration", "noise")  # deltas written without their names
_OF_COUNTS = ("counted",)  # deltas of estimators that describe the counts
_MAX_VALUE = 1e100  # largest absolute value of a number in a receipt


class Receipt(NamedTuple):
    """The changes that a learned message made. They undo it exactly, even after later messages.

    Attributes
    ----------
    decay_halvings : int
        Number of times that the counts were halved before the message (`Counts.decay_halvings`).
    class_weight : float
        Weight that was added to the class.
    view_weights : tuple of float
        Factor of the message's counts in each view's model.
    deltas : mapping of str
        Changes of the state other than counts, by name of the estimator.

    Examples
    --------
    >>> Receipt.from_json(Receipt(0, 1.0, (0.5,), {"noise": [0.25, 1]}).to_json())
    Receipt(decay_halvings=0, class_weight=1.0, view_weights=(0.5,), deltas={'noise': [0.25, 1]})
    """

    decay_halvings: int
    class_weight: float
    view_weights: tuple[float, ...]
    deltas: Mapping[str, Any] = _NO_DELTAS

    def without_calibration(self, names: tuple[str, ...] = ()) -> Receipt:
        """Return a receipt with only the changes of counts, of their sums, and of `names`."""
        stored = (*_OF_COUNTS, *names)
        deltas = {name: self.deltas[name] for name in stored if name in self.deltas}
        return self._replace(deltas=deltas)

    def to_json(self) -> list[Any]:
        """Return the receipt as lists, numbers and dicts."""
        positional = [self.deltas.get(name) for name in _POSITIONAL]
        named = {name: delta for name, delta in self.deltas.items() if name not in _POSITIONAL}
        tail = [named] if named else []
        return [self.decay_halvings, self.class_weight, list(self.view_weights), *positional, *tail]

    @classmethod
    def from_json(cls, items: Any) -> Receipt:
        """Return the receipt that `to_json` wrote.

        Raises
        ------
        ValueError
            If it is damaged. The estimators check their own deltas.
        """
        halvings, class_weight, view_weights, *positional = items[: 3 + len(_POSITIONAL)]
        pairs = zip(_POSITIONAL, positional, strict=True)
        deltas = {name: delta for name, delta in pairs if delta is not None}
        for named in items[3 + len(_POSITIONAL) :]:
            deltas |= named
        numbers = _flatten([class_weight, *view_weights, *deltas.values()])
        if type(halvings) is not int or halvings < 0:
            raise ValueError(
                "the receipt is damaged: its number of halvings is not an integer >= 0"
            )
        if not is_bounded(numbers, _MAX_VALUE):
            raise ValueError("the receipt is damaged: a number is not finite, or above 1e100")
        weights = tuple(map(float, view_weights))
        return cls(halvings, float(class_weight), weights, deltas or _NO_DELTAS)

    def check(self, n_views: int) -> None:
        """Raise ValueError unless the changes of counts are valid, for a number of views.

        The estimators check their own deltas.
        """
        weights = self.class_weight, *self.view_weights
        if len(weights) != n_views + 1:
            raise ValueError(f"the receipt has {len(weights) - 1} views, the model has {n_views}")
        if not is_bounded(weights, _MAX_VALUE) or min(weights) < 0:
            raise ValueError("the receipt is damaged: a weight is not from 0 to 1e100")
        if not isinstance(self.deltas, Mapping):
            raise ValueError("the receipt is damaged: its deltas are not a mapping")

    @classmethod
    def from_text(cls, text: str) -> Receipt:
        """Return the receipt that was written as JSON text."""
        return cls.from_json(json.loads(text))


class UnlearnMixin(ScorerMixin):
    """Methods of models that apply and undo receipts, which they check first."""

    def check_receipt(self, receipt: Receipt, classes: int) -> None:
        """Raise ValueError if a receipt does not fit this model, or its number of classes."""
        raise NotImplementedError

    def unlearn_checked(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Undo the changes of a receipt that `check_receipt` accepted, as `unlearn` does."""
        raise NotImplementedError

    def reapply_checked(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Make the changes of a receipt that `check_receipt` accepted, as `reapply` does."""
        raise NotImplementedError

    def unlearn(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Undo the changes of a receipt.

        Raises
        ------
        ValueError
            If the receipt does not fit the model, or its changes are absent. The model is then
            unchanged.
        """
        with self.lock:
            self._check_any(receipt, 0)
            self.unlearn_checked(x, y, receipt)

    def reapply(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Make the changes of a receipt again, exactly: the inverse of `unlearn`.

        Raises
        ------
        ValueError
            If the receipt does not fit the model. The model is then unchanged.
        """
        with self.lock:
            self._check_any(receipt, int(y not in self.labels))
            self.reapply_checked(x, y, receipt)

    def _check_any(self, receipt: Any, n_new: int) -> None:
        """Raise TypeError or ValueError unless an object is a receipt that fits.

        `n_new` is the number of classes that it adds.
        """
        if not isinstance(receipt, Receipt):
            raise TypeError(
                f"receipt: expected a Receipt, not a {type(receipt).__name__}; store it by "
                "pickle, or restore JSON by Receipt.from_json (streamnb.naive_bayes.receipt)"
            )
        try:
            self.check_receipt(receipt, len(self.labels) + n_new)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(f"cannot use the receipt: {error}") from None


def has_only_numbers(items: Iterable[Any]) -> bool:
    """Return whether all items are integers or floats. With 300 classes, a receipt has 1,300."""
    return {int, float}.issuperset(map(type, items))


def is_bounded(numbers: Sequence[float], limit: float) -> bool:
    """Return whether all numbers are finite and at most `limit` in size."""
    # `max` can miss NaN, and the sum cannot.
    return max(map(abs, numbers), default=0) <= limit and not math.isnan(sum(numbers))


def _flatten(items: Iterable[Any]) -> list[float]:
    """Return all numbers in lists of lists."""
    numbers: list[float] = []
    for item in items:
        if isinstance(item, list):
            numbers += item if has_only_numbers(item) else _flatten(item)
        else:
            numbers.append(float(item))
    return numbers
