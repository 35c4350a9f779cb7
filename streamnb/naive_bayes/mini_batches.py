"""Predictions for many examples at once: river's mini-batches and scikit-learn's matrices."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river import base

from streamnb.counts.protocol import Floats
from streamnb.naive_bayes.rows import are_messages, as_labels, frame_of, is_frame, listed
from streamnb.scores import best_columns

if TYPE_CHECKING:
    from streamnb.counts.protocol import Label


def log_normalised(joint: Floats) -> Floats:
    """Logarithms of the probabilities, (n, K), of joint log-likelihoods."""
    if not joint.size:
        return joint
    top = joint.max(axis=1, keepdims=True)
    # A message that no class can have said (priors of zero all over): every class alike.
    joint = np.where(np.isneginf(top), 0.0, joint - np.where(np.isneginf(top), 0.0, top))
    return joint - np.log(np.exp(joint).sum(axis=1, keepdims=True))


class PredictManyMixin(base.MiniBatchClassifier):
    """River's methods that ask for many examples at once, for a model that scores them."""

    lock: threading.RLock

    if TYPE_CHECKING:

        @property
        def labels(self) -> list[Label]: ...  # noqa: D102

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def _scoring(self) -> threading.RLock:
        """What keeps scores and labels as they are."""
        return self.lock

    def _scores_of(self, X: Any) -> Floats:
        """Joint log-likelihoods (n, K) of rows, or of a sequence of examples."""
        raise NotImplementedError

    def _class_order(self) -> list[int]:
        """Return the indices of the classes in sorted order; in order of arrival if none is defined.

        scikit-learn's scorers expect the columns of all arrays in this order.
        """
        labels = self.labels
        try:
            return sorted(range(len(labels)), key=labels.__getitem__)
        except TypeError:
            return list(range(len(labels)))

    def _sorted_scores(self, X: Any) -> Floats:
        """Return joint log-likelihoods, shape (n, K), columns as in `_class_order`."""
        scores = self._scores_of(X)
        order = self._class_order()
        return scores if order == list(range(len(order))) else scores[:, order]

    def _most_probable(self, X: Any) -> NDArray[Any]:
        """The most probable class of each example, the first of equals."""
        return self._label_array(best_columns(self._scores_of(X)))

    def _label_array(self, columns: NDArray[np.intp]) -> NDArray[Any]:
        labels = self.labels
        kinds = {type(label) for label in labels}
        if len(kinds) == 1 and kinds <= {str, int, bool, float}:
            array = np.array(labels)
            same = array.tolist()  # not of large int, or of text that ends in a zero byte
            if same == labels and {type(label) for label in same} == kinds:
                return array[columns]
        array = np.empty(len(labels), dtype=object)
        array[:] = labels
        return array[columns]

    def predict_proba_many(self, X: Any) -> Any:
        """Probabilities, a row for each of X and a column for each class, as a frame like X.

        A frame keeps its library and its index. Polars and pyarrow want str for column names, so
        there labels are written out; a matrix or a list of messages gives an array.
        """
        X = listed(X)
        with self._scoring:
            labels = [self.labels[k] for k in self._class_order()]
            return _frame_like(X, labels, np.exp(log_normalised(self._sorted_scores(X))))

    def predict_many(self, X: Any) -> Any:
        """The most probable class of each row, as a series like X; empty if nothing was learned."""
        X = listed(X)
        with self._scoring:
            found = self._most_probable(X) if self.labels else np.empty(0, dtype=object)
        return _series_like(X, found)

    def joint_log_likelihood_many(self, X: Any) -> Any:
        """Log of prior times likelihood: a row for each of X, a column for each class."""
        X = listed(X)
        with self._scoring:
            labels = [self.labels[k] for k in self._class_order()]
            return _frame_like(X, labels, self._sorted_scores(X))


class MiniBatchMixin(PredictManyMixin):
    """River's and scikit-learn's methods for many examples, for a model that scores rows."""

    if TYPE_CHECKING:

        def _scores(self, x: Any) -> list[float]: ...

    def _learn_rows(self, X: Any, y: Any, w: Any, classes: Iterable[Label] = ()) -> None:
        """Learn the rows of X; all of them or none."""
        raise NotImplementedError

    def _score_rows(self, X: Any) -> Floats:
        """Joint log-likelihoods (n, K)."""
        raise NotImplementedError

    def _reset(self) -> None:
        """Forget everything."""
        raise NotImplementedError

    def _scores_of(self, X: Any) -> Floats:
        if not are_messages(X):
            return self._score_rows(X)
        scores = [self._scores(x) for x in X]
        return np.array(scores, dtype=float).reshape(len(X), len(self.labels))

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn the rows of X, with labels y and weights w (a number, or one for each row)."""
        with self.lock:
            self._learn_rows(X, y, w)

    # scikit-learn

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, sorted as the columns of `predict_proba` are."""
        return self._label_array(np.array(self._class_order(), dtype=np.intp))

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Iterable[Label] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the rows of X.

        Parameters
        ----------
        X
            Matrix or frame of n rows.
        y
            n labels.
        classes
            Classes that get a column before a row of them is learned.
        sample_weight
            n weights, >= 0.

        Raises
        ------
        ValueError
            Where a value, weight or length is wrong. Nothing has changed.
        """
        with self.lock:
            self._learn_rows(X, y, sample_weight, () if classes is None else as_labels(classes))
        return self

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything and learn the rows of X, with the classes in sorted order."""
        labels = as_labels(y)
        try:
            classes = sorted(set(labels))
        except TypeError:
            classes = list(dict.fromkeys(labels))
        with self.lock:
            before = vars(self).copy()
            self._reset()
            try:
                return self.partial_fit(X, labels, classes, sample_weight)
            except BaseException:
                vars(self).update(before)
                raise

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row, the first of equals."""
        with self.lock:
            if not self.labels:
                raise ValueError(
                    "nothing has been learned yet: call fit, partial_fit or learn_one first"
                )
            return self.classes_[best_columns(self._sorted_scores(X))]

    def predict_proba(self, X: Any) -> Floats:
        """Return probabilities, shape (n, K), columns as in `classes_`."""
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return logarithms of the probabilities, shape (n, K), columns as in `classes_`."""
        with self.lock:
            return log_normalised(self._sorted_scores(X))

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy over the rows of X."""
        right = [a == b for a, b in zip(as_labels(self.predict(X)), as_labels(y), strict=True)]
        weights = None if sample_weight is None else np.asarray(sample_weight)
        return float(np.average(right, weights=weights))


def _frame_like(X: Any, labels: list[Label], values: Floats) -> Any:
    """A column of values (n, K) for each label, as X has its columns, or the texts of a series."""
    X = X.to_frame() if hasattr(X, "to_frame") else X
    if not is_frame(X):
        return values
    columns = dict(zip(labels, values.T, strict=True))
    library = frame_of(X).__native_namespace__()
    if hasattr(X, "index"):
        return library.DataFrame(columns, index=X.index)
    named = {str(label): values for label, values in columns.items()}
    if len(named) < len(columns):
        raise ValueError("labels that are written alike cannot be columns of a frame like X")
    return library.DataFrame(named) if hasattr(library, "DataFrame") else library.table(named)


def _series_like(X: Any, values: NDArray[Any]) -> Any:
    X = X.to_frame() if hasattr(X, "to_frame") else X
    if not is_frame(X):
        return values
    library = frame_of(X).__native_namespace__()
    if hasattr(X, "index"):
        return library.Series(values, index=X.index if len(values) else X.index[:0])
    plain = values.tolist()
    return library.Series(plain) if hasattr(library, "Series") else library.array(plain)
