"""Sums of many rows without rounding, by matrix products.

Numbers are cut into slices of few bits, so that every product of two slices and every sum of those
fits into a double: matrix products of slices are exact, whatever the order of their sums (Ozaki,
Ogita, Oishi and Rump 2012, Error-free transformations of matrix multiplication).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from streamnb.counts.protocol import Bools, Floats

_BITS = 18
MOST_ROWS = 1 << 16  # 2 * 18 + 16 bits fit into the 53 of a double
_MOST_SLICES = 4
_SMALLEST_UNIT = 2.0**-320  # of whose squares nothing lies below 2^-640, where sums are cut off


def _slices(X: Floats) -> list[Floats] | None:
    """What adds up to X, each of few bits; None where it would take too many."""
    unit = np.exp2(np.frexp(np.abs(X).max(initial=0.0))[1] - float(_BITS))
    rest, found = X, list[Floats]()
    while rest.any():
        if len(found) == _MOST_SLICES or unit < _SMALLEST_UNIT:
            return None
        part = np.rint(rest / unit) * unit
        found.append(part)
        rest = rest - part
        unit *= 2.0**-_BITS
    return found


def cells_of_rows(X: Floats, pairs: bool) -> Iterator[Floats] | None:
    """What to add to the cells of an `ExactSums` for rows of weight 1, one array after the other.

    Parameters
    ----------
    X
        Shape (n, d), n at most `MOST_ROWS`; NaN where a value is missing.
    pairs
        Whether the sums are of pairs.

    Returns
    -------
    None where the numbers are of too different sizes for this.
    """
    there = ~np.isnan(X)
    parts = _slices(np.where(there, X, 0.0))
    if parts is None:
        return None
    return _pairs(parts, there) if pairs else _squares(parts, there)


def _squares(parts: list[Floats], there: Bools) -> Iterator[Floats]:
    n, d = there.shape
    first = np.zeros(1 + 3 * d)
    first[0], first[1::3] = n, there.sum(axis=0)
    yield first
    for a, part in enumerate(parts):
        for other in parts[a:]:
            cells = np.zeros(1 + 3 * d)
            cells[3::3] = (part * other).sum(axis=0)
            if other is part:
                cells[2::3] = part.sum(axis=0)
            else:
                cells[3::3] *= 2  # each product of two different slices is there twice
            yield cells


def _pairs(parts: list[Floats], there: Bools) -> Iterator[Floats]:
    n, d = there.shape
    j, i = np.tril_indices(d)  # for each j all i <= j, as the cells are
    some = there.astype(np.float64)
    first = np.zeros(1 + 4 * len(i))
    first[0], first[1::4] = n, (some.T @ some)[i, j]
    yield first
    for part in parts:
        beside = part.T @ some  # of x_i where x_j is there
        cells = np.zeros(1 + 4 * len(i))
        cells[2::4], cells[3::4] = beside[i, j], beside[j, i]
        yield cells
        for other in parts:
            cells = np.zeros(1 + 4 * len(i))
            cells[4::4] = (part.T @ other)[i, j]
            yield cells
