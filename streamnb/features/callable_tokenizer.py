"""A tokenizer that calls a function from a text to its tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from streamnb.features.token_counts import TokenCounts
from streamnb.features.words import KEEP_NAMES, ON, ScanningTransformer
from streamnb.parameters import Constraint, parameter, parameter_class


@parameter_class()
class CallableTokenizer(ScanningTransformer):
    """Counts of the tokens that your own function returns for a text; a river transformer.

    The function gets a text and returns its tokens, or a mapping of tokens to counts. A token is a
    str, bytes, int or a tuple of them, and can be repeated. You can pass the function itself in
    place of a tokenizer. A file cannot store a function: save only the model, and create the
    classifier again from function and model.

    Examples
    --------
    >>> from streamnb import Classifier, MultinomialNB
    >>> classifier = Classifier(str.split, MultinomialNB())
    >>> classifier.learn_one("free offer", "spam")
    >>> classifier.learn_one("lunch at noon", "ham")
    >>> classifier.predict_one("an offer")
    'spam'
    """

    function: Callable[[Any], Iterable[Any]] | None = parameter(
        Constraint(callable, "a function from a text to its tokens"),
        "counts",
        "Returns the tokens of a text.",
        default=str.split,
    )
    keep_names: bool = KEEP_NAMES
    on: str | None = ON

    def _describe(self) -> str:
        name = getattr(self.function, "__qualname__", repr(self.function))
        return f"the tokenizer {name}"

    def _count(self, message: Any) -> TokenCounts:
        tokens: Any = self.function(message)  # type: ignore[misc]  # never None
        if isinstance(tokens, TokenCounts):
            return tokens
        if isinstance(tokens, str | bytes) or not isinstance(tokens, Iterable):
            raise TypeError(
                f"{self._describe()} returned {tokens!r:.80}: expected the tokens of a text, "
                "such as a list of str"
            )
        try:
            counts = tokens if isinstance(tokens, Mapping) else Counter(tokens)
            return TokenCounts.from_dict(counts, None, self.keep_names)
        except TypeError as error:
            raise TypeError(f"{self._describe()} returned a wrong token: {error}") from error
