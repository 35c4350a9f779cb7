"""Exact prequential evaluation in parts: a prefix sum over the blocks of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from streamnb.counts.memory import MemoryCounts, SubsetCounts
from streamnb.counts.protocol import Floats, Keys, Label
from streamnb.errors import ModelFileError
from streamnb.evaluate.metrics import RunningMetrics, ScoredPrediction
from streamnb.evaluate.prequential import Example, PrequentialRun
from streamnb.partial.partial_counts import (
    Arrays,
    FirstPositions,
    LabelledRow,
    MergedCounts,
    PartialCounts,
    Unpacked,
    add_counts,
    check_ascending,
    check_parts,
    check_sums,
    convert_errors,
    empty_counts,
    group_by_view,
    join,
    load_counts,
    new_model,
    pack_counts,
    split_counts,
    split_learner,
    unpack,
    update_first_positions,
    view_counts,
)
from streamnb.storage import label_from_json
from streamnb.tables.base import TabularNB

_MAX_CELLS = 1 << 22  # number of counts looked up in one call


class BlockLayout(NamedTuple):
    """Division of a stream into blocks.

    Attributes
    ----------
    size
        Positions in a block; block 0 begins at position 0.
    delay
        Number of messages after which a label is learned.
    """

    size: int = 4096
    delay: int = 0

    def blocks_of(self, position: int) -> tuple[int, ...]:
        """Return the block that classifies a message, and any other block that learns it."""
        first, last = position // self.size, (position + self.delay) // self.size
        return (first,) if first == last else (first, last)


class BlockPrediction(NamedTuple):
    """A prediction made before the label was learned, and its scores and losses.

    Attributes
    ----------
    position, label
        Position and label of the message.
    predicted
        The predicted class; None before anything was learned.
    scored
        Score, losses and probabilities.
    positive
        The class whose log-odds the score is; None until two classes are known.
    """

    position: int
    label: Label
    predicted: Label | None
    scored: ScoredPrediction
    positive: Label | None = None


def count_block(
    spec: str, block: int, layout: BlockLayout, rows: Iterable[LabelledRow], parts: int = 1
) -> Iterator[PartialCounts]:
    """Yield the counts that a block learns, and the features that the block's predictions need.

    Parameters
    ----------
    spec : str
        The model spec, from `spec_of`.
    block : int
        Index of the block.
    layout : BlockLayout
        Division of the stream into blocks.
    rows : iterable of LabelledRow
        All messages of the block (`BlockLayout.blocks_of`), in any order.
    parts : int, default 1
        Number of ranges of fingerprints into which each table is split.
    """
    learner = _model_without_names(spec)
    check_sums(learner)
    check_parts(parts)
    first_positions = FirstPositions()
    requested = []
    model, features_of = split_learner(learner)
    is_text = not isinstance(model, TabularNB)
    for position, y, x in rows:
        features = features_of(x)
        if (position + layout.delay) // layout.size == block:
            model.learn_one(features, y)
            update_first_positions(first_positions, [(y, position)])
        elif is_text:
            requested.append(model.as_tokens(features).fingerprints)
    for view, counts in enumerate(view_counts(learner)):
        for header, arrays in split_counts(spec, counts, first_positions, view, parts):
            if is_text:
                arrays["requested"] = _requested_in_part(
                    arrays["fingerprints"], requested, header["part"], parts
                )
            yield pack_counts({**header, "block": block}, arrays)


def _model_without_names(spec: str) -> Any:
    """Return an untrained learner without names of features, which predictions do not need."""
    learner = new_model(spec)
    if not isinstance(learner, TabularNB):
        for component in (*learner.models, *learner.tokenizer.tokenizers):
            component.keep_names = False
    return learner


def _requested_in_part(learned: Keys, requested: list[Keys], part: int, parts: int) -> Keys:
    """Return the features of one part that a block needs for predictions, but does not learn."""
    if not requested:
        return np.empty(0, dtype=np.uint64)
    features = np.unique(np.concatenate(requested))
    part_of_each = (features >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)
    return np.setdiff1d(features[part_of_each == part], learned, assume_unique=True)


def prefix_sums(spec: str, partial_counts: Iterable[PartialCounts]) -> Iterator[PartialCounts]:
    """Yield for each block the sum of all earlier counts of the features that the block needs.

    Parameters
    ----------
    spec : str
        The model spec, from `spec_of`.
    partial_counts : iterable of PartialCounts
        The output of `count_block` of one view and part, in the order of the blocks.

    Raises
    ------
    ModelFileError
        If they are in another order, or of several views or parts.
    """
    total: MergedCounts | None = None
    previous = (-1, 0, 0)
    for item in partial_counts:
        header, arrays = unpack(spec, item.data)
        block, view, part = key = header.get("block", -1), header["view"], header["part"]
        if total is not None and (block <= previous[0] or key[1:] != previous[1:]):
            raise ModelFileError(
                f"block {block}, view {view}, part {part}: expected blocks in ascending order, "
                "all of one view and part"
            )
        previous = key
        if total is None:
            total = MergedCounts(empty_counts(spec, view), FirstPositions())
        prefix_header, prefix_arrays = _select_requested(spec, total, arrays, view)
        prefix_header |= {"part": part, "parts": header["parts"], "block": block}
        yield pack_counts(prefix_header, prefix_arrays)
        add_counts(total, load_counts(header, arrays, empty_counts(spec, view)))


def _select_requested(spec: str, total: MergedCounts, arrays: Arrays, view: int) -> Unpacked:
    """Return the sum of all earlier counts of the features that a block needs."""
    counts = total.counts
    if isinstance(counts, TabularNB):
        (whole,) = split_counts(spec, counts, total.first_positions)
        return whole
    features = np.concatenate((arrays["fingerprints"], arrays["requested"]))
    selected = MemoryCounts(keep_names=False)
    selected.add_classes(counts.labels)
    classes = np.arange(len(counts.labels))
    step = max(1, _MAX_CELLS // max(1, len(classes)))
    for start in range(0, len(features) if len(classes) else 0, step):
        batch = features[start : start + step]
        cells, seen_flags = counts.get_counts(batch)
        is_seen = seen_flags.astype(bool)
        selected.table.add_matrix(batch[is_seen], cells[is_seen], classes, None, None)
    selected.weights = list(counts.weights)
    ((header, selected_arrays),) = split_counts(spec, selected, total.first_positions, view)
    order = [counts.labels.index(label_from_json(pair)) for pair in header["sum"]["labels"]]
    header["sum"]["totals"] = [counts.totals[k] for k in order]
    if counts.table.track_values:
        values, features_with_value = counts.count_histogram()
        selected_arrays |= {"values": values, "features": features_with_value[:, order]}
    return {**header, "unloaded": counts.features - selected.features}, selected_arrays


class _PrefixCounts(SubsetCounts):
    """The sum of all earlier counts of the features that a block needs."""

    _unloaded_histogram: tuple[Floats, Floats] | None = None

    def load_prefix(self, header: Any, arrays: Arrays, unloaded: int) -> None:
        """Load the joined parts of the output of `_select_requested`.

        Parameters
        ----------
        header, arrays
            The joined parts. `values` repeats a value that occurs in several parts.
        unloaded
            Number of features of earlier blocks that the block does not need.
        """
        content = header["sum"]
        self.add_classes(label_from_json(pair) for pair in content["labels"])
        self.weights[:] = content["weights"]
        self.table.load(
            arrays["fingerprints"],
            arrays.get("count_ends"),
            arrays.get("count_classes"),
            arrays["counts"],
            content["totals"],
        )
        self.table.unloaded = unloaded
        if "values" in arrays:
            values, features = self.table.count_histogram()
            self._unloaded_histogram = _add_histograms(
                arrays["values"], arrays["features"], values, -features, len(self.labels)
            )

    def count_histogram(self) -> tuple[Floats, Floats]:
        """Return the distinct counts (m,), and the number of features with each by class (m, K)."""
        histogram = self.table.count_histogram()
        if self._unloaded_histogram is None:
            return histogram
        return _add_histograms(*self._unloaded_histogram, *histogram, len(self.labels))


def _add_histograms(
    values: Floats, features: Floats, other_values: Floats, other_features: Floats, classes: int
) -> tuple[Floats, Floats]:
    """Return the sum of two histograms of counts."""
    all_values, index_of = np.unique(np.concatenate((values, other_values)), return_inverse=True)
    sums = np.zeros((len(all_values), classes))
    np.add.at(sums[:, : features.shape[1]], index_of[: len(values)], features)
    np.add.at(sums[:, : other_features.shape[1]], index_of[len(values) :], other_features)
    return all_values, sums


def _model_at_block(spec: str, block: int, prefix: Iterable[PartialCounts]) -> Any:
    """Return the learner with the counts of all blocks before this one."""
    learner = _model_without_names(spec)
    unpacked = [unpack(spec, item.data) for item in prefix]
    if not unpacked:
        raise ModelFileError(f"block {block}: the counts of the blocks before it are missing")
    if any(header.get("block") != block for header, _ in unpacked):
        raise ModelFileError(
            f"block {block}: the counts of earlier blocks were computed for another block"
        )
    views = view_counts(learner)
    for view, parts in enumerate(group_by_view(unpacked, len(views))):
        if isinstance(views[view], TabularNB):
            load_counts(*parts[0], learner)
            return learner
        model = learner.models[view]
        counts = _PrefixCounts(keep_names=False, track_values=model.track_values)
        with convert_errors():
            header, arrays = join(parts)
            counts.load_prefix(header, arrays, sum(part["unloaded"] for part, _ in parts))
        model.counts = counts
    return learner


def replay_block(
    spec: str,
    block: int,
    layout: BlockLayout,
    prefix: Iterable[PartialCounts],
    rows: Iterable[LabelledRow],
    positive: str | None = None,
) -> Iterator[BlockPrediction]:
    """Classify the messages of a block, with the same results as one process for the stream.

    Parameters
    ----------
    spec : str
        The model spec, from `spec_of`.
    block : int
        Index of the block.
    layout : BlockLayout
        Division of the stream into blocks.
    prefix : iterable of PartialCounts
        The output of `prefix_sums` for the block, of all views and parts.
    rows : iterable of LabelledRow
        All messages of the block, in any order.
    positive : str, default None
        The positive class, as for `RunningMetrics`.

    Yields
    ------
    BlockPrediction
        The predictions, in the order of the positions.

    Raises
    ------
    CorpusError
        If two messages have the same position.
    """
    learner = _model_at_block(spec, block, prefix)
    model, features_of = split_learner(learner)
    run, metrics = PrequentialRun(model), RunningMetrics(positive)
    ordered = list(check_ascending(sorted(rows, key=lambda row: row.position)))
    features = {row.position: features_of(row.x) for row in ordered}
    # At each position, the message is classified (0) before the due label is learned (1).
    events = [(row.position, 0, row) for row in ordered if row.position // layout.size == block]
    due = [(row.position + layout.delay, 1, row) for row in ordered]
    events += [event for event in due if event[0] // layout.size == block]
    for _, is_label, (position, y, _) in sorted(events, key=lambda event: event[:2]):
        example = Example(features[position], y, position)
        if is_label:
            run.train(example, None)
            continue
        step = run.classify(example)
        assert step is not None  # noqa: S101 (for the type checker)
        scored = metrics.score_step(step)
        yield BlockPrediction(position, y, step.predicted, scored, metrics.positive)
