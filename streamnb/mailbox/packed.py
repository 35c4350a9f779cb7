"""The features of a message as bytes, as the ledger keeps them.

A byte says how many views there are; for each come how many features it has, how they are written,
the features and their counts. Features are their fingerprints, of 8 bytes, or of one to four bytes
each one more than the place where it lies (`streamnb.counts.database`): 0 stands for one of the
fingerprints that follow.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamnb.counts.protocol import Ints, Keys
from streamnb.features.token_counts import TokenCounts

# Which features a view has at some places, and where some lie: -1 for nowhere.
FeaturesAt = Callable[[int, Ints], Keys]
PlacesOf = Callable[[int, Keys], Ints]

_VIEW = struct.Struct("<IB")  # how many features, and how they and their counts are written
# How counts are written, and 16 for each byte of a place where those are written.
_ANY, _ONCE, _SMALL, _PLACE = 0, 1, 2, 16
_COUNTS = {_ANY: "<f8", _SMALL: "u1"}
_WIDEST = 4
_SOME_PLACED = 0x80  # beside the number of views
PLACED = bytes([_SOME_PLACED])  # packed tokens that have places are not less than this


def pack_tokens(views: Sequence[TokenCounts], places_of: PlacesOf | None = None) -> bytes:
    """The features of a message as bytes; with `places_of` as places, where they have some."""
    parts = [b""]
    placed = 0
    for number, view in enumerate(views):
        counts = view.counts
        if (counts == 1).all():
            how = _ONCE
        else:
            how = _SMALL if (counts <= 255).all() and (counts == np.rint(counts)).all() else _ANY
        width, features = 0, view.fingerprints.astype("<u8").tobytes()
        if places_of is not None:
            places = places_of(number, view.fingerprints)
            if -1 < places.max(initial=-1) < (1 << (8 * _WIDEST)) - 1:
                width, features = _with_places(view.fingerprints, places)
                placed = _SOME_PLACED
        parts += [_VIEW.pack(len(view), how + _PLACE * width), features]
        parts.append(counts.astype(_COUNTS[how]).tobytes() if how != _ONCE else b"")
    parts[0] = bytes([len(views) | placed])
    return b"".join(parts)


def _with_places(fingerprints: Keys, places: Ints) -> tuple[int, bytes]:
    """How many bytes a place takes, and the features."""
    width = (int(places.max() + 1).bit_length() + 7) // 8
    numbers = (places + 1).astype("<u8").view("u1").reshape(-1, 8)[:, :width]
    return width, numbers.tobytes() + fingerprints[places < 0].astype("<u8").tobytes()


def unpack_tokens(packed: bytes, features_at: FeaturesAt | None = None) -> tuple[TokenCounts, ...]:
    """What `pack_tokens` packed; ValueError where it is not sound, or has places all the same."""
    rest = _Reader(packed)
    views = []
    for number in range(rest.take(1)[0] & ~_SOME_PLACED if packed else 0):
        size, how = _VIEW.unpack(rest.take(_VIEW.size))
        width, how = divmod(how, _PLACE)
        if how not in (*_COUNTS, _ONCE) or width > _WIDEST or (width and features_at is None):
            raise ValueError("the tokens are not sound")
        if width and features_at is not None:
            written = rest.numbers("u1", size * width).reshape(size, width)
            numbers = np.zeros((size, 8), "u1")
            numbers[:, :width] = written
            places = numbers.view("<u8")[:, 0].astype(np.int64) - 1
            lying = places >= 0
            fingerprints = features_at(number, places[lying])
            if len(fingerprints) < size:
                found, fingerprints = fingerprints, np.empty(size, np.uint64)
                fingerprints[lying] = found
                fingerprints[~lying] = rest.numbers("<u8", size - len(found))
        else:
            fingerprints = rest.numbers("<u8", size).astype(np.uint64)
        counts = np.ones(size)
        if how != _ONCE:
            counts = rest.numbers(_COUNTS[how], size).astype(np.float64)
        views.append(TokenCounts(fingerprints, counts))
    if rest.at != len(packed):
        raise ValueError("the tokens are not sound")
    return tuple(views)


def places_in(packed: bytes) -> list[Ints]:
    """The places that each view has; those before what is not sound."""
    found: list[Ints] = []

    def noted(view: int, places: Ints) -> Keys:
        found.extend([np.empty(0, np.int64)] * (view - len(found)))
        found.append(places)
        return places.astype(np.uint64)

    with suppress(ValueError):
        unpack_tokens(packed, noted)
    return found


class _Reader:
    """Bytes that are read from the beginning on."""

    def __init__(self, packed: bytes) -> None:
        self.packed = packed
        self.at = 0

    def take(self, size: int) -> bytes:
        """So many bytes; ValueError where there are fewer."""
        start, self.at = self.at, self.at + size
        if self.at > len(self.packed):
            raise ValueError("the tokens are cut off")
        return self.packed[start : self.at]

    def numbers(self, kind: str, size: int) -> NDArray[Any]:
        """So many numbers of a type."""
        return np.frombuffer(self.take(size * np.dtype(kind).itemsize), kind)
