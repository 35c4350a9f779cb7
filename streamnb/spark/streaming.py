"""Learning from a stream, each distinct message once, into a mailbox's database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as Spark's users know it)
from pyspark.sql.types import BinaryType, StringType

from streamnb.mailbox.groups import Lesson
from streamnb.mailbox.store import Mailbox
from streamnb.spark.carry import LABEL, MESSAGE, POSITION, field_of

_QUERY = "sql.streaming.queryId"  # where Spark keeps the name that a checkpoint gives its query


def learn(
    stream: DataFrame,
    *,
    store: str,
    checkpoint: str,
    name: str | None = None,
    trigger: Mapping[str, Any] | None = None,
    source: str = "spark",
) -> Any:
    """Learn the messages of a stream, each distinct one once, and go on where it was left.

    Each micro-batch is learned by one task in one transaction of the database, which also holds the
    batch's number. A batch that comes twice (a task tried again, a driver that died before it wrote
    its checkpoint) is not learned twice, and a message that comes twice neither: the ledger knows
    both. Within a batch messages are learned by `position`, where there is one. A row whose label
    or message is null is passed over: it would stop the stream for ever. A task holds the messages
    of a batch: Spark's `maxFilesPerTrigger` and the like bound it.

    Parameters
    ----------
    stream : DataFrame
        A streaming one, with columns `label` (string) and `message` (binary or string).
    store : str
        The database: a file, where all tasks run on one host, or ``postgresql://...``.
    checkpoint : str
        Spark's own folder of what was read; it belongs to this database alone.
    name : str, default None
        Of the query, for Spark's pages.
    trigger : mapping, default None
        As `DataStreamWriter.trigger` wants it: ``{"availableNow": True}`` reads what there is and
        ends. None for Spark's own way.
    source : str, default "spark"
        What the ledger says of where the messages came from.

    Returns
    -------
    StreamingQuery
        It runs; Spark says how far it is (`lastProgress`), and why it ended (`exception`).

    Notes
    -----
    Where Spark cannot be asked for the query's own name (Spark Connect), batches are known by the
    path of the checkpoint. If you delete a checkpoint there, begin the next one at another path.
    """
    field_of(stream, LABEL, (StringType,))
    field_of(stream, MESSAGE, (BinaryType, StringType))
    placed = POSITION in stream.columns

    def learned(batch: DataFrame, number: int) -> None:
        query = _query_of(batch, checkpoint)
        task = _task(store, query, number, source)
        rows = batch.select(
            *([F.col(POSITION).cast("long").alias(POSITION)] if placed else []), LABEL, MESSAGE
        ).repartition(1)
        if placed:
            rows = rows.sortWithinPartitions(POSITION)
        rows.mapInArrow(task, "learned long").toArrow()

    writer = stream.writeStream.foreachBatch(learned).option("checkpointLocation", checkpoint)
    if name is not None:
        writer = writer.queryName(name)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    return writer.start()


def _query_of(batch: DataFrame, checkpoint: str) -> str:
    """What Spark calls the query: a new checkpoint is a new one."""
    try:
        found = batch.sparkSession.sparkContext.getLocalProperty(_QUERY)
    except (PySparkException, AttributeError):  # Spark Connect has no context
        found = None
    return found or checkpoint


def _task(store: str, query: str, number: int, source: str) -> Any:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lessons = []  # all of them before the transaction: others would wait for Spark
        for batch in batches:
            columns = (batch.column(of).to_pylist() for of in (MESSAGE, LABEL))
            for message, label in zip(*columns, strict=True):
                if message is not None and label is not None:
                    data = message.encode() if isinstance(message, str) else message
                    lessons.append(Lesson(data, label))
        with Mailbox(store) as mailbox:
            new = mailbox.learn_batch(lessons, query, number, source)
        yield pa.RecordBatch.from_arrays([pa.array([new])], names=["learned"])

    return task
