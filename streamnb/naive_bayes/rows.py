"""Matrices and data frames as rows of features: one compressed form for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.counts.protocol import Floats, Ints, checked_weight
from streamnb.features.token_counts import TokenCounts

if TYPE_CHECKING:
    import narwhals.stable.v2 as narwhals


@dataclass(frozen=True)
class Rows:
    """Many messages: a CSR matrix and the features that its columns stand for.

    Attributes
    ----------
    indptr, indices, data
        int64, int32 or int64, float64; values are not checked yet.
    columns
        Number of each column in the caller's matrix, or None where they are the same.
    features
        The columns' features: fingerprints and names. Their counts mean nothing.
    """

    indptr: Ints
    indices: NDArray[Any]
    data: Floats
    columns: Ints | None
    features: TokenCounts

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @classmethod
    def of(cls, X: Any, keep_names: bool, canonical: bool) -> Rows:
        """Read a scipy sparse matrix, a dense one, or a pandas, polars or pyarrow frame.

        Parameters
        ----------
        X
            The matrix.
        keep_names
            Whether the features' names are wanted.
        canonical
            Whether entries that stand twice must be summed first; adding up does it by itself.

        Raises
        ------
        ValueError
            Where X is not two-dimensional or not numeric.
        """
        names: list[Any] | None = None
        if is_frame(X):
            names, X = _frame_values(X)
        indptr, indices, data, width = _compressed(X, canonical)
        used: Ints | None = None
        if width > len(indices):  # a few rows of a wide matrix: only the columns that occur
            found, renumbered = np.unique(indices, return_inverse=True)
            used, indices = found.astype(np.int64), renumbered.astype(np.int64)
        columns = np.arange(width, dtype=np.int64) if used is None else used
        return cls(indptr, indices, data, used, _features(columns, names, keep_names))

    def messages(self) -> Iterator[TokenCounts]:
        """Each row by itself: the features above zero."""
        for start, end in zip(self.indptr[:-1].tolist(), self.indptr[1:].tolist(), strict=True):
            columns, places = np.unique(self.indices[start:end], return_inverse=True)
            values = np.bincount(places, self.data[start:end], len(columns)).astype(np.float64)
            row = self.features.select(columns[values > 0])
            yield TokenCounts.unchecked(row.fingerprints, values[values > 0], row.names, row.ends)

    def check_counts(self) -> None:
        """Raise ValueError naming row and column of the first value that is no count."""
        bad = np.flatnonzero(~((self.data >= 0) & (self.data <= 1e100)))
        self.check(int(bad[0]) if len(bad) else -1, signed=False)

    def check(self, entry: int, signed: bool) -> None:
        """Raise ValueError naming row and column of a bad entry; -1 is none."""
        if entry < 0:
            return
        row = int(np.searchsorted(self.indptr, entry, side="right")) - 1
        column = int(self.indices[entry])
        if not 0 <= column < len(self.features):
            raise ValueError(f"row {row}: the matrix is damaged: it has no column {column}")
        if self.columns is not None:
            column = int(self.columns[column])
        why = "finite and at most 1e100" if signed else "finite, >= 0 and at most 1e100"
        raise ValueError(
            f"row {row}, column {column}: the value is {self.data[entry]}: it must be {why}"
        )


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of a library that narwhals knows; none is imported to find out."""
    if isinstance(X, (np.ndarray, list)) or hasattr(X, "tocsr"):
        return False
    from narwhals.dependencies import is_into_dataframe

    return is_into_dataframe(X)


def frame_of(X: Any) -> narwhals.DataFrame[Any]:
    """A data frame of any library, behind one interface.

    Raises
    ------
    ValueError
        Where two of its columns have one name.
    """
    import narwhals.stable.v2 as narwhals
    from narwhals.exceptions import DuplicateError

    try:
        return narwhals.from_native(X, eager_only=True)
    except DuplicateError as error:
        raise ValueError(f"the names of columns: {' '.join(str(error).split())}") from error


def is_matrix(X: Any) -> bool:
    """Whether X is a matrix or a data frame, and not an iterable of messages."""
    return hasattr(X, "tocsr") or getattr(X, "ndim", 0) == 2 or is_frame(X)


def are_messages(X: Any) -> bool:
    """Whether X is a list of messages by their features, and not of rows of numbers."""
    return isinstance(X, list) and (not X or isinstance(X[0], (Mapping, TokenCounts)))


def listed(X: Any) -> Any:
    """X; messages that come one after the other, as a list."""
    return list(X) if isinstance(X, (tuple, Iterator)) else X


def _frame_values(frame: Any) -> tuple[list[Any], Any]:
    """Column names, and the values as a dense or (pandas of sparse columns) sparse matrix."""
    found = frame_of(frame)
    if hasattr(frame, "sparse") and found.columns:
        try:
            return found.columns, frame.sparse.to_coo()
        except (AttributeError, ValueError):
            # Pandas has the accessor on every frame: for those of sparse columns, most of them 0.
            pass
    columns = [values_of(column) for column in found.iter_columns()]
    return found.columns, np.column_stack(columns) if columns else np.empty(found.shape)


def values_of(column: Any) -> NDArray[Any]:
    """The values of a frame's column; Python's own objects where they are no numbers or texts.

    As an array, a category that is missing can become another one (pyarrow), and a time lose its
    zone.
    """
    from narwhals.stable.v2 import Boolean, String

    kind = column.dtype
    if kind.is_numeric() or kind in (Boolean, String):
        return column.to_numpy()
    values = np.empty(len(column), dtype=object)
    values[:] = column.to_list()
    return values


def _compressed(X: Any, canonical: bool) -> tuple[Ints, NDArray[Any], Floats, int]:
    X = X if hasattr(X, "tocsr") else np.asarray(X)
    if len(X.shape) != 2:
        raise ValueError(f"expected a matrix with a row for each example, got shape {X.shape}")
    if hasattr(X, "tocsr"):
        csr = X.tocsr()
        if csr.dtype.kind not in "biuf":
            raise ValueError(f"the matrix holds {csr.dtype}, not real numbers")
        if canonical and not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        kind = np.int32 if csr.indices.dtype == np.int32 else np.int64
        return (
            csr.indptr.astype(np.int64, copy=False),
            np.ascontiguousarray(csr.indices, dtype=kind),
            np.ascontiguousarray(csr.data, dtype=np.float64),
            csr.shape[1],
        )
    dense = _numbers(X, "the matrix")
    rows, columns = np.nonzero(dense)  # NaN is not zero
    indptr = np.searchsorted(rows, np.arange(len(dense) + 1)).astype(np.int64)
    return indptr, columns.astype(np.int64), dense[rows, columns], dense.shape[1]


def _numbers(values: NDArray[Any], what: str) -> Floats:
    """The values as float64, if they are real numbers already and not text that looks like some."""
    if values.dtype.kind not in "biufO":
        raise ValueError(f"{what} holds {values.dtype}, not real numbers")
    if values.dtype.kind == "O":
        for value in values.flat:
            if isinstance(value, (str, bytes)):
                raise ValueError(f"{what} holds a value that is no number: {value!r:.80}")
    try:
        return values.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{what} holds a value that is no number: {error}") from None


def _features(used: Ints, names: list[Any] | None, keep_names: bool) -> TokenCounts:
    if names is not None:
        features = TokenCounts.from_dict(
            dict.fromkeys((names[i] for i in used), 1), None, keep_names
        )
        if len(features) != len(used):
            twice = Counter(names).most_common(1)[0][0]
            raise ValueError(f"the column {twice!r:.80} occurs twice")
        return features
    fingerprints = _core.fingerprint_columns(used)
    if not keep_names:
        return TokenCounts.unchecked(fingerprints, np.ones(len(used)), None, None)
    # The encoded names of integers: a mark and eight bytes each.
    text = np.empty((len(used), 9), dtype=np.uint8)
    text[:, 0] = _core.encode_name(0)[0]
    text[:, 1:] = used.astype("<i8").view(np.uint8).reshape(-1, 8)
    ends = np.arange(9, 9 * len(used) + 1, 9, dtype=np.uint32)
    return TokenCounts.unchecked(fingerprints, np.ones(len(used)), text.tobytes(), ends)


def as_labels(y: Any) -> list[Any]:
    """The labels of a list, array, series or single column, as Python's own objects."""
    if is_frame(y):
        columns = list(frame_of(y).iter_columns())
        if len(columns) != 1:
            raise ValueError(f"the labels are a frame of {len(columns)} columns, not of one")
        return columns[0].to_list()
    if isinstance(y, Mapping | str | bytes):
        raise ValueError(f"the labels are a {type(y).__name__}, not a list, array or series")
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(y, method):
            return getattr(y, method)()
    return [label.item() if isinstance(label, np.generic) else label for label in y]


def as_weights(w: Any, n: int) -> Floats:
    """One weight for each of n examples, from a number, a sequence or None for 1."""
    if w is None or np.isscalar(w):
        return np.full(n, 1.0 if w is None else checked_weight(w))
    weights = _numbers(np.asarray(as_labels(w)), "the weights")
    if weights.shape != (n,):
        raise ValueError(f"{n} examples, but weights of shape {weights.shape}")
    bad = ~((weights >= 0) & (weights <= 1e100))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"row {row}: the weight is {weights[row]}: it must be finite, >= 0 and at most 1e100"
        )
    return weights
