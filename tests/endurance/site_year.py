"""A year of mail through `streamnb serve`, or through a Maildir that `streamnb watch` watches.

    python tests/endurance/site_year.py serve [--messages 300000] [--out FILE]
    python tests/endurance/site_year.py watch [--messages 30000] [--out FILE]

The library of faults.py moves the clock of all processes through a year. Each message is classified. The owner
of a server labels wrongly classified messages and a tenth of the others, with the wrong labels of stream.py.
The owner of a Maildir moves messages that are in the wrong folder. At the end of each month, while mail
arrives, `streamnb compact` drops features that only one message had, after two months, and features in the
ledger after half a year. The program writes a line of JSON for each of 120 parts of the year.
"""

import argparse
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from faults import YEAR, Control, Fault, run_below
from slices import Slices, resident
from stream import MONTHS, Message, stream

from streamnb import Mailbox
from streamnb.mailbox.service.client import MailboxClient

STREAMNB = [sys.executable, "-P", "-c", "from streamnb.cli import main; main()"]
LATER = 50  # number of messages until a reader corrects a wrong verdict
COMPACT = ["compact", "--rare", "60", "--ledger", "180"]


class Site:
    """A process that classifies; its memory and database are measured.

    Parameters
    ----------
    folder
        Folder of all files.
    compacts
        Whether a month ends with `streamnb compact`.
    arguments
        The command of the process.
    """

    def __init__(self, folder: Path, compacts: bool, *arguments: str) -> None:
        self.folder = folder
        self.database = folder / "mail.db"
        Mailbox(self.database).close()
        self.process = subprocess.Popen(
            [*STREAMNB, *arguments, "--db", str(self.database)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1,
        )  # fmt: skip
        self.compacting: subprocess.Popen[bytes] | None = None
        self.compacts, self.month = compacts, 0
        self.begun = 0.0
        self.compacted = 0.0

    def measures(self) -> dict[str, float]:
        """Return megabytes of the process and of the database, and seconds of the last compaction."""
        self.look()
        files = [Path(f"{self.database}{ending}") for ending in ("", "-wal")]
        return {
            "memory": resident(self.process.pid),
            "own": resident(),
            "database": sum(file.stat().st_size for file in files if file.exists()) / 1e6,
            "compacted": self.compacted,
        }

    def compact(self) -> None:
        """Start a compaction."""
        self.wait()
        self.begun = time.monotonic()
        self.compacting = subprocess.Popen(
            [*STREAMNB, *COMPACT, "--wait", "600", "--db", str(self.database)],
            stdout=subprocess.DEVNULL,
        )

    def look(self) -> None:
        """Record the time of the last compaction, if it has ended."""
        if self.compacting is not None and (status := self.compacting.poll()) is not None:
            assert status == 0, "compact failed"
            self.compacted = time.monotonic() - self.begun
            self.compacting = None

    def wait(self) -> None:
        """Wait for the last compaction."""
        if self.compacting is not None:
            self.compacting.wait()
            self.look()

    def close(self) -> None:
        self.wait()
        assert self.process.poll() is None, "the process has ended"
        self.process.terminate()
        self.process.wait(60)
        with Mailbox(self.database) as box:
            problems = box.verify()
        assert problems == [], problems
        print(f"verified: {self.database.stat().st_size / 1e6:.0f} MB")


def months(control: Control, number: int, messages: int, site: Site) -> None:
    """Move the clock forward, and compact at the end of a month if configured."""
    control.fail(Fault(jump=YEAR * number / messages))
    site.look()
    month = number * MONTHS // messages
    if month > site.month and site.compacts:
        site.compact()
    site.month = month


def serve(chosen: argparse.Namespace, folder: Path, control: Control) -> None:
    """Classify by a server, and learn in its database by another process."""
    site = Site(folder, not chosen.never_compact, "serve")
    assert site.process.stdout is not None
    site.process.stdout.readline()
    slices = Slices(chosen.out, chosen.messages, 120, site.measures)
    mending: deque[tuple[int, Message]] = deque()
    with Mailbox(site.database, wait=600) as box:
        for number, message in enumerate(stream(chosen.messages, chosen.seed)):
            months(control, number, chosen.messages, site)
            with slices.timed("judge"), MailboxClient(site.database) as asking:
                verdict = asking.classify(message.content).label
                assert asking.mailbox is None, "the server was not asked"
            if verdict != message.label or number % 10 == 0 or message.first_label != message.label:
                with slices.timed("learn"):
                    box.learn(message.content, message.first_label)
                if message.first_label != message.label or message.forgotten:
                    mending.append((number + LATER, message))
            while mending and mending[0][0] <= number:
                _, slip = mending.popleft()
                if slip.forgotten:
                    box.forget(slip.content)
                else:
                    box.learn(slip.content, slip.label)
            slices.note(verdict, message.label)
    site.close()


class Lines:
    """Output lines of a process with the time of each."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.queue: queue.SimpleQueue[tuple[float, str]] = queue.SimpleQueue()
        self.lines = process.stdout
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        assert self.lines is not None
        for line in self.lines:
            self.queue.put((time.perf_counter(), line))

    def until(self, wanted: Callable[[str], object], seconds: float = 120) -> tuple[float, str]:
        """Return the first line that matches, and its time."""
        last_lines: deque[str] = deque(maxlen=5)
        while True:
            try:
                arrived_at, line = self.queue.get(timeout=seconds)
            except queue.Empty:
                raise RuntimeError(
                    f"nothing is said any more; at last: {''.join(last_lines)}"
                ) from None
            if wanted(line):
                return arrived_at, line
            last_lines.append(line)


def watch(chosen: argparse.Namespace, folder: Path, control: Control) -> None:
    """Deliver to a Maildir; its owner reads mail, moves it from wrong folders, and deletes it."""
    root = folder / "Maildir"
    for place in ("", ".Junk", ".Lists"):
        for name in ("cur", "new", "tmp"):
            (root / place / name).mkdir(parents=True)
    with Mailbox(folder / "mail.db") as box:  # mail that its owner kept from earlier years
        for message in stream(300, chosen.seed + 1):
            box.learn(message.content, message.label)
    classes = "spam=Junk,ham=INBOX,list=Lists"
    site = Site(folder, not chosen.never_compact, "watch", str(root), "--folders", classes, "--move", "--ham-after", "1",
                "--every", "0.1")  # fmt: skip
    lines = Lines(site.process)
    lines.until(lambda line: "watching" in line)
    slices = Slices(chosen.out, chosen.messages, 120, site.measures)
    read_paths: deque[Path] = deque()
    batch: list[tuple[int, Message]] = []
    for number, message in enumerate(stream(chosen.messages, chosen.seed)):
        batch.append((number, message))
        if len(batch) == AT_ONCE or number == chosen.messages - 1:
            months(control, number, chosen.messages, site)
            for (_, delivered), (folder_class, path) in zip(
                batch, _delivered(root, batch, lines, slices), strict=True
            ):
                read_paths.append(_read(root, path, folder_class, delivered.label))
                slices.note(folder_class, delivered.label)
            batch = []
        while len(read_paths) > 500:
            read_paths.popleft().unlink(missing_ok=True)
    site.close()


FOLDERS = {"spam": ".Junk", "ham": "", "list": ".Lists"}
AT_ONCE = 20  # number of messages that arrive together


def _delivered(
    root: Path, batch: list[tuple[int, Message]], lines: Lines, slices: Slices
) -> list[tuple[str, Path]]:
    """Deliver messages, wait for their verdicts, and return verdict and folder of each."""
    begun = {}
    for number, message in batch:
        name = f"{number}.x.host"
        (root / "tmp" / name).write_bytes(message.content)
        begun[name] = time.perf_counter()
        os.rename(root / "tmp" / name, root / "new" / name)
    verdicts = {}
    while len(verdicts) < len(batch):
        judged_at, line = lines.until(lambda line: re.search(r"INBOX/\S+: \S+ -?\d", line))
        name = re.findall(r"INBOX/(\S+): ", line)[0]
        if name in begun and name not in verdicts:
            slices.times["judge"].append(judged_at - begun[name])
            moved = re.search(r"moved to (\S+)", line)
            folder_class = {"Junk": "spam", "Lists": "list"}[moved[1]] if moved else "ham"
            lies = "cur" if moved else "new"
            verdicts[name] = (
                folder_class,
                next((root / FOLDERS[folder_class] / lies).glob(f"{name}*")),
            )
    return [verdicts[name] for name in begun]


def _read(root: Path, path: Path, folder_class: str, label: str) -> Path:
    """Read a message, and move it to the folder of its class."""
    folder = root / FOLDERS[label] / "cur"
    target = folder / f"{path.name.partition(':')[0]}:2,S"
    os.rename(path, target)
    return target


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=("serve", "watch"))
    parser.add_argument("--messages", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--never-compact", action="store_true")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    if "FAULTS" not in os.environ:
        sys.exit(run_below(sys.argv))
    control = Control(os.environ["FAULTS"])
    chosen.messages = chosen.messages or {"serve": 300_000, "watch": 30_000}[chosen.way]
    chosen.out = chosen.out or Path(f"{chosen.way}.jsonl")
    with tempfile.TemporaryDirectory() as folder:
        {"serve": serve, "watch": watch}[chosen.way](chosen, Path(folder), control)


if __name__ == "__main__":
    main()
