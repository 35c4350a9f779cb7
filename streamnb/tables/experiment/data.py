"""Tables of experiments: tabular files, images in MNIST's format, scikit-learn's data sets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from streamnb.config.experiment import BundledConfig, IdxConfig, TableConfig
from streamnb.corpus.delimited import MIN_ROWS, describe_wrong_labels
from streamnb.corpus.tabular import HEAD_ROWS, MISSING, Table, TableRow, find_name, open_table
from streamnb.corpus.text_files import as_regular_file, open_decompressed
from streamnb.errors import ConfigError, CorpusError, convert_os_errors, require_extra
from streamnb.patterns import lazy_pattern
from streamnb.tables.columns import LARGEST, Columns

MAX_CELLS = 1 << 28
_DECIMAL_COMMA = lazy_pattern(r"[-+]?(?:\d{1,3}(?:\.\d{3})+|\d+|(?=,)),?\d*(?:[eE][-+]?\d+)?\Z")
# A number as Fortran writes it. Point, sign and two digits are required, because a text such as
# "12D34" can be a name.
_FORTRAN_DOUBLE = lazy_pattern(r"[-+]?\d*\.\d*(?<=\d.|.\d)[Dd][-+]\d{2,3}")
# A number with the sign or code of a currency before it, or a unit of at most four characters
# behind it.
_QUANTITY = lazy_pattern(
    r"([^\w.,+-]{0,3}|[A-Z]{3} ?)[-+\u2212]?\d[\d.,' \xa0\u202f]*([^\d.,]{0,4})"
)
_GROUP_SIGNS = ",' \xa0\u202f"  # between the digits of 8,940 and 8'940; "," can be a decimal comma

_ORDINALS = {"#", "st", "nd", "rd", "th"}  # signs of numbers that are names

# Names of columns without name, such as the row names that R and pandas write.
_UNNAMED = lazy_pattern(r"(?:Unnamed: \d+)?")


Transform = Callable[[Columns], Columns]
Preparation = Callable[[Columns], Transform]  # fitted to the learned rows


def keep_values(learned: Columns) -> Transform:
    """Return the transform that changes nothing."""
    return lambda table: table


def bin_values(bins: int) -> Preparation:
    """Return the preparation of numbers as levels: bins with equally many learned rows.

    Examples
    --------
    >>> learned = Columns(["a"], np.array([[1.0], [2.0], [3.0], [4.0]]))
    >>> halves = bin_values(2)(learned)
    >>> halves(Columns(["a"], np.array([[2.4], [2.6], [9.0], [np.nan]]))).values.T.tolist()
    [[0, 1, 1, None]]
    """

    def prepare(learned: Columns) -> Transform:
        column_edges = [_bin_edges(column, bins) for column in learned.values.T]

        def transform(table: Columns) -> Columns:
            values = np.empty(table.values.shape, dtype=object)
            for j, edges in enumerate(column_edges):
                cells = table.values[:, j]
                values[:, j] = cells if edges is None else _bin_indices(table, j, edges)
            return Columns(table.names, values)

        return transform

    return prepare


def _bin_edges(column: NDArray[np.float64], bins: int) -> NDArray[np.float64] | None:
    """Return the upper ends of bins; None for a column that is not numeric."""
    if not all(isinstance(value, float) for value in column.tolist()):
        return None
    numbers = column.astype(np.float64)
    numbers = numbers[~np.isnan(numbers)]
    if not len(numbers):
        return np.empty(0)
    return np.unique(np.quantile(numbers, np.arange(1, bins) / bins))


def _bin_indices(table: Columns, j: int, edges: NDArray[np.float64]) -> list[int | None]:
    numbers = Columns([table.names[j]], table.values[:, [j]]).numbers()[:, 0]
    indices = np.searchsorted(edges, numbers, side="right").tolist()
    is_missing = np.isnan(numbers).tolist()
    return [None if missing else k for missing, k in zip(is_missing, indices, strict=True)]


def scale_values(learned: Columns) -> Transform:
    """Return the transform that maps the smallest and largest learned value to 0 and 1."""
    if learned.values.dtype == object:
        raise ConfigError("data.scale: only numbers can be scaled; the table contains text")
    numbers = learned.values[~np.isnan(learned.values)]
    low, high = (numbers.min(), numbers.max()) if len(numbers) else (0.0, 0.0)
    if not high > low:
        raise ConfigError(
            "data.scale: all values are equal, so they cannot be scaled; set data.scale to none"
        )
    return lambda table: Columns(table.names, (table.numbers() - low) / (high - low))


@dataclass(frozen=True)
class Examples:
    """Rows and their labels.

    Attributes
    ----------
    name
        The name of the table, for titles.
    table
        The n rows.
    labels
        The n labels.
    shape
        Height and width if rows are images.
    text
        For each column of text, the first cell that is not a number, and its location.
    prepare
        The preparation of all rows, which is fitted to the learned rows.
    notes
        Notes on the table for the user.
    """

    name: str
    table: Columns
    labels: list[Any]
    shape: tuple[int, int] | None = None
    text: Mapping[Hashable, str] = field(default_factory=dict)
    prepare: Preparation = keep_values
    notes: list[str] = field(default_factory=list)

    @property
    def classes(self) -> list[Any]:
        """The labels that occur, sorted."""
        return sorted(set(self.labels), key=lambda label: (type(label).__name__, label))

    def describe_unknown(self, feature: Any) -> str:
        """Return the error text for a feature that the table does not have."""
        names = ", ".join(str(name) for name in self.table.names[:20])
        return f"{feature!r:.80} is none of the features ({names})"


def read_examples(config: TableConfig | IdxConfig | BundledConfig) -> Examples:
    """Read the table of a configuration.

    Raises
    ------
    CorpusError
        If the table cannot be read, naming file and line.
    ConfigError
        If a configured column or class does not occur.
    """
    if isinstance(config, TableConfig):
        examples = _read_table(config)
    elif isinstance(config, IdxConfig):
        examples = _read_idx(config)
    else:
        examples = _load_bundled(config)
    if config.classes is not None:
        examples = _select_classes(examples, set(config.classes))
    if config.bins is not None and config.scale != "none":
        raise ConfigError("data.scale and data.bins cannot be combined; leave one of them out")
    if config.bins is not None:
        examples = replace(examples, prepare=bin_values(config.bins))
    if config.scale == "min-max":
        examples = replace(examples, prepare=scale_values)
    if len(examples.labels) < 2:
        raise CorpusError(
            f"{examples.name}: rows: {len(examples.labels)}; a split needs at least 2"
        )
    if len(examples.classes) < 2:
        raise CorpusError(
            f"{examples.name}: all labels are {examples.labels[0]!r:.80}; add rows of another class"
        )
    return examples


def _select_classes(examples: Examples, wanted: set[str]) -> Examples:
    labels = {str(label) for label in examples.labels}
    if not wanted <= labels:
        absent = min(wanted - labels)
        label_list = ", ".join(sorted(labels)[:20])
        raise ConfigError(f"data.classes: {absent!r:.80} is none of the labels ({label_list})")
    rows = np.flatnonzero([str(label) in wanted for label in examples.labels])
    selected = [examples.labels[i] for i in rows.tolist()]
    return replace(examples, table=examples.table.select(rows), labels=selected)


@dataclass(frozen=True)
class _Cells:
    """The cells of a table, and the location of each."""

    path: Path
    names: list[str]
    rows: list[list[str]]
    lines: list[int]
    is_decimal_comma: bool | None
    is_transposed: bool = False
    column_lines: tuple[int, ...] = ()

    def location(self, row: int, column: int) -> str:
        """Return the file and line of a cell."""
        line = self.column_lines[column] if self.is_transposed else self.lines[row]
        return f"{self.path.name}:{line}"


def _read_table(config: TableConfig) -> Examples:
    """Return the examples of a tabular file, with notes on odd columns."""
    cells = _read_cells(config)
    missing = MISSING if config.missing is None else frozenset(config.missing)
    config = _with_names(config, cells.names)
    label, names = _choose_names(config, cells.names)
    text: dict[Hashable, str] = {}
    numbers_or_text = []
    used_names = {label, *names}
    notes = [
        f"the column {name!r:.80} has no name, and is left out; to use it, name it in the file"
        for name in cells.names
        if config.columns is None and name not in used_names
    ]
    column_indices = {name: column for column, name in enumerate(cells.names)}
    for name in names:
        column_index = column_indices[name]
        column = _Column(cells, column_index, missing)
        values, odd_row = column.read(name in config.text)
        numbers_or_text.append(values)
        if odd_row is not None:
            cell = cells.rows[odd_row][column_index]
            text[name] = f"{cells.location(odd_row, column_index)}: {cell!r:.80}"
            unit = column.unit()
            if (column.number_count or unit) and name not in config.text:
                hint = f", but a number with {unit!r}; remove it from all cells" if unit else ""
                hint += ', or set data.decimal: "," if it is a decimal comma' if unit == "," else ""
                notes.append(
                    f"the column {name!r:.80} is read as text: {cell!r:.80} "
                    f"({cells.location(odd_row, column_index)}) is not a number{hint}"
                )
        elif config.columns is None and column.counts_rows():
            notes.append(
                f"the column {name!r:.80} counts the rows, and is read as a feature; name the "
                "other columns in data.columns to leave it out"
            )
    label_index = cells.names.index(label)
    labels = [row[label_index] for row in cells.rows]
    for row_index, value in enumerate(labels):
        if value in missing:
            location = cells.location(row_index, label_index)
            hint = f"; {value!r} stands for a missing value (data.missing)" if value else ""
            raise CorpusError(f"{location}: no label in the column {label!r:.80}{hint}")
    problem = describe_wrong_labels(labels[:HEAD_ROWS], label)
    if problem:
        raise CorpusError(f"{cells.path}: {problem}; set data.label to the column of the classes")
    table = Columns(list(names), np.column_stack(numbers_or_text))
    return Examples(cells.path.name, table, labels, text=text, notes=notes)


def _with_names(config: TableConfig, known_names: list[str]) -> TableConfig:
    """Return the configuration with the columns named as in the table, whose case can differ."""

    def table_name(name: str) -> str:
        index = find_name(known_names, name)
        return name if index is None else known_names[index]

    return config.with_changes(
        label=None if config.label is None else table_name(config.label),
        columns=None if config.columns is None else tuple(map(table_name, config.columns)),
        text=tuple(map(table_name, config.text)),
    )


def _choose_names(config: TableConfig, known_names: list[str]) -> tuple[str, tuple[str, ...]]:
    """Return the name of the label column and the names of the feature columns."""
    named = [name for name in known_names if not _UNNAMED.fullmatch(name)]
    if len(named) < 2:  # a label without features
        named = known_names
    label = named[-1] if config.label is None else config.label
    names = tuple(name for name in named if name != label)
    if config.columns is not None:
        names = config.columns
        if not names or len(set(names)) != len(names):
            raise ConfigError("data.columns: expected at least one name, and each only once")
    distinct_names = set(known_names)  # a table can have 100,000 columns
    for key, wanted in (("label", (label,)), ("columns", names), ("text", config.text)):
        for name in wanted:
            if name not in distinct_names:
                name_list = ", ".join(known_names[:20])
                raise ConfigError(
                    f"data.{key}: {config.path} has no column {name!r:.80} (it has {name_list})"
                )
    if label in names:
        raise ConfigError(
            f"data.columns: {label!r:.80} is the label column and cannot be a feature"
        )
    return label, names


def _read_cells(config: TableConfig) -> _Cells:
    """Read the cells of one file or of several with the same header."""
    paths = (config.path,) if isinstance(config.path, str) else config.path
    parts = []
    for name in paths:
        path = as_regular_file(Path(name).expanduser())
        has_header = True if config.transposed else config.header
        wanted = [name for name in (config.label, *(config.columns or ())) if name is not None]
        is_numbered = bool(wanted) and all(name.isdecimal() for name in wanted)
        table = open_table(
            path,
            delimiter=config.delimiter,
            has_header=has_header,
            required_names=() if is_numbered or config.transposed else wanted,
        )
        parts.append((table, _read_rows(table)))
    first = parts[0][0]
    for table, _ in parts:
        if table.names != first.names:
            raise CorpusError(f"{table.path}: its columns are not those of {first.path}")
    is_decimal_comma = None if config.decimal is None else config.decimal == ","
    if is_decimal_comma is None and (first.format != "csv" or first.delimiter == ","):
        is_decimal_comma = False
    rows = [row for _, part in parts for row in part]
    names = _check_names(first)
    cells = [[cell.strip() for cell in row.cells] for row in rows]
    lines = [row.line for row in rows]
    if not config.transposed:
        return _Cells(first.path, names, cells, lines, is_decimal_comma)
    return _transpose(first.path, names, cells, lines, is_decimal_comma)


def _read_rows(table: Table) -> list[TableRow]:
    """Read all rows; raise CorpusError for one that cannot be read."""
    rows = []
    cell_count = 0
    for row in table.rows():
        if row.problem:
            raise CorpusError(row.problem)
        cell_count += len(row.cells)
        if cell_count > MAX_CELLS:
            raise CorpusError(f"{table.path}:{row.line}: more than {MAX_CELLS:,} cells")
        if any("\0" in cell for cell in row.cells):
            raise CorpusError(f"{table.path}:{row.line}: not text: it contains a zero byte")
        rows.append(row)
    return rows


def _check_names(table: Table) -> list[str]:
    names = table.names
    if len(set(names)) != len(names):
        duplicate = Counter(names).most_common(1)[0][0]
        raise CorpusError(f"{table.path}:1: the column {duplicate!r:.80} occurs twice")
    if len(names) < 2:
        raise CorpusError(
            f"{table.path}:1: one column: expected features and a label; if the delimiter is "
            "unusual, set data.delimiter"
        )
    return names


def _transpose(
    path: Path,
    names: list[str],
    rows: list[list[str]],
    lines: list[int],
    is_decimal_comma: bool | None,
) -> _Cells:
    """Return the cells of a table that has a feature in each row and an example in each column."""
    features = [row[0] for row in rows]
    repeated = {name for name in features if features.count(name) > 1} | {names[0]} & {*features}
    if repeated:
        raise CorpusError(
            f"{path}: the name {min(repeated)!r:.80} occurs twice in the first column of the "
            "transposed table; rename one"
        )
    examples = [[row[j] for row in rows] + [names[j]] for j in range(1, len(names))]
    return _Cells(
        path,
        [*features, names[0]],
        examples,
        [1] * len(examples),
        is_decimal_comma,
        True,
        (*lines, 1),
    )


class _Column:
    """One column of cells, read as numbers or as text."""

    def __init__(self, cells: _Cells, index: int, missing: Collection[str]) -> None:
        self.cells = cells
        self.index = index
        self.missing = missing
        self.column = [row[index] for row in cells.rows]
        present = [cell for cell in self.column if cell not in missing]
        is_comma = cells.is_decimal_comma
        # the cells have decimal commas: some have a comma, none has a decimal point
        if is_comma is None:
            is_comma = any("," in cell for cell in present) and all(
                _DECIMAL_COMMA.match(cell) for cell in present if "," in cell or "." in cell
            )
        self.is_decimal_comma = is_comma
        self.number_count = sum(self.number(cell) is not None for cell in present)
        self.present_count = len(present)

    def number(self, cell: str) -> float | None:
        """Return the number in a cell, None if it is not one."""
        if self.is_decimal_comma and _DECIMAL_COMMA.match(cell):
            cell = cell.replace(".", "").replace(",", ".")
        try:
            number = float(cell)
        except ValueError:
            if not _FORTRAN_DOUBLE.fullmatch(cell.strip()):
                return None
            number = float(cell.upper().replace("D", "E"))
        return number if abs(number) <= LARGEST and "_" not in cell else None

    def unit(self) -> str:
        """Return the sign or unit next to each number, or within it, such as "%"; "" without one.

        Names of levels, such as "size 1", repeat. Measured values rarely do. Numbers such as "#3",
        "3rd" and "3A" are names, too.
        """
        present = [cell.strip() for cell in self.column if cell not in self.missing]
        if len(present) < MIN_ROWS or 2 * len(set(present)) <= len(present):
            return ""
        units = set()
        for cell in present:
            match = _QUANTITY.fullmatch(cell)
            units.add(match[1].strip() + match[2].strip() if match else None)
            if None in units or len(units) > 1:
                return ""
        unit = units.pop()
        if not unit:
            return next(
                (sign for sign in _GROUP_SIGNS if any(sign in cell for cell in present)), ""
            )
        is_name = unit in _ORDINALS or (len(unit) == 1 and unit.isascii() and unit.isalpha())
        return "" if is_name else unit

    def counts_rows(self) -> bool:
        """Return whether the column numbers the rows: n, n + 1, n + 2, ... for any n."""
        first = self.number(self.column[0]) if len(self.column) >= MIN_ROWS else None
        if first is None or not first.is_integer():
            return False
        return all(self.number(cell) == first + row for row, cell in enumerate(self.column))

    def read(self, is_text: bool) -> tuple[NDArray[Any], int | None]:
        """Return the column as numbers, or as text with the row of the first cell of text.

        Missing values are NaN or None.

        Raises
        ------
        CorpusError
            If most cells are numbers, but not all.
        """
        if not is_text and self.number_count == self.present_count:
            numbers = [
                math.nan if cell in self.missing else self.number(cell) for cell in self.column
            ]
            return np.array(numbers, dtype=np.float64), None
        odd_row = 0
        if not is_text:
            odd_row = next(
                row
                for row, cell in enumerate(self.column)
                if cell not in self.missing and self.number(cell) is None
            )
            if 2 * self.number_count > self.present_count:
                self._refuse(odd_row)
        values = np.empty(len(self.column), dtype=object)
        values[:] = [None if cell in self.missing else cell for cell in self.column]
        return values, odd_row

    def _refuse(self, row: int) -> None:
        name, cell = self.cells.names[self.index], self.column[row]
        raise CorpusError(
            f"{self.cells.location(row, self.index)}: {cell!r:.80} is not a number, but in the "
            f"column {name!r:.80} {self.number_count:,} of {self.present_count:,} cells are; "
            f"correct the cell, add {cell!r:.40} to data.missing, or add {name!r:.40} to data.text"
        )


def _read_idx(config: IdxConfig) -> Examples:
    if len(config.images) != len(config.labels):
        raise ConfigError(
            f"data.labels has {len(config.labels)} files, and data.images {len(config.images)}; "
            "name a file of labels for each file of images"
        )
    parts = [
        (_idx(Path(images), 3), _idx(Path(labels), 1))
        for images, labels in zip(config.images, config.labels, strict=True)
    ]
    for (images, labels), path in zip(parts, config.labels, strict=True):
        if len(images) != len(labels):
            raise CorpusError(f"{path}: {len(labels)} labels, but {len(images)} images")
    for (images, _), path in zip(parts, config.images, strict=True):
        if images.shape[1:] != parts[0][0].shape[1:]:
            raise CorpusError(
                f"{path}: its images have another size than those of {config.images[0]}"
            )
    images = np.concatenate([images for images, _ in parts])
    labels = np.concatenate([labels for _, labels in parts]).tolist()
    _, height, width = images.shape
    return _images(Path(config.images[0]).name, images, labels, (height, width))


def _images(name: str, images: NDArray[Any], labels: list[Any], shape: tuple[int, int]) -> Examples:
    values = images.reshape(len(images), -1).astype(np.float64)
    return Examples(name, Columns(list(range(values.shape[1])), values), labels, shape)


def _idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """Return the array of bytes in an IDX file, after a check that the file is complete."""
    path = path.expanduser()
    with (
        convert_os_errors(CorpusError, f"{path}: cannot be read", EOFError, ValueError),
        open_decompressed(path) as file,
    ):
        return _idx_values(file, path, dimensions)


def _idx_values(file: BinaryIO, path: Path, dimensions: int) -> NDArray[np.uint8]:
    head = file.read(4)
    if head != bytes((0, 0, 8, dimensions)):
        raise CorpusError(f"{path}: not an IDX file of bytes with {dimensions} dimensions")
    head = file.read(4 * dimensions)
    if len(head) != 4 * dimensions:
        raise CorpusError(f"{path}: the file is truncated in its header")
    shape = np.frombuffer(head, dtype=">u4")
    size = math.prod(int(n) for n in shape)
    if not 0 < size <= MAX_CELLS:
        raise CorpusError(f"{path}: its header announces {size:,} bytes, which is too many")
    data = file.read(size)
    if len(data) != size:
        raise CorpusError(f"{path}: the file is truncated: it has {len(data):,} of {size:,} bytes")
    if file.read(1):  # a read to the end verifies the checksum of compressed data, too
        raise CorpusError(
            f"{path}: the file is longer than the {size:,} bytes that its header announces"
        )
    return np.frombuffer(data, dtype=np.uint8).reshape([int(n) for n in shape])


def _load_bundled(config: BundledConfig) -> Examples:
    with require_extra("sklearn", "data.kind: 'bundled' needs scikit-learn"):
        from sklearn import datasets
    bunch = getattr(datasets, f"load_{config.name}")()
    labels = [str(bunch.target_names[k]) for k in bunch.target.tolist()]
    name = f"scikit-learn's {config.name.replace('_', ' ')}"
    if config.name == "digits":
        return _images(name, bunch.data, labels, (8, 8))
    features: list[Hashable] = [str(feature) for feature in bunch.feature_names]
    return Examples(name, Columns(features, np.asarray(bunch.data, dtype=np.float64)), labels)
