"""`streamnb predict` and `streamnb evaluate`: label new data with a saved model, and measure it."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import click

from streamnb.cli.options import on_error_option, set_option
from streamnb.cli.replay import (
    make_config,
    print_skipped,
    quiet_option,
    run_and_print,
    run_options,
)
from streamnb.cli.tables import progress_bar
from streamnb.errors import ConfigError, CorpusError, ModelFileError, StreamNBError, printable

if TYPE_CHECKING:
    from streamnb.classifier import Classifier
    from streamnb.corpus.tabular import Table

_RESULT_NAMES = ("label", "probability", "unsure")
_BLANKS = str.maketrans("\t\r\n", "   ")
_FORMATS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


class _Item(NamedTuple):
    """A message to label.

    Attributes
    ----------
    cells
        The values of its columns, in the order of `_Data.names`.
    text
        The text to classify, or why it cannot be read.
    json_object
        The row as it stands in JSON Lines; "" in other formats.
    json_names
        The keys of that row.
    """

    cells: Sequence[Any]
    text: bytes | str | StreamNBError
    json_object: str = ""
    json_names: Collection[str] = ()


@dataclass(frozen=True)
class _Data:
    """Unlabelled data.

    Attributes
    ----------
    names
        The columns; those of JSON Lines may differ from row to row.
    items
        The messages.
    format
        Format of the output by default: "csv", "tsv" or "jsonl".
    delimiter
        Delimiter of the input, for output in CSV.
    has_header
        Whether the input names its columns.
    is_literal
        Whether double quotes stand for themselves in the input, whose delimiter is a tab.
    """

    names: list[str]
    items: Iterator[_Item]
    format: str = "csv"
    delimiter: str = ","
    has_header: bool = True
    is_literal: bool = False


@click.command()
@click.argument("model_file", metavar="MODEL")
@click.argument("data", metavar="DATA", default="-")
@click.option("-o", "--out", "output", metavar="FILE", default="-", help="Write to FILE.")
@click.option("--text-column", metavar="NAME", help="The column with the text, or its number.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["csv", "tsv", "jsonl"]),
    help="Format of the output; default: that of FILE's name, or of DATA.",
)
@on_error_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines: --format jsonl.")
@quiet_option
def predict(
    model_file: str,
    data: str,
    output: str,
    text_column: str | None,
    output_format: str | None,
    on_error: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Label new data with a model that `streamnb fit` or `replay --save` wrote.

    DATA is a table (CSV, JSON Lines, Parquet), lines of text, a folder, an mbox, a Maildir, a
    mail, or - for standard input. All columns are kept, and three are added: label, probability
    (of that label) and unsure. If DATA has a column of that name, the new one is called
    predicted_label, predicted_probability or predicted_unsure.

    \b
    Examples:
      streamnb fit tickets.csv -o tickets.snb
      streamnb predict tickets.snb new.csv --out labelled.csv
      echo "cannot log in" | streamnb predict tickets.snb

    Exit status: 0 success, 2 wrong option, 3 the data cannot be read, 4 the model cannot be read,
    5 the output cannot be written.
    """  # noqa: D301 (\b is click's mark for preformatted lines)
    from streamnb.corpus.text_files import bare_suffix, open_compressed
    from streamnb.replay.build import is_for_mail
    from streamnb.storage import open_output

    if as_json and output_format not in (None, "jsonl"):
        raise ConfigError(f"--json, --format {output_format}: choose one of them")
    classifier = _load_classifier(model_file)
    source = _open_data(data, text_column, is_for_mail(classifier))
    suffix = bare_suffix(Path(output))
    if output != "-" and output_format is None and suffix == ".parquet":
        raise ConfigError(f"--out {output}: Parquet cannot be written; use .csv, .tsv or .jsonl")
    output_format = output_format or ("jsonl" if as_json else _FORMATS.get(suffix, source.format))
    skipped: list[str] = []
    labels: Counter[str] = Counter()
    unsure = 0
    show_progress = output != "-" and not quiet and sys.stderr.isatty()
    with (
        open_output(output, "the output") as raw_file,
        open_compressed(raw_file, Path(output)) as file,
        _progress(show_progress) as draw,
    ):
        write = _make_writer(file, output_format, source)
        for item in source.items:
            if isinstance(item.text, StreamNBError):
                if on_error != "skip":
                    raise type(item.text)(
                        f"{item.text} (use --on-error skip to leave out such messages)"
                    )
                skipped.append(str(item.text))
                continue
            verdict = classifier.classify(item.text, reasons=0)
            write(item, verdict.label, verdict.probability, verdict.unsure)
            labels[str(verdict.label)] += 1
            unsure += verdict.unsure
            draw(completed=labels.total())
        if not labels:
            raise CorpusError(f"{data}: there are no messages")
    if output != "-" and not quiet:
        counts = ", ".join(f"{n:,} {label}" for label, n in labels.most_common(10))
        total = f"{labels.total():,} messages"
        click.echo(printable(f"{output}: {total} ({counts}), {unsure:,} of them unsure"))
    print_skipped(skipped)


@click.command()
@click.argument("model_file", metavar="MODEL")
@click.argument("targets", nargs=-1, required=True, metavar="DATA...")
@set_option("evaluate.positive=spam")
@run_options
def evaluate(
    model_file: str,
    targets: tuple[str, ...],
    config_file: str | None,
    settings: tuple[str, ...],
    as_json: bool,
    details: bool,
    quiet: bool,
    plot: str | None,
    **options: Any,
) -> None:
    """Measure a saved model on labelled data that it has not learned.

    DATA are corpora as for `streamnb replay`. The model does not learn, so the figures are those
    of the model as it was saved. They are printed as by `streamnb replay`.

    \b
    Examples:
      streamnb fit corpora/sample --limit 200 -o mail.snb
      streamnb evaluate mail.snb corpora/sample
      streamnb evaluate tickets.snb held_out.csv --label-column topic

    Exit status: 0 success, 2 wrong option or configuration, 3 the data cannot be read, 4 the model
    cannot be read, 5 results cannot be written, 130 interrupted.
    """  # noqa: D301 (\b is click's mark for preformatted lines)
    from streamnb.replay.run import evaluate_model

    config = make_config(targets, config_file, settings, options)
    kinds = tuple(section.kind for section in config.feedback)
    if config.sweep or kinds != ("immediate",):
        raise ConfigError("sweep, feedback: the model does not learn; use `streamnb replay`")
    classifier = _load_classifier(model_file)
    run_and_print(
        config,
        lambda run_config, on_step: evaluate_model(run_config, classifier, model_file, on_step),
        as_json=as_json,
        details=details,
        quiet=quiet,
        plot=plot,
    )


def _load_classifier(path: str) -> Classifier:
    """Return the classifier of a model file; ModelFileError if it has learned nothing."""
    from streamnb.classifier import Classifier

    classifier = Classifier.load(path)
    classifier.on = None  # the message itself is classified, not a key of it
    if not any(classifier.messages().values()):
        raise ModelFileError(f"{path}: it has learned nothing yet; train it with `streamnb fit`")
    return classifier


# Input


def _open_data(name: str, text_column: str | None, is_mail: bool) -> _Data:
    """Open the data of `predict`: a table, lines of text, or messages."""
    from streamnb.corpus.delimited import is_tabbed
    from streamnb.corpus.tabular import detect_format, open_table
    from streamnb.corpus.text_files import as_regular_file, check_text, read_head

    if is_mail and name == "-":
        return _open_messages(name)
    path = as_regular_file(name)
    if path.is_dir():
        if text_column is not None:
            raise ConfigError(f"--text-column {text_column}: {path} is a folder")
        return _open_messages(name) if is_mail else _open_text_files(path)
    head = read_head(path)
    if not head:
        raise CorpusError(f"{path}: the file is empty")
    table_format = detect_format(path, head)
    if table_format is None and is_mail and text_column is None:
        return _open_messages(str(path))
    check_text(path, head)
    if table_format == "jsonl":
        return _open_json_lines(path, text_column)
    if table_format is None and is_tabbed(head):
        return _open_columns(open_table(path, "csv", "\t"), text_column)
    if table_format is None and text_column is None and not _names_text_column(path, head):
        return _open_lines(path)
    table = open_table(path, table_format or "csv")
    if text_column is None and table.format == "csv":
        table, text_column = _detect_text_column(table)
    return _open_columns(table, text_column)


def _detect_text_column(table: Table) -> tuple[Table, str | None]:
    """Return a labelled table of two columns as `fit` reads it, with the column of the texts."""
    from streamnb.corpus.delimited import LABEL_COLUMNS, TEXT_COLUMNS, detect_columns
    from streamnb.corpus.tabular import normalize_names, without_header

    if not {*LABEL_COLUMNS, *TEXT_COLUMNS}.isdisjoint(normalize_names(table.names)):
        return table, None
    detected = detect_columns(without_header(table))
    return (table, None) if detected is None else (detected[0], detected[0].names[detected[2]])


def _names_text_column(path: Path, head: bytes) -> bool:
    """Return whether the first line of a file is a header with a known name of a text column."""
    from streamnb.corpus.delimited import TEXT_COLUMNS
    from streamnb.corpus.tabular import DELIMITERS, decode_head, normalize_names, split_line

    first_line = next((line for line in decode_head(head) if line.strip()), "")
    return any(
        len(names) > 1 and not set(normalize_names(names)).isdisjoint(TEXT_COLUMNS)
        for names in (split_line(first_line, delimiter) for delimiter in DELIMITERS)
    )


def _choose_text_column(path: Path, names: Sequence[str], wanted: str | None) -> str:
    """Return the name of the text column."""
    from streamnb.corpus.delimited import LABEL_COLUMNS, TEXT_COLUMNS
    from streamnb.corpus.tabular import normalize_names

    if wanted is not None:
        if wanted in names:
            return wanted
        if wanted.isdecimal() and 1 <= int(wanted[:9]) <= len(names):
            return names[int(wanted) - 1]
        raise CorpusError(f"{path}:1: no column {wanted!r:.80}; there are {', '.join(names)[:200]}")
    plain_names = normalize_names(names)
    known_names = [name for name in TEXT_COLUMNS if name in plain_names]
    if known_names:
        return names[plain_names.index(known_names[0])]
    others = [
        name for name, plain in zip(names, plain_names, strict=True) if plain not in LABEL_COLUMNS
    ]
    if len(others) == 1:
        return others[0]
    raise CorpusError(
        f"{path}:1: cannot tell which column holds the text (columns: {', '.join(names)[:200]}); "
        "name it with --text-column"
    )


def _open_columns(table: Table, text_column: str | None) -> _Data:
    text_name = _choose_text_column(table.path, table.names, text_column)
    text_index = table.names.index(text_name)
    if table.names.count(text_name) > 1:
        raise CorpusError(f"{table.path}:1: two columns are called {text_name!r:.80}; rename one")

    def items() -> Iterator[_Item]:
        for row in table.rows():
            if row.problem:
                yield _Item((), CorpusError(row.problem))
            else:
                cells = row.cells if row.values is None else row.values
                yield _Item(cells, row.cells[text_index])

    is_tabs = table.format == "csv" and table.delimiter == "\t"
    delimiter = table.delimiter if table.format == "csv" else ","
    has_header = table.has_header or table.format != "csv"
    is_literal = is_tabs and table.quoting == "none"
    output_format = "tsv" if is_tabs else "csv"
    return _Data(table.names, items(), output_format, delimiter, has_header, is_literal)


def _open_json_lines(path: Path, text_column: str | None) -> _Data:
    """Open JSON Lines; the values of all keys keep their types."""
    from streamnb.corpus.tabular import open_table

    names = open_table(path, "jsonl").names
    text_name = _choose_text_column(path, names, text_column)
    return _Data(names, _read_json_lines(path, names, text_name), "jsonl")


def _read_json_lines(path: Path, names: Sequence[str], text_name: str) -> Iterator[_Item]:
    from streamnb.corpus.text_files import decode_line, enumerate_whole_lines, open_decompressed

    with open_decompressed(path) as file:
        for line_no, line in enumerate_whole_lines(file):
            if not line.strip():
                continue
            json_object = decode_line(line).strip()
            try:
                columns = json.loads(json_object)
                if not isinstance(columns, dict):
                    raise ValueError("not an object")
            except (ValueError, RecursionError):
                yield _Item((), CorpusError(f"{path}:{line_no}: not a JSON object"))
                continue
            text = columns.get(text_name)
            if isinstance(text, str):
                cells = [columns.get(name) for name in names]
                yield _Item(cells, text, json_object, columns.keys())
            else:
                problem = f"no text in the key {text_name!r:.80}"
                yield _Item((), CorpusError(f"{path}:{line_no}: {problem}"))


def _open_lines(path: Path) -> _Data:
    """Open a file whose lines are texts; blank lines are skipped."""
    from streamnb.corpus.text_files import decode_line, enumerate_whole_lines, open_decompressed

    def items() -> Iterator[_Item]:
        with open_decompressed(path) as file:
            for line_no, line in enumerate_whole_lines(file):
                if b"\0" in line:
                    yield _Item((), CorpusError(f"{path}:{line_no}: not text: it has zero bytes"))
                elif line.strip():
                    text = decode_line(line).rstrip("\r\n")
                    yield _Item([text], text)

    return _Data(["text"], items())


def _open_text_files(folder: Path) -> _Data:
    """Open a folder of text files, one text each; hidden files and links are skipped."""
    from streamnb.corpus import Entry, read
    from streamnb.corpus.text_files import decode_line

    def paths() -> Iterator[Path]:
        for parent, folders, files in os.walk(folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            yield from (Path(parent) / name for name in sorted(files) if name[0] != ".")

    def items() -> Iterator[_Item]:
        for path in paths():
            name = path.relative_to(folder).as_posix()
            if path.is_symlink():
                continue
            try:
                content = read(Entry(name, "", str(path)))
            except StreamNBError as error:
                yield _Item([name], error)
                continue
            text = decode_line(content) if isinstance(content, bytes) else content
            yield _Item([name], text)

    return _Data(["name"], items())


def _open_messages(source: str) -> _Data:
    """Open mails: a file, an mbox, a Maildir, a folder, or standard input."""
    from streamnb.mailbox.sources import messages

    items = (_Item([message.name], message.content) for message in messages(source))
    return _Data(["name"], items)


# Output


_Writer = Callable[[_Item, Any, float, bool], None]


def _make_writer(file: BinaryIO, output_format: str, data: _Data) -> _Writer:
    """Return the function that writes a row: its cells, label, probability and unsure."""
    if output_format == "jsonl":
        return _make_json_writer(file, data)
    delimiter = "\t" if output_format == "tsv" else data.delimiter
    if output_format == "csv" and delimiter == "\t":
        delimiter = ","
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")

    def write_cells(cells: Iterable[Any]) -> None:
        if data.is_literal and output_format == "tsv":
            line = "\t".join(str(cell).translate(_BLANKS) for cell in cells) + "\n"
        else:
            writer.writerow(cells)
            line = buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
        file.write(line.encode("utf-8", "surrogateescape"))

    if data.has_header:
        write_cells([*data.names, *_free_names(data.names)])

    def write_row(item: _Item, label: Any, probability: float, unsure: bool) -> None:
        results = (label, f"{probability:.6g}", "true" if unsure else "false")
        write_cells([*map(_to_csv_cell, item.cells), *results])

    return write_row


def _make_json_writer(file: BinaryIO, data: _Data) -> _Writer:
    """Return the function that writes a row as an object of JSON Lines.

    An object of the input is not written anew: its text is kept, with all digits of its numbers.
    """
    names = _number_duplicates(data.names)
    result_names = _free_names(names)

    def write_row(item: _Item, label: Any, probability: float, unsure: bool) -> None:
        text, row_names = item.json_object, result_names
        if not text:
            cells = map(_to_json_value, item.cells)
            text = _to_json(dict(zip(names, cells, strict=True)))
        elif set(item.json_names) - set(names):
            row_names = _free_names(item.json_names)
        results = dict(zip(row_names, (label, probability, unsure), strict=True))
        line = f"{text[:-1]}, {_to_json(results)[1:]}\n"
        # A byte that is not UTF-8 becomes the escape of its surrogate, which JSON allows.
        file.write(line.encode("utf-8", "backslashreplace"))

    return write_row


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _to_json_value(value: Any) -> Any:
    """Return a value of Parquet as JSON can hold it: NaN and infinity become null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def _number_duplicates(names: Iterable[str]) -> list[str]:
    """Return names that are all different: "a", "a" become "a", "a_2"."""
    unique_names: list[str] = []
    for name in names:
        number, unique_name = 1, name
        while unique_name in unique_names:
            number += 1
            unique_name = f"{name}_{number}"
        unique_names.append(unique_name)
    return unique_names


def _to_csv_cell(value: Any) -> Any:
    """Return a value of JSON or Parquet as a cell of CSV; null is the empty cell."""
    from streamnb.corpus.tabular import to_cell

    return value if isinstance(value, str) else to_cell(value)


def _free_names(names: Iterable[str]) -> list[str]:
    """Return the names of the new columns, different from those that exist."""
    existing = set(names)
    free_names = []
    for name in _RESULT_NAMES:
        while name in existing:
            name = f"predicted_{name}"
        free_names.append(name)
    return free_names


@contextmanager
def _progress(is_shown: bool) -> Iterator[Callable[..., None]]:
    if not is_shown:
        yield lambda **_: None
        return
    with progress_bar("{task.completed:,.0f} messages") as draw:
        yield draw
