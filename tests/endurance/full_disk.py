"""Kill two processes that learn, again and again; fill the disk; count what was lost.

    python tests/benchmarks/kill.py CORPUS [--kills 200] [--messages 1000]
    python tests/benchmarks/kill.py CORPUS --full-disk [--times 50]
    python tests/benchmarks/kill.py CORPUS --postgres [--kills 200]

After each kill (or full disk) the database is verified, and every message is looked for that was
acknowledged. Exit status 1 where anything was lost. Root can mount a small disk; for others the size
of files is limited. With --postgres (as root) the database is that of a server, which is itself
killed, with all its processes, before every fourth kill of the writers.
"""

import argparse
import os
import random
import resource
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from postgres import Server, served

from streamnb import Mailbox
from streamnb.corpus import open_corpus, read
from streamnb.errors import StreamNBError
from streamnb.mailbox.digest import digest


def stream(corpus: str, messages: int) -> list[tuple[bytes, str]]:
    found: dict[bytes, tuple[bytes, str]] = {}
    for entry in open_corpus(corpus):
        content = read(entry)
        raw = content if isinstance(content, bytes) else content.encode()
        found.setdefault(digest(raw), (raw, entry.label))
    return list(islice(found.values(), messages))


def writer(corpus: str, messages: int, database: str, part: int, limit: int) -> None:
    """Learn every other message, and print its number once it is acknowledged."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    mails = stream(corpus, messages)
    box = Mailbox(database, wait=60)
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(part, len(mails), 2):
        try:
            if box.learn(*mails[i]).what == "learned":
                print(i, flush=True)
        except StreamNBError as error:
            print("error", error, flush=True)
            return
    print("done", flush=True)


def begin(
    corpus: str, messages: int, database: Path | str, limit: int = 0
) -> list[subprocess.Popen[str]]:
    writers = [
        subprocess.Popen(
            [sys.executable, __file__, corpus, "--messages", str(messages), "--writer",
             str(database), str(part), str(limit)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for part in range(2)
    ]  # fmt: skip
    for one in writers:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in writers:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    return writers


def lost(database: Path | str, mails: list[tuple[bytes, str]], told: set[int]) -> list[str]:
    """What is wrong with a database, of which these messages were acknowledged."""
    with Mailbox(database) as box:
        problems = box.verify()
        for i in told:
            known = box.label_of(digest(mails[i][0]))
            if known is None or known[0] != mails[i][1]:
                problems.append(f"message {i} was acknowledged and is not there")
    return problems


def numbers(lines: list[str]) -> set[int]:
    return {int(line) for line in lines if line.endswith("\n") and line.strip().isdigit()}


def kill(corpus: str, kills: int, messages: int, server: Server | None) -> list[str]:
    rng = random.Random(11)
    mails = stream(corpus, messages)
    problems: list[str] = []
    acknowledged = begun = 0
    with tempfile.TemporaryDirectory() as name:
        for number in range(1, kills + 1):
            if number == 1 or "done\n" in said:  # noqa: F821 (from the round before)
                begun += 1
                told = set[int]()
                database = (
                    Path(name) / f"{begun}.db" if server is None else server.schema(f"k{begun}")
                )
            writers = begin(corpus, messages, database)
            select.select([], [], [], rng.uniform(0.0, 2.0))
            if server is not None and number % 4 == 0:
                server.kill()
                server.start()
                select.select([], [], [], rng.uniform(0.0, 2.0))
            for one in writers:
                one.kill()
            said = [line for one in writers for line in (one.stdout or [])]
            for one in writers:
                one.wait()
            told |= numbers(said)
            acknowledged += len(numbers(said))
            problems += lost(database, mails, told)
            if number % 20 == 0:
                print(f"{number} kills, {acknowledged:,} messages acknowledged, "
                      f"{len(problems)} problems", flush=True)  # fmt: skip
    print(f"{kills} kills while two processes learned {messages:,} messages: {acknowledged:,} "
          f"acknowledged, {begun} databases, {len(problems)} problems")  # fmt: skip
    return problems


@contextmanager
def small_disk(folder: Path) -> Iterator[int]:
    """A disk of a few megabytes; gives the limit of file sizes where none can be mounted."""
    size = 12 << 20
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=False
        ).returncode
    )
    try:
        yield 0 if mounted else size // 2
    finally:
        if mounted:
            subprocess.run(["umount", folder], check=True)


def fill(corpus: str, times: int, messages: int) -> list[str]:
    mails = stream(corpus, messages)
    problems: list[str] = []
    acknowledged = refused = 0
    for number in range(times):
        with tempfile.TemporaryDirectory() as name, small_disk(Path(name)) as limit:
            ballast = Path(name) / "ballast"
            ballast.write_bytes(bytes(random.Random(number).randrange(6 << 20)))
            writers = begin(corpus, messages, Path(name) / "db", limit)
            said = [line for one in writers for line in (one.stdout or [])]
            for one in writers:
                one.wait()
            refused += sum(line.startswith("error") for line in said)
            told = numbers(said)
            acknowledged += len(told)
            ballast.unlink()  # somebody makes room
            problems += lost(Path(name) / "db", mails, told)
            with Mailbox(Path(name) / "db") as box:
                again = box.learn(b"Subject: there is room again\n\nhello\n", "ham")
                problems += [] if again.what == "learned" else ["it learns no more"]
    print(f"{times} full disks, {refused} refusals in one line: {acknowledged:,} messages "
          f"acknowledged, {len(problems)} problems")  # fmt: skip
    return problems if refused else ["the disk was never full"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--full-disk", action="store_true")
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--writer", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.writer:
        database, part, limit = chosen.writer
        writer(chosen.corpus, chosen.messages, database, int(part), int(limit))
        return
    if chosen.full_disk:
        problems = fill(chosen.corpus, chosen.times, chosen.messages)
    else:
        with served(chosen.postgres) as server:
            problems = kill(chosen.corpus, chosen.kills, chosen.messages, server)
    for problem in problems:
        print(problem)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
