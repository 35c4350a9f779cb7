"""Time of each step of a message, and the limits of the machine.

    python tests/benchmarks/steps.py CORPUS [--features 1e7]

CORPUS is a folder in TREC layout. Prints Markdown tables: the steps of a replay with the default, with the
time to read the same bytes from memory and that of `wc -w`; growing tables of counts, with the time of a random
access to memory; files; many classes; two independent processes, the limit for two jobs; and prediction from
given features, with the time of Vowpal Wabbit.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from speed import best, table

import streamnb
from streamnb import _core
from streamnb.corpus import open_corpus, read
from streamnb.evaluate import Example, RunningMetrics, prequential
from streamnb.features.mail_words import as_mail
from streamnb.features.token_counts import TokenCounts

_MEASURABLE = 20e-9  # seconds: the time of a faster access is less than that of its loop


def bandwidth() -> float:
    """Return the bytes that are read from memory in sequence in one second."""
    large = np.ones(1 << 25)
    return large.nbytes / best(large.sum, 5)


def random_access(size: int) -> float:
    """Return the seconds to read a word in `size` bytes of memory; each word has the address of the next."""

    def walk(words: int) -> float:
        order = np.random.default_rng(1).permutation(words)
        ring = np.empty(words, dtype=np.int64)
        ring[order] = np.roll(order, -1)
        follow = array("q", ring.tobytes())

        def steps() -> None:
            position = 0
            for _ in range(300_000):
                position = follow[position]

        return best(steps) / 300_000

    return walk(max(size // 8, 1 << 16)) - walk(512)


def steps(corpus: Path) -> None:
    entries = list(open_corpus(corpus))
    n = len(entries)
    contents = [read(entry) for entry in entries]
    mean = sum(map(len, contents)) / n
    speed = bandwidth()
    classifier = streamnb.MailClassifier()
    views = [classifier.tokenizer.count(content) for content in contents]
    looked_up = sum(len(view) for message in views for view in message) / n

    def parse() -> None:
        for content in contents:
            for part in as_mail(content).parts:
                _ = part.utf8

    def scores(learn: bool) -> float:
        model, spent = streamnb.MailClassifier().model, 0.0
        for entry, x in zip(entries, views, strict=True):
            began = time.perf_counter()
            model.joint_log_likelihood(x)
            between = time.perf_counter()
            model.learn_one(x, entry.label)
            spent += time.perf_counter() - between if learn else between - began
        return spent

    def replay() -> None:
        instance, metrics = streamnb.MailClassifier(), RunningMetrics()
        stream = (
            Example(instance.tokenizer.count(read(entry)), entry.label, entry.name)
            for entry in entries
        )
        for step in prequential(stream, instance.model):
            metrics.record(step)

    with tempfile.NamedTemporaryFile() as joined:
        joined.write(b"\n".join(c if isinstance(c, bytes) else c.encode() for c in contents))
        joined.flush()
        counted = best(lambda: subprocess.run(["wc", "-w", joined.name], capture_output=True))
    parsed = [as_mail(content) for content in contents]
    for mail in parsed:
        for part in mail.parts:
            _ = part.utf8
    times = {
        "open and read the file": best(lambda: [read(entry) for entry in entries]),
        "parse and decode": best(parse),
    }
    for view, tokenizer in zip(
        ("words of the header", "words of the body", "pairs", "bytes"),
        classifier.tokenizer.tokenizers,
        strict=True,
    ):
        times[f"tokenise: {view}"] = best(
            lambda value=tokenizer: [value.count(mail) for mail in parsed]
        )
    times["look up and score"] = min(scores(learn=False) for _ in range(2))
    times["learn"] = min(scores(learn=True) for _ in range(2))
    whole = best(replay)
    times["all else, and what the steps cost each other in the cache"] = whole - sum(times.values())
    table(
        f"A message of {mean:,.0f} bytes, {looked_up:,.0f} features: to read its bytes from memory "
        f"once takes {mean / speed * 1e6:.1f} microseconds, `wc -w` {counted / n * 1e6:.1f}",
        ["step", "microseconds a message", "share"],
        [
            *(
                [kind, f"{t / n * 1e6:.1f}", f"{100 * t / whole:.0f} %"]
                for kind, t in times.items()
            ),
            ["**a replay**", f"{whole / n * 1e6:.1f}", ""],
        ],
    )


def ready(corpus: Path) -> None:
    """Measure prediction and learning from given features, and Vowpal Wabbit if it is installed."""
    tokenizer, model = streamnb.MailClassifier().tokenizer, streamnb.MailClassifier().model
    messages = [(tokenizer.count(read(entry)), entry.label) for entry in open_corpus(corpus)]
    features = sum(len(view) for views, _ in messages for view in views)

    def own_result() -> None:
        for x, y in messages:
            model.joint_log_likelihood(x)
            model.learn_one(x, y)

    times = {"streamnb, four views, each with a model": cpu(own_result)}
    try:
        from vowpalwabbit import Workspace
    except ModuleNotFoundError:
        print("\nVowpal Wabbit is not installed (pip install vowpalwabbit)")
    else:
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder) / "features"
            with text.open("w") as file:
                for views, y in messages:
                    words = (f"{x:x}" for view in views for x in view.fingerprints.tolist())
                    file.write(f"{1 if y == 'spam' else -1} |a {' '.join(words)}\n")
            options = f"--loss_function logistic -b 22 --quiet -d {text}"
            cached = f"{options} --cache_file {folder}/cache"
            times["Vowpal Wabbit, logistic, 2^22 weights, from text"] = cpu(
                lambda: Workspace(options).finish()
            )
            Workspace(cached).finish()
            times["the same from its cache"] = cpu(lambda: Workspace(cached).finish())
    rows = [[kind, f"{seconds / features * 1e9:.0f}"] for kind, seconds in times.items()]
    table(f"{features:,} ready features", ["", "nanoseconds of CPU a feature"], rows)


def cpu(run: Callable[[], Any]) -> float:
    """Return the CPU seconds of a run."""
    began = time.process_time()
    run()
    return time.process_time() - began


def growth(features: int) -> None:
    keys = np.random.default_rng(1).integers(1, 1 << 63, features).astype(np.uint64)
    counts = _core.CountTable(2, keep_names=False)
    ones, rows, pauses, worst = np.ones(100), [], [0.0], 0.0
    for position in range(0, features, 100):
        began = time.perf_counter()
        counts.add(keys[position : position + 100], ones, position // 100 % 2)
        pauses.append(time.perf_counter() - began)
        if position >= 50_000 and position % 1_000 == 0:
            worst = max(worst, counts.__sizeof__() / (position + 100))
        existing = position + 100
        if existing >= 10_000 and existing in (10**4, 10**5, 10**6, 10**7):
            rng = np.random.default_rng(2)
            requests = [keys[rng.integers(0, existing, 1_000)] for _ in range(200)]
            many = np.ones(1_000)
            best_s = best(
                lambda: [counts.log_likelihood_grid(f, many, 1.0, [1.0]) for f in requests],  # noqa: B023
                5,
            )
            each = best_s / 200_000
            access = random_access(counts.__sizeof__())
            rows.append(
                [
                    f"10^{len(str(existing)) - 1}",
                    f"{each * 1e9:.0f}",
                    f"{access * 1e9:.0f}" if access > _MEASURABLE else "cached",
                    f"{each / access:.2f}" if access > _MEASURABLE else "",
                    f"{max(pauses) * 1e3:.1f}",
                    f"{counts.__sizeof__() / existing:.1f}",
                    f"{worst:.1f}" if worst else "",
                ]
            )
    head = ["features", "ns a look-up, with its logarithms", "ns a random access", "ratio"]
    head += ["longest pause of 100 features, ms", "bytes a feature", "at worst from 50,000 on"]
    table("A table of two classes as it grows, names not kept", head, rows)


def files(features: int) -> None:
    rows = []
    keys = np.random.default_rng(1).integers(1, 1 << 63, features).astype(np.uint64)
    for keep_names in (False, True):
        model = streamnb.MultinomialNB(keep_names=keep_names)
        names = b"".join(b"word%06d" % i for i in range(1_000)) if keep_names else None
        ends = np.arange(1, 1_001, dtype=np.uint32) * 10 if keep_names else None
        for position in range(0, features, 1_000):
            x = TokenCounts.unchecked(
                keys[position : position + 1_000], np.ones(1_000), names, ends
            )
            model.counts.add(x, "ab"[position // 1_000 % 2], 1.0)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.snb"
            saved = best(lambda: model.save(path), 2)  # noqa: B023
            loaded = best(lambda: streamnb.MultinomialNB.load(path), 2)  # noqa: B023
        rows.append(["yes" if keep_names else "no", f"{saved:.2f}", f"{loaded:.2f}"])
    head = ["names kept", "save, s", "load, s"]
    table(f"A model of {features:,} features and its file", head, rows)


def classes() -> None:
    rows = []
    for many in (2, 5, 20, 200, 2_000):
        rng, model = np.random.default_rng(1), streamnb.MultinomialNB(keep_names=False)
        messages = []
        for k in rng.integers(0, many, 6_000).tolist():
            common = (rng.pareto(1.0, 200) * 50).astype(np.int64) % 50_000
            own = 100_000 + k * 50 + rng.integers(0, 50, 100)
            features = np.unique(np.concatenate((common, own))).astype(np.uint64)
            x = TokenCounts.unchecked(features, np.ones(len(features)), None, None)
            messages.append((x, k))
        for x, k in messages[:5_000]:
            model.learn_one(x, k)
        requests = messages[5_000:]
        predict = best(lambda: [model.joint_log_likelihood(x) for x, _ in requests])  # noqa: B023
        learn = best(lambda: [model.learn_one(x, k) for x, k in requests], 1)  # noqa: B023
        size = model.counts.table.__sizeof__() / model.counts.features
        rows.append([str(many), f"{predict * 1e3:.0f}", f"{learn * 1e3:.0f}", f"{size:.0f}"])
    head = ["classes", "predict, microseconds", "learn, microseconds", "bytes a feature"]
    table("MultinomialNB, 5,000 messages of some 250 features, most of them common", head, rows)


def two_processes(corpus: Path) -> None:
    command = [str(Path(sys.executable).parent / "streamnb"), "replay", str(corpus), "--json"]

    def run(jobs: int, processes: int) -> float:
        began = time.perf_counter()
        running = [
            subprocess.Popen([*command, "--jobs", str(jobs)], stdout=subprocess.DEVNULL)
            for _ in range(processes)
        ]
        for process in running:
            process.wait()
        return time.perf_counter() - began

    item, shared, apart = (
        min(run(*method) for _ in range(3)) for method in ((1, 1), (2, 1), (1, 2))
    )
    table(
        "A whole replay as a process, start and summary included",
        ["", "seconds", "times as much work as one job"],
        [
            ["one job", f"{item:.2f}", "1.00"],
            ["two jobs", f"{shared:.2f}", f"{item / shared:.2f}"],
            [
                "two replays with one job each, side by side",
                f"{apart:.2f}",
                f"{2 * item / apart:.2f}",
            ],
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--features", type=float, default=1e7)
    arguments = parser.parse_args()
    steps(arguments.corpus)
    ready(arguments.corpus)
    two_processes(arguments.corpus)
    growth(int(arguments.features))
    classes()
    files(int(arguments.features))


if __name__ == "__main__":
    main()
