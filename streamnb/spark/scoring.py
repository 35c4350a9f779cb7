"""Prediction on Spark with a trained model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 (Spark's usual alias)

import streamnb
from streamnb.classifier import Classifier
from streamnb.evaluate import RunningMetrics
from streamnb.scores import best_label, probabilities
from streamnb.spark.arrow_io import (
    POSITION,
    arrow_type,
    broadcast_model,
    load_model,
    read_rows,
    select_rows,
)
from streamnb.tables.base import TabularNB


def label_type(labels: Sequence[Any]) -> T.DataType:
    """Return the type of a column of labels; ValueError unless all are str, bool or int."""
    label_types = {type(label) for label in labels}
    for python_type, column_type in (
        (str, T.StringType()),
        (bool, T.BooleanType()),
        (int, T.LongType()),
    ):
        if label_types <= {python_type}:
            return column_type
    raise ValueError("labels must be all strings, all integers or all booleans")


def score(
    frame: DataFrame,
    model: Any,
    *,
    classes: bool = False,
    positive: str | None = None,
    keep: Sequence[str] = (),
) -> DataFrame:
    """Predict the class of each message with a trained model.

    Parameters
    ----------
    frame : DataFrame
        Columns `position` and `message`; for a tabular model `position` and its features.
    model : Classifier or tabular model
        The trained model. It is sent to each executor once.
    classes : bool, default False
        Whether to add the probability of each class as a column "p_LABEL".
    positive : str, default None
        The class whose log-odds the scores are; None for the choice of `streamnb replay`.
    keep : sequence of str, default ()
        Further columns of the frame to keep.

    Returns
    -------
    DataFrame
        `position`, the kept columns, `predicted` (null for an untrained model) and `score`:
        the log-odds of the positive class. With more than two classes and a positive class that is
        neither given nor "spam", the score is the log-odds of the predicted class.

    Raises
    ------
    ValueError
        If two columns of the result would have the same name, or a column is missing.
    """
    labels = list(model.labels)
    predicted_type = label_type(labels)
    added = ["predicted", "score", *(f"p_{y}" for y in (labels if classes else ()))]
    if len({*keep, *added}) < len(keep) + len(added):
        raise ValueError(
            f"keep: {keep}: list each column once, and none of the new columns {added}"
        )
    rows = select_rows(frame, model, label=False, extra=keep)
    fields = {field.name: field for field in rows.schema.fields}
    schema = T.StructType(
        [
            fields[POSITION],
            *(fields[name] for name in keep),
            T.StructField("predicted", predicted_type),
            *(T.StructField(name, T.DoubleType()) for name in added[1:]),
        ]
    )
    model_name = broadcast_model(frame.sparkSession, model)
    load = streamnb.load if isinstance(model, TabularNB) else Classifier.load
    predicted_arrow_type = arrow_type(predicted_type)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task_model, metrics = load_model(model_name, load), RunningMetrics(positive)
        for batch in batches:
            scores = [task_model.joint_log_likelihood(row.x) for row in read_rows([batch])]
            predicted = [best_label(row) for row in scores]
            log_odds = [metrics.score_of(y, row) for y, row in zip(predicted, scores, strict=True)]
            columns = [batch.column(name) for name in (POSITION, *keep)]
            columns += [pa.array(predicted, predicted_arrow_type), pa.array(log_odds, pa.float64())]
            if classes:
                rows_proba = [probabilities(list(row.values())) for row in scores]
                columns += [
                    pa.array([proba[k] for proba in rows_proba], pa.float64())
                    for k in range(len(labels))
                ]
            yield pa.RecordBatch.from_arrays(columns, names=schema.names)

    return rows.mapInArrow(run, schema)
