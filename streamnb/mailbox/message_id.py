"""The Message-ID of a message, without parsing it."""

from __future__ import annotations

import re

from streamnb.patterns import lazy_pattern

_HEADER_BYTES = 1 << 15  # bytes of a message that are searched for the Message-ID
_MESSAGE_ID = lazy_pattern(rb"^Message-ID[ \t]*:(?:[ \t]|\r?\n[ \t])*+([^\s]{1,250})", re.I | re.M)
_HEADER_END = lazy_pattern(rb"(?:\A|\n)\r?\n")


def message_id(message: bytes) -> str:
    r"""Return the Message-ID of a message as written in its header; "" if there is none.

    Examples
    --------
    >>> message_id(b"Subject: x\r\nMessage-ID: <1@example.org>\r\n\r\n")
    '<1@example.org>'
    """
    header = message[:_HEADER_BYTES]
    end = _HEADER_END.search(header)
    match = _MESSAGE_ID.search(header, 0, end.start() + 1 if end else len(header))
    return "" if match is None else match[1].decode("utf-8", "replace")
