"""Effects of HTML style sheets and style attributes on the visibility of text.

The module reads the part of CSS that can hide text: a few properties. `style_rules.py` reads the
rules of style sheets, and `markup.pyx` the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from streamnb._core.colours import COLOUR, read_colour
from streamnb._core.style_values import (
    BREAKS,
    CLIPS,
    CONCEALS,
    CURRENT,
    DISPLAYS,
    EDGES,
    ENLARGES,
    FLAGS,
    INDENT,
    INHERITED,
    MARGINS,
    MIN_OPACITY,
    OVERFLOWS,
    PARENT,
    REMOVES,
    REVEALS,
    SAME_COLOUR,
    SHRINKS,
    SIZES,
    TRANSPARENT,
    UNKNOWN,
)
from streamnb.patterns import lazy_pattern

_MAX_VALUE = 200  # number of bytes read of a value
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

_ESCAPE = lazy_pattern(rb"\\(?:([0-9a-f]{1,6})\s?|\n|(.)|\Z)", re.I | re.S)  # for example, \64 is d
# An escaped character is text, not syntax. A byte that UTF-8 does not have marks it.
_SYNTAX = lazy_pattern(rb"[^\w\x80-\xff-]")
_COMMENTS = lazy_pattern(rb"(?:/\*(?:[^*]|\*(?!/))*+(?:\*/)?|<!--|-->)++")
# The bytes around comments within a word, a number with its unit, or the name of a function.
_NEIGHBOURS = lazy_pattern(rb"[\w\\\x80-\xff#@+-][\w\\\x80-\xff(%-]")
_LENGTH = lazy_pattern(rb"([+-]?(?:\d++\.?\d*+|\.\d++)(?:e[+-]?\d{1,3}+)?+)([a-z]*+|%)")
# Pixels of a unit. Units of the font or the window have typical values.
_PIXELS = {
    b"": 1.0, b"px": 1.0, b"pt": 4 / 3, b"pc": 16.0, b"in": 96.0, b"cm": 37.8, b"mm": 3.78,
    b"q": 0.945, b"em": 16.0, b"rem": 16.0, b"ex": 8.0, b"ch": 8.0, b"vw": 10.0, b"vh": 10.0,
    b"vmin": 10.0, b"vmax": 10.0, b"%": 1.0,
}  # fmt: skip
_RELATIVE_UNITS = frozenset((b"em", b"ex", b"ch", b"%"))  # units relative to the parent's font
_ABSOLUTE_SIZES = lazy_pattern(
    rb"(?:x{1,3}-)?(?:small|large)|medium|initial|math|(?:calc|min|max|clamp|round|env|attr)\(.*"
)
_DISPLAYS = lazy_pattern(
    rb"block|flex|grid|contents|list-item|flow|flow-root|run-in|math|inherit|unset|initial|revert"
    rb"|(?:inline|table|ruby|-webkit|-moz|-ms)(?:[ -].*)?|block .*"
)
_BREAKING_DISPLAYS = lazy_pattern(
    rb"block|flex|grid|list-item|flow-root|table.*|block .*|-(?:webkit|moz|ms)-(?!inline).*"
)
_NO_DISPLAYS = frozenset((b"none", b"table-column", b"table-column-group"))
_CLIPPING = frozenset((b"hidden", b"clip", b"auto", b"scroll", b"overlay", b"hidden hidden"))
_FONT_PERCENT = 0.16  # pixels
_FUNCTION = lazy_pattern(rb"(?<![a-z0-9-])([a-z0-9-]++)\(([^()]*)\)")
_MATH = lazy_pattern(rb"(calc|min|max|clamp)\((.*)\)", re.S)
_WORDS = lazy_pattern(rb"(?:[^\s()]++|\((?:[^()]++|\([^()]*+\))*+\))++")  # a function is one word
_SUM = lazy_pattern(rb"\s[+-]\s")
_VARIABLE = lazy_pattern(
    rb"var\(\s*+(--[\w\x80-\xff-]{1,64})\s*+(?:,((?:[^()]++|\([^()]*+\))*+))?\)"
)
_QUARTER_TURNS = frozenset((b"90deg", b"270deg", b"-90deg", b".25turn", b"0.25turn", b"100grad"))
_NO_OPACITY = lazy_pattern(rb"opacity\s*[(=]\s*([\d.]+%?)")
_IMPORTANT = lazy_pattern(rb"!\s*important")
# an escaped control character: for Internet Explorer only
_HACK = lazy_pattern(rb"\xff[\x80-\xa0]")

_PICTURE = lazy_pattern(rb"url\(|image-set\(|element\(|cross-fade\(|paint\(|color-mix\(")
# functions and what separates the words of a background
_NOT_BACKGROUND_WORD = lazy_pattern(
    rb"(?:[\w-]*+\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\)|[\s,/])++"
)
_BACKGROUND_WORD = lazy_pattern(
    rb"|[+-]?[\d.].*|none|(?:no-)?repeat(?:-[xy])?|space|round|scroll|fixed|local|left|right|top|bottom"
    rb"|center|auto|cover|contain|(?:border|padding|content)-box|text|unset|revert(?:-layer)?"
)
_PLACES = frozenset((b"text-indent", b"inset", *EDGES))

# Values that show text, for each property that can hide it: a keyword, and numbers or lengths.
# Other values are no proof that text is shown, because browsers ignore invalid ones.
_NUMBER = rb"\+?(?:\d++(?:\.\d++)?+|\.\d++)"
_SIZE = rb"(?:0|%b(?:px|pt|pc|in|cm|mm|q|r?em|ex|ch|v[wh]|vmin|vmax|%%))" % _NUMBER
_NUMBERS = lazy_pattern(rb"%b%%?" % _NUMBER)
_LENGTHS = lazy_pattern(rb"-?%b" % _SIZE)
_SIZES = lazy_pattern(_SIZE)
_SIZES_OR_NUMBERS = lazy_pattern(rb"%b|%b" % (_SIZE, _NUMBER))
_NOTHING = lazy_pattern(rb"(?!)")
_SHOWING = (
    dict.fromkeys(FLAGS, (b"none", _NOTHING))
    | dict.fromkeys((b"margin", b"inset", *MARGINS, *EDGES), (b"auto", _LENGTHS))
    | {name: (b"none" if name.startswith(b"max") else b"auto", _SIZES) for name in SIZES}
    | {
        b"opacity": (b"initial", _NUMBERS),
        b"zoom": (b"normal", _NUMBERS),
        b"scale": (b"none", _NUMBERS),
        b"text-indent": (b"initial", _LENGTHS),
        b"letter-spacing": (b"normal", _LENGTHS),
        b"line-height": (b"normal", _SIZES_OR_NUMBERS),
        b"clip": (b"auto", _NOTHING),
        b"content-visibility": (b"visible", _NOTHING),
    }
)
_WIDE_KEYWORDS = frozenset((b"initial", b"inherit", b"unset", b"revert", b"revert-layer"))
# The properties whose values a declaration replaces, other than its own.
_PARTS = {b"margin": MARGINS, b"inset": EDGES, b"mask": (b"mask-image",), b"text-indent": (INDENT,)}


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
    cleared
        The flags of weaker declarations that have no effect.
    """

    flags: int = 0
    colour: int = INHERITED
    background: int = INHERITED
    pending: bytes = b""
    cleared: int = 0


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


def has_effect(style: Style, set_flags: int) -> bool:
    """Return whether a style sets something, or clears one of the flags that other styles set."""
    return style[:4] != NO_STYLE[:4] or style.cleared & set_flags != 0


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


def without_comments(text: bytes) -> bytes:
    """Return CSS without its comments and escapes."""
    if text.translate(None, b"\\*<>") == text:  # true of nearly all CSS
        return text
    if b"*" in text or b"-->" in text or b"<!--" in text:  # a backslash does not escape in comments
        text = _COMMENTS.sub(_separator_for, text)
    return unescape(text) if b"\\" in text else text


def _separator_for(comments: re.Match[bytes]) -> bytes:
    """Return the text that replaces a comment: a blank if it separates two words, else b""."""
    start, end = comments.span()
    neighbours = comments.string[start - 1 : start] + comments.string[end : end + 1]
    return b" " if _NEIGHBOURS.fullmatch(neighbours) else b""


def _read_declarations(text: bytes) -> list[tuple[bytes, bytes]]:
    """Return the (name, value) pairs of a style attribute, in lower case, important ones last."""
    if text.find(b"&") >= 0:  # `in` takes five times as long: CPython first raises an error
        from html import unescape as unescape_html  # imported late: few styles need its table

        text = unescape_html(text.decode("latin-1")).encode("latin-1", "replace")
    normal: list[tuple[bytes, bytes]] = []
    important: list[tuple[bytes, bytes]] = []
    for declaration in without_comments(text).lower().split(b";"):
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
    """Compute the result of `read_style`, which caches it."""
    flags = cleared = 0
    colour = fill = background = picture = INHERITED
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
            valid_colour = read_colour(value)
            fill = fill if valid_colour == INHERITED else valid_colour
        elif name.startswith(b"background") and not _is_valid_background(name, value):
            continue
        elif name == b"background-color":
            background = _background(value)
        elif name == b"background":
            background, picture = _background(value), INHERITED
        elif name == b"background-image":
            picture = _background(value)
        elif len(name) <= _MAX_NAME:
            own_flags, own_cleared = _read_flags(name, value)
            flags = flags & ~own_cleared | own_flags
            cleared |= own_cleared
    colour = colour if fill in (INHERITED, PARENT) else fill
    background = background if picture == INHERITED else picture
    joined = b";".join(b"%b:%b" % item for item in pending.items())
    return Style(flags, colour, background, joined, cleared)


@lru_cache(maxsize=_MAX_CACHED)  # pages repeat a few declarations in many combinations
def _read_flags(name: bytes, value: bytes) -> tuple[int, int]:
    """Return the flags that a declaration sets, and those that it clears before."""
    if name == b"display":
        if value in _NO_DISPLAYS or not _DISPLAYS.fullmatch(value):
            flags = REMOVES if value in _NO_DISPLAYS else 0
        else:
            flags = DISPLAYS | BREAKS if _BREAKING_DISPLAYS.fullmatch(value) else DISPLAYS
        return flags, REMOVES | DISPLAYS | BREAKS if flags else 0
    if name == b"mso-hide":
        return (REMOVES, DISPLAYS | BREAKS) if value == b"all" else (0, 0)
    if name == b"visibility":
        flags = _VISIBILITIES.get(value, 0)
        return flags, CONCEALS | REVEALS if flags else 0
    if name == b"font-size" or name == b"font":
        size_flags = _font_size(name, value)
        return size_flags or 0, SHRINKS | ENLARGES if size_flags is not None else 0
    if name == b"overflow" or name == b"overflow-x" or name == b"overflow-y":
        flags = OVERFLOWS if value == b"visible" else CLIPS if value in _CLIPPING else 0
        return flags, CLIPS | OVERFLOWS if flags else 0
    return _read_hiding(_ALIASES.get(name, name), value)


def _read_hiding(name: bytes, value: bytes) -> tuple[int, int]:
    """Return the flags that a declaration of a property that can hide text sets and clears."""
    flag = FLAGS.get(name, 0)
    if not flag:
        return 0, 0
    if name in SIZES:
        is_hiding = _is_no_size(name, value)
    elif name == b"text-indent" and value.endswith(b"%") and value[:1] != b"-":
        size = _pixels(value)
        is_hiding, flag = size is not None and size >= 100.0, FLAGS[INDENT]
    else:
        is_hiding = _is_hiding(name, value)
    if is_hiding:
        return flag, 0
    keyword, pattern = _SHOWING[name]
    words = value.split() if name == b"margin" or name == b"inset" else [value]
    is_showing = value in _WIDE_KEYWORDS or all(
        word == keyword or pattern.fullmatch(word) for word in words
    )
    cleared = flag | sum(FLAGS[part] for part in _PARTS.get(name, ()))
    return 0, cleared | FLAGS[name] if is_showing else 0


def _is_no_size(name: bytes, value: bytes) -> bool:
    """Return True if a clipped box of this size shows nothing of its text."""
    size = _pixels(value, percent=10.0)
    if name == b"width":  # a cell of a table is at least as wide as its text
        return size is not None and size <= 0.0
    if name == b"line-height" and size and value[-1:].isdigit():  # unit: the size of the font
        return size <= MIN_OPACITY
    return size is not None and size <= _MAX_NO_SIZE


_ALIASES = {
    b"-ms-filter": b"filter",
    b"-webkit-mask": b"mask",
    b"-webkit-mask-image": b"mask-image",
}
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


def _font_size(name: bytes, value: bytes) -> int | None:
    """Return the flag of a font size: 0 if it depends on the parent's, None if it is invalid."""
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
    return ENLARGES if name == b"font-size" and _ABSOLUTE_SIZES.fullmatch(value) else None


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
    if name == b"filter":
        match = _NO_OPACITY.search(value)
        return match is not None and _is_transparent(match[1])
    if name == b"rotate":
        words = frozenset(value.split())
        return bool(words & {b"x", b"y"} and words & _QUARTER_TURNS)
    if name.startswith(b"mask") and b"gradient(" in value:
        colours = {read_colour(match[0]) for match in COLOUR.finditer(value)} - {INHERITED}
        return colours == {TRANSPARENT} and not _PICTURE.search(value)
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


def _is_valid_background(name: bytes, value: bytes) -> bool:
    """Return whether browsers apply a declaration of a background or of its colour."""
    if name == b"background-color":
        return read_colour(value) != INHERITED
    return all(
        _BACKGROUND_WORD.fullmatch(word) or read_colour(word) != INHERITED
        for word in _NOT_BACKGROUND_WORD.split(value)
    )


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


def cascade(styles: Iterable[Style]) -> Style:
    """Combine styles into one; the strongest is last."""
    flags, colour, background, pending, cleared = NO_STYLE
    for style in styles:
        flags = flags & ~style.cleared | style.flags
        cleared |= style.cleared
        if style.colour != INHERITED:
            colour, pending = style.colour, _remove_properties(pending, _COLOUR_PROPERTY)
        if style.background != INHERITED:
            background, pending = (
                style.background,
                _remove_properties(pending, _BACKGROUND_PROPERTIES),
            )
        if style.pending:
            pending += b";" + style.pending
    return Style(flags, colour, background, pending, cleared)


_COLOUR_PROPERTY = frozenset((b"color",))
_BACKGROUND_PROPERTIES = frozenset((b"background", b"background-color", b"background-image"))


def _remove_properties(pending: bytes, names: frozenset[bytes]) -> bytes:
    """Return the declarations without those of properties that stronger declarations set."""
    if not pending:
        return pending
    parts = pending.split(b";")
    return b";".join(part for part in parts if part.partition(b":")[0].strip() not in names)


def combine_styles(sheet_style: Style, own: bytes, important_style: Style) -> Style:
    """Return the style of an element with a style attribute and rules of style sheets."""
    normal, important = split_importance(own)
    return cascade((sheet_style, read_style(normal), important_style, read_style(important)))


def split_importance(declarations: bytes) -> tuple[bytes, bytes]:
    """Return the declarations that are not important, and those that are."""
    if declarations.find(b"!") < 0:
        return declarations, b""
    parts = declarations.split(b";")
    return (
        b";".join(part for part in parts if b"!" not in part),
        b";".join(part for part in parts if b"!" in part),
    )


class Variables:
    """The custom properties (`--name`) of the elements of a page.

    A scope is a number that identifies a set of properties. Scope 0 is empty. An element inherits
    the scope of its parent.
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
