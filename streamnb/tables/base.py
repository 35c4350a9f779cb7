"""Base class of the models of tables: classes, priors, learning and unlearning."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from streamnb._core.exact_sums import ExactSums
from streamnb.constraints import Prior
from streamnb.counts.protocol import (
    Floats,
    Ints,
    Label,
    check_labels,
    checked_weight,
    distinct_labels,
    label_error,
)
from streamnb.naive_bayes.explanation import Explanation
from streamnb.naive_bayes.matrices import are_names, as_weights, check_column_names, labels_of_rows
from streamnb.naive_bayes.mini_batches import MiniBatchMixin
from streamnb.naive_bayes.model_files import ReadArray, SaveLoadMixin
from streamnb.naive_bayes.priors import check_prior, log_prior
from streamnb.naive_bayes.receipt import Receipt, UnlearnMixin
from streamnb.parameters import parameters_from_json, parameters_to_json
from streamnb.pickled_states import pack_state, unpack_state
from streamnb.storage import label_from_json, label_to_json
from streamnb.tables.columns import Columns

SMALLEST_WEIGHT = 1e-100  # sums of larger weights are exact (lowest bit 2^-640)


def arrival_independent(names: Sequence[Hashable]) -> list[int]:
    """Return an order of features that does not depend on the order of learning."""
    return sorted(range(len(names)), key=lambda j: (type(names[j]).__name__, repr(names[j])))


class Statistics(Protocol):
    """Sufficient statistics of the examples of K classes, which can be added and subtracted.

    The statistics do not depend on the parameters of the formulas that use them.
    """

    def add_classes(self, classes: int) -> None:
        """Allocate a number of classes."""

    def read(self, table: Columns) -> Any:
        """Return rows as `learn` and the formulas take them; the statistics do not change.

        Raises
        ------
        ValueError
            If a value is not valid.
        """

    def check_kinds(self, rows: Any) -> None:
        """Raise ValueError or warn if a batch to learn has numbers where levels are expected."""

    def feature_names(self) -> Set[Hashable]:
        """Return the names of the features that were learned."""

    def number_names(self) -> Set[Hashable]:
        """Return the names of the features whose values must be numbers."""

    def learn(self, rows: Any, places: Ints, weights: Floats) -> None:
        """Add rows, with the index of the class of each."""

    def unlearn(self, rows: Any, place: int, weight: float, remaining_weight: float) -> None:
        """Subtract one row; its class then has the weight `remaining_weight`.

        Raises
        ------
        ValueError
            If it was never learned. The model is then unchanged.
        """

    def check_merge(self, other: Any) -> None:
        """Raise ValueError if the statistics cannot be merged."""

    def merge(self, other: Any, places: list[int]) -> None:
        """Add other statistics; their class k has the index places[k] in this object."""

    def state(self) -> tuple[Any, dict[str, NDArray[Any]]]:
        """Return the whole state: JSON values and arrays."""

    def restore(self, described: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `state` returned. Damaged data raises an exception of any type."""

    def __getstate__(self) -> dict[str, Any]:
        return dict(pack_state(vars(self)))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickle and copy its arrays: those of joblib and Ray can be read-only."""
        values = unpack_state(state).items()
        vars(self).update({k: np.array(v) if isinstance(v, np.ndarray) else v for k, v in values})


class TabularNB(UnlearnMixin, SaveLoadMixin, MiniBatchMixin):
    """A generative classifier of rows with named values.

    `statistics` has the sums over all examples. `_evidence` is a formula of the sums, and its
    parameters can change after training. Threads can share a model: a lock protects each call of a
    public method.
    """

    unpickled_attributes: ClassVar[tuple[str, ...]] = ("lock", "_cache")
    _cache: Any = None  # cached results of the formula for the current sums
    statistics: Any
    prior: Prior
    receipt: None = None  # models of tables unlearn without a receipt

    def __post_init__(self) -> None:
        self._reset()

    def _has_learned(self) -> bool:
        # parameters of the role "counts" are set in the constructor
        return "statistics" in vars(self)

    def _on_change(self, name: str) -> None:
        self._cache = None

    def _reset(self) -> None:
        """Reset the model to its state before training."""
        self._labels: list[Label] = []
        self._places: dict[Label, int] = {}
        self._weights: list[ExactSums] = []
        self._cache = None
        self.statistics = self._new_statistics()

    @property
    def labels(self) -> list[Label]:
        """The labels, in the order in which they were first learned."""
        return self._labels

    def _new_statistics(self) -> Statistics:
        raise NotImplementedError

    def _evidence(self, rows: Any) -> Floats:
        """Return the log-likelihood of rows for each class, shape (n, K), without the prior."""
        raise NotImplementedError

    def _gains(self, rows: Any) -> tuple[list[Hashable], Floats]:
        """Return the names and contributions (d, K) of the features of a row; NaN for none."""
        raise NotImplementedError

    @property
    def class_weights(self) -> dict[Label, float]:
        """The total weight of the learned examples of each class."""
        return {label: sums.weight for label, sums in zip(self.labels, self._weights, strict=True)}

    def _find_indices(
        self, features: Mapping[Hashable, int], label: Label, feature: Hashable
    ) -> tuple[int, int]:
        """Return the indices of a class and a feature; ValueError if one was never learned."""
        place, j = self._place(label), features.get(feature)
        if place is None or j is None:
            raise ValueError(
                f"the class {label!r:.80} or the feature {feature!r:.80} was never learned"
            )
        return place, j

    def as_tokens(self, x: Mapping[Any, Any] | Sequence[Any]) -> dict[Any, Any]:
        """Return a copy of an example that can be stored; the keys of a list are its indices.

        Raises
        ------
        ValueError
            If a value is not valid.
        """
        is_row = isinstance(x, list | tuple | np.ndarray)
        example = self.messages_of([x])[0] if is_row else dict(x)
        with self.lock:
            self._read_one(example)
        return example

    def check_classes(self, labels: Iterable[Label]) -> None:
        """Raise ValueError if the prior has no share for the class of a label."""
        check_prior(self.prior, labels)

    def messages_of(self, X: Any) -> list[dict[Any, Any]]:
        """Return the rows of a matrix or frame as examples."""
        table = Columns.from_data(X)
        return [dict(zip(table.names, row, strict=True)) for row in table.values.tolist()]

    def _read_one(self, x: Mapping[Any, Any]) -> Any:
        """Return an example as the statistics read it; an error does not number its only row."""
        try:
            return self.statistics.read(Columns.from_dict(x))
        except ValueError as error:
            raise ValueError(str(error).removeprefix("row 0, ")) from None

    def _place(self, label: Label) -> int | None:
        """Return the index of a class, None for an unknown class."""
        try:
            return self._places.get(label)
        except TypeError as error:
            raise label_error(error) from None

    def _declare(self, labels: Iterable[Label]) -> None:
        new = [label for label in distinct_labels(labels) if label not in self._places]
        check_labels(new)
        for label in new:
            self._places[label] = len(self.labels)
            self._labels.append(label)
            self._weights.append(ExactSums())
        self.statistics.add_classes(len(self.labels))

    def _learn(
        self, rows: Any, labels: list[Label], weights: Floats, classes: Iterable[Label]
    ) -> None:
        if weights[weights < SMALLEST_WEIGHT].any():
            row = int(np.argmax((weights > 0) & (weights < SMALLEST_WEIGHT)))
            raise ValueError(
                f"row {row}: the weight is neither 0 nor from {SMALLEST_WEIGHT:g} to 1e100"
            )
        coming = [*classes, *labels]
        self.check_classes(coming)
        self._declare(coming)
        places = np.array([self._places[label] for label in labels], dtype=np.int64)
        no_values = np.empty((len(labels), 0))
        self.statistics.learn(rows, places, weights)
        for place in set(places.tolist()):
            self._weights[place].add(no_values, places, place, weights)
        self._cache = None

    def learn_one(self, x: Mapping[Any, Any], y: Label, w: float = 1.0) -> None:
        """Learn an example.

        Parameters
        ----------
        x
            A dict of features and values. A value is missing if it is None or NaN, or if the dict
            has no such feature.
        y
            Its label: str, bool, int or any other hashable.
        w
            Its weight: 0, or from 1e-100 to 1e100.

        Raises
        ------
        ValueError
            If a value or the weight is not valid. The model is then unchanged.
        """
        with self.lock:
            rows = self._read_one(x)
            self._learn(rows, [y], np.array([checked_weight(w)]), ())

    def unlearn_one(
        self, x: Mapping[Any, Any], y: Label, w: float = 1.0, receipt: None = None
    ) -> None:
        """Undo `learn_one` with the same arguments.

        It restores sums of numbers exactly. It restores counts of levels exactly if weights are
        whole numbers with a sum below 2^53. If weights differ by a factor of 10^9 or more, counts
        of levels are rounded, and the error stays. A class without examples keeps its name, with
        probability 0.

        Raises
        ------
        ValueError
            If the sums show that the example was never learned. The model is then unchanged.
        """
        weight = checked_weight(w)
        with self.lock:
            rows = self._read_one(x)
            place = self._place(y)
            class_weight = -1.0 if place is None else self._weights[place].weight
            if place is None or class_weight < weight or 0 < weight < SMALLEST_WEIGHT:
                raise ValueError(
                    f"cannot unlearn: this example was never learned with the label {y!r:.80}"
                )
            self.statistics.unlearn(rows, place, weight, class_weight - weight)
            self._subtract_weight(place, weight)
            self._cache = None

    def _subtract_weight(self, place: int, weight: float) -> None:
        """Subtract weight from a class."""
        sums = np.zeros(1, dtype=np.int64)
        self._weights[place].add(np.empty((1, 0)), sums, 0, np.array([weight]), -1.0)

    def learn(
        self, x: Mapping[Any, Any], y: Label, w: float = 1.0, feedback: str | None = None
    ) -> Receipt:
        """Learn an example, and return the receipt for `unlearn`.

        `feedback` has no effect, because models of tables have no calibration.
        """
        self.learn_one(x, y, w)
        return self._default_receipt(w)

    def check_receipt(self, receipt: Receipt, classes: int) -> None:
        """Raise ValueError if a receipt comes from another kind of model."""
        receipt.check(0)
        if receipt.deltas:
            raise ValueError("the receipt comes from another kind of model")

    def unlearn_checked(self, x: Mapping[Any, Any], y: Label, receipt: Receipt) -> None:
        """Undo the changes of a receipt that `check_receipt` accepted, as `unlearn` does."""
        self.unlearn_one(x, y, receipt.class_weight)

    def reapply_checked(self, x: Mapping[Any, Any], y: Label, receipt: Receipt) -> None:
        """Make the changes of a receipt that `check_receipt` accepted, as `reapply` does."""
        self.learn_one(x, y, receipt.class_weight)

    takes_views = False
    _needs_receipt = False

    def _default_receipt(self, w: float) -> Receipt:
        return Receipt(0, checked_weight(w), ())

    def _learn_rows(self, X: Any, y: Any, w: Any, classes: Iterable[Label] = ()) -> None:
        table = Columns.from_data(X)
        labels = labels_of_rows(y, len(table.values))
        weights = as_weights(w, len(labels))
        classes = [*classes]
        check_labels(classes)
        self._check_columns(table, is_learning=True)
        rows = self.statistics.read(table)
        self.statistics.check_kinds(rows)
        self._learn(rows, labels, weights, classes)

    def _score(self, rows: Any) -> Floats:
        weights = [sums.weight for sums in self._weights]
        prior = np.array(log_prior(self.prior, self.labels, weights))
        return prior + self._evidence(rows)

    def _score_rows(self, X: Any) -> Floats:
        table = Columns.from_data(X)
        self._check_columns(table, is_learning=False)
        return self._score(self.statistics.read(table))

    def _check_columns(self, table: Columns, is_learning: bool) -> None:
        """Raise ValueError if columns have names and the learned ones numbers, or the reverse."""
        known_names = self.statistics.feature_names()
        if known_names and table.names:
            has_known = not known_names.isdisjoint(table.names)
            has_numbers = not are_names(known_names)
            is_named = are_names(table.names)
            is_numbered = table.names == list(range(len(table.names))) and not has_numbers
            check_column_names(self, is_named, is_numbered, has_known, has_numbers, is_learning)
            new = next((name for name in table.names if name not in known_names), None)
            missing = min(known_names - set(table.names), key=repr, default=None)
            if has_known and not is_learning and None not in (new, missing):
                warnings.warn(
                    "The feature names should match those that were passed during fit: the column "
                    f"{new!r:.80} was never learned, and {missing!r:.80} is missing; a renamed "
                    "column counts as missing",
                    UserWarning,
                    stacklevel=2,
                )

    def _scores(self, x: Any) -> list[float]:
        return self._score(self._read_one(x))[0].tolist()

    def explain_one(self, x: Mapping[Any, Any]) -> Explanation:
        """Return the contribution of each feature of an example to the score of each class.

        A contribution is the score minus the score without this feature. In naive Bayes, it is the
        log-likelihood of the feature's value, and `base` is the log prior. In other models, `base`
        is the prior and the evidence of several features together. `AODE` keeps the parents of the
        whole example, and `LazyBayesianRules` its rule. So an explanation takes the time of a few
        predictions, for any number of features.

        If a score of naive Bayes or `AODE` is -inf, its contributions are the scores with only one
        feature, minus the score without features. Features without a contribution are left out,
        such as those that were never learned.

        Examples
        --------
        >>> from streamnb import CategoricalNB
        >>> model = CategoricalNB()
        >>> model.learn_one({"sky": "sunny", "wind": "weak"}, "walk")
        >>> model.learn_one({"sky": "rainy", "wind": "weak"}, "read")
        >>> explanation = model.explain_one({"sky": "sunny", "wind": "weak"})
        >>> [(name, round(gain, 3)) for name, gain in explanation.top_features("walk")]
        [('sky', 0.693)]
        """
        return self.explain_views(x)[0]

    def explain_views(self, x: Mapping[Any, Any]) -> list[Explanation]:
        """Return a list with the result of `explain_one`: these models have a single view."""
        with self.lock:
            labels = list(self.labels)
            rows = self._read_one(x)
            whole = self._score(rows)[0]
            empty = self._score(self._read_one({}))[0]
            with np.errstate(invalid="ignore", over="ignore"):  # -inf - -inf
                names, gains = self._gains(rows) if labels else ([], np.zeros((0, 0)))
                gains = np.where(np.isneginf(empty), 0.0, np.nan_to_num(gains, neginf=-np.inf))
                base = np.where(np.isneginf(whole), empty, whole - gains.sum(axis=0))
        contributions_by_name = dict(zip(names, gains.tolist(), strict=True))
        contributions: dict[Any, dict[Label, float]] = {
            name: dict(zip(labels, contributions_by_name[name], strict=True))
            for name in x
            if any(contributions_by_name.get(name, ()))
        }
        scores_of_labels = dict(zip(labels, whole.tolist(), strict=True))
        return [
            Explanation(
                scores_of_labels, dict(zip(labels, base.tolist(), strict=True)), contributions
            )
        ]

    def _merge(self, other: TabularNB) -> None:
        self._declare(other.labels)
        places = [self._places[label] for label in other.labels]
        for place, other_weight in zip(places, other._weights, strict=True):
            self._weights[place].merge(other_weight)
        self.statistics.merge(other.statistics, places)
        self._cache = None

    def check_merge(self, other: Any) -> None:
        """Raise ValueError if the other model cannot be merged into this one."""
        super().check_merge(other)
        self.statistics.check_merge(other.statistics)

    def _to_file(self) -> tuple[dict[str, Any], dict[str, Any]]:
        described, arrays = self.statistics.state()
        lows = []
        for k, sums in enumerate(self._weights):
            low, arrays[f"weight{k}"] = sums.arrays()
            lows.append(low)
        return {
            "parameters": parameters_to_json(self),
            "labels": [label_to_json(label) for label in self.labels],
            "lows": lows,
            "statistics": described,
            "arrays": {name: [array.dtype.str, array.ndim] for name, array in arrays.items()},
        }, arrays

    @classmethod
    def _from_file(cls, header: Any, array: ReadArray) -> Self:
        model = cls(**parameters_from_json(header["parameters"], cls))
        labels = [label_from_json(pair) for pair in header["labels"]]
        if len(set(labels)) != len(labels):
            raise ValueError("a label occurs twice")
        arrays = {}
        for name, (dtype, ndim) in header["arrays"].items():
            if dtype not in ("<i8", "<u8", "<f8"):
                raise ValueError(f"{name} is not valid")
            arrays[name] = np.array(array(name, dtype, ndim))
        model._declare(labels)
        for k, (sums, low) in enumerate(zip(model._weights, header["lows"], strict=True)):
            sums.load(0, low, arrays[f"weight{k}"])
            if sums.weight < 0:
                raise ValueError("a class has a weight below zero")
        model.statistics.restore(header["statistics"], arrays)
        return model
