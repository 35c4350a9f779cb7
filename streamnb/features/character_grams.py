"""N-grams of the characters of a text that are not ASCII."""

from __future__ import annotations

from typing import Any

from streamnb import _core
from streamnb.features.byte_grams import InvertibleGrams
from streamnb.features.token_counts import TokenCounts
from streamnb.features.words import ON
from streamnb.mail.normalization import normalize_nfc
from streamnb.parameters import Integer, parameter, parameter_class


@parameter_class()
class CharacterGrams(InvertibleGrams):
    r"""Distinct n-grams of 1 to 3 characters, one of them non-ASCII; a river transformer.

    In UTF-8, four bytes hold four Latin letters, but two Cyrillic letters or one Han, Thai or
    Bengali character. Many scripts have no spaces between words. So this view counts characters:
    composed (NFC), with case folded, and with each run of white space as one space. An ASCII text
    has none of these n-grams, because the views of words and bytes cover it. A text is a str, or
    bytes in UTF-8.

    Examples
    --------
    >>> from streamnb.features.character_grams import CharacterGrams
    >>> list(CharacterGrams().transform_one("好吃!"))
    ['好', '吃', '好吃', '吃!', '好吃!']
    >>> CharacterGrams().transform_one("good food")
    {}
    """

    n: int = parameter(
        Integer(1, 3), "counts", "Length of the longest n-gram, in characters.", default=3
    )
    first: int = parameter(
        Integer(1, 1 << 24),
        "counts",
        "Number of characters read from the start.",
        default=1500,
    )
    on: str | None = ON

    def name(self, fingerprint: int, stored_name: Any = None) -> str:
        """Return `characters` and the n-gram in quotes, so that it differs from words."""
        return f"characters '{self.scanner.name(fingerprint)}'"

    def _new_scanner(self) -> _core.CharacterScanner:
        return _core.CharacterScanner(self.n, self.first)

    def _count(self, message: str | bytes) -> TokenCounts:
        if not isinstance(message, (str, bytes)):
            raise TypeError(f"a text must be a str or bytes, not {type(message).__name__}")
        text = message[: 16 * self.first]  # runs of white space become shorter
        if isinstance(text, bytes):
            text = text.decode("utf-8", "surrogateescape")
        text = "" if text.isascii() else " ".join(normalize_nfc(text).casefold().split())
        fingerprints, counts = self.scanner.scan(text)
        return TokenCounts.unchecked(fingerprints, counts, None, None)
