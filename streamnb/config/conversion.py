"""From plain data to a configuration; what is wrong is refused with the key's path."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from pydantic import model_validator as validator_of
from pydantic_core import PydanticCustomError

from streamnb.errors import ConfigError
from streamnb.parameters import Parameter


class Section(BaseModel):
    """A part of the configuration: keys are checked, unknown ones refused."""

    model_config = ConfigDict(defer_build=True, frozen=True, strict=True, extra="forbid")

    @validator_of(mode="before")
    @classmethod
    def _refuse_unknown(cls, data: Any) -> Any:
        for key in data if isinstance(data, dict) else ():
            if key not in cls.model_fields:
                known = list(cls.model_fields)
                near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
                raise PydanticCustomError(
                    "unknown_key", "unknown key; {hint}", {"key": _shown(key), "hint": hint}
                )
        return data


def _shown(key: Any) -> str:
    return "null" if key is None else str(key)


def leaf(name: str, known: Parameter) -> Any:
    """The type of a key that is a parameter of a class: what that class's own check allows."""

    def checked(value: Any) -> Any:
        value = known.check.of_plain(value)
        try:
            known.check(name, value)
        except ValueError as error:
            message = str(error).removeprefix(f"{name}: ")
            raise PydanticCustomError("refused", "{message}", {"message": message}) from None
        return value

    return Annotated[Any, BeforeValidator(checked)]


def section_of(
    made: type[Any], kind: str, leave_out: Iterable[str] = (), **more: Any
) -> type[Section]:
    """The section of a class's parameters: its keys, defaults and checks are the class's own.

    Parameters
    ----------
    made : type
        A class that `parameterised` decorated.
    kind : str
        What its key `kind` says.
    leave_out : iterable of str, default ()
        Parameters that are no keys.
    **more
        Further keys: type and default of each.
    """
    keys = {
        name: (leaf(name, known), known.default)
        for name, known in made._table.items()
        if name not in set(leave_out)
    }
    fields: dict[str, Any] = {"kind": (Literal[kind], kind), **keys, **more}
    return create_model(
        f"{made.__name__}Config", __base__=Section, __doc__=f"Parameters of `{made.__name__}`.",
        **fields,
    )  # fmt: skip


def one_of_kinds(*sections: type[Section], default: str | None = None) -> Any:
    """The type of a key whose mapping says by `kind` which section it is."""
    kinds = {of.model_fields["kind"].default: of for of in sections}

    def of_kind(value: Any) -> Any:
        if isinstance(value, Section):
            return value
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise PydanticCustomError("refused", "expected keys and values, 'key: value'")
        kind = value.get("kind", default)
        if kind is None:
            known = ", ".join(kinds)
            raise PydanticCustomError("kind", "missing: one of {known}", {"known": known})
        if not isinstance(kind, str) or kind not in kinds:
            raise PydanticCustomError(
                "kind",
                "{kind} is not one of {known}",
                {"kind": f"{kind!r:.80}", "known": ", ".join(kinds)},
            )
        return {**value, "kind": kind}

    union = sections[0]
    for section in sections[1:]:
        union = union | section  # type: ignore[assignment]  # a union of types
    tagged = Annotated[union, Field(discriminator="kind")] if len(sections) > 1 else union
    return Annotated[tagged, BeforeValidator(of_kind)]


Made = TypeVar("Made", bound=Section)


def converted(data: dict[str, Any], made: type[Made], source: str) -> Made:
    """Make a configuration of plain data.

    Parameters
    ----------
    data : dict
        What a file says.
    made : type
        The configuration's type.
    source : str
        The file, for messages.

    Raises
    ------
    ConfigError
        With the key's path, what was expected, and the nearest known key.
    """
    plain = dict(data)
    for key, field in made.model_fields.items():
        # What is below a key may be commented out: then it has its default.
        if key in plain and plain[key] is None:
            del plain[key]
            if field.is_required():
                plain[key] = {}
    try:
        return made.model_validate(plain)
    except ValidationError as error:
        raise ConfigError(f"{source}: {_explained(error, plain)}") from None


def _explained(error: ValidationError, data: Any) -> str:
    """The first thing that is wrong, after the path of its key."""
    first = error.errors(include_url=False)[0]
    context = first.get("ctx", {})
    parts = _path(first["loc"], data, first["type"] == "missing")
    if first["type"] == "unknown_key":
        parts.append(context["key"])
    elif first["type"] == "kind":
        parts.append("kind")
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    message = first["msg"]
    if first["type"] not in ("unknown_key", "kind", "refused", "missing"):
        message = f"{message[:1].lower()}{message[1:]}, not {first['input']!r:.60}"
    return f"{path.lstrip('.') or 'top'}: {message}"


def _path(loc: tuple[Any, ...], data: Any, missing: bool) -> list[Any]:
    """The keys that lead to a value, without the members of unions that pydantic names."""
    parts: list[Any] = []
    for number, part in enumerate(loc):
        last = number == len(loc) - 1
        inside = (isinstance(data, dict) and part in data) or (
            isinstance(data, (list, tuple)) and isinstance(part, int) and part < len(data)
        )
        if inside:
            data = data[part]
        if inside or (last and missing):
            parts.append(part)
    return parts
