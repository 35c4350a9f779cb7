"""Estimators of models of counts: matrices, or texts that a tokenizer counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import validation

from streamnb import _core, naive_bayes
from streamnb.constraints import Constraint
from streamnb.counts.protocol import Floats, Label
from streamnb.features.text_input import (
    as_sequence,
    as_texts,
    frame_of,
    is_frame,
    list_names,
    read_column,
)
from streamnb.features.token_counts import TokenCounts
from streamnb.features.views import as_tokenizer
from streamnb.features.words import Tokenizer
from streamnb.naive_bayes.bernoulli import BernoulliParameters
from streamnb.naive_bayes.discriminative import DiscriminativeParameters
from streamnb.naive_bayes.matrices import NamedMatrix, as_list, refuse_mask_and_dates
from streamnb.naive_bayes.multinomial import ComplementParameters, MultinomialParameters
from streamnb.parameters import attribute, parameter, parameter_class
from streamnb.sklearn.estimator import Estimator, copy_value, is_same_value


def _is_list_of_dicts(X: Any) -> bool:
    return isinstance(X, list) and isinstance(X[0], Mapping)


def _refuse_other_rows(X: Any) -> None:
    """Raise ValueError for dicts of counts, lists of tokens, and texts among other columns."""
    if is_frame(X):
        texts = [
            column.name
            for column in frame_of(X).iter_columns()
            if not column.dtype.is_numeric()
            and any(isinstance(value, str) for value in column.drop_nulls().head(1).to_list())
        ]
        if texts:
            raise ValueError(
                f"the column {texts[0]!r:.80} is text: pass this column alone, or name it by "
                f"tokenizer=Tokenizer(on={texts[0]!r:.80})"
            )
    row = X[0] if isinstance(X, list) and X else None
    if _is_list_of_dicts(X):
        raise ValueError(
            "a row is a dict; convert the rows with sklearn.feature_extraction.DictVectorizer"
        )
    if isinstance(row, (list, tuple)) and any(isinstance(token, str) for token in row):
        raise ValueError(
            "a row is a list of tokens; pass texts, and your function from a text to its tokens "
            "as tokenizer="
        )


@parameter_class(kw_only=True)
class _CountsEstimator(Estimator):
    """Base of the estimators whose rows are counts: matrices of fixed width, or texts.

    Only features with a count are smoothed; scikit-learn smooths all columns. With columns that
    have no count, as in folds of a matrix, probabilities differ a little from scikit-learn's.

    Parameters
    ----------
    tokenizer
        A tokenizer for texts, or a callable from a text to its tokens; None for
        `streamnb.Tokenizer()`.
    """

    is_signed = False  # whether values may be below zero
    tokenizer: Any = parameter(Constraint(lambda value: True), "counts", default=None)
    text_: bool = attribute(init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.positive_only = not self.is_signed
        return tags

    def _default_of(self, name: str) -> Any:
        return Tokenizer() if name == "tokenizer" else None

    def _read(self, X: Any, reset: bool) -> Any:
        """Return the validated rows: token counts of texts, or a matrix."""
        X = as_sequence(X)
        if reset:
            self._copy_tokenizer()
        on: Any = getattr(self.tokenizer, "on", None)  # the column of the texts
        are_dicts = on is not None and _is_list_of_dicts(X)
        is_column = are_dicts or (on is not None and hasattr(X, "columns"))
        if are_dicts:
            if not any(on in row for row in X):
                raise ValueError(f"on: X has no column {on!r:.80}; it has {list_names(X[0])}")
            texts = as_texts([row.get(on) for row in X])
        else:
            texts = as_texts(read_column(X, on) if is_column else X)
        if not reset and (texts is not None) != self.text_:
            raise ValueError(
                f"this {type(self).__name__} was fitted on {'text' if self.text_ else 'a matrix'}; "
                f"X must be {'text' if self.text_ else 'a matrix'}, too"
            )
        if texts is not None:
            if not is_column:
                self._check_text_column(X, reset)
            tokenizer = self._fitted_tokenizer()
            rows: Any = (
                as_list(tokenizer.transform_many(X))
                if is_column
                else list(map(tokenizer.count, texts))
            )
        else:
            _refuse_other_rows(X)
            refuse_mask_and_dates(X)
            rows = self._validate(X, reset, accept_sparse="csr", dtype="numeric")
            if hasattr(self, "feature_names_in_"):
                rows = NamedMatrix(self.feature_names_in_.tolist(), rows)
        if reset:
            self.text_ = texts is not None
        return rows

    def _copy_tokenizer(self) -> None:
        """Copy the tokenizer for `fit`; raise ValueError if it is not one, even for a matrix."""
        self._tokenizer_of_fit = copy_value(self.tokenizer)
        self._counting_tokenizer: Any = as_tokenizer(
            Tokenizer() if self.tokenizer is None else self._tokenizer_of_fit
        )

    def _fitted_tokenizer(self) -> Any:
        """Return the tokenizer of `fit`; raise ValueError if the parameter has changed since."""
        if not is_same_value(self.tokenizer, self._tokenizer_of_fit):
            raise ValueError(
                "tokenizer has changed since fit, and the counts are those of the old tokens; "
                "call fit again"
            )
        return self._counting_tokenizer

    def _declare(self, model: Any, classes: list[Label]) -> None:
        model.counts.add_classes(classes)

    def _learn_rows(self, model: Any, rows: Any, y: list[Label], weights: Floats) -> None:
        if isinstance(rows, list):
            model.learn_many(rows, y, weights)
            return
        if not self.is_signed:
            matrix = rows.matrix if isinstance(rows, NamedMatrix) else rows
            advice = "set alternate_sign=False in a HashingVectorizer, use GaussianNB for measures"
            validation.check_non_negative(matrix, f"{type(self).__name__} ({advice})")
        model.partial_fit(rows, y, sample_weight=weights)

    def _class_weights(self) -> list[float]:
        counts = self.model_.counts
        return [weight / counts.scale for weight in counts.weights]

    # These attributes are computed when they are read, because predictions do not need them.

    @property
    def vocabulary_(self) -> dict[Any, int]:
        """The column of each token in `feature_count_` and `feature_log_prob_`, for texts."""
        counts = self._fitted_model().counts
        if not self.text_:
            raise AttributeError(
                "vocabulary_ exists only for texts; here the columns are those of the matrix"
            )
        return {name: column for column, (name, _) in enumerate(self._named_features(counts))}

    def _named_features(self, counts: Any) -> list[tuple[Any, int]]:
        """Return name and fingerprint of each feature, sorted by name."""
        pairs = [
            (self.model_.display_name(int(fingerprint)), int(fingerprint))
            for fingerprints, _ in counts.parts()
            for fingerprint in fingerprints
        ]
        return sorted(pairs, key=lambda pair: str(pair[0]))

    def _column_fingerprints(self) -> NDArray[np.uint64]:
        counts = self._fitted_model().counts
        if self.text_:
            fingerprints = [fingerprint for _, fingerprint in self._named_features(counts)]
            return np.array(fingerprints, dtype=np.uint64)
        if hasattr(self, "feature_names_in_"):
            names = dict.fromkeys(self.feature_names_in_.tolist(), 1)
            return TokenCounts.from_dict(names, None, False).fingerprints
        return _core.fingerprint_columns(np.arange(self.n_features_in_, dtype=np.int64))

    @property
    def feature_count_(self) -> NDArray[np.float64]:
        """The weight of each feature in each class, shape (K, d)."""
        cells, _ = self._fitted_model().counts.get_counts(self._column_fingerprints())
        return self._in_class_order(cells / self.model_.counts.scale).T

    @property
    def feature_log_prob_(self) -> NDArray[np.float64]:
        """The logarithm of the smoothed probability of each feature in each class, (K, d)."""
        cells, _ = self._fitted_model().counts.get_counts(self._column_fingerprints())
        return self._in_class_order(self._log_probabilities(cells)).T

    def _log_probabilities(self, cells: Floats) -> Floats:
        weights: Floats = self.model_._feature_weights(cells)
        return weights


@parameter_class()
class MultinomialNB(MultinomialParameters, _CountsEstimator, model=naive_bayes.MultinomialNB):
    """`streamnb.MultinomialNB` as a scikit-learn estimator.

    X is a matrix of counts, dense or sparse, or a sequence of texts.

    Attributes
    ----------
    model_ : streamnb.MultinomialNB
        The trained model, with all its methods.
    classes_ : ndarray
        The classes, sorted.
    class_count_, class_log_prior_ : ndarray
        Weight and log prior of each class, shape (K,).
    feature_count_, feature_log_prob_ : ndarray
        Weight and log probability of each feature in each class, shape (K, d). They are computed
        when they are read.
    vocabulary_ : dict
        The column of each token in these arrays, if it was fitted to texts.

    Examples
    --------
    >>> from streamnb.sklearn import MultinomialNB
    >>> model = MultinomialNB().fit(["free offer now", "lunch at noon"], ["spam", "ham"])
    >>> str(model.predict(["free lunch offer"])[0])
    'spam'
    """


@parameter_class()
class BernoulliNB(BernoulliParameters, _CountsEstimator, model=naive_bayes.BernoulliNB):
    """`streamnb.BernoulliNB` as a scikit-learn estimator; attributes as for `MultinomialNB`."""

    is_signed = True

    def _log_probabilities(self, cells: Floats) -> Floats:
        log_odds: Floats = self.model_._feature_weights(cells)
        return -np.logaddexp(0.0, -log_odds)


@parameter_class()
class ComplementNB(ComplementParameters, _CountsEstimator, model=naive_bayes.ComplementNB):
    """`streamnb.ComplementNB` as a scikit-learn estimator; attributes as for `MultinomialNB`.

    `feature_log_prob_` has the weights of the formula, which are not probabilities.
    `feature_all_` has the weight of each feature in all classes, shape (d,).
    """

    @property
    def feature_all_(self) -> NDArray[np.float64]:
        """The weight of each feature in all classes, shape (d,)."""
        weights: NDArray[np.float64] = self.feature_count_.sum(axis=0)
        return weights


@parameter_class()
class DiscriminativeMultinomialNB(
    DiscriminativeParameters, _CountsEstimator, model=naive_bayes.DiscriminativeMultinomialNB
):
    """`streamnb.DiscriminativeMultinomialNB` as a scikit-learn estimator.

    Rows are learned once, in their order, which affects the result.
    Attributes are as for `MultinomialNB`.
    """
