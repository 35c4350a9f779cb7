"""Cost of learning on shards for the default model: ranking and accuracy of k shards in r rounds.

    python tests/benchmarks/shards.py STREAM... [--shards 1 2 4 8 16 32 128] [--rounds 1 4]

A STREAM is a corpus, or several joined by +. It is shuffled three times, and the figures are means. The model
learns the first 80 % and is tested on the last 20 %. The training is that of
`streamnb.spark.fit(..., shards=, rounds=)`, in one process. `1` is training in sequence, with no message held out.
"""

import argparse
import io
import random
import statistics
from pathlib import Path

from streamnb import MailClassifier, TextClassifier
from streamnb.corpus import open_corpus, read
from streamnb.evaluate import RunningMetrics, Step
from streamnb.partial import LabelledRow, ShardPlan, learn_shard, merge, merge_shards, spec_of
from streamnb.partial.shards import STATE

HELD_BACK = 500


def learned(instance, rows: list[LabelledRow], shards: int, rounds: int):
    model = instance()
    if shards * rounds == 1:
        for row in rows:
            model.learn_one(row.x, row.label)
        return model
    slices = ShardPlan(0, len(rows) - 1, shards, rounds, max(2, len(rows) // HELD_BACK))
    cut: dict[int, list[LabelledRow]] = {}
    for row in rows:
        cut.setdefault(slices.slice_of(row.position), []).append(row)
    plan = spec_of(model)
    for first, last in slices.slices_by_round():
        data = io.BytesIO()
        model.save(data)
        pieces = []
        for number in range(first, last + 1):
            data.seek(0)
            result = list(learn_shard(type(model).load(data), cut.get(number, [])))
            pieces += [piece for piece in result if piece.view != STATE or number == last]
        states = [piece for piece in pieces if piece.view == STATE]
        remainder = [piece for piece in pieces if piece.view != STATE]
        merge_shards(model, [*merge(plan, remainder), *states])
    return model


def judged(model, rows: list[LabelledRow]):
    metrics = RunningMetrics("spam")
    for row in rows:
        scores = model.joint_log_likelihood(row.x)
        metrics.record(Step(row.label, max(scores, key=scores.get), scores, None))
    return metrics.summary(False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("streams", nargs="+")
    parser.add_argument("--shards", nargs="+", type=int, default=[1, 2, 4, 8, 16, 32, 128])
    parser.add_argument("--shuffled", action="store_true", help="single corpora, too")
    parser.add_argument("--rounds", nargs="+", type=int, default=[1, 4])
    chosen = parser.parse_args()
    print("| stream | shards | rounds | messages a shard | (1-ROCA)% | accuracy |")
    print("|---|---|---|---|---|---|")
    for stream in chosen.streams:
        corpora = [open_corpus(path) for path in stream.split("+")]
        instance = MailClassifier if corpora[0].content == "mail" else TextClassifier
        mails = [(entry.label, read(entry)) for corpus in corpora for entry in corpus]
        name = " + ".join(Path(path).name for path in stream.split("+"))
        for rounds in chosen.rounds:
            for k in chosen.shards:
                if k % rounds or (k == rounds > 1):
                    continue
                result = []
                for seed in range(3) if len(corpora) > 1 or chosen.shuffled else [None]:
                    mixed = list(mails)
                    if seed is not None:
                        random.Random(seed + 1).shuffle(mixed)
                    rows = [LabelledRow(i, *item) for i, item in enumerate(mixed)]
                    n = len(rows) * 4 // 5
                    result.append(
                        judged(learned(instance, rows[:n], k // rounds, rounds), rows[n:])
                    )
                accuracy = statistics.mean(item.accuracy for item in result)
                roca = [item.one_minus_roca_percent for item in result]
                ranked = "" if None in roca else f"{statistics.mean(roca):.4f}"
                print(
                    f"| {name} | {k} | {rounds} | {n // k:,} | {ranked} | {accuracy:.2%} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
