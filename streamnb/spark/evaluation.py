"""Exact prequential evaluation on Spark, and the figures of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as Spark's users know it)
from pyspark.sql.types import DoubleType, IntegerType, LongType, StructField, StructType

from streamnb.evaluate import Judged, Summary, Tally
from streamnb.evaluate.summary import Bin, ClassFigures
from streamnb.partial import Blocks, check_sums, count_block, fresh, plan_of, prefixes, replay
from streamnb.spark.carry import (
    BLOCK,
    LABEL,
    LABELS,
    PIECE,
    POSITION,
    arrow_type,
    batch_of,
    field_of,
    numbered,
    pieces_in,
    rows_in,
    rows_of,
)

__all__ = ["prequential", "summary"]

_FIGURES = ("score", "loss", "brier", "claim", "confidence")


def prequential(
    frame: DataFrame,
    learner: Any,
    *,
    block: int = 4096,
    parts: int = 8,
    delay: int = 0,
    positive: str | None = None,
) -> DataFrame:
    """Judge every message as a model does that learned all earlier ones, and no later one.

    It is what one process finds that goes through the stream in the order of the positions, to the
    last digit. Each block counts what it learns; each range of fingerprints adds up what the blocks
    before each block learned of what that one asks for; and each block replays from there: a
    parallel prefix sum.

    Parameters
    ----------
    frame : DataFrame
        As for `fit`; `position` must be there, and no two rows may share one. With `delay`
        positions must have no gaps.
    learner : Classifier or model of rows
        What to evaluate, untaught. It must be a sum: `fit` says which are.
    block : int, default 4096
        Positions a block; a task holds the messages of one.
    parts : int, default 8
        Ranges of fingerprints: a task holds the table of one.
    delay : int, default 0
        How many messages later each label comes.
    positive : str, default None
        The class that scores are for; None for what `streamnb replay` takes.

    Returns
    -------
    DataFrame
        `position`, `judge` (the true label), `given` (null before anything was learned), `score`,
        and what `summary` needs: `loss`, `brier`, `claim` (probability of the positive class),
        `confidence` (of the class given), `classes` (known by then) and `positive`.

    Raises
    ------
    ValueError
        For a model that is no sum, or a column that is missing or of another type.
    """
    for name, number, lowest in (("block", block, 1), ("parts", parts, 1), ("delay", delay, 0)):
        if not isinstance(number, int) or number < lowest:
            raise ValueError(f"{name}: a whole number, at least {lowest}, not {number!r}")
    plan = plan_of(learner)
    check_sums(fresh(plan))
    rows = rows_of(frame, learner)
    cut = Blocks(block, delay)
    if delay:
        numbered(rows, "delay")  # how many messages later a label comes, gaps would hide
    # Rounded down, also below zero, where `div` alone rounds up.
    places = [f"({POSITION} + {later}L)" for later in (0, delay)]
    numbers = [F.expr(f"({at} - pmod({at}, {block}L)) div {block}L") for at in places]
    wanted = F.explode(F.array_distinct(F.array(*numbers))) if delay else numbers[0]
    blocks = rows.withColumn(BLOCK, wanted)
    label = field_of(frame, LABEL, LABELS).dataType
    schema = StructType(
        [
            StructField(POSITION, LongType()),
            StructField("judge", label),
            StructField("given", label),
            *(StructField(name, DoubleType()) for name in _FIGURES),
            StructField("classes", IntegerType()),
            StructField("positive", label),
        ]
    )
    of_label = arrow_type(label)
    types = [pa.int64(), of_label, of_label, *[pa.float64()] * len(_FIGURES), pa.int32(), of_label]

    def counted(key: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = key[0].as_py()
        return batch_of(count_block(plan, number, cut, rows_in(batches), parts), number)

    def scanned(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers: list[int] = []

        def pieces() -> Iterator[Any]:
            for batch in batches:
                for number, piece in zip(
                    batch.column(BLOCK).to_pylist(), pieces_in([batch]), strict=True
                ):
                    numbers.append(number)
                    yield piece

        for piece in prefixes(plan, pieces()):
            yield from batch_of([piece], numbers[-1])

    def replayed(key: Any, messages: pa.Table, before: pa.Table) -> pa.Table:
        found = list(
            replay(
                plan,
                key[0].as_py(),
                cut,
                pieces_in(before.to_batches()),
                rows_in(messages.to_batches()),
                positive,
            )
        )
        columns = [
            [one.position for one in found],
            [one.label for one in found],
            [one.predicted for one in found],
            *([getattr(one.judged, name) for one in found] for name in Judged._fields),
            [one.positive for one in found],
        ]
        return pa.table(
            [pa.array(column, of) for column, of in zip(columns, types, strict=True)],
            names=schema.names,
        )

    counts = blocks.groupBy(BLOCK).applyInArrow(counted, PIECE)
    ranges = counts.repartition("view", "part").sortWithinPartitions("view", "part", BLOCK)
    prefix = ranges.groupBy("view", "part").applyInArrow(scanned, PIECE)
    both = blocks.groupBy(BLOCK).cogroup(prefix.groupBy(BLOCK))
    return both.applyInArrow(replayed, schema)


def summary(steps: DataFrame, intervals: bool = True) -> Summary:
    """The figures that `streamnb replay` prints, of what `prequential` gave.

    One task goes through the steps in order, and takes some 300 bytes for each at its worst
    moment; only the figures come to the driver.

    Parameters
    ----------
    steps : DataFrame
        What `prequential` gave, whole.
    intervals : bool, default True
        Whether 95 % intervals are wanted: the run is resampled a thousand times.

    Returns
    -------
    Summary
        To the last digit that of one process.
    """

    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally = Tally()
        for batch in batches:
            columns = [
                batch.column(name).to_pylist()
                for name in ("judge", "given", "positive", *_FIGURES, "classes")
            ]
            for y, given, positive, *judged in zip(*columns, strict=True):
                if tally.positive is None and positive is not None:
                    tally.positive = positive
                tally.take(y, given, Judged(*judged))
        text = json.dumps(tally.summary(intervals).as_dict())
        yield pa.RecordBatch.from_arrays([pa.array([text])], names=["summary"])

    one = steps.repartition(1).sortWithinPartitions(POSITION).mapInArrow(told, "summary string")
    rows = one.toArrow().to_pylist()
    if not rows:  # there is not even a partition
        return Summary(0)
    found = json.loads(rows[0]["summary"])
    if found["accuracy_interval"] is not None:
        found["accuracy_interval"] = tuple(found["accuracy_interval"])
    found["classes"] = {y: ClassFigures(**of) for y, of in found["classes"].items()}
    found["reliability"] = [Bin(**of) for of in found["reliability"]]
    found["intervals"] = {name: tuple(of) for name, of in found["intervals"].items()}
    return Summary(**found)
