"""The definition of a header field, for all code that reads headers; `filter` imports no more."""

# Some programs write NULs and byte order marks before the name of a field.
FIELD_START = rb"(?:\0|\xef\xbb\xbf)*+"
# The name of a header field. A line of a header without it is not a field.
FIELD_NAME = FIELD_START + rb"([!-9;-~]+)[ \t]*:"
