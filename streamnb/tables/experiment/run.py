"""Running an experiment: every model over the same splits."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from streamnb.config.experiment import (
    ExperimentConfig,
    NoSplitsConfig,
    PrequentialConfig,
    RandomConfig,
    StratifiedConfig,
)
from streamnb.errors import ConfigError
from streamnb.tables.experiment.data import Examples, read_examples
from streamnb.tables.experiment.learners import Learner, learner_of, learning
from streamnb.tables.experiment.preparation import as_it_is
from streamnb.tables.experiment.questions import answers
from streamnb.tables.experiment.results import Experiment, ModelResult, Point, point_of
from streamnb.tables.experiment.splits import shares_of, splits, trials_of
from streamnb.tables.gaussian import GaussianNB

OnTrial = Callable[[int, int], None]


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
    answered = answers(examples, learners, config.ask)
    interrupted = False
    try:
        if isinstance(config.splits, PrequentialConfig):
            work.prequential(config.splits, on_trial)
        elif not isinstance(config.splits, NoSplitsConfig):
            work.repeated(config.splits, on_trial)
    except KeyboardInterrupt:
        interrupted = True
    return Experiment(
        examples.name,
        len(examples.labels),
        len(examples.table.names),
        [str(label) for label in examples.classes],
        config.splits.kind,
        work.results(),
        [str(label) for label in examples.labels],
        examples.shape,
        time.perf_counter() - began,
        interrupted,
        answered,
    )


def _check(config: ExperimentConfig, examples: Examples) -> None:
    """What must fit together before anything is done."""
    for name, of in config.models.items():
        for key in ("parents", "numeric", "categorical"):
            named = getattr(of, key, None)
            for feature in named if isinstance(named, tuple) else ():
                if feature not in examples.table.names:
                    raise ConfigError(f"models.{name}.{key}: {examples.unknown(feature)}")
    if isinstance(config.splits, NoSplitsConfig) and not config.ask and examples.shape is None:
        raise ConfigError("splits.kind: 'none' tests nothing, and nothing is asked (ask)")
    if isinstance(config.splits, PrequentialConfig) and examples.prepare is not as_it_is:
        raise ConfigError(
            "splits.kind: 'prequential' has no rows at first to make ranges or a scale from: "
            "leave out data.bins and data.scale"
        )


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

    def repeated(self, config: RandomConfig | StratifiedConfig, on_trial: OnTrial) -> None:
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
                    self.points[name] += [point_of(share, *sizes, of[:mark]) for mark in done]

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
            with learning(name, self.examples):
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
                self.points[name] = [point_of(1.0, n, n, of)]
                self.curves[name] = (rights[name] / self.trials).tolist()

    def _stream(self, name: str, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """What a model takes each row for before it learns it; the first for nothing (-1)."""
        learner, labels = self.learners[name], self.examples.labels
        model, given = None, []
        for i in order.tolist():
            row = self.examples.table.select(np.array([i]))
            with learning(name, self.examples):
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
