"""Counts in memory of whole tables or parts, with exact addition, subtraction and merging."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb._core import SparseRows
from streamnb.counts.protocol import (
    Counts,
    Floats,
    Keys,
    Label,
    UnsupportedError,
    check_labels,
    distinct_labels,
    label_error,
)
from streamnb.features.token_counts import Feature, TokenCounts
from streamnb.pickled_states import pack_state, unpack_state
from streamnb.storage import label_from_json, label_to_json

NO_NAME = b"\xff"  # name of a feature without a name in the table

_RESCALE = float(1 << 32)
_FORGOTTEN = 2.0**-20
_PART = 1 << 20  # numbers in an item of `parts`
# Fraction of `max_features` that remains after an eviction. The next eviction comes only after a
# quarter of `max_features` new features, so its cost per feature is small.
_KEPT_SHARE = 0.75
_FEW = 4  # maximum number of classes for which files store zeros, as rows in memory do


def column_of(fingerprints: Keys, cells: Floats, k: int) -> TokenCounts:
    """Return column k of cells (V, K), the counts of a class, as those of one long message."""
    is_present = cells[:, k] > 0
    counts = np.ascontiguousarray(cells[is_present, k])
    return TokenCounts.unchecked(fingerprints[is_present], counts, None, None)


class MemoryCounts:
    """Counts in memory.

    Parameters
    ----------
    keep_names
        Whether to store the names of features, for explanations.
    track_values
        Whether to support `count_histogram`.

    Examples
    --------
    >>> from streamnb.counts.memory import MemoryCounts
    >>> from streamnb.features.token_counts import TokenCounts
    >>> counts = MemoryCounts()
    >>> counts.add(TokenCounts.from_dict({"free": 2, "now": 1}), "spam", 1.0)
    >>> counts.add(TokenCounts.from_dict({"now": 1}), "ham", 1.0)
    >>> counts.labels, counts.totals, counts.features
    (['spam', 'ham'], [3.0, 1.0], 2)
    """

    in_transaction: ClassVar[bool] = False

    def __init__(self, keep_names: bool = True, track_values: bool = False) -> None:
        self.labels: list[Label] = []
        self.weights: list[float] = []
        self.scale: float = 1.0
        self.decay_halvings: int = 0
        self.version: int = 0
        self.evictions: int = 0
        self._index: dict[Label, int] = {}
        self.table: _core.CountTable = _core.CountTable(0, keep_names, track_values)

    def __getstate__(self) -> dict[str, Any]:
        return dict(pack_state(vars(self)))

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(unpack_state(state))

    @property
    def totals(self) -> list[float]:
        """Sum of the counts of each class."""
        return self.table.totals

    @property
    def features(self) -> int:
        """Number of features that have a count."""
        return len(self.table)

    def index(self, label: Label) -> int | None:
        """Return the column of a class, None for an unknown class."""
        try:
            return self._index.get(label)
        except TypeError as error:
            raise label_error(error) from None

    def add_classes(self, labels: Iterable[Label]) -> None:
        """Add classes without messages."""
        new = [label for label in distinct_labels(labels) if label not in self._index]
        check_labels(new)
        self.table.widen(len(self.labels) + len(new))
        self.version += 1
        for label in new:
            self._index[label] = len(self.labels)
            self.labels.append(label)
            self.weights.append(0.0)

    def reserve(self, features: int) -> None:
        """Allocate room for this number of features."""
        self.table.reserve(features)

    def name(self, fingerprint: int) -> Feature | None:
        """Return the name of a feature, None if it is unknown."""
        return self.table.name(fingerprint)

    def items(self) -> tuple[Keys, Floats]:
        """Return all features (V,) and their counts (V, K)."""
        fingerprints, cells, _, _ = self.table.arrays()
        return fingerprints, cells

    def parts(self) -> Iterator[tuple[Keys, Floats]]:
        """Yield the result of `items` in parts, in any order. Do not change counts meanwhile."""
        step = _PART // (len(self.labels) + 1) + 1
        for start in range(0, len(self.table), step):
            yield self.table.part(start, start + step)

    def add(
        self, tokens: TokenCounts, label: Label, weight: float, class_weight: float | None = None
    ) -> None:
        """Learn a message, completely or not at all.

        Its counts are multiplied by `weight`. `class_weight` is added to the weight of the class;
        None stands for `weight`.
        """
        try:  # not `index`: a call for each message
            k = self._index.get(label)
        except TypeError as error:
            raise label_error(error) from None
        if k is None:
            self.add_classes((label,))
            k = self._index[label]
        if weight:
            self.table.add(tokens.fingerprints, tokens.counts, k, weight, tokens.names, tokens.ends)
        self.weights[k] += weight if class_weight is None else class_weight
        self.version += 1

    def add_matrix(
        self, tokens: TokenCounts, sums: Floats, labels: Sequence[Label], weights: Sequence[float]
    ) -> None:
        """Learn messages by their sums, shape (n, K) with a column for each of `labels`."""
        self.add_classes(labels)
        columns = [self._index[label] for label in labels]
        self.table.add_matrix(
            tokens.fingerprints, sums, np.array(columns, dtype=np.int64), tokens.names, tokens.ends
        )
        for k, weight in zip(columns, weights, strict=True):
            self.weights[k] += weight
        self.version += 1

    def subtract(
        self, tokens: TokenCounts, label: Label, weight: float, class_weight: float | None = None
    ) -> None:
        """Unlearn a message, or raise ValueError and change nothing."""
        class_weight = weight if class_weight is None else class_weight
        k = self.index(label)
        if k is None:
            raise ValueError(f"cannot unlearn: nothing was ever learned of class {label!r:.80}")
        class_weight_after = _core.subtract_exactly(self.weights[k], class_weight)
        if class_weight_after < 0:
            raise ValueError(
                f"cannot unlearn weight {class_weight:g} of class {label!r:.80}: it is more than "
                f"the learned weight {self.weights[k]:g}"
            )
        if weight:
            try:
                self.table.subtract(tokens.fingerprints, tokens.counts, k, weight)
            except ValueError as error:
                raise ValueError(tokens.with_names(str(error))) from None
        self.weights[k] = class_weight_after
        self.version += 1

    def decay(self, decay: float) -> None:
        """Multiply all counts by `decay`.

        The stored counts do not change. Instead, later messages get a larger weight. Once that
        weight exceeds 2^32, all counts are divided by it, and counts below 1e-6 are dropped.
        """
        self.scale /= decay
        self.version += 1
        if self.scale > _RESCALE:
            self.scale /= _RESCALE
            self.decay_halvings += 32
            self.table.rescale(1 / _RESCALE, _FORGOTTEN * self.scale)
            self.weights = [weight / _RESCALE for weight in self.weights]

    def evict(self, max_features: int) -> None:
        """Remove the rarest features if there are more than `max_features`.

        Three quarters of that number remain, so a new feature takes constant time on average.
        Features with the same total count are removed in a pseudo-random order. The order differs
        between evictions, and is the same for equal counts.

        Examples
        --------
        >>> from streamnb.counts.memory import MemoryCounts
        >>> from streamnb.features.token_counts import TokenCounts
        >>> counts = MemoryCounts()
        >>> counts.add(TokenCounts.from_dict({"free": 2, "now": 3, "moon": 1}), "spam", 1.0)
        >>> counts.evict(2)
        >>> counts.features, counts.totals
        (1, [3.0])
        """
        if len(self.table) <= max_features:
            return
        fingerprints, totals = self.table.feature_totals()
        n_evicted = len(totals) - max(1, int(_KEPT_SHARE * max_features))
        limit = np.partition(totals, n_evicted - 1)[n_evicted - 1]
        rarest = fingerprints[totals < limit]
        ties = fingerprints[totals == limit]
        key = self.evictions.to_bytes(_core.KEY_BYTES, "little")
        order = np.argsort(_core.fingerprint_columns(ties.view(np.int64), key))
        self.table.remove(np.concatenate([rarest, ties[order[: n_evicted - len(rarest)]]]))
        self.evictions += 1
        self.version += 1

    def get_counts(self, fingerprints: Keys) -> tuple[Floats, NDArray[np.uint8]]:
        """Return the counts (n, K) of features, and a mask of the features with a count."""
        return self.table.get_counts(fingerprints)

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
        """Return log-likelihoods as `Counts.log_likelihood_grid` defines them."""
        return self.table.log_likelihood_grid(
            tokens.fingerprints,
            tokens.counts,
            alpha,
            factors,
            unseen,
            complement,
            length_norm,
            length_power,
        )

    def count_histogram(self) -> tuple[Floats, Floats]:
        """Return the distinct counts (m,), and the number of features with each by class (m, K)."""
        return self.table.count_histogram()

    def merge(self, other: Counts) -> None:
        """Add other counts, with the same result as learning both streams."""
        self.check_merge(other)
        self.evictions += other.evictions
        if not isinstance(other, MemoryCounts):
            fingerprints, cells = other.items()
            tokens = TokenCounts.unchecked(fingerprints, np.ones(len(fingerprints)), None, None)
            self.add_matrix(tokens, cells, other.labels, other.weights)
            return
        self.add_classes(other.labels)
        columns = [self._index[label] for label in other.labels]
        self.table.merge(other.table, np.array(columns, dtype=np.int64))
        for k, weight in zip(columns, list(other.weights), strict=True):
            self.weights[k] += weight
        self.version += 1

    def check_merge(self, other: Counts) -> None:
        """Raise ValueError if other counts cannot be added to these."""
        if self.scale != other.scale or self.decay_halvings != other.decay_halvings:
            raise ValueError(
                "cannot merge: the counts have different decay; merge models with the same decay"
            )

    def file_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state as JSON values and arrays in the order of fingerprints.

        With at most 4 classes, the counts are a matrix (V, K); with more classes, a sparse matrix.
        """
        arrays: dict[str, NDArray[Any]] = {}
        if len(self.labels) <= _FEW:
            arrays["fingerprints"], arrays["counts"], names, ends = self.table.arrays()
        else:
            fingerprints, of_rows, classes, counts, names, ends = self.table.entries()
            arrays = {"fingerprints": fingerprints, "counts": counts}
            arrays |= {"count_ends": of_rows, "count_classes": classes}
        if names is not None and ends is not None:
            arrays["names"] = np.frombuffer(names, dtype=np.uint8)
            arrays["name_ends"] = ends
        return {
            "labels": [label_to_json(label) for label in self.labels],
            "weights": list(self.weights),
            "totals": self.totals,
            "scale": self.scale,
            "decay_halvings": self.decay_halvings,
            "evictions": self.evictions,
        }, arrays

    def load(self, header: Any, array: Callable[..., Any]) -> None:
        """Restore from the result of `file_parts`. Damaged data raises an exception of any type.

        Parameters
        ----------
        header : dict
            The numbers.
        array : callable
            Returns an array, given its name, type and number of dimensions; with `optional`, None
            for a missing one.
        """
        labels = [label_from_json(pair) for pair in header["labels"]]
        weights = np.array(header["weights"], dtype=np.float64)
        totals = np.array(header["totals"], dtype=np.float64)
        k = len(labels)
        if not weights.shape == totals.shape == (k,) or len(set(labels)) != k:
            raise ValueError("labels and weights differ in number, or a label occurs twice")
        fingerprints, ends = array("fingerprints", "<u8"), array("count_ends", "<u8", optional=True)
        counts = array("counts", "<f8", 2 if ends is None else 1)
        classes = None if ends is None else array("count_classes", "<u4")
        for numbers in (weights, totals, counts):
            if not ((numbers >= 0) & (numbers <= 1e300)).all():
                raise ValueError("a count is negative or not finite")
        if classes is None:
            if counts.shape != (len(fingerprints), k):
                raise ValueError("labels and counts differ in number")
            sums = counts.sum(axis=0)
        else:
            if len(classes) != len(counts) or (classes >= k).any():
                raise ValueError("labels and counts differ in number")
            sums = np.bincount(classes, counts, minlength=k)
        if len(sums) != k or not np.allclose(sums, totals, rtol=1e-6, atol=1e-6):
            raise ValueError("the totals are not the sums of the counts")
        if ((sums > 0) & (weights <= 0)).any():
            raise ValueError("a class has counts but no messages")
        scale, decay_halvings = float(header["scale"]), header["decay_halvings"]
        if not 1 <= scale <= 2**33 or type(decay_halvings) is not int or decay_halvings < 0:
            raise ValueError("the scale of the counts is not valid")
        evictions = header["evictions"]
        if type(evictions) is not int or evictions < 0:
            raise ValueError("the number of evictions is not a whole number >= 0")
        names, name_ends = array("names", "u1", optional=True), None
        if names is not None:
            names, name_ends = names.tobytes(), array("name_ends", "<u8")
        self.scale, self.decay_halvings, self.evictions = scale, decay_halvings, evictions
        self.add_classes(labels)
        self.weights[:] = weights.tolist()
        self.table.load(fingerprints, ends, classes, counts, totals.tolist(), names, name_ends)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MemoryCounts):
            return NotImplemented
        return self.as_dict() == other.as_dict()

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # counts change

    def as_dict(self) -> dict[str, Any]:
        """Return all counts in an order that does not depend on the order of learning."""
        fingerprints, cells, _, _ = self.table.arrays()
        columns = sorted(range(len(self.labels)), key=lambda k: repr(self.labels[k]))
        return {
            "labels": [self.labels[k] for k in columns],
            "weights": [self.weights[k] for k in columns],
            "totals": [self.totals[k] for k in columns],
            "fingerprints": fingerprints.tolist(),
            "cells": cells[:, columns].tolist(),
        }


class SubsetCounts(MemoryCounts):
    """Counts of some features of a table, with the totals of the whole table.

    If it includes all features of a message that have a count, models give the same result for the
    message as with the whole table.
    """

    @property
    def features(self) -> int:
        """Number of features of the whole table that have a count."""
        return len(self.table) + self.table.unloaded


class BufferedCounts(SubsetCounts):
    """Counts checked out of a database, to learn in memory and write once.

    Parameters
    ----------
    fingerprints
        The features, shape (n,), sorted.
    cells
        Counts of the features.
    store
        The counts of the database. A new class is added to its lists, too.

    Attributes
    ----------
    learned
        The features of each learned message.
    located
        The places of the features, which `store` needs for writing.
    """

    located: Any = None

    def __init__(self, fingerprints: Keys, cells: SparseRows, store: Counts) -> None:
        super().__init__()
        self.add_classes(store.labels)
        self.labels: list[Label] = store.labels
        self.weights: list[float] = store.weights
        is_counted = cells.is_counted
        self.table.load(
            fingerprints[is_counted], cells.ends[is_counted], cells.classes, cells.counts,
            list(store.totals),
        )  # fmt: skip
        self.table.unloaded = store.features - len(self.table)
        self.version: int = store.version
        self.learned: list[Keys] = []

    def add(
        self, tokens: TokenCounts, label: Label, weight: float, class_weight: float | None = None
    ) -> None:
        """Learn a message and record its features."""
        super().add(tokens, label, weight, class_weight)
        if weight:
            self.learned.append(tokens.fingerprints)

    def subtract(
        self, tokens: TokenCounts, label: Label, weight: float, class_weight: float | None = None
    ) -> None:
        """Raise UnsupportedError, because numbers of messages can only grow here."""
        raise UnsupportedError("checked-out counts do not support unlearning")

    def learned_rows(self) -> tuple[TokenCounts, SparseRows]:
        """Return the number of learned messages of each feature, with names, and their counts."""
        fingerprints, row_ends, classes, counts, names, ends = self.table.entries()
        places = None if ends is None else ends.astype(np.uint32)
        learned = np.concatenate([*self.learned, fingerprints[:0]])
        # leave out features without a change
        learned = learned[np.isin(learned, fingerprints)]
        indices = np.searchsorted(fingerprints, learned)
        times = np.bincount(indices, minlength=len(fingerprints)).astype(np.float64)
        tokens = TokenCounts.unchecked(fingerprints, times, names, places).select(times > 0)
        return tokens, SparseRows(row_ends, classes, counts).take(np.flatnonzero(times > 0))
