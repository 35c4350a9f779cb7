"""Delimited text: `label<TAB>text` lines, or CSV with named columns."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from streamnb.corpus.entry import Corpus, Entry, Labels
from streamnb.errors import CorpusError

__all__ = ["Columns", "csv_columns", "delimited_csv", "delimited_tabs", "looks_tabbed"]

Found = TypeVar("Found")

MAX_FIELD = 1 << 20  # bytes of a line of label<TAB>text, or characters of a field, that are read
_MAX_ROW = 1 << 26  # bytes of a line of CSV, and characters of a field before it is cut
_DELIMITERS = ",;\t"
_LABEL_COLUMNS = ("label", "class", "category", "target", "y")
_TEXT_COLUMNS = ("text", "message", "body", "sms", "content", "document", "v2", "x")


def looks_tabbed(head: bytes) -> bool:
    """Whether text begins with `label<TAB>text` lines with short labels."""
    lines = [line for line in head.split(b"\n") if line.strip()][:200]
    if len(lines) > 1:
        lines.pop()  # it may be cut off
    labels = [line.partition(b"\t") for line in lines]
    return (
        bool(labels)
        and all(tab and 0 < len(label) <= 64 and b"\0" not in line
                for (label, tab, _), line in zip(labels, lines, strict=True))
    )  # fmt: skip


def _lines(file: BinaryIO, most: int) -> Iterator[tuple[int, bytes]]:
    """Numbered lines without a byte order mark; of a very long one only the beginning."""
    number = 0
    while line := file.readline(most):
        number += 1
        rest = line
        while rest and not rest.endswith(b"\n"):  # read to where the next line begins
            rest = file.readline(MAX_FIELD)
        yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def _name_of(path: Path, root: Path, number: int) -> str:
    return f"{path.relative_to(root).as_posix() if path != root else path.name}:{number}"


def delimited_tabs(paths: list[Path], root: Path) -> Corpus:
    """Read lines of `label<TAB>text`, the files one after the other."""

    def entries() -> Iterator[Entry]:
        labels = Labels()
        for path in paths:
            try:
                with open(path, "rb") as file:
                    columns = None
                    for number, line in _lines(file, MAX_FIELD):
                        if not line.strip():
                            continue
                        if number == 1 and (columns := _tab_columns(line)):
                            continue
                        where = f"{path}:{number}"
                        label, text = _parted(line, columns, where)
                        yield Entry(
                            _name_of(path, root, number),
                            labels.word(_decoded(label), where),
                            str(path),
                            text=_decoded(text).rstrip("\r\n"),
                        )
            except OSError as error:
                raise CorpusError(f"{path}: cannot be read: {error.strerror}") from None

    files = paths[0].name if len(paths) == 1 else ", ".join(path.name for path in paths[:4])
    return Corpus("tabs", root, f"lines of label<TAB>text, {files}", "text", entries)


def _tab_columns(line: bytes) -> tuple[int, int] | None:
    """Which columns hold label and text, where the line has names of columns."""
    names = [name.strip().lower() for name in _decoded(line).split("\t")]
    places = {name: place for place, name in enumerate(names)}
    label, text = _first_of(_LABEL_COLUMNS, places), _first_of(_TEXT_COLUMNS, places)
    return None if label is None or text is None else (label, text)


def _parted(line: bytes, columns: tuple[int, int] | None, where: str) -> tuple[bytes, bytes]:
    """Label and text of a line."""
    if columns is None:
        label, tab, text = line.partition(b"\t")
        if not tab or not label.strip():
            raise CorpusError(f"{where}: expected 'label<TAB>text'")
        return label, text
    parts = line.split(b"\t")
    if max(columns) >= len(parts) or not parts[columns[0]].strip():
        raise CorpusError(f"{where}: fewer columns than the first line has, or no label")
    return parts[columns[0]], parts[columns[1]]


def _first_of(known: Iterable[str], names: Mapping[str, Found]) -> Found | None:
    """What stands for the first of the known names that is there."""
    return next((names[name] for name in known if name in names), None)


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace")


class Columns(NamedTuple):
    """The columns of a CSV file that hold label and text, and what separates columns."""

    label: str
    text: str
    delimiter: str


def csv_columns(path: Path, label: str | None = None, text: str | None = None) -> Columns | None:
    """Where a CSV file has label and text, or None where it cannot be told."""
    try:
        with open(path, "rb") as file:
            head = _decoded(file.readline(1 << 16)).lstrip("\ufeff")
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read: {error.strerror}") from None
    for delimiter in _DELIMITERS:
        try:
            names = next(csv.reader([head], delimiter=delimiter), [])
        except csv.Error:
            continue
        lowered = {name.strip().lower(): name for name in names}
        found_label = label if label in names else _first_of(_LABEL_COLUMNS, lowered)
        found_text = text if text in names else _first_of(_TEXT_COLUMNS, lowered)
        if label in (None, found_label) and text in (None, found_text):
            if found_label is None or found_text is None or found_label == found_text:
                continue
            for name in (found_label, found_text):
                if names.count(name) > 1:
                    raise CorpusError(f"{path}:1: two columns are called {name!r}; rename one")
            return Columns(found_label, found_text, delimiter)
    names = next(csv.reader([head]), [])
    for wanted in (label, text):
        if wanted is not None and wanted not in names:
            raise CorpusError(f"{path}:1: no column {wanted!r}; there are {', '.join(names)[:200]}")
    return None


def _csv_rows(path: Path, reader: csv.DictReader[str]) -> Iterator[dict[str, str]]:
    """The rows of a reader, with room for long fields.

    The csv module has one limit for the whole process: it is changed while a row is read only.
    """
    while True:
        began = 1
        before = csv.field_size_limit(_MAX_ROW)
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


def delimited_csv(path: Path, label: str, text: str, delimiter: str = ",") -> Corpus:
    """Read a CSV file with named columns for label and text."""

    def entries() -> Iterator[Entry]:
        labels = Labels()
        try:
            with open(path, "rb") as raw:
                lines = (_decoded(line) for _, line in _lines(raw, _MAX_ROW))
                reader = csv.DictReader(lines, delimiter=delimiter, strict=True)
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
                        _name_of(path, path, number),
                        labels.word(row[label], f"{path}:{reader.line_num}"),
                        str(path),
                        text=row[text][:MAX_FIELD],
                    )
        except OSError as error:
            raise CorpusError(f"{path}: cannot be read: {error.strerror}") from None

    return Corpus(
        "csv", path, f"CSV, labels in column {label!r}, text in {text!r}", "text", entries
    )
