"""What a model learns beside its counts: the interface of each thing that is learned so."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self


class Beside:
    """Something that is learned of messages beside their counts, and can be taken back exactly.

    What a message changed is in its receipt, what is known is in the state of its model: under
    names that nothing else there has, as JSON can hold it.
    """

    parts: ClassVar[tuple[str, ...]]  # its names in a receipt

    def move(self, parts: Mapping[str, Any], sign: int) -> None:
        """Make again what a receipt says (sign 1), or take it back (-1), exactly; in any order."""
        raise NotImplementedError

    def check(self, parts: Mapping[str, Any], classes: int) -> None:
        """Raise ValueError for a receipt that none of so many classes can have given."""
        raise NotImplementedError

    def remap_classes(
        self, parts: Mapping[str, Any], order: Sequence[int | None]
    ) -> Mapping[str, Any]:
        """A receipt's parts where class k was number order[k] before; None: there was none."""
        return parts

    def since(self, before: Self) -> dict[str, Any]:
        """What a receipt would say that leads here from another state of no more classes."""
        return {}

    def of_classes(self, places: Sequence[int | None]) -> Self:
        """The same for classes in another order: class k was number places[k], or not known."""
        return copy.copy(self)

    def state(self) -> dict[str, Any]:
        """Everything learned, as JSON can hold it."""
        raise NotImplementedError

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """What `state` gave, of a model's state; any exception where it is not sound."""
        raise NotImplementedError


def check_numbers(numbers: Any) -> None:
    """Raise ValueError for what is no list of numbers of a size that changes have."""
    if not isinstance(numbers, (list, tuple)) or not all(
        type(x) in (int, float) and abs(x) <= 1e15 for x in numbers
    ):
        raise ValueError("a receipt whose numbers are not sound")
