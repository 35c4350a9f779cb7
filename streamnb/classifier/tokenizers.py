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


# What each option of a tokenizer is; tuples are lists in JSON.
_OPTIONS: dict[str, Any] = {
    "casefold": bool,
    "inner": str,
    "min_length": int,
    "max_length": int,
    "ngrams": tuple[int, int],
    "analyzer": str,
    "stop_words": tuple[str, ...] | None,
    "urls": bool,
    "binary": bool,
    "headers": bool,
    "drop_headers": tuple[str, ...] | None,
    "keep_names": bool,
    "on": None,
    "n": int,
    "first": int,
    "mail": bool,
}


def restored(described: Any) -> Any:
    """The tokenizer that was described; any exception where it is not sound."""
    if described["kind"] != "Views":
        return _one(described)
    mail, views = described["mail"], [_one(view) for view in described["views"]]
    if type(mail) is not bool or not views:
        raise ValueError("the views are not sound")
    if any(
        isinstance(view, Tokenizer) == mail for view in views if not isinstance(view, ByteGrams)
    ):
        raise ValueError("a view is of another kind of message")
    return Views(views, mail)


def _one(described: Any) -> Any:
    import msgspec

    given = described["options"]
    options = {name: msgspec.convert(value, _OPTIONS[name]) for name, value in given.items()}
    tokenizer = _TOKENIZERS[described["kind"]](**options)
    _ = tokenizer.scanner
    return tokenizer
