"""Benefit and cost of each view: ranking, microseconds and bytes for a message.

    python tests/benchmarks/views.py STREAM [STREAM ...] [--shuffles 2] [--plot FILE.svg]

Prequential, in the order of each stream and shuffled: the geometric mean of (1-ROCA)%, and the mean accuracy,
over all streams of two classes. The time is the CPU time of features, classification and learning, the minimum
of two passes. The space is that of the tables in memory, including names. Both are geometric means.
"""

import argparse
import math
import random
import sys
import time

import numpy as np

from streamnb import MailClassifier
from streamnb.corpus import open_corpus, read

VARIANTS = {
    "default": {},
    "default, ngram_max=6, ngram_step=2": {"ngram_max": 6, "ngram_step": 2},
    "preset=small": {"preset": "small"},
    "words, pairs, bytes": {"views": ("words", "pairs", "bytes")},
    "header, body, pairs": {"views": ("header", "body", "pairs")},
    "words, bytes": {"views": ("words", "bytes")},
    "header, body": {"views": ("header", "body")},
    "words": {"views": ("words",)},
    "pairs": {"views": ("pairs",)},
    "bytes": {"views": ("bytes",)},
    "words, bytes as they were (configs/two-views.yaml)": {
        "views": ("words", "bytes"),
        "first_bytes": 2000,
        "min_update": 0.0,
        "bound": None,
        "by_length": False,
        "rate": 0.3,
    },
}


def prequential(classifier, messages):
    """Return (1-ROCA)%, accuracy in percent, and microseconds and bytes for a message."""
    scores, right = {"spam": [], "ham": []}, 0
    started = time.process_time()
    for content, label in messages:
        counted = classifier.count(content)
        answer = classifier.model.joint_log_likelihood(counted)
        right += bool(answer) and max(answer, key=answer.get) == label
        scores[label].append(answer["spam"] - answer["ham"] if len(answer) == 2 else 0.0)
        classifier.model.learn_one(counted, label)
    spent = time.process_time() - started
    spam, ham = (np.sort(scores[label]) for label in ("spam", "ham"))
    below = np.searchsorted(ham, spam, "left") + np.searchsorted(ham, spam, "right")
    roca = 100 * (1 - below.sum() / 2 / len(spam) / len(ham))
    size = sum(sys.getsizeof(model.counts.table) for model in classifier.models)
    return roca, 100 * right / len(messages), 1e6 * spent / len(messages), size / len(messages)


def mean(figures):
    return math.exp(np.mean([math.log(max(figure, 1e-4)) for figure in figures]))


def draw(rows, path):
    """Draw ranking against time and space, with a point for each row; needs streamnb[plot]."""
    from matplotlib.figure import Figure

    figure = Figure((11, 4.4), layout="constrained")
    sides = figure.subplots(1, 2, sharey=True)
    for side, column, kind in zip(sides, (2, 3), ("microseconds", "bytes"), strict=True):
        for name, *numbers in rows:
            side.plot(numbers[column], numbers[1], "o", color="#1f5fa8")
            short = name.removeprefix("default, ").split(" (")[0]
            side.annotate(
                short,
                (numbers[column], numbers[1]),
                xytext=(5, 4),
                textcoords="offset points",
                fontsize=8,
            )
        side.set(xscale="log", yscale="log", xlabel=f"{kind} a message")
        side.margins(x=0.25)
        side.grid(alpha=0.3)
    sides[0].set_ylabel("(1-ROCA)%, shuffled: lower is better")
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("stream", nargs="+")
    parser.add_argument("--shuffles", type=int, default=2)
    parser.add_argument("--plot", metavar="FILE", help="draw ranking against time and space")
    options = parser.parse_args()
    streams = []
    for path in options.stream:
        messages = [(read(entry), entry.label) for entry in open_corpus(path)]
        orders = [list(messages) for _ in range(options.shuffles)]
        for seed, order in enumerate(orders, 11):
            random.Random(seed).shuffle(order)
        streams.append([messages, *orders])
    print("| views | own order | shuffled | microseconds | bytes |\n|---|---|---|---|---|")
    rows = []
    for name, parameters in VARIANTS.items():
        own, shuffled, times, sizes = [], [], [], []
        for messages, *orders in streams:
            result = [prequential(MailClassifier(**parameters), messages) for _ in range(2)]
            own.append(result[0])
            times.append(min(item[2] for item in result))
            sizes.append(result[0][3])
            shuffled += [prequential(MailClassifier(**parameters), order) for order in orders]
        cells = [
            f"{mean([item[0] for item in values]):.4f}, {np.mean([item[1] for item in values]):.2f} %"
            for values in (own, shuffled)
        ]
        print(
            f"| {name} | {' | '.join(cells)} | {mean(times):.0f} | {mean(sizes):,.0f} |", flush=True
        )
        rows.append(
            (
                name,
                *(mean([item[0] for item in values]) for values in (own, shuffled)),
                mean(times),
                mean(sizes),
            )
        )
    if options.plot:
        draw(rows, options.plot)


if __name__ == "__main__":
    main()
