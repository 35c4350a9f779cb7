"""Exact prequential evaluation on Spark, and its summary."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's usual alias)
from pyspark.sql.types import DoubleType, IntegerType, LongType, StructField, StructType

from streamnb import partial
from streamnb.evaluate import RunningMetrics, ScoredPrediction, Summary
from streamnb.partial.partial_counts import check_parts
from streamnb.spark import arrow_io
from streamnb.spark.arrow_io import BLOCK, LABEL, LABEL_TYPES, PARTIAL_COUNTS, POSITION

_FIGURES = ("score", "loss", "brier", "p_positive", "p_predicted")


def prequential(
    frame: DataFrame,
    learner: Any,
    *,
    block: int = 4096,
    parts: int = 8,
    delay: int = 0,
    positive: str | None = None,
) -> DataFrame:
    """Classify every message with a model that learned all earlier messages and no later one.

    The result is exactly that of one process that reads the stream by position. It has
    three steps (a parallel prefix sum). Each block counts the messages that it learns. For each
    block, the counts of all earlier blocks are summed, for the features that the block needs. Each
    block is then replayed from these sums.

    Parameters
    ----------
    frame : DataFrame
        As for `fit`. The column `position` is required, and positions must be unique; with
        `delay` they must have no gaps.
    learner : Classifier or tabular model
        The untrained model to evaluate. Its counts must be sums (see `fit`).
    block : int, default 4096
        Positions in a block. A task has the messages of one block in memory.
    parts : int, default 8
        Number of ranges of fingerprints. A task has the counts of one range in memory.
    delay : int, default 0
        Number of messages after which a label is learned.
    positive : str, default None
        The class whose log-odds the scores are; None for the choice of `streamnb replay`.

    Returns
    -------
    DataFrame
        `position`, `label`, `predicted` (null before anything was learned), `score`, and the
        columns that `summary` needs: `loss`, `brier`, `p_positive` and `p_predicted`
        (probabilities of the positive and of the predicted class), `classes` (number known) and
        `positive`.

    Raises
    ------
    ValueError
        If the model's counts cannot be added, or a column is missing or has another type.
    """
    arrow_io.check_integer("block", block)
    arrow_io.check_integer("delay", delay, minimum=0)
    check_parts(parts)
    spec = partial.spec_of(learner)
    partial.check_sums(partial.new_model(spec))
    rows = arrow_io.select_rows(frame, learner)
    layout = partial.BlockLayout(block, delay)
    if delay:
        arrow_io.position_range(rows, "delay")
    # Round down, even below zero, where `div` alone rounds up.
    positions = [f"({POSITION} + {offset}L)" for offset in (0, delay)]
    indices = [
        F.expr(f"({position} - pmod({position}, {block}L)) div {block}L") for position in positions
    ]
    block_index = F.explode(F.array_distinct(F.array(*indices))) if delay else indices[0]
    blocks = rows.withColumn(BLOCK, block_index)
    label_type = arrow_io.get_field(frame, LABEL, LABEL_TYPES).dataType
    types = {POSITION: LongType(), LABEL: label_type, "predicted": label_type}
    types |= dict.fromkeys(_FIGURES, DoubleType())
    types |= {"classes": IntegerType(), "positive": label_type}
    schema = StructType([StructField(name, each) for name, each in types.items()])
    counts = blocks.groupBy(BLOCK).applyInArrow(_count_task(spec, layout, parts), PARTIAL_COUNTS)
    ranges = counts.repartition("view", "part").sortWithinPartitions("view", "part", BLOCK)
    prefixes = ranges.groupBy("view", "part").applyInArrow(_prefix_task(spec), PARTIAL_COUNTS)
    pairs = blocks.groupBy(BLOCK).cogroup(prefixes.groupBy(BLOCK))
    return pairs.applyInArrow(_replay_task(spec, layout, positive, schema), schema)


def _count_task(spec: str, layout: partial.BlockLayout, parts: int) -> Any:
    """Return the task that counts a block, and lists the features that its predictions need."""

    def run(key: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        block = key[0].as_py()
        rows = arrow_io.read_rows(batches)
        return arrow_io.to_batches(partial.count_block(spec, block, layout, rows, parts), block)

    return run


def _prefix_task(spec: str) -> Any:
    """Return the task that sums a range of fingerprints, block after block."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        current_block = 0

        def partial_counts() -> Iterator[partial.PartialCounts]:
            nonlocal current_block
            for batch in batches:
                blocks = batch.column(BLOCK).to_pylist()
                for block, item in zip(blocks, arrow_io.from_batches([batch]), strict=True):
                    current_block = block
                    yield item

        # `prefix_sums` yields one item for each input before it reads the next input.
        for prefix in partial.prefix_sums(spec, partial_counts()):
            yield from arrow_io.to_batches([prefix], current_block)

    return run


def _replay_task(
    spec: str, layout: partial.BlockLayout, positive: str | None, schema: StructType
) -> Any:
    """Return the task that replays a block, starting from its prefix sums."""
    types = {field.name: arrow_io.arrow_type(field.dataType) for field in schema}

    def run(key: Any, messages: pa.Table, prefix_table: pa.Table) -> pa.Table:
        prefix = arrow_io.from_batches(prefix_table.to_batches())
        rows = arrow_io.read_rows(messages.to_batches())
        block = key[0].as_py()
        steps = [
            (step.position, step.label, step.predicted, *step.scored, step.positive)
            for step in partial.replay_block(spec, block, layout, prefix, rows, positive)
        ]
        columns = zip(*steps, strict=True) if steps else [[]] * len(types)
        arrays = [
            pa.array(column, type_) for column, type_ in zip(columns, types.values(), strict=True)
        ]
        return pa.table(arrays, names=list(types))

    return run


def summary(steps: DataFrame, intervals: bool = True) -> Summary:
    """Return the figures that `streamnb replay` prints, for the output of `prequential`.

    One task reads the steps in order and needs up to 300 bytes for each; only the figures are
    sent to the driver.

    Parameters
    ----------
    steps : DataFrame
        The whole output of `prequential`.
    intervals : bool, default True
        Whether to compute 95 % intervals, by resampling the run 1,000 times.

    Returns
    -------
    Summary
        The figures are exactly those of one process.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        metrics = RunningMetrics()
        for batch in batches:
            columns = [
                batch.column(name).to_pylist()
                for name in (LABEL, "predicted", "positive", *_FIGURES, "classes")
            ]
            for y, predicted, positive, *scored in zip(*columns, strict=True):
                if positive is not None:
                    metrics.positive = positive
                metrics.add(y, predicted, ScoredPrediction(*scored))
        text = json.dumps(metrics.summary(intervals).as_dict())
        yield pa.RecordBatch.from_arrays([pa.array([text])], names=["summary"])

    ordered = steps.repartition(1).sortWithinPartitions(POSITION)
    rows = ordered.mapInArrow(run, "summary string").toArrow().to_pylist()
    if not rows:  # without partitions no task runs
        return Summary(0)
    return TypeAdapter(Summary).validate_json(rows[0]["summary"])
