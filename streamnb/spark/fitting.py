"""Training on Spark: exact if the counts are sums, on shards for other models, or by group."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's usual alias)
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from streamnb import partial
from streamnb.classifier import Classifier
from streamnb.partial.partial_counts import check_ascending, check_parts
from streamnb.partial.shards import STATE
from streamnb.spark import arrow_io
from streamnb.spark.arrow_io import BLOCK, LABEL_TYPES, MESSAGE, PARTIAL_COUNTS, POSITION

MIN_SHARD = 2000  # messages; smaller shards learn only the same frequent features
_HELD_OUT = 500  # messages that the merged model learns at the end

Learner = TypeVar("Learner")


def fit(
    frame: DataFrame,
    learner: Learner,
    *,
    parts: int = 8,
    memory: float = 512.0,
    min_count: float = 0.0,
    shards: int | None = None,
    rounds: int = 1,
) -> Learner:
    """Train a model on all rows of a frame.

    Without `shards`, the result is exactly that of one process that learns the rows by position,
    and does not depend on the partitions. With `shards`, it is an approximation for models that
    depend on the order of the messages.

    Parameters
    ----------
    frame : DataFrame
        Columns `label` (string, integer or boolean), `message` (binary or string), and
        optionally `position` (integer) in the stream. For a tabular model, all columns except
        `label` and `position` are features. Without `position`, classes are ordered by name.
    learner : Classifier or tabular model
        The model; only its parameters are used, and it is not changed.
    parts : int, default 8
        Number of ranges of fingerprints. One reducer merges the counts of each range.
    memory : float, default 512.0
        Megabytes of counts at which a task emits its partial counts and clears them.
    min_count : float, default 0.0
        Minimum count of a feature, summed over classes; reducers drop features with less.
    shards : int, default None
        Number of shards of consecutive positions that are learned in parallel and merged. Each
        needs at least 2,000 messages, and positions must have no gaps.
    rounds : int, default 1
        Number of rounds. In each round, shards start from the merged model. The result with more
        rounds is closer to learning in sequence.

    Returns
    -------
    Classifier or tabular model
        The trained model.

    Raises
    ------
    ValueError
        If shards are too small, a column is missing or has another type, or the model's counts
        cannot be added and `shards` is None.

    Examples
    --------
    >>> from streamnb import Classifier, MailTokenizer, MultinomialNB, spark
    >>> mail = session.read.parquet("mail/2026/")  # doctest: +SKIP
    >>> model = spark.fit(mail, Classifier(MailTokenizer(), MultinomialNB()))  # doctest: +SKIP
    """
    check_parts(parts)
    for name, value, minimum in (("memory", memory, 1e-9), ("min_count", min_count, 0)):
        if not isinstance(value, int | float) or not minimum <= value <= 1e100:
            raise ValueError(f"{name}: expected a number of at least {minimum:g}, not {value!r}")
    spec = partial.spec_of(learner)  # type: ignore[arg-type]  # it checks the type
    model: Any = partial.new_model(spec)
    if shards is None and rounds != 1:
        raise ValueError("rounds needs shards; set both")
    if shards is not None:
        if min_count:
            raise ValueError("min_count and shards cannot be combined; leave one of them out")
        partial.check_shards(model)
        _fit_on_shards(arrow_io.select_rows(frame, model), model, shards, rounds, parts)
        return model
    partial.check_sums(model)
    rows = arrow_io.select_rows(frame, model, position=POSITION in frame.columns)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = partial.count(spec, arrow_io.read_rows(batches), parts, memory)
        return arrow_io.to_batches(counts)

    merged = _merge(rows.mapInArrow(count, PARTIAL_COUNTS), spec, min_count)
    return partial.assemble(spec, arrow_io.from_batches(merged.toArrow().to_batches()))


def _merge(counts: DataFrame, spec: str, min_count: float = 0.0) -> DataFrame:
    """Merge partial counts, with one reducer for each view and range; copy states unchanged."""

    def run(key: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if key[0].as_py() == STATE:
            return batches
        merged = partial.merge(spec, arrow_io.from_batches(batches), min_count)
        return arrow_io.to_batches(merged)

    return counts.groupBy("view", "part").applyInArrow(run, PARTIAL_COUNTS)


def _fit_on_shards(
    rows: DataFrame, classifier: Classifier, shards: int, rounds: int, parts: int
) -> None:
    """Train a classifier in place, on shards."""
    arrow_io.check_integer("shards", shards)
    arrow_io.check_integer("rounds", rounds)
    low, high, n = arrow_io.position_range(rows, "shards")
    if n < MIN_SHARD * shards * rounds:
        raise ValueError(
            f"shards, rounds: {n:,} messages are too few for {shards} x {rounds} shards of at "
            f"least {MIN_SHARD:,} each; ask for fewer"
        )
    plan = partial.ShardPlan(low, high, shards, rounds, n // _HELD_OUT)
    offset = f"({POSITION} - {low}L)"
    is_held_out = F.expr(f"{offset} % {plan.hold_out_every}L = {plan.hold_out_every - 1}L")
    slice_index = F.expr(f"{offset} * {plan.slices}L div {high - low + 1}L")
    sliced = rows.withColumn(BLOCK, F.when(is_held_out, plan.slices).otherwise(slice_index))
    spec = partial.spec_of(classifier)
    for first, last in plan.slices_by_round():
        selected = _sort_groups(sliced.where(F.col(BLOCK).between(first, last)), BLOCK)
        name = arrow_io.broadcast_model(rows.sparkSession, classifier)
        learned = selected.groupBy(BLOCK).applyInArrow(
            _shard_task(name, last, parts), PARTIAL_COUNTS
        )
        merged = _merge(learned, spec).toArrow().to_batches()
        partial.merge_shards(classifier, arrow_io.from_batches(merged))


def _shard_task(model_name: str, last: int, parts: int) -> Any:
    """Return the task that learns a shard; only the last shard emits its state."""

    def run(key: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        classifier = arrow_io.load_model(model_name, Classifier.load, shared=False)
        rows = check_ascending(arrow_io.read_rows(batches))
        for item in partial.learn_shard(classifier, rows, parts):
            if item.view != STATE or key[0].as_py() == last:
                yield from arrow_io.to_batches([item])

    return run


def _sort_groups(frame: DataFrame, group: str) -> DataFrame:
    """Return a frame whose groups by a column stay sorted by position after `groupBy`."""
    return frame.repartition(arrow_io.column(group)).sortWithinPartitions(
        arrow_io.column(group), POSITION
    )


def fit_each(frame: DataFrame, learner: Any, group: str) -> DataFrame:
    """Train one model for each value of a column, such as a user. Rows are learned by position.

    Parameters
    ----------
    frame : DataFrame
        As for `fit`, with the columns `position` and `group`.
    learner : Classifier or tabular model
        The model; only its parameters are used.
    group : str
        Name of the column.

    Returns
    -------
    DataFrame
        The group column, `messages` (number learned) and `model`: the bytes of a model file, which
        `Classifier.load(io.BytesIO(model))` reads.

    Raises
    ------
    ValueError
        If a column is missing or has another type.
    """
    spec = partial.spec_of(learner)
    partial.new_model(spec)
    group_field = arrow_io.get_field(frame, group, LABEL_TYPES)
    if group in ("messages", "model", POSITION, MESSAGE):
        raise ValueError(
            f"group: {group!r} is the name of a column of the result; rename the column"
        )
    rows = arrow_io.select_rows(frame, learner, extra=(group,))
    schema = StructType(
        [group_field, StructField("messages", LongType()), StructField("model", BinaryType())]
    )

    def run(key: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        model, messages = partial.new_model(spec), 0
        for row in check_ascending(arrow_io.read_rows(batches)):
            model.learn_one(row.x, row.label)
            messages += 1
        data = BytesIO()
        model.save(data)
        key_column = pa.array([key[0].as_py()], key[0].type)
        columns = [key_column, pa.array([messages]), pa.array([data.getvalue()], pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, names=schema.names)

    return _sort_groups(rows, group).groupBy(arrow_io.column(group)).applyInArrow(run, schema)
