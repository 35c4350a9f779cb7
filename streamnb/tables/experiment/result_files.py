"""The files of an experiment."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from streamnb.config.experiment import ExperimentConfig
from streamnb.config.yaml_files import to_yaml
from streamnb.errors import OutputError, convert_os_errors
from streamnb.storage import replace_file
from streamnb.tables.experiment.results import Experiment


def make_folder(folder: str) -> None:
    """Have a folder for results, before there are any; OutputError where that cannot be."""
    with convert_os_errors(OutputError, f"{folder}: the folder cannot be made", ValueError):
        if not folder:
            raise ValueError("it has no name")
        Path(folder).mkdir(parents=True, exist_ok=True)


def write_experiment(found: Experiment, config: ExperimentConfig, folder: str) -> None:
    """Write `experiment.json`, `rows.csv` and `config.yaml`, each whole or not at all.

    Raises
    ------
    OutputError
        Where a file cannot be written.
    """
    for name, text in (
        ("experiment.json", json.dumps(found.as_dict())),
        ("rows.csv", _rows(found)),
        ("config.yaml", to_yaml(config)),
    ):
        with replace_file(Path(folder) / name, "the results") as file:
            file.write(text.encode(errors="replace"))


def _rows(found: Experiment) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(["row", "label", "model", "tested", "wrong"])
    for name, result in found.models.items():
        for i, label in enumerate(found.labels):
            writer.writerow([i + 1, label, name, result.tested[i], result.wrong[i]])
    return out.getvalue()
