"""Training of a classifier on shards: parts of a stream that are learned in parallel."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from streamnb.classifier import Classifier
from streamnb.errors import ModelFileError
from streamnb.features.token_counts import TokenCounts
from streamnb.partial.partial_counts import (
    FirstPositions,
    LabelledRow,
    PartialCounts,
    empty_counts,
    group_by_view,
    join_parts,
    load_counts,
    pack_counts,
    spec_of,
    split_counts,
    unpack,
    update_first_positions,
    view_counts,
)
from streamnb.storage import label_from_json, label_to_json

STATE = -1  # `PartialCounts.view` of an item that holds the model's state without its counts


class ShardPlan(NamedTuple):
    """Division of a stream into slices, of which `shards` are learned in parallel in each round.

    The last message of each `hold_out_every` messages is held out. These messages form the last
    slice, which the merged model learns at the end.

    Attributes
    ----------
    low, high
        First and last position of the stream.
    shards, rounds
        Number of shards learned in parallel, and number of rounds.
    hold_out_every
        One in this number of messages is held out.
    """

    low: int
    high: int
    shards: int
    rounds: int
    hold_out_every: int

    @property
    def slices(self) -> int:
        """Number of slices, without the held-out slice."""
        return self.shards * self.rounds

    def slice_of(self, position: int) -> int:
        """Return the index of the slice of a message; `slices` if it is held out."""
        offset = position - self.low
        if offset % self.hold_out_every == self.hold_out_every - 1:
            return self.slices
        return offset * self.slices // (self.high - self.low + 1)

    def slices_by_round(self) -> Iterator[tuple[int, int]]:
        """Yield the first and last slice of each round, in order; the held-out slice is last."""
        for first in range(0, self.slices, self.shards):
            yield first, first + self.shards - 1
        yield self.slices, self.slices


def check_shards(learner: Any) -> None:
    """Raise ValueError if a learner cannot be trained on shards."""
    if not isinstance(learner, Classifier):
        raise ValueError("shards: models of tables are sums; fit them without shards")
    for model in learner.models:
        if model.decay != 1:
            raise ValueError("decay: decayed counts cannot be merged; use decay=1 with shards")
        if model.max_features is not None:
            raise ValueError("max_features: shards need all counts; set max_features=None")


def learn_shard(
    classifier: Classifier, rows: Iterable[LabelledRow], parts: int = 1
) -> Iterator[PartialCounts]:
    """Learn a shard in the order of its rows; yield its counts and the model's state.

    Parameters
    ----------
    classifier : Classifier
        The start state; it is trained in place.
    rows : iterable of LabelledRow
        The shard.
    parts : int, default 1
        Number of ranges of fingerprints into which each table is split.
    """
    spec, first_positions = spec_of(classifier), FirstPositions()
    start_counts = [counts.file_parts() for counts in view_counts(classifier)]
    for row in rows:
        classifier.learn_one(row.x, row.label)
        update_first_positions(first_positions, [(row.label, row.position)])
    labels = [label_to_json(y) for y in classifier.labels]
    state = json.dumps([labels, classifier.model.to_header()]).encode()
    pairs = zip(classifier.models, start_counts, strict=True)
    for view, (model, (header, arrays)) in enumerate(pairs):
        start_labels = classifier.labels[: len(header["labels"])]
        class_tokens = _tokens_by_class(arrays, len(start_labels))
        for y, weight, tokens in zip(start_labels, header["weights"], class_tokens, strict=True):
            model.counts.subtract(tokens, y, 1.0, weight)
        positions = {y: first_positions.get(y) for y in classifier.labels}
        added = split_counts(spec, model.counts, positions, view, parts)
        yield from itertools.starmap(pack_counts, added)
    yield PartialCounts(STATE, 0, state)


def _tokens_by_class(arrays: Any, classes: int) -> Iterator[TokenCounts]:
    """Yield the counts of each class in the form of one message."""
    for k in range(classes):
        if "count_ends" in arrays:
            in_class = arrays["count_classes"] == k
            ends = arrays["count_ends"].astype(np.int64)
            rows = np.searchsorted(ends, np.flatnonzero(in_class), side="right")
            counts = arrays["counts"][in_class]
        else:
            rows = arrays["counts"][:, k] > 0
            counts = np.ascontiguousarray(arrays["counts"][rows, k])
        yield TokenCounts.unchecked(arrays["fingerprints"][rows], counts, None, None)


def merge_shards(classifier: Classifier, partial_counts: Iterable[PartialCounts]) -> None:
    """Add the counts of shards to a classifier, and copy the state of the last shard.

    Parameters
    ----------
    classifier : Classifier
        The start state of the shards; it is changed in place.
    partial_counts : iterable of PartialCounts
        The output of `learn_shard`, merged, and the state of one shard.

    Raises
    ------
    ModelFileError
        If counts are missing, or there is not exactly one state.
    """
    spec = spec_of(classifier)
    items = list(partial_counts)
    states = [item.data for item in items if item.view == STATE]
    unpacked = [unpack(spec, item.data) for item in items if item.view != STATE]
    if len(states) != 1 or not unpacked:
        raise ModelFileError(
            f"found {len(unpacked)} partial counts and {len(states)} states; pass the "
            "counts of all shards, and the state of one"
        )
    for view, parts in enumerate(group_by_view(unpacked, len(classifier.models))):
        added: Any = load_counts(*join_parts(parts), empty_counts(spec, view)).counts
        classifier.models[view].counts.merge(added)
    label_pairs, outline = json.loads(states[0])
    labels = [label_from_json(pair) for pair in label_pairs]
    shard = type(classifier.model).from_header(outline)
    for model in shard.view_models:
        model.counts.add_classes(labels)
    order: Any = [labels.index(y) if y in labels else None for y in classifier.labels]
    classifier.model.restore(shard.reordered_header(order))
