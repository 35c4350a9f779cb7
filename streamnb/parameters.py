"""Parameters as data: one table a class, from which everything else about them is derived.

A class declares each parameter once, with its default, what it may be, its role and a line of help.
From that come the constructor, the checks, the section of the documentation, the keys of the YAML
configuration, what a sweep shares, what may change after training and what files hold.
"""

from __future__ import annotations

import copy
import difflib
import inspect
import re
import textwrap
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar, dataclass_transform

import numpy as np

from streamnb.locks import ForkSafeLock
from streamnb.storage import label_from_json, label_to_json

Prior = str | Mapping[Any, float]

# "formula": what is worked out when asked; it can change at any time, and runs that differ in it
# alone share what they learn. "counts": what is counted; it is settled once something was learned.
# "teaching": what is learned of a message depends on it; it can change, and what was learned stays.
Role = Literal["formula", "counts", "teaching"]


def is_number(value: Any) -> bool:
    """Whether a value is a number, of Python or numpy, and no bool."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def shown(value: Any) -> str:
    """What a value is called where it is refused."""
    try:
        return f"{' '.join(repr(value).split()):.80}"
    except ValueError:  # Python does not write numbers of thousands of digits
        return f"a number of {value.bit_length()} bits" if type(value) is int else "what is there"


class Constraint:
    """What a parameter may be: whatever fits a condition, and what to call that."""

    listed = False  # whether a list, as YAML and JSON have it, stands for a tuple

    def __init__(
        self, fits: Callable[[Any], bool], what: str = "anything", *, none: bool = False
    ) -> None:
        self.fits = fits
        self.what: str = f"{what}, or None" if none else what
        self.none = none

    def plain(self, value: Any) -> Any:
        """A value as JSON can hold it."""
        return value.item() if isinstance(value, np.generic) else value

    def of_plain(self, value: Any) -> Any:
        """What `plain` gave, as the parameter wants it."""
        return tuple(value) if self.listed and isinstance(value, list) else value

    def read(self, name: str, plain: Any) -> Any:
        """A value as YAML has it, as the parameter wants it, checked."""
        value = self.of_plain(plain)
        self(name, value)
        return value

    def __call__(self, name: str, value: Any) -> None:
        """Raise ValueError where a value is not one of them."""
        if not (value is None and self.none) and not self.fits(value):
            raise ValueError(f"{name}: {shown(value)} is not {self.what}{_value_hint(name, value)}")


def _value_hint(name: str, value: Any) -> str:
    """Return what to write instead of a value that other libraries take."""
    if name == "stop_words" and isinstance(value, str):
        return (
            ": streamnb has no lists of stop words; pass the words, such as "
            "sklearn.feature_extraction.text.ENGLISH_STOP_WORDS"
        )
    if name == "alpha" and is_number(value) and value == 0:
        return ": for (almost) no smoothing use alpha=1e-10"
    if isinstance(value, list) and len(value) == 2:
        return f": write a tuple, ({value[0]!r:.20}, {value[1]!r:.20})"
    return ""


class Number(Constraint):
    """A number from `low` to `high`; with `below`, not `high` itself."""

    def __init__(
        self, low: float = 0.0, high: float = 1e100, below: bool = False, *, none: bool = False
    ) -> None:
        def fits(value: Any) -> bool:
            return is_number(value) and low <= value <= high and not (below and value == high)

        what = f"a number from {low:g} to {'below ' * below}{high:g}"
        if low == MIN_POSITIVE:
            what = f"a number > 0 ({what.removeprefix('a number ')})"
        super().__init__(fits, what, none=none)


MIN_POSITIVE = 1e-100
POSITIVE = Number(MIN_POSITIVE)


class Integer(Constraint):
    """A whole number from `low` to `high`."""

    def __init__(self, low: int = 1, high: int = 10**12, *, none: bool = False) -> None:
        def fits(value: Any) -> bool:
            whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            return whole and low <= value <= high

        super().__init__(fits, f"a whole number from {low} to {high}", none=none)


class Boolean(Constraint):
    """True or False."""

    def __init__(self) -> None:
        super().__init__(lambda value: isinstance(value, (bool, np.bool_)), "true or false")


class Text(Constraint):
    """Text."""

    def __init__(self, *, none: bool = False) -> None:
        super().__init__(lambda value: isinstance(value, str), "text", none=none)


class Choice(Constraint):
    """One of a few values."""

    def __init__(self, choices: tuple[Any, ...], *, none: bool = False) -> None:
        kind = type(choices[0])

        def fits(value: Any) -> bool:
            truth = isinstance(value, bool) and kind is not bool
            return isinstance(value, kind) and value in choices and not truth

        super().__init__(fits, f"one of {', '.join(map(str, choices))}", none=none)


class NameList(Constraint):
    """A list of names: `of` says of which type, and `some` whether it must not be empty."""

    listed = True

    def __init__(
        self,
        of: type = str,
        some: bool = False,
        choices: tuple[str, ...] | None = None,
        ordered: bool = False,
        *,
        none: bool = False,
    ) -> None:
        def fits(value: Any) -> bool:
            return (
                isinstance(value, (tuple, list) if ordered else (tuple, list, set, frozenset))
                and all(isinstance(name, of) for name in value)
                and (choices is None or all(name in choices for name in value))
                and (not some or 0 < len(value) == len(set(value)))
            )

        what = "names" if choices is None else f"some of {', '.join(choices)}"
        super().__init__(fits, f"a list of {what}", none=none)
        self.ordered = ordered

    def plain(self, value: Any) -> Any:
        """A list, sorted where order says nothing."""
        if value is None:
            return None
        return list(value) if self.ordered else sorted(value, key=repr)


class IntegerRange(Constraint):
    """Two whole numbers, the second not the smaller one."""

    listed = True

    def __init__(self, low: int = 1, high: int = 8) -> None:
        one = Integer(low, high)

        def fits(value: Any) -> bool:
            two = isinstance(value, tuple) and len(value) == 2 and all(map(one.fits, value))
            return two and value[0] <= value[1]

        super().__init__(fits, f"a pair of whole numbers from {low} to {high}, rising")


class ClassPrior(Constraint):
    """A word that names a prior, or a mapping of labels to probabilities."""

    def __init__(self, words: tuple[str, ...] = ("learned", "uniform")) -> None:
        def fits(value: Any) -> bool:
            return isinstance(value, Mapping) or (isinstance(value, str) and value in words)

        super().__init__(fits, f"one of {', '.join(words)}, or probabilities by class")

    def plain(self, value: Any) -> Any:
        """A word as it is; of a mapping pairs, for labels need not be text."""
        if isinstance(value, str):
            return value
        return [[label_to_json(label), float(p)] for label, p in value.items()]

    def of_plain(self, value: Any) -> Any:
        """What `plain` gave, as the parameter wants it."""
        if isinstance(value, str):
            return value
        return {label_from_json(label): float(p) for label, p in value}

    def read(self, name: str, plain: Any) -> Any:
        """A value as YAML has it, which has mappings."""
        self(name, plain)
        return plain

    def __call__(self, name: str, value: Any) -> None:
        """Raise ValueError for what is neither."""
        super().__call__(name, value)
        if isinstance(value, Mapping):
            shares = list(value.values())
            if not all(is_number(share) and 0 <= share <= 1e100 for share in shares):
                raise ValueError(f"{name}: {value!r:.80} has a value that is not a number >= 0")
            if not sum(shares) > 0:
                raise ValueError(f"{name}: no class has a probability above 0")


def has_method(method: str, what: str, *, none: bool = False) -> Constraint:
    """An object with a method, and what to call such an object."""

    def fits(value: Any) -> bool:
        some = not isinstance(value, type | Sequence)  # a text, too, has a method `count`
        return some and callable(getattr(value, method, None))

    return Constraint(fits, what, none=none)


class Parameter(NamedTuple):
    """One parameter of a class.

    Attributes
    ----------
    default
        What it is where nothing is said.
    check
        What it may be.
    role
        What it decides: "formula", "counts" or "teaching".
    help
        What it means, in a sentence or two.
    """

    default: Any
    check: Constraint
    role: Role
    help: str


class _Field(NamedTuple):
    """A parameter as a class declares it."""

    parameter: Parameter
    type: str
    kw_only: bool


def parameter(check: Constraint, role: Role, help: str, *, default: Any) -> Any:  # noqa: A002
    """Declare a parameter: a field of a class that `parameter_class` decorates."""
    return Parameter(default, check, role, help)


_ATTRIBUTE: Any = object()


def attribute(*, init: bool = False) -> Any:
    """Declare an attribute that is no parameter (`init=False`, which type checkers want to see)."""
    return _ATTRIBUTE


Made = TypeVar("Made", bound=type)


@dataclass_transform(eq_default=False, field_specifiers=(parameter, attribute))
def parameter_class(
    *, kw_only: bool = False, parameters_of: type[Any] | None = None
) -> Callable[[Made], Made]:
    """Make a constructor and documentation of the parameters a class declares and inherits.

    As of a dataclass, which would cost each process half a millisecond a class.

    Parameters
    ----------
    kw_only
        True for parameters that are passed by name only.
    parameters_of
        Another class whose parameters the class has, too.
    """

    def decorated(made: Made) -> Made:
        done: Any = made
        types = vars(made).get("__annotations__", {})
        own: dict[str, _Field | None] = {}
        for name, of in list(vars(made).items()):
            if isinstance(of, Parameter):
                own[name] = _Field(of, types[name], kw_only)
                setattr(done, name, of.default)
            elif of is _ATTRIBUTE:
                own[name] = None  # also where a base has a parameter of the name
                delattr(done, name)
        done._fields = own
        every: dict[str, _Field | None] = {}
        sources = () if parameters_of is None else reversed(parameters_of.__mro__)
        for base in (*sources, *reversed(made.__mro__)):
            every |= vars(base).get("_fields", {})
        fields = {name: of for name, of in every.items() if of is not None}
        done.parameter_table = {name: of.parameter for name, of in fields.items()}
        done.__init__ = _constructor(fields)
        done.__init__.__module__ = made.__module__
        done.__init__.__qualname__ = f"{made.__qualname__}.__init__"
        annotated = [vars(base).get("__annotations__", {}) for base in made.__mro__]
        done._attributes = frozenset(dir(done)).union(*annotated)
        if done.__doc__ is not None and fields:
            done.__doc__ = _Documentation(done.__doc__, fields)
        return made

    return decorated


def _constructor(fields: Mapping[str, _Field]) -> Callable[..., None]:
    """An `__init__` that sets each parameter, and calls `__post_init__` where there is one."""
    made = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for name, of in sorted(fields.items(), key=lambda field: field[1].kw_only):
        kind = made[0].KEYWORD_ONLY if of.kw_only else made[0].POSITIONAL_OR_KEYWORD
        default = of.parameter.default
        made.append(inspect.Parameter(name, kind, default=default, annotation=of.type))
    signature = inspect.Signature(made, return_annotation="None")

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            unknown = next((name for name in kwargs if name not in fields), None)
            if unknown is not None:
                raise TypeError(unknown_name_error(type(self), unknown)) from None
            raise TypeError(f"{type(self).__name__}() {error}") from None
        for name, of in fields.items():
            setattr(self, name, bound.arguments.get(name, of.parameter.default))
        if hasattr(self, "__post_init__"):
            self.__post_init__()

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


# Names that scikit-learn has for the same thing: what to write here instead.
_FOREIGN_NAMES = {
    "fit_prior": "use prior='uniform' for fit_prior=False, prior='learned' for True",
    "class_prior": "use prior={label: share, ...}",
    "priors": "use prior={label: share, ...}",
    "force_alpha": "alpha is never changed; the smallest is 1e-100",
    "ngram_range": "use ngrams=(smallest, largest)",
    "lowercase": "use casefold=True or False",
    "norm": "use length_norm= for the length of texts; weights of classes are not normalised",
    "token_pattern": "use a callable from a text to its tokens as tokenizer, or inner=, "
    "min_length= and max_length=",
    "min_categories": "levels need not be declared: new ones can come at any time",
    "solver": "there is one solver; see covariance= and shrinkage=",
    "store_covariance": "covariances are computed from sums when they are needed",
    "reg_param": "use shrinkage=",
    "max_df": "leave frequent words out with stop_words=",
    "min_df": "rare words do no harm: they have small weights",
    "use_idf": "use sublinear=True or a model with length_norm=",
    "sublinear_tf": "use sublinear=True",
    "random_state": "the result does not depend on a seed",
    "n_jobs": "use processes of your own, and merge() the models",
}


def unknown_name_error(made: type[Any], name: str, kind: str = "parameter") -> str:
    """Return the text of the error for a name that a class does not have, with a suggestion.

    Examples
    --------
    >>> from streamnb import Tokenizer
    >>> unknown_name_error(Tokenizer, "lowercase")
    "a Tokenizer has no parameter 'lowercase': use casefold=True or False"
    """
    table = made.parameter_table
    message = f"a {made.__name__} has no {kind} {name!r}"
    near = difflib.get_close_matches(name, table, n=1)
    foreign = _FOREIGN_NAMES.get(name, "")
    named = re.match(r"use (\w+)=", foreign)
    if foreign and (named is None or named[1] in table):
        return f"{message}: {foreign}"
    if named is not None and ("tokenizer" in table or "words" in table):
        return f"{message}: give it to the tokenizer, Tokenizer(...), and there {foreign}"
    if near:
        return f"{message}; did you mean {near[0]!r}?"
    return f"{message}; it has {', '.join(table) or 'none'}"


_SECTIONS = ("Attributes", "Raises", "Notes", "References", "Examples")


class _Documentation:
    """A class's docstring, completed when somebody reads it: no process should wait for it."""

    def __init__(self, text: str, fields: Mapping[str, _Field]) -> None:
        self._text, self._fields = text, fields

    def __get__(self, instance: object, owner: type) -> str:
        return _documented(inspect.cleandoc(self._text), self._fields)


def _documented(text: str, fields: Mapping[str, _Field]) -> str:
    """A docstring with its section of parameters, in numpydoc's form."""
    lines = ["Parameters", "----------"]
    for name, of in fields.items():
        lines.append(f"{name} : {of.type}, default {of.parameter.default!r}")
        lines += textwrap.wrap(
            of.parameter.help, 92, initial_indent="    ", subsequent_indent="    "
        )
    at = min(
        (place for name in _SECTIONS if (place := text.find(f"\n{name}\n---")) >= 0),
        default=len(text),
    )
    section = "\n".join(lines)
    return f"{text[:at].rstrip()}\n\n{section}\n\n{text[at:].lstrip()}"


class ParametersMixin:
    """An object with declared parameters, which are checked whenever they are set.

    Attributes that were not declared are refused, so a misspelt name is no silent no-op. Threads
    can share the object: every public method holds its lock.
    """

    parameter_table: ClassVar[dict[str, Parameter]] = {}
    _attributes: ClassVar[frozenset[str]] = frozenset()
    unpickled_attributes: ClassVar[tuple[str, ...]] = (
        "lock",
    )  # what is neither pickled nor copied
    lock: threading.RLock

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make the object and its lock, also where it is unpickled or copied."""
        self = super().__new__(cls)
        object.__setattr__(self, "lock", ForkSafeLock())
        return self

    def _is_taught(self) -> bool:
        """Whether something was learned, so that what is counted is settled."""
        return False

    def _check_change(self, name: str, value: Any) -> None:
        """Raise ValueError if a valid value does not fit what was learned."""

    def _changed(self, name: str) -> None:
        """Called after a parameter was set."""

    def __setattr__(self, name: str, value: Any) -> None:
        known = self.parameter_table.get(name)
        if known is None:
            if name[0] != "_" and name not in self._attributes:
                raise AttributeError(unknown_name_error(type(self), name, "attribute"))
            object.__setattr__(self, name, value)
            return
        known.check(name, value)
        with self.lock:
            self._check_change(name, value)
            if known.role == "counts" and name in vars(self) and self._is_taught():
                raise ValueError(
                    f"{name}: it is settled once something was learned: make a new model"
                )
            object.__setattr__(self, name, value)
            self._changed(name)

    def clone(
        self, new_params: dict[str, Any] | None = None, include_attributes: bool = False
    ) -> Any:
        """A new object with the same parameters, or others, that has learned nothing.

        With `include_attributes` it knows what this one does.
        """
        if not include_attributes:
            return super().clone(new_params)  # type: ignore[misc]  # of river's base classes
        same = copy.deepcopy(self)
        for name, value in (new_params or {}).items():
            setattr(same, name, value)
        return same

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, as scikit-learn reads them.

        Parameters
        ----------
        deep : bool, default True
            Whether to add the parameters of parameters, named as "words__ngrams".
        """
        params = {name: getattr(self, name) for name in self.parameter_table}
        for name, value in list(params.items()):
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params |= {f"{name}__{key}": nested for key, nested in value.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, and those of parameters, as scikit-learn does.

        Raises
        ------
        ValueError
            If there is no such parameter, or a value is not valid.
        """
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, _, inner = key.partition("__")
            if name not in self.parameter_table:
                raise ValueError(unknown_name_error(type(self), name))
            if inner:
                nested.setdefault(name, {})[inner] = value
            else:
                setattr(self, name, value)
        for name, values in nested.items():
            getattr(self, name).set_params(**values)
            self._changed(name)
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: of for name, of in vars(self).items() if name not in self.unpickled_attributes
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    @property
    def _mutable_attributes(self) -> set[str]:
        """What river's `mutate` may change."""
        return {name for name, known in self.parameter_table.items() if known.role != "counts"}


def parameters_to_json(of: ParametersMixin, but: Collection[str] = ()) -> dict[str, Any]:
    """The parameters of an object as JSON can hold them."""
    table = of.parameter_table
    return {name: table[name].check.plain(getattr(of, name)) for name in table if name not in but}


def parameters_from_json(plain: Mapping[str, Any], made: type[ParametersMixin]) -> dict[str, Any]:
    """Return the constructor's arguments from the result of `parameters_to_json`."""
    return {name: made.parameter_table[name].check.of_plain(value) for name, value in plain.items()}
