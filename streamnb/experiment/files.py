"""The files of an experiment."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

from streamnb.config import as_yaml
from streamnb.config.experiment import ExperimentConfig
from streamnb.errors import OutputError
from streamnb.experiment.run import Experiment

__all__ = ["write_experiment"]


def write_experiment(found: Experiment, config: ExperimentConfig, folder: str) -> None:
    """Write `experiment.json`, `rows.csv` and `config.yaml`, each whole or not at all.

    Raises
    ------
    OutputError
        Where the folder or a file cannot be written.
    """
    at = Path(folder)
    try:
        at.mkdir(parents=True, exist_ok=True)
        _write(at / "experiment.json", json.dumps(found.as_dict()))
        _write(at / "config.yaml", as_yaml(config))
        temporary = at / "rows.csv.partial"
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["row", "label", "model", "tested", "wrong"])
            for name, result in found.models.items():
                for i, label in enumerate(found.labels):
                    writer.writerow([i + 1, label, name, result.tested[i], result.wrong[i]])
        os.replace(temporary, at / "rows.csv")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise OutputError(f"{folder}: results cannot be written: {why}") from None


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.partial")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
