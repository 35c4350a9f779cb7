"""Conversion of calendars, address cards, RTF, enriched and flowed text to plain text or HTML."""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping

from streamnb.mail.charsets import decode_text
from streamnb.mail.content_types import ARMOR_START, CALENDAR_TYPES, ENRICHED_TYPES
from streamnb.patterns import lazy_pattern

_FOLD = lazy_pattern(rb"\r?\n[ \t]")
# A property of vCard 2.1 or vCalendar 1.0; a line that ends with "=" continues.
_QUOTED = lazy_pattern(
    rb"^(?=[^:\n]*+:)"  # without it, the time for a line without a colon would be quadratic
    rb"([^:\n]*;(?:encoding=)?quoted-printable\b[^:\n]*:)((?:[^\n]*=\r?\n)*+[^\n]*)",
    re.I | re.M,
)
_CHARSET = lazy_pattern(rb";charset=([\w-]{1,40})", re.I)
_ENRICHED = lazy_pattern(rb"<lt>|<(/?)(param|comment|nl|np)>", re.I)
_SIGNATURE = b"-- "
# Data in ASCII of OpenPGP and S/MIME (RFC 9580, 6; RFC 7468), also quoted: all lines have the
# letters of base64, and the last two can be short. The lines before it are kept.
_QUOTES = rb"[> \t]{0,20}+"
_ARMOR = lazy_pattern(
    rb"^(%b-----BEGIN [A-Z0-9 ]{3,40}+-----[ \t]*\n(?:%b[A-Za-z-]{1,40}+: [^\n]*\n)*+(?:%b\n)?)"
    rb"(?:%b[A-Za-z0-9+/=]{40,76}+[ \t]*\n)++(?:%b[A-Za-z0-9+/=]{1,76}+[ \t]*\n){0,2}+"
    rb"(?=%b-----END )" % (6 * (_QUOTES,)),
    re.M,
)


def convert_format(content: bytes, content_type: str, parameters: Mapping[str, str]) -> bytes:
    r"""Return the content of a text part as plain text or HTML.

    Examples
    --------
    >>> convert_format(b"DESCRIPTION:Long wo\n rd", "text/calendar", {})
    b'DESCRIPTION:Long word'
    >>> convert_format(b"Long wo \nrd", "text/plain", {"delsp": "yes"})
    b'Long word'
    >>> convert_format(b"<color><param>red</param>1 << 2</color>", "text/enriched", {})
    b'<color><template> red</template>1 &lt; 2</color>'
    """
    if content_type in CALENDAR_TYPES:  # RFC 5545, 3.1 and 3.3.11
        content = _QUOTED.sub(_decode_property, content)
        return _FOLD.sub(b"", content).replace(b"\\n", b"\n").replace(b"\\N", b"\n")
    if content_type in ENRICHED_TYPES:
        return _enriched_to_html(content)
    if content_type == "text/rtf":
        if not content.lstrip().startswith(b"{\\rtf"):
            return content.replace(b"&", b"&amp;").replace(b"<", b"&lt;")
        from streamnb.mail.rtf import read_text  # here: few mails need it

        return read_text(content).encode()
    if content.find(ARMOR_START) >= 0:
        content = _ARMOR.sub(rb"\1", content)
    return _join_lines(content) if parameters.get("delsp", "").lower() == "yes" else content


def _decode_property(match: re.Match[bytes]) -> bytes:
    """Return a quoted-printable property, decoded; in UTF-8 if it declares its charset."""
    value = binascii.a2b_qp(match[2])
    if charset := _CHARSET.search(match[1]):
        value = decode_text(value, charset[1].decode("latin-1")).encode("utf-8", "replace")
    return match[1] + value


def _enriched_to_html(content: bytes) -> bytes:
    """Return enriched text (RFC 1896) or its predecessor (RFC 1341) as HTML.

    Parameters and comments are invisible, as templates are in HTML.
    """

    def replace(match: re.Match[bytes]) -> bytes:
        if match[2] is None:
            return b"&lt;"
        if match[2].lower() in (b"nl", b"np"):
            return b"<br>"
        return b"</template>" if match[1] else b"<template> "

    return _ENRICHED.sub(replace, content.replace(b"&", b"&amp;").replace(b"<<", b"&lt;"))


def _join_lines(content: bytes) -> bytes:
    """Join the lines of a paragraph of flowed text with DelSp (RFC 3676, 4)."""
    pieces: list[bytes] = []
    last_depth = -1  # quotes of the last line, -1 if it ends its paragraph
    for line in content.replace(b"\r\n", b"\n").split(b"\n"):
        text = line.lstrip(b">")
        depth = len(line) - len(text)
        text = text.removeprefix(b" ")  # a blank that protects the beginning of the line
        is_flowed = text.endswith(b" ") and text != _SIGNATURE
        if depth != last_depth or text == _SIGNATURE:
            pieces.append(b"\n")
            text = line
        pieces.append(text.removesuffix(b" ") if is_flowed else text)
        last_depth = depth if is_flowed else -1
    return b"".join(pieces[1:])
