"""Kill a writing process at random moments, thousands of times; find lost and repeated changes.

    python tests/endurance/kills.py [WRITER ...] [--kills 200] [--seed 1]

The writers are learn, many, undo, rebuild, compact, import, replace, serve, watch, imap (as root, with Dovecot), postgres
and postgres-many (as root, with PostgreSQL, whose server is killed, too). A child process writes, and reports
each acknowledged change. SIGKILL ends it after a random time. Then the database is verified, and each
reported change must be in it. Children are forked, so they spend most of their time writing. Exit status 1 if
anything was wrong.
"""

import argparse
import contextlib
import http.client
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import quote

sys.path.extend(
    str(Path(__file__).parents[1] / name) for name in ("helpers", "service", "watch", "web")
)
import servers
from ports import free_port
from postgres import Server, served
from stream import stream

import streamnb.mailbox.compact  # imported here, so children need not import them
import streamnb.mailbox.service.api
import streamnb.mailbox.service.http
import streamnb.mailbox.watch.imap
import streamnb.mailbox.watch.maildir
from streamnb import Mailbox
from streamnb.cli import main as streamnb_command
from streamnb.errors import StreamNBError
from streamnb.mailbox.batch import LabelledMessage, learn_many
from streamnb.mailbox.compact import compact
from streamnb.mailbox.digest import digest
from streamnb.mailbox.rebuild import rebuild
from streamnb.mailbox.service.http_token import database_token
from streamnb.mailbox.transfer.formats import export, import_file
from streamnb.mailbox.undo import last_learned, redo, undo

Say = Callable[[str], None]
MAILS = [(message.content, message.label) for message in stream(400, seed=7)]
LABELS = ("ham", "spam")
ROUNDS = 40  # number of kills before a new database
ACKNOWLEDGED = ("done", "imported", "rebuilt", "compacted", "came")


def command(arguments: list[str]) -> None:
    """Run the installed command in this process."""
    sys.argv[1:] = arguments
    streamnb_command()


class Child:
    """A process that works until it is killed, and the lines that it reports."""

    def __init__(self, act: Callable[[Say], None]) -> None:
        self.reading, writing = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid:
            os.close(writing)
            return
        code = 1
        try:
            os.close(self.reading)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            act(lambda line: os.write(writing, f"{line}\n".encode()) and None)
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def kill(self) -> tuple[list[str], bool]:
        """Kill the process; return its reports, and True if it was still running."""
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    def wait(self) -> tuple[list[str], bool]:
        """Wait for its end; return its reports, and True if it was killed."""
        with open(self.reading) as lines:
            reports = lines.read().splitlines()
        _, status = os.waitpid(self.pid, 0)
        if status not in (0, signal.SIGKILL):
            reports.append(f"FAILED with wait status {status}")
        return reports, status == signal.SIGKILL


def failures(reports: list[str]) -> list[str]:
    return [line for line in reports if line.startswith("FAILED")]


@contextlib.contextmanager
def telling(say: Say) -> Iterator[None]:
    """Report an error as one line, and continue."""
    try:
        yield
    except StreamNBError as error:
        say(f"error {str(error).encode('unicode_escape').decode()}")
        time.sleep(0.01)


class Learn:
    """Two processes learn, correct and forget messages of one database."""

    children, longest = 2, 0.25

    def __init__(self, place: Path | str, rng: random.Random) -> None:
        self.place = place
        self.rng = rng
        self.labels: dict[int, str] = {}  # the certain label of each message: "" if it has none
        self.last: defaultdict[int, set[str]] = defaultdict(
            set
        )  # changes that were begun and not acknowledged

    def act(self, part: int, say: Say) -> None:
        draw = random.Random(self.rng.random())
        while True:
            with telling(say), Mailbox(self.place, wait=60) as box:
                while True:
                    i = draw.randrange(len(MAILS) // 2) * 2 + part
                    label = draw.choice([*LABELS, *LABELS, ""])
                    say(f"begin {i} {label}")
                    box.learn(MAILS[i][0], label) if label else box.forget(MAILS[i][0])
                    say(f"done {i} {label}")

    def meanwhile(self, seconds: float) -> list[str]:
        time.sleep(seconds)
        return []

    def check(self, reports: list[str]) -> list[str]:
        """Check that the database has all acknowledged changes; it may have the others that were begun."""
        problems = failures(reports)
        self.last.clear()
        for line in reports:
            word, _, rest_of_line = line.partition(" ")
            number, _, label = rest_of_line.partition(" ")
            if word == "begin":
                self.last[int(number)].add(label)
            elif word == "done":
                self.labels[int(number)] = label
                self.last.pop(int(number), None)
        with Mailbox(self.place, wait=60) as box:
            problems += box.verify()
            ledger = {i: box.label_of(digest(MAILS[i][0])) for i in {*self.labels, *self.last}}
            for i, entry in ledger.items():
                label = "" if entry is None else entry[0]
                if label not in {self.labels.get(i, ""), *self.last.get(i, ())}:
                    problems.append(f"message {i} is {label!r}, was {self.labels.get(i, '')!r}")
                self.labels[i] = label
            if sum(box.classifier.messages().values()) != sum(map(bool, self.labels.values())):
                problems.append("the number of messages is not what was learned")
        return problems


class Many(Learn):
    """Two processes learn messages in one database, several in each transaction."""

    def act(self, part: int, say: Say) -> None:
        draw = random.Random(self.rng.random())

        def lessons() -> Iterator[LabelledMessage]:
            for i in draw.sample(range(part, len(MAILS), 2), draw.randrange(1, 60)):
                label = draw.choice(LABELS)
                say(f"begin {i} {label}")
                yield LabelledMessage(MAILS[i][0], label, str(i))

        while True:
            with telling(say), Mailbox(self.place, wait=60) as box:
                for lesson, _ in learn_many(box, lessons()):
                    say(f"done {lesson.source} {lesson.label}")


class Taught:
    """A trained database whose labels must not change."""

    children, longest, number = 1, 0.15, 40

    def __init__(self, place: Path, rng: random.Random) -> None:
        self.place = place
        self.rng = rng
        self.labels_known = dict(enumerate(label for _, label in MAILS[: self.number]))
        with Mailbox(place) as box:
            for content, label in MAILS[: self.number]:
                box.learn(content, label)

    def meanwhile(self, seconds: float) -> list[str]:
        time.sleep(seconds)
        return []

    def act(self, part: int, say: Say) -> None:
        raise NotImplementedError

    def check(self, reports: list[str]) -> list[str]:
        problems = failures(reports)
        self.labels_known |= {
            int(line.split()[1]): line.split()[2] for line in reports if line.startswith("done")
        }
        with Mailbox(self.place, wait=60) as box:
            problems += box.verify()
            for i, label in self.labels_known.items():
                entry = box.label_of(digest(MAILS[i][0]))
                if entry is None or entry[0] != label:
                    problems.append(f"message {i} was {label}, is {entry}")
        return problems


class Rebuild(Taught):
    """The database is rebuilt repeatedly."""

    def act(self, part: int, say: Say) -> None:
        while True:
            with telling(say), Mailbox(self.place) as box:
                rebuild(box)
                say("rebuilt")


class Compact(Taught):
    """`compact` drops rare features and old history while another process learns."""

    children = 2

    def act(self, part: int, say: Say) -> None:
        draw = random.Random(self.rng.random())
        streamnb.mailbox.compact._PART_ROWS = 5  # many parts
        while True:
            with telling(say), Mailbox(self.place, wait=60) as box:
                for i in draw.sample(range(part, len(MAILS), 2), 2):
                    box.learn(*MAILS[i])
                    say(f"done {i} {MAILS[i][1]}")
                if part == 0:
                    compact(box, rare_days=-1, ledger=draw.choice([None, 1e-5]))
                    say("compacted")


class Import(Taught):
    """An import adds all of a file or nothing."""

    longest = 0.6

    def __init__(self, place: Path, rng: random.Random) -> None:
        super().__init__(place, rng)
        self.file, self.fresh = place.with_suffix(".lines"), place.with_suffix(".fresh")
        shutil.copyfile(place, self.fresh)
        other = place.with_suffix(".other")
        with Mailbox(other) as box:
            for content, label in MAILS[self.number : 2 * self.number]:
                box.learn(content, label)
            export(box, str(self.file))
        other.unlink()

    def act(self, part: int, say: Say) -> None:
        done = False
        while not done:
            with telling(say), Mailbox(self.place) as box:
                import_file(box, str(self.file))
                say("imported")
                done = True
        time.sleep(60)

    def check(self, reports: list[str]) -> list[str]:
        problems = super().check(reports)
        with Mailbox(self.place) as box:
            count = sum(box.classifier.messages().values())
        if count not in (
            (2 * self.number,) if "imported" in reports else (self.number, 2 * self.number)
        ):
            problems.append(f"{count} messages after an import of {self.number}")
        for path in self.place.parent.glob(f"{self.place.name}*"):
            path.unlink()
        shutil.copyfile(self.fresh, self.place)
        return problems


class Replace(Taught):
    """Word lists replace each other. The database always has the last one or the next one."""

    longest = 0.6

    def __init__(self, place: Path, rng: random.Random) -> None:
        super().__init__(place, rng)
        self.sizes = (100, 150, 200)  # number of messages in each word list, of spam and of ham
        self.imported = 0
        for number, size in enumerate(self.sizes):
            words = (f"word{i} {i % size} {(i * i) % size}\n" for i in range(20 * size))
            self.file(number).write_text(f".MSG_COUNT {size} {size}\n{''.join(words)}")
        with Mailbox(place) as box:
            import_file(box, str(self.file(self.imported)))

    def file(self, number: int) -> Path:
        return self.place.with_suffix(f".words{number}")

    def act(self, part: int, say: Say) -> None:
        number = self.imported
        while True:
            with telling(say), Mailbox(self.place) as box:
                number = (number + 1) % len(self.sizes)
                import_file(box, str(self.file(number)), replace=True)
                say(f"imported {number}")

    def check(self, reports: list[str]) -> list[str]:
        problems = super().check(reports)
        acknowledged = [int(line.split()[1]) for line in reports if line.startswith("imported")]
        current = [self.imported, *acknowledged][-1]
        with Mailbox(self.place) as box:
            count = sum(box.classifier.messages().values()) - self.number
        possible = [current, (current + 1) % len(self.sizes)]
        matches = [number for number in possible if count == 2 * self.sizes[number]]
        if not matches:
            problems.append(f"word list {current} was imported, and it has {count} messages")
        self.imported = (matches or [current])[0]
        return problems


class Undo(Taught):
    """Labels are changed, undone, and mostly redone. The database has the last state or the next one."""

    numbers = range(Taught.number, 2 * Taught.number)

    def __init__(self, place: Path, rng: random.Random) -> None:
        super().__init__(place, rng)
        self.state = "-" * len(self.numbers)

    def read_state(self, box: Mailbox) -> str:
        """Return the first letter of the label of each message; - for none."""
        entries = [box.label_of(digest(MAILS[i][0])) for i in self.numbers]
        return "".join(str(entry[0])[0] if entry else "-" for entry in entries)

    def act(self, part: int, say: Say) -> None:
        draw = random.Random(self.rng.random())
        while True:
            with telling(say), Mailbox(self.place) as box:
                states = [self.read_state(box)]

                def change(act: Callable[[], object], state: str) -> None:
                    say(f"begin {state}")
                    act()
                    say(f"done {state}")

                for i in draw.sample(self.numbers, draw.randrange(1, 6)):
                    k = i - self.numbers.start
                    label = "ham" if states[-1][k] == "s" else "spam"
                    states.append(states[-1][:k] + label[0] + states[-1][k + 1 :])
                    change(partial(box.learn, MAILS[i][0], label), states[-1])
                since = last_learned(box, len(states) - 1)
                change(partial(undo, box, since), states[0])
                if draw.random() < 0.7:
                    change(partial(redo, box), states[-1])

    def check(self, reports: list[str]) -> list[str]:
        changes = [line.split() for line in reports if line.startswith(("begin", "done"))]
        problems = super().check([line for line in reports if not line.startswith("done")])
        acknowledged = [state for word, state in changes if word == "done"]
        possible = {[self.state, *acknowledged][-1]}
        if changes and changes[-1][0] == "begin":
            possible.add(changes[-1][1])
        with Mailbox(self.place) as box:
            self.state = self.read_state(box)
        if self.state not in possible:
            problems.append(f"the labels are {self.state}, not {' or '.join(possible)}")
        return problems


class Serve(Taught):
    """Programs learn over HTTP; messages answered with 200 are in the database."""

    longest = 0.5

    def __init__(self, place: Path, rng: random.Random) -> None:
        super().__init__(place, rng)
        self.token, self.port = database_token(place), 0

    def act(self, part: int, say: Say) -> None:
        command(["serve", "--db", str(self.place), "--http", f"127.0.0.1:{self.port}"])

    def begin(self) -> None:
        """Choose the port of the server, and keep the labels of earlier servers."""
        self.port = free_port()

    def meanwhile(self, seconds: float) -> list[str]:
        """Send labels until the server is killed, one after the other, mostly after it has begun to listen."""
        headers = {"Authorization": f"Bearer {self.token}"}
        give_up = time.monotonic() + 10
        while self.rng.random() < 0.99 and time.monotonic() < give_up:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                break
            time.sleep(0.01)
        end = time.monotonic() + seconds
        reports = []
        while time.monotonic() < end:
            i = self.rng.randrange(len(MAILS))
            content, label = MAILS[i]
            with (
                contextlib.suppress(OSError, http.client.HTTPException),
                contextlib.closing(
                    http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                ) as connection,
            ):
                connection.request("POST", f"/learn?label={quote(label)}", content, headers)
                answer = connection.getresponse()
                body = answer.read().decode("utf-8", "replace").strip()
                ok = answer.status == 200
                reports.append(f"done {i} {label}" if ok else f"error {answer.status} {body}")
        return reports


class Watch(Taught):
    """A Maildir is watched while mail arrives and a person moves some of it into Junk; no mail is lost or doubled."""

    longest, number = 0.6, 120

    def __init__(self, place: Path, rng: random.Random) -> None:
        super().__init__(place, rng)
        self.root = place.with_suffix(".maildir")
        self.count = 0
        self.junk: set[int] = set()  # moved there by a person
        self.make()
        self.look()  # mail from before the first scan is not a label

    def make(self) -> None:
        for folder in (self.root, self.root / ".Junk"):
            for name in ("cur", "new", "tmp"):
                (folder / name).mkdir(parents=True)

    @property
    def arguments(self) -> list[str]:
        return ["watch", str(self.root), "--db", str(self.place), "--move", "--every", "0.1"]

    def act(self, part: int, say: Say) -> None:
        command(self.arguments)

    def meanwhile(self, seconds: float) -> list[str]:
        """Deliver mail, and move some of it into the folder of spam."""
        end, before = time.monotonic() + seconds, self.count
        while time.monotonic() < end:
            self.deliver(self.count, by_hand=self.count % 4 == 0)
            self.count += 1
            time.sleep(self.rng.uniform(0.0, 0.2))
        return [f"came {number}" for number in range(before, self.count)]

    def message(self, number: int) -> bytes:
        """Return a new message; earlier messages have other Message-IDs."""
        return b"Message-ID: <%d@kills>\n" % number + MAILS[number % len(MAILS)][0]

    def deliver(self, number: int, by_hand: bool) -> None:
        path = self.root / "tmp" / f"{number}.x.host"
        path.write_bytes(self.message(number))
        if by_hand:
            self.junk.add(number)
            path.rename(self.root / ".Junk" / "cur" / f"{number}.x.host:2,S")
        else:
            path.rename(self.root / "new" / path.name)

    def look(self) -> list[str]:
        """Scan once, completely; return the problems."""
        return failures(Child(lambda _: command([*self.arguments, "--once"])).wait()[0])

    def count_delivered(self) -> Counter[bytes]:
        return Counter(path.read_bytes() for path in self.root.rglob("*.x.host*"))

    def check(self, reports: list[str]) -> list[str]:
        problems = self.look() + super().check(reports)
        deliveries = self.count_delivered()
        wanted = {self.message(number) for number in range(self.count)}
        problems += ["a message is lost"] * len(wanted - deliveries.keys())
        problems += ["a message is there twice"] * (deliveries.total() - len(deliveries))
        with Mailbox(self.place, wait=60) as box:
            for number in self.junk:
                label = box.label_of(digest(self.message(number)))
                if label is not None:  # no scan saw it elsewhere, so no person has moved it
                    problems.append(f"message {number} was put into Junk unseen, and is {label}")
        return problems


class Imap(Watch):
    """The same for an account on a mail server."""

    longest = 1.0
    server: servers.Dovecot

    def make(self) -> None:
        self.user = f"u{self.rng.randrange(1 << 30)}"
        os.environ["STREAMNB_PASSWORD"] = servers.PASSWORD
        self.person = self.server.client(self.user)
        if not self.person.folder_exists("Junk"):
            self.person.create_folder("Junk")

    @property
    def arguments(self) -> list[str]:
        url = f"imap://{self.user}@localhost:{self.server.port}/"
        trust = ["--ca-file", str(self.server.certificate)]
        return ["watch", url, *trust, "--db", str(self.place), "--move", "--every", "0.1"]

    def deliver(self, number: int, by_hand: bool) -> None:
        if by_hand:
            self.junk.add(number)
        self.person.append(
            "Junk" if by_hand else "INBOX", self.message(number).replace(b"\n", b"\r\n")
        )

    def count_delivered(self) -> Counter[bytes]:
        deliveries: Counter[bytes] = Counter()
        for folder in ("INBOX", "Junk"):
            self.person.select_folder(folder, readonly=True)
            numbers = self.person.search("UNDELETED")
            for message in self.person.fetch(numbers, ["BODY.PEEK[]"]).values() if numbers else ():
                deliveries[message[b"BODY[]"].replace(b"\r\n", b"\n")] += 1
        return deliveries


WRITERS: dict[str, type[Learn] | type[Taught]] = {
    "learn": Learn, "many": Many, "undo": Undo, "rebuild": Rebuild, "compact": Compact, "import": Import,
    "replace": Replace, "serve": Serve, "watch": Watch, "imap": Imap, "postgres": Learn, "postgres-many": Many,
}  # fmt: skip


def run(
    name: str, kills: int, seed: int, folder: Path, server: Server | None
) -> tuple[int, int, list[str]]:
    """Kill a writer a number of times; return kills, acknowledged changes and problems."""
    rng = random.Random(f"{name} {seed}")
    done = acknowledged = rounds = 0
    problems: list[str] = []
    writer: Learn | Taught | None = None
    shown_at = time.monotonic()
    while done < kills:
        if rounds % ROUNDS == 0:
            place = folder / f"{name}{rounds}.db"
            writer = WRITERS[name](place if server is None else server.schema(f"k{rounds}"), rng)
        assert writer is not None
        if isinstance(writer, Serve):
            writer.begin()
        children = []
        for part in range(writer.children):
            rng.random()  # each child continues these random numbers
            children.append(Child(partial(writer.act, part)))
        reports = writer.meanwhile(rng.uniform(0, writer.longest))
        if server is not None and rounds % 4 == 3:
            server.kill()
            server.start()
        for child in children:
            lines, killed = child.kill()
            # After its server was killed, a child may end by itself, with an error of one line.
            server_was_killed = server is not None and rounds % 4 == 3
            reports += [
                line for line in lines if not (server_was_killed and line.startswith("FAILED"))
            ]
            done += killed
        acknowledged += sum(line.startswith(ACKNOWLEDGED) for line in reports)
        try:
            round_problems = writer.check(reports)
        except StreamNBError as error:
            round_problems = [f"it cannot be checked: {error}"]
        problems += [f"{name}, round {rounds}: {problem}" for problem in round_problems]
        rounds += 1
        if time.monotonic() - shown_at > 20:
            shown_at = time.monotonic()
            print(
                f"{name}: {done:,} kills, {acknowledged:,} acknowledged, {len(problems)} problems",
                flush=True,
            )
    return done, acknowledged, problems


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("writers", nargs="*", metavar="WRITER", help=", ".join(WRITERS))
    parser.add_argument("--kills", type=int, default=200, help="of each writer")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    unknown = set(chosen.writers) - set(WRITERS)
    if unknown:
        parser.error(f"no writer {', '.join(unknown)}; there are {', '.join(WRITERS)}")
    everything: list[str] = []
    for name in chosen.writers or WRITERS:
        with (
            tempfile.TemporaryDirectory(prefix="streamnb-kills-") as folder,
            served(name.startswith("postgres")) as server,
            contextlib.ExitStack() as stack,
        ):
            if name == "imap":
                Imap.server = servers.Dovecot()
                stack.callback(Imap.server.close)
            begun = time.monotonic()
            kills, acknowledged, problems = run(
                name, chosen.kills, chosen.seed, Path(folder), server
            )
            print(f"{name:9} {kills:>6,} kills {acknowledged:>8,} acknowledged or delivered {len(problems):>4} problems "
                  f"{time.monotonic() - begun:>6.0f} s", flush=True)  # fmt: skip
            everything += problems
    for problem in everything[:50]:
        print(problem)
    sys.exit(bool(everything))


if __name__ == "__main__":
    main()
