"""Copy a message byte for byte, with the verdict as the first field of its header."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import BinaryIO

from streamnb.header_fields import FIELD_START, LEADING_BLANK_LINES
from streamnb.limits import MAX_MESSAGE
from streamnb.mailbox.service.response import FIELD, Response, header_field
from streamnb.patterns import lazy_pattern

_LINE = 1 << 16  # number of bytes of a line to check at a time
_FIRST_LINE_END = lazy_pattern(rb"\r?\n")
_BARE_CRS = lazy_pattern(rb"(?<!\r)\r++(?!\n|\Z)")  # CRs before an LF are part of the line end
_CHUNK = 1 << 20  # bytes to read at a time after the classified part


def pass_through(
    source: BinaryIO,
    target: BinaryIO,
    classify: Callable[[bytes], Response] | None,
    unsure_field: str | None = None,
    line_end: bytes | None = None,
) -> Exception | None:
    """Copy a message, add its verdict, and remove any forged one.

    Parameters
    ----------
    source, target
        Files to read the message from and to write it to.
    classify
        Function that returns the verdict on the first 64 MiB of a message. None to add no verdict.
    unsure_field
        Another header field, added if the verdict is unsure.
    line_end
        Line end of the added fields. None for the line end of the first line.

    Returns
    -------
    Exception or None
        The error of `classify`, in which case the message was copied without a verdict. None
        without an error.

    Raises
    ------
    OSError
        If the message cannot be read or written. The caller must then keep the message.
    """
    head = _read_head(source)
    names = [FIELD]
    if unsure_field is not None:
        names.append(unsure_field.partition(":")[0].strip())
    fields, trouble = [], None
    try:
        if classify is not None:
            response = classify(head)
            fields = [header_field(response)]
            if unsure_field is not None and response.status == 2:
                fields.append(unsure_field)
    except Exception as error:  # after any error, the message must be passed on
        trouble = error
    lines = _Lines(head, source)
    lines.end = line_end or lines.end
    removed = "|".join(map(re.escape, names)).encode("ascii", "replace")
    added = b"".join(field.encode("ascii", "replace") + lines.end for field in fields)
    # A field name ends at a colon, or at blanks up to the end of the checked bytes.
    forged = re.compile(rb"%b(?:%b)[ \t]*(?::|[ \t]\Z)" % (FIELD_START, removed), re.I)
    _copy_header(lines, target, added, forged)
    lines.copy_rest(target)
    target.flush()
    return trouble


def _read_head(source: BinaryIO) -> bytes:
    """Read the part of a message to classify, in pieces to reserve only the needed memory."""
    head = bytearray()
    while part := source.read(min(_CHUNK, MAX_MESSAGE - len(head))):
        head += part
    return bytes(head)


def _copy_header(lines: _Lines, target: BinaryIO, added: bytes, forged: re.Pattern[bytes]) -> None:
    """Copy a header up to its empty line, with `added` first and without `forged` fields."""
    is_placed, is_forged, is_first = not added, False, True
    last_read = last_written = b"\n"
    if lines.head[:1] in b" \t\r\n" and (blank_lines := LEADING_BLANK_LINES.match(lines.head)):
        target.write(blank_lines[0])
        lines.position = blank_lines.end()
    while line := lines.next():
        if last_read in b"\r\n":
            is_cut_run = last_read == b"\r" == line[:1]  # two pieces of one run of CRs
            is_empty = not is_cut_run and line.lstrip(b"\r") == b"\n"
            is_continued = is_cut_run or line[:1] in (b" ", b"\t")
            # An mbox separator stays first. A continuation line before the first field stays first,
            # too, because it would continue the added field.
            is_separator = is_first and line.startswith(b"From ")
            if not is_placed and last_read == b"\n" and not is_continued and not is_separator:
                target.write(added)
                is_placed = True
            if is_empty:
                target.write(line)
                return
            is_forged = is_forged if is_continued else forged.match(line) is not None
            is_first = False
        last_read = line[-1:]
        if is_forged:  # keep the end of the preceding line
            line = b"\n" if last_read == b"\n" != last_written else b""
        target.write(line)
        last_written = line[-1:] or last_written
    if not is_placed:  # the message has no line, so add the field at the end
        target.write((b"" if last_written == b"\n" else lines.end) + added)


class _Lines:
    """The lines of a message whose beginning has been read.

    Parameters
    ----------
    head
        The beginning.
    source
        File with the rest.
    """

    def __init__(self, head: bytes, source: BinaryIO) -> None:
        self.head = head
        self.source = source
        self.position = 0  # in `head`
        first = _FIRST_LINE_END.search(head, 0, _LINE)
        self.end = first[0] if first else b"\n"

    def next(self) -> bytes:
        r"""Return the next line, or at most 64 KiB of it; b"" at the end.

        A bare CR ends a line, too, because some programs read it so, and a forged field can follow
        it.
        """
        end = self.head.find(b"\n", self.position, self.position + _LINE) + 1
        if not end and len(self.head) - self.position < _LINE:  # find the end of the line
            self.head, self.position = self.head[self.position :] + self.source.read(_CHUNK), 0
            end = self.head.find(b"\n", 0, _LINE) + 1
        begin, end = self.position, end or min(self.position + _LINE, len(self.head))
        line = self.head[begin:end]
        bare_crs = _BARE_CRS.search(line)
        if bare_crs is not None:
            line = line[: bare_crs.end()]
        elif len(line) == _LINE:  # the next byte decides whether the CRs are part of a line end
            line = line.rstrip(b"\r") or line
        self.position = begin + len(line)
        return line

    def copy_rest(self, target: BinaryIO) -> None:
        """Copy everything after the last returned line."""
        target.write(self.head[self.position :])
        while part := self.source.read(_CHUNK):
            target.write(part)
