"""Running an experiment: every model over the same splits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamnb.config.experiment import (
    ExperimentConfig,
    NoSplitsConfig,
    PrequentialConfig,
    SplitsConfig,
)
from streamnb.errors import ConfigError
from streamnb.experiment.data import Examples, read_examples
from streamnb.experiment.models import Learner, learner_of
from streamnb.experiment.splits import shares_of, splits, trials_of
from streamnb.naive_bayes.predictions import log_normalised
from streamnb.naive_bayes.tabular.base import TabularNB
from streamnb.naive_bayes.tabular.columns import Table
from streamnb.naive_bayes.tabular.gaussian import GaussianNB

__all__ = ["Answer", "Experiment", "ModelResult", "OnTrial", "Point", "run"]

OnTrial = Callable[[int, int], None]


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
        How rows were split: random, stratified or prequential.
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


def run(config: ExperimentConfig, on_trial: OnTrial = lambda done, total: None) -> Experiment:
    """Run an experiment.

    Parameters
    ----------
    config
        What to do.
    on_trial
        Called now and then with the number of trials done, and that of all.

    Raises
    ------
    CorpusError, ConfigError
        Where data cannot be read, or are not what a model takes.
    """
    began = time.perf_counter()
    examples = read_examples(config.data)
    learners = {name: learner_of(of, name) for name, of in config.models.items()}
    work = _Work(examples, learners)
    answers = _answers(examples, learners, config.ask)
    interrupted = False
    try:
        if isinstance(config.splits, NoSplitsConfig):
            pass
        elif isinstance(config.splits, PrequentialConfig):
            work.prequential(config.splits, on_trial)
        else:
            work.repeated(config.splits, on_trial)
    except KeyboardInterrupt:
        interrupted = True
    return Experiment(
        examples.name,
        len(examples.labels),
        len(examples.table.names),
        [str(label) for label in examples.classes],
        str(config.splits.__struct_config__.tag),
        work.results(),
        [str(label) for label in examples.labels],
        examples.shape,
        time.perf_counter() - began,
        interrupted,
        answers,
    )


def _answers(
    examples: Examples, learners: dict[str, Learner], questions: tuple[dict[str, Any], ...]
) -> list[Answer]:
    if not questions:
        return []
    names, whole = examples.table.names, examples.table.values.dtype != object
    values = np.full((len(questions), len(names)), None, dtype=object)
    for i, question in enumerate(questions):
        for name, value in question.items():
            if name not in names:
                known = ", ".join(str(one) for one in names[:20])
                raise ConfigError(f"ask: {name!r:.80} is none of the features ({known})")
            values[i, names.index(name)] = value
    asked = Table(names, values)
    found = [Answer(dict(question), {}, {}) for question in questions]
    for name, learner in learners.items():
        try:
            model = learner.fit(examples.table, examples.labels)
            rows = Table(names, asked.numbers()) if whole else asked
            classes, joint = learner.joint(model, rows)
        except ValueError as error:
            raise ConfigError(f"models.{name}: {str(error).splitlines()[0]}") from None
        shares = np.exp(log_normalised(joint))
        for answer, scores, share in zip(found, joint, shares, strict=True):
            labels = [str(label) for label in classes]
            answer.likelihoods[name] = dict(zip(labels, np.exp(scores).tolist(), strict=True))
            answer.probabilities[name] = dict(zip(labels, share.tolist(), strict=True))
    return found


class _Work:
    """The figures of all models while they are made."""

    def __init__(self, examples: Examples, learners: dict[str, Learner]) -> None:
        self.examples = examples
        self.learners = learners
        classes = examples.classes
        self.places = {label: k for k, label in enumerate(classes)}
        self.y = np.array([self.places[label] for label in examples.labels], dtype=np.int64)
        n, k = len(self.y), len(classes)
        self.tested = {name: np.zeros(n, dtype=np.int64) for name in learners}
        self.wrong = {name: np.zeros(n, dtype=np.int64) for name in learners}
        self.confusion = {name: np.zeros((k, k), dtype=np.int64) for name in learners}
        self.seconds = {name: np.zeros(2) for name in learners}
        self.points: dict[str, list[Point]] = {name: [] for name in learners}
        self.curves: dict[str, list[float]] = {name: [] for name in learners}
        self.trials = 0

    def repeated(self, config: SplitsConfig, on_trial: OnTrial) -> None:
        """Every model over the same repeated splits."""
        shares, marks = shares_of(config), trials_of(config)
        total = len(shares) * marks[-1]
        for number, share in enumerate(shares):
            accuracies: dict[str, list[float]] = {name: [] for name in self.learners}
            sizes = (0, 0)
            try:
                for learned, tested in splits(self.examples.labels, config, number):
                    sizes = (len(learned), len(tested))
                    found = {name: self._trial(name, learned, tested) for name in self.learners}
                    for name, accuracy in found.items():
                        accuracies[name].append(accuracy)
                    self.trials += 1
                    on_trial(self.trials, total)
            finally:
                for name, of in accuracies.items():
                    done = [mark for mark in marks if mark <= len(of)] or ([len(of)] if of else [])
                    self.points[name] += [_point(share, *sizes, of[:mark]) for mark in done]

    def _trial(self, name: str, learned: NDArray[np.int64], tested: NDArray[np.int64]) -> float:
        learner, table, labels = self.learners[name], self.examples.table, self.examples.labels
        rows, asked = table.select(learned), table.select(tested)
        some = [labels[i] for i in learned.tolist()]
        began = time.perf_counter()
        try:
            model = learner.fit(rows, some)
            fitted = time.perf_counter()
            given = learner.predict(model, asked)
        except ValueError as error:  # text for a model of numbers
            why = str(error).splitlines()[0]
            raise ConfigError(
                f"models.{name}: it cannot learn {self.examples.name}: {why}"
            ) from None
        self.seconds[name] += (fitted - began, time.perf_counter() - fitted)
        return self._count(name, tested, np.array([self.places[label] for label in given]))

    def _count(self, name: str, tested: NDArray[np.int64], given: NDArray[np.int64]) -> float:
        right = given == self.y[tested]
        self.tested[name][tested] += 1
        self.wrong[name][tested[~right]] += 1
        np.add.at(self.confusion[name], (self.y[tested], given), 1)
        return float(right.mean())

    def prequential(self, config: PrequentialConfig, on_trial: OnTrial) -> None:
        """Every model over the same orders of the rows: classify each, then learn it."""
        labels, table = self.examples.labels, self.examples.table
        rights = {name: np.zeros(len(labels)) for name in self.learners}
        accuracies: dict[str, list[float]] = {name: [] for name in self.learners}
        for trial in range(config.trials):
            order = np.random.default_rng([config.seed, trial]).permutation(len(labels))
            for name, learner in self.learners.items():
                model, given = None, []
                for i in order.tolist():
                    row = table.select(np.array([i]))
                    if model is None:
                        given.append(-1)  # nothing was learned: counts as wrong
                        model = learner.fit(row, [labels[i]])
                    else:
                        given.append(self.places[learner.predict(model, row)[0]])
                        model.partial_fit(
                            row if isinstance(model, TabularNB) else row.values, [labels[i]]
                        )
                found = np.array(given)
                rights[name] += found == self.y[order]
                accuracies[name].append(float((found == self.y[order]).mean()))
                self._count(name, order[1:], found[1:])
            on_trial(trial + 1, config.trials)
        for name, of in accuracies.items():
            self.points[name] = [_point(1.0, len(labels), len(labels), of)]
            self.curves[name] = (rights[name] / config.trials).tolist()

    def results(self) -> dict[str, ModelResult]:
        """The figures of each model."""
        classes = [str(label) for label in self.examples.classes]
        means = self._class_means() if self.examples.shape is not None else {}
        return {
            name: ModelResult(
                self.points[name],
                self.tested[name].tolist(),
                self.wrong[name].tolist(),
                {
                    true: dict(zip(classes, row, strict=True))
                    for true, row in zip(classes, self.confusion[name].tolist(), strict=True)
                },
                float(self.seconds[name][0]) / max(self.trials, 1),
                float(self.seconds[name][1]) / max(self.trials, 1),
                self.curves[name],
                means,
            )
            for name in self.learners
        }

    def _class_means(self) -> dict[str, list[float]]:
        """What a Gaussian model knows of the pixels of each class."""
        model = GaussianNB().partial_fit(self.examples.table, self.examples.labels)
        sums, labels = model.statistics.sums, model.labels
        return {
            str(label): one.moments()[1].tolist() for label, one in zip(labels, sums, strict=True)
        }


def _point(share: float, learned: int, tested: int, accuracies: list[float]) -> Point:
    values = np.array(accuracies)
    sd = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    mean = float(values.mean())
    return Point(share, learned, tested, len(accuracies), mean, sd, accuracies)
