"""The output of `streamnb predict`: the columns of the data, then those of the prediction."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

from streamnb.cli.unlabelled import Item, UnlabelledData
from streamnb.corpus.tabular import normalize_names, to_cell
from streamnb.errors import ConfigError
from streamnb.patterns import lazy_pattern

_RESULT_NAMES = ("label", "probability", "unsure")
_LONE_SURROGATE = lazy_pattern(
    "[\ud800-\udc7f\udd00-\udfff]"
)  # without the escapes of bytes that are not UTF-8
_BLANKS = str.maketrans("\t\r\n", "   ")


Writer = Callable[[Item, Any, float, bool], None]


def make_writer(file: BinaryIO, output_format: str, data: UnlabelledData) -> Writer:
    """Return a function that writes a row: its cells, then label, probability and unsure."""
    if output_format == "jsonl":
        return _make_json_writer(file, data)
    delimiter = "\t" if output_format == "tsv" else data.delimiter
    if output_format == "csv" and delimiter == "\t":
        delimiter = ","
    is_literal = data.is_literal and output_format == "tsv"
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")

    def write_cells(cells: Iterable[Any]) -> None:
        if is_literal:
            line = "\t".join(str(cell).translate(_BLANKS) for cell in cells) + "\n"
        else:
            writer.writerow(cells)
            line = buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
        file.write(_encode(line))

    if data.has_header:
        write_cells([*data.names, *_free_names(data.names)])

    def write_row(item: Item, label: Any, probability: float, unsure: bool) -> None:
        if is_literal and str(label).translate(_BLANKS) != str(label):
            raise ConfigError(
                f"the label {label!r:.80} contains a tab or line end, which tsv cannot store; use "
                "--format csv or --format jsonl"
            )
        results = (label, repr(float(probability)), "true" if unsure else "false")
        write_cells([*map(to_cell, item.cells), *results])

    return write_row


def _encode(line: str) -> bytes:
    """Return a line as UTF-8, with a replacement character for each half of a surrogate pair."""
    try:
        return line.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub("\ufffd", line).encode("utf-8", "surrogateescape")


def _make_json_writer(file: BinaryIO, data: UnlabelledData) -> Writer:
    """Return the function that writes a row as an object of JSON Lines.

    The text of an input object is copied, so numbers keep all digits.
    """
    names = _number_duplicates(data.names)
    result_names = _free_names(names)

    def write_row(item: Item, label: Any, probability: float, unsure: bool) -> None:
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
    """Return a value of Parquet as a JSON value: NaN and infinity become null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def _number_duplicates(names: Iterable[str]) -> list[str]:
    """Return the names with numbers added to repeated ones: "a", "a" become "a", "a_2"."""
    unique_names: list[str] = []
    for name in names:
        number, unique_name = 1, name
        while unique_name in unique_names:
            number += 1
            unique_name = f"{name}_{number}"
        unique_names.append(unique_name)
    return unique_names


def _free_names(names: Iterable[str]) -> list[str]:
    """Return names for the new columns that no existing column has in upper or lower case."""
    existing = set(normalize_names(names))
    free_names = []
    for name in _RESULT_NAMES:
        while name in existing:
            name = f"predicted_{name}"
        free_names.append(name)
    return free_names
