"""A guess of the charset of undeclared text: the one in which its characters are most likely."""

from __future__ import annotations

import codecs
from functools import lru_cache
from math import exp, inf, log
from typing import NamedTuple

from streamnb.patterns import lazy_pattern

_RUN = lazy_pattern(rb"[\x80-\xff]++[@-~]?")  # the last byte may be the second of a character
_SAMPLE = 1 << 14  # bytes of the text that are searched for runs
_MAX_RUNS = 512  # bytes of runs that are decoded: about 0.3 ms
_MIN_BYTES = 3  # beyond ASCII; fewer prove nothing
_MIN_DISTINCT = 3  # letters of an alphabet; two can be a pair of quotation marks
_MIN_DISTINCT_PAIRS = 2
_MIN_RUN = 2.0  # bytes beyond ASCII in a row in another alphabet; most runs of Latin have one byte
# Runs of these sizes at most, with more ASCII letters beside them, are Latin without further tests.
_MAX_LATIN, _MAX_LATIN_RUN = 1.2, 1.5
_MAX_RARE = 0.1  # share of bytes that are rare in Latin text
_HIGH_BYTES = bytes(range(0x80, 0x100))
_SECOND_BYTES = (*range(0x40, 0x7F), *range(0xA1, 0xFF))
_LETTERS = bytes(range(0x41, 0x5B)) + bytes(range(0x61, 0x7B))
# h for a byte beyond ASCII, a for a letter of ASCII
_KINDS = bytes(0x61 if byte in _LETTERS else 0x68 if byte > 0x7F else 0x20 for byte in range(256))
# Marks of Latin text, such as quotation marks, without other bytes beyond ASCII beside them; last
# the French quotation marks of Mac Roman, with their blanks.
_LATIN_MARK = lazy_pattern(
    rb"(?<![\x80-\xff])(?:[\x84\x85\x91-\x97\xa0\xa9\xab\xae-\xb0\xb7\xbb]{1,2}"
    rb"|\xc7\xca|\xca\xc8\xca?)(?![\x80-\xff])"
)
_RARE_IN_LATIN = bytes((*range(0x80, 0x8A), 0xA2, 0xA4, 0xA7, 0xAD, 0xB2, 0xB4, 0xBD))
# Log-likelihoods, chosen on the messages of programs (gettext) in 33 languages. `docs/model.md`
# shows the errors of the guess, and the effect of half and of twice each constant.
_LATIN_LETTER = -4.5
_MARK = -3.0
_AFTER_LATIN = -2.5  # a letter beyond ASCII after another one, or a byte that is rare in Latin text
_ALONE = -1.0  # a side of a run without an ASCII letter
_BESIDE_ASCII = -4.0  # a character of another script beside an ASCII letter
_INVERTED_PAIR = -4.0  # a small letter before a capital; the Greek sigma for ends inside a word
_CAPITAL = -0.7  # in text that has small letters, too
_MOSTLY_CAPITALS = -2.0  # text with more capitals than small letters
_UNUSUAL = -13.8
_ASCII_BYTE = 3.7  # the gain if an ASCII byte is part of a character
_MARGIN = 3.0  # by which a charset must be more likely than Latin
_INVERTED = lazy_pattern(
    r"[\u0430-\u045f\u03ac-\u03ce][\u0400-\u042f\u0386-\u03ab]|\u03c2(?=[\u03b1-\u03c9])"
)
_HANZI = (
    "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就"
    "分对成会可主发年动同工也能下过子说产种面而方后多定行学法所民得经"
)
_TRADITIONAL = (
    "的一是在不了有和人這中大為上個國我以要他時來用們生到作地於出就"
    "分對成會可主發年動同工也能下過子說產種面而方後多定行學法所民得經"
)
_KANA = "のにはをがたでてとしれさいなもすかりるこまんうあらきくっよどそー"
_HANGUL = "이다는에의을가를은로하고지한도기사인서시그자대리어해나아과수정일부보만전있주성상"
_MARKS = "。、「」『』《》“”・…　【】\uff0c\uff01\uff1f\uff1a\uff08\uff09"
_JAPANESE = ((0.4, "euc_jp", 0xB0, 0xCF), (0.2, "euc_jp", 0xA4, 0xA5), (0.35, _KANA))
# Charset, and the shares of its usual characters: some with certain first bytes, and frequent ones.
_DOUBLE_BYTE = {
    "cp932": _JAPANESE,
    "euc_jis_2004": _JAPANESE,
    "gb18030": ((0.7, "gb2312", 0xB0, 0xD7), (0.22, _HANZI)),
    "big5hkscs": ((0.7, "big5", 0xA4, 0xC6), (0.22, _TRADITIONAL)),
    "cp949": ((0.5, "euc_kr", 0xB0, 0xC8), (0.45, _HANGUL)),
}
_RANK_SCALE = (
    9.0  # ranks after which a letter is e times as rare; an estimate from Russian and Hebrew
)
_CYRILLIC = "оеаинтсрвлкмдпуяыьгзбчійхжшюцщэфјїєъёґљњћђўџќѓѕ"
# Charset, and its letters by frequency.
_SINGLE_BYTE = (
    ("cp1251", _CYRILLIC),
    ("koi8-u", _CYRILLIC),
    ("iso8859-5", _CYRILLIC),
    ("cp866", _CYRILLIC),
    ("cp1253", "αοιετσνηυρπκμλςίγόδάέύήωχθώφβξζψϊϋΐΰ"),
    ("cp1255", "יהולארתבמשענכדחםפקסןצגטז־ךףץ"),
    ("cp1256", "اليمنورتبةعدسفهكقأحجشصطخضىثئإزذءغظؤآ،؟"),
    ("cp874", "านรอกเงมยลวดทัส่้ีติะปบคหแจพชขืุไู์ใ็โำผถซณธศฉภษญฐฟฝฮๆ"),
)


def guess_charset(data: bytes) -> str:
    """Return the charset of a text; "" if it is ASCII, Latin or too short.

    Examples
    --------
    >>> text = "Привет! Как дела?"
    >>> guess_charset(text.encode("koi8-r")), guess_charset(text.encode("cp1251"))
    ('koi8-u', 'cp1251')
    >>> guess_charset("無料のお知らせ".encode("cp932"))
    'cp932'
    >>> guess_charset("Où êtes-vous allés cet été, à la mer ou à la forêt ?".encode("latin-1"))
    ''
    """
    if data.isascii():
        return ""
    data = data[:_SAMPLE]
    shape = _count_runs(data)
    rare_count = len(data) - len(data.translate(None, _RARE_IN_LATIN))
    is_latin = shape.is_latin() and rare_count < _MAX_RARE * shape.high_count
    if shape.high_count < _MIN_BYTES or is_latin:
        return ""
    if _is_utf8(data):
        return "utf-8"
    sample = _find_runs(data)
    before, after = _count_runs(sample)[2:]
    likelihoods = {
        charset: _double_byte_likelihood(sample, charset) + before * _BESIDE_ASCII
        for charset in _DOUBLE_BYTE
    }
    for charset, letters in _SINGLE_BYTE if shape.high_count >= _MIN_RUN * shape.run_count else ():
        sides_likelihood = (before + after) * _BESIDE_ASCII
        likelihoods[charset] = _likelihood(sample, charset, letters) + sides_likelihood
    best = max(likelihoods, key=likelihoods.__getitem__)
    return best if likelihoods[best] > _latin_likelihood(sample) + _MARGIN else ""


class _Runs(NamedTuple):
    """Numbers of bytes beyond ASCII, their runs, and the ASCII letters before and after a run."""

    high_count: int
    run_count: int
    before: int
    after: int

    def is_latin(self) -> bool:
        """Return True if the runs are as short and as near to ASCII letters as in Latin text."""
        is_short = self.high_count < _MAX_LATIN_RUN * self.run_count
        return is_short and self.before + self.after > _MAX_LATIN * self.run_count


def _count_runs(data: bytes) -> _Runs:
    kinds = data.translate(_KINDS)
    before = kinds.count(b"ah")
    run_count = before + kinds.count(b" h") + kinds.startswith(b"h")
    return _Runs(kinds.count(b"h"), run_count, before, kinds.count(b"ha"))


def _find_runs(data: bytes) -> bytes:
    """Return the first runs of bytes beyond ASCII, with the ASCII bytes beside them."""
    runs: list[bytes] = []
    size = end = 0
    for match in _RUN.finditer(data):
        runs.append(data[max(match.start() - 1, end) : match.end()])
        end = match.end()
        size += len(runs[-1])
        if size >= _MAX_RUNS:
            break
    return b" ".join(runs)[: 2 * _MAX_RUNS]


def _latin_likelihood(sample: bytes) -> float:
    """Return the log-likelihood of bytes beyond ASCII in Latin text of any charset."""
    mark_count = _count_runs(sample).high_count
    sample = _LATIN_MARK.sub(b" ", sample)
    letter_count, run_count, before, after = _count_runs(sample)
    mark_count -= letter_count
    rare_count = len(sample) - len(sample.translate(None, _RARE_IN_LATIN))
    return (
        mark_count * _MARK
        + letter_count * _LATIN_LETTER
        + (letter_count - run_count + rare_count) * _AFTER_LATIN
        + (2 * run_count - before - after) * _ALONE
    )


def _double_byte_likelihood(sample: bytes, charset: str) -> float:
    """Return the log-likelihood of text in a charset with two bytes per character."""
    text = sample.decode(charset, "replace")
    characters = [character for character in text if character > "\x7f"]
    if len(set(characters)) < _MIN_DISTINCT_PAIRS:
        return -inf
    weights = _character_weights(charset)
    ascii_count = len(sample) - len(sample.translate(None, _HIGH_BYTES))
    ascii_count = (len(sample) - ascii_count) - (len(text) - len(characters))
    return ascii_count * _ASCII_BYTE + sum([weights.get(item, _UNUSUAL) for item in characters])


@lru_cache(maxsize=len(_DOUBLE_BYTE))
def _character_weights(charset: str) -> dict[str, float]:
    """Return the log-likelihood of each usual character of a charset."""
    weights = dict.fromkeys(_MARKS, log(0.05 / len(_MARKS)))
    for share, characters, *first_bytes in _DOUBLE_BYTE[charset]:
        if first_bytes:
            first, last = first_bytes
            pairs = [bytes((i, j)) for i in range(first, last + 1) for j in _SECOND_BYTES]
            decoded = b"".join(pairs).decode(characters, "ignore")
            characters = "".join(filter("\x7f".__lt__, decoded))
        weights.update(dict.fromkeys(characters, log(share / len(characters))))
    return weights


def _likelihood(sample: bytes, charset: str, letters: str) -> float:
    """Return the log-likelihood of text in a charset with one byte per character."""
    text = sample.decode(charset, "replace")
    weights = _letter_weights(letters)
    lower = text.lower()
    if len(set(lower) & weights.keys()) < _MIN_DISTINCT:
        return -inf
    capital_count, small_count = sum(map(str.isupper, text)), sum(map(str.islower, text))
    return (
        sum([weights.get(item, _UNUSUAL) for item in lower if item > "\x7f"])
        + len(_INVERTED.findall(text)) * _INVERTED_PAIR
        + min(capital_count, small_count) * _CAPITAL
        + (capital_count > small_count) * _MOSTLY_CAPITALS
    )


@lru_cache(maxsize=len(_SINGLE_BYTE))
def _letter_weights(letters: str) -> dict[str, float]:
    """Return the log-likelihood of each letter, which falls exponentially with its rank."""
    total = sum(exp(-rank / _RANK_SCALE) for rank in range(len(letters)))
    return {letter: -rank / _RANK_SCALE - log(total) for rank, letter in enumerate(letters)}


def _is_utf8(data: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)  # the last character may be incomplete
    except UnicodeDecodeError:
        return False
    return True
