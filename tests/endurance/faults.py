"""Let the machine fail below whatever writes: disks, descriptors, memory and clocks.

    python tests/endurance/faults.py [WRITER ...] [--faults NAME,...] [--times 20]

Faults come and go while a writer works (those of kills.py): a disk that is full and is freed again, EIO,
writes that are short, fsync that fails, a folder that can only be read, no file descriptors, a year's
jump of the clock, a network that delivers a byte at a time. A library made of faults.c (by cc) stands
between the process and the system. Whatever is refused is told in one line; what was acknowledged is
there; and when the fault is over, all goes on. Exit status 1 where anything was wrong.
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
    """The calls that fail, their errno, and the jump of the clock in seconds."""

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
# A command that cannot even begin says so in its line, and ends with a status that means that.
ENDED = {f"FAILED with wait status {status << 8}": "error at the start" for status in (5, 75)}
WRITERS = ("learn", "rebuild", "compact", "import", "serve", "watch")


class Control:
    """Settings of the library, in memory that all processes share."""

    LAYOUT = struct.Struct("dddqqqq")

    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), self.LAYOUT.size)

    def fail(self, fault: Fault) -> None:
        """Let this happen from now on; `Fault()` for nothing."""
        values = (fault.jump, 1.0, 0.0, fault.failing, fault.number, self.hits, os.getpid())
        self.LAYOUT.pack_into(self.memory, 0, *values)

    @property
    def hits(self) -> int:
        """Number of calls that failed."""
        return int(self.LAYOUT.unpack_from(self.memory)[5])


def build_library(folder: Path) -> Path:
    """Compile the library and return its path."""
    library = folder / "faults.so"
    command = ["cc", "-O2", "-shared", "-fPIC", "-o", library, HERE / "faults.c", "-ldl"]
    subprocess.run([str(word) for word in command], check=True)
    return library


def run_below(command: list[str]) -> int:
    """Run a script with the library between it and the system."""
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
    """Let a fault come and go below a writer; return counts and problems."""
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
                continue  # nobody else speaks over a network
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
