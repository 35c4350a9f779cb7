"""The parser of messages: a stack of slices of bytes, without recursion."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate, islice
from typing import Literal, NamedTuple

from streamnb._core import hidden_spans, split_header
from streamnb.mail.decode import (
    COMMENT,
    boundary,
    decode_part,
    decode_transfer,
    decode_words,
    loose_charset,
    parameters,
    seems_encoded,
    to_utf8,
    transfer_encoding,
)
from streamnb.patterns import lazy_pattern

_BLANKS = rb"(?:\s|%b)*+" % COMMENT
_TYPE = lazy_pattern(
    rb"%b\"?([^\s/;\"(]{1,64})%b/%b([^\s;\"(]{1,64})" % (_BLANKS, _BLANKS, _BLANKS)
)
_ANY_MULTIPART = lazy_pattern(rb"%b\"?multipart\b" % _BLANKS, re.I)
_TYPE_BYTES = 400  # bytes of a Content-Type that are searched for the type
_CRS_BEFORE_LF = lazy_pattern(rb"(?<!\r)\r\r++\n")
_BEFORE_HEADER = lazy_pattern(rb"\0*+(?:\xef\xbb\xbf\0*+){0,16}+")
# Apple Mail's .emlx: a line with the size of the message, the message, and a property list.
_EMLX = lazy_pattern(rb"([0-9]{1,10})[ \t]*\r?\n(?=[!-9;-~]+[ \t]*:|From )")
_ENCODED = (b"base64", b"quoted-printable")
# Types that streamnb cannot read, and their names in defects.
_OPAQUE = {
    "application/ms-tnef": "TNEF (winmail.dat)",
    "application/vnd.ms-tnef": "TNEF (winmail.dat)",
    "application/pkcs7-mime": "S/MIME",
    "application/x-pkcs7-mime": "S/MIME",
    "application/pgp-encrypted": "PGP",
}

# A slice to parse: bytes, start, end, depth, default content type, and "part" or the role of a
# leaf.
_Slice = tuple[bytes, int, int, int, str, str]
_HTML = frozenset(("text/html", "application/xhtml+xml"))
_MESSAGES = frozenset(("message/rfc822", "message/global", "message/news", "message/partial"))
_OTHER_TEXT = frozenset(("application/xhtml+xml", "message/delivery-status"))
# Types that are vague, or often wrong for text. For these, file name and content decide.
_VAGUE_TYPE = lazy_pattern(
    r"[^/]*/(?:x-)?(?:octet-?stream|unknown|binary|(?:force-)?download|attachment|default)"
    r"|application/(?:x-)?(?:text|plain|html|txt)|(?:binary|unknown|file|plain|html|\*)/.*"
)
_TEXT_NAME = lazy_pattern(r".*\.(?:te?xt|log|md|csv|tsv|ics|vcf|asc|nfo|diz|readme)", re.I | re.S)
_HTML_NAME = lazy_pattern(r".*\.[sx]?html?", re.I | re.S)
_HTML_START = lazy_pattern(
    rb"(?:\s|\xef\xbb\xbf|<!--.{0,500}?-->|<\?xml[^>]{0,200}>)*+"
    rb"<(?:!doctype\s+html|html|head|body|title|meta|style|table|div|p|font|center|a|br|span)\b",
    re.I | re.S,
)
# Bytes that do not occur in text of any charset. (ISO-2022 uses ESC.)
_NOT_TEXT = lazy_pattern(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_NO_READER_TEXT = lazy_pattern(rb"\s*(?:-----BEGIN |%PDF|\{\\rtf|begin [0-7]{3} )")
_SNIFFED = 1024  # bytes that are read to decide whether a part of a vague type is text
_UTF16_STARTS = (b"\xff\xfe", b"\xfe\xff")
_FOLDED_TYPES = frozenset(("text/calendar", "text/vcard", "text/x-vcard", "text/directory"))
_FOLD = lazy_pattern(rb"\r?\n[ \t]")
_SPACE_AND_BREAK = lazy_pattern(rb" \r?\n")
# A container that is quoted-printable as a whole also encodes the `=` in its fields.
_ENCODED_FIELD = lazy_pattern(rb"(?:charset|boundary|name)=3D", re.I)
_ENCODED_BODY = lazy_pattern(
    rb"^content-transfer-encoding[ \t]*:[ \t]*(?:base64|quoted)", re.I | re.M
)
_FIELD = lazy_pattern(rb"\s*[!-9;-~]+[ \t]*:")
_VISIBLE = lazy_pattern(rb"\S")
# A picture embedded in a page. Its data is not text, and must not use up the budget.
_DATA_URI = lazy_pattern(rb"(?<=[\"'(=])data:[^,\"'<>]{0,100};base64,[\w/+%=\s-]++", re.I)
# A delimiter line of a container whose boundary is undeclared, or declared in another spelling.
_UNDECLARED = lazy_pattern(rb"^--([^\n]{0,200}+)\n(?=content-[a-z-]{1,40}+[ \t]*:)", re.I | re.M)
# number of lines that begin like a delimiter above which another search is faster
_MAX_SIMILAR = 1000
_MAX_DELIMITERS = 1 << 16  # maximum number of parts of a container; a million would take a second
_CONTAINER_SCANS = 8  # maximum bytes to search for delimiters, in sizes of the message
_IDENTITY_FIELDS = tuple(b"message-id date from subject to cc reply-to".split())
_CUT_FIELD = 1 << 12  # bytes of an identifying field, if the header exceeds half of `Limits.size`
# bytes of a container that are read to decide whether its declared encoding is wrong
_LABEL_SAMPLE = 1 << 16
_UNSHOWN_SHARE = 16  # invisible text gets at most 1/16 of `Limits.size`

Fields = list[tuple[bytes, bytes]]
Index = dict[bytes, bytes]  # lower-case name -> the first value


class Limits(NamedTuple):
    """Limits for one message. Data beyond them is left out and listed as a defect.

    Attributes
    ----------
    size
        Bytes of header fields and text. Attachments do not count, because they are skipped.
    parts
        Number of parts, including containers. If a container has more, the largest are read.
    depth
        Levels of nested containers.
    fields
        Number of header fields of the message, and of each part.
    """

    size: int = 1 << 20
    parts: int = 2000
    depth: int = 50
    fields: int = 1000


DEFAULT_LIMITS = Limits()


@dataclass(slots=True)
class Part:
    """A leaf of a message: a part without parts.

    Attributes
    ----------
    fields
        Header fields as (name, value) in bytes. For an attached message, its own header fields.
    content_type
        The content type in lower case, such as "text/html".
    payload
        The raw bytes, in their transfer encoding.
    role
        - "body": a part with content.
        - "message": the header of an attached message; its parts follow.
        - "preamble", "epilogue": text before and after the parts of a container; it is not shown.
        - "damaged": lines of a header that are not fields.
    fallback
        The charset of undeclared text: the first charset that a part declares, or "".
    is_cut
        True if the payload was truncated at the limit `Limits.size`.
    read_as
        The content type used if the declared one is vague or wrong; else "".
    """

    fields: Fields
    content_type: str
    payload: bytes
    role: str = "body"
    index: Index = field(default_factory=dict, repr=False)
    fallback: str = ""
    is_cut: bool = False
    read_as: str = ""
    _utf8: bytes | None = field(default=None, init=False, repr=False, compare=False)
    _hidden_spans: bytes | Literal[False] | None = field(
        default=False, init=False, repr=False, compare=False
    )
    _parameters: Mapping[str, str] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    @property
    def parameters(self) -> Mapping[str, str]:
        """The parameters of the Content-Type."""
        if self._parameters is None:
            value = self.index.get(b"content-type")
            self._parameters = parameters(value) if value else {}
        return self._parameters

    @property
    def charset(self) -> str:
        """The declared charset, or ""."""
        return self.parameters.get("charset") or loose_charset(self.index.get(b"content-type", b""))

    @property
    def filename(self) -> str:
        """The file name of the part, or ""."""
        disposition = self.index.get(b"content-disposition")
        name = parameters(disposition).get("filename") if disposition else None
        return name or self.parameters.get("name", "")

    @property
    def is_text(self) -> bool:
        """True if the payload is text."""
        return _is_text(self.read_as or self.content_type)

    @property
    def is_html(self) -> bool:
        """True if the payload is HTML."""
        return _is_html(self.read_as or self.content_type)

    @property
    def hidden_spans(self) -> bytes | None:
        """The invisible spans of `utf8` in HTML; cached."""
        if self._hidden_spans is False:
            self._hidden_spans = hidden_spans(self.utf8) if self.is_html else None
        return self._hidden_spans

    @property
    def content(self) -> bytes:
        """The payload without its transfer encoding."""
        encoding = transfer_encoding(self.index)
        content = decode_transfer(self.payload, encoding) if encoding else self.payload
        return _without_cut_character(content) if self.is_cut else content

    @property
    def text(self) -> str:
        """The decoded text; "" if the part is not text."""
        if not self.is_text:
            return ""
        return decode_part(self._unfolded(), self.charset, self.is_html, self.fallback)

    def _unfolded(self) -> bytes:
        """The content without line breaks within words, which some types of text have."""
        content = self.content
        if self.content_type in _FOLDED_TYPES:  # RFC 5545, 3.1
            return _FOLD.sub(b"", content).replace(b"\\n", b"\n")
        value = self.index.get(b"content-type", b"")
        if (
            b"delsp" in value.lower() and self.parameters.get("delsp", "").lower() == "yes"
        ):  # RFC 3676
            return _SPACE_AND_BREAK.sub(b"", content)
        return content

    @property
    def utf8(self) -> bytes:
        """The text as normalized (NFC) UTF-8; cached, because several views read it."""
        if self._utf8 is None:
            self._utf8 = (
                to_utf8(self._unfolded(), self.charset, self.is_html, self.fallback)
                if self.is_text
                else b""
            )
        return self._utf8


@dataclass
class Mail:
    """A parsed message.

    Attributes
    ----------
    fields
        Header fields in order, as (name, value) in bytes; values include their folding.
    parts
        The leaves of the message, in order.
    defects
        Damage, exceeded limits, and parts that could not be read.
    source
        The bytes of the message, with LF line ends.
    charset
        The first charset that a part declares, or "". Raw 8-bit header fields are in this charset.
    """

    fields: Fields = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    defects: list[str] = field(default_factory=list)
    index: Index = field(default_factory=dict, repr=False)
    source: bytes = field(default=b"", repr=False)
    charset: str = ""

    @cached_property
    def headers(self) -> list[tuple[str, str]]:
        """The decoded header fields: names as written, values unfolded."""
        return [(name.decode("ascii"), self.decode(value)) for name, value in self.fields]

    def decode(self, value: bytes) -> str:
        """Return the decoded value of a header field of this message."""
        return decode_words(value, self.charset)

    def get(self, name: str) -> str:
        """Return the decoded value of the first field of that name, or ""."""
        return self.decode(self.index.get(name.encode("latin-1", "replace").lower(), b""))

    @property
    def text(self) -> str:
        """The decoded text of all text parts."""
        return "\n".join(p.text for p in self.parts if p.is_text and p.role != "damaged")


def _is_text(content_type: str) -> bool:
    return content_type.startswith("text/") or content_type in _OTHER_TEXT


def _is_html(content_type: str) -> bool:
    """Return True for HTML, including text/watch-html and text/x-amp-html."""
    return content_type in _HTML or (content_type.startswith("text/") and "html" in content_type)


def _without_cut_character(content: bytes) -> bytes:
    """Drop an incomplete UTF-8 sequence from the end of a truncated text."""
    for size in range(1, min(4, len(content)) + 1):
        byte = content[-size]
        if byte >= 0xC0:
            wanted = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return content[:-size] if size < wanted else content
        if byte < 0x80:
            break
    return content


@lru_cache(maxsize=1024)
def _content_type(value: bytes) -> str:
    """Return the type at the beginning of a Content-Type; text/plain if it is damaged."""
    match = _TYPE.match(value)
    if match is None:
        return "multipart/mixed" if _ANY_MULTIPART.match(value) else "text/plain"
    return f"{match[1].decode('latin-1')}/{match[2].decode('latin-1')}".lower()


def _guess_type(part: Part) -> str:
    """Return the text type of a part of a vague type, by its name or content, or ""."""
    encoding = transfer_encoding(part.index)
    sample = decode_transfer(part.payload[: 2 * _SNIFFED], encoding)[:_SNIFFED]
    if sample[:2] not in _UTF16_STARTS and _NOT_TEXT.search(sample):
        return ""
    if _HTML_NAME.fullmatch(part.filename) or _HTML_START.match(sample):
        return "text/html"
    if _TEXT_NAME.fullmatch(part.filename):
        return "text/plain"
    return "" if _NO_READER_TEXT.match(sample) or not sample.strip() else "text/plain"


def _delimiters(
    data: bytes, start: int, end: int, boundary_text: bytes
) -> list[tuple[int, int, bool]]:
    """Return the delimiter lines of a container: (line start, next line, is closing)."""
    mark = b"--" + boundary_text
    lines: list[tuple[int, int, bool]] = []
    similar = 0
    position = data.find(mark, start, end)
    while position >= 0 and len(lines) < _MAX_DELIMITERS:
        after = position + len(mark)
        if position == start or data[position - 1] == 10:
            line_end = data.find(b"\n", after, end)
            line_end = end if line_end < 0 else line_end
            suffix = data[after : min(line_end, after + 1000)].strip(b" \t")
            if suffix in (b"", b"--"):
                lines.append((position, min(line_end + 1, end), suffix == b"--"))
            after = line_end
        similar += 1
        if similar - len(lines) > _MAX_SIMILAR:
            return lines + _matching_delimiters(data, after, end, mark)
        position = data.find(mark, after, end)
    return lines


def _matching_delimiters(
    data: bytes, start: int, end: int, mark: bytes
) -> list[tuple[int, int, bool]]:
    """Return delimiter lines as `_delimiters` does, faster if there are many similar lines."""
    pattern = re.compile(rb"^%b(--)?[ \t]*+(?:\n|\Z)" % re.escape(mark), re.M)
    matches = islice(pattern.finditer(data, start, end), _MAX_DELIMITERS)
    return [(match.start(), match.end(), match[1] is not None) for match in matches]


def _within_size(fields: Fields, index: Index, size: int) -> tuple[Fields, Index]:
    """Return the first fields up to a size in bytes, and their index.

    The index has all Content- fields. Both have the fields that identify a message, truncated to a
    limit.
    """
    sizes = accumulate(len(name) + len(value) for name, value in fields)
    first_fields = [item for item, total in zip(fields, sizes, strict=True) if total <= size]
    names = {name.lower() for name, _ in first_fields}
    needed = {
        name: index[name][:_CUT_FIELD]
        for name in _IDENTITY_FIELDS
        if name in index and name not in names
    }
    others = {
        name: value
        for name, value in index.items()
        if name in names or name.startswith(b"content-")
    }
    return first_fields + list(needed.items()), others | needed


def _choose_content_fields(
    index: Index, repeated: Fields, data: bytes, body: int, end: int
) -> Index:
    """Return an index with the repeated Content- fields that make most of the body readable.

    Mail programs choose differently among repeated fields.
    """
    values = {name: [index[name]] for name, _ in repeated}
    for name, value in repeated:
        values[name].append(value)

    def rank(name: bytes, value: bytes) -> int:
        if name == b"content-type":
            content_type = _content_type(value[:_TYPE_BYTES])
            if content_type.startswith("multipart/"):
                mark = boundary(value)
                return 3 if mark and data.find(b"--" + mark, body, end) >= 0 else 0
            return 2 if _is_text(content_type) or content_type in _MESSAGES else 1
        if name == b"content-transfer-encoding":
            encoding = transfer_encoding({name: value})
            if encoding in _ENCODED:
                rank_of_encoded = 3 if encoding == b"base64" else 2
                return rank_of_encoded if seems_encoded(data, body, end, encoding) else 0
            return 1
        return 0

    chosen = {name: max(options, key=lambda v: rank(name, v)) for name, options in values.items()}
    return {**index, **chosen}


class _Parser:
    """The state of parsing one message, with the stack of slices to parse."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        self.limits = limits
        self.mail = Mail(source=data)
        self.part_count = 0
        # Remaining bytes to search for delimiters; each level searches its own part again.
        self.container_budget = max(limits.size, _CONTAINER_SCANS * len(data))
        self.budget = limits.size  # remaining bytes of header fields and text
        # remaining bytes of containers to decode
        self.decoded_budget = max(limits.size, len(data))
        self.stack: list[_Slice] = [(data, 0, len(data), 0, "text/plain", "part")]

    def add_defect(self, text: str) -> None:
        if text not in self.mail.defects:
            self.mail.defects.append(text)

    def spend(self, size: int, role: str = "body") -> int:
        """Return the number of `size` bytes that can be read, and subtract it from the budget.

        A part that is not the last gets half of the remaining budget, so it cannot hide later
        parts.
        """
        limit = self.budget // 2 if self.stack else self.budget
        if role != "body" and role != "message":
            limit = min(limit, self.limits.size // _UNSHOWN_SHARE)
        if size > limit:
            self.add_defect(f"more than {self.limits.size} bytes of text")
            size = limit
        self.budget -= size
        return size

    def header(self, data: bytes, start: int, end: int) -> tuple[Fields, Index, int]:
        """Return the header fields of a slice, and the start of its body."""
        fields, index, repeated, stop, damaged, is_cut = split_header(
            data, start, end, self.limits.fields
        )
        if stop - start > self.budget // 2:
            fields, index = _within_size(fields, index, self.spend(stop - start))
        else:
            self.budget -= stop - start
        if is_cut:
            self.add_defect(f"more than {self.limits.fields} header fields")
        if damaged:
            self.add_defect("header lines that are no fields")
            text = b"".join(damaged)
            self.leaf([], {}, "text/plain", text[: self.spend(len(text), "damaged")], "damaged")
        if stop < end and data.startswith(b"\n", stop):
            stop += 1
        elif stop < end:
            self.add_defect("no blank line after the header")
        if repeated:
            self.add_defect("repeated Content- fields")
            index = _choose_content_fields(index, repeated, data, stop, end)
        return fields, index, stop

    def leaf(
        self,
        fields: Fields,
        index: Index,
        content_type: str,
        payload: bytes,
        role: str = "body",
        is_cut: bool = False,
    ) -> None:
        self.mail.parts.append(Part(fields, content_type, payload, role, index, is_cut=is_cut))

    def text_leaf(
        self,
        fields: Fields,
        index: Index,
        content_type: str,
        data: bytes,
        start: int,
        end: int,
        role: str = "body",
    ) -> None:
        """Add a leaf. Text is cut to the remaining budget."""
        size = granted = end - start
        read_as = ""
        if not _is_text(content_type) and _VAGUE_TYPE.fullmatch(content_type):
            read_as = _guess_type(
                Part(fields, content_type, data[start : start + 2 * _SNIFFED], index=index)
            )
        if _is_text(read_as or content_type):
            if _is_html(read_as or content_type) and size > self.limits.size // 4:
                data, fields, index = self.without_pictures(data[start:end], fields, index)
                start, size = 0, len(data)
            granted = self.spend(size, role)
        payload = data[start : start + granted]
        self.mail.parts.append(
            Part(fields, content_type, payload, role, index, is_cut=granted < size, read_as=read_as)
        )
        if content_type in _OPAQUE:
            self.add_defect(f"{_OPAQUE[content_type]} content is not read")

    def without_pictures(
        self, payload: bytes, fields: Fields, index: Index
    ) -> tuple[bytes, Fields, Index]:
        """Return the decoded payload of HTML without the data of pictures, and its fields."""
        page = decode_transfer(payload, transfer_encoding(index))
        shorter = _DATA_URI.sub(b"data:", page)
        if len(shorter) == len(page):
            return payload, fields, index
        return shorter, fields, {**index, b"content-transfer-encoding": b"8bit"}

    def run(self) -> Mail:
        """Parse slices until none is left."""
        while self.stack:
            data, start, end, depth, default_type, role = self.stack.pop()
            if role != "part":
                self.text_leaf([], {}, "text/plain", data, start, end, role)
                continue
            self.part_count += 1
            if self.part_count > self.limits.parts:
                self.add_defect(f"more than {self.limits.parts} parts")
                break
            fields, index, body = self.header(data, start, end)
            if self.part_count == 1:
                self.mail.fields = fields
                self.mail.index = index
            value = index.get(b"content-type", b"")
            content_type = _content_type(value[:_TYPE_BYTES]) if value else default_type
            is_container = content_type.startswith("multipart/")
            if is_container or content_type in _MESSAGES:
                if depth < self.limits.depth:
                    if is_container:
                        self.container(fields, index, content_type, value, data, body, end, depth)
                    else:
                        self.attached(index, data, body, end, depth)
                    continue
                self.add_defect(f"nested more than {self.limits.depth} deep")
                content_type = "text/plain"
            self.text_leaf(fields, index, content_type, data, body, end)
        self.set_charsets()
        return self.mail

    def attached(self, index: Index, data: bytes, body: int, end: int, depth: int) -> None:
        """Read the header of an attached message, and put the message on the stack."""
        data, body, end = self.decoded(index, data, body, end, b"")
        cut = min(end, body + self.budget // 2)
        inner, inner_index, *_ = split_header(data, body, cut, self.limits.fields)
        self.leaf(inner, inner_index, "message/rfc822", b"", "message")
        self.stack.append((data, body, end, depth + 1, "text/plain", "part"))

    def decoded(
        self, index: Index, data: bytes, body: int, end: int, mark: bytes
    ) -> tuple[bytes, int, int]:
        """Decode the transfer encoding of a container or attached message, if its label is right.

        The standards forbid it, but real mail has both such encodings and wrong labels.
        """
        encoding = transfer_encoding(index)
        if encoding not in _ENCODED:
            return data, body, end
        self.add_defect("a container with a transfer encoding")
        whole_end = end
        end = min(end, body + self.decoded_budget)
        sample = data[body : min(end, body + _LABEL_SAMPLE)]
        has_mark = bool(mark) and data.find(b"--" + mark, body, end) >= 0
        if encoding == b"base64":
            is_wrong = has_mark if mark else _FIELD.match(sample) is not None
        elif mark:
            is_wrong = has_mark and not _ENCODED_FIELD.search(sample)
        else:
            is_wrong = bool(_ENCODED_BODY.search(sample)) and not _ENCODED_FIELD.search(sample)
        if is_wrong or end <= body:
            return data, body, whole_end
        payload = data[body:end]
        self.decoded_budget -= len(payload)
        data = decode_transfer(payload, encoding)
        data = _with_lf(data)
        return data, 0, len(data)

    def container(
        self,
        fields: Fields,
        index: Index,
        content_type: str,
        value: bytes,
        data: bytes,
        body: int,
        end: int,
        depth: int,
    ) -> None:
        """Put the parts of a container on the stack; without parts it is a leaf."""
        self.container_budget -= end - body
        if self.container_budget < 0:
            self.add_defect("large containers nested in others")
            self.text_leaf(fields, index, "text/plain", data, body, end)
            return
        mark = boundary(value)
        data, body, end = self.decoded(index, data, body, end, mark)
        lines = _delimiters(data, body, end, mark) if mark else []
        if not lines:
            self.add_defect("multipart without a boundary" if not mark else "boundary not found")
            undeclared = _UNDECLARED.search(data, body, end)
            if undeclared is None:
                self.text_leaf(fields, index, "text/plain", data, body, end)
                return
            lines = _delimiters(data, body, end, undeclared[1].rstrip(b" \t"))
        slices: list[_Slice] = []
        if lines[0][0] > body:
            slices.append((data, body, lines[0][0], depth, "", "preamble"))
        default = "message/rfc822" if content_type == "multipart/digest" else "text/plain"
        is_closed = False
        for number, (_, begin, is_closing) in enumerate(lines):
            stop = lines[number + 1][0] if number + 1 < len(lines) else end
            if is_closing:
                # Mail programs do not show the epilogue or parts in it.
                if _VISIBLE.search(data, begin, end):
                    slices.append((data, begin, end, depth, "", "epilogue"))
                is_closed = True
                break
            # The line end before a delimiter belongs to the delimiter.
            if stop < end and stop > begin and data[stop - 1] == 10:
                stop -= 1
            slices.append((data, begin, stop, depth + 1, default, "part"))
        if not is_closed:
            self.add_defect("the last boundary is missing")
        self.stack.extend(reversed(self.within_limit(slices)))

    def within_limit(self, slices: list[_Slice]) -> list[_Slice]:
        """Return the slices of a container in order: all, or the largest if there are too many."""
        room = max(self.limits.parts - self.part_count - len(self.stack), 1)
        if len(slices) <= room:
            return slices
        self.add_defect(f"more than {self.limits.parts} parts")
        sizes = [end - start for _, start, end, *_ in slices]
        largest = sorted(range(len(slices)), key=sizes.__getitem__, reverse=True)[:room]
        return [slices[number] for number in sorted(largest)]

    def set_charsets(self) -> None:
        """Set the fallback charset of parts and header fields to the first declared charset."""
        for part in self.mail.parts:
            if b"content-type" in part.index and (charset := part.charset):
                self.mail.charset = charset
                for part in self.mail.parts:
                    part.fallback = charset
                return


def _with_lf(data: bytes) -> bytes:
    """Return data with LF for CRLF, CR CR LF and bare CR."""
    if data.find(b"\r") < 0:  # `in` is slower, because CPython raises an error for bytes first
        return data
    if b"\r\r" in data:
        data = _CRS_BEFORE_LF.sub(b"\n", data)
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def unwrap(data: bytes) -> bytes:
    r"""Return a message with LF line ends, without wrappers that programs add.

    Removes byte order marks and NULs before the header, and the envelope of Apple's .emlx files.
    CRLF, CR CR LF and bare CR become LF.

    Examples
    --------
    >>> unwrap(b"\xef\xbb\xbfSubject: hi\r\r\n\r\r\nHello\r")
    b'Subject: hi\n\nHello\n'
    """
    if data[:1] in (b"\0", b"\xef") and (match := _BEFORE_HEADER.match(data)):
        data = data[match.end() :]
    if data[:1].isdigit() and (match := _EMLX.match(data)):
        data = data[match.end() : match.end() + int(match[1])]
    return _with_lf(data)


def parse(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Mail:
    r"""Parse a message.

    Parameters
    ----------
    data
        The message: any bytes, with LF, CRLF or CR line ends.
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
    return _Parser(unwrap(data), limits).run()
