"""Addresses of links as browsers read them."""

from __future__ import annotations

import re
import unicodedata
from itertools import islice
from urllib.parse import unquote_to_bytes

from streamnb.patterns import lazy_pattern

_BEFORE_PATH = lazy_pattern(rb"(?:[a-z][a-z0-9+.-]*:[/\\]*|[/\\]{2,})([^/\\?#]*)", re.I)
_MAX_HOST = 1000  # bytes; a host has at most 253 characters
_DELIMITERS = frozenset("/\\?#@")  # characters that a host cannot have
# characters that browsers leave out of hosts, because readers do not see them
_IGNORED = lazy_pattern("[\u00ad\u034f\u180b-\u180f\u200b-\u200d\u2060\ufe00-\ufe0f\ufeff]+")
_DOTS = str.maketrans("\u3002\uff0e\uff61", "...")  # browsers read these as a dot
# An encoded address within another one. Proofpoint writes - for % and _ for / (URL Defense 2).
_TARGET = lazy_pattern(rb"https?(?:(%(?:25)*3a%(?:25)*2f%(?:25)*2f)|-3a__)([^&?#]{3,2000})", re.I)
_DASHED_BYTE = lazy_pattern(rb"-([0-9a-f]{2})", re.I)
_MAX_TARGETS = 20  # addresses read from one link
_MAX_ENCODINGS = 3


def decoded_targets(path: bytes) -> list[bytes]:
    """Return the encoded addresses in a path or query, decoded, without their schemes.

    Examples
    --------
    >>> decoded_targets(b"/?url=https%3A%2F%2Fevil.example%2Fa&data=1")
    [b'evil.example/a']
    >>> decoded_targets(b"/v2/url?u=https-3A__evil.example_a-2Db&d=1")
    [b'evil.example/a-b']
    """
    targets = []
    for match in islice(_TARGET.finditer(path), _MAX_TARGETS):
        target = match[2]
        if match[1] is None:
            target = _DASHED_BYTE.sub(rb"%\1", target.replace(b"_", b"/"))
        for _ in range(_MAX_ENCODINGS):
            target = unquote_to_bytes(target)
        targets.append(target)
    return targets


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
    text = unicodedata.normalize("NFKC", _IGNORED.sub("", text))
    return host if _DELIMITERS & set(text) else text.encode("utf-8", "surrogateescape")
