"""How features lie in a database: so many in a block, each with its counts.

A block is a byte that says how numbers are written, the features' fingerprints, the day when each
was learned last, in how many messages each was, and their counts in all classes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK", "LAST_DAY", "Page", "distinct", "features_of", "read_blocks", "written_blocks"]

Number = TypeVar("Number", np.int64, np.uint64)

BLOCK = 32  # features
LAST_DAY = (1 << 16) - 1  # that a block has room for, of days since 1970


class _Kind(NamedTuple):
    """How the numbers of a block are written.

    Counts are multiples of `unit`; of messages, `times` can be written.
    """

    counts: str
    times: str
    unit: float


# The first that holds all numbers of a block exactly is taken. (Models that take the length of
# messages into account count multiples of 2^-10: `_STEP` in naive_bayes/counting.py.)
_KINDS = (
    _Kind("u1", "u1", 1.0),
    _Kind("<u2", "u1", 2.0**-10),
    _Kind("<f4", "<u4", 1.0),
    _Kind("<f8", "<u4", 1.0),
)
# Blocks of the first version: counts, and in the bytes of one more number messages and day.
_FORMER = 8 * BLOCK


def distinct(numbers: NDArray[Number]) -> NDArray[Number]:
    """As numpy.unique, which imports numpy.ma: that is long for a process of one message."""
    rising = np.sort(numbers)
    first = np.ones(len(rising), bool)
    np.not_equal(rising[1:], rising[:-1], out=first[1:])
    return rising[first]


class Page:
    """Some blocks, read into memory.

    Parameters
    ----------
    blocks
        Their numbers, shape (b,), rising.
    classes
        For how many there is room.

    Attributes
    ----------
    keys
        The features' fingerprints, shape (b * BLOCK,).
    cells
        Their counts, shape (b * BLOCK, K).
    seen
        How many messages each was learned from, and on what day last, shape (b * BLOCK, 2).
    """

    def __init__(self, blocks: NDArray[np.int64], classes: int) -> None:
        rows = len(blocks) * BLOCK
        self.blocks = blocks
        self.keys = np.zeros(rows, np.uint64)
        self.cells = np.zeros((rows, classes))
        self.seen = np.zeros((rows, 2), np.uint32)

    def rows(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which rows the places of features are."""
        rows: NDArray[np.int64] = np.searchsorted(self.blocks, places // BLOCK) * BLOCK
        return rows + places % BLOCK

    def take(self, other: Page) -> None:
        """Take over the blocks of another page; for all of them there must be room."""
        rows = (self.rows(other.blocks * BLOCK)[:, None] + np.arange(BLOCK)).ravel()
        self.keys[rows], self.seen[rows] = other.keys, other.seen
        self.cells[rows, : other.cells.shape[1]] = other.cells


@lru_cache(maxsize=64)
def _layout(kind: int, classes: int) -> np.dtype[Any]:
    return np.dtype(
        [
            ("kind", "u1"),
            ("keys", "<u8", (BLOCK,)),
            ("days", "<u2", (BLOCK,)),
            ("times", _KINDS[kind].times, (BLOCK,)),
            ("cells", _KINDS[kind].counts, (BLOCK, classes)),
        ]
    )


def read_blocks(found: Iterable[tuple[int, bytes]], page: Page) -> None:
    """Read blocks into a page; each comes with where it belongs in `page.blocks`.

    Raises
    ------
    ValueError, LookupError, TypeError
        For what is no block, or one of more classes.
    """
    alike = defaultdict(list)
    for number, block in found:
        alike[len(block), block[0]].append((number, block))
    keys = page.keys.reshape(-1, BLOCK)
    cells = page.cells.reshape(len(page.blocks), BLOCK, page.cells.shape[1])
    seen = page.seen.reshape(-1, BLOCK, 2)
    for (size, kind), some in alike.items():
        at = [number for number, _ in some]
        data = b"".join([block for _, block in some])
        if size % _FORMER == 0:
            _read_former(data, size, at, cells, seen)
            continue
        if kind >= len(_KINDS):
            raise ValueError("no such kind")
        bare = _layout(kind, 0).itemsize
        classes = max(0, size - bare) // (_layout(kind, 1).itemsize - bare)
        layout = _layout(kind, classes)
        if layout.itemsize != size or classes > cells.shape[2]:
            raise ValueError("no such size")
        blocks = np.frombuffer(data, layout)
        keys[at] = blocks["keys"]
        cells[at, :, :classes] = blocks["cells"] * _KINDS[kind].unit
        seen[at, :, 0], seen[at, :, 1] = blocks["times"], blocks["days"]


def features_of(block: bytes) -> NDArray[np.uint64]:
    """The fingerprints of a block's features, shape (BLOCK,); ValueError for what is none."""
    if len(block) % _FORMER == 0:
        raise ValueError("a block without them")
    return np.frombuffer(block, "<u8", BLOCK, 1).astype(np.uint64)


def _read_former(
    data: bytes, size: int, at: list[int], cells: NDArray[np.float64], seen: NDArray[np.uint32]
) -> None:
    numbers = np.frombuffer(data, "<f8").reshape(len(at), BLOCK, size // _FORMER)
    classes = numbers.shape[2] - 1
    if not 0 <= classes <= cells.shape[2]:
        raise ValueError("no such size")
    cells[at, :, :classes] = numbers[:, :, :-1]
    seen[at] = np.ascontiguousarray(numbers[:, :, -1:]).view("<u4")


def written_blocks(page: Page, which: NDArray[np.int64]) -> list[bytes]:
    """Some blocks of a page, as `read_blocks` reads them."""
    classes = page.cells.shape[1]
    keys = page.keys.reshape(-1, BLOCK)[which]
    cells = page.cells.reshape(-1, BLOCK, classes)[which]
    seen = page.seen.reshape(-1, BLOCK, 2)[which]
    written = [b""] * len(which)
    left = np.arange(len(which))
    for kind in range(len(_KINDS)):
        fits = _fits(_KINDS[kind], cells[left], seen[left, :, 0])
        some, left = left[fits], left[~fits]
        blocks = np.empty(len(some), _layout(kind, classes))
        blocks["kind"] = kind
        blocks["keys"] = keys[some]
        blocks["cells"] = cells[some] / _KINDS[kind].unit
        blocks["times"], blocks["days"] = seen[some, :, 0], seen[some, :, 1]
        data, size = blocks.tobytes(), blocks.itemsize
        for i, number in enumerate(some.tolist()):
            written[number] = data[i * size : (i + 1) * size]
    return written


def _fits(kind: _Kind, cells: NDArray[np.float64], times: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Which blocks can be written so."""
    counts = np.dtype(kind.counts)
    if counts.itemsize == 8:
        return np.ones(len(cells), bool)
    scaled = cells / kind.unit
    with np.errstate(over="ignore"):
        exact = scaled == (scaled.astype(counts) if counts.kind == "f" else np.rint(scaled))
    if counts.kind == "u":
        exact &= (scaled >= 0) & (scaled <= np.iinfo(counts).max)
    fits: NDArray[np.bool_] = exact.all(axis=(1, 2))
    return fits & (times <= np.iinfo(kind.times).max).all(axis=1)
