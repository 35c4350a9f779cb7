"""The model of a site: its scores are added to those of each user's mailbox."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamnb.classifier import Classifier, MailClassifier, Verdict
from streamnb.classifier.verdict import Reason
from streamnb.counts.protocol import Label
from streamnb.errors import BusyError, StateError, StreamNBError, convert_os_errors
from streamnb.locks import ForkSafeLock
from streamnb.mailbox.blend import GAINS, Opinion, opinion_of, verdict_of_both
from streamnb.mailbox.location import WAIT, is_url
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.watched_file import WatchedFile, file_state

if TYPE_CHECKING:
    from pathlib import Path

_SQLITE = b"SQLite format 3\0"
_ZIP = b"PK"  # a model file is an archive of arrays


@dataclass(eq=False)
class _Content:
    """A model file's classifier and version, or an open mailbox; and the current readers."""

    source: Classifier | Mailbox
    version: str = ""
    readers: int = 0

    @property
    def classifier(self) -> Classifier:
        return self.source.classifier if isinstance(self.source, Mailbox) else self.source

    def current_version(self) -> str:
        """Return a value that changes with the file or, for a database, with its last row."""
        if isinstance(self.source, Classifier):
            return self.version
        (last,) = self.source.database.connection.execute(
            "SELECT coalesce(max(id), 0) FROM ledger"
        ).fetchone()
        return f"row {last}"

    def close(self) -> None:
        if isinstance(self.source, Mailbox):
            self.source.close()


class SiteModel:
    """The model or mailbox of a site, opened at the first use and never changed.

    A file that has changed is read again. If it is damaged, its earlier content is used. A damaged
    database cannot be used.

    Parameters
    ----------
    path
        A model that `export --format model` or `replay --save` wrote, or a mailbox's database.
    wait
        Seconds to wait for other processes.
    warn
        Called with a line if the model cannot be read. There is then no opinion, and users'
        mailboxes give verdicts alone. With None, the error is raised.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        wait: float = WAIT,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.path: str = os.fspath(path)
        self.wait = wait
        self.error: StreamNBError | None = None  # error of the last check, if there was no opinion
        self._warn = warn
        self._file: WatchedFile[_Content] | None = None
        self._current: _Content | None = None
        self._lock = ForkSafeLock()  # threads of a server share it

    @property
    def is_stale(self) -> bool:
        """Return whether the model cannot be read, so an earlier model or none is used."""
        return self.error is not None or (self._file is not None and self._file.is_stale)

    def close(self) -> None:
        """Close the database, if it is one."""
        if self._current is not None:
            self._current.close()
        self._file = self._current = None

    def __del__(self) -> None:
        # Mailboxes do not close the site's model, because several can share it.
        with suppress(Exception):
            self.close()

    @contextmanager
    def _open_content(self) -> Iterator[_Content]:
        """Yield the current content, with a transaction if it is a mailbox."""
        with self._lock:
            if self._file is None:
                ignore = self._warn or (lambda line: None)
                self._file = WatchedFile(self.path, self._read, ignore, _state, _is_in_memory)
            earlier, content = self._current, self._file.content
            self._current = content
            content.readers += 1
            if earlier is not None and earlier is not content and not earlier.readers:
                earlier.close()
        source = content.source
        try:
            with nullcontext() if isinstance(source, Classifier) else source.reading():
                yield content
        finally:
            with self._lock:
                content.readers -= 1
                if content is not self._current and not content.readers:
                    content.close()

    def _read(self, path: str) -> _Content:
        if is_url(path) or _is_database(path):
            return _Content(Mailbox(path, create=False, wait=self.wait))
        import hashlib

        with open(path, "rb") as file:
            if file.read(len(_ZIP)) != _ZIP:
                raise StateError(
                    f"{path}: neither a mailbox's database nor a model; restore it from a backup, "
                    "or write a model with `streamnb export --format model`"
                )
            file.seek(0)
            version = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        classifier = Classifier.load(path)
        classifier.on = None
        return _Content(classifier, version)

    @property
    def version(self) -> str:
        """The state of the model."""
        with self._open_content() as content:
            return content.current_version()

    def check(self) -> None:
        """Raise the error, after a warning, if the model cannot be read."""
        try:
            _ = self.version
        except StreamNBError as error:
            self._report(error)
            raise

    def opinion(self, message: bytes) -> Opinion | None:
        """Return the opinion on a message; it has no scores if the model has learned nothing.

        If the model cannot be read and `warn` was given, return None.

        Raises
        ------
        BusyError
            If other processes or threads use the database for too long.
        """
        try:
            with self._open_content() as content:
                opinion = opinion_of(content.classifier, content.classifier.count(message))
                opinion = opinion._replace(version=content.current_version())
        except StreamNBError as error:
            self._report(error)
            return None
        self.error = None
        return opinion

    def _report(self, error: StreamNBError) -> None:
        """Warn of a model that cannot be read; raise the error if it is temporary."""
        if self._warn is None or isinstance(error, BusyError):
            raise error
        self.error = error
        self._warn(f"the site's model is not used: {error}")

    def reasons(self, message: bytes, label: str, most: int) -> list[Reason]:
        """Return the features with the strongest evidence for or against a class."""
        try:
            with self._open_content() as content:
                classifier = content.classifier
                known_label = _label_of_name(classifier, label)
                if known_label is None:
                    return []
                return classifier.reasons(classifier.count(message), known_label, most)
        except StreamNBError as error:
            self._report(error)
            return []


class Guest:
    """The mailbox of a user without a database. It has learned nothing.

    Attributes
    ----------
    base
        The site's model, which gives the verdicts.
    """

    def __init__(self) -> None:
        self.base: SiteModel | None = None
        self._classifier = MailClassifier(label_noise=0.0)

    def classify(
        self, message: bytes, reasons: int = 0, costs: Sequence[float] | None = None
    ) -> Verdict:
        """Return the verdict on a message, as `Mailbox.classify` does."""
        site = None if self.base is None else self.base.opinion(message)
        if self.base is None or site is None or not site.scores:
            return self._classifier.classify(message, reasons, costs)
        explain = self.base.reasons
        return verdict_of_both(self._classifier, GAINS, explain, message, site, reasons, costs)


def _is_in_memory(content: _Content) -> bool:
    return isinstance(content.source, Classifier)


def _label_of_name(classifier: Classifier, name: str) -> Label | None:
    return next((label for label in classifier.labels if str(label) == name), None)


def _is_database(path: str) -> bool:
    """Return whether a file is a database, by its first bytes."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise StateError(f"{path}: the site's model cannot be read: not a regular file")
    with (
        convert_os_errors(StateError, f"{path}: the site's model cannot be read"),
        open(path, "rb") as file,
    ):
        return file.read(len(_SQLITE)) == _SQLITE


def _state(path: str) -> tuple[int, ...]:
    """Return the state of a file: for a database, only the identity of the file."""
    if is_url(path):
        return ()
    return file_state(path)[:2] if _is_database(path) else file_state(path)


def site_model_of(
    path: str | Path, wait: float, base: str | None, warn: Callable[[str], None] | None = None
) -> SiteModel | None:
    """Return the site's model, None if none is given or it is the mailbox itself."""
    if base is None or os.path.realpath(base) == os.path.realpath(path):
        return None
    return SiteModel(base, wait, warn)


def open_with_site_model(
    path: str | Path,
    create: bool,
    wait: float,
    base: str | None,
    warn: Callable[[str], None] | None = None,
) -> Mailbox:
    """Open a mailbox with the site's model, if there is one; `warn` is as for `SiteModel`."""
    site_model = site_model_of(path, wait, base, warn)
    if site_model is not None and create and not is_url(path) and not os.path.exists(path):
        site_model.check()  # before a database is created
    return Mailbox(path, create, wait, base=site_model)
