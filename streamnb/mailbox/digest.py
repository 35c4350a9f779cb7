"""The identity of a message: equal for every copy of it, whatever the hops on its way did."""

from __future__ import annotations

import hashlib
import re

from streamnb.features.mail_words import is_stamped
from streamnb.mail import Limits, Mail, Part, parse

# The sender writes these fields, and no hop changes what they say.
_SENDER_FIELDS = ("message-id", "date", "from", "subject")
# Fields of delivery agents, which not every copy of a message has.
_DELIVERY = {b"return-path", b"delivered-to", b"x-original-to", b"envelope-to", b"x-delivered-to"}
_MAX_PARTS = 10_000
_MAX_FIELDS = 10_000
# The separator line of an mbox, and byte order marks before it.
_MBOX_LINE = re.compile(rb"(?:(?:\0|\xef\xbb\xbf)*+>?From [^\n]*\n)+")
_QUOTED_FROM = re.compile(rb"^>+(?=From )", re.M)


def digest(message: bytes) -> bytes:
    r"""Return the SHA-256 of a message's identity.

    The identity is the sender's Message-ID, Date, From and Subject, decoded, and the decoded
    content of each part. Copies of one message are therefore equal, even if hops added fields,
    folded fields anew, changed the transfer encoding, line ends or white space at line ends, or
    quoted "From " lines for an mbox. Two messages that differ in their text, an attachment, its
    name or one of the four fields are different.

    Examples
    --------
    >>> from streamnb.mailbox.digest import digest
    >>> stored = b"X-Streamnb: Spam, score=3\r\nSubject: hi\r\nStatus: RO\r\n\r\nHello\r\n\r\n"
    >>> digest(stored) == digest(b"Subject:\n hi\n\nHello\n")
    True
    """
    if not isinstance(message, bytes):
        raise ValueError(f"a message is bytes, not {type(message).__name__}")
    mail = _parse(message)
    sha = hashlib.sha256()
    fields = _sender_fields(mail)
    _update(sha, *fields)
    for part in mail.parts:
        # No reader shows preambles, epilogues and lines of the header that are not fields.
        if part.role in ("body", "message") or (part.role == "damaged" and not any(fields)):
            _update_part(sha, part)
    if any(defect.startswith(("more than", "nested")) for defect in mail.defects):
        _update(sha, _normalize(mail.source.partition(b"\n\n")[2]))
    return sha.digest()


def header_key(header: bytes) -> bytes:
    r"""Return 16 bytes that identify a message by its header alone.

    It is made of the Message-ID, Date, From and Subject. Without a Message-ID it is made of all
    fields except those that filters, mail programs and delivery agents add.

    Examples
    --------
    >>> from streamnb.mailbox.digest import header_key
    >>> key = header_key(b"Message-ID: <1@a>\r\nSubject: hi\r\n")
    >>> key == header_key(b"message-id:\n <1@a>\nX-Streamnb: Ham\nSubject: hi\n\nHello")
    True
    """
    end = re.search(rb"\n\r*\n", header)
    mail = _parse(header if end is None else header[: end.end()])
    fields = _sender_fields(mail)
    sha = hashlib.sha256()
    _update(sha, *fields)
    if not fields[0]:
        for name, value in mail.fields:
            lower = name.lower()
            if lower not in _DELIVERY and not is_stamped(lower):
                _update(sha, lower, _one_line(mail.decode(value)))
        for part in mail.parts:
            if part.role == "damaged":
                _update(sha, _normalize(part.payload))
    return sha.digest()[:16]


def of_hex(text: str) -> bytes:
    """Return the digest written as 64 hexadecimal digits; ValueError if it is not one."""
    key = bytes.fromhex(text)
    if len(key) != 32:
        raise ValueError("not 64 hexadecimal digits")
    return key


def _parse(message: bytes) -> Mail:
    """Parse a message, without the separator line of an mbox, and read all of it."""
    mbox_line = _MBOX_LINE.match(message)
    if mbox_line is not None:
        message = message[mbox_line.end() :]
    size = 4 * len(message) + (1 << 20)  # a part that others follow gets half of what is left
    return parse(message, Limits(size=size, parts=_MAX_PARTS, fields=_MAX_FIELDS))


def _sender_fields(mail: Mail) -> list[bytes]:
    return [_one_line(mail.get(name)) for name in _SENDER_FIELDS]


def _one_line(value: str) -> bytes:
    """Return a decoded field with its white space collapsed and without quotation marks."""
    return " ".join(value.replace('"', "").split()).encode("utf-8", "surrogatepass")


def _update_part(sha: hashlib._Hash, part: Part) -> None:
    if part.role == "message":  # its parts follow
        message = Mail(fields=part.fields, index=part.index)
        _update(sha, b"message", *_sender_fields(message))
        return
    content = _normalize(part.utf8 if part.is_text else part.content)
    filename = _one_line(part.filename)
    if content or filename:
        kind = b"html" if part.is_html else b"text" if part.is_text else b"file"
        _update(sha, kind, filename, content)


def _normalize(content: bytes) -> bytes:
    """Return content as LF lines without white space at their ends and without mbox quoting."""
    content = b"\n".join([line.rstrip(b" \t\r") for line in content.split(b"\n")]).rstrip(b"\n")
    return _QUOTED_FROM.sub(b"", content) if b"From " in content else content


def _update(sha: hashlib._Hash, *values: bytes) -> None:
    """Hash values with their lengths, so that no two lists of values are hashed alike."""
    for value in values:
        sha.update(b"%d:" % len(value))
        sha.update(value)
