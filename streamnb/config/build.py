"""From plain data to a configuration; what is wrong is refused with the key's path."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct

from streamnb.config.schema import MODELS, REGIMES, Config
from streamnb.corpus.order import ORDERS
from streamnb.errors import ConfigError

__all__ = ["build", "converted"]

Made = TypeVar("Made", bound=Struct)
Kinds = Mapping[str, Mapping[str, type[Struct]]]

_AT = re.compile(
    r"^(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`)?$", re.S
)  # "Expected `float`, got `str` - at `$.model.alpha`"
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")


def build(data: dict[str, Any], source: str = "configuration") -> Config:
    """Make the configuration of plain data.

    Raises
    ------
    ConfigError
        With the key's path, what was expected, and the nearest known key.

    Examples
    --------
    >>> build({"model": {"alhpa": 1}})
    Traceback (most recent call last):
        ...
    streamnb.errors.ConfigError: configuration: model.alhpa: unknown key; did you mean 'alpha'?
    """
    data = dict(data)
    if isinstance(data.get("model"), dict) or data.get("model", 0) is None:
        data["model"] = {"kind": "classifier", **(data["model"] or {})}
    return converted(data, Config, {"model": MODELS, "feedback": REGIMES}, source)


def converted(data: dict[str, Any], made: type[Made], kinds: Kinds, source: str) -> Made:
    """Make a configuration of plain data.

    Parameters
    ----------
    data
        What a file says.
    made
        The configuration's type.
    kinds
        For each section that has a `kind`: what can be there.
    source
        The file, for messages.

    Raises
    ------
    ConfigError
        With the key's path, what was expected, and the nearest known key.
    """
    data = dict(data)
    for section, value in data.items():
        if value is None and section in made.__struct_fields__:
            data[section] = {}  # a section that is only commented out
    try:
        return msgspec.convert(data, made, strict=True)
    except msgspec.ValidationError as error:
        message, data = _narrowed(str(error), data, made)
        raise ConfigError(f"{source}: {_explained(message, data, made, kinds)}") from None


def _narrowed(message: str, data: dict[str, Any], made: type[Made]) -> tuple[str, dict[str, Any]]:
    """A message about one of several entries of a section, and the data with this entry alone."""
    match = _AT.match(message)
    section, mark, _ = (match["path"] or "").lstrip(".").partition("[...]") if match else [""] * 3
    entries = data.get(section) if mark else None
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        alone = {**data, section: {name: entry}}
        try:
            msgspec.convert(alone, made, strict=True)
        except msgspec.ValidationError as error:
            return str(error), alone
    return message, data


def _explained(message: str, data: dict[str, Any], made: type[Struct], kinds: Kinds) -> str:
    match = _AT.match(message)
    what, path = (match["what"], (match["path"] or "").lstrip(".")) if match else (message, "")
    if match is not None and match["key"]:
        return f"{path or 'top'}: a key is not text; put it in quotes if it should be"
    path = _named(path, data)
    section = re.split(r"[.\[]", path)[0]
    unknown = _UNKNOWN.match(what)
    if unknown is not None:
        key, known = unknown[1], _known_keys(path, data, made, kinds)
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
        return f"{path + '.' if path else ''}{key}: unknown key; {hint}"
    if what.startswith("Invalid value") and path.endswith("kind") and section in kinds:
        return f"{path}: {what[14:]} is not one of {', '.join(kinds[section])}"
    if what.endswith("missing required field `kind`") and section in kinds:
        return f"{path}.kind: missing: one of {', '.join(kinds[section])}"
    choices = _choices(path, data, made, kinds)
    if choices:
        return f"{path}: expected one of {', '.join(choices)}"
    lowered = what[:1].lower() + what[1:]
    return f"{path or 'top'}: {lowered.replace('`', '')}"


def _named(path: str, data: dict[str, Any]) -> str:
    """A path with the name of an entry where the message has [...] for it."""
    section, mark, rest = path.partition("[...]")
    entries = data.get(section)
    if not mark or not isinstance(entries, dict):
        return path
    return f"{section}.{next(iter(entries))}{rest}" if len(entries) == 1 else f"{section}.*{rest}"


def _section_of(path: str, data: dict[str, Any], made: type[Struct], kinds: Kinds) -> Any:
    """The type of a section that a path names."""
    name = re.split(r"[.\[]", path)[0]
    if name not in kinds:
        types = {field.name: field.type for field in msgspec.structs.fields(made)}
        return types.get(path, made)
    found: Any = data.get(name)
    for part in re.findall(r"[^.\[\]]+", path)[1:]:  # of a list or a mapping one entry
        if isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        elif isinstance(found, dict) and isinstance(found.get(part), dict):
            found = found[part]
    kind = found.get("kind") if isinstance(found, dict) else None
    return kinds[name].get(kind if isinstance(kind, str) else "")


def _choices(path: str, data: dict[str, Any], made: type[Struct], kinds: Kinds) -> list[str]:
    """The words that a key may have for its value, if it is one that has such."""
    if path == "corpus.order":
        return [*ORDERS, "shuffled:SEED"]
    section, _, key = path.rpartition(".")
    of = _section_of(section, data, made, kinds)
    if not hasattr(of, "__struct_fields__"):
        return []
    kind = {field.name: field.type for field in msgspec.structs.fields(of)}.get(key)
    literals = [part for part in (kind, *get_args(kind)) if get_origin(part) is Literal]
    return [str(word) for literal in literals for word in get_args(literal)]


def _known_keys(path: str, data: dict[str, Any], made: type[Struct], kinds: Kinds) -> list[str]:
    of = _section_of(path, data, made, kinds)
    keys = list(getattr(of, "__struct_fields__", ()))
    return ["kind", *keys] if re.split(r"[.\[]", path)[0] in kinds else keys
