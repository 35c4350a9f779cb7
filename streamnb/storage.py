"""Files that are replaced whole or not at all, and files of arrays that are not believed.

A file is written to a temporary name in the same folder, synced, then renamed: whatever happens,
the old one or the new one is there. Arrays are in numpy's .npz, never a pickle.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from streamnb.errors import OutputError, root_cause

if TYPE_CHECKING:
    from zipfile import ZipFile


@contextlib.contextmanager
def writing(path: str, what: str, private: bool = False) -> Iterator[BinaryIO]:
    """As `replace_file`; "-" is standard output."""
    if path != "-":
        with replace_file(path, what, private) as file:
            yield file
        return
    if sys.stdout is None:
        raise OutputError(f"standard output is closed: {what} cannot be written there")
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


@contextlib.contextmanager
def replace_file(path: str | Path, what: str, private: bool = False) -> Iterator[BinaryIO]:
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
        temporary = str(target.with_name(f".streamnb-{os.urandom(8).hex()}"))
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
    return OutputError(f"{path}: {what} cannot be written: {root_cause(error)}")


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


def write_arrays(path: str | Path | BinaryIO, arrays: dict[str, Any]) -> None:
    """Write arrays to a file, whole or not at all; to one that is open, just there.

    Raises
    ------
    OutputError
        Where that cannot be done; what was there is there still.
    """
    if not isinstance(path, str | Path):
        np.savez(path, **arrays)
        return
    with replace_file(path, "the model") as file:
        np.savez(file, **arrays)


def read_array(archive: ZipFile, name: str, dtype: str, ndim: int = 1) -> Any:
    """Read one array, believing neither its size nor its type before looking."""
    from zipfile import ZIP_STORED  # which is slow to import, and few programs read models

    info = archive.getinfo(f"{name}.npy")
    if info.compress_type != ZIP_STORED:
        raise ValueError(f"{name} is compressed")
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"{name} is of array format {version}")
        shape, fortran, found = np.lib.format.read_array_header_1_0(file)
        size = int(np.prod([int(n) for n in shape], dtype=object)) * found.itemsize
        if found != np.dtype(dtype) or fortran or len(shape) != ndim or size > info.file_size:
            raise ValueError(f"{name} is not what it should be")
        data = file.read(size)
    if len(data) != size:
        raise ValueError(f"{name} is cut off")
    return np.frombuffer(data, dtype=dtype).reshape(shape)


_KINDS = {"str": str, "int": int, "bool": bool, "float": float}


def label_to_json(label: Any, what: str = "a label") -> list[Any]:
    """A label as JSON can hold it, with its type.

    Raises
    ------
    OutputError
        For a label of another type.
    """
    if isinstance(label, np.generic):
        label = label.item()
    kind = type(label).__name__
    if _KINDS.get(kind) is type(label):
        return [kind, label]
    raise OutputError(
        f"{what} must be str, int, bool or float to be written to a file, not {label!r:.80}"
    )


def label_from_json(pair: Any) -> Any:
    """The label that `label_to_json` gave; ValueError where it is none."""
    kind, value = pair
    if type(value) is not _KINDS[kind]:
        raise ValueError(f"label {value!r:.80} is not {kind}")
    return value
