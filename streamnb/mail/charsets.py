"""The charsets of mail, decoded as browsers and mail programs do.

No function raises an error. Damaged bytes are decoded as far as possible.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from encodings import normalize_encoding
from encodings.aliases import aliases
from functools import lru_cache
from typing import NamedTuple

from streamnb._core import is_plain
from streamnb.mail.normalization import normalize_nfc
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
# Supersets of codecs, by Python's name of the codec.
# KOI8-U has Ukrainian letters in the place of eight lines for drawing.
_SUPERSETS = {
    "shift_jis": "cp932", "euc_kr": "cp949", "gb2312": "gb18030", "big5": "big5hkscs",
    "koi8-r": "koi8-u",
}  # fmt: skip
# Charsets in which bytes below 128 are not always ASCII characters.
_NOT_ASCII = lazy_pattern(r"utf-?_?(7|16|32)|iso2022|hz|cp(037|1026|1140|273|424|500|875|864)")
# Charsets with several bytes per character. A short text in them can be valid UTF-8 by chance.
_DOUBLE_BYTE = lazy_pattern(r"gb|big5|cp9[345]|johab|euc|shift|iso2022|hz|utf")
_MIN_UTF8 = 8  # number of non-ASCII characters that prove UTF-8 in spite of a double-byte label
# Python never removes an unknown codec name from its cache, so only these names are looked up.
_WITHOUT_ALIAS = ("cp720", "cp737", "cp856", "cp874", "cp1006", "koi8_r", "koi8_t", "koi8_u")
_PYTHON_NAMES = frozenset((*aliases, *aliases.values(), *_WITHOUT_ALIAS))
# Names that are neither in the standard nor in Python, reduced to letters and digits.
_OTHER_NAMES = {
    "5601": "cp949",
    "chinesebig5": "big5hkscs",
    "cngb": "gb18030",
    "euccn": "gb18030",
    "gbk2312": "gb18030",
    "koi8ru": "koi8-u",
    "kseuc": "cp949",
}
# A code page of Windows or DOS with any prefix; the number of an ISO 8859 charset.
_CODE_PAGE = lazy_pattern(r"x?(?:ms|cs)?(?:windows|win|cp|ansi|ibm|dos|codepage|oem|ms)(\d{3,5})c?")
_ISO_8859 = lazy_pattern(r"(?:iso)?8859(1[0-6]|[1-9])(?:19\d\d|[ie])?")
_CODE_PAGES = {
    "936": "gb18030",
    "943": "cp932",
    "950": "big5hkscs",
    "20866": "koi8-r",
    "20932": "euc_jis_2004",
    "21866": "koi8-u",
    "50220": "iso2022_jp_ext",
    "50221": "iso2022_jp_ext",
    "50222": "iso2022_jp_ext",
    "51932": "euc_jis_2004",
    "51949": "cp949",
    "52936": "hz",
    "54936": "gb18030",
    "65001": "utf-8",
} | {str(28590 + part): f"iso-8859-{part}" for part in range(1, 17)}
_NOT_IN_NAME = lazy_pattern(r"[^a-z0-9]+")
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # it begins like the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# The charsets of nearly all mail. Their bytes below 128 are ASCII, so ASCII text needs no codec.
_COMMON_CHARSETS = frozenset(
    ("", "us-ascii", "US-ASCII", "utf-8", "UTF-8", "iso-8859-1", "ISO-8859-1", "windows-1252")
)
_ASCII_NAMES = frozenset(("usascii", "ascii", "ansix341968", "ansix341986", "iso646us", "isoir6"))
_META = lazy_pattern(
    rb"<(?:meta[^>]{0,400}?charset|\?xml[^>]{0,100}?encoding)"
    rb"\s{0,9}=\s{0,9}[\"']?\s{0,9}([^\s\"'/>;?]{1,40})",
    re.I,
)
_META_BYTES = 1 << 14  # searched for <meta charset>, which can come after a style sheet
_SURROGATE = lazy_pattern("[\ud800-\udfff]")  # Python's UTF-7 codec returns them
_HIGH_BYTES = bytes(range(128, 256))
_LATIN = frozenset(
    ("cp1252", "iso8859-1", "iso8859-15", "cp1254", "cp1250", "iso8859-2", "mac-roman")
)
LATIN = "latin, without a guess"  # a fallback; see `decode_text`
_ESCAPE = b"\x1b$"  # an escape of ISO-2022, which often has no label
# Chinese text of HZ (RFC 1843) in usual characters, whose first bytes are no small letters.
_HZ_START = b"~{"
_HZ = lazy_pattern(rb"(?:~\{(?:[!-)0-W][!-~])++~\}[^~]*+)++")
_SAMPLE = 1 << 16  # bytes that are read to detect the charset of undeclared text
# Other charsets of Japanese, which labels often confuse. Text is rarely valid in a wrong one.
_JAPANESE = ("cp932", "euc_jis_2004")


class _Codec(NamedTuple):
    """A codec of Python with two flags: bytes below 128 are ASCII; each byte is a character."""

    decode: Callable[[bytes, str], tuple[str, int]]
    name: str
    has_ascii: bool
    is_single_byte: bool


@lru_cache(maxsize=256)
def _codec(label: str) -> _Codec | None:
    """Return the codec of a charset's label, or None if the label is unknown."""
    label = label[:40].strip(" \t\n\f\r\"'").lower()
    return _named_codec(label) or next(filter(None, map(_named_codec, _other_labels(label))), None)


def _named_codec(name: str) -> _Codec | None:
    """Return the codec of a normalized name; None if the name is unknown or refused."""
    from webencodings.labels import LABELS  # type: ignore[import-untyped]  # many need no label

    standard = LABELS.get(name) or LABELS.get(name.replace("_", "-"))
    name = _PYTHON_CODECS.get(standard or name, standard or name) or name
    name = normalize_encoding(name).lower()
    if not standard and name not in _PYTHON_NAMES and name.replace(".", "_") not in _PYTHON_NAMES:
        return None
    try:
        codec = codecs.lookup(name)
        codec = codecs.lookup(_SUPERSETS.get(codec.name, name))
    except (LookupError, ValueError, UnicodeError):
        return None
    # bytes.decode refuses codecs that do not decode bytes to text (rot13, zlib).
    if codec.name.replace("_", "-") in _REFUSED or not getattr(codec, "_is_text_encoding", True):
        return None
    is_iso2022 = codec.name.startswith("iso2022")
    return _Codec(
        _decode_iso2022 if is_iso2022 else codec.decode,
        codec.name,
        not _NOT_ASCII.match(codec.name),
        not _DOUBLE_BYTE.match(codec.name),
    )


def _decode_iso2022(data: bytes, errors: str) -> tuple[str, int]:
    """Decode ISO-2022 with the interface of a codec; raise UnicodeError for non-ASCII bytes."""
    from streamnb.mail.iso2022 import decode_iso2022  # here: few mails need it

    if errors == "strict" and not data.isascii():
        raise UnicodeError("bytes beyond ASCII")
    return decode_iso2022(data), len(data)


def _other_labels(label: str) -> Iterator[str]:
    """Yield known names that a label may mean, because mail has many spellings of each.

    Examples
    --------
    >>> list(_other_labels("win-1251")), list(_other_labels("3dkoi8r//ignore"))
    (['cp1251'], ['koi8_r'])
    """
    name = label.partition("//")[0].strip(" \"'=%;").removeprefix("3d")
    pieces = _NOT_IN_NAME.split(name)
    for end in range(len(pieces), 0, -1):
        yield from _reduced_names("".join(pieces[:end]))
    for start in range(1, len(pieces)):
        yield from _reduced_names("".join(pieces[start:]))


def _reduced_names(letters: str) -> Iterator[str]:
    """Yield the known names that have these letters and digits, regardless of other signs."""
    if letters in _OTHER_NAMES:
        yield _OTHER_NAMES[letters]
    elif page := _CODE_PAGE.fullmatch(letters):
        yield _CODE_PAGES.get(page[1], f"cp{page[1]}")
    elif part := _ISO_8859.fullmatch(letters):
        yield f"iso-8859-{part[1]}"
    elif letters in _names_by_letters():
        yield _names_by_letters()[letters]


@lru_cache(maxsize=1)
def _names_by_letters() -> dict[str, str]:
    """Return the known names by key; the key has only the letters and digits of the name."""
    from webencodings.labels import LABELS

    names = (*sorted(_PYTHON_NAMES), *sorted(LABELS))
    return {_NOT_IN_NAME.sub("", name): name for name in names if not name.isdigit()}


def decode_text(data: bytes, charset: str = "", fallback: str = "") -> str:
    r"""Decode text as browsers do, by the superset of the declared charset.

    - The charset is a label of the WHATWG standard or a codec name of Python, in any spelling.
    - If the label names a single-byte charset, but the bytes are valid UTF-8, they are UTF-8.
    - If the bytes contradict the label (ASCII, UTF-8), the label is ignored.
    - Each damaged byte is replaced.

    Parameters
    ----------
    data
        Bytes of a header field or a text part.
    charset
        The declared charset. An empty or unknown one is no declaration.
    fallback
        The charset of undeclared text that is not UTF-8; empty for a guess, `LATIN` for none.

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
    if codec is not None and codec.name.startswith(("utf-16", "utf-32")):
        return _decode_wide(codec, data)
    if codec is not None and (codec.name == "ascii" or _is_ascii_label(charset)):
        codec = None
    if codec is None or codec.name == "utf-8" or codec.is_single_byte:
        has_label = codec is not None and codec.name != "utf-8"
        try:
            text, size = codecs.utf_8_decode(data)  # without an incomplete character at the end
            if size < len(data) and text.isascii():
                data.decode("utf-8")  # raises an error: nothing shows that the text is UTF-8
            if not has_label or _is_evident(text, codec):
                return text + "\ufffd" * (size < len(data))
        except UnicodeDecodeError:
            has_utf8_label = codec is not None and not has_label
            if not has_label:
                codec = _undeclared_codec(data, fallback)
            if _is_mostly_utf8(data, 0.5 if has_utf8_label or codec is None else 0.9):
                return data.decode("utf-8", "replace")
        if codec is None:
            return data.decode("cp1252", "replace")
    return _decode_by(codec, data)


def is_informative(label: str) -> bool:
    """Return True if a label names a charset that is known, and has more than ASCII."""
    if label in _COMMON_CHARSETS:  # without importing the table of labels
        return label not in ("", "us-ascii", "US-ASCII")
    codec = None if _is_ascii_label(label) else _codec(label)
    return codec is not None and codec.name != "ascii"


def _is_ascii_label(label: str) -> bool:
    return _NOT_IN_NAME.sub("", label.lower()) in _ASCII_NAMES


def _undeclared_codec(data: bytes, fallback: str) -> _Codec | None:
    """Return the codec of text that is not UTF-8, by `fallback` or a guess; None for Latin text."""
    if fallback == LATIN:
        return None
    if not _is_undeclared(fallback):
        return _codec(fallback)
    from streamnb.mail.guess_charset import guess_charset  # here: few mails need it

    charset = guess_charset(data)
    return _codec(charset) if charset else None


def guess_fallback(texts: Iterable[tuple[bytes, str]], fallback: str = "") -> str:
    """Return the `fallback` for texts and their labels, with one guess for all of them.

    A guess takes 0.1 ms, so a guess for each short text would take long.
    """
    if not _is_undeclared(fallback):
        return fallback
    undeclared = [
        data
        for data, charset in texts
        if not data.isascii() and _is_undeclared(charset) and _utf8_or_none(data) is None
    ]
    if not undeclared:
        return LATIN
    from streamnb.mail.guess_charset import guess_charset  # here: few mails need it

    charset = guess_charset(b" ".join(undeclared))
    return LATIN if _is_undeclared(charset) else charset


def _is_undeclared(charset: str) -> bool:
    """Return True if text with this label that is not UTF-8 has no known charset."""
    codec = _codec(charset) if is_informative(charset) else None
    return codec is None or codec.name == "utf-8"


def _decode_wide(codec: _Codec, data: bytes) -> str:
    """Decode text with the label UTF-16 or UTF-32, in its actual byte order."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    if b"\0" not in data:  # the label is wrong if the bytes are UTF-8
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            pass
    if codec.name.startswith("utf-16"):
        high_first, high_last = data[::2].count(0), data[1::2].count(0)
        if high_first != high_last:
            return data.decode("utf-16-be" if high_first > high_last else "utf-16-le", "replace")
    return codec.decode(data, "replace")[0]


def _decode_ascii(data: bytes) -> str:
    """Decode bytes below 128: ISO-2022 or HZ if they have its escapes, else ASCII."""
    if _ESCAPE in data:
        return _decode_iso2022(data, "replace")[0]
    if _HZ_START in data:
        return _HZ.sub(lambda run: run[0].decode("hz", "replace").encode(), data).decode()
    return data.decode("ascii")


def _is_evident(text: str, codec: _Codec | None) -> bool:
    """Return True if valid UTF-8 is unlikely to be text of a single-byte charset.

    A word in Thai or Hebrew can be a valid sequence by chance, but rarely three sequences, and
    rarely one that is a letter.
    """
    if codec is None or codec.name in _LATIN:
        return True
    wide = [character for character in text if character >= "\x80"]
    return len(wide) >= 3 or all(character.isalnum() for character in wide)


def _decode_by(codec: _Codec, data: bytes) -> str:
    """Decode by a codec; text that is evidently UTF-8 in spite of a double-byte label is UTF-8."""
    if codec.is_single_byte:
        return codec.decode(data, "replace")[0]
    with_utf8 = None if data.isascii() else _utf8_or_none(data)
    if with_utf8 is not None and with_utf8[1] >= _MIN_UTF8:
        return with_utf8[0]
    try:
        text = codec.decode(data, "strict")[0]
    except (UnicodeError, ValueError):
        # the text may be UTF-8 with a wrong label, or in another charset of its language
        text = with_utf8[0] if with_utf8 is not None else _decode_japanese(codec, data)
    return _SURROGATE.sub("\ufffd", text) if codec.name == "utf-7" else text


def _decode_japanese(codec: _Codec, data: bytes) -> str:
    """Decode damaged text; for Japanese, use a charset in which the text is valid."""
    if codec.name in _JAPANESE or codec.name.startswith("iso2022_jp"):
        if _ESCAPE in data:
            return _decode_iso2022(data, "replace")[0]
        for charset in _JAPANESE:
            try:
                return data.decode(charset)
            except UnicodeDecodeError:
                pass
    try:
        return codec.decode(data, "replace")[0]
    except (UnicodeError, ValueError):
        return data.decode("cp1252", "replace")


def _utf8_or_none(data: bytes) -> tuple[str, int] | None:
    """Return the UTF-8 text and the number of its wide characters; None if it is not UTF-8."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text, sum(1 for character in text if character >= "\u0800")


def _is_mostly_utf8(data: bytes, share: float) -> bool:
    """Return True if more than this share of the non-ASCII bytes are in UTF-8 sequences."""
    data = data[:_SAMPLE]
    ascii_size = len(data.translate(None, _HIGH_BYTES))
    valid_size = len(data.decode("utf-8", "ignore").encode())
    return valid_size - ascii_size > share * (len(data) - ascii_size)


def declared_in_html(data: bytes) -> str:
    r"""Return the charset that a page of HTML declares, or "".

    Examples
    --------
    >>> declared_in_html(b'<head><meta charset="koi8-r">')
    'koi8-r'
    """
    match = _META.search(data, 0, _META_BYTES)
    charset = match[1].decode("latin-1") if match else ""
    # A page in UTF-16 has no readable <meta>.
    return "utf-8" if charset.lower().startswith("utf-16") else charset


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
    if is_html and not data.isascii() and not is_informative(charset):
        charset = declared_in_html(data) or charset
    return decode_text(data, charset, fallback)


def to_utf8(data: bytes, charset: str = "", is_html: bool = False, fallback: str = "") -> bytes:
    r"""Return the result of `decode_part`, normalized (NFC), as UTF-8. ASCII text is not copied.

    Examples
    --------
    >>> to_utf8(b"caf\xe9", "latin-1")
    b'caf\xc3\xa9'
    """
    if is_plain(data):
        codec = None if charset in _COMMON_CHARSETS else _codec(charset)
        if codec is None or codec.has_ascii:
            return data
    text = decode_part(data, charset, is_html, fallback)
    return normalize_nfc(text).encode("utf-8", "surrogatepass")
