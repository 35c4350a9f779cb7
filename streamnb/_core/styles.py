"""Effects of HTML style sheets and style attributes on the visibility of text.

The module reads the part of CSS that can hide text: a few properties. `selectors.py` reads the
selectors, and `markup.pyx` the page.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from html import unescape as unescape_html
from typing import NamedTuple

from streamnb._core.colours import COLOUR, read_colour
from streamnb._core.selectors import (
    Compound,
    attribute_of,
    holds,
    identifier,
    is_condition,
    read_selector,
    unescape,
)
from streamnb._core.style_values import (
    CLIPS,
    CONCEALS,
    CURRENT,
    DISPLAYS,
    ENLARGES,
    HAS_NO_SIZE,
    HIDES,
    INHERITED,
    MIN_OPACITY,
    OVERFLOWS,
    PARENT,
    REMOVES,
    REVEALS,
    SAME_COLOUR,
    SHRINKS,
    TRANSPARENT,
    UNKNOWN,
)

_ALTERNATIVES = (  # the last one has effect
    SHRINKS | ENLARGES,
    CONCEALS | REVEALS,
    REMOVES | DISPLAYS,
    CLIPS | OVERFLOWS,
)

_MAX_VALUE = 200  # number of bytes read of a value
_MAX_SHEETS = 65536  # number of bytes read of the style sheets of a page
_MAX_SHEET_COUNT = 64  # style sheets of a page: each has a fixed cost
_MAX_SELECTOR = 200  # bytes
_MAX_SELECTORS = _MAX_SHEETS // 2  # selectors of a page: nested rules repeat outer ones
_MAX_CLASSES = 16  # classes of an element
_MAX_ANCESTORS = 62  # tags, classes and ids of ancestors in selectors: one bit of a mask each
_MAX_NESTING = 8  # levels of rules with @
_MAX_CHECKS = 1 << 18  # comparisons of a rule with an element of a page: about 50 ms
_MAX_CACHED = 4096
_MAX_NAME = 30  # bytes of a property name: the longest one that hides text has 23
_MAX_KEY = 500  # bytes: the effect of a longer style is not cached
_MAX_UNREADABLE_SIZE = 2.0  # font size in pixels that no reader can read
_MAX_NO_SIZE = 1.0  # size in pixels at which a box shows nothing
_MIN_SPACING = -8.0  # pixels between letters at which they overlap completely
_FAR_BEFORE, _FAR_BEHIND = -100.0, 1000.0  # positions in pixels outside a window
_MAX_VARIABLES = 64  # custom properties of an element
_MAX_SCOPES = 500  # elements of a page that set custom properties
_MAX_RESOLVED = 2000  # styles of a page in which var() is replaced
_MAX_REPLACED = 1 << 18  # bytes of values in which var() is replaced: about 50 ms
_MAX_REPLACEMENTS = 8  # levels of custom properties that refer to others
_PHONE_WIDTH, _SCREEN_WIDTH = 320, 1920  # pixels: windows of all readers are between these widths

_COMMENT = re.compile(rb"/\*(?:[^*]|\*(?!/))*+(?:\*/)?|<!--|-->")
_LENGTH = re.compile(rb"([+-]?(?:\d++\.?\d*+|\.\d++)(?:e[+-]?\d{1,3}+)?+)([a-z]*+|%)")
# Pixels of a unit. Units of the font or the window have typical values.
_PIXELS = {
    b"": 1.0, b"px": 1.0, b"pt": 4 / 3, b"pc": 16.0, b"in": 96.0, b"cm": 37.8, b"mm": 3.78,
    b"q": 0.945, b"em": 16.0, b"rem": 16.0, b"ex": 8.0, b"ch": 8.0, b"vw": 10.0, b"vh": 10.0,
    b"vmin": 10.0, b"vmax": 10.0, b"%": 1.0,
}  # fmt: skip
_RELATIVE_UNITS = frozenset((b"em", b"ex", b"ch", b"%"))  # units relative to the parent's font
_ABSOLUTE_SIZES = re.compile(rb"(?:x{1,3}-)?(?:small|large)|medium|initial|math|[a-z]+\(.*")
_DISPLAYS = re.compile(
    rb"block|flex|grid|contents|list-item|flow|flow-root|run-in|math|inherit|unset|initial|revert"
    rb"|(?:inline|table|ruby|-webkit|-moz|-ms)(?:[ -].*)?|block .*"
)
_NO_DISPLAYS = frozenset((b"none", b"table-column", b"table-column-group"))
_CLIPPING = frozenset((b"hidden", b"clip", b"auto", b"scroll", b"overlay", b"hidden hidden"))
_FONT_PERCENT = 0.16  # pixels
_FUNCTION = re.compile(rb"(?<![a-z0-9-])([a-z0-9-]++)\(([^()]*)\)")
_MATH = re.compile(rb"(calc|min|max|clamp)\((.*)\)", re.S)
_WORDS = re.compile(rb"(?:[^\s()]++|\((?:[^()]++|\([^()]*+\))*+\))++")  # a function is one word
_SUM = re.compile(rb"\s[+-]\s")
_VARIABLE = re.compile(rb"var\(\s*+(--[\w\x80-\xff-]{1,64})\s*+(?:,((?:[^()]++|\([^()]*+\))*+))?\)")
_QUARTER_TURNS = frozenset((b"90deg", b"270deg", b"-90deg", b".25turn", b"0.25turn", b"100grad"))
_NO_OPACITY = re.compile(rb"opacity\s*[(=]\s*([\d.]+%?)")
_IMPORTANT = re.compile(rb"!\s*important")
_HACK = re.compile(rb"\xff[\x80-\xa0]")  # an escaped control character: for Internet Explorer only

_PICTURE = re.compile(rb"url\(|image-set\(|element\(|cross-fade\(|paint\(|color-mix\(")
_PLACES = frozenset((b"text-indent", b"left", b"top", b"right", b"bottom", b"inset"))
_SIZES = re.compile(rb"(?:max-)?(?:width|height|inline-size|block-size)|line-height")

_BRACE = re.compile(rb"[{}]")
_WIDTHS = rb"(?:\s*(?:and\s+)?\((?:min|max)-(?:device-)?width\s*:\s*\d+px\s*\)){0,4}"
_MEDIA = re.compile(rb"\s*(?:only\s+)?(?:screen|all)?%b\s*" % _WIDTHS)
_RANGE = re.compile(rb"\(width\s*(>=?|<=?)\s*(\d+)px\)")  # of Media Queries Level 4
_BOTH_SCHEMES = re.compile(rb"prefers-color-scheme\s*:\s*(light|dark)")
_NOT_OTHERS = re.compile(rb"\s*not\s+(?:print|speech)\s*")
_STRING = re.compile(rb"\"(?:[^\"\n\\]++|\\.)*+\"|'(?:[^'\n\\]++|\\.)*+'")
_WIDTH = re.compile(rb"(min|max)-[a-z-]+\s*:\s*(\d+)")


class Style(NamedTuple):
    """The effect of declarations on text.

    Attributes
    ----------
    flags
        A sum of flags.
    colour, background
        0xRRGGBB or one of the constants.
    pending
        The declarations that set or use custom properties; see `Variables`.
    """

    flags: int = 0
    colour: int = INHERITED
    background: int = INHERITED
    pending: bytes = b""


NO_STYLE = Style()
_styles: dict[bytes, Style] = {}


def read_style(declarations: bytes) -> Style:
    """Return the effect of a style attribute on text.

    Examples
    --------
    >>> read_style(b"Color: white; display: none").flags == REMOVES
    True
    """
    style = _styles.get(declarations)
    if style is None:
        style = _read_style(declarations)
        if len(_styles) < _MAX_CACHED and len(declarations) <= _MAX_KEY:
            _styles[declarations] = style
    return style


def _without_comments(text: bytes) -> bytes:
    """Return CSS without its comments and escapes."""
    if text.translate(None, b"\\*<>") == text:  # true of nearly all CSS
        return text
    if b"*" in text or b"-->" in text or b"<!--" in text:  # a backslash does not escape in comments
        text = _COMMENT.sub(b"", text)
    return unescape(text) if b"\\" in text else text


def _read_declarations(text: bytes) -> list[tuple[bytes, bytes]]:
    """Return the (name, value) pairs of a style attribute, in lower case, important ones last."""
    if text.find(b"&") >= 0:  # `in` takes five times as long: CPython first raises an error
        text = unescape_html(text.decode("latin-1")).encode("latin-1", "replace")
    normal: list[tuple[bytes, bytes]] = []
    important: list[tuple[bytes, bytes]] = []
    for declaration in _without_comments(text).lower().split(b";"):
        name, _, value = declaration.partition(b":")
        value = value.strip()[:_MAX_VALUE]
        if value.find(b"\xff") >= 0 and _HACK.search(value):
            continue
        if value.find(b"!") >= 0:
            important.append((name.strip(), _IMPORTANT.sub(b"", value).strip()))
        elif value:
            normal.append((name.strip(), value))
    return normal + important


def _read_style(text: bytes) -> Style:
    flags, colour, fill, background, picture = 0, INHERITED, INHERITED, INHERITED, INHERITED
    pending: dict[bytes, bytes] = {}
    for name, value in _read_declarations(text):
        if value.find(b"var(") >= 0 or name.startswith(b"--"):
            pending[name] = value
            continue
        if pending:
            pending.pop(name, None)
        if name == b"color":
            valid_colour = read_colour(value)
            colour = colour if valid_colour == INHERITED else valid_colour
        elif name == b"-webkit-text-fill-color":
            fill = read_colour(value)
        elif name == b"background-color":
            background = _background(value)
        elif name == b"background":
            background, picture = _background(value), INHERITED
        elif name == b"background-image":
            picture = _background(value)
        else:
            flag = _flag(name, value) if len(name) <= _MAX_NAME else 0
            flags = _combine(flags, flag) if flag else flags
    colour = colour if fill in (INHERITED, PARENT) else fill
    background = background if picture == INHERITED else picture
    joined = b";".join(b"%b:%b" % item for item in pending.items())
    return Style(flags, colour, background, joined)


@lru_cache(maxsize=_MAX_CACHED)  # pages repeat a few declarations in many combinations
def _flag(name: bytes, value: bytes) -> int:
    """Return the flag of a declaration, 0 if it does not change the visibility."""
    if name == b"display":
        is_valid = _DISPLAYS.fullmatch(value) is not None
        return REMOVES if value in _NO_DISPLAYS else DISPLAYS if is_valid else 0
    if name == b"mso-hide":
        return REMOVES if value == b"all" else 0
    if name == b"visibility":
        return _VISIBILITIES.get(value, 0)
    if name == b"font-size" or name == b"font":
        return _font_size(name, value)
    if name == b"overflow" or name == b"overflow-x" or name == b"overflow-y":
        return OVERFLOWS if value == b"visible" else CLIPS if value in _CLIPPING else 0
    if _SIZES.fullmatch(name):
        return HAS_NO_SIZE if _is_no_size(name, value) else 0
    if name == b"text-indent" and value.endswith(b"%") and value[:1] != b"-":
        size = _pixels(value)
        return HAS_NO_SIZE if size is not None and size >= 100.0 else 0
    return HIDES if _is_hiding(name, value) else 0


def _is_no_size(name: bytes, value: bytes) -> bool:
    """Return True if a clipped box of this size shows nothing of its text."""
    size = _pixels(value, percent=10.0)
    if name == b"width":  # a cell of a table is at least as wide as its text
        return size is not None and size <= 0.0
    if name == b"line-height" and size and value[-1:].isdigit():  # unit: the size of the font
        return size <= MIN_OPACITY
    return size is not None and size <= _MAX_NO_SIZE


_VISIBILITIES = {b"hidden": CONCEALS, b"collapse": CONCEALS, b"visible": REVEALS}


def _pixels(value: bytes, percent: float = 1.0) -> float | None:
    """Return a length in pixels, None for another value; `percent` is the size of one percent.

    Examples
    --------
    >>> _pixels(b"0.75em"), _pixels(b"calc(2 * 3px - 1pt)"), _pixels(b"auto")
    (12.0, 4.666666666666667, None)
    """
    match = _LENGTH.fullmatch(value)
    if match is not None:
        size = percent if match[2] == b"%" else _PIXELS.get(match[2])
        return None if size is None else float(match[1]) * size
    function = _MATH.fullmatch(value)
    if function is None:
        return None
    if function[1] == b"calc":
        return _sum(function[2], percent)
    sizes = [_sum(argument, percent) for argument in function[2].split(b",")]
    known_sizes = [size for size in sizes if size is not None]
    if len(known_sizes) < len(sizes):
        return None
    if function[1] == b"clamp":
        return sorted(known_sizes)[len(known_sizes) // 2]
    return min(known_sizes) if function[1] == b"min" else max(known_sizes)


def _sum(expression: bytes, percent: float) -> float | None:
    """Return the value of a sum of products of lengths; None if it is not supported."""
    total, position, sign = 0.0, 0, 1.0
    for operator in (*_SUM.finditer(expression), None):
        end = len(expression) if operator is None else operator.start()
        product = 1.0
        factors = expression[position:end].replace(b"/", b"*/").split(b"*")
        for factor in factors:
            size = _pixels(factor.lstrip(b"/").strip(), percent)
            if size is None or (factor[:1] == b"/" and size == 0.0):
                return None
            product = product / size if factor[:1] == b"/" else product * size
        total += sign * product
        if operator is not None:
            position, sign = operator.end(), -1.0 if b"-" in operator[0] else 1.0
    return total


def _font_size(name: bytes, value: bytes) -> int:
    """Return the flag of a font or its size; 0 without a size, or with the parent's size."""
    values = value.partition(b"/")[0].split() if name == b"font" else [value]
    for text in values:
        size = _pixels(text, _FONT_PERCENT)
        if size is not None and (
            size == 0.0 or name == b"font-size" or not text[-1:].isdigit()  # 700 is a weight
        ):
            if size <= _MAX_UNREADABLE_SIZE:
                return SHRINKS
            match = _LENGTH.fullmatch(text)
            return 0 if match is not None and match[2] in _RELATIVE_UNITS else ENLARGES
    return ENLARGES if name == b"font-size" and _ABSOLUTE_SIZES.fullmatch(value) else 0


def _is_hiding(name: bytes, value: bytes) -> bool:
    """Return True if a declaration makes text invisible: no opacity, no area, off-screen."""
    if name == b"opacity" or name == b"zoom":
        return _is_transparent(value)
    if name in _PLACES or name.startswith(b"margin"):
        return any(_is_far(_pixels(side)) for side in _WORDS.findall(value))
    if name == b"letter-spacing":
        size = _pixels(value)
        return size is not None and (size <= _MIN_SPACING or size >= _FAR_BEHIND)
    if name == b"clip" or name == b"clip-path":
        return any(_has_no_area(*function) for function in _FUNCTION.findall(value))
    if name == b"transform":
        return any(_moves_away(*function) for function in _FUNCTION.findall(value))
    if name == b"scale" or name == b"translate":
        return _moves_away(name, value)
    if name == b"filter" or name == b"-ms-filter":
        match = _NO_OPACITY.search(value)
        return match is not None and _is_transparent(match[1])
    if name == b"font-size-adjust":
        return _pixels(value) == 0.0
    return name == b"content-visibility" and value == b"hidden"


def _is_far(size: float | None) -> bool:
    return size is not None and not _FAR_BEFORE < size < _FAR_BEHIND


def _has_no_area(function: bytes, arguments: bytes) -> bool:
    """Return True if a shape of clip or clip-path shows nothing of a box."""
    points = [
        [_pixels(text) for text in point.partition(b" at ")[0].split()]
        for point in arguments.partition(b" round ")[0].split(b",")
    ]
    sizes = [size for point in points for size in point]
    if function == b"polygon":
        corners = [point for point in points if len(point) == 2 and None not in point]
        return len(corners) == len(points) and any(
            len({corner[axis] for corner in corners}) == 1 for axis in (0, 1)
        )
    if function in (b"circle", b"ellipse"):
        return any(size is not None and size <= _MAX_NO_SIZE for size in sizes)
    if function not in (b"rect", b"inset") or not 1 <= len(sizes) <= 4:
        return False
    top, right, bottom, left_edge = (sizes * 4)[:4] if len(sizes) < 3 else (sizes + sizes[1:2])[:4]
    for first, second in ((top, bottom), (left_edge, right)):
        if first is None or second is None:
            continue
        if function == b"inset" and b"%" in arguments and first + second >= 100.0:
            return True
        if function == b"rect" and second - first <= _MAX_NO_SIZE:
            return True
    return False


def _moves_away(function: bytes, arguments: bytes) -> bool:
    """Return True if a function of transform moves a box completely out of the window."""
    parts = arguments.replace(b",", b" ").split()
    sizes = [_pixels(part) for part in parts]
    if function.startswith(b"scale"):
        return any(size is not None and abs(size) < MIN_OPACITY for size in sizes)
    if function.startswith(b"translate"):
        return any(size is not None and abs(size) >= _FAR_BEHIND for size in sizes)
    if function in (b"rotatex", b"rotatey"):
        return parts[:1] != [] and parts[0] in _QUARTER_TURNS
    if function == b"matrix" and len(sizes) == 6 and None not in sizes:
        a, b, c, d, x, y = (size or 0.0 for size in sizes)
        has_no_area = abs(a * d - b * c) < MIN_OPACITY**2
        return has_no_area or max(abs(x), abs(y)) >= _FAR_BEHIND
    return False


def _is_transparent(value: bytes) -> bool:
    try:
        opacity = float(value.rstrip(b"%")) / (100 if value.endswith(b"%") else 1)
    except ValueError:
        return False
    return opacity < MIN_OPACITY


def _background(value: bytes) -> int:
    """Return the colour of a background; UNKNOWN for a picture or several colours."""
    if _PICTURE.search(value):
        return UNKNOWN
    colours = [read_colour(match[0]) for match in COLOUR.finditer(value)]
    if PARENT in colours and b"currentcolor" in value:
        return CURRENT
    opaque_colours = [colour for colour in colours if colour >= 0]
    if b"gradient" in value:
        has_others = UNKNOWN in colours or TRANSPARENT in colours
        if not opaque_colours:
            return UNKNOWN if UNKNOWN in colours else INHERITED
        if has_others or not all(
            _is_similar(colour, opaque_colours[0]) for colour in colours if colour >= 0
        ):
            return UNKNOWN
    elif not opaque_colours and UNKNOWN in colours:
        return UNKNOWN
    return opaque_colours[0] if opaque_colours and value != b"initial" else INHERITED


def _is_similar(colour: int, other: int) -> bool:
    return all(
        abs((colour >> shift & 255) - (other >> shift & 255)) <= SAME_COLOUR for shift in (0, 8, 16)
    )


def _combine(flags: int, further_flags: int) -> int:
    """Return flags combined with later ones; of alternatives, the later one has effect."""
    for alternatives in _ALTERNATIVES:
        if further_flags & alternatives:
            flags &= ~alternatives
    return flags | further_flags


def cascade(styles: Iterable[Style]) -> Style:
    """Combine styles into one; the strongest is last."""
    flags, colour, background, pending = NO_STYLE
    for style in styles:
        flags = _combine(flags, style.flags)
        if style.colour != INHERITED:
            colour, pending = style.colour, _without(pending, _COLOUR_PROPERTY)
        if style.background != INHERITED:
            background, pending = style.background, _without(pending, _BACKGROUND_PROPERTIES)
        if style.pending:
            pending += b";" + style.pending
    return Style(flags, colour, background, pending)


_COLOUR_PROPERTY = frozenset((b"color",))
_BACKGROUND_PROPERTIES = frozenset((b"background", b"background-color", b"background-image"))


def _without(pending: bytes, names: frozenset[bytes]) -> bytes:
    """Return the declarations without those of properties that stronger declarations set."""
    if not pending:
        return pending
    parts = pending.split(b";")
    return b";".join(part for part in parts if part.partition(b":")[0].strip() not in names)


def combine_styles(sheet_style: Style, own: bytes, important_style: Style) -> Style:
    """Return the style of an element with a style attribute and rules of style sheets."""
    if b"!" not in own:
        return cascade((sheet_style, read_style(own), important_style))
    normal, important = _split_importance(own)
    return cascade((sheet_style, read_style(normal), important_style, read_style(important)))


def _split_importance(declarations: bytes) -> tuple[bytes, bytes]:
    parts = declarations.split(b";")
    return (
        b";".join(part for part in parts if b"!" not in part),
        b";".join(part for part in parts if b"!" in part),
    )


class Variables:
    """The custom properties (`--name`) of the elements of a page.

    A scope is the number of a set of properties. Scope 0 is empty; an element inherits the scope of
    its parent.
    """

    def __init__(self) -> None:
        self._scopes: list[dict[bytes, bytes]] = [{}]
        self._resolved: dict[tuple[int, Style], tuple[int, Style]] = {}
        self._bytes_left = _MAX_REPLACED

    def resolve(self, scope: int, style: Style) -> tuple[int, Style]:
        """Return the scope of an element and its style without var(); `scope` is the parent's."""
        key = scope, style
        resolved = self._resolved.get(key)
        if resolved is None:
            if len(self._resolved) >= _MAX_RESOLVED:
                return scope, style
            resolved = self._resolved[key] = self._resolve(scope, style)
        return resolved

    def _resolve(self, scope: int, style: Style) -> tuple[int, Style]:
        variables = self._scopes[scope]
        declarations = _read_declarations(style.pending)
        own = {name: value for name, value in declarations if name.startswith(b"--")}
        if own and len(self._scopes) < _MAX_SCOPES:
            variables = dict(list((variables | own).items())[-_MAX_VARIABLES:])
            scope = len(self._scopes)
            self._scopes.append(variables)
        text = b";".join(
            b"%b:%b" % (name, self._replace(value, variables))
            for name, value in declarations
            if not name.startswith(b"--")
        )
        return scope, cascade((style, read_style(text)))

    def _replace(self, value: bytes, variables: dict[bytes, bytes]) -> bytes:
        """Return a value without var(). A property that is not set and has no fallback is empty."""
        for _ in range(_MAX_REPLACEMENTS):
            if b"var(" not in value or self._bytes_left < 0:
                break
            self._bytes_left -= len(value)
            value = _VARIABLE.sub(
                lambda match: variables.get(match[1], match[2] or b""), value
            ).strip()[:_MAX_VALUE]
        return value


class _Rule(NamedTuple):
    """A rule of a style sheet, with one selector."""

    specificity: tuple[int, int, int]
    order: int
    atoms: frozenset[bytes]  # tag, .class, #id and conditions that an element must have
    excluded: tuple[
        frozenset[bytes], ...
    ]  # sets of atoms: an element must not have all atoms of a set
    # masks of the atoms that other elements must have
    ancestors: int
    parent: int
    previous: int  # the element before it
    earlier: int  # the elements before it in the same parent
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
_NEGATION = re.compile(rb"\bnot\b")
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
        self._size_left = _MAX_SHEETS
        self._sheets_left = _MAX_SHEET_COUNT
        self._selectors_left = _MAX_SELECTORS
        self._order = 0
        self._checks = 0
        self._check_cost = 1  # of comparing a rule with an element

    def add_sheet(self, sheet: bytes) -> bool:
        """Add the rules of a style sheet, up to the page's limit; return True if there are any."""
        sheet = sheet[: self._size_left]
        self._size_left -= len(sheet)
        self._sheets_left -= 1
        if not sheet or self._sheets_left < 0:
            return False
        before = self._order, self.has_unknown_background
        for selectors, declarations in _read_rules(_without_comments(sheet)):
            style, important_style = map(read_style, _split_importance(declarations))
            if style == NO_STYLE == important_style:
                continue
            every_selector = selectors.split(b",", self._selectors_left)[: self._selectors_left]
            self._selectors_left -= len(every_selector)
            for selector in every_selector:
                self._add_rule(selector, style, important_style)
            if not self._selectors_left:
                break
        if before == (self._order, self.has_unknown_background):
            return False
        self._styles.clear()
        self._first_positions.clear()
        return True

    def _add_rule(self, selector: bytes, style: Style, important_style: Style) -> None:
        compounds = read_selector(selector)
        masks = self._masks(compounds) if compounds else None
        if not compounds or masks is None:
            if {style.background, important_style.background} != {INHERITED}:
                self.has_unknown_background = True
            return
        combinator, atoms, excluded = compounds[-1]
        every_atom = [atom for compound in compounds for atom in compound.atoms]
        tested_atoms = [*every_atom, *(atom for group in excluded for atom in group)]
        ids = sum(atom[:1] == b"#" for atom in tested_atoms)
        classes = sum(atom[:1] == b"." or is_condition(atom) for atom in tested_atoms)
        self.tags.update(atom for atom in every_atom if atom[:1] not in (b"#", b".", b"[", b":"))
        if any(all(map(is_condition, compound.atoms)) for compound in compounds):
            self.tags.add(b"*")
        if combinator in (b"+", b"~") and compounds[-2].atoms <= {b"*"}:
            atoms |= {_NOT_FIRST}
        conditions = set(filter(is_condition, (*tested_atoms, *atoms)))
        self._conditions |= conditions
        self._positions |= {item for item in conditions if not attribute_of(item)}
        self._parents |= masks[1]
        self._previous |= masks[2]
        self._earlier |= masks[3]
        self.attribute_names |= set(map(attribute_of, conditions)) - {b""}
        self.needs_context = self.needs_context or bool(conditions) or any(masks[1:])
        if excluded or self.needs_context:
            self._check_cost = max(self._check_cost, 4 + len(excluded))
        self._order += 1
        specificity = (ids, classes, len(tested_atoms) - ids - classes)
        # Found by its rarest atom; ids sort before classes, "*" and tags.
        named_atoms = [atom for atom in atoms if not is_condition(atom)]
        key = min(named_atoms, key=lambda atom: (b"#.".find(atom[:1]) % 3, atom), default=b"*")
        self._rules[key].append(
            _Rule(
                specificity, self._order, atoms - {b"*"}, excluded, *masks, style, important_style
            )
        )

    def _masks(self, compounds: list[Compound]) -> tuple[int, int, int, int] | None:
        """Return the masks of the ancestors, the parent, the previous and the earlier elements.

        None if the rule cannot apply, or is not supported.
        """
        masks = dict.fromkeys((b" ", b">", b"+", b"~"), 0)
        last = len(compounds) - 2
        for number, compound in enumerate(compounds[:-1]):
            combinator = compounds[number + 1].combinator
            if compound.excluded or (number < last and combinator in (b"+", b"~")):
                return None
            relation = combinator if number == last else b" "
            for atom in compound.atoms - {b"*"}:
                if relation == b" " and atom in (b"html", b"body"):
                    continue  # the page may not have these tags
                if atom not in self._bits and len(self._bits) == _MAX_ANCESTORS:
                    return None
                masks[relation] |= self._bits.setdefault(atom, 1 << len(self._bits))
        if any(b"html" in compound.atoms for compound in compounds[1:]):  # nothing is around it
            return None
        return masks[b" "], masks[b">"], masks[b"+"], masks[b"~"]

    def mask_of(self, atom: bytes) -> int:
        """Return the mask of an atom, such as the tag of an element that the page implies."""
        return self._bits.get(atom, 0)

    def styles(
        self,
        tag: bytes,
        classes: bytes,
        element_id: bytes,
        ancestors: int,
        context: Context = _NO_CONTEXT,
    ) -> _Styles:
        """Return the effects of the rules on an element with these ancestors, and its own mask."""
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
        """Return the first position that meets the same conditions as a position."""
        if not self._positions or self._checks > _MAX_CHECKS:
            return 0
        self._checks += 4 * len(self._positions)
        met = frozenset(item for item in self._positions if holds(item, {}, position))
        return self._first_positions.setdefault(met, position)

    def _find_styles(
        self, tag: bytes, classes: bytes, element_id: bytes, ancestors: int, context: Context
    ) -> _Styles:
        parent, previous, earlier, position, attributes = context
        atoms = {tag, b"#" + identifier(element_id.strip().lower())}
        names = classes.lower().split()[:_MAX_CLASSES]
        atoms.update(b"." + identifier(name) for name in names)
        if self._conditions and self._checks <= _MAX_CHECKS:
            values = dict(attributes)
            self._checks += 4 * len(self._conditions)  # each takes as long as four rules
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
            and not any(group <= atoms for group in rule.excluded)
        )
        style = cascade(rule.style for rule in matching)
        important_style = cascade(rule.important_style for rule in matching)
        return mask, style, important_style, cascade((style, important_style))


def _read_rules(text: bytes) -> Iterator[tuple[bytes, bytes]]:
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
                yield _nested_selector(preludes), declarations
            prelude = prelude.strip()
            preludes.append(prelude.lower() if prelude[:1] == b"@" else prelude)
        elif preludes:
            if _is_rule(preludes):
                yield _nested_selector(preludes), content
            preludes.pop()


def _is_rule(preludes: list[bytes]) -> bool:
    """Return whether declarations within these preludes apply to every reader."""
    if not preludes or len(preludes) > _MAX_NESTING or preludes[-1].startswith(b"@"):
        return False
    return all(_holds(prelude) for prelude in preludes if prelude.startswith(b"@"))


def _nested_selector(preludes: list[bytes]) -> bytes:
    """Return the selector of a nested rule."""
    selectors = [prelude for prelude in preludes if not prelude.startswith(b"@")]
    if len(selectors) == 1:
        return selectors[0]
    outer = b" ".join(selectors[:-1])
    if b"," in outer or len(outer) > _MAX_SELECTOR:  # combinations of two lists are not supported
        return b":unknown"
    return b",".join(
        inner.replace(b"&", outer) if b"&" in inner else outer + b" " + inner.strip()
        for inner in selectors[-1].split(b",")
    )


def _holds(prelude: bytes) -> bool:
    """Return True if the rules within a rule with @ apply to every reader."""
    if not prelude.startswith(b"@media"):
        return prelude.startswith(b"@layer") or (
            prelude.startswith(b"@supports") and not _NEGATION.search(prelude)
        )
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
