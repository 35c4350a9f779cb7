"""The first bytes of a message to tokens: nothing decoded, no words split, so little to evade."""

from __future__ import annotations

from typing import Any

from river import base

from streamnb import _core
from streamnb.mail import Mail
from streamnb.mail.parse import DEFAULT_LIMITS, normalised
from streamnb.mail_tokens import is_stamped
from streamnb.tokens import TokenCounts

__all__ = ["ByteGrams"]


class ByteGrams(base.Transformer):
    r"""Which n-grams of bytes occur in the beginning of a message; a river transformer.

    Four bytes of the first few thousand, headers and encoded parts as they stand, rank mail better
    than words alone do, and together they rank better than either (Cormack 2007). Fields that
    filters stamp are left out, as in `MailTokenizer`.

    Parameters
    ----------
    n
        Bytes of a gram, 1 to 8.
    first
        How many bytes are looked at; those left out of a header do not count.
    casefold
        Whether the case of ASCII letters makes no difference.
    mail
        Whether messages begin with a header; False for plain text.
    headers
        Whether header fields other than the subject are looked at.
    drop_headers
        Further fields to leave out.
    on
        Key of the message where x is a dict.

    References
    ----------
    Cormack, G. V. (2007). University of Waterloo participation in the TREC 2007 spam track.

    Examples
    --------
    >>> from streamnb.byte_tokens import ByteGrams
    >>> ByteGrams(n=3).transform_one(b"X-Spam-Flag: YES\n\nBuy")
    {b'\nbu': 1, b'buy': 1}
    """

    def __init__(
        self,
        n: int = 4,
        first: int = 2000,
        casefold: bool = True,
        mail: bool = True,
        headers: bool = True,
        drop_headers: tuple[str, ...] | None = None,
        on: str | None = None,
    ) -> None:
        self.n = n
        self.first = first
        self.casefold = casefold
        self.mail = mail
        self.headers = headers
        self.drop_headers = drop_headers
        self.on = on

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if not name.startswith("_"):
            self._forget()

    def _forget(self) -> None:
        self._scanner: _core.GramScanner | None = None
        self._kept: dict[bytes, bool] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_scanner": None, "_kept": {}}

    @property
    def scanner(self) -> _core.GramScanner:
        """The compiled scanner with these options."""
        if self._scanner is None:
            self._scanner = _core.GramScanner(self.n, self.first, self.casefold)
        return self._scanner

    def _keeps(self, name: bytes) -> bool:
        lower = name.lower()
        drops = {drop.lower().encode() for drop in self.drop_headers or ()}
        keep = not is_stamped(lower) and lower not in drops
        if not self.headers:
            keep = keep and lower == b"subject"
        if len(self._kept) < 1000:  # senders invent field names: remember only so many
            self._kept[name] = keep
        return keep

    def count(self, x: Any) -> TokenCounts:
        """Find the grams of a message.

        Parameters
        ----------
        x
            The message's bytes, a str, a parsed `Mail`, or (with `on`) a dict with one of them.
        """
        message = x if self.on is None else x[self.on]
        if isinstance(message, Mail):
            message = message.source
        elif isinstance(message, str):
            message = message.encode("utf-8", "surrogatepass")
        if not isinstance(message, bytes):
            raise TypeError(f"a message must be bytes, str or Mail, not {type(message).__name__}")
        if not self.mail:
            return TokenCounts._trusted(*self.scanner.scan(message), None, None)
        message, _ = normalised(message, DEFAULT_LIMITS)
        found = self.scanner.scan(message, self._kept, self._keeps)
        return TokenCounts._trusted(*found, None, None)

    def name(self, fingerprint: int) -> bytes:
        """The gram that has this fingerprint; fingerprints of grams are a bijection."""
        return self.scanner.name(fingerprint)

    def transform_one(self, x: Any) -> dict[Any, int]:
        """Find the grams of a message, as a dict."""
        return {self.name(int(gram)): 1 for gram in self.count(x).fingerprints}

    def _more_tags(self) -> set[str]:
        return {"text input"}
