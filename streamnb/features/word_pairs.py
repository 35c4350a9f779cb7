"""Tokens of text and pairs of adjacent tokens, punctuation included."""

from __future__ import annotations

from typing import Any

from streamnb import _core
from streamnb.features.mail_words import MailTransformer, as_mail
from streamnb.features.words import KEEP_NAMES, ON
from streamnb.mail import Mail
from streamnb.mail.normalization import normalize_nfc
from streamnb.parameters import Boolean, Integer, parameter, parameter_class


@parameter_class()
class WordPairs(MailTransformer):
    r"""Distinct tokens of a message and pairs of adjacent tokens; a river transformer.

    A token is either a run of letters, digits, underscores, apostrophes and non-ASCII characters,
    or a run of other characters without white space. ASCII letters become lower case. In a mail,
    header fields are decoded and read with their names, and HTML is read with its tags. A message
    is bytes, a str or (with `mail`) a parsed `Mail`.

    References
    ----------
    Siefkes, C., Assis, F., Chhabra, S. and Yerazunis, W. (2004). Combining Winnow and orthogonal
    sparse bigrams for incremental spam filtering. PKDD 2004.

    Examples
    --------
    >>> from streamnb.features.word_pairs import WordPairs
    >>> list(WordPairs(mail=False).transform_one("Buy NOW!!"))
    ['buy', 'now', 'buy now', '!!', 'now !!']
    """

    first: int = parameter(
        Integer(1, 1 << 20),
        "counts",
        "Number of tokens read from the start of a message.",
        default=4000,
    )
    mail: bool = parameter(
        Boolean(), "counts", "True if a message is a mail; False for plain text.", default=True
    )
    keep_names: bool = KEEP_NAMES
    on: str | None = ON

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
            elif part.is_text:
                scanner.add(part.utf8)
