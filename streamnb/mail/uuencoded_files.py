"""Uuencoded files in plain text, which mail programs show as attachments."""

from __future__ import annotations

import re
from typing import NamedTuple

from streamnb.mail.decode import transfer_encoding
from streamnb.mail.message import Part
from streamnb.patterns import lazy_pattern

# The first two lines of a uuencoded file in plain text, and its last line.
_UU_BEGIN = lazy_pattern(rb"^begin [0-7]{3,4} ([^\n]{1,200})\n[!-M][ -`]{2,90}+\n", re.M)
_UU_END = lazy_pattern(rb"\nend[ \t]*(?:\n|\Z)")
_MAX_FILES = 100  # uuencoded files in a text


class UuencodedFile(NamedTuple):
    """The place of a uuencoded file in a text, and its name."""

    start: int
    end: int
    name: bytes


def find_files(part: Part, data: bytes, start: int, end: int) -> list[UuencodedFile]:
    """Return the files in the content of a part: a slice of data without transfer encoding."""
    files: list[UuencodedFile] = []
    if part.content_type != "text/plain" or data.find(b"begin ", start, end) < 0:
        return files
    if transfer_encoding(part.index) == b"x-uuencode":
        return files
    position = start
    while begin := _UU_BEGIN.search(data, position, end):
        last_line = _UU_END.search(data, begin.end() - 1, end)
        if last_line is None or len(files) == _MAX_FILES:
            break
        position = last_line.end()
        files.append(UuencodedFile(begin.start(), position, begin[1].replace(b'"', b"")))
    return files


def remove_files(data: bytes, start: int, end: int, files: list[UuencodedFile]) -> bytes:
    """Return the content of a part without its files."""
    starts = [start, *(file.end for file in files)]
    ends = [*(file.start for file in files), end]
    return b"".join(data[i:j] for i, j in zip(starts, ends, strict=True))
