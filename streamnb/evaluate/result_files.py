"""The files that a replay writes.

During the run, their names end in `.partial`. They get their final names when the run ends, even
after Ctrl-C. A run that fails does not change the files of an earlier run. Its `.partial` files
have all results up to the last checkpoint.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Self
from urllib.parse import quote, unquote

from streamnb.errors import OutputError, printable
from streamnb.evaluate.prequential import Step

RESULT_FILES = ("results.txt", "checkpoints.jsonl", "config.yaml", "tokens.json", "summary.json")

EVALUATION = "# streamnb evaluate "  # the beginning of config.yaml of an evaluation


def encode_label(label: str) -> str:
    """Return a label as one word of results.txt: blanks and "%" as the bytes of a URL.

    Examples
    --------
    >>> encode_label("not spam"), decode_label("not%20spam")
    ('not%20spam', 'not spam')
    """
    return "".join(
        char
        if char.isprintable() and not char.isspace() and char != "%"
        else quote(char, safe="", errors="surrogatepass")
        for char in label
    )


def decode_label(word: str) -> str:
    """Return the label that `encode_label` has written as a word."""
    return unquote(word, errors="surrogatepass")


def check_earlier_results(folder: Path, kind: str) -> None:
    """Raise OutputError if a folder has results of another kind than this, such as "a replay"."""
    earlier_kind, config = kind, folder / "config.yaml"
    if (folder / "experiment.json").exists():
        earlier_kind = "an experiment"
    elif (folder / "summary.json").exists() and config.is_file():  # opening a pipe would wait
        marker = EVALUATION.encode()
        with open(config, "rb") as file:
            is_evaluation = file.read(len(marker)) == marker
        earlier_kind = "an evaluation" if is_evaluation else "a replay"
    if earlier_kind != kind:
        raise OutputError(f"{folder}: has the results of {earlier_kind}; choose another folder")


class ResultFiles:
    """Results, checkpoints, summary, tokens and configuration of a run, in one folder.

    Parameters
    ----------
    folder
        The folder; it is created if needed. None: nothing is written.
    config
        Content of `config.yaml`.

    Raises
    ------
    OutputError
        From any method, if a file cannot be written.
    """

    def __init__(self, folder: str | None, config: str) -> None:
        self.folder: Path | None = None if folder is None else Path(folder)
        self._config = config
        self._streams: dict[str, IO[str]] = {}
        self._folder_is_new = False

    def __enter__(self) -> Self:
        if self.folder is not None:
            with self._convert_errors():
                self._folder_is_new = not self.folder.exists()
                is_evaluation = self._config.startswith(EVALUATION)
                check_earlier_results(self.folder, "an evaluation" if is_evaluation else "a replay")
                self.folder.mkdir(parents=True, exist_ok=True)
                for name in RESULT_FILES:
                    if (self.folder / name).is_dir():  # `finish` could not replace it
                        raise IsADirectoryError(
                            errno.EISDIR, os.strerror(errno.EISDIR), str(self.folder / name)
                        )
                    # Remove links and pipes with these names, so that nothing is written through
                    # them.
                    self._partial_path(name).unlink(missing_ok=True)
                self._partial_path("config.yaml").write_text(self._config, encoding="utf-8")
                for name in ("results.txt", "checkpoints.jsonl"):
                    self._streams[name] = open(
                        self._partial_path(name),
                        "x",
                        encoding="utf-8",
                        errors="surrogateescape",
                        newline="\n",
                    )
        return self

    @contextlib.contextmanager
    def _convert_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            path = error.filename or self.folder
            raise OutputError(f"{path}: cannot be written: {error.strerror}") from None
        except ValueError as error:  # the name of the file is not valid
            raise OutputError(f"{printable(str(self.folder))}: {error}") from None

    def _partial_path(self, name: str) -> Path:
        assert self.folder is not None  # noqa: S101 (every caller has checked)
        return self.folder / f"{name}.partial"

    def __exit__(self, *exception: object) -> None:
        for stream in self._streams.values():
            suppressed = () if exception[0] is None else (OutputError,)
            with contextlib.suppress(*suppressed), self._convert_errors():
                stream.close()
        if isinstance(exception[1] if exception else None, SystemExit):  # terminated by a signal
            self.discard()

    def write_step(self, step: Step, score: float) -> None:
        """Append a line to results.txt: name, true class, predicted class, score."""
        if self._streams:
            predicted = "?" if step.predicted is None else encode_label(str(step.predicted))
            label = encode_label(str(step.y))
            line = f"{step.tag} judge={label} class={predicted} score={score!r}"
            with self._convert_errors():
                self._streams["results.txt"].write(printable(line) + "\n")

    def write_checkpoint(self, figures: dict[str, float]) -> None:
        """Append the running figures to checkpoints.jsonl and flush all files."""
        if self._streams:
            with self._convert_errors():
                self._streams["checkpoints.jsonl"].write(json.dumps(figures) + "\n")
                for stream in self._streams.values():
                    stream.flush()

    @property
    def has_earlier_results(self) -> bool:
        """True if the folder holds the results of an earlier run."""
        return self.folder is not None and (self.folder / "summary.json").exists()

    def discard(self) -> None:
        """Delete the `.partial` files, and the folder if this run created it."""
        if self.folder is not None:
            with contextlib.suppress(OSError):
                for name in RESULT_FILES:
                    self._partial_path(name).unlink(missing_ok=True)
                if self._folder_is_new:
                    self.folder.rmdir()  # fails if the folder has other files

    def finish(self, figures: dict[str, Any], tokens: dict[str, Any]) -> None:
        """Write summary.json and tokens.json, and give all files their final names."""
        if self.folder is None:
            return
        with self._convert_errors():
            self._partial_path("summary.json").write_text(
                json.dumps(figures, indent=1) + "\n", encoding="utf-8"
            )
            self._partial_path("tokens.json").write_text(
                json.dumps(tokens) + "\n", encoding="utf-8"
            )
            for stream in self._streams.values():
                stream.close()
            for name in RESULT_FILES:
                os.replace(self._partial_path(name), self.folder / name)
