"""Which message is which, however it was fetched, filed or stamped on the way."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from streamnb.corpus.entry import MAX_MESSAGE
from streamnb.features.mail_words import is_stamped
from streamnb.mail import FIELD_NAME, unwrap

# What the last steps of a delivery add; a copy of the message that was sorted before has them not.
_DELIVERY = {b"return-path", b"delivered-to", b"x-original-to", b"envelope-to", b"x-delivered-to"}
# A field with its continuation lines, or a line of the header that is none.
_FIELD = re.compile(rb"(?:" + FIELD_NAME + rb")?[^\n]*\n(?:[ \t][^\n]*\n)*")


def _fields(header: bytes) -> Iterable[tuple[bytes, bytes]]:
    """Name in lower case, and all the lines, of each field of a header with LF line ends."""
    for match in _FIELD.finditer(header):
        yield (match[1] or b"").lower(), match[0]


def _split(message: bytes) -> tuple[bytes, bytes]:
    """Header and body, without the separator line of an mbox, line ends LF."""
    message = unwrap(message[:MAX_MESSAGE])
    if message.startswith(b"From "):
        message = message.partition(b"\n")[2]
    if message.startswith(b"\n"):
        return b"", message[1:]
    header, blank, body = message.partition(b"\n\n")
    return (header + b"\n" if blank or not header.endswith(b"\n") else header), body


def digest(message: bytes) -> bytes:
    r"""SHA-256 of what stays the same of a message wherever it goes.

    Line ends, empty lines at its end, fields that filters and mail programs stamp and those of its
    delivery make no difference. Of a message of more than 4 MiB the beginning counts.

    Examples
    --------
    >>> from streamnb.mailbox.digest import digest
    >>> stored = b"X-Streamnb: Spam, score=3\r\nSubject: hi\r\nStatus: RO\r\n\r\nHello\r\n\r\n"
    >>> digest(stored) == digest(b"Subject: hi\n\nHello\n")
    True
    """
    if not isinstance(message, bytes):
        raise ValueError(f"a message is bytes, not {type(message).__name__}")
    header, body = _split(message)
    sha = _of_header(header)
    sha.update(b"\n")
    sha.update(body.rstrip(b"\n"))
    return sha.digest()


def _of_header(header: bytes) -> hashlib._Hash:
    sha = hashlib.sha256()
    for name, lines in _fields(header):
        if name not in _DELIVERY and not is_stamped(name):
            sha.update(lines)
    return sha


def header_key(header: bytes) -> bytes:
    r"""What tells one message from another by its header alone, for following it about.

    Examples
    --------
    >>> from streamnb.mailbox.digest import header_key
    >>> one = header_key(b"Message-ID: <1@a>\r\nSubject: hi\r\n")
    >>> one == header_key(b"Message-ID: <1@a>\nX-Streamnb: Ham\nSubject: hi\n\nHello")
    True
    """
    return _of_header(_split(header)[0]).digest()[:16]


# Fields in which filters say that a message is spam, and the words they say it with.
_VERDICTS = re.compile(
    rb"(?:x-streamnb|x-bogosity|x-spambayes-classification|x-spam-status|x-spam-flag|x-spam"
    rb"|x-dspam-result|x-spamprobe)[ \t]*:[ \t]*(?:spam|yes|true)\b",
    re.I,
)


_OURS = re.compile(rb"x-streamnb[ \t]*:[ \t]*([^\s,]+)", re.I)


def of_hex(text: str) -> bytes:
    """A digest as it is written; ValueError where it is none."""
    key = bytes.fromhex(text)
    if len(key) != 32:
        raise ValueError("not 64 hexadecimal digits")
    return key


def stamped_as(header: bytes, label: str) -> bool:
    r"""Whether a filter has said in the header that a message is of a class.

    What it files then is no person's word. Spam is recognised in the words of other filters, too.

    Examples
    --------
    >>> from streamnb.mailbox.digest import stamped_as
    >>> stamped_as(b"X-Spam-Flag: YES\r\n", "spam"), stamped_as(b"X-Spam: no\n", "spam")
    (True, False)
    >>> stamped_as(b"X-Streamnb: work, score=3.2\n", "work")
    True
    """
    wanted = "".join(c for c in label if c.isalnum() or c in "-_.").encode("ascii", "replace")
    for _, lines in _fields(_split(header)[0]):
        if label == "spam" and _VERDICTS.match(lines) is not None:
            return True
        ours = _OURS.match(lines)
        if ours is not None and ours[1].lower() == wanted.lower():
            return True
    return False
