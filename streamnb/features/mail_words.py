"""Words of mail: header fields, bodies, HTML, web addresses and attachments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from streamnb import _core
from streamnb.constraints import Boolean, Choice, NameList
from streamnb.features.words import ScanningTransformer, WordParametersMixin
from streamnb.mail import Mail, Part, parse
from streamnb.mail.decode import decode_transfer, transfer_encoding
from streamnb.parameters import parameter, parameter_class
from streamnb.patterns import lazy_pattern

MAX_CACHED_FIELDS = 1000  # limit of the cache, because senders can invent any field names

# Fields with the verdict of a filter (including streamnb), or with the state in a mail program. A
# model that learns them would learn the label.
STAMPED = lazy_pattern(
    rb"x-(?:spam|bogosity|bogofilter|crm114|dspam|spambayes|spamprobe|spamd|rspamd|text-classification"
    rb"|streamnb|antispam|anti-spam|asf-spam|sa-|scanned|virus|amavis|mailscanner|barracuda|ironport"
    rb"|proofpoint|mimedefang|microsoft-antispam|ms-exchange-organization-scl|forefront-antispam"
    rb"|ham|junk|pyzor|razor|dcc|hits|perlmx|pmx|cloudmark|gmail-labels|keywords|label|mozilla|status|uid"
    rb"|evolution|gnus|imap|folder)"
    rb"|(?:status|content-length|lines|old-x-spam|spam)"
)


def is_stamped(name: bytes) -> bool:
    """Return True if filters or mail programs add the field with this lower-case name."""
    return STAMPED.match(name) is not None


def attachment_tokens(part: Part) -> tuple[bytes, bytes]:
    r"""Return the size of an attachment, as a power of two, and its first bytes.

    Examples
    --------
    >>> attachment_tokens(Part([], "application/zip", b"PK\3\4" * 100))
    (b'size:9', b'bytes:504b0304')
    """
    encoding = transfer_encoding(part.index)
    beginning = decode_transfer(part.payload[:80], encoding)[:4]
    size = len(part.payload) * (3 if encoding == b"base64" else 4) // 4
    return b"size:%d" % size.bit_length(), b"bytes:" + beginning.hex().encode()


def not_a_mail(x: Any) -> TypeError:
    """Return the error for an object that is not a mail, with the remedy for one of `email`."""
    hint = "; pass its as_bytes()" if hasattr(x, "as_bytes") else ""
    return TypeError(f"a mail must be bytes, str or Mail, not {type(x).__name__}{hint}")


def as_mail(x: Any) -> Mail:
    """Return a mail parsed from bytes or text; a `Mail` is returned unchanged."""
    if isinstance(x, Mail):
        return x
    if isinstance(x, str):
        x = x.encode("utf-8", "surrogatepass")
    if not isinstance(x, bytes):
        raise not_a_mail(x)
    return parse(x)


@parameter_class(kw_only=True)
class MailTransformer(ScanningTransformer):
    """Base of the tokenizers that read header fields, except fields that filters add.

    Parameters
    ----------
    headers
        True to read header fields other than the subject.
    drop_headers
        Further fields to leave out, such as a field with the label.
    """

    unpickled_attributes: ClassVar[tuple[str, ...]] = (
        *ScanningTransformer.unpickled_attributes,
        "_field_is_read",
        "_prefixes",
    )
    headers: bool = parameter(Boolean(), "counts", default=True)
    drop_headers: Sequence[str] | None = parameter(NameList(none=True), "counts", default=None)

    def is_read(self, lower: bytes) -> bool:
        """Return True if the field with this lower-case name is read."""
        dropped = (drop.lower().encode() for drop in self.drop_headers or ())
        wanted = self.headers or lower == b"subject"
        return wanted and not is_stamped(lower) and lower not in dropped

    def _on_change(self, name: str) -> None:
        super()._on_change(name)
        self._field_is_read: dict[bytes, bool] = {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._on_change("headers")  # creates the caches, which are not pickled

    def _reads_field(self, name: bytes) -> bool:
        """Return True if the field with this name is read; cache the answer."""
        is_read = self.is_read(name.lower())
        if len(self._field_is_read) < MAX_CACHED_FIELDS:
            self._field_is_read[name] = is_read
        return is_read


@parameter_class()
class MailTokenizer(MailTransformer, WordParametersMixin):
    r"""Words of a mail with a prefix for their place; a river transformer.

    | prefix | from |
    |---|---|
    | `subject:`, `from:` ... | that header field |
    | `url:` | parts of a web address |
    | `html:` | tags and attributes of HTML |
    | `type:`, `name:` | types and file names of parts |
    | `attachment:` | size and first bytes of attachments |
    | `hidden:` | invisible text of HTML, comments, signs of disguised words |
    | `damaged:` | header lines that are not fields |
    | none | the text of bodies |

    Fields that filters add are never tokens. A mail is bytes, a str or a parsed `Mail`. Case makes
    words different, unless `casefold` is set.

    Parameters
    ----------
    casefold
        True to ignore case.
    part
        "header" for header fields alone, "body" for everything else, "all" for both.

    Examples
    --------
    >>> from streamnb import MailTokenizer
    >>> mail = b"Subject: Big offer\nX-Spam-Flag: YES\n\nBuy at http://www.example.com/now!"
    >>> list(MailTokenizer().transform_one(mail))  # doctest: +NORMALIZE_WHITESPACE
    ['subject:Big', 'subject:offer', 'type:text/plain', 'Buy', 'at',
     'url:www.example.com', 'url:example.com', 'url:com', 'url:now']
    """

    casefold: bool = parameter(Boolean(), "counts", default=False)
    part: str = parameter(Choice(("all", "header", "body")), "counts", default="all")

    def _on_change(self, name: str) -> None:
        super()._on_change(name)
        self._prefixes: dict[bytes, bytes | None] = {}

    def _new_scanner(self) -> _core.Scanner:
        return _core.Scanner(**self._scanner_options(), urls=True, mark_invisible=True)

    def _prefix(self, name: bytes) -> bytes | None:
        """Return the prefix of a field's words; None if the field is not read."""
        lower = name.lower()
        prefix = lower[:40] + b":" if self.is_read(lower) else None
        if len(self._prefixes) < MAX_CACHED_FIELDS:
            self._prefixes[name] = prefix
        return prefix

    def _count_part(self, scanner: _core.Scanner, mail: Mail, part: Part) -> None:
        """Count the words of one part of a mail."""
        if part.role == "damaged":
            if self.part != "body":
                scanner.text(part.utf8, b"damaged:")
            return
        if part.role == "message" and self.part != "body":
            scanner.fields(part.fields, self._prefixes, self._prefix, mail.decode)
        if self.part == "header":
            return
        scanner.token(part.content_type.encode(), b"type:")
        if part.role == "message":
            return  # the content follows as separate parts
        if part.is_html:
            scanner.html(part.utf8, b"", part.hidden_spans)
        elif part.is_text:
            scanner.text(part.utf8, b"hidden:" if part.is_hidden else b"")
        elif part.payload:
            for token in attachment_tokens(part):
                scanner.token(token, b"attachment:")
        if part.fields and (name := part.filename):
            scanner.text(name, b"name:")

    def _scan(self, scanner: _core.Scanner, message: bytes | str | Mail) -> None:
        mail = as_mail(message)
        if self.part != "body":
            scanner.fields(mail.fields, self._prefixes, self._prefix, mail.decode)
        for part in mail.parts:
            self._count_part(scanner, mail, part)
