"""Comparison of runs over the same stream."""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.errors import CorpusError, printable, root_cause
from streamnb.evaluate.outcomes import (
    MIN_PROBABILITY,
    RESAMPLES,
    Interval,
    Outcomes,
    confidence_intervals,
    percentile_interval,
    resample,
)
from streamnb.evaluate.result_files import decode_label
from streamnb.markup import html_table

_MAX_LINE = 1 << 16  # characters of a line of results.txt
_MAX_SUMMARY = 1 << 24  # characters of summary.json


@dataclass(frozen=True)
class RunResults:
    """The content of a `results.txt`.

    Attributes
    ----------
    path
        The file.
    names, labels, predicted
        Name, true class and predicted class of each message.
    scores
        float64, shape (n,): log-odds of the positive class.
    positive
        The positive class.
    """

    path: Path
    names: list[str]
    labels: list[str]
    predicted: list[str]
    scores: NDArray[np.float64]
    positive: str

    def outcomes(self) -> Outcomes:
        """Return the outcome of each message.

        With two classes, a score is the log-odds of the positive class, and losses are computed
        from it. A score of 0 is a probability of one half. With more classes, a score is that of
        the predicted class. There are no losses, because the probability of the true class is
        unknown after a wrong prediction.
        """
        correct = np.array([a == b for a, b in zip(self.labels, self.predicted, strict=True)])
        classes = set(self.labels) | (set(self.predicted) - {"?"})
        if len(classes) != 2 or self.positive not in classes or len(set(self.labels)) < 2:
            numbers = {name: k for k, name in enumerate(dict.fromkeys(self.labels))}
            truth = np.array([numbers[label] for label in self.labels])
            predicted = np.array([numbers.get(label, -1) for label in self.predicted])
            return Outcomes(correct, self.scores, true_classes=truth, predicted_classes=predicted)
        positive = np.array([label == self.positive for label in self.labels])
        predicted_positive = np.array([label == self.positive for label in self.predicted])
        p = np.array([1 / (1 + _core.exp(min(-score, 700.0))) for score in self.scores.tolist()])
        p_true = np.maximum(np.where(positive, p, 1 - p), MIN_PROBABILITY)
        losses = -_core.log_cells(p_true[:, None])[:, 0]
        return Outcomes(
            correct, self.scores, positive, predicted_positive, losses, (p - positive) ** 2
        )


def read_run(path: str | Path, positive: str | None = None) -> RunResults:
    """Read the results of a run: the folder given to `--out`, or a file in TREC's format.

    Parameters
    ----------
    path
        The folder or file.
    positive
        The positive class; None for the run's own. If it is the other one of two classes, the
        scores change sign.

    Raises
    ------
    CorpusError
        If the file cannot be read, or a line has another format; the message names the line.
    """
    folder = Path(path)
    file = folder / "results.txt" if folder.is_dir() else folder
    rows = []
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise CorpusError(f"{file}: cannot be read: not a regular file")
        with open(file, encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
            for line_no, line in enumerate(iter(lambda: lines.readline(_MAX_LINE), ""), 1):
                rows.append(_parse_line(line, f"{file}:{line_no}"))
    except (OSError, ValueError) as error:
        raise CorpusError(
            f"{file}: cannot be read: {root_cause(error).lower()}; "
            "'streamnb replay CORPUS --out DIR' writes results"
        ) from None
    if not rows:
        raise CorpusError(f"{file}: the file holds no results")
    names, labels, predicted, values = (list(column) for column in zip(*rows, strict=True))
    run_positive = _read_positive(file.parent / "summary.json", labels)
    scores = np.array(values)
    if positive is not None and positive != run_positive:
        classes = (set(labels) | set(predicted)) - {"?"}
        if classes != {positive, run_positive}:
            reason = (
                f"with more than two classes they cannot be converted: replay with "
                f"--set evaluate.positive={positive}"
                if positive in classes
                else f"{positive} is not one of its classes"
            )
            raise CorpusError(f"{file}: its scores are for class {run_positive}; {reason}")
        scores = -scores
    return RunResults(file, names, labels, predicted, scores, positive or run_positive)


def _parse_line(line: str, position: str) -> tuple[str, str, str, float]:
    line = line.rstrip("\r\n")
    head, _, score = line.rpartition(" score=")
    head, _, predicted = head.rpartition(" class=")
    name, separator, label = head.rpartition(" judge=")
    try:
        value = float(score)
        if not (separator and label and predicted) or value != value:
            raise ValueError
    except ValueError:
        raise CorpusError(
            f"{position}: expected 'NAME judge=CLASS class=CLASS score=NUMBER', "
            f"not {printable(line[:80])!r}"
        ) from None
    return name, decode_label(label), decode_label(predicted), value


def _read_positive(summary: Path, labels: list[str]) -> str:
    """Return the positive class of a run from its summary, or without summary from its labels."""
    try:
        if not stat.S_ISREG(summary.stat().st_mode):
            raise OSError
        with open(summary, encoding="utf-8") as file:
            positive = json.loads(file.read(_MAX_SUMMARY))["positive"]
        if isinstance(positive, str):
            return positive
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass  # results of another program have no summary
    classes = list(dict.fromkeys(labels))
    return "spam" if "spam" in classes or len(classes) < 2 else classes[1]


@dataclass(frozen=True)
class Comparison:
    """Figures of runs side by side.

    Attributes
    ----------
    runs
        Names of the runs.
    messages
        Number of messages of each run.
    figures
        For each figure, its value in each run.
    intervals
        For each figure, its 95 % interval in each run.
    differences
        For each figure and each run except the first: the difference from the first run, and the 95
        % interval of the difference.
    """

    runs: list[str]
    messages: int
    figures: dict[str, list[float]]
    intervals: dict[str, list[Interval]]
    differences: dict[str, list[tuple[float, Interval]]]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON."""
        return dict(vars(self))

    def _repr_html_(self) -> str:
        """Return the figures of each run as a table for notebooks."""
        rows = [(name, *map(float, values)) for name, values in self.figures.items()]
        return html_table(f"{self.messages:,} messages", ["figure", *self.runs], rows)


def compare(runs: list[RunResults], resamples: int = RESAMPLES) -> Comparison:
    """Compare runs over one stream with the first of them.

    Raises
    ------
    CorpusError
        If they are not over the same messages in the same order.
    """
    baseline = runs[0]
    for run in runs[1:]:
        _check_same_stream(baseline, run)
    outcomes = [run.outcomes() for run in runs]
    names = [
        name
        for name in outcomes[0].figure_names
        if all(name in outcome.figure_names for outcome in outcomes)
    ]
    figures = [outcome.figures() for outcome in outcomes]
    samples = [resample(outcome, resamples) for outcome in outcomes]
    intervals = [confidence_intervals(*pair) for pair in zip(outcomes, samples, strict=True)]
    values = {name: [row[name] for row in figures] for name in names}
    return Comparison(
        [str(run.path.parent if run.path.name == "results.txt" else run.path) for run in runs],
        len(baseline.names),
        values,
        {name: [by_name[name] for by_name in intervals] for name in names},
        {
            name: [
                (value - values[name][0], percentile_interval(sample[name] - samples[0][name]))
                for value, sample in zip(values[name][1:], samples[1:], strict=True)
            ]
            for name in names
        },
    )


def _check_same_stream(baseline: RunResults, run: RunResults) -> None:
    problem = f"{run.path}: its messages differ from those of {baseline.path}"
    pairs = (zip(results.names, results.labels, strict=True) for results in (baseline, run))
    for line_no, (expected, actual) in enumerate(zip(*pairs, strict=False), 1):
        if expected != actual:
            raise CorpusError(
                f"{problem}: line {line_no} is {actual[0]} judge={actual[1]}, expected "
                f"{expected[0]} judge={expected[1]}"
            )
    if len(baseline.names) != len(run.names):
        raise CorpusError(f"{problem}: {len(run.names)} messages, expected {len(baseline.names)}")
    if baseline.positive != run.positive:
        raise CorpusError(
            f"{problem}: scores are for class {run.positive}, expected {baseline.positive}; "
            "choose one with --positive CLASS"
        )
