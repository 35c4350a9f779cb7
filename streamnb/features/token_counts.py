"""The sparse word-count vector: what one message says, ready for any model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamnb import _core

Feature = str | bytes | int | tuple[Any, ...]


class TokenCounts:
    """A sparse vector of counts: what one message says, ready for any model.

    Parameters
    ----------
    fingerprints
        uint64, shape (n,): distinct 64-bit hashes of the features' names.
    counts
        float64, shape (n,): how often each occurs, finite and > 0.
    names
        The names one after the other, as `streamnb._core.encode_name` writes them, or None.
    ends
        uint32, shape (n,): where each name ends in `names`.

    Raises
    ------
    ValueError
        Where lengths differ, fingerprints repeat or a count is not positive and finite.

    Examples
    --------
    >>> from streamnb.features.token_counts import TokenCounts
    >>> message = TokenCounts.from_dict({"free": 2, "offer": 1, ("new", "york"): 0})
    >>> len(message), message.to_dict()
    (2, {'free': 2.0, 'offer': 1.0})
    """

    __slots__ = ("counts", "ends", "fingerprints", "names")

    def __init__(
        self,
        fingerprints: ArrayLike,
        counts: ArrayLike,
        names: bytes | None = None,
        ends: ArrayLike | None = None,
    ) -> None:
        f = np.ascontiguousarray(fingerprints, dtype=np.uint64)
        c = np.ascontiguousarray(counts, dtype=np.float64)
        if f.ndim != 1 or f.shape != c.shape:
            raise ValueError(f"fingerprints and counts differ in shape: {f.shape}, {c.shape}")
        if len(np.unique(f)) != len(f):
            raise ValueError("fingerprints repeat: add the counts of a feature up first")
        if not (np.isfinite(c).all() and (c > 0).all() and (c <= 1e100).all()):
            raise ValueError("counts must be finite, > 0 and at most 1e100")
        self.fingerprints: NDArray[np.uint64] = f
        self.counts: NDArray[np.float64] = c
        self.names = names
        self.ends: NDArray[np.uint32] | None = None
        if names is not None:
            e = np.ascontiguousarray(() if ends is None else ends, dtype=np.int64)
            steps = np.diff(e, prepend=0)
            if e.shape != f.shape or (steps < 0).any() or (len(e) > 0 and e[-1] > len(names)):
                raise ValueError("ends must rise, one for each feature, up to the length of names")
            self.ends = e.astype(np.uint32)

    @classmethod
    def unchecked(
        cls,
        fingerprints: NDArray[np.uint64],
        counts: NDArray[np.float64],
        names: bytes | None,
        ends: NDArray[np.uint32] | None,
    ) -> TokenCounts:
        """Wrap what the core made, which needs no checking."""
        self = cls.__new__(cls)
        self.fingerprints = fingerprints
        self.counts = counts
        self.names = names
        self.ends = ends
        return self

    @classmethod
    def from_dict(
        cls, x: Mapping[Any, Any], threshold: float | None = None, keep_names: bool = True
    ) -> TokenCounts:
        """Count the features of a dict; zeros are left out.

        Parameters
        ----------
        x
            Feature names (str, bytes, int or tuples of them) and their counts.
        threshold
            If given, what is above it counts 1 and the rest is left out.
        keep_names
            Keep the names, to be shown later.

        Raises
        ------
        ValueError
            Naming the first feature whose count is NaN, infinite, no number, or (without a
            threshold) negative.
        TypeError
            For what is no mapping, or a name of another type.
        """
        if type(x) is not dict and not isinstance(x, Mapping):
            raise TypeError(
                f"a message must be a TokenCounts or a dict of features and counts, not "
                f"{type(x).__name__}; a Tokenizer makes one of text"
            )
        at = np.nan if threshold is None else threshold
        plain = x if type(x) is dict else dict(x)
        return cls.unchecked(*_core.count_mapping(plain, _core.DEFAULT_KEY, at, keep_names))

    def __len__(self) -> int:
        return len(self.fingerprints)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.to_dict())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TokenCounts):
            return NotImplemented
        if len(self) != len(other):
            return False
        mine, theirs = np.argsort(self.fingerprints), np.argsort(other.fingerprints)
        return bool(
            (self.fingerprints[mine] == other.fingerprints[theirs]).all()
            and (self.counts[mine] == other.counts[theirs]).all()
        )

    __hash__ = None  # type: ignore[assignment]  # its arrays can change

    def __repr__(self) -> str:
        return f"TokenCounts({len(self)} features, {self.counts.sum():g} in all)"

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenCounts.unchecked, (self.fingerprints, self.counts, self.names, self.ends)

    def name(self, i: int) -> Feature:
        """The name of feature i; its fingerprint in hexadecimal where names were not kept."""
        if self.names is None or self.ends is None:
            return f"#{self.fingerprints[i]:016x}"
        start = int(self.ends[i - 1]) if i else 0
        return _core.decode_name(self.names[start : int(self.ends[i])])

    def select(self, kept: NDArray[np.bool_] | NDArray[np.int64]) -> TokenCounts:
        """Keep some features, given by a mask of shape (n,) or by their numbers, rising."""
        names, ends = self.names, self.ends
        if names is not None and ends is not None:
            places = np.flatnonzero(kept) if kept.dtype == bool else kept
            starts = np.where(places > 0, ends[places - 1], 0)
            texts = [names[a:b] for a, b in zip(starts, ends[places], strict=True)]
            names = b"".join(texts)
            ends = np.cumsum([len(text) for text in texts], dtype=np.uint32)
        return TokenCounts.unchecked(self.fingerprints[kept], self.counts[kept], names, ends)

    def to_dict(self) -> dict[Feature, float]:
        """The features by name."""
        return {self.name(i): float(count) for i, count in enumerate(self.counts)}
