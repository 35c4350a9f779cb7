"""Model files: arrays and JSON, which are checked when they are read."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Self

import numpy as np

from streamnb import _core
from streamnb.errors import ModelFileError, OutputError, root_cause
from streamnb.storage import as_file_name, read_array, write_arrays

if TYPE_CHECKING:
    from pathlib import Path
    from zipfile import ZipFile

FORMAT = "streamnb model"
VERSION = 1

# Returns an array of the file, given its name, type and number of dimensions.
ReadArray = Callable[..., Any]


class ForeignError(Exception):
    """The file is undamaged, but of another kind."""


class SaveLoadMixin:
    """Mix-in of models that can be written to files. The class or `streamnb.load` reads them."""

    saved_classes: ClassVar[dict[str, type[Any]]] = {}
    lock: threading.RLock

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.startswith("streamnb."):  # a file can name only classes of streamnb
            SaveLoadMixin.saved_classes[cls.__name__] = cls

    def _to_file(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the description of the model as JSON values, and its arrays by name."""
        raise NotImplementedError

    @classmethod
    def _from_file(cls, header: Any, array: ReadArray) -> Self:
        """Return the model of a file. Damaged data raises an exception of any type."""
        raise NotImplementedError

    def save(self, path: str | Path | BinaryIO) -> None:
        """Write the model to a file. An existing file is replaced completely or not at all.

        You can pass a file that is open for writing bytes, such as `io.BytesIO`.

        Raises
        ------
        OutputError
            If the file cannot be written, or cannot store the type of a label.
        """
        with self.lock:
            save(self, path)

    @classmethod
    def load(cls, path: str | Path | BinaryIO) -> Self:
        """Read a model that `save` wrote.

        Raises
        ------
        ModelFileError
            If the file is missing or damaged, is not a model file of streamnb, or contains a model
            of another class.
        """
        return read(path, cls)[0]


def not_ours(name: str) -> str:
    """Return the error message for a class that files cannot name."""
    return f"{name} is not a class of streamnb, so the file could not be read again; use pickle"


def save(model: SaveLoadMixin, path: str | Path | BinaryIO, extra: Any = None) -> None:
    """Write a model. The bytes do not depend on the order in which features were learned.

    Parameters
    ----------
    model : SaveLoadMixin
        The model.
    path : str, bytes, Path or open binary file
        The file.
    extra : object that JSON can hold, default None
        Stored with the model, such as its tokenizer's settings.

    Raises
    ------
    OutputError
        If the file cannot be written, or cannot store the type of a label, or the model's class is
        not one of streamnb's.
    """
    path = as_file_name(path)
    name = type(model).__name__
    if SaveLoadMixin.saved_classes.get(name) is not type(model):
        raise OutputError(f"{path}: {not_ours(name)}")
    described, arrays = model._to_file()
    header = {
        "format": FORMAT,
        "version": VERSION,
        "key": _core.DEFAULT_KEY.hex(),
        "model": name,
        "extra": extra,
        **described,
    }
    try:
        text = json.dumps(header, sort_keys=True).encode()
    except TypeError as error:
        raise OutputError(f"{path}: the model cannot be written: {error}") from None
    write_arrays(path, {"header": np.frombuffer(text, dtype=np.uint8), **arrays})


def read(path: str | Path | BinaryIO, kind: type[Any] | None = None) -> tuple[Any, Any]:
    """Read a model, and the `extra` that was saved with it.

    Parameters
    ----------
    path : str, bytes, Path or open binary file
        The file.
    kind : type, default None
        The expected class; None for every imported class.

    Raises
    ------
    ModelFileError
        If the file is missing or damaged, or belongs to another program, version or model.
    """
    from zipfile import BadZipFile, ZipFile

    path = as_file_name(path)
    try:
        if isinstance(path, str) and not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError("not a regular file")
        with ZipFile(path) as archive:
            header = json.loads(read_array(archive, "header", "u1").tobytes())
            return _restore_model(archive, header, kind), header["extra"]
    except OSError as error:
        hint = "; `streamnb fit` and save() write model files" * isinstance(
            error, FileNotFoundError
        )
        reason = f"the model cannot be read: {root_cause(error)}{hint}"
        raise ModelFileError(f"{path}: {reason}") from None
    except ForeignError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except Exception as error:  # a damaged archive can fail in any way
        cause = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        if isinstance(error, BadZipFile):
            cause = "it is not an archive of arrays; read a pickle by joblib.load"
        raise ModelFileError(
            f"{path}: not a streamnb model, or damaged ({cause}); restore it from a backup or "
            "train a model with `streamnb fit`"
        ) from None


def _restore_model(archive: ZipFile, header: Any, kind: type[Any] | None) -> Any:
    """Return the model of an archive whose header was read."""
    if header["format"] != FORMAT:
        raise ValueError(f"format is {header['format']!r:.40}")
    if header["version"] != VERSION:
        raise ForeignError(
            f"the model file has version {header['version']!r:.20}, but this streamnb reads "
            f"version {VERSION}; use the streamnb that wrote it, or train again"
        )
    if header["key"] != _core.DEFAULT_KEY.hex():
        raise ForeignError(
            "the model's features were hashed with another key, so this streamnb cannot use it"
        )
    name, classes = header["model"], SaveLoadMixin.saved_classes
    is_other = name not in classes if kind is None else not issubclass(classes.get(name, int), kind)
    if is_other:
        noun = "" if kind is None else vars(kind).get("noun", kind.__name__)
        wanted = f", not a {noun}" if noun else ""
        raise ForeignError(
            f"the file holds a {name!s:.40}{wanted}; load it in Python with `streamnb.load`, or "
            "predict over HTTP with `streamnb serve --model`"
        )
    model_class = classes[name]

    def array(name: str, dtype: str, ndim: int = 1, optional: bool = False) -> Any:
        if optional and f"{name}.npy" not in archive.namelist():
            return None
        return read_array(archive, name, dtype, ndim)

    return model_class._from_file(header, array)
