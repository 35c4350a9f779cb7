"""A file that is read again after changes."""

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

    Raises
    ------
    StreamNBError
        If the file cannot be read the first time.
    """

    def __init__(self, path: str, read: Callable[[str], T], warn: Callable[[str], None]) -> None:
        self.path = path
        self._read = read
        self._warn = warn
        self._lock = ForkSafeLock()
        self._state: tuple[int, ...] = ()
        with suppress(ConfigError):  # `read` raises the better error
            self._state = _file_state(path)
        self._content = read(path)

    @property
    def content(self) -> T:
        """Return the content of the file as it is now."""
        with self._lock:
            try:
                state = _file_state(self.path)
                if state != self._state:
                    self._state = state
                    self._content = self._read(self.path)
            except StreamNBError as error:
                self._warn(f"the earlier content is still used: {error}")
            return self._content


def _file_state(path: str) -> tuple[int, ...]:
    with convert_os_errors(ConfigError, f"{path}: cannot be read"):
        status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
