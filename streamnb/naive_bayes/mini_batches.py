"""Mini-batches of examples: the methods of river and scikit-learn for many examples."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river import base

from streamnb.counts.protocol import Floats, Label, check_labels
from streamnb.features.text_input import NO_EXAMPLES, frame_of, is_frame
from streamnb.features.token_counts import CountedMessages
from streamnb.naive_bayes.matrices import (
    are_messages,
    as_array,
    as_classes,
    as_labels,
    as_list,
    as_weights,
)
from streamnb.naive_bayes.priors import check_whole_prior
from streamnb.scores import best_columns


def log_normalised(joint: Floats) -> Floats:
    """Return the logarithms of the probabilities, (n, K), of joint log-likelihoods (n, K)."""
    if not joint.size:
        return joint
    top = joint.max(axis=1, keepdims=True)
    # If all priors are zero, all scores are -inf, and the classes are equally probable.
    joint = np.where(np.isneginf(top), 0.0, joint - np.where(np.isneginf(top), 0.0, top))
    return joint - np.log(np.exp(joint).sum(axis=1, keepdims=True))


class PredictManyMixin(base.MiniBatchClassifier):
    """Mix-in of river's and scikit-learn's prediction methods for many examples."""

    lock: threading.RLock

    if TYPE_CHECKING:

        @property
        def labels(self) -> list[Label]: ...  # noqa: D102

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, sorted: the order of the columns of all arrays.

        `labels` has the order in which the classes first appeared.
        """
        return as_array(self.labels)[self._class_order()]

    @property
    def _scoring(self) -> threading.RLock:
        """Return the lock that prevents changes of scores and labels."""
        return self.lock

    def _scores_of(self, X: Any) -> Floats:
        """Return joint log-likelihoods (n, K) of a matrix or a sequence of examples."""
        raise NotImplementedError

    def _class_order(self) -> list[int]:
        """Return the class indices in sorted order; in order of arrival if labels have no order.

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

    def predict_proba_many(self, X: Any) -> Any:
        """Return probabilities: a row for each example of X, a column for each of `classes_`.

        The columns are in the order of `classes_`, not in that of `labels`. If X is a frame, the
        result is a frame of the same library with the same index. In polars and pyarrow, the name
        of a column is the label as text. Otherwise the result is an array.
        """
        X = as_list(X)
        with self._scoring:
            labels = [self.labels[k] for k in self._class_order()]
            return _frame_like(X, labels, np.exp(log_normalised(self._sorted_scores(X))))

    def predict_many(self, X: Any) -> Any:
        """Return the most probable class of each row, as a series or an array.

        The series is of the library of X: pandas, polars or pyarrow.

        The result is empty if nothing was learned.
        """
        X = as_list(X)
        with self._scoring:
            if not self.labels:
                return _series_like(X, np.empty(0, dtype=object))
            return _series_like(X, as_array(self.labels)[best_columns(self._scores_of(X))])

    def joint_log_likelihood_many(self, X: Any) -> Any:
        """Return log of prior times likelihood, shape (n, K), columns as in `classes_`."""
        X = as_list(X)
        with self._scoring:
            labels = [self.labels[k] for k in self._class_order()]
            return _frame_like(X, labels, self._sorted_scores(X))

    # scikit-learn

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, Tags, TargetTags

        return Tags("classifier", TargetTags(required=True), classifier_tags=ClassifierTags())

    def __sklearn_is_fitted__(self) -> bool:
        return bool(self.labels)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row, the first of equals, as an array."""
        X = as_list(X)
        with self._scoring:
            if not self.labels:
                raise ValueError(
                    "the model is not trained: call fit, learn_many or learn_one first"
                )
            return self.classes_[best_columns(self._sorted_scores(X))]

    def predict_proba(self, X: Any) -> Floats:
        """Return probabilities, shape (n, K), columns as in `classes_`."""
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return logarithms of the probabilities, shape (n, K), columns as in `classes_`."""
        X = as_list(X)
        with self._scoring:
            return log_normalised(self._sorted_scores(X))

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy over the rows of X.

        Raises
        ------
        ValueError
            If there is no row, a label is missing, or labels are text and classes are not, or the
            reverse.
        """
        predicted, labels = as_labels(self.predict(X)), as_labels(y)
        if len(predicted) != len(labels):
            raise ValueError(f"{len(predicted)} examples, but {len(labels)} labels")
        if not labels:
            raise ValueError(NO_EXAMPLES)
        check_labels(labels, of_rows=True)
        are_texts = [{isinstance(y, str) for y in group} for group in (self.labels, labels)]
        if are_texts[0].isdisjoint(are_texts[1]):
            raise ValueError(
                f"the label {labels[0]!r:.80} and the class {self.labels[0]!r:.80} have different "
                "types; convert the labels to the type of the classes"
            )
        is_correct = [first == second for first, second in zip(predicted, labels, strict=True)]
        weights = None if sample_weight is None else as_weights(sample_weight, len(labels))
        return float(np.average(is_correct, weights=weights))


class MiniBatchMixin(PredictManyMixin):
    """Mix-in of river's and scikit-learn's methods for learning many examples."""

    if TYPE_CHECKING:

        def _scores(self, x: Any) -> list[float]: ...

    def _learn_rows(self, X: Any, y: Any, w: Any, classes: Iterable[Label] = ()) -> None:
        """Learn all rows of X, or none after an error."""
        raise NotImplementedError

    def _score_rows(self, X: Any) -> Floats:
        """Return joint log-likelihoods (n, K)."""
        raise NotImplementedError

    def _reset(self) -> None:
        """Remove everything that was learned."""
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
            Classes that `predict_proba` has a column for, even if no row of them was learned.
        sample_weight
            n weights, >= 0.

        Raises
        ------
        ValueError
            If a value, weight or length is wrong. The model is then unchanged.
        """
        with self.lock:
            self._learn_rows(X, y, sample_weight, () if classes is None else as_classes(classes))
        return self

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Remove everything that was learned, then learn the rows of X.

        A `prior` that is a dict must have a share for each class, and no others.
        """
        labels = as_labels(y)
        check_labels(labels, of_rows=True)
        if not len(labels):
            raise ValueError(NO_EXAMPLES)
        try:
            classes = sorted(set(labels))
        except TypeError:
            classes = list(dict.fromkeys(labels))
        check_whole_prior(getattr(self, "prior", "learned"), classes)
        with self.lock:
            before = vars(self).copy()
            self._reset()
            try:
                return self.partial_fit(X, labels, classes, sample_weight)
            except BaseException:
                vars(self).update(before)
                raise


def _frame_like(X: Any, labels: list[Label], values: Floats) -> Any:
    """Return values (n, K) as a frame like X with a column per label; unchanged if X is none."""
    X = _source_frame(X)
    if not is_frame(X):
        return values
    columns = dict(zip(labels, values.T, strict=True))
    library = frame_of(X).__native_namespace__()
    if hasattr(X, "index"):
        return library.DataFrame(columns, index=X.index)
    named = {str(label): values for label, values in columns.items()}
    if len(named) < len(columns):
        raise ValueError(
            "two labels have the same text, such as 1 and '1', so two columns would have one name; "
            "pass a pandas frame, or convert the labels to one type"
        )
    return library.DataFrame(named) if hasattr(library, "DataFrame") else library.table(named)


def _source_frame(X: Any) -> Any:
    """Return the frame of a series or of counted messages; other values unchanged."""
    X = X.messages if isinstance(X, CountedMessages) else X
    return X.to_frame() if hasattr(X, "to_frame") else X


def _series_like(X: Any, values: NDArray[Any]) -> Any:
    X = _source_frame(X)
    if not is_frame(X):
        return values
    library = frame_of(X).__native_namespace__()
    if hasattr(X, "index"):
        return library.Series(values, index=X.index if len(values) else X.index[:0])
    items = values.tolist()
    return library.Series(items) if hasattr(library, "Series") else library.array(items)
