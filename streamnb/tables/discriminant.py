"""Gaussian discriminant analysis, linear and quadratic."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamnb.counts.protocol import Bools, Floats, Ints
from streamnb.parameters import Choice, Number, parameter, parameter_class
from streamnb.tables.base import TabularNB, arrival_independent
from streamnb.tables.numeric_sums import Numeric, NumericSums
from streamnb.tables.parameters import VAR_SMOOTHING, PriorParameter


class _Normals(NamedTuple):
    """Which features are known (d), in order; means (K, d), and covariances (K or 1, d, d)."""

    columns: list[int]
    means: Floats
    covariances: Floats


@parameter_class()
class GaussianDiscriminantAnalysis(PriorParameter, TabularNB):
    r"""Classes that are normally distributed, the covariance of their features included.

        log P(c) - log det(2 pi S_c) / 2 - (x - m_c)' S_c^-1 (x - m_c) / 2

    With one covariance shared by all classes the boundaries are planes (linear discriminant
    analysis), with one each they are quadrics.

    An example is learned by adding its outer product to the sums of its class, without rounding, so
    it can be taken back to the last bit. The factors are worked out at the first prediction after
    that, in O(K d^3). A prior that is given has no part in the covariance, which scikit-learn's LDA
    weighs by it. All parameters can be set after training, also the kind of covariance. A value
    that is missing is integrated out in predicting; each pair of features learns from the examples
    that have both (where these do not make a covariance, negative eigenvalues are lifted to 0).

    References
    ----------
    Hastie, T., Tibshirani, R. and Friedman, J. (2009). The Elements of Statistical Learning, 2nd
    edition, section 4.3. Friedman, J. (1989). Regularized discriminant analysis. JASA 84.

    Examples
    --------
    The sign of a product: no line tells it, and no independent features.

    >>> from streamnb import GaussianDiscriminantAnalysis
    >>> model = GaussianDiscriminantAnalysis(covariance="own", shrinkage=0.01)
    >>> for a, b in [(1, 1), (2, 2), (-1, -1), (-2, -2)]:
    ...     model.learn_one({"a": a, "b": b}, "alike")
    ...     model.learn_one({"a": a, "b": -b}, "opposed")
    >>> model.predict_one({"a": 3, "b": 2}), model.predict_one({"a": 3, "b": -2})
    ('alike', 'opposed')
    """

    covariance: str = parameter(
        Choice(("shared", "own")), "formula", 'Of each class: "shared" or "own".', default="shared"
    )
    shrinkage: float = parameter(
        Number(0, 1),
        "formula",
        "How far each covariance is drawn towards the identity times its mean variance.",
        default=0.0,
    )
    ddof: int = parameter(
        Choice((0, 1)),
        "formula",
        "Sums of products about the means are divided by the weight less this for each "
        "class that goes in: 0 for maximum likelihood (as scikit-learn has it), 1 for unbiased "
        "estimates.",
        default=0,
    )
    var_smoothing: float = VAR_SMOOTHING

    def _new_statistics(self) -> NumericSums:
        return NumericSums(pairs=True)

    def _normals(self) -> _Normals:
        """The distribution of each class as the parameters have it."""
        sums = self.statistics.sums
        d = len(self.statistics.features)
        products = np.array([one.products() for one in sums]).reshape(len(sums), 2, d, d)
        n, about = products[:, 0], products[:, 1]
        total = self.statistics.total()
        weight, around = total.products()
        every = _ratio(around, weight - self.ddof)
        largest = np.diag(_ratio(around, weight)).max(initial=0.0)
        if self.covariance == "shared":
            alike = _ratio(about.sum(axis=0), (n - self.ddof * (n > 0)).sum(axis=0))
            covariances = alike[None]
        else:
            covariances = _ratio(about, n - self.ddof)
            # Of a feature that a class never had, it takes what all classes have together.
            covariances = np.where(n > 0, covariances, every * np.eye(d))
        means = np.array([one.means() for one in sums]).reshape(len(sums), d)
        means = np.where(np.isnan(means), total.means(), means)
        order = arrival_independent(list(self.statistics.features))
        columns = [j for j in order if weight[j, j] > 0]
        means, covariances = means[:, columns], covariances[:, columns][:, :, columns].copy()
        d, identity = len(columns), np.eye(len(columns))
        for k, matrix in enumerate(covariances):
            spread = np.trace(matrix) / d if d else 0.0
            shrunk = (1 - self.shrinkage) * matrix + self.shrinkage * spread * identity
            covariances[k] = _lifted(shrunk) + (self.var_smoothing * largest or _TINY) * identity
        return _Normals(columns, means, covariances)

    def _evidence(self, rows: Numeric) -> Floats:
        if self._cache is None:
            self._cache = (self._normals(), {})
        normals, factors = self._cache
        values = self.statistics.aligned(rows)[:, normals.columns]
        there = ~np.isnan(values)
        scores = np.zeros((len(values), len(normals.means)))
        for key, mine in _alike(there).items():
            present = there[mine[0]]
            if key not in factors:
                if len(factors) >= _PATTERNS:
                    factors.clear()
                factors[key] = _whitened(normals.covariances, present)
            known, means = values[mine][:, present], normals.means[:, present]
            middle = means.sum(axis=0) / max(len(means), 1)  # nothing is lost far from zero
            for number, (whiten, constant) in enumerate(factors[key]):
                white, centres = (known - middle) @ whiten, (means - middle) @ whiten
                for k in range(len(means)) if len(factors[key]) == 1 else (number,):
                    away = white - centres[k]
                    scores[mine, k] = constant - 0.5 * np.einsum("ij,ij->i", away, away)
        return scores


_TINY = 1e-200
_PATTERNS = 64  # of missing values whose factors are kept


def _alike(there: Bools) -> dict[bytes, Ints]:
    """The rows that have the same features, by which those are."""
    if len(there) and there.all():
        return {np.packbits(there[0]).tobytes(): np.arange(len(there))}
    rows: dict[bytes, list[int]] = {}
    for i, row in enumerate(np.packbits(there, axis=1)):
        rows.setdefault(row.tobytes(), []).append(i)
    return {key: np.array(mine) for key, mine in rows.items()}


def _ratio(sums: Floats, n: Floats) -> Floats:
    """Sums by weights; 0 where there is too little weight to tell."""
    return np.divide(sums, n, out=np.zeros_like(sums), where=n > 0)


def _lifted(matrix: Floats) -> Floats:
    """The matrix without negative eigenvalues, which pairs with missing values can make."""
    if not len(matrix) or not np.isfinite(matrix).all():
        return matrix
    values, vectors = np.linalg.eigh(matrix)
    if values[0] >= -1e-12 * values[-1]:
        return matrix
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def _whitened(covariances: Floats, present: Bools) -> list[tuple[Floats, float]]:
    """What makes features independent, and the constant of the density, of each class."""
    d = int(present.sum())
    found = []
    for matrix in covariances:
        part = matrix[np.ix_(present, present)]
        values, vectors = np.linalg.eigh(part) if d else (np.empty(0), np.empty((0, 0)))
        values = np.maximum(values, max(1e-15 * values.max(initial=0.0), _TINY))
        constant = -0.5 * (d * np.log(2 * np.pi) + np.log(values).sum())
        found.append((vectors / np.sqrt(values), float(constant)))
    return found
