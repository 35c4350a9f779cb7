"""The files of a run: written as it goes, so whatever stops it, what was measured is there."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import IO, Any, Self

from streamnb.errors import OutputError
from streamnb.evaluate.prequential import Step

__all__ = ["ResultFiles"]

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")


class ResultFiles:
    """`results.txt`, `checkpoints.jsonl`, `summary.json` and `config.yaml` in a folder.

    Parameters
    ----------
    folder
        Where; None writes nothing.
    config
        Text of `config.yaml`.

    Raises
    ------
    OutputError
        From any method, where something cannot be written.
    """

    def __init__(self, folder: str | None, config: str) -> None:
        self.folder = None if folder is None else Path(folder)
        self._config = config
        self._files: dict[str, IO[str]] = {}

    def __enter__(self) -> Self:
        if self.folder is not None:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                (self.folder / "summary.json").unlink(missing_ok=True)  # it would be another run's
                (self.folder / "config.yaml").write_text(self._config, encoding="utf-8")
                for name in ("results.txt", "checkpoints.jsonl"):
                    self._files[name] = open(
                        self.folder / name,
                        "w",
                        encoding="utf-8",
                        errors="surrogateescape",
                        newline="\n",
                    )
            except OSError as error:
                raise self._failed(error) from None
        return self

    def __exit__(self, *exception: object) -> None:
        for file in self._files.values():
            try:
                file.close()
            except OSError as error:
                if exception[0] is None:
                    raise self._failed(error) from None

    def _failed(self, error: OSError) -> OutputError:
        return OutputError(f"{error.filename or self.folder}: cannot be written: {error.strerror}")

    def _write(self, name: str, line: str) -> None:
        try:
            self._files[name].write(line)
        except OSError as error:
            raise self._failed(error) from None

    def step(self, step: Step, score: float) -> None:
        """Write a line of results: name, true class, class given, score at full precision."""
        if self._files:
            name = _UNPRINTABLE.sub("?", str(step.tag))
            given = "?" if step.predicted is None else step.predicted
            self._write("results.txt", f"{name} judge={step.y} class={given} score={score!r}\n")

    def checkpoint(self, figures: dict[str, float]) -> None:
        """Write the running figures."""
        if self._files:
            self._write("checkpoints.jsonl", json.dumps(figures) + "\n")

    def finish(self, figures: dict[str, Any]) -> None:
        """Write the summary, whole or not at all."""
        if self.folder is None:
            return
        temporary = self.folder / ".summary.json.new"
        try:
            temporary.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
            os.replace(temporary, self.folder / "summary.json")
        except OSError as error:
            raise self._failed(error) from None
