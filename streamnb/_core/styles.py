"""Style sheets and style attributes of HTML: what they do to the visibility of text.

This is not CSS, but the part of it that can hide text: a few properties, and selectors of tags,
classes, ids and their ancestors. The page is read in `markup.pyx`.
"""

from __future__ import annotations

import colorsys
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from html import unescape
from typing import NamedTuple

HIDES = 1  # no opacity, no size, off-screen
SHRINKS = 2  # font-size: 0
ENLARGES = 4  # any other font-size
CONCEALS = 8  # visibility: hidden
REVEALS = 16  # visibility: visible
REMOVES = 32  # display: none
DISPLAYS = 64  # any other display
_ALTERNATIVES = (SHRINKS | ENLARGES, CONCEALS | REVEALS, REMOVES | DISPLAYS)  # the last one holds

INHERITED = -1  # of a colour: not set
UNKNOWN = -2  # set to something that is not understood
TRANSPARENT = -4  # of text: no reader sees it

_MAX_VALUE = 80  # bytes of a value that are read
_MAX_SHEETS = 65536  # bytes of the style sheets of a page that are read
_MAX_SHEET_COUNT = 64  # each has a cost of its own
_MAX_SELECTOR = 200  # bytes
_MAX_CLASSES = 16  # of an element
_MAX_ANCESTORS = 62  # tags, classes and ids that selectors name as ancestors; bits of a mask
_MAX_NESTING = 8  # of rules with @
_MAX_CHECKS = 1 << 18  # rules that are compared with the elements of a page: about 50 ms
_MAX_CACHED = 4096
_MAX_KEY = 500  # bytes of a style whose effect is cached
_MIN_OPACITY = 0.05  # no reader sees text of less
_PHONE_WIDTH, _SCREEN_WIDTH = 320, 1920  # pixels: every reader's window is within

_COMMENT = re.compile(rb"/\*(?:[^*]|\*(?!/))*+(?:\*/)?|<!--|-->")
_ESCAPE = re.compile(rb"\\(?:([0-9a-f]{1,6})\s?)?")  # \64 is d
_ZERO = re.compile(rb"[+-]?0*\.?0*(?:px|pt|em|rem|ex|ch|%|vw|vh|in|cm|mm|pc)?\Z")
_TINY = re.compile(rb"(?:0?\.\d+|1)px|0?\.\d+(?:pt|em|rem)|[0-5](?:\.\d+)?%\Z")
_FAR = re.compile(
    rb"-\s*\d{3,}(?:\.\d+)?(?:px|pt|em|rem|%|vw|vh)|-?\d{2,}(?:em|rem)|-\d{3,}%|\d{4,}(?:px|pt|%)"
)
_NO_AREA = re.compile(
    rb"rect\((?:[01]?(?:px)?[\s,]*){4}\)|inset\((?:50|100)%|circle\(0|polygon\((?:0[px%]*[\s,]*)+\)"
)
_FAR_OR_NO_SIZE = re.compile(rb"scale(?:[xyz]|3d)?\(\s*0\s*[,)]|translate(?:[xy]|3d)?\(\s*-\d{4,}")
_NO_OPACITY = re.compile(rb"opacity\s*[(=]\s*([\d.]+%?)")
_IMPORTANT = re.compile(rb"!\s*important")

_COLOUR = re.compile(rb"#([0-9a-f]{3,8})\b|(rgb|hsl|hwb)a?\(([^)]{1,80})\)|([a-z]+)")
_HUE_UNITS = {b"turn": 1.0, b"rad": 0.15915494, b"grad": 0.0025, b"deg": 1 / 360, b"": 1 / 360}
_COMPONENT = re.compile(rb"([+-]?[\d.]{1,20}(?:e-?\d)?)(%|[a-z]{0,4})\Z")
# Named colours of CSS Color Module Level 4.
_COLOUR_NAMES = b"""
aliceblue f0f8ff antiquewhite faebd7 aqua 00ffff aquamarine 7fffd4 azure f0ffff beige f5f5dc
bisque ffe4c4 black 000000 blanchedalmond ffebcd blue 0000ff blueviolet 8a2be2 brown a52a2a
burlywood deb887 cadetblue 5f9ea0 chartreuse 7fff00 chocolate d2691e coral ff7f50
cornflowerblue 6495ed cornsilk fff8dc crimson dc143c cyan 00ffff darkblue 00008b darkcyan 008b8b
darkgoldenrod b8860b darkgray a9a9a9 darkgreen 006400 darkgrey a9a9a9 darkkhaki bdb76b
darkmagenta 8b008b darkolivegreen 556b2f darkorange ff8c00 darkorchid 9932cc darkred 8b0000
darksalmon e9967a darkseagreen 8fbc8f darkslateblue 483d8b darkslategray 2f4f4f
darkslategrey 2f4f4f darkturquoise 00ced1 darkviolet 9400d3 deeppink ff1493 deepskyblue 00bfff
dimgray 696969 dimgrey 696969 dodgerblue 1e90ff firebrick b22222 floralwhite fffaf0
forestgreen 228b22 fuchsia ff00ff gainsboro dcdcdc ghostwhite f8f8ff gold ffd700
goldenrod daa520 gray 808080 green 008000 greenyellow adff2f grey 808080 honeydew f0fff0
hotpink ff69b4 indianred cd5c5c indigo 4b0082 ivory fffff0 khaki f0e68c lavender e6e6fa
lavenderblush fff0f5 lawngreen 7cfc00 lemonchiffon fffacd lightblue add8e6 lightcoral f08080
lightcyan e0ffff lightgoldenrodyellow fafad2 lightgray d3d3d3 lightgreen 90ee90
lightgrey d3d3d3 lightpink ffb6c1 lightsalmon ffa07a lightseagreen 20b2aa lightskyblue 87cefa
lightslategray 778899 lightslategrey 778899 lightsteelblue b0c4de lightyellow ffffe0
lime 00ff00 limegreen 32cd32 linen faf0e6 magenta ff00ff maroon 800000 mediumaquamarine 66cdaa
mediumblue 0000cd mediumorchid ba55d3 mediumpurple 9370db mediumseagreen 3cb371
mediumslateblue 7b68ee mediumspringgreen 00fa9a mediumturquoise 48d1cc mediumvioletred c71585
midnightblue 191970 mintcream f5fffa mistyrose ffe4e1 moccasin ffe4b5 navajowhite ffdead
navy 000080 oldlace fdf5e6 olive 808000 olivedrab 6b8e23 orange ffa500 orangered ff4500
orchid da70d6 palegoldenrod eee8aa palegreen 98fb98 paleturquoise afeeee palevioletred db7093
papayawhip ffefd5 peachpuff ffdab9 peru cd853f pink ffc0cb plum dda0dd powderblue b0e0e6
purple 800080 rebeccapurple 663399 red ff0000 rosybrown bc8f8f royalblue 4169e1
saddlebrown 8b4513 salmon fa8072 sandybrown f4a460 seagreen 2e8b57 seashell fff5ee
sienna a0522d silver c0c0c0 skyblue 87ceeb slateblue 6a5acd slategray 708090 slategrey 708090
snow fffafa springgreen 00ff7f steelblue 4682b4 tan d2b48c teal 008080 thistle d8bfd8
tomato ff6347 turquoise 40e0d0 violet ee82ee wheat f5deb3 white ffffff whitesmoke f5f5f5
yellow ffff00 yellowgreen 9acd32
""".split()
_COLOURS = {
    name: int(digits, 16)
    for name, digits in zip(_COLOUR_NAMES[::2], _COLOUR_NAMES[1::2], strict=True)
}
_UNSET = frozenset((b"inherit", b"none", b"initial", b"unset", b"auto"))
_PLACES = frozenset((b"text-indent", b"left", b"top", b"right", b"bottom"))

_BRACE = re.compile(rb"[{}]")
_COMBINATOR = re.compile(rb"\s*>\s*|\s+")
_ATTRIBUTE = re.compile(rb"\[\s*(class|id)\s*[~|^*$]?=\s*[\"']?([\w\x80-\xff-]+)[\"']?\s*\]")
_NEGATION = re.compile(rb":not\([^()]*\)")
_COMPOUND = re.compile(rb"(\*|[a-z][\w-]*)?((?:[.#][\w\x80-\xff-]+)*)")
_ATOM = re.compile(rb"[.#][\w\x80-\xff-]+")
_WIDTHS = rb"(?:\s*(?:and\s+)?\((?:min|max)-(?:device-)?width\s*:\s*\d+px\s*\)){0,4}"
_MEDIA = re.compile(rb"\s*(?:only\s+)?(?:screen|all)?%b\s*" % _WIDTHS)
_WIDTH = re.compile(rb"(min|max)-[a-z-]+\s*:\s*(\d+)")


class Style(NamedTuple):
    """The effect of declarations on text: a sum of flags, its colour and its background."""

    flags: int = 0
    colour: int = INHERITED
    background: int = INHERITED


NO_STYLE = Style()
_styles: dict[bytes, Style] = {}
_colours: dict[bytes, int] = {}


def read_colour(text: bytes) -> int:
    """Return a colour as 0xRRGGBB, INHERITED, TRANSPARENT, or UNKNOWN.

    Examples
    --------
    >>> hex(read_colour(b"hsl(120deg 100% 50%)")), hex(read_colour(b"Linen"))
    ('0xff00', '0xfaf0e6')
    """
    colour = _colours.get(text)
    if colour is None:
        colour = _read_colour(text.strip().lower())
        if len(_colours) < _MAX_CACHED and len(text) <= _MAX_KEY:
            _colours[text] = colour
    return colour


def _read_colour(text: bytes) -> int:
    if re.match(rb"[0-9a-f]{6}(?![a-z])", text):  # an attribute without its #
        return int(text[:6], 16)
    match = _COLOUR.match(text)
    if match is None:
        return UNKNOWN
    digits, function, arguments, name = match.groups()
    if digits:
        if len(digits) in (4, 8) and int(digits[len(digits) // 4 * 3 :], 16) == 0:
            return TRANSPARENT
        if len(digits) < 6:
            digits = bytes(c for digit in digits[:3] for c in (digit, digit))
        return int(digits[:6], 16)
    if function:
        return _read_colour_function(function, arguments)
    if name == b"transparent":
        return TRANSPARENT
    return INHERITED if name in _UNSET else _COLOURS.get(name, UNKNOWN)


def _read_colour_function(function: bytes, arguments: bytes) -> int:
    """Return the colour of rgb(), hsl() or hwb(), with commas or blanks."""
    parts = arguments.replace(b",", b" ").replace(b"/", b" ").split()
    components = [_COMPONENT.match(b"0" if part == b"none" else part) for part in parts[:4]]
    try:
        values = [(float(match[1]), match[2]) for match in components if match]
    except ValueError:
        return UNKNOWN
    if len(values) < 3 or len(values) < len(components):
        return UNKNOWN
    if len(values) > 3 and values[3][0] / (100 if values[3][1] else 1) < _MIN_OPACITY:
        return TRANSPARENT
    if function == b"rgb":
        channels = [value / (100 if unit else 255) for value, unit in values[:3]]
    else:
        hue = values[0][0] * _HUE_UNITS.get(values[0][1], 1 / 360) % 1.0
        second, third = (min(max(value / 100, 0.0), 1.0) for value, _ in values[1:3])
        if function == b"hsl":
            channels = list(colorsys.hls_to_rgb(hue, third, second))
        else:  # hue, whiteness, blackness
            scale = max(second + third, 1.0)
            white, black = second / scale, third / scale
            pure = colorsys.hls_to_rgb(hue, 0.5, 1.0)
            channels = [channel * (1 - white - black) + white for channel in pure]
    red, green, blue = (round(255 * min(max(channel, 0.0), 1.0)) for channel in channels)
    return red << 16 | green << 8 | blue


def read_style(declarations: bytes) -> Style:
    """Return what a style attribute does to text.

    Examples
    --------
    >>> read_style(b"Color: white; display: none").flags == REMOVES
    True
    """
    style = _styles.get(declarations)
    if style is None:
        style = _read_style(declarations.lower())
        if len(_styles) < _MAX_CACHED and len(declarations) <= _MAX_KEY:
            _styles[declarations] = style
    return style


def _unescape(text: bytes) -> bytes:
    """Return CSS without its escapes and comments."""
    if b"\\" in text:
        text = _ESCAPE.sub(
            lambda match: bytes((int(match[1], 16) & 127,)) if match[1] else b"", text
        )
    return _COMMENT.sub(b"", text) if b"*" in text or b"-->" in text or b"<!--" in text else text


def _read_style(style: bytes) -> Style:
    flags, colour, background = 0, INHERITED, INHERITED
    is_clipped = False
    has_no_size: dict[bytes, bool] = {}
    if b"&" in style:
        style = unescape(style.decode("latin-1")).lower().encode("latin-1", "replace")
    for declaration in _unescape(style).split(b";"):
        name, _, value = declaration.partition(b":")
        name, value = name.strip(), value.strip()[:_MAX_VALUE]
        if b"!" in value:
            value = _IMPORTANT.sub(b"", value).strip()
        if value.startswith(b"calc("):
            value = value[5:].rstrip(b") ")
        flag = 0
        if name == b"display":
            flag = REMOVES if value == b"none" else DISPLAYS
        elif name == b"mso-hide":
            flag = REMOVES if value == b"all" else 0
        elif name == b"visibility":
            if value in (b"hidden", b"collapse"):
                flag = CONCEALS
            elif value == b"visible":
                flag = REVEALS
        elif name == b"font-size" or name == b"font":
            flag = _font_size(value.partition(b"/")[0].split() if name == b"font" else [value])
            flag = ENLARGES if name == b"font-size" and not flag else flag
        elif name == b"color":
            colour = read_colour(value)
        elif name == b"background-color":
            background = read_colour(value)
        elif name == b"background":
            has_picture = b"url(" in value or b"gradient" in value
            background = UNKNOWN if has_picture else _background(value)
        elif name == b"background-image":
            background = background if value == b"none" else UNKNOWN
        elif name in (b"width", b"height", b"max-width", b"max-height"):
            side = name[-5:]
            has_no_size[side] = _ZERO.match(value) is not None or has_no_size.get(side, False)
        elif name in (b"overflow", b"overflow-x", b"overflow-y"):
            is_clipped = is_clipped or value in (b"hidden", b"clip")
        elif _is_hiding(name, value):
            flag = HIDES
        flags = _combine(flags, flag)
    if is_clipped and any(has_no_size.values()):
        flags |= HIDES
    if background == TRANSPARENT:
        background = INHERITED
    return Style(flags, colour, background)


def _font_size(values: list[bytes]) -> int:
    """Return the flag of the size among the values of a font; 0 if there is none."""
    sizes = [value for value in values if value[:1].isdigit() or value[:1] == b"."]
    if any(_ZERO.match(size) or _TINY.match(size) for size in sizes):
        return SHRINKS
    return ENLARGES if sizes else 0


def _is_hiding(name: bytes, value: bytes) -> bool:
    """Return True if a declaration makes text invisible: no opacity, no area, off-screen."""
    if name == b"opacity":
        return _is_transparent(value)
    if name in _PLACES:
        return _FAR.match(value) is not None
    if name.startswith(b"margin"):
        return any(side.startswith(b"-") and _FAR.match(side) for side in value.split())
    if name == b"clip" or name == b"clip-path":
        return _NO_AREA.match(value) is not None
    if name == b"transform":
        return _FAR_OR_NO_SIZE.search(value) is not None
    if name == b"filter" or name == b"-ms-filter":
        match = _NO_OPACITY.search(value)
        return match is not None and _is_transparent(match[1])
    if name == b"zoom":
        return _ZERO.match(value) is not None
    return name == b"content-visibility" and value == b"hidden"


def _is_transparent(value: bytes) -> bool:
    try:
        opacity = float(value.rstrip(b"%")) / (100 if value.endswith(b"%") else 1)
    except ValueError:
        return False
    return opacity < _MIN_OPACITY


def _background(value: bytes) -> int:
    """Return the colour among the values of a background; functions have blanks in them."""
    colour = read_colour(value)
    colours = [colour] if colour >= 0 else [read_colour(part) for part in value.split()]
    opaque_colours = [colour for colour in colours if colour >= 0]
    return opaque_colours[0] if opaque_colours else UNKNOWN if UNKNOWN in colours else INHERITED


def _combine(flags: int, further_flags: int) -> int:
    """Return flags changed by further ones: of alternatives the further one holds."""
    for alternatives in _ALTERNATIVES:
        if further_flags & alternatives:
            flags &= ~alternatives
    return flags | further_flags


def cascade(styles: Iterable[Style]) -> Style:
    """Return the style that several ones make, the strongest last."""
    flags, colour, background = NO_STYLE
    for style in styles:
        flags = _combine(flags, style.flags)
        colour = colour if style.colour == INHERITED else style.colour
        background = background if style.background == INHERITED else style.background
    return Style(flags, colour, background)


class _Rule(NamedTuple):
    """A rule of a style sheet, with one selector."""

    specificity: tuple[int, int, int]
    order: int
    atoms: frozenset[bytes]  # tag, .class and #id that an element must have
    ancestors: int  # mask of those that the elements around it must have
    style: Style
    important_style: Style


# Mask of an element as an ancestor; its style, its important style, and both together.
_Styles = tuple[int, Style, Style, Style]


class StyleRules:
    """The rules of the style sheets of a page.

    Attributes
    ----------
    has_unknown_background
        True if a selector that is not understood sets a background.
    tags
        The tags in selectors; with "*" an element of any tag can have a style.
    """

    def __init__(self) -> None:
        self.has_unknown_background = False
        self.tags: set[bytes] = set()
        self._rules: defaultdict[bytes, list[_Rule]] = defaultdict(list)
        self._bits: dict[bytes, int] = {}
        self._styles: dict[tuple[bytes, bytes, bytes, int], _Styles] = {}
        self._size_left = _MAX_SHEETS
        self._sheets_left = _MAX_SHEET_COUNT
        self._order = 0
        self._checks = 0

    def add_sheet(self, sheet: bytes) -> bool:
        """Add the rules of a style sheet, up to a size of all; return True if there are any."""
        sheet = sheet[: self._size_left]
        self._size_left -= len(sheet)
        self._sheets_left -= 1
        if not sheet or self._sheets_left < 0:
            return False
        before = self._order, self.has_unknown_background
        for selectors, declarations in _read_rules(_unescape(sheet.lower())):
            parts = declarations.split(b";")
            style = read_style(b";".join(part for part in parts if b"!" not in part))
            important_style = read_style(b";".join(part for part in parts if b"!" in part))
            if style == NO_STYLE == important_style:
                continue
            for selector in selectors.split(b","):
                self._add_rule(selector, style, important_style)
        if before == (self._order, self.has_unknown_background):
            return False
        self._styles.clear()
        return True

    def _add_rule(self, selector: bytes, style: Style, important_style: Style) -> None:
        compounds = _read_selector(selector)
        if compounds is None:
            if {style.background, important_style.background} != {INHERITED}:
                self.has_unknown_background = True
            return
        atoms, ancestors = compounds[-1], frozenset().union(*compounds[:-1])
        mask = 0
        for atom in ancestors - {b"html", b"body", b"*"}:
            if atom not in self._bits and len(self._bits) == _MAX_ANCESTORS:
                return
            mask |= self._bits.setdefault(atom, 1 << len(self._bits))
        every_atom = [atom for compound in compounds for atom in compound]
        ids, classes = (sum(atom[:1] == kind for atom in every_atom) for kind in (b"#", b"."))
        self.tags.update(atom for atom in every_atom if atom[:1] not in (b"#", b"."))
        if not atoms:
            self.tags.add(b"*")
        self._order += 1
        specificity = (ids, classes, len(every_atom) - ids - classes)
        # Found by its rarest atom; ids sort before classes, "*" and tags.
        key = min(atoms, key=lambda atom: (b"#.".find(atom[:1]) % 3, atom), default=b"*")
        self._rules[key].append(
            _Rule(specificity, self._order, atoms - {b"*"}, mask, style, important_style)
        )

    def styles(self, tag: bytes, classes: bytes, element_id: bytes, ancestors: int) -> _Styles:
        """Return what the rules do to an element within elements of a mask, and its own mask."""
        key = (tag, classes, element_id, ancestors)
        styles = self._styles.get(key)
        if styles is None:
            styles = self._find_styles(*key)
            if len(self._styles) < _MAX_CACHED:
                self._styles[key] = styles
        return styles

    def _find_styles(
        self, tag: bytes, classes: bytes, element_id: bytes, ancestors: int
    ) -> _Styles:
        atoms = {tag, b"#" + element_id.strip().lower()}
        atoms.update(b"." + name for name in classes.lower().split()[:_MAX_CLASSES])
        mask = 0
        for atom in atoms:
            mask |= self._bits.get(atom, 0)
        candidates = [self._rules[atom] for atom in (*atoms, b"*") if atom in self._rules]
        self._checks += sum(map(len, candidates))
        if not candidates or self._checks > _MAX_CHECKS:
            return mask, NO_STYLE, NO_STYLE, NO_STYLE
        matching = sorted(
            rule
            for rules in candidates
            for rule in rules
            if rule.atoms <= atoms and rule.ancestors & ancestors == rule.ancestors
        )
        style = cascade(rule.style for rule in matching)
        important_style = cascade(rule.important_style for rule in matching)
        return mask, style, important_style, cascade((style, important_style))


def _read_rules(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield selectors and declarations of the rules that hold for every reader."""
    preludes: list[bytes] = []
    start = 0
    text += b"}"  # browsers close what is open at the end
    for brace in _BRACE.finditer(text):
        content = text[start : brace.start()]
        start = brace.end()
        if brace[0] == b"{":
            preludes.append(content.rpartition(b";")[2].strip())
        elif preludes:
            prelude = preludes.pop()
            is_rule = not prelude.startswith(b"@")
            if is_rule and len(preludes) < _MAX_NESTING and all(map(_holds, preludes)):
                yield prelude, content


def _holds(prelude: bytes) -> bool:
    """Return True if the rules within a rule with @ hold for every reader."""
    if not prelude.startswith(b"@media"):
        return prelude.startswith((b"@supports", b"@layer"))
    return any(
        _MEDIA.fullmatch(query)
        and all(
            int(width) <= _PHONE_WIDTH if bound == b"min" else int(width) >= _SCREEN_WIDTH
            for bound, width in _WIDTH.findall(query)
        )
        for query in prelude[6 : 6 + _MAX_SELECTOR].split(b",")
    )


def _read_selector(selector: bytes) -> list[frozenset[bytes]] | None:
    """Return the tags, classes and ids of each part of a selector; None if not understood.

    Examples
    --------
    >>> _read_selector(b"#a > td.b") == [frozenset({b"#a"}), frozenset({b"td", b".b"})]
    True
    """
    selector = selector.strip()
    if len(selector) > _MAX_SELECTOR:
        return None
    if b"[" in selector:
        selector = _ATTRIBUTE.sub(
            lambda match: (b"." if match[1] == b"class" else b"#") + match[2], selector
        )
    if b":" in selector:
        selector = _NEGATION.sub(b"", selector)
    compounds = []
    for part in _COMBINATOR.split(selector):
        match = _COMPOUND.fullmatch(part)
        if match is None or not part:
            return None
        compounds.append(frozenset(([match[1]] if match[1] else []) + _ATOM.findall(match[2])))
    return compounds
