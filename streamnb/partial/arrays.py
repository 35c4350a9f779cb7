"""Tables of counts as arrays: their rows cut, put into another order, pruned and joined.

The arrays are those of `MemoryCounts.file_parts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamnb.counts.protocol import Bools, Floats, Ints, Keys
from streamnb.errors import ModelFileError

Arrays = dict[str, NDArray[Any]]

_ENDS = {"count_ends": "counts", "name_ends": "names"}  # what the places in these arrays are of


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
    found = {"fingerprints": arrays["fingerprints"][start:end]}

    def spans(ends: str, *of: str) -> None:
        first = int(arrays[ends][start - 1]) if start else 0
        last = int(arrays[ends][end - 1]) if end else 0
        found[ends] = arrays[ends][start:end] - np.uint64(first)
        for name in of:
            found[name] = arrays[name][first:last]

    if "count_ends" in arrays:
        spans("count_ends", "counts", "count_classes")
    else:
        found["counts"] = arrays["counts"][start:end]
    if "name_ends" in arrays:
        spans("name_ends", "names")
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
    counts, rows = arrays["counts"], len(arrays["fingerprints"])
    found = dict(arrays)
    if "count_ends" in arrays:
        of_row = _row_of_each(arrays["count_ends"])
        kept = np.bincount(of_row, counts, minlength=rows) >= least
        stays = kept[of_row]
        found["counts"], found["count_classes"] = counts[stays], arrays["count_classes"][stays]
        found["count_ends"] = _ends(of_row[stays], kept)
    else:
        kept = counts.sum(axis=1) >= least
        found["counts"] = counts[kept]
    found["fingerprints"] = arrays["fingerprints"][kept]
    if "name_ends" in arrays:
        of_name = _row_of_each(arrays["name_ends"])
        stays = kept[of_name]
        found["names"] = arrays["names"][stays]
        found["name_ends"] = _ends(of_name[stays], kept)
    totals = totals_of(found, len(header["sum"]["labels"])).tolist()
    return {**header, "sum": {**header["sum"], "totals": totals}}, found


def _ends(of_row: Ints, kept: Bools) -> Keys:
    """Where the entries of each row that is kept end, given the rows of the entries kept."""
    each = np.bincount(of_row, minlength=len(kept))[kept]
    return np.cumsum(each, dtype=np.uint64)


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
        if name in _ENDS:
            lengths = [len(of[_ENDS[name]]) for _, of in read]
            starts = np.cumsum([0, *lengths[:-1]], dtype=np.uint64)
            parts = [part + start for part, start in zip(parts, starts, strict=True)]
        arrays[name] = np.concatenate(parts)
    return {**header, "sum": {**header["sum"], "totals": totals.tolist()}}, arrays
