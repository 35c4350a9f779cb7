"""Flags of a `Style`, and colours other than 0xRRGGBB; `styles` and `markup.pyx` use them."""

# Flags
HIDES = 1  # no opacity, no size, off-screen
SHRINKS = 2  # font-size: 0
ENLARGES = 4  # any other font-size
CONCEALS = 8  # visibility: hidden
REVEALS = 16  # visibility: visible
REMOVES = 32  # display: none
DISPLAYS = 64  # any other display
CLIPS = 128  # overflow: hidden
OVERFLOWS = 256  # overflow: visible
HAS_NO_SIZE = 512  # no width or no height: hides what is clipped

# Colours
INHERITED = -1  # of a colour: not set
UNKNOWN = -2  # set to something that is not understood
TRANSPARENT = -4  # of text: no reader sees it
PARENT = -8  # of text: explicitly that of the parent, for links, too
CURRENT = -16  # of a background: the colour of the text
MIN_OPACITY = 0.05  # no reader sees text of less
SAME_COLOUR = 24  # largest gap of a channel (0 to 255) at which no reader sees text
