"""Readers of model files of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamnb.naive_bayes
import streamnb.tables  # noqa: F401 (the models that files can name)
from streamnb.classifier import Classifier
from streamnb.classifier.message_classifier import DATA_FORMAT
from streamnb.errors import ModelFileError
from streamnb.naive_bayes.model_files import read


def load(path: str | Path, kind: type[Any] | None = None) -> Any:
    """Return the model or classifier that `save` wrote to a file.

    Parameters
    ----------
    path : str or Path
        The file.
    kind : type, default None
        The required class of the result; None for any. If it is a class of model and the file has a
        classifier, its model is returned without the tokenizer.

    Raises
    ------
    ModelFileError
        If the file is missing or damaged, or belongs to another program, version or class.

    Examples
    --------
    >>> import streamnb, tempfile
    >>> classifier = streamnb.TextClassifier().fit(["free pills", "lunch"], ["spam", "ham"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     classifier.save(f"{folder}/texts.snb")
    ...     streamnb.load(f"{folder}/texts.snb").predict_one("pills")
    'spam'
    """
    if kind is not None and not issubclass(kind, Classifier):
        return read(path, kind)[0]
    if kind is None and not isinstance((pair := read(path))[1], dict):
        return pair[0]
    return (kind or Classifier).load(path)


def _without_columns(extra: Any) -> Any:
    """Return the data saved with a model, without the columns of its training table."""
    return {**extra, DATA_FORMAT: None} if isinstance(extra, dict) else extra


def merge_files(paths: Sequence[str | Path]) -> tuple[Any, Any]:
    """Merge models; return the result and the data saved with each model.

    Raises
    ------
    ModelFileError
        If one cannot be read, or differs from the first in kind or tokenizer.
    """
    whole, extra = read(paths[0])
    for path in paths[1:]:
        model, other = read(path)
        try:
            if _without_columns(other) != _without_columns(extra):
                raise ValueError("cannot merge: the models have different tokenizers or costs")
            whole.merge(model)
        except ValueError as error:
            raise ModelFileError(f"{path}: {error} (the first is {paths[0]})") from None
    return whole, extra
