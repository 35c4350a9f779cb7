"""Sections of a configuration: plain data in, checked values out, what is wrong with its path.

Keys are checked as the parameters of models are (`streamnb.parameters`), those of a model's section
by the model's own table.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from streamnb.errors import ConfigError
from streamnb.parameters import Choice, Constraint, shown

# Gives the value that plain data stands for, or raises ValueError with the path it was given.
Reader = Callable[[str, Any], Any]

_REQUIRED: Any = object()


class Key(NamedTuple):
    """A key of a section: what reads it, and what it is where it is not there."""

    read: Reader
    default: Any


def key(of: Constraint | Reader, *, default: Any = _REQUIRED) -> Any:
    """Declare a key of a section; without a default it must be there."""
    return Key(of.read if isinstance(of, Constraint) else of, default)


class Section:
    """A part of a configuration: its class declares keys, others are refused; it does not change.

    A class that is one of several has a `kind`, and the key that says it.

    Raises
    ------
    ValueError
        With the key's path, what was expected, and the nearest known key.

    Examples
    --------
    >>> from streamnb.parameters import Integer
    >>> class Splits(Section):
    ...     trials: int = key(Integer(), default=100)
    >>> Splits().trials
    100
    >>> Splits(trails=3)
    Traceback (most recent call last):
        ...
    ValueError: trails: unknown key; did you mean 'trials'?
    """

    declared: ClassVar[dict[str, Key]] = {}
    explicit_keys: frozenset[str]  # the keys that were not left to their defaults
    kind: Any

    def __init_subclass__(cls, kind: str | None = None) -> None:
        own = {name: of for name, of in vars(cls).items() if isinstance(of, Key)}
        for name in own:
            delattr(cls, name)
        said = {} if kind is None else {"kind": key(Choice((kind,)), default=kind)}
        cls.declared = {**cls.declared, **said, **own}

    def __init__(self, **given: Any) -> None:
        self._read("", given)

    @classmethod
    def read(cls, path: str, plain: dict[Any, Any]) -> Self:
        """The section that plain data below a path stands for."""
        made = cls.__new__(cls)
        made._read(path, plain)
        return made

    def _read(self, path: str, plain: dict[Any, Any]) -> None:
        for name in plain:
            if name not in self.declared:
                known = list(self.declared)
                near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
                called = "null" if name is None else str(name) or "''"
                raise ValueError(f"{_below(path, called)}: unknown key; {hint}")
        for name, of in self.declared.items():
            if name in plain:
                vars(self)[name] = of.read(_below(path, name), plain[name])
            elif of.default is _REQUIRED:
                raise ValueError(f"{_below(path, name)}: missing")
            else:
                vars(self)[name] = of.default
        vars(self)["explicit_keys"] = frozenset(plain)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name}: a configuration does not change; `but` makes another one")

    def with_changes(self, **values: Any) -> Self:
        """The same with other values, which are not checked."""
        if unknown := values.keys() - self.declared.keys():
            raise AttributeError(f"a {type(self).__name__} has no key {min(unknown)!r}")
        made = self.__new__(type(self))
        vars(made).update(vars(self), **values, explicit_keys=self.explicit_keys | set(values))
        return made

    def to_dict(self) -> dict[str, Any]:
        """What YAML and JSON can hold, defaults included; `read` makes the same of it."""
        return {name: _plain(getattr(self, name)) for name in self.declared}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(other) == repr(self)

    __hash__ = None  # type: ignore[assignment]  # nobody needs it

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_dict()})"


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _plain(value: Any) -> Any:
    if isinstance(value, Section):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(name): _plain(of) for name, of in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    return list(map(_plain, value)) if isinstance(value, (list, tuple)) else value


def section(*made: type[Section], default: str | None = None) -> Reader:
    """Read a section; of several, its key `kind` says which (`default` where it does not)."""
    kinds = {of.declared["kind"].default: of for of in made} if len(made) > 1 else {}

    def read(path: str, plain: Any) -> Section:
        if isinstance(plain, made):
            return plain
        if plain is None:  # what is below the key may be commented out
            plain = {}
        if not isinstance(plain, dict):
            raise ValueError(f"{path}: expected keys and values, 'key: value'")
        if not kinds:
            return made[0].read(path, plain)
        kind = plain.get("kind", default)
        if kind is None:
            raise ValueError(f"{path}.kind: missing: one of {', '.join(kinds)}")
        if not isinstance(kind, str) or kind not in kinds:
            raise ValueError(f"{path}.kind: {shown(kind)} is not one of {', '.join(kinds)}")
        return kinds[kind].read(path, plain)

    return read


def list_of(of: Constraint | Reader, least: int = 0, *, none: bool = False) -> Reader:
    """Read a list of so many at least, as a tuple."""
    read_one = of.read if isinstance(of, Constraint) else of

    def read(path: str, plain: Any) -> tuple[Any, ...] | None:
        if plain is None and none:
            return None
        if not isinstance(plain, (list, tuple)) or len(plain) < least:
            what = f"a list of {least} values or more" if least else "a list"
            raise ValueError(f"{path}: {shown(plain)} is not {what}")
        return tuple(read_one(f"{path}[{i}]", one) for i, one in enumerate(plain))

    return read


def mapping_of(of: Constraint | Reader, least: int = 0) -> Reader:
    """Read a mapping of names to values, of so many at least."""
    read_one = of.read if isinstance(of, Constraint) else of

    def read(path: str, plain: Any) -> dict[str, Any]:
        if not isinstance(plain, Mapping) or len(plain) < least:
            what = f"names and values, {least} or more" if least else "names and values"
            raise ValueError(f"{path}: {shown(plain)} is no mapping of {what}")
        for name in plain:
            if not isinstance(name, str) or not name:
                raise ValueError(f"{path}: {shown(name)} is no name; put it in quotes")
        return {name: read_one(_below(path, name), one) for name, one in plain.items()}

    return read


def section_of(made: type[Any], kind: str, leave_out: Iterable[str] = (), **more: Any) -> Any:
    """The section of a class's parameters: its keys, defaults and checks are the class's own.

    Parameters
    ----------
    made : type
        A class that `parameter_class` decorated.
    kind : str
        What its key `kind` says.
    leave_out : iterable of str, default ()
        Parameters that are no keys.
    **more : Key
        Further keys.

    Returns
    -------
    type
        A subclass of `Section`.
    """
    keys = {
        name: key(known.check, default=known.default)
        for name, known in made.parameter_table.items()
        if name not in set(leave_out)
    }
    body = {"__doc__": f"Parameters of `{made.__name__}`.", **keys, **more}
    return type(f"{made.__name__}Config", (Section,), body, kind=kind)


Made = TypeVar("Made", bound=Section)


def converted(data: dict[Any, Any], made: type[Made], source: str) -> Made:
    """Make a configuration of plain data.

    Parameters
    ----------
    data : dict
        What a file says. What is below a key may be commented out: then it has its default.
    made : type
        The configuration's type.
    source : str
        The file, for messages.

    Raises
    ------
    ConfigError
        With the key's path, what was expected, and the nearest known key.
    """
    required = {name for name, of in made.declared.items() if of.default is _REQUIRED}
    plain = {
        name: value
        for name, value in data.items()
        if value is not None or name in required or name not in made.declared
    }
    try:
        return made.read("", plain)
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from None
