"""TREC indexes: a line for each message, label and path."""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path

from streamnb.corpus.entry import Corpus, Entry, iterate_lines
from streamnb.errors import CorpusError, convert_os_errors

MAX_LINE = 8192


def looks_like_index(head: bytes, folder: Path) -> bool:
    """Whether text begins like an index: its first lines name files that exist, or look like it."""
    lines = [line for line in head.removeprefix(BOM_UTF8).split(b"\n")[:20] if line.strip()]
    pairs = [line.split(maxsplit=1) for line in lines[: max(1, len(lines) - 1)]]
    if not pairs or not all(
        len(pair) == 2 and b"\t" not in line for pair, line in zip(pairs, lines, strict=False)
    ):
        return False
    # os.path: what no file can be called is none.
    return any(os.path.isfile(folder / _text(pair[1].strip())) for pair in pairs)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def trec_index(path: Path) -> Corpus:
    """Read an index of `label path` lines, paths relative to the index.

    The case of a label is the protocol of the TREC 2005-2007 spam tracks: `spam` is classified,
    then learned; `Spam` only classified; `SPAM` only learned (a label that came late).
    """
    root = path.parent

    def entries() -> Iterator[Entry]:
        number = 0
        with convert_os_errors(CorpusError, f"{path}: cannot be read"), open(path, "rb") as lines:
            for number, line in iterate_lines(lines, MAX_LINE):
                if number == 1:
                    line = line.removeprefix(BOM_UTF8)
                if line.strip():
                    yield _entry(path, root, number, line)
        if number == 0:
            raise CorpusError(f"{path}: the index is empty; give it lines of 'label path'")

    return Corpus("trec", path, f"a TREC index, {path.name}", "mail", entries, size=_lines(path))


def _lines(path: Path) -> int | None:
    """How many lines the index has, if that is quickly told."""
    try:
        if path.stat().st_size > 1 << 26:
            return None
        return path.read_bytes().count(b"\n")
    except OSError:
        return None


def _entry(path: Path, root: Path, number: int, line: bytes) -> Entry:
    fields = line.split(maxsplit=1)
    if len(fields) != 2 or b"\0" in line:
        shown = line[:60].decode("utf-8", "replace").strip()
        problem = f"{path}:{number}: expected 'label path', found {shown!r}"
        return Entry(f"{path.name}:{number}", "", str(path), problem=problem)
    label, name = _text(fields[0]), _text(fields[1].strip())
    shouted = label.isupper()
    return Entry(
        name,
        label.lower(),
        f"{root}/{name}",
        classify=not shouted,
        learn=shouted or not label[:1].isupper(),
    )
