"""Training from a Spark stream into a mailbox's database, each distinct message once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's usual alias)
from pyspark.sql.types import BinaryType, StringType

from streamnb.mailbox.batch import LabelledMessage
from streamnb.mailbox.mailbox import Mailbox
from streamnb.spark.arrow_io import LABEL, MESSAGE, POSITION, get_field

_QUERY_ID = "sql.streaming.queryId"  # Spark's property with the query's id from the checkpoint


def learn(
    stream: DataFrame,
    *,
    store: str,
    checkpoint: str,
    name: str | None = None,
    trigger: Mapping[str, Any] | None = None,
    source: str = "spark",
) -> Any:
    """Learn each distinct message of a stream once, and continue from the checkpoint.

    One task learns each micro-batch in one transaction of the database, which also stores the
    batch's number. So a batch that runs twice is learned once. (A task may be retried, or a driver
    may die before its checkpoint.) A repeated message is learned once, too. Messages of a batch are
    learned by `position`, if there is one. Rows with a null label or message are skipped. A task
    has the messages of a batch in memory: limit them with options such as Spark's
    `maxFilesPerTrigger`.

    Parameters
    ----------
    stream : DataFrame
        A streaming frame with columns `label` (string) and `message` (binary or string).
    store : str
        The database: ``postgresql://...``, or a file if all tasks run on one host.
    checkpoint : str
        Spark's checkpoint folder, used for this database only.
    name : str, default None
        Name of the query in Spark's pages.
    trigger : mapping, default None
        Arguments of `DataStreamWriter.trigger`: ``{"availableNow": True}`` reads the available
        messages and stops. None for Spark's default.
    source : str, default "spark"
        Source of the messages in the ledger.

    Returns
    -------
    StreamingQuery
        The running query; see `lastProgress` and `exception`.

    Notes
    -----
    Spark Connect does not report the query's id, so the path of the checkpoint identifies batches.
    If you delete a checkpoint with Spark Connect, start the next one at another path.
    """
    get_field(stream, LABEL, (StringType,))
    get_field(stream, MESSAGE, (BinaryType, StringType))
    has_position = POSITION in stream.columns

    def learn_batch(batch: DataFrame, batch_id: int) -> None:
        run = _batch_task(store, _query_id(batch, checkpoint), batch_id, source)
        columns = [F.col(POSITION).cast("long").alias(POSITION)] if has_position else []
        rows = batch.select(*columns, LABEL, MESSAGE).repartition(1)
        if has_position:
            rows = rows.sortWithinPartitions(POSITION)
        rows.mapInArrow(run, "learned long").toArrow()

    writer = stream.writeStream.foreachBatch(learn_batch).option("checkpointLocation", checkpoint)
    if name is not None:
        writer = writer.queryName(name)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    return writer.start()


def _query_id(batch: DataFrame, checkpoint: str) -> str:
    """Return Spark's id of the query, which changes with a new checkpoint."""
    try:
        query_id = batch.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    except (PySparkException, AttributeError):  # Spark Connect has no context
        query_id = None
    return query_id or checkpoint


def _batch_task(store: str, query_id: str, batch_id: int, source: str) -> Any:
    """Return the task that learns one micro-batch."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        messages = []  # read before the transaction, which must not wait for Spark
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in (MESSAGE, LABEL))
            for message, label in zip(*columns, strict=True):
                if message is not None and label is not None:
                    data = message.encode() if isinstance(message, str) else message
                    messages.append(LabelledMessage(data, label))
        with Mailbox(store) as mailbox:
            learned = mailbox.learn_batch(messages, query_id, batch_id, source)
        yield pa.RecordBatch.from_arrays([pa.array([learned])], names=["learned"])

    return run
