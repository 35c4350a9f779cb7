"""Charsets, encoded words and transfer encodings, forgiving of everything.

Nothing here raises: bytes that break their own rules are decoded as far as they go.
"""

from __future__ import annotations

import binascii
import codecs
import re
import unicodedata
from collections.abc import Mapping
from encodings import normalize_encoding
from encodings.aliases import aliases
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import AnyStr

# Codecs that are no charset of mail, and cost more than linear time or run escapes.
_REFUSED = frozenset(
    ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "mbcs", "oem")
)
# Charsets in which bytes below 128 are not, or not always, the ASCII characters.
_NOT_ASCII = re.compile(r"utf-?_?(7|16|32)|iso2022|hz|cp(037|1026|1140|273|424|500|875|864)")
# The names that Python knows. It remembers each unknown name it was ever asked for.
_KNOWN = frozenset(aliases) | frozenset(aliases.values())

_BEYOND_ASCII = re.compile(r"[!-~]?[^\x00-\x7f]+")
_HALF = re.compile("[\ud800-\udfff]")  # of a character, which Python's UTF-7 lets through
_PIECE = 64  # characters that are normalize_nfc at once
_ENCODED_WORD = re.compile(rb"=\?([^?*\s]{1,64})(?:\*[^?\s]*)?\?([bBqQ])\?([^?\n]*)\?=")
_NOT_BASE64 = bytes(
    set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
)
_PADDING = re.compile(rb"=+")
_PARAMETER = re.compile(
    rb";\s*+([^\s=;\"]{1,64})\s*+=\s*+(?:\"((?:[^\"\\]|\\.)*+)\"?|([^\s;]*+))", re.S
)
_QUOTED_PAIR = re.compile(rb"\\(.)", re.S)
_MAX_PARAMETERS = 64
_NONE: Mapping[str, str] = MappingProxyType({})


@lru_cache(maxsize=256)
def _codec(charset: str) -> codecs.CodecInfo | None:
    name = normalize_encoding(charset[:40]).lower()
    if name not in _KNOWN and name.replace(".", "_") not in _KNOWN:
        return None
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError, UnicodeError):
        return None
    # bytes.decode itself refuses codecs that do not make text of bytes (rot13, zlib).
    if codec.name.replace("_", "-") in _REFUSED or not getattr(codec, "_is_text_encoding", True):
        return None
    return codec


def decode_text(data: bytes, charset: str = "") -> str:
    r"""Decode by the declared charset, else as UTF-8, else as cp1252.

    Parameters
    ----------
    data
        Bytes of a header or of a text part.
    charset
        The declared charset; empty or unknown is no declaration.

    Examples
    --------
    >>> decode_text("naïve".encode("latin-1"), "iso-8859-1")
    'naïve'
    >>> decode_text("naïve".encode(), "us-ascii"), decode_text(b"\x93quoted\x94", "no-such")
    ('naïve', '“quoted”')
    """
    codec = _codec(charset) if charset else None
    if codec is not None:
        try:
            text = codec.decode(data, "strict")[0]
            return _HALF.sub("\ufffd", text) if codec.name == "utf-7" else text
        except (UnicodeError, ValueError):
            pass
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def to_utf8(data: bytes, charset: str = "") -> bytes:
    r"""Do as `decode_text`, but give UTF-8, and ASCII as it is, without making a str.

    Examples
    --------
    >>> to_utf8(b"caf\xe9", "latin-1")
    b'caf\xc3\xa9'
    """
    if data.isascii():
        codec = _codec(charset) if charset else None
        if codec is None or not _NOT_ASCII.match(codec.name):
            return data
    return normalize_nfc(decode_text(data, charset)).encode("utf-8", "surrogatepass")


def normalize_nfc(text: AnyStr) -> AnyStr:
    r"""Give letters and their marks as one character where there is one (NFC): they look alike.

    Of bytes, what is no UTF-8 stays as it is.

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
    return _BEYOND_ASCII.sub(lambda found: _nfc(found[0]), text)


def _is_composed(text: str) -> bool:
    """Whether a text is NFC already, as nearly all are; slices overlap by the longest piece."""
    return all(
        unicodedata.is_normalized("NFC", text[max(at - 4 * _PIECE, 0) : at + 8 * _PIECE])
        for at in range(0, len(text), 8 * _PIECE)
    )


def _nfc(run: str) -> str:
    """Compose a run of characters beyond ASCII, in pieces: to sort marks takes quadratic time.

    A piece ends where the next character does not join those before it, or after so many marks that
    no reader could tell them apart.
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
    """Whether a character may be normalize_nfc with those before it."""
    if unicodedata.combining(character):
        return True
    apart = unicodedata.normalize("NFC", before) + unicodedata.normalize("NFC", character)
    return unicodedata.normalize("NFC", before + character) != apart


def _encoded_word(kind: bytes, text: bytes) -> bytes:
    if kind in b"qQ":
        return binascii.a2b_qp(text, header=True)
    return _base64(text)


def decode_words(value: bytes) -> str:
    """Decode a header field's value: RFC 2047 words, raw 8-bit text, folding.

    White space between two encoded words is not part of the text; words of one charset are joined
    before decoding, for a character may be cut in two.

    Examples
    --------
    >>> decode_words(b"=?utf-8?q?Gr=C3?= =?utf-8?q?=BC=C3=9Fe?= aus =?iso-8859-1?b?S/ZsbiE=?=")
    'Grüße aus Köln!'
    """
    value = value.replace(b"\n", b"")
    if b"=?" not in value:
        return normalize_nfc(decode_text(value))
    runs: list[tuple[str, list[bytes]]] = []  # (charset, "" for plain text; pieces)
    at = 0
    for word in _ENCODED_WORD.finditer(value):
        between = value[at : word.start()]
        if between.strip() or not runs:
            runs.append(("", [between]))
        charset = word[1].decode("ascii", "replace").lower()
        decoded = _encoded_word(word[2], word[3])
        if runs and runs[-1][0] == charset:
            runs[-1][1].append(decoded)
        else:
            runs.append((charset, [decoded]))
        at = word.end()
    runs.append(("", [value[at:]]))
    return normalize_nfc(
        "".join(decode_text(b"".join(pieces), charset) for charset, pieces in runs)
    )


def _base64(data: bytes) -> bytes:
    if b"=" not in data.rstrip().rstrip(b"="):  # what follows padding would be lost
        try:
            return binascii.a2b_base64(data)
        except binascii.Error:
            pass
    # Bad padding, or a mailing list's footer after the end: lines that are no base64 are text, of
    # the others the whole groups of what letters there are.
    letters: list[bytes] = []
    text: list[bytes] = []
    for line in data.split(b"\n"):
        kept = line.translate(None, _NOT_BASE64)
        (letters if len(kept) >= 0.9 * len(line.rstrip(b"=")) else text).append(line)
    decoded = [_whole_groups(run) for run in _PADDING.split(b"".join(letters))]
    return b"".join(decoded + [b"\n" + line for line in text])


def _whole_groups(letters: bytes) -> bytes:
    letters = letters.translate(None, _NOT_BASE64)
    spare = len(letters) % 4
    return binascii.a2b_base64(letters[:-1] if spare == 1 else letters + b"=" * (-spare % 4))


def _uuencoded(data: bytes) -> bytes:
    out = []
    for line in data.split(b"\n"):
        if not line.startswith((b"begin ", b"end")) and line:
            try:
                out.append(binascii.a2b_uu(line))
            except binascii.Error:
                size = (((line[0] - 32) & 63) * 4 + 5) // 3
                try:
                    out.append(binascii.a2b_uu(line[:size]))
                except binascii.Error:
                    continue
    return b"".join(out)


def decode_transfer(data: bytes, encoding: bytes) -> bytes:
    r"""Undo a content transfer encoding; an unknown one leaves the bytes as they are.

    Examples
    --------
    >>> decode_transfer(b"SGVsbG8", b"base64"), decode_transfer(b"a=3Db=\nc", b"quoted-printable")
    (b'Hello', b'a=bc')
    """
    if encoding == b"base64":
        return _base64(data)
    if encoding == b"quoted-printable":
        return binascii.a2b_qp(data)
    if encoding in (b"x-uuencode", b"uuencode", b"x-uue", b"uue"):
        return _uuencoded(data)
    return data


def _plain(text: bytes) -> bool:
    return text.isascii() and b"=?" not in text and b"\n" not in text


def boundary(value: bytes) -> bytes:
    """The boundary of a multipart Content-Type, b"" where it has none.

    It is compared with lines of the body, so it is taken as it stands: one that looks like an
    encoded word is none.

    Examples
    --------
    >>> boundary(b'multipart/mixed; boundary="=?x?Q?1?="')
    b'=?x?Q?1?='
    """
    for match in islice(_PARAMETER.finditer(value), _MAX_PARAMETERS):
        if match[1].lower() == b"boundary":
            return _value(match).replace(b"\n", b"").rstrip()  # it may be folded
    return parameters(value).get("boundary", "").rstrip().encode("utf-8", "replace")


def _value(parameter: re.Match[bytes]) -> bytes:
    """The value of a parameter, out of its quotes."""
    quoted: bytes | None = parameter[2]
    return parameter[3] if quoted is None else _QUOTED_PAIR.sub(rb"\1", quoted)


def parameters(value: bytes) -> Mapping[str, str]:
    """Read the parameters of a Content-Type or Content-Disposition, RFC 2231 pieces joined.

    Examples
    --------
    >>> parameters(b"text/plain; charset=utf-8; name*0*=utf-8''caf%C3; name*1*=%A9.txt")
    mappingproxy({'charset': 'utf-8', 'name': 'café.txt'})
    """
    if b";" not in value:
        return _NONE
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
        place = int(digits) if digits.isdecimal() and len(digits) < 5 else 0
        pieces.setdefault(name, []).append((place, encoded, text))
    for name, found in pieces.items():
        charset = ""
        joined = b""
        for place, encoded, text in sorted(found):
            if encoded:
                if place == 0 and text.count(b"'") >= 2:
                    declared, _, text = text.split(b"'", 2)
                    charset = declared.decode("latin-1")
                text = _percent(text)
            joined += text
        plain[name] = decode_text(joined, charset)
    return MappingProxyType(plain)


# Most messages say one of a few things.
_common_parameters = lru_cache(maxsize=1024)(_read_parameters)


_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")


def _percent(text: bytes) -> bytes:
    return _PERCENT.sub(lambda match: bytes((int(match[1], 16),)), text)
