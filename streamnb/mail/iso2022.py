r"""Text of ISO-2022: charsets with two bytes per character, switched by escape sequences.

Python's codecs refuse characters that occur in mail: those of NEC and IBM, and half-width katakana.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from streamnb.patterns import lazy_pattern

# An escape sequence that designates a charset, a shift between two of them, a line end.
_SWITCH = lazy_pattern(rb"(\x1b(?:\$[@-D]|\$\([@-D]|\$\)[ACEG]|\([A-Z]|[.N].?)|[\x0e\x0f\n])")
_MAX_SHORT = 8  # bytes of a run whose text is cached
_WORD = lazy_pattern(rb"[\x21-\x7e]+")
_TO_HIGH = bytes(byte | 0x80 for byte in range(256))
_ASCII = b"B"
_JIS, _JIS_1990, _GB, _KOREAN, _JIS_2 = b"$@", b"$B", b"$A", b"$C", b"$D"
_KATAKANA = b"I"
_HIGH_CODECS = {_GB: "gb18030", _KOREAN: "cp949", _JIS_2: "euc_jp"}


class _State(NamedTuple):
    """The charset of plain bytes, the charset of shifted bytes, and whether bytes are shifted."""

    plain: bytes = _ASCII
    shifted: bytes = _KATAKANA
    is_shifted: bool = False


def decode_iso2022(data: bytes) -> str:
    r"""Decode ISO-2022-JP in all its variants, ISO-2022-KR and ISO-2022-CN.

    Examples
    --------
    >>> decode_iso2022(b"\x1b$B-!F|K\\\x1b(B 1 \x1b(I1\x1b(B")
    '①日本 1 ｱ'
    >>> decode_iso2022(b"\x1b$)C\x0e0!3*\x0f 1")
    '가나 1'
    """
    texts: list[str] = []
    state = _State()
    pieces = _SWITCH.split(data)
    for run, switch in zip(pieces[::2], [*pieces[1::2], b""], strict=True):
        step = _short_step if len(run) <= _MAX_SHORT else _step
        text, state = step(state, run, switch)
        texts.append(text)
    return "".join(texts)


def _step(state: _State, run: bytes, switch: bytes) -> tuple[str, _State]:
    """Return the text of a run and of the switch after it, and the state after both."""
    text = _decode_run(run, state) if run else ""
    return text + "\n" * (switch == b"\n"), _switch(state, switch)


_short_step = lru_cache(maxsize=1 << 13)(_step)  # hostile text has one character in each run


@lru_cache(maxsize=1024)
def _switch(state: _State, switch: bytes) -> _State:
    """Return the state after an escape sequence, a shift or a line end."""
    if switch == b"\x0e" or switch == b"\x0f":
        return state._replace(is_shifted=switch == b"\x0e")
    if switch == b"\n":  # a line begins in ASCII
        return state._replace(plain=_ASCII, is_shifted=False)
    kind, charset = switch[1:-1], switch[-1:]
    if kind == b"$)":
        return state._replace(shifted=b"$" + charset)
    if kind in (b"$", b"$(", b"("):
        return state._replace(plain=kind[:1].strip(b"(") + charset, is_shifted=False)
    return state


def _decode_run(data: bytes, state: _State) -> str:
    """Decode bytes between two switches."""
    charset = state.shifted if state.is_shifted else state.plain
    if charset == _KATAKANA:
        return data.translate(_TO_HIGH).decode("cp932", "replace") if data.isascii() else ""
    if charset[:1] != b"$":
        return data.decode("ascii" if data.isascii() else "cp932", "replace")
    characters = _characters(charset)
    if _WORD.fullmatch(data):
        return _decode_pairs(data, characters)
    texts, start = [], 0
    for word in _WORD.finditer(data):  # blanks and control characters are single bytes
        texts.append(data[start : word.start()].decode("ascii", "replace"))
        texts.append(_decode_pairs(word[0], characters))
        start = word.end()
    texts.append(data[start:].decode("ascii", "replace"))
    return "".join(texts)


def _decode_pairs(pairs: bytes, characters: _Characters) -> str:
    """Decode characters of two bytes below 128."""
    return pairs[: len(pairs) & -2].decode("utf-16-be").translate(characters)


class _Characters(dict[int, str]):
    """The characters of a charset by their two bytes; each is decoded at its first use."""

    def __init__(self, charset: bytes) -> None:
        self._charset = charset

    def __missing__(self, pair: int) -> str:
        if self._charset in (_JIS, _JIS_1990):
            character = _to_shift_jis(*divmod(pair, 256)).decode("cp932", "replace")
        elif codec := _HIGH_CODECS.get(self._charset):
            plane_mark = b"\x8f" if self._charset == _JIS_2 else b""
            high = (pair | 0x8080).to_bytes(2, "big")
            character = (plane_mark + high).decode(codec, "replace")
        else:
            character = "\ufffd"
        self[pair] = character
        return character


_characters = lru_cache(maxsize=16)(_Characters)


def _to_shift_jis(row: int, cell: int) -> bytes:
    """Return a character of JIS X 0208 in Shift_JIS; Microsoft's codec has NEC's and IBM's, too."""
    first = (row + 1 >> 1) + (0x70 if row < 0x5F else 0xB0)
    return bytes((first, cell + ((0x1F if cell < 0x60 else 0x20) if row & 1 else 0x7E)))
