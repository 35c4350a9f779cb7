"""Let the system fail below a program that writes: disks, descriptors, memory and clocks.

    python tests/endurance/faults.py [WRITER ...] [--faults NAME,...] [--times 20]

A writer is one of those of kills.py. While it works, faults come and go: a full disk, EIO, partial writes,
a failing fsync, a read-only folder, no file descriptors, a clock that jumps by a year, a network that
delivers single bytes. A library made from faults.c (by cc) replaces calls of the system. Each refusal must
be an error of one line, every acknowledged message must be in the database, and the writer must work again
after the fault. Exit status 1 if anything was wrong.
"""

import argparse
import errno
import mmap
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
WRITE, SHORT, SYNC, OPEN, READ, SLOW = (1 << bit for bit in range(6))
YEAR = 365 * 86400.0


class Fault(NamedTuple):
    """The failing calls, their errno, and the jump of the clock in seconds."""

    failing: int = 0
    number: int = 0
    jump: float = 0.0


FAULTS = {
    "full-disk": Fault(WRITE, errno.ENOSPC),
    "write-error": Fault(WRITE, errno.EIO),
    "read-error": Fault(READ, errno.EIO),
    "short-writes": Fault(SHORT),
    "no-sync": Fault(SYNC, errno.EIO),
    "read-only": Fault(OPEN | WRITE, errno.EROFS),
    "no-descriptors": Fault(OPEN, errno.EMFILE),
    "clock-ahead": Fault(jump=YEAR),
    "clock-back": Fault(jump=-YEAR),
    "byte-by-byte": Fault(SLOW),
}
# A command that cannot begin prints one line, and exits with the status of that error.
ENDED = {f"FAILED with wait status {status << 8}": "error at the start" for status in (5, 75)}
WRITERS = ("learn", "rebuild", "compact", "import", "serve", "watch")


class Control:
    """The settings of the library, in memory shared by all processes."""

    LAYOUT = struct.Struct("dddqqqq")

    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), self.LAYOUT.size)

    def fail(self, fault: Fault) -> None:
        """Set the current fault; `Fault()` for none."""
        values = (fault.jump, 1.0, 0.0, fault.failing, fault.number, self.hits, os.getpid())
        self.LAYOUT.pack_into(self.memory, 0, *values)

    @property
    def hits(self) -> int:
        """The number of failed calls."""
        return int(self.LAYOUT.unpack_from(self.memory)[5])


def build_library(folder: Path) -> Path:
    """Compile the library and return its path."""
    library = folder / "faults.so"
    command = ["cc", "-O2", "-shared", "-fPIC", "-o", library, HERE / "faults.c", "-ldl"]
    subprocess.run([str(word) for word in command], check=True)
    return library


def run_below(command: list[str]) -> int:
    """Run a script with the library preloaded."""
    with tempfile.TemporaryDirectory(prefix="streamnb-faults-") as name:
        control = Path(name) / "control"
        control.write_bytes(Control.LAYOUT.pack(0.0, 1.0, 0.0, 0, 0, 0, 0))
        data = Path(name) / "data"
        data.mkdir()
        environment = {**os.environ, "LD_PRELOAD": str(build_library(Path(name))), "FAULTS": str(control),
                       "FAULTS_UNDER": str(data)}  # fmt: skip
        return subprocess.run([sys.executable, *command], env=environment).returncode


def run(
    name: str, fault: Fault, times: int, folder: Path, control: Control
) -> tuple[Counter[str], list[str]]:
    """Begin and end a fault while a writer works; return counts and problems."""
    import kills

    rng = random.Random(f"{name} {fault}")
    folder.mkdir()
    writer = kills.WRITERS[name](folder / "mail.db", rng)
    counts: Counter[str] = Counter()
    problems: list[str] = []
    for _ in range(times):
        if isinstance(writer, kills.Serve):
            writer.begin()
        hits = control.hits
        children = [kills.Child(partial(writer.act, part)) for part in range(writer.children)]
        reports = writer.meanwhile(rng.uniform(0, writer.longest))
        control.fail(fault)
        reports += writer.meanwhile(rng.uniform(0, writer.longest))
        control.fail(Fault())
        reports += writer.meanwhile(rng.uniform(0, writer.longest))
        counts["failed calls"] += control.hits - hits
        for child in children:
            child_lines, _ = child.kill()
            reports += [ENDED.get(line, line) for line in child_lines]
        errors = [line for line in reports if line.startswith("error ")]
        problems += [line for line in errors if "\\n" in line or "internal error" in line]
        counts["refused"] += len(errors)
        counts["acknowledged"] += len(
            [line for line in reports if line.startswith(kills.ACKNOWLEDGED)]
        )
        problems += writer.check(reports)
    return counts, problems


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("writers", nargs="*", metavar="WRITER", help=", ".join(WRITERS))
    parser.add_argument("--faults", default=",".join(FAULTS), help=", ".join(FAULTS))
    parser.add_argument("--times", type=int, default=20, help="that each fault comes and goes")
    chosen = parser.parse_args()
    for choices, wanted in ((WRITERS, chosen.writers), (FAULTS, chosen.faults.split(","))):
        if unknown := sorted(set(wanted) - set(choices)):
            parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(choices)}")
    if "FAULTS" not in os.environ:
        sys.exit(run_below(sys.argv))
    control, data = Control(os.environ["FAULTS"]), Path(os.environ["FAULTS_UNDER"])
    everything: list[str] = []
    hits: Counter[str] = Counter()
    for name in chosen.writers or WRITERS:
        for fault in chosen.faults.split(","):
            if FAULTS[fault].failing == SLOW and name != "serve":
                continue  # other writers do not use a network
            begun = time.monotonic()
            counts, problems = run(
                name, FAULTS[fault], chosen.times, data / f"{name}-{fault}", control
            )
            print(f"{name:8} {fault:15} {counts['failed calls']:>7,} calls failed {counts['refused']:>6,} refused "
                  f"{counts['acknowledged']:>6,} acknowledged {len(problems):>3} problems "
                  f"{time.monotonic() - begun:>5.0f} s", flush=True)  # fmt: skip
            everything += [f"{name}, {fault}: {problem}" for problem in problems]
            hits[fault] += counts["failed calls"]
    for fault, number in hits.items():
        if FAULTS[fault].failing not in (0, SLOW) and not number:
            everything.append(f"{fault}: no call has ever failed")
    for problem in everything[:50]:
        print(problem)
    sys.exit(bool(everything))


if __name__ == "__main__":
    main()
