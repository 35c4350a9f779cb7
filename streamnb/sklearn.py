"""scikit-learn estimators over the same counts: matrices of fixed width, or raw text.

Import them from here; scikit-learn is an extra (`pip install streamnb[sklearn]`).

Only features that have a count are smoothed, where scikit-learn smooths every column: columns that
are zero in all that was learned (as in folds of a matrix) make probabilities differ a little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import validation
from sklearn.utils.multiclass import check_classification_targets

from streamnb import naive_bayes
from streamnb.features.words import ScanningTransformer, Tokenizer
from streamnb.naive_bayes.bernoulli import BernoulliParameters
from streamnb.naive_bayes.complement import ComplementParameters
from streamnb.naive_bayes.discriminative import DiscriminativeParameters
from streamnb.naive_bayes.mini_batches import as_weights, log_normalised
from streamnb.naive_bayes.multinomial import MultinomialParameters
from streamnb.naive_bayes.text_model import CountingNB
from streamnb.parameters import Constraint, parameter, parameter_class
from streamnb.scores import best_columns

TOKENIZER = parameter(
    Constraint(lambda x: True),
    "counts",
    "What makes tokens of texts; None for `streamnb.Tokenizer()`.",
    default=None,
)


def _is_text(X: Any) -> bool:
    """Whether X is a sequence of texts, and not a matrix."""
    if sparse.issparse(X) or getattr(X, "ndim", 1) != 1 or isinstance(X, (str, bytes)):
        return False
    first = next(iter(X), None) if isinstance(X, Iterable) else None
    return isinstance(first, (str, bytes))


class _Estimator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """What the estimators share: everything but the parameters."""

    made: ClassVar[type[CountingNB]]
    any_sign: ClassVar[bool] = False  # whether values may be below zero
    tokenizer: ScanningTransformer | None
    model_: CountingNB
    classes_: NDArray[Any]
    text_: bool
    _tokenizer: ScanningTransformer | None

    def _new_model(self) -> CountingNB:
        return self.made(**{name: getattr(self, name) for name in self.made.parameter_table})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.positive_only = not self.any_sign
        tags.classifier_tags.poor_score = True
        return tags

    def _matrix(self, X: Any, reset: bool) -> Any:
        """Validated input: a matrix as it is, texts as a list of token counts."""
        if isinstance(X, Iterator):
            X = list(X)
        elif hasattr(X, "to_pylist") and not hasattr(X, "columns"):  # an array of pyarrow
            X = X.to_pylist()
        if isinstance(X, list) and not X:
            raise ValueError("found 0 samples where at least one is wanted")
        text = _is_text(X)
        if not reset and text != self.text_:
            raise ValueError(
                f"this {type(self).__name__} learned from {'text' if self.text_ else 'matrices'}"
            )
        if text:
            return [self._fitted_tokenizer(reset).count(text) for text in X]
        return validation.validate_data(self, X, accept_sparse="csr", dtype="numeric", reset=reset)

    def _fitted_tokenizer(self, reset: bool) -> ScanningTransformer:
        """Return the tokenizer of `fit`; raise ValueError if the parameter has changed since."""
        if reset:
            self._tokenizer = self.tokenizer
        elif self.tokenizer is not self._tokenizer:
            raise ValueError(
                "tokenizer has changed since fit: the counts are of the old tokens; call fit again"
            )
        return Tokenizer() if self.tokenizer is None else self.tokenizer

    def _learn(
        self, X: Any, y: Any, classes: ArrayLike | None, sample_weight: Any, first: bool
    ) -> Self:
        matrix = self._matrix(X, reset=first)
        y = validation.column_or_1d(y, warn=True)
        validation.assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        texts = isinstance(matrix, list)
        if not texts and not self.any_sign:
            validation.check_non_negative(matrix, f"{type(self).__name__}: counts are wanted")
        n = len(matrix) if texts else matrix.shape[0]
        if len(y) != n:
            raise ValueError(f"{n} examples, but {len(y)} labels")
        weights = None
        if sample_weight is not None and texts:
            weights = as_weights(sample_weight, n)
        elif sample_weight is not None:
            weights = validation._check_sample_weight(sample_weight, matrix)
        model = self._new_model() if first else self._current()
        if first or classes is not None:
            model.counts.add_classes(np.unique(y if classes is None else classes).tolist())
        if texts:
            for tokens, label, w in zip(
                matrix, y.tolist(), [1.0] * n if weights is None else weights, strict=True
            ):
                model.learn_one(tokens, label, float(w))
        else:
            model.partial_fit(matrix, y, sample_weight=weights)
        self.model_, self.text_ = model, texts
        self.classes_ = model.classes_
        return self

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn a matrix (n, features), or n texts, anew."""
        return self._learn(X, y, None, sample_weight, first=True)

    def partial_fit(
        self, X: Any, y: Any, classes: ArrayLike | None = None, sample_weight: Any = None
    ) -> Self:
        """Learn more of a matrix of the same width, or more texts; classes may be new."""
        return self._learn(X, y, classes, sample_weight, first=not hasattr(self, "model_"))

    def predict_joint_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Log of prior times likelihood, columns as in `classes_`."""
        validation.check_is_fitted(self, "model_")
        matrix = self._matrix(X, reset=False)
        return self._current()._sorted_scores(matrix)

    def _current(self) -> CountingNB:
        """The model with the parameters as they are now: nothing has to be learned again."""
        for name in self.made.parameter_table:
            if getattr(self.model_, name) != getattr(self, name):
                setattr(self.model_, name, getattr(self, name))
        return self.model_

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        best = best_columns(self.predict_joint_log_proba(X))
        return self.classes_[best]

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Logarithms of the probabilities, columns as in `classes_`."""
        return log_normalised(self.predict_joint_log_proba(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities, columns as in `classes_`."""
        return np.exp(self.predict_log_proba(X))


@parameter_class()
class MultinomialNB(MultinomialParameters, _Estimator):
    """`streamnb.MultinomialNB` as a scikit-learn estimator.

    Attributes
    ----------
    model_ : streamnb.MultinomialNB
        The model, with everything it can do besides.
    classes_ : ndarray
        The classes.

    Examples
    --------
    >>> from streamnb.sklearn import MultinomialNB
    >>> model = MultinomialNB().fit(["free offer now", "lunch at noon"], ["spam", "ham"])
    >>> str(model.predict(["free lunch offer"])[0])
    'spam'
    """

    tokenizer: ScanningTransformer | None = TOKENIZER
    made: ClassVar[type[CountingNB]] = naive_bayes.MultinomialNB


@parameter_class()
class BernoulliNB(BernoulliParameters, _Estimator):
    """`streamnb.BernoulliNB` as a scikit-learn estimator; attributes as for `MultinomialNB`."""

    tokenizer: ScanningTransformer | None = TOKENIZER
    made: ClassVar[type[CountingNB]] = naive_bayes.BernoulliNB
    any_sign = True


@parameter_class()
class ComplementNB(ComplementParameters, _Estimator):
    """`streamnb.ComplementNB` as a scikit-learn estimator; attributes as for `MultinomialNB`."""

    tokenizer: ScanningTransformer | None = TOKENIZER
    made: ClassVar[type[CountingNB]] = naive_bayes.ComplementNB


@parameter_class()
class DiscriminativeMultinomialNB(DiscriminativeParameters, _Estimator):
    """`streamnb.DiscriminativeMultinomialNB` as a scikit-learn estimator.

    Rows are learned in their order, which makes a difference; `fit` goes through them once.
    Attributes are as for `MultinomialNB`.
    """

    tokenizer: ScanningTransformer | None = TOKENIZER
    made: ClassVar[type[CountingNB]] = naive_bayes.DiscriminativeMultinomialNB
