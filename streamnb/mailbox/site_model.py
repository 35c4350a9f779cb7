"""The model of a site: its scores are added to those of each user's mailbox."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING

from streamnb.classifier import Classifier
from streamnb.classifier.verdict import Reason
from streamnb.counts.protocol import Label
from streamnb.errors import StateError, convert_os_errors
from streamnb.locks import ForkSafeLock
from streamnb.mailbox.blend import Opinion, opinion_of
from streamnb.mailbox.location import WAIT, is_url
from streamnb.mailbox.mailbox import Mailbox

if TYPE_CHECKING:
    from pathlib import Path

_SQLITE = b"SQLite format 3\0"


class SiteModel:
    """The model or mailbox of a site, opened at its first use and only read.

    Parameters
    ----------
    path
        A model that `export --format model` or `replay --save` wrote, or a mailbox's database.
    wait
        Seconds to wait for other processes.
    """

    def __init__(self, path: str | os.PathLike[str], wait: float = WAIT) -> None:
        self.path: str = os.fspath(path)
        self.wait = wait
        self._mailbox: Mailbox | None = None
        self._classifier: Classifier | None = None
        self._version = ""
        self._lock = ForkSafeLock()  # threads of a server share it

    def close(self) -> None:
        """Close the database, if it is one."""
        if self._mailbox is not None:
            self._mailbox.close()
            self._mailbox = None

    def __del__(self) -> None:
        # Several mailboxes can share it, so none of them closes it.
        with suppress(Exception):
            self.close()

    def _opened(self) -> AbstractContextManager[object]:
        with self._lock:
            if self._classifier is None and self._mailbox is None:
                self._open()
        return nullcontext() if self._mailbox is None else self._mailbox.reading()

    def _open(self) -> None:
        if is_url(self.path):
            self._mailbox = Mailbox(self.path, create=False, wait=self.wait)
            return
        if os.path.exists(self.path) and not os.path.isfile(self.path):
            raise StateError(f"{self.path}: the site's model cannot be read: not a regular file")
        with (
            convert_os_errors(StateError, f"{self.path}: the site's model cannot be read"),
            open(self.path, "rb") as file,
        ):
            head = file.read(len(_SQLITE))
            if head != _SQLITE:
                import hashlib

                self._version = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        if head == _SQLITE:
            self._mailbox = Mailbox(self.path, create=False, wait=self.wait)
        else:
            self._classifier = Classifier.load(self.path)
            self._classifier.on = None

    @property
    def _open_classifier(self) -> Classifier:
        classifier = self._classifier if self._mailbox is None else self._mailbox.classifier
        assert classifier is not None  # noqa: S101 (it was opened)
        return classifier

    @property
    def version(self) -> str:
        """The state of the model."""
        with self._opened():
            if self._mailbox is None:
                return self._version
            (last,) = self._mailbox.database.connection.execute(
                "SELECT coalesce(max(id), 0) FROM ledger"
            ).fetchone()
            return f"row {last}"

    def opinion(self, message: bytes) -> Opinion:
        """Return the opinion on a message; without scores before anything was learned."""
        with self._opened():
            classifier = self._open_classifier
            return opinion_of(classifier, classifier.count(message))

    def is_ready(self, label: str) -> bool:
        """Return whether a class has enough correct predictions for sure verdicts."""
        with self._opened():
            known_label = self._label_of_name(label)
            return known_label is not None and self._open_classifier.model.is_ready(known_label)

    def reasons(self, message: bytes, label: str, most: int) -> list[Reason]:
        """Return the features with the strongest evidence for or against a class."""
        with self._opened():
            known_label, classifier = self._label_of_name(label), self._open_classifier
            return (
                []
                if known_label is None
                else classifier.reasons(classifier.count(message), known_label, most)
            )

    def _label_of_name(self, label: str) -> Label | None:
        return next(
            (
                known_label
                for known_label in self._open_classifier.labels
                if str(known_label) == label
            ),
            None,
        )


def open_with_site_model(path: str | Path, create: bool, wait: float, base: str | None) -> Mailbox:
    """Open a mailbox with the site's model, if one is given and it is not the mailbox itself."""
    if base is None or os.path.realpath(base) == os.path.realpath(path):
        return Mailbox(path, create, wait)
    return Mailbox(path, create, wait, base=SiteModel(base, wait))
