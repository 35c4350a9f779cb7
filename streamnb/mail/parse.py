"""The structure of a message: a worklist over slices of its bytes, without recursion."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from streamnb._core import split_header
from streamnb.mail.decode import (
    boundary,
    decode_text,
    decode_transfer,
    decode_words,
    parameters,
    to_utf8,
)

_TYPE = re.compile(rb"\s*+([^\s/;\"]{1,64})/([^\s;\"]{1,64})")

Fields = list[tuple[bytes, bytes]]
Index = dict[bytes, bytes]  # lower-case name -> the first value

# A slice still to look at: start, end, depth, default content type, what it is.
Slice = tuple[int, int, int, str, str]


class Limits(NamedTuple):
    """Bounds of what is read of one message; what lies beyond is left out and recorded.

    Attributes
    ----------
    size
        Bytes of the message.
    parts
        Parts, containers included.
    depth
        Containers within containers.
    fields
        Header fields of the message, and of each part.
    """

    size: int = 1 << 20
    parts: int = 500
    depth: int = 20
    fields: int = 1000


DEFAULT_LIMITS = Limits()


@dataclass(slots=True)
class Part:
    """A piece of a message that is not itself made of parts.

    Attributes
    ----------
    fields
        The header fields, as (name, value) in bytes. For an attached message, those of the message.
    content_type
        In lower case, such as "text/html".
    payload
        The bytes as they stand in the message, transfer encoding included.
    role
        "body", "message" (an attached message: its header only, its parts follow), or "preamble"
        and "epilogue": text around the parts of a container, which no reader shows.
    """

    fields: Fields
    content_type: str
    payload: bytes
    role: str = "body"
    index: Index = field(default_factory=dict, repr=False)
    _utf8: bytes | None = field(default=None, init=False, repr=False, compare=False)
    _declared: Mapping[str, str] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def declared(self) -> Mapping[str, str]:
        """The parameters of its Content-Type."""
        if self._declared is None:
            value = self.index.get(b"content-type")
            self._declared = parameters(value) if value else {}
        return self._declared

    @property
    def charset(self) -> str:
        """The declared charset, or ""."""
        return self.declared.get("charset", "")

    @property
    def filename(self) -> str:
        """The name a reader would save the part under, or ""."""
        disposition = self.index.get(b"content-disposition")
        found = parameters(disposition).get("filename") if disposition else None
        return found or self.declared.get("name", "")

    @property
    def is_text(self) -> bool:
        """Whether the payload is text."""
        return (
            self.content_type.startswith("text/") or self.content_type == "message/delivery-status"
        )

    @property
    def content(self) -> bytes:
        """The payload without its transfer encoding."""
        encoding = self.index.get(b"content-transfer-encoding")
        return decode_transfer(self.payload, encoding.strip().lower()) if encoding else self.payload

    @property
    def text(self) -> str:
        """The decoded text; "" for a part that is no text."""
        return decode_text(self.content, self.charset) if self.is_text else ""

    @property
    def utf8(self) -> bytes:
        """The text as UTF-8; several views ask for it."""
        if self._utf8 is None:
            self._utf8 = to_utf8(self.content, self.charset) if self.is_text else b""
        return self._utf8


@dataclass
class Mail:
    """A parsed message.

    Attributes
    ----------
    fields
        Header fields in their order, as (name, value) in bytes; folded lines as they stand.
    parts
        What the message is made of, in its order.
    defects
        What was wrong, and which bounds were crossed.
    source
        The message's bytes as far as they were read, with LF line ends.
    """

    fields: Fields = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    defects: list[str] = field(default_factory=list)
    index: Index = field(default_factory=dict, repr=False)
    source: bytes = field(default=b"", repr=False)

    @cached_property
    def headers(self) -> list[tuple[str, str]]:
        """The header fields decoded: names as written, values unfolded."""
        return [(name.decode("ascii"), decode_words(value)) for name, value in self.fields]

    def get(self, name: str) -> str:
        """The decoded value of the first field of that name, or ""."""
        return decode_words(self.index.get(name.encode("latin-1", "replace").lower(), b""))

    @property
    def text(self) -> str:
        """The decoded text of all text parts."""
        return "\n".join(part.text for part in self.parts if part.is_text)


def _content_type(value: bytes, default: str) -> str:
    match = _TYPE.match(value) if value else None
    if match is None:
        return "text/plain" if value else default
    return f"{match[1].decode('latin-1')}/{match[2].decode('latin-1')}".lower()


def _delimiters(
    data: bytes, start: int, end: int, marked: bytes, limit: int
) -> list[tuple[int, int, bool]]:
    """Find lines that are --marked or --marked--: (line start, next line, closing)."""
    mark = b"--" + marked
    out: list[tuple[int, int, bool]] = []
    at = data.find(mark, start, end)
    while at >= 0 and len(out) < limit:
        after = at + len(mark)
        if at == start or data[at - 1] == 10:
            line_end = data.find(b"\n", after, end)
            line_end = end if line_end < 0 else line_end
            rest = data[after : min(line_end, after + 1000)].strip(b" \t")
            if rest in (b"", b"--"):
                out.append((at, min(line_end + 1, end), rest == b"--"))
            after = line_end
        at = data.find(mark, after, end)
    return out


class _Parser:
    """One message being taken apart: a stack of slices still to look at."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        self.data = data
        self.limits = limits
        self.mail = Mail(source=data)
        self.seen = 0

    def defect(self, text: str) -> None:
        if text not in self.mail.defects:
            self.mail.defects.append(text)

    def header(self, start: int, end: int) -> tuple[Fields, Index, int]:
        """Read the header fields of a slice, and where its body begins."""
        fields, index, stop, more = split_header(self.data, start, end, self.limits.fields)
        if more:
            self.defect(f"more than {self.limits.fields} header fields")
        if stop < end and self.data.startswith(b"\n", stop):
            return fields, index, stop + 1
        if stop < end:
            self.defect("no blank line after the header")
        return fields, index, stop

    def leaf(
        self, fields: Fields, index: Index, kind: str, start: int, end: int, role: str = "body"
    ) -> None:
        self.mail.parts.append(Part(fields, kind, self.data[start:end], role, index))

    def run(self) -> Mail:
        """Take slices off the stack until none is left."""
        stack: list[Slice] = [(0, len(self.data), 0, "text/plain", "part")]
        while stack:
            start, end, depth, default, what = stack.pop()
            if what != "part":
                self.leaf([], {}, "text/plain", start, end, what)
                continue
            self.seen += 1
            if self.seen > self.limits.parts:
                self.defect(f"more than {self.limits.parts} parts")
                break
            fields, index, body = self.header(start, end)
            if start == 0 and depth == 0:
                self.mail.fields = fields
                self.mail.index = index
            value = index.get(b"content-type", b"")
            kind = _content_type(value, default)
            nested = kind.startswith("multipart/") or kind == "message/rfc822"
            if nested and depth >= self.limits.depth:
                self.defect(f"nested more than {self.limits.depth} deep")
                nested, kind = False, "text/plain"
            if not nested:
                self.leaf(fields, index, kind, body, end)
            elif kind == "message/rfc822":
                self.attached(fields, index, body, end, depth, stack)
            elif not self.container(kind, value, body, end, depth, stack):
                self.leaf(fields, index, "text/plain", body, end)
        return self.mail

    def attached(
        self, fields: Fields, index: Index, body: int, end: int, depth: int, stack: list[Slice]
    ) -> None:
        """Look at a message within the message; one that is encoded stays as it is."""
        encoding = index.get(b"content-transfer-encoding", b"").strip().lower()
        if encoding in (b"base64", b"quoted-printable"):
            self.defect("an attached message is encoded")
            self.leaf(fields, index, "text/plain", body, end)
            return
        inner, inner_index, _ = self.header(body, end)
        self.leaf(inner, inner_index, "message/rfc822", body, body, "message")
        stack.append((body, end, depth + 1, "text/plain", "part"))

    def container(
        self, kind: str, value: bytes, body: int, end: int, depth: int, stack: list[Slice]
    ) -> bool:
        """Put the parts of a container on the stack; False where it has none."""
        mark = boundary(value)
        marks = _delimiters(self.data, body, end, mark, self.limits.parts + 2) if mark else []
        if not marks:
            self.defect("multipart without a boundary" if not mark else "boundary not found")
            return False
        pieces: list[Slice] = []
        if marks[0][0] > body:
            pieces.append((body, marks[0][0], depth, "", "preamble"))
        default = "message/rfc822" if kind == "multipart/digest" else "text/plain"
        closed = False
        for number, (_, begin, closing) in enumerate(marks):
            stop = marks[number + 1][0] if number + 1 < len(marks) else end
            if closing:
                if begin < end:  # what follows is shown by no reader, parts included
                    pieces.append((begin, end, depth, "", "epilogue"))
                closed = True
                break
            # The line end before a delimiter belongs to the delimiter.
            if stop < end and stop > begin and self.data[stop - 1] == 10:
                stop -= 1
            pieces.append((begin, stop, depth + 1, default, "part"))
        if not closed:
            self.defect("the last boundary is missing")
        stack.extend(reversed(pieces))
        return True


def normalised(data: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[bytes, list[str]]:
    """The message as far as it is read, line ends LF, and what was wrong with it."""
    defects = []
    if len(data) > limits.size:
        data = data[: limits.size]
        defects.append(f"longer than {limits.size} bytes")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data, defects


def parse(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Mail:
    r"""Take a message apart.

    Parameters
    ----------
    data
        The message as it was stored or received: any bytes at all, with LF, CRLF or CR line ends.
    limits
        Bounds on what is read.

    Returns
    -------
    Mail
        Line ends are LF.

    References
    ----------
    RFC 5322 (messages), RFC 2045 to 2047 and 2231 (MIME).

    Examples
    --------
    >>> mail = parse(b"Subject: =?utf-8?q?caf=C3=A9?=\nContent-Type: text/html\n\n<b>hi</b>\n")
    >>> mail.get("subject"), mail.parts[0].content_type, mail.parts[0].text
    ('café', 'text/html', '<b>hi</b>\n')
    """
    data, defects = normalised(data, limits)
    mail = _Parser(data, limits).run()
    mail.defects[:0] = defects
    return mail
