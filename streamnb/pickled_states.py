"""States of objects in pickles, in a form that skops restores, too."""

from __future__ import annotations

from typing import Any, NamedTuple


class DictItems(NamedTuple):
    """A dict in a pickled state.

    skops writes the keys of a dict as text, and reads every truth value back as True.
    """

    keys: list[Any]
    values: list[Any]


def pack_state(value: Any) -> Any:
    """Return a state with `DictItems` for the dicts in it that have other keys than text."""
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return list(map(pack_state, value))
    if not isinstance(value, dict):
        return value
    packed = {key: pack_state(item) for key, item in value.items()}
    is_text = all(type(key) is str for key in packed)
    return packed if is_text else DictItems(list(packed), list(packed.values()))


def unpack_state(value: Any) -> Any:
    """Return the state that `pack_state` took."""
    if isinstance(value, DictItems):
        return dict(zip(value.keys, map(unpack_state, value.values), strict=True))
    if isinstance(value, dict):
        return {key: unpack_state(item) for key, item in value.items()}
    if isinstance(value, list) and any(isinstance(item, (dict, DictItems)) for item in value):
        return list(map(unpack_state, value))
    return value
