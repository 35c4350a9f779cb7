"""Send hostile mail to every listener and page of a running server; measure the time and check the server.

    python tests/benchmarks/hostile_mail.py [MESSAGES]

The mails are the tests' hostile ones, with bytes removed, repeated and changed at random. Each passes through
the Unix socket (of `streamnb-filter`), SMTP, LMTP and HTTP. Every page of `streamnb web` then shows the last
thousand.
"""

import contextlib
import http.client
import random
import re
import smtplib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.extend(
    str(Path(__file__).parents[1] / name) for name in ("helpers", "service", "watch", "web")
)
from aiosmtpd.controller import Controller
from commands import STREAMNB
from hostile import hostile
from ports import free_port
from serving import LongServer, Sink, as_sent, train
from test_web import Page

from streamnb import Mailbox
from streamnb.mailbox.service.client import MailboxClient
from streamnb.mailbox.verdict_log import LogLimits, VerdictLog


def mutated(draw: random.Random, mails: list[bytes]) -> bytes:
    """Return a hostile mail with some bytes changed."""
    message = bytearray(draw.choice(mails)[: 1 << 16])
    for _ in range(draw.randrange(8)):
        position = draw.randrange(len(message) + 1)
        end = min(len(message), position + draw.randrange(1, 200))
        method = draw.randrange(3)
        if method == 0:
            del message[position:end]
        elif method == 1:
            message[position:position] = message[position:end] * draw.randrange(1, 5)
        else:
            message[position:end] = draw.randbytes(end - position)
    return bytes(message)


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    draw = random.Random(7)
    mails = list(hostile(large=False).values())
    sink = Sink()

    class Here(Controller):
        def factory(self) -> LongServer:
            return LongServer(self.handler, data_size_limit=None, enable_SMTPUTF8=True)

    controller = Here(sink, hostname="127.0.0.1", port=free_port())
    controller.start()
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        with Mailbox(base / "mail.db") as box:
            train(box)
            VerdictLog(box).limit(LogLimits(1000, 30))
        ports = {subject: free_port() for subject in ("smtp", "lmtp", "http")}
        options = [f"--{subject}=127.0.0.1:{port}" for subject, port in ports.items()]
        next_hop = f"--next=smtp:127.0.0.1:{controller.port}"
        log = (base / "log").open("w")
        server = subprocess.Popen(
            [*STREAMNB, "serve", "--db", base / "mail.db", *options, next_hop], stderr=log
        )
        while (base / "log").read_text().count("listening") < 4:
            time.sleep(0.05)
        token = (base / "mail.db.token").read_text().strip()
        slowest = dict.fromkeys(("socket", "smtp", "lmtp", "http"), 0.0)
        clients = {
            "smtp": smtplib.SMTP("127.0.0.1", ports["smtp"], timeout=60),
            "lmtp": smtplib.LMTP("127.0.0.1", ports["lmtp"], timeout=60),
        }
        for client in clients.values():
            client.ehlo()
        wrong = 0
        for _ in range(number):
            message = mutated(draw, mails)
            begun = time.monotonic()
            with MailboxClient(base / "mail.db", record=True) as asking:
                wrong += asking.ask_server(message).mark not in "SHU"
            slowest["socket"] = max(slowest["socket"], time.monotonic() - begun)
            for subject, client in clients.items():
                begun = time.monotonic()
                client.docmd("MAIL FROM:<a@b.c>")
                client.docmd("RCPT TO:<ann@d.e>")
                code, _ = client.data(as_sent(message))
                wrong += code != 250
                got = sink.messages.pop()[1]
                wrong += re.search(rb"^X-Streamnb: (?:Spam|Ham|Unsure), ", got, re.M) is None
                slowest[subject] = max(slowest[subject], time.monotonic() - begun)
            begun = time.monotonic()
            with contextlib.closing(
                http.client.HTTPConnection("127.0.0.1", ports["http"], timeout=60)
            ) as connection:
                headers = {"Authorization": f"Bearer {token}"}
                connection.request("POST", "/classify?reasons=5", message, headers)
                wrong += connection.getresponse().status != 200
            slowest["http"] = max(slowest["http"], time.monotonic() - begun)
        for client in clients.values():
            client.quit()
        server.terminate()
        wrong += server.wait(30) != 0
        log.close()
        answer = [
            line for line in (base / "log").read_text().splitlines() if "listening" not in line
        ]
        page = Page("--db", base / "mail.db")
        with Mailbox(base / "mail.db") as box:
            entries = VerdictLog(box).entries(most=1000)
        printed = [f"/message/{entry.id}" for entry in entries] + [
            "/?kind=all",
            "/figures",
            "/words",
        ]
        before = None
        while extra := re.search(r"before=(\d+)", page.get(f"/?kind=all{before or ''}")):
            before = f"&before={extra[1]}"
        begun = time.monotonic()
        for path in printed:
            text = page.get(path)
            wrong += text.count("<script") != 1 or "<img" in text
        page.close()
        with Mailbox(base / "mail.db") as box:
            wrong += len(box.verify())
    controller.stop()
    times = ", ".join(f"{subject} {1000 * longest:.0f} ms" for subject, longest in slowest.items())
    print(f"{number} mails, {len(printed)} pages: {wrong} problems; the slowest: {times}; "
          f"{len(answer)} lines in the log {answer[:3]}; {peak()} MB of memory")  # fmt: skip
    sys.exit(bool(wrong))


def peak() -> int:
    """Return the peak memory of the child processes."""
    import resource

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024


if __name__ == "__main__":
    main()
