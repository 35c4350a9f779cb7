"""Several tokenizers of one message, one for each view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from streamnb.constraints import Constraint
from streamnb.features.grams import ByteGrams, CharacterGrams, WordPairs
from streamnb.features.mail_words import MailTokenizer, as_mail
from streamnb.features.token_counts import TokenCounts
from streamnb.features.words import CallableTokenizer, ScanningTransformer, Tokenizer
from streamnb.parameters import parameters_from_json, parameters_to_json


class Views:
    """Several tokenizers, which parse a mail only once. Threads can share it.

    Parameters
    ----------
    tokenizers : sequence of tokenizers
        One per view; each a tokenizer or a function from a text to its tokens.
    mail : bool
        True if messages are mails.

    Examples
    --------
    >>> from streamnb import Tokenizer
    >>> from streamnb.features.grams import ByteGrams
    >>> from streamnb.features.views import Views
    >>> views = Views([Tokenizer(), ByteGrams(mail=False)], mail=False)
    >>> [len(view) for view in views.count("free offer")]
    [2, 7]
    """

    def __init__(
        self, tokenizers: Sequence[ScanningTransformer | Callable[[Any], Iterable[Any]]], mail: bool
    ) -> None:
        self.tokenizers: list[ScanningTransformer] = [as_tokenizer(item) for item in tokenizers]
        self.mail = mail

    def __repr__(self) -> str:
        return f"Views({self.tokenizers!r}, mail={self.mail})"

    def count(self, x: Any) -> tuple[TokenCounts, ...]:
        """Return one `TokenCounts` per view."""
        message = as_mail(x) if self.mail else x
        return tuple([tokenizer.count(message) for tokenizer in self.tokenizers])


def is_tokenizer(value: Any) -> bool:
    """Return whether `as_tokenizer` accepts a value."""
    if isinstance(value, ScanningTransformer | Views):
        return True
    is_object = not isinstance(value, type | Sequence | Mapping)  # a str has a method `count`, too
    return is_object and (callable(value) or callable(getattr(value, "count", None)))


def as_tokenizer(value: Any) -> Any:
    """Return a tokenizer of streamnb unchanged, and a function as `CallableTokenizer`.

    If the value is not a function but has a method `count`, that method is used.

    Raises
    ------
    ValueError
        If the value is neither a tokenizer nor a function.
    """
    TOKENIZER("tokenizer", value)
    if isinstance(value, ScanningTransformer | Views):
        return value
    return CallableTokenizer(value if callable(value) else value.count)


_PROTOCOL = "a tokenizer of streamnb or a function from a text to its tokens"
TOKENIZER = Constraint(is_tokenizer, _PROTOCOL)
OPTIONAL_TOKENIZER = Constraint(is_tokenizer, _PROTOCOL, none=True)

TOKENIZERS: dict[str, type[ScanningTransformer]] = {
    tokenizer.__name__: tokenizer
    for tokenizer in (MailTokenizer, Tokenizer, WordPairs, ByteGrams, CharacterGrams)
}


def is_pure(tokenizer: ScanningTransformer | Views) -> bool:
    """Return whether the features depend only on the message and on declared parameters."""
    if type(tokenizer) is Views:
        return all(map(is_pure, tokenizer.tokenizers))
    return TOKENIZERS.get(type(tokenizer).__name__) is type(tokenizer)


def are_equal(first: ScanningTransformer | Views, second: ScanningTransformer | Views) -> bool:
    """Return whether two tokenizers are of the same types and have the same parameters."""

    def describe(tokenizer: ScanningTransformer | Views) -> list[Any]:
        parts = [(type(part), part.get_params()) for part in tokenizer.tokenizers]
        return [type(tokenizer), getattr(tokenizer, "mail", None), parts]

    return describe(first) == describe(second)


def tokenizer_config(tokenizer: Any) -> dict[str, Any]:
    """Return a tokenizer or views as plain data for JSON.

    Raises
    ------
    ValueError
        If the tokenizer is not one of streamnb's.
    """
    if isinstance(tokenizer, Views):
        views = [tokenizer_config(view) for view in tokenizer.tokenizers]
        return {"kind": "Views", "views": views, "mail": tokenizer.mail}
    kind = type(tokenizer).__name__
    if isinstance(tokenizer, CallableTokenizer):
        raise ValueError(
            f"the tokenizer {tokenizer.function!r:.80} cannot be saved: a file cannot hold a "
            "function. Save `classifier.model`, and make Classifier(tokenizer, model) after "
            "streamnb.load"
        )
    if TOKENIZERS.get(kind) is not type(tokenizer):
        raise ValueError(
            f"{kind} cannot be saved: it is not a tokenizer of streamnb; use one of "
            f"{', '.join(TOKENIZERS)}"
        )
    return {"kind": kind, "options": parameters_to_json(tokenizer)}


def tokenizer_from_config(config: Any) -> Any:
    """Return the tokenizer that a `tokenizer_config` describes.

    Raises
    ------
    Exception
        Any error, if the configuration is damaged.
    """
    if config["kind"] != "Views":
        return _tokenizer(config)
    mail, views = config["mail"], [_tokenizer(view) for view in config["views"]]
    if type(mail) is not bool or not views:
        raise ValueError("the views are damaged")
    other = Tokenizer if mail else MailTokenizer
    if any(isinstance(view, other) or view.on is not None for view in views):
        raise ValueError("the views read different kinds of messages")
    return Views(views, mail)


def _tokenizer(config: Mapping[str, Any]) -> ScanningTransformer:
    kind = TOKENIZERS[config["kind"]]
    tokenizer: ScanningTransformer = kind(**parameters_from_json(config["options"], kind))
    _ = tokenizer.scanner  # raises ValueError if the options contradict each other
    return tokenizer
