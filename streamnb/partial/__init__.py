"""Learning and evaluation in parts, for any engine: counts add.

Plain functions over bytes. An engine (a pool of processes, Spark, job arrays) carries a plan, which
is text, and pieces, which are bytes; what they say does not depend on who worked them out, where
or how often. A model is counted by `count`, `merge` and `assembled`. A prequential evaluation is a
prefix sum: `count_block` for each block of the stream, `prefixes` over the blocks, and `replay` of
each block from what was learned before it.
"""

from streamnb.partial.pieces import Piece, Row, assembled, count, merge
from streamnb.partial.plan import check_sums, digest_of, fresh, plan_of
from streamnb.partial.prequential import Blocks, Judgement, count_block, prefixes, replay
from streamnb.partial.shards import Slices, advance, check_shards, learn_shard

__all__ = [
    "Blocks",
    "Judgement",
    "Piece",
    "Row",
    "Slices",
    "advance",
    "assembled",
    "check_shards",
    "check_sums",
    "count",
    "count_block",
    "digest_of",
    "fresh",
    "learn_shard",
    "merge",
    "plan_of",
    "prefixes",
    "replay",
]
