"""Examples and labels of many kinds: matrices, data frames, series and lists."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.counts.protocol import Floats, Ints, check_labels, checked_weight
from streamnb.features.text_input import as_data, frame_of, is_frame, single_column
from streamnb.features.token_counts import CountedFrameMixin, TokenCounts


@dataclass(frozen=True)
class NamedMatrix:
    """A matrix, and the names of its columns."""

    names: list[str]
    matrix: Any

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        n_rows, n_columns = self.matrix.shape
        return n_rows, n_columns


@dataclass(frozen=True)
class Rows:
    """Many examples: a CSR matrix, and the features of its columns.

    Attributes
    ----------
    indptr, indices, data
        int64, int32 or int64, and float64. Values are not checked yet.
    columns
        Index of each column in the caller's matrix; None if the indices are equal.
    features
        Fingerprints and names of the columns' features. Their counts are not used.
    width
        The number of columns of the caller's matrix.
    names
        The names of the caller's columns; None for an array.
    """

    indptr: Ints
    indices: NDArray[Any]
    data: Floats
    columns: Ints | None
    features: TokenCounts
    width: int
    names: list[Any] | None

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @classmethod
    def from_matrix(cls, X: Any, keep_names: bool, canonical: bool) -> Rows:
        """Return the rows of a sparse matrix, a dense one, or a pandas, polars or pyarrow frame.

        Parameters
        ----------
        X
            The matrix.
        keep_names
            Whether to store the features' names.
        canonical
            Whether to sum duplicate entries. Learning sums them in any case.

        Raises
        ------
        ValueError
            If X is not two-dimensional or not numeric.
        """
        names: list[Any] | None = None
        if isinstance(X, NamedMatrix):
            names, X = X.names, X.matrix
        X = as_data(X)
        if is_frame(X):
            names, X = _frame_values(X)
        indptr, indices, data, width = _to_csr_arrays(X, canonical)
        used: Ints | None = None
        if width > len(indices):  # a few rows of a wide matrix: only the columns with an entry
            distinct, inverse = np.unique(indices, return_inverse=True)
            used, indices = distinct.astype(np.int64), inverse.astype(np.int64)
        columns = np.arange(width, dtype=np.int64) if used is None else used
        features = _features(columns, names, keep_names)
        return cls(indptr, indices, data, used, features, width, names)

    @property
    def is_named(self) -> bool:
        """True if the columns have names, not only numbers."""
        return are_names(self.names or ())

    @property
    def is_numbered(self) -> bool:
        """True if the columns have no names, or the names 0, 1, ... as in an array."""
        return self.names is None or self.names == list(range(self.width))

    def messages(self) -> Iterator[TokenCounts]:
        """Yield the features of each row that are above zero."""
        for start, end in zip(self.indptr[:-1].tolist(), self.indptr[1:].tolist(), strict=True):
            columns, inverse = np.unique(self.indices[start:end], return_inverse=True)
            values = np.bincount(inverse, self.data[start:end], len(columns)).astype(np.float64)
            row = self.features.select(columns[values > 0])
            yield TokenCounts.unchecked(row.fingerprints, values[values > 0], row.names, row.ends)

    def check_counts(self) -> None:
        """Raise ValueError with row and column of the first value that is not a count."""
        bad = np.flatnonzero(~((self.data >= 0) & (self.data <= 1e100)))
        self.check(int(bad[0]) if len(bad) else -1, signed=False)

    def check(self, entry: int, signed: bool) -> None:
        """Raise ValueError with row and column of a bad entry; do nothing if `entry` is -1."""
        if entry < 0:
            return
        row = int(np.searchsorted(self.indptr, entry, side="right")) - 1
        column = int(self.indices[entry])
        if not 0 <= column < len(self.features):
            raise ValueError(f"row {row}: the matrix is damaged: it has no column {column}")
        if self.columns is not None:
            column = int(self.columns[column])
        place = f"column {column}" if self.names is None else f"{self.names[column]!r:.80}"
        condition = "finite and at most 1e100" if signed else "finite, >= 0 and at most 1e100"
        raise ValueError(
            f"row {row}, {place}: the value is {self.data[entry]}: expected a number that "
            f"is {condition}"
        )


def are_names(columns: Iterable[Any]) -> bool:
    """Return whether columns have names; the columns of an array have numbers."""
    return any(not isinstance(column, int) for column in columns)


def check_column_names(
    model: Any,
    is_named: bool,
    is_numbered: bool,
    has_known: bool,
    has_numbers: bool,
    is_learning: bool,
) -> None:
    """Check that a matrix identifies its columns as the learned matrices did: by names or numbers.

    Parameters
    ----------
    model
        A model that has learned features.
    is_named, is_numbered
        As in `Rows`.
    has_known
        Whether the model has learned one of the columns.
    has_numbers
        Whether the model has learned columns by their numbers.
    is_learning
        Whether the model is about to learn the matrix; then all its columns may be new.

    Raises
    ------
    ValueError
        If the model has learned names and X has numbers, or the reverse.

    Warns
    -----
    UserWarning
        If the columns have names, and the model has learned none of them.
    """
    name = type(model).__name__
    if has_known:
        return
    if is_numbered:
        raise ValueError(
            f"X does not have valid feature names, but {name} was fitted with feature names: pass "
            "a frame with the same columns"
        )
    if has_numbers and is_named:
        raise ValueError(
            f"X has feature names, but {name} was fitted without feature names: pass an array, "
            "such as X.to_numpy()"
        )
    if not is_learning:
        warnings.warn(
            f"The feature names should match those that were passed during fit: {name} has learned "
            "none of the columns of X, so the prior alone decides",
            UserWarning,
            stacklevel=2,
        )


def is_matrix(X: Any) -> bool:
    """Return whether X is a matrix or a data frame, and not an iterable of messages."""
    return hasattr(X, "tocsr") or getattr(X, "ndim", 0) == 2 or is_frame(X)


def refuse_mask_and_dates(X: Any) -> None:
    """Raise ValueError if X has masked values or dates, because a count cannot be either."""
    if getattr(getattr(X, "dtype", None), "kind", None) in ("m", "M"):
        raise _not_real(X, "the matrix")
    if np.ma.is_masked(X):
        raise ValueError("the matrix has masked values: replace them, for example by X.filled(0)")


def are_messages(X: Any) -> bool:
    """Return whether X is a list of feature dicts or TokenCounts, and not of rows of numbers."""
    return isinstance(X, list) and (not X or isinstance(X[0], (Mapping, TokenCounts)))


def as_messages(X: Any, by_name: bool) -> list[Any]:
    """Return a list of messages: the values of a sequence or single column, or rows as dicts.

    Parameters
    ----------
    X
        A sequence or a data frame. The rows of a frame of several columns are dicts.
    by_name
        Whether the rows of a frame with one column are dicts, too.

    Raises
    ------
    TypeError
        If X is a single message, or a dict.
    ValueError
        If X is a set.
    """
    if isinstance(X, str | bytes):
        raise TypeError(f"a {type(X).__name__} is a single message: pass a list of messages")
    if isinstance(X, Mapping):
        raise TypeError("a dict is no list of messages: pass list(X.values())")
    X = as_data(X)
    frame = frame_of(X) if is_frame(X) else None
    if frame is not None and (by_name or frame.shape[1] != 1):
        return list(frame.rows(named=True))
    return single_column(X) or ([] if frame is not None else list(X))


def as_list(X: Any) -> Any:
    """Return a tuple, an iterator or a tokenizer's frame as a list; others as `as_data` does."""
    X = as_data(X)
    if isinstance(X, (tuple, Iterator)):
        return list(X)
    return X.counted_messages if isinstance(X, CountedFrameMixin) else X


def _frame_values(frame: Any) -> tuple[list[Any], Any]:
    """Return column names, and values as a matrix: sparse for sparse pandas columns."""
    table = frame_of(frame)
    if hasattr(frame, "sparse") and table.columns:
        try:
            return table.columns, frame.sparse.to_coo()
        except (AttributeError, ValueError):
            # Every pandas frame has the accessor, but it works only on sparse columns filled with
            # 0.
            pass
    columns = [values_of(column) for column in table.iter_columns()]
    return table.columns, np.column_stack(columns) if columns else np.empty(table.shape)


def values_of(column: Any) -> NDArray[Any]:
    """Return the values of a frame's column, as Python objects unless they are numbers or texts.

    pyarrow's own conversion can replace a missing category by another one, and drops time zones.
    """
    from narwhals.stable.v2 import Boolean, String

    kind = column.dtype
    if kind.is_numeric() or kind in (Boolean, String):
        return column.to_numpy()
    values = np.empty(len(column), dtype=object)
    values[:] = column.to_list()
    return values


def _to_csr_arrays(X: Any, canonical: bool) -> tuple[Ints, NDArray[Any], Floats, int]:
    """Return the arrays of a matrix in CSR form, and its width."""
    refuse_mask_and_dates(X)
    X = X if hasattr(X, "tocsr") else np.asarray(list(X) if isinstance(X, Iterator) else X)
    if len(X.shape) != 2:
        has_texts = X.dtype.kind in "UOST" and any(isinstance(x, (str, bytes)) for x in X.flat)
        hint = "; for texts use Tokenizer() | model, or TextClassifier" if has_texts else ""
        if not has_texts and X.shape == ():
            hint = "; pass a single example to learn_one or predict_one"
        elif X.dtype == object and any(isinstance(x, Mapping) for x in X.flat):
            hint = "; for dicts of counts use learn_many"
        raise ValueError(
            f"expected a matrix with a row for each example, got shape {X.shape}{hint}"
        )
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


def _not_real(values: NDArray[Any], name: str) -> ValueError:
    return ValueError(f"{name} holds {values.dtype}, not real numbers")


def _numbers(values: NDArray[Any], name: str) -> Floats:
    """Return the values as float64. Text is refused, even if it looks like a number."""
    if values.dtype.kind not in "biufO":
        raise _not_real(values, name)
    if values.dtype.kind == "O":
        for value in values.flat:
            if isinstance(value, (str, bytes)):
                raise ValueError(f"{name} holds a value that is not a number: {value!r:.80}")
    try:
        return values.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} holds a value that is not a number: {error}") from None


def _features(used: Ints, names: list[Any] | None, keep_names: bool) -> TokenCounts:
    if names is not None:
        features = TokenCounts.from_dict(
            dict.fromkeys((names[i] for i in used), 1), None, keep_names
        )
        if len(features) != len(used):
            duplicate = Counter(names).most_common(1)[0][0]
            raise ValueError(f"the column {duplicate!r:.80} occurs twice")
        return features
    fingerprints = _core.fingerprint_columns(used)
    if not keep_names:
        return TokenCounts.unchecked(fingerprints, np.ones(len(used)), None, None)
    # Encoded names of integers: one tag byte and eight bytes each.
    text = np.empty((len(used), 9), dtype=np.uint8)
    text[:, 0] = _core.encode_name(0)[0]
    text[:, 1:] = used.astype("<i8").view(np.uint8).reshape(-1, 8)
    ends = np.arange(9, 9 * len(used) + 1, 9, dtype=np.uint32)
    return TokenCounts.unchecked(fingerprints, np.ones(len(used)), text.tobytes(), ends)


def as_labels(y: Any, name: str = "the labels") -> list[Any]:
    """Return the labels of a list, array, series or single column as Python objects.

    Parameters
    ----------
    y
        The labels, or other values of which there is one for each example.
    name
        Name of the values in error messages.

    Raises
    ------
    ValueError
        If y has no order, such as a set, or has more than one column.
    """
    is_unordered = isinstance(y, Mapping | str | bytes | set | frozenset)
    y = y if is_unordered else as_data(y)
    if is_frame(y):
        columns = list(frame_of(y).iter_columns())
        if len(columns) != 1:
            raise ValueError(f"{name} are a frame of {len(columns)} columns; pass one column")
        return columns[0].to_list()
    if y is None or is_unordered or hasattr(y, "tocsr"):
        raise ValueError(f"{name} are a {type(y).__name__}, not a list, array or series")
    shape = getattr(y, "shape", ())
    if len(shape) > 1:
        if shape[1:] != (1,):
            raise ValueError(f"{name} have the shape {shape}; expected one value for each row")
        y = np.asarray(y).ravel()
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(y, method):
            return getattr(y, method)()
    return [label.item() if isinstance(label, np.generic) else label for label in y]


def labels_of_rows(y: Any, n: int) -> list[Any]:
    """Return the labels of n examples to learn.

    Raises
    ------
    TypeError, ValueError
        If y is not as for `as_labels`, has another length, or has a missing label.
    """
    labels = as_labels(y)
    check_labels(labels, of_rows=True)
    if len(labels) != n:
        raise ValueError(f"{n} examples, but {len(labels)} labels")
    return labels


def as_classes(classes: Any) -> list[Any]:
    """Return declared classes as Python objects; a set is sorted."""
    if not isinstance(classes, set | frozenset):
        return as_labels(classes, "the classes")
    try:
        return sorted(classes)
    except TypeError:  # the order of a set of texts differs between processes
        return sorted(classes, key=lambda label: (type(label).__name__, repr(label)))


def as_weights(w: Any, n: int) -> Floats:
    """Return the weights (n,) of n examples, from a number, a sequence or None for 1."""
    if w is None or np.isscalar(w):
        return np.full(n, 1.0 if w is None else checked_weight(w))
    weights = _numbers(np.asarray(as_labels(w, "the weights")), "the list of weights")
    if weights.shape != (n,):
        raise ValueError(f"{n} examples, but weights of shape {weights.shape}")
    bad = ~((weights >= 0) & (weights <= 1e100))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"row {row}: the weight is {weights[row]}: it must be finite, >= 0 and at most 1e100"
        )
    return weights


def as_array(labels: list[Any]) -> NDArray[Any]:
    """Return labels as an array of their type if that does not change them, else of objects."""
    kinds = {type(label) for label in labels}
    if len(kinds) == 1 and kinds <= {str, int, bool, float}:
        array = np.array(labels)
        same = array.tolist()  # numpy changes large int, and text that ends in a zero byte
        if same == labels and {type(label) for label in same} == kinds:
            return array
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array
