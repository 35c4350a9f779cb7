"""Rows of tabular files: CSV with any delimiter, JSON Lines, Parquet, `__label__` lines.

Replays, fits and experiments open tables with `open_table`, so they read the same formats,
compressions, delimiters and encodings.
"""

from __future__ import annotations

import csv
import io
import json
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

from streamnb.corpus.text_files import (
    DAMAGE_ERRORS,
    HEAD_BYTES,
    MAX_ROW,
    bare_suffix,
    check_text,
    decode_line,
    guess_encoding,
    read_head,
    read_lines,
)
from streamnb.errors import CorpusError, convert_os_errors, require_extra
from streamnb.patterns import lazy_pattern
from streamnb.storage import parse_json

FORMATS = ("csv", "jsonl", "parquet", "fasttext")
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
HEAD_ROWS = 500
DELIMITERS = "\t;|,"
# Spellings of missing values: those of pandas.read_csv, and "?" of the UCI repository and Weka.
MISSING = frozenset({
    "", "?", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
})  # fmt: skip


class TableRow(NamedTuple):
    """A row of a table.

    Attributes
    ----------
    line
        Number of the line on which the row begins, counted from 1; in Parquet, the number of the
        row.
    cells
        One text for each column; empty if there is a problem.
    problem
        The reason why the row cannot be read, with file and line; "" if it can be read.
    values
        The values of the cells with their types (JSON Lines and Parquet); None in other formats.
    json_object, json_names
        The line of JSON Lines, and the keys of its object; empty in other formats.
    """

    line: int
    cells: list[str]
    problem: str = ""
    values: Sequence[Any] | None = None
    json_object: str = ""
    json_names: Collection[str] = ()

    def value(self, index: int) -> Any:
        """Return the value of a cell; in formats without types, its text."""
        return self.cells[index] if self.values is None else self.values[index]


@dataclass(frozen=True)
class Table:
    """A tabular file and its format.

    Attributes
    ----------
    path
        The file.
    format
        One of `FORMATS`.
    names
        The names of the columns; "1", "2", ... if the file has no header.
    has_header
        Whether the file names its columns.
    delimiter
        The delimiter of a CSV file.
    quoting
        Reading of double quotes in a CSV file. "csv": by RFC 4180. "line": by RFC 4180 within one
        line, or literally if that fails. "none": literally. "escaped": as "csv", but quotes in a
        text have backslashes.
    is_last_wide
        Whether delimiters in the last column are part of its text.
    skips_blanks
        Whether blanks between a delimiter and a cell of a CSV file are ignored.
    first_line
        Number of the first line of a CSV file to read: 2 after a line "sep=;".
    """

    path: Path
    format: str
    names: list[str]
    has_header: bool = True
    delimiter: str = ","
    quoting: str = "csv"
    is_last_wide: bool = False
    skips_blanks: bool = False
    first_line: int = 1

    def rows(self) -> Iterator[TableRow]:
        """Read the rows below the header.

        Raises
        ------
        CorpusError
            If the file cannot be read, naming file and line.
        """
        readers = {
            "csv": _read_csv,
            "jsonl": _read_json_lines,
            "parquet": _read_parquet,
            "fasttext": _read_fasttext,
        }
        header = self.names if self.has_header and self.format == "csv" else None
        with convert_os_errors(CorpusError, f"{self.path}: cannot be read", *DAMAGE_ERRORS):
            for row in readers[self.format](self):
                if not row.problem and len(row.cells) != len(self.names):
                    yield row._replace(cells=[], problem=self._count_problem(row))
                elif row.cells == header and len(row.cells) > 1:
                    problem = "the names of the columns again, as in joined files; delete this line"
                    yield row._replace(cells=[], problem=f"{self.path}:{row.line}: {problem}")
                else:
                    yield row

    def _count_problem(self, row: TableRow) -> str:
        """Return the error of a line whose number of columns is wrong."""
        count, expected = len(row.cells), len(self.names)
        amount = "fewer" if count < expected else "more"
        hint = ""
        if count > expected and self.has_header:
            hint = "; the first line must name all columns"
        if count > expected and self.quoting == "csv":
            hint += f"; a text that contains {self.delimiter!r} must be in double quotes"
        return (
            f"{self.path}:{row.line}: {amount} columns than the first line has "
            f"({count}, not {expected}){hint}"
        )

    def head(self) -> list[list[str]]:
        """Return the cells of the first rows, without rows that cannot be read."""
        cells = []
        size = 0
        for row in islice(self.rows(), HEAD_ROWS):
            if not row.problem:
                cells.append(row.cells)
            size += sum(map(len, row.cells))
            if size > HEAD_BYTES:
                break
        return cells

    def describe(self) -> str:
        """Return the format in words."""
        if self.format != "csv":
            return {"jsonl": "JSON Lines", "parquet": "Parquet", "fasttext": "fastText lines"}[
                self.format
            ]
        delimiter_names = {"\t": "tabs", ",": "commas", ";": "semicolons"}
        delimiter = delimiter_names.get(self.delimiter, repr(self.delimiter))
        return f"columns between {delimiter}{'' if self.has_header else ' without header'}"


def open_table(
    path: Path,
    format: str | None = None,  # noqa: A002
    delimiter: str | None = None,
    has_header: bool | None = None,
    known_names: Sequence[Collection[str]] = (),
    required_names: Collection[str] = (),
) -> Table:
    """Detect the format of a tabular file.

    Parameters
    ----------
    path
        The file, compressed or not.
    format
        One of `FORMATS`; None to detect it.
    delimiter
        The delimiter of a CSV file; None to detect it.
    has_header
        Whether the first line of a CSV file names the columns; None to detect it.
    known_names
        Sets of names in lower case. A line with one name of each set is a header.
    required_names
        Names that the header must contain.

    Raises
    ------
    CorpusError
        If the file cannot be read, or is not a table.
    """
    head = read_head(path)
    if not head.strip():
        raise CorpusError(f"{path}: the file {'has only blank lines' if head else 'is empty'}")
    if format is None:
        format = detect_format(path, head) or "csv"  # noqa: A001
    if format == "parquet":
        names = _parquet_file(path).schema_arrow.names
        return Table(path, "parquet", _unique_names(list(names), path))
    check_text(path, head)
    if format == "fasttext":
        return Table(path, "fasttext", ["label", "text"], has_header=False)
    if format == "jsonl":
        return Table(path, "jsonl", _json_names(path))
    return _open_csv(path, head, delimiter, has_header, known_names, required_names)


# A brace and the first key, or an empty object. The first object can be damaged, or too long for
# the head of the file.
_OBJECT_START = lazy_pattern(rb'\{\s*(?:"(?:[^"\\]|\\.)*"\s*:|\}\s*$)', re.MULTILINE)


def detect_format(path: Path, head: bytes) -> str | None:
    """Return the format of a tabular file by its content and suffix; None if it is not tabular.

    `is_tabbed` detects tab-separated lines.
    """
    if head.startswith(b"PAR1"):
        return "parquet"
    text = head.removeprefix(BOM_UTF8).lstrip()
    if text.startswith(b"__label__"):
        return "fasttext"
    if _OBJECT_START.match(text):
        return "jsonl"
    return SUFFIXES.get(bare_suffix(path))


# CSV

# A first line that declares the delimiter for spreadsheets.
_DELIMITER_LINE = lazy_pattern(r"sep=(.)\s*")
_HEADER_LINES = 20  # number of first lines that are searched for a misplaced header


def _open_csv(
    path: Path,
    head: bytes,
    delimiter: str | None,
    has_header: bool | None,
    known_names: Sequence[Collection[str]],
    required_names: Collection[str],
) -> Table:
    """Return a table, and detect delimiter, header and quoting of its CSV file from `head`."""
    lines = decode_head(head)
    delimiter_line = _DELIMITER_LINE.fullmatch(lines[0]) if lines else None
    if delimiter_line:
        delimiter = delimiter or delimiter_line[1]
        del lines[0]
    lines_with_text = [line for line in lines[:_HEADER_LINES] if line.strip()] or [""]
    delimiters = delimiter or ("\t" + DELIMITERS if bare_suffix(path) == ".tsv" else DELIMITERS)

    def is_header(names: list[str]) -> bool:
        if required_names:
            return all(has_name(names, name) for name in required_names)
        plain = set(normalize_names(names))
        return bool(known_names) and all(plain & set(group) for group in known_names)

    matching = [char for char in delimiters if is_header(split_line(lines_with_text[0], char))]
    if not matching and has_header is not False:
        for line in lines_with_text[1:]:
            if any(is_header(split_line(line, char)) for char in delimiters):
                line_no = lines.index(line) + (2 if delimiter_line else 1)
                raise CorpusError(
                    f"{path}:{line_no}: the names of the columns are on this line; delete the "
                    "lines above it"
                )
    chosen = matching[0] if matching else _detect_delimiter(lines, delimiters, bare_suffix(path))
    table = Table(
        path,
        "csv",
        [],
        delimiter=chosen,
        quoting=_detect_quoting(lines, chosen),
        skips_blanks=_has_blanks_before_quotes(lines, chosen),
        first_line=2 if delimiter_line else 1,
    )
    names = next(iter(_read_csv_rows(table)), TableRow(1, [])).cells
    if has_header is None:
        has_header = bool(matching) or not _lacks_header(table)
    if has_header:
        return replace(table, names=[name.strip() for name in names])
    return without_header(table)


def without_header(table: Table) -> Table:
    """Return a CSV table in which the first line is a row and columns are named 1, 2, ..."""
    counts = {len(row.cells) for row in islice(_read_csv_rows(table), HEAD_ROWS)}
    is_last_wide = len(counts) > 1 and table.quoting != "csv"
    count = 2 if is_last_wide else max(counts, default=1)
    names = [str(number) for number in range(1, count + 1)]
    return replace(table, names=names, has_header=False, is_last_wide=is_last_wide)


def decode_head(head: bytes) -> list[str]:
    """Return the first lines of a file, without an incomplete last line."""
    encoding = guess_encoding(head)
    parts = head.removeprefix(BOM_UTF8).splitlines(keepends=True)
    lines = [line for part in parts for line in split_lines(decode_line(part, encoding))]
    return lines[:-1] if len(head) >= HEAD_BYTES and len(lines) > 1 else lines


def split_lines(text: str) -> list[str]:
    """Return the lines of a text; only CR, LF and CRLF end a line."""
    return list(io.StringIO(text, newline=""))


def split_line(line: str, delimiter: str) -> list[str]:
    """Return the cells of one line of CSV; an empty list if quotes are not closed."""
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


def normalize_names(names: Iterable[str]) -> list[str]:
    """Return names stripped and in lower case."""
    return [name.strip().lower() for name in names]


def find_name(names: Sequence[str], name: str) -> int | None:
    """Return the index of the column with a name; None if there is none.

    If no name is the same, case and the blanks around names are ignored.
    """
    if name in names:
        return names.index(name)
    (plain,), plain_names = normalize_names([name]), normalize_names(names)
    return plain_names.index(plain) if plain in plain_names else None


def has_name(names: Sequence[str], name: str) -> bool:
    """Return whether one of the columns has a name, as `find_name` does."""
    return find_name(names, name) is not None


def _detect_delimiter(lines: list[str], delimiters: str, suffix: str) -> str:
    """Return the delimiter that gives most lines the same number of columns, above one.

    If there is none, the file has one column, and the delimiter follows from its suffix.
    """
    scores = []
    for rank, delimiter in enumerate(delimiters):
        counts = Counter(
            len(split_line(line, delimiter)) for line in lines[:HEAD_ROWS] if line.strip()
        )
        count, lines_with_count = max(counts.items(), key=lambda item: item[1], default=(0, 0))
        scores.append((lines_with_count if count > 1 else 0, -rank))
    if max(scores)[0] == 0 and suffix == ".csv" and "," in delimiters:
        return ","
    return delimiters[-max(scores)[1]]


def _has_blanks_before_quotes(lines: list[str], delimiter: str) -> bool:
    """Return whether rows have equally many columns only if blanks before quotes are ignored."""
    if not any(f'{delimiter} "' in line for line in lines):
        return False

    def count_lengths(skips_blanks: bool) -> int:
        rows = csv.reader(lines, delimiter=delimiter, skipinitialspace=skips_blanks)
        return len({len(row) for row in rows if row})

    try:
        return count_lengths(False) > 1 == count_lengths(True)
    except csv.Error:
        return False


def _detect_quoting(lines: list[str], delimiter: str) -> str:
    """Return the reading of double quotes; with tabs, "none" unless all quotes are consistent."""
    rows = _split_rows(lines, delimiter)
    if rows is None and (escaped := _split_rows(_unescape(lines), delimiter)):
        return "escaped" if len(escaped[0]) > 1 else "csv"
    if delimiter != "\t":
        return "csv"
    if rows is None or not any(cell.startswith('"') for line in lines for cell in line.split("\t")):
        return "none"
    return "csv" if any("\n" in cell.strip() for row in rows for cell in row) else "line"


def _split_rows(lines: Iterable[str], delimiter: str) -> list[list[str]] | None:
    """Return the rows of CSV; None unless all have equally many cells and close their quotes."""
    try:
        rows = [row for row in csv.reader(lines, delimiter=delimiter, strict=True) if row]
    except csv.Error:
        return None
    return rows if len(set(map(len, rows))) == 1 else None


# Spark writes two backslashes at the end of a cell, so the quote after them ends the cell.
_ESCAPED = lazy_pattern(r'\\\\|\\"')


def _unescape(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines with quotes written twice, in which R and Spark put backslashes before quotes."""
    return (
        _ESCAPED.sub(lambda match: match[0].replace('\\"', '""'), line) if "\\" in line else line
        for line in lines
    )


def _lacks_header(table: Table) -> bool:
    """Return whether the first row is data: it has a number above a column of numbers.

    Names of columns are rarely numbers, except years. So the cells of the first row that are not
    numbers must occur again in columns with repeated texts.
    """
    rows = [row.cells for row in islice(_read_csv_rows(table), HEAD_ROWS)]
    if len(rows) < 2:
        return False
    first, others = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if not others or not any(is_number_text(cell) for cell in first):
        return False
    for index, cell in enumerate(first):
        column = [row[index] for row in others]
        numbers = sum(is_number_text(other) for other in column)
        if is_number_text(cell):
            if 2 * numbers < len(column):
                return False
        elif cell.strip() not in MISSING and 2 * numbers > len(column):
            return False
    texts = [index for index, cell in enumerate(first) if not is_number_text(cell)]
    short = [index for index in texts if len({row[index] for row in others}) <= len(others) / 2]
    return all(first[index] in {row[index] for row in others} for index in short)


def is_number_text(cell: str) -> bool:
    """Return whether a cell is a finite number."""
    try:
        return abs(float(cell)) < float("inf")
    except ValueError:
        return False


def _read_csv(table: Table) -> Iterator[TableRow]:
    return islice(_read_csv_rows(table), int(table.has_header), None)


def _read_csv_rows(table: Table) -> Iterator[TableRow]:
    """Read all rows of a CSV file that are not blank, the header first."""
    return _read_quoted(table) if table.quoting in ("csv", "escaped") else _read_unquoted(table)


def _read_unquoted(table: Table) -> Iterator[TableRow]:
    for number, line in read_lines(table.path):
        if number >= table.first_line:
            cells = _split_unquoted(line.rstrip("\r\n"), table)
            if len(cells) > 1 or cells[0].strip():
                yield TableRow(number, cells)


def _split_unquoted(line: str, table: Table) -> list[str]:
    if table.quoting == "line" and '"' in line:
        try:
            cells: list[str] = next(csv.reader([line], delimiter=table.delimiter, strict=True))
            if not table.is_last_wide or len(cells) <= len(table.names):
                return cells
        except csv.Error:
            pass
    return line.split(table.delimiter, len(table.names) - 1 if table.is_last_wide else -1)


def _read_quoted(table: Table) -> Iterator[TableRow]:
    """Read CSV with quotes.

    The csv module has one limit of cell length for the whole process. So it is changed only during
    the reading of a row.
    """
    lines = (
        part
        for number, line in read_lines(table.path)
        if number >= table.first_line
        for part in (split_lines(line) if "\r" in line.rstrip("\r\n") else (line,))
    )
    reader = csv.reader(
        _unescape(lines) if table.quoting == "escaped" else lines,
        delimiter=table.delimiter,
        strict=True,
        skipinitialspace=table.skips_blanks,
    )
    while True:
        number = reader.line_num + table.first_line
        limit = csv.field_size_limit(MAX_ROW)
        try:
            cells = next(reader, None)
        except csv.Error as error:
            # An unclosed quote is detected at the end of the file.
            raise CorpusError(
                f"{table.path}:{number}: not CSV: {error}, in the row that begins here; in a text "
                'in double quotes, write each of its quotes twice ("")'
            ) from None
        finally:
            csv.field_size_limit(limit)
        if cells is None:
            return
        if cells:
            yield TableRow(number, cells)


# Other formats


def _json_names(path: Path) -> list[str]:
    """Return the keys of the first objects of a JSON Lines file."""
    names: dict[str, None] = {}
    problems: list[str] = []
    with convert_os_errors(CorpusError, f"{path}: cannot be read", *DAMAGE_ERRORS):
        for _, content, _ in islice(_json_objects(path), HEAD_ROWS):
            if isinstance(content, dict):
                names |= dict.fromkeys(content)
            else:
                problems.append(content)
    if not names:
        subject = f"{problems[0]};" if problems else f"{path}:"
        raise CorpusError(
            f"{subject} no JSON object with a key could be read from the first {HEAD_ROWS} lines; "
            "write each object on one line: jq -c . FILE"
        )
    return list(names)


def _json_objects(path: Path) -> Iterator[tuple[int, dict[str, Any] | str, str]]:
    """Yield number, object or problem, and text of each line of a JSON Lines file."""
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            value = parse_json(line)
        except ValueError as error:
            yield number, f"{path}:{number}: {error}", line
            continue
        if not isinstance(value, dict):
            value = f"{path}:{number}: expected one JSON object a line, such as {{...}}"
        yield number, value, line


def _read_json_lines(table: Table) -> Iterator[TableRow]:
    for number, content, line in _json_objects(table.path):
        if isinstance(content, str):
            yield TableRow(number, [], content)
        else:
            values = [content.get(name) for name in table.names]
            cells = list(map(to_csv_cell, values))
            yield TableRow(number, cells, "", values, line.strip(), content.keys())


def to_csv_cell(value: Any) -> str:
    """Return a value of JSON or Parquet as the cell of a CSV file of the same table.

    So a label is the same class in all formats.
    """
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, datetime) and value.time() == time() and value.tzinfo is None:
        return value.date().isoformat()
    return to_cell(value)


def to_cell(value: Any) -> str:
    """Return a value of JSON or Parquet as text; null is the empty text."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bytes):
        return decode_line(value)
    if isinstance(value, (bool, list, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _parquet_file(path: Path) -> Any:
    with require_extra("parquet", f"{path}: Parquet needs pyarrow"):
        from pyarrow import parquet
    with convert_os_errors(CorpusError, f"{path}: cannot be read", *DAMAGE_ERRORS):
        return parquet.ParquetFile(path)


def _read_parquet(table: Table) -> Iterator[TableRow]:
    numbers = count(1)
    for batch in _parquet_file(table.path).iter_batches(batch_size=1000):
        columns = [column.to_pylist() for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield TableRow(next(numbers), list(map(to_csv_cell, values)), values=values)


def _read_fasttext(table: Table) -> Iterator[TableRow]:
    for number, line in read_lines(table.path):
        text = line.strip()
        labels = []
        while text.startswith("__label__"):
            label, text = [*text.split(None, 1), ""][:2]
            labels.append(label.removeprefix("__label__"))
        if len(labels) == 1 and labels[0]:
            yield TableRow(number, [labels[0], text])
        elif line.strip():
            count = "no label" if not labels else f"{len(labels)} labels"
            location = f"{table.path}:{number}"
            yield TableRow(number, [], f"{location}: {count}; expected one, '__label__LABEL text'")


def _unique_names(names: list[str], path: Path) -> list[str]:
    if len(set(names)) != len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise CorpusError(f"{path}: two columns are called {twice!r}; rename one")
    return names
