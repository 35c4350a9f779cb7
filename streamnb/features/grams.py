"""N-grams of raw bytes, of characters beyond ASCII, and of words: words and adjacent pairs.

N-grams of bytes depend on no decoding and no word boundaries, so a sender can hardly evade them.
"""

from __future__ import annotations

from typing import Any

from streamnb import _core
from streamnb.constraints import Boolean, Integer
from streamnb.features.mail_words import MailTransformer, as_mail, not_a_mail
from streamnb.features.token_counts import TokenCounts
from streamnb.features.words import ScanningTransformer, WordParametersMixin
from streamnb.mail import Mail
from streamnb.mail.normalization import normalize_nfc
from streamnb.mail.unwrap import unwrap
from streamnb.parameters import inherited, parameter, parameter_class


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
    in `MailTokenizer`. A message is bytes, a str or a parsed `Mail`. Plain text (`mail=False`) is
    composed (NFC), as in the other views of texts.

    Parameters
    ----------
    n
        Length of an n-gram, in bytes.
    first
        Number of bytes read from the start, not counting skipped header fields.
    casefold
        True to convert ASCII letters to lower case.
    mail
        True if messages begin with a header, False for plain text.
    step
        If above 0, also count the suffixes of n - step, n - 2 step, ... bytes of each n-gram, for
        `ContextNB`. n must then be a multiple of step and at most 6.

    References
    ----------
    Cormack, G. V. (2007). University of Waterloo participation in the TREC 2007 spam track.

    Examples
    --------
    >>> from streamnb.features.grams import ByteGrams
    >>> ByteGrams(n=3).transform_one(b"X-Spam-Flag: YES\n\nBuy")
    {b'\nbu': 1, b'buy': 1}
    """

    n: int = parameter(Integer(1, 8), "counts", default=4)
    first: int = parameter(Integer(1, 1 << 24), "counts", default=2000)
    casefold: bool = parameter(Boolean(), "counts", default=True)
    mail: bool = parameter(Boolean(), "counts", default=True)
    step: int = parameter(Integer(0, 6), "counts", default=0)
    on: str | None = inherited(WordParametersMixin, "on")

    def _new_scanner(self) -> _core.GramScanner:
        return _core.GramScanner(self.n, self.first, self.casefold, self.step)

    def _count(self, message: bytes | str | Mail) -> TokenCounts:
        is_unwrapped = isinstance(message, Mail)
        if isinstance(message, Mail):
            message = message.source
        elif isinstance(message, str):
            message = message.encode("utf-8", "surrogatepass")
        if not isinstance(message, bytes):
            raise not_a_mail(message)
        if self.mail:
            message = message[: 64 * self.first + 65536]
            if not is_unwrapped:  # what was unwrapped can begin like another wrapper
                message = unwrap(message)
            fingerprints, counts = self.scanner.scan(
                message, self._field_is_read, self._reads_field
            )
        else:
            text = normalize_nfc(message[: 16 * self.first])
            fingerprints, counts = self.scanner.scan(text)
        return TokenCounts.unchecked(fingerprints, counts, None, None)


@parameter_class()
class CharacterGrams(InvertibleGrams):
    r"""Distinct n-grams of 1 to 3 characters, not all of them ASCII; a river transformer.

    In UTF-8, four bytes hold four Latin letters, but two Cyrillic letters or one Han, Thai or
    Bengali character. Many scripts have no spaces between words. So this view counts characters:
    composed (NFC), with case folded, and with each run of white space as one space. An ASCII text
    has none of these n-grams, because the views of words and bytes cover it. A text is a str, or
    bytes in UTF-8.

    Parameters
    ----------
    n
        Length of the longest n-gram, in characters.
    first
        Number of characters read from the start.

    Examples
    --------
    >>> from streamnb.features.grams import CharacterGrams
    >>> list(CharacterGrams().transform_one("好吃!"))
    ['好', '吃', '好吃', '吃!', '好吃!']
    >>> CharacterGrams().transform_one("good food")
    {}
    """

    n: int = parameter(Integer(1, 3), "counts", default=3)
    first: int = parameter(Integer(1, 1 << 24), "counts", default=1500)
    on: str | None = inherited(WordParametersMixin, "on")

    def name(self, fingerprint: int, stored_name: Any = None) -> str:
        """Return `characters` and the n-gram in quotes, so that it differs from words."""
        return f"characters '{self.scanner.name(fingerprint)}'"

    def _new_scanner(self) -> _core.CharacterScanner:
        return _core.CharacterScanner(self.n, self.first)

    def _count(self, message: str | bytes) -> TokenCounts:
        if not isinstance(message, (str, bytes)):
            raise TypeError(f"a text must be a str or bytes, not {type(message).__name__}")
        text = message[: 16 * self.first]  # runs of white space become shorter
        if isinstance(text, bytes):
            text = text.decode("utf-8", "surrogateescape")
        text = "" if text.isascii() else " ".join(normalize_nfc(text).casefold().split())
        fingerprints, counts = self.scanner.scan(text)
        return TokenCounts.unchecked(fingerprints, counts, None, None)


@parameter_class()
class WordPairs(MailTransformer):
    r"""Distinct tokens of a message and pairs of adjacent tokens; a river transformer.

    A token is either a run of letters, digits, underscores, apostrophes and non-ASCII characters,
    or a run of other characters without white space. ASCII letters become lower case. In a mail,
    header fields are decoded and read with their names, and HTML is read with its tags. A message
    is bytes, a str or (with `mail`) a parsed `Mail`.

    Parameters
    ----------
    first
        Number of tokens read from the start of a message.
    mail
        True if a message is a mail; False for plain text.

    References
    ----------
    Siefkes, C., Assis, F., Chhabra, S. and Yerazunis, W. (2004). Combining Winnow and orthogonal
    sparse bigrams for incremental spam filtering. PKDD 2004.

    Examples
    --------
    >>> from streamnb.features.grams import WordPairs
    >>> list(WordPairs(mail=False).transform_one("Buy NOW!!"))
    ['buy', 'now', 'buy now', '!!', 'now !!']
    """

    first: int = parameter(Integer(1, 1 << 20), "counts", default=4000)
    mail: bool = parameter(Boolean(), "counts", default=True)
    keep_names: bool = inherited(WordParametersMixin, "keep_names")
    on: str | None = inherited(WordParametersMixin, "on")

    def _new_scanner(self) -> _core.PairScanner:
        return _core.PairScanner(self.first, self.keep_names)

    def name(self, fingerprint: int, stored_name: Any) -> Any:
        """Return the tokens in quotes, so that they differ from words of another view."""
        return f'"{stored_name}"' if isinstance(stored_name, str) else stored_name

    def _scan(self, scanner: _core.PairScanner, message: Any) -> None:
        if self.mail:
            self._scan_mail(scanner, as_mail(message))
        elif isinstance(message, str):
            scanner.add(normalize_nfc(message).encode("utf-8", "surrogatepass"))
        elif isinstance(message, bytes):
            scanner.add(normalize_nfc(message))
        else:
            raise TypeError(f"a text must be a str or bytes, not {type(message).__name__}")

    def _scan_mail(self, scanner: _core.PairScanner, mail: Mail) -> None:
        scanner.fields(mail.fields, self._field_is_read, self._reads_field, mail.decode)
        for part in mail.parts:
            if part.role == "message":
                scanner.fields(part.fields, self._field_is_read, self._reads_field, mail.decode)
            elif part.is_html:
                scanner.add(part.utf8, part.hidden_spans)
            elif part.is_text and not part.is_hidden:
                scanner.add(part.utf8)
