"""The definition of a header field, for all code that reads headers.

`filter` imports this small module and no other module of `streamnb.mail`.
"""

import re

from streamnb.patterns import lazy_pattern

# Some programs write NULs and byte order marks before the name of a field.
FIELD_START = rb"(?:\0|\xef\xbb\xbf)*+"
# The name of a header field. A line of a header without it is not a field.
FIELD_NAME = FIELD_START + rb"([!-9;-~]+)[ \t]*:"
# Blank lines before a header, which some programs write. One of its first fields must be a usual
# one, because a message without a header can begin with a blank line and text with a colon. The
# field that streamnb adds to any message is no sign of a header.
_REST_OF_LINE = rb"[^\r\n]*+(?:\r*+\n\r?+|\r)"
_ANY_FIELD = rb"[!-9;-~]++[ \t]*+:%b(?:[ \t]%b)*+" % (_REST_OF_LINE, _REST_OF_LINE)
LEADING_BLANK_LINES = lazy_pattern(
    rb"[ \t\r\n]++(?<=[\r\n])(?=From |(?:%b){0,20}?(?:received|return-path|delivered-to"
    rb"|x-(?!streamnb[ \t]*+:)[\w-]+|dkim-signature|arc-[\w-]+|authentication-results"
    rb"|message-id|date|from|sender|reply-to|to|subject|mime-version|content-type)[ \t]*:)"
    % _ANY_FIELD,
    re.I,
)
