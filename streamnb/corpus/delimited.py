"""Delimited text: `label<TAB>text` lines, or CSV with named columns."""

from __future__ import annotations

import csv
from codecs import BOM_UTF8
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from streamnb.corpus.entry import Corpus, Entry, Labels, iterate_lines
from streamnb.errors import CorpusError, convert_os_errors

MAX_FIELD = 1 << 20  # bytes or characters of a text that are read
_MAX_ROW = 1 << 26  # bytes of a line, and characters of a field, before they are cut
_DELIMITERS = ",;\t"
_LABEL_COLUMNS = ("label", "class", "category", "target", "y")
_TEXT_COLUMNS = ("text", "message", "body", "sms", "content", "document", "v2", "x")


def looks_tabbed(head: bytes) -> bool:
    """Whether text begins with `label<TAB>text` lines with short labels.

    One line in four may be none, where labels come again and again.
    """
    lines = [line for line in head.removeprefix(BOM_UTF8).split(b"\n") if line.strip()][:200]
    if lines and b"\0" not in head and _names_columns(lines[0]):
        return True
    if len(lines) > 1:
        lines.pop()  # it may be cut off
    labels = [
        line[: line.index(b"\t")]
        for line in lines
        if b"\t" in line and 0 < line.index(b"\t") <= 64 and b"\0" not in line
    ]
    if len(labels) == len(lines):
        return bool(lines)
    return len(labels) >= 0.75 * len(lines) and len(set(labels)) <= len(labels) / 2


def _lines(file: BinaryIO, most: int) -> Iterator[tuple[int, bytes]]:
    """Numbered lines without a byte order mark; of a very long one only the beginning."""
    for number, line in iterate_lines(file, most):
        rest = line
        while rest and not rest.endswith(b"\n"):  # read to where the next line begins
            rest = file.readline(MAX_FIELD)
        yield number, line.removeprefix(BOM_UTF8) if number == 1 else line


def _name_of(path: Path, root: Path, number: int) -> str:
    return f"{path.relative_to(root).as_posix() if path != root else path.name}:{number}"


def delimited_tabs(paths: list[Path], root: Path) -> Corpus:
    """Read lines of `label<TAB>text`, the files one after the other."""

    def entries() -> Iterator[Entry]:
        labels = Labels()
        for path in paths:
            with (
                convert_os_errors(CorpusError, f"{path}: cannot be read"),
                open(path, "rb") as file,
            ):
                columns: _TabColumns | None = None
                filled = (one for one in _lines(file, _MAX_ROW) if one[1].strip())
                for place, (number, line) in enumerate(filled):
                    where = f"{path}:{number}"
                    if place == 0 and (columns := _tab_columns(line, where)):
                        continue
                    label, text, problem = _parted(line, columns, where)
                    yield Entry(
                        _name_of(path, root, number),
                        labels.word(_decoded(label), where),
                        str(path),
                        text=_decoded(text)[:MAX_FIELD].rstrip("\r\n"),
                        problem=problem,
                    )

    files = paths[0].name if len(paths) == 1 else ", ".join(path.name for path in paths[:4])
    return Corpus("tabs", root, f"lines of label<TAB>text, {files}", "text", entries)


class _TabColumns(NamedTuple):
    """Which columns hold label and text, of how many."""

    label: int
    text: int
    columns: int


def _tab_columns(line: bytes, where: str) -> _TabColumns | None:
    """Where label and text are, in a line that has the names of columns; None for another one."""
    names = _plain(_decoded(line).split("\t"))
    label, text = _first_of(_LABEL_COLUMNS, names), _first_of(_TEXT_COLUMNS, names)
    if label is None or text is None:
        return None
    _check_once((label, text), names, where)
    return _TabColumns(names.index(label), names.index(text), len(names))


def _names_columns(line: bytes) -> bool:
    try:
        return _tab_columns(line, "") is not None
    except CorpusError:  # two of one name: that is told when it is read
        return True


def _parted(line: bytes, columns: _TabColumns | None, where: str) -> tuple[bytes, bytes, str]:
    """Label and text of a line, and why it has none."""
    if columns is None:
        label, tab, text = line.partition(b"\t")
        if not tab or not label.strip():
            return b"", b"", f"{where}: expected 'label<TAB>text'"
        return label, text, ""
    last = columns.text == columns.columns - 1  # its tabs are the text's own
    parts = line.split(b"\t", columns.columns - 1 if last else -1)
    if len(parts) != columns.columns or not parts[columns.label].strip():
        many = "more" if len(parts) > columns.columns else "fewer"
        return b"", b"", f"{where}: no label, or {many} columns than the first line has"
    return parts[columns.label], parts[columns.text], ""


def _first_of(known: Iterable[str], names: Collection[str]) -> str | None:
    """The first of the known names that is there."""
    return next((name for name in known if name in names), None)


def _check_once(wanted: Iterable[str], names: list[str], where: str) -> None:
    """Raise CorpusError where a column that is wanted is there twice, in whatever capitals."""
    for name in wanted:
        if _plain(names).count(name.strip().lower()) > 1:
            raise CorpusError(f"{where}: two columns are called {name!r}; rename one")


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
    with convert_os_errors(CorpusError, f"{path}: cannot be read"), open(path, "rb") as file:
        head = _decoded(file.readline(1 << 16)).lstrip("\ufeff")
    for delimiter in _DELIMITERS:
        names = _names(head, delimiter)
        found_label = _column(label, _LABEL_COLUMNS, names)
        found_text = _column(text, _TEXT_COLUMNS, names)
        if found_label is not None and found_text not in (None, found_label):
            _check_once((found_label, found_text), names, f"{path}:1")
            return Columns(found_label, found_text, delimiter)
    names = max((_names(head, delimiter) for delimiter in _DELIMITERS), key=len)
    for wanted in (label, text):
        if wanted is not None and wanted not in names:
            raise CorpusError(f"{path}:1: no column {wanted!r}; there are {', '.join(names)[:200]}")
    return None


def _names(line: str, delimiter: str) -> list[str]:
    """The names of columns in a line; none where it is no CSV."""
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


def _column(wanted: str | None, known: Iterable[str], names: list[str]) -> str | None:
    """The name of the column that is wanted, or of one of those that are known."""
    if wanted is not None:
        return wanted if wanted in names else None
    plain = _plain(names)
    first = _first_of(known, plain)
    return None if first is None else names[plain.index(first)]


def _plain(names: Iterable[str]) -> list[str]:
    return [name.strip().lower() for name in names]


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
        with convert_os_errors(CorpusError, f"{path}: cannot be read"), open(path, "rb") as raw:
            lines = (_decoded(line) for _, line in _lines(raw, _MAX_ROW))
            reader = csv.DictReader(lines, delimiter=delimiter, strict=True)
            for number, row in enumerate(_csv_rows(path, reader), 1):
                where, problem = f"{path}:{reader.line_num}", ""
                if row.get(label) is None or row.get(text) is None:
                    problem = f"{where}: fewer columns than the first line has"
                elif None in row:
                    problem = (
                        f"{where}: more columns than the first line has; "
                        f"a text with {delimiter!r} in it wants quotes"
                    )
                yield Entry(
                    _name_of(path, path, number),
                    "" if problem else labels.word(row[label], where),
                    str(path),
                    text=(row[text] or "")[:MAX_FIELD],
                    problem=problem,
                )

    return Corpus(
        "csv", path, f"CSV, labels in column {label!r}, text in {text!r}", "text", entries
    )
