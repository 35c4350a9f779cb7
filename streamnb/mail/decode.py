"""Encoded words, transfer encodings and structured fields of mail.

No function raises an error. Damaged bytes are decoded as far as possible.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from io import BytesIO
from itertools import islice
from types import MappingProxyType

from streamnb.mail.charsets import LATIN, decode_text, guess_fallback
from streamnb.mail.normalization import normalize_nfc
from streamnb.patterns import lazy_pattern

# An encoded word. Some programs cut its end; it then ends at a blank.
_ENCODED_WORD = lazy_pattern(
    rb"=\?([^?*\s]{1,64})(?:\*[^?\s]*)?\?([bBqQ])\?"
    rb"((?:[^?=\n]|=(?!\?(?!=))|\?(?!=))*+(?=\?=)|[^?\s]++(?=\??(?!\S)))\??=?"
)
_CUT_BYTE = lazy_pattern(rb"=[0-9A-Fa-f]?\Z")  # an encoded byte whose digits are in the next word
_SOFT_BREAK = lazy_pattern(rb"=\n[ \t]++")
_BROKEN_WORD = lazy_pattern(  # an encoded word with soft line breaks
    rb"=\?[^?\s]{1,64}\?[qQ]\?[^?\n]*+(?:(?<=[^?]=)\n[ \t]++[^?\n]*+)++(?=\?=)"
)
_NOT_BASE64 = bytes(
    set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
)
# The last letters of base64 without padding, by the number of letters after the last four.
_LAST_LETTERS = {
    2: tuple(bytes((letter,)) for letter in b"AQgw"),
    3: tuple(bytes((letter,)) for letter in b"AEIMQUYcgkosw048"),
}
_BASE64_LINES = bytes(set(range(256)) - set(_NOT_BASE64)) + b"=\r\n"
_NOT_BASE64_OR_PADDING = _NOT_BASE64.replace(b"=", b"")
_FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")
# The alphabet of RFC 4648, 5 has no other letters; text in it hardly has two signs in a row.
_NOT_URL_SAFE = lazy_pattern(rb"[^\w-]|--|__")
_QUOTED_BYTE = lazy_pattern(rb"=(?:[0-9A-Fa-f]{2}|[ \t]*\r?\n)")
_IDENTITIES = (b"7bit", b"8bit", b"binary")  # encodings that leave the data as it is
# If a part declares several encodings, so many of its bytes are read to choose one of them.
_ENCODED_SAMPLE = 4096
# A comment in a structured field; comments nest.
COMMENT = rb"\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\)"
_QUOTED_NAME = lazy_pattern(rb"quo|x?qp|.*print")  # on names reduced to letters and digits
_COMMENTS = lazy_pattern(COMMENT)
_NOT_ALPHANUMERIC = lazy_pattern(rb"[^a-z0-9]+")
_UU_BEGIN = lazy_pattern(rb"^begin [0-7]{3,4} .", re.M)
_FOOTER_WIDTH = 40  # letters: a shorter line after a line of text is text, not base64
_LETTER_LINES = lazy_pattern(rb"(?:[A-Za-z0-9+/]*+=*+\r?\n)*+[A-Za-z0-9+/]*+=*+")
_LETTERS = lazy_pattern(rb"[^=]{2,}+")  # one letter is no byte
# mail servers add blanks to lines (RFC 2045, 6.7)
_BLANKS_AFTER_BREAK = lazy_pattern(rb"=[ \t]++\r?\n")
_PARAMETER = lazy_pattern(
    rb";\s*+(?:\([^()]*+\)\s*+)?([^\s=;\"]{1,64})\s*+=\s*+"
    rb"(?:\"((?:[^\"\\]|\\.)*+)\"?|([^\s;]*+)((?:\s++[^\s;=]++(?=[\s;]|\Z))*+))",
    re.S,
)
_NAMES_OF_FILES = frozenset(("name", "filename"))  # may have blanks without quotes
_FOLDED_BLANKS = lazy_pattern(rb"\s*\n\s*")
_QUOTED_PAIR = lazy_pattern(rb"\\(.)", re.S)
# Some programs write both fields on one line. A quoted string can be the name of a file.
_SHORTEST_JOINT = 40  # bytes: text/html Content-Transfer-Encoding:7bit
_JOINED_ENCODING = lazy_pattern(
    rb"(?:[^\"]|\"(?:[^\"\\]|\\.)*+\"|\"(?![^\"]*\"))*?content-transfer-encoding\s*[:=](.*)",
    re.I | re.S,
)
_LOOSE_CHARSET = lazy_pattern(rb"\bcharset\s*[=:]\s*[\"']?([\w.:-]{1,40})", re.I)
_MAX_PARAMETERS = 64
_MAX_ENCODED_WORDS = 1 << 13  # decoded in a field; they take 0.05 s
_NO_PARAMETERS: Mapping[str, str] = MappingProxyType({})
_TOKEN = lazy_pattern(rb"(?:\s|%b)*+(?:\"([^\"]{0,200})\"?|([^\s;,(\"]{1,200}))" % COMMENT)


class _Run:
    """Encoded words of one charset, or plain text, whose charset is "".

    Adjacent words are decoded together, because some programs split a character, an encoded
    byte, or four letters of base64, in two.
    """

    def __init__(self, charset: str) -> None:
        self.charset = charset
        self._pieces: list[bytes] = []
        self._words: list[bytes] = []  # adjacent words of base64
        self._letter_count = 0
        self._cut_byte = b""

    def add(self, piece: bytes, kind: bytes = b"") -> None:
        """Add plain text, or the text of an encoded word of a kind."""
        if kind in (b"b", b"B"):
            if self._cut_byte:  # no digits follow, so it is text
                self._pieces.append(self._cut_byte)
                self._cut_byte = b""
            self._words.append(piece.translate(None, b" \t"))
            self._letter_count += len(self._words[-1])
            if b"=" in piece or self._letter_count % 4 == 0:
                self._end_words()
            return
        piece = self._cut_byte + piece
        self._cut_byte = b""
        self._end_words()
        if kind:
            if cut := _CUT_BYTE.search(piece):
                piece, self._cut_byte = piece[: cut.start()], cut[0]
            piece = binascii.a2b_qp(piece, header=True)
        self._pieces.append(piece)

    def _end_words(self) -> None:
        if not self._words:
            return
        words = self._words if all(map(_is_whole, self._words)) else [b"".join(self._words)]
        self._pieces.extend(map(_base64, words))
        self._words, self._letter_count = [], 0

    def content(self) -> bytes:
        """Return the bytes of the text."""
        self._end_words()
        return b"".join(self._pieces) + self._cut_byte


def decode_words(value: bytes, fallback: str = "") -> str:
    """Decode the value of a header field: RFC 2047 words, raw 8-bit text, folding.

    White space between two encoded words is dropped. Adjacent words of one charset are decoded
    together. Raw 8-bit text is UTF-8, or else in the charset `fallback`; pass the charset of the
    body.

    Examples
    --------
    >>> decode_words(b"=?utf-8?q?Gr=C3?= =?utf-8?q?=BC=C3=9Fe?= aus =?iso-8859-1?b?S/ZsbiE=?=")
    'Grüße aus Köln!'
    """
    if value.find(b"=?") >= 0 and value.find(b"=\n") >= 0:
        value = _BROKEN_WORD.sub(lambda word: _SOFT_BREAK.sub(b"", word[0]), value)
    value = value.replace(b"\n", b"")
    if value.find(b"=?") < 0:
        return normalize_nfc(decode_text(value, "", fallback))
    text = _decode_runs(value, fallback)
    if "=?" in text and text.isascii() and _ENCODED_WORD.search(text.encode()):
        # Some programs encode twice. Deeper words stay encoded, because decoding all of a field
        # takes time that grows faster than its size.
        text = _decode_runs(text.encode(), fallback)
    return normalize_nfc(text)


def _decode_runs(value: bytes, fallback: str) -> str:
    """Decode the encoded words of an unfolded field, and the text between them."""
    texts = _split_runs(value)
    fallback = guess_fallback(texts, fallback)
    return "".join([decode_text(data, charset, fallback) for data, charset in texts])


def _split_runs(value: bytes) -> list[tuple[bytes, str]]:
    """Return the texts of an unfolded field, and the charset of each: "" between encoded words."""
    runs: list[_Run] = []
    position = 0
    for word in islice(_ENCODED_WORD.finditer(value), _MAX_ENCODED_WORDS):
        between = value[position : word.start()]
        if between.strip() or not runs:
            runs.append(_Run(""))
            runs[-1].add(between)
        charset = word[1].decode("ascii", "replace").lower()
        if runs[-1].charset != charset:
            runs.append(_Run(charset))
        runs[-1].add(word[3], word[2])
        position = word.end()
    runs.append(_Run(""))
    runs[-1].add(value[position:])
    return [(run.content(), run.charset) for run in runs]


def charsets_of_words(value: bytes) -> Iterator[str]:
    """Yield the charset of each encoded word of a header field."""
    return (word[1].decode("ascii", "replace") for word in _ENCODED_WORD.finditer(value))


def _is_whole(letters: bytes) -> bool:
    """Return True if letters of base64, with or without padding, encode whole bytes.

    The last letter has more bits than the last byte needs; these must be 0. Three signs of padding
    are too many for any data, so they are ignored.
    """
    if letters.endswith(b"==="):
        letters = letters.rstrip(b"=")
    count = len(letters) % 4
    return count == 0 or letters[-1:] in _LAST_LETTERS.get(count, ())


def _base64(data: bytes) -> bytes:
    """Decode base64; keep text that is mixed with it."""
    # a2b_base64 would drop the data after padding, and decode the words of a footer.
    is_clean = b"\n" not in data or not data.translate(None, _BASE64_LINES + b" \t")
    if is_clean and b"=" not in data.rstrip().rstrip(b"="):
        try:
            return binascii.a2b_base64(data)
        except binascii.Error:
            pass
    # Bad padding, or a mailing list's footer after the data. Complete groups of four letters are
    # decoded.
    letters, text = (data, b"") if _LETTER_LINES.fullmatch(data) else _split_footer(data)
    decoded = bytearray()
    for match in _LETTERS.finditer(letters.translate(None, _NOT_BASE64_OR_PADDING)):
        run = match[0][: -1 if len(match[0]) % 4 == 1 else None]
        decoded += binascii.a2b_base64(run + b"=" * (-len(run) % 4))
    return bytes(decoded + text)


def _split_footer(data: bytes) -> tuple[bytes, bytes]:
    """Return the lines of base64 letters, and the lines of text among and after them."""
    letters, text = bytearray(), bytearray()
    is_url_safe = b"+" not in data and b"/" not in data
    for line in BytesIO(data):  # a list of all lines would need much memory
        line = line.removesuffix(b"\n")
        content = line.strip(b"= \t\r>\"'")  # forwarded data can have marks of quotation
        if text and len(content) < _FOOTER_WIDTH:  # the footer continues
            text += b"\n" + line
            continue
        damaged = len(content) - len(content.translate(None, _NOT_BASE64))
        if (
            (damaged and is_url_safe)
            and len(line.rstrip()) % 4 == 0
            and not _NOT_URL_SAFE.search(content)
        ):
            line, damaged = line.translate(_FROM_URL_SAFE), 0
        if damaged <= (0 if text else 0.1 * len(content)):
            letters += line
        else:
            text += b"\n" + line
    return bytes(letters), bytes(text)


def _decode_uu(data: bytes) -> bytes:
    """Decode uuencoded data; keep the text before and after it."""
    out = bytearray()
    has_begin = _UU_BEGIN.search(data) is not None
    is_data = not has_begin
    for line in BytesIO(data):
        if has_begin and not is_data:
            is_data = _UU_BEGIN.match(line) is not None
            out += b"" if is_data else line  # text before or after the data
            continue
        line = line.removesuffix(b"\n")
        if line.startswith((b"begin ", b"end")) or not line:
            is_data = not has_begin or not line.startswith(b"end")
            out += b"" if is_data else b"\n"
            continue
        try:
            out += binascii.a2b_uu(line)
        except binascii.Error:
            size = (((line[0] - 32) & 63) * 4 + 5) // 3
            try:
                out += binascii.a2b_uu(line[:size])
            except binascii.Error:
                continue
        if len(out) > len(data):  # short lines decode to long ones
            break
    return bytes(out)


def decode_transfer(data: bytes, encoding: bytes) -> bytes:
    r"""Undo a content transfer encoding. An unknown encoding leaves the bytes unchanged.

    Examples
    --------
    >>> decode_transfer(b"SGVsbG8", b"base64"), decode_transfer(b"a=3Db=\nc", b"quoted-printable")
    (b'Hello', b'a=bc')
    """
    if encoding == b"base64":
        return _base64(data)
    if encoding == b"quoted-printable":
        return binascii.a2b_qp(_BLANKS_AFTER_BREAK.sub(b"=\n", data))
    if encoding in (b"x-uuencode", b"uuencode", b"x-uue", b"uue"):
        return _decode_uu(data)
    return data


def _plain(text: bytes) -> bool:
    return text.isascii() and max(map(text.find, (b"=?", b"\n", b"\x1b$", b"~{"))) < 0


def transfer_encoding(index: Mapping[bytes, bytes]) -> bytes:
    """Return the name of the Content-Transfer-Encoding in an index of fields, or b"".

    Real mail spells it in many ways, such as `quoted_printable`, `QP` and `7bit, base64`.

    Examples
    --------
    >>> transfer_encoding({b"content-transfer-encoding": b"Quoted_Printable;"})
    b'quoted-printable'
    >>> transfer_encoding({b"content-transfer-encoding": b"base 64"})
    b'base64'
    """
    value = index.get(b"content-transfer-encoding")
    if value is None:
        content_type = index.get(b"content-type", b"")
        if len(content_type) < _SHORTEST_JOINT:
            return b""
        if content_type.find(b"ncoding") < 0 and content_type.find(b"NCODING") < 0:
            return b""  # the search below is slower
        joined = _JOINED_ENCODING.match(content_type[:400])
        value = joined and joined[1]
    return _transfer_encoding(value[:400]) if value else b""


@lru_cache(maxsize=1024)
def _transfer_encoding(value: bytes) -> bytes:
    token = _TOKEN.match(value)
    name = (token[1] or token[2] or b"").strip().lower() if token else b""
    if name == b"base64" or name == b"quoted-printable":
        return name
    if b"=?" in value:  # some programs encode all fields
        value = decode_words(value).encode()
    letters = _NOT_ALPHANUMERIC.sub(b"", _COMMENTS.sub(b"", value).lower())
    if (b"base64" if name in _IDENTITIES else b"64") in letters:
        return b"base64"
    return b"quoted-printable" if _QUOTED_NAME.match(letters) else name


def seems_encoded(data: bytes, start: int, end: int, encoding: bytes) -> bool:
    """Return True if the beginning of a slice looks like text in a transfer encoding."""
    sample = data[start : min(end, start + _ENCODED_SAMPLE)]
    if encoding == b"base64":
        return not sample.translate(None, _BASE64_LINES)
    return encoding == b"quoted-printable" and _QUOTED_BYTE.search(sample) is not None


def boundary(value: bytes) -> bytes:
    """Return the boundary of a multipart Content-Type, or b"".

    Encoded words in it are not decoded, because it is compared with lines of the body.

    Examples
    --------
    >>> boundary(b'multipart/mixed; boundary="=?x?Q?1?="')
    b'=?x?Q?1?='
    """
    for match in islice(_PARAMETER.finditer(value), _MAX_PARAMETERS):
        if match[1].lower() == b"boundary":
            return _value(match).replace(b"\n", b"").rstrip()  # it can be folded
    return parameters(value, LATIN).get("boundary", "").rstrip().encode("utf-8", "replace")


def _value(parameter: re.Match[bytes]) -> bytes:
    """Return the value of a parameter without its quotes."""
    quoted: bytes | None = parameter[2]
    return parameter[3] if quoted is None else b"".join(_QUOTED_PAIR.split(quoted))


def loose_charset(value: bytes) -> str:
    """Return the charset of a malformed Content-Type, or "".

    Examples
    --------
    >>> loose_charset(b"text/html charset=koi8-r"), loose_charset(b"text/plain; charset: utf-8")
    ('koi8-r', 'utf-8')
    """
    return _loose_charset(value[:400])


@lru_cache(maxsize=1024)
def _loose_charset(value: bytes) -> str:
    match = _LOOSE_CHARSET.search(value)
    return match[1].decode("ascii") if match else ""


def parameters(value: bytes, fallback: str = "") -> Mapping[str, str]:
    """Return the parameters of a Content-Type or Content-Disposition; RFC 2231 pieces are joined.

    `fallback` is that of `decode_text`.

    Examples
    --------
    >>> parameters(b"text/plain; charset=utf-8; name*0*=utf-8''caf%C3; name*1*=%A9.txt")
    mappingproxy({'charset': 'utf-8', 'name': 'café.txt'})
    """
    if value.find(b";") < 0:
        return _NO_PARAMETERS
    read = _common_parameters if len(value) <= 200 else _read_parameters
    return read(value, fallback)


def _read_parameters(value: bytes, fallback: str) -> Mapping[str, str]:
    """Compute the result of `parameters`, which caches it."""
    texts: dict[str, tuple[bytes, str, bool]] = {}  # bytes, charset, and if RFC 2231 encodes them
    pieces: dict[str, list[tuple[int, bool, bytes]]] = {}
    for match in islice(_PARAMETER.finditer(value), _MAX_PARAMETERS):
        name, text = match[1].decode("latin-1").lower(), _value(match)
        if match[4] and name in _NAMES_OF_FILES:
            text += _FOLDED_BLANKS.sub(b" ", match[4])
        if "*" not in name:
            texts.setdefault(name, (text, "", False))
            continue
        name, _, order = name.partition("*")
        encoded = name.endswith("*") or order.endswith("*") or order == ""
        digits = order.rstrip("*")
        order_index = int(digits) if digits.isdecimal() and len(digits) < 5 else 0
        pieces.setdefault(name, []).append((order_index, encoded, text))
    for name, numbered in pieces.items():
        charset = ""
        joined = b""
        for order_index, encoded, text in sorted(numbered):
            if encoded:
                if order_index == 0 and text.count(b"'") >= 2:
                    declared, _, text = text.split(b"'", 2)
                    charset = declared.decode("latin-1")
                text = _percent(text)
            joined += text
        texts[name] = joined, charset, any(encoded for _, encoded, _ in numbered)
    runs = (
        run
        for data, charset, is_encoded in texts.values()
        if is_encoded or not _plain(data)
        for run in ([(data, charset)] if is_encoded else _split_runs(data))
    )
    fallback = fallback or guess_fallback(runs)
    return MappingProxyType(
        {name: _parameter_text(*text, fallback) for name, text in texts.items()}
    )


def _parameter_text(data: bytes, charset: str, is_encoded: bool, fallback: str) -> str:
    if is_encoded:
        return decode_text(data, charset, fallback)
    return data.decode("ascii") if _plain(data) else decode_words(data, fallback)


# Cached, because most messages have one of a few values.
_common_parameters = lru_cache(maxsize=1024)(_read_parameters)


_PERCENT = lazy_pattern(rb"(?:%[0-9A-Fa-f]{2})+")


def _percent(text: bytes) -> bytes:
    return _PERCENT.sub(lambda run: binascii.unhexlify(run[0].translate(None, b"%")), text)


def decode_percent(name: str) -> str:
    """Return a file name without the encoding of web addresses, if it decodes to UTF-8.

    Examples
    --------
    >>> decode_percent("caf%C3%A9%20menu.pdf"), decode_percent("100%.pdf"), decode_percent("%E9")
    ('café menu.pdf', '100%.pdf', '%E9')
    """
    try:
        return _percent(name.encode("utf-8", "surrogatepass")).decode() if "%" in name else name
    except UnicodeDecodeError:
        return name
