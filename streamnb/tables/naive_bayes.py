"""Naive Bayes over rows with numeric features, categorical features, or both."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Set
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamnb._core.exact_sums import gaussian_rows, normal_parameters
from streamnb.constraints import NameList
from streamnb.counts.protocol import Floats, Ints, Label
from streamnb.parameters import parameter, parameter_class
from streamnb.tables.base import Statistics, TabularNB
from streamnb.tables.columns import Columns, is_number
from streamnb.tables.level_counts import (
    MANY_NUMBERS,
    MISSING,
    SAMPLED_LEVELS,
    LevelCounts,
    Levels,
    are_measured,
    number_of_text,
)
from streamnb.tables.numeric_sums import Numeric, NumericSums
from streamnb.tables.parameters import LevelParameters, NormalParameters, PriorParameter


class Normal(NamedTuple):
    """Weight, mean and variance of one feature in one class."""

    weight: float
    mean: float
    variance: float


@parameter_class()
class GaussianNB(NormalParameters, PriorParameter, TabularNB):
    r"""Naive Bayes over numeric features, normally distributed in each class.

        log P(c) + sum over j of -log(2 pi v_cj) / 2 - (x_j - m_cj)^2 / (2 v_cj)

    The model stores the sums of weights, values and squares for each class and feature, without
    rounding. So means and variances are accurate far from zero, and unlearning is exact. Two
    merged models equal one that learned both streams.

    An example of weight w counts as w examples, in variances, too.

    All parameters can be set after training. Missing values (not in the dict, None or NaN) are
    left out, in training and in prediction.

    References
    ----------
    John, G. H. and Langley, P. (1995). Estimating continuous distributions in Bayesian classifiers.
    UAI.

    Examples
    --------
    Who is 6 feet tall, weighs 130 pounds and has shoe size 8? (Eight people, with unbiased
    variances; the example of the Brilliant wiki, which has 6.120e-9 and 5.378e-4.)

    >>> from math import exp
    >>> from streamnb import GaussianNB
    >>> model = GaussianNB(ddof=1, var_smoothing=0)
    >>> male = [(6.0, 180, 12), (5.92, 190, 11), (5.58, 170, 12), (5.92, 165, 10)]
    >>> female = [(5.0, 100, 6), (5.5, 150, 8), (5.42, 130, 7), (5.75, 150, 9)]
    >>> for y, people in [("male", male), ("female", female)]:
    ...     for height, weight, shoe in people:
    ...         model.learn_one({"height": height, "weight": weight, "shoe": shoe}, y)
    >>> moments = model.feature_moments("male", "height")
    >>> moments.weight, moments.mean, round(moments.variance, 4)
    (4.0, 5.855, 0.035)
    >>> jll = model.joint_log_likelihood({"height": 6, "weight": 130, "shoe": 8})
    >>> f"{exp(jll['male']):.4g} {exp(jll['female']):.4g}"
    '6.197e-09 0.0005378'
    """

    def _new_statistics(self) -> NumericSums:
        return NumericSums()

    def _evidence(self, rows: Numeric) -> Floats:
        if self._cache is None:
            sums = self.statistics.sums
            self._cache = normal_parameters(sums, self.ddof, self.var_smoothing, self.epsilon)
        return gaussian_rows(self.statistics.aligned(rows), *self._cache)

    def _gains(self, rows: Numeric) -> tuple[list[Hashable], Floats]:
        return rows.names, self.statistics.logs(rows, *self._cache)

    def feature_moments(self, label: Label, feature: Hashable) -> Normal:
        """Return weight, mean and variance (before smoothing) of a feature in a class.

        Raises
        ------
        ValueError
            If the class or the feature was never learned.
        """
        place, j = self._find_indices(self.statistics.features, label, feature)
        weight, mean, squares = self.statistics.sums[place].moments()[:, j].tolist()
        variance = squares / (weight - self.ddof) if weight > self.ddof else 0.0
        return Normal(weight, mean, max(variance, 0.0))


@parameter_class()
class CategoricalNB(PriorParameter, LevelParameters, TabularNB):
    r"""Naive Bayes over features that have one of several levels.

    The score of class c is

        log P(c) + sum over j of log((n_cv + alpha) / (n_c + alpha L_j))

    n_cv is the weight of the examples of class c with level v of feature j. n_c is the weight of
    the examples of class c with any level of feature j. L_j is the number of levels of feature j.

    Levels are any hashable values, and new levels can appear at any time. All parameters can be set
    after training. Missing values (not in the dict, None or NaN) are left out, in training and in
    prediction.

    References
    ----------
    Mitchell, T. (1997). Machine Learning, section 6.9: the weather and the tennis player.

    Examples
    --------
    >>> from streamnb import CategoricalNB
    >>> model = CategoricalNB(alpha=0)
    >>> for outlook, play in zip("oooorrrrrsssss", "yyyyyynynnnnyy"):
    ...     model.learn_one({"outlook": outlook}, play)
    >>> round(model.predict_proba_one({"outlook": "s"})["y"], 6)
    0.4
    >>> model.alpha = 1
    >>> {level: round(p, 4) for level, p in model.likelihoods("y", "outlook").items()}
    {'o': 0.4167, 'r': 0.3333, 's': 0.25}
    """

    def _new_statistics(self) -> LevelCounts:
        return LevelCounts()

    def _evidence(self, rows: Levels) -> Floats:
        return self.statistics.log_likelihoods(rows, self.alpha, self.unseen == "smooth")

    def _gains(self, rows: Levels) -> tuple[list[Hashable], Floats]:
        logs, valid = self.statistics.logs(rows, self.alpha, self.unseen == "smooth")
        return rows.names, np.where(valid[0, :, None], logs[0], 0.0)

    def likelihoods(self, label: Label, feature: Hashable) -> dict[Hashable, float]:
        """Return the smoothed P(level | class) of every level of a feature.

        Raises
        ------
        ValueError
            If the class or the feature was never learned.
        """
        place, j = self._find_indices(self.statistics.features, label, feature)
        levels = list(self.statistics.level_ids[j])
        rows = Levels.of_feature(feature, levels)
        logs, valid = self.statistics.logs(rows, self.alpha, False)
        probabilities = np.exp(logs[:, 0, place])
        return {
            level: float(probability)
            for level, probability, is_valid in zip(levels, probabilities, valid[:, 0], strict=True)
            if is_valid
        }


class _MixedRows(NamedTuple):
    numeric: Numeric
    levels: Levels


def _is_number_text(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_number_of_text(level: Hashable) -> bool:
    """Return whether a level is a text that stands for a finite number."""
    return isinstance(level, str) and not isinstance(number_of_text(level), bool | None)


def _find_number_text(levels: list[Hashable]) -> str | None:
    """Return a level that is a number as text, or NaN as text if all levels are such texts."""
    texts = [x for x in levels if isinstance(x, str) and _is_number_text(x)]
    numbers = [text for text in texts if number_of_text(text) is not None]
    if numbers:
        return numbers[0]
    return texts[0] if texts and len(texts) == len(levels) else None


def _mixed_kinds(name: Hashable) -> ValueError:
    return ValueError(
        f"{name!r:.80}: its numbers were learned as numbers, and numbers in a column of categories "
        f"are levels; convert the column to float, or list {name!r:.40} in categorical"
    )


class MixedStatistics(Statistics):
    """Sums of numeric features, counts of categorical ones.

    Parameters
    ----------
    numeric, categorical
        Features of a fixed kind. The kind of other values depends on their type.
    """

    def __init__(self, numeric: Collection[Hashable], categorical: Collection[Hashable]) -> None:
        self.is_settled: dict[Hashable, bool] = {
            **dict.fromkeys(numeric, True),
            **dict.fromkeys(categorical, False),
        }
        self.numbers: NumericSums = NumericSums()
        self.levels: LevelCounts = LevelCounts()

    def add_classes(self, classes: int) -> None:
        """Allocate a number of classes."""
        self.numbers.add_classes(classes)
        self.levels.add_classes(classes)

    def read(self, table: Columns) -> _MixedRows:
        """Return numeric and categorical columns; a column with both types of values is in both."""
        values = table.values.astype(object)
        is_numeric = np.empty(values.shape, dtype=bool)
        for j, name in enumerate(table.names):
            if (kind := self.is_settled.get(name)) is None:
                is_numeric[:, j] = list(map(is_number, values[:, j].tolist()))
                if not is_numeric[:, j].any():
                    continue
                if name in table.level_names and self._has_numbers(name):
                    raise _mixed_kinds(name)
                # Columns of categories also set the kind of later numbers.
                if name in table.level_names or self._has_number_levels(name):
                    is_numeric[:, j] = False
            else:
                is_numeric[:, j] = kind
        numbers = values.copy()
        numbers[~is_numeric], values[is_numeric] = None, None
        numeric = np.flatnonzero(is_numeric.any(axis=0)).tolist()
        categorical = np.flatnonzero(~is_numeric.all(axis=0)).tolist()
        names = table.names
        rows = _MixedRows(
            self.numbers.read(Columns([names[j] for j in numeric], numbers[:, numeric])),
            self.levels.read(Columns([names[j] for j in categorical], values[:, categorical])),
        )
        self._check_types(rows)
        return rows

    def feature_names(self) -> Set[Hashable]:
        """Return the names of the features that were learned."""
        return self.numbers.features.keys() | self.levels.features.keys()

    def number_names(self) -> Set[Hashable]:
        """Return the names of the features that have numbers and no level."""
        return {name for name in self.numbers.features if not self.levels.has_levels(name)}

    def learn(self, rows: _MixedRows, places: Ints, weights: Floats) -> None:
        """Add rows, with the index of the class of each."""
        self.numbers.learn(rows.numeric, places, weights)
        if rows.levels.names:
            self.levels.learn(rows.levels, places, weights)

    def _check_types(self, rows: _MixedRows) -> None:
        """Raise ValueError if one feature has a number as text and as a number."""
        numeric_names = set(rows.numeric.names)
        for j, name in enumerate(rows.levels.names):
            if self.levels.has_levels(name):
                continue
            text = _find_number_text(rows.levels.levels[j])
            if text is not None and (name in numeric_names or self._has_numbers(name)):
                level_index = rows.levels.levels[j].index(text)
                row = int(np.argmax(rows.levels.places[:, j] == level_index))
                raise ValueError(
                    f"row {row}, {name!r:.80}: {text!r:.80} is not a number, but a text; all other "
                    "values of this feature are numbers"
                )
        for j, name in enumerate(rows.numeric.names):
            if not self.levels.has_levels(name):
                continue
            for row, number in enumerate(rows.numeric.values[:, j].tolist()):
                twin = None if math.isnan(number) else self.levels.find_twin(name, number)
                if twin is not None and not self._has_numbers(name):
                    raise ValueError(
                        f"row {row}, {name!r:.80}: {number:g} is a number, but the level "
                        f"{twin!r:.80} is text: use one type for both"
                    )

    def check_kinds(self, rows: _MixedRows) -> None:
        """Raise ValueError if most values of a categorical feature are texts of many numbers.

        In a column of a frame, a single text such as "unknown" turns all numbers into texts. Dates
        get a warning, as in other models of levels.
        """
        columns = zip(rows.levels.names, rows.levels.levels, strict=True)
        unsettled: list[int] = []
        for j, (name, levels) in enumerate(columns):
            if name in self.is_settled or self.levels.has_levels(name):
                continue
            unsettled.append(j)
            sample = levels[:SAMPLED_LEVELS]
            if 2 * sum(map(_is_number_of_text, sample)) <= len(sample):
                continue
            is_number = np.array([_is_number_of_text(level) for level in levels], dtype=bool)
            places = rows.levels.places[:, j]
            row_levels = places[places != MISSING]
            number_count = int(is_number[row_levels].sum())
            if is_number.sum() <= MANY_NUMBERS or 2 * number_count <= len(row_levels):
                continue
            advice = f"or list {name!r:.40} in categorical"
            if not is_number.all():
                odd_level = int(np.argmin(is_number))
                raise ValueError(
                    f"row {int(np.argmax(places == odd_level))}, {name!r:.80}: "
                    f"{levels[odd_level]!r:.80} is not a number, but {number_count:,} of "
                    f"{len(row_levels):,} values of the column are; correct the value (NaN if it "
                    f"is missing) and convert the column to float, {advice}"
                )
            if are_measured(levels):
                raise ValueError(
                    f"{name!r:.80}: the values are numbers as text, such as {levels[0]!r:.40}; "
                    f"convert them to float, {advice}"
                )

        chosen_levels = [rows.levels.levels[j] for j in unsettled]
        names = [rows.levels.names[j] for j in unsettled]
        self.levels.check_kinds(Levels(names, chosen_levels, rows.levels.places[:, unsettled]))

    def _has_number_levels(self, name: Hashable) -> bool:
        """Return whether a feature without a kind has learned numbers as levels."""
        levels = self.levels.learned_levels(name)
        is_open = name not in self.is_settled and self.levels.has_levels(name)
        return is_open and any(map(is_number, levels))

    def _has_numbers(self, name: Hashable) -> bool:
        """Return whether a number of a feature has a weight."""
        place = self.numbers.features.get(name)
        return place is not None and any(sums.moments()[0, place] for sums in self.numbers.sums)

    def unlearn(self, rows: _MixedRows, place: int, weight: float, remaining_weight: float) -> None:
        """Subtract a row."""
        self.levels.check_unlearn(rows.levels, place, weight, remaining_weight)
        self.numbers.unlearn(rows.numeric, place, weight, remaining_weight)
        self.levels.take(rows.levels, place, weight)

    def check_merge(self, other: MixedStatistics) -> None:
        """Raise ValueError if the other statistics have other kinds of features."""
        if self.is_settled != other.is_settled:
            raise ValueError("cannot merge: the models differ in numeric or categorical features")
        for levels, numbers in ((self, other), (other, self)):
            for name in levels.levels.features:
                if levels._has_number_levels(name) and numbers._has_numbers(name):
                    raise _mixed_kinds(name)
        self.levels.check_merge(other.levels)

    def merge(self, other: MixedStatistics, places: list[int]) -> None:
        """Add other statistics."""
        self.numbers.merge(other.numbers, places)
        self.levels.merge(other.levels, places)

    def state(self) -> tuple[Any, dict[str, NDArray[Any]]]:
        """Return the state of both parts."""
        (numbers, sums), (levels, counts) = self.numbers.state(), self.levels.state()
        return {"numbers": numbers, "levels": levels}, {**sums, **counts}

    def restore(self, described: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `state` returned."""
        self.numbers.restore(described["numbers"], arrays)
        self.levels.restore(described["levels"], arrays)


@parameter_class(kw_only=True)
class MixedParameters(PriorParameter, NormalParameters, LevelParameters):
    """Parameters of `MixedNB`.

    Parameters
    ----------
    numeric
        Names of the numeric features. If a feature is in neither list, its numbers are numeric, and
        its other values (text, truth values and so on) are levels. In a frame, all values of a
        column of categories are levels.
    categorical
        Names of the features whose values are levels.
    """

    numeric: Collection[Hashable] | None = parameter(
        NameList(object, none=True), "counts", default=None
    )
    categorical: Collection[Hashable] | None = parameter(
        NameList(object, none=True), "counts", default=None
    )


@parameter_class(kw_only=True)
class MixedNB(MixedParameters, TabularNB):
    r"""Naive Bayes over numeric features, normally distributed, and categorical ones.

    All parameters except the names can be set after training. Missing values (not in the dict, None
    or NaN) are left out, in training and in prediction. If all learned values of a feature are
    numbers, a number as text ("5.5") in a prediction is an error. True and False are levels, and 1
    and 0 are numbers: use one type of a feature in training and prediction. If most values of a
    feature in `fit` are texts of more than 20 numbers, `fit` raises ValueError.

    References
    ----------
    Witten, I. H. and Frank, E. (2005). Data Mining, section 4.2: the weather with numbers.

    Examples
    --------
    >>> from streamnb import MixedNB
    >>> model = MixedNB()
    >>> model.learn_one({"outlook": "sunny", "temperature": 85}, "no")
    >>> model.learn_one({"outlook": "sunny", "temperature": 80}, "no")
    >>> model.learn_one({"outlook": "overcast", "temperature": 64}, "yes")
    >>> model.learn_one({"outlook": "rainy", "temperature": 70}, "yes")
    >>> model.predict_one({"outlook": "sunny", "temperature": 82})
    'no'
    """

    def __post_init__(self) -> None:
        duplicates = set(self.numeric or ()) & set(self.categorical or ())
        if duplicates:
            raise ValueError(f"{duplicates.pop()!r:.80} is listed as numeric and as categorical")
        super().__post_init__()

    def _new_statistics(self) -> MixedStatistics:
        return MixedStatistics(self.numeric or (), self.categorical or ())

    def _evidence(self, rows: _MixedRows) -> Floats:
        numbers, levels = self.statistics.numbers, self.statistics.levels
        if self._cache is None:
            sums = numbers.sums
            self._cache = normal_parameters(sums, self.ddof, self.var_smoothing, self.epsilon)
        numeric = gaussian_rows(numbers.aligned(rows.numeric), *self._cache)
        if not rows.levels.names:
            return numeric
        return numeric + levels.log_likelihoods(rows.levels, self.alpha, self.unseen == "smooth")

    def _gains(self, rows: _MixedRows) -> tuple[list[Hashable], Floats]:
        numbers, levels = self.statistics.numbers, self.statistics.levels
        logs, valid = levels.logs(rows.levels, self.alpha, self.unseen == "smooth")
        gains = (numbers.logs(rows.numeric, *self._cache), np.where(valid[0, :, None], logs[0], 0))
        return [*rows.numeric.names, *rows.levels.names], np.concatenate(gains)
