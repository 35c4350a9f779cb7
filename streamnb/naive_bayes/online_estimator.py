"""State that `ViewsNB` learns online next to its counts: the interface."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

from streamnb.naive_bayes.receipt import has_only_numbers, is_bounded

LARGEST_NUMBER = 1e15  # a state or receipt with larger numbers is refused
MAX_VIEWS = 1 << 10  # a state with more views is refused

IndexMap = Sequence[int | None]
Number = TypeVar("Number", int, float)


class OnlineEstimator:
    """Base class of state learned online next to the counts.

    Every update is recorded in the receipt of its message as a difference, so that it can be undone
    exactly and in any order. States and differences are JSON values. Each estimator has its own
    names for them.
    """

    delta_names: ClassVar[tuple[str, ...]]
    """Names of its entries in a receipt."""

    def apply(self, deltas: Mapping[str, Any], sign: int) -> None:
        """Apply the updates of a receipt (`sign` 1), or undo them (-1)."""
        raise NotImplementedError

    def check(self, deltas: Mapping[str, Any], n_classes: int) -> None:
        """Raise ValueError if the updates cannot come from a model of `n_classes` classes."""
        raise NotImplementedError

    def remap_deltas(self, deltas: Mapping[str, Any], index_map: IndexMap) -> Mapping[str, Any]:
        """Return the updates with class indices changed.

        Class k had index `index_map[k]` before, or is new if that is None. This method is for
        estimators whose updates have the form of a state.
        """
        if self.delta_names[0] not in deltas:
            return deltas
        return {**deltas, **self.from_state(deltas).remap_classes(index_map).state()}

    def diff(self, before: Self) -> dict[str, Any]:
        """Return the updates from the state `before`, which has no further classes, to this one."""
        return {}

    def remap_classes(self, index_map: IndexMap) -> Self:
        """Return a copy with class indices changed, as in `remap_deltas`."""
        return copy.copy(self)

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        raise NotImplementedError

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Create the estimator from `state`. Invalid state raises an exception of any type."""
        raise NotImplementedError


def remap_values(values: Sequence[Number], index_map: IndexMap, initial: Number) -> list[Number]:
    """Return one value for each class after `remap_deltas`; new classes have `initial`."""
    return [values[k] if k is not None and k < len(values) else initial for k in index_map]


def check_numbers(numbers: Any) -> None:
    """Raise ValueError unless `numbers` is a list of finite numbers, each at most 1e15 in size."""
    if (
        not isinstance(numbers, (list, tuple))
        or not has_only_numbers(numbers)
        or not is_bounded(numbers, LARGEST_NUMBER)
    ):
        raise ValueError("receipt: not a list of finite numbers")
