"""Removal of the wrappers that programs add to a message."""

from __future__ import annotations

from streamnb.header_fields import LEADING_BLANK_LINES
from streamnb.mail.content_types import UTF16_MARKS
from streamnb.patterns import lazy_pattern

_CRS_BEFORE_LF = lazy_pattern(rb"(?<!\r)\r\r++\n")
_LF_CRS = lazy_pattern(rb"(?<!\r)(?:\n\r)++(?!\n)")
_BEFORE_HEADER = lazy_pattern(rb"\0*+(?:\xef\xbb\xbf\0*+){0,16}+")
# Files with the size of the message before it, and data behind it: Apple Mail's .emlx, and files of
# Dovecot's sdbox, whose size is hexadecimal.
_DBOX_MESSAGE = b"\n\x01\x02N "
_SIZED = lazy_pattern(
    rb"([0-9]{1,10})[ \t]*\r?\n(?=[!-9;-~]+[ \t]*:|From )"
    rb"|[0-9]+ M1e C[0-9a-f]+\n\x01\x02N {10}([0-9A-F]{16})\n"
)


def convert_line_ends(data: bytes) -> bytes:
    """Return data with LF for CRLF, CR CR LF, LF CR and bare CR."""
    if data.find(b"\r") < 0:  # `in` is slower, because CPython raises an error for bytes first
        return data
    if b"\r\r" in data:
        data = _CRS_BEFORE_LF.sub(b"\n", data)
    if (first := data.find(b"\n\r")) >= 0 and _LF_CRS.match(data, first):
        data = data.replace(b"\n\r", b"\n")
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def unwrap(data: bytes) -> bytes:
    r"""Return a message with LF line ends, without wrappers that programs add.

    Removes byte order marks, NULs and blank lines before the header, and the envelope of Apple's
    .emlx files and of Dovecot's sdbox.
    CRLF, CR CR LF, LF CR and bare CR become LF.

    Examples
    --------
    >>> unwrap(b"\xef\xbb\xbfSubject: hi\r\r\n\r\r\nHello\r")
    b'Subject: hi\n\nHello\n'
    """
    return convert_line_ends(data if data[:1].isalpha() else _without_wrapper(data))


def _without_wrapper(data: bytes) -> bytes:
    """Return a message without its wrapper. A message that begins with a letter has none."""
    if data[:2] in UTF16_MARKS:  # a file saved as "Unicode"
        data = data.decode("utf-16", "replace").encode()
    if data[:1] in (b"\0", b"\xef") and (match := _BEFORE_HEADER.match(data)):
        data = data[match.end() :]
    if data[:1] in (b"\n", b"\r", b" ", b"\t") and (match := LEADING_BLANK_LINES.match(data)):
        data = data[match.end() :]
    if data[:1].isdigit() and (match := _SIZED.match(data)):
        end = match.end() + (int(match[2], 16) if match[1] is None else int(match[1]))
        if match[1] or data.find(_DBOX_MESSAGE, end) < 0:  # with more messages, it is no message
            data = data[match.end() : end]
    return data
