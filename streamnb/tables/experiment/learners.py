"""Models of an experiment: made from their configuration, fitted, asked."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamnb.config.experiment import TABULAR, ScikitConfig
from streamnb.config.sections import Section
from streamnb.errors import ConfigError, require_extra
from streamnb.naive_bayes import COUNTING
from streamnb.tables.base import TabularNB
from streamnb.tables.columns import Columns
from streamnb.tables.experiment.data import Examples


class Learner:
    """A model, one of ours, that is made anew for each trial."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def fit(self, rows: Columns, labels: list[Any]) -> Any:
        """A model that has learned these rows."""
        return self.learn(None, rows, labels, [])

    def learn(self, model: Any, rows: Columns, labels: list[Any], classes: list[Any]) -> Any:
        """The model (None: a new one) after more rows; `classes` are all that there will be."""
        model = self.make() if model is None else model
        return model.partial_fit(_rows_for(model, rows), labels)

    def predict(self, model: Any, rows: Columns) -> list[Any]:
        """What it takes rows for."""
        return model.predict(_rows_for(model, rows)).tolist()

    def joint(self, model: Any, rows: Columns) -> tuple[list[Any], NDArray[np.float64]]:
        """The classes, and log of prior times likelihood of each for each row."""
        return model.classes_.tolist(), model.joint_log_likelihood_many(_rows_for(model, rows))


def _rows_for(model: Any, rows: Columns) -> Any:
    """Rows as a model takes them; to one of counts a feature that is missing is not there."""
    return rows if isinstance(model, TabularNB) else np.nan_to_num(rows.numbers())


class _Scikit(Learner):
    """An estimator of scikit-learn."""

    def fit(self, rows: Columns, labels: list[Any]) -> Any:
        model = self.make()
        with warnings.catch_warnings(action="ignore"):  # of few rows, said a hundred times
            return model.fit(rows.values, np.array(labels))

    def learn(self, model: Any, rows: Columns, labels: list[Any], classes: list[Any]) -> Any:
        model = self.make() if model is None else model
        if not hasattr(model, "partial_fit"):
            raise ValueError(f"scikit-learn's {type(model).__name__} has no partial_fit")
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            return model.partial_fit(rows.values, np.array(labels), np.array(classes))

    def predict(self, model: Any, rows: Columns) -> list[Any]:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            return model.predict(rows.values).tolist()

    def joint(self, model: Any, rows: Columns) -> tuple[list[Any], NDArray[np.float64]]:
        asked = getattr(model, "predict_joint_log_proba", model.predict_log_proba)
        values = rows.numbers()
        missing = np.flatnonzero(np.isnan(values).any(axis=0))
        if len(missing):
            name = rows.names[int(missing[0])]
            raise ValueError(
                f"scikit-learn's models know no missing value, and {name!r:.80} is one"
            )
        return model.classes_.tolist(), asked(values)


@contextlib.contextmanager
def learning(name: str, examples: Examples) -> Iterator[None]:
    """Say which model cannot take the data, and where those are not what it wants."""
    try:
        yield
    except ValueError as error:  # text for a model of numbers
        why = str(error).splitlines()[0]
        if examples.text and ("not a number" in why or "could not convert" in why):
            column, cell = next(iter(examples.text.items()))
            why = f"it takes numbers, and the column {column!r:.80} is text ({cell})"
        raise ConfigError(f"models.{name}: it cannot learn {examples.name}: {why}") from None


def learner_of(config: Section, name: str) -> Learner:
    """What makes models of a configuration.

    Raises
    ------
    ConfigError
        Where a parameter is wrong, or scikit-learn is wanted and not installed.
    """
    if isinstance(config, ScikitConfig):
        return _Scikit(_estimator(config, name))
    made: Any = {**COUNTING, **TABULAR}[config.kind]
    parameters = {name: getattr(config, name) for name in made.parameter_table}
    try:
        made(**parameters)
    except ValueError as error:
        raise ConfigError(f"models.{name}: {error}") from None
    return Learner(lambda: made(**parameters))


def _estimator(config: ScikitConfig, name: str) -> Callable[[], Any]:
    with require_extra("sklearn", f"models.{name}: it needs scikit-learn"):
        from sklearn import discriminant_analysis
        from sklearn import naive_bayes as theirs
    home = theirs if hasattr(theirs, config.estimator) else discriminant_analysis
    made = getattr(home, config.estimator)
    try:
        made(**config.parameters)
    except TypeError as error:
        raise ConfigError(f"models.{name}.parameters: {error}") from None
    return lambda: made(**config.parameters)
