"""Files of arrays: numpy's .npz, never a pickle; what is read is checked before it is believed."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from streamnb.files import replacing

__all__ = ["array_of", "write"]


def write(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays to a file, whole or not at all.

    Raises
    ------
    OutputError
        Where that cannot be done; what was there is there still.
    """
    with replacing(path, "the model") as file:
        np.savez(file, **arrays)


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
