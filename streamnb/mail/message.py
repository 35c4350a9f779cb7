"""A parsed message, and its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from streamnb._core import hidden_spans
from streamnb.mail.charsets import LATIN, decode_part, to_utf8
from streamnb.mail.content_types import ARMOR_START, FORMATTED_TYPES, is_html, is_text
from streamnb.mail.decode import (
    decode_percent,
    decode_transfer,
    decode_words,
    loose_charset,
    parameters,
    transfer_encoding,
)
from streamnb.mail.unwrap import convert_line_ends

# All AMP pages have this style, until the mail program has loaded AMP.
_AMP_STYLE = b"body{visibility:hidden}"

_SHOWN_FIELDS = (b"subject", b"from", b"to", b"cc", b"reply-to")

Fields = list[tuple[bytes, bytes]]
Index = dict[bytes, bytes]  # lower-case name -> the first value


@dataclass(slots=True)
class Part:
    """A leaf of a message: a part without parts.

    Attributes
    ----------
    fields
        Header fields as (name, value) in bytes. For an attached message, its own header fields.
    content_type
        The content type in lower case, such as "text/html".
    payload
        The raw bytes, in their transfer encoding.
    role
        - "body": a part with content.
        - "message": the header of an attached message; its parts follow.
        - "preamble", "epilogue": text before and after the parts of a container; it is not shown.
        - "damaged": lines of a header that are not fields.
    fallback
        The charset of undeclared text: the first charset that a part declares, or "".
    name_fallback
        The charset of undeclared text in names of files; "" for a guess.
    is_cut
        True if the payload was truncated at the limit `Limits.size`.
    is_hidden
        True if the part is text before or after those of a container, and the message has more of
        it than short notes.
    read_as
        The content type used if the declared one is vague or wrong; else "".
    """

    fields: Fields
    content_type: str
    payload: bytes
    role: str = "body"
    index: Index = field(default_factory=dict, repr=False)
    fallback: str = ""
    name_fallback: str = ""
    is_cut: bool = False
    is_hidden: bool = False
    read_as: str = ""
    _content: bytes | None = field(default=None, init=False, repr=False, compare=False)
    _utf8: bytes | None = field(default=None, init=False, repr=False, compare=False)
    _hidden_spans: bytes | Literal[False] | None = field(
        default=False, init=False, repr=False, compare=False
    )
    _parameters: Mapping[str, str] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    @property
    def parameters(self) -> Mapping[str, str]:
        """The parameters of the Content-Type."""
        if self._parameters is None:
            value = self.index.get(b"content-type")
            self._parameters = parameters(value, self.name_fallback) if value else {}
        return self._parameters

    @property
    def charset(self) -> str:
        """The declared charset, or ""."""
        return self.parameters.get("charset") or loose_charset(self.index.get(b"content-type", b""))

    @property
    def filename(self) -> str:
        """The file name of the part, or ""."""
        disposition = self.index.get(b"content-disposition")
        name = parameters(disposition, self.name_fallback).get("filename") if disposition else None
        name = name or self.parameters.get("name")
        return decode_percent(name) if name else ""

    @property
    def is_text(self) -> bool:
        """True if the payload is text."""
        return is_text(self.read_as or self.content_type)

    @property
    def is_html(self) -> bool:
        """True if the payload is HTML."""
        return is_html(self.read_as or self.content_type)

    @property
    def hidden_spans(self) -> bytes | None:
        """The invisible spans of `utf8` in HTML; cached."""
        if self._hidden_spans is False:
            page = self.utf8
            if self.content_type == "text/x-amp-html":
                page = page.replace(_AMP_STYLE, b" " * len(_AMP_STYLE))
            self._hidden_spans = hidden_spans(page) if self.is_html else None
        return self._hidden_spans

    @property
    def content(self) -> bytes:
        """The payload without its transfer encoding; cached for text."""
        content = self._content
        if content is None:
            encoding = transfer_encoding(self.index)
            content = decode_transfer(self.payload, encoding) if encoding else self.payload
            content = _without_cut_character(content) if self.is_cut else content
            if content is self.payload or self.is_text:
                self._content = content
        return content

    @property
    def text(self) -> str:
        """The decoded text; "" if the part is not text."""
        if not self.is_text:
            return ""
        return decode_part(self._plain_content(), self.charset, self.is_html, self.fallback)

    def _plain_content(self) -> bytes:
        """The content as plain text or HTML, without line breaks in words and data of PGP."""
        value = self.index.get(b"content-type", b"")
        content = self.content
        is_plain = self.content_type not in FORMATTED_TYPES and value.lower().find(b"delsp") < 0
        if is_plain and content.find(ARMOR_START) < 0:
            return content
        from streamnb.mail.text_formats import convert_format  # here: few mails need it

        return convert_format(content, self.content_type, self.parameters)

    @property
    def utf8(self) -> bytes:
        """The text as normalized (NFC) UTF-8 with LF line ends; cached for all views."""
        if self._utf8 is None:
            text = b""
            if self.is_text:
                text = to_utf8(self._plain_content(), self.charset, self.is_html, self.fallback)
            self._utf8 = convert_line_ends(text)
        return self._utf8


@dataclass
class Mail:
    """A parsed message.

    Attributes
    ----------
    fields
        Header fields in order, as (name, value) in bytes; values include their folding.
    parts
        The leaves of the message, in order.
    defects
        Damage, exceeded limits, and parts that could not be read.
    source
        The bytes of the message, with LF line ends.
    charset
        The first charset that a part declares; "" for a guess for each header field in raw 8-bit
        text.
    has_many_encoded_fields
        Whether `decode` guesses only for the fields that mail programs show, to bound the time.
    """

    fields: Fields = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    defects: list[str] = field(default_factory=list)
    index: Index = field(default_factory=dict, repr=False)
    source: bytes = field(default=b"", repr=False)
    charset: str = ""
    has_many_encoded_fields: bool = False

    @cached_property
    def headers(self) -> list[tuple[str, str]]:
        """The decoded header fields: names as written, values unfolded."""
        return [(name.decode("ascii"), self.decode(value)) for name, value in self.fields]

    def decode(self, value: bytes) -> str:
        """Return the decoded value of a header field of this message."""
        if self.has_many_encoded_fields and value not in self._shown_values:
            return decode_words(value, LATIN)
        return decode_words(value, self.charset)

    @cached_property
    def _shown_values(self) -> set[bytes | None]:
        return {self.index.get(name) for name in _SHOWN_FIELDS}

    def get(self, name: str) -> str:
        """Return the decoded value of the first field of that name, or ""."""
        value = self.index.get(name.encode("latin-1", "replace").lower(), b"")
        return decode_words(value, self.charset)

    @property
    def text(self) -> str:
        """The decoded text of all text parts."""
        return "\n".join(p.text for p in self.parts if p.is_text and p.role != "damaged")


def _without_cut_character(content: bytes) -> bytes:
    """Drop an incomplete UTF-8 sequence from the end of a truncated text."""
    for size in range(1, min(4, len(content)) + 1):
        byte = content[-size]
        if byte >= 0xC0:
            wanted = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return content[:-size] if size < wanted else content
        if byte < 0x80:
            break
    return content
