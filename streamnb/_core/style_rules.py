"""The rules of HTML style sheets: which elements have which effects on the visibility of text.

A rule applies to the elements that meet the conditions of its selector.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain, islice
from typing import NamedTuple

from streamnb._core.style_values import INHERITED
from streamnb._core.styles import (
    NO_STYLE,
    Style,
    cascade,
    has_effect,
    identifier,
    read_style,
    split_importance,
    without_comments,
)
from streamnb.patterns import lazy_pattern

_SIMPLE = lazy_pattern(
    rb"(\*|[a-z][\w-]*|[.#][\w\x80-\xff-]+)|(\[[^\]]*\]|:checked|:first-child|:nth-child\([^()]*\))"
    rb"|:not\(([^()]*)\)|(:first-of-type|:nth-of-type\(\s*1\s*\))",
    re.I,
)
_COMBINATOR = lazy_pattern(rb"\s*([>+~])\s*|\s+")
_ATTRIBUTE = lazy_pattern(
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
_POSITION = lazy_pattern(rb":nth-child\(\s*([+-]?\d*n)?\s*([+-]?\s*\d+)?\s*\)")
_NAMED_CONDITIONS = {
    b":checked": frozenset((b"input", b"[checked]")),
    b":first-child": frozenset((b":nth-child(1)",)),
    b":nth-child(odd)": frozenset((b":nth-child(2n+1)",)),
    b":nth-child(even)": frozenset((b":nth-child(2n)",)),
}
_ROOT = lazy_pattern(rb"(?:html)?:root\b", re.I)
_IS = rb":(?:is|where|-webkit-any)\("
# One compound in :is(); a tag only where the compound around it begins. No name continues it.
_SINGLE_IS = lazy_pattern(
    rb"(?:(?<![^\s>+~(])%b\s*|%b\s*(?=[.#\[:]))([^\s(),>+~]+)\s*\)(?![\w\x80-\xff-])" % (_IS, _IS),
    re.I,
)
_IS_LIST = lazy_pattern(rb"%b([^(),]*,[^()]*)\)" % _IS, re.I)
_MAX_COMBINATIONS = 64  # selectors that the lists of a selector stand for
_QUOTED = rb"\"[^\"]*+\"|'[^']*+'"
# An item of a list; all that follows an unclosed bracket or quotation mark is one item.
_LIST_ITEM = lazy_pattern(
    rb"(?:[^,()\[\"']++|%b|\[(?:[^\]\"']++|%b)*+\]|\((?:[^()]++|\([^()]*+\))*+\)|[()\[\"'].*+)++"
    % (_QUOTED, _QUOTED),
    re.S,
)
_MARKED = lazy_pattern(rb"\xff(.)", re.S)


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
    is_first_of_type
        True if the element must be the first of its tag in its parent.
    """

    combinator: bytes
    atoms: frozenset[bytes]
    excluded: tuple[frozenset[bytes], ...] = ()
    is_first_of_type: bool = False


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
    if selector.find(b":") >= 0:
        selector = _SINGLE_IS.sub(rb"\1", _ROOT.sub(b"html", selector))
    compounds: list[Compound] = []
    combinator, atoms, excluded = b"", set[bytes](), list[frozenset[bytes]]()
    is_first_of_type = False
    position = 0
    while position < len(selector):
        simple = _SIMPLE.match(selector, position)
        if simple is not None:
            position = simple.end()
            if simple[1]:
                atoms.add(simple[1].lower())
            elif simple[2]:
                conditions = _normalize(simple[2])
                if not conditions:
                    return None
                atoms |= conditions
            elif simple[4]:
                is_first_of_type = True
            else:
                for item in _split_list(simple[3]) or (b"",):
                    inner = read_selector(item)
                    if inner is None or len(inner) != 1 or any(inner[0][2:]):
                        return None
                    excluded.append(inner[0].atoms - {b"*"})
            continue
        separator = _COMBINATOR.match(selector, position)
        if separator is None or not (atoms or excluded) or is_first_of_type:
            return None
        compounds.append(Compound(combinator, frozenset(atoms), tuple(excluded)))
        combinator, atoms, excluded = separator[1] or b" ", set(), []
        position = separator.end()
    if not (atoms or excluded):
        return None
    groups = tuple(dict.fromkeys(excluded))
    return [*compounds, Compound(combinator, frozenset(atoms), groups, is_first_of_type)]


def _split_list(text: bytes) -> list[bytes]:
    """Return the items of a list of selectors; none if one of them is empty, as in browsers."""
    items = _LIST_ITEM.findall(text)
    return items if b",".join(items) == text and all(map(bytes.strip, items)) else []


def _without_lists(selector: bytes) -> list[bytes]:
    """Return the selectors that a selector with lists in :is() or :where() stands for.

    Examples
    --------
    >>> _without_lists(b"p:is(.a,.b) i")
    [b'p:is(.a) i', b'p:is(.b) i']
    """
    if selector.find(b"(") < 0 or selector.find(b",") < 0 or len(selector) > _MAX_SELECTOR:
        return [selector]
    selectors = [b""]
    position = 0
    for match in _IS_LIST.finditer(selector):
        before = selector[position : match.start(1)]
        selectors = [
            begin + before + item.strip()
            for begin in selectors
            for item in _split_list(match[1]) or (b":unknown",)
        ]
        position = match.end(1)
        if len(selectors) > _MAX_COMBINATIONS:
            return [selector]
    return [begin + selector[position:] for begin in selectors]


def _normalize(condition: bytes) -> frozenset[bytes]:
    """Return the atoms of a condition on attributes or the position; none if it is damaged."""
    pattern = _ATTRIBUTE
    if condition[:1] == b":":
        condition = condition.lower()
        if condition in _NAMED_CONDITIONS:
            return _NAMED_CONDITIONS[condition]
        pattern = _POSITION
    return frozenset((condition,) if pattern.fullmatch(condition) else ())


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


_MAX_SHEETS = 65536  # number of bytes read of the style sheets of a page
_MAX_SHEET_COUNT = 64  # style sheets of a page: each has a fixed cost
_MAX_SELECTOR = 200  # bytes
_MAX_SELECTORS = _MAX_SHEETS // 2  # selectors of a page: nested rules repeat outer ones
_MAX_CLASSES = 16  # classes of an element
_MAX_ANCESTORS = 62  # tags, classes and ids of ancestors in selectors: one bit of a mask each
_MAX_NESTING = 8  # levels of rules with @
_MAX_CHECKS = 1 << 18  # comparisons of rules with elements of a page; they take 50 ms
_MAX_CACHED = 4096  # styles of elements of a page
_PHONE_WIDTH, _SCREEN_WIDTH = 320, 1920  # pixels: windows of all readers are between these widths

_BRACE = lazy_pattern(rb"[{}]")
_WIDTHS = rb"(?:\s*(?:and\s+)?\((?:min|max)-(?:device-)?width\s*:\s*\d+px\s*\)){0,4}"
_MEDIA = lazy_pattern(rb"\s*(?:only\s+)?(?:screen|all)?%b\s*" % _WIDTHS)
_RANGE = lazy_pattern(rb"\(width\s*(>=?|<=?)\s*(\d+)px\)")  # of Media Queries Level 4
_BOTH_SCHEMES = lazy_pattern(rb"prefers-color-scheme\s*:\s*(light|dark)")
_NOT_OTHERS = lazy_pattern(rb"\s*not\s+(?:print|speech)\s*")
_STRING = lazy_pattern(rb"\"(?:[^\"\n\\]++|\\.)*+\"|'(?:[^'\n\\]++|\\.)*+'")
_WIDTH = lazy_pattern(rb"(min|max)-[a-z-]+\s*:\s*(\d+)")


class _Selector(NamedTuple):
    """A selector: its parts, and the attributes of a rule with it."""

    compounds: list[Compound]
    tags: frozenset[bytes]
    conditions: frozenset[bytes]
    specificity: tuple[int, int, int]
    key: bytes  # the rarest atom of an element, by which its rules are found
    atoms: frozenset[bytes]
    excluded: tuple[frozenset[bytes], ...]
    absent_tag: bytes  # that no earlier element in the same parent may have


@lru_cache(maxsize=1024)  # style sheets of many messages have the same selectors
def _parse_selector(selector: bytes) -> _Selector | None:
    """Return a selector without blanks around it, parsed; None if it is not understood."""
    compounds = read_selector(selector)
    if compounds is None:
        return None
    combinator, atoms, excluded, is_first_of_type = compounds[-1]
    every_atom = [atom for compound in compounds for atom in compound.atoms]
    tested_atoms = [*every_atom, *(atom for group in excluded for atom in group)]
    ids = sum(atom[:1] == b"#" for atom in tested_atoms)
    classes = sum(atom[:1] == b"." or is_condition(atom) for atom in tested_atoms)
    tags = {atom for atom in every_atom if atom[:1] not in (b"#", b".", b"[", b":")}
    if any(all(map(is_condition, compound.atoms)) for compound in compounds):
        tags.add(b"*")
    own_tag = min(atoms & tags, default=b"*")
    if is_first_of_type and own_tag == b"*":
        return None
    if combinator in (b"+", b"~") and compounds[-2].atoms <= {b"*"}:
        atoms |= {_NOT_FIRST}
    conditions = frozenset(filter(is_condition, (*tested_atoms, *atoms)))
    specificity = (ids, classes + is_first_of_type, len(tested_atoms) - ids - classes)
    # Ids sort before classes, "*" and tags.
    named_atoms = [atom for atom in atoms if not is_condition(atom)]
    key = min(named_atoms, key=lambda atom: (b"#.".find(atom[:1]) % 3, atom), default=b"*")
    return _Selector(
        compounds, frozenset(tags), conditions, specificity, key, atoms - {b"*"}, excluded,
        own_tag if is_first_of_type else b"",
    )  # fmt: skip


class _Rule(NamedTuple):
    """A rule of a style sheet, with one selector."""

    specificity: tuple[int, int, int]
    order: int
    atoms: frozenset[bytes]  # tag, .class, #id and conditions that an element must have
    # sets of atoms: an element must not have all atoms of a set
    excluded: tuple[frozenset[bytes], ...]
    # masks of the atoms that other elements must have
    ancestors: int
    parent: int
    previous: int  # the element before it
    earlier: int  # the elements before it in the same parent
    absent: int  # mask of the atoms that none of these may have
    style: Style
    important_style: Style


# Mask of an element as an ancestor, its style, its important style, and both combined.
_Styles = tuple[int, Style, Style, Style]


class Context(NamedTuple):
    """The neighbours (see `_Rule`), position and attributes of an element."""

    parent: int = 0
    previous: int = 0
    earlier: int = 0
    position: int = 0
    attributes: tuple[tuple[bytes, bytes], ...] = ()


_NO_CONTEXT = Context()
_SUPPORTED = lazy_pattern(rb"\(\s*([a-z-]+)\s*:")
# Properties of all mail programs that read `@supports`.
_KNOWN_PROPERTIES = frozenset(
    b"""background color display filter flex float font-size grid height margin max-width min-width
    object-fit opacity overflow padding position transform visibility width""".split()
)
_NEGATION = lazy_pattern(rb"\bnot\b")
_NOT_FIRST = b":nth-child(n+2)"


class StyleRules:
    """The rules of the style sheets of a page.

    Attributes
    ----------
    has_unknown_background
        True if an unsupported selector sets a background.
    tags
        The tags in selectors; "*" if an element of any tag can have a style.
    needs_context
        True if a selector depends on the position, the neighbours or an attribute of an element.
    attribute_names
        The attributes in selectors.
    """

    def __init__(self) -> None:
        self.has_unknown_background = False
        self.tags: set[bytes] = set()
        self.needs_context = False
        self.attribute_names: set[bytes] = set()
        self._conditions: set[bytes] = set()
        self._positions: set[bytes] = set()  # conditions on the position
        self._first_positions: dict[frozenset[bytes], int] = {}
        # atoms of all rules' parents, previous and earlier elements
        self._parents = self._previous = self._earlier = 0
        self._rules: defaultdict[bytes, list[_Rule]] = defaultdict(list)
        self._bits: dict[bytes, int] = {}
        self._styles: dict[tuple[bytes, bytes, bytes, int, Context], _Styles] = {}
        self._set_flags = 0  # flags that the rules set
        self._size_left = _MAX_SHEETS
        self._sheets_left = _MAX_SHEET_COUNT
        self._selectors_left = _MAX_SELECTORS
        self._order = 0
        self._checks = 0
        self._check_cost = 1  # cost of comparing a rule with an element

    def add_sheet(self, sheet: bytes) -> bool:
        """Add the rules of a style sheet, up to the page's limit; return True if it has rules."""
        sheet = sheet[: self._size_left]
        self._size_left -= len(sheet)
        self._sheets_left -= 1
        if not sheet or self._sheets_left < 0:
            return False
        before = self._order, self.has_unknown_background
        rules: list[tuple[tuple[bytes, ...], Style, Style]] = []
        for selectors, declarations in _read_rules(without_comments(sheet)):
            normal, important = split_importance(declarations)
            rules.append((selectors, read_style(normal), read_style(important)))
        for _, style, important_style in rules:
            self._set_flags |= style.flags | important_style.flags
        for selectors, style, important_style in rules:
            # Only an important rule can clear a flag of a style attribute, which can be any flag.
            if not has_effect(style, self._set_flags) and not has_effect(important_style, -1):
                continue
            for selector in islice(selectors, self._selectors_left):
                self._selectors_left -= 1
                self._add_rule(selector, style, important_style)
            if not self._selectors_left:
                break
        if before == (self._order, self.has_unknown_background):
            return False
        self._styles.clear()
        self._first_positions.clear()
        return True

    def _add_rule(self, selector: bytes, style: Style, important_style: Style) -> None:
        """Add a rule with one selector, unless the selector is not supported."""
        selector = selector.strip()
        parsed = _parse_selector(selector) if len(selector) <= _MAX_SELECTOR else None
        masks = self._masks(parsed.compounds, parsed.absent_tag) if parsed else None
        if not parsed or masks is None:
            if {style.background, important_style.background} != {INHERITED}:
                self.has_unknown_background = True
            return
        _, tags, conditions, specificity, key, atoms, excluded, _ = parsed
        self.tags |= tags
        if conditions:
            self._conditions |= conditions
            self._positions |= {item for item in conditions if not attribute_of(item)}
            self.attribute_names |= set(map(attribute_of, conditions)) - {b""}
        self._parents |= masks[1]
        self._previous |= masks[2]
        self._earlier |= masks[3] | masks[4]
        self.needs_context = self.needs_context or bool(conditions) or any(masks[1:])
        if excluded or self.needs_context:
            self._check_cost = max(self._check_cost, 4 + len(excluded))
        self._order += 1
        self._rules[key].append(
            _Rule(specificity, self._order, atoms, excluded, *masks, style, important_style)
        )

    def _masks(
        self, compounds: list[Compound], absent_tag: bytes
    ) -> tuple[int, int, int, int, int] | None:
        """Return the masks of a rule: `_Rule.ancestors` to `_Rule.absent`.

        None if the rule cannot apply, or is not supported.
        """
        masks = dict.fromkeys((b" ", b">", b"+", b"~", b"absent"), 0)
        last = len(compounds) - 2
        tested = [(b"absent", absent_tag)] if absent_tag else []
        for number, compound in enumerate(compounds[:-1]):
            combinator = compounds[number + 1].combinator
            if compound.excluded or (number < last and combinator in (b"+", b"~")):
                return None
            relation = combinator if number == last else b" "
            # the page may not have the tags html and body
            left_out = (b"*", b"html", b"body") if relation == b" " else (b"*",)
            tested += [(relation, atom) for atom in compound.atoms.difference(left_out)]
        for relation, atom in tested:
            if atom not in self._bits and len(self._bits) == _MAX_ANCESTORS:
                return None
            masks[relation] |= self._bits.setdefault(atom, 1 << len(self._bits))
        if any(b"html" in compound.atoms for compound in compounds[1:]):  # html is the outermost
            return None
        return masks[b" "], masks[b">"], masks[b"+"], masks[b"~"], masks[b"absent"]

    def mask_of(self, atom: bytes) -> int:
        """Return the mask of an atom, such as that of the tag `body` in a page without this tag."""
        return self._bits.get(atom, 0)

    def styles(
        self,
        tag: bytes,
        classes: bytes,
        element_id: bytes,
        ancestors: int,
        context: Context = _NO_CONTEXT,
    ) -> _Styles:
        """Return the mask of an element, and the effects of the rules on it."""
        if context is not _NO_CONTEXT:
            context = self._used_context(*context)
        key = (tag, classes, element_id, ancestors, context)
        styles = self._styles.get(key)
        if styles is None:
            styles = self._find_styles(*key)
            if len(self._styles) < _MAX_CACHED:
                self._styles[key] = styles
        return styles

    def _used_context(
        self,
        parent: int,
        previous: int,
        earlier: int,
        position: int,
        attributes: tuple[tuple[bytes, bytes], ...],
    ) -> Context:
        """Return a context without the parts that no rule uses, so more elements have the same."""
        return Context(
            parent & self._parents,
            previous & self._previous,
            earlier & self._earlier,
            self._first_position(position),
            attributes,
        )

    def _first_position(self, position: int) -> int:
        """Return a position for which the same conditions hold, equal for all such positions."""
        if not self._positions or self._checks > _MAX_CHECKS:
            return 0
        self._checks += 4 * len(self._positions)
        met = frozenset(item for item in self._positions if holds(item, {}, position))
        return self._first_positions.setdefault(met, position)

    def _find_styles(
        self, tag: bytes, classes: bytes, element_id: bytes, ancestors: int, context: Context
    ) -> _Styles:
        """Compute the result of `styles`, which caches it."""
        parent, previous, earlier, position, attributes = context
        atoms = {tag, b"#" + identifier(element_id.strip().lower())}
        names = classes.lower().split()[:_MAX_CLASSES]
        atoms.update(b"." + identifier(name) for name in names)
        if self._conditions and self._checks <= _MAX_CHECKS:
            values = dict(attributes)
            self._checks += 4 * len(self._conditions)  # a condition takes as long as four rules
            atoms.update(item for item in self._conditions if holds(item, values, position))
        mask = 0
        for atom in atoms:
            mask |= self._bits.get(atom, 0)
        candidates = [self._rules[atom] for atom in (*atoms, b"*") if atom in self._rules]
        self._checks += self._check_cost * sum(map(len, candidates))
        if not candidates or self._checks > _MAX_CHECKS:
            return mask, NO_STYLE, NO_STYLE, NO_STYLE
        matching = sorted(
            rule
            for rules in candidates
            for rule in rules
            if rule.atoms <= atoms
            and rule.ancestors & ancestors == rule.ancestors
            and rule.parent & parent == rule.parent
            and rule.previous & previous == rule.previous
            and rule.earlier & earlier == rule.earlier
            and not rule.absent & earlier
            and not any(group <= atoms for group in rule.excluded)
        )
        style = cascade(rule.style for rule in matching)
        important_style = cascade(rule.important_style for rule in matching)
        return mask, style, important_style, cascade((style, important_style))


def _read_rules(text: bytes) -> Iterator[tuple[tuple[bytes, ...], bytes]]:
    """Yield the selectors and declarations of the rules that apply to every reader."""
    preludes: list[bytes] = []
    start = 0
    if b'"' in text or b"'" in text:  # a brace in a string is text
        text = _STRING.sub(
            lambda match: b"''" if b"{" in match[0] or b"}" in match[0] else match[0], text
        )
    text += b"}"  # browsers close open rules at the end
    for brace in _BRACE.finditer(text):
        content = text[start : brace.start()]
        start = brace.end()
        if brace[0] == b"{":
            declarations, _, prelude = content.rpartition(b";")
            if declarations.strip() and _is_rule(preludes):
                yield _nested_selectors(tuple(preludes)), declarations
            prelude = prelude.strip()
            preludes.append(prelude.lower() if prelude[:1] == b"@" else prelude)
        elif preludes:
            if _is_rule(preludes):
                yield _nested_selectors(tuple(preludes)), content
            preludes.pop()


def _is_rule(preludes: list[bytes]) -> bool:
    """Return whether declarations within these preludes apply to every reader."""
    if not preludes or len(preludes) > _MAX_NESTING or preludes[-1].startswith(b"@"):
        return False
    return all(_holds(prelude) for prelude in preludes if prelude.startswith(b"@"))


@lru_cache(maxsize=16)  # one list can have thousands of blocks
def _nested_selectors(preludes: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the selectors of a rule, which can be nested."""
    selectors = [prelude for prelude in preludes if not prelude.startswith(b"@")]
    own = _split_list(selectors[-1])
    outer = b""
    for level in selectors[:-1]:
        level = b":is(%b)" % level if b"," in level else level
        outer = level.replace(b"&", outer) if b"&" in level else (outer + b" " + level).lstrip()
        if len(outer) > _MAX_SELECTOR:
            return (b":unknown",)
    nested = (
        inner.replace(b"&", outer) if b"&" in inner else (outer + b" " + inner).strip()
        for inner in own
    )
    return tuple(chain.from_iterable(map(_without_lists, nested if outer else own)))


@lru_cache(maxsize=64)  # a rule with @ can have thousands of blocks, too
def _holds(prelude: bytes) -> bool:
    """Return True if the rules within a rule with @ apply to every reader."""
    if not prelude.startswith(b"@media"):
        if not prelude.startswith(b"@supports") or _NEGATION.search(prelude):
            return prelude.startswith(b"@layer")
        answers = [name in _KNOWN_PROPERTIES for name in _SUPPORTED.findall(prelude)]
        return any(answers) if b" or " in prelude else bool(answers) and all(answers)
    text = prelude[6 : 6 + _MAX_SELECTOR]
    text = _RANGE.sub(
        lambda match: b"(%s-width:%spx)" % (b"min" if match[1][:1] == b">" else b"max", match[2]),
        text,
    )
    return len(set(_BOTH_SCHEMES.findall(text))) == 2 or any(
        _NOT_OTHERS.fullmatch(query)
        or (
            _MEDIA.fullmatch(query)
            and all(
                int(width) <= _PHONE_WIDTH if bound == b"min" else int(width) >= _SCREEN_WIDTH
                for bound, width in _WIDTH.findall(query)
            )
        )
        for query in text.split(b",")
    )
