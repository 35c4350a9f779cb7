"""Restarts and upgrades under load: no message is lost, doubled, or refused for good."""

import itertools
import signal
import smtplib
import socket
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
from commands import STREAMNB
from serving import HAM

RESTARTS = 4
CLIENTS = 4
# Passes the descriptor in its first argument on as systemd does, and runs the rest.
AS_SYSTEMD = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.set_inheritable(3, True);"
    "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1', LISTEN_FDNAMES='smtp');"
    "os.execv(sys.argv[2], sys.argv[2:])"
)


class Service:
    """A server that is restarted on the same port: on its own socket, or on one of systemd."""

    def __init__(self, database, next_hop, is_activated):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        command = [*STREAMNB, "serve", "--db", str(database), "--next", next_hop]
        if is_activated:
            descriptor = self.socket.fileno()
            self.command = [sys.executable, "-c", AS_SYSTEMD, str(descriptor), *command]
            self.descriptors = (descriptor,)
        else:
            self.socket.close()
            self.command = [*command, "--smtp", f"127.0.0.1:{self.port}"]
            self.descriptors = ()

    def start(self):
        self.process = subprocess.Popen(
            self.command, stderr=subprocess.PIPE, text=True, pass_fds=self.descriptors
        )
        for _ in range(2):
            self.process.stderr.readline()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, errors

    def close(self):
        if self.process.poll() is None:
            self.stop()
        self.socket.close()


def send_all(port, numbers, failures):
    """Send messages as a mail server does: what was not answered with 250 is sent again."""
    waiting = next(numbers, None)
    while waiting is not None:
        try:
            with smtplib.SMTP("127.0.0.1", port, timeout=60) as client:
                while waiting is not None:
                    client.sendmail("a@b.c", ["ann@d.e"], HAM % waiting)
                    waiting = next(numbers, None)
        except smtplib.SMTPResponseException as error:
            failures.append(error.smtp_code)
        except smtplib.SMTPRecipientsRefused as error:
            failures.extend(code for code, _ in error.recipients.values())
        except OSError as error:  # SMTPServerDisconnected, too
            failures.append(type(error).__name__)
            time.sleep(0.01)


@pytest.mark.parametrize("is_activated", [False, True])
def test_a_restart_under_load_loses_and_doubles_nothing(trained_db, smtp_sink, full, is_activated):
    count = 1000 if full else 300
    service = Service(trained_db, smtp_sink.address, is_activated)
    service.start()
    numbers, lock = itertools.count(), threading.Lock()

    def next_numbers():
        while True:
            with lock:
                number = next(numbers)
            if number >= count:
                return
            yield number

    failures = []
    clients = [
        threading.Thread(target=send_all, args=(service.port, next_numbers(), failures))
        for _ in range(CLIENTS)
    ]
    try:
        for client in clients:
            client.start()
        for restart in range(1, RESTARTS + 1):
            while len(smtp_sink.messages) < restart * count // (RESTARTS + 1):
                assert any(client.is_alive() for client in clients)
                time.sleep(0.001)
            assert service.stop() == (0, "")
            service.start()
        for client in clients:
            client.join(120)
    finally:
        service.close()
    delivered = Counter(
        content.split(b"lunch ")[1].split(b"\r")[0] for _, content in smtp_sink.messages
    )
    assert set(delivered.values()) == {1}
    assert sorted(map(int, delivered)) == list(range(count))
    assert not {code for code in failures if isinstance(code, int) and code >= 500}
    if is_activated:
        assert "ConnectionRefusedError" not in failures
