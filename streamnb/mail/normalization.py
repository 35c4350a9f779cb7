"""The composed form (NFC) of text, in linear time."""

from __future__ import annotations

import unicodedata
from typing import AnyStr

from streamnb.patterns import lazy_pattern

_BEYOND_ASCII = lazy_pattern(r"[!-~]?[^\x00-\x7f]+")
_PIECE = 64  # number of characters to normalise at a time


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
    if len(run) <= _PIECE:
        return unicodedata.normalize("NFC", run)
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
