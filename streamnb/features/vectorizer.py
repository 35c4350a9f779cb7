"""Tokenizers as scikit-learn transformers from texts to a sparse matrix of counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamnb.features.text_input import as_sequence, as_texts, read_column
from streamnb.features.token_counts import TokenCounts

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class VectorizerMixin:
    """Mix-in of a tokenizer: scikit-learn's `fit`, `transform` and `get_feature_names_out`.

    `fit` collects the tokens; each gets a column, in the order of their names. `transform` leaves
    out tokens that `fit` did not see. River's methods do not depend on `fit`.
    """

    foreign_names: ClassVar[Mapping[str, str]] = {"max_features": "set max_features= of the model"}
    _sklearn_output_config: Mapping[str, str] = {}  # scikit-learn's `clone` copies this attribute
    _fitted_columns: tuple[NDArray[np.uint64], NDArray[np.int64], list[Any]] | None = None
    on: str | None

    if TYPE_CHECKING:

        def count(self, x: Any) -> TokenCounts: ...  # noqa: D102

    def fit(self, X: Any, y: Any = None) -> Self:
        """Collect the tokens of texts.

        Parameters
        ----------
        X : sequence of str or bytes
            The texts; also an array of shape (n, 1) or a frame with one column.
        y : object, default None
            Not used.
        """
        self._fit(self._count_all(X))
        return self

    def transform(self, X: Any) -> Any:
        """Return the counts of the tokens of texts, shape (n, d).

        The result is a CSR matrix, or the type chosen by `set_output`.
        """
        self._check_fitted()
        return self._output(self._count_all(X), X)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Collect the tokens of texts and return the result of `transform`."""
        messages = self._count_all(X)
        self._fit(messages)
        return self._output(messages, X)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the type of the result of `transform`.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, default None
            "default" for a CSR matrix; "pandas" for a frame with sparse columns, named by their
            tokens; "polars" for a frame with a number in every cell; None for no change.
        """
        if transform not in (None, "default", "pandas", "polars"):
            raise ValueError(f"transform: {transform!r:.80} is not 'default', 'pandas' or 'polars'")
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the token of each column, shape (d,)."""
        return np.array(self._check_fitted()[2], dtype=object)

    def inverse_transform(self, X: Any) -> list[NDArray[Any]]:
        """Return the tokens of each row of a matrix that `transform` returned, without order."""
        from scipy.sparse import csr_matrix

        names = self.get_feature_names_out()
        matrix = csr_matrix(X)
        if matrix.shape[1] != len(names):
            raise ValueError(f"X has {matrix.shape[1]:,} columns; expected {len(names):,}")
        return [names[row.indices[row.data != 0]] for row in matrix]

    @property
    def vocabulary_(self) -> dict[Any, int]:
        """The column of each token."""
        return {name: column for column, name in enumerate(self._check_fitted()[2])}

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted_columns is not None

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(two_d_array=False, string=True),
        )

    def _check_fitted(self) -> tuple[NDArray[np.uint64], NDArray[np.int64], list[Any]]:
        if self._fitted_columns is None:
            raise _not_fitted_error(f"this {type(self).__name__} is not fitted yet: call fit first")
        return self._fitted_columns

    def _count_all(self, X: Any) -> list[TokenCounts]:
        X = as_sequence(X)
        texts = as_texts(
            read_column(X, self.on) if self.on is not None and hasattr(X, "columns") else X
        )
        if texts is not None and self.on is None:
            return [self.count(text) for text in texts]
        if self.on is not None:
            rows = [{self.on: text} for text in texts] if texts is not None else X
            return [self.count(row) for row in rows]
        raise ValueError(f"a {type(self).__name__} takes texts, such as a list of str")

    def _token(self, fingerprint: int, stored_name: Any) -> Any:
        """Return a token as `transform_one` does."""
        return stored_name

    def _fit(self, messages: Iterable[TokenCounts]) -> None:
        names: dict[int, Any] = {}
        for message in messages:
            for i, fingerprint in enumerate(message.fingerprints.tolist()):
                if fingerprint not in names:
                    names[fingerprint] = self._token(fingerprint, message.name(i))
        fingerprints = sorted(names)
        order = sorted(range(len(names)), key=lambda i: _sort_key(names[fingerprints[i]]))
        columns = np.empty(len(names), dtype=np.int64)
        columns[order] = np.arange(len(names))
        self._fitted_columns = (
            np.array(fingerprints, dtype=np.uint64),
            columns,
            [names[fingerprints[i]] for i in order],
        )

    def _output(self, messages: list[TokenCounts], X: Any) -> Any:
        matrix = self._matrix(messages)
        transform = self._sklearn_output_config.get("transform", "default")
        if transform == "default":
            return matrix
        names = self.get_feature_names_out()
        if transform == "polars":
            import polars as pl

            texts = [str(name) for name in names]
            if len(set(texts)) < len(texts):
                raise ValueError(
                    "two tokens have the same text, such as 1 and '1', and polars needs different "
                    "names of columns; choose transform='pandas'"
                )
            return pl.DataFrame(matrix.toarray(), schema=texts)
        import pandas as pd

        index = X.index if hasattr(X, "iloc") else None
        return pd.DataFrame.sparse.from_spmatrix(matrix, index=index, columns=names)

    def _matrix(self, messages: list[TokenCounts]) -> csr_matrix:
        from scipy.sparse import csr_matrix

        fingerprints, columns, names = self._check_fitted()
        rows = np.repeat(np.arange(len(messages)), [len(message) for message in messages])
        keys = np.concatenate([message.fingerprints for message in messages])
        values = np.concatenate([message.counts for message in messages])
        positions = np.searchsorted(fingerprints, keys)
        is_known = positions < len(fingerprints)
        is_known[is_known] = fingerprints[positions[is_known]] == keys[is_known]
        indices = columns[positions[is_known]]
        shape = (len(messages), len(names))
        matrix = csr_matrix((values[is_known], (rows[is_known], indices)), shape=shape)
        matrix.sort_indices()
        return matrix


def _not_fitted_error(message: str) -> Exception:
    """Return scikit-learn's NotFittedError, or a ValueError if scikit-learn is not installed."""
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return ValueError(message)
    error: Exception = NotFittedError(message)
    return error


def _sort_key(name: Any) -> tuple[str, Any]:
    return type(name).__name__, name
