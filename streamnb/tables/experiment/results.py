"""The results of an experiment, and their files."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from streamnb.config.experiment import ExperimentConfig
from streamnb.config.yaml_files import to_yaml
from streamnb.errors import OutputError, convert_os_errors
from streamnb.storage import replace_file

RESULT_FILES = ("experiment.json", "rows.csv", "config.yaml")


@dataclass(frozen=True)
class Point:
    """The accuracy of trials that test one fraction of the rows.

    Attributes
    ----------
    test
        The fraction; 1 for a prequential run.
    learned, tested
        The numbers of rows that each trial learned and tested.
    trials
        The number of trials.
    mean, sd
        Mean and standard deviation of the accuracies.
    accuracies
        The accuracy of each trial.
    """

    test: float
    learned: int
    tested: int
    trials: int
    mean: float
    sd: float
    accuracies: list[float] = field(repr=False)


@dataclass
class ModelResult:
    """The results of one model.

    Attributes
    ----------
    points
        The accuracy for each tested fraction and each number of trials to report.
    tested, wrong
        For each row, the numbers of tests and of misclassifications, over all trials.
    confusion
        For each true class, the number of predictions of each class.
    fit_seconds, predict_seconds
        Mean time of a trial.
    curve
        For each position in a prequential run, the fraction of trials with a correct prediction.
    class_means
        For images, the mean image of each class.
    """

    points: list[Point] = field(default_factory=list)
    tested: list[int] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)
    confusion: dict[str, dict[str, int]] = field(default_factory=dict)
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    curve: list[float] = field(default_factory=list)
    class_means: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class QueryAnswer:
    """The answer of models that have learned all rows to one query.

    Attributes
    ----------
    question
        Features and values of the query.
    likelihoods
        For each model and class, prior x likelihood; 0 if it is below 1e-308.
    probabilities
        For each model and class, the posterior probability.
    """

    question: dict[str, Any]
    likelihoods: dict[str, dict[str, float]]
    probabilities: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Experiment:
    """The results of an experiment.

    Attributes
    ----------
    name, rows, features, classes
        The table: its name, the numbers of rows and features, and its labels.
    kind
        The kind of splits: random, stratified, prequential or none.
    models
        The result of each model.
    labels
        The label of each row.
    shape
        Height and width if rows are images.
    seconds
        The duration.
    interrupted
        Whether it was interrupted. The figures then cover the completed trials.
    answers
        The answers to the queries.
    notes
        Notes on the table for the user, such as cells that are not numbers.
    """

    name: str
    rows: int
    features: int
    classes: list[str]
    kind: str
    models: dict[str, ModelResult]
    labels: list[str]
    shape: tuple[int, int] | None
    seconds: float
    interrupted: bool
    answers: list[QueryAnswer] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return all results as plain data for JSON."""
        return asdict(self)


def summarize_trials(fraction: float, learned: int, tested: int, accuracies: list[float]) -> Point:
    """Return mean and standard deviation of the accuracies for one tested fraction."""
    values = np.array(accuracies)
    sd = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return Point(fraction, learned, tested, len(accuracies), float(values.mean()), sd, accuracies)


def make_folder(folder: str) -> None:
    """Create the folder for results before the experiment runs.

    Raises
    ------
    OutputError
        If it cannot be created.
    """
    with convert_os_errors(OutputError, f"{folder}: the folder cannot be created", ValueError):
        if not folder:
            raise ValueError("the name is empty")
        Path(folder).mkdir(parents=True, exist_ok=True)


def write_experiment(experiment: Experiment, config: ExperimentConfig, folder: str) -> None:
    """Write `experiment.json`, `rows.csv` and `config.yaml`, each completely or not at all.

    Raises
    ------
    OutputError
        If a file cannot be written.
    """
    texts = (json.dumps(experiment.as_dict()), _rows_csv(experiment), to_yaml(config))
    for name, text in zip(RESULT_FILES, texts, strict=True):
        with replace_file(Path(folder) / name, "the results") as file:
            file.write(text.encode(errors="replace"))


def _rows_csv(experiment: Experiment) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["row", "label", "model", "tested", "wrong"])
    for name, result in experiment.models.items():
        for i, label in enumerate(experiment.labels):
            writer.writerow([i + 1, label, name, result.tested[i], result.wrong[i]])
    return text.getvalue()
