"""Colours of CSS and HTML."""

from __future__ import annotations

import colorsys
from functools import lru_cache

from streamnb._core.style_values import INHERITED, MIN_OPACITY, PARENT, TRANSPARENT, UNKNOWN
from streamnb.patterns import lazy_pattern

COLOUR = lazy_pattern(
    rb"#([0-9a-f]{3,8})\b|(rgb|hsl|hwb|oklab|oklch|lab|lch|color)a?\(([^()]{1,80})\)"
    rb"|(?<![\w-])([a-z]++)(?![(-])"
)
# functions of colours that are not supported, but valid; browsers ignore other ones
_FUNCTION = lazy_pattern(
    rb"(?:(?:rgb|hsl)a?|hwb|(?:ok)?(?:lab|lch)|color(?:-mix)?|light-dark|contrast-color|env|attr)\("
)
_NOT_HEX = lazy_pattern(rb"[^0-9a-f]")
_HUE_UNITS = {b"turn": 1.0, b"rad": 0.15915494, b"grad": 0.0025, b"deg": 1 / 360, b"": 1 / 360}
_COMPONENT = lazy_pattern(rb"([+-]?[\d.]{1,20}(?:e-?\d)?)(%|[a-z]{0,4})\Z")
# Named colours of CSS Color Module Level 4, system colours of a light theme, and the initial one.
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
canvas ffffff canvastext 000000 window ffffff windowtext 000000 field ffffff fieldtext 000000
buttonface f0f0f0 buttontext 000000 linktext 0000ee graytext 808080 initial 000000
""".split()
_COLOURS = {
    name: int(digits, 16)
    for name, digits in zip(_COLOUR_NAMES[::2], _COLOUR_NAMES[1::2], strict=True)
}
_OF_PARENT = frozenset((b"inherit", b"unset", b"currentcolor", b"revert"))


@lru_cache(maxsize=4096)
def read_colour(text: bytes) -> int:
    """Return a colour of CSS as 0xRRGGBB or one of the constants; INHERITED for an invalid colour.

    Examples
    --------
    >>> hex(read_colour(b"hsl(120deg 100% 50%)")), hex(read_colour(b"Linen"))
    ('0xff00', '0xfaf0e6')
    """
    text = text.strip().lower()
    match = COLOUR.fullmatch(text)
    if match is None:
        return UNKNOWN if _FUNCTION.match(text) else INHERITED
    digits, function, arguments, name = match.groups()
    if digits:
        if len(digits) not in (3, 4, 6, 8):
            return INHERITED
        if len(digits) in (4, 8) and int(digits[len(digits) // 4 * 3 :], 16) == 0:
            return TRANSPARENT
        if len(digits) < 6:
            digits = bytes(c for digit in digits[:3] for c in (digit, digit))
        return int(digits[:6], 16)
    if function:
        return _read_colour_function(function, arguments)
    if name == b"transparent":
        return TRANSPARENT
    return PARENT if name in _OF_PARENT else _COLOURS.get(name, INHERITED)


def read_attribute_colour(text: bytes) -> int:
    """Return the colour of an attribute such as bgcolor.

    By the HTML standard's rules for legacy colours, any text stands for a colour.

    Examples
    --------
    >>> hex(read_attribute_colour(b"FFFFFF")), hex(read_attribute_colour(b"chucknorris"))
    ('0xffffff', '0xc00000')
    """
    text = text.strip().lower()[:128]
    if not text or text == b"transparent":
        return INHERITED
    colour = _COLOURS.get(text)
    if colour is not None:
        return colour
    if text.startswith((b"rgb(", b"rgba(", b"hsl(")):  # some mail programs accept these
        return read_colour(text)
    if len(text) == 4 and text[:1] == b"#" and not _NOT_HEX.search(text, 1):
        return int(bytes(c for digit in text[1:] for c in (digit, digit)), 16)
    digits = _NOT_HEX.sub(b"0", text.removeprefix(b"#")) or b"0"
    digits += b"0" * (-len(digits) % 3)
    size = len(digits) // 3
    channels = [digits[start : start + size][-8:] for start in range(0, 3 * size, size)]
    while len(channels[0]) > 2 and all(channel[:1] == b"0" for channel in channels):
        channels = [channel[1:] for channel in channels]
    red, green, blue = (int(channel[:2], 16) for channel in channels)
    return red << 16 | green << 8 | blue


def _read_colour_function(function: bytes, arguments: bytes) -> int:
    """Return the colour of a function such as rgb(), with commas or blanks."""
    space = b""
    if function == b"color":
        space, _, arguments = arguments.strip().partition(b" ")
    parts = arguments.replace(b",", b" ").replace(b"/", b" ").split()
    components = [_COMPONENT.match(b"0" if part == b"none" else part) for part in parts[:4]]
    try:
        values = [(float(match[1]), match[2]) for match in components if match]
    except ValueError:
        return UNKNOWN
    if len(values) < 3 or len(values) < len(components):
        return UNKNOWN
    if len(values) > 3 and values[3][0] / (100 if values[3][1] else 1) < MIN_OPACITY:
        return TRANSPARENT
    channels = _channels(function, space, values)
    if channels is None:
        return UNKNOWN
    red, green, blue = (round(255 * min(max(channel, 0.0), 1.0)) for channel in channels)
    return red << 16 | green << 8 | blue


def _channels(
    function: bytes, space: bytes, values: list[tuple[float, bytes]]
) -> list[float] | None:
    """Return red, green and blue, 0 to 1, of a colour function; None if it is not supported."""
    if function == b"rgb":
        return [value / (100 if unit else 255) for value, unit in values[:3]]
    if function == b"color":
        is_rgb = space in (b"srgb", b"display-p3", b"srgb-linear")
        return [value / (100 if unit else 1) for value, unit in values[:3]] if is_rgb else None
    if function in (b"lab", b"lch", b"oklab", b"oklch"):
        lightness, unit = values[0]
        grey = lightness / (1 if function[:2] == b"ok" and not unit else 100)
        has_hue = values[1][0] if function.endswith(b"lch") else max(abs(v[0]) for v in values[1:3])
        return None if has_hue > 0.02 and 0.0 < grey < 1.0 else [grey] * 3
    hue = values[0][0] * _HUE_UNITS.get(values[0][1], 1 / 360) % 1.0
    second, third = (min(max(value / 100, 0.0), 1.0) for value, _ in values[1:3])
    if function == b"hsl":
        return list(colorsys.hls_to_rgb(hue, third, second))
    scale = max(second + third, 1.0)  # hwb: hue, whiteness, blackness
    white, black = second / scale, third / scale
    pure = colorsys.hls_to_rgb(hue, 0.5, 1.0)
    return [channel * (1 - white - black) + white for channel in pure]
