"""Scores of classes: probabilities, the best class, and the mix-in of models that score."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.parameters import ParametersMixin

LabelT = TypeVar("LabelT")


def probabilities(scores: list[float]) -> list[float]:
    """Return the probabilities of joint log-likelihoods, (K,); uniform if all are -inf."""
    return _core.probabilities(scores)


def best_index(scores: Sequence[float]) -> int:
    """Return the index of the largest score; of equal scores, the first.

    Scores are equal if they differ by at most 1e-9 + 1e-12 |largest|. The same sum in another
    order differs by less, so rounding never decides between classes.

    Examples
    --------
    >>> from streamnb.scores import best_index
    >>> best_index([-1.5, 0.1 + 0.2, 0.3])
    1
    >>> best_index([0.3, 0.1 + 0.2])
    0
    """
    return _core.best_index(list(scores))


def best_label(scores: Mapping[LabelT, float]) -> LabelT | None:
    """Return the label of the largest score; of equal scores, the first; None without scores."""
    return list(scores)[_core.best_index(list(scores.values()))] if scores else None


def label_keys(labels: Iterable[LabelT]) -> dict[LabelT, str]:
    """Return the text of each label. If two have the same text, such as 1 and "1": all in JSON."""
    keys = {label: str(label) for label in labels}
    if len(set(keys.values())) < len(keys):
        keys = {label: json.dumps(label, default=str) for label in keys}
    return keys


def best_columns(scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return `best_index` of each row of scores (n, K)."""
    if not scores.shape[1]:
        raise ValueError("cannot choose a class, because no class was learned")
    top = np.fmax.reduce(scores, axis=1)
    margin = np.where(np.isinf(top), 0.0, 1e-9 + 1e-12 * np.abs(top))  # as in `best_index`
    return (scores >= (top - margin)[:, None]).argmax(axis=1)


def log_odds(scores: dict[Any, float], label: Any) -> float:
    """Return the log-odds of a class against all others, given joint log-likelihoods.

    Return 0 if there is only one class.

    Examples
    --------
    >>> from streamnb.scores import log_odds
    >>> log_odds({"spam": -700.0, "ham": -900.0}, "spam")
    200.0
    """
    if len(scores) < 2:
        return 0.0
    score = scores[label]
    others = [value for key, value in scores.items() if key != label]
    top = max(others)
    if len(others) > 1 and top > -math.inf:
        top += _core.log(math.fsum(_core.exp(value - top) for value in others))
    return score - top if score != top else 0.0


class ScorerMixin(ParametersMixin):
    """Mix-in of models that give each class a score: the logarithm of prior times likelihood."""

    @property
    def labels(self) -> list[Any]:
        """The classes, in the order in which they were first seen."""
        raise NotImplementedError

    def _scores(self, x: Any) -> list[float]:
        """Return the joint log-likelihood of each class, (K,)."""
        raise NotImplementedError

    def joint_log_likelihood(self, x: Any) -> dict[Any, float]:
        """Return the logarithm of prior times likelihood of each class."""
        with self.lock:
            return dict(zip(self.labels, self._scores(x), strict=True))

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Any, float]:
        """Return the probability of each class; {} if nothing was learned."""
        with self.lock:
            if not self.labels:
                return {}
            return dict(zip(self.labels, probabilities(self._scores(x)), strict=True))

    def predict_one(self, x: Any, **kwargs: Any) -> Any:
        """Return the most probable class; of equal ones, the first seen; None without learning."""
        with self.lock:
            return self.labels[best_index(self._scores(x))] if self.labels else None

    @property
    def order_dependence_reason(self) -> str:
        """Return why the result depends on the order of examples, or "" if it does not."""
        return ""

    def check_merge(self, other: Any) -> None:
        """Raise ValueError if another model cannot be merged into this one."""
        if type(other) is not type(self):
            raise ValueError(f"cannot merge a {type(other).__name__} into a {type(self).__name__}")

    def _merge(self, other: Any) -> None:
        """Merge another model into this one."""
        raise NotImplementedError

    def merge(self, other: Self) -> None:
        """Merge another model into this one.

        If the order of examples has no effect (`order_dependence_reason` is empty), the result
        equals learning both streams.

        Raises
        ------
        ValueError
            If the models cannot be merged. The model is then unchanged.
        """
        ScorerMixin.check_merge(self, other)  # another object may have no lock
        first, second = sorted((self, other), key=id)  # a fixed order of locks prevents deadlocks
        with first.lock, second.lock:
            self.check_merge(other)
            self._merge(other)
