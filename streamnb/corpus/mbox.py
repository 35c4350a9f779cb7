"""mbox files: messages one after the other, each after a line that begins "From "."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from streamnb.corpus.entry import MAX_MESSAGE, Corpus, Entry, Labels, label_from_header
from streamnb.corpus.folders import check_class_names, class_name
from streamnb.errors import CorpusError, convert_os_errors

_CHUNK = 1 << 20
# A separator is a line that begins "From ", after a blank line or at the start of the file, and
# before a header field: that is how mail programs tell it from a sentence that begins with "From".
# A message without header follows a complete separator of RFC 4155, with sender and date. Some
# programs write no blank line; then the separator must be complete. Editors and shells write byte
# order marks and empty lines before the first separator.
_START = rb"\A(?:\xef\xbb\xbf)?[\r\n]{0,64}"
_FIELD = rb"(?=[!-9;-~]{1,200}+[ \t]{0,20}+:|>From )"
_DATE = (
    rb"From \S{1,500}+ {1,20}+(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ \d]\d "
    rb"\d\d:\d\d(?::\d\d)?(?: [A-Z+-]\w{2,4})? \d{4}(?: [A-Z+-]\w{2,4})?\r?\n"
)
_LINE = rb"(?:From [^\r\n]{0,1000}+\r?\n%b|%b(?=\r?\n))" % (_FIELD, _DATE)
_SEPARATOR = re.compile(
    rb"(?:%b|\r?\n\r?\n|(?<=\n)\n)(?P<line>%b)|(?<=\n)(?P<complete>%b%b)"
    % (_START, _LINE, _DATE, _FIELD)
)
_FIRST = re.compile(_START + rb"From [^\r\n]*\d\d:\d\d[^\r\n]*\b[12]\d{3}\b[^\r\n]*\r?\n")
_OVERLAP = 2048  # bytes; longer than a separator and the name of a field


def is_mbox(head: bytes) -> bool:
    """Return whether text begins like an mbox file."""
    return head.startswith(b"From ") or _FIRST.match(head[:_OVERLAP]) is not None


def _find_separators(file: BinaryIO) -> Iterator[tuple[int, int]]:
    """Return the start and the end of each separator line, reading one chunk at a time."""
    window_start = 0
    tail = b""
    previous = -1
    while True:
        chunk = file.read(_CHUNK)
        window = tail + chunk
        for match in _SEPARATOR.finditer(window):
            start = window_start + max(match.start("line"), match.start("complete"))
            if start > previous and (match.start() > 0 or window_start == 0):
                yield start, window_start + match.end()
                previous = start
        if not chunk:
            return
        overlap = min(len(window), _OVERLAP)
        window_start += len(window) - overlap
        tail = window[len(window) - overlap :]


def _find_messages(path: Path) -> Iterator[tuple[int, int]]:
    """Return the first byte of each message, after its separator, and the byte after its last."""
    with open(path, "rb") as file:
        begin = -1
        for separator_start, separator_end in _find_separators(file):
            if begin >= 0:
                yield begin, separator_start
            begin = separator_end
        if begin >= 0:
            yield begin, file.seek(0, 2)


def open_mbox(paths: list[Path], root: Path, label_header: str | None = None) -> Corpus:
    """Return the corpus of mbox files, labelled by file name or by a header field."""
    if label_header is None:
        check_class_names((path.stem for path in paths), root)

    def entries() -> Iterator[Entry]:
        labels = Labels()
        for path in paths:
            label = class_name(path.stem)
            name = path.relative_to(root).as_posix() if path != root else path.name
            number = 0
            with convert_os_errors(CorpusError, f"{path}: cannot be read"):
                for number, (start, end) in enumerate(_find_messages(path), 1):
                    entry = Entry(
                        f"{name}:{number}", label, str(path), start, min(end, start + MAX_MESSAGE)
                    )
                    yield label_from_header(entry, label_header, labels, entry.name)
            if number == 0:
                raise CorpusError(
                    f"{path}: no message found; an mbox begins with a line 'From sender date'"
                )

    source = f"labels from the field {label_header}" if label_header else "labelled by file name"
    files = paths[0].name if len(paths) == 1 else f"{len(paths)} files"
    drop_headers = (label_header,) if label_header else ()
    return Corpus("mbox", root, f"mbox, {files}, {source}", "mail", entries, drop_headers)
