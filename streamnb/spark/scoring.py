"""Scores of messages, by a model that every executor has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 (as Spark's users know it)

import streamnb
from streamnb.classifier import Classifier
from streamnb.evaluate import Tally
from streamnb.scores import best_label, probabilities
from streamnb.spark.carry import POSITION, arrow_type, loaded, rows_in, rows_of, sent
from streamnb.tables.base import TabularNB


def type_of(labels: Sequence[Any]) -> T.DataType:
    """The type of a column of labels; ValueError where they are of several, or another one."""
    kinds = {type(label) for label in labels}
    for kind, found in ((str, T.StringType()), (bool, T.BooleanType()), (int, T.LongType())):
        if kinds <= {kind}:
            return found
    raise ValueError("labels must all be strings, all whole numbers or all truth values")


def score(
    frame: DataFrame,
    model: Any,
    *,
    classes: bool = False,
    positive: str | None = None,
    keep: Sequence[str] = (),
) -> DataFrame:
    """Score each message with a model that was taught.

    Parameters
    ----------
    frame : DataFrame
        Columns `position` and `message`, or for a model of rows its features; `label` is not
        looked at.
    model : Classifier or model of rows
        It is sent to each executor once.
    classes : bool, default False
        Whether the probability of each class is wanted, as columns `p_` and the label.
    positive : str, default None
        The class that scores are for; None for what `streamnb replay` takes.
    keep : sequence of str, default ()
        Further columns that the result is to have.

    Returns
    -------
    DataFrame
        `position`, `given` (the class; null where nothing was learned) and `score`: log-odds of
        the positive class, or with more than two classes of the one given.
    """
    labels = list(model.labels)
    given = type_of(labels)
    added = ["given", "score", *(f"p_{y}" for y in (labels if classes else ()))]
    if len({*keep, *added}) < len(keep) + len(added):
        raise ValueError(f"keep: a column twice, or one that is called as one of {added}")
    rows = rows_of(frame, model, label=False, more=keep)
    known = {field.name: field for field in rows.schema.fields}
    schema = T.StructType(
        [
            known[POSITION],
            *(known[name] for name in keep),
            T.StructField("given", given),
            *(T.StructField(name, T.DoubleType()) for name in added[1:]),
        ]
    )
    name = sent(frame.sparkSession, model)
    load = streamnb.load if isinstance(model, TabularNB) else Classifier.load
    label = arrow_type(given)

    def scored(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known, tally = loaded(name, load), Tally(positive)
        for batch in batches:
            said = [known.joint_log_likelihood(row.x) for row in rows_in([batch])]
            best = [best_label(of) for of in said]
            ranked = [tally.score_of(y, of) for y, of in zip(best, said, strict=True)]
            columns = [batch.column(of) for of in (POSITION, *keep)]
            columns += [pa.array(best, label), pa.array(ranked, pa.float64())]
            if classes:
                shares = [probabilities(list(of.values())) for of in said]
                columns += [
                    pa.array([share[k] for share in shares], pa.float64())
                    for k in range(len(labels))
                ]
            yield pa.RecordBatch.from_arrays(columns, names=schema.names)

    return rows.mapInArrow(scored, schema)
