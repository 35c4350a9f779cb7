"""A running `streamnb serve`, its clients, and the mail servers around it."""

import contextlib
import http.client
import json
import re
import select
import signal
import socket
import struct
import subprocess
import threading
import time

from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP
from commands import STREAMNB

FIELD = re.compile(rb"\AX-Streamnb: (Spam|Ham|Unsure), [^\r\n]*\r\n")
SPAM = b"From: p@example.com\r\nSubject: pills %d\r\n\r\nbuy cheap pills\r\n"
HAM = b"From: b@example.org\r\nSubject: lunch %d\r\n\r\nmeet at noon?\r\n"


def train(box, n=70, labels=("spam", "ham")):
    """Learn `n` messages each of spam and ham; with fewer than 60, verdicts are unsure."""
    box.learn_many(
        (message % i, label)
        for i in range(n)
        for message, label in zip((SPAM, HAM), labels, strict=True)
    )


class Sink:
    """A next hop that stores its messages, and replies by `answers`."""

    def __init__(self):
        self.messages, self.commands, self.connections = [], [], set()
        self.answers = {}  # of a recipient, or of DATA
        self.delay = self.mail_delay = 0.0
        self.is_busy = False  # whether it has begun to take a message

    def wait_until_unused(self):
        """Wait for the end of all connections, whose sockets would outlive the event loop."""
        with contextlib.suppress(AssertionError):
            poll(lambda: not self.connections, 2)

    async def handle_MAIL(self, server, session, envelope, address, options):  # noqa: N802
        self.commands.append(("MAIL", address, options))
        time.sleep(self.mail_delay)
        envelope.mail_from = address
        return "250 2.1.0 sender ok"

    async def handle_RCPT(self, server, session, envelope, address, options):  # noqa: N802
        answer = self.answers.get(address, "250 2.1.5 recipient ok")
        if answer.startswith("2"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server, session, envelope):  # noqa: N802
        self.is_busy = True
        time.sleep(self.delay)
        self.messages.append((envelope.rcpt_tos, envelope.original_content))
        if isinstance(server, LMTP):
            return "\r\n".join(
                self.answers.get(f"data {recipient}", f"250 2.0.0 {recipient} has it")
                for recipient in envelope.rcpt_tos
            )
        return self.answers.get("DATA", "250 2.0.0 queued")


class LongServer(SMTP):
    line_length_limit = 1 << 20

    def connection_made(self, transport):
        super().connection_made(transport)
        getattr(self.event_handler, "connections", set()).add(self)

    def connection_lost(self, error):
        super().connection_lost(error)
        getattr(self.event_handler, "connections", set()).discard(self)


class LongLmtpServer(LongServer, LMTP):
    pass


class Serving:
    """`streamnb serve` with options, as a process."""

    def __init__(self, *options, lines=2, **popen_options):
        self.process = subprocess.Popen(
            [*STREAMNB, "serve", *map(str, options)],
            stderr=subprocess.PIPE,
            text=True,
            **popen_options,
        )
        # If a line does not arrive, the server ends, so the test fails and does not hang.
        guard = threading.Timer(120, self.process.kill)
        guard.start()
        self.lines = [self.process.stderr.readline() for _ in range(lines)]
        guard.cancel()
        assert "" not in self.lines, f"only {''.join(self.lines)!r} was printed"

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)  # the server ends within 30 s; the rest is for a busy machine
        output = self.process.stderr.read()
        assert "Traceback" not in output, output
        return output


class Web:
    """A client of the HTTP listener."""

    def __init__(self, port, token):
        self.port, self.token = port, token

    def __call__(self, method, path, body=None, **headers):
        with contextlib.closing(
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        ) as connection:
            return self.answered(connection, method, path, body, headers)

    def answered(self, connection, method, path, body, headers):
        headers = {"Authorization": f"Bearer {self.token}", **headers}
        connection.request(method, path, body, {k: v for k, v in headers.items() if v is not None})
        reply = connection.getresponse()
        data = reply.read()
        json_type = reply.headers["Content-Type"] == "application/json"
        return reply.status, json.loads(data) if json_type else data.decode()


def as_sent(message):
    """Return a message as SMTP can carry it: every line ends with CRLF."""
    message = re.sub(rb"\r?\n|\r", b"\r\n", message)
    return message if message.endswith(b"\r\n") else message + b"\r\n"


def poll(condition, seconds=120):
    """Wait until a condition is true; return its value."""
    until = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < until, "nothing came"
        select.select([], [], [], 0.02)
    return value


def port_of(process, listener):
    return next(int(m[1]) for line in process.lines
                if (m := re.search(rf":(\d+) \({listener}\)(?:\"}})?$", line)))  # fmt: skip


class MailServer:
    """A mail server that speaks to a milter, in packets of a length, a letter and data."""

    def __init__(self, port, steps=0x1FFFFF, actions=0x1FF):
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.stream = self.socket.makefile("rb")
        self.send(b"O", struct.pack("!LLL", 6, actions, steps))
        kind, options = self.read()
        assert kind == b"O"
        self.agreed = struct.unpack("!LLL", options)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stream.close()
        self.socket.close()

    def send(self, kind, data=b""):
        self.socket.sendall(struct.pack("!L", len(data) + 1) + kind + data)

    def read(self):
        packet = self.stream.read(struct.unpack("!L", self.stream.read(4))[0])
        return packet[:1], packet[1:]

    def bring(self, message, *fields):
        """Send a message with further fields; return the requested edits and the final answer."""
        header, _, body = message.partition(b"\r\n\r\n")
        for line in header.splitlines():
            self.send(b"L", line.replace(b": ", b"\0", 1) + b"\0")
        for field in fields:
            self.send(b"L", field)
        self.send(b"N")
        self.send(b"B", body)
        return self.end()

    def end(self):
        self.send(b"E")
        edits = []
        while (packet := self.read())[0] in b"mi":
            edits.append(packet)
        self.reply = packet[1]
        return edits, packet[0]
