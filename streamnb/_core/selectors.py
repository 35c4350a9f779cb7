"""Selectors of style sheets, and their conditions on elements."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_MAX_SELECTOR = 200  # bytes
_SIMPLE = re.compile(
    rb"(\*|[a-z][\w-]*|[.#][\w\x80-\xff-]+)|(\[[^\]]*\]|:first-child|:nth-child\([^()]*\))"
    rb"|:not\(([^()]*)\)",
    re.I,
)
_COMBINATOR = re.compile(rb"\s*([>+~])\s*|\s+")
_ATTRIBUTE = re.compile(
    rb"\[\s*([\w-]+)\s*"
    rb"(?:([~|^*$]?=)\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'\]]*))\s*([is])?\s*)?\]",
    re.I,
)
# Attributes whose values have no case in HTML (HTML standard, "Case-sensitivity of selectors").
_CASELESS_ATTRIBUTES = frozenset(
    b"""accept accept-charset align alink axis bgcolor charset checked clear codetype color compact
    declare defer dir direction disabled enctype face frame hreflang http-equiv lang language link
    media method multiple nohref noresize noshade nowrap readonly rel rev rules scope scrolling
    selected shape target text type valign valuetype vlink""".split()
)
_POSITION = re.compile(rb":nth-child\(\s*([+-]?\d*n)?\s*([+-]?\s*\d+)?\s*\)")
_NAMED_POSITIONS = {
    b":first-child": b":nth-child(1)",
    b":nth-child(odd)": b":nth-child(2n+1)",
    b":nth-child(even)": b":nth-child(2n)",
}
_ROOT = re.compile(rb"(?:html)?:root\b", re.I)
_SINGLE_IS = re.compile(rb":(?:is|where|-webkit-any|matches)\(([^(),]*)\)", re.I)
_ESCAPE = re.compile(rb"\\(?:([0-9a-f]{1,6})\s?|\n|(.)|\Z)", re.I | re.S)  # for example, \64 is d
# An escaped character is text, not syntax. A byte that UTF-8 does not have marks it.
_SYNTAX = re.compile(rb"[^\w\x80-\xff-]")
_MARKED = re.compile(rb"\xff(.)", re.S)


def identifier(name: bytes) -> bytes:
    r"""Return the name of a class or an id in the form that `unescape` gives to names.

    Examples
    --------
    >>> identifier(b"sm:w-full") == unescape(rb"sm\:w-full"), unescape(rb"\64 iv")
    (True, b'div')
    """
    return _SYNTAX.sub(lambda match: b"\xff%c" % (match[0][0] | 0x80), name)


def unescape(text: bytes) -> bytes:
    """Return CSS without its escapes; escaped characters of the syntax are marked."""
    return _ESCAPE.sub(_escaped_character, text)


def _escaped_character(match: re.Match[bytes]) -> bytes:
    if match[1] is None:
        return identifier(match[2] or b"")
    return identifier(chr(min(int(match[1], 16), 0x10FFFF)).encode("utf-8", "replace"))


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
                atoms.add(simple[1].lower())
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
    if condition[:1] == b":":
        condition = condition.lower()
        condition = _NAMED_POSITIONS.get(condition, condition)
        return condition if _POSITION.fullmatch(condition) else None
    return condition if _ATTRIBUTE.fullmatch(condition) else None


def is_condition(atom: bytes) -> bool:
    """Return True if an atom is a condition on attributes or the position."""
    return atom[:1] in (b"[", b":")


def attribute_of(condition: bytes) -> bytes:
    """Return the name of the attribute of a condition; b"" for a condition on the position."""
    match = _ATTRIBUTE.fullmatch(condition)
    return b"" if match is None else match[1].lower()


def holds(condition: bytes, attributes: Mapping[bytes, bytes], position: int) -> bool:
    """Return True if an element with these attributes, at a position from 1, meets a condition.

    Examples
    --------
    >>> holds(b"[title^=a]", {b"title": b"abc"}, 1), holds(b":nth-child(2n+1)", {}, 2)
    (True, False)
    >>> holds(b"[title=A]", {b"title": b"a"}, 1), holds(b"[title=A i]", {b"title": b"a"}, 1)
    (False, True)
    """
    match = _ATTRIBUTE.fullmatch(condition)
    if match is None:
        return _is_at(condition, position)
    name, operator, *texts, flag = match.groups()
    name = name.lower()
    value = attributes.get(name)
    if operator is None or value is None:
        return value is not None
    wanted = next((text for text in texts if text is not None), b"")
    wanted = _MARKED.sub(lambda marked: b"%c" % (marked[1][0] & 0x7F), wanted)
    if flag in (b"i", b"I") or (flag is None and name in _CASELESS_ATTRIBUTES):
        value, wanted = value.lower(), wanted.lower()
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
