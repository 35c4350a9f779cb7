"""Training and evaluation in parts, for any parallel engine, by adding counts.

The functions use plain bytes and text. An engine (a pool of processes, Spark, job arrays)
transports a model spec, which is text, and partial counts, which are bytes. Results do not depend
on the process that computes them, or on repeated computations.

To train: `count`, `merge`, `assemble`. A prequential evaluation has three steps. `count_block`
counts each block of the stream. `prefix_sums` adds up the counts of all earlier blocks.
`replay_block` starts from them, and predicts and learns the messages of its block.
"""

from streamnb.partial.partial_counts import (
    LabelledRow,
    PartialCounts,
    assemble,
    check_sums,
    count,
    merge,
    new_model,
    spec_digest,
    spec_of,
)
from streamnb.partial.prequential import (
    BlockLayout,
    BlockPrediction,
    count_block,
    prefix_sums,
    replay_block,
)
from streamnb.partial.shards import ShardPlan, check_shards, learn_shard, merge_shards

__all__ = [
    "BlockLayout",
    "BlockPrediction",
    "LabelledRow",
    "PartialCounts",
    "ShardPlan",
    "assemble",
    "check_shards",
    "check_sums",
    "count",
    "count_block",
    "learn_shard",
    "merge",
    "merge_shards",
    "new_model",
    "prefix_sums",
    "replay_block",
    "spec_digest",
    "spec_of",
]
