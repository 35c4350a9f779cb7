"""Parameters as data: each is declared once, in its class.

A declaration has a default, a constraint and a role; the class's docstring has the meaning. They
determine

- the constructor, with its checks and its documentation;
- the keys of the YAML configuration, and the reference page;
- the values in model files;
- the rules for sweeps, and for changes after training.
"""

from __future__ import annotations

import copy
import inspect
import textwrap
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypeVar, dataclass_transform

from streamnb.constraints import Constraint
from streamnb.foreign_names import translate_names, unknown_name_error
from streamnb.locks import ForkSafeLock
from streamnb.patterns import lazy_pattern
from streamnb.pickled_states import pack_state, unpack_state

# "formula": read at prediction time. It can change at any time; runs that differ only in it share
# their counts. "counts": determines the features and counts; fixed after the first message.
# "training": determines the weight of a message. It can change; earlier messages keep their weight.
Role = Literal["formula", "counts", "training"]


class Parameter(NamedTuple):
    """One parameter of a class.

    Attributes
    ----------
    default
        The value if none is given.
    check
        The constraint of its values.
    role
        Its effect: "formula", "counts" or "training".
    help
        Its meaning, in a sentence or two, from the docstring of the class that declares it.
    type
        The annotation of its class.
    kw_only
        Whether the constructor accepts it by name only.
    """

    default: Any
    check: Constraint
    role: Role
    help: str = ""
    type: str = ""
    kw_only: bool = False


def parameter(check: Constraint, role: Role, *, default: Any) -> Any:
    """Declare a parameter: a field of a class that `parameter_class` decorates.

    The section "Parameters" of the class's docstring has its meaning.
    """
    return Parameter(default, check, role)


def inherited(model: type[Any], name: str, **changes: Any) -> Any:
    """Declare a parameter as another class does, with changes such as `default=`."""
    return model.parameter_table[name]._replace(**changes)


Accepted = TypeVar("Accepted", contravariant=True)
Stored = TypeVar("Stored", covariant=True)


class ConvertedParameter(Protocol[Accepted, Stored]):
    """Annotation of a parameter whose accepted values are converted before they are stored."""

    def __get__(self, instance: object, owner: type) -> Stored: ...

    def __set__(self, instance: Any, value: Accepted) -> None: ...


_CONVERTED = "ConvertedParameter["

_ATTRIBUTE: Any = object()


def attribute(*, init: bool = False) -> Any:
    """Declare an attribute that is not a parameter (`init=False` is for type checkers)."""
    return _ATTRIBUTE


Class = TypeVar("Class", bound=type)


@dataclass_transform(eq_default=False, field_specifiers=(parameter, attribute))
def parameter_class(*, kw_only: bool = False) -> Callable[[Class], Class]:
    """Create constructor and documentation from a class's own and inherited parameters.

    It works like `dataclasses.dataclass`, but saves half a millisecond per class in each process.

    Parameters
    ----------
    kw_only
        True for parameters that are passed by name only.
    """

    def decorate(decorated: Class) -> Class:
        """Add the table of parameters, the constructor and the documentation to a class."""
        cls: Any = decorated
        types = vars(cls).get("__annotations__", {})
        meanings = _parameter_meanings(cls.__doc__ or "")  # without docstrings, there are none
        own: dict[str, Parameter | None] = {}
        for name, value in list(vars(cls).items()):
            if isinstance(value, Parameter):
                type_text = types[name]
                if type_text.startswith(_CONVERTED):
                    type_text = type_text.removeprefix(_CONVERTED).rpartition(", ")[0]
                text = meanings.get(name, value.help)
                own[name] = value._replace(help=text, type=type_text, kw_only=kw_only)
                setattr(cls, name, value.default)
            elif value is _ATTRIBUTE:
                own[name] = None  # overrides a parameter of a base class
                delattr(cls, name)
        cls._own_parameters = own
        inherited: dict[str, Parameter | None] = {}
        for base in reversed(cls.__mro__):
            inherited |= vars(base).get("_own_parameters", {})
        table = {name: entry for name, entry in inherited.items() if entry is not None}
        cls.parameter_table = table
        cls.__init__ = _constructor(table)
        cls.__init__.__module__ = cls.__module__
        cls.__init__.__qualname__ = f"{cls.__qualname__}.__init__"
        annotated = [vars(base).get("__annotations__", {}) for base in cls.__mro__]
        cls._attributes = frozenset(dir(cls)).union(*annotated)
        if cls.__doc__ is not None and table:
            cls.__doc__ = _Documentation(cls.__doc__, table)
        return decorated

    return decorate


def _constructor(table: Mapping[str, Parameter]) -> Callable[..., None]:
    """Return an `__init__` that sets each parameter, then calls `__post_init__` if it exists."""
    arguments = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for name, entry in sorted(table.items(), key=lambda item: item[1].kw_only):
        kind = inspect.Parameter.KEYWORD_ONLY if entry.kw_only else arguments[0].kind
        arguments.append(
            inspect.Parameter(name, kind, default=entry.default, annotation=entry.type)
        )
    signature = inspect.Signature(arguments, return_annotation="None")

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        try:
            kwargs = translate_names(type(self), kwargs)
            bound = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            unknown = next((name for name in kwargs if name not in table), None)
            if unknown is not None:
                raise TypeError(unknown_name_error(type(self), unknown)) from None
            raise TypeError(f"{type(self).__name__}() {error}") from None
        for name, entry in table.items():
            setattr(self, name, bound.arguments.get(name, entry.default))
        if hasattr(self, "__post_init__"):
            self.__post_init__()

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


_SECTION = lazy_pattern(r"\n\n *Parameters\n *-+\n((?: *\S.*\n?)*)")
_SECTIONS = ("Attributes", "Raises", "Notes", "References", "Examples")


def _parameter_meanings(docstring: str) -> dict[str, str]:
    """Return the text below each name in the section "Parameters" of a class's docstring."""
    meanings: dict[str, str] = {}
    section = _SECTION.search(docstring)
    for line in textwrap.dedent(section[1]).splitlines() if section else ():
        if line.startswith(" "):
            name = next(reversed(meanings))
            meanings[name] = f"{meanings[name]} {line.strip()}".lstrip()
        else:
            meanings[line] = ""
    return meanings


class _Documentation:
    """A class's docstring, with the section of all its parameters in place of its own ones."""

    def __init__(self, text: str, table: Mapping[str, Parameter]) -> None:
        self._text, self._table = text, table

    def __get__(self, instance: object, owner: type) -> str:
        text = _SECTION.sub("\n", inspect.cleandoc(self._text))
        lines = ["Parameters", "----------"]
        for name, entry in self._table.items():
            lines.append(f"{name} : {entry.type}, default {entry.default!r}")
            lines.append(textwrap.indent(textwrap.fill(entry.help, 88), "    "))
        starts = (text.find(f"\n{name}\n---") for name in _SECTIONS)
        end = min((start for start in starts if start >= 0), default=len(text))
        section = "\n".join(lines)
        return f"{text[:end].rstrip()}\n\n{section}\n\n{text[end:].lstrip()}"


def _own_signature(cls: type[Any]) -> inspect.Signature | None:
    """Return the signature of the constructor of a user's subclass; None for streamnb's own.

    The arguments of such a constructor become attributes. So river and scikit-learn can clone and
    print the object.
    """
    constructor: Any = cls.__init__
    is_own = not cls.__module__.startswith("streamnb.") and not hasattr(
        constructor, "__signature__"
    )
    return inspect.signature(constructor) if is_own else None


def _copy_changes(source: ParametersMixin, original: Any, target: Any) -> None:
    """Set the parameters, also nested ones, that were changed after an object was created.

    A parameter that the target's constructor set to another value is left.
    """
    for name in source.parameter_table:
        values = [getattr(owner, name) for owner in (source, original, target)]
        nested = [value if isinstance(value, list) else [value] for value in values]
        kinds = [list(map(type, members)) for members in nested]
        is_nested = any(isinstance(member, ParametersMixin) for member in nested[0])
        is_default = kinds[1] == kinds[2] and all(
            isinstance(before, ParametersMixin) or before == after
            for before, after in zip(nested[1], nested[2], strict=True)
        )
        if is_nested and kinds[0] == kinds[1] == kinds[2]:
            for members in zip(*nested, strict=True):
                _copy_changes(*members)
        elif values[0] != values[1] and is_default:
            own = values[0]
            setattr(target, name, own.clone() if hasattr(own, "clone") else copy.deepcopy(own))


class ParametersMixin:
    """An object with declared parameters, which are checked at each assignment.

    Setting an undeclared attribute raises an error, so misspelt names are noticed. Threads can
    share the object: every public method holds its lock.
    """

    parameter_table: ClassVar[dict[str, Parameter]] = {}
    _attributes: ClassVar[frozenset[str]] = frozenset()
    # Names of other libraries with another meaning in this class, each with advice.
    foreign_names: ClassVar[Mapping[str, str]] = {}
    unpickled_attributes: ClassVar[tuple[str, ...]] = ("lock",)  # not pickled and not copied
    lock: threading.RLock

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Create the object and its lock, also during unpickling or copying."""
        self = super().__new__(cls)
        object.__setattr__(self, "lock", ForkSafeLock())
        if signature := _own_signature(cls):
            with suppress(TypeError):  # the constructor raises it again
                bound = signature.bind(self, *args, **kwargs)
                bound.apply_defaults()
                del bound.arguments[next(iter(signature.parameters))]
                arguments = bound.arguments.items()
                vars(self).update((name, x) for name, x in arguments if not hasattr(cls, name))
        return self

    def _constructor_names(self) -> list[str]:
        """Return the names of the constructor's arguments; for **kwargs, the names in the call."""
        signature = _own_signature(type(self))
        if signature is None:
            return list(self.parameter_table)
        return [name for name in super()._get_params() if name != "_POSITIONAL_ARGS"]  # type: ignore[misc]  # of river's base classes

    def _has_learned(self) -> bool:
        """Return whether the object has learned, which fixes parameters of the role "counts"."""
        return False

    def _check_change(self, name: str, value: Any) -> None:
        """Raise ValueError if a valid value contradicts the learned state."""

    def _on_change(self, name: str) -> None:
        """Update the state that depends on a changed parameter."""

    def __setattr__(self, name: str, value: Any) -> None:
        declared = self.parameter_table.get(name)
        if declared is None:
            if name[0] != "_" and name not in self._attributes and name not in vars(self):
                raise AttributeError(unknown_name_error(type(self), name, "attribute"))
            object.__setattr__(self, name, value)
            return
        check = declared.check
        if check.listed and not check.fits(value) and check.fits(check.from_plain(value)):
            value = check.from_plain(value)  # a list for a pair
        check(name, value)
        with self.lock:
            self._check_change(name, value)
            if declared.role == "counts" and name in vars(self) and self._has_learned():
                raise ValueError(
                    f"{name}: cannot change after the first message; create a new model"
                )
            object.__setattr__(self, name, value)
            self._on_change(name)

    def clone(
        self, new_params: dict[str, Any] | None = None, include_attributes: bool = False
    ) -> Any:
        """Return an untrained object with the same parameters, except for `new_params`.

        With `include_attributes` it is a copy that includes the learned state.
        """
        params = translate_names(type(self), new_params or {})
        if include_attributes:
            cloned = copy.deepcopy(self)
        elif _own_signature(type(self)) is None:
            return super().clone(params)  # type: ignore[misc]  # of river's base classes
        else:
            arguments = {
                name: params.pop(name) for name in self._constructor_names() if name in params
            }
            original = super().clone()  # type: ignore[misc]
            cloned = super().clone(arguments) if arguments else original  # type: ignore[misc]
            _copy_changes(self, original, cloned)
        for name, value in params.items():
            setattr(cloned, name, value)
        return cloned

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, as scikit-learn reads them.

        Parameters
        ----------
        deep : bool, default True
            Whether to add the parameters of nested objects: "words__ngrams" is `ngrams` of `words`.
        """
        params = {name: getattr(self, name) for name in self._constructor_names()}
        for name, value in list(params.items()):
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params |= {f"{name}__{key}": nested for key, nested in value.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including nested ones, as in scikit-learn.

        Raises
        ------
        ValueError
            If there is no such parameter, or a value is not valid.
        """
        nested: dict[str, dict[str, Any]] = {}
        for key, value in translate_names(type(self), params).items():
            name, _, inner = key.partition("__")
            if name not in self.parameter_table:
                if name in self._constructor_names():
                    raise ValueError(f"{name}: make a new {type(self).__name__} with {name}=")
                raise ValueError(unknown_name_error(type(self), name))
            if inner:
                nested.setdefault(name, {})[inner] = value
            else:
                setattr(self, name, value)
        for name, values in nested.items():
            owner = getattr(self, name)
            if not hasattr(owner, "set_params"):
                raise ValueError(
                    f"{name}: {owner!r:.80} has no parameters; make a new {type(self).__name__} "
                    f"with {name}="
                )
            owner.set_params(**values)
            self._on_change(name)
        return self

    def __copy__(self) -> Self:
        """Return an independent copy: a shared state would be out of step with cached results."""
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copied: Self = type(self).__new__(type(self))
        memo[id(self)] = copied
        with self.lock:  # no other thread changes the state during the copy
            copied.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return copied

    def __getstate__(self) -> dict[str, Any]:
        dropped = self.unpickled_attributes
        return dict(
            pack_state({name: value for name, value in vars(self).items() if name not in dropped})
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        if missing := self.parameter_table.keys() - state.keys():
            raise ValueError(
                f"this {type(self).__name__} was pickled by another version of streamnb (without "
                f"{min(missing)}): unpickle it with that version and save() it, or train again"
            )
        vars(self).update(unpack_state(state))

    @property
    def _mutable_attributes(self) -> set[str]:
        """The parameters that river's `mutate` may change."""
        return {name for name, entry in self.parameter_table.items() if entry.role != "counts"}


def parameters_to_json(model: ParametersMixin, exclude: Collection[str] = ()) -> dict[str, Any]:
    """Return the parameters of an object as JSON values."""
    return {
        name: entry.check.plain(getattr(model, name))
        for name, entry in model.parameter_table.items()
        if name not in exclude
    }


def parameters_from_json(plain: Mapping[str, Any], cls: type[ParametersMixin]) -> dict[str, Any]:
    """Return the constructor's arguments from the result of `parameters_to_json`."""
    return {
        name: cls.parameter_table[name].check.from_plain(value) for name, value in plain.items()
    }
