"""The learners of an experiment: streamnb's models, and estimators of scikit-learn."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamnb.config.experiment import ScikitConfig
from streamnb.config.sections import ParameterSection
from streamnb.errors import ConfigError, require_extra
from streamnb.tables.base import TabularNB
from streamnb.tables.columns import Columns
from streamnb.tables.experiment.data import Examples


class Learner:
    """Creates, fits and queries one of streamnb's models, a new one for each trial."""

    def __init__(self, create_model: Callable[[], Any]) -> None:
        self.create_model = create_model

    def fit(self, rows: Columns, labels: list[Any]) -> Any:
        """Return a model that has learned the rows."""
        return self.learn(None, rows, labels, [])

    def learn(self, model: Any, rows: Columns, labels: list[Any], classes: list[Any]) -> Any:
        """Return the model, or a new one for None, after it has learned the rows.

        `classes` are all labels that will occur.
        """
        model = self.create_model() if model is None else model
        return model.partial_fit(_model_input(model, rows), labels)

    def predict(self, model: Any, rows: Columns) -> list[Any]:
        """Return the predicted label of each row."""
        return model.predict(_model_input(model, rows)).tolist()

    def joint(self, model: Any, rows: Columns) -> tuple[list[Any], NDArray[np.float64]]:
        """Return the classes (K), and log(prior x likelihood) of each, shape (n, K)."""
        return model.classes_.tolist(), model.joint_log_likelihood_many(_model_input(model, rows))


def _model_input(model: Any, rows: Columns) -> Any:
    """Return rows as a model takes them. For a model of counts, missing values become 0."""
    return rows if isinstance(model, TabularNB) else np.nan_to_num(rows.numbers())


class _ScikitLearner(Learner):
    """Creates, fits and queries an estimator of scikit-learn."""

    def fit(self, rows: Columns, labels: list[Any]) -> Any:
        model = self.create_model()
        # ignore a warning that would repeat in each trial
        with warnings.catch_warnings(action="ignore"):
            return model.fit(rows.values, np.array(labels))

    def learn(self, model: Any, rows: Columns, labels: list[Any], classes: list[Any]) -> Any:
        model = self.create_model() if model is None else model
        if not hasattr(model, "partial_fit"):
            raise ValueError(
                f"scikit-learn's {type(model).__name__} cannot learn row by row; "
                "choose other splits"
            )
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            return model.partial_fit(rows.values, np.array(labels), np.array(classes))

    def predict(self, model: Any, rows: Columns) -> list[Any]:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            return model.predict(rows.values).tolist()

    def joint(self, model: Any, rows: Columns) -> tuple[list[Any], NDArray[np.float64]]:
        compute = getattr(model, "predict_joint_log_proba", model.predict_log_proba)
        values = rows.numbers()
        missing = np.flatnonzero(np.isnan(values).any(axis=0))
        if len(missing):
            name = rows.names[int(missing[0])]
            raise ValueError(
                f"scikit-learn's models take no missing values; {name!r:.80} is missing"
            )
        return model.classes_.tolist(), compute(values)


@contextlib.contextmanager
def training_errors(name: str, examples: Examples) -> Iterator[None]:
    """Re-raise a model's ValueError as ConfigError that names model and column.

    A warning of a model becomes a note.
    """
    try:
        with warnings.catch_warnings(action="always", record=True) as caught:
            yield
        notes = [f"models.{name}: {warning.message}" for warning in caught or ()]
        examples.notes.extend(note for note in notes if note not in examples.notes)
    except ValueError as error:
        reason = str(error).splitlines()[0]
        if examples.text and ("not a number" in reason or "could not convert" in reason):
            column, cell = next(iter(examples.text.items()))
            reason = f"it takes numbers, and the column {column!r:.80} is text ({cell})"
        raise ConfigError(f"models.{name}: it cannot learn {examples.name}: {reason}") from None


def create_learner(
    config: ScikitConfig | ParameterSection, name: str, classes: list[Any]
) -> Learner:
    """Return the learner of a configured model.

    Parameters
    ----------
    config
        The section of the model.
    name
        The name of the model, for errors.
    classes
        The labels of the table; a prior must have exactly these classes.

    Raises
    ------
    ConfigError
        If a parameter is wrong, or scikit-learn is needed and not installed.
    """
    if isinstance(config, ScikitConfig):
        return _ScikitLearner(_estimator_factory(config, name))
    model_class = config.model_class
    parameters = {name: getattr(config, name) for name in model_class.parameter_table}
    prior = parameters.get("prior")
    if isinstance(prior, Mapping):
        parameters["prior"] = _check_prior(prior, f"models.{name}.prior", classes)
    try:
        model_class(**parameters)
    except ValueError as error:
        raise ConfigError(f"models.{name}: {error}") from None
    return Learner(lambda: model_class(**parameters))


def _check_prior(prior: Mapping[str, Any], path: str, classes: list[Any]) -> dict[Any, Any]:
    """Return a prior with the labels as written in the table."""
    labels = {str(label): label for label in classes}
    label_list = ", ".join(sorted(labels)[:20])
    for name in prior:
        if name not in labels:
            raise ConfigError(f"{path}: {name!r:.80} is not a class; the classes are {label_list}")
    for name in labels:
        if name not in prior:
            raise ConfigError(f"{path}: no probability for the class {name!r:.80}")
    return {labels[name]: share for name, share in prior.items()}


def _estimator_factory(config: ScikitConfig, name: str) -> Callable[[], Any]:
    with require_extra("sklearn", f"models.{name}: it needs scikit-learn"):
        from sklearn import discriminant_analysis, naive_bayes
    has_estimator = hasattr(naive_bayes, config.estimator)
    module = naive_bayes if has_estimator else discriminant_analysis
    estimator = getattr(module, config.estimator)
    try:
        estimator(**config.parameters)
    except TypeError as error:
        raise ConfigError(f"models.{name}.parameters: {error}") from None
    return lambda: estimator(**config.parameters)
