"""Delimited text: `label<TAB>text` lines, or CSV with named columns."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from streamnb.corpus.entry import Corpus, Entry
from streamnb.errors import CorpusError

__all__ = ["csv_columns", "delimited_csv", "delimited_tabs", "looks_tabbed"]

MAX_FIELD = 1 << 20
_LABEL_COLUMNS = ("label", "class", "category", "target", "y")
_TEXT_COLUMNS = ("text", "message", "body", "sms", "content", "document", "v2", "x")


def looks_tabbed(head: bytes) -> bool:
    """Whether text begins with `label<TAB>text` lines: short labels that soon repeat."""
    lines = [line for line in head.split(b"\n") if line.strip()][:200]
    if len(lines) > 1:
        lines.pop()  # it may be cut off
    labels = [line.partition(b"\t") for line in lines]
    return (
        bool(labels)
        and all(tab and 0 < len(label) <= 64 and b"\0" not in line
                for (label, tab, _), line in zip(labels, lines, strict=True))
    )  # fmt: skip


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Numbered lines without a byte order mark; of a very long one only the beginning."""
    number = 0
    while line := file.readline(MAX_FIELD):
        number += 1
        rest = line
        while rest and not rest.endswith(b"\n"):  # read to where the next line begins
            rest = file.readline(MAX_FIELD)
        yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def _label(text: str) -> str:
    """A label as results can hold it: one word."""
    return "-".join(text.split())


def _name_of(path: Path, root: Path, number: int) -> str:
    return f"{path.relative_to(root).as_posix() if path != root else path.name}:{number}"


def delimited_tabs(paths: list[Path], root: Path) -> Corpus:
    """Read lines of `label<TAB>text`, the files one after the other."""

    def entries() -> Iterator[Entry]:
        for path in paths:
            try:
                with open(path, "rb") as file:
                    for number, line in _lines(file):
                        if not line.strip():
                            continue
                        label, tab, text = line.partition(b"\t")
                        if not tab or not label.strip():
                            raise CorpusError(f"{path}:{number}: expected 'label<TAB>text'")
                        yield Entry(
                            _name_of(path, root, number),
                            _label(_decoded(label)),
                            str(path),
                            text=_decoded(text).rstrip("\r\n"),
                        )
            except OSError as error:
                raise CorpusError(f"{path}: cannot be read: {error.strerror}") from None

    files = paths[0].name if len(paths) == 1 else ", ".join(path.name for path in paths[:4])
    return Corpus("tabs", root, f"lines of label<TAB>text, {files}", "text", entries)


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace")


def csv_columns(
    path: Path, label: str | None = None, text: str | None = None
) -> tuple[str, str] | None:
    """The columns of a CSV file that hold label and text, or None where it cannot be told."""
    try:
        with open(path, "rb") as file:
            head = file.readline(1 << 16)
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        names = next(csv.reader([_decoded(head).lstrip("\ufeff")]), [])
    except csv.Error:
        return None
    lowered = {name.strip().lower(): name for name in names}
    found_label = label or next((lowered[name] for name in _LABEL_COLUMNS if name in lowered), None)
    found_text = text or next((lowered[name] for name in _TEXT_COLUMNS if name in lowered), None)
    for wanted in (label, text):
        if wanted is not None and wanted not in names:
            raise CorpusError(f"{path}:1: no column {wanted!r}; there are {', '.join(names)[:200]}")
    if found_label is None or found_text is None or found_label == found_text:
        return None
    return found_label, found_text


def _csv_rows(path: Path, reader: csv.DictReader[str]) -> Iterator[dict[str, str]]:
    """The rows of a reader, with room for long fields.

    The csv module has one limit for the whole process: it is changed while a row is read only.
    """
    while True:
        began = 1
        before = csv.field_size_limit(MAX_FIELD)
        try:
            _ = reader.fieldnames  # the first line, if it has not been read yet
            began = reader.line_num + 1
            row = next(reader, None)
        except csv.Error as error:
            # A quote that is not closed is noticed at the end of the file.
            raise CorpusError(f"{path}:{began}: not CSV: {error}, in the row from here") from None
        finally:
            csv.field_size_limit(before)
        if row is None:
            return
        yield row


def delimited_csv(path: Path, label: str, text: str) -> Corpus:
    """Read a CSV file with named columns for label and text."""

    def entries() -> Iterator[Entry]:
        try:
            with open(path, "rb") as raw:
                reader = csv.DictReader((_decoded(line) for _, line in _lines(raw)), strict=True)
                for number, row in enumerate(_csv_rows(path, reader), 1):
                    if row.get(label) is None or row.get(text) is None:
                        raise CorpusError(
                            f"{path}:{reader.line_num}: fewer columns than the first line has"
                        )
                    if None in row:
                        raise CorpusError(
                            f"{path}:{reader.line_num}: more columns than the first line has; "
                            "a text with commas in it wants quotes"
                        )
                    yield Entry(
                        _name_of(path, path, number), _label(row[label]), str(path), text=row[text]
                    )
        except OSError as error:
            raise CorpusError(f"{path}: cannot be read: {error.strerror}") from None

    return Corpus(
        "csv", path, f"CSV, labels in column {label!r}, text in {text!r}", "text", entries
    )
