"""The files of a run.

They are written as it goes, to names that end in `.partial`, and get their own names when it ends,
by itself or by Ctrl-C. A run that fails leaves what an earlier one wrote, and beside it what was
measured up to the last checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Self

from streamnb.errors import OutputError, printable
from streamnb.evaluate.prequential import Step

_FILES = ("results.txt", "checkpoints.jsonl", "config.yaml", "tokens.json", "summary.json")


class ResultFiles:
    """The files of a run in a folder: results, checkpoints, summary, tokens and configuration.

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
        self._made = False

    def __enter__(self) -> Self:
        if self.folder is not None:
            with self._writing():
                self._made = not self.folder.exists()
                self.folder.mkdir(parents=True, exist_ok=True)
                for name in _FILES:
                    # Never through what somebody may have put there: a link, a pipe.
                    self._partial(name).unlink(missing_ok=True)
                self._partial("config.yaml").write_text(self._config, encoding="utf-8")
                for name in ("results.txt", "checkpoints.jsonl"):
                    self._files[name] = open(
                        self._partial(name),
                        "x",
                        encoding="utf-8",
                        errors="surrogateescape",
                        newline="\n",
                    )
        return self

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = error.filename or self.folder
            raise OutputError(f"{where}: cannot be written: {error.strerror}") from None
        except ValueError as error:  # a name that no file can have
            raise OutputError(f"{printable(str(self.folder))}: {error}") from None

    def _partial(self, name: str) -> Path:
        assert self.folder is not None  # noqa: S101 (callers have looked)
        return self.folder / f"{name}.partial"

    def __exit__(self, *exception: object) -> None:
        for file in self._files.values():
            ignored = () if exception[0] is None else (OutputError,)
            with contextlib.suppress(*ignored), self._writing():
                file.close()
        if isinstance(exception[1] if exception else None, SystemExit):  # told to end at once
            self.discard()

    def step(self, step: Step, score: float) -> None:
        """Write a line of results: name, true class, class given, score at full precision."""
        if self._files:
            given = "?" if step.predicted is None else step.predicted
            line = f"{step.tag} judge={step.y} class={given} score={score!r}"
            with self._writing():
                self._files["results.txt"].write(printable(line) + "\n")

    def checkpoint(self, figures: dict[str, float]) -> None:
        """Write the running figures, and everything until here to the disk."""
        if self._files:
            with self._writing():
                self._files["checkpoints.jsonl"].write(json.dumps(figures) + "\n")
                for file in self._files.values():
                    file.flush()

    @property
    def earlier(self) -> bool:
        """Whether the results of an earlier run are there."""
        return self.folder is not None and (self.folder / "summary.json").exists()

    def discard(self) -> None:
        """Remove the files of a run that has nothing to say, and the folder if it was made here."""
        if self.folder is not None:
            with contextlib.suppress(OSError):
                for name in _FILES:
                    self._partial(name).unlink(missing_ok=True)
                if self._made:
                    self.folder.rmdir()  # unless something else lies in it

    def finish(self, figures: dict[str, Any], tokens: dict[str, Any]) -> None:
        """Write the summary and the most telling tokens, and give all files their names."""
        if self.folder is None:
            return
        with self._writing():
            self._partial("summary.json").write_text(
                json.dumps(figures, indent=1) + "\n", encoding="utf-8"
            )
            self._partial("tokens.json").write_text(json.dumps(tokens) + "\n", encoding="utf-8")
            for file in self._files.values():
                file.close()
            for name in _FILES:
                os.replace(self._partial(name), self.folder / name)
