"""Selectors of style sheets, and their conditions on elements."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_MAX_SELECTOR = 200  # bytes
_SIMPLE = re.compile(
    rb"(\*|[a-z][\w-]*|[.#][\w\x80-\xff-]+)|(\[[^\]]*\]|:first-child|:nth-child\([^()]*\))"
    rb"|:not\(([^()]*)\)"
)
_COMBINATOR = re.compile(rb"\s*([>+~])\s*|\s+")
_ATTRIBUTE = re.compile(
    rb"\[\s*([\w-]+)\s*(?:([~|^*$]?=)\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'\]]*))\s*[is]?\s*)?\]"
)
_POSITION = re.compile(rb":nth-child\(\s*([+-]?\d*n)?\s*([+-]?\s*\d+)?\s*\)")
_NAMED_POSITIONS = {
    b":first-child": b":nth-child(1)",
    b":nth-child(odd)": b":nth-child(2n+1)",
    b":nth-child(even)": b":nth-child(2n)",
}
_ROOT = re.compile(rb"(?:html)?:root\b")
_SINGLE_IS = re.compile(rb":(?:is|where|-webkit-any|matches)\(([^(),]*)\)")


class Compound(NamedTuple):
    """A part of a selector between combinators.

    Attributes
    ----------
    combinator
        The combinator before it: b" ", b">", b"+" or b"~"; b"" for the first part.
    atoms
        Tag, .class, #id and conditions that an element must have; b"*" for any element.
    excluded
        Atoms of each :not(); an element must not have all atoms of one of them.
    """

    combinator: bytes
    atoms: frozenset[bytes]
    excluded: tuple[frozenset[bytes], ...] = ()


def read_selector(selector: bytes) -> list[Compound] | None:
    """Return the parts of a selector; None if it is not understood.

    Examples
    --------
    >>> [(part.combinator, sorted(part.atoms)) for part in read_selector(b"#a > td.b")]
    [(b'', [b'#a']), (b'>', [b'.b', b'td'])]
    >>> read_selector(b"a:visited") is None
    True
    """
    selector = selector.strip()
    if len(selector) > _MAX_SELECTOR:
        return None
    if b":" in selector:
        selector = _SINGLE_IS.sub(rb"\1", _ROOT.sub(b"html", selector))
    compounds: list[Compound] = []
    combinator, atoms, excluded = b"", set[bytes](), list[frozenset[bytes]]()
    position = 0
    while position < len(selector):
        simple = _SIMPLE.match(selector, position)
        if simple is not None:
            position = simple.end()
            if simple[1]:
                atoms.add(simple[1])
            elif simple[2]:
                condition = _normalize(simple[2])
                if condition is None:
                    return None
                atoms.add(condition)
            else:
                inner = read_selector(simple[3])
                if inner is None or len(inner) != 1 or inner[0].excluded:
                    return None
                excluded.append(inner[0].atoms - {b"*"})
            continue
        separator = _COMBINATOR.match(selector, position)
        if separator is None or not (atoms or excluded):
            return None
        compounds.append(Compound(combinator, frozenset(atoms), tuple(excluded)))
        combinator, atoms, excluded = separator[1] or b" ", set(), []
        position = separator.end()
    if not (atoms or excluded):
        return None
    return [*compounds, Compound(combinator, frozenset(atoms), tuple(dict.fromkeys(excluded)))]


def _normalize(condition: bytes) -> bytes | None:
    """Return a condition on attributes or the position in its canonical form; None if damaged."""
    condition = _NAMED_POSITIONS.get(condition, condition)
    if condition[:1] == b":":
        return condition if _POSITION.fullmatch(condition) else None
    return condition if _ATTRIBUTE.fullmatch(condition) else None


def is_condition(atom: bytes) -> bool:
    """Return True if an atom is a condition on attributes or the position."""
    return atom[:1] in (b"[", b":")


def attribute_of(condition: bytes) -> bytes:
    """Return the name of the attribute of a condition; b"" for a condition on the position."""
    match = _ATTRIBUTE.fullmatch(condition)
    return b"" if match is None else match[1]


def holds(condition: bytes, attributes: Mapping[bytes, bytes], position: int) -> bool:
    """Return True if an element with these attributes, at a position from 1, meets a condition.

    Examples
    --------
    >>> holds(b"[title^=a]", {b"title": b"abc"}, 1), holds(b":nth-child(2n+1)", {}, 2)
    (True, False)
    """
    match = _ATTRIBUTE.fullmatch(condition)
    if match is None:
        return _is_at(condition, position)
    name, operator, *values = match.groups()
    value = attributes.get(name)
    if operator is None or value is None:
        return value is not None
    wanted = next((text for text in values if text is not None), b"")
    if operator == b"=":
        return value == wanted
    if operator == b"|=":
        return value == wanted or value.startswith(wanted + b"-")
    if operator == b"~=":
        return wanted in value.split()
    if not wanted:
        return False
    if operator == b"*=":
        return wanted in value
    return value.startswith(wanted) if operator == b"^=" else value.endswith(wanted)


def _is_at(condition: bytes, position: int) -> bool:
    match = _POSITION.fullmatch(condition)
    if match is None or position < 1:
        return False
    step_text = (match[1] or b"0n")[:-1]
    step = int(step_text + b"1") if step_text in (b"", b"+", b"-") else int(step_text)
    distance = position - int(b"".join((match[2] or b"0").split()))
    return distance == 0 if step == 0 else distance % step == 0 and distance // step >= 0
