"""A guess of the charset of undeclared text, by its most frequent characters."""

from __future__ import annotations

import codecs

from streamnb.patterns import lazy_pattern

_RUN = lazy_pattern(rb"[A-Za-z]?[\x80-\xff]++[A-Za-z]?")
_SAMPLE = 1 << 14  # bytes of the text that are tried
_MIN_CHARACTERS = 8  # beyond ASCII; fewer prove nothing
_MIN_RUN = (
    3.2  # bytes: mean size of a run with an ASCII letter on each side; Latin text has about 3
)
_MAX_LATIN = 0.3  # share of runs beside an ASCII letter; nearly 1 in Latin text
_MIN_SCORE = 0.5  # share of frequent characters, divided by their highest share below
_MAX_DAMAGED = 0.02  # share of characters that a charset may leave undecoded
_MIN_DISTINCT = 4  # frequent characters; a bullet in a list is one
# a small letter before a capital; the Greek sigma for ends of words inside a word
_INVERTED = lazy_pattern(
    r"[\u0430-\u044f\u0451\u03b1-\u03c9][\u0410-\u042f\u0401\u0391-\u03a9]|\u03c2(?=[\u03b1-\u03c9])"
)
_INVERTED_WEIGHT = 3  # frequent characters that one such pair outweighs
_HIGH_BYTES = bytes(range(0x80, 0x100))
_CYRILLIC = "оеаинтсрвлкмдпу"
_HANZI = (
    "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就"
    "分对成会可主发年动同工也能下过子说产种面而方后多定行学法所民得经"
)
_TRADITIONAL = (
    "的一是在不了有和人這中大為上個國我以要他時來用們生到作地於出就"
    "分對成會可主發年動同工也能下過子說產種面而方後多定行學法所民得經"
)
_KANA = "のにはをたがでてとしれさいなもすかりるこまんうあらきくっよどそー"
_HANGUL = "이다는에의을가를은로하고지한도기사인서시그자대리어해나아과수정일부보만전있주성상"
# Charset, its frequent characters, and their highest share of all non-ASCII characters.
_DOUBLE_BYTE = (
    ("cp932", _KANA, 0.4),
    ("euc_jis_2004", _KANA, 0.4),
    ("gb18030", _HANZI, 0.2),
    ("big5hkscs", _TRADITIONAL, 0.2),
    ("cp949", _HANGUL, 0.35),
)
_CANDIDATES = (
    *_DOUBLE_BYTE,
    ("cp1251", _CYRILLIC, 1.0),
    ("koi8-r", _CYRILLIC, 1.0),
    ("iso8859-5", _CYRILLIC, 1.0),
    ("cp866", _CYRILLIC, 1.0),
    ("cp1253", "αοιετσνηυρπκμλς", 1.0),
    ("cp1255", "יוהלאמרבתשנ", 1.0),
    ("cp1256", "اليمونرتبة", 0.9),
    ("cp874", "านรอกเงมยลวดทส่้", 0.9),
)


def guess_charset(data: bytes) -> str:
    """Return the charset of a text; "" if it is ASCII, Latin or too short.

    Examples
    --------
    >>> text = "Привет! Как дела? Приходите завтра на обед, будем рады."
    >>> guess_charset(text.encode("koi8-r")), guess_charset(text.encode("cp1251"))
    ('koi8-r', 'cp1251')
    >>> guess_charset("Où êtes-vous allés cet été, à la mer ou à la forêt ?".encode("latin-1"))
    ''
    """
    data = data[:_SAMPLE]
    if data.isascii():
        return ""
    runs = _RUN.findall(data)
    is_high_rare = sum(map(len, runs)) < _MIN_RUN * len(runs)
    if len(data) - len(data.translate(None, _HIGH_BYTES)) < _MIN_CHARACTERS or is_high_rare:
        return ""
    if _is_utf8(data):
        return "utf-8"
    is_latin = sum(map(_has_ascii, runs)) > _MAX_LATIN * len(runs)
    scores = {
        charset: _frequent_share(data, charset, frequent) / usual_share
        for charset, frequent, usual_share in (_DOUBLE_BYTE if is_latin else _CANDIDATES)
    }
    best = max(scores, key=scores.__getitem__)
    return best if scores[best] >= _MIN_SCORE else ""


def _frequent_share(data: bytes, charset: str, frequent: str) -> float:
    """Return the share of frequent characters among non-ASCII ones; 0 for damaged text."""
    text = data.decode(charset, "replace")
    characters = [character for character in text if character > "\x7f"]
    if text.count("\ufffd") > 1 + _MAX_DAMAGED * len(characters):
        return 0.0
    # Capitals of one charset are small letters of another.
    inverted_count = len(_INVERTED.findall(text))
    text = text.lower()
    counts = [text.count(character) for character in frequent]
    is_varied = len(counts) - counts.count(0) >= _MIN_DISTINCT
    score = sum(counts) - _INVERTED_WEIGHT * inverted_count
    return score / max(len(characters), 1) if is_varied else 0.0


def _is_utf8(data: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)  # the last character may be incomplete
    except UnicodeDecodeError:
        return False
    return True


def _has_ascii(run: bytes) -> bool:
    return run[0] < 0x80 or run[-1] < 0x80
