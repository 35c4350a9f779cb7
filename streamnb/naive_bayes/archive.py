"""Files of arrays: numpy's .npz, never a pickle, replaced whole or not at all.

Written to a temporary name in the same folder, synced, then renamed: whatever happens, the old
file or the new one is there. What is read is checked before it is believed.
"""

from __future__ import annotations

import os
import stat
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from streamnb.errors import OutputError

__all__ = ["array_of", "write"]


def write(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays to a file, whole or not at all.

    Raises
    ------
    OutputError
        Where that cannot be done; what was there is there still.
    """
    try:
        path = Path(os.path.realpath(path))  # what a link leads to is replaced, not the link
        before = path.stat() if path.exists() else None
        if before is not None and not stat.S_ISREG(before.st_mode):
            raise OutputError(f"{path}: the model cannot be written: not a regular file")
        umask = os.umask(0o077)
        os.umask(umask)
        mode = 0o666 & ~umask if before is None else stat.S_IMODE(before.st_mode)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                os.fchmod(file.fileno(), mode)
                np.savez(file, **arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        why = getattr(error, "strerror", None) or error
        raise OutputError(f"{path}: the model cannot be written: {why}") from None


def array_of(archive: zipfile.ZipFile, name: str, dtype: str, ndim: int = 1) -> Any:
    """Read one array, believing neither its size nor its type before looking."""
    info = archive.getinfo(f"{name}.npy")
    if info.compress_type != zipfile.ZIP_STORED:
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
