"""The views of a message: several ways to make features of it, each for a model of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from streamnb.byte_tokens import ByteGrams
from streamnb.mail import Mail, parse
from streamnb.tokens import Feature, TokenCounts

__all__ = ["Views"]


class Counting(Protocol):
    """Anything that counts the features of a message."""

    def count(self, x: Any) -> TokenCounts:
        """Count the features of a message."""


class Views:
    """Makes several views of a message; a mail is parsed once for all of them.

    Parameters
    ----------
    tokenizers
        One for each view.
    mail
        Whether messages are mails.

    Examples
    --------
    >>> from streamnb import Tokenizer
    >>> from streamnb.byte_tokens import ByteGrams
    >>> from streamnb.views import Views
    >>> views = Views([Tokenizer(), ByteGrams(mail=False)], mail=False)
    >>> [len(view) for view in views.count("free offer")]
    [2, 7]
    """

    def __init__(self, tokenizers: Sequence[Counting], mail: bool) -> None:
        self.tokenizers = list(tokenizers)
        self.mail = mail

    def count(self, x: Any) -> tuple[TokenCounts, ...]:
        """Count the features of a message, a `TokenCounts` for each view."""
        if self.mail and not isinstance(x, Mail):
            if isinstance(x, str):
                x = x.encode("utf-8", "surrogatepass")
            if not isinstance(x, bytes):
                raise TypeError(f"a mail must be bytes, str or Mail, not {type(x).__name__}")
            x = parse(x)
        return tuple(tokenizer.count(x) for tokenizer in self.tokenizers)

    def name(self, view: int, fingerprint: int, known: Feature) -> Feature:
        """The name of a feature of a view, `known` being what was kept of it."""
        tokenizer = self.tokenizers[view]
        return tokenizer.name(fingerprint) if isinstance(tokenizer, ByteGrams) else known
