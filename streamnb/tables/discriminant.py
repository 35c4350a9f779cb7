"""Gaussian discriminant analysis, linear and quadratic."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from streamnb.constraints import Choice, Number
from streamnb.counts.protocol import Bools, Floats, Ints
from streamnb.parameters import inherited, parameter, parameter_class
from streamnb.tables.base import TabularNB, arrival_independent
from streamnb.tables.numeric_sums import Numeric, NumericSums
from streamnb.tables.parameters import NormalParameters, PriorParameter


class _Normals(NamedTuple):
    """The features with data (d), their means (K, d) and covariances (K or 1, d, d)."""

    columns: list[int]
    means: Floats
    covariances: Floats


@parameter_class()
class DiscriminantParameters(PriorParameter):
    """Parameters of `GaussianDiscriminantAnalysis`.

    Parameters
    ----------
    covariance
        "shared" for one covariance of all classes, "own" for one of each class.
    shrinkage
        From 0 to 1: each covariance is (1 - shrinkage) times the estimate, plus shrinkage times the
        mean variance on the diagonal.
    ddof
        Delta degrees of freedom: covariances are sums of products divided by (weight - ddof). 0 for
        maximum likelihood (as in scikit-learn), 1 for unbiased estimates.
    """

    covariance: str = parameter(Choice(("shared", "own")), "formula", default="shared")
    shrinkage: float = parameter(Number(0, 1), "formula", default=0.0)
    ddof: int = parameter(Choice((0, 1)), "formula", default=0)
    var_smoothing: float = inherited(NormalParameters, "var_smoothing")


@parameter_class()
class GaussianDiscriminantAnalysis(DiscriminantParameters, TabularNB):
    r"""Gaussian discriminant analysis: each class is a normal distribution with a full covariance.

        log P(c) - log det(2 pi S_c) / 2 - (x - m_c)' S_c^-1 (x - m_c) / 2

    If all classes share one covariance, the boundaries are planes (linear discriminant analysis).
    If each class has its own, they are quadrics.

    Learning adds the outer product of an example to the sums of its class, without rounding. So an
    example can be unlearned exactly. The first prediction after learning factorises the
    covariances, in O(K d^3). All parameters can be set after training, including the kind of
    covariance. Unlike scikit-learn's LDA, a given prior does not weight the shared covariance.

    In prediction, a missing value is integrated out. The covariance of two features is computed
    over the examples with both. This can give negative eigenvalues, which are set to 0.

    References
    ----------
    Hastie, T., Tibshirani, R. and Friedman, J. (2009). The Elements of Statistical Learning, 2nd
    edition, section 4.3. Friedman, J. (1989). Regularized discriminant analysis. JASA 84.

    Examples
    --------
    The sign of a product, which a linear boundary or independent features cannot separate:

    >>> from streamnb import GaussianDiscriminantAnalysis
    >>> model = GaussianDiscriminantAnalysis(covariance="own", shrinkage=0.01)
    >>> for a, b in [(1, 1), (2, 2), (-1, -1), (-2, -2)]:
    ...     model.learn_one({"a": a, "b": b}, "alike")
    ...     model.learn_one({"a": a, "b": -b}, "opposed")
    >>> model.predict_one({"a": 3, "b": 2}), model.predict_one({"a": 3, "b": -2})
    ('alike', 'opposed')
    """

    def _new_statistics(self) -> NumericSums:
        return NumericSums(pairs=True)

    def _normals(self) -> _Normals:
        """Return the normal distribution of each class for the current parameters."""
        sums = self.statistics.sums
        d = len(self.statistics.features)
        products = np.array([sums_of_class.products() for sums_of_class in sums]).reshape(
            len(sums), 2, d, d
        )
        n, class_products = products[:, 0], products[:, 1]
        total = self.statistics.total()
        weight, total_products = total.products()
        overall = _divide(total_products, weight - self.ddof)
        largest = np.diag(_divide(total_products, weight)).max(initial=0.0)
        if self.covariance == "shared":
            shared = _divide(class_products.sum(axis=0), (n - self.ddof * (n > 0)).sum(axis=0))
            covariances = shared[None]
        else:
            covariances = _divide(class_products, n - self.ddof)
            # For a feature without values in a class, use the estimate over all classes.
            covariances = np.where(n > 0, covariances, overall * np.eye(d))
        means = np.array([sums_of_class.means() for sums_of_class in sums]).reshape(len(sums), d)
        means = np.where(np.isnan(means), total.means(), means)
        order = arrival_independent(list(self.statistics.features))
        columns = [j for j in order if weight[j, j] > 0]
        means, covariances = means[:, columns], covariances[:, columns][:, :, columns].copy()
        d, identity = len(columns), np.eye(len(columns))
        for k, matrix in enumerate(covariances):
            spread = np.trace(matrix) / d if d else 0.0
            shrunk = (1 - self.shrinkage) * matrix + self.shrinkage * spread * identity
            covariances[k] = (
                _lift_eigenvalues(shrunk) + (self.var_smoothing * largest or _TINY) * identity
            )
        return _Normals(columns, means, covariances)

    def _evidence(self, rows: Numeric) -> Floats:
        """Return the log density of rows for each class, (n, K), without the prior."""
        if self._cache is None:
            self._cache = (self._normals(), {})
        normals, factors = self._cache
        values = self.statistics.aligned(rows)[:, normals.columns]
        is_present = ~np.isnan(values)
        scores = np.zeros((len(values), len(normals.means)))
        for key, indices in _rows_by_pattern(is_present).items():
            present = is_present[indices[0]]
            self._factorise(key, present)
            known_values, means = values[indices][:, present], normals.means[:, present]
            middle = means.sum(axis=0) / max(len(means), 1)  # keeps precision far from zero
            for class_index, (whiten, constant) in enumerate(factors[key]):
                white, centres = (known_values - middle) @ whiten, (means - middle) @ whiten
                for k in range(len(means)) if len(factors[key]) == 1 else (class_index,):
                    away = white - centres[k]
                    scores[indices, k] = constant - 0.5 * np.einsum("ij,ij->i", away, away)
        return scores

    def _factorise(self, key: bytes, present: Bools) -> list[tuple[Floats, float]]:
        """Return the cached factors for a pattern of present features."""
        normals, factors = self._cache
        if key not in factors:
            if len(factors) >= _PATTERNS:
                factors.clear()
            factors[key] = _whitening_factors(normals.covariances, present)
        return factors[key]

    def _gains(self, rows: Numeric) -> tuple[list[Hashable], Floats]:
        """Return the log density of each value, given all other values of the row."""
        normals = self._cache[0]
        values = self.statistics.aligned(rows)[:, normals.columns]
        is_present = ~np.isnan(values)
        ((key, _),) = _rows_by_pattern(is_present).items()
        factors = self._factorise(key, is_present[0])
        gains = []
        for k, mean in enumerate(normals.means[:, is_present[0]]):
            whiten = factors[k if len(factors) > 1 else 0][0]
            precisions = (whiten**2).sum(axis=1)
            residuals = whiten @ ((values[0, is_present[0]] - mean) @ whiten)
            away = residuals / np.sqrt(precisions)
            gains.append(0.5 * (np.log(precisions / (2 * np.pi)) - away**2))
        names = list(self.statistics.features)
        return [
            names[j] for j in np.array(normals.columns, dtype=np.int64)[is_present[0]]
        ], np.array(gains).T


_TINY = 1e-200
_PATTERNS = 64  # number of patterns of missing values whose factors are cached


def _rows_by_pattern(is_present: Bools) -> dict[bytes, Ints]:
    """Return the indices of the rows with each pattern of present features."""
    if len(is_present) and is_present.all():
        return {np.packbits(is_present[0]).tobytes(): np.arange(len(is_present))}
    rows_by_pattern: dict[bytes, list[int]] = {}
    for i, row in enumerate(np.packbits(is_present, axis=1)):
        rows_by_pattern.setdefault(row.tobytes(), []).append(i)
    return {key: np.array(indices) for key, indices in rows_by_pattern.items()}


def _divide(sums: Floats, n: Floats) -> Floats:
    """Return sums divided by weights; 0 if a weight is not positive."""
    return np.divide(sums, n, out=np.zeros_like(sums), where=n > 0)


def _lift_eigenvalues(matrix: Floats) -> Floats:
    """Return the matrix with negative eigenvalues set to 0; missing values can cause them."""
    if not len(matrix) or not np.isfinite(matrix).all():
        return matrix
    values, vectors = np.linalg.eigh(matrix)
    if values[0] >= -1e-12 * values[-1]:
        return matrix
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def _whitening_factors(covariances: Floats, present: Bools) -> list[tuple[Floats, float]]:
    """Return, for each class, the whitening matrix and the constant of the log density."""
    d = int(present.sum())
    factors = []
    for matrix in covariances:
        submatrix = matrix[np.ix_(present, present)]
        values, vectors = np.linalg.eigh(submatrix) if d else (np.empty(0), np.empty((0, 0)))
        values = np.maximum(values, max(1e-15 * values.max(initial=0.0), _TINY))
        constant = -0.5 * (d * np.log(2 * np.pi) + np.log(values).sum())
        factors.append((vectors / np.sqrt(values), float(constant)))
    return factors
