"""Matrices of counts: learning and scoring many messages at once, over the same table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.naive_bayes.mini_batches import MiniBatches
from streamnb.naive_bayes.rows import Rows, as_labels, as_weights

if TYPE_CHECKING:
    from streamnb.counts.protocol import Counts, Label


class LearnsMatrices(MiniBatches):
    """Learning and predicting of matrices, for a model that says how to score features.

    X is a scipy sparse matrix or array with any index type, a dense matrix, or a pandas, polars or
    pyarrow frame. A column of a matrix is the feature of its number, so `model.learn_one({3: 1},
    y)` counts in column 3; a column of a frame is the feature of its name. New columns and new
    classes are welcome at any time.
    """

    counts: Counts
    keep_names: bool
    length_norm: float | None
    decay: float

    if TYPE_CHECKING:

        def _weights_of(
            self, fingerprints: NDArray[np.uint64]
        ) -> tuple[NDArray[np.float64], NDArray[np.uint8] | None]: ...
        def _log_prior(self) -> list[float]: ...
        def _base_evidence(self) -> list[float]: ...
        def _length_divisor(self, used: int) -> float: ...
        def learn_one(self, x: Any, y: Any, w: float = 1.0) -> None: ...  # noqa: D102

    @property
    def _threshold(self) -> float:
        """Above what a value is a presence; NaN where values are counts."""
        return math.nan

    @property
    def _in_turn(self) -> bool:
        """Whether what a message adds depends on those before it."""
        return self.decay != 1

    def _learn_rows(self, X: Any, y: Any, w: Any, classes: Iterable[Label] = ()) -> None:
        signed = not math.isnan(self._threshold)
        rows = Rows.of(X, self.keep_names, canonical=signed)
        labels = as_labels(y)
        if len(labels) != len(rows):
            raise ValueError(f"{len(rows)} examples, but {len(labels)} labels")
        weights = as_weights(w, len(rows))
        distinct = list(dict.fromkeys(labels))
        places = {label: k for k, label in enumerate(distinct)}
        columns = np.array([places[label] for label in labels], dtype=np.int64)
        sums, bad = _core.column_sums(
            rows.indptr,
            rows.indices,
            rows.data,
            columns,
            weights,
            len(rows.features),
            len(distinct),
            self._threshold,
        )
        rows.check(bad, signed)
        masses = np.bincount(columns, weights, len(distinct)).tolist()
        self.counts.declare([*classes, *distinct])
        if self._in_turn:
            for row, label, weight in zip(rows.messages(), labels, weights.tolist(), strict=True):
                self.learn_one(row, label, weight)
        else:
            self.counts.add_matrix(rows.features, sums, distinct, masses)

    def _score_rows(self, X: Any) -> NDArray[np.float64]:
        """Joint log-likelihoods (n, K), each row bit for bit what `_scores` gives."""
        rows = Rows.of(X, False, canonical=True)
        weights, seen = self._weights_of(rows.features.fingerprints)
        sums, used, bad = _core.row_sums(
            rows.indptr, rows.indices, rows.data, weights, seen, self._threshold
        )
        rows.check(bad, not math.isnan(self._threshold))
        scores = np.array(self._base_evidence()) + sums
        if self.length_norm:
            scores /= np.array([self._length_divisor(int(n)) for n in used])[:, None]
        return np.array(self._log_prior()) + scores
