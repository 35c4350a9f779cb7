"""Charsets, encoded words, transfer encodings and structured fields of mail.

No function raises an error. Damaged bytes are decoded as far as possible.
"""

from __future__ import annotations

import binascii
import codecs
import re
import unicodedata
from collections.abc import Callable, Mapping
from encodings import normalize_encoding
from encodings.aliases import aliases
from functools import lru_cache
from io import BytesIO
from itertools import islice
from types import MappingProxyType
from typing import AnyStr, NamedTuple

from streamnb.patterns import lazy_pattern

# Python's codecs that are not charsets of mail, or take more than linear time.
_REFUSED = frozenset(
    ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "mbcs", "oem")
)
# Python's codecs for WHATWG encodings that have another name in Python, or a superset there. The
# standard does not decode the encodings of "replacement", but mail programs do.
_PYTHON_CODECS = {
    "big5": "big5hkscs",
    "euc-jp": "euc_jis_2004",
    "euc-kr": "cp949",
    "gbk": "gb18030",
    "ibm866": "cp866",
    "iso-2022-jp": "iso2022_jp_ext",
    "iso-8859-8-i": "iso8859-8",
    "macintosh": "mac-roman",
    "replacement": "",
    "shift_jis": "cp932",
    "windows-874": "cp874",
    "x-mac-cyrillic": "mac-cyrillic",
    "x-user-defined": "cp1252",
}
# Charsets in which bytes below 128 are not always ASCII characters.
_NOT_ASCII = lazy_pattern(r"utf-?_?(7|16|32)|iso2022|hz|cp(037|1026|1140|273|424|500|875|864)")
# Charsets with several bytes per character. A short text in them can be valid UTF-8 by chance.
_DOUBLE_BYTE = lazy_pattern(r"gb|big5|cp9[345]|johab|euc|shift|iso2022|hz|utf")
_MIN_UTF8 = 8  # number of non-ASCII characters that prove UTF-8 in spite of a double-byte label
# Python never removes an unknown codec name from its cache, so only these names are looked up.
_PYTHON_NAMES = frozenset(aliases) | frozenset(aliases.values())
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# The charsets of nearly all mail. Their bytes below 128 are ASCII, so ASCII text needs no codec.
_COMMON_CHARSETS = frozenset(
    ("", "us-ascii", "US-ASCII", "utf-8", "UTF-8", "iso-8859-1", "ISO-8859-1", "windows-1252")
)
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_META = lazy_pattern(
    rb"<meta[^>]{0,400}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([^\s\"'/>;]{1,40})", re.I
)
_META_BYTES = 1024  # bytes that browsers search for <meta charset>

_BEYOND_ASCII = lazy_pattern(r"[!-~]?[^\x00-\x7f]+")
_SURROGATE = lazy_pattern("[\ud800-\udfff]")  # Python's UTF-7 codec returns them
_PIECE = 64  # number of characters to normalise at a time
_ENCODED_WORD = lazy_pattern(
    rb"=\?([^?*\s]{1,64})(?:\*[^?\s]*)?\?([bBqQ])\?((?:[^?=\n]|=(?!\?(?!=))|\?(?!=)){0,1000}+)\?="
)
_NOT_BASE64 = bytes(
    set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
)
_BASE64_LINES = bytes(set(range(256)) - set(_NOT_BASE64)) + b"=\r\n"
_QUOTED_BYTE = lazy_pattern(rb"=(?:[0-9A-Fa-f]{2}|[ \t]*\r?\n)")
_ENCODED_SAMPLE = 4096  # bytes of a part that are read to choose among several declared encodings
_TRANSFER_ENCODINGS = frozenset((b"base64", b"quoted-printable", b"7bit", b"8bit", b"binary"))
# A comment in a structured field; comments nest.
COMMENT = rb"\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\)"
# Other spellings of encodings, reduced to letters and digits.
_SPELLINGS = {
    b"base64": b"base64",
    b"xbase64": b"base64",
    b"mime64": b"base64",
    b"quotedprintable": b"quoted-printable",
    b"xquotedprintable": b"quoted-printable",
}
_COMMENTS = lazy_pattern(COMMENT)
_NOT_ALPHANUMERIC = lazy_pattern(rb"[^a-z0-9]+")
_UU_BEGIN = lazy_pattern(rb"^begin [0-7]{3,4} .", re.M)
_FOOTER_WIDTH = 40  # letters: a shorter line after a line of text is text, not base64
_PADDING = lazy_pattern(rb"=+")
# mail servers add blanks to lines (RFC 2045, 6.7)
_BLANKS_AFTER_BREAK = lazy_pattern(rb"=[ \t]++\r?\n")
_PARAMETER = lazy_pattern(
    rb";\s*+(?:\([^()]*+\)\s*+)?([^\s=;\"]{1,64})\s*+=\s*+(?:\"((?:[^\"\\]|\\.)*+)\"?|([^\s;]*+))",
    re.S,
)
_QUOTED_PAIR = lazy_pattern(rb"\\(.)", re.S)
_LOOSE_CHARSET = lazy_pattern(rb"\bcharset\s*[=:]\s*[\"']?([\w.:-]{1,40})", re.I)
_MAX_PARAMETERS = 64
_NO_PARAMETERS: Mapping[str, str] = MappingProxyType({})
_TOKEN = lazy_pattern(rb"(?:\s|%b)*+(?:\"([^\"]{0,200})\"?|([^\s;,(\"]{1,200}))" % COMMENT)


class _Codec(NamedTuple):
    """A codec of Python with two flags: bytes below 128 are ASCII; each byte is a character."""

    decode: Callable[[bytes, str], tuple[str, int]]
    name: str
    has_ascii: bool
    is_single_byte: bool


@lru_cache(maxsize=256)
def _codec(label: str) -> _Codec | None:
    """Return the codec of a charset's label, or None if the label is unknown."""
    from webencodings.labels import LABELS  # type: ignore[import-untyped]  # many need no label

    name = label[:40].strip(" \t\n\f\r\"'").lower()
    standard = LABELS.get(name) or LABELS.get(name.replace("_", "-"))
    name = _PYTHON_CODECS.get(standard or name, standard or name) or name
    name = normalize_encoding(name).lower()
    if not standard and name not in _PYTHON_NAMES and name.replace(".", "_") not in _PYTHON_NAMES:
        return None
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError, UnicodeError):
        return None
    # bytes.decode refuses codecs that do not decode bytes to text (rot13, zlib).
    if codec.name.replace("_", "-") in _REFUSED or not getattr(codec, "_is_text_encoding", True):
        return None
    return _Codec(
        codec.decode,
        codec.name,
        not _NOT_ASCII.match(codec.name),
        not _DOUBLE_BYTE.match(codec.name),
    )


def decode_text(data: bytes, charset: str = "", fallback: str = "") -> str:
    r"""Decode text as browsers do, by the superset of the declared charset.

    - The charset is a label of the WHATWG encoding standard or a codec name of Python.
    - If the label names a single-byte charset, but the bytes are valid UTF-8, they are UTF-8.
    - Each damaged byte is replaced.

    Parameters
    ----------
    data
        Bytes of a header field or a text part.
    charset
        The declared charset. An empty or unknown one is no declaration.
    fallback
        The charset of undeclared text that is not UTF-8; empty for windows-1252.

    Examples
    --------
    >>> decode_text("naïve".encode("latin-1"), "iso-8859-1")
    'naïve'
    >>> decode_text("naïve".encode(), "us-ascii"), decode_text(b"\x93quoted\x94", "no-such")
    ('naïve', '“quoted”')
    """
    is_ascii = data.isascii()
    if is_ascii and charset in _COMMON_CHARSETS:
        return _decode_ascii(data)
    codec = _codec(charset) if charset else None
    if is_ascii and (codec is None or codec.has_ascii):
        return _decode_ascii(data)
    if codec is not None and codec.name.startswith("utf-16") and data[:2] in _UTF16_MARKS:
        return data.decode("utf-16", "replace")
    if codec is None or codec.name == "utf-8" or codec.is_single_byte:
        has_label = codec is not None and codec.name != "utf-8"
        try:
            text = data.decode("utf-8")
            if not has_label or _is_evident(text, codec):
                return text
        except UnicodeDecodeError:
            if _is_mostly_utf8(data, 0.9 if has_label else 0.5):
                return data.decode("utf-8", "replace")
            codec = codec or (_codec(fallback) if fallback else None)
        if codec is None or codec.name == "utf-8":
            return data.decode("cp1252", "replace")
    return _decode_by(codec, data)


def _decode_ascii(data: bytes) -> str:
    """Decode bytes below 128: ISO-2022-JP if they have its escapes, else ASCII."""
    if _JAPANESE_ESCAPE in data:
        return data.decode("iso2022_jp_ext", "replace")
    return data.decode("ascii")


def _is_evident(text: str, codec: _Codec | None) -> bool:
    """Return True if valid UTF-8 is unlikely to be text of a single-byte charset.

    A word in Thai or Hebrew can be one valid sequence by chance, but hardly three, or a letter.
    """
    if codec is None or codec.name in _LATIN:
        return True
    wide = [character for character in text if character >= "\x80"]
    return len(wide) >= 3 or all(character.isalnum() for character in wide)


def _decode_by(codec: _Codec, data: bytes) -> str:
    """Decode by a codec; use UTF-8 for a double-byte label on text that is evidently UTF-8."""
    if not codec.is_single_byte and not codec.name.startswith("utf"):
        with_utf8 = _utf8_or_none(data)
        if with_utf8 is not None:
            return with_utf8
    try:
        text = codec.decode(data, "strict")[0]
    except (UnicodeError, ValueError):
        if not codec.is_single_byte:
            try:  # the text may be valid UTF-8 with a wrong label
                return data.decode("utf-8")
            except UnicodeDecodeError:
                pass
        try:
            text = codec.decode(data, "replace")[0]
        except (UnicodeError, ValueError):
            return data.decode("cp1252", "replace")
    return _SURROGATE.sub("\ufffd", text) if codec.name == "utf-7" else text


def _utf8_or_none(data: bytes) -> str | None:
    """Return the text if it is UTF-8 with several multi-byte characters, else None."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    wide = sum(1 for character in text if character >= "\u0800")
    return text if wide >= _MIN_UTF8 else None


def _is_mostly_utf8(data: bytes, share: float) -> bool:
    """Return True if more than this share of the non-ASCII bytes are in UTF-8 sequences."""
    data = data[:_SAMPLE]
    ascii_size = len(data.translate(None, _HIGH_BYTES))
    valid_size = len(data.decode("utf-8", "ignore").encode())
    return valid_size - ascii_size > share * (len(data) - ascii_size)


_HIGH_BYTES = bytes(range(128, 256))
_LATIN = frozenset(
    ("cp1252", "iso8859-1", "iso8859-15", "cp1254", "cp1250", "iso8859-2", "mac-roman")
)
_JAPANESE_ESCAPE = b"\x1b$"  # of ISO-2022-JP, which is often sent without a label
_SAMPLE = 1 << 16  # bytes that are read to detect the charset of undeclared text


def decode_part(data: bytes, charset: str = "", is_html: bool = False, fallback: str = "") -> str:
    r"""Decode a text part by its byte order mark, its label or, in HTML, its <meta charset>.

    Examples
    --------
    >>> decode_part(b'<meta charset="koi8-r">\xd0\xd2\xc9', is_html=True)
    '<meta charset="koi8-r">при'
    """
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    if is_html and (not charset or _codec(charset) is None):
        match = _META.search(data, 0, _META_BYTES)
        if match:
            charset = match[1].decode("latin-1")
            # without that charset, the <meta> could not have been read
            if charset.lower().startswith("utf-16"):
                charset = "utf-8"
    return decode_text(data, charset, fallback)


def to_utf8(data: bytes, charset: str = "", is_html: bool = False, fallback: str = "") -> bytes:
    r"""Return the result of `decode_part`, normalized (NFC), as UTF-8. ASCII text is not copied.

    Examples
    --------
    >>> to_utf8(b"caf\xe9", "latin-1")
    b'caf\xc3\xa9'
    """
    if data.isascii():
        codec = None if charset in _COMMON_CHARSETS else _codec(charset)
        if (codec is None or codec.has_ascii) and _JAPANESE_ESCAPE not in data:
            return data
    text = decode_part(data, charset, is_html, fallback)
    return normalize_nfc(text).encode("utf-8", "surrogatepass")


def normalize_nfc(text: AnyStr) -> AnyStr:
    r"""Compose letters and their marks (NFC), so texts with the same appearance are equal.

    Bytes that are not UTF-8 stay unchanged.

    Examples
    --------
    >>> normalize_nfc("cafe\u0301") == "caf\u00e9"
    True
    """
    if text.isascii():
        return text
    if isinstance(text, bytes):
        return normalize_nfc(text.decode("utf-8", "surrogateescape")).encode(
            "utf-8", "surrogateescape"
        )
    if _is_composed(text):
        return text
    return _BEYOND_ASCII.sub(lambda match: _nfc(match[0]), text)


def _is_composed(text: str) -> bool:
    """Return True if a text is NFC (nearly all are). Slices overlap by the longest piece."""
    return all(
        unicodedata.is_normalized("NFC", text[max(start - 4 * _PIECE, 0) : start + 8 * _PIECE])
        for start in range(0, len(text), 8 * _PIECE)
    )


def _nfc(run: str) -> str:
    """Compose a run of non-ASCII characters in pieces, because sorting marks takes quadratic time.

    A piece ends before a character that does not combine with its predecessors, or after
    4 * _PIECE characters.
    """
    pieces, start = [], 0
    while start < len(run):
        end = start + _PIECE
        while end < min(len(run), start + 4 * _PIECE) and _joins(run[end - 3 : end], run[end]):
            end += 1
        pieces.append(unicodedata.normalize("NFC", run[start:end]))
        start = end
    return "".join(pieces)


def _joins(before: str, character: str) -> bool:
    """Return True if a character may combine with the preceding ones."""
    if unicodedata.combining(character):
        return True
    apart = unicodedata.normalize("NFC", before) + unicodedata.normalize("NFC", character)
    return unicodedata.normalize("NFC", before + character) != apart


def _encoded_word(kind: bytes, text: bytes) -> bytes:
    if kind in b"qQ":
        return binascii.a2b_qp(text, header=True)
    return _base64(text)


def decode_words(value: bytes, fallback: str = "") -> str:
    """Decode the value of a header field: RFC 2047 words, raw 8-bit text, folding.

    White space between two encoded words is dropped. Adjacent words of one charset are joined
    before decoding, because a character may be cut in two. Raw 8-bit text is UTF-8 or else in the
    charset `fallback`, which should be that of the body.

    Examples
    --------
    >>> decode_words(b"=?utf-8?q?Gr=C3?= =?utf-8?q?=BC=C3=9Fe?= aus =?iso-8859-1?b?S/ZsbiE=?=")
    'Grüße aus Köln!'
    """
    value = value.replace(b"\n", b"")
    if b"=?" not in value:
        return normalize_nfc(decode_text(value, "", fallback))
    runs: list[tuple[str, list[bytes]]] = []  # (charset, "" for plain text; pieces)
    position = 0
    for word in _ENCODED_WORD.finditer(value):
        between = value[position : word.start()]
        if between.strip() or not runs:
            runs.append(("", [between]))
        charset = word[1].decode("ascii", "replace").lower()
        decoded = _encoded_word(word[2], word[3])
        if runs and runs[-1][0] == charset:
            runs[-1][1].append(decoded)
        else:
            runs.append((charset, [decoded]))
        position = word.end()
    runs.append(("", [value[position:]]))
    return normalize_nfc(
        "".join(decode_text(b"".join(pieces), charset, fallback) for charset, pieces in runs)
    )


def _base64(data: bytes) -> bytes:
    # a2b_base64 would drop the data after padding, and decode the words of a footer.
    is_clean = b"\n" not in data or not data.translate(None, _BASE64_LINES + b" \t")
    if is_clean and b"=" not in data.rstrip().rstrip(b"="):
        try:
            return binascii.a2b_base64(data)
        except binascii.Error:
            pass
    # Bad padding, or a mailing list's footer after the data. Lines that are not base64 are text;
    # in other lines, complete groups of four letters are decoded.
    letters, text = bytearray(), bytearray()
    for line in BytesIO(data):  # a list of all lines would need much memory
        line = line.removesuffix(b"\n")
        content = line.rstrip(b"= \t\r")
        damaged = len(content) - len(content.translate(None, _NOT_BASE64))
        if text and (damaged or len(content) < _FOOTER_WIDTH):
            is_data = False  # the footer continues
        else:
            is_data = damaged <= 0.1 * len(content)
        if is_data:
            letters += line
        else:
            text += b"\n" + line
    decoded, start = bytearray(), 0
    for padding in _PADDING.finditer(letters):
        decoded += _whole_groups(letters[start : padding.start()])
        start = padding.end()
    return bytes(decoded + _whole_groups(letters[start:]) + text)


def _whole_groups(letters: bytearray) -> bytes:
    letters = letters.translate(None, _NOT_BASE64)
    spare = len(letters) % 4
    return binascii.a2b_base64(letters[:-1] if spare == 1 else letters + b"=" * (-spare % 4))


def _uuencoded(data: bytes) -> bytes:
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
        return _uuencoded(data)
    return data


def _plain(text: bytes) -> bool:
    return text.isascii() and b"=?" not in text and b"\n" not in text


@lru_cache(maxsize=1024)
def _first_token(value: bytes) -> bytes:
    match = _TOKEN.match(value)
    return (match[1] or match[2] or b"").strip().lower() if match else b""


def first_token(value: bytes) -> bytes:
    """Return the first token of a structured field, in lower case, without comments and quotes.

    Examples
    --------
    >>> first_token(b' (x) "Base64" (y);'), first_token(b"base64;"), first_token(b"")
    (b'base64', b'base64', b'')
    """
    return _first_token(value[:400])


def transfer_encoding(index: Mapping[bytes, bytes]) -> bytes:
    """Return the name of the Content-Transfer-Encoding in an index of fields, or b"".

    Real mail spells it in several ways, such as `quoted_printable`, `x-base64` and `base 64`.

    Examples
    --------
    >>> transfer_encoding({b"content-transfer-encoding": b"Quoted_Printable;"})
    b'quoted-printable'
    >>> transfer_encoding({b"content-transfer-encoding": b"base 64"})
    b'base64'
    """
    value = index.get(b"content-transfer-encoding")
    return _transfer_encoding(value[:400]) if value else b""


@lru_cache(maxsize=1024)
def _transfer_encoding(value: bytes) -> bytes:
    name = _first_token(value)
    if name in _TRANSFER_ENCODINGS:
        return name
    if b"=?" in value:  # some programs encode all fields
        value = decode_words(value).encode()
    letters = _NOT_ALPHANUMERIC.sub(b"", _COMMENTS.sub(b"", value).lower())
    token_letters = _NOT_ALPHANUMERIC.sub(b"", name)
    return _SPELLINGS.get(letters) or _SPELLINGS.get(token_letters, name)


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
    return parameters(value).get("boundary", "").rstrip().encode("utf-8", "replace")


def _value(parameter: re.Match[bytes]) -> bytes:
    """Return the value of a parameter without its quotes."""
    quoted: bytes | None = parameter[2]
    return parameter[3] if quoted is None else _QUOTED_PAIR.sub(rb"\1", quoted)


def loose_charset(value: bytes) -> str:
    """Return the charset of a malformed Content-Type, or "".

    Examples
    --------
    >>> loose_charset(b"text/html charset=koi8-r"), loose_charset(b"text/plain; charset: utf-8")
    ('koi8-r', 'utf-8')
    """
    match = _LOOSE_CHARSET.search(value[:400])
    return match[1].decode("ascii") if match else ""


def parameters(value: bytes) -> Mapping[str, str]:
    """Return the parameters of a Content-Type or Content-Disposition; RFC 2231 pieces are joined.

    Examples
    --------
    >>> parameters(b"text/plain; charset=utf-8; name*0*=utf-8''caf%C3; name*1*=%A9.txt")
    mappingproxy({'charset': 'utf-8', 'name': 'café.txt'})
    """
    if b";" not in value:
        return _NO_PARAMETERS
    return _common_parameters(value) if len(value) <= 200 else _read_parameters(value)


def _read_parameters(value: bytes) -> Mapping[str, str]:
    plain: dict[str, str] = {}
    pieces: dict[str, list[tuple[int, bool, bytes]]] = {}
    for match in islice(_PARAMETER.finditer(value), _MAX_PARAMETERS):
        name, text = match[1].decode("latin-1").lower(), _value(match)
        if "*" not in name:
            plain.setdefault(name, text.decode("ascii") if _plain(text) else decode_words(text))
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
        plain[name] = decode_text(joined, charset)
    return MappingProxyType(plain)


# Cached, because most messages have one of a few values.
_common_parameters = lru_cache(maxsize=1024)(_read_parameters)


_PERCENT = lazy_pattern(rb"%([0-9A-Fa-f]{2})")


def _percent(text: bytes) -> bytes:
    return _PERCENT.sub(lambda match: bytes((int(match[1], 16),)), text)
