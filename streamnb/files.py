"""Files that are replaced whole or not at all.

Written to a temporary name in the same folder, synced, then renamed: whatever happens, the old
file or the new one is there.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from streamnb.errors import OutputError

__all__ = ["replacing", "writing"]


@contextlib.contextmanager
def writing(path: str, what: str, private: bool = False) -> Iterator[BinaryIO]:
    """As `replacing`; "-" is standard output."""
    if path != "-":
        with replacing(path, what, private) as file:
            yield file
        return
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


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
        Whether it is for its owner alone. Otherwise it has owner and mode of what was
        there.

    Raises
    ------
    OutputError
        Where that cannot be done; what was there is there still.
    """
    try:
        target = _target(path)
        before = target.stat() if target.exists() and not private else None
        temporary = str(target.with_name(f".streamnb-{secrets.token_hex(8)}"))
        mode = 0o666 if before is None and not private else 0o600
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise _failed(path, what, error) from None
    try:
        with os.fdopen(handle, "wb") as file:
            if before is not None:
                _make_alike(handle, before)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise _failed(path, what, error) from None
        raise
    with contextlib.suppress(OSError):  # it is in its place; some file systems cannot sync folders
        _sync(target.parent)


def _failed(path: str | Path, what: str, error: Exception) -> OutputError:
    why = getattr(error, "strerror", None) or error
    return OutputError(f"{path}: {what} cannot be written: {why}")


def _target(path: str | Path) -> Path:
    """What is to be replaced: a regular file, or a name that is free."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError("a link to itself")
    if str(path).endswith("/"):
        raise OSError("the name of a folder")
    if target.exists() and not target.is_file():
        raise OSError("not a regular file")
    return target


def _make_alike(handle: int, before: os.stat_result) -> None:
    """Give a new file owner and mode of the one it is to replace."""
    with contextlib.suppress(OSError):  # only root can give files away
        os.fchown(handle, before.st_uid, before.st_gid)
    os.fchmod(handle, before.st_mode & 0o777)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
