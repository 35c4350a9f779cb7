"""Tables of counts as arrays: their rows cut, put into another order, pruned and joined.

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

# Arrays that say where the entries of each row end, and those whose entries these are.
_ENTRIES = {"count_ends": ("counts", "count_classes"), "name_ends": ("names",)}


def bounds(fingerprints: Keys, parts: int) -> list[int]:
    """Where each of so many ranges begins among fingerprints that rise, and the last one ends."""
    starts = [(-(-(part << 32) // parts)) << 32 for part in range(parts)]
    found = np.searchsorted(fingerprints, np.array(starts, dtype=np.uint64))
    return [*found.tolist(), len(fingerprints)]


def reorder(numbers: dict[str, Any], arrays: Arrays, places: list[int]) -> None:
    """Put the classes of a table into another order: class k was number places[k]."""
    for name in ("labels", "weights", "totals"):
        numbers[name] = [numbers[name][k] for k in places]
    if "count_ends" not in arrays:
        arrays["counts"] = arrays["counts"][:, places]
        return
    classes = np.argsort(places).astype(np.uint32)[arrays["count_classes"]]
    order = np.lexsort((classes, _row_of_each(arrays["count_ends"])))
    arrays["count_classes"], arrays["counts"] = classes[order], arrays["counts"][order]


def _row_of_each(ends: Keys) -> Ints:
    """The row of each entry, given where those of each row end."""
    lengths: Any = np.diff(ends.astype(np.int64), prepend=0)
    return np.repeat(np.arange(len(ends), dtype=np.int64), lengths)


def rows_of(arrays: Mapping[str, NDArray[Any]], start: int, end: int) -> Arrays:
    """Some rows of a table, as `MemoryCounts.file_parts` gives them."""
    found = {name: arrays[name][start:end] for name in ("fingerprints", "counts")}
    for ends, of in _ENTRIES.items():
        if ends in arrays:
            first = int(arrays[ends][start - 1]) if start else 0
            last = int(arrays[ends][end - 1]) if end else 0
            found[ends] = arrays[ends][start:end] - np.uint64(first)
            found |= {name: arrays[name][first:last] for name in of}
    return found


def totals_of(arrays: Mapping[str, NDArray[Any]], classes: int) -> Floats:
    """The sum of the counts of each class."""
    counts, totals = arrays["counts"], np.zeros(classes)
    if "count_classes" in arrays:
        np.add.at(totals, arrays["count_classes"], counts)
    else:
        totals += counts.sum(axis=0)
    return totals


def array_from(arrays: Mapping[str, NDArray[Any]]) -> Any:
    """What `MemoryCounts.load` asks for its arrays."""

    def array(name: str, dtype: str, ndim: int = 1, optional: bool = False) -> Any:
        found = arrays.get(name)
        if found is None and optional:
            return None
        if found is None or found.dtype != np.dtype(dtype) or found.ndim != ndim:
            raise ValueError(f"{name} is not what it should be")
        return found

    return array


def pruned(header: Any, arrays: Arrays, least: float) -> tuple[Any, Arrays]:
    """Leave out the features that were counted less often."""
    counts = np.ascontiguousarray(arrays["counts"])  # sums round by the order in memory
    row_of = {ends: _row_of_each(arrays[ends]) for ends in _ENTRIES if ends in arrays}
    found = {}
    if "count_ends" in arrays:
        many = len(arrays["fingerprints"])
        kept = np.bincount(row_of["count_ends"], counts, minlength=many) >= least
    else:
        kept = counts.sum(axis=1) >= least
        found["counts"] = counts[kept]
    found["fingerprints"] = arrays["fingerprints"][kept]
    for ends, rows in row_of.items():
        each = np.bincount(rows, minlength=len(kept))[kept]
        found[ends] = np.cumsum(each, dtype=np.uint64)
        found |= {name: arrays[name][kept[rows]] for name in _ENTRIES[ends]}
    totals = totals_of(found, len(header["sum"]["labels"])).tolist()
    return {**header, "sum": {**header["sum"], "totals": totals}}, found


def joined(read: list[tuple[Any, Arrays]]) -> tuple[Any, Arrays]:
    """The parts of one view as one.

    Raises
    ------
    ModelFileError
        Where they do not add up the same messages.
    """
    header = read[0][0]
    totals = np.zeros(len(header["sum"]["labels"]))
    for other, _ in read:
        same = all(other["sum"][name] == header["sum"][name] for name in ("labels", "weights"))
        if not same or other["firsts"] != header["firsts"]:
            raise ModelFileError("pieces that do not belong together: a part of others differs")
        totals += other["sum"]["totals"]
    arrays = {}
    for name in read[0][1]:
        parts = [of[name] for _, of in read]
        if name in _ENTRIES:
            lengths = [len(of[_ENTRIES[name][0]]) for _, of in read]
            starts = np.cumsum([0, *lengths[:-1]], dtype=np.uint64)
            parts = [part + start for part, start in zip(parts, starts, strict=True)]
        arrays[name] = np.concatenate(parts)
    return {**header, "sum": {**header["sum"], "totals": totals.tolist()}}, arrays
