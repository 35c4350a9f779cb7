"""Flags of a `Style`, and colours other than 0xRRGGBB; `styles` and `markup.pyx` use them."""

# Flags
HIDES = 1  # no opacity, no size, or off-screen
SHRINKS = 2  # font-size: 0
ENLARGES = 4  # any other font-size
CONCEALS = 8  # visibility: hidden
REVEALS = 16  # visibility: visible
REMOVES = 32  # display: none
DISPLAYS = 64  # any other display
CLIPS = 128  # overflow: hidden
OVERFLOWS = 256  # overflow: visible
HAS_NO_SIZE = 512  # no width or no height: hides clipped text
BREAKS = 1024  # display: block, or another one that ends a word

# Colours
INHERITED = -1  # the colour is not set
UNKNOWN = -2  # the colour is set to a value that is not supported
TRANSPARENT = -4  # invisible text
PARENT = -8  # text with the parent's colour set explicitly, for links, too
CURRENT = -16  # a background with the colour of the text
MIN_OPACITY = 0.05  # text with a lower opacity is invisible to readers
SAME_COLOUR = 24  # maximum difference of a channel (0 to 255) at which text is invisible
