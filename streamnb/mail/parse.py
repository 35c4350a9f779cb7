"""The parser of messages: a stack of slices of bytes, without recursion."""

from __future__ import annotations

import re
from itertools import accumulate, chain, filterfalse, islice
from typing import NamedTuple

from streamnb._core import split_header
from streamnb.header_fields import LEADING_BLANK_LINES
from streamnb.mail.charsets import LATIN, declared_in_html, is_informative
from streamnb.mail.content_types import (
    SNIFFED,
    TNEF_START,
    guess_text_type,
    is_text,
    names_message,
    read_content_type,
)
from streamnb.mail.decode import (
    boundary,
    charsets_of_words,
    decode_transfer,
    seems_encoded,
    transfer_encoding,
)
from streamnb.mail.message import Fields, Index, Mail, Part
from streamnb.mail.unwrap import convert_line_ends, unwrap
from streamnb.mail.uuencoded_files import find_files, remove_files
from streamnb.patterns import lazy_pattern

_ENCODED = (b"base64", b"quoted-printable")
_TNEF = "TNEF (winmail.dat)"
# Types of parts that wrap others or are encrypted, and their names in defects.
_OPAQUE = {
    "application/ms-tnef": _TNEF,
    "application/vnd.ms-tnef": _TNEF,
    "application/pkcs7-mime": "S/MIME",
    "application/x-pkcs7-mime": "S/MIME",
    "application/pgp-encrypted": "PGP",
}

# Bytes to parse, a message, a part or its content: bytes, start, end, depth, default content type,
# and "part" or the role of a leaf without a header. An object would take a microsecond.
_Slice = tuple[bytes, int, int, int, str, str]
# Attached messages; some programs attach only the header.
_MESSAGES = frozenset((
    "message/rfc822", "message/x-rfc822", "message/global", "message/news", "message/partial",
    "text/rfc822-headers", "text/rfc822-header", "text/rfc822", "message/rfc822-headers",
    "message/global-headers",
))  # fmt: skip
# A container that is quoted-printable as a whole encodes the `=` in its fields, too.
_ENCODED_FIELD = lazy_pattern(rb"(?:charset|boundary|name)=3D", re.I)
_ENCODED_BODY = lazy_pattern(
    rb"^content-transfer-encoding[ \t]*:[ \t]*(?:base64|quoted)", re.I | re.M
)
_FIELD = lazy_pattern(rb"\s*[!-9;-~]+[ \t]*:")
_ANY_ZLIB = 47  # gzip or zlib, with the largest window
_VISIBLE = lazy_pattern(rb"\S")
# A picture embedded in a page. Its data is not text, and must not use up the budget.
_DATA_URI = lazy_pattern(rb"(?<=[\"'(=])data:[^,\"'<>]{0,100};base64,[\w/+%=\s-]++", re.I)
# A delimiter line of a container whose boundary is undeclared, or declared in another spelling.
_UNDECLARED = lazy_pattern(rb"^--([^\n]{0,200}+)\n(?=content-[a-z-]{1,40}+[ \t]*:)", re.I | re.M)
# If more lines than this begin like a delimiter, another search is faster.
_MAX_SIMILAR = 1000
_MAX_DELIMITERS = 1 << 16  # maximum number of parts of a container; a million would take a second
_CONTAINER_SCANS = 8  # limit of the bytes searched for delimiters, as a multiple of the message
_IDENTITY_FIELDS = tuple(b"message-id date from subject to cc reply-to".split())
_CUT_FIELD = 1 << 12  # bytes of an identifying field, if the header exceeds half of `Limits.size`
# bytes of a container that are read to decide whether its declared encoding is wrong
_LABEL_SAMPLE = 1 << 16
_MAX_WORDS = 100  # encoded words whose charset is tried for text without one
_MAX_GUESSES = 100  # parts whose charset and names are guessed, which takes about 0.3 ms each
# Bytes of the notes of programs and lists before and after the parts of containers. Mail programs
# do not show them, but they are evidence. Longer text could cover the text of spam. At 200 bytes,
# (1-ROCA)% of CSDMC2010 is .0037 instead of .0029; at 800 bytes, it is the same.
_LONGEST_NOTES = 400
_UNSHOWN_SHARE = 16  # invisible text gets at most 1/16 of `Limits.size`


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
            is_closing = suffix == b"--" or (suffix == b"-" and line_end >= end - 1)  # cut
            if not suffix or is_closing:
                lines.append((position, min(line_end + 1, end), is_closing))
            after = line_end
        similar += 1
        if similar - len(lines) > _MAX_SIMILAR:
            return lines + _matching_delimiters(data, after, end, mark)
        position = data.find(mark, after, end)
    return lines


def _delimiter_in_header(data: bytes, start: int, stop: int, index: Index) -> int:
    """Return the start of the first boundary, if no blank line is between it and the fields."""
    mark = boundary(index.get(b"content-type", b""))
    return data.find(b"\n--" + mark + b"\n", start, stop) + 1 if mark else 0


def _matching_delimiters(
    data: bytes, start: int, end: int, mark: bytes
) -> list[tuple[int, int, bool]]:
    """Return delimiter lines as `_delimiters` does, faster if there are many similar lines."""
    pattern = re.compile(rb"^%b(--)?[ \t]*+(?:\n|\Z)" % re.escape(mark), re.M)
    matches = islice(pattern.finditer(data, start, end), _MAX_DELIMITERS)
    return [(match.start(), match.end(), match[1] is not None) for match in matches]


def _within_size(fields: Fields, index: Index, size: int) -> tuple[Fields, Index]:
    """Return the first fields up to a size in bytes, and their index.

    The index also has all later Content- fields. Both also have the later fields that identify a
    message, truncated to `_CUT_FIELD` bytes.
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
            content_type = read_content_type(value).name
            if content_type.startswith("multipart/"):
                mark = boundary(value)
                return 3 if mark and data.find(b"--" + mark, body, end) >= 0 else 0
            return 2 if is_text(content_type) or content_type in _MESSAGES else 1
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
        self.expansion_budget = limits.size  # remaining bytes to expand compressed text to
        self.stack: list[_Slice] = [(data, 0, len(data), 0, "text/plain", "part")]

    def add_defect(self, text: str) -> None:
        if text not in self.mail.defects:
            self.mail.defects.append(text)

    def add_size_defect(self) -> None:
        self.add_defect(f"more than {self.limits.size} bytes of text")

    def spend(self, size: int, role: str = "body") -> int:
        """Return the number of `size` bytes that can be read, and subtract it from the budget.

        A part that is not the last gets half of the remaining budget, so it cannot hide later
        parts.
        """
        limit = self.budget // 2 if self.stack else self.budget
        if role != "body" and role != "message":
            limit = min(limit, self.limits.size // _UNSHOWN_SHARE)
        if size > limit:
            self.add_size_defect()
            size = limit
        self.budget -= size
        return size

    def header(self, data: bytes, start: int, end: int) -> tuple[Fields, Index, int]:
        """Return the header fields of a slice, and the start of its body."""
        fields, index, repeated, stop, damaged, is_cut = split_header(
            data, start, end, self.limits.fields
        )
        if damaged and (delimiter := _delimiter_in_header(data, start, stop, index)):
            fields, index, repeated, stop, damaged, is_cut = split_header(
                data, start, delimiter, self.limits.fields
            )
        if stop - start > (limit := self.budget // 2):  # a header cannot hide the body
            self.add_size_defect()
            fields, index = _within_size(fields, index, limit)
            self.budget -= limit
        else:
            self.budget -= stop - start
        if is_cut:
            self.add_defect(f"more than {self.limits.fields} header fields")
        if damaged:
            self.add_defect("header lines that are no fields")
            text = b"".join(damaged)
            payload = text[: self.spend(len(text), "damaged")]
            self.mail.parts.append(Part([], "text/plain", payload, "damaged"))
        if stop < end and data.startswith(b"\n", stop):
            stop += 1
        elif stop < end:
            self.add_defect("no blank line after the header")
        if repeated:
            self.add_defect("repeated Content- fields")
            index = _choose_content_fields(index, repeated, data, stop, end)
        return fields, index, stop

    def add_leaf(self, part: Part, content: _Slice, is_vague: bool = False) -> None:
        """Add a leaf with its content. Text is cut to the remaining budget."""
        data, start, end, _, _, _ = content
        size = granted = end - start
        wrapper = _OPAQUE.get(part.content_type)
        if is_vague:
            sample = _decoded_sample(part.index, content)
            if sample.startswith(TNEF_START):
                wrapper = _TNEF
            elif part.filename.lower().endswith(".p7m"):
                wrapper = "S/MIME"
            part.read_as = guess_text_type(part.content_type, part.filename, sample)
        if part.is_text:
            if b"content-encoding" in part.index and (text := self.expanded(part, content)):
                data, start, size = text, 0, len(text)
            elif size > self.limits.size // 4 and part.is_html:
                data = _without_pictures(data[start:end], part)
                start, size = 0, len(data)
            granted = self.spend(size, part.role)
        part.payload = data[start : start + granted]
        part.is_cut = granted < size
        self.mail.parts.append(part)
        if wrapper and not self.add_wrapped(part, content, wrapper):
            self.add_defect(f"{wrapper} content is not read")

    def expanded(self, part: Part, content: _Slice) -> bytes:
        """Return a compressed text without its encodings; b"" if it is too large or damaged."""
        import zlib  # here: few mails need it

        data, start, end, *_ = content
        decoder = zlib.decompressobj(_ANY_ZLIB)
        try:
            text = decoder.decompress(
                decode_transfer(data[start:end], transfer_encoding(part.index)),
                self.expansion_budget + 1,
            )
        except zlib.error:
            self.expansion_budget //= 2  # up to all of it was expanded
            return b""
        self.expansion_budget = max(self.expansion_budget - len(text), 0)
        if not decoder.eof or not self.expansion_budget:
            return b""
        part.index = {**part.index, b"content-transfer-encoding": b"8bit"}
        return convert_line_ends(text)

    def add_wrapped(self, part: Part, content: _Slice, wrapper: str) -> bool:
        """Put the entities in an opaque part on the stack; return False if it has none."""
        _, start, end, depth, *_ = content
        self.decoded_budget -= end - start
        if self.decoded_budget < 0 or depth >= self.limits.depth:
            return False
        entities: list[bytes] = []
        if wrapper == "S/MIME":
            from streamnb.mail.signed_data import signed_content  # here: few mails need it

            entities = [signed_content(part.content)]
        elif wrapper == _TNEF:
            from streamnb.mail.tnef import read_tnef  # here: few mails need it

            entities, rtf_size = read_tnef(part.content, self.expansion_budget)
            self.expansion_budget = max(self.expansion_budget - rtf_size, 0)
        entities = [convert_line_ends(entity) for entity in reversed(entities) if entity]
        self.stack += [(data, 0, len(data), depth + 1, "text/plain", "part") for data in entities]
        return bool(entities)

    def run(self) -> Mail:
        """Parse slices until none is left."""
        while self.stack:
            piece = self.stack.pop()
            data, start, end, depth, default_type, role = piece
            if role != "part":
                self.add_leaf(Part([], "text/plain", b"", role), piece)
                continue
            self.part_count += 1
            if self.part_count > self.limits.parts:
                self.add_defect(f"more than {self.limits.parts} parts")
                break
            fields, index, body = self.header(data, start, end)
            if self.part_count == 1:
                self.mail.fields = fields
                self.mail.index = index
            self.add_part(fields, index, (data, body, end, depth, default_type, role))
        self.set_charsets()
        self.hide_notes()
        return self.mail

    def add_part(self, fields: Fields, index: Index, content: _Slice) -> None:
        """Add a leaf, or put the parts of a container on the stack."""
        value = index.get(b"content-type", b"")
        data, start, end, depth, default_type, role = content
        content_type, is_vague = read_content_type(value) if value else (default_type, False)
        part = Part(fields, content_type, b"", index=index)
        if self.part_count > _MAX_GUESSES:
            part.name_fallback = LATIN
        if is_vague and names_message(part.filename) and _begins_as_message(index, content):
            part.content_type = content_type = "message/rfc822"
        is_message = content_type in _MESSAGES
        if is_message or content_type.startswith("multipart/"):
            if depth >= self.limits.depth:
                self.add_defect(f"nested more than {self.limits.depth} deep")
            elif is_message:
                self.add_message(part, content)
                return
            elif self.add_container(part, content):
                return
            part.content_type, is_vague = "text/plain", True
        files = []
        if part.content_type == "text/plain" and (
            data.find(b"begin ", start, end) >= 0 or transfer_encoding(index) == b"base64"
        ):
            data, start, end = _searched_for_files(index, data, start, end)
            max_files = self.limits.parts - self.part_count - len(self.stack)
            files = find_files(index, data, start, end, max_files)
        self.part_count += len(files)
        if files:
            text = remove_files(data, start, end, files)
            content = (text, 0, len(text), depth, default_type, role)
            part.index = {**index, b"content-transfer-encoding": b"8bit"}
        self.add_leaf(part, content, is_vague)
        for file in files:
            value = b'application/octet-stream; name="%b"' % file.name
            index = {b"content-type": value, b"content-transfer-encoding": b"x-uuencode"}
            fields = [(b"Content-Type", value)]
            attachment = Part(fields, "application/octet-stream", b"", index=index)
            self.add_leaf(
                attachment, (data, file.start, file.end, depth, "", "part"), is_vague=True
            )

    def add_message(self, part: Part, content: _Slice) -> None:
        """Add the header of an attached message, and put the message on the stack."""
        data, start, end, depth, *_ = self.decoded(part.index, content, b"")
        if blank_lines := LEADING_BLANK_LINES.match(data, start, end):
            start = blank_lines.end()
        cut = min(end, start + self.budget // 2)
        part.fields, part.index, *_ = split_header(data, start, cut, self.limits.fields)
        part.content_type, part.role = "message/rfc822", "message"
        self.mail.parts.append(part)
        self.stack.append((data, start, end, depth + 1, "text/plain", "part"))

    def decoded(self, index: Index, content: _Slice, mark: bytes) -> _Slice:
        """Decode the transfer encoding of a container or attached message, if its label is right.

        The standards forbid it, but real mail has both such encodings and wrong labels.
        """
        encoding = transfer_encoding(index)
        if encoding not in _ENCODED:
            return content
        self.add_defect("a container with a transfer encoding")
        data, body, end, depth, default_type, role = content
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
            return content
        self.decoded_budget -= end - body
        data = convert_line_ends(decode_transfer(data[body:end], encoding))
        return data, 0, len(data), depth, default_type, role

    def add_container(self, part: Part, content: _Slice) -> bool:
        """Put the parts of a container on the stack; return False if it has no parts."""
        _, start, end, depth, *_ = content
        self.container_budget -= end - start
        if self.container_budget < 0:
            self.add_defect("large containers nested in others")
            return False
        mark = boundary(part.index.get(b"content-type", b""))
        data, body, end, *_ = self.decoded(part.index, content, mark)
        lines = _delimiters(data, body, end, mark) if mark else []
        if not lines:
            self.add_defect("multipart without a boundary" if not mark else "boundary not found")
            undeclared = _UNDECLARED.search(data, body, end)
            if undeclared is None:
                return False
            lines = _delimiters(data, body, end, undeclared[1].rstrip(b" \t"))
        slices: list[_Slice] = []
        if lines[0][0] > body:
            slices.append((data, body, lines[0][0], depth, "", "preamble"))
        is_digest = part.content_type == "multipart/digest"
        default = "message/rfc822" if is_digest else "text/plain"
        is_closed = False
        for number, (_, begin, is_closing) in enumerate(lines):
            stop = lines[number + 1][0] if number + 1 < len(lines) else end
            if is_closing:
                # Mail programs do not show the epilogue or parts in it.
                if _VISIBLE.search(data, begin, end):
                    slices.append((data, begin, end, depth, "", "epilogue"))
                is_closed = True
                break
            if number == len(lines) - 1 > 0 and not _VISIBLE.search(data, begin, end):
                break  # the last boundary, without its end
            # The line end before a delimiter belongs to the delimiter.
            if stop < end and stop > begin and data[stop - 1] == 10:
                stop -= 1
            slices.append((data, begin, stop, depth + 1, default, "part"))
        if not is_closed:
            self.add_defect("the last boundary is missing")
        self.stack.extend(reversed(self.within_limit(slices)))
        return True

    def within_limit(self, slices: list[_Slice]) -> list[_Slice]:
        """Return the slices of a container in order: all, or the largest if there are too many."""
        room = max(self.limits.parts - self.part_count - len(self.stack), 1)
        if len(slices) <= room:
            return slices
        self.add_defect(f"more than {self.limits.parts} parts")
        sizes = [end - start for _, start, end, *_ in slices]
        largest = sorted(range(len(slices)), key=sizes.__getitem__, reverse=True)[:room]
        return [slices[number] for number in sorted(largest)]

    def hide_notes(self) -> None:
        """Hide text before and after the parts of containers, after its first bytes."""
        size = 0
        for part in self.mail.parts:
            if part.role in ("preamble", "epilogue"):
                size += len(part.payload)
                part.is_hidden = size > _LONGEST_NOTES

    def set_charsets(self) -> None:
        """Give parts and fields without a charset the charset of the first part that has one."""
        charset = self.mail.charset = _find_charset(self.mail)
        self.mail.has_many_encoded_fields = not charset and _has_many_encoded_fields(self.mail)
        for part in self.mail.parts:
            part.fallback = charset or LATIN  # the text of each part was guessed


def _has_many_encoded_fields(mail: Mail) -> bool:
    """Return True if more than `_MAX_GUESSES` fields have 8-bit text or encoded words."""
    headers = [part.fields for part in mail.parts if part.fields is not mail.fields]
    if len(mail.fields) + sum(map(len, headers)) <= _MAX_GUESSES:
        return False
    fields = chain(mail.fields, *headers)
    count = sum(not value.isascii() or b"=?" in value for _, value in fields)
    return count > _MAX_GUESSES


def _decoded_sample(index: Index, content: _Slice) -> bytes:
    """Return the first bytes of the content of a part, without its transfer encoding."""
    data, start, end, *_ = content
    sample = data[start : min(end, start + 2 * SNIFFED)]
    return decode_transfer(sample, transfer_encoding(index))


def _searched_for_files(index: Index, data: bytes, start: int, end: int) -> tuple[bytes, int, int]:
    """Return the slice to search for uuencoded files: that of a part, or of its decoded text.

    The slice is empty if encoded text has none.
    """
    encoding = transfer_encoding(index)
    if encoding not in _ENCODED:
        return data, start, end
    if encoding != b"base64" and data.find(b"\nbegin ", max(start - 1, 0), end) < 0:
        return b"", 0, 0
    text = convert_line_ends(decode_transfer(data[start:end], encoding))
    return text, 0, len(text)


def _begins_as_message(index: Index, content: _Slice) -> bool:
    """Return True if the content of a part begins with a header field."""
    sample = _decoded_sample(index, content)
    return sample.startswith(b"From ") or _FIELD.match(sample) is not None


def _without_pictures(payload: bytes, part: Part) -> bytes:
    """Return the payload of HTML without the data of pictures, decoded if it has some."""
    page = decode_transfer(payload, transfer_encoding(part.index))
    shorter = _DATA_URI.sub(b"data:", page)
    if len(shorter) == len(page):
        return payload
    part.index = {**part.index, b"content-transfer-encoding": b"8bit"}
    return shorter


def _find_charset(mail: Mail) -> str:
    """Return the first charset that a part, a page or an encoded word declares; else a guess."""
    for part in mail.parts:
        if b"content-type" in part.index:
            charset = part.charset
            if charset and is_informative(charset):
                return charset
    contents = [part.content for part in mail.parts if part.is_text]
    if mail.source.isascii() and all(map(bytes.isascii, contents)):
        return ""
    from streamnb.mail.guess_charset import guess_charset  # here: few mails need it

    words = (value for _, value in mail.fields if b"=?" in value)
    charsets = chain(
        map(declared_in_html, contents),
        islice(chain.from_iterable(map(charsets_of_words, words)), _MAX_WORDS),
        map(guess_charset, islice(filterfalse(bytes.isascii, contents), _MAX_GUESSES)),
    )
    return next(filter(is_informative, charsets), "")


def parse(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Mail:
    r"""Parse a message.

    Parameters
    ----------
    data
        The message: any bytes, with LF, CRLF, CR or LF CR line ends.
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
