"""Cost of one message on a large database: classified, learned, as a process, through `serve`.

    python tests/benchmarks/mailbox.py CORPUS [CORPUS ...] [--features 1000000] [--postgres]

The program learns the corpora in memory and adds unused features in the order of their fingerprints, so the
features of a message are far apart. It imports the result into a database. Then it classifies and learns the
mails of the first corpus, and opens and closes the database for each. It also learns a thousand mails in one
call, and one after the other, in new databases. With --postgres (as root) the database is on a server at a
Unix socket.
"""

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.extend(
    str(Path(__file__).parents[1] / name) for name in ("helpers", "service", "watch", "web")
)
from postgres import served as served_by

from streamnb import Mailbox, MailClassifier
from streamnb.corpus import open_corpus, read
from streamnb.features.token_counts import TokenCounts
from streamnb.mailbox.service.client import MailboxClient
from streamnb.mailbox.transfer.formats import export, import_file

STREAMNB = str(Path(sys.executable).parent / "streamnb")


def milliseconds(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return (time.perf_counter() - begun) * 1e3


def line(name: str, times: list[float]) -> None:
    times = sorted(times)
    print(f"{name:<44} {statistics.median(times):8.2f} {times[int(0.95 * len(times))]:8.2f}"
          f" {times[-1]:8.2f}")  # fmt: skip


def database(corpora: list[str], features: int, folder: Path, path: Path | str) -> None:
    """Create a database with `features` features, including those of the corpora."""
    memory = MailClassifier(label_noise=0.0)
    for corpus in corpora:
        for entry in open_corpus(corpus):
            if memory.features > 0.9 * features:
                break
            memory.learn_one(read(entry), entry.label)
    rng = np.random.default_rng(1)
    missing = max(0, features - memory.features)
    for model in memory.models:
        keys = rng.integers(0, 1 << 64, missing // 2, dtype=np.uint64)
        model.counts.add(TokenCounts(np.unique(keys), np.ones(len(np.unique(keys)))), "ham", 1.0)
    memory.save(folder / "model.snb")
    with Mailbox(path) as box:
        import_file(box, str(folder / "model.snb"))
    with Mailbox(path) as box:  # its log is in the file now
        counts = " + ".join(f"{counts.features:,}" for counts in box.counts)
        print(f"{counts} features, {box.database.size() / 1e6:.0f} MB")


def opened(path: Path | str, act: Callable[[Mailbox], object]) -> None:
    with Mailbox(path) as box:
        act(box)


def measure(path: Path | str, mails: list[tuple[bytes, str]]) -> None:
    for content, _ in mails[:20]:  # the files are in the system's memory
        opened(path, lambda box, c=content: box.classify(c))  # type: ignore[misc]
    sizes = [sum(map(len, MailClassifier().count(content))) for content, _ in mails]
    print(f"a mail has {statistics.median(sizes):.0f} features")
    line("open, classify, close", [
        milliseconds(lambda c=c: opened(path, lambda box: box.classify(c)))  # type: ignore[misc]
        for c, _ in mails
    ])  # fmt: skip
    line("open, learn, close", [
        milliseconds(lambda c=c, y=y: opened(path, lambda box: box.learn(c, y)))  # type: ignore[misc]
        for c, y in mails
    ])  # fmt: skip
    with Mailbox(path) as box:
        line(
            "classify, open already", [milliseconds(lambda c=c: box.classify(c)) for c, _ in mails]
        )  # type: ignore[misc]


def processes(path: Path | str, files: list[str]) -> None:
    for name, command in (
        ("a process that does nothing (python -c pass)", [sys.executable, "-c", "pass"]),
        ("streamnb classify", [STREAMNB, "classify", "--db", str(path)]),
        ("streamnb learn spam", [STREAMNB, "learn", "spam", "--db", str(path)]),
    ):
        line(name, [
            milliseconds(lambda f=f: subprocess.run([*command, f], capture_output=True, check=False))  # type: ignore[misc]  # noqa: B023
            for f in files
        ])  # fmt: skip


def served(path: Path | str, mails: list[tuple[bytes, str]], files: list[str]) -> None:
    server = subprocess.Popen([STREAMNB, "serve", "--db", str(path)], stderr=subprocess.PIPE)
    assert server.stderr is not None
    server.stderr.readline()

    def ask(content: bytes) -> None:
        with MailboxClient(path) as asking:
            asking.classify(content)
            assert asking.mailbox is None

    for content, _ in mails[:20]:
        ask(content)
    line("asking `streamnb serve`", [milliseconds(lambda c=c: ask(c)) for c, _ in mails])  # type: ignore[misc]
    processes_of = [STREAMNB, "classify", "--db", str(path)]
    line("streamnb classify, while it runs", [
        milliseconds(lambda f=f: subprocess.run([*processes_of, f], capture_output=True, check=False))  # type: ignore[misc]
        for f in files
    ])  # fmt: skip
    server.terminate()
    server.wait()


def new_databases(mails: list[tuple[bytes, str]], folder: Path) -> None:
    """Measure the time to learn some mails, and the size of the database."""
    print(f"{len(mails):,} mails of {sum(len(content) for content, _ in mails) / 1e6:.1f} MB")

    def imported(box: Mailbox) -> None:
        import_file(box, str(folder / "lines"))

    for name, preset, learn in (
        ("together", "default", lambda box: box.learn_many(mails)),
        ("imported from what was exported", "default", imported),
        ("one after the other", "default", lambda box: [box.learn(*mail) for mail in mails]),
        ("together, small preset", "small", lambda box: box.learn_many(mails)),
    ):
        path = folder / f"{name}.db"
        classifier = MailClassifier(label_noise=0.0, preset=preset)
        with Mailbox(path, classifier=classifier) as box:
            seconds = milliseconds(lambda: learn(box)) / 1e3  # noqa: B023
            if name == "together":
                export(box, str(folder / "lines"))
        print(f"{name}: {seconds:.1f} s, {path.stat().st_size / 1e6:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", nargs="+")
    parser.add_argument("--features", type=int, default=1_000_000)
    parser.add_argument("--mails", type=int, default=200)
    parser.add_argument("--postgres", action="store_true")
    chosen = parser.parse_args()
    entries = list(open_corpus(chosen.corpus[0]))
    subset = random.Random(3).sample(entries, min(chosen.mails, len(entries)))
    mails = [(read(entry), entry.label) for entry in subset]
    with tempfile.TemporaryDirectory() as name, served_by(chosen.postgres) as server:
        path = Path(name) / "mail.db" if server is None else server.url
        database(chosen.corpus, chosen.features, Path(name), path)
        print(f"{'milliseconds':<44} {'median':>8} {'95 %':>8} {'most':>8}")
        measure(path, mails)  # type: ignore[arg-type]
        processes(path, [entry.path for entry in subset[:30]])
        served(path, mails, [entry.path for entry in subset[:30]])  # type: ignore[arg-type]
        many = random.Random(4).sample(entries, min(1000, len(entries)))
        new_databases([(read(entry), entry.label) for entry in many], Path(name))  # type: ignore[misc]


if __name__ == "__main__":
    main()
