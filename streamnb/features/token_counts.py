"""The sparse vector of feature counts that every model takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamnb import _core

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Feature = str | bytes | int | tuple[Any, ...]


def feature_text(feature: Any) -> str:
    """Return `str(feature)`, which raises an error for bytes if Python runs with -bb."""
    return repr(feature) if isinstance(feature, bytes) else str(feature)


class TokenCounts:
    """A sparse vector: the counts of the features of one message.

    Parameters
    ----------
    fingerprints
        uint64, shape (n,): distinct 64-bit hashes of the feature names.
    counts
        float64, shape (n,): the count of each feature, finite, > 0 and at most 1e100.
    names
        The concatenated names, each written by `streamnb._core.encode_name`; None for no names.
    ends
        uint32, shape (n,): the end of each name in `names`.

    Raises
    ------
    ValueError
        If the shapes differ, a fingerprint repeats or a count is out of range.

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
            raise ValueError(
                f"fingerprints have the shape {f.shape} and counts {c.shape}: both must be (n,)"
            )
        if len(np.unique(f)) != len(f):
            raise ValueError("a fingerprint occurs twice: sum the counts of each feature first")
        if not (np.isfinite(c).all() and (c > 0).all() and (c <= 1e100).all()):
            raise ValueError("counts must be finite, > 0 and at most 1e100")
        self.fingerprints: NDArray[np.uint64] = f
        self.counts: NDArray[np.float64] = c
        self.names: bytes | None = names
        self.ends: NDArray[np.uint32] | None = None
        if names is not None:
            e = np.ascontiguousarray(() if ends is None else ends, dtype=np.int64)
            steps = np.diff(e, prepend=0)
            if e.shape != f.shape or (steps < 0).any() or (len(e) > 0 and e[-1] > len(names)):
                raise ValueError("ends must be non-decreasing, one per feature, and within names")
            self.ends = e.astype(np.uint32)

    @classmethod
    def unchecked(
        cls,
        fingerprints: NDArray[np.uint64],
        counts: NDArray[np.float64],
        names: bytes | None,
        ends: NDArray[np.uint32] | None,
    ) -> TokenCounts:
        """Wrap valid arrays without checks."""
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
        """Return the vector of a dict of counts, without its zeros.

        Parameters
        ----------
        x
            Feature names (str, bytes, int or tuples of them) and their counts.
        threshold
            If given, counts above it become 1 and the others are left out.
        keep_names
            True to keep the names, for display.

        Raises
        ------
        ValueError
            If a count is NaN, infinite, not a number or (without a threshold) negative. The error
            names the feature.
        TypeError
            If x is not a mapping, or a name is of another type.
        """
        if type(x) is not dict and not isinstance(x, Mapping):
            raise TypeError(
                f"a message must be a TokenCounts or a dict of features and counts, not "
                f"{type(x).__name__}; use a Tokenizer for text"
            )
        binary_threshold = np.nan if threshold is None else threshold
        plain = x if type(x) is dict else dict(x)
        return cls.unchecked(
            *_core.count_mapping(plain, _core.DEFAULT_KEY, binary_threshold, keep_names)
        )

    def __len__(self) -> int:
        return len(self.fingerprints)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.to_dict())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TokenCounts):
            return NotImplemented
        if len(self) != len(other):
            return False
        self_order, other_order = np.argsort(self.fingerprints), np.argsort(other.fingerprints)
        return bool(
            (self.fingerprints[self_order] == other.fingerprints[other_order]).all()
            and (self.counts[self_order] == other.counts[other_order]).all()
        )

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # its arrays are mutable

    def __repr__(self) -> str:
        return f"TokenCounts({len(self)} features, sum {self.counts.sum():g})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Buffers, because numpy's own pickles of short arrays take three times as long.
        counts = None if (self.counts == 1).all() else bytearray(self.counts)
        ends = None if self.ends is None else bytearray(self.ends)
        return _unpickle, (bytearray(self.fingerprints), counts, self.names, ends)

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        for name, value in state[1].items():  # skops calls it instead of `_unpickle`
            setattr(self, name, value)

    def name(self, i: int) -> Feature:
        """Return the name of feature i, or its fingerprint in hexadecimal if there are no names."""
        if self.names is None or self.ends is None:
            return f"#{self.fingerprints[i]:016x}"
        start = int(self.ends[i - 1]) if i else 0
        return _core.decode_name(self.names[start : int(self.ends[i])])

    def with_names(self, text: str) -> str:
        """Return a text with names in place of "#" and the fingerprint of a feature."""

        def name_of(match: re.Match[str]) -> str:
            i = np.flatnonzero(self.fingerprints == np.uint64(int(match[1], 16)))
            return f"{self.name(int(i[0]))!r:.80}" if len(i) and self.names else match[0]

        return re.sub("#([0-9a-f]{16})", name_of, text)

    def select(self, selection: NDArray[np.bool_] | NDArray[np.int64]) -> TokenCounts:
        """Return the features chosen by a mask, shape (n,), or by ascending indices."""
        names, ends = self.names, self.ends
        if names is not None and ends is not None:
            indices = np.flatnonzero(selection) if selection.dtype == bool else selection
            starts = np.where(indices > 0, ends[indices - 1], 0)
            texts = [names[a:b] for a, b in zip(starts, ends[indices], strict=True)]
            names = b"".join(texts)
            ends = np.cumsum([len(text) for text in texts], dtype=np.uint32)
        return TokenCounts.unchecked(
            self.fingerprints[selection], self.counts[selection], names, ends
        )

    def to_dict(self) -> dict[Feature, float]:
        """Return the counts by feature name."""
        return {self.name(i): float(count) for i, count in enumerate(self.counts)}


def _unpickle(
    fingerprints: bytearray, counts: bytearray | None, names: bytes | None, ends: bytearray | None
) -> TokenCounts:
    """Return the vector that `TokenCounts.__reduce__` described; its arrays can be written."""
    keys = np.frombuffer(fingerprints, np.uint64)
    return TokenCounts.unchecked(
        keys,
        np.ones(len(keys)) if counts is None else np.frombuffer(counts),
        names,
        None if ends is None else np.frombuffer(ends, np.uint32),
    )


class CountedFrameMixin:
    """Mix-in of a data frame of token counts; models of streamnb read `counted_messages`."""

    counted_messages: CountedMessages


class CountedMessages(list[TokenCounts]):
    """A list of the `TokenCounts` of messages, with the series or frame of the messages.

    Predictions of a pipeline are then a series or a frame with the same index.
    """

    def __init__(self, counts: Iterable[TokenCounts], messages: Any) -> None:
        super().__init__(counts)
        self.messages = messages

    def to_matrix(self) -> tuple[list[str], csr_matrix]:
        """Return the tokens, and their counts in each message: a CSR matrix of shape (n, d)."""
        from scipy.sparse import csr_matrix

        columns: dict[str, int] = {}
        indices = [
            columns.setdefault(str(message.name(i)), len(columns))
            for message in self
            for i in range(len(message))
        ]
        ends = np.cumsum([0, *map(len, self)])
        values = np.concatenate([message.counts for message in self]) if indices else np.empty(0)
        return list(columns), csr_matrix((values, indices, ends), shape=(len(self), len(columns)))

    def __narwhals_dataframe__(self) -> Any:
        """Return the counts as a frame of the messages' library, for models of river."""
        import narwhals.stable.v2 as narwhals

        columns, matrix = self.to_matrix()
        frame = narwhals.from_dict(
            dict(zip(columns, matrix.toarray().T, strict=True)),
            backend=narwhals.get_native_namespace(self.messages),
        )
        return frame._compliant_frame
