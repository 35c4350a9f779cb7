"""Mail to tokens: header fields, bodies, HTML, web addresses and attachments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from streamnb import _core
from streamnb.features.words import ScanningTransformer, WordParametersMixin
from streamnb.mail import Limits, Mail, Part, parse
from streamnb.mail.decode import decode_words
from streamnb.mail.parse import DEFAULT_LIMITS
from streamnb.parameters import Flag, Names, Choice, parameter, parameter_class

REMEMBERED = 1000  # names of fields that what is read of them is kept for: senders invent names

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


def as_mail(x: Any, limits: Limits = DEFAULT_LIMITS) -> Mail:
    """A mail as it was parsed, or parsed from its bytes or text."""
    if isinstance(x, Mail):
        return x
    if isinstance(x, str):
        x = x.encode("utf-8", "surrogatepass")
    if not isinstance(x, bytes):
        raise TypeError(f"a mail must be bytes, str or Mail, not {type(x).__name__}")
    return parse(x, limits)


@parameter_class(kw_only=True)
class MailTransformer(ScanningTransformer):
    """What reads a mail's header, but for the fields that filters stamp."""

    headers: bool = parameter(
        Flag(), "counts", "Whether header fields other than the subject are read.", default=True
    )
    drop_headers: Sequence[str] | None = parameter(
        Names(none=True),
        "counts",
        "Further fields to leave out: one that holds the label, for instance.",
        default=None,
    )

    def reads(self, lower: bytes) -> bool:
        """Whether a field is read, by its name in lower case."""
        dropped = (drop.lower().encode() for drop in self.drop_headers or ())
        wanted = self.headers or lower == b"subject"
        return wanted and not is_stamped(lower) and lower not in dropped

    def _changed(self, name: str) -> None:
        super()._changed(name)
        self._kept: dict[bytes, bool] = {}

    def _keeps(self, name: bytes) -> bool:
        """Whether a field is read, by its name as it stands; some answers are remembered."""
        keep = self.reads(name.lower())
        if len(self._kept) < REMEMBERED:
            self._kept[name] = keep
        return keep


@parameter_class()
class MailTokenizer(MailTransformer, WordParametersMixin):
    r"""Words of a whole mail, each with the place it was found in; a river transformer.

    Words of a header field carry its name (`subject:offer`), parts of a web address `url:`, tags
    and attributes of HTML `html:`, types and names of parts `type:` and `name:`; words of the
    bodies carry nothing. Fields that filters stamp are never tokens. A mail is bytes, a str or a
    parsed `Mail`. Shouting is evidence, so by default case makes a difference.

    Examples
    --------
    >>> from streamnb import MailTokenizer
    >>> mail = b"Subject: Big offer\nX-Spam-Flag: YES\n\nBuy at http://www.example.com/now!"
    >>> list(MailTokenizer().transform_one(mail))  # doctest: +NORMALIZE_WHITESPACE
    ['subject:Big', 'subject:offer', 'type:text/plain', 'Buy', 'at',
     'url:www.example.com', 'url:example.com', 'url:com', 'url:now']
    """

    casefold: bool = parameter(Flag(), "counts", "Whether case makes no difference.", default=False)
    part: str = parameter(
        Choice(("all", "header", "body")),
        "counts",
        '"header" for the words of header fields alone, "body" for all but those.',
        default="all",
    )

    def _changed(self, name: str) -> None:
        super()._changed(name)
        self._prefixes: dict[bytes, bytes | None] = {}

    def _new_scanner(self) -> _core.Scanner:
        return _core.Scanner(**self._scanner_options(), urls=True)

    def _prefix(self, name: bytes) -> bytes | None:
        """The prefix of a field's words, None for a field that is left out."""
        lower = name.lower()
        prefix = lower[:40] + b":" if self.reads(lower) else None
        if len(self._prefixes) < REMEMBERED:
            self._prefixes[name] = prefix
        return prefix

    def _count_part(self, scanner: _core.Scanner, part: Part) -> None:
        if part.role == "message" and self.part != "body":
            scanner.fields(part.fields, self._prefixes, self._prefix, decode_words)
        if self.part == "header":
            return
        scanner.token(part.content_type.encode(), b"type:")
        if part.role == "message":
            return  # its content follows as a part of its own
        if part.content_type == "text/html":
            scanner.html(part.utf8)
        elif part.is_text:
            scanner.text(part.utf8)
        if part.fields and (name := part.filename):
            scanner.text(name, b"name:")

    def _scan(self, scanner: _core.Scanner, message: bytes | str | Mail) -> None:
        mail = as_mail(message)
        if self.part != "body":
            scanner.fields(mail.fields, self._prefixes, self._prefix, decode_words)
        for part in mail.parts:
            self._count_part(scanner, part)
