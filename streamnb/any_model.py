"""Reading a model of any kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamnb.naive_bayes
import streamnb.tables  # noqa: F401 (the models that files can name)
from streamnb.naive_bayes.model_files import read

__all__ = ["load"]


def load(path: str | Path, kind: type[Any] | None = None) -> Any:
    """Read a model that `save` wrote; of a classifier's file, the model without its tokenizer.

    `Classifier.load` reads a classifier as a whole.

    Parameters
    ----------
    path : str or Path
        The file.
    kind : type, default None
        The class it must be of; None for any.

    Raises
    ------
    ModelFileError
        Where the file is missing, damaged, not ours, of another version or of another model.
    """
    return read(path, kind)[0]
