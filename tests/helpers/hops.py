"""Messages, and what hops, mail stores and mail programs do to them without changing them."""

import base64
import quopri
import re
from collections.abc import Callable

# A message in pieces: fields, and leaves of (subtype, text); one leaf alone is not a multipart.
Pieces = tuple[list[tuple[bytes, bytes]], list[tuple[bytes, bytes]]]
ADDED = (
    (b"Received", b"from a by b; Mon, 1 Jan 2024 00:00:00 +0000"),
    (b"X-Spam-Flag", b"YES"),
    (b"X-Streamnb", b"Spam, score=3.2"),
    (b"Status", b"RO"),
    (b"X-UID", b"12"),
    (b"Delivered-To", b"ann@example.org"),
    (b"DKIM-Signature", b"v=1; b=abc"),
    (b"X-Gmail-Labels", b"Inbox"),
    (b"Return-Path", b"<a@example.org>"),
)
ENCODERS: dict[bytes, Callable[[bytes], bytes]] = {
    b"8bit": lambda text: text,
    b"quoted-printable": quopri.encodestring,
    b"base64": base64.encodebytes,
}


def compose(pieces: Pieces, encoding: bytes = b"8bit", mark: bytes = b"=_b") -> bytes:
    """Return a message with LF line ends."""
    fields, leaves = pieces
    head = b"".join(b"%b: %b\n" % field for field in fields)
    parts = [
        b"Content-Type: text/%b; charset=utf-8\nContent-Transfer-Encoding: %b\n\n%b"
        % (subtype, encoding, ENCODERS[encoding](text))
        for subtype, text in leaves
    ]
    if len(parts) == 1:
        return head + parts[0]
    body = b"".join(b"--%b\n%b\n" % (mark, part) for part in parts)
    return head + b"Content-Type: multipart/mixed; boundary=%b\n\n%b--%b--\n" % (mark, body, mark)


def add_field(message: bytes, choice: int) -> bytes:
    """Add a field at the beginning of the header, or at its end."""
    field = b"%b: %b\n" % ADDED[choice % len(ADDED)]
    if choice % 2:
        separators, head, body = _split(message)
        return separators + field + head + body
    head, blank, body = message.partition(b"\n\n")
    return head + b"\n" + field.rstrip(b"\n") + blank + body


def _split(message: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the separators of mailbox files, the header, and the rest."""
    separators = re.match(rb"(?:From [^\n]*\n)*", message)
    start = separators.end() if separators else 0
    end = message.find(b"\n\n")
    return message[:start], message[start:end], message[end:]


def refold(message: bytes, choice: int) -> bytes:
    """Fold the fields of the header at each blank, or unfold them."""
    separators, head, body = _split(message)
    if choice % 2:
        head = re.sub(rb"\n[ \t]+", b" ", head)
    else:
        head = re.sub(rb"(?<=[^ \t\n:]) (?=[^ \t\n])", (b"\n ", b"\n\t")[choice // 2 % 2], head)
    return separators + head + body


def change_case(message: bytes, choice: int) -> bytes:
    """Write the names of fields in capitals or small letters."""
    separators, head, body = _split(message)
    change = bytes.upper if choice % 2 else bytes.lower
    return separators + re.sub(rb"(?m)^[\w-]+(?=:)", lambda name: change(name[0]), head) + body


def quote_separators(message: bytes, choice: int) -> bytes:
    """Quote lines that look like an mbox's separator, and put a separator first."""
    head, blank, body = message.partition(b"\n\n")
    body = re.sub(rb"(?m)^(>*From )", rb">\1", body)
    separator = b"From a@b Mon Jan  1 00:00:00 2024\n" if choice % 2 else b""
    return separator + head + blank + body


def add_blank_lines(message: bytes, choice: int) -> bytes:
    """Add empty lines at the end."""
    return message.rstrip(b"\n") + b"\n" * (choice % 4 + 1)


HOPS = (add_field, refold, change_case, quote_separators, add_blank_lines)
LINE_ENDS = (b"\n", b"\r\n", b"\r\r\n", b"\r")


def send(pieces: Pieces, encoding: bytes, hops: list[tuple[int, int]], line_end: int) -> bytes:
    """Return a message after hops, each by its index in HOPS and a number that it chooses by."""
    message = compose(pieces, encoding, b"=_%d" % len(hops))
    for hop, choice in hops:
        message = HOPS[hop % len(HOPS)](message, choice)
    return message.replace(b"\n", LINE_ENDS[line_end % len(LINE_ENDS)])
