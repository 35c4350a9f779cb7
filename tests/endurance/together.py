"""Many threads and processes on one database or one model, for any time.

    python tests/endurance/together.py database [--minutes 60] [--processes 4] [--threads 2]
    python tests/endurance/together.py model [--minutes 60] [--threads 8]

Each thread learns, corrects, forgets and classifies its own messages. Sometimes one verifies, exports, rebuilds
or compacts the database, or saves, clones and explains the model. At the end, each message must have the last
label of its thread, the database must be undamaged, and the model must be empty after all messages were
unlearned. tsan.sh runs it under a race detector. Exit status 1 if anything was wrong.
"""

import argparse
import io
import multiprocessing
import random
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stream import stream

from streamnb import Mailbox, MailClassifier
from streamnb.errors import BusyError
from streamnb.mailbox.compact import compact
from streamnb.mailbox.digest import digest
from streamnb.mailbox.rebuild import rebuild
from streamnb.mailbox.transfer.formats import export

MAILS = [(message.content, message.label) for message in stream(1600, seed=3)]
LABELS = ("ham", "spam")


class Others:
    """The messages of one thread, and their labels.

    Parameters
    ----------
    box
        The mailbox.
    number
        Number of this thread, from 0.
    threads_in_all
        Number of threads of all processes.
    """

    def __init__(self, box: Mailbox, number: int, threads_in_all: int, folder: Path) -> None:
        self.box = box
        self.indices = range(number, len(MAILS), threads_in_all)
        self.labels: dict[int, str] = {}
        self.draw = random.Random(number)
        self.file = folder / f"export{number}"
        self.first = number == 0
        self.done: Counter[str] = Counter()

    def step(self) -> None:
        """Do one random operation on a message."""
        i, chance = self.draw.choice(self.indices), self.draw.random()
        if chance < 0.3:
            label = self.draw.choice(LABELS)
            self.box.learn(MAILS[i][0], label)
            self.labels[i] = label
            self.done["learned"] += 1
        elif chance < 0.4:
            self.box.forget(MAILS[i][0])
            self.labels.pop(i, None)
            self.done["forgotten"] += 1
        elif chance < 0.998 or not self.first:
            verdict = self.box.classify(MAILS[i][0])
            assert 0 <= verdict.probability <= 1 + 1e-9
            entry = self.box.label_of(digest(MAILS[i][0]))
            assert (None if entry is None else entry[0]) == self.labels.get(i)
            self.done["asked"] += 1
        else:
            self.maintain()

    def maintain(self) -> None:
        """Do one operation on the whole database."""
        task = self.draw.choice(["verify", "export", "rebuild", "compact"])
        if task == "verify":
            assert self.box.verify() == []
        elif task == "export":
            export(self.box, str(self.file))
        elif task == "rebuild":
            rebuild(self.box)
        else:
            compact(self.box, once=None, ledger=None)
        self.done[task] += 1

    def check(self) -> list[str]:
        """Return the messages whose label is not the last one given."""
        differences = []
        for i in self.indices:
            entry = self.box.label_of(digest(MAILS[i][0]))
            if (None if entry is None else entry[0]) != self.labels.get(i):
                differences.append(f"message {i}: {entry}, not {self.labels.get(i)}")
        return differences


def threads(acts: list[Callable[[], None]]) -> list[str]:
    """Run operations at the same time; return their problems."""
    problems: list[str] = []

    def guarded(act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException:
            problems.append(traceback.format_exc())

    started = [threading.Thread(target=guarded, args=[act]) for act in acts]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return problems


def process(
    place: Path, first: int, number: int, threads_in_all: int, until: float, results: Any
) -> None:
    """Run threads that share one object until the end of the time."""
    with Mailbox(place, wait=60) as box:
        others = [Others(box, first + i, threads_in_all, place.parent) for i in range(number)]

        def go_on(messages: Others) -> None:
            while time.time() < until:
                try:
                    messages.step()
                except BusyError:
                    messages.done["busy"] += 1

        problems = threads([lambda messages=messages: go_on(messages) for messages in others])  # type: ignore[misc]
        problems += [problem for messages in others for problem in messages.check()]
        results.put((sum((messages.done for messages in others), Counter()), problems))


def database(minutes: float, processes: int, number: int) -> tuple[Counter[str], list[str]]:
    """Run processes with threads on one database; return operations and problems."""
    results: Any = multiprocessing.Queue()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "mail.db"
        Mailbox(place).close()
        until, threads_in_all = time.time() + 60 * minutes, processes * number
        started = [
            multiprocessing.Process(
                target=process, args=[place, i * number, number, threads_in_all, until, results]
            )
            for i in range(processes)
        ]
        for worker in started:
            worker.start()
        done: Counter[str] = Counter()
        problems: list[str] = []
        for _ in started:
            worker_counts, worker_problems = results.get(timeout=60 * minutes + 600)
            done, problems = done + worker_counts, problems + worker_problems
        for worker in started:
            worker.join()
        with Mailbox(place) as box:
            problems += box.verify()
    return done, problems


def model(minutes: float, number: int) -> tuple[Counter[str], list[str]]:
    """Run threads on one classifier; return operations and problems."""
    shared = MailClassifier(label_noise=0.0)
    until = time.monotonic() + 60 * minutes
    done = [Counter[str]() for _ in range(number)]

    def act(thread: int) -> None:
        draw = random.Random(thread)
        learned: list[tuple[int, str, Any]] = []
        while time.monotonic() < until:
            i, chance = draw.randrange(len(MAILS)), draw.random()
            if chance < 0.3 and len(learned) < 300:
                counted = shared.count(MAILS[i][0])
                label = draw.choice(LABELS)
                learned.append((i, label, shared.model.learn(counted, label)))
                action = "learned"
            elif chance < 0.55 and learned:
                j, label, receipt = learned.pop(draw.randrange(len(learned)))
                shared.unlearn_one(MAILS[j][0], label, receipt=receipt)
                action = "taken back"
            elif chance < 0.995:
                shares = shared.predict_proba_one(MAILS[i][0])
                assert not shares or abs(sum(shares.values()) - 1) < 1e-9
                action = "asked"
            elif chance < 0.997:
                shared.save(io.BytesIO())
                action = "saved"
            elif chance < 0.999:
                shared.clone()
                action = "cloned"
            else:
                shared.explain_one(MAILS[i][0])
                action = "explained"
            done[thread][action] += 1
        for j, label, receipt in learned:
            shared.unlearn_one(MAILS[j][0], label, receipt=receipt)

    problems = threads([lambda i=i: act(i) for i in range(number)])  # type: ignore[misc]
    features_left = sum(len(member.counts.table) for member in shared.models)
    if features_left:
        problems.append(f"{features_left} features are left of what was taken back")
    if any(shared.messages().values()):
        problems.append(f"messages are left: {shared.messages()}")
    return sum(done, Counter()), problems


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("database", "model"))
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument(
        "--threads", type=int, default=0, help="in each process; 2, and 8 on a model"
    )
    chosen = parser.parse_args()
    if chosen.what == "database":
        done, problems = database(chosen.minutes, chosen.processes, chosen.threads or 2)
    else:
        done, problems = model(chosen.minutes, chosen.threads or 8)
    summary = ", ".join(f"{action} {number:,}" for action, number in done.most_common())
    print(f"{chosen.what}, {chosen.minutes:g} minutes: {summary}; {len(problems)} problems")
    for problem in problems[:20]:
        print(problem)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
