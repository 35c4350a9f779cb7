"""Mail to tokens: header fields, bodies, HTML, web addresses and attachments."""

from __future__ import annotations

import re
from typing import Any

from streamnb import _core
from streamnb.mail import Limits, Mail, Part, parse
from streamnb.mail.decode import decode_words
from streamnb.mail.parse import DEFAULT_LIMITS
from streamnb.tokens import ScanningTransformer, TokenCounts

__all__ = ["MailTokenizer", "is_stamped"]

# Fields that filters stamp, our own included, and fields in which mail programs keep what the user
# did with a message: to learn from them is to learn from the answer.
STAMPED = re.compile(
    rb"x-(?:spam|bogosity|bogofilter|crm114|dspam|spambayes|spamprobe|spamd|rspamd|text-classification"
    rb"|streamnb|antispam|anti-spam|asf-spam|sa-|scanned|virus|amavis|mailscanner|barracuda|ironport"
    rb"|proofpoint|mimedefang|microsoft-antispam|ms-exchange-organization-scl|forefront-antispam"
    rb"|ham|junk|pyzor|razor|dcc|hits|perlmx|pmx|cloudmark|gmail-labels|keywords|label|mozilla|status|uid"
    rb"|evolution|gnus|imap|folder)"
    rb"|(?:status|content-length|lines|old-x-spam|spam)"
)


def is_stamped(name: bytes) -> bool:
    """Whether a header field, in lower case, is one that filters or mail programs stamp."""
    return STAMPED.match(name) is not None


class MailTokenizer(ScanningTransformer):
    r"""Words of a whole mail, each with the place it was found in; a river transformer.

    Words of a header field carry its name (`subject:offer`), parts of a web address `url:`, tags
    and attributes of HTML `html:`, types and names of parts `type:` and `name:`; words of the
    bodies carry nothing. Fields that filters stamp are never tokens.

    Parameters
    ----------
    casefold
        Whether case makes no difference. Shouting is evidence, so by default it does.
    inner, min_length, max_length, ngrams, binary, keep_names
        As for `Tokenizer`.
    headers
        Whether header fields other than the subject are read.
    drop_headers
        Further fields to leave out: one that holds the label, for instance.
    on
        Key of the message where x is a dict.

    Examples
    --------
    >>> from streamnb import MailTokenizer
    >>> mail = b"Subject: Big offer\nX-Spam-Flag: YES\n\nBuy at http://www.example.com/now!"
    >>> list(MailTokenizer().transform_one(mail))  # doctest: +NORMALIZE_WHITESPACE
    ['subject:Big', 'subject:offer', 'type:text/plain', 'Buy', 'at',
     'url:www.example.com', 'url:example.com', 'url:com', 'url:now']
    """

    def __init__(
        self,
        casefold: bool = False,
        inner: str = "'-.$!",
        min_length: int = 1,
        max_length: int = 40,
        ngrams: tuple[int, int] = (1, 1),
        binary: bool = False,
        headers: bool = True,
        drop_headers: tuple[str, ...] | None = None,
        keep_names: bool = True,
        on: str | None = None,
    ) -> None:
        self.casefold = casefold
        self.inner = inner
        self.min_length = min_length
        self.max_length = max_length
        self.ngrams = ngrams
        self.binary = binary
        self.headers = headers
        self.drop_headers = drop_headers
        self.keep_names = keep_names
        self.on = on
        self._prefixes: dict[bytes, bytes | None] = {}

    def _new_scanner(self) -> _core.Scanner:
        return _core.Scanner(
            casefold=self.casefold,
            inner=self.inner,
            shortest=self.min_length,
            longest=self.max_length,
            first=self.ngrams[0],
            last=self.ngrams[1],
            urls=True,
            binary=self.binary,
            keep_names=self.keep_names,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_prefixes": {}}

    def _prefix(self, name: bytes) -> bytes | None:
        """The prefix of a field's words, None for a field that is left out."""
        lower = name.lower()
        dropped = (
            is_stamped(lower)
            or (not self.headers and lower != b"subject")
            or lower in {drop.lower().encode() for drop in self.drop_headers or ()}
        )
        prefix = None if dropped else lower[:40] + b":"
        if len(self._prefixes) < 1000:  # senders invent field names: remember only so many
            self._prefixes[name] = prefix
        return prefix

    def _count_part(self, part: Part) -> None:
        scanner = self.scanner
        scanner.token(part.content_type.encode(), b"type:")
        if part.role == "message":
            scanner.fields(part.fields, self._prefixes, self._prefix, decode_words)
            return  # its content follows as a part of its own
        if part.content_type == "text/html":
            scanner.html(part.utf8)
        elif part.is_text:
            scanner.text(part.utf8)
        if part.fields and (name := part.filename):
            scanner.text(name, b"name:")

    def count(self, x: Any, limits: Limits = DEFAULT_LIMITS) -> TokenCounts:
        """Count the tokens of a message.

        Parameters
        ----------
        x
            The message's bytes, a str, a parsed `Mail`, or (with `on`) a dict with one of them.
        limits
            Bounds on what is read of the message.
        """
        message = x if self.on is None else x[self.on]
        if isinstance(message, str):
            message = message.encode("utf-8", "surrogatepass")
        if isinstance(message, bytes):
            message = parse(message, limits)
        if not isinstance(message, Mail):
            raise TypeError(f"a mail must be bytes, str or Mail, not {type(message).__name__}")
        try:
            self.scanner.fields(message.fields, self._prefixes, self._prefix, decode_words)
            for part in message.parts:
                self._count_part(part)
            return TokenCounts._trusted(*self.scanner.finish())
        except BaseException:
            self.scanner.discard()
            raise
