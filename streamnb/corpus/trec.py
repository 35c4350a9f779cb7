"""TREC indexes: one line for each message, with label and path."""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path

from streamnb.corpus.entry import Corpus, Entry, iterate_lines
from streamnb.errors import CorpusError, convert_os_errors

MAX_LINE = 8192
_MAX_COUNTED_BYTES = 1 << 26  # bytes: the lines of a longer index are not counted


def is_trec_index(head: bytes, folder: Path) -> bool:
    """Return whether text begins with lines 'label path', and one of the paths is a file."""
    lines = [line for line in head.removeprefix(BOM_UTF8).split(b"\n")[:20] if line.strip()]
    pairs = [line.split(maxsplit=1) for line in lines[: max(1, len(lines) - 1)]]
    if not pairs or not all(
        len(pair) == 2 and b"\t" not in line for pair, line in zip(pairs, lines, strict=False)
    ):
        return False
    # os.path.isfile returns False for invalid names.
    return any(os.path.isfile(folder / _decode(pair[1].strip())) for pair in pairs)


def find_trec_index(folder: Path) -> Path | None:
    """Return the index of a folder; None without one."""
    paths = (folder / "index", folder / "full" / "index")
    return next((path for path in paths if path.is_file()), None)


def _decode(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def open_trec_index(path: Path) -> Corpus:
    """Return the corpus of an index of 'label path' lines, with paths relative to the index.

    The case of a label has a meaning in the TREC 2005-2007 spam tracks. `spam` is classified, then
    learned; `Spam` is only classified; `SPAM` is only learned (a delayed label).
    """
    root = path.parent

    def entries() -> Iterator[Entry]:
        number = 0
        with convert_os_errors(CorpusError, f"{path}: cannot be read"), open(path, "rb") as lines:
            for number, line in iterate_lines(lines, MAX_LINE):
                if number == 1:
                    line = line.removeprefix(BOM_UTF8)
                if line.strip():
                    yield _parse_line(path, root, number, line)
        if number == 0:
            raise CorpusError(f"{path}: the index is empty; expected lines 'label path'")

    size = _count_lines(path)
    return Corpus("trec", path, f"a TREC index, {path.name}", "mail", entries, size=size)


def _count_lines(path: Path) -> int | None:
    """Return the number of lines of an index; None if it is too long to count them quickly."""
    try:
        if path.stat().st_size > _MAX_COUNTED_BYTES:
            return None
        return path.read_bytes().count(b"\n")
    except OSError:
        return None


def _parse_line(path: Path, root: Path, number: int, line: bytes) -> Entry:
    fields = line.split(maxsplit=1)
    if len(fields) != 2 or b"\0" in line:
        text = line[:60].decode("utf-8", "replace").strip()
        problem = f"{path}:{number}: expected 'label path', found {text!r}"
        return Entry(f"{path.name}:{number}", "", str(path), problem=problem)
    label, name = _decode(fields[0]), _decode(fields[1].strip())
    is_upper = label.isupper()
    return Entry(
        name,
        label.lower(),
        f"{root}/{name}",
        classify=not is_upper,
        learn=is_upper or not label[:1].isupper(),
    )
