"""The estimators, by kind of input: counts or texts, tables, only texts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import validation

from streamnb import _core, classifier, naive_bayes, tables
from streamnb._core.exact_sums import normal_parameters
from streamnb.classifier.presets import PresetParameters
from streamnb.counts.protocol import Floats, Label
from streamnb.features.text_input import as_sequence, as_texts
from streamnb.features.token_counts import TokenCounts
from streamnb.features.views import as_tokenizer
from streamnb.features.words import Tokenizer
from streamnb.naive_bayes.bernoulli import BernoulliParameters
from streamnb.naive_bayes.complement import ComplementParameters
from streamnb.naive_bayes.discriminative import DiscriminativeParameters
from streamnb.naive_bayes.mini_batches import NamedMatrix, as_array, as_list, is_frame
from streamnb.naive_bayes.multinomial import MultinomialParameters
from streamnb.naive_bayes.priors import log_prior
from streamnb.parameters import Constraint, attribute, parameter, parameter_class
from streamnb.sklearn.estimator import Estimator, copy_value, is_same_value
from streamnb.tables.aode import AODEParameters
from streamnb.tables.columns import Columns
from streamnb.tables.discriminant import DiscriminantParameters
from streamnb.tables.lazy import LazyParameters
from streamnb.tables.level_counts import Levels
from streamnb.tables.mixed import MixedParameters
from streamnb.tables.parameters import LevelParameters, NormalParameters, PriorParameter

_TOKENIZER = parameter(
    Constraint(lambda value: True),
    "counts",
    "A tokenizer for texts, or a callable from a text to its tokens; None for "
    "`streamnb.Tokenizer()`.",
    default=None,
)


def _refuse_tokens(X: Any) -> None:
    """Raise ValueError for a list whose rows are dicts of counts, or lists of tokens."""
    row = X[0] if isinstance(X, list) and X else None
    if isinstance(row, Mapping):
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
    """

    is_signed = False  # whether values may be below zero
    tokenizer: Any = _TOKENIZER
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
        X = as_sequence(X)
        on = getattr(self.tokenizer, "on", None)  # the column of the texts
        is_column = on is not None and hasattr(X, "columns")
        if is_column and on not in list(X.columns):
            raise ValueError(f"X has no column {on!r:.80}, which the tokenizer reads (on=)")
        texts = as_texts(X[on] if is_column else X)
        if not reset and (texts is not None) != self.text_:
            raise ValueError(
                f"this {type(self).__name__} was fitted on {'text' if self.text_ else 'a matrix'}; "
                f"X must be {'text' if self.text_ else 'a matrix'}, too"
            )
        if texts is not None:
            tokenizer = self._fitted_tokenizer(reset)
            rows: Any = (
                as_list(tokenizer.transform_many(X))
                if is_column
                else list(map(tokenizer.count, texts))
            )
        else:
            _refuse_tokens(X)
            rows = self._validate(X, reset, accept_sparse="csr", dtype="numeric")
            if hasattr(self, "feature_names_in_"):
                rows = NamedMatrix(self.feature_names_in_.tolist(), rows)
        if reset:
            self.text_ = texts is not None
        return rows

    def _fitted_tokenizer(self, reset: bool) -> Any:
        """Return the tokenizer of `fit`; raise ValueError if the parameter has changed since."""
        if reset:
            self._tokenizer_of_fit = copy_value(self.tokenizer)
            if self.tokenizer is None:
                self._counting_tokenizer: Any = Tokenizer()
            else:
                self._counting_tokenizer = as_tokenizer(self._tokenizer_of_fit)
        elif not is_same_value(self.tokenizer, self._tokenizer_of_fit):
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
            validation.check_non_negative(matrix, f"{type(self).__name__}: counts are wanted")
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

    @property
    def class_log_prior_(self) -> NDArray[np.float64]:
        """The logarithm of the prior of each class, shape (K,)."""
        return self._in_class_order(self._fitted_model()._log_prior())


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
    def class_log_prior_(self) -> NDArray[np.float64]:
        """Log prior of each class, (K,); without a prior, the log of its share of the weight."""
        model = self._fitted_model()
        prior = "learned" if model.prior == "none" else model.prior
        return self._in_class_order(log_prior(prior, model.labels, self._class_weights()))

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


class _TableEstimator(Estimator):
    """Base of the estimators whose rows have named values: arrays, frames, lists of rows.

    Columns of a frame keep their names in `model_`; columns of an array are named 0, 1, 2 ...
    Missing values (None, NaN) are left out.
    """

    is_numeric = False  # whether all values are numbers

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = tags.input_tags.string = not self.is_numeric
        return tags

    def _read(self, X: Any, reset: bool) -> Columns:
        X = as_sequence(X)
        is_sequence = isinstance(X, list) or (isinstance(X, np.ndarray) and X.dtype == object)
        if is_sequence and any(isinstance(row, Mapping) for row in X):
            return self._read_dicts(list(X), reset)
        if is_frame(X):
            validation.validate_data(self, X, skip_check_array=True, reset=reset)
            table = Columns.from_data(X)
            if not len(table.values):
                raise ValueError("found 0 samples, but at least one is needed")
        else:
            if isinstance(X, list) and not self.is_numeric:
                X = Columns.from_data(X).values  # numpy would convert numbers to text
            dtype = np.float64 if self.is_numeric else None
            X = self._validate(X, reset, dtype=dtype, ensure_all_finite="allow-nan")
            table = Columns.from_data(X)
        names = getattr(self, "feature_names_in_", None)
        return table if names is None else Columns(names.tolist(), table.values)

    def _read_dicts(self, X: list[Mapping[str, Any]], reset: bool) -> Columns:
        """Return a list of dicts as a frame with the keys as columns; keys may be missing."""
        table = Columns.from_data(X)
        if not table.names:
            raise ValueError("found 0 features: all rows are empty dicts")
        row_names = [name for name in table.names if isinstance(name, str)]
        if len(row_names) < len(table.names):
            raise ValueError("a key of a row is not text, as names of features must be")
        if reset:
            self.feature_names_in_: NDArray[Any] = np.array(row_names, dtype=object)
            self.n_features_in_: int = len(row_names)
            return table
        if not hasattr(self, "feature_names_in_"):
            raise ValueError(
                f"X has feature names, but {type(self).__name__} was fitted without feature names"
            )
        names = self.feature_names_in_.tolist()
        if new := sorted(set(row_names) - set(names)):
            raise ValueError(
                "The feature names should match those that were passed during fit; unseen at fit "
                f"time: {', '.join(new)[:200]}"
            )
        values = np.full((len(X), len(names)), None, dtype=object)
        places = {name: j for j, name in enumerate(names)}
        values[:, [places[name] for name in row_names]] = table.values
        return Columns(names, values)

    def _declare(self, model: Any, classes: list[Label]) -> None:
        model._declare(classes)

    def _learn_rows(self, model: Any, rows: Any, y: list[Label], weights: Floats) -> None:
        model.learn_many(rows, y, weights)

    def _class_weights(self) -> list[float]:
        return list(self.model_.class_weights.values())

    def _column_names(self) -> list[Hashable]:
        """Return the name of each column in the model; without names, its number."""
        names = getattr(self, "feature_names_in_", None)
        return list(range(self.n_features_in_)) if names is None else list(names.tolist())

    def _column_indices(self, features: Mapping[Hashable, int]) -> list[int]:
        """Return the index of each column among the model's features."""
        return [features[name] for name in self._column_names()]

    @property
    def class_log_prior_(self) -> NDArray[np.float64]:
        """The logarithm of the prior of each class, shape (K,)."""
        model = self._fitted_model()
        return self._in_class_order(log_prior(model.prior, model.labels, self._class_weights()))


@parameter_class()
class GaussianNB(NormalParameters, PriorParameter, _TableEstimator, model=tables.GaussianNB):
    """`streamnb.GaussianNB` as a scikit-learn estimator.

    Attributes
    ----------
    model_ : streamnb.GaussianNB
        The trained model, with all its methods.
    classes_ : ndarray
        The classes, sorted.
    class_count_, class_log_prior_ : ndarray
        Weight and log prior of each class, shape (K,).
    class_prior_ : ndarray
        Prior of each class, shape (K,).
    theta_, var_ : ndarray
        Mean and variance of each feature in each class, shape (K, d). As in scikit-learn, the
        variances are those of the formula: `epsilon_` is added. A class without a value of a
        feature has the mean and variance of the other classes.
    epsilon_ : float
        `var_smoothing` times the largest variance of a feature over all classes.

    Examples
    --------
    >>> from streamnb.sklearn import GaussianNB
    >>> model = GaussianNB().fit([[1.0], [1.2], [3.0], [3.4]], ["a", "a", "b", "b"])
    >>> str(model.predict([[3.1]])[0])
    'b'
    """

    is_numeric = True

    def _normals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the means and variances of the formula, (K, d) in the order of the columns."""
        model = self._fitted_model()
        sums = model.statistics.sums
        means, halves, _ = normal_parameters(sums, model.ddof, model.var_smoothing, model.epsilon)
        cells = np.ix_(model._class_order(), self._column_indices(model.statistics.features))
        return means[cells], 1 / (2 * halves[cells])

    @property
    def class_prior_(self) -> NDArray[np.float64]:
        """The prior of each class, shape (K,)."""
        return np.exp(self.class_log_prior_)

    @property
    def theta_(self) -> NDArray[np.float64]:
        """The mean of each feature in each class, shape (K, d)."""
        return self._normals()[0]

    @property
    def var_(self) -> NDArray[np.float64]:
        """The variance of each feature in each class, with `epsilon_`, shape (K, d)."""
        return self._normals()[1]

    @property
    def epsilon_(self) -> float:
        """`var_smoothing` times the largest variance of a feature over all classes."""
        model = self._fitted_model()
        weights, _, squares = model.statistics.total().moments()
        variances = squares[weights > 0] / weights[weights > 0]
        return float(model.var_smoothing * variances.max(initial=0.0))


@parameter_class()
class CategoricalNB(PriorParameter, LevelParameters, _TableEstimator, model=tables.CategoricalNB):
    """`streamnb.CategoricalNB` as a scikit-learn estimator.

    Levels are any values and need no encoding. New ones can come at any time.

    Attributes
    ----------
    model_ : streamnb.CategoricalNB
        The model, with everything it can do besides.
    classes_ : ndarray
        The classes, sorted.
    class_count_, class_log_prior_ : ndarray
        Weight and log prior of each class, shape (K,).
    categories_ : list of ndarray
        The L levels of each feature, sorted.
    n_categories_ : ndarray
        The number of levels of each feature, shape (d,).
    category_count_, feature_log_prob_ : list of ndarray
        For each feature, weight and log probability of each level in each class, shape (K, L).
    """

    def _levels(self) -> list[list[Hashable]]:
        """Return the levels of each feature, sorted, or in order of arrival if they cannot be."""
        counts = self._fitted_model().statistics
        all_levels = []
        for name in self._column_names():
            levels = list(counts.learned_levels(name))
            with suppress(TypeError):
                levels.sort()
            all_levels.append(levels)
        return all_levels

    @property
    def categories_(self) -> list[NDArray[Any]]:
        """The levels of each feature, sorted; the columns of `category_count_`."""
        return [as_array(levels) for levels in self._levels()]

    @property
    def n_categories_(self) -> NDArray[np.int64]:
        """The number of levels of each feature, shape (d,)."""
        return np.array([len(levels) for levels in self._levels()], dtype=np.int64)

    @property
    def category_count_(self) -> list[NDArray[np.float64]]:
        """For each feature, the weight of each level in each class, shape (K, L)."""
        counts = self._fitted_model().statistics
        return [
            self._in_class_order(counts.counts[[counts.learned_levels(name)[x] for x in levels]]).T
            for name, levels in zip(self._column_names(), self._levels(), strict=True)
        ]

    @property
    def feature_log_prob_(self) -> list[NDArray[np.float64]]:
        """For each feature, the log probability of each level in each class, shape (K, L)."""
        model = self._fitted_model()
        return [
            self._in_class_order(
                model.statistics.logs(Levels.of_feature(name, levels), model.alpha, True)[0][:, 0]
            ).T
            for name, levels in zip(self._column_names(), self._levels(), strict=True)
        ]


@parameter_class(kw_only=True)
class MixedNB(MixedParameters, _TableEstimator, model=tables.MixedNB):
    """`streamnb.MixedNB` as a scikit-learn estimator.

    Its attributes are `model_`, `classes_`, `class_count_` and `class_log_prior_`. In a frame, the
    type of each value decides whether it is a number or a level.
    """


@parameter_class()
class AODE(AODEParameters, _TableEstimator, model=tables.AODE):
    """`streamnb.AODE` as a scikit-learn estimator.

    Its attributes are `model_`, `classes_`, `class_count_` and `class_log_prior_`.
    """


@parameter_class()
class LazyBayesianRules(LazyParameters, _TableEstimator, model=tables.LazyBayesianRules):
    """`streamnb.LazyBayesianRules` as a scikit-learn estimator.

    Its attributes are `model_`, `classes_`, `class_count_` and `class_log_prior_`. Only the last
    `size` rows are stored.
    """


@parameter_class()
class GaussianDiscriminantAnalysis(
    DiscriminantParameters, _TableEstimator, model=tables.GaussianDiscriminantAnalysis
):
    """`streamnb.GaussianDiscriminantAnalysis` as a scikit-learn estimator.

    Attributes
    ----------
    model_ : streamnb.GaussianDiscriminantAnalysis
        The model, with everything it can do besides.
    classes_ : ndarray
        The classes, sorted.
    class_count_, class_log_prior_, priors_ : ndarray
        Weight, log prior and prior of each class, shape (K,).
    means_ : ndarray
        Mean of each feature in each class, shape (K, d); NaN for a feature without a value.
    covariance_ : ndarray or list of ndarray
        The covariance that all classes share, shape (d, d), or a list with one for each class.
    """

    is_numeric = True

    @property
    def priors_(self) -> NDArray[np.float64]:
        """The prior of each class, shape (K,)."""
        return np.exp(self.class_log_prior_)

    def _normals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return means (K, d) and covariances (K or 1, d, d), in the order of the columns."""
        model = self._fitted_model()
        normals = model._normals()
        d = len(model.statistics.features)
        columns = self._column_indices(model.statistics.features)
        means = np.full((len(normals.means), d), np.nan)
        means[:, normals.columns] = normals.means
        covariances = np.full((len(normals.covariances), d, d), np.nan)
        covariances[np.ix_(range(len(covariances)), normals.columns, normals.columns)] = (
            normals.covariances
        )
        return means[:, columns], covariances[:, columns][:, :, columns]

    @property
    def means_(self) -> NDArray[np.float64]:
        """The mean of each feature in each class, shape (K, d)."""
        means: NDArray[np.float64] = self._normals()[0][self.model_._class_order()]
        return means

    @property
    def covariance_(self) -> NDArray[np.float64] | list[NDArray[np.float64]]:
        """The covariance of all classes, (d, d), or with `covariance="own"` a list, one a class."""
        covariances = self._normals()[1]
        if self.covariance == "shared":
            return covariances[0]
        return list(covariances[self.model_._class_order()])


@parameter_class(kw_only=True)
class _TextEstimator(PresetParameters, Estimator):
    """Base of the estimators that take raw texts or mails.

    X is a sequence of texts, an array of shape (n, 1) or a frame with one column; with `on` also a
    frame, or a list of dicts, that has the texts under that name.
    """

    costs: tuple[float, float, float] = parameter(  # type: ignore[assignment]  # a plain one
        classifier.COSTS,
        "formula",
        "Costs of a false alarm, a miss and a review, for `model_.classify`.",
        default=tuple(classifier.Costs()),
    )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags

    def _default_of(self, name: str) -> Any:
        if name != "words":
            return None
        return self.model_class.tokenizer_class(**self.model_class.word_options)

    def _read(self, X: Any, reset: bool) -> Any:
        X = as_sequence(X)
        if self.on is not None:
            return classifier.as_messages(X, by_name=True)
        texts = as_texts(X)
        if texts is None:
            raise ValueError(
                f"a {type(self).__name__} takes texts: a list, an array of shape (n,) or (n, 1), "
                "or a frame with one column; for a frame with more set on= to the column"
            )
        return texts

    def _declare(self, model: Any, classes: list[Label]) -> None:
        for view_model in model.models:
            view_model.counts.add_classes(classes)

    def _learn_rows(self, model: Any, rows: Any, y: list[Label], weights: Floats) -> None:
        is_first = not any(model.messages().values())
        (model.fit if is_first else model.learn_many)(rows, y, weights)

    def _class_weights(self) -> list[float]:
        return list(self.model_.messages().values())


@parameter_class(kw_only=True)
class TextClassifier(_TextEstimator, model=classifier.TextClassifier):
    """`streamnb.TextClassifier`, the default for texts, as a scikit-learn estimator.

    `fit` learns the texts once, shuffled. `partial_fit` learns more texts in their order.

    Attributes
    ----------
    model_ : streamnb.TextClassifier
        The trained classifier, with all its methods.
    classes_ : ndarray
        The classes, sorted.
    class_count_ : ndarray
        Weight of the texts of each class, shape (K,).

    Examples
    --------
    >>> from streamnb.sklearn import TextClassifier
    >>> texts = ["goal in the last minute", "the vote was close"]
    >>> model = TextClassifier().fit(texts, ["sport", "news"])
    >>> str(model.predict(["a late goal"])[0])
    'sport'
    """


@parameter_class(kw_only=True)
class MailClassifier(_TextEstimator, model=classifier.MailClassifier):
    """`streamnb.MailClassifier`, the default for mail, as a scikit-learn estimator.

    A message is bytes or a str. Attributes are as for `TextClassifier`.
    """
