"""Rich Text Format (RTF). Outlook compresses it, and often puts a page of HTML into it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from streamnb.mail.charsets import decode_text, guess_fallback
from streamnb.patterns import lazy_pattern

# The beginning of the dictionary (MS-OXRTFCP, 2.1.2.1).
_DICTIONARY = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript "
    rb"\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"  # codespell:ignore pard
)
_DICTIONARY_SIZE = 4096  # bytes
_HEADER_SIZE = 16  # bytes before the compressed data
_TOKEN = lazy_pattern(
    rb"\\(?:([a-z]{1,32})(-?\d{1,9})? ?|'([0-9a-f]{2})|(.))|([{}])|[^\\{}\r\n]++", re.I | re.S
)
_CODE_PAGE = lazy_pattern(rb"\\ansicpg(\d{1,5})")
_CHARACTERS = {
    b"par": b"\n", b"line": b"\n", b"row": b"\n", b"tab": b"\t", b"cell": b"\t", b"~": b" ",
    b"{": b"{", b"}": b"}", b"\\": b"\\", b"\n": b"\n", b"\r": b"\n", b"_": b"-",
    b"lquote": b"'", b"rquote": b"'", b"ldblquote": b'"', b"rdblquote": b'"',
    b"endash": b"-", b"emdash": b"-", b"bullet": b" ",
}  # fmt: skip
_UNSHOWN = frozenset((b"fonttbl", b"colortbl", b"stylesheet", b"info", b"pict", b"*"))
_PROLOGUE = 1000  # bytes that have the word for HTML and the code page
_ADDRESS = lazy_pattern(r"(?:[a-z][a-z\d+.-]{1,20}+://|mailto:|www\.)[^\s\"]+", re.I)
_HIDDEN, _INSTRUCTION = "hidden", "instruction"
_COLOURS = lazy_pattern(rb"\{\\colortbl([^{}]{0,9999}+)\}")
_NAMES_OF_PROPERTIES = {
    b"cf": "colour", b"cb": "background", b"highlight": "background", b"chcbpat": "background",
    b"fs": "size",
}  # fmt: skip
_DEFAULT_SIZE, _SMALLEST_SIZE = 24, 4  # half points; text of this size is hidden, as in HTML


class _State(NamedTuple):
    """The state of a group: its text is left out, or is RTF for HTML; see `read_page`.

    `colour` and `background` are numbers of colours, 0 for the default; `size` is in half points.
    """

    is_unshown: bool = False
    is_replaced: bool = False
    is_instruction: bool = False  # of a field
    is_hidden: bool = False
    colour: int = 0
    background: int = 0
    size: int = _DEFAULT_SIZE
    skip_size: int = 1  # characters that replace a character of Unicode for old programs

    def kind(self, colours: list[bytes]) -> str:
        """Return "" for visible text, `_HIDDEN`, or `_INSTRUCTION` for that of a field."""
        if self.is_instruction:
            return _INSTRUCTION
        colour, background = (
            (colours[number] if 0 < number < len(colours) else b"") or default
            for number, default in ((self.colour, _BLACK), (self.background, _WHITE))
        )
        is_hidden = self.is_hidden or self.size <= _SMALLEST_SIZE or colour == background
        return _HIDDEN if is_hidden else ""


_BLACK, _WHITE = (b"\\red%d\\green%d\\blue%d" % (level, level, level) for level in (0, 255))


def expand_rtf(data: bytes, limit: int) -> bytes:
    r"""Return about `limit` bytes of compressed RTF at most; the text ends at the first damage.

    Examples
    --------
    >>> text = bytes.fromhex("03000a0072637067313235423220f320")
    >>> expand_rtf(bytes(8) + b"LZFu" + bytes(4) + text, 100)[:20]
    b'{\\rtf1\\ansi\\ansicpg1'
    """
    if data[8:12] != b"LZFu":
        return data[_HEADER_SIZE : _HEADER_SIZE + limit] if data[8:12] == b"MELA" else b""
    out = bytearray(_DICTIONARY)
    position = _HEADER_SIZE
    while position < len(data) and len(out) < len(_DICTIONARY) + limit:
        flags = data[position]
        position += 1
        for bit in range(8):
            if not flags >> bit & 1:
                out += data[position : position + 1]
                position += 1
                continue
            reference = int.from_bytes(data[position : position + 2], "big")
            distance = (len(out) - (reference >> 4)) % _DICTIONARY_SIZE
            start = len(out) - distance
            if not distance or start < 0 or position + 2 > len(data):
                return bytes(out[len(_DICTIONARY) :])
            size = (reference & 15) + 2
            run = out[start : start + size]
            out += run if len(run) == size else (run * size)[:size]  # it repeats itself
            position += 2
    return bytes(out[len(_DICTIONARY) :])


def read_page(rtf: bytes) -> str:
    r"""Return the page of HTML in RTF; "" for other RTF, which repeats a body of plain text.

    Examples
    --------
    >>> read_page(rb"{\rtf1\fromhtml1 {\*\htmltag64 <p>}\htmlrtf {\b\htmlrtf0 caf\'e9 \u8364?}")
    '<p>café €'
    """
    if b"\\fromhtml1" not in rtf[:_PROLOGUE]:
        return ""
    return "".join(text for _, text in _read(rtf, b"htmltag"))


def read_text(rtf: bytes) -> str:
    r"""Return the text of RTF as HTML, and the addresses of its links.

    Hidden text is invisible, as templates are in HTML.

    Examples
    --------
    >>> read_text(rb"{\rtf1{\fonttbl\f0 Arial;}{\*\fldinst{LINK http://a.b }}{\fldrslt caf\'e9}}")
    'http://a.b café'
    >>> read_text(rb"{\rtf1 a < b{\v c}}")
    'a &lt; b<template> c</template>'
    """
    pieces: list[str] = []
    for kind, text in _read(rtf, b"fldinst"):
        if kind == _INSTRUCTION:
            text = "".join(address + " " for address in _ADDRESS.findall(text))
        page = escape(text, quote=False)
        pieces.append(f"<template> {page}</template>" if kind == _HIDDEN else page)
    return "".join(pieces)


def _read(rtf: bytes, shown_group: bytes) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each piece of RTF.

    Of the groups that programs can ignore, one kind is read.
    """
    prologue = rtf[:_PROLOGUE]
    page = _CODE_PAGE.search(prologue)
    charset = "cp" + page[1].decode() if page else ""
    has_html = shown_group == b"htmltag"
    runs: list[tuple[str, bytes, str]] = []  # kind, text, and a character of Unicode after it
    run = bytearray()
    kind = ""
    table = None if has_html else _COLOURS.search(rtf)
    colours = b"".join(table[1].split()).split(b";") if table else []
    state, stack, skip_count = _State(), [], 0
    for token in _TOKEN.finditer(rtf):
        word, number, byte, symbol, brace = token.groups()
        if brace == b"{":
            stack.append(state)
        elif brace:
            state = stack.pop() if stack else _State()
        elif word == shown_group:
            state = state._replace(is_unshown=False, is_replaced=False, is_instruction=not has_html)
        elif word == b"htmlrtf":
            state = state._replace(is_replaced=has_html and number != b"0")
        elif word == b"v":
            state = state._replace(is_hidden=number != b"0")
        elif word == b"plain":
            state = state._replace(is_hidden=False, colour=0, background=0, size=_DEFAULT_SIZE)
        elif word in _NAMES_OF_PROPERTIES:
            change: dict[str, Any] = {_NAMES_OF_PROPERTIES[word]: abs(int(number or 0))}
            state = state._replace(**change)
        elif word == b"uc":
            state = state._replace(skip_size=int(number or 1))
        elif (word or symbol) in _UNSHOWN:
            state = state._replace(is_unshown=True)
        elif state.is_unshown or state.is_replaced:
            continue
        else:
            if not has_html and kind != (state_kind := state.kind(colours)):
                runs.append((kind, bytes(run), ""))
                run.clear()
                kind = state_kind
            if word == b"u":
                runs.append((kind, bytes(run), chr(int(number or 0) & 0xFFFF)))
                run.clear()
                skip_count = state.skip_size
            elif word or symbol:
                run += _CHARACTERS.get(word or symbol, b"")
            else:
                piece = bytes((int(byte, 16),)) if byte else token[0]
                run += piece[max(skip_count, 0) :]
                skip_count -= len(piece)
    runs.append((kind, bytes(run), ""))
    fallback = guess_fallback((data, charset) for _, data, _ in runs)
    for kind, pieces in groupby(runs, itemgetter(0)):
        text = "".join(
            decode_text(data, charset, fallback) + character for _, data, character in pieces
        )
        yield kind, text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
