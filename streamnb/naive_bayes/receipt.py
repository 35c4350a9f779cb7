"""What learning a message changed, as the learner hands it out and takes it back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

NOTHING: Mapping[str, Any] = {}
_FIRST = ("recalibration", "noise")  # parts that have a place of their own in JSON


class Receipt(NamedTuple):
    """What learning a message added: enough to unlearn it exactly, whatever was learned since.

    Attributes
    ----------
    decay_halvings : int
        How often 2 the weights had been divided by until then (see `MemoryCounts.age`).
    class_weight : float
        What it added to the weight of its class.
    weights : tuple of float
        How many times its counts went in: one number for each member of the model.
    parts : mapping of str
        What else it changed, by the name of whoever changed it; nobody else reads it.

    Examples
    --------
    >>> Receipt.from_json(Receipt(0, 1.0, (0.5,), {"noise": [0.25, 1]}).as_json())
    Receipt(decay_halvings=0, class_weight=1.0, weights=(0.5,), parts={'noise': [0.25, 1]})
    """

    decay_halvings: int
    class_weight: float
    weights: tuple[float, ...]
    parts: Mapping[str, Any] = NOTHING

    def as_json(self) -> list[Any]:
        """As JSON can hold it."""
        first = [self.parts.get(name) for name in _FIRST]
        rest = {name: part for name, part in self.parts.items() if name not in _FIRST}
        return [
            self.decay_halvings,
            self.class_weight,
            list(self.weights),
            *first,
            *([rest] if rest else []),
        ]

    @classmethod
    def of_json(cls, found: Any) -> Receipt:
        """What `as_json` gave, ValueError where it is not sound; owners check their own parts."""
        decay_halvings, class_weight, weights, *first = found[: 3 + len(_FIRST)]
        parts = {name: of for name, of in zip(_FIRST, first, strict=True) if of is not None}
        for rest in found[3 + len(_FIRST) :]:
            parts |= rest
        numbers = [class_weight, *weights, *_numbers(list(parts.values()))]
        whole = type(decay_halvings) is int and decay_halvings >= 0
        if not whole or not all(abs(float(x)) <= 1e100 for x in numbers):
            raise ValueError("the receipt is not sound")
        return cls(
            decay_halvings, float(class_weight), tuple(map(float, weights)), parts or NOTHING
        )

    @classmethod
    def of_text(cls, text: str) -> Receipt:
        """What was written as JSON text."""
        return cls.of_json(json.loads(text))


def _numbers(of: Sequence[Any]) -> list[float]:
    """All numbers in lists of lists."""
    flat: list[float] = []
    for item in of:
        if isinstance(item, list):
            flat += _numbers(item)
        else:
            flat.append(float(item))
    return flat
