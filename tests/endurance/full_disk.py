"""Fill a disk of a few megabytes while two processes learn, then free space again.

    python tests/endurance/full_disk.py [--times 50]      # as root, who can mount a disk

The program checks that the database has all acknowledged messages, and learns one more. (faults.py simulates
a full disk, without root.) Exit status 1 if anything was wrong.
"""

import argparse
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import kills

from streamnb import Mailbox

SIZE = 12 << 20  # bytes


@contextmanager
def small_disk() -> Iterator[Path]:
    """A mounted disk."""
    with tempfile.TemporaryDirectory() as name:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", name], check=True)
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", name], check=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=50)
    chosen = parser.parse_args()
    acknowledged = refused = 0
    problems: list[str] = []
    for number in range(chosen.times):
        rng = random.Random(number)
        with small_disk() as disk:
            ballast = disk / "ballast"
            ballast.write_bytes(bytes(SIZE - rng.randrange(1 << 19, 2 << 20)))
            writer = kills.Learn(disk / "mail.db", rng)
            children = [kills.Child(partial(writer.act, part)) for part in range(2)]
            writer.meanwhile(rng.uniform(1, 3))
            reports = [line for child in children for line in child.kill()[0]]
            ballast.unlink()  # free space again
            acknowledged += sum(line.startswith("done") for line in reports)
            refused += sum(line.startswith("error") for line in reports)
            problems += writer.check(reports)
            with Mailbox(disk / "mail.db") as box:
                outcome = box.learn(b"Subject: there is room again\n\nhello\n", "ham")
            problems += [] if outcome.result == "learned" else ["it learns no more"]
    if not refused:
        problems.append("the disk was never full")
    print(f"{chosen.times} full disks, {refused} refusals of one line: {acknowledged:,} messages "
          f"acknowledged, {len(problems)} problems")  # fmt: skip
    for problem in problems:
        print(problem)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
