"""Sums of many rows without rounding, by matrix products.

Numbers are split into slices of few bits, so each product of two slices and each sum of such
products fits into a double. Matrix products of slices are then exact in any order of summation
(Ozaki, Ogita, Oishi and Rump 2012, Error-free transformations of matrix multiplication).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from streamnb.counts.protocol import Bools, Floats

_BITS = 18
MOST_ROWS = 1 << 16  # 2 * 18 + 16 bits fit into the 53 bits of a double
_MOST_SLICES = 4
# lowest bit of numbers whose squares have no bits below 2^-640, the lowest bit of sums
_SMALLEST_UNIT = 2.0**-320


def _slices(X: Floats) -> list[Floats] | None:
    """Return slices of few bits that sum to X; None if there would be too many."""
    unit = np.exp2(np.frexp(np.abs(X).max(initial=0.0))[1] - float(_BITS))
    remainder, slices = X, list[Floats]()
    while remainder.any():
        if len(slices) == _MOST_SLICES or unit < _SMALLEST_UNIT:
            return None
        piece = np.rint(remainder / unit) * unit
        slices.append(piece)
        remainder = remainder - piece
        unit *= 2.0**-_BITS
    return slices


def cells_of_rows(X: Floats, pairs: bool) -> Iterator[Floats] | None:
    """Yield arrays to add to the cells of an `ExactSums` for rows of weight 1.

    Parameters
    ----------
    X
        Shape (n, d), n at most `MOST_ROWS`; NaN where a value is missing.
    pairs
        Whether the sums are of pairs.

    Returns
    -------
    None if the magnitudes of the numbers differ too much.
    """
    is_present = ~np.isnan(X)
    slices = _slices(np.where(is_present, X, 0.0))
    if slices is None:
        return None
    return _pair_cells(slices, is_present) if pairs else _square_cells(slices, is_present)


def _square_cells(slices: list[Floats], is_present: Bools) -> Iterator[Floats]:
    n, d = is_present.shape
    counts = np.zeros(1 + 3 * d)
    counts[0], counts[1::3] = n, is_present.sum(axis=0)
    yield counts
    for a, piece in enumerate(slices):
        for other_piece in slices[a:]:
            cells = np.zeros(1 + 3 * d)
            cells[3::3] = (piece * other_piece).sum(axis=0)
            if other_piece is piece:
                cells[2::3] = piece.sum(axis=0)
            else:
                cells[3::3] *= 2  # each product of two different slices occurs twice
            yield cells


def _pair_cells(slices: list[Floats], is_present: Bools) -> Iterator[Floats]:
    n, d = is_present.shape
    j, i = np.tril_indices(d)  # all pairs i <= j, in the order of the cells
    presence = is_present.astype(np.float64)
    counts = np.zeros(1 + 4 * len(i))
    counts[0], counts[1::4] = n, (presence.T @ presence)[i, j]
    yield counts
    for piece in slices:
        paired_sums = piece.T @ presence  # sum of x_i over rows with x_j
        cells = np.zeros(1 + 4 * len(i))
        cells[2::4], cells[3::4] = paired_sums[i, j], paired_sums[j, i]
        yield cells
        for other_piece in slices:
            cells = np.zeros(1 + 4 * len(i))
            cells[4::4] = (piece.T @ other_piece)[i, j]
            yield cells
