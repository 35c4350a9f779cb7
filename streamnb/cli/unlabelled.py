"""Readers of the unlabelled data of `predict`: tables, lines of text, folders and mail."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from streamnb.corpus import Entry, read
from streamnb.corpus.delimited import (
    LABEL_COLUMNS,
    TEXT_COLUMNS,
    check_learned_columns,
    detect_columns,
    find_column,
    find_learned_delimiter,
    has_learned_columns,
    is_tabbed,
    labels_of_lines,
    text_problem,
)
from streamnb.corpus.mbox import is_mbox
from streamnb.corpus.tabular import (
    DELIMITERS,
    Table,
    decode_head,
    detect_format,
    normalize_names,
    open_table,
    split_line,
    without_header,
)
from streamnb.corpus.text_files import (
    as_regular_file,
    check_text,
    decode_line,
    enumerate_whole_lines,
    guess_encoding,
    open_decompressed,
    read_head,
)
from streamnb.corpus.trec import find_trec_index, open_trec_index
from streamnb.data_format import DataFormat
from streamnb.errors import ConfigError, CorpusError, StreamNBError, printable
from streamnb.mailbox.sources import messages


class Item(NamedTuple):
    """A message to label.

    Attributes
    ----------
    cells
        The values of its columns, in the order of `UnlabelledData.names`.
    text
        The text to classify, or the error of a text that cannot be read.
    json_object
        The row as written in JSON Lines; "" in other formats.
    json_names
        The keys of that row.
    """

    cells: Sequence[Any]
    text: bytes | str | StreamNBError
    json_object: str = ""
    json_names: Collection[str] = ()


@dataclass(frozen=True)
class UnlabelledData:
    """Unlabelled data.

    Attributes
    ----------
    names
        The columns; in JSON Lines, rows can have different keys.
    items
        The messages.
    format
        Default format of the output: "csv", "tsv" or "jsonl".
    delimiter
        Delimiter of the input, for output in CSV.
    has_header
        Whether the input names its columns.
    is_literal
        Whether the input is tab-separated with literal double quotes.
    may_be_empty
        Whether data without messages is allowed, as in a table with only a header.
    """

    names: list[str]
    items: Iterator[Item]
    format: str = "csv"
    delimiter: str = ","
    has_header: bool = True
    is_literal: bool = False
    may_be_empty: bool = False


def open_all_unlabelled(names: Sequence[str], *options: Any) -> UnlabelledData:
    """Open data as one: files with the same columns, with the options of `open_unlabelled`."""
    sources = [open_unlabelled(name, *options) for name in names]
    first = sources[0]
    for name, source in zip(names, sources, strict=True):
        if source.names != first.names:
            raise CorpusError(
                f"{name}: its columns ({printable(', '.join(source.names)[:100])}) are not those "
                f"of {names[0]} ({printable(', '.join(first.names)[:100])}): use them separately"
            )
    return replace(
        first,
        items=chain.from_iterable(source.items for source in sources),
        may_be_empty=all(source.may_be_empty for source in sources),
    )


def open_unlabelled(
    name: str,
    text_column: str | None,
    is_mail: bool,
    delimiter: str | None = None,
    labels: Set[str] = frozenset(),
    learned: DataFormat | None = None,
) -> UnlabelledData:
    """Open the data of `predict`: a table, lines of text, or messages.

    Parameters
    ----------
    name
        The file or folder; "-" for standard input.
    text_column
        Name or number of the column with the text; None to detect it.
    is_mail
        Whether the model was trained on mail.
    delimiter
        Delimiter of a CSV file; None to detect it.
    labels
        The classes of the model. A file is CSV if each line has one of them, a delimiter and a
        text.
    learned
        The columns that the model was trained on; a table with a header must have that of texts.
    """
    if is_mail and name == "-":
        return _open_messages(name)
    path = as_regular_file(name, takes_texts=True)
    if path.is_dir():
        if text_column is not None:
            raise ConfigError(
                f"--text-column {text_column}: {path} is a folder, which has no columns; "
                "leave the option out"
            )
        index = find_trec_index(path)
        if index is not None:
            entries = (entry for entry in open_trec_index(index) if entry.classify)
            return _open_files(entries, None if is_mail else path)
        return _open_messages(name) if is_mail else _open_files(_text_files(path), path)
    head = read_head(path)
    if not head:
        raise CorpusError(f"{path}: the file is empty")
    table_format = detect_format(path, head)
    if learned and delimiter is None and table_format in (None, "csv"):
        delimiter = find_learned_delimiter(head, learned)
    has_options = text_column is not None or delimiter is not None
    is_unspecified = table_format is None and not has_options
    if is_unspecified and is_mail:
        return _open_messages(str(path))
    if is_unspecified and (is_mbox(head) or path.suffix.lower() == ".eml"):
        remedy = "" if is_mbox(head) else ", or rename the file to classify each line"
        raise CorpusError(
            f"{path}: it is mail, but the model was trained on texts; train a model on mails with "
            f"`streamnb fit`{remedy}"
        )
    check_text(path, head)
    if table_format is None and delimiter is None and is_tabbed(head):
        return _open_columns(
            *_choose_text_column(open_table(path, "csv", "\t"), text_column, learned)
        )
    if is_unspecified:
        delimiter = _find_header_delimiter(head)
        line_labels = labels_of_lines(path) if delimiter is None else set()
        if delimiter is None and not (line_labels and line_labels <= labels):
            return _open_lines(path)
    # as `fit` does, to find a header below other lines
    known_names = () if text_column is not None else (LABEL_COLUMNS, TEXT_COLUMNS)
    table = open_table(path, table_format or "csv", delimiter, known_names=known_names)
    return _open_columns(*_choose_text_column(table, text_column, learned))


def _choose_text_column(
    table: Table, text_column: str | None, learned: DataFormat | None
) -> tuple[Table, str | None]:
    """Return the table, and the name of its column of texts if it is named, learned or detected."""
    if text_column is not None:
        return table, text_column
    if learned and has_learned_columns(table, learned, [learned.text_column]):
        return table, learned.text_column
    if table.format == "csv":
        table, text_column = _detect_text_column(table)
    if learned is not None and table.format != "fasttext":
        check_learned_columns(table, learned, [learned.text_column])
    return table, text_column


def _detect_text_column(table: Table) -> tuple[Table, str | None]:
    """Return a table, and the name of its column of texts if `fit` would detect this column."""
    if not {*LABEL_COLUMNS, *TEXT_COLUMNS}.isdisjoint(normalize_names(table.names)):
        return table, None
    detected = detect_columns(without_header(table))
    return (table, None) if detected is None else (detected[0], detected[0].names[detected[2]])


def _find_header_delimiter(head: bytes) -> str | None:
    """Return the delimiter of a header with a known name of a text column; None without one.

    A file of one column is CSV if each line is one cell; otherwise its first line is a text.
    """
    lines = [line for line in decode_head(head) if line.strip()]
    if len(lines) > 1 and lines[0].strip() in TEXT_COLUMNS:
        return "," if all(len(split_line(line, ",")) == 1 for line in lines) else None
    for delimiter in DELIMITERS:
        names = normalize_names(split_line(lines[0], delimiter)) if lines else []
        if len(names) > 1 and not set(names).isdisjoint(TEXT_COLUMNS):
            return delimiter
    return None


def _find_text_column(table: Table, wanted: str | None) -> int:
    """Return the index of the text column: a known name, or the only one that holds no labels."""
    index = find_column(table, wanted, TEXT_COLUMNS)
    if index is not None:
        return index
    plain_names = normalize_names(table.names)
    others = [i for i, plain in enumerate(plain_names) if plain not in LABEL_COLUMNS]
    if len(others) == 1:
        return others[0]
    raise CorpusError(
        f"{table.path}:1: cannot tell which column holds the text "
        f"(columns: {printable(', '.join(table.names)[:200])}); name it with --text-column"
    )


def _open_columns(table: Table, text_column: str | None) -> UnlabelledData:
    """Return the unlabelled data of a table."""
    text_index = _find_text_column(table, text_column)
    text_name = table.names[text_index]

    def items() -> Iterator[Item]:
        for row in table.rows():
            problem = row.problem or text_problem(table.format, text_name, row.value(text_index))
            if problem:
                location = "" if row.problem else f"{table.path}:{row.line}: "
                yield Item((), CorpusError(f"{location}{problem}"))
            else:
                cells = row.cells if row.values is None else row.values
                yield Item(cells, row.cells[text_index], row.json_object, row.json_names)

    is_tabs = table.format == "csv" and table.delimiter == "\t"
    delimiter = table.delimiter if table.format == "csv" else ","
    has_header = table.has_header or table.format != "csv"
    is_literal = is_tabs and table.quoting == "none"
    output_format = "tsv" if is_tabs else "jsonl" if table.format == "jsonl" else "csv"
    return UnlabelledData(
        table.names, items(), output_format, delimiter, has_header, is_literal, has_header
    )


def _open_lines(path: Path) -> UnlabelledData:
    """Open a file with a text on each line; a blank line between others is an empty text."""
    head = read_head(path)
    if not any(line.strip() for line in decode_head(head)):
        raise CorpusError(f"{path}: there are no messages, because all lines are blank")

    def items() -> Iterator[Item]:
        encoding = guess_encoding(head)
        with open_decompressed(path) as file:
            for line_no, line in enumerate_whole_lines(file):
                if b"\0" in line:
                    yield Item((), CorpusError(f"{path}:{line_no}: not text: it has zero bytes"))
                else:
                    text = decode_line(line, encoding).rstrip("\r\n")
                    yield Item([text], text)

    return UnlabelledData(["text"], items())


def _text_files(folder: Path) -> Iterator[Entry]:
    """Yield the files of a folder of texts, one text each; hidden files and links are skipped."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name[0] != "." and not os.path.islink(os.path.join(parent, name)):
                yield Entry(name, "", os.path.join(parent, name))


def _open_files(entries: Iterable[Entry], folder: Path | None) -> UnlabelledData:
    """Open files with one message each.

    Parameters
    ----------
    entries
        The files.
    folder
        The folder of texts, which the names omit. None for mails.
    """

    def items() -> Iterator[Item]:
        for entry in entries:
            name = entry.path if folder is None else os.path.relpath(entry.path, folder)
            try:
                content = read(entry)
            except StreamNBError as error:
                yield Item([name], error)
                continue
            if folder is not None and isinstance(content, bytes):
                content = decode_line(content, guess_encoding(content))
            yield Item([name], content)

    return UnlabelledData(["name"], items())


def _open_messages(source: str) -> UnlabelledData:
    """Open mails: a file, an mbox, a Maildir, a folder, or standard input."""
    items = (Item([message.name], message.content) for message in messages(source))
    return UnlabelledData(["name"], items)
