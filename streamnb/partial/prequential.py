"""Exact prequential evaluation in parts: a prefix sum over the blocks of a stream."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from streamnb.counts.memory import MemoryCounts
from streamnb.counts.part import SubsetCounts
from streamnb.counts.protocol import Floats, Keys, Label
from streamnb.errors import CorpusError, ModelFileError
from streamnb.evaluate.metrics import Judged, Tally
from streamnb.evaluate.prequential import Course, Example
from streamnb.partial.arrays import Arrays, joined
from streamnb.partial.pieces import (
    Firsts,
    Opened,
    Piece,
    Row,
    Sum,
    add,
    by_view,
    check_parts,
    cut,
    empty,
    noted,
    opened,
    piece_of,
    read_sum,
    undamaged,
    views_in,
)
from streamnb.partial.plan import check_sums, fresh, model_of
from streamnb.storage import label_from_json
from streamnb.tables.base import TabularNB

_AT_ONCE = 1 << 22  # counts that are looked at together


class Blocks(NamedTuple):
    """How a stream is cut.

    Attributes
    ----------
    size
        Positions in a block; block 0 begins at position 0.
    delay
        How many messages later a label comes.
    """

    size: int = 4096
    delay: int = 0

    def of(self, position: int) -> tuple[int, ...]:
        """The blocks that want a message: the one it is classified in, and learned in."""
        first, last = position // self.size, (position + self.delay) // self.size
        return (first,) if first == last else (first, last)


class Judgement(NamedTuple):
    """What was said of a message before its label was learned, and what that was worth."""

    position: int
    label: Label
    predicted: Label | None
    judged: Judged
    positive: Label | None = None  # the class that the score is for, once it is known


def count_block(
    plan: str, number: int, blocks: Blocks, rows: Iterable[Row], parts: int = 1
) -> Iterator[Piece]:
    """What a block learns, and which features it asks for.

    Parameters
    ----------
    plan : str
        What `plan_of` gave.
    number : int
        Of the block.
    blocks : Blocks
        How the stream is cut.
    rows : iterable of Row
        All the messages that the block wants (`Blocks.of`), in any order.
    parts : int, default 1
        How many ranges of fingerprints a table is cut into.
    """
    learner = _nameless(plan)
    check_sums(learner)
    check_parts(parts)
    firsts = Firsts()
    asked = []
    model, counted_of = model_of(learner)
    text = not isinstance(model, TabularNB)
    for position, y, x in rows:
        counted = counted_of(x)
        if (position + blocks.delay) // blocks.size == number:
            model.learn_one(counted, y)
            noted(firsts, [(y, position)])
        elif text:
            asked.append(model.as_tokens(counted).fingerprints)
    for view, counts in enumerate(views_in(learner)):
        for header, arrays in cut(plan, counts, firsts, view, parts):
            if text:
                arrays["asked"] = _asked(arrays["fingerprints"], asked, header["part"], parts)
            yield piece_of({**header, "block": number}, arrays)


def _nameless(plan: str) -> Any:
    """A fresh learner that keeps no names of features: no score depends on them."""
    learner = fresh(plan)
    if not isinstance(learner, TabularNB):
        for one in (*learner.models, *learner.tokenizer.tokenizers):
            one.keep_names = False
    return learner


def _asked(learned: Keys, asked: list[Keys], part: int, parts: int) -> Keys:
    """The features of one range that are asked for, and not learned here."""
    if not asked:
        return np.empty(0, dtype=np.uint64)
    found = np.unique(np.concatenate(asked))
    of = (found >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)
    return np.setdiff1d(found[of == part], learned, assume_unique=True)


def prefixes(plan: str, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """For each block, what all blocks before it learned of what it asks for.

    Parameters
    ----------
    plan : str
        What `plan_of` gave.
    pieces : iterable of Piece
        Of one view and part, those of `count_block` in the order of the blocks.

    Raises
    ------
    ModelFileError
        Where they are not in that order, or not of one view and part.
    """
    before: Sum | None = None
    last = (-1, 0, 0)
    for piece in pieces:
        header, arrays = opened(plan, piece.data)
        place = header.get("block", -1), header["view"], header["part"]
        if before is not None and (place[0] <= last[0] or place[1:] != last[1:]):
            raise ModelFileError("blocks must come in their order, those of one view and part")
        last = place
        view, parts = header["view"], header["parts"]
        before = Sum(empty(plan, view), Firsts()) if before is None else before
        known, found = _prefix(plan, before, arrays, view)
        yield piece_of({**known, "part": place[2], "parts": parts, "block": place[0]}, found)
        add(before, read_sum(header, arrays, empty(plan, view)))


def _prefix(plan: str, before: Sum, arrays: Arrays, view: int) -> Opened:
    """What was learned of what the arrays of a block ask for."""
    counts = before.counts
    if isinstance(counts, TabularNB):
        (whole,) = cut(plan, counts, before.firsts)
        return whole
    asked = np.concatenate((arrays["fingerprints"], arrays["asked"]))
    known = MemoryCounts(keep_names=False)
    known.add_classes(counts.labels)
    places = np.arange(len(counts.labels))
    step = max(1, _AT_ONCE // max(1, len(places)))
    for start in range(0, len(asked) if len(places) else 0, step):
        some = asked[start : start + step]
        cells, seen = counts.get_counts(some)
        kept = seen.astype(bool)
        known.table.add_matrix(some[kept], cells[kept], places, None, None)
    known.weights = list(counts.weights)
    ((header, found),) = cut(plan, known, before.firsts, view)
    order = [counts.labels.index(label_from_json(pair)) for pair in header["sum"]["labels"]]
    header["sum"]["totals"] = [counts.totals[k] for k in order]
    if counts.table.track_values:
        values, features = counts.count_histogram()
        found |= {"values": values, "features": features[:, order]}
    return {**header, "unloaded": counts.features - known.features}, found


class _Restricted(SubsetCounts):
    """What the blocks before one have learned of what it asks for."""

    _values: tuple[Floats, Floats] | None = None

    def begin(self, header: Any, arrays: Arrays, unloaded: int) -> None:
        """Take over what `_prefix` gave, the parts joined: a value can be there once for each."""
        numbers = header["sum"]
        self.add_classes(label_from_json(pair) for pair in numbers["labels"])
        self.weights[:] = numbers["weights"]
        self.table.load(
            arrays["fingerprints"],
            arrays.get("count_ends"),
            arrays.get("count_classes"),
            arrays["counts"],
            numbers["totals"],
        )
        self.table.unloaded = unloaded
        if "values" in arrays:
            of_these, features = self.table.count_histogram()
            self._values = _added(
                arrays["values"], arrays["features"], of_these, -features, len(self.labels)
            )

    def count_histogram(self) -> tuple[Floats, Floats]:
        """Counts that occur (m,), and how many features have each of them in each class (m, K)."""
        mine = self.table.count_histogram()
        if self._values is None:
            return mine
        return _added(*self._values, *mine, len(self.labels))


def _added(
    values: Floats, features: Floats, others: Floats, more: Floats, classes: int
) -> tuple[Floats, Floats]:
    """The sum of two tables of how many features have each count."""
    found, places = np.unique(np.concatenate((values, others)), return_inverse=True)
    sums = np.zeros((len(found), classes))
    np.add.at(sums[:, : features.shape[1]], places[: len(values)], features)
    np.add.at(sums[:, : more.shape[1]], places[len(values) :], more)
    return found, sums


def _begun(plan: str, number: int, prefix: Iterable[Piece]) -> Any:
    """A learner as it was when a block began."""
    learner = _nameless(plan)
    read = [opened(plan, piece.data) for piece in prefix]
    if not read:
        raise ModelFileError(f"block {number}: there are no prefixes of it")
    if any(header.get("block") != number for header, _ in read):
        raise ModelFileError(f"block {number}: a prefix of another one")
    views = views_in(learner)
    for view, mine in enumerate(by_view(read, len(views))):
        if isinstance(views[view], TabularNB):
            read_sum(*mine[0], learner)
            return learner
        member = learner.models[view]
        counts = _Restricted(keep_names=False, track_values=member.track_values)
        with undamaged():
            header, arrays = joined(mine)
            counts.begin(header, arrays, sum(of["unloaded"] for of, _ in mine))
        member.counts = counts
    return learner


def replay(
    plan: str,
    number: int,
    blocks: Blocks,
    prefix: Iterable[Piece],
    rows: Iterable[Row],
    positive: str | None = None,
) -> Iterator[Judgement]:
    """Classify the messages of a block as one process does that learned all before them.

    Parameters
    ----------
    plan : str
        What `plan_of` gave.
    number : int
        Of the block.
    blocks : Blocks
        How the stream is cut.
    prefix : iterable of Piece
        What `prefixes` gave for the block, of all views and parts.
    rows : iterable of Row
        All the messages that the block wants, in any order.
    positive : str, default None
        The class that scores are for, as `Tally` has it.

    Yields
    ------
    Judgement
        In the order of the places.

    Raises
    ------
    CorpusError
        Where two messages have one place.
    """
    learner = _begun(plan, number, prefix)
    model, counted_of = model_of(learner)
    course, tally = Course(model), Tally(positive)
    known = sorted(rows, key=lambda row: row.position)
    for row, after in itertools.pairwise(known):
        if row.position == after.position:
            raise CorpusError(f"position {row.position}: two messages have it")
    counted = {row.position: counted_of(row.x) for row in known}
    # After each message comes the label that is due then.
    events = [(row.position, 0, row) for row in known if row.position // blocks.size == number]
    due = [(row.position + blocks.delay, 1, row) for row in known]
    events += [event for event in due if event[0] // blocks.size == number]
    for _, kind, (position, y, _) in sorted(events, key=lambda event: event[:2]):
        example = Example(counted[position], y, position)
        if kind:
            course.teach(example, None)
            continue
        step = course.classify(example)
        assert step is not None  # noqa: S101 (for the type checker)
        judged = tally.judge(step)
        yield Judgement(position, y, step.predicted, judged, tally.positive)
