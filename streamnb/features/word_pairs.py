"""Tokens of any text and pairs of neighbours: words as they stand, and what stands between them."""

from __future__ import annotations

from typing import Any

from streamnb import _core
from streamnb.features.mail_words import MailTransformer, as_mail
from streamnb.features.words import KEEP_NAMES, ON
from streamnb.mail import Mail
from streamnb.mail.decode import normalize_nfc, decode_words
from streamnb.parameters import Boolean, Integer, parameter, parameter_class


@parameter_class()
class WordPairs(MailTransformer):
    r"""Which tokens a message has, and which of them follow each other; a river transformer.

    A token is a run of letters, digits, low lines, apostrophes and all that is not ASCII, or of
    other characters but white space; ASCII letters are lowered. Of a mail, header fields are read
    with their names, decoded, and bodies as they were decoded, with the tags of HTML. A message is
    bytes, a str or (with `mail`) a parsed `Mail`.

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
        Integer(1, 1 << 20), "counts", "How many tokens of a message are looked at.", default=4000
    )
    mail: bool = parameter(
        Boolean(), "counts", "Whether a message is a mail; False for plain text.", default=True
    )
    keep_names: bool = KEEP_NAMES
    on: str | None = ON

    def _new_scanner(self) -> _core.PairScanner:
        return _core.PairScanner(self.first, self.keep_names)

    def name(self, fingerprint: int, known: Any) -> Any:
        """The tokens in quotes: a word of another view may be called the same."""
        return f'"{known}"' if isinstance(known, str) else known

    def _scan(self, scanner: _core.PairScanner, message: Any) -> None:
        if self.mail:
            self._scan_mail(scanner, as_mail(message))
        elif isinstance(message, str):
            scanner.add(normalize_nfc(message).encode("utf-8", "surrogatepass"))
        elif isinstance(message, bytes):
            scanner.add(normalize_nfc(message))
        else:
            raise TypeError(f"a text must be bytes or str, not {type(message).__name__}")

    def _scan_mail(self, scanner: _core.PairScanner, mail: Mail) -> None:
        scanner.fields(mail.fields, self._kept, self._keeps, decode_words)
        for part in mail.parts:
            if part.role == "message":
                scanner.fields(part.fields, self._kept, self._keeps, decode_words)
            elif part.is_text or part.content_type == "text/html":
                scanner.add(part.utf8)
