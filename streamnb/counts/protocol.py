"""The interface of tables of counts that models use."""

from __future__ import annotations

import math
import numbers
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from streamnb.features.token_counts import Feature, TokenCounts

Label = str | bool | int

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]  # fingerprints of features
Bools = NDArray[np.bool_]


class UnsupportedError(TypeError):
    """The counts do not support this operation."""


def checked_weight(w: Any) -> float:
    """Return an example's weight as a float; raise ValueError unless it is in [0, 1e100]."""
    try:
        weight = math.nan if isinstance(w, (str, bytes)) else float(w)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"the weight is not a number: {w!r:.80}") from None
    if not 0 <= weight <= 1e100:
        raise ValueError(f"the weight is {w!r:.80}: it must be finite, >= 0 and at most 1e100")
    return weight


def distinct_labels(labels: Iterable[Any]) -> dict[Any, None]:
    """Return labels without repetitions, numpy's scalars as Python objects, which JSON can contain.

    Raises
    ------
    TypeError
        If a label has no hash, such as a list, or is a scalar of Arrow, which equals no text.
    """
    labels = list(labels)
    try:
        distinct = dict.fromkeys(labels)
    except TypeError as error:
        raise label_error(error) from None
    for label in distinct:
        if hasattr(label, "as_py"):
            raise TypeError(f"a label is a {type(label).__name__}: pass label.as_py()")
    # Dates stay, because their Python objects have another hash.
    python_types = (np.bool_, np.integer, np.floating, np.str_)
    return {label.item() if isinstance(label, python_types) else label: None for label in distinct}


def label_error(error: TypeError) -> TypeError:
    """Return the error to raise for a label whose look-up raised `error`."""
    return TypeError(f"a label must be one text, number or truth value: {error}")


def check_labels(labels: Sequence[Any], of_rows: bool = False) -> None:
    """Raise ValueError for a missing label, TypeError for one without a hash, such as a list.

    With `of_rows`, the labels are those of examples, and the message names the row.
    """
    if any(map(is_missing, distinct_labels(labels))):
        row = next(i for i, label in enumerate(labels) if is_missing(label))
        prefix = f"row {row}: " if of_rows else ""
        raise ValueError(f"{prefix}a label must not be None or NaN")


def is_missing(value: Any) -> bool:
    """Return whether a value is missing: None, any NaN, pandas' NA and NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, numbers.Number | np.generic) and bool(value != value)


class Counts(Protocol):
    """Counts of features by class, in memory or in a database.

    `labels` are the K classes in the order in which they were first seen. `weights` has the weight
    of the learned messages of each class (D_c). `in_transaction` is true if the counts can be read
    only within a transaction of a database.

    Operations that few models need (`decay`, `evict`, `count_histogram`, `merge`) may raise
    `UnsupportedError`.
    """

    labels: list[Label]
    weights: list[float]
    in_transaction: ClassVar[bool]

    @property
    def totals(self) -> list[float]:
        """Sum of the counts of each class, N_c."""

    @property
    def features(self) -> int:
        """Number of features with a count, V."""

    @property
    def scale(self) -> float:
        """The weight of the newest message: the unit of counts and weights (see `decay`)."""

    @property
    def decay_halvings(self) -> int:
        """Number of times that all weights were divided by 2 (see `decay`)."""

    @property
    def evictions(self) -> int:
        """Number of times that `evict` removed features."""

    @property
    def version(self) -> int:
        """A number that changes with each message learned or unlearned."""

    def index(self, label: Label) -> int | None:
        """Return the column of a class, None for an unknown class."""

    def name(self, fingerprint: int) -> Feature | None:
        """Return the name of a feature, None if it is unknown."""

    def add_classes(self, labels: Iterable[Label]) -> None:
        """Add classes without messages."""

    def add(
        self, tokens: TokenCounts, label: Label, weight: float, class_weight: float | None = None
    ) -> None:
        """Learn a message, completely or not at all.

        Its counts are multiplied by `weight`. `class_weight` is added to the weight of the class;
        None stands for `weight`.
        """

    def subtract(
        self, tokens: TokenCounts, label: Label, weight: float, class_weight: float | None = None
    ) -> None:
        """Unlearn a message, or raise ValueError and change nothing."""

    def add_matrix(
        self, tokens: TokenCounts, sums: Floats, labels: Sequence[Label], weights: Sequence[float]
    ) -> None:
        """Learn messages by their sums: counts (n, K) of features, weight of each label."""

    def get_counts(self, fingerprints: Keys) -> tuple[Floats, NDArray[np.uint8]]:
        """Return the counts (n, K) of features, and a mask of the features with a count."""

    def log_likelihood_grid(
        self,
        tokens: TokenCounts,
        alpha: float,
        factors: list[float],
        unseen: bool,
        complement: bool = False,
        length_norm: float = 0.0,
        length_power: float = 0.0,
    ) -> tuple[array[float], int]:
        """Return log-likelihoods of a message, (factors, K), and the number of features used.

        The log-likelihood is the sum over features of x_i (log(n_ic + a) - log(N_c + A)). n_ic is
        the count of feature i in class c, and x_i its count in the message. a is alpha times the
        factor, and A is a times the number of features. With `complement`, n_ic and N_c are the
        counts of all other classes, and the sums are negated. Features that were never learned are
        included if `unseen` is true. The second result is the number n of features included. If
        neither `length_norm` nor n is 0, the sums are divided by `length_norm` times n to the power
        of `length_power`.
        """

    def items(self) -> tuple[Keys, Floats]:
        """Return all features (V,) and their counts (V, K)."""

    def parts(self) -> Iterator[tuple[Keys, Floats]]:
        """Yield the result of `items` in parts, in any order. Do not change counts meanwhile."""

    def decay(self, decay: float) -> None:
        """Multiply the weight of all learned messages by `decay`."""

    def evict(self, max_features: int) -> None:
        """Remove the rarest features if there are more than `max_features`."""

    def count_histogram(self) -> tuple[Floats, Floats]:
        """Return the distinct counts (m,), and the number of features with each by class (m, K)."""

    def merge(self, other: Counts) -> None:
        """Add other counts, with the same result as learning both streams."""

    def check_merge(self, other: Counts) -> None:
        """Raise ValueError if other counts cannot be added to these."""
