"""Uuencoded files in plain text, which mail programs show as attachments."""

from __future__ import annotations

import binascii
import math
import re
from typing import NamedTuple

from streamnb.mail.decode import transfer_encoding
from streamnb.mail.message import Index
from streamnb.patterns import lazy_pattern

# The first two lines of a uuencoded file in plain text.
_UU_BEGIN = lazy_pattern(rb"^begin [0-7]{3,4} ([^\n]{1,200})\n(?=[!-M][ -`]{2,90}+\n)", re.M)
_MAX_FILES = 100  # uuencoded files in a text


class UuencodedFile(NamedTuple):
    """The place of a uuencoded file in a text, and its name."""

    start: int
    end: int
    name: bytes


def find_files(
    index: Index, data: bytes, start: int, end: int, max_files: int
) -> list[UuencodedFile]:
    """Return the files in the content of plain text: a slice of data without transfer encoding.

    Text that only begins like a file is no file, because mail programs show it.
    """
    files: list[UuencodedFile] = []
    if data.find(b"begin ", start, end) < 0 or transfer_encoding(index) == b"x-uuencode":
        return files
    position = start
    while len(files) < min(max_files, _MAX_FILES) and (
        begin := _UU_BEGIN.search(data, position, end)
    ):
        position, is_file = _read_lines(data, begin.end(), end)
        if is_file:
            files.append(UuencodedFile(begin.start(), position, begin[1].replace(b'"', b"")))
    return files


def _read_lines(data: bytes, position: int, end: int) -> tuple[int, bool]:
    """Return the position after the lines of a file, and whether its last line was read.

    The first letter of a line is its number of bytes. Only the last line of data and the empty one
    after it can have other numbers than the first line.
    """
    first = data[position : position + 1]
    n_others = 0
    while position < end and n_others <= 2:
        line_end = data.find(b"\n", position, end)
        next_position = end if line_end < 0 else line_end + 1
        line = data[position:next_position].rstrip(b"\r\n")
        if line.rstrip() == b"end":
            return next_position, True
        if not _is_encoded(line):
            break
        n_others += line[:1] != first
        position = next_position
    return position, False


def _is_encoded(line: bytes) -> bool:
    """Return whether a line can be uuencoded. If all its bytes are 0, its blanks can be missing."""
    try:
        n_bytes = len(binascii.a2b_uu(line)) if line else 0
    except binascii.Error:
        return False
    return len(line) >= 1 + 4 * math.ceil(n_bytes / 3) or len(line.rstrip()) <= 1


def remove_files(data: bytes, start: int, end: int, files: list[UuencodedFile]) -> bytes:
    """Return the content of a part without its files."""
    starts = [start, *(file.end for file in files)]
    ends = [*(file.start for file in files), end]
    return b"".join(data[i:j] for i, j in zip(starts, ends, strict=True))
