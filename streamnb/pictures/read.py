"""Reader of the folders that `replay --out` and `experiment --out` write."""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from streamnb.errors import CorpusError, convert_os_errors, root_cause
from streamnb.evaluate.compare import RunResults, read_run
from streamnb.patterns import lazy_pattern

_MAX_BYTES = 1 << 28  # limit in bytes of a file
# A pair of surrogate escapes, another escape, or (group 1) half a pair. Half a pair is a byte of a
# name that is not UTF-8, and strict JSON readers refuse it.
_ESCAPE = lazy_pattern(rb"\\u[dD][89abAB]..\\u....|\\u[dD][cC](..)|\\.")

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=1 << 53)]
Number = Annotated[float, Field(ge=-1e300, le=1e300)]
Side = Annotated[int, Field(ge=1, le=1 << 14)]
Table = dict[str, dict[str, Count]]


class _Bin(BaseModel):
    low: Share
    high: Share
    messages: Count
    mean_probability: Share
    fraction_true: Share


class _Summary(BaseModel):
    """The part of `summary.json` that pictures use."""

    reliability: list[_Bin] = []
    confusion: Table = {}
    intervals: dict[str, tuple[Number, Number]] = {}


class _Checkpoint(BaseModel):
    messages: Count
    accuracy: Share
    window_accuracy: Share
    fading_accuracy: Share


class _Point(BaseModel):
    test: Share
    tested: Count
    trials: Annotated[int, Field(ge=1, le=10**9)]
    mean: Share
    sd: Share
    accuracies: Annotated[list[Share], Field(min_length=1)]


class _Model(BaseModel):
    points: list[_Point]
    tested: list[Count]
    wrong: list[Count]
    confusion: Annotated[Table, Field(min_length=1)]
    curve: list[Share]
    class_means: dict[str, list[Number]]


class _Answer(BaseModel):
    question: dict[str, str | int | float | bool | None]
    likelihoods: dict[str, dict[str, Number]]
    probabilities: dict[str, dict[str, Number]]


class _Experiment(BaseModel):
    """The part of `experiment.json` that pictures use."""

    name: str
    kind: str
    labels: list[str]
    models: dict[str, _Model]
    shape: tuple[Side, Side] | None
    answers: list[_Answer]


_Tokens = dict[str, list[tuple[str | int | float | bool, Number]]]


@dataclass(frozen=True)
class ReadRun:
    """A replay: its results, summary, checkpoints and top tokens by class."""

    name: str
    run: RunResults
    summary: dict[str, Any]
    checkpoints: list[dict[str, float]]
    tokens: dict[str, list[tuple[str, float]]]


def read_folder(folder: str) -> ReadRun | dict[str, Any]:
    """Read the replay or the experiment in a folder.

    Raises
    ------
    CorpusError
        If it is neither, or damaged. The error names the file.
    """
    path = Path(folder)
    if (path / "experiment.json").exists():
        return read_experiment(path / "experiment.json")
    run = read_run(path)
    summary = _read(path / "summary.json", _Summary, {})
    confusion = summary.get("confusion", {})
    counted = (
        sum(sum(row.values()) for row in confusion.values()),
        sum(row.get(label, 0) for label, row in confusion.items()),
    )
    correct = sum(map(str.__eq__, run.labels, run.predicted))
    if confusion and counted != (len(run.labels), correct):
        raise CorpusError(
            f"{path / 'summary.json'}: {counted[1]:,} of {counted[0]:,} predictions are correct, "
            f"and in results.txt {correct:,} of {len(run.labels):,}; one was changed: replay again"
        )
    tokens = _read(path / "tokens.json", _Tokens, {})
    top_tokens = {
        label: [(str(token), gain) for token, gain in pairs] for label, pairs in tokens.items()
    }
    return ReadRun(folder, run, summary, _read_checkpoints(path / "checkpoints.jsonl"), top_tokens)


def _read(path: Path, expected_type: Any, default: Any) -> Any:
    """Return the checked content of a JSON file as plain data; `default` if it does not exist."""
    try:
        if not path.exists():
            return default
        if not stat.S_ISREG(path.stat().st_mode):
            raise ValueError("not a regular file")
        with open(path, "rb") as file:
            adapter = TypeAdapter(expected_type)
            text = _ESCAPE.sub(_name_byte, file.read(_MAX_BYTES))
            return adapter.dump_python(adapter.validate_json(text))
    except ValidationError as error:
        raise CorpusError(f"{path}: cannot be read: {first_fault(error)}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CorpusError(f"{path}: cannot be read: {root_cause(error):.200}") from None


def _name_byte(escape: re.Match[bytes]) -> bytes:
    return escape[0] if escape[1] is None else rb"\\x" + escape[1]


def first_fault(error: ValidationError) -> str:
    """Return the position and the text of the first error."""
    first = error.errors(include_url=False)[0]
    location = ".".join(map(str, first["loc"]))
    return f"{location}: {first['msg']}" if location else first["msg"]


def _read_checkpoints(path: Path) -> list[dict[str, float]]:
    if not path.is_file():
        return []
    checkpoints = []
    with convert_os_errors(CorpusError, f"{path}: cannot be read"), open(path, "rb") as file:
        for line_no, line in enumerate(file.read(_MAX_BYTES).splitlines(), 1):
            try:
                checkpoints.append(_Checkpoint.model_validate_json(line).model_dump())
            except (ValueError, RecursionError):
                raise CorpusError(f"{path}:{line_no}: not a checkpoint of a replay") from None
    return checkpoints


def read_experiment(path: Path) -> dict[str, Any]:
    """Read the results of an experiment and check the part that pictures use."""
    experiment: dict[str, Any] = _read(path, _Experiment, None)
    rows, shape = len(experiment["labels"]), experiment["shape"]
    is_consistent = all(
        len(model["tested"]) == len(model["wrong"]) == rows
        and all(map(int.__le__, model["wrong"], model["tested"]))
        and all(
            shape and len(mean) == shape[0] * shape[1] for mean in model["class_means"].values()
        )
        for model in experiment["models"].values()
    )
    for answer in experiment["answers"]:
        is_consistent &= _labels(answer["likelihoods"]) == _labels(answer["probabilities"])
    if not is_consistent:
        raise CorpusError(f"{path}: its figures are inconsistent; run `streamnb experiment` again")
    return experiment


def _labels(answers: dict[str, dict[str, float]]) -> dict[str, set[str]]:
    return {name: set(values) for name, values in answers.items()}
