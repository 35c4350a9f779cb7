"""The run of an experiment.

Splits, prepared values, trials and queries are equal for all models.
"""

from __future__ import annotations

import csv
import io
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamnb.config.experiment import (
    ExperimentConfig,
    HoldoutFractions,
    NoSplitsConfig,
    PrequentialConfig,
    RandomConfig,
    StratifiedConfig,
)
from streamnb.config.yaml_files import to_yaml
from streamnb.errors import ConfigError, OutputError, convert_os_errors
from streamnb.evaluate.result_files import check_earlier_results
from streamnb.naive_bayes.mini_batches import log_normalised
from streamnb.storage import replace_file
from streamnb.tables.columns import LARGEST, Columns
from streamnb.tables.experiment.data import Examples, keep_values, read_examples
from streamnb.tables.experiment.learners import Learner, create_learner, training_errors
from streamnb.tables.naive_bayes import GaussianNB

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
        If it cannot be created, or has the results of a replay or an evaluation.
    """
    with convert_os_errors(OutputError, f"{folder}: the folder cannot be created", ValueError):
        if not folder:
            raise ValueError("the name is empty")
        check_earlier_results(Path(folder), "an experiment")
        Path(folder).mkdir(parents=True, exist_ok=True)


def write_experiment(experiment: Experiment, config: ExperimentConfig, folder: str) -> None:
    """Write `experiment.json`, `rows.csv` and `config.yaml`, each completely or not at all.

    Raises
    ------
    OutputError
        If a file cannot be written, or the folder has results of another kind.
    """
    make_folder(folder)
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


Split = tuple[NDArray[np.int64], NDArray[np.int64]]


def holdout_fractions(config: RandomConfig | StratifiedConfig) -> list[float]:
    """Return the fractions of the rows to test.

    Examples
    --------
    >>> from streamnb.config.experiment import RandomConfig
    >>> holdout_fractions(RandomConfig(test=HoldoutFractions(first=0.01, last=0.98, steps=3)))
    [0.01, 0.495, 0.98]
    """
    if isinstance(config.test, HoldoutFractions):
        first, last, steps = config.test.first, config.test.last, config.test.steps
        return [round(first + (last - first) * i / (steps - 1), 12) for i in range(steps)]
    return [config.test] if isinstance(config.test, float) else list(config.test)


def trial_counts(config: RandomConfig | StratifiedConfig) -> list[int]:
    """Return the numbers of trials after which to report, ascending."""
    return [config.trials] if isinstance(config.trials, int) else sorted(set(config.trials))


def split_rows(
    labels: Sequence[Any], config: RandomConfig | StratifiedConfig, fraction_index: int
) -> Iterator[Split]:
    """Yield two sorted arrays for each trial: the rows to learn and the rows to test.

    The same seed gives the same splits on all machines. With n rows, n (1 - fraction) are learned,
    halves rounded up: at least one row, and at most n - 1. In stratified splits, n is the number of
    rows of a class; a class with one row is learned.

    Parameters
    ----------
    labels
        The label of each row.
    config
        Fractions, trials and seed.
    fraction_index
        The index of the fraction to test in `holdout_fractions(config)`.

    Raises
    ------
    ConfigError
        If no row can be tested, because each class of a stratified split has one row.

    Examples
    --------
    >>> from streamnb.config.experiment import StratifiedConfig
    >>> labels = ["no"] * 5 + ["yes"] * 9  # 4 and 6 to learn, 1 and 3 to test
    >>> learned, tested = next(split_rows(labels, StratifiedConfig(test=0.3), 0))
    >>> sum(learned < 5), sum(learned >= 5), sum(tested < 5), sum(tested >= 5)
    (np.int64(4), np.int64(6), np.int64(1), np.int64(3))
    """
    fraction = holdout_fractions(config)[fraction_index]
    rng = np.random.default_rng([config.seed, fraction_index])
    groups = [np.arange(len(labels))]
    if isinstance(config, StratifiedConfig):
        class_indices = {label: k for k, label in enumerate(dict.fromkeys(labels))}
        row_classes = np.array([class_indices[label] for label in labels])
        groups = [np.flatnonzero(row_classes == k) for k in range(len(class_indices))]
    sizes = [_learned_count(len(group), fraction) for group in groups]
    if sum(sizes) == len(labels):
        raise ConfigError(
            "splits.kind: 'stratified' has nothing to test, because each class has only one "
            "row; add rows, or set splits.kind to random"
        )
    for _ in range(max(trial_counts(config))):
        orders = [rng.permutation(group) for group in groups]
        learned = np.concatenate([order[:n] for order, n in zip(orders, sizes, strict=True)])
        tested = np.concatenate([order[n:] for order, n in zip(orders, sizes, strict=True)])
        yield np.sort(learned), np.sort(tested)


def _learned_count(n: int, fraction: float) -> int:
    return max(1, min(n - 1, math.floor(n * (1 - fraction) + 0.5)))


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
            path, column = f"queries: {name!r:.80}", values[:, j].tolist()
            cell = cells[i, j] = _query_value(path, value, column)
            if isinstance(cell, str) and cell not in column:
                note = f"{path}: no row of the table has {cell!r:.80}, but {_levels(column)}"
                examples.notes.append(note)
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
        raise ConfigError(
            f"{path}: {value!r:.80} is not text; write one of these in quotes: {_levels(column)}"
        )
    return value


def _levels(column: list[Any]) -> str:
    """Return the first levels of a column as text."""
    return ", ".join(sorted({cell for cell in column if cell is not None})[:20])


OnTrial = Callable[[int, int], None]
ClassIndices = NDArray[np.int64]


def run(config: ExperimentConfig, on_trial: OnTrial = lambda done, total: None) -> Experiment:
    """Run an experiment.

    Parameters
    ----------
    config
        Table, models, splits and queries.
    on_trial
        Called after each trial with the number of completed trials and the total.

    Raises
    ------
    CorpusError
        If the table cannot be read.
    ConfigError
        If the configuration, or a model, does not fit the table.
    """
    start = time.perf_counter()
    examples = read_examples(config.data)
    learners = {
        name: create_learner(section, name, examples.classes)
        for name, section in config.models.items()
    }
    _check(config, examples)
    trials = _Trials(examples, learners)
    answers = answer_queries(examples, learners, config.queries)
    is_interrupted = False
    try:
        if isinstance(config.splits, PrequentialConfig):
            trials.run_prequential(config.splits, on_trial)
        elif not isinstance(config.splits, NoSplitsConfig):
            trials.run_splits(config.splits, on_trial)
    except KeyboardInterrupt:
        is_interrupted = True
    return Experiment(
        examples.name,
        len(examples.labels),
        len(examples.table.names),
        [str(label) for label in examples.classes],
        config.splits.kind,
        trials.results(),
        [str(label) for label in examples.labels],
        examples.shape,
        time.perf_counter() - start,
        is_interrupted,
        answers,
        examples.notes,
    )


def _check(config: ExperimentConfig, examples: Examples) -> None:
    """Raise ConfigError if models, splits and table do not fit together."""
    for name, section in config.models.items():
        for key in ("parents", "numeric", "categorical"):
            features = getattr(section, key, None)
            for feature in features if isinstance(features, tuple) else ():
                if feature not in examples.table.names:
                    raise ConfigError(f"models.{name}.{key}: {examples.describe_unknown(feature)}")
    if isinstance(config.splits, NoSplitsConfig) and not config.queries and examples.shape is None:
        raise ConfigError("splits.kind: 'none' tests nothing, so add queries")
    if isinstance(config.splits, PrequentialConfig) and examples.prepare is not keep_values:
        raise ConfigError(
            "splits.kind: 'prequential' starts without learned rows, so bins and scale cannot be "
            "computed; leave out data.bins and data.scale"
        )


class _Trials:
    """Runs trials and counts the errors of all models."""

    def __init__(self, examples: Examples, learners: dict[str, Learner]) -> None:
        self.examples = examples
        self.learners = learners
        classes = examples.classes
        self.class_indices = {label: k for k, label in enumerate(classes)}
        self.y = np.array([self.class_indices[y] for y in examples.labels], dtype=np.int64)
        n, k = len(self.y), len(classes)
        self.tested = {name: np.zeros(n, dtype=np.int64) for name in learners}
        self.wrong = {name: np.zeros(n, dtype=np.int64) for name in learners}
        self.confusion = {name: np.zeros((k, k), dtype=np.int64) for name in learners}
        self.seconds = {name: np.zeros(2) for name in learners}
        self.points: dict[str, list[Point]] = {name: [] for name in learners}
        self.curves: dict[str, list[float]] = {name: [] for name in learners}
        self.trials = 0

    def run_splits(self, config: RandomConfig | StratifiedConfig, on_trial: OnTrial) -> None:
        """Fit and test every model on the same repeated splits."""
        fractions, counts = holdout_fractions(config), trial_counts(config)
        total = len(fractions) * counts[-1]
        for fraction_index, fraction in enumerate(fractions):
            accuracies: dict[str, list[float]] = {name: [] for name in self.learners}
            sizes = (0, 0)
            try:
                for learned, tested in split_rows(self.examples.labels, config, fraction_index):
                    sizes = (len(learned), len(tested))
                    for name, predicted in self._run_trial(learned, tested).items():
                        accuracies[name].append(self._count(name, tested, predicted))
                    self.trials += 1
                    on_trial(self.trials, total)
            finally:
                for name, values in accuracies.items():
                    done = [count for count in counts if count <= len(values)]
                    for count in done or ([len(values)] if values else []):
                        self.points[name].append(summarize_trials(fraction, *sizes, values[:count]))

    def _run_trial(
        self, learned: NDArray[np.int64], tested: NDArray[np.int64]
    ) -> dict[str, ClassIndices]:
        """Return each model's predictions for the tested rows."""
        table, labels = self.examples.table, self.examples.labels
        transform = self.examples.prepare(table.select(learned))
        learned_rows, tested_rows = (
            transform(table.select(learned)),
            transform(table.select(tested)),
        )
        learned_labels = [labels[i] for i in learned.tolist()]
        predictions = {}
        for name, learner in self.learners.items():
            with training_errors(name, self.examples):
                start = time.perf_counter()
                model = learner.fit(learned_rows, learned_labels)
                fitted = time.perf_counter()
                predicted = learner.predict(model, tested_rows)
                self.seconds[name] += (fitted - start, time.perf_counter() - fitted)
            predictions[name] = np.array([self.class_indices[label] for label in predicted])
        return predictions

    def _count(self, name: str, tested: NDArray[np.int64], predicted: ClassIndices) -> float:
        """Count the errors of a model, and return its accuracy."""
        is_right = predicted == self.y[tested]
        self.tested[name][tested] += 1
        self.wrong[name][tested[~is_right]] += 1
        np.add.at(self.confusion[name], (self.y[tested], predicted), 1)
        return float(is_right.mean())

    def run_prequential(self, config: PrequentialConfig, on_trial: OnTrial) -> None:
        """Classify, then learn each row, with the same random orders for every model."""
        n = len(self.examples.labels)
        right_counts = {name: np.zeros(n) for name in self.learners}
        accuracies: dict[str, list[float]] = {name: [] for name in self.learners}
        try:
            for trial in range(config.trials):
                order = np.random.default_rng([config.seed, trial]).permutation(n)
                predictions = {name: self._run_stream(name, order) for name in self.learners}
                for name, predicted in predictions.items():
                    is_right = predicted == self.y[order]
                    right_counts[name] += is_right
                    accuracies[name].append(float(is_right.mean()))
                    self._count(name, order[1:], predicted[1:])
                self.trials += 1
                on_trial(self.trials, config.trials)
        finally:
            for name, values in accuracies.items() if self.trials else ():
                self.points[name] = [summarize_trials(1.0, n, n, values)]
                self.curves[name] = (right_counts[name] / self.trials).tolist()

    def _run_stream(self, name: str, order: NDArray[np.int64]) -> ClassIndices:
        """Return a model's prediction for each row before learning it; -1 for the first row."""
        learner, labels = self.learners[name], self.examples.labels
        model, predictions = None, []
        for i in order.tolist():
            row = self.examples.table.select(np.array([i]))
            with training_errors(name, self.examples):
                start = time.perf_counter()
                predicted = -1
                if model is not None:
                    predicted = self.class_indices[learner.predict(model, row)[0]]
                classified = time.perf_counter()
                model = learner.learn(model, row, [labels[i]], self.examples.classes)
                self.seconds[name] += (time.perf_counter() - classified, classified - start)
            predictions.append(predicted)
        return np.array(predictions)

    def results(self) -> dict[str, ModelResult]:
        """Return the results of each model."""
        classes = [str(label) for label in self.examples.classes]
        class_means = self._class_means() if self.examples.shape is not None else {}
        return {
            name: ModelResult(
                self.points[name],
                self.tested[name].tolist(),
                self.wrong[name].tolist(),
                {
                    label: dict(zip(classes, row, strict=True))
                    for label, row in zip(classes, self.confusion[name].tolist(), strict=True)
                },
                float(self.seconds[name][0]) / max(self.trials, 1),
                float(self.seconds[name][1]) / max(self.trials, 1),
                self.curves[name],
                class_means,
            )
            for name in self.learners
        }

    def _class_means(self) -> dict[str, list[float]]:
        """Return the mean of the pixels of each class."""
        model = GaussianNB().partial_fit(self.examples.table, self.examples.labels)
        return {
            str(label): sums.moments()[1].tolist()
            for label, sums in zip(model.labels, model.statistics.sums, strict=True)
        }
