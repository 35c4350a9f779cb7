"""The identity of a message: a digest that does not depend on its folder or its route."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from streamnb.limits import MAX_MESSAGE
from streamnb.mail import Limits, Mail, parse
from streamnb.mail.charsets import to_utf8
from streamnb.mail.content_types import ARMOR_START
from streamnb.patterns import lazy_pattern

if TYPE_CHECKING:
    import hashlib

# Fields that the sender writes and mail servers do not change. The second row is only for messages
# without a Message-ID.
_SENDER_FIELDS = ("message-id", "date", "from", "subject")
_FURTHER_FIELDS = ("to", "cc", "reply-to")
_ADDRESS_FIELDS = frozenset(("from", "to", "cc", "reply-to"))
# Encoded words have no quotes, ASCII names may have them. Some servers add a blank before <, or the
# brackets of an address.
_SPELLING = str.maketrans({'"': " ", "\\": None, "<": " ", ">": " "})
_DOMAIN = lazy_pattern(r"@[\w.-]+")
# Parts that mail programs do not show, and that programs and lists change.
_UNSHOWN_ROLES = frozenset(("preamble", "epilogue"))
_LONGEST_DATE = 200  # characters; a longer date is compared as text
_RECODED = bytes(range(128, 256)) + b"> \t\r\n"  # bytes that programs change or add in data of PGP
# Bytes that mail servers and programs add to content or remove: blanks before line ends, line ends,
# quotes of lines that look like the separator of an mbox, and "\n " or "!\n " in lines of more
# than 990 bytes (sendmail) or 998 (Postfix).
_CHANGED = b"\0\t\n\r !>"
_LONG_LINE = 900  # servers break longer lines anywhere, also within a character
# The digest covers the content of all parts, not only the text that the classifier reads.
_LIMITS = Limits(parts=5000, depth=50)


def _identity_fields(mail: Mail) -> Iterator[bytes]:
    """Yield the decoded fields that identify a message, white space normalised."""
    names = _SENDER_FIELDS if mail.index.get(b"message-id") else _SENDER_FIELDS + _FURTHER_FIELDS
    for name in names:
        value = mail.get(name)
        if name in _ADDRESS_FIELDS:
            value = _DOMAIN.sub(lambda match: match[0].lower(), value.translate(_SPELLING))
        value = _normalize_date(value) if name == "date" else " ".join(value.split())
        yield f"{name}:{value}".encode("utf-8", "surrogatepass")


def _normalize_date(text: str) -> str:
    """Return a date as seconds since 1970; other text is returned unchanged.

    Examples
    --------
    >>> _normalize_date("Mon, 01 Jan 2024 01:00:00 +0100 (CET)")
    '1704067200'
    """
    # Here, because classifying needs none. `email.utils` has the same functions, but it imports
    # `socket`, which takes a twentieth of the time of a message.
    from email._parseaddr import mktime_tz, parsedate_tz  # type: ignore[import-not-found]

    try:
        parsed = parsedate_tz(text) if len(text) <= _LONGEST_DATE else None
        if parsed is not None:
            return str(mktime_tz(parsed))
    except (ValueError, OverflowError, TypeError, LookupError):
        pass
    return " ".join(text.split())


def _content(mail: Mail) -> Iterator[bytes]:
    """Yield type and content of each part, decoded: text as UTF-8, without `_CHANGED` bytes."""
    for part in mail.parts:
        if part.role in _UNSHOWN_ROLES:
            continue
        if part.role == "message":
            charset = part.charset or part.name_fallback
            yield from _identity_fields(Mail(part.fields, index=part.index, charset=charset))
            continue
        yield part.content_type.encode("utf-8", "surrogateescape")
        if part.is_text and _has_long_line(part.content):
            content = part.content.translate(None, _CHANGED)
            yield to_utf8(content, part.charset, part.is_html, part.fallback)
        else:
            yield (part.utf8 if part.is_text else part.content).translate(None, _CHANGED)
        if part.is_text and part.content.find(ARMOR_START) >= 0:  # `utf8` has no data of PGP
            yield part.content.translate(None, _RECODED)


def _has_long_line(content: bytes) -> bool:
    """Return whether content has a line of more than `_LONG_LINE` bytes."""
    start = 0
    while start + _LONG_LINE < len(content):
        end = content.rfind(b"\n", start, start + _LONG_LINE + 1)
        if end < 0:
            return True
        start = end + 1
    return False


def _hash(pieces: Iterator[bytes]) -> hashlib._Hash:
    import hashlib  # here: classifying needs none

    sha = hashlib.sha256()
    for piece in pieces:
        sha.update(len(piece).to_bytes(8, "little"))
        sha.update(piece)
    return sha


def _parse(message: bytes) -> Mail:
    """Return a parsed message with the content of all parts."""
    # Each part can use half of the remaining budget. Four times the size of the message is enough
    # for all parts.
    size = 4 * min(len(message), MAX_MESSAGE)
    return parse(message[:MAX_MESSAGE], _LIMITS._replace(size=max(size, _LIMITS.size)))


def digest(message: bytes) -> bytes:
    r"""Return the SHA-256 that identifies a message, 32 bytes.

    It covers the decoded Message-ID, Date, From and Subject, and the decoded content of all parts.
    Without a Message-ID it covers To, Cc and Reply-To, too. It does not depend on fields that mail
    servers, filters and mail programs add. It does not depend on folding, transfer encodings, the
    quoting of mbox files, or blanks and line ends in content.

    Raises
    ------
    ValueError
        If `message` is not bytes.

    Examples
    --------
    >>> from streamnb.mailbox.digest import digest
    >>> stored = b"X-Streamnb: Spam, score=3\r\nSubject: hi\r\nStatus: RO\r\n\r\nHello \r\n\r\n"
    >>> digest(stored) == digest(b"Subject:\n hi\n\nHello\n")
    True
    """
    if not isinstance(message, bytes):
        raise ValueError(f"expected a message as bytes, not {type(message).__name__}")
    mail = _parse(message)
    sha = _hash(_identity_fields(mail))
    sha.update(_hash(_content(mail)).digest())
    return sha.digest()


def header_key(header: bytes) -> bytes:
    r"""Return 16 bytes that identify a delivered message by its header, to follow its moves.

    It covers the last Received field, too: the same message from a list and from its sender is two
    deliveries, and so is a message that is delivered again.

    Examples
    --------
    >>> from streamnb.mailbox.digest import header_key
    >>> key = header_key(b"Message-ID: <1@a>\r\nSubject: hi\r\n")
    >>> key == header_key(b"Message-ID: <1@a>\nX-Streamnb: Ham\nSubject: hi\n\nHello")
    True
    """
    mail = _parse(header)
    received = b" ".join(mail.index.get(b"received", b"").split())
    return _hash(chain(_identity_fields(mail), [received])).digest()[:16]


def of_hex(text: str) -> bytes:
    """Return the digest for its 64 hexadecimal digits. Raise ValueError for other text."""
    key = bytes.fromhex(text)
    if len(key) != 32:
        raise ValueError("not 64 hexadecimal digits")
    return key
