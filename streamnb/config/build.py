"""From plain data to a configuration; what is wrong is refused with the key's path."""

from __future__ import annotations

import difflib
import re
from typing import Any, Literal, get_args, get_origin

import msgspec

from streamnb.config.schema import MODELS, REGIMES, Config
from streamnb.corpus.order import ORDERS
from streamnb.errors import ConfigError

__all__ = ["build"]

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
    data = _with_exponents(data)
    for section, value in data.items():
        if value is None and section in Config.__struct_fields__:
            data[section] = {}  # a section that is only commented out
    if isinstance(data.get("model"), dict):
        data["model"] = {"kind": "classifier", **data["model"]}
    try:
        return msgspec.convert(data, Config, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {_explained(str(error), data)}") from None


_EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]{1,4}")


def _with_exponents(value: Any) -> Any:
    """Take 1e-3 for the number it is in YAML 1.2; to PyYAML, which reads YAML 1.1, it is text."""
    if isinstance(value, dict):
        return {key: _with_exponents(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_exponents(item) for item in value]
    if isinstance(value, str) and _EXPONENT.fullmatch(value):
        return float(value)
    return value


def _explained(message: str, data: dict[str, Any]) -> str:
    match = _AT.match(message)
    what, path = (match["what"], (match["path"] or "").lstrip(".")) if match else (message, "")
    if match is not None and match["key"]:
        return f"{path or 'top'}: a key is not text; put it in quotes if it should be"
    unknown = _UNKNOWN.match(what)
    if unknown is not None:
        key = unknown[1]
        near = difflib.get_close_matches(key, _known_keys(path, data), n=1, cutoff=0.5)
        hint = (
            f"did you mean {near[0]!r}?"
            if near
            else f"known are {', '.join(_known_keys(path, data))}"
        )
        return f"{path + '.' if path else ''}{key}: unknown key; {hint}"
    if what.startswith("Invalid value") and path.endswith("kind"):
        kinds = MODELS if path.startswith("model") else REGIMES
        return f"{path}: {what[14:]} is not one of {', '.join(kinds)}"
    choices = _choices(path, data)
    if choices:
        return f"{path}: expected one of {', '.join(choices)}"
    lowered = what[:1].lower() + what[1:]
    return f"{path or 'top'}: {lowered.replace('`', '')}"


def _choices(path: str, data: dict[str, Any]) -> list[str]:
    """The words that a key may have for its value, if it is one that has such."""
    if path == "corpus.order":
        return [*ORDERS, "shuffled:SEED"]
    section, _, key = path.partition(".")
    made: Any = {field.name: field.type for field in msgspec.structs.fields(Config)}.get(section)
    if section == "model" and isinstance(data["model"], dict):
        made = MODELS.get(str(data["model"].get("kind")))
    if not hasattr(made, "__struct_fields__"):
        return []
    kind = {field.name: field.type for field in msgspec.structs.fields(made)}.get(key)
    literals = [part for part in (kind, *get_args(kind)) if get_origin(part) is Literal]
    return [word for literal in literals for word in get_args(literal)]


def _known_keys(path: str, data: dict[str, Any]) -> list[str]:
    section = path.partition("[")[0]
    if section in ("model", "feedback"):
        found = data.get(section)
        if path != section:  # one of a list
            number = int(path.partition("[")[2].partition("]")[0])
            found = found[number] if isinstance(found, list) and number < len(found) else None
        kind = found.get("kind") if isinstance(found, dict) else None
        made = (MODELS if section == "model" else REGIMES).get(
            kind if isinstance(kind, str) else ""
        )
        return ["kind", *getattr(made, "__struct_fields__", ())]
    field = {field.name: field.type for field in msgspec.structs.fields(Config)}.get(path, Config)
    return list(getattr(field, "__struct_fields__", ()))
