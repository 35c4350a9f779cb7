"""Speed and memory of streamnb, river, scikit-learn and bogofilter, in one run.

    python tests/benchmarks/speed.py CORPUS [--quick] [--beside FOLDER] [--also CORPUS ...]

CORPUS is a folder in TREC layout; the figures of the README are SpamAssassin's. Prints Markdown tables.
`--quick` leaves out river's Bernoulli and Complement replays, which take minutes. FOLDER has another version of
streamnb (`pip install --target FOLDER`), whose default is measured by turns with this one. With --also, all
corpora are replayed as processes, one after the other, by both versions and by bogofilter.
"""

import argparse
import email
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import river.feature_extraction
import river.naive_bayes
import sklearn.feature_extraction.text
import sklearn.naive_bayes
from scipy import sparse

import streamnb
from streamnb.corpus import Entry, open_corpus
from streamnb.evaluate import Example, RunningMetrics, prequential
from streamnb.replay.workers import stream_features

MODELS = ["MultinomialNB", "BernoulliNB", "ComplementNB"]
REPEATS = 3


def best(run: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Return the seconds of the fastest run."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


def table(title: str, head: list[str], rows: list[list[str]]) -> None:
    print(f"\n{title}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def plain() -> streamnb.Classifier:
    return streamnb.Classifier(streamnb.MailTokenizer(), streamnb.MultinomialNB())


def replay_streamnb(make: Callable[[], streamnb.Classifier], corpus: Path, jobs: int) -> None:
    classifier, metrics = make(), RunningMetrics()
    read = stream_features(open_corpus(corpus), classifier.tokenizer, jobs)
    stream = (Example(x, entry.label, entry.name) for entry, x in read)
    for step in prequential(stream, classifier.model):
        metrics.record(step)
    metrics.summary(with_intervals=False)


def library_text(path: str) -> str:
    """Return the header values and texts of a mail, read by the standard library."""
    message = email.message_from_bytes(Path(path).read_bytes())
    out = [str(value) for value in message.values()]
    for part in message.walk():
        if part.get_content_maintype() == "text" and not part.is_multipart():
            payload = part.get_payload(decode=True)
            assert isinstance(payload, bytes)
            out.append(payload.decode("utf-8", "replace"))
    return " ".join(out)


def small() -> streamnb.Classifier:
    return streamnb.MailClassifier(preset="small")


_DEFAULT = """
import sys, time, streamnb
from streamnb.corpus import open_corpus
from streamnb.evaluate import Example, RunningMetrics, prequential
from streamnb.replay.workers import stream_features
classifier, metrics, began = streamnb.MailClassifier(), RunningMetrics(), time.perf_counter()
read = stream_features(open_corpus(sys.argv[1]), classifier.tokenizer, int(sys.argv[2]))
for step in prequential((Example(x, of.label, of.name) for of, x in read), classifier.model):
    metrics.record(step)
print(time.perf_counter() - began)
"""


def baseline(corpus: Path, folder: str, n: int) -> None:
    """Measure the default of this version and of another one by turns, each in its own process."""
    rows = []
    for jobs in ("1", "2"):
        times: dict[str, list[float]] = {"": [], folder: []}
        for _ in range(2 * REPEATS):
            for path, selected in times.items():
                command = [sys.executable, "-c", _DEFAULT, str(corpus.resolve()), jobs]
                environment = {**os.environ, "PYTHONPATH": path}
                done = subprocess.run(
                    command, env=environment, cwd="/", capture_output=True, check=True
                )
                selected.append(float(done.stdout))
        own_result, other = (min(selected) for selected in times.values())
        rows.append(
            [jobs, f"{n / other:,.0f}", f"{n / own_result:,.0f}", f"{other / own_result:.2f}"]
        )
    head = ["jobs", "the other version", "this version", "ratio"]
    table("The default of another version beside this one, messages a second", head, rows)


def replay_river(model: Any, entries: list[Entry]) -> None:
    words = river.feature_extraction.BagOfWords()
    for entry in entries:
        x = words.transform_one(library_text(entry.path))
        model.predict_proba_one(x)
        model.learn_one(x, entry.label)


def replay_sklearn(entries: list[Entry]) -> None:
    hashing = sklearn.feature_extraction.text.HashingVectorizer(
        n_features=2**18, alternate_sign=False, norm=None
    )
    model = sklearn.naive_bayes.MultinomialNB()
    for number, entry in enumerate(entries):
        x = hashing.transform([library_text(entry.path)])
        if number:
            model.predict_proba(x)
        model.partial_fit(x, [entry.label], classes=["ham", "spam"])


def bogofilter(corpus: Path) -> float:
    """Return the seconds to train on the whole corpus, and to classify it."""
    paths: dict[str, list[str]] = {"ham": [], "spam": []}
    for entry in open_corpus(corpus):
        paths[entry.label].append(entry.path)
    bulk = {label: "\n".join(result) + "\n" for label, result in paths.items()}
    with tempfile.TemporaryDirectory() as folder:

        def run(options: list[str], files: str) -> None:
            command = ["bogofilter", "-d", folder, *options, "-b"]
            subprocess.run(command, input=files, text=True, stdout=subprocess.DEVNULL, check=False)

        began = time.perf_counter()
        run(["-n"], bulk["ham"])
        run(["-s"], bulk["spam"])
        run(["-T"], bulk["ham"] + bulk["spam"])
        return time.perf_counter() - began


def replays(corpus: Path, quick: bool) -> None:
    n = sum(1 for _ in open_corpus(corpus))
    rates = {
        f"streamnb, {name}, {jobs} job{'s' * (jobs > 1)}": n
        / best(lambda make=make, jobs=jobs: replay_streamnb(make, corpus, jobs))
        for name, make in (
            ("MailClassifier", streamnb.MailClassifier),
            ("its small preset", small),
            ("MultinomialNB", plain),
        )
        for jobs in (1, 2)
    }
    if shutil.which("bogofilter"):
        rates["bogofilter, bulk train + classify"] = n / min(
            bogofilter(corpus) for _ in range(REPEATS)
        )
    entries = list(open_corpus(corpus))
    part = entries[:1500]
    rates["email, scikit-learn HashingVectorizer + partial_fit, first 1,500 only"] = len(
        part
    ) / best(lambda: replay_sklearn(part), 1)
    for name in MODELS[: 1 if quick else 3]:
        # Slow models get slower with every message, so a part of the stream would favour them.
        part = entries if name == "MultinomialNB" else entries[:600]
        model = getattr(river.naive_bayes, name)()
        note = "" if part is entries else ", first 600 only"
        rates[f"email, river BagOfWords + {name}{note}"] = len(part) / best(
            lambda model=model, part=part: replay_river(model, part), 1
        )
    own_result = [rates[f"streamnb, {name}, 1 job"] for name in ("MailClassifier", "MultinomialNB")]
    rows = [
        [name, f"{rate:,.0f}", *(f"{first / rate:,.2f}" for first in own_result)]
        for name, rate in rates.items()
    ]
    head = ["", "messages a second", "MailClassifier is faster by", "MultinomialNB is faster by"]
    table("Replay", head, rows)


def whole_processes(corpora: list[Path], other: str | None) -> None:
    """Replay corpora one after the other, each in a process, including start and summary.

    With the folder of another version, both versions are measured by turns.
    """
    n = sum(1 for corpus in corpora for _ in open_corpus(corpus))
    bulk = sum(min(bogofilter(corpus) for _ in range(REPEATS)) for corpus in corpora)
    rows = [["bogofilter, bulk train + classify", f"{n / bulk:,.0f}", "1.00"]]
    head = ["", "messages a second", "times bogofilter"]
    if other is not None:
        head.append("times the other version")
        rows[0].append("")
    folders = ("",) if other is None else ("", other)
    for preset in ("default", "small"):
        for jobs in ("1", "2"):
            options = ["--json", "--set", f"model.preset={preset}", "--jobs", jobs]
            times = {folder: [math.inf] * len(corpora) for folder in folders}
            for _ in range(REPEATS):
                for i, corpus in enumerate(corpora):
                    for folder, shortest in times.items():
                        shortest[i] = min(shortest[i], process(folder, corpus, options))
            own_result, *others = map(sum, times.values())
            kind = f"streamnb, preset {preset}, {jobs} job{'s' * (jobs > '1')}"
            baseline = [f"{reference / own_result:.2f}" for reference in others]
            rows.append([kind, f"{n / own_result:,.0f}", f"{bulk / own_result:.2f}", *baseline])
    table(f"{n:,} messages of {len(corpora)} corpora, whole processes", head, rows)


def process(folder: str, corpus: Path, options: list[str]) -> float:
    """Return the seconds of a replay by the version in a folder, or the installed one for ""."""
    program = "import sys, streamnb.cli; sys.exit(streamnb.cli.main())"
    command = [sys.executable, "-c", program, "replay", str(corpus.resolve()), *options]
    environment = {**os.environ, "PYTHONPATH": folder}
    # Without files of bytecode, Python would compile all modules in each process.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    subprocess.run(command, env=environment, cwd="/", capture_output=True, check=True)
    return time.perf_counter() - began


def one_message(corpus: Path) -> None:
    rows = []
    words = river.feature_extraction.BagOfWords()
    counted = [(words.transform_one(library_text(e.path)), e.label) for e in open_corpus(corpus)]
    size = [len(x) for x, _ in counted]
    x, label = counted[min(range(len(size)), key=lambda i: abs(size[i] - 170))]
    for name in MODELS:
        actual, reference = getattr(streamnb, name)(), getattr(river.naive_bayes, name)()
        for message, y in counted:
            actual.learn_one(message, y)
            reference.learn_one(message, y)
        for verb, repeats, few in (("predict", 300, 3), ("learn", 300, 100)):
            times = []
            for model, times_each in (
                (actual, repeats),
                (reference, repeats if name == "MultinomialNB" else few),
            ):
                call = (
                    (lambda model=model: model.predict_proba_one(x))
                    if verb == "predict"
                    else (lambda model=model: model.learn_one(x, label))
                )
                times.append(best(lambda: [call() for _ in range(times_each)]) / times_each * 1e6)  # noqa: B023
            rows.append(
                [
                    f"{name} {verb}",
                    f"{times[0]:,.1f}",
                    f"{times[1]:,.1f}",
                    f"1/{times[1] / times[0]:,.0f}",
                ]
            )
    features = actual.counts.features
    title = f"A message of {len(x)} words as a dict, {features:,} features, microseconds"
    table(title, ["", "streamnb", "river", "ratio"], rows)


def vocabulary() -> None:
    rows = []
    rng = random.Random(1)
    for name in MODELS:
        times: dict[int, list[float]] = {}
        for features in (10**4, 10**6):
            model = getattr(streamnb, name)(keep_names=False)
            every = np.arange(features)
            for part in np.array_split(every, 100):
                for label in ("ham", "spam"):
                    chosen = part[np.array([rng.random() < 0.7 for _ in part])]
                    row = sparse.csr_array(
                        (np.ones(len(chosen)), chosen, [0, len(chosen)]), shape=(1, features)
                    )
                    model.partial_fit(row, [label])
            messages = [dict.fromkeys(rng.sample(range(features), 170), 1) for _ in range(500)]
            times[features] = [
                best(lambda: [model.predict_proba_one(x) for x in messages]) / 500 * 1e6,  # noqa: B023
                best(lambda: [model.learn_one(x, "ham") for x in messages]) / 500 * 1e6,  # noqa: B023
            ]
        for k, verb in enumerate(("predict", "learn")):
            small, large = times[10**4][k], times[10**6][k]
            rows.append([f"{name} {verb}", f"{small:.1f}", f"{large:.1f}", f"{large / small:.2f}"])
    table(
        "170 random features, microseconds", ["", "10^4 features", "10^6 features", "ratio"], rows
    )


def batch() -> None:
    rows = []
    X = sparse.random(10_000, 100_000, density=0.002, format="csr", random_state=1)
    X.data = np.ceil(X.data * 3)
    y = np.random.default_rng(0).integers(0, 2, 10_000)
    for name in MODELS:
        actual, reference = getattr(streamnb, name), getattr(sklearn.naive_bayes, name)
        times = []
        for make in (actual, reference):
            times.append(best(lambda make=make: make().partial_fit(X, y, classes=[0, 1])) * 1e3)
        rows.append([name, f"{times[0]:.1f}", f"{times[1]:.1f}", f"{times[0] / times[1]:.2f}"])
    title = "partial_fit of 10,000 x 100,000 with 2 million nonzeros, milliseconds"
    table(title, ["", "streamnb", "scikit-learn", "ratio"], rows)


def memory(corpus: Path) -> None:
    rows = []
    for keep_names in (False, True):
        model = streamnb.MultinomialNB(keep_names=keep_names)
        worst = 0.0
        for entry, x in stream_features(open_corpus(corpus), streamnb.MailTokenizer()):
            model.learn_one(x, entry.label)
            if model.counts.features > 10_000:
                worst = max(worst, sys.getsizeof(model.counts.table) / model.counts.features)
        features = model.counts.features
        final = sys.getsizeof(model.counts.table) / features
        kind = "with" if keep_names else "without"
        rows.append(
            [f"two classes, {kind} token text", f"{features:,}", f"{final:.1f}", f"{worst:.1f}"]
        )
    table("Memory, bytes a feature", ["", "features", "at the end", "at worst on the way"], rows)


def start_up() -> None:
    rows = []
    for kind, command in (
        ("python -c pass", [sys.executable, "-P", "-c", "pass"]),
        ("import streamnb", [sys.executable, "-P", "-c", "import streamnb"]),
        (
            "from streamnb import MultinomialNB",
            [sys.executable, "-P", "-c", "from streamnb import MultinomialNB"],
        ),
        ("streamnb --version", [str(Path(sys.executable).parent / "streamnb"), "--version"]),
    ):
        seconds = best(
            lambda command=command: subprocess.run(command, capture_output=True, check=True), 7
        )
        rows.append([f"`{kind}`", f"{seconds:.3f}"])
    table("Start-up", ["", "seconds"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--beside", metavar="FOLDER")
    parser.add_argument("--also", nargs="+", type=Path, metavar="CORPUS")
    arguments = parser.parse_args()
    if arguments.also:
        other = arguments.beside and str(Path(arguments.beside).resolve())
        whole_processes([arguments.corpus, *arguments.also], other)
    if arguments.beside:
        n = sum(1 for _ in open_corpus(arguments.corpus))
        baseline(arguments.corpus, str(Path(arguments.beside).resolve()), n)
    replays(arguments.corpus, arguments.quick)
    one_message(arguments.corpus)
    vocabulary()
    batch()
    memory(arguments.corpus)
    start_up()


if __name__ == "__main__":
    main()
