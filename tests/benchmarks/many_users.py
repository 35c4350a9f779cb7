"""One server with many users: time of a message, and memory of the server.

    python tests/benchmarks/many_users.py [USERS]

Each user has a small database, and the site has a model. Messages arrive for random users.
"""

import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.extend(
    str(Path(__file__).parents[1] / name) for name in ("helpers", "service", "watch", "web")
)
from commands import STREAMNB

from streamnb import Mailbox, MailClassifier
from streamnb.corpus import open_corpus, read
from streamnb.mailbox.service.client import MailboxClient

SAMPLE = Path(__file__).parents[2] / "corpora" / "sample"
MESSAGES = 5000


def main() -> None:
    users = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    mails = [(read(entry), entry.label) for entry in open_corpus(SAMPLE)]
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["STREAMNB_USERS"] = name
        site = MailClassifier()
        for message, label in mails[:200]:
            site.learn_one(message, label)
        site.save(folder / "site.snb")
        with Mailbox(folder / "user0.db") as box:
            for message, label in mails[200:206]:
                box.learn(message, label)
        for number in range(1, users):
            shutil.copyfile(folder / "user0.db", folder / f"user{number}.db")
        server = subprocess.Popen([*STREAMNB, "serve", "--users"], stderr=subprocess.PIPE)
        server.stderr.readline()
        times = []
        for _ in range(MESSAGES):
            message, _ = draw.choice(mails)
            begun = time.perf_counter()
            with MailboxClient(None, user=f"user{draw.randrange(users)}") as asking:
                asking.ask_server(message)
            times.append(1000 * (time.perf_counter() - begun))
        status = Path(f"/proc/{server.pid}/status").read_text()
        memory = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
        opened = len(os.listdir(f"/proc/{server.pid}/fd"))
        server.terminate()
        code = server.wait(60)
        server.stderr.close()
    times.sort()
    print(
        f"{users} users, {MESSAGES} messages: median {statistics.median(times):.1f} ms, 99 % below "
        f"{times[int(0.99 * len(times))]:.1f} ms; {int(memory) // 1024} MB of memory at most, "
        f"{opened} files open, exit status {code}"
    )


if __name__ == "__main__":
    main()
