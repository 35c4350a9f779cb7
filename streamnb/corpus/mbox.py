"""mbox files: messages one after the other, each after a line that begins "From "."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from streamnb.corpus.entry import MAX_MESSAGE, Corpus, Entry, Labels
from streamnb.corpus.folders import check_classes, class_of
from streamnb.corpus.headers import labelled
from streamnb.errors import CorpusError, convert_os_errors

_CHUNK = 1 << 20
# After a blank line, or at the start: "From ", and a year, or a time of day, somewhere on the line.
# Without the year a sentence that begins with the word would cut its message in two. Some programs
# write no blank line: then the line is that of RFC 4155 whole, and a field follows it. Editors and
# shells leave byte order marks and empty lines before all that.
_START = rb"\A(?:\xef\xbb\xbf)?[\r\n]{0,64}"
_LINE = rb"From (?=[^\r\n]*(?:\d\d:\d\d|\b[12]\d{3}\b))[^\r\n]*+\r?\n"
_WHOLE_LINE = (
    rb"From \S+ +(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ \d]\d "
    rb"\d\d:\d\d:\d\d(?: [A-Z+-]\w{2,4})? \d{4}\r?\n(?=[A-Za-z][A-Za-z\d-]*:)"
)
_SEPARATOR = re.compile(
    rb"(?:%b|\r?\n\r?\n|(?<=\n)\n)(?P<line>%b)|(?<=\n)(?P<whole>%b)" % (_START, _LINE, _WHOLE_LINE)
)
_FIRST = re.compile(_START + rb"From [^\r\n]*\d\d:\d\d[^\r\n]*\b[12]\d{3}\b[^\r\n]*\r?\n")
_OVERLAP = 2048  # a separator line is not longer


def is_mbox(head: bytes) -> bool:
    """Whether text begins as an mbox does."""
    return head.startswith(b"From ") or _FIRST.match(head[:_OVERLAP]) is not None


def _separators(file: BinaryIO) -> Iterator[tuple[int, int]]:
    """Where each separator line begins, and the line after it, reading a piece at a time."""
    base = 0
    tail = b""
    last = -1
    while True:
        piece = file.read(_CHUNK)
        window = tail + piece
        for match in _SEPARATOR.finditer(window):
            at = base + max(match.start("line"), match.start("whole"))
            if at > last and (match.start() > 0 or base == 0):
                yield at, base + match.end()
                last = at
        if not piece:
            return
        keep = min(len(window), _OVERLAP)
        base += len(window) - keep
        tail = window[len(window) - keep :]


def _spans(path: Path) -> Iterator[tuple[int, int]]:
    """First byte of each message, its separator left out, and the byte after its last."""
    with open(path, "rb") as file:
        begin = -1
        for at, after in _separators(file):
            if begin >= 0:
                yield begin, at
            begin = after
        if begin >= 0:
            yield begin, file.seek(0, 2)


def mbox(paths: list[Path], root: Path, label_header: str | None = None) -> Corpus:
    """Read mbox files, one after the other, labelled by file name or by a header field."""
    if label_header is None:
        check_classes((path.stem for path in paths), root)

    def entries() -> Iterator[Entry]:
        labels = Labels()
        for path in paths:
            label = class_of(path.stem)
            name = path.relative_to(root).as_posix() if path != root else path.name
            number = 0
            with convert_os_errors(CorpusError, f"{path}: cannot be read"):
                for number, (start, end) in enumerate(_spans(path), 1):
                    entry = Entry(
                        f"{name}:{number}", label, str(path), start, min(end, start + MAX_MESSAGE)
                    )
                    yield labelled(entry, label_header, labels, entry.name)
            if number == 0:
                raise CorpusError(
                    f"{path}: no message found; an mbox begins with a line 'From sender date'"
                )

    how = f"labels from the field {label_header}" if label_header else "labelled by file name"
    files = paths[0].name if len(paths) == 1 else f"{len(paths)} files"
    drop = (label_header,) if label_header else ()
    return Corpus("mbox", root, f"mbox, {files}, {how}", "mail", entries, drop)
