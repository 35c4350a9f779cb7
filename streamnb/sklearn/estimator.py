"""The base class of scikit-learn estimators that wrap a model."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import validation
from sklearn.utils.multiclass import check_classification_targets

from streamnb.counts.protocol import Floats, Label, check_labels, distinct_labels, is_missing
from streamnb.features.text_input import as_data, is_frame
from streamnb.foreign_names import translate_names, unknown_name_error
from streamnb.naive_bayes.matrices import as_array, as_classes, as_labels, as_weights
from streamnb.naive_bayes.mini_batches import log_normalised
from streamnb.naive_bayes.priors import check_whole_prior, log_prior
from streamnb.parameters import Parameter
from streamnb.scores import best_columns


def is_same_value(first: Any, second: Any) -> bool:
    """Return whether two parameter values are equal; tokenizers are compared by parameters."""
    if first is second:
        return True
    if hasattr(first, "get_params") and type(first) is type(second):
        return bool(first.get_params() == second.get_params())
    return bool(first == second)


def copy_value(value: Any) -> Any:
    """Return a copy of a value that has parameters, such as a tokenizer; else the value."""
    return clone(value) if hasattr(value, "get_params") else value


@contextmanager
def name_row(values: Any) -> Iterator[None]:
    """Add the row of the first non-finite value to a ValueError of scikit-learn."""
    try:
        yield
    except ValueError as error:
        place = _first_not_finite(values)
        if not place:
            raise
        raise ValueError(f"{place}: {str(error).splitlines()[0]}") from None


def _first_not_finite(values: Any) -> str:
    """Return "row 3, column 1" for the first NaN or infinity of an array, or ""."""
    if hasattr(values, "tocoo"):
        entries = values.tocoo()
        bad = np.flatnonzero(~np.isfinite(entries.data))
        places = np.stack((entries.row[bad], entries.col[bad]), axis=1)
    else:
        try:
            places = np.argwhere(~np.isfinite(np.asarray(values)))
        except (TypeError, ValueError):  # objects, such as labels of text
            cells = np.array(values, dtype=object)
            is_bad = is_missing if cells.ndim == 1 else _is_no_number
            places = np.array([i for i, value in np.ndenumerate(cells) if is_bad(value)])
    if not len(places):
        return ""
    first = min(places.tolist())
    return ", ".join(f"{axis} {i}" for axis, i in zip(("row", "column"), first, strict=False))


def _is_no_number(cell: Any) -> bool:
    """Return whether a cell of a matrix has no number, such as a text; None is a missing number."""
    try:
        return cell is not None and not math.isfinite(float(cell))
    except (TypeError, ValueError):
        return True


def _of_kind(classes: NDArray[Any], kind: np.dtype[Any]) -> NDArray[Any]:
    """Return classes as an array of a dtype, such as dates, if the dtype can represent all."""
    labels = classes.tolist()
    try:
        converted = np.array(labels, dtype=kind)
    except (TypeError, ValueError, OverflowError):
        return classes
    return converted if converted.tolist() == labels else classes


def _keep_labels(y: Any) -> Any:
    """Return labels as an array of Python values if numpy would change them, else unchanged.

    numpy drops a mask, and reads the nullable numbers and truth values of pandas as floats. It
    cannot read an iterator. It truncates the members of an enum of texts to their first letters.
    """
    if not isinstance(y, (set, frozenset)):
        y = as_data(y)
    if hasattr(y, "dtype"):
        is_numpy = isinstance(y.dtype, np.dtype) and y.dtype.kind != "T"
        # scikit-learn does not know the type of an array of objects, such as truth values
        is_changed = not is_numpy or isinstance(y, np.ma.MaskedArray) or y.dtype == object
    elif isinstance(y, (list, tuple)):
        is_changed = any(isinstance(label, str) and type(label) is not str for label in y)
    else:
        has_values = hasattr(y, "to_pylist") or is_frame(y)
        is_changed = has_values or (isinstance(y, Iterable) and not hasattr(y, "__array__"))
    if not is_changed:
        return y
    labels = as_labels(y)
    return as_array([str.__str__(label) if isinstance(label, str) else label for label in labels])


def _warn_of_enum(y: Any) -> None:
    """Warn of labels that scikit-learn's scorers, which call numpy, read as other texts."""
    if isinstance(y, (list, tuple)):
        for label in y:
            if isinstance(label, str) and str(label) != str.__str__(label):
                warnings.warn(
                    f"the label {label!r:.80} is a member of an enum: fit reads its value, but "
                    "named scorers such as scoring='accuracy' read its name; pass the values, "
                    "[label.value for label in y]",
                    UserWarning,
                    stacklevel=5,
                )
                return


def _check_one_type(classes: list[Any], y: Any) -> None:
    """Raise ValueError for a missing label, or if only some labels are text.

    0 and "0" would be two classes, and numpy would make the text "nan" of NaN among texts.

    Parameters
    ----------
    classes
        The known and the declared classes.
    y
        The labels.
    """
    labels = y if isinstance(y, (list, tuple)) else np.asarray(y).ravel().tolist()
    first_labels: dict[bool, Any] = {}
    for label in distinct_labels([*classes, *labels]):
        if is_missing(label):
            raise ValueError("a label must not be None or NaN")
        first_labels.setdefault(isinstance(label, str), label)
    if len(first_labels) > 1:
        raise ValueError(
            f"labels of mixed types: {first_labels[True]!r:.80} is text and "
            f"{first_labels[False]!r:.80} is not; convert them to one type"
        )


def _check_label_types(labels: list[Any]) -> None:
    """Raise ValueError for objects, which scikit-learn takes as the values of a regression."""
    for label in distinct_labels(labels):
        if not isinstance(label, str | bytes | int | float | np.generic):
            raise ValueError(
                f"the label {label!r:.80} is a {type(label).__name__}: scikit-learn needs labels "
                "of str, int, bool or float; convert them: [str(label) for label in y]"
            )


class Estimator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Base class of the estimators.

    A subclass names a `model` and inherits the declarations of its parameters. It defines the
    reading (`_read`) and learning (`_learn_rows`) of input, and its tags. Parameters are not
    checked before `fit`, as scikit-learn requires.

    Attributes
    ----------
    model_
        The trained model, with all its methods.
    classes_ : ndarray
        The classes, sorted.
    class_count_ : ndarray
        Weight of the examples of each class, shape (K,).
    """

    model_class: ClassVar[type[Any]]
    parameter_table: ClassVar[dict[str, Parameter]] = {}
    model_: Any
    classes_: NDArray[Any]

    def __copy__(self) -> Self:
        """Return an independent copy: a shared model could learn classes that one copy lacks."""
        return copy.deepcopy(self)

    def __init_subclass__(cls, *, model: type[Any] | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if model is not None:
            cls.model_class = model

    # Methods that depend on the kind of input

    def _read(self, X: Any, reset: bool) -> Any:
        """Return validated rows as the model takes them. `reset` is True in `fit`."""
        raise NotImplementedError

    def _validate(self, X: Any, reset: bool, **options: Any) -> Any:
        """Return a matrix validated by scikit-learn; errors name the row."""
        with name_row(X):
            return validation.validate_data(self, X, reset=reset, **options)

    def _check_text_column(self, X: Any, reset: bool) -> None:
        """Store the name of a frame's column of texts, or compare it with that of `fit`."""
        validation.validate_data(self, X, reset=reset, skip_check_array=True, ensure_2d=False)
        if reset and hasattr(self, "feature_names_in_"):
            self.n_features_in_: int = 1
        elif reset and hasattr(self, "n_features_in_"):
            del self.n_features_in_  # of an earlier `fit`

    def _declare(self, model: Any, classes: list[Label]) -> None:
        """Add classes to a model before a row of them is learned."""
        raise NotImplementedError

    def _learn_rows(self, model: Any, rows: Any, y: list[Label], weights: Floats) -> None:
        """Learn rows that `_read` returned."""
        raise NotImplementedError

    def _class_weights(self) -> list[float]:
        """Return the weight of the examples of each class, in the order of the model's labels."""
        raise NotImplementedError

    # scikit-learn

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, as scikit-learn reads them."""
        try:
            params: dict[str, Any] = super().get_params(deep)
        except AttributeError as error:  # of a subclass with its own constructor
            raise AttributeError(
                f"{error}; scikit-learn requires that a constructor stores each argument under its "
                "name: self.NAME = NAME"
            ) from None
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including those of a tokenizer that is None (`tokenizer__ngrams`)."""
        params = translate_names(type(self), params)
        for name in params:
            owner, _, nested = name.partition("__")
            if owner not in self.parameter_table:
                raise ValueError(unknown_name_error(type(self), owner))
            if nested and owner not in params and getattr(self, owner, self) is None:
                setattr(self, owner, self._default_of(owner))
        super().set_params(**params)
        return self

    def _default_of(self, name: str) -> Any:
        """Return the default object for a parameter that is None, such as a tokenizer, or None."""
        return None

    def _model_value(self, name: str, classes: list[Label]) -> Any:
        """Return the model's value of a parameter; a list of shares as `prior` becomes a dict."""
        value = getattr(self, name)
        if name != "prior" or isinstance(value, str | Mapping):
            return value
        shares = np.asarray(value)
        if shares.shape != (len(classes),):
            raise ValueError(
                f"prior: {value!r:.80} does not have a share for each of the {len(classes)} classes"
            )
        return dict(zip(sorted(classes), shares.tolist(), strict=True))

    def _new_model(self, classes: list[Label]) -> Any:
        """Return an untrained model. It copies tokenizers, so later changes of them are noticed."""
        names = self.model_class.parameter_table
        return self.model_class(
            **{name: copy_value(self._model_value(name, classes)) for name in names}
        )

    def _fitted_model(self) -> Any:
        """Return the model with the current parameters, without learning again."""
        validation.check_is_fitted(self, "model_")
        for name in self.model_class.parameter_table:
            value = self._model_value(name, self.classes_.tolist())
            if not is_same_value(getattr(self.model_, name), value):
                try:
                    setattr(self.model_, name, value)
                except ValueError as error:
                    if self.model_class.parameter_table[name].role != "counts":
                        raise
                    raise ValueError(
                        f"{name} has changed since fit, and the learned counts depend on it; call "
                        "fit again"
                    ) from error
        return self.model_

    def _learn(
        self, X: Any, y: Any, classes: ArrayLike | None, sample_weight: Any, reset: bool
    ) -> Self:
        """Learn rows. After an error, the estimator is unchanged."""
        before = self.__dict__.copy()
        try:
            return self._learn_unguarded(X, y, classes, sample_weight, reset)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _learn_unguarded(
        self, X: Any, y: Any, classes: ArrayLike | None, sample_weight: Any, reset: bool
    ) -> Self:
        """Validate and learn rows; an error can leave the estimator changed."""
        rows = self._read(X, reset)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        known_classes = [] if reset else self.classes_.tolist()
        _warn_of_enum(y)
        y = _keep_labels(y)
        with name_row(y):
            _check_one_type([*known_classes, *(() if classes is None else as_classes(classes))], y)
            labels = validation.column_or_1d(y, warn=True)
            if labels.dtype == object:
                check_labels(labels.tolist())
                _check_label_types(labels.tolist())
            validation.assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        n = rows.shape[0] if hasattr(rows, "shape") else len(getattr(rows, "values", rows))
        if len(labels) != n:
            raise ValueError(f"{n} examples, but {len(labels)} labels")
        weights = as_weights(sample_weight, n)
        if not weights.any():
            raise ValueError("all weights are zero; at least one must be above zero")
        declared = np.unique(
            labels if classes is None else _keep_labels(as_classes(classes))
        ).tolist()
        if reset and isinstance(getattr(self, "prior", None), Mapping):
            check_whole_prior(self.prior, declared)
        model = self._new_model(declared) if reset else self._fitted_model()
        if reset:
            self._declare(model, declared)
        self._learn_rows(model, rows, labels.tolist(), weights)
        if classes is not None:  # last, because `_learn_rows` can raise an error
            self._declare(model, declared)
        self.model_ = model
        kind = labels.dtype if reset else self.classes_.dtype
        self.classes_ = _of_kind(model.classes_, kind)
        return self

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Reset the model, then learn n rows or texts.

        Parameters
        ----------
        X : matrix, frame or sequence of text
            The rows or texts.
        y : array of shape (n,)
            Their labels.
        sample_weight : array of shape (n,), default None
            Their weights; None for 1.
        """
        return self._learn(X, y, None, sample_weight, reset=True)

    def partial_fit(
        self, X: Any, y: Any, classes: ArrayLike | None = None, sample_weight: Any = None
    ) -> Self:
        """Learn more rows of the same width, or more texts. New classes are allowed.

        The first call learns as `fit` does: texts of a `TextClassifier` in a shuffled order.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : array, default None
            Classes that `predict_proba` has a column for, even if no row of them was learned.
        """
        return self._learn(X, y, classes, sample_weight, reset=not hasattr(self, "model_"))

    def predict_joint_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the log of prior times likelihood, shape (n, K), columns as in `classes_`."""
        model = self._fitted_model()
        rows = self._read(X, reset=False)
        with model._scoring:
            scores: NDArray[np.float64] = model._sorted_scores(rows)
        return scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        best = best_columns(self.predict_joint_log_proba(X))
        return self.classes_[best]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy for the labels `y`."""
        return float(super().score(X, _keep_labels(y), sample_weight))

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return logarithms of the probabilities, shape (n, K), columns as in `classes_`."""
        return log_normalised(self.predict_joint_log_proba(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return probabilities, shape (n, K), columns as in `classes_`."""
        return np.exp(self.predict_log_proba(X))

    def _in_class_order(self, values: Any) -> NDArray[np.float64]:
        """Return an array with its last axis reordered from the model's labels to `classes_`."""
        return np.asarray(values, dtype=np.float64)[..., self.model_._class_order()]

    @property
    def class_count_(self) -> NDArray[np.float64]:
        """The weight of the examples of each class, shape (K,)."""
        self._fitted_model()
        return self._in_class_order(self._class_weights())

    @property
    def class_log_prior_(self) -> NDArray[np.float64]:
        """Log prior of each class, (K,); without a prior, the log of its share of the weight."""
        model = self._fitted_model()
        prior = getattr(model, "prior", "none")
        prior = "learned" if prior == "none" else prior
        return self._in_class_order(log_prior(prior, model.labels, self._class_weights()))
