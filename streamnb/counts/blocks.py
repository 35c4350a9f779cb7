"""How features lie in a database: so many in a block, each with its counts.

A block is a byte that says how numbers are written, the features' fingerprints, the day when each
was learned last, in how many messages each was, and their counts: in all classes, or, where that is
shorter, those that are not 0, each with its feature and class.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamnb.counts.protocol import Bools, Floats, Ints, Keys

Number = TypeVar("Number", np.int64, np.uint64)

BLOCK = 32  # features
LAST_DAY = (1 << 16) - 1  # that a block has room for, of days since 1970


def positions(rising: NDArray[Any], asked: NDArray[Any]) -> tuple[Ints, Bools]:
    """Where each of what is asked for is in an array that rises, and whether it is there."""
    at = np.searchsorted(rising, asked)
    at[at == len(rising)] = 0
    return at, rising[at] == asked if len(rising) else np.zeros(len(asked), bool)


class _Kind(NamedTuple):
    """How the numbers of a block are written.

    Counts are multiples of `unit`; of messages, `times` can be written.
    """

    counts: str
    times: str
    unit: float


# A block is stored in the first kind that holds all its numbers exactly. Discriminative models
# count multiples of 2^-10 (`round_to_grid` in naive_bayes/text_model.py).
_KINDS = (
    _Kind("u1", "u1", 1.0),
    _Kind("<u2", "u1", 2.0**-10),
    _Kind("<f4", "<u4", 1.0),
    _Kind("<f8", "<u4", 1.0),
)
_SPARSE = len(_KINDS)  # added to the number of a kind where zeros are left out
_MOST = 1 << 16  # classes that a count of a sparse block can be of


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

    def __init__(self, blocks: Ints, classes: int) -> None:
        rows = len(blocks) * BLOCK
        self.blocks = blocks
        self.keys = np.zeros(rows, np.uint64)
        self.cells = np.zeros((rows, classes))
        self.seen = np.zeros((rows, 2), np.uint32)

    def rows(self, places: Ints) -> Ints:
        """Which rows the places of features are."""
        rows: Ints = np.searchsorted(self.blocks, places // BLOCK) * BLOCK
        return rows + places % BLOCK

    def has(self, places: Ints) -> bool:
        """Whether it has the blocks of all these places."""
        return bool(positions(self.blocks, places // BLOCK)[1].all())

    def by_block(self) -> tuple[Keys, Floats, NDArray[np.uint32]]:
        """Keys, cells and `seen`, with an axis for the blocks before the features'."""
        shape = len(self.blocks), BLOCK
        return (
            self.keys.reshape(shape),
            self.cells.reshape(*shape, self.cells.shape[1]),
            self.seen.reshape(*shape, 2),
        )

    def take(self, other: Page) -> None:
        """Take over the blocks of another page; for all of them there must be room."""
        rows = (self.rows(other.blocks * BLOCK)[:, None] + np.arange(BLOCK)).ravel()
        self.keys[rows], self.seen[rows] = other.keys, other.seen
        self.cells[rows, : other.cells.shape[1]] = other.cells


def joined(classes: int, *pages: Page) -> Page:
    """A page of the blocks of several pages, the last of which counts where they share one."""
    page = Page(distinct(np.concatenate([some.blocks for some in pages])), classes)
    for some in pages:
        page.take(some)
    return page


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


@lru_cache
def _entry(kind: int) -> np.dtype[Any]:
    """A count of a sparse block."""
    return np.dtype([("feature", "u1"), ("class", "<u2"), ("count", _KINDS[kind].counts)])


def read_blocks(found: Iterable[tuple[int, bytes]], page: Page) -> None:
    """Read blocks into a page; each comes with where it belongs in `page.blocks`.

    Raises
    ------
    ValueError, LookupError, TypeError
        For what is no block, or one of more classes.
    """
    alike = defaultdict(list)
    for number, block in found:
        kind = block[0]
        alike[kind, 0 if kind >= _SPARSE else len(block)].append((number, block))
    keys, cells, seen = page.by_block()
    for (kind, size), some in alike.items():
        at = np.array([number for number, _ in some])
        if kind < _SPARSE:
            bare = _layout(kind, 0).itemsize
            classes = max(0, size - bare) // (_layout(kind, 1).itemsize - bare)
            blocks = np.frombuffer(b"".join([block for _, block in some]), _layout(kind, classes))
            cells[at, :, :classes] = blocks["cells"] * _KINDS[kind].unit
        else:
            kind -= _SPARSE
            blocks = _read_sparse(kind, at, [block for _, block in some], cells)
        keys[at] = blocks["keys"]
        seen[at, :, 0], seen[at, :, 1] = blocks["times"], blocks["days"]


def _read_sparse(kind: int, at: Ints, written: list[bytes], cells: Floats) -> NDArray[Any]:
    """Read the counts of sparse blocks; what else they hold."""
    layout, entry = _layout(kind, 0), _entry(kind)
    head = layout.itemsize
    entries = np.frombuffer(b"".join([block[head:] for block in written]), entry)
    many, left = np.divmod([len(block) - head for block in written], entry.itemsize)
    if left.any():
        raise ValueError("a block that is cut off")
    cells[np.repeat(at, many), entries["feature"], entries["class"]] = (
        entries["count"] * _KINDS[kind].unit
    )
    return np.frombuffer(b"".join([block[:head] for block in written]), layout)


def features_of(written: Iterable[bytes]) -> Keys:
    """The fingerprints of the features of b blocks, shape (b * BLOCK,).

    Raises
    ------
    ValueError, TypeError
        For what is no block.
    """
    keys = [block[1 : 1 + 8 * BLOCK] for block in written]
    if any(len(some) != 8 * BLOCK for some in keys):
        raise ValueError("a block that is cut off")
    return np.frombuffer(b"".join(keys), "<u8").astype(np.uint64)


def places_within(blocks: Ints, written: Iterable[bytes], fingerprints: Keys) -> Ints:
    """The places of features within some blocks, as those say; -1 for what is not there.

    Raises
    ------
    ValueError, TypeError
        For what is no block.
    """
    keys = features_of(written)
    order = np.argsort(fingerprints)
    rising = fingerprints[order]
    at, there = positions(rising, keys)
    rows = np.flatnonzero(there)
    places = np.full(len(fingerprints), -1, np.int64)
    places[order[at[rows]]] = blocks[rows // BLOCK] * BLOCK + rows % BLOCK
    return places


def written_blocks(page: Page, which: Ints) -> list[bytes]:
    """Some blocks of a page, as `read_blocks` reads them."""
    keys, cells, seen = page.by_block()
    keys, cells, seen = keys[which], cells[which], seen[which]
    written = [b""] * len(which)
    left = np.arange(len(which))
    for kind in range(len(_KINDS)):
        if not len(left):
            break
        fits = _fits(_KINDS[kind], cells[left], seen[left, :, 0])
        some, left = left[fits], left[~fits]
        dense = _layout(kind, cells.shape[2])
        many = np.count_nonzero(cells[some], axis=(1, 2))
        sparse = _layout(kind, 0).itemsize + many * _entry(kind).itemsize < dense.itemsize
        sparse &= cells.shape[2] <= _MOST
        for number, layout, of in (
            (kind, dense, some[~sparse]),
            (kind + _SPARSE, _layout(kind, 0), some[sparse]),
        ):
            if not len(of):
                continue
            blocks = np.empty(len(of), layout)
            blocks["kind"], blocks["keys"] = number, keys[of]
            blocks["times"], blocks["days"] = seen[of, :, 0], seen[of, :, 1]
            if number < _SPARSE:
                blocks["cells"] = cells[of] / _KINDS[kind].unit
            heads = _cut(blocks.tobytes(), np.full(len(of), blocks.itemsize))
            tails = [b""] * len(of) if number < _SPARSE else _written_sparse(kind, cells[of])
            for i, head, tail in zip(of.tolist(), heads, tails, strict=True):
                written[i] = head + tail
    return written


def _written_sparse(kind: int, cells: Floats) -> list[bytes]:
    """The counts of blocks that are not 0."""
    block, feature, of = np.nonzero(cells)
    entries = np.empty(len(block), _entry(kind))
    entries["feature"], entries["class"] = feature, of
    entries["count"] = cells[block, feature, of] / _KINDS[kind].unit
    sizes = np.bincount(block, minlength=len(cells)) * entries.itemsize
    return _cut(entries.tobytes(), sizes)


def _cut(data: bytes, sizes: Ints) -> list[bytes]:
    """Bytes in pieces of these sizes."""
    ends = np.cumsum(sizes).tolist()
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _fits(kind: _Kind, cells: Floats, times: NDArray[np.uint32]) -> Bools:
    """Which blocks can be written so."""
    counts = np.dtype(kind.counts)
    if counts.itemsize == 8:
        return np.ones(len(cells), bool)
    with np.errstate(over="ignore"):
        scaled = cells / kind.unit
        exact = scaled == (scaled.astype(counts) if counts.kind == "f" else np.rint(scaled))
    if counts.kind == "u":
        exact &= (scaled >= 0) & (scaled <= np.iinfo(counts).max)
    fits: Bools = exact.all(axis=(1, 2))
    return fits & (times <= np.iinfo(kind.times).max).all(axis=1)
