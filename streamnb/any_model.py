"""Reading a model of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamnb.naive_bayes
import streamnb.tables  # noqa: F401 (the models that files can name)
from streamnb.errors import ModelFileError
from streamnb.naive_bayes.model_files import read


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


def merged(paths: Sequence[str | Path]) -> tuple[Any, Any]:
    """The sum of some models, and what was saved with each of them.

    Raises
    ------
    ModelFileError
        Where one cannot be read, or is of another kind or tokenizer than the first.
    """
    whole, extra = read(paths[0])
    for path in paths[1:]:
        model, other = read(path)
        try:
            if other != extra:
                raise ValueError("cannot merge: the models have different tokenizers or costs")
            whole.merge(model)
        except ValueError as error:
            raise ModelFileError(f"{path}: {error} (the first is {paths[0]})") from None
    return whole, extra
