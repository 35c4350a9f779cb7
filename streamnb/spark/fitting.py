"""Learning on Spark: exactly where a model is a sum, on shards where it is not, or one for each."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as Spark's users know it)
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from streamnb import partial
from streamnb.classifier import Classifier
from streamnb.partial.pieces import check_parts
from streamnb.partial.shards import STATE
from streamnb.spark import carry
from streamnb.spark.carry import BLOCK, LABELS, MESSAGE, PIECE, POSITION

FEWEST = 2000  # messages a shard: with fewer it learns what the others know, too
_HELD_BACK = 500  # messages that the sum of the shards learns in the end

Learner = TypeVar("Learner")


def fit(
    frame: DataFrame,
    learner: Learner,
    *,
    parts: int = 8,
    memory: float = 512.0,
    least: float = 0.0,
    shards: int | None = None,
    rounds: int = 1,
) -> Learner:
    """Learn all rows of a frame; what `learner` has learned itself is left out.

    Without `shards` the result is what one process has that learns the rows in the order of their
    positions, to the last digit, however the frame is partitioned. With them it is an
    approximation, for models that learn from what they get wrong.

    Parameters
    ----------
    frame : DataFrame
        Columns `label` (string, integer or boolean) and `message` (binary or string), and
        `position` (integer): the place in the stream. For a model of rows all columns but `label`
        and `position` are features. Without `position` classes are in the order of their names.
    learner : Classifier or model of rows
        What to make: nothing of it is changed.
    parts : int, default 8
        Ranges of fingerprints: so many reducers merge the counts, each a table of its range.
    memory : float, default 512.0
        Megabytes of counts a task holds; beyond them it gives out what it has, and goes on.
    least : float, default 0.0
        Features counted less often than this, in all classes, are dropped by the reducers.
    shards : int, default None
        Learn in so many shards of consecutive positions side by side, and add up what they
        learned. At least 2,000 messages each are wanted, and positions must have no gaps.
    rounds : int, default 1
        How often the shards begin anew, with the sum so far: the more, the closer to one sequence.

    Returns
    -------
    Classifier or model of rows
        Taught.

    Raises
    ------
    ValueError
        For a model that is no sum where no `shards` are asked for, too small shards, or a column
        that is missing or of another type.

    Examples
    --------
    >>> from streamnb import Classifier, MailTokenizer, MultinomialNB, spark
    >>> mail = session.read.parquet("mail/2026/")  # doctest: +SKIP
    >>> model = spark.fit(mail, Classifier(MailTokenizer(), MultinomialNB()))  # doctest: +SKIP
    """
    check_parts(parts)
    for name, number, lowest in (("memory", memory, 1e-9), ("least", least, 0)):
        if not isinstance(number, int | float) or not lowest <= number <= 1e100:
            raise ValueError(f"{name}: a number, at least {lowest:g}, not {number!r}")
    plan = partial.plan_of(learner)  # type: ignore[arg-type]  # it says what it takes
    made: Any = partial.fresh(plan)
    if shards is None and rounds != 1:
        raise ValueError("rounds: goes with shards")
    if shards is not None:
        if least:
            raise ValueError("least: not with shards")
        partial.check_shards(made)
        _on_shards(carry.rows_of(frame, made), made, shards, rounds, parts)
        return made
    partial.check_sums(made)
    rows = carry.rows_of(frame, made, position=POSITION in frame.columns)

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return carry.batch_of(partial.count(plan, carry.rows_in(batches), parts, memory))

    pieces = _merged(rows.mapInArrow(counted, PIECE), plan, least)
    return partial.assembled(plan, carry.pieces_in(pieces.toArrow().to_batches()))


def _merged(pieces: DataFrame, plan: str, least: float = 0.0) -> DataFrame:
    """The sum of pieces, each view and range by a reducer of its own; states as they are."""

    def merged(key: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if key[0].as_py() == STATE:
            return batches
        return carry.batch_of(partial.merge(plan, carry.pieces_in(batches), least))

    return pieces.groupBy("view", "part").applyInArrow(merged, PIECE)


def _on_shards(rows: DataFrame, learner: Classifier, shards: int, rounds: int, parts: int) -> None:
    carry.check_whole("shards", shards)
    carry.check_whole("rounds", rounds)
    low, high, n = carry.numbered(rows, "shards")
    if n < FEWEST * shards * rounds:
        raise ValueError(
            f"{n} messages in {shards * rounds} shards (shards x rounds): at least {FEWEST:,} each "
            "are wanted, so ask for fewer"
        )
    cut = partial.Slices(low, high, shards, rounds, n // _HELD_BACK)
    place = f"({POSITION} - {low}L)"
    held_back = F.expr(f"{place} % {cut.step}L = {cut.step - 1}L")
    slice_of = F.expr(f"{place} * {cut.slices}L div {high - low + 1}L")
    sliced = rows.withColumn(BLOCK, F.when(held_back, cut.slices).otherwise(slice_of))
    plan = partial.plan_of(learner)
    for first, last in cut.taken_together():
        mine = _in_order(sliced.where(F.col(BLOCK).between(first, last)), BLOCK)
        taught = _taught(carry.sent(rows.sparkSession, learner), last, parts)
        pieces = _merged(mine.groupBy(BLOCK).applyInArrow(taught, PIECE), plan)
        partial.advance(learner, carry.pieces_in(pieces.toArrow().to_batches()))


def _taught(start: str, last: int, parts: int) -> Any:
    """A task that learns a shard; of the last one it also tells the state."""

    def taught(key: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        classifier = carry.loaded(start, Classifier.load, shared=False)
        rows = carry.in_rising_order(carry.rows_in(batches))
        for piece in partial.learn_shard(classifier, rows, parts):
            if piece.view != STATE or key[0].as_py() == last:
                yield from carry.batch_of([piece])

    return taught


def _in_order(frame: DataFrame, by: str) -> DataFrame:
    """Rows of one group together, in the order of their places, as `groupBy` then leaves them."""
    return frame.repartition(carry.named(by)).sortWithinPartitions(carry.named(by), POSITION)


def fit_each(frame: DataFrame, learner: Any, by: str) -> DataFrame:
    """Teach a model of its own to each user, say: exactly, in the order of the positions.

    Parameters
    ----------
    frame : DataFrame
        As for `fit`, with `position`, and the column `by`.
    learner : Classifier or model of rows
        What to make for each.
    by : str
        The column that says whose a row is.

    Returns
    -------
    DataFrame
        `by`, `messages` (how many were learned) and `model`: the bytes of a model file, which
        `Classifier.load(io.BytesIO(model))` reads.

    Raises
    ------
    ValueError
        For a column that is missing or of another type.
    """
    plan = partial.plan_of(learner)
    partial.fresh(plan)
    of = carry.field_of(frame, by, LABELS)
    if by in ("messages", "model", POSITION, MESSAGE):
        raise ValueError(f"by: a column called {by!r} cannot be; rename it")
    rows = carry.rows_of(frame, learner, more=(by,))
    schema = StructType(
        [of, StructField("messages", LongType()), StructField("model", BinaryType())]
    )

    def taught(key: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        one, n = partial.fresh(plan), 0
        for n, row in enumerate(carry.in_rising_order(carry.rows_in(batches)), 1):  # noqa: B007
            one.learn_one(row.x, row.label)
        data = BytesIO()
        one.save(data)
        whose = pa.array([key[0].as_py()], key[0].type)
        columns = [whose, pa.array([n]), pa.array([data.getvalue()], pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, names=schema.names)

    return _in_order(rows, by).groupBy(carry.named(by)).applyInArrow(taught, schema)
