"""Blocks of 32 features with their counts, as a database stores them.

A block begins with one byte for the types of its numbers. The fingerprints of its features follow,
the day when each was last learned, and its number of messages. The counts are last: a dense matrix
(32, K), or the nonzero entries with feature and class if these are shorter.
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

BLOCK = 32  # features of a block
LAST_DAY = (1 << 16) - 1  # largest day since 1970 that a block can store


def positions(rising: NDArray[Any], values: NDArray[Any]) -> tuple[Ints, Bools]:
    """Return the index of each value in a sorted array, and whether it is in the array."""
    indices = np.searchsorted(rising, values)
    indices[indices == len(rising)] = 0
    return indices, rising[indices] == values if len(rising) else np.zeros(len(values), bool)


class _Kind(NamedTuple):
    """The types of the numbers of a block.

    `counts` is the type of count / `unit`; `times` is the type of numbers of messages.
    """

    counts: str
    times: str
    unit: float


# A block is stored in the first kind that represents all its numbers exactly. Counts of
# discriminative models are multiples of 2^-10 (`round_to_grid` in naive_bayes/counting.py).
_KINDS = (
    _Kind("u1", "u1", 1.0),
    _Kind("<u2", "u1", 2.0**-10),
    _Kind("<f4", "<u4", 1.0),
    _Kind("<f8", "<u4", 1.0),
)
_SPARSE = len(_KINDS)  # added to the number of a kind if the block stores no zeros
_MOST = 1 << 16  # maximum number of classes of a sparse block


def distinct(numbers: NDArray[Number]) -> NDArray[Number]:
    """Return the sorted distinct numbers, without the slow import of numpy.ma by numpy.unique."""
    rising = np.sort(numbers)
    first = np.ones(len(rising), bool)
    np.not_equal(rising[1:], rising[:-1], out=first[1:])
    return rising[first]


class Page:
    """Blocks in memory.

    Parameters
    ----------
    blocks
        The numbers of the blocks, shape (b,), sorted.
    classes
        Number of classes K.

    Attributes
    ----------
    keys
        Fingerprints of the features, shape (b * BLOCK,).
    cells
        Counts of the features, shape (b * BLOCK, K).
    usage
        Number of messages and last day of each feature, shape (b * BLOCK, 2).
    """

    def __init__(self, blocks: Ints, classes: int) -> None:
        rows = len(blocks) * BLOCK
        self.blocks = blocks
        self.keys: Keys = np.zeros(rows, np.uint64)
        self.cells: Floats = np.zeros((rows, classes))
        self.usage: NDArray[np.uint32] = np.zeros((rows, 2), np.uint32)

    def rows(self, places: Ints) -> Ints:
        """Return the rows of the features at these places."""
        rows: Ints = np.searchsorted(self.blocks, places // BLOCK) * BLOCK
        return rows + places % BLOCK

    def has(self, places: Ints) -> bool:
        """Return whether the page has the blocks of all these places."""
        return bool(positions(self.blocks, places // BLOCK)[1].all())

    def by_block(self) -> tuple[Keys, Floats, NDArray[np.uint32]]:
        """Return keys, cells and usage with separate axes for blocks and features."""
        shape = len(self.blocks), BLOCK
        return (
            self.keys.reshape(shape),
            self.cells.reshape(*shape, self.cells.shape[1]),
            self.usage.reshape(*shape, 2),
        )

    def take(self, other: Page) -> None:
        """Copy the blocks of another page into this page, which must contain all of them."""
        rows = (self.rows(other.blocks * BLOCK)[:, None] + np.arange(BLOCK)).ravel()
        self.keys[rows], self.usage[rows] = other.keys, other.usage
        self.cells[rows, : other.cells.shape[1]] = other.cells


def join_pages(classes: int, *pages: Page) -> Page:
    """Return a page with the blocks of all pages; shared blocks come from the last page."""
    page = Page(distinct(np.concatenate([part.blocks for part in pages])), classes)
    for part in pages:
        page.take(part)
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


def read_blocks(numbered_blocks: Iterable[tuple[int, bytes]], page: Page) -> None:
    """Read blocks, given with their index in `page.blocks`, into a page.

    Raises
    ------
    ValueError, LookupError, TypeError
        If a block is damaged, or has more classes.
    """
    groups = defaultdict(list)
    for number, block in numbered_blocks:
        kind = block[0]
        groups[kind, 0 if kind >= _SPARSE else len(block)].append((number, block))
    keys, cells, usage = page.by_block()
    for (kind, size), group in groups.items():
        block_indices = np.array([number for number, _ in group])
        if kind < _SPARSE:
            bare = _layout(kind, 0).itemsize
            classes = max(0, size - bare) // (_layout(kind, 1).itemsize - bare)
            blocks = np.frombuffer(b"".join([block for _, block in group]), _layout(kind, classes))
            cells[block_indices, :, :classes] = blocks["cells"] * _KINDS[kind].unit
        else:
            kind -= _SPARSE
            blocks = _read_sparse(kind, block_indices, [block for _, block in group], cells)
        keys[block_indices] = blocks["keys"]
        usage[block_indices, :, 0], usage[block_indices, :, 1] = blocks["times"], blocks["days"]


def _read_sparse(
    kind: int, block_indices: Ints, written: list[bytes], cells: Floats
) -> NDArray[Any]:
    """Read the counts of sparse blocks into `cells` and return their other fields."""
    layout, entry = _layout(kind, 0), _entry(kind)
    head_size = layout.itemsize
    entries = np.frombuffer(b"".join([block[head_size:] for block in written]), entry)
    entry_counts, remainders = np.divmod(
        [len(block) - head_size for block in written], entry.itemsize
    )
    if remainders.any():
        raise ValueError("a block is truncated")
    cells[np.repeat(block_indices, entry_counts), entries["feature"], entries["class"]] = (
        entries["count"] * _KINDS[kind].unit
    )
    return np.frombuffer(b"".join([block[:head_size] for block in written]), layout)


def features_of(written: Iterable[bytes]) -> Keys:
    """Return the fingerprints of the features of b blocks, shape (b * BLOCK,).

    Raises
    ------
    ValueError, TypeError
        If a block is damaged.
    """
    keys = [block[1 : 1 + 8 * BLOCK] for block in written]
    if any(len(block_keys) != 8 * BLOCK for block_keys in keys):
        raise ValueError("a block is truncated")
    return np.frombuffer(b"".join(keys), "<u8").astype(np.uint64)


def places_within(blocks: Ints, written: Iterable[bytes], fingerprints: Keys) -> Ints:
    """Return the place of each feature in these blocks, -1 for a feature in no block.

    Raises
    ------
    ValueError, TypeError
        If a block is damaged.
    """
    keys = features_of(written)
    order = np.argsort(fingerprints)
    rising = fingerprints[order]
    indices, is_present = positions(rising, keys)
    rows = np.flatnonzero(is_present)
    places = np.full(len(fingerprints), -1, np.int64)
    places[order[indices[rows]]] = blocks[rows // BLOCK] * BLOCK + rows % BLOCK
    return places


def written_blocks(page: Page, block_indices: Ints) -> list[bytes]:
    """Return blocks of a page in the format that `read_blocks` reads."""
    keys, cells, usage = page.by_block()
    keys, cells, usage = keys[block_indices], cells[block_indices], usage[block_indices]
    written = [b""] * len(block_indices)
    remaining = np.arange(len(block_indices))
    for kind in range(len(_KINDS)):
        if not len(remaining):
            break
        fits = _fits(_KINDS[kind], cells[remaining], usage[remaining, :, 0])
        members, remaining = remaining[fits], remaining[~fits]
        dense = _layout(kind, cells.shape[2])
        entry_counts = np.count_nonzero(cells[members], axis=(1, 2))
        is_sparse = (
            _layout(kind, 0).itemsize + entry_counts * _entry(kind).itemsize < dense.itemsize
        )
        is_sparse &= cells.shape[2] <= _MOST
        for number, layout, chosen in (
            (kind, dense, members[~is_sparse]),
            (kind + _SPARSE, _layout(kind, 0), members[is_sparse]),
        ):
            if not len(chosen):
                continue
            blocks = np.empty(len(chosen), layout)
            blocks["kind"], blocks["keys"] = number, keys[chosen]
            blocks["times"], blocks["days"] = usage[chosen, :, 0], usage[chosen, :, 1]
            if number < _SPARSE:
                blocks["cells"] = cells[chosen] / _KINDS[kind].unit
            heads = _split_bytes(blocks.tobytes(), np.full(len(chosen), blocks.itemsize))
            tails = (
                [b""] * len(chosen) if number < _SPARSE else _written_sparse(kind, cells[chosen])
            )
            for i, head, tail in zip(chosen.tolist(), heads, tails, strict=True):
                written[i] = head + tail
    return written


def _written_sparse(kind: int, cells: Floats) -> list[bytes]:
    """Return the entries of each block that are not 0."""
    block, feature, classes = np.nonzero(cells)
    entries = np.empty(len(block), _entry(kind))
    entries["feature"], entries["class"] = feature, classes
    entries["count"] = cells[block, feature, classes] / _KINDS[kind].unit
    sizes = np.bincount(block, minlength=len(cells)) * entries.itemsize
    return _split_bytes(entries.tobytes(), sizes)


def _split_bytes(data: bytes, sizes: Ints) -> list[bytes]:
    """Split bytes into pieces of these sizes."""
    ends = np.cumsum(sizes).tolist()
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _fits(kind: _Kind, cells: Floats, times: NDArray[np.uint32]) -> Bools:
    """Return for each block whether this kind represents all its numbers exactly."""
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
