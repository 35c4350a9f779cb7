r"""Text of ISO-2022: charsets with two bytes per character, switched by escape sequences.

Python's codecs refuse characters that occur in mail: those of NEC and IBM, and half-width katakana.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from streamnb.patterns import lazy_pattern

# An escape sequence that designates a charset, a shift between two of them, a line end.
_SWITCH = lazy_pattern(rb"\x1b(?:\$([@-D])|\$\(([@-D])|\$\)([ACEG])|\(([A-Z])|[.N].?)|[\x0e\x0f\n]")
_WORD = lazy_pattern(rb"[\x21-\x7e]+")
_TO_HIGH = bytes(byte | 0x80 for byte in range(256))
_ASCII = b"B"
_JIS, _JIS_1990, _GB, _KOREAN, _JIS_2 = b"$@", b"$B", b"$A", b"$C", b"$D"
_KATAKANA = b"I"
_HIGH_CODECS = {_GB: "gb18030", _KOREAN: "cp949"}


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
    state, start = _State(), 0
    for switch in _SWITCH.finditer(data):
        texts.append(_decode_run(data[start : switch.start()], state))
        state = _switch(state, switch)
        start = switch.start() if switch[0] == b"\n" else switch.end()
    texts.append(_decode_run(data[start:], state))
    return "".join(texts)


def _switch(state: _State, switch: re.Match[bytes]) -> _State:
    """Return the state after an escape sequence, a shift or a line end."""
    japanese, other, shifted, single = switch.groups()
    if switch[0] == b"\x0e" or switch[0] == b"\x0f":
        return state._replace(is_shifted=switch[0] == b"\x0e")
    if switch[0] == b"\n":  # a line begins in ASCII
        return state._replace(plain=_ASCII, is_shifted=False)
    if shifted:
        return state._replace(shifted=b"$" + shifted)
    if japanese or other:
        return state._replace(plain=b"$" + (japanese or other), is_shifted=False)
    return state._replace(plain=single, is_shifted=False) if single else state


def _decode_run(data: bytes, state: _State) -> str:
    """Decode bytes between two switches."""
    charset = state.shifted if state.is_shifted else state.plain
    if charset == _KATAKANA:
        return data.translate(_TO_HIGH).decode("cp932", "replace") if data.isascii() else ""
    if charset[:1] != b"$":
        return data.decode("cp932", "replace")
    texts, start = [], 0
    for word in _WORD.finditer(data):  # blanks and control characters are single bytes
        texts.append(data[start : word.start()].decode("ascii", "replace"))
        texts.append(_decode_pairs(word[0], charset))
        start = word.end()
    texts.append(data[start:].decode("ascii", "replace"))
    return "".join(texts)


def _decode_pairs(pairs: bytes, charset: bytes) -> str:
    """Decode characters of two bytes below 128."""
    if charset in (_JIS, _JIS_1990):
        return _to_shift_jis(pairs).decode("cp932", "replace")
    high = pairs.translate(_TO_HIGH)
    if charset == _JIS_2:
        plane_marks = (b"\x8f" + high[i : i + 2] for i in range(0, len(high), 2))
        return b"".join(plane_marks).decode("euc_jp", "replace")
    codec = _HIGH_CODECS.get(charset)
    return high.decode(codec, "replace") if codec else "\ufffd" * (len(pairs) // 2)


def _to_shift_jis(pairs: bytes) -> bytes:
    """Return characters of JIS X 0208 in Shift_JIS; Microsoft's codec has NEC's and IBM's, too."""
    converted = bytearray()
    for row, cell in zip(pairs[::2], pairs[1::2], strict=False):
        converted.append((row + 1 >> 1) + (0x70 if row < 0x5F else 0xB0))
        if row & 1:
            converted.append(cell + (0x1F if cell < 0x60 else 0x20))
        else:
            converted.append(cell + 0x7E)
    return bytes(converted)
