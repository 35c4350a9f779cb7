"""Tables to experiment on: CSV, the files of MNIST, and what scikit-learn brings along."""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from streamnb.config.experiment import BundledConfig, CsvConfig, IdxConfig
from streamnb.errors import ConfigError, CorpusError, convert_os_errors, require_extra
from streamnb.tables.columns import LARGEST, Columns
from streamnb.tables.experiment.preparation import Preparation, as_it_is, ranges, scaling

MAX_BYTES = 1 << 28
MAX_CELLS = 1 << 28
_MISSING = ("", "?", "NA", "nan", "NaN")


@dataclass(frozen=True)
class Examples:
    """Rows and their labels.

    Attributes
    ----------
    name
        What it is, for titles.
    table
        n rows.
    labels
        n labels.
    shape
        Height and width, where a row is an image.
    text
        For each column that is text, where in the file that shows.
    prepare
        What is made from the rows that are learned, and done to all rows.
    """

    name: str
    table: Columns
    labels: list[Any]
    shape: tuple[int, int] | None = None
    text: Mapping[Hashable, str] = field(default_factory=dict)
    prepare: Preparation = as_it_is

    @property
    def classes(self) -> list[Any]:
        """The labels that occur, sorted."""
        return sorted(set(self.labels), key=lambda label: (type(label).__name__, label))

    def unknown(self, feature: Any) -> str:
        """What is to be said of a feature that is not there."""
        known = ", ".join(str(one) for one in self.table.names[:20])
        return f"{feature!r:.80} is none of the features ({known})"


def read_examples(config: CsvConfig | IdxConfig | BundledConfig) -> Examples:
    """Read what a configuration names.

    Raises
    ------
    CorpusError
        Where it cannot be read or is not what it should be; with file and line.
    ConfigError
        Where a column or class that the configuration names is not there.
    """
    if isinstance(config, CsvConfig):
        found = _read_csv(config)
    elif isinstance(config, IdxConfig):
        found = _read_idx(config)
    else:
        found = _bundled(config)
    if config.classes is not None:
        found = _only(found, set(config.classes))
    if config.bins is not None and config.scale != "none":
        raise ConfigError("data.scale: ranges (data.bins) are the same of scaled numbers")
    if config.bins is not None:
        found = replace(found, prepare=ranges(config.bins))
    if config.scale == "min-max":
        found = replace(found, prepare=scaling)
    if len(found.labels) < 2:
        raise CorpusError(f"{found.name}: {len(found.labels)} rows: there is nothing to split")
    if len(found.classes) < 2:
        raise CorpusError(f"{found.name}: all labels are {found.labels[0]!r:.80}")
    return found


def _only(examples: Examples, wanted: set[str]) -> Examples:
    there = {str(label) for label in examples.labels}
    if not wanted <= there:
        absent = min(wanted - there)
        known = ", ".join(sorted(there)[:20])
        raise ConfigError(f"data.classes: {absent!r:.80} is none of the labels ({known})")
    rows = np.flatnonzero([str(label) in wanted for label in examples.labels])
    labels = [examples.labels[i] for i in rows.tolist()]
    return replace(examples, table=examples.table.select(rows), labels=labels)


def _read_csv(config: CsvConfig) -> Examples:
    path = Path(config.path).expanduser()
    header, rows, lines = _csv_rows(path)
    of_columns = None
    if config.transposed:
        header, rows = _transposed(path, header, rows)
        of_columns, lines = lines, [1] * len(rows)
    label = header[-1] if config.label is None else config.label
    columns = tuple(name for name in header if name != label)
    if config.columns is not None:
        columns = config.columns
        if not columns or len(set(columns)) != len(columns):
            raise ConfigError("data.columns: expected names that are all different")
    for key, names in (("label", (label,)), ("columns", columns), ("text", config.text)):
        for name in names:
            if name not in header:
                known = ", ".join(header[:20])
                raise ConfigError(f"data.{key}: {path} has no column {name!r:.80} (it has {known})")
    if label in columns:
        raise ConfigError(f"data.columns: {label!r:.80} is what is to be told")
    places = [header.index(name) for name in columns]
    text: dict[Hashable, str] = {}
    found = []
    for j in places:
        cells = [row[j] for row in rows]
        column, odd = _typed(cells, header[j] in config.text)
        found.append(column)
        if odd is not None:
            line = lines[odd] if of_columns is None else of_columns[j]
            text[header[j]] = f"{path.name}:{line}: {cells[odd]!r:.80}"
    values = np.column_stack(found)
    at = header.index(label)
    labels = [row[at] for row in rows]
    for line, one in zip(lines, labels, strict=True):
        if one in _MISSING:
            raise CorpusError(f"{path}:{line}: no label in the column {label!r:.80}")
    return Examples(path.name, Columns(list(columns), values), labels, text=text)


def _transposed(
    path: Path, header: list[str], rows: list[list[str]]
) -> tuple[list[str], list[list[str]]]:
    """A table whose first column names features, with an example in each other column."""
    names = [row[0] for row in rows]
    if len(set(names)) != len(names) or header[0] in names:
        raise CorpusError(f"{path}: transposed, a name in its first column occurs twice")
    turned = [[row[j] for row in rows] + [header[j]] for j in range(1, len(header))]
    return [*names, header[0]], turned


def _csv_rows(path: Path) -> tuple[list[str], list[list[str]], list[int]]:
    """Header, rows, and in which line each row ends."""
    with (
        convert_os_errors(CorpusError, f"{path}: cannot be read", ValueError),
        open(path, "rb") as raw,
    ):
        data = raw.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise CorpusError(f"{path}: longer than {MAX_BYTES:,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CorpusError(f"{path}:{line}: not UTF-8 text") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise CorpusError(f"{path}:{line}: not text: it holds a zero byte")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    cells = 0
    try:
        for row in reader:
            if not row:
                continue
            row = [cell.strip() for cell in row]
            cells += len(row)
            if rows and len(row) != len(rows[0]):
                why = f"{len(row)} columns, and the header has {len(rows[0])}"
                raise CorpusError(f"{path}:{reader.line_num}: {why}")
            if cells > MAX_CELLS:
                raise CorpusError(f"{path}:{reader.line_num}: more than {MAX_CELLS:,} cells")
            rows.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise CorpusError(f"{path}:{reader.line_num}: not CSV: {error}") from None
    if not rows:
        raise CorpusError(f"{path}: empty: expected a header and a row for each example")
    header = rows.pop(0)
    if len(set(header)) != len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise CorpusError(f"{path}:1: the column {twice!r:.80} occurs twice")
    if len(header) < 2:
        raise CorpusError(f"{path}:1: one column: expected features and a label")
    return header, rows, lines[1:]


def _typed(column: list[str], text: bool) -> tuple[NDArray[Any], int | None]:
    """A column as numbers if all of it is, else as text, and then which cell is no number.

    What is missing is NaN or None.
    """
    odd = 0 if text else next((i for i, cell in enumerate(column) if not _is_number(cell)), None)
    if odd is None:
        numbers = [math.nan if cell in _MISSING else float(cell) for cell in column]
        return np.array(numbers, dtype=np.float64), None
    cells = np.empty(len(column), dtype=object)
    cells[:] = [None if cell in _MISSING else cell for cell in column]
    return cells, odd


def _is_number(cell: str) -> bool:
    if cell in _MISSING:
        return True
    try:
        return abs(float(cell)) <= LARGEST
    except ValueError:
        return False


def _read_idx(config: IdxConfig) -> Examples:
    if len(config.images) != len(config.labels):
        raise ConfigError("data.labels: there must be as many files as of images")
    parts = [
        (_idx(Path(images), 3), _idx(Path(labels), 1))
        for images, labels in zip(config.images, config.labels, strict=True)
    ]
    for (images, labels), path in zip(parts, config.labels, strict=True):
        if len(images) != len(labels):
            raise CorpusError(f"{path}: {len(labels)} labels of {len(images)} images")
    if len({images.shape[1:] for images, _ in parts}) > 1:
        raise CorpusError(f"{config.images[1]}: images of another size")
    images = np.concatenate([images for images, _ in parts])
    labels = np.concatenate([labels for _, labels in parts]).tolist()
    _, height, width = images.shape
    return _images(Path(config.images[0]).name, images, labels, (height, width))


def _images(name: str, images: NDArray[Any], labels: list[Any], shape: tuple[int, int]) -> Examples:
    values = images.reshape(len(images), -1).astype(np.float64)
    return Examples(name, Columns(list(range(values.shape[1])), values), labels, shape)


def _idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """An array of bytes in the IDX format; believed only as far as the file reaches."""
    path = path.expanduser()
    with (
        convert_os_errors(CorpusError, f"{path}: cannot be read", EOFError, ValueError),
        open(path, "rb") as raw,
    ):
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if packed:
            with gzip.open(raw) as file:
                return _idx_values(file, path, dimensions)  # type: ignore[arg-type]
        return _idx_values(raw, path, dimensions)


def _idx_values(file: BinaryIO, path: Path, dimensions: int) -> NDArray[np.uint8]:
    head = file.read(4)
    if head != bytes((0, 0, 8, dimensions)):
        raise CorpusError(f"{path}: not an IDX file of bytes in {dimensions} dimensions")
    head = file.read(4 * dimensions)
    if len(head) != 4 * dimensions:
        raise CorpusError(f"{path}: cut off within its first bytes")
    shape = np.frombuffer(head, dtype=">u4")
    size = math.prod(int(n) for n in shape)
    if not 0 < size <= MAX_CELLS:
        raise CorpusError(f"{path}: it says it holds {size:,} bytes")
    data = file.read(size)
    if len(data) != size:
        raise CorpusError(f"{path}: cut off: {len(data):,} of {size:,} bytes are there")
    if file.read(1):  # reading on checks the sum of what is compressed, too
        raise CorpusError(f"{path}: longer than the {size:,} bytes it says it holds")
    return np.frombuffer(data, dtype=np.uint8).reshape([int(n) for n in shape])


def _bundled(config: BundledConfig) -> Examples:
    with require_extra("sklearn", "data.kind: 'bundled' needs scikit-learn"):
        from sklearn import datasets
    bunch = getattr(datasets, f"load_{config.name}")()
    labels = [str(bunch.target_names[k]) for k in bunch.target.tolist()]
    name = f"scikit-learn's {config.name.replace('_', ' ')}"
    if config.name == "digits":
        return _images(name, bunch.data, labels, (8, 8))
    features: list[Hashable] = [str(feature) for feature in bunch.feature_names]
    return Examples(name, Columns(features, np.asarray(bunch.data, dtype=np.float64)), labels)
