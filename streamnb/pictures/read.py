"""Folders that `replay --out` and `experiment --out` wrote, read again."""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from streamnb.errors import CorpusError, convert_os_errors, root_cause
from streamnb.evaluate.compare import RunResults, read_run

_LARGEST = 1 << 28
# A pair of escapes, an escaped character, or half a pair: a byte of a name that is no UTF-8, which
# strict readers of JSON refuse.
_ESCAPE = re.compile(rb"\\u[dD][89abAB]..\\u....|\\u[dD][cC](..)|\\.")

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
    """What pictures need of `summary.json`."""

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
    """What pictures need of `experiment.json`."""

    name: str
    kind: str
    labels: list[str]
    models: dict[str, _Model]
    shape: tuple[Side, Side] | None
    answers: list[_Answer]


_Tokens = dict[str, list[tuple[str | int | float | bool, Number]]]


@dataclass(frozen=True)
class ReadRun:
    """A replay: its results, its summary, how figures went, and the most telling tokens."""

    name: str
    run: RunResults
    summary: dict[str, Any]
    checkpoints: list[dict[str, float]]
    tokens: dict[str, list[tuple[str, float]]]


def read_folder(folder: str) -> ReadRun | dict[str, Any]:
    """What is in a folder: a replay, or an experiment.

    Raises
    ------
    CorpusError
        Where it is neither, or damaged; with the file.
    """
    at = Path(folder)
    if (at / "experiment.json").exists():
        return read_experiment(at / "experiment.json")
    run = read_run(at)
    summary = _read(at / "summary.json", _Summary, {})
    tokens = _read(at / "tokens.json", _Tokens, {})
    told = {label: [(str(token), gain) for token, gain in of] for label, of in tokens.items()}
    return ReadRun(folder, run, summary, _checkpoints(at / "checkpoints.jsonl"), told)


def _read(path: Path, kind: Any, missing: Any) -> Any:
    """What a file holds, as plain data of a checked form."""
    try:
        if not path.exists():
            return missing
        if not stat.S_ISREG(path.stat().st_mode):
            raise ValueError("not a regular file")
        with open(path, "rb") as file:
            adapter = TypeAdapter(kind)
            text = _ESCAPE.sub(_with_bytes_named, file.read(_LARGEST))
            return adapter.dump_python(adapter.validate_json(text))
    except ValidationError as error:
        raise CorpusError(f"{path}: cannot be read: {first_fault(error)}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CorpusError(f"{path}: cannot be read: {root_cause(error):.200}") from None


def _with_bytes_named(escape: re.Match[bytes]) -> bytes:
    return escape[0] if escape[1] is None else rb"\\x" + escape[1]


def first_fault(error: ValidationError) -> str:
    """What is wrong first, after where it is."""
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else first["msg"]


def _checkpoints(path: Path) -> list[dict[str, float]]:
    if not path.is_file():
        return []
    found = []
    with convert_os_errors(CorpusError, f"{path}: cannot be read"), open(path, "rb") as file:
        for number, line in enumerate(file.read(_LARGEST).splitlines(), 1):
            try:
                found.append(_Checkpoint.model_validate_json(line).model_dump())
            except (ValueError, RecursionError):
                raise CorpusError(f"{path}:{number}: not a checkpoint of a replay") from None
    return found


def read_experiment(path: Path) -> dict[str, Any]:
    """The figures of an experiment, checked as far as pictures need them."""
    found: dict[str, Any] = _read(path, _Experiment, None)
    rows, shape = len(found["labels"]), found["shape"]
    sound = all(
        len(of["tested"]) == len(of["wrong"]) == rows
        and all(map(int.__le__, of["wrong"], of["tested"]))
        and all(shape and len(mean) == shape[0] * shape[1] for mean in of["class_means"].values())
        for of in found["models"].values()
    )
    for answer in found["answers"]:
        sound &= _labels(answer["likelihoods"]) == _labels(answer["probabilities"])
    if not sound:
        raise CorpusError(f"{path}: its figures do not belong together: run it again")
    return found


def _labels(answers: dict[str, dict[str, float]]) -> dict[str, set[str]]:
    return {name: set(of) for name, of in answers.items()}
