"""Readers of model files of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamnb.naive_bayes
import streamnb.tables  # noqa: F401 (the models that files can name)
from streamnb.classifier import Classifier
from streamnb.classifier.message_classifier import DATA_FORMAT
from streamnb.data_format import DataFormat
from streamnb.errors import ModelFileError
from streamnb.naive_bayes.model_files import read


def load(path: str | Path, kind: type[Any] | None = None) -> Any:
    """Return the model or classifier that `save` wrote to a file.

    Parameters
    ----------
    path : str, bytes or Path
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


def merge_files(paths: Sequence[str | Path]) -> tuple[Any, Any, dict[str, list[str | Path]]]:
    """Merge models.

    Returns
    -------
    model, extra, paths by columns
        The result, the data saved with it, and the paths of the models by the columns of labels
        and texts of their training tables. The result has the columns of the first model that has
        columns.

    Raises
    ------
    ModelFileError
        If one cannot be read, or differs from the first in kind or tokenizer.
    """
    whole: Any = None
    extra: Any = None
    data_format: DataFormat | None = None
    paths_by_columns: dict[str, list[str | Path]] = {}
    for path in paths:
        model, settings = read(path)
        stored = settings.pop(DATA_FORMAT, None) if isinstance(settings, dict) else None
        try:
            columns = DataFormat.from_json(stored)
            if columns is not None:
                names = f"label {columns.label_column!r}, text {columns.text_column!r}"
                paths_by_columns.setdefault(names, []).append(path)
                data_format = data_format or columns
            if whole is None:
                whole, extra = model, settings
                continue
            if settings != extra:
                raise ValueError("cannot merge: the tokenizer or the costs differ")
            whole.merge(model)
        except (ValueError, TypeError) as error:
            first = f" (the first is {paths[0]})" if path != paths[0] else ""
            raise ModelFileError(f"{path}: {error}{first}") from None
    if data_format is not None:
        extra = {**extra, DATA_FORMAT: data_format}
    return whole, extra, paths_by_columns
