"""Learning on shards where order matters: what each of several learners added to one start."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from streamnb.classifier import Classifier
from streamnb.errors import ModelFileError
from streamnb.features.token_counts import TokenCounts
from streamnb.partial.pieces import (
    Firsts,
    Piece,
    Row,
    by_view,
    cut,
    empty,
    joined_parts,
    noted,
    opened,
    piece_of,
    read_sum,
    views_in,
)
from streamnb.partial.plan import plan_of
from streamnb.storage import label_from_json, label_to_json

STATE = -1  # the view of a piece that holds what a model keeps beside its counts


class Slices(NamedTuple):
    """How a stream is cut into shards, round after round, and what is held back to the end.

    Attributes
    ----------
    low, high
        The first and last place in the stream.
    shards, rounds
        How many shards learn side by side, and how often.
    step
        Of so many messages one is held back, which the sum of all shards learns.
    """

    low: int
    high: int
    shards: int
    rounds: int
    step: int

    @property
    def slices(self) -> int:
        """How many there are, without the one that is held back."""
        return self.shards * self.rounds

    def of(self, position: int) -> int:
        """The number of the slice that a message is in; that of the last is what is held back."""
        place = position - self.low
        if place % self.step == self.step - 1:
            return self.slices
        return place * self.slices // (self.high - self.low + 1)

    def taken_together(self) -> Iterator[tuple[int, int]]:
        """The first and last of the slices that are learned side by side, in their order."""
        for first in range(0, self.slices, self.shards):
            yield first, first + self.shards - 1
        yield self.slices, self.slices


def check_shards(learner: Any) -> None:
    """Raise ValueError for what cannot be learned on shards."""
    if not isinstance(learner, Classifier):
        raise ValueError("shards: models of rows are sums; fit them without")
    for member in learner.models:
        if member.decay != 1:
            raise ValueError("decay: counts that aged differently do not add up; use decay=1")


def learn_shard(start: Classifier, rows: Iterable[Row], parts: int = 1) -> Iterator[Piece]:
    """Learn a shard, in the order in which its rows come, and give what that added.

    Parameters
    ----------
    start : Classifier
        What was known before; it is taught.
    rows : iterable of Row
        The shard.
    parts : int, default 1
        How many ranges of fingerprints a table is cut into.
    """
    plan, firsts = plan_of(start), Firsts()
    before = [counts.file_parts() for counts in views_in(start)]
    for row in rows:
        start.learn_one(row.x, row.label)
        noted(firsts, [(row.label, row.position)])
    labels = [label_to_json(y) for y in start.labels]
    state = json.dumps([labels, start.model.to_header()]).encode()
    for view, (member, (numbers, arrays)) in enumerate(zip(start.models, before, strict=True)):
        known = start.labels[: len(numbers["labels"])]
        learned = zip(known, numbers["weights"], _tokens(arrays, len(known)), strict=True)
        for y, weight, tokens in learned:
            member.counts.subtract(tokens, y, 1.0, weight)
        found = cut(plan, member.counts, {y: firsts.get(y) for y in start.labels}, view, parts)
        yield from itertools.starmap(piece_of, found)
    yield Piece(STATE, 0, state)


def _tokens(arrays: Any, classes: int) -> Iterator[TokenCounts]:
    """What is counted of each class, as one message."""
    for k in range(classes):
        if "count_ends" in arrays:
            mine = arrays["count_classes"] == k
            ends = arrays["count_ends"].astype(np.int64)
            rows = np.searchsorted(ends, np.flatnonzero(mine), side="right")
            counts = arrays["counts"][mine]
        else:
            rows = arrays["counts"][:, k] > 0
            counts = np.ascontiguousarray(arrays["counts"][rows, k])
        yield TokenCounts.unchecked(arrays["fingerprints"][rows], counts, None, None)


def advance(start: Classifier, pieces: Iterable[Piece]) -> None:
    """Let a learner know what shards added to it, and go on from the last one's state.

    Parameters
    ----------
    start : Classifier
        What the shards began with.
    pieces : iterable of Piece
        Those of `learn_shard`, merged, and the state of one shard.
    """
    plan = plan_of(start)
    found = list(pieces)
    states = [piece.data for piece in found if piece.view == STATE]
    read = [opened(plan, piece.data) for piece in found if piece.view != STATE]
    if len(states) != 1 or not read:
        raise ModelFileError("there must be the state of one shard, and what all of them added")
    for view, mine in enumerate(by_view(read, len(start.models))):
        added: Any = read_sum(*joined_parts(mine), empty(plan, view)).counts
        start.models[view].counts.merge(added)
    labels, outline = json.loads(states[0])
    theirs = [label_from_json(pair) for pair in labels]
    shard = type(start.model).from_header(outline)
    for member in shard.view_models:
        member.counts.add_classes(theirs)
    places: Any = [theirs.index(y) if y in theirs else None for y in start.labels]
    start.model.restore(shard.reordered_header(places))
