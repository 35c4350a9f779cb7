"""The views of a message: several ways to make features of it, each for a model of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamnb.features.byte_grams import ByteGrams
from streamnb.features.mail_words import MailTokenizer, as_mail
from streamnb.features.token_counts import TokenCounts
from streamnb.features.word_pairs import WordPairs
from streamnb.features.words import ScanningTransformer, Tokenizer
from streamnb.parameters import parameters_from_json, parameters_to_json


class Views:
    """Makes several views of a message; a mail is parsed once for all of them.

    Threads can share it.

    Parameters
    ----------
    tokenizers : sequence of tokenizers
        One for each view.
    mail : bool
        Whether messages are mails.

    Examples
    --------
    >>> from streamnb import Tokenizer
    >>> from streamnb.features.byte_grams import ByteGrams
    >>> from streamnb.features.views import Views
    >>> views = Views([Tokenizer(), ByteGrams(mail=False)], mail=False)
    >>> [len(view) for view in views.count("free offer")]
    [2, 7]
    """

    def __init__(self, tokenizers: Sequence[ScanningTransformer], mail: bool) -> None:
        self.tokenizers = list(tokenizers)
        self.mail = mail

    def __repr__(self) -> str:
        return f"Views({self.tokenizers!r}, mail={self.mail})"

    def count(self, x: Any) -> tuple[TokenCounts, ...]:
        """Count the features of a message, a `TokenCounts` for each view."""
        message = as_mail(x) if self.mail else x
        return tuple(tokenizer.count(message) for tokenizer in self.tokenizers)


_KINDS: dict[str, type[ScanningTransformer]] = {
    made.__name__: made for made in (MailTokenizer, Tokenizer, WordPairs, ByteGrams)
}


def tokenizer_config(tokenizer: Any) -> dict[str, Any]:
    """A tokenizer, or views, as JSON can hold it; ValueError for one that is not streamnb's."""
    if isinstance(tokenizer, Views):
        views = [tokenizer_config(view) for view in tokenizer.tokenizers]
        return {"kind": "Views", "views": views, "mail": tokenizer.mail}
    kind = type(tokenizer).__name__
    if _KINDS.get(kind) is not type(tokenizer):
        raise ValueError(
            f"{kind} is no tokenizer of streamnb, so it could not be read again: use one that is"
        )
    return {"kind": kind, "options": parameters_to_json(tokenizer)}


def tokenizer_from_config(description: Any) -> Any:
    """What `tokenizer_config` tokenizer_config; any exception where it is not sound."""
    if description["kind"] != "Views":
        return _tokenizer(description)
    mail, views = description["mail"], [_tokenizer(view) for view in description["views"]]
    if type(mail) is not bool or not views:
        raise ValueError("the views are not sound")
    other = Tokenizer if mail else MailTokenizer
    if any(isinstance(view, other) or view.on is not None for view in views):
        raise ValueError("a view is of another kind of message")
    return Views(views, mail)


def _tokenizer(description: Mapping[str, Any]) -> ScanningTransformer:
    made = _KINDS[description["kind"]]
    options = parameters_from_json(description["options"], made)
    tokenizer: ScanningTransformer = made(**options)
    _ = tokenizer.scanner  # refuses what cannot be
    return tokenizer
