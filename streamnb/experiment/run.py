"""Running an experiment: every model over the same splits."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
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
from streamnb.experiment.prepare import as_it_is
from streamnb.experiment.splits import shares_of, splits, trials_of
from streamnb.naive_bayes.predictions import log_normalised
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
    _check(config, examples)
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


def _check(config: ExperimentConfig, examples: Examples) -> None:
    """What must fit together before anything is done."""
    for name, of in config.models.items():
        for key in ("parents", "numeric", "categorical"):
            named = getattr(of, key, None)
            for feature in named if isinstance(named, tuple) else ():
                if feature not in examples.table.names:
                    raise ConfigError(f"models.{name}.{key}: {_unknown(feature, examples)}")
    if isinstance(config.splits, NoSplitsConfig) and not config.ask and examples.shape is None:
        raise ConfigError("splits.kind: 'none' tests nothing, and nothing is asked (ask)")
    if isinstance(config.splits, PrequentialConfig) and examples.prepare is not as_it_is:
        raise ConfigError(
            "splits.kind: 'prequential' has no rows at first to make ranges or a scale from: "
            "leave out data.bins and data.scale"
        )


def _unknown(feature: Any, examples: Examples) -> str:
    known = ", ".join(str(one) for one in examples.table.names[:20])
    return f"{feature!r:.80} is none of the features ({known})"


@contextlib.contextmanager
def _learning(name: str, examples: Examples) -> Iterator[None]:
    """Say which model cannot take the data, and where those are not what it wants."""
    try:
        yield
    except ValueError as error:  # text for a model of numbers
        why = str(error).splitlines()[0]
        if examples.text and ("not a number" in why or "could not convert" in why):
            column, cell = next(iter(examples.text.items()))
            why = f"it takes numbers, and the column {column!r:.80} is text ({cell})"
        raise ConfigError(f"models.{name}: it cannot learn {examples.name}: {why}") from None


def _answers(
    examples: Examples, learners: dict[str, Learner], questions: tuple[dict[str, Any], ...]
) -> list[Answer]:
    if not questions:
        return []
    transform = examples.prepare(examples.table)
    rows, asked = transform(examples.table), transform(_asked(examples, questions))
    found = [Answer(dict(question), {}, {}) for question in questions]
    for name, learner in learners.items():
        with _learning(name, examples):
            classes, joint = learner.joint(learner.fit(rows, examples.labels), asked)
        shares = np.exp(log_normalised(joint))
        for answer, scores, share in zip(found, joint, shares, strict=True):
            labels = [str(label) for label in classes]
            answer.likelihoods[name] = dict(zip(labels, np.exp(scores).tolist(), strict=True))
            answer.probabilities[name] = dict(zip(labels, share.tolist(), strict=True))
    return found


def _asked(examples: Examples, questions: tuple[dict[str, Any], ...]) -> Table:
    """Questions as rows of the table, with values of its kinds."""
    names, values = examples.table.names, examples.table.values
    asked = np.full((len(questions), len(names)), None, dtype=object)
    for i, question in enumerate(questions):
        for name, value in question.items():
            if name not in names:
                raise ConfigError(f"ask: {_unknown(name, examples)}")
            j = names.index(name)
            column = values[:, j].tolist()
            if all(isinstance(one, float) for one in column):
                if value is not None and (isinstance(value, (bool, str))):
                    raise ConfigError(f"ask: {name!r:.80}: {value!r:.80} is not a number")
                asked[i, j] = None if value is None else float(value)
            elif value is None or isinstance(value, str):
                asked[i, j] = value  # one that never was is a question, too
            else:
                levels = ", ".join(sorted({one for one in column if one is not None})[:20])
                raise ConfigError(
                    f"ask: {name!r:.80}: {value!r:.80} is not text, as {levels} are: put it in "
                    "quotes"
                )
    return Table(names, asked if values.dtype == object else Table(names, asked).numbers())


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
                    given = self._trial(learned, tested)
                    for name, places in given.items():
                        accuracies[name].append(self._count(name, tested, places))
                    self.trials += 1
                    on_trial(self.trials, total)
            finally:
                for name, of in accuracies.items():
                    done = [mark for mark in marks if mark <= len(of)] or ([len(of)] if of else [])
                    self.points[name] += [_point(share, *sizes, of[:mark]) for mark in done]

    def _trial(
        self, learned: NDArray[np.int64], tested: NDArray[np.int64]
    ) -> dict[str, NDArray[np.int64]]:
        """What each model takes the tested rows for."""
        table, labels = self.examples.table, self.examples.labels
        transform = self.examples.prepare(table.select(learned))
        rows, asked = transform(table.select(learned)), transform(table.select(tested))
        some = [labels[i] for i in learned.tolist()]
        given = {}
        for name, learner in self.learners.items():
            with _learning(name, self.examples):
                began = time.perf_counter()
                model = learner.fit(rows, some)
                fitted = time.perf_counter()
                found = learner.predict(model, asked)
                self.seconds[name] += (fitted - began, time.perf_counter() - fitted)
            given[name] = np.array([self.places[label] for label in found])
        return given

    def _count(self, name: str, tested: NDArray[np.int64], given: NDArray[np.int64]) -> float:
        right = given == self.y[tested]
        self.tested[name][tested] += 1
        self.wrong[name][tested[~right]] += 1
        np.add.at(self.confusion[name], (self.y[tested], given), 1)
        return float(right.mean())

    def prequential(self, config: PrequentialConfig, on_trial: OnTrial) -> None:
        """Every model over the same orders of the rows: classify each, then learn it."""
        n = len(self.examples.labels)
        rights = {name: np.zeros(n) for name in self.learners}
        accuracies: dict[str, list[float]] = {name: [] for name in self.learners}
        try:
            for trial in range(config.trials):
                order = np.random.default_rng([config.seed, trial]).permutation(n)
                given = {name: self._stream(name, order) for name in self.learners}
                for name, places in given.items():
                    right = places == self.y[order]
                    rights[name] += right
                    accuracies[name].append(float(right.mean()))
                    self._count(name, order[1:], places[1:])
                self.trials += 1
                on_trial(self.trials, config.trials)
        finally:
            for name, of in accuracies.items() if self.trials else ():
                self.points[name] = [_point(1.0, n, n, of)]
                self.curves[name] = (rights[name] / self.trials).tolist()

    def _stream(self, name: str, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """What a model takes each row for before it learns it; the first for nothing (-1)."""
        learner, labels = self.learners[name], self.examples.labels
        model, given = None, []
        for i in order.tolist():
            row = self.examples.table.select(np.array([i]))
            with _learning(name, self.examples):
                began = time.perf_counter()
                found = -1 if model is None else self.places[learner.predict(model, row)[0]]
                asked = time.perf_counter()
                model = learner.learn(model, row, [labels[i]], self.examples.classes)
                self.seconds[name] += (time.perf_counter() - asked, asked - began)
            given.append(found)
        return np.array(given)

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
