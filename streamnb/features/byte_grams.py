"""The first bytes of a message to tokens: nothing decoded, no words split, so little to evade."""

from __future__ import annotations

from typing import Any

from streamnb import _core
from streamnb.features.mail_words import MailTransformer
from streamnb.features.token_counts import TokenCounts
from streamnb.features.words import ON
from streamnb.mail import Mail
from streamnb.mail.parse import DEFAULT_LIMITS, normalised
from streamnb.parameters import Flag, Integer, parameter, parameter_class


@parameter_class()
class ByteGrams(MailTransformer):
    r"""Which n-grams of bytes occur in the beginning of a message; a river transformer.

    Four bytes of the first few thousand, headers and encoded parts as they stand, rank mail better
    than words alone do, and together they rank better than either (Cormack 2007). Fields that
    filters stamp are left out, as in `MailTokenizer`. A message is bytes, a str or a parsed `Mail`.

    References
    ----------
    Cormack, G. V. (2007). University of Waterloo participation in the TREC 2007 spam track.

    Examples
    --------
    >>> from streamnb.features.byte_grams import ByteGrams
    >>> ByteGrams(n=3).transform_one(b"X-Spam-Flag: YES\n\nBuy")
    {b'\nbu': 1, b'buy': 1}
    """

    n: int = parameter(Integer(1, 8), "counts", "Bytes of a gram.", default=4)
    first: int = parameter(
        Integer(1, 1 << 24),
        "counts",
        "How many bytes are looked at; those left out of a header do not count.",
        default=2000,
    )
    casefold: bool = parameter(
        Flag(), "counts", "Whether the case of ASCII letters makes no difference.", default=True
    )
    mail: bool = parameter(
        Flag(),
        "counts",
        "Whether messages begin with a header; False for plain text.",
        default=True,
    )
    step: int = parameter(
        Integer(0, 6),
        "counts",
        "With the grams of n bytes come those of n - step, n - 2 step ... that they end in, for "
        "`ContextNB`; 0 for none. Then n is a multiple of it, and 6 at most.",
        default=0,
    )
    on: str | None = ON

    def _new_scanner(self) -> _core.GramScanner:
        return _core.GramScanner(self.n, self.first, self.casefold, self.step)

    def _counted(self, message: bytes | str | Mail) -> TokenCounts:
        if isinstance(message, Mail):
            message = message.source
        elif isinstance(message, str):
            message = message.encode("utf-8", "surrogatepass")
        if not isinstance(message, bytes):
            raise TypeError(f"a message must be bytes, str or Mail, not {type(message).__name__}")
        if self.mail:
            message, _ = normalised(message, DEFAULT_LIMITS)
            fingerprints, counts = self.scanner.scan(message, self._kept, self._keeps)
        else:
            fingerprints, counts = self.scanner.scan(message)
        return TokenCounts.unchecked(fingerprints, counts, None, None)

    def name(self, fingerprint: int, known: Any = None) -> bytes:
        """The gram that has this fingerprint; fingerprints of grams are a bijection."""
        return self.scanner.name(fingerprint)

    def transform_one(self, x: Any) -> dict[Any, float]:
        """Find the grams of a message, as a dict."""
        grams = self.count(x)
        pairs = zip(grams.fingerprints.tolist(), grams.counts.tolist(), strict=True)
        return {self.name(gram): int(count) for gram, count in pairs}
