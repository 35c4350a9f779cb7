"""Sections of a configuration: classes that declare keys and check plain data.

Keys are checked like the parameters of models (`streamnb.parameters`). A section for a model has
the parameters of the model's class as keys.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, dataclass_transform

from streamnb.constraints import Choice, ClassPrior, Constraint, describe, suggest
from streamnb.errors import ConfigError
from streamnb.foreign_names import counterpart

# Converts the plain data below a path; raises ValueError with that path.
Converter = Callable[[str, Any], Any]

_REQUIRED: Any = object()
# Names that other programs have for the words of keys; `foreign_names` has those of parameters.
_SYNONYMS = {
    "target": "label", "labels": "label", "y": "label", "features": "columns", "x": "columns",
    "sep": "delimiter", "separator": "delimiter", "file": "path", "filename": "path",
    "na_values": "missing", "na": "missing", "dec": "decimal", "random_state": "seed",
    "test_size": "test",
}  # fmt: skip


class Key(NamedTuple):
    """A key of a section: the converter of its value, and its default."""

    convert: Converter
    default: Any


def key(type_: Constraint | Converter, *, default: Any = _REQUIRED) -> Any:
    """Declare a key of a section.

    A key without default is required. A key can be None if this is its default.
    """
    if default is None and isinstance(type_, Constraint):
        type_ = type_.or_none()
    return Key(_converter(type_), default)


def _converter(type_: Constraint | Converter) -> Converter:
    return type_.read if isinstance(type_, Constraint) else type_


@dataclass_transform(
    eq_default=False, kw_only_default=True, frozen_default=True, field_specifiers=(key,)
)
class Section:
    """A part of a configuration. Subclasses declare the keys; instances cannot be changed.

    Subclasses that are alternatives have a `kind`, which becomes a key.

    Parameters
    ----------
    **values
        Values of the keys.

    Raises
    ------
    ValueError
        With the path of the key, what was expected, and the nearest known key.

    Examples
    --------
    >>> from streamnb.constraints import Integer
    >>> class Splits(Section):
    ...     trials: int = key(Integer(), default=100)
    >>> Splits().trials
    100
    >>> Splits(trails=3)
    Traceback (most recent call last):
        ...
    ValueError: trails: unknown key; did you mean 'trials'?
    """

    declared_keys: ClassVar[dict[str, Key]] = {}
    kind: Any = None

    def __init_subclass__(cls, kind: str | None = None) -> None:
        own_keys = {name: value for name, value in vars(cls).items() if isinstance(value, Key)}
        for name in own_keys:
            delattr(cls, name)
        kind_key = {} if kind is None else {"kind": key(Choice((kind,)), default=kind)}
        cls.declared_keys = {**cls.declared_keys, **kind_key, **own_keys}

    def __init__(self, **values: Any) -> None:
        self._read("", values)

    @property
    def explicit_keys(self) -> frozenset[str]:
        """The keys that were set explicitly."""
        keys: frozenset[str] = vars(self)["_explicit_keys"]
        return keys

    @classmethod
    def from_dict(cls, path: str, data: dict[Any, Any]) -> Self:
        """Return the section for the plain data below a path."""
        section = cls.__new__(cls)
        section._read(path, data)
        return section

    def _read(self, path: str, data: dict[Any, Any]) -> None:
        for name in data:
            if name not in self.declared_keys:
                text = "null" if name is None else str(name) or "''"
                raise ValueError(f"{_join(path, text)}: unknown key; {self.suggest_key(str(name))}")
        for name, declared in self.declared_keys.items():
            if name in data and (data[name] is not None or declared.default is not None):
                vars(self)[name] = declared.convert(_join(path, name), data[name])
            elif declared.default is _REQUIRED:
                raise ValueError(f"{_join(path, name)}: missing")
            else:
                vars(self)[name] = declared.default
        keys = self.declared_keys
        vars(self)["_explicit_keys"] = frozenset(
            name for name, value in data.items() if (value, keys[name].default) != (None, None)
        )

    def suggest_key(self, name: str) -> str:
        """Return a hint for an unknown key: the nearest key, or all keys."""
        known_names = list(self.declared_keys)
        word = name.lower()
        word = _SYNONYMS.get(word) or counterpart(word) or word
        near = [key_name for key_name in known_names if word in key_name.split("_")]
        near = near or difflib.get_close_matches(name, known_names, n=1, cutoff=0.5)
        if near:
            return f"did you mean {' or '.join(map(repr, near))}?"
        return f"known keys: {', '.join(known_names)}"

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"{name}: a configuration cannot be changed; with_changes() returns a changed copy"
        )

    def with_changes(self, **values: Any) -> Self:
        """Return a copy with other values, which are not checked."""
        if unknown := values.keys() - self.declared_keys.keys():
            raise AttributeError(f"a {type(self).__name__} has no key {min(unknown)!r}")
        section = self.__new__(type(self))
        explicit_keys = self.explicit_keys | set(values)
        vars(section).update(vars(self), **values, _explicit_keys=explicit_keys)
        return section

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for YAML or JSON, defaults included; `from_dict` reads it back."""
        return {name: _to_plain(getattr(self, name)) for name in self.declared_keys}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(other) == repr(self)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # sections are compared, never looked up

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_dict()})"


class ParameterSection(Section):
    """A section whose keys are the parameters of classes, with their defaults and checks.

    Examples
    --------
    >>> from streamnb import MultinomialNB
    >>> class Model(ParameterSection, kind="multinomial", parameters=MultinomialNB):
    ...     '''Parameters of `MultinomialNB`.'''
    >>> Model().alpha == MultinomialNB().alpha
    True
    """

    model_class: ClassVar[type[Any]]

    def __init_subclass__(
        cls,
        kind: str | None = None,
        parameters: type[Any] | tuple[type[Any], ...] = (),
        exclude: Collection[str] = (),
        use_defaults: bool = True,
    ) -> None:
        """Declare the parameters of a class as keys, without the excluded ones.

        A key in the body of the class overrides a parameter of that name. Without `use_defaults`,
        the default of each parameter is None.
        """
        classes = parameters if isinstance(parameters, tuple) else (parameters,)
        for parameter_class in classes:
            cls.model_class = parameter_class
            for name, parameter in parameter_class.parameter_table.items():
                if name not in exclude and not isinstance(vars(cls).get(name), Key):
                    check = parameter.check
                    type_ = prior_type(check) if isinstance(check, ClassPrior) else check
                    default = parameter.default if use_defaults else None
                    setattr(cls, name, Key(_converter(type_), default))
        super().__init_subclass__(kind)


def find_key(name: str, sections: Mapping[str, type[Section]]) -> str | None:
    """Return the key that a name of streamnb or another program means, such as model.alpha.

    Return None if no section has it.
    """
    for word in (name, _SYNONYMS.get(name), counterpart(name)):
        for section, section_class in sections.items():
            if word in section_class.declared_keys and word != "kind":
                return f"{section}.{word}"
    return None


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _to_plain(value: Any) -> Any:
    if isinstance(value, Section):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(name): _to_plain(item) for name, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    return list(map(_to_plain, value)) if isinstance(value, (list, tuple)) else value


def assign_key(data: dict[str, Any], key: str, value: Any) -> None:
    """Set a key of plain data, such as model.alpha. Raise ValueError for a section without keys."""
    *sections, last_key = key.split(".")
    for section in sections:
        if data.get(section) is None:  # a section of a file may be empty
            data[section] = {}
        data = data[section]
        if not isinstance(data, dict):
            raise ValueError(f"{key}: {section} has one value, so it has no key {last_key}")
    data[last_key] = value


def section_type(*classes: type[Section], default: str | None = None) -> Converter:
    """Return the converter of a section; the key `kind` chooses one of several classes.

    Parameters
    ----------
    *classes
        The alternatives.
    default
        The kind of a section without the key `kind`; None if the key is required.
    """
    kinds = {cls.declared_keys["kind"].default: cls for cls in classes} if len(classes) > 1 else {}

    def convert(path: str, data: Any) -> Section:
        if isinstance(data, classes):
            return data
        if data is None:  # for example, all its keys are commented out
            data = {}
        if not isinstance(data, dict):
            raise ValueError(f"{path}: expected keys and values, {_example(data, classes)}")
        if not kinds:
            return classes[0].from_dict(path, data)
        kind = data.get("kind", default)
        if kind is None:
            raise ValueError(f"{path}.kind: missing; set it to one of {', '.join(kinds)}")
        if not isinstance(kind, str) or kind not in kinds:
            raise ValueError(
                f"{path}.kind: {describe(kind)} is not one of {', '.join(kinds)}"
                f"{suggest(kind, kinds)}"
            )
        return kinds[kind].from_dict(path, data)

    return convert


def _example(data: Any, classes: Sequence[type[Section]]) -> str:
    """Return an example of a section, with the text that stands in its place if that fits."""
    if isinstance(data, str):
        for name, cls in product(("kind", "path"), classes):
            if name in cls.declared_keys:
                with contextlib.suppress(ValueError):
                    cls.declared_keys[name].convert(name, data)
                    return f"such as {{{name}: {data:.80}}}"
    return "'key: value'"


def list_type(item_type: Constraint | Converter, min_length: int = 0) -> Converter:
    """Return the converter of a list to a tuple."""
    convert_item = _converter(item_type)

    def convert(path: str, data: Any) -> tuple[Any, ...]:
        if not isinstance(data, (list, tuple)) or len(data) < min_length:
            expected = f"a list of {min_length} values or more" if min_length else "a list"
            is_word = isinstance(data, str) and re.fullmatch(r"[\w .-]{1,80}", data)
            hint = f"; write [{data}]" if is_word and min_length < 2 else ""
            raise ValueError(f"{path}: {describe(data)} is not {expected}{hint}")
        return tuple(convert_item(f"{path}[{i}]", item) for i, item in enumerate(data))

    return convert


def mapping_type(
    value_type: Constraint | Converter, min_length: int = 0, has_labels: bool = False
) -> Converter:
    """Return the converter of a mapping from names, or labels, to values."""
    convert_value = _converter(value_type)
    keys = "labels" if has_labels else "names"
    minimum = f", {min_length} or more" if min_length else ""

    def convert(path: str, data: Any) -> dict[str, Any]:
        if not isinstance(data, Mapping) or len(data) < min_length:
            text = f"a mapping of {keys} and values{minimum}"
            raise ValueError(f"{path}: {describe(data)} is not {text}")
        values: dict[str, Any] = {}
        for key_data, value in data.items():
            if not has_labels and (not isinstance(key_data, str) or not key_data):
                text = f"{_yaml_text(key_data)} is not a name; put it in quotes"
                raise ValueError(f"{path}: {text}")
            name = convert_name(path, key_data)
            if name in values:  # 1 and '1'
                raise ValueError(f"{path}: the label {name!r:.80} occurs twice")
            values[name] = convert_value(_join(path, name), value)
        return values

    return convert


def _yaml_text(value: Any) -> str:
    """Return a value as written in YAML, for errors."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true (or yes, on)", False: "false (or no, off)"}[value]
    return describe(value)


def convert_name(path: str, value: Any) -> str:
    """Return a label, or the name of a column, as text.

    YAML reads unquoted `0` and `1` as numbers. They are accepted, because their spelling is
    unique.

    Raises
    ------
    ValueError
        If YAML changed the value (`yes`, `007`, `1.0`, a date), or it is empty text.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise ValueError(f"{path}: {_yaml_text(value)} is not text; put it in quotes")
    if not value:
        raise ValueError(f"{path}: expected a name, found empty text")
    return value


def prior_type(check: ClassPrior) -> Converter:
    """Return the converter of a prior: a word, or a mapping from labels to probabilities."""
    convert_mapping = mapping_type(Constraint(lambda share: True), has_labels=True)

    def convert(path: str, value: Any) -> Any:
        labelled = convert_mapping(path, value) if isinstance(value, Mapping) else value
        return check.read(path, labelled)

    return convert


Built = TypeVar("Built", bound=Section)


def build_section(data: dict[Any, Any], section_class: type[Built], source: str) -> Built:
    """Return the configuration that plain data describes.

    Parameters
    ----------
    data : dict
        The content of a file. A key without a value has its default.
    section_class : type
        The class of the configuration.
    source : str
        The name of the file, for errors.

    Raises
    ------
    ConfigError
        With the path of the key, what was expected, and the nearest known key.
    """
    declared_keys = section_class.declared_keys
    required = {name for name, declared in declared_keys.items() if declared.default is _REQUIRED}
    present = {
        name: value
        for name, value in data.items()
        if value is not None or name in required or name not in declared_keys
    }
    try:
        return section_class.from_dict("", present)
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from None
