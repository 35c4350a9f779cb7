"""Questions to models that have learned a whole table."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamnb.errors import ConfigError
from streamnb.naive_bayes.mini_batches import log_normalised
from streamnb.tables.columns import LARGEST, Columns
from streamnb.tables.experiment.data import Examples
from streamnb.tables.experiment.learners import Learner, learning
from streamnb.tables.experiment.results import Answer


def answers(
    examples: Examples, learners: dict[str, Learner], questions: tuple[dict[str, Any], ...]
) -> list[Answer]:
    """What each model says of each question.

    Raises
    ------
    ConfigError
        Where a question does not fit the table, or the table a model.
    """
    if not questions:
        return []
    transform = examples.prepare(examples.table)
    rows, asked = transform(examples.table), transform(_asked(examples, questions))
    found = [Answer(dict(question), {}, {}) for question in questions]
    for name, learner in learners.items():
        with learning(name, examples):
            model = learner.fit(rows, examples.labels)
        try:
            classes, joint = learner.joint(model, asked)
        except ValueError as error:
            raise ConfigError(f"models.{name}: ask: {str(error).splitlines()[0]}") from None
        shares = np.exp(log_normalised(joint))
        for answer, scores, share in zip(found, joint, shares, strict=True):
            labels = [str(label) for label in classes]
            answer.likelihoods[name] = dict(zip(labels, np.exp(scores).tolist(), strict=True))
            answer.probabilities[name] = dict(zip(labels, share.tolist(), strict=True))
    return found


def _asked(examples: Examples, questions: tuple[dict[str, Any], ...]) -> Columns:
    """Questions as rows of the table, with values of its kinds."""
    names, values = examples.table.names, examples.table.values
    asked = np.full((len(questions), len(names)), None, dtype=object)
    for i, question in enumerate(questions):
        for name, value in question.items():
            if name not in names:
                raise ConfigError(f"ask: {examples.unknown(name)}")
            j = names.index(name)
            column = values[:, j].tolist()
            if all(isinstance(one, float) for one in column):
                if value is not None and (isinstance(value, (bool, str))):
                    raise ConfigError(f"ask: {name!r:.80}: {value!r:.80} is not a number")
                if value is not None and not abs(value) <= LARGEST:
                    raise ConfigError(f"ask: {name!r:.80}: {value!r:.80} is not 1e100 at most")
                asked[i, j] = None if value is None else float(value)
            elif value is None or isinstance(value, str):
                asked[i, j] = value  # one that never was is a question, too
            else:
                levels = ", ".join(sorted({one for one in column if one is not None})[:20])
                raise ConfigError(
                    f"ask: {name!r:.80}: {value!r:.80} is not text, as {levels} are: put it in "
                    "quotes"
                )
    return Columns(names, asked if values.dtype == object else Columns(names, asked).numbers())
