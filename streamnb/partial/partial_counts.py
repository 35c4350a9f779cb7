"""Partial counts: the counts of some messages, as bytes that can be merged.

The arrays of a table are those of `MemoryCounts.file_parts`.
"""

from __future__ import annotations

import io
import itertools
import json
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamnb.classifier import Classifier
from streamnb.counts.memory import MemoryCounts
from streamnb.counts.protocol import Floats, Ints, Keys, Label
from streamnb.errors import CorpusError, ModelFileError
from streamnb.naive_bayes.model_files import SaveLoadMixin
from streamnb.naive_bayes.text_model import TextModel
from streamnb.parameters import parameters_from_json, parameters_to_json
from streamnb.storage import label_from_json, label_to_json, write_arrays
from streamnb.tables.base import TabularNB

VERSION = 1  # version of specs and partial counts; other versions raise an error

Learner = Classifier | TabularNB


def spec_of(learner: Learner) -> str:
    """Return the spec of a classifier or a tabular model, without its learned state.

    Returns
    -------
    str
        JSON. Equal parameters give equal text.

    Raises
    ------
    ValueError
        For any other object.

    Examples
    --------
    >>> from streamnb import Classifier, MultinomialNB, Tokenizer
    >>> from streamnb.partial import new_model, spec_of
    >>> spec = spec_of(Classifier(Tokenizer(), MultinomialNB(alpha=0.5)))
    >>> new_model(spec).model.alpha
    0.5
    """
    if isinstance(learner, Classifier):
        content: dict[str, Any] = {
            "model": learner.model.clone().to_header(),
            "settings": learner.settings(),
        }
    elif isinstance(learner, TabularNB):
        content = {"table": type(learner).__name__, "parameters": parameters_to_json(learner)}
    else:
        raise ValueError(
            f"expected a Classifier (a tokenizer and a model) or a model of tables, "
            f"not {type(learner).__name__}"
        )
    return json.dumps({"version": VERSION, **content}, sort_keys=True)


def new_model(spec: str) -> Any:
    """Return an untrained classifier or tabular model with the parameters of a spec.

    Raises
    ------
    ModelFileError
        If the text is not a spec, or one of another version.
    """
    try:
        content = json.loads(spec)
        if content["version"] != VERSION:
            raise ValueError(f"its version is {content['version']!r:.20}, expected {VERSION}")
        if "table" in content:
            model_class = SaveLoadMixin.saved_classes[content["table"]]
            return model_class(**parameters_from_json(content["parameters"], model_class))
        model = TextModel.from_header(content["model"])
        return Classifier.from_settings(model, content["settings"])
    except Exception as error:  # the text can have any content
        raise ModelFileError(f"not a model spec of this version ({error!s:.100})") from None


@lru_cache(maxsize=64)
def spec_digest(spec: str) -> str:
    """Return the digest of a spec, which its partial counts contain."""
    return sha256(spec.encode()).hexdigest()[:16]


def split_learner(learner: Learner) -> tuple[Any, Callable[[Any], Any]]:
    """Return the model of a learner, and the function that computes features."""
    if isinstance(learner, Classifier):
        return learner.model, learner.count
    return learner, lambda row: row


def check_sums(learner: Learner) -> None:
    """Raise ValueError if a model is not a sum over its examples."""
    model, _ = split_learner(learner)
    if model.order_dependence_reason:
        raise ValueError(model.order_dependence_reason)


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
    """Return the index of the row of each entry, given the index at which each row ends."""
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
    for part_header, _ in tables:
        is_same = all(
            part_header["sum"][name] == header["sum"][name] for name in ("labels", "weights")
        )
        if not is_same or part_header["first_positions"] != header["first_positions"]:
            raise ModelFileError(
                "cannot join partial counts of different messages; join the parts of one `merge`"
            )
        totals += part_header["sum"]["totals"]
    joined = {}
    for name in tables[0][1]:
        parts = [arrays[name] for _, arrays in tables]
        if name in _ENTRIES:
            lengths = [len(arrays[_ENTRIES[name][0]]) for _, arrays in tables]
            starts = np.cumsum([0, *lengths[:-1]], dtype=np.uint64)
            parts = [part + start for part, start in zip(parts, starts, strict=True)]
        joined[name] = np.concatenate(parts)
    return {**header, "sum": {**header["sum"], "totals": totals.tolist()}}, joined


_CHECKSUM = struct.Struct("<I")  # CRC-32 of everything after it
_MEGABYTE = 1 << 20
_MAX_PARTS = 1 << 20
_MEMORY_CHECK_INTERVAL = 64  # messages between two measurements of memory

Unpacked = tuple[Any, Arrays]  # JSON header and arrays of partial counts
# Position at which each class first occurred, None if unknown. The positions determine the class
# order.
FirstPositions = dict[Label, int | None]


class LabelledRow(NamedTuple):
    """A labelled message, or table row, and its position in the stream.

    Attributes
    ----------
    position
        The position. Only `count` accepts None, for data without an order.
    label
        The class.
    x
        The message or row: bytes, a text or a dict, as required by the learner.
    """

    position: int
    label: Label
    x: Any


def check_ascending(rows: Iterable[LabelledRow]) -> Iterator[LabelledRow]:
    """Yield the rows; CorpusError if two have the same position."""
    last: int | None = None
    for row in rows:
        if last is not None and row.position <= last:
            raise CorpusError(
                f"position {row.position}: two messages have it; renumber the messages"
            )
        last = row.position
        yield row


class PartialCounts(NamedTuple):
    """Counts of some messages for one view of a model, in one range of fingerprints.

    Attributes
    ----------
    view
        Index of the view; 0 for a tabular model.
    part
        Index of the range of fingerprints; 0 for a tabular model.
    data
        Packed header and arrays. The header has view, part and the digest of the model spec.
    """

    view: int
    part: int
    data: bytes


class MergedCounts(NamedTuple):
    """The sum of partial counts of one view and part.

    Attributes
    ----------
    counts
        The counts, or a whole tabular model.
    first_positions
        Position at which each class occurred first.
    """

    counts: MemoryCounts | TabularNB
    first_positions: FirstPositions


def pack(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return header and arrays as bytes: a checksum, and numpy's .npz."""
    text = json.dumps(header, sort_keys=True).encode()
    file = io.BytesIO()
    write_arrays(
        file,
        {
            "header": np.frombuffer(text, np.uint8),
            # the readers expect C order
            **{name: np.ascontiguousarray(array) for name, array in sorted(arrays.items())},
        },
    )
    content = file.getvalue()
    return _CHECKSUM.pack(zlib.crc32(content)) + content


def pack_counts(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> PartialCounts:
    """Return the partial counts of the view and part that the header names."""
    return PartialCounts(header["view"], header["part"], pack(header, arrays))


def unpack(spec: str, data: bytes) -> Unpacked:
    """Return the header and arrays that `pack` encoded, after checking them.

    Raises
    ------
    ModelFileError
        If the data is damaged or belongs to another spec.
    """
    with convert_errors():
        (checksum,) = _CHECKSUM.unpack_from(data)
        content = memoryview(data)[_CHECKSUM.size :]
        if zlib.crc32(content) != checksum:
            raise ValueError("the checksum is wrong")
        with np.load(io.BytesIO(content)) as archive:
            arrays = dict(archive)
        header = json.loads(arrays.pop("header").tobytes())
        if header["spec"] != spec_digest(spec):
            raise ModelFileError(
                "the partial counts belong to another model spec; compute all with the same "
                "parameters"
            )
        for name in ("view", "part", "parts"):
            if type(header[name]) is not int or not 0 <= header[name] <= _MAX_PARTS:
                raise ValueError(f"{name} is not an integer from 0 to {_MAX_PARTS}")
    return header, arrays


@contextmanager
def convert_errors() -> Iterator[None]:
    """Re-raise any error, such as that of damaged data, as ModelFileError."""
    try:
        yield
    except ModelFileError:
        raise
    except Exception as error:
        raise ModelFileError(f"the partial counts are damaged ({error!s:.100})") from None


def ordered_labels(first_positions: Mapping[Label, int | None]) -> list[Label]:
    """Return labels by first position; labels without a position are last, by type and name."""
    return sorted(
        first_positions,
        key=lambda y: (
            first_positions[y] is None,
            first_positions[y] or 0,
            type(y).__name__,
            str(y),
        ),
    )


def update_first_positions(
    first_positions: FirstPositions, items: Iterable[tuple[Label, int | None]]
) -> None:
    """Set the first position of each label to the given position, if that is earlier."""
    for y, position in items:
        current = first_positions.get(y)
        if current is None or (position is not None and position < current):
            first_positions[y] = position


def split_counts(
    spec: str, counts: Any, first_positions: FirstPositions, view: int = 0, parts: int = 1
) -> Iterator[Unpacked]:
    """Yield header and arrays of each range of fingerprints of a count table, for `pack_counts`.

    A tabular model is not split.

    Parameters
    ----------
    spec : str
        The model spec.
    counts : MemoryCounts or tabular model
        The counts.
    first_positions : dict
        Position at which each class occurred first.
    view : int, default 0
        Index of the view.
    parts : int, default 1
        Number of ranges of fingerprints.
    """
    labels = ordered_labels(first_positions)
    header: dict[str, Any] = {"spec": spec_digest(spec), "view": view, "part": 0, "parts": 1}
    header["first_positions"] = [[label_to_json(y), first_positions[y]] for y in labels]
    if isinstance(counts, TabularNB):
        content, arrays = counts._to_file()
        yield {**header, "sum": content}, arrays
        return
    content, arrays = counts.file_parts()
    order = [counts.labels.index(y) for y in labels]
    if order != list(range(len(order))):
        reorder_classes(content, arrays, order)
    bounds = part_bounds(arrays["fingerprints"], parts)
    for part, (start, end) in enumerate(itertools.pairwise(bounds)):
        rows = slice_rows(arrays, start, end)
        content["totals"] = class_totals(rows, len(content["labels"])).tolist()
        yield {**header, "part": part, "parts": parts, "sum": dict(content)}, rows


def view_counts(learner: Any) -> list[Any]:
    """Return the count table of each view; for a tabular model, the model itself."""
    if isinstance(learner, TabularNB):
        return [learner]
    return [model.counts for model in learner.models]


def load_counts(header: Any, arrays: Mapping[str, NDArray[Any]], target: Any) -> MergedCounts:
    """Load unpacked partial counts into an empty table or tabular model.

    Parameters
    ----------
    header, arrays
        As `unpack` returned them.
    target : MemoryCounts or tabular model
        The empty counts of a view, from `view_counts` of an untrained learner.
    """
    with convert_errors():
        first_positions = {
            label_from_json(pair): first for pair, first in header["first_positions"]
        }
        if not all(first is None or type(first) is int for first in first_positions.values()):
            raise ValueError("the position of a class is not an integer")
        if isinstance(target, TabularNB):
            loaded = type(target)._from_file(header["sum"], array_reader(arrays))
            target._declare(ordered_labels(first_positions))
            target.merge(loaded)
        else:
            loaded = target
            loaded.load(header["sum"], array_reader(arrays))
        if set(first_positions) != set(loaded.labels):
            raise ValueError("the classes of positions and of counts differ")
    return MergedCounts(target, first_positions)


def empty_counts(spec: str, view: int) -> Any:
    """Return an empty count table (or tabular model) for a view of the spec's model."""
    views = view_counts(new_model(spec))
    if not 0 <= view < len(views):
        raise ModelFileError(f"partial counts of view {view}, but the model has {len(views)} views")
    return views[view]


def count(
    spec: str, rows: Iterable[LabelledRow], parts: int = 1, memory: float = 512.0
) -> Iterator[PartialCounts]:
    """Count messages, or train a tabular model on rows; yield the partial counts.

    Parameters
    ----------
    spec : str
        The model spec, from `spec_of`.
    rows : iterable of LabelledRow
        The messages in any order. The first position of each class determines the class order.
    parts : int, default 1
        Number of ranges of fingerprints into which each table is split.
    memory : float, default 512.0
        Memory for counts, in megabytes. If it is full, the counts are yielded and cleared.

    Raises
    ------
    ValueError
        For a model whose counts cannot be added (`check_sums`).

    Examples
    --------
    >>> from streamnb import Classifier, MultinomialNB, Tokenizer
    >>> from streamnb.partial import LabelledRow, assemble, count, merge, spec_of
    >>> spec = spec_of(Classifier(Tokenizer(), MultinomialNB()))
    >>> first = count(spec, [LabelledRow(0, "spam", "free offer")])
    >>> second = count(spec, [LabelledRow(1, "ham", "lunch at noon")])
    >>> assemble(spec, merge(spec, [*first, *second])).predict_one("free lunch offer")
    'spam'
    """
    check_sums(new_model(spec))
    check_parts(parts)
    learner: Any = None
    for index, (position, y, x) in enumerate(rows):
        if learner is None:
            learner, first_positions = new_model(spec), FirstPositions()
        learner.learn_one(x, y)
        update_first_positions(first_positions, [(y, position)])
        if index % _MEMORY_CHECK_INTERVAL == 0 and _table_bytes(learner) > memory * _MEGABYTE:
            yield from _split_learner_counts(spec, learner, first_positions, parts)
            learner = None
    if learner is not None:
        yield from _split_learner_counts(spec, learner, first_positions, parts)


def check_parts(parts: int) -> None:
    """Raise ValueError unless `parts` is an integer from 1 to 2**20."""
    if isinstance(parts, bool) or not isinstance(parts, int) or not 1 <= parts <= _MAX_PARTS:
        raise ValueError(f"parts: expected an integer from 1 to {_MAX_PARTS}, not {parts!r}")


def _table_bytes(learner: Any) -> int:
    """Return the memory of the count tables; tabular models are small and count as 0."""
    tables = (counts.table for counts in view_counts(learner) if isinstance(counts, MemoryCounts))
    return sum(table.__sizeof__() for table in tables)


def _split_learner_counts(
    spec: str, learner: Any, first_positions: FirstPositions, parts: int
) -> Iterator[PartialCounts]:
    for view, counts in enumerate(view_counts(learner)):
        split = split_counts(spec, counts, first_positions, view, parts)
        yield from itertools.starmap(pack_counts, split)


def merge(
    spec: str, partial_counts: Iterable[PartialCounts], min_count: float = 0.0
) -> Iterator[PartialCounts]:
    """Sum partial counts; yield one for each view and part, in order.

    Parameters
    ----------
    spec : str
        The model spec, from `spec_of`.
    partial_counts : iterable of PartialCounts
        In any order.
    min_count : float, default 0.0
        Minimum count of a feature, summed over classes; features with less are dropped. Use it only
        if this call merges all partial counts.

    Raises
    ------
    ModelFileError
        If partial counts are damaged or belong to another spec.
    """
    merged: dict[tuple[int, int], tuple[int, MergedCounts]] = {}
    for item in partial_counts:
        header, arrays = unpack(spec, item.data)
        key = header["view"], header["part"]
        counts = load_counts(header, arrays, empty_counts(spec, key[0]))
        if key not in merged:
            merged[key] = header["parts"], counts
            continue
        parts, total = merged[key]
        if parts != header["parts"]:
            raise ModelFileError(
                f"partial counts have different numbers of parts, {parts} and {header['parts']}"
            )
        add_counts(total, counts)
    for (view, part), (parts, total) in sorted(merged.items(), key=itemgetter(0)):
        if min_count > 0 and isinstance(total.counts, MemoryCounts):
            fingerprints, totals = total.counts.table.feature_totals()
            total.counts.table.remove(fingerprints[totals < min_count])
        ((header, arrays),) = split_counts(spec, total.counts, total.first_positions, view)
        yield pack_counts({**header, "part": part, "parts": parts}, arrays)


def add_counts(total: MergedCounts, counts: MergedCounts) -> None:
    """Add counts to a total in place."""
    total.counts.merge(counts.counts)  # type: ignore[arg-type]  # both have the same spec
    update_first_positions(total.first_positions, counts.first_positions.items())


def assemble(spec: str, partial_counts: Iterable[PartialCounts]) -> Any:
    """Return the trained classifier or tabular model.

    Parameters
    ----------
    spec : str
        The model spec, from `spec_of`.
    partial_counts : iterable of PartialCounts
        The output of `merge`: one for each view and part. Empty for an untrained model.

    Raises
    ------
    ModelFileError
        If partial counts are damaged, missing, duplicate or belong to another spec.
    """
    learner = new_model(spec)
    unpacked = [unpack(spec, item.data) for item in partial_counts]
    if unpacked:
        views = view_counts(learner)
        for counts, parts in zip(views, group_by_view(unpacked, len(views)), strict=True):
            load_counts(*join_parts(parts), counts)
    return learner


def join_parts(parts: list[Unpacked]) -> Unpacked:
    """Return the parts of a view as one table; ModelFileError if they do not fit together."""
    with convert_errors():
        return join(parts) if len(parts) > 1 else parts[0]


def group_by_view(unpacked: list[Unpacked], views: int) -> Iterator[list[Unpacked]]:
    """Yield the parts of each view, in order; ModelFileError if one is missing or duplicate."""
    ordered = sorted(unpacked, key=lambda item: (item[0]["view"], item[0]["part"]))
    parts = ordered[0][0]["parts"]
    keys = [(header["view"], header["part"], header["parts"]) for header, _ in ordered]
    if keys != [(view, part, parts) for view in range(views) for part in range(parts)]:
        raise ModelFileError("partial counts are missing or duplicate: call `merge` first")
    for view in range(views):
        yield ordered[view * parts : (view + 1) * parts]
