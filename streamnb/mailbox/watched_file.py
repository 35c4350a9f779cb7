"""A file whose changes are noticed, and that is then read again."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from streamnb.errors import ConfigError, StreamNBError, convert_os_errors
from streamnb.locks import ForkSafeLock

T = TypeVar("T")


class WatchedFile(Generic[T]):
    """The content of a file, read again when the file has changed.

    Parameters
    ----------
    path
        The file.
    read
        Reads it.
    warn
        Called with a line if the changed file cannot be read. The earlier content then stays.
    state
        Returns a value that differs if the file has changed. None for device, inode, size and time.
    is_independent
        Returns whether a content can still be used after the file was damaged. If not, `content`
        raises the error. None if all contents can be used.

    Attributes
    ----------
    is_stale
        Whether the earlier content is used, because the changed file cannot be read.

    Raises
    ------
    StreamNBError, OSError
        If the file cannot be read the first time.
    """

    def __init__(
        self,
        path: str,
        read: Callable[[str], T],
        warn: Callable[[str], None],
        state: Callable[[str], tuple[int, ...]] | None = None,
        is_independent: Callable[[T], bool] | None = None,
    ) -> None:
        self.path = path
        self.is_stale: bool = False
        self._state_of = state or file_state
        self._is_independent = is_independent or (lambda content: True)
        self._read = read
        self._warn = warn
        self._lock = ForkSafeLock()
        # None to read the file at the next use
        self._state: tuple[int, ...] | None = self._current_state()
        self._content = read(path)

    def _current_state(self) -> tuple[int, ...]:
        """Return the state of the file; () if it is missing, because `read` raises the error."""
        with suppress(StreamNBError):
            return self._state_of(self.path)
        return ()

    @property
    def content(self) -> T:
        """Return the content of the file as it is now.

        Raises
        ------
        StreamNBError, OSError
            If the file cannot be read, and the earlier content depends on it.
        """
        with self._lock:
            state = self._current_state()
            if state != self._state:
                self._state = None
                try:
                    self._content = self._read(self.path)
                    self.is_stale = False
                except (StreamNBError, OSError) as error:
                    self.is_stale = True
                    if not self._is_independent(self._content):
                        raise
                    self._warn(f"the earlier content is used: {error}")
                self._state = state
            return self._content


def file_state(path: str) -> tuple[int, ...]:
    """Return device, inode, size and times of a file."""
    with convert_os_errors(ConfigError, f"{path}: cannot be read"):
        status = os.stat(path)
    changed_ns = status.st_mtime_ns, status.st_ctime_ns  # ctime changes with the permissions
    return status.st_dev, status.st_ino, status.st_size, *changed_ns
