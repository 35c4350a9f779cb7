"""The model of a site: its scores are added to those of each user's mailbox."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, NamedTuple

from streamnb.classifier import Classifier
from streamnb.classifier.verdict import Reason
from streamnb.counts.protocol import Label
from streamnb.errors import StateError, convert_os_errors
from streamnb.locks import ForkSafeLock
from streamnb.mailbox.blend import Opinion, opinion_of
from streamnb.mailbox.location import WAIT, is_url
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.watched_file import WatchedFile, file_state

if TYPE_CHECKING:
    from pathlib import Path

_SQLITE = b"SQLite format 3\0"


class _Content(NamedTuple):
    """A model file's classifier and its version, or an open mailbox."""

    source: Classifier | Mailbox
    version: str = ""

    @property
    def classifier(self) -> Classifier:
        return self.source.classifier if isinstance(self.source, Mailbox) else self.source


class SiteModel:
    """The model or mailbox of a site, opened at the first use and never changed.

    A changed file is read again. If it is damaged, the earlier content stays in use.

    Parameters
    ----------
    path
        A model that `export --format model` or `replay --save` wrote, or a mailbox's database.
    wait
        Seconds to wait for other processes.
    warn
        Called with a line if the file has changed and cannot be read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        wait: float = WAIT,
        warn: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.path: str = os.fspath(path)
        self.wait = wait
        self._warn = warn
        self._file: WatchedFile[_Content] | None = None
        self._lock = ForkSafeLock()  # threads of a server share it

    @property
    def is_stale(self) -> bool:
        """Return whether the earlier content is used, because the changed file cannot be read."""
        return self._file is not None and self._file.is_stale

    def close(self) -> None:
        """Close the database, if it is one."""
        if self._file is not None and isinstance(self._file.last_content.source, Mailbox):
            self._file.last_content.source.close()
        self._file = None

    def __del__(self) -> None:
        # Mailboxes do not close the site's model, because several can share it.
        with suppress(Exception):
            self.close()

    @contextmanager
    def _opened(self) -> Iterator[_Content]:
        with self._lock:
            if self._file is None:
                self._file = WatchedFile(self.path, self._read, self._warn, _state)
            content = self._file.content
        with nullcontext() if isinstance(content.source, Classifier) else content.source.reading():
            yield content

    def _read(self, path: str) -> _Content:
        if is_url(path) or _is_database(path):
            return _Content(Mailbox(path, create=False, wait=self.wait))
        import hashlib

        with open(path, "rb") as file:
            version = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        classifier = Classifier.load(path)
        classifier.on = None
        return _Content(classifier, version)

    @property
    def version(self) -> str:
        """The state of the model."""
        with self._opened() as content:
            if isinstance(content.source, Classifier):
                return content.version
            (last,) = content.source.database.connection.execute(
                "SELECT coalesce(max(id), 0) FROM ledger"
            ).fetchone()
            return f"row {last}"

    def opinion(self, message: bytes) -> Opinion:
        """Return the opinion on a message; it has no scores if nothing was learned."""
        with self._opened() as content:
            return opinion_of(content.classifier, content.classifier.count(message))

    def is_ready(self, label: str) -> bool:
        """Return whether a class has enough correct predictions for a sure verdict."""
        with self._opened() as content:
            known_label = _label_of_name(content.classifier, label)
            return known_label is not None and content.classifier.model.is_ready(known_label)

    def reasons(self, message: bytes, label: str, most: int) -> list[Reason]:
        """Return the features that speak most for or against a class."""
        with self._opened() as content:
            classifier = content.classifier
            known_label = _label_of_name(classifier, label)
            if known_label is None:
                return []
            return classifier.reasons(classifier.count(message), known_label, most)


def _label_of_name(classifier: Classifier, name: str) -> Label | None:
    return next((label for label in classifier.labels if str(label) == name), None)


def _is_database(path: str) -> bool:
    """Return whether a file is a database, by its first bytes."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise StateError(f"{path}: the base cannot be read: not a regular file")
    with (
        convert_os_errors(StateError, f"{path}: the base cannot be read"),
        open(path, "rb") as file,
    ):
        return file.read(len(_SQLITE)) == _SQLITE


def _state(path: str) -> tuple[int, ...]:
    """Return the state of a file: for a database, only the identity of the file."""
    if is_url(path):
        return ()
    return file_state(path)[:2] if _is_database(path) else file_state(path)


def open_with_site_model(path: str | Path, create: bool, wait: float, base: str | None) -> Mailbox:
    """Open a mailbox with the site's model, if one is given and it is not the mailbox itself."""
    if base is None or os.path.realpath(base) == os.path.realpath(path):
        return Mailbox(path, create, wait)
    return Mailbox(path, create, wait, base=SiteModel(base, wait))
