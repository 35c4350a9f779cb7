"""Pieces: what some messages add to a model, as bytes; they add up, and are put together."""

from __future__ import annotations

import itertools
import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamnb.counts.memory import MemoryCounts
from streamnb.counts.protocol import Label
from streamnb.errors import ModelFileError
from streamnb.partial.arrays import (
    Arrays,
    array_from,
    bounds,
    joined,
    pruned,
    reorder,
    rows_of,
    totals_of,
)
from streamnb.partial.plan import check_sums, digest_of, fresh
from streamnb.storage import label_from_json, label_to_json
from streamnb.tables.base import TabularNB

_HEAD = struct.Struct("<II")  # length of the JSON, and a sum to check the rest by
_TYPES = ("<u8", "<f8", "<u4", "<i8", "|u1")
_MEGABYTE = 1 << 20
_MOST_PARTS = 1 << 20

Opened = tuple[Any, Arrays]  # what a piece says as JSON, and its arrays
# Where each class came first, None where that is not known: the order of the classes goes by it.
Firsts = dict[Label, int | None]


class Row(NamedTuple):
    """A message, or a row of a table, at its place in the stream.

    Attributes
    ----------
    position
        The place. `count` alone also takes None, where there is no such order.
    label
        Its class.
    x
        What the learner takes: bytes, a text, a dict.
    """

    position: int
    label: Label
    x: Any


class Piece(NamedTuple):
    """What some messages add to one view of a model, in one range of fingerprints.

    Attributes
    ----------
    view
        Number of the view; 0 for a model of rows.
    part
        Number of the range of fingerprints; 0 for a model of rows.
    data
        The rest; it names its plan, view and part, too.
    """

    view: int
    part: int
    data: bytes


class Sum(NamedTuple):
    """What pieces of one view and part add up to.

    Attributes
    ----------
    counts
        The counts, or a whole model of rows.
    firsts
        Where each class came first.
    """

    counts: MemoryCounts | TabularNB
    firsts: Firsts


def packed(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """JSON and arrays as bytes."""
    described = {
        name: [array.dtype.newbyteorder("<").str, list(array.shape)]
        for name, array in arrays.items()
    }
    text = json.dumps({**header, "arrays": described}, sort_keys=True).encode()
    text += b" " * (-len(text) % 8)  # arrays lie as the processor wants them
    parts = [text]
    for _, array in sorted(arrays.items()):  # as JSON has their names
        data = np.ascontiguousarray(array).tobytes()
        parts += [data, bytes(-len(data) % 8)]
    rest = b"".join(parts)
    return _HEAD.pack(len(text), zlib.crc32(rest)) + rest


def piece_of(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Piece:
    """A piece of the view and part that its header names."""
    return Piece(header["view"], header["part"], packed(header, arrays))


def opened(plan: str, data: bytes) -> Opened:
    """What `packed` packed, for a plan.

    Raises
    ------
    ModelFileError
        For a piece of another plan, or a damaged one.
    """
    with undamaged():
        size, checked = _HEAD.unpack_from(data)
        if zlib.crc32(memoryview(data)[_HEAD.size :]) != checked:
            raise ValueError("it is not what was written")
        header = json.loads(data[_HEAD.size : _HEAD.size + size])
        if header["plan"] != digest_of(plan):
            raise ModelFileError("a piece of another plan: all must be made by one classifier")
        for name in ("view", "part", "parts"):
            if type(header[name]) is not int or not 0 <= header[name] <= _MOST_PARTS:
                raise ValueError(f"{name} is not what it should be")
        arrays = {}
        at = _HEAD.size + size
        for name, (dtype, shape) in header["arrays"].items():
            if dtype not in _TYPES or any(type(n) is not int or n < 0 for n in shape):
                raise ValueError(f"{name} is not what it should be")
            number = int(np.prod(shape, dtype=object)) if shape else 1
            arrays[name] = np.frombuffer(data, dtype, number, at).reshape(shape)
            at += -(-arrays[name].nbytes // 8) * 8
        if at != len(data):
            raise ValueError("it is cut off")
    return header, arrays


@contextmanager
def undamaged() -> Iterator[None]:
    """Read a piece: whatever was done to its bytes is a ModelFileError."""
    try:
        yield
    except ModelFileError:
        raise
    except Exception as error:
        raise ModelFileError(f"not a piece of a model, or a damaged one ({error!s:.100})") from None


def in_order(firsts: Mapping[Label, int | None]) -> list[Label]:
    """Classes in the order in which they came; where that is not known, by type and name."""
    return sorted(
        firsts,
        key=lambda y: (firsts[y] is None, firsts[y] or 0, type(y).__name__, str(y)),
    )


def noted(firsts: Firsts, more: Iterable[tuple[Label, int | None]]) -> None:
    """Note where classes came, if none came earlier."""
    for y, position in more:
        known = firsts.get(y)
        if known is None or (position is not None and position < known):
            firsts[y] = position


def cut(plan: str, counts: Any, firsts: Firsts, view: int = 0, parts: int = 1) -> Iterator[Opened]:
    """A table of counts as pieces, one for each range of fingerprints; a model of rows is one.

    Each is what `piece_of` packs.

    Parameters
    ----------
    plan : str
        Of which it is a part.
    counts : MemoryCounts or model of rows
        What was counted.
    firsts : dict
        Where each class came first.
    view : int, default 0
        Number of the view.
    parts : int, default 1
        How many ranges.
    """
    header: dict[str, Any] = {"plan": digest_of(plan), "view": view, "part": 0, "parts": 1}
    header["firsts"] = [[label_to_json(y), firsts[y]] for y in in_order(firsts)]
    if isinstance(counts, TabularNB):
        numbers, arrays = counts._to_file()
        sizes = numbers.pop("arrays")  # `packed` says that
        yield {**header, "sum": numbers, "sizes": sizes}, arrays
        return
    numbers, arrays = counts.file_parts()
    places = [counts.labels.index(y) for y in in_order(firsts)]
    if places != list(range(len(places))):
        reorder(numbers, arrays, places)
    starts = bounds(arrays["fingerprints"], parts)
    for part in range(parts):
        mine = rows_of(arrays, starts[part], starts[part + 1])
        numbers["totals"] = totals_of(mine, len(numbers["labels"])).tolist()
        yield {**header, "part": part, "parts": parts, "sum": dict(numbers)}, mine


def views_in(learner: Any) -> list[Any]:
    """What is counted: a table for each view, or the model of rows itself."""
    if isinstance(learner, TabularNB):
        return [learner]
    return [member.counts for member in learner.models]


def read_sum(header: Any, arrays: Mapping[str, NDArray[Any]], like: Any) -> Sum:
    """What an opened piece holds.

    Parameters
    ----------
    header, arrays
        As `opened` gave them.
    like : MemoryCounts or model of rows
        What is to hold it and nothing else, as `views_in` of a fresh learner gives it.
    """
    with undamaged():
        firsts = {label_from_json(pair): position for pair, position in header["firsts"]}
        if not all(position is None or type(position) is int for position in firsts.values()):
            raise ValueError("where a class came first")
        if isinstance(like, TabularNB):
            described = {**header["sum"], "arrays": header["sizes"]}
            read = type(like)._from_file(described, array_from(arrays))
            like._declare(in_order(firsts))
            like.merge(read)
        else:
            read = like
            read.load(header["sum"], array_from(arrays))
        if set(firsts) != set(read.labels):
            raise ValueError("where each class came first")
    return Sum(like, firsts)


def empty(plan: str, view: int) -> Any:
    """What is to hold the sum of a view."""
    views = views_in(fresh(plan))
    if not 0 <= view < len(views):
        raise ModelFileError(f"a piece of view {view}, and the plan has {len(views)}")
    return views[view]


def count(
    plan: str,
    rows: Iterable[Row],
    parts: int = 1,
    memory: float = 512.0,
) -> Iterator[Piece]:
    """Count messages, or learn rows, into pieces.

    Parameters
    ----------
    plan : str
        What `plan_of` gave.
    rows : iterable of Row
        In any order. Of every class the first position matters, for the order of the classes.
    parts : int, default 1
        How many ranges of fingerprints a table is cut into.
    memory : float, default 512.0
        Megabytes a table may take before its pieces are given out and another one is begun.

    Raises
    ------
    ValueError
        For a model that is no sum (`check_sums`).

    Examples
    --------
    >>> from streamnb import Classifier, MultinomialNB, Tokenizer
    >>> from streamnb.partial import Row, assembled, count, merge, plan_of
    >>> plan = plan_of(Classifier(Tokenizer(), MultinomialNB()))
    >>> mine = count(plan, [Row(0, "spam", "free offer")])
    >>> yours = count(plan, [Row(1, "ham", "lunch at noon")])
    >>> assembled(plan, merge(plan, [*mine, *yours])).predict_one("free lunch offer")
    'spam'
    """
    check_sums(fresh(plan))
    check_parts(parts)
    learner: Any = None
    for number, (position, y, x) in enumerate(rows):
        if learner is None:
            learner, firsts = fresh(plan), Firsts()
        learner.learn_one(x, y)
        noted(firsts, [(y, position)])
        if number % 64 == 0 and _bytes(learner) > memory * _MEGABYTE:
            yield from _pieces(plan, learner, firsts, parts)
            learner = None
    if learner is not None:
        yield from _pieces(plan, learner, firsts, parts)


def check_parts(parts: int) -> None:
    """Raise ValueError for a number of ranges that cannot be."""
    if isinstance(parts, bool) or not isinstance(parts, int) or not 1 <= parts <= _MOST_PARTS:
        raise ValueError(f"parts: a whole number from 1 to {_MOST_PARTS}, not {parts!r}")


def _bytes(learner: Any) -> int:
    """How much memory the counts take; models of rows grow by columns and levels only."""
    tables = (of.table for of in views_in(learner) if isinstance(of, MemoryCounts))
    return sum(table.__sizeof__() for table in tables)


def _pieces(plan: str, learner: Any, firsts: Firsts, parts: int) -> Iterator[Piece]:
    for view, counts in enumerate(views_in(learner)):
        yield from itertools.starmap(piece_of, cut(plan, counts, firsts, view, parts))


def merge(plan: str, pieces: Iterable[Piece], least: float = 0.0) -> Iterator[Piece]:
    """Add pieces up: one for each view and part, in their order.

    Parameters
    ----------
    plan : str
        What `plan_of` gave.
    pieces : iterable of Piece
        In any order.
    least : float, default 0.0
        Features that were counted less often than this, in all classes together, are left out.
        Only where all pieces are here is that what it says.

    Raises
    ------
    ModelFileError
        For a piece of another plan, or a damaged one.
    """
    sums: dict[tuple[int, int], tuple[int, Sum]] = {}
    for piece in pieces:
        header, arrays = opened(plan, piece.data)
        key = header["view"], header["part"]
        more = read_sum(header, arrays, empty(plan, key[0]))
        if key not in sums:
            sums[key] = header["parts"], more
            continue
        parts, known = sums[key]
        if parts != header["parts"]:
            raise ModelFileError("pieces of tables that were cut into another number of parts")
        add(known, more)
    for (view, part), (parts, known) in sorted(sums.items(), key=itemgetter(0)):
        ((header, arrays),) = cut(plan, known.counts, known.firsts, view)
        if least > 0 and "fingerprints" in arrays:
            header, arrays = pruned(header, arrays, least)
        yield piece_of({**header, "part": part, "parts": parts}, arrays)


def add(known: Sum, more: Sum) -> None:
    """Add one sum to another."""
    known.counts.merge(more.counts)  # type: ignore[arg-type]  # both of one plan
    noted(known.firsts, more.firsts.items())


def assembled(plan: str, pieces: Iterable[Piece]) -> Any:
    """The classifier, or the model of rows, that learned all of what was merged.

    Parameters
    ----------
    plan : str
        What `plan_of` gave.
    pieces : iterable of Piece
        One for each view and part; none for a model that learned nothing.

    Raises
    ------
    ModelFileError
        For pieces of another plan, damaged ones, one that is missing or there twice.
    """
    learner = fresh(plan)
    read = [opened(plan, piece.data) for piece in pieces]
    if read:
        views = views_in(learner)
        for counts, mine in zip(views, by_view(read, len(views)), strict=True):
            read_sum(*joined_parts(mine), counts)
    return learner


def joined_parts(read: list[Opened]) -> Opened:
    """The parts of a view as one; ModelFileError for parts that were tampered with."""
    with undamaged():
        return joined(read) if len(read) > 1 else read[0]


def by_view(read: list[Opened], views: int) -> Iterator[list[Opened]]:
    """The pieces of each view; ModelFileError where one is missing, or is there twice."""
    read = sorted(read, key=lambda one: (one[0]["view"], one[0]["part"]))
    parts = read[0][0]["parts"]
    found = [(header["view"], header["part"], header["parts"]) for header, _ in read]
    if found != [(view, part, parts) for view in range(views) for part in range(parts)]:
        raise ModelFileError("pieces are missing, or are there twice: merge them first")
    for view in range(views):
        yield read[view * parts : (view + 1) * parts]
