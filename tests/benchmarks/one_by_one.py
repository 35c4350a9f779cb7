"""Learn a corpus with one process for each message, and by `streamnb watch`; compare the counts with a replay.

    python tests/benchmarks/one_by_one.py CORPUS [--limit N] [--how learn|watch]

A mail that occurs twice is used once, as in a mailbox. Exit status 1 if anything differs.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from streamnb.classifier import Classifier
from streamnb.corpus import Entry, open_corpus, read
from streamnb.mailbox.digest import digest

STREAMNB = [sys.executable, "-P", "-m", "streamnb"]


def run(*arguments: object) -> str:
    done = subprocess.run(
        [*STREAMNB, *map(str, arguments)], check=True, capture_output=True, text=True
    )
    return done.stdout


def distinct(corpus: str, limit: int | None) -> list[Entry]:
    observed: dict[bytes, Entry] = {}
    for entry in open_corpus(corpus):
        content = read(entry)
        observed.setdefault(
            digest(content if isinstance(content, bytes) else content.encode()), entry
        )
    return list(observed.values())[:limit]


def replayed(stream: list[Entry], folder: Path) -> Path:
    """Return the model of a replay in memory over the same stream."""
    lines = [f"{entry.label} {os.path.relpath(entry.path, folder)}\n" for entry in stream]
    (folder / "index").write_text("".join(lines))
    believed = ("--set", "model.label_noise=0", "--quiet")
    run("replay", folder / "index", "--save", folder / "replayed", *believed)
    return folder / "replayed"


def learn(stream: list[Entry], folder: Path) -> None:
    for number, entry in enumerate(stream, 1):
        run("learn", entry.label, entry.path, "--db", folder / "db")
        progress(number, stream)


def watch(stream: list[Entry], folder: Path) -> None:
    """Deliver spam to the inbox and ham to the junk folder, then move all messages."""
    places = {"ham": folder / "mail" / ".Junk", "spam": folder / "mail"}
    for place in places.values():
        for name in ("cur", "new", "tmp"):
            (place / name).mkdir(parents=True)
    for number, entry in enumerate(stream):
        shutil.copy(entry.path, places[entry.label] / "cur" / f"{number}.host:2,S")
    command = [*STREAMNB, "watch", folder / "mail", "--db", folder / "db", "--every", "0.1"]
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        calls = process.stdout or sys.exit("no output")
        while "watching" not in (line := calls.readline()):
            assert line, "it ended"
        for number, entry in enumerate(stream):
            other = places["spam" if entry.label == "ham" else "ham"]
            name = f"{number}.host:2,S"
            os.rename(places[entry.label] / "cur" / name, other / "cur" / name)
            line = calls.readline()
            assert f"{number}.host: {entry.label} (learned)" in line, line
            progress(number + 1, stream)
        process.terminate()


def progress(number: int, stream: list[Entry]) -> None:
    if number % 500 == 0:
        print(f"{number:,} of {len(stream):,}", flush=True)


def same(path: Path, other: Path) -> bool:
    actual, reference = Classifier.load(path), Classifier.load(other)
    columns = [actual.models[0].counts.labels.index(y) for y in reference.models[0].counts.labels]
    for a, b in zip(actual.models, reference.models, strict=True):
        (fa, ca), (fb, cb) = a.counts.items(), b.counts.items()
        oa, ob = np.argsort(fa), np.argsort(fb)
        if not (np.array_equal(fa[oa], fb[ob]) and np.array_equal(ca[oa][:, columns], cb[ob])):
            return False
        if [a.counts.weights[k] for k in columns] != b.counts.weights:
            return False
    recalibration = actual.model.calibration.recalibration.remap_classes(columns)
    return bool(recalibration == reference.model.calibration.recalibration)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--how", choices=["learn", "watch"], default="learn")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stream = distinct(chosen.corpus, chosen.limit)
        model = replayed(stream, folder)
        begun = time.monotonic()
        (learn if chosen.how == "learn" else watch)(stream, folder)
        seconds = (time.monotonic() - begun) / len(stream)
        print(run("verify", "--db", folder / "db").strip())
        run("export", folder / "exported", "--format", "model", "--db", folder / "db")
        equal = same(folder / "exported", model)
    kind = "exactly those of a replay" if equal else "NOT those of a replay"
    print(f"{len(stream):,} mails by {chosen.how}, {seconds:.3f} s each: the counts are {kind}")
    sys.exit(not equal)


if __name__ == "__main__":
    main()
