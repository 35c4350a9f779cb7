"""Conversion of texts: sequences, arrays of shape (n, 1), frames with one column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import narwhals.stable.v2 as narwhals


NO_EXAMPLES = "found 0 samples, but at least one is needed"


def as_sequence(X: Any) -> Any:
    """Return an iterator as a list, and any other value as `as_data` does.

    Raises
    ------
    ValueError
        If X is a list without an item, or a set, whose items have no order.
    """
    X = as_data(X)
    if isinstance(X, Iterator):
        X = list(X)
    if isinstance(X, list) and not X:
        raise ValueError(NO_EXAMPLES)
    return X


def as_data(X: Any) -> Any:
    """Return arrays of other libraries as numpy's, collections of dask computed, others unchanged.

    The items of other arrays are often arrays themselves. A loop over the rows would take each
    value for a level of its own.

    Raises
    ------
    ValueError
        If X is a set, because its items have no order, or a lazy frame.
    """
    if isinstance(X, set | frozenset):
        raise ValueError("X is a set, whose items have no order: pass a list")
    if type(X).__name__ == "LazyFrame":  # also of narwhals
        raise ValueError("X is a LazyFrame, whose rows are not computed: pass X.collect()")
    if isinstance(X, (list, np.ndarray, np.generic)):
        return X
    # The type, because a lazy frame, such as `CountedFrame`, is made by a look at its attributes.
    if hasattr(type(X), "__dask_graph__"):
        X = X.compute()
    names = ("tocsr", "to_list", "to_pylist", "columns")
    has_values = any(hasattr(type(X), name) for name in names)
    return np.asarray(X) if hasattr(type(X), "__array__") and not has_values else X


def as_texts(X: Any) -> list[Any] | None:
    """Return texts as a list, or None if X has no text, such as a matrix of numbers.

    X can be a sequence, an array of shape (n, 1) or a frame with one column. It has texts if one of
    its values is a str or bytes.

    Raises
    ------
    ValueError
        If X is a single text, or one of the values is not a text. The error then names the row.

    Examples
    --------
    >>> import numpy as np
    >>> from streamnb.features.text_input import as_texts
    >>> as_texts(np.array([["free offer"], ["lunch"]]))
    ['free offer', 'lunch']
    """
    if isinstance(X, (str, bytes)):
        raise ValueError(f"X is one {type(X).__name__}: pass a list of texts, even for one text")
    values = single_column(X)
    if values and all(isinstance(row, (list, tuple)) and len(row) == 1 for row in values):
        values = [row[0] for row in values]
    if not any(isinstance(value, (str, bytes)) for value in values):
        return None
    for row, value in enumerate(values):
        if not isinstance(value, (str, bytes)):
            raise ValueError(
                f"row {row}: {value!r:.80} is not a text: leave the row out or replace it by ''"
            )
    return values


def single_column(X: Any) -> list[Any]:
    """Return the values of a sequence or a single column; [] for other values."""
    if isinstance(X, np.ndarray):
        is_column = X.ndim == 1 or X.shape[1:] == (1,)
        return np.asarray(X).ravel().tolist() if is_column and X.dtype.kind in "OUST" else []
    if is_frame(X):
        columns = list(frame_of(X).iter_columns())
        return columns[0].to_list() if len(columns) == 1 else []
    for method in ("to_pylist", "to_list"):
        if hasattr(X, method):
            return list(getattr(X, method)())
    if isinstance(X, Mapping) or hasattr(X, "tocsr") or not hasattr(X, "__iter__"):
        return []
    return list(X)


def is_frame(X: Any) -> bool:
    """Return whether X has columns: a frame that narwhals supports, or data in Arrow's form.

    Examples of the latter are a RecordBatch of pyarrow and a relation of DuckDB.
    """
    if isinstance(X, (np.ndarray, list)) or hasattr(X, "tocsr"):
        return False
    from narwhals.dependencies import is_into_dataframe

    return is_into_dataframe(X) or _has_arrow_columns(X)


def _has_arrow_columns(X: Any) -> bool:
    is_arrow = hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__")
    return is_arrow and hasattr(X, "columns")


def frame_of(X: Any) -> narwhals.DataFrame[Any]:
    """Return a data frame of any library, with narwhals' interface.

    Raises
    ------
    ValueError
        If two columns have the same name.
    """
    import narwhals.stable.v2 as narwhals
    from narwhals.dependencies import is_into_dataframe
    from narwhals.exceptions import DuplicateError

    if _has_arrow_columns(X) and not is_into_dataframe(X):
        import pyarrow

        X = pyarrow.table(X)
    try:
        return narwhals.from_native(X, eager_only=True)
    except DuplicateError as error:
        raise ValueError(f"column names: {' '.join(str(error).split())}") from error


def read_column(X: Any, on: str) -> Any:
    """Return the column `on` of a frame or a structured array.

    Raises
    ------
    ValueError
        If X has no such column; the message names its columns.
    """
    frame = frame_of(X) if is_frame(X) else None
    names = getattr(getattr(X, "dtype", None), "names", None) if frame is None else frame.columns
    if on not in (names or ()):
        raise ValueError(f"on: X has no column {on!r:.80}; it has {list_names(names or ())}")
    return X[on] if frame is None else frame.get_column(on).to_list()


def list_names(names: Iterable[Any]) -> str:
    """Return the first names for an error message."""
    return ", ".join(f"{name!r:.40}" for name in list(names)[:20]) or "none"
