"""How rows, pieces and models travel: the columns they are, and what a task makes of them."""

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
from pyspark.sql import functions as F  # noqa: N812 (as Spark's users know it)
from pyspark.sql import types as T  # noqa: N812 (as Spark's users know it)

from streamnb.errors import CorpusError
from streamnb.partial import Piece, Row
from streamnb.tables.base import TabularNB

POSITION, LABEL, MESSAGE, BLOCK = "position", "label", "message", "block"
_ARROW = {
    T.StringType: pa.string(),
    T.LongType: pa.int64(),
    T.IntegerType: pa.int32(),
    T.BooleanType: pa.bool_(),
    T.DoubleType: pa.float64(),
}
LABELS = (T.StringType, T.LongType, T.IntegerType, T.BooleanType)
PIECE = "view int, part int, block long, data binary"
_PIECE = pa.schema(
    [("view", pa.int32()), ("part", pa.int32()), ("block", pa.int64()), ("data", pa.binary())]
)


def field_of(frame: DataFrame, name: str, kinds: Sequence[type[Any]]) -> T.StructField:
    """A column of a frame; ValueError where it is missing or of another type."""
    known = {field.name: field for field in frame.schema.fields}
    if name not in known:
        raise ValueError(f"there is no column {name!r}; there are {', '.join(known)}")
    field = known[name]
    if not isinstance(field.dataType, tuple(kinds)):
        expected = ", ".join(kind().simpleString() for kind in kinds)
        raise ValueError(
            f"column {name!r} is {field.dataType.simpleString()}, and must be {expected}"
        )
    return field


def arrow_type(column: T.DataType) -> pa.DataType:
    """The Arrow type of a column of labels or figures."""
    return _ARROW[type(column)]


def rows_of(
    frame: DataFrame,
    learner: Any,
    label: bool = True,
    position: bool = True,
    more: Sequence[str] = (),
) -> DataFrame:
    """The columns that a learner wants: place, label, and the message or all other columns.

    Raises
    ------
    ValueError
        Where a column is missing or of another type.
    """
    for name in more:
        if name not in frame.columns or name in (POSITION, MESSAGE):
            raise ValueError(f"column {name!r} is not there, or is no further one")
    first = [named(name) for name in more]
    if position:
        field_of(frame, POSITION, (T.LongType, T.IntegerType))
        first.append(F.col(POSITION).cast("long").alias(POSITION))
    if label:
        field_of(frame, LABEL, LABELS)
        first += [] if LABEL in more else [F.col(LABEL)]
    if isinstance(learner, TabularNB):
        names = [name for name in frame.columns if name not in (POSITION, LABEL, *more)]
        return frame.select(*first, F.struct(*map(named, names)).alias(MESSAGE))
    field_of(frame, MESSAGE, (T.BinaryType, T.StringType))
    return frame.select(*first, MESSAGE)


def check_whole(name: str, number: Any, lowest: int = 1) -> None:
    """Raise ValueError for what is no whole number, or too small a one."""
    if isinstance(number, bool) or not isinstance(number, int) or number < lowest:
        raise ValueError(f"{name}: a whole number, at least {lowest}, not {number!r}")


def named(name: str) -> Any:
    """The column of a name, whatever is in it."""
    return F.col(f"`{name.replace('`', '``')}`")


def rows_in(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """The rows that `rows_of` selected, as a task sees them."""
    for batch in batches:
        names = batch.schema.names
        columns: dict[str, Any] = {name: batch.column(name).to_pylist() for name in names}
        nothing = [None] * batch.num_rows
        labels = columns.get(LABEL)
        for position, y, x in zip(
            columns.get(POSITION, nothing), labels or nothing, columns[MESSAGE], strict=True
        ):
            if x is None or (labels and y is None) or (POSITION in names and position is None):
                raise CorpusError(
                    f"position {position}: its {LABEL}, {MESSAGE} or {POSITION} is null"
                )
            yield Row(position, y, x)  # a frame need not say where its rows stand


def numbered(rows: DataFrame, what: str) -> tuple[int, int, int]:
    """The first and last position of some rows, and how many they are; 0, -1 and 0 of none.

    Raises
    ------
    ValueError
        Where there are gaps between the positions; it begins with `what` asked for none.
    """
    place = F.col(POSITION)
    (found,) = rows.agg(F.min(place), F.max(place), F.count("*")).toArrow().to_pylist()
    low, high, n = found.values()
    if n and high - low + 1 != n:
        raise ValueError(
            f"{what}: {n} messages have positions from {low} to {high}: number them anew, "
            "without gaps"
        )
    return (low, high, n) if n else (0, -1, 0)


def in_rising_order(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows, in the order that they must be in; CorpusError where two have one place."""
    last: int | None = None
    for row in rows:
        if last is not None and row.position <= last:
            raise CorpusError(f"position {row.position}: two messages have it")
        last = row.position
        yield row


def batch_of(pieces: Iterable[Piece], block: int = 0) -> Iterator[pa.RecordBatch]:
    """Pieces as rows, one a batch: they are large."""
    for view, part, data in pieces:
        yield pa.RecordBatch.from_pylist(
            [{"view": view, "part": part, "block": block, "data": data}], schema=_PIECE
        )


def pieces_in(batches: Iterable[Any]) -> Iterator[Piece]:
    """The pieces among rows."""
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("view", "part", "data"))
        for view, part, data in zip(*columns, strict=True):
            yield Piece(view, part, data)


_folder: list[str] = []


def sent(session: SparkSession, learner: Any) -> str:
    """Send a model to all executors, once; gives the name that `loaded` knows it by."""
    data = BytesIO()
    learner.save(data)
    name = f"streamnb-{sha256(data.getvalue()).hexdigest()[:32]}.snb"
    if not _folder:
        _folder.append(tempfile.mkdtemp(prefix="streamnb-"))  # tasks may be run until the end
        atexit.register(shutil.rmtree, _folder[0], ignore_errors=True)
    path = Path(_folder[0]) / name
    path.write_bytes(data.getvalue())
    session.addArtifacts(str(path), file=True)
    return name


_loaded: dict[str, Any] = {}  # the model that this process used last: it has many tasks


def loaded(name: str, load: Callable[[str], Any], shared: bool = True) -> Any:
    """The model that `sent` sent, in a task; where tasks share it, it must not be taught."""
    if not shared:
        return load(SparkFiles.get(name))
    if name not in _loaded:
        _loaded.clear()
        _loaded[name] = load(SparkFiles.get(name))
    return _loaded[name]
