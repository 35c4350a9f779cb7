"""Folders that `replay --out` and `experiment --out` wrote, read again."""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamnb.errors import CorpusError
from streamnb.evaluate.compare import Run, read_run

__all__ = ["ReadRun", "read_experiment", "read_folder"]

_LARGEST = 1 << 28


@dataclass(frozen=True)
class ReadRun:
    """A replay: its results, its summary, how figures went, and the most telling tokens."""

    name: str
    run: Run
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
    summary = _json(at / "summary.json", {}) if at.is_dir() else {}
    tokens = _json(at / "tokens.json", {}) if at.is_dir() else {}
    found = ReadRun(folder, run, summary, _checkpoints(at / "checkpoints.jsonl"), {})
    try:
        for label, pairs in tokens.items():
            found.tokens[str(label)] = [(str(token), float(gain)) for token, gain in pairs]
        _check_summary(summary)
    except (TypeError, ValueError, KeyError, AttributeError):
        raise CorpusError(f"{folder}: not what a replay writes: run it again") from None
    return found


def _check_summary(summary: dict[str, Any]) -> None:
    for one in summary.get("reliability", []):
        _ = [float(one[key]) for key in ("low", "high", "messages", "claimed", "true")]
    for row in summary.get("confusion", {}).values():
        _ = [int(count) for count in row.values()]


def _json(path: Path, missing: Any) -> Any:
    try:
        if not path.exists():
            return missing
        if not stat.S_ISREG(path.stat().st_mode):
            raise ValueError("not a regular file")
        with open(path, encoding="utf-8") as file:
            found = json.loads(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or f"not JSON: {str(error)[:80]}"
        raise CorpusError(f"{path}: cannot be read: {why}") from None
    if not isinstance(found, dict):
        raise CorpusError(f"{path}: expected a JSON object")
    return found


def _checkpoints(path: Path) -> list[dict[str, float]]:
    if not path.is_file():
        return []
    keys = ("messages", "accuracy", "window_accuracy", "fading_accuracy")
    found = []
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file.read(_LARGEST).splitlines(), 1):
                try:
                    one = json.loads(line)
                    found.append({key: float(one[key]) for key in keys})
                except (ValueError, KeyError, TypeError, RecursionError):
                    raise CorpusError(f"{path}:{number}: not a checkpoint of a replay") from None
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        raise CorpusError(f"{path}: cannot be read: {why}") from None
    return found


def read_experiment(path: Path) -> dict[str, Any]:
    """The figures of an experiment, checked as far as pictures need them."""
    found: dict[str, Any] = _json(path, {})
    try:
        for key in ("name", "kind"):
            found[key] = str(found[key])
        labels = [str(label) for label in found["labels"]]
        for answer in found["answers"]:
            _ = dict(answer["question"])
            for name, likelihoods in answer["likelihoods"].items():
                for label, likelihood in likelihoods.items():
                    _ = float(likelihood), float(answer["probabilities"][name][label])
        for result in found["models"].values():
            for point in result["points"]:
                _ = [float(point[key]) for key in ("test", "mean", "sd", "tested", "trials")]
                _ = [float(x) for x in point["accuracies"]]
            for key in ("tested", "wrong"):
                if len([int(n) for n in result[key]]) != len(labels):
                    raise ValueError
            _ = [float(x) for x in result["curve"]]
            for row in result["confusion"].values():
                _ = [int(n) for n in row.values()]
            for pixels in result["class_means"].values():
                height, width = (int(n) for n in found["shape"])
                if len([float(x) for x in pixels]) != height * width:
                    raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError):
        raise CorpusError(f"{path}: not what an experiment writes: run it again") from None
    return found
