"""Runs over the same stream, side by side."""

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
from streamnb.evaluate.intervals import RESAMPLES, Interval, interval, resample
from streamnb.evaluate.outcomes import LEAST_PROBABILITY, Outcomes

_LONGEST = 1 << 16  # of a line
_LARGEST = 1 << 24  # of a summary


@dataclass(frozen=True)
class Run:
    """What a `results.txt` says.

    Attributes
    ----------
    path
        The file.
    names, judges, given
        Name, true class and class given of each message.
    scores
        float64, shape (n,).
    positive
        The class that scores are for.
    """

    path: Path
    names: list[str]
    judges: list[str]
    given: list[str]
    scores: NDArray[np.float64]
    positive: str

    def outcomes(self) -> Outcomes:
        """The run, message by message; ranked where there are two classes.

        Probabilities are those of the scores. Before two classes are known the score is 0, which
        counts as one half.
        """
        right = np.array([a == b for a, b in zip(self.judges, self.given, strict=True)])
        classes = set(self.judges) | (set(self.given) - {"?"})
        if len(classes) != 2 or self.positive not in classes or len(set(self.judges)) < 2:
            return Outcomes(right, self.scores)
        positive = np.array([label == self.positive for label in self.judges])
        claimed = np.array([label == self.positive for label in self.given])
        p = np.array([1 / (1 + _core.exp(min(-score, 700.0))) for score in self.scores.tolist()])
        likely = np.maximum(np.where(positive, p, 1 - p), LEAST_PROBABILITY)
        losses = -_core.log_cells(likely[:, None])[:, 0]
        return Outcomes(right, self.scores, positive, claimed, losses, (p - positive) ** 2)


def read_run(path: str | Path, positive: str | None = None) -> Run:
    """Read the results of a run: the folder that `--out` named, or a file in TREC's format.

    Parameters
    ----------
    path
        Where they are.
    positive
        The class that scores are to be for; None for that of the run. For the other one of two
        classes they are turned round.

    Raises
    ------
    CorpusError
        Naming file and line, where something is not as it should be.
    """
    folder = Path(path)
    file = folder / "results.txt" if folder.is_dir() else folder
    rows = []
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise CorpusError(f"{file}: cannot be read: not a regular file")
        with open(file, encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
            for number, line in enumerate(iter(lambda: lines.readline(_LONGEST), ""), 1):
                rows.append(_row(line, f"{file}:{number}"))
    except (OSError, ValueError) as error:
        raise CorpusError(
            f"{file}: cannot be read: {root_cause(error).lower()}; "
            "'streamnb replay CORPUS --out DIR' writes results"
        ) from None
    if not rows:
        raise CorpusError(f"{file}: there are no results in it")
    names, judges, given, values = (list(column) for column in zip(*rows, strict=True))
    found, scores = _positive(file.parent / "summary.json", judges), np.array(values)
    if positive is not None and positive != found:
        classes = (set(judges) | set(given)) - {"?"}
        if classes != {positive, found}:
            why = (
                f"with more than two classes only that can be compared: replay with "
                f"--set evaluate.positive={positive}"
                if positive in classes
                else f"{positive} is none of its classes"
            )
            raise CorpusError(f"{file}: its scores are for class {found}; {why}")
        scores = -scores
    return Run(file, names, judges, given, scores, positive or found)


def _row(line: str, where: str) -> tuple[str, str, str, float]:
    line = line.rstrip("\r\n")
    rest, _, score = line.rpartition(" score=")
    rest, _, given = rest.rpartition(" class=")
    name, found, judge = rest.rpartition(" judge=")
    try:
        value = float(score)
        if not (found and judge and given) or value != value:
            raise ValueError
    except ValueError:
        raise CorpusError(
            f"{where}: not 'NAME judge=CLASS class=CLASS score=NUMBER': {printable(line[:80])}"
        ) from None
    return name, judge, given, value


def _positive(summary: Path, judges: list[str]) -> str:
    """The class that scores are for, as the run has it."""
    try:
        if not stat.S_ISREG(summary.stat().st_mode):
            raise OSError
        with open(summary, encoding="utf-8") as file:
            found = json.loads(file.read(_LARGEST))["positive"]
        if isinstance(found, str):
            return found
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass  # results of another program
    classes = list(dict.fromkeys(judges))
    return "spam" if "spam" in classes or len(classes) < 2 else classes[1]


@dataclass(frozen=True)
class Comparison:
    """Runs side by side.

    Attributes
    ----------
    runs
        Their names.
    messages
        How many messages each of them has.
    figures
        For each figure, its value in each run.
    intervals
        For each figure, its 95 % interval in each run.
    differences
        For each figure, of each run but the first: its difference from the first, and the
        interval of that.
    """

    runs: list[str]
    messages: int
    figures: dict[str, list[float]]
    intervals: dict[str, list[Interval]]
    differences: dict[str, list[tuple[float, Interval]]]

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return dict(vars(self))


def compare(runs: list[Run], times: int = RESAMPLES) -> Comparison:
    """Compare runs over one stream with the first of them.

    Raises
    ------
    CorpusError
        Where they are not over the same messages in the same order.
    """
    first = runs[0]
    for run in runs[1:]:
        _refuse_another_stream(first, run)
    of = [run.outcomes() for run in runs]
    names = [name for name in of[0].known if all(name in other.known for other in of)]
    figures = [one.figures() for one in of]
    drawn = [resample(one, times) for one in of]
    values = {name: [one[name] for one in figures] for name in names}
    return Comparison(
        [str(run.path.parent if run.path.name == "results.txt" else run.path) for run in runs],
        len(first.names),
        values,
        {name: [interval(one[name]) for one in drawn] for name in names},
        {
            name: [
                (value - values[name][0], interval(one[name] - drawn[0][name]))
                for value, one in zip(values[name][1:], drawn[1:], strict=True)
            ]
            for name in names
        },
    )


def _refuse_another_stream(first: Run, run: Run) -> None:
    where = f"{run.path}: not the same stream as {first.path}"
    there, here = (zip(of.names, of.judges, strict=True) for of in (first, run))
    for number, (one, other) in enumerate(zip(there, here, strict=False), 1):
        if one != other:
            raise CorpusError(
                f"{where}: line {number} is {other[0]} judge={other[1]}, there it is "
                f"{one[0]} judge={one[1]}"
            )
    if len(first.names) != len(run.names):
        raise CorpusError(f"{where}: {len(run.names)} messages, there it is {len(first.names)}")
    if first.positive != run.positive:
        raise CorpusError(
            f"{where}: scores are for class {run.positive}, there for {first.positive}; "
            "--positive says which"
        )
