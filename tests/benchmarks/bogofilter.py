"""Replay a corpus with bogofilter: classify each mail, then train on it, as `streamnb replay` does.

    python tests/benchmarks/bogofilter.py CORPUS OUT

Writes OUT/results.txt for `streamnb compare`. bogofilter (apt install bogofilter) prints 16 digits. Its third
verdict, unsure, is not used: a score above one half is spam.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from streamnb.corpus import open_corpus, read


def bogofilter(folder: str, *options: str, message: bytes) -> str:
    command = ["bogofilter", "-d", folder, *options]
    out = subprocess.run(command, input=message, capture_output=True, check=False)
    if out.returncode > 2:
        sys.exit(f"bogofilter: {out.stderr.decode().strip()}")
    return out.stdout.decode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 (a folder in memory)
    with (
        tempfile.TemporaryDirectory(dir=memory) as folder,
        open(arguments.out / "results.txt", "w", encoding="utf-8") as results,
    ):
        existing = False
        for entry in open_corpus(arguments.corpus):
            message = read(entry)
            assert isinstance(message, bytes)
            score = 0.5
            if existing:
                score = float(bogofilter(folder, "-TT", message=message).split()[-1])
            predicted = "spam" if score > 0.5 else "ham"
            results.write(f"{entry.name} judge={entry.label} class={predicted} score={score!r}\n")
            bogofilter(folder, "-s" if entry.label == "spam" else "-n", message=message)
            existing = True


if __name__ == "__main__":
    main()
