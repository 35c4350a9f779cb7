"""The base of all tokenizers, the tokenizer of plain text, and the tokenizer of a function."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from river import base

from streamnb import _core
from streamnb.constraints import Boolean, Choice, Constraint, Integer, IntegerRange, NameList, Text
from streamnb.features.text_input import list_names, read_column
from streamnb.features.token_counts import CountedMessages, TokenCounts
from streamnb.features.vectorizer import VectorizerMixin
from streamnb.mail.normalization import normalize_nfc
from streamnb.parameters import ParametersMixin, inherited, parameter, parameter_class


class ScanningTransformer(VectorizerMixin, ParametersMixin, base.Transformer):
    """Base of the tokenizers, with one compiled scanner, created on first use.

    The scanner is not pickled. Threads can share a tokenizer, because a lock protects each message.
    """

    unpickled_attributes: ClassVar[tuple[str, ...]] = ("lock", "_scanner", "_params_version")
    _scanner: Any = None
    _params_version: int = 0  # changes with every parameter
    on: str | None

    def _new_scanner(self) -> Any:
        raise NotImplementedError

    @property
    def scanner(self) -> Any:
        """The compiled scanner with the options of this tokenizer."""
        scanner = self._scanner
        if scanner is None:
            with self.lock:
                scanner = self._scanner = self._scanner or self._new_scanner()
        return scanner

    def _on_change(self, name: str) -> None:
        self._scanner = None
        self._params_version += 1

    def count(self, x: Any) -> TokenCounts:
        """Return the `TokenCounts` of a text or message, which is the fastest input of models.

        Parameters
        ----------
        x : str, bytes, Mail or dict
            The text or message or, with `on`, a dict that has it under that key.

        Raises
        ------
        TypeError
            If x is of another type.
        """
        if self.on is not None or (type(x) is not bytes and isinstance(x, bytes)):
            x = read_message(x, self.on)
        with self.lock:
            return self._count(x)

    def _count(self, message: Any) -> TokenCounts:
        scanner = self._scanner or self.scanner
        try:
            self._scan(scanner, message)
            return TokenCounts.unchecked(*scanner.finish())
        except BaseException as error:
            scanner.discard()
            if isinstance(error, TypeError) and isinstance(message, Mapping):
                raise TypeError(
                    "a dict is not a text: set on= to the key of its text (on='text')"
                ) from None
            raise

    def _scan(self, scanner: Any, message: Any) -> None:
        raise NotImplementedError

    def learn_many(self, X: Any) -> None:
        """Do nothing, because a tokenizer has no state. River's pipelines call this method."""

    def transform_many(self, X: Any) -> Any:
        """Return the token counts of each message of a list, a series or (with `on`) a frame.

        For a pandas series or frame, the result is a frame with the same index and a sparse column
        for each token. The columns are created only when a model of another library, such as
        scikit-learn, reads them.
        Otherwise the result is a list of `TokenCounts`.

        Examples
        --------
        >>> from streamnb import MultinomialNB, Tokenizer
        >>> model = Tokenizer() | MultinomialNB()
        >>> model.learn_many(["free offer", "lunch"], ["spam", "ham"])
        >>> model.predict_many(["offer", "lunch"]).tolist()
        ['spam', 'ham']
        """
        if isinstance(X, (str, bytes, Mapping)) or (self.on is None and hasattr(X, "columns")):
            raise TypeError(
                "X must be a list or series of messages; for a data frame set `on` to a column"
            )
        make_result: Any = CountedMessages
        if hasattr(X, "iloc"):
            from streamnb.features.counted_frame import CountedFrame

            make_result = CountedFrame
        if isinstance(X, (list, tuple)) or self.on is None:
            return make_result(map(self.count, X), X)
        with self.lock:
            return make_result(map(self._count, read_column(X, self.on)), X)

    @property
    def tokenizers(self) -> list[ScanningTransformer]:
        """The tokenizers of the views: only this one."""
        return [self]

    @property
    def params_version(self) -> int:
        """A number that changes with every parameter."""
        return self._params_version

    def name(self, fingerprint: int, stored_name: Any) -> Any:
        """Return the display name of a feature, from the name that the model stored."""
        return stored_name

    def transform_one(  # type: ignore[override]  # a dict of str is a dict of names
        self, x: Any
    ) -> dict[str, float]:
        """Return the counts of the tokens of a text or message, by token."""
        tokens = self.count(x)
        counts = [int(count) if count.is_integer() else count for count in tokens.counts.tolist()]
        return {str(tokens.name(i)): count for i, count in enumerate(counts)}

    def _more_tags(self) -> set[str]:
        return {"text input"}


def read_message(x: Any, on: str | None) -> Any:
    """Return the message in a dict under the key `on`; x itself if `on` is None.

    A message of a subclass of bytes is converted.

    Raises
    ------
    ValueError
        If the dict has no such key; the message names its keys.
    TypeError
        If x cannot have keys.
    """
    try:
        message = x if on is None else x[on]
        # The compiled scanners take no subclass of bytes, such as numpy's.
        is_subclass = isinstance(message, bytes) and type(message) is not bytes
        return bytes(message) if is_subclass else message
    except KeyError:
        raise ValueError(f"on: the message has no key {on!r}; it has {list_names(x)}") from None
    except (TypeError, IndexError):
        raise TypeError(
            f"on={on!r}: a message must be a dict with this key, not a {type(x).__name__}"
        ) from None


# Parameters of `WordParametersMixin` that are options of the compiled scanner.
_SCANNER_OPTIONS = (
    *("casefold", "inner", "min_length", "max_length", "ngrams", "binary", "sublinear"),
    "keep_names",
)


@parameter_class()
class WordParametersMixin:
    """Parameters of the tokenizers that count words.

    Parameters
    ----------
    casefold
        True to ignore case.
    inner
        ASCII characters that are part of a word if word characters are on both sides.
    min_length
        Characters of the shortest word; shorter ones are left out.
    max_length
        Characters of the longest word; longer ones are left out.
    ngrams
        Smallest and largest n-gram: (1, 2) for words and pairs of words.
    binary
        True to count each distinct token once (Metsis, Androutsopoulos and Paliouras, 2006).
    sublinear
        True to count a token with n occurrences as 1 + log2(n) (Manning, Raghavan and Schuetze
        2008, section 6.4.1). The logarithm is interpolated linearly between powers of two. No
        effect with `binary`.
    keep_names
        True to pass the names of tokens to the model, for display.
    on
        Key of the message if x is a dict.
    """

    casefold: bool = parameter(Boolean(), "counts", default=True)
    inner: str = parameter(
        Constraint(
            lambda value: isinstance(value, str) and set(value) <= set(string.punctuation),
            "a text of ASCII punctuation marks",
        ),
        "counts",
        default="'-.$!",
    )
    min_length: int = parameter(Integer(1, 10**6), "counts", default=1)
    max_length: int = parameter(Integer(1, 10**6), "counts", default=40)
    ngrams: tuple[int, int] = parameter(IntegerRange(1, 8), "counts", default=(1, 1))
    binary: bool = parameter(Boolean(), "counts", default=False)
    sublinear: bool = parameter(Boolean(), "counts", default=False)
    keep_names: bool = parameter(Boolean(), "counts", default=True)
    on: str | None = parameter(Text(none=True), "counts", default=None)

    def _scanner_options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _SCANNER_OPTIONS}


@parameter_class()
class Tokenizer(WordParametersMixin, ScanningTransformer):
    """Counts of the words of a text; a river transformer.

    A word is a run of letters, digits and underscores of any script, with their combining marks,
    normalized (NFC). Invisible characters (soft hyphens, zero-width spaces) are skipped, so they
    cannot split a word. In scripts without spaces (Chinese, Japanese, Thai ...) each pair of
    adjacent characters is a token. A text is a str or UTF-8 bytes.

    Parameters
    ----------
    analyzer
        "word"; or "char" for n-grams of characters, in which each run of white space is one space.
    stop_words
        Words to leave out. If `casefold` is true, their case is ignored too.
    urls
        True to split web addresses into host, domains and words of the path, prefixed `url:`.

    Examples
    --------
    >>> from streamnb import Tokenizer
    >>> Tokenizer().transform_one("Don't panic! DON'T, I said: 東京都")
    {"don't": 2, 'panic': 1, 'i': 1, 'said': 1, '東京': 1, '京都': 1}
    >>> Tokenizer(ngrams=(2, 2), stop_words=("the",)).transform_one("the quick brown fox")
    {'quick brown': 1, 'brown fox': 1}
    >>> Tokenizer(analyzer="char", ngrams=(3, 3)).transform_one("Spam")
    {'spa': 1, 'pam': 1}
    """

    analyzer: str = parameter(Choice(("word", "char")), "counts", default="word")
    stop_words: Sequence[str] | None = parameter(NameList(none=True), "counts", default=None)
    urls: bool = parameter(Boolean(), "counts", default=False)

    def _new_scanner(self) -> _core.Scanner:
        return _core.Scanner(
            **self._scanner_options(),
            by_character=self.analyzer == "char",
            urls=self.urls,
            stop=list(map(self._as_token, self.stop_words or ())),
        )

    def _as_token(self, word: str) -> str:
        """Return a stop word in the form of tokens: folded, NFC, without invisible letters."""
        if self.analyzer == "word":
            single = {"ngrams": (1, 1), "min_length": 1, "keep_names": True}
            scanner = _core.Scanner(**self._scanner_options() | single)
            scanner.text(normalize_nfc(word))
            tokens = TokenCounts.unchecked(*scanner.finish())
            if len(tokens) == 1:
                return str(tokens.name(0))
        return word.casefold() if self.casefold else word

    def _scan(self, scanner: _core.Scanner, message: str | bytes) -> None:
        if isinstance(message, (str, bytes)):  # the scanner raises TypeError for other types
            message = normalize_nfc(message)  # type: ignore[type-var]  # the type of the argument
        scanner.text(message)


@parameter_class()
class CallableTokenizer(ScanningTransformer):
    """Counts of the tokens that your own function returns for a text; a river transformer.

    The function gets a text and returns its tokens, or a mapping of tokens to counts. A token is a
    str, bytes, int or a tuple of them, and can be repeated. You can pass the function itself in
    place of a tokenizer. A file cannot store a function: save only the model, and create the
    classifier again from function and model.

    Parameters
    ----------
    function
        Returns the tokens of a text.

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
        Constraint(callable, "a function from a text to its tokens"), "counts", default=str.split
    )
    keep_names: bool = inherited(WordParametersMixin, "keep_names")
    on: str | None = inherited(WordParametersMixin, "on")

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
