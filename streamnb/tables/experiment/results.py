"""What an experiment gives."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Point:
    """Trials with one share of the rows tested.

    Attributes
    ----------
    test
        The share; of a prequential run, 1.
    learned, tested
        How many rows each trial learned and tested.
    trials
        How many trials.
    mean, sd
        Of the accuracies of the trials.
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
    """What one model did.

    Attributes
    ----------
    points
        For each share that is tested, and each number of trials after which to report.
    tested, wrong
        How often each row was tested, and taken for another class, over all trials.
    confusion
        How often each class (first key) was taken for which.
    fit_seconds, predict_seconds
        Mean time of a trial.
    curve
        Of a prequential run, the share of trials in which the row at each place was told right.
    class_means
        Of images, the mean of each class.
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
class Answer:
    """What models that have learned all rows say of a question.

    Attributes
    ----------
    question
        Features and values.
    likelihoods
        For each model and class, prior times likelihood; 0 where it is below 1e-308.
    probabilities
        For each model and class, the share of that.
    """

    question: dict[str, Any]
    likelihoods: dict[str, dict[str, float]]
    probabilities: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Experiment:
    """An experiment and its figures.

    Attributes
    ----------
    name, rows, features, classes
        What it is about.
    kind
        How rows were split: random, stratified or prequential; "none" where they were not.
    models
        The result of each model.
    labels
        The label of each row.
    shape
        Height and width, where rows are images.
    answers
        What was asked, and what models that have learned all rows say of it.
    seconds
        How long it took.
    interrupted
        Whether it was cut short; the figures are of the trials until then.
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
    answers: list[Answer] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return asdict(self)


def point_of(share: float, learned: int, tested: int, accuracies: list[float]) -> Point:
    """The figures of trials with one share."""
    values = np.array(accuracies)
    sd = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    mean = float(values.mean())
    return Point(share, learned, tested, len(accuracies), mean, sd, accuracies)
