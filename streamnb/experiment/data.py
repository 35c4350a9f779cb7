"""Tables to experiment on: CSV, the files of MNIST, and what scikit-learn brings along."""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from streamnb.config.experiment import BundledConfig, CsvConfig, IdxConfig
from streamnb.errors import ConfigError, CorpusError
from streamnb.naive_bayes.tabular.columns import LARGEST, Table

__all__ = ["Examples", "read_examples"]

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
    """

    name: str
    table: Table
    labels: list[Any]
    shape: tuple[int, int] | None = None

    @property
    def classes(self) -> list[Any]:
        """The labels that occur, sorted."""
        return sorted(set(self.labels), key=lambda label: (type(label).__name__, label))


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
    if config.bins is not None:
        found = replace(found, table=_binned(found.table, config.bins))
    if config.scale == "min-max":
        found = replace(found, table=_scaled(found.table))
    if len(found.labels) < 2:
        raise CorpusError(f"{found.name}: {len(found.labels)} rows: there is nothing to split")
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


def _binned(table: Table, bins: int) -> Table:
    """Numbers as levels: ranges that hold equally many of all rows, whatever their labels."""
    values = np.empty(table.values.shape, dtype=object)
    for j, column in enumerate(table.values.T):
        if not all(isinstance(value, float) for value in column.tolist()):
            values[:, j] = column
            continue
        numbers = column.astype(np.float64)
        edges = np.unique(np.nanquantile(numbers, np.arange(1, bins) / bins))
        levels = np.searchsorted(edges, numbers, side="right").tolist()
        missing = np.isnan(numbers).tolist()
        values[:, j] = [None if gone else k for gone, k in zip(missing, levels, strict=True)]
    return Table(table.names, values)


def _scaled(table: Table) -> Table:
    """All values into [0, 1], by the smallest and largest of the whole table."""
    if table.values.dtype == object:
        raise ConfigError("data.scale: only numbers can be scaled, and there is text in the table")
    low, high = np.nanmin(table.values), np.nanmax(table.values)
    if not high > low:
        raise ConfigError("data.scale: all values are alike")
    return Table(table.names, (table.values - low) / (high - low))


def _read_csv(config: CsvConfig) -> Examples:
    path = Path(config.path).expanduser()
    header, rows = _csv_rows(path)
    if config.transposed:
        header, rows = _transposed(path, header, rows)
    label = header[-1] if config.label is None else config.label
    columns = config.columns or tuple(name for name in header if name != label)
    for key, names in (("label", (label,)), ("columns", columns), ("text", config.text)):
        for name in names:
            if name not in header:
                known = ", ".join(header[:20])
                raise ConfigError(f"data.{key}: {path} has no column {name!r:.80} (it has {known})")
    if label in columns:
        raise ConfigError(f"data.columns: {label!r:.80} is what is to be told")
    places = [header.index(name) for name in columns]
    found = [_typed([row[j] for row in rows], header[j] in config.text) for j in places]
    kind: Any = np.float64 if all(column.dtype == np.float64 for column in found) else object
    values = np.empty((len(rows), len(places)), dtype=kind)
    for j, column in enumerate(found):
        values[:, j] = column
    at = header.index(label)
    return Examples(path.name, Table(list(columns), values), [row[at] for row in rows])


def _transposed(
    path: Path, header: list[str], rows: list[list[str]]
) -> tuple[list[str], list[list[str]]]:
    """A table whose first column names features, with an example in each other column."""
    names = [row[0] for row in rows]
    if len(set(names)) != len(names) or header[0] in names:
        raise CorpusError(f"{path}: transposed, a name in its first column occurs twice")
    turned = [[row[j] for row in rows] + [header[j]] for j in range(1, len(header))]
    return [*names, header[0]], turned


def _csv_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    try:
        with open(path, "rb") as raw:
            data = raw.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise CorpusError(f"{path}: cannot be read: {why}") from None
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
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    rows: list[list[str]] = []
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
    return header, rows


def _typed(column: list[str], text: bool) -> NDArray[Any]:
    """A column as numbers if all of it is, else as text; what is missing is NaN or None."""
    if not text:
        try:
            numbers = [math.nan if cell in _MISSING else float(cell) for cell in column]
        except ValueError:
            pass
        else:
            if all(math.isnan(x) or abs(x) <= LARGEST for x in numbers):
                return np.array(numbers, dtype=np.float64)
    cells = np.empty(len(column), dtype=object)
    cells[:] = [None if cell in _MISSING else cell for cell in column]
    return cells


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
    return Examples(name, Table(list(range(values.shape[1])), values), labels, shape)


def _idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """An array of bytes in the IDX format; believed only as far as the file reaches."""
    path = path.expanduser()
    try:
        with open(path, "rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            if packed:
                with gzip.open(raw) as file:
                    return _idx_values(file, path, dimensions)  # type: ignore[arg-type]
            return _idx_values(raw, path, dimensions)
    except (OSError, EOFError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise CorpusError(f"{path}: cannot be read: {why}") from None


def _idx_values(file: BinaryIO, path: Path, dimensions: int) -> NDArray[np.uint8]:
    head = file.read(4)
    if head != bytes((0, 0, 8, dimensions)):
        raise CorpusError(f"{path}: not an IDX file of bytes in {dimensions} dimensions")
    shape = np.frombuffer(file.read(4 * dimensions), dtype=">u4")
    size = math.prod(int(n) for n in shape)
    if len(shape) != dimensions or not 0 < size <= MAX_CELLS:
        raise CorpusError(f"{path}: it says it holds {size:,} bytes")
    data = file.read(size)
    if len(data) != size:
        raise CorpusError(f"{path}: cut off: {len(data):,} of {size:,} bytes are there")
    return np.frombuffer(data, dtype=np.uint8).reshape([int(n) for n in shape])


def _bundled(config: BundledConfig) -> Examples:
    try:
        from sklearn import datasets
    except ImportError:
        raise ConfigError(
            "data.kind: 'bundled' needs scikit-learn: pip install 'streamnb[sklearn]'"
        ) from None
    bunch = getattr(datasets, f"load_{config.name}")()
    labels = [str(bunch.target_names[k]) for k in bunch.target.tolist()]
    name = f"scikit-learn's {config.name.replace('_', ' ')}"
    if config.name == "digits":
        return _images(name, bunch.data, labels, (8, 8))
    features: list[Hashable] = [str(feature) for feature in bunch.feature_names]
    return Examples(name, Table(features, np.asarray(bunch.data, dtype=np.float64)), labels)
