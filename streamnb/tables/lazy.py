"""Lazy Bayesian rules over the last examples."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamnb.constraints import Integer, Number
from streamnb.counts.protocol import Bools, Floats, Ints, Label
from streamnb.parameters import parameter, parameter_class
from streamnb.tables.base import TabularNB, arrival_independent
from streamnb.tables.level_counts import MISSING, LevelCounts, Levels, log_probabilities

# Maximum number of logarithms computed at once: 512 KiB. A row of 200 columns took 1.25 s with this
# value, 1.3 s with half of it, and 1.45 s with twice the value.
_BLOCK_CELLS = 1 << 16


class _Examples(NamedTuple):
    """The examples of a rule: levels (m, n), classes (m,) and weights (m,)."""

    codes: Ints
    places: Ints
    weights: Floats

    def select(self, rows: Bools, columns: NDArray[np.intp]) -> _Examples:
        """Return a selection of the rows and columns."""
        return _Examples(self.codes[rows][:, columns], self.places[rows], self.weights[rows])


class _Query(NamedTuple):
    """The d learned features of a row to classify, and the examples with these features."""

    names: list[Hashable]
    codes: Ints
    examples: _Examples
    levels: Floats


class WindowOfRows(LevelCounts):
    """Statistics of the last examples: the rows, and the counts of their levels.

    Parameters
    ----------
    size
        The number of examples.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.rows: list[tuple[dict[int, int], int, float]] = []  # level of each feature

    def _code_rows(self, rows: Levels) -> list[dict[int, int]]:
        features, codes = self.codes(rows)
        return [
            {f: v for f, v in zip(features.tolist(), row, strict=True) if v >= 0}
            for row in codes.tolist()
        ]

    def learn(self, rows: Levels, places: Ints, weights: Floats) -> None:
        """Add rows, with the index of the class of each."""
        super().learn(rows, places, weights)
        coded = self._code_rows(rows)
        for row, place, weight in zip(coded, places.tolist(), weights.tolist(), strict=True):
            if weight:
                self.rows.append((row, place, weight))

    def unlearn(self, rows: Levels, place: int, weight: float, remaining_weight: float) -> None:
        """Subtract the last row that equals this one."""
        (row,) = self._code_rows(rows)
        if weight:
            for i in range(len(self.rows) - 1, -1, -1):
                if self.rows[i] == (row, place, weight):
                    break
            else:
                raise ValueError(
                    f"cannot unlearn: this row is not among the last {self.size:,} examples"
                )
            super().unlearn(rows, place, weight, remaining_weight)
            del self.rows[i]

    def shrink(self) -> list[tuple[int, float]]:
        """Drop the oldest rows beyond `size`, and return their classes and weights."""
        dropped = self.rows[: max(len(self.rows) - self.size, 0)]
        del self.rows[: len(dropped)]
        for row, place, weight in dropped:
            for feature, level in row.items():
                self._counts[level, place] = max(self._counts[level, place] - weight, 0.0)
                self.feature_weights[feature, place] = max(
                    self.feature_weights[feature, place] - weight, 0.0
                )
                if not self._counts[level].any():
                    self.count_removed_levels(np.array([level]))
            self.totals[place] = max(self.totals[place] - weight * len(row), 0.0)
        return [(place, weight) for _, place, weight in dropped]

    def merge(self, other: Any, places: list[int]) -> None:
        """Append the rows of other statistics."""
        super().merge(other, places)
        features, ids = self.translate(other)
        for row, place, weight in list(other.rows):  # `other` can be this object
            own_row = {int(features[f]): int(ids[v]) for f, v in row.items()}
            self.rows.append((own_row, places[place], weight))

    def examples(self, columns: list[int]) -> _Examples:
        """Return the rows as arrays, for some features."""
        codes = np.full((len(self.rows), len(columns)), MISSING, dtype=np.int64)
        for i, (row, _, _) in enumerate(self.rows):
            codes[i] = [row.get(feature, MISSING) for feature in columns]
        places = np.array([place for _, place, _ in self.rows], dtype=np.int64)
        return _Examples(codes, places, np.array([weight for *_, weight in self.rows]))

    def state(self) -> tuple[Any, dict[str, NDArray[Any]]]:
        """Return the levels, and the rows as indices into them."""
        described, arrays = super().state()
        numbers = np.argsort(self.saved_order()).tolist()
        entries = [
            (i, feature, numbers[level])
            for i, (row, _, _) in enumerate(self.rows)
            for feature, level in sorted(row.items())
        ]
        arrays["row_levels"] = np.array(entries, dtype=np.int64).reshape(-1, 3)
        arrays["row_classes"] = np.array([place for _, place, _ in self.rows], dtype=np.int64)
        arrays["row_weights"] = np.array([weight for *_, weight in self.rows], dtype=np.float64)
        return described, arrays

    def restore(self, described: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `state` returned."""
        super().restore(described, arrays)
        classes, weights = arrays["row_classes"], arrays["row_weights"]
        if classes.shape != weights.shape or not (weights > 0).all():
            raise ValueError("rows and weights do not match")
        if len(classes) and not 0 <= classes.min() <= classes.max() < self.counts.shape[1]:
            raise ValueError("a row has no valid class")
        coded: list[dict[int, int]] = [{} for _ in classes]
        for i, feature, level in arrays["row_levels"].tolist():
            if not (0 <= i < len(coded) and 0 <= level < self._size):
                raise ValueError("a row has an unknown level")
            if self.feature_of[level] != feature:
                raise ValueError("a level belongs to another feature")
            coded[i][feature] = level
        self.rows = list(zip(coded, classes.tolist(), weights.tolist(), strict=True))


@parameter_class()
class LazyParameters:
    """Parameters of `LazyBayesianRules`.

    Parameters
    ----------
    size
        Number of examples stored: the last ones learned. A prediction takes O(size n^2) time for n
        features.
    alpha
        Additive smoothing.
    level
        Significance level of the one-sided sign test. A feature is fixed only if the number of
        errors then falls significantly.
    """

    size: int = parameter(Integer(1, 10**6), "counts", default=1000)
    alpha: float = parameter(Number(), "formula", default=1.0)
    level: float = parameter(Number(0, 1), "formula", default=0.05)


@parameter_class()
class LazyBayesianRules(LazyParameters, TabularNB):
    """Lazy Bayesian rules: naive Bayes over the examples that share values with the query.

    A prediction begins with all examples, and fixes features one by one to the value of the query.
    Fixing a feature selects the examples with that value. A feature is fixed if naive Bayes over
    the other features then makes significantly fewer leave-one-out errors on these examples, by a
    sign test. The search stops if no feature passes the test. So dependent features select
    examples, and naive Bayes multiplies the others.

    Levels are any hashable values. Convert numbers to ranges first. Missing values are left out.
    `alpha` and `level` can be set at any time.

    References
    ----------
    Zheng, Z. and Webb, G. I. (2000). Lazy learning of Bayesian rules. Machine Learning 41. (There,
    all examples are stored.)

    Examples
    --------
    >>> from streamnb import LazyBayesianRules
    >>> model = LazyBayesianRules(size=100)
    >>> for i in range(40):
    ...     a, b = i % 2, i // 2 % 2
    ...     model.learn_one({"a": a, "b": b}, a != b)
    >>> round(model.predict_proba_one({"a": 0, "b": 1})[True], 2)
    0.92
    >>> model.rule_features({"a": 0, "b": 1})
    ['a']
    """

    @property
    def prior(self) -> str:  # type: ignore[override]  # other models have a choice
        """The prior is always "learned", from the examples."""
        return "learned"

    order_dependence_reason = "LazyBayesianRules depends on the order of its rows"

    def _new_statistics(self) -> WindowOfRows:
        return WindowOfRows(self.size)

    def _learn(
        self, rows: Any, labels: list[Label], weights: Floats, classes: Iterable[Label]
    ) -> None:
        super()._learn(rows, labels, weights, classes)
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        for place, weight in self.statistics.shrink():
            self._subtract_weight(place, weight)

    def _merge(self, other: TabularNB) -> None:
        """Append the examples of another model, and drop the oldest ones."""
        super()._merge(other)
        self._drop_oldest()

    def rule_features(self, x: Mapping[Any, Any]) -> list[Any]:
        """Return the features that the rule for x fixes, in the order of their choice."""
        (query,) = self._queries(self._read_one(x))
        return [query.names[j] for j in self._rule(query)]

    def _score(self, rows: Levels) -> Floats:
        if not self.labels:
            return np.zeros((len(rows.places), 0))
        scores = [self._naive(query, self._rule(query))[0] for query in self._queries(rows)]
        return np.array(scores).reshape(-1, len(self.labels))

    def _gains(self, rows: Levels) -> tuple[list[Hashable], Floats]:
        """Return contributions with the rule of the whole row, so the rule is searched once."""
        (query,) = self._queries(rows)
        fixed = self._rule(query)
        score, free_features, logs = self._naive(query, fixed)
        gains = np.zeros((len(query.names), len(self.labels)))
        gains[free_features] = logs
        for j in fixed:
            selectors = [feature for feature in fixed if feature != j]
            gains[j] = score - self._naive(query, selectors, ignored=[j])[0]
        return query.names, gains

    def _queries(self, rows: Levels) -> Iterator[_Query]:
        statistics = self.statistics
        features, codes = statistics.codes(rows)
        # The levels of a feature have neighbouring numbers, so tables of a few features are small.
        level_order = np.argsort(statistics.feature_of, kind="stable")
        level_numbers = np.append(np.argsort(level_order), MISSING)  # MISSING is the last index
        for row in codes:
            present = np.flatnonzero(row >= 0)
            present = present[statistics.counts[row[present]].any(axis=1)]
            names = [statistics.names[j] for j in features[present].tolist()]
            present = present[arrival_independent(names)]
            columns = features[present].tolist()
            examples = statistics.examples(columns)
            yield _Query(
                [statistics.names[j] for j in columns],
                level_numbers[row[present]],
                examples._replace(codes=level_numbers[examples.codes]),
                statistics.alive[features[present]].astype(np.float64),
            )

    def _rule(self, query: _Query) -> list[int]:
        """Return the indices of the fixed features, in the order of their choice."""
        _, query_codes, examples, levels = query
        free_features, fixed = np.arange(len(query_codes)), list[int]()
        is_error = self._leave_one_out_errors(examples, levels)
        while len(free_features) > 1:
            best: tuple[float, int, Bools, Bools] | None = None
            for j in range(len(free_features)):
                is_same = examples.codes[:, j] == query_codes[free_features[j]]
                other_features = np.delete(np.arange(len(free_features)), j)
                is_wrong = self._leave_one_out_errors(
                    examples.select(is_same, other_features), levels[free_features[other_features]]
                )
                better = float(examples.weights[is_same][is_error[is_same] & ~is_wrong].sum())
                worse = float(examples.weights[is_same][~is_error[is_same] & is_wrong].sum())
                gain = better - worse
                if (best is None or gain > best[0]) and _sign_test(better, worse) < self.level:
                    best = gain, j, is_same, is_wrong
            if best is None:
                break
            _, j, is_same, is_error = best
            fixed.append(int(free_features[j]))
            other_features = np.delete(np.arange(len(free_features)), j)
            examples, free_features = (
                examples.select(is_same, other_features),
                free_features[other_features],
            )
        return fixed

    def _naive(
        self, query: _Query, fixed: list[int], ignored: Iterable[int] = ()
    ) -> tuple[Floats, Ints, Floats]:
        """Return scores of naive Bayes (K,), the indices of the free features, their logs (n, K).

        The examples are those with the query's values of the `fixed` features.
        """
        free_features = np.delete(np.arange(len(query.names)), [*fixed, *ignored])
        is_selected = (query.examples.codes[:, fixed] == query.codes[fixed]).all(axis=1)
        examples = query.examples.select(is_selected, free_features)
        query_codes, levels = query.codes[free_features], query.levels[free_features]
        classes = len(self.labels)
        class_weights = np.eye(classes)[examples.places] * examples.weights[:, None]
        is_same = (examples.codes == query_codes).astype(np.float64)
        is_present = (examples.codes != MISSING).astype(np.float64)
        logs = self._logs(is_same.T @ class_weights, is_present.T @ class_weights, levels[:, None])
        weights = class_weights.sum(axis=0)
        alive = self._has_examples()
        prior = self._logs(weights, weights.sum(), float(alive.sum()))
        return np.where(alive, prior + logs.sum(axis=0), -np.inf), free_features, logs

    def _leave_one_out_errors(self, examples: _Examples, levels: Floats) -> Bools:
        """Return whether naive Bayes, trained on all other examples, misclassifies each example."""
        classes = len(self.labels)
        own_weights = np.eye(classes)[examples.places] * examples.weights[:, None]
        weights = own_weights.sum(axis=0)
        others = weights.sum() - examples.weights[:, None]
        alive = self._has_examples()
        scores = self._logs(weights - own_weights, others, float(alive.sum()))
        scores = np.where(alive, scores, -np.inf)
        width = max(_BLOCK_CELLS // max(scores.size, 1), 1)
        for start in range(0, len(levels), width):
            block = slice(start, start + width)
            block_examples = examples._replace(codes=examples.codes[:, block])
            logs = self._leave_one_out_logs(block_examples, own_weights, levels[block])
            scores = np.add.reduce(np.concatenate([scores[None], logs]))
        is_wrong: Bools = scores.argmax(axis=1) != examples.places
        return is_wrong

    def _leave_one_out_logs(
        self, examples: _Examples, own_weights: Floats, levels: Floats
    ) -> Floats:
        """Return the logs of each feature, example and class without the example, (d, m, K).

        An example changes only the counts of its class. All examples share the other logs, so
        these are computed for each level.
        """
        codes, places, weights = np.ascontiguousarray(examples.codes.T), *examples[1:]
        is_present = codes != MISSING
        first_level = codes.min(initial=codes.max(initial=0), where=is_present)
        indices = np.where(is_present, codes - first_level + 1, 0)
        counts = np.zeros((indices.max(initial=0) + 1, own_weights.shape[1]))
        np.add.at(counts, (indices, places), weights)
        features = np.zeros(len(counts), dtype=np.int64)
        features[indices] = np.arange(len(levels))[:, None]
        totals = is_present @ own_weights
        level_logs = self._logs(counts, totals[features], levels[features, None])
        level_logs[0] = 0.0  # a missing value
        logs = level_logs[indices]
        own_logs = self._logs(
            counts[indices, places] - weights, totals[:, places] - weights, levels[:, None]
        )
        logs[:, np.arange(len(places)), places] = np.where(is_present, own_logs, 0.0)
        return logs

    def _has_examples(self) -> Bools:
        """Return whether each class has an example, shape (K,)."""
        return np.array([sums.weight > 0 for sums in self._weights], dtype=bool)

    def _logs(self, n: Any, whole: Any, levels: Any) -> Floats:
        # Without an example, a count can be negative by rounding.
        n, whole = np.maximum(n, 0.0), np.maximum(whole, 0.0)
        return log_probabilities(n, whole, self.alpha, np.asarray(levels))


def _sign_test(better: float, worse: float) -> float:
    """Return the probability of at least this many improvements among equally likely changes."""
    n, k = round(better + worse), round(better)
    if n == 0 or better <= worse:
        return 1.0
    if n > 1000:  # normal approximation with continuity correction
        return 0.5 * math.erfc((k - 0.5 - n / 2) / math.sqrt(n / 2))
    return float(sum(math.comb(n, i) for i in range(k, n + 1)) / 2**n)
