"""Tokenizers in model files: their kind and options, as JSON holds them."""

from __future__ import annotations

from typing import Any

from streamnb.byte_tokens import ByteGrams
from streamnb.mail_tokens import MailTokenizer
from streamnb.tokens import Tokenizer
from streamnb.views import Views

__all__ = ["describe", "restored"]

_TOKENIZERS = {"MailTokenizer": MailTokenizer, "Tokenizer": Tokenizer, "ByteGrams": ByteGrams}


def describe(tokenizer: Any) -> dict[str, Any]:
    """A tokenizer as JSON can hold it."""
    if isinstance(tokenizer, Views):
        views = [describe(view) for view in tokenizer.tokenizers]
        return {"kind": "Views", "views": views, "mail": tokenizer.mail}
    return {"kind": type(tokenizer).__name__, "options": dict(tokenizer._get_params())}


def restored(described: Any) -> Any:
    """The tokenizer that was described; any exception where it is not sound."""
    if described["kind"] == "Views":
        return Views([restored(view) for view in described["views"]], bool(described["mail"]))
    options = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in described["options"].items()
    }
    tokenizer = _TOKENIZERS[described["kind"]](**options)
    _ = tokenizer.scanner
    return tokenizer
