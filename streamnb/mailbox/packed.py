"""The features of a message as bytes in the ledger.

The first byte is the number of views. Each view follows: the number of its features, the types of
features and counts, the features, and the counts. A feature is a fingerprint of 8 bytes.

Most features have a place in `streamnb.counts.database`, which takes a quarter of the bytes. If
some features are written by place, the first byte has the flags `PLACED`, and zlib compresses the
other bytes. Then the features of a view are sorted by place, and those without a place come first.
A feature is written as the difference of its 1 + place from that of the previous feature. The
lowest bytes of all differences come first, then the next bytes. The fingerprints of the features
without a place follow.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamnb.counts.protocol import Ints, Keys
from streamnb.features.token_counts import TokenCounts

# Functions that return the features at places of a view, and the places of features (-1: no place).
FeaturesAt = Callable[[int, Ints], Keys]
PlacesOf = Callable[[int, Keys], Ints]

_VIEW = struct.Struct("<IB")  # number of features, format of features and counts
# Format byte: the type of the counts, plus 16 times the number of bytes of a place.
_ANY, _ONCE, _SMALL, _PLACE = 0, 1, 2, 16
_COUNTS = {_ANY: "<f8", _SMALL: "u1"}
_MAX_PLACE_BYTES = 4
# The first byte is the number of views. These two flags are added to it if the features are stored
# by place, and compressed.
_PLACED = 0xC0
PLACED = bytes([_PLACED])  # in queries: features with places begin with this byte or a larger one
# limit in bytes of a message's features; the largest message needs a tenth of it
_MAX_BYTES = 1 << 28


def pack_tokens(views: Sequence[TokenCounts], places_of: PlacesOf | None = None) -> bytes:
    """Return a message's features as bytes; with `places_of`, as places if they have places.

    With places, the features of a view are sorted by them.
    """
    parts = []
    flags = 0
    for number, view in enumerate(views):
        counts = view.counts
        width, features = 0, view.fingerprints.astype("<u8").tobytes()
        if places_of is not None:
            places = places_of(number, view.fingerprints)
            if -1 < places.max(initial=-1) < (1 << (8 * _MAX_PLACE_BYTES)) - 1:
                order = np.argsort(places, kind="stable")
                counts = counts[order]
                width, features = _with_places(view.fingerprints[order], places[order])
                flags = _PLACED
        if (counts == 1).all():
            count_kind = _ONCE
        else:
            is_small = (counts <= 255).all() and (counts == np.rint(counts)).all()
            count_kind = _SMALL if is_small else _ANY
        parts += [_VIEW.pack(len(view), count_kind + _PLACE * width), features]
        parts.append(counts.astype(_COUNTS[count_kind]).tobytes() if count_kind != _ONCE else b"")
    content = b"".join(parts)
    return bytes([len(views) | flags]) + (zlib.compress(content) if flags else content)


def _with_places(fingerprints: Keys, places: Ints) -> tuple[int, bytes]:
    """Return the bytes of a difference of places, and the order of the features by place."""
    differences = np.diff(places, prepend=-1)
    width = (int(differences.max()).bit_length() + 7) // 8
    numbers = differences.astype("<u8").view("u1").reshape(-1, 8)[:, :width]
    return width, numbers.T.tobytes() + fingerprints[places < 0].astype("<u8").tobytes()


def unpack_tokens(packed: bytes, features_at: FeaturesAt | None = None) -> tuple[TokenCounts, ...]:
    """Return the features that `pack_tokens` packed. Raise ValueError for damaged bytes."""
    flags = packed[0] & _PLACED if packed else 0
    if flags and (features_at is None or flags != _PLACED):
        raise ValueError("the tokens are damaged")
    reader = _Reader(_decompress(packed[1:]) if flags else packed[1:])
    views = []
    for number in range(packed[0] - flags if packed else 0):
        size, count_kind = _VIEW.unpack(reader.take(_VIEW.size))
        width, count_kind = divmod(count_kind, _PLACE)
        if count_kind not in (*_COUNTS, _ONCE) or width > _MAX_PLACE_BYTES or (width and not flags):
            raise ValueError("the tokens are damaged")
        if width and features_at is not None:
            written = reader.numbers("u1", size * width)
            numbers = np.zeros((size, 8), "u1")
            numbers[:, :width] = written.reshape(width, size).T
            places = numbers.view("<u8")[:, 0].astype(np.int64).cumsum() - 1
            is_placed = places >= 0
            fingerprints = features_at(number, places[is_placed])
            if len(fingerprints) < size:
                placed, fingerprints = fingerprints, np.empty(size, np.uint64)
                fingerprints[is_placed] = placed
                fingerprints[~is_placed] = reader.numbers("<u8", size - len(placed))
        else:
            fingerprints = reader.numbers("<u8", size).astype(np.uint64)
        counts = np.ones(size)
        if count_kind != _ONCE:
            counts = reader.numbers(_COUNTS[count_kind], size).astype(np.float64)
        views.append(TokenCounts(fingerprints, counts))
    if reader.position != len(reader.packed):
        raise ValueError("the tokens are damaged")
    return tuple(views)


def _decompress(content: bytes) -> bytes:
    """Return the decompressed bytes. Raise ValueError for damaged ones."""
    decompressor = zlib.decompressobj()
    try:
        plain = decompressor.decompress(content, _MAX_BYTES)
    except zlib.error:
        raise ValueError("the tokens are damaged") from None
    if not decompressor.eof or decompressor.unused_data:
        raise ValueError("the tokens are cut off")
    return plain


def places_in(packed: bytes) -> list[Ints]:
    """Return the places of each view, up to the first damaged byte."""
    view_places: list[Ints] = []

    def note_places(view: int, places: Ints) -> Keys:
        view_places.extend([np.empty(0, np.int64)] * (view - len(view_places)))
        view_places.append(places)
        return places.astype(np.uint64)

    with suppress(ValueError):
        unpack_tokens(packed, note_places)
    return view_places


class _Reader:
    """A reader of consecutive bytes."""

    def __init__(self, packed: bytes) -> None:
        self.packed = packed
        self.position = 0

    def take(self, size: int) -> bytes:
        """Return the next bytes. Raise ValueError if there are too few."""
        start, self.position = self.position, self.position + size
        if self.position > len(self.packed):
            raise ValueError("the tokens are cut off")
        return self.packed[start : self.position]

    def numbers(self, kind: str, size: int) -> NDArray[Any]:
        """Return the next numbers of a type."""
        return np.frombuffer(self.take(size * np.dtype(kind).itemsize), kind)
