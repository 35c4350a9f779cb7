"""Addresses of links as browsers read them."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote_to_bytes

_BEFORE_PATH = re.compile(rb"[a-z+.-]*:?[/\\]*([^/\\?#]*)", re.I)
_DOTS = str.maketrans("\u3002\uff0e\uff61", "...")  # browsers read these as a dot


def plain_link(link: bytes) -> bytes:
    r"""Return an address without control characters, its host without percent-encoding.

    Examples
    --------
    >>> plain_link(b"ht\ntp://%65vil.example/%65"), plain_link("http://ｅｖｉｌ。example".encode())
    (b'http://evil.example/%65', b'http://evil.example')
    """
    link = link.translate(None, b"\t\n\r").lstrip(bytes(range(33)))
    match = _BEFORE_PATH.match(link)
    if match is None:
        return link
    host = unquote_to_bytes(match[1]).decode("utf-8", "surrogateescape").translate(_DOTS)
    plain_host = unicodedata.normalize("NFKC", host).encode("utf-8", "surrogateescape")
    return link[: match.start(1)] + plain_host + link[match.end(1) :]
