"""Text to tokens: the sparse word-count vector, and the tokenizer of plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river import base

from streamnb import _core

__all__ = ["ScanningTransformer", "TokenCounts", "Tokenizer"]

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
    >>> from streamnb.tokens import TokenCounts
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
    def _trusted(
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
            For a name of another type.
        """
        at = np.nan if threshold is None else threshold
        plain = x if type(x) is dict else dict(x)
        return cls._trusted(*_core.count_mapping(plain, _core.DEFAULT_KEY, at, keep_names))

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
        return TokenCounts._trusted, (self.fingerprints, self.counts, self.names, self.ends)

    def name(self, i: int) -> Feature:
        """The name of feature i; its fingerprint in hexadecimal where names were not kept."""
        if self.names is None or self.ends is None:
            return f"#{self.fingerprints[i]:016x}"
        start = int(self.ends[i - 1]) if i else 0
        name: Feature = _core.decode_name(self.names[start : int(self.ends[i])])
        return name

    def select(self, kept: NDArray[np.bool_] | NDArray[np.int64]) -> TokenCounts:
        """Keep some features, given by a mask of shape (n,) or by their numbers, rising."""
        names, ends = self.names, self.ends
        if names is not None and ends is not None:
            places = np.flatnonzero(kept) if kept.dtype == bool else kept
            starts = np.where(places > 0, ends[places - 1], 0)
            texts = [names[a:b] for a, b in zip(starts, ends[places], strict=True)]
            names = b"".join(texts)
            ends = np.cumsum([len(text) for text in texts], dtype=np.uint32)
        return TokenCounts._trusted(self.fingerprints[kept], self.counts[kept], names, ends)

    def to_dict(self) -> dict[Feature, float]:
        """The features by name."""
        return {self.name(i): float(count) for i, count in enumerate(self.counts)}


class ScanningTransformer(base.Transformer):
    """What the tokenizers share: one scanner, made when first needed and never pickled.

    The scanner collects one message at a time, so a tokenizer belongs to one thread.
    """

    _scanner: _core.Scanner | None = None

    def _new_scanner(self) -> _core.Scanner:
        raise NotImplementedError

    @property
    def scanner(self) -> _core.Scanner:
        """The compiled scanner with this tokenizer's options."""
        if self._scanner is None:
            self._scanner = self._new_scanner()
        return self._scanner

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if not name.startswith("_"):
            self._scanner = None  # an option changed

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_scanner"}

    def count(self, x: Any) -> TokenCounts:
        """Count the tokens of a text or message: the fast path into the models."""
        raise NotImplementedError

    def transform_one(  # type: ignore[override]  # a dict of str is a dict of names
        self, x: Any
    ) -> dict[str, int]:
        """Count the tokens of a text or message, as a dict."""
        counts = self.count(x)
        return {str(counts.name(i)): int(count) for i, count in enumerate(counts.counts)}

    def _more_tags(self) -> set[str]:
        return {"text input"}


class Tokenizer(ScanningTransformer):
    """Words of any text, counted; a river transformer.

    A word is a run of letters, digits and low lines of any script, with their combining marks.
    Characters that are not shown (soft hyphens, zero-width spaces) are passed over, so they cannot
    split a word. Scripts that are written without spaces (Chinese, Japanese, Thai ...) give each
    pair of neighbouring characters as a token.

    Parameters
    ----------
    casefold
        Whether case makes no difference.
    inner
        ASCII characters that belong to a word when word characters stand on both sides.
    min_length, max_length
        Shortest and longest word kept, in characters.
    ngrams
        Sizes of the n-grams, from and to: (1, 2) makes words and pairs of words.
    analyzer
        "word", or "char" for n-grams of characters (a run of white space is one space).
    stop_words
        Words left out, compared after folding.
    urls
        Split web addresses into host, domains and words of the path, with the prefix `url:`.
    binary
        Count each token once (Metsis, Androutsopoulos and Paliouras, CEAS 2006).
    keep_names
        Pass the tokens' text on to the model, so that it can be shown.
    on
        Key of the text where x is a dict.

    Examples
    --------
    >>> from streamnb import Tokenizer
    >>> Tokenizer().transform_one("Don't panic! DON'T, I said: 東京都")
    {"don't": 2, 'panic': 1, 'i': 1, 'said': 1, '東京': 1, '京都': 1}
    >>> Tokenizer(ngrams=(2, 2), stop_words=("the",)).transform_one("the quick brown fox")
    {'quick brown': 1, 'brown fox': 1}
    >>> Tokenizer(analyzer="char", ngrams=(3, 3)).transform_one("Spam")
    {'spa': 1, 'pam': 1}
    """

    def __init__(
        self,
        casefold: bool = True,
        inner: str = "'-.$!",
        min_length: int = 1,
        max_length: int = 40,
        ngrams: tuple[int, int] = (1, 1),
        analyzer: str = "word",
        stop_words: tuple[str, ...] | None = None,
        urls: bool = False,
        binary: bool = False,
        keep_names: bool = True,
        on: str | None = None,
    ) -> None:
        if analyzer not in ("word", "char"):
            raise ValueError(f"analyzer: {analyzer!r} is neither 'word' nor 'char'")
        self.casefold = casefold
        self.inner = inner
        self.min_length = min_length
        self.max_length = max_length
        self.ngrams = ngrams
        self.analyzer = analyzer
        self.stop_words = stop_words
        self.urls = urls
        self.binary = binary
        self.keep_names = keep_names
        self.on = on

    def _new_scanner(self) -> _core.Scanner:
        return _core.Scanner(
            casefold=self.casefold,
            inner=self.inner,
            shortest=self.min_length,
            longest=self.max_length,
            first=self.ngrams[0],
            last=self.ngrams[1],
            by_character=self.analyzer == "char",
            urls=self.urls,
            binary=self.binary,
            keep_names=self.keep_names,
            stop=[word.casefold() if self.casefold else word for word in self.stop_words or ()],
        )

    def count(self, x: Any) -> TokenCounts:
        """Count the tokens of a text.

        Parameters
        ----------
        x
            A str, UTF-8 bytes, or (with `on`) a dict with the text under that key.
        """
        scanner = self.scanner
        text = x if self.on is None else x[self.on]
        try:
            scanner.text(text)
            return TokenCounts._trusted(*scanner.finish())
        except BaseException:
            scanner.discard()
            raise
