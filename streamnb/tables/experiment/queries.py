"""Queries: rows that models classify after they have learned the whole table."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamnb.errors import ConfigError
from streamnb.naive_bayes.mini_batches import log_normalised
from streamnb.tables.columns import LARGEST, Columns
from streamnb.tables.experiment.data import Examples
from streamnb.tables.experiment.learners import Learner, training_errors
from streamnb.tables.experiment.results import QueryAnswer


def answer_queries(
    examples: Examples, learners: dict[str, Learner], queries: tuple[dict[str, Any], ...]
) -> list[QueryAnswer]:
    """Return the likelihoods and probabilities of each query by each model.

    Raises
    ------
    ConfigError
        If a query does not fit the table, or the table does not fit a model.
    """
    if not queries:
        return []
    transform = examples.prepare(examples.table)
    rows, query_rows = transform(examples.table), transform(_query_rows(examples, queries))
    answers = [QueryAnswer(dict(query), {}, {}) for query in queries]
    for name, learner in learners.items():
        with training_errors(name, examples):
            model = learner.fit(rows, examples.labels)
        try:
            classes, joint = learner.joint(model, query_rows)
        except ValueError as error:
            raise ConfigError(f"models.{name}: queries: {str(error).splitlines()[0]}") from None
        labels = [str(label) for label in classes]
        probabilities = np.exp(log_normalised(joint))
        for answer, scores, row in zip(answers, joint, probabilities, strict=True):
            answer.likelihoods[name] = dict(zip(labels, np.exp(scores).tolist(), strict=True))
            answer.probabilities[name] = dict(zip(labels, row.tolist(), strict=True))
    return answers


def _query_rows(examples: Examples, queries: tuple[dict[str, Any], ...]) -> Columns:
    """Return queries as rows of the table; features without value are missing."""
    names, values = examples.table.names, examples.table.values
    cells = np.full((len(queries), len(names)), None, dtype=object)
    for i, query in enumerate(queries):
        for name, value in query.items():
            if name not in names:
                raise ConfigError(f"queries: {examples.describe_unknown(name)}")
            j = names.index(name)
            cells[i, j] = _query_value(f"queries: {name!r:.80}", value, values[:, j].tolist())
    query_rows = Columns(names, cells)
    return query_rows if values.dtype == object else Columns(names, query_rows.numbers())


def _query_value(path: str, value: Any, column: list[Any]) -> Any:
    """Return a value with the type of its column."""
    if value is None:
        return None
    if all(isinstance(cell, float) for cell in column):
        if isinstance(value, (bool, str)):
            raise ConfigError(f"{path}: {value!r:.80} is not a number")
        if not abs(value) <= LARGEST:
            raise ConfigError(f"{path}: {value!r:.80} is larger than 1e100")
        return float(value)
    if not isinstance(value, str):
        levels = ", ".join(sorted({cell for cell in column if cell is not None})[:20])
        raise ConfigError(
            f"{path}: {value!r:.80} is not text, but {levels} are text; put it in quotes"
        )
    return value
