"""Atomic file replacement, and files of arrays that are checked before they are read.

A file is written under a temporary name in the same folder, synced, then renamed. After a crash,
either the old or the new file exists, and is complete. Arrays are stored in numpy's .npz, never
pickled.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from streamnb.errors import OutputError, root_cause

if TYPE_CHECKING:
    from pathlib import Path
    from zipfile import ZipFile

_SQLITE = b"SQLite format 3\0"  # first bytes of a database
_STANDARD_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"(?:/dev|/proc/self)/fd/([0-9]{1,9})")


@contextlib.contextmanager
def open_output(path: str, content: str, private: bool = False) -> Iterator[BinaryIO]:
    """Open a file as `replace_file` does, or standard output if the path is "-".

    A pipe or a device, such as /dev/null or a shell's `>(gzip)`, is not replaced. An open file,
    such as /dev/stdout, is written from its current position.
    """
    if path != "-":
        is_stream = _descriptor_of(path) is not None or _is_stream(path)
        with (
            _open_stream(path, content)
            if is_stream
            else replace_file(path, content, private) as file
        ):
            yield file
        return
    if sys.stdout is None:
        raise OutputError(f"standard output is closed: {content} cannot be written there")
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def _is_stream(path: str) -> bool:
    """Return whether a path is a pipe or a character device."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # a new file, or a name that `replace_file` refuses
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _descriptor_of(path: str) -> int | None:
    """Return the descriptor of an open file that a path names, such as 1 for /dev/stdout."""
    if path in _STANDARD_STREAMS:
        return _STANDARD_STREAMS[path]
    match = _DESCRIPTOR.fullmatch(path)
    return int(match[1]) if match else None


@contextlib.contextmanager
def _open_stream(path: str, content: str) -> Iterator[BinaryIO]:
    """Open a pipe, a device or an open file; BrokenPipeError if its reader has closed it."""
    descriptor = _descriptor_of(path)
    try:
        if descriptor is None:
            opened = open(path, "wb")  # noqa: SIM115 (closed below)
        else:  # a second open of the file by its name would write at its beginning
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
            opened = os.fdopen(os.dup(descriptor), "wb")
    except (OSError, OverflowError) as error:
        raise _write_error(path, content, error) from None
    try:
        with opened as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None:  # the error of another file, such as an input
            raise
        raise _write_error(path, content, error) from None


@contextlib.contextmanager
def replace_file(
    path: str | Path, content: str, private: bool = False, is_new: bool = False
) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` when the block ends without an error.

    Parameters
    ----------
    path
        Name of the file. If it is a symbolic link, the file that it points to is replaced.
    content
        Name of the content in error messages, such as "the model".
    private
        True to let only the owner read the file. False to give it owner and mode of the replaced
        file.
    is_new
        True to raise FileExistsError if the path exists.

    Raises
    ------
    OutputError
        If the file cannot be written; the old file is then unchanged.
    """
    try:
        target = _replaceable_path(path)
        old_status = target.stat() if target.exists() and not private else None
        temporary = str(target.with_name(f".streamnb-{os.urandom(8).hex()}"))
        mode = 0o666 if old_status is None and not private else 0o600
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except (OSError, ValueError) as error:  # ValueError: the name cannot be a file's name
        raise _write_error(path, content, error) from None
    try:
        with os.fdopen(handle, "wb") as file:
            if old_status is not None:
                _copy_owner_and_mode(handle, old_status)
            yield file
            file.flush()
            os.fsync(file.fileno())
        (move_file if is_new else os.replace)(temporary, str(target))
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if (
            isinstance(error, OSError)
            and error.filename in (None, temporary)
            and not isinstance(error, FileExistsError)
        ):
            raise _write_error(path, content, error) from None
        raise
    with contextlib.suppress(OSError):  # some file systems cannot sync folders
        _sync_folder(target.parent)


def move_file(source: str, target: str) -> None:
    """Move a file without replacing another one; finish a move that was interrupted."""
    try:
        os.link(source, target)
    except FileExistsError:
        if not os.path.samefile(source, target):
            raise
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        # a file system without links: another process may create it now
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, "it exists", target) from None
        os.rename(source, target)
        return
    os.unlink(source)


def _write_error(path: str | Path, content: str, error: Exception) -> OutputError:
    return OutputError(f"{path}: {content} cannot be written: {root_cause(error)}")


def _replaceable_path(path: str | Path) -> Path:
    """Return the path with links resolved; raise OSError if it cannot be replaced by a file."""
    from pathlib import Path  # imported here because most processes write no file

    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError("the symbolic link leads to itself")
    if str(path).endswith("/"):
        raise OSError("it is a folder")
    if target.exists() and not target.is_file():
        raise OSError("not a regular file")
    if _is_database(target):
        raise OSError("the file is a database, which would be lost; choose another name")
    return target


def _is_database(path: Path) -> bool:
    """Return whether a file is a mailbox's database or another one of SQLite."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:  # a new file, or one that can be replaced but not read
        return False


def _copy_owner_and_mode(handle: int, status: os.stat_result) -> None:
    with contextlib.suppress(OSError):  # only root can change the owner of files
        os.fchown(handle, status.st_uid, status.st_gid)
    os.fchmod(handle, status.st_mode & 0o777)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def as_file_name(path: Any) -> Any:
    """Return a path as text: str, bytes or a path-like object; an open file is unchanged."""
    is_open = hasattr(path, "read") or hasattr(path, "write")
    if isinstance(path, bytes) and b"\0" in path:
        raise TypeError(
            "bytes are the name of a file here: pass its content as io.BytesIO(content)"
        )
    return path if is_open else os.fsdecode(path)


def write_arrays(path: str | Path | BinaryIO, arrays: dict[str, Any]) -> None:
    """Write named arrays to a path (atomically) or to an open file.

    Raises
    ------
    OutputError
        If the file cannot be written; the old file is then unchanged.
    """
    if not isinstance(path, str | os.PathLike):
        np.savez(path, **arrays)
        return
    with replace_file(path, "the model") as file:
        np.savez(file, **arrays)


def read_array(archive: ZipFile, name: str, dtype: str, ndim: int = 1) -> Any:
    """Read one array of an archive, checking its type and size before memory is reserved.

    Raises
    ------
    ValueError
        If the array is compressed or truncated, or has another type or number of dimensions.
    """
    # imported here because it is slow, and few programs read models
    from zipfile import ZIP_STORED

    info = archive.getinfo(f"{name}.npy")
    if info.compress_type != ZIP_STORED:
        raise ValueError(f"array {name} is compressed")
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"array {name} has format version {version}, expected (1, 0)")
        shape, is_fortran, file_dtype = np.lib.format.read_array_header_1_0(file)
        size = int(np.prod([int(n) for n in shape], dtype=object)) * file_dtype.itemsize
        if (
            file_dtype != np.dtype(dtype)
            or is_fortran
            or len(shape) != ndim
            or size > info.file_size
        ):
            raise ValueError(f"array {name} has type {file_dtype} and shape {shape}")
        data = file.read(size)
    if len(data) != size:
        raise ValueError(f"array {name} is truncated")
    return np.frombuffer(data, dtype=dtype).reshape(shape)


_LABEL_TYPES = {"str": str, "int": int, "bool": bool, "float": float}
# Methods of the base classes, because a subclass such as an enum of str may return other text.
_PLAIN_VALUES: dict[type[Any], Any] = {str: str.__str__, int: int.__int__, float: float.__float__}


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises
    ------
    ValueError
        With the reason, if the text is not JSON or one of its objects has a key twice.
    """
    repeated_keys: list[str] = []

    def read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            repeated_keys.append(Counter(key for key, _ in pairs).most_common(1)[0][0])
        return content

    try:
        value = json.loads(text, object_pairs_hook=read_object)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg}") from None
    except UnicodeDecodeError:
        raise ValueError("not JSON: not UTF-8") from None
    except (ValueError, RecursionError):
        raise ValueError("not JSON: too long or deep") from None
    if repeated_keys:
        raise ValueError(f"the key {repeated_keys[0]!r:.80} occurs twice")
    return value


def label_to_json(label: Any, role: str = "a label") -> list[Any]:
    """Return a label as `[type name, value]` for JSON.

    Parameters
    ----------
    label
        A str, int, bool or float, or such a scalar of numpy. For an instance of a subclass, such as
        a member of an enum, the plain value is returned.
    role
        Name of the value in the error message.

    Raises
    ------
    OutputError
        For a label of another type.
    """
    if isinstance(label, np.generic):
        label = label.item()
    type_name = type(label).__name__
    if _LABEL_TYPES.get(type_name) is type(label):
        return [type_name, label]
    for base, convert in _PLAIN_VALUES.items():
        if isinstance(label, base):
            return [base.__name__, convert(label)]
    raise OutputError(
        f"{role} must be str, int, bool or float to be written to a file, not {label!r:.80}; "
        "convert it to text before training"
    )


def label_from_json(pair: Any) -> Any:
    """Return the label that `label_to_json` encoded; ValueError if the type does not match."""
    type_name, value = pair
    if type(value) is not _LABEL_TYPES[type_name]:
        raise ValueError(f"label {value!r:.80} is not {type_name}")
    return value
