"""Content types, and the detection of the type of a part with a vague type."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from streamnb.mail.decode import COMMENT
from streamnb.patterns import lazy_pattern

_BLANKS = rb"(?:\s|%b)*+" % COMMENT
_TYPE = lazy_pattern(
    rb"%b\"?([^\s/;\"(]{1,64})%b/%b([^\s;\"(]{1,64})" % (_BLANKS, _BLANKS, _BLANKS)
)
_ANY_MULTIPART = lazy_pattern(rb"%b\"?multipart\b" % _BLANKS, re.I)
_TYPE_BYTES = 400  # bytes of a Content-Type that are searched for the type
# RTF is converted to HTML. Enriched text has tags like HTML. A drawing in SVG can be a page with
# links and scripts.
ENRICHED_TYPES = frozenset(("text/enriched", "text/richtext"))
_HTML = ENRICHED_TYPES | {"text/html", "text/rtf", "application/xhtml+xml", "image/svg+xml"}
CALENDAR_TYPES = frozenset((
    "text/calendar", "application/ics", "text/vcard", "text/x-vcard", "text/directory",
    "text/x-vcalendar",
))  # fmt: skip
FORMATTED_TYPES = ENRICHED_TYPES | CALENDAR_TYPES | {"text/rtf"}  # `text_formats` converts them
ARMOR_START = b"-----BEGIN "  # of data in ASCII: encrypted text, signatures, keys
# Reports are fields that mail programs show as text; application/ics is text/calendar by Google.
_OTHER_TEXT = frozenset((
    "application/xhtml+xml", "image/svg+xml", "application/ics", "message/delivery-status",
    "message/global-delivery-status", "message/disposition-notification",
    "message/global-disposition-notification", "message/feedback-report",
))  # fmt: skip
# The types of nearly all parts. They are what they say, which saves two regular expressions.
_COMMON_TYPES = frozenset((
    "text/plain", "text/html", "text/calendar", "multipart/mixed", "multipart/alternative",
    "multipart/related", "multipart/signed", "multipart/report", "message/rfc822",
    "message/delivery-status", "image/gif", "image/jpeg", "image/png", "application/pdf",
    "application/pgp-signature", "application/x-pkcs7-signature",
))  # fmt: skip
# Types that are vague, misspelled, or often wrong for text. File name and content then decide.
_VAGUE_TYPE = lazy_pattern(
    r"[^/]*/(?:x-)?(?:octet-?stream|unknown|binary|(?:force-)?download|attachment|default)"
    r"|application/(?:x-)?(?:text|plain|html|txt|eml|mimearchive)"
    r"|(?!(?:text|image|audio|video|font|model|application|message|multipart)/).*"
)
# Types that may be HTML. If the content is not HTML, the declared type is used.
_PERHAPS_HTML = lazy_pattern(r"(?:application|text)/(?:x-|vnd\.[a-z]+\.)?(?:xhtml|htm|xml).*")
_MESSAGE_NAME = lazy_pattern(r".*\.(?:eml|mht|mhtml|nws)", re.I | re.S)
_TEXT_NAME = lazy_pattern(r".*\.(?:te?xt|log|md|csv|tsv|ics|vcf|nfo|diz|readme)", re.I | re.S)
_HTML_NAME = lazy_pattern(r".*\.[sx]?html?", re.I | re.S)
_HTML_START = lazy_pattern(
    rb"(?:\s|\xef\xbb\xbf|<!--.{0,500}?-->|<\?xml[^>]{0,200}>)*+"
    rb"<(?:!doctype\s+html|x-html|html|head|body|title|meta|style|table|div|p|font|center|a|br|span)\b",
    re.I | re.S,
)
# Bytes that do not occur in text of any charset. (ISO-2022 uses ESC.)
_NOT_TEXT = lazy_pattern(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_NO_READER_TEXT = lazy_pattern(rb"\s*(?:-----BEGIN (?!PGP SIGNED)|%PDF|\{\\rtf|begin [0-7]{3} )")
SNIFFED = 1024  # bytes that are read to decide whether a part of a vague type is text
TNEF_START = bytes.fromhex("789f3e22")
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@lru_cache(maxsize=256)
def is_text(content_type: str) -> bool:
    """Return True for types that are read as text."""
    return content_type.startswith("text/") or content_type in _OTHER_TEXT


@lru_cache(maxsize=256)
def is_html(content_type: str) -> bool:
    """Return True for HTML, including text/watch-html and text/x-amp-html."""
    return content_type in _HTML or (content_type.startswith("text/") and "html" in content_type)


class ContentType(NamedTuple):
    """A content type, and whether file name and content can overrule it."""

    name: str
    is_vague: bool = False


def read_content_type(value: bytes) -> ContentType:
    """Return the type of a Content-Type. A damaged one is text/plain, which content can overrule.

    Examples
    --------
    >>> read_content_type(b" Text/HTML; charset=utf-8").name
    'text/html'
    >>> read_content_type(b"html")
    ContentType(name='text/plain', is_vague=True)
    """
    value = value[:_TYPE_BYTES]
    if value.find(b"(") < 0:  # no comment, so the type ends before the parameters
        value = value.partition(b";")[0]
    return _read_content_type(value)


@lru_cache(maxsize=1024)
def _read_content_type(value: bytes) -> ContentType:
    match = _TYPE.match(value)
    if match is None:
        is_multipart = _ANY_MULTIPART.match(value) is not None
        return ContentType("multipart/mixed" if is_multipart else "text/plain", not is_multipart)
    name = f"{match[1].decode('latin-1')}/{match[2].decode('latin-1')}".lower()
    return ContentType(name, name not in _COMMON_TYPES and _is_vague(name))


def _is_vague(content_type: str) -> bool:
    patterns = (_VAGUE_TYPE, _PERHAPS_HTML)
    return any(pattern.fullmatch(content_type) is not None for pattern in patterns)


def guess_text_type(content_type: str, filename: str, sample: bytes) -> str:
    """Return the text type of a part of a vague type, by its name or its first bytes, or ""."""
    sample = sample[:SNIFFED]
    if sample[:2] not in UTF16_MARKS and _NOT_TEXT.search(sample):
        return ""
    if _HTML_START.match(sample):
        return "text/html"
    if _PERHAPS_HTML.fullmatch(content_type):
        return ""
    if _HTML_NAME.fullmatch(filename):
        return "text/html"
    if _TEXT_NAME.fullmatch(filename):
        return "text/plain"
    return "" if _NO_READER_TEXT.match(sample) or not sample.strip() else "text/plain"


def names_message(filename: str) -> bool:
    """Return True if a file name is the name of a stored message."""
    return _MESSAGE_NAME.fullmatch(filename) is not None
