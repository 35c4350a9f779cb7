"""Exact prequential evaluation on Spark, and the figures of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as Spark's users know it)
from pyspark.sql.types import DoubleType, IntegerType, LongType, StructField, StructType

from streamnb import partial
from streamnb.evaluate import Judged, Summary, Tally
from streamnb.partial.pieces import check_parts
from streamnb.spark import carry
from streamnb.spark.carry import BLOCK, LABEL, LABELS, PIECE, POSITION

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
    carry.check_whole("block", block)
    carry.check_whole("delay", delay, lowest=0)
    check_parts(parts)
    plan = partial.plan_of(learner)
    partial.check_sums(partial.fresh(plan))
    rows = carry.rows_of(frame, learner)
    cut = partial.Blocks(block, delay)
    if delay:
        carry.numbered(rows, "delay")  # with gaps, nobody knows how many messages later that is
    # Rounded down, also below zero, where `div` alone rounds up.
    places = [f"({POSITION} + {later}L)" for later in (0, delay)]
    numbers = [F.expr(f"({at} - pmod({at}, {block}L)) div {block}L") for at in places]
    wanted = F.explode(F.array_distinct(F.array(*numbers))) if delay else numbers[0]
    blocks = rows.withColumn(BLOCK, wanted)
    label = carry.field_of(frame, LABEL, LABELS).dataType
    types = {POSITION: LongType(), "judge": label, "given": label}
    types |= dict.fromkeys(_FIGURES, DoubleType())
    types |= {"classes": IntegerType(), "positive": label}
    schema = StructType([StructField(name, of) for name, of in types.items()])
    counts = blocks.groupBy(BLOCK).applyInArrow(_counted(plan, cut, parts), PIECE)
    ranges = counts.repartition("view", "part").sortWithinPartitions("view", "part", BLOCK)
    prefix = ranges.groupBy("view", "part").applyInArrow(_scanned(plan), PIECE)
    both = blocks.groupBy(BLOCK).cogroup(prefix.groupBy(BLOCK))
    return both.applyInArrow(_replayed(plan, cut, positive, schema), schema)


def _counted(plan: str, cut: partial.Blocks, parts: int) -> Any:
    """A task that counts what a block learns and asks for."""

    def counted(key: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = key[0].as_py()
        pieces = partial.count_block(plan, number, cut, carry.rows_in(batches), parts)
        return carry.batch_of(pieces, number)

    return counted


def _scanned(plan: str) -> Any:
    """A task that adds up a range of fingerprints, block after block."""

    def scanned(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        block = 0

        def pieces() -> Iterator[partial.Piece]:
            nonlocal block
            for batch in batches:
                numbers = batch.column(BLOCK).to_pylist()
                for number, piece in zip(numbers, carry.pieces_in([batch]), strict=True):
                    block = number
                    yield piece

        # One for each piece, before the next is taken.
        for prefix in partial.prefixes(plan, pieces()):
            yield from carry.batch_of([prefix], block)

    return scanned


def _replayed(plan: str, cut: partial.Blocks, positive: str | None, schema: StructType) -> Any:
    """A task that replays a block from what was learned before it."""
    types = {field.name: carry.arrow_type(field.dataType) for field in schema}

    def replayed(key: Any, messages: pa.Table, before: pa.Table) -> pa.Table:
        prefix, rows = carry.pieces_in(before.to_batches()), carry.rows_in(messages.to_batches())
        steps = [
            (one.position, one.label, one.predicted, *one.judged, one.positive)
            for one in partial.replay(plan, key[0].as_py(), cut, prefix, rows, positive)
        ]
        columns = zip(*steps, strict=True) if steps else [[]] * len(types)
        arrays = [pa.array(column, of) for column, of in zip(columns, types.values(), strict=True)]
        return pa.table(arrays, names=list(types))

    return replayed


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
    return TypeAdapter(Summary).validate_json(rows[0]["summary"])
