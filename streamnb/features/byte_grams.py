"""N-grams of the first raw bytes of a message.

They depend on no decoding and no word boundaries, so a sender can hardly evade them.
"""

from __future__ import annotations

from typing import Any

from streamnb import _core
from streamnb.features.mail_words import MailTransformer
from streamnb.features.token_counts import TokenCounts
from streamnb.features.words import ON, ScanningTransformer
from streamnb.mail import Mail
from streamnb.mail.parse import unwrap
from streamnb.parameters import Boolean, Integer, parameter, parameter_class


class InvertibleGrams(ScanningTransformer):
    """Base of the views of n-grams. A fingerprint can be inverted, so no names are stored."""

    def name(self, fingerprint: int, stored_name: Any = None) -> Any:
        """Return the n-gram with this fingerprint."""
        return self.scanner.name(fingerprint)

    def _token(self, fingerprint: int, stored_name: Any = None) -> Any:
        return self.scanner.name(fingerprint)

    def transform_one(self, x: Any) -> dict[Any, float]:
        """Return the distinct n-grams of a message, each with the count 1."""
        grams = self.count(x)
        pairs = zip(grams.fingerprints.tolist(), grams.counts.tolist(), strict=True)
        return {self._token(fingerprint): int(count) for fingerprint, count in pairs}


@parameter_class()
class ByteGrams(InvertibleGrams, MailTransformer):
    r"""Distinct n-grams of the first bytes of a message; a river transformer.

    Header fields and encoded parts are read as raw bytes. N-grams of four bytes rank mail better
    than words, and both together rank best (Cormack 2007). Fields that filters add are left out, as
    in `MailTokenizer`. A message is bytes, a str or a parsed `Mail`.

    References
    ----------
    Cormack, G. V. (2007). University of Waterloo participation in the TREC 2007 spam track.

    Examples
    --------
    >>> from streamnb.features.byte_grams import ByteGrams
    >>> ByteGrams(n=3).transform_one(b"X-Spam-Flag: YES\n\nBuy")
    {b'\nbu': 1, b'buy': 1}
    """

    n: int = parameter(Integer(1, 8), "counts", "Length of an n-gram, in bytes.", default=4)
    first: int = parameter(
        Integer(1, 1 << 24),
        "counts",
        "Number of bytes read from the start, not counting skipped header fields.",
        default=2000,
    )
    casefold: bool = parameter(
        Boolean(), "counts", "True to convert ASCII letters to lower case.", default=True
    )
    mail: bool = parameter(
        Boolean(),
        "counts",
        "True if messages begin with a header, False for plain text.",
        default=True,
    )
    step: int = parameter(
        Integer(0, 6),
        "counts",
        "If above 0, also count the suffixes of n - step, n - 2 step, ... bytes of each n-gram, "
        "for `ContextNB`. n must then be a multiple of step and at most 6.",
        default=0,
    )
    on: str | None = ON

    def _new_scanner(self) -> _core.GramScanner:
        return _core.GramScanner(self.n, self.first, self.casefold, self.step)

    def _count(self, message: bytes | str | Mail) -> TokenCounts:
        if isinstance(message, Mail):
            message = message.source
        elif isinstance(message, str):
            message = message.encode("utf-8", "surrogatepass")
        if not isinstance(message, bytes):
            raise TypeError(f"a message must be bytes, str or Mail, not {type(message).__name__}")
        if self.mail:
            message = unwrap(message[: 64 * self.first + 65536])
            fingerprints, counts = self.scanner.scan(
                message, self._field_is_read, self._reads_field
            )
        else:
            fingerprints, counts = self.scanner.scan(message)
        return TokenCounts.unchecked(fingerprints, counts, None, None)
