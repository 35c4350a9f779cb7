"""Operations on the arrays of count tables: slice rows, reorder classes and join.

The arrays are those of `MemoryCounts.file_parts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamnb.counts.protocol import Floats, Ints, Keys
from streamnb.errors import ModelFileError

Arrays = dict[str, NDArray[Any]]

# Arrays of row ends, each with the arrays whose entries they delimit.
_ENTRIES = {"count_ends": ("counts", "count_classes"), "name_ends": ("names",)}


def part_bounds(fingerprints: Keys, parts: int) -> list[int]:
    """Return the index at which each of `parts` equal ranges of fingerprints begins, and the end.

    Parameters
    ----------
    fingerprints
        uint64, shape (n,), ascending.
    parts
        Number of ranges.

    Returns
    -------
    list of int
        Length parts + 1.
    """
    starts = [(-(-(part << 32) // parts)) << 32 for part in range(parts)]
    indices = np.searchsorted(fingerprints, np.array(starts, dtype=np.uint64))
    return [*indices.tolist(), len(fingerprints)]


def reorder_classes(header: dict[str, Any], arrays: Arrays, order: list[int]) -> None:
    """Reorder the classes of a table in place: new class k is the former class order[k]."""
    for name in ("labels", "weights", "totals"):
        header[name] = [header[name][k] for k in order]
    if "count_ends" not in arrays:
        arrays["counts"] = arrays["counts"][:, order]
        return
    classes = np.argsort(order).astype(np.uint32)[arrays["count_classes"]]
    entry_order = np.lexsort((classes, _row_of_each(arrays["count_ends"])))
    arrays["count_classes"] = classes[entry_order]
    arrays["counts"] = arrays["counts"][entry_order]


def _row_of_each(ends: Keys) -> Ints:
    """Return the row index of each entry, given the end of each row."""
    lengths: Any = np.diff(ends.astype(np.int64), prepend=0)
    return np.repeat(np.arange(len(ends), dtype=np.int64), lengths)


def slice_rows(arrays: Mapping[str, NDArray[Any]], start: int, end: int) -> Arrays:
    """Return the rows from `start` to `end` of a table."""
    rows = {name: arrays[name][start:end] for name in ("fingerprints", "counts")}
    for ends, entries in _ENTRIES.items():
        if ends in arrays:
            first = int(arrays[ends][start - 1]) if start else 0
            last = int(arrays[ends][end - 1]) if end else 0
            rows[ends] = arrays[ends][start:end] - np.uint64(first)
            rows |= {name: arrays[name][first:last] for name in entries}
    return rows


def class_totals(arrays: Mapping[str, NDArray[Any]], classes: int) -> Floats:
    """Return the sum of the counts of each class, shape (classes,)."""
    counts, totals = arrays["counts"], np.zeros(classes)
    if "count_classes" in arrays:
        np.add.at(totals, arrays["count_classes"], counts)
    else:
        totals += counts.sum(axis=0)
    return totals


def array_reader(arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Return a function for `MemoryCounts.load` that returns and checks arrays."""

    def read(name: str, dtype: str, ndim: int = 1, optional: bool = False) -> Any:
        array = arrays.get(name)
        if array is None and optional:
            return None
        if array is None:
            raise ValueError(f"array {name} is missing")
        if array.dtype != np.dtype(dtype) or array.ndim != ndim:
            raise ValueError(f"array {name} has type {array.dtype} and {array.ndim} dimensions")
        return array

    return read


def join(tables: list[tuple[Any, Arrays]]) -> tuple[Any, Arrays]:
    """Join the parts of one view, in ascending order of fingerprints.

    Raises
    ------
    ModelFileError
        If the parts are sums over different messages.
    """
    header = tables[0][0]
    totals = np.zeros(len(header["sum"]["labels"]))
    for other, _ in tables:
        is_same = all(other["sum"][name] == header["sum"][name] for name in ("labels", "weights"))
        if not is_same or other["first_positions"] != header["first_positions"]:
            raise ModelFileError(
                "cannot join partial counts of different messages; join the parts of one `merge`"
            )
        totals += other["sum"]["totals"]
    joined = {}
    for name in tables[0][1]:
        parts = [arrays[name] for _, arrays in tables]
        if name in _ENTRIES:
            lengths = [len(arrays[_ENTRIES[name][0]]) for _, arrays in tables]
            starts = np.cumsum([0, *lengths[:-1]], dtype=np.uint64)
            parts = [part + start for part, start in zip(parts, starts, strict=True)]
        joined[name] = np.concatenate(parts)
    return {**header, "sum": {**header["sum"], "totals": totals.tolist()}}, joined
