"""Estimators of models of tables."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import validation

from streamnb import tables
from streamnb._core.exact_sums import normal_parameters
from streamnb.counts.protocol import Floats, Label
from streamnb.features.text_input import NO_EXAMPLES, as_sequence, frame_of, is_frame
from streamnb.naive_bayes.matrices import as_array
from streamnb.parameters import parameter_class
from streamnb.sklearn.estimator import Estimator
from streamnb.tables.aode import AODEParameters
from streamnb.tables.columns import Columns
from streamnb.tables.discriminant import DiscriminantParameters
from streamnb.tables.lazy import LazyParameters
from streamnb.tables.level_counts import Levels
from streamnb.tables.naive_bayes import MixedParameters
from streamnb.tables.parameters import LevelParameters, NormalParameters, PriorParameter


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
        """Return the validated rows as columns."""
        X = as_sequence(X)
        is_sequence = isinstance(X, list) or (isinstance(X, np.ndarray) and X.dtype == object)
        if is_sequence and any(isinstance(row, Mapping) for row in X):
            return self._read_dicts(list(X), reset)
        if is_frame(X):
            frame_of(X)  # refuse equal names of columns
            validation.validate_data(self, X, skip_check_array=True, reset=reset)
            table = Columns.from_data(X)
            if not len(table.values):
                raise ValueError(NO_EXAMPLES)
        else:
            is_masked = isinstance(X, np.ma.MaskedArray)
            if getattr(X, "dtype", None) == np.dtypes.StringDType():
                X = X.astype(object)  # scikit-learn does not accept arrays of this type
            if is_masked or (isinstance(X, list) and not self.is_numeric):
                # numpy would drop the mask, and convert numbers to text
                X = Columns.from_data(X).values
            dtype = "numeric" if self.is_numeric else None
            X = self._validate(X, reset, dtype=dtype, ensure_all_finite="allow-nan")
            table = Columns.from_data(X)
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return table
        places = dict(zip(table.names, names.tolist(), strict=True))
        level_names = frozenset(places[name] for name in table.level_names)
        return Columns(names.tolist(), table.values, level_names)

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
        The trained model, with all its methods.
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
        """Return the levels of each feature, sorted; in order of arrival if they have no order."""
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
        The trained model, with all its methods.
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
        """The covariance of all classes, (d, d); with `covariance="own"` a list by class."""
        covariances = self._normals()[1]
        if self.covariance == "shared":
            return covariances[0]
        return list(covariances[self.model_._class_order()])
