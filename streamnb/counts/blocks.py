"""Blocks of 32 features with their counts, which `streamnb._core.sparse_rows` reads and writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamnb._core import BLOCK_ROWS, SparseRows
from streamnb.counts.protocol import Bools, Ints, Keys

Number = TypeVar("Number", np.int64, np.uint64)

BLOCK = BLOCK_ROWS  # features of a block
LAST_DAY = (1 << 16) - 1  # largest day since 1970 that a block can store


def positions(rising: NDArray[Any], values: NDArray[Any]) -> tuple[Ints, Bools]:
    """Return the index of each value in a sorted array, and whether it is in the array."""
    indices = np.searchsorted(rising, values)
    indices[indices == len(rising)] = 0
    return indices, rising[indices] == values if len(rising) else np.zeros(len(values), bool)


def distinct(numbers: NDArray[Number]) -> NDArray[Number]:
    """Return the sorted distinct numbers, without the slow import of numpy.ma by numpy.unique."""
    rising = np.sort(numbers)
    first = np.ones(len(rising), bool)
    np.not_equal(rising[1:], rising[:-1], out=first[1:])
    return rising[first]


class Page(NamedTuple):
    """Blocks in memory.

    Attributes
    ----------
    blocks
        The numbers of the blocks, shape (b,), sorted.
    keys
        Fingerprints of the features, shape (b * BLOCK,).
    usage
        Number of messages and last day of each feature, shape (b * BLOCK, 2).
    cells
        Counts of the features, b * BLOCK rows.
    """

    blocks: Ints
    keys: Keys
    usage: NDArray[np.uint32]
    cells: SparseRows

    def rows(self, places: Ints) -> Ints:
        """Return the rows of the features at these places."""
        rows: Ints = np.searchsorted(self.blocks, places // BLOCK) * BLOCK
        return rows + places % BLOCK

    def has(self, places: Ints) -> bool:
        """Return whether the page has the blocks of all these places."""
        return bool(positions(self.blocks, places // BLOCK)[1].all())


def join_pages(page: Page, other: Page) -> Page:
    """Return a page with the blocks of two pages that share none."""
    blocks = np.concatenate((page.blocks, other.blocks))
    order = np.argsort(blocks)
    rows = (order[:, None] * BLOCK + np.arange(BLOCK)).ravel()
    first, second = page.cells, other.cells
    cells = SparseRows(
        np.concatenate((first.ends, second.ends + np.uint64(len(first.counts)))),
        np.concatenate((first.classes, second.classes)),
        np.concatenate((first.counts, second.counts)),
    )
    return Page(
        blocks[order],
        np.concatenate((page.keys, other.keys))[rows],
        np.concatenate((page.usage, other.usage))[rows],
        cells.take(rows),
    )


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
