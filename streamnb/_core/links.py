"""Addresses of links as browsers read them."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote_to_bytes

_BEFORE_PATH = re.compile(rb"(?:[a-z][a-z0-9+.-]*:[/\\]*|[/\\]{2,})([^/\\?#]*)", re.I)
_MAX_HOST = 1000  # bytes; a host has at most 253 characters
_DELIMITERS = frozenset("/\\?#@")  # no host has them
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
    user, separator, host = match[1].rpartition(b"@")
    return b"".join(
        (link[: match.start(1)], user, separator, _plain_host(host), link[match.end(1) :])
    )


def _plain_host(host: bytes) -> bytes:
    """Return a host without percent-encoding; the same bytes if they are no host."""
    if len(host) > _MAX_HOST:  # sorting marks takes quadratic time
        return host
    text = unquote_to_bytes(host).decode("utf-8", "surrogateescape").translate(_DOTS)
    text = unicodedata.normalize("NFKC", text)
    return host if _DELIMITERS & set(text) else text.encode("utf-8", "surrogateescape")
