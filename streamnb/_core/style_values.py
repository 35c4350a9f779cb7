"""Flags of a `Style`, and colours other than 0xRRGGBB; `styles` and `markup.pyx` use them."""

# Flags
SHRINKS = 2  # font-size: 0
ENLARGES = 4  # any other font-size
CONCEALS = 8  # visibility: hidden
REVEALS = 16  # visibility: visible
REMOVES = 32  # display: none
DISPLAYS = 64  # any other display
CLIPS = 128  # overflow: hidden
OVERFLOWS = 256  # overflow: visible
BREAKS = 512  # display: block, or another one that ends a word

# Each property that hides text by some of its values has a flag, so a later value removes it.
MARGINS = tuple(
    b"margin-" + side
    for side in b"""left right top bottom inline block inline-start inline-end block-start
    block-end""".split()
)
EDGES = (b"left", b"top", b"right", b"bottom")
_HIDING = (
    *b"""margin inset opacity zoom scale text-indent letter-spacing clip clip-path transform
    translate filter rotate mask mask-image font-size-adjust content-visibility""".split(),
    *MARGINS,
    *EDGES,
)
SIZES = frozenset(
    b"""width height inline-size block-size max-width max-height max-inline-size max-block-size
    line-height""".split()
)
INDENT = b"text-indent: 100%"
FLAGS = {name: 1024 << bit for bit, name in enumerate((*_HIDING, *sorted(SIZES), INDENT))}
HIDES = sum(FLAGS[name] for name in _HIDING)  # no opacity, no size, or off-screen
HAS_NO_SIZE = sum(FLAGS.values()) - HIDES  # no width or no height: hides clipped text

# Colours
INHERITED = -1  # the colour is not set
UNKNOWN = -2  # the colour is set to a value that is not supported
TRANSPARENT = -4  # invisible text
PARENT = -8  # text with the parent's colour set explicitly, for links, too
CURRENT = -16  # a background with the colour of the text
MIN_OPACITY = 0.05  # text with a lower opacity is invisible to readers
SAME_COLOUR = 24  # maximum difference of a channel (0 to 255) at which text is invisible
