"""What models need of a table of counts, wherever it is kept."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from streamnb.features.token_counts import Feature, TokenCounts

Label = str | bool | int

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]  # fingerprints of features
Bools = NDArray[np.bool_]


class UnsupportedError(TypeError):
    """What these counts cannot do where they are kept."""


def checked_weight(w: Any) -> float:
    """Give an example's weight as a float, or raise ValueError: finite, >= 0 and at most 1e100."""
    try:
        weight = math.nan if isinstance(w, (str, bytes)) else float(w)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"the weight is not a number: {w!r:.80}") from None
    if not 0 <= weight <= 1e100:
        raise ValueError(f"the weight is {w!r:.80}: it must be finite, >= 0 and at most 1e100")
    return weight


def check_labels(labels: Iterable[Any]) -> None:
    """Raise ValueError, or TypeError where it has no hash, for what no class can be called."""
    if any(map(is_missing, dict.fromkeys(labels))):
        raise ValueError("a label must not be None or NaN")


def is_missing(value: Any) -> bool:
    """Whether this stands for a value that is not there: None, any NaN, and what pandas has."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, numbers.Number | np.generic) and bool(value != value)


class Counts(Protocol):
    """Where counts are kept: in memory, or in a database. Models do not know which.

    With K classes and V features: `labels` (K) in the order they came, `weights` the weight of the
    messages learned of each class (D_c), `totals` the sum of counts of each class (N_c), and
    `features` how many features have a count (V).

    A store that cannot do what few models ask for (`age`, `value_counts`, `merge`) says so by
    raising `UnsupportedError`.
    """

    labels: list[Label]
    weights: list[float]

    @property
    def totals(self) -> list[float]:
        """N_c."""

    @property
    def features(self) -> int:
        """V."""

    @property
    def scale(self) -> float:
        """What the newest message weighs; counts and weights are in this unit (see `age`)."""

    @property
    def decay_halvings(self) -> int:
        """How often 2 all weights have been divided by (see `decay`)."""

    @property
    def version(self) -> int:
        """A number that changes whenever anything is learned or unlearned."""

    def index(self, label: Label) -> int | None:
        """The column of a class, or None where it is not known."""

    def name(self, fingerprint: int) -> Feature | None:
        """The name of a feature, or None where it is not known."""

    def add_classes(self, labels: Iterable[Label]) -> None:
        """Make classes known that nothing has been learned of."""

    def add(
        self, tokens: TokenCounts, label: Label, weight: float, class_weight: float | None = None
    ) -> None:
        """Learn a message: all of it or nothing.

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
        """Learn many messages summed up: counts (n, K) of features, weight of each label."""

    def get_counts(self, fingerprints: Keys) -> tuple[Floats, NDArray[np.uint8]]:
        """Counts (n, K) of features, and which of them have any."""

    def log_likelihood_sums(
        self, tokens: TokenCounts, alpha: float, background: float, unseen: bool
    ) -> tuple[list[float], int]:
        """For each class the sum over features of x_i (log(n_ic + alpha_i) - log(N_c + A)).

        n_ic is what is counted of feature i, x_i how often the message has it, alpha_i is alpha
        (1 + background V f_i) with f_i the feature's share of all counts, and A the sum of that
        over the V features. Features that were never learned take part only where `unseen` says
        so; how many did comes with the sums.
        """

    def log_likelihood_grid(
        self, tokens: TokenCounts, alphas: list[float], background: float, unseen: bool
    ) -> tuple[list[list[float]], int]:
        """Return `log_likelihood_sums` for each of several alphas, in one look-up."""

    def items(self) -> tuple[Keys, Floats]:
        """Every feature (V,) and its counts (V, K): not for a single message."""

    def parts(self) -> Iterator[tuple[Keys, Floats]]:
        """As `everything`, a part after the other, in any order, while nothing changes."""

    def decay(self, decay: float) -> None:
        """Let everything learned so far weigh `decay` times as much as before."""

    def count_histogram(self) -> tuple[Floats, Floats]:
        """Counts that occur (m,), and how many features have each of them in each class (m, K)."""

    def merge(self, other: Counts) -> None:
        """Add what other counts know: the same as having learned both streams."""

    def check_merge(self, other: Counts) -> None:
        """Raise ValueError where other counts cannot be added to these."""
