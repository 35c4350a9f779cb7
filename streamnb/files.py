"""Files that are replaced whole or not at all.

Written to a temporary name in the same folder, synced, then renamed: whatever happens, the old
file or the new one is there.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from streamnb.errors import OutputError

__all__ = ["replacing"]


@contextlib.contextmanager
def replacing(path: str | Path, what: str, private: bool = False) -> Iterator[BinaryIO]:
    """A file to write to, which takes its place when all went well.

    Parameters
    ----------
    path
        Its name; where that is a link, what it leads to is replaced.
    what
        What is written, for the message: "the model".
    private
        Whether it is for its owner alone. Otherwise it has the mode of what was there.

    Raises
    ------
    OutputError
        Where that cannot be done; what was there is there still.
    """
    try:
        target = Path(os.path.realpath(path))
        mode = 0o600 if private else _mode(target)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".streamnb-")
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise _failed(path, what, error) from None
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        _sync(target.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise _failed(path, what, error) from None
        raise


def _failed(path: str | Path, what: str, error: Exception) -> OutputError:
    why = getattr(error, "strerror", None) or error
    return OutputError(f"{path}: {what} cannot be written: {why}")


def _mode(target: Path) -> int:
    if target.exists():
        mode = target.stat().st_mode
        if not stat.S_ISREG(mode):
            raise OSError("not a regular file")
        return stat.S_IMODE(mode)
    umask = os.umask(0o077)
    os.umask(umask)
    return 0o666 & ~umask


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
