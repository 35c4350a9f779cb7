"""Conversion of rows, partial counts and models to and from Spark columns and files."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's usual alias)
from pyspark.sql import types as T  # noqa: N812 (Spark's usual alias)

from streamnb.errors import CorpusError
from streamnb.partial import LabelledRow, PartialCounts
from streamnb.tables.base import TabularNB

POSITION, LABEL, MESSAGE, BLOCK = "position", "label", "message", "block"
_ARROW_TYPES = {
    T.StringType: pa.string(),
    T.LongType: pa.int64(),
    T.IntegerType: pa.int32(),
    T.BooleanType: pa.bool_(),
    T.DoubleType: pa.float64(),
}
LABEL_TYPES: tuple[Any, ...] = (T.StringType, T.LongType, T.IntegerType, T.BooleanType)
PARTIAL_COUNTS = "view int, part int, block long, data binary"
_PARTIAL_COUNTS_SCHEMA = pa.schema(
    [("view", pa.int32()), ("part", pa.int32()), ("block", pa.int64()), ("data", pa.binary())]
)


def get_field(frame: DataFrame, name: str, types: Sequence[type[Any]]) -> T.StructField:
    """Return a column's field; ValueError if it is missing or of another type."""
    fields = {field.name: field for field in frame.schema.fields}
    if name not in fields:
        raise ValueError(f"there is no column {name!r}; there are {', '.join(fields)}")
    field = fields[name]
    if not isinstance(field.dataType, tuple(types)):
        expected = ", ".join(each().simpleString() for each in types)
        raise ValueError(f"column {name!r} is {field.dataType.simpleString()}, expected {expected}")
    return field


def arrow_type(column: T.DataType) -> pa.DataType:
    """Return the Arrow type of a column of labels or figures."""
    return _ARROW_TYPES[type(column)]


def select_rows(
    frame: DataFrame,
    learner: Any,
    label: bool = True,
    position: bool = True,
    extra: Sequence[str] = (),
) -> DataFrame:
    """Select the columns that a learner needs, for `read_rows`.

    Parameters
    ----------
    frame
        The rows.
    learner
        A Classifier reads the column `message`. A tabular model reads all other columns, as a
        struct.
    label, position
        Whether to select these columns.
    extra
        Further columns to select.

    Raises
    ------
    ValueError
        If a column is missing or of another type.
    """
    for name in extra:
        if name not in frame.columns:
            raise ValueError(f"there is no column {name!r}; there are {', '.join(frame.columns)}")
        if name in (POSITION, MESSAGE):
            raise ValueError(f"column {name!r} is used already and cannot be an extra column")
    columns = [column(name) for name in extra]
    if position:
        get_field(frame, POSITION, (T.LongType, T.IntegerType))
        columns.append(F.col(POSITION).cast("long").alias(POSITION))
    if label:
        get_field(frame, LABEL, LABEL_TYPES)
        columns += [] if LABEL in extra else [F.col(LABEL)]
    if isinstance(learner, TabularNB):
        names = [name for name in frame.columns if name not in (POSITION, LABEL, *extra)]
        return frame.select(*columns, F.struct(*map(column, names)).alias(MESSAGE))
    get_field(frame, MESSAGE, (T.BinaryType, T.StringType))
    return frame.select(*columns, MESSAGE)


def check_integer(name: str, value: Any, minimum: int = 1) -> None:
    """Raise ValueError unless a parameter is an integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ValueError(f"{name}: expected an integer of at least {minimum}, not {value!r}")


def column(name: str) -> Any:
    """Return the column of a name, which may contain any characters."""
    return F.col(f"`{name.replace('`', '``')}`")


def read_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[LabelledRow]:
    """Yield the rows of the record batches of a task.

    Position and label are None if they were not selected.

    Raises
    ------
    CorpusError
        If one of the columns has a null.
    """
    for batch in batches:
        names = batch.schema.names
        columns: dict[str, Any] = {name: batch.column(name).to_pylist() for name in names}
        nulls = [None] * batch.num_rows
        labels = columns.get(LABEL)
        for position, y, x in zip(
            columns.get(POSITION, nulls), labels or nulls, columns[MESSAGE], strict=True
        ):
            if x is None or (labels and y is None) or (POSITION in names and position is None):
                raise CorpusError(
                    f"position {position}: its {LABEL}, {MESSAGE} or {POSITION} is null"
                )
            yield LabelledRow(position, y, x)


def position_range(rows: DataFrame, parameter: str) -> tuple[int, int, int]:
    """Return the first and last position and the number of rows; 0, -1 and 0 without rows.

    Raises
    ------
    ValueError
        If there are gaps between the positions; the message names the parameter that needs them.
    """
    position = F.col(POSITION)
    (result,) = rows.agg(F.min(position), F.max(position), F.count("*")).toArrow().to_pylist()
    low, high, n = result.values()
    if n and high - low + 1 != n:
        raise ValueError(
            f"{parameter}: {n} messages have positions from {low} to {high}: renumber them "
            "without gaps"
        )
    return (low, high, n) if n else (0, -1, 0)


def to_batches(partial_counts: Iterable[PartialCounts], block: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield partial counts as record batches of one row each, because rows are large."""
    for view, part, data in partial_counts:
        yield pa.RecordBatch.from_pylist(
            [{"view": view, "part": part, "block": block, "data": data}],
            schema=_PARTIAL_COUNTS_SCHEMA,
        )


def from_batches(batches: Iterable[Any]) -> Iterator[PartialCounts]:
    """Yield the partial counts of record batches."""
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("view", "part", "data"))
        for view, part, data in zip(*columns, strict=True):
            yield PartialCounts(view, part, data)


_model_folder: list[str] = []


def broadcast_model(session: SparkSession, learner: Any) -> str:
    """Send a model file to each executor once; return the name for `load_model`."""
    data = BytesIO()
    learner.save(data)
    name = f"streamnb-{sha256(data.getvalue()).hexdigest()[:32]}.snb"
    if not _model_folder:
        # The file stays until the program ends, because tasks can run until then.
        _model_folder.append(tempfile.mkdtemp(prefix="streamnb-"))
        atexit.register(shutil.rmtree, _model_folder[0], ignore_errors=True)
    path = Path(_model_folder[0]) / name
    path.write_bytes(data.getvalue())
    session.addArtifacts(str(path), file=True)
    return name


_last_model: dict[str, Any] = {}  # a worker process runs many tasks with the same model


def load_model(name: str, load: Callable[[str], Any], shared: bool = True) -> Any:
    """Return a broadcast model, in a task.

    Parameters
    ----------
    name
        The name from `broadcast_model`.
    load
        Function that reads a model file.
    shared
        True if the model can come from an earlier task, so it must not be trained.
    """
    if not shared:
        return load(SparkFiles.get(name))
    if name not in _last_model:
        _last_model.clear()
        _last_model[name] = load(SparkFiles.get(name))
    return _last_model[name]
