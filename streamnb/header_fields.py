"""The definition of a header field, for all code that reads headers.

`filter` imports this small module and no other module of `streamnb.mail`.
"""

# Some programs write NULs and byte order marks before the name of a field.
FIELD_START = rb"(?:\0|\xef\xbb\xbf)*+"
# The name of a header field. A line of a header without it is not a field.
FIELD_NAME = FIELD_START + rb"([!-9;-~]+)[ \t]*:"
# Blank lines before a header, which some programs write. The name must be a usual one, because a
# message without a header can begin with a blank line and text with a colon.
BLANK_LINES = (
    rb"[ \t\r\n]++(?<=[\r\n])(?=From |(?:received|return-path|delivered-to|x-[\w-]+|dkim-signature"
    rb"|arc-[\w-]+|authentication-results|message-id|date|from|sender|reply-to|to|subject"
    rb"|mime-version|content-type)[ \t]*:)"
)
