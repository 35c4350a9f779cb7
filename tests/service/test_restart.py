"""Restarts and upgrades under load: no message is lost, doubled, or refused for good."""

import os
import signal
import smtplib
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
from commands import STREAMNB
from serving import HAM, MailServer, port_of
from test_memory import listening

from streamnb import Mailbox
from streamnb.cli.server_process import parse_hop
from streamnb.mailbox.service.client import MailboxClient
from streamnb.mailbox.service.handover import notify_predecessor
from streamnb.mailbox.service.mailboxes import Mailboxes
from streamnb.mailbox.service.proxy import proxy
from streamnb.mailbox.service.server import START_S

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

    def start(self, **options):
        self.process = subprocess.Popen(
            self.command, stderr=subprocess.PIPE, text=True, pass_fds=self.descriptors, **options
        )
        for _ in range(2):
            self.process.stderr.readline()

    def restart(self):
        assert self.stop() == (0, "")
        self.start()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, errors

    def close(self):
        if self.process.poll() is None:
            self.stop()
        self.socket.close()


class Systemd:
    """Receives the states of a service, as systemd does."""

    def __init__(self, folder):
        path = str(folder / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.socket.settimeout(60)
        self.states = []
        # No terminal, because its end ends a server, too.
        self.options = {"env": {**os.environ, "NOTIFY_SOCKET": path}, "start_new_session": True}

    def value_of(self, name):
        """Wait for the next value of a variable. Close the descriptors that come meanwhile."""
        while True:
            text, descriptors, _, _ = socket.recv_fds(self.socket, 1000, 4)
            for descriptor in descriptors:
                os.close(descriptor)
            self.states.append(text.decode())
            values = dict(line.split("=", 1) for line in text.decode().splitlines())
            if name in values:
                return values[name]


@pytest.fixture
def systemd(tmp_path):
    systemd = Systemd(tmp_path)
    yield systemd
    systemd.socket.close()


class ReloadedService(Service):
    """A service whose process is replaced without a stop."""

    def __init__(self, systemd, *arguments):
        super().__init__(*arguments)
        self.systemd = systemd

    def start(self):
        super().start(**self.systemd.options)
        self.pid = self.process.pid

    def restart(self):
        os.kill(self.pid, signal.SIGHUP)
        self.pid = int(self.systemd.value_of("MAINPID"))
        assert self.systemd.value_of("BARRIER") == "1"

    def stop(self):
        os.kill(self.pid, signal.SIGTERM)
        # All processes write to this pipe; it ends with the last one.
        assert "Traceback" not in self.process.stderr.read()
        self.process.communicate(timeout=30)

    def close(self):
        self.stop()
        self.socket.close()


class Load:
    """Clients that send messages like mail servers: a message without a 250 is sent again."""

    def __init__(self, port, count):
        self.port = port
        self.numbers, self.lock = iter(range(count)), threading.Lock()
        self.failures = []
        self.longest_s = 0.0  # from the first attempt to send a message until its 250
        self.threads = [threading.Thread(target=self.send_all) for _ in range(CLIENTS)]

    def next_number(self):
        with self.lock:
            return next(self.numbers, None)

    def send_all(self):
        number, started = self.next_number(), time.monotonic()
        while number is not None:
            try:
                with smtplib.SMTP("127.0.0.1", self.port, timeout=60) as client:
                    while number is not None:
                        client.sendmail("a@b.c", ["ann@d.e"], HAM % number)
                        self.longest_s = max(self.longest_s, time.monotonic() - started)
                        number, started = self.next_number(), time.monotonic()
            except smtplib.SMTPResponseException as error:
                self.failures.append(error.smtp_code)
            except smtplib.SMTPRecipientsRefused as error:
                self.failures.extend(code for code, _ in error.recipients.values())
            except OSError as error:  # SMTPServerDisconnected, too
                self.failures.append(type(error).__name__)
                time.sleep(0.01)


def restart_under_load(service, sink, count):
    """Return the clients, and the number of deliveries of each message."""
    service.start()
    load = Load(service.port, count)
    try:
        for thread in load.threads:
            thread.start()
        for restart in range(1, RESTARTS + 1):
            while len(sink.messages) < restart * count // (RESTARTS + 1):
                assert any(thread.is_alive() for thread in load.threads)
                time.sleep(0.001)
            service.restart()
        for thread in load.threads:
            thread.join(120)
    finally:
        service.close()
    numbers = [int(content.split(b"lunch ")[1].split(b"\r")[0]) for _, content in sink.messages]
    return load, Counter(numbers)


@pytest.mark.parametrize("is_activated", [False, True])
def test_a_restart_under_load_loses_and_doubles_nothing(trained_db, smtp_sink, full, is_activated):
    count = 1000 if full else 300
    service = Service(trained_db, smtp_sink.address, is_activated)
    load, delivered = restart_under_load(service, smtp_sink, count)
    assert delivered == Counter(range(count))
    assert not {code for code in load.failures if isinstance(code, int) and code >= 500}
    if is_activated:
        assert "ConnectionRefusedError" not in load.failures


@pytest.mark.parametrize("is_activated", [False, True])
def test_a_reload_under_load_loses_and_doubles_nothing_and_refuses_no_connection(
    trained_db, smtp_sink, full, systemd, is_activated
):
    count = 1000 if full else 300
    service = ReloadedService(systemd, trained_db, smtp_sink.address, is_activated)
    load, delivered = restart_under_load(service, smtp_sink, count)
    assert service.pid != service.process.pid
    assert delivered == Counter(range(count))
    assert not {code for code in load.failures if isinstance(code, int) and code >= 500}
    assert "ConnectionRefusedError" not in load.failures


def test_a_reloaded_server_notifies_systemd_and_removes_its_sockets_when_it_stops(
    serve, trained_db, systemd, tmp_path
):
    path = tmp_path / "smtp"
    options = ["--db", trained_db, "--smtp", path, "--next", "smtp:127.0.0.1:9"]
    process = serve(*options, **systemd.options).process
    process.send_signal(signal.SIGHUP)
    pid = int(systemd.value_of("MAINPID"))
    systemd.value_of("BARRIER")
    assert process.wait(60) == 0
    assert path.exists()
    with MailboxClient(trained_db) as client:
        assert client.ask_server(HAM % 99).mark == "H"
    os.kill(pid, signal.SIGTERM)
    process.stderr.read()
    assert not path.exists()
    systemd.value_of("STOPPING")
    assert systemd.states == [
        "READY=1", "RELOADING=1", f"MAINPID={pid}\nREADY=1\nWATCHDOG=1", "BARRIER=1", "STOPPING=1"
    ]  # fmt: skip


@pytest.mark.parametrize("value", [None, "", "x", "1", "999:ask", "9" * 30, "-1:", ":"])
def test_a_variable_that_no_predecessor_set_is_ignored(monkeypatch, value):
    if value is not None:
        monkeypatch.setenv("STREAMNB_HANDOVER", value)
    assert notify_predecessor() is False
    assert "STREAMNB_HANDOVER" not in os.environ


def test_a_server_continues_if_its_successor_cannot_start(
    serve, trained_db, smtp_sink, systemd, tmp_path
):
    aliases = tmp_path / "aliases"
    aliases.write_text("")
    systemd.options["env"]["STREAMNB_USERS"] = str(trained_db.parent)
    options = ["--users", "--aliases", aliases, "--smtp", "127.0.0.1:0"]
    process = serve(*options, "--next", smtp_sink.address, **systemd.options)
    aliases.write_text("no line of aliases")
    process.process.send_signal(signal.SIGHUP)
    assert systemd.value_of("RELOADING") == "1"
    assert systemd.value_of("READY") == "1"
    with smtplib.SMTP("127.0.0.1", port_of(process, "smtp"), timeout=60) as client:
        assert client.sendmail("a@b.c", ["mail@d.e"], HAM % 1) == {}
    assert "the new process could not start" in process.stop()


XFORWARD = "XFORWARD NAME=client.example ADDR=192.0.2.1"


def run_until_success(attempt):
    """Attempt three times: a machine that stalls for `START_S` fails one of them."""
    for tries_left in (2, 1, 0):
        try:
            attempt()
        except (OSError, struct.error):  # the server has closed the connection
            if not tries_left:
                raise
        else:
            return


@pytest.mark.parametrize("commands", [[], ["EHLO a.b"], ["EHLO a.b", XFORWARD]], ids=len)
def test_a_server_that_ends_takes_the_message_of_a_new_connection(
    serve, trained_db, smtp_sink, commands
):
    """Postfix holds a message for 5 minutes if its new connection ends before MAIL is answered."""

    def send_during_the_end():
        process = serve("--db", trained_db, "--smtp", "127.0.0.1:0", "--next", smtp_sink.address)
        with smtplib.SMTP("127.0.0.1", port_of(process, "smtp"), timeout=30) as client:
            for command in commands:
                assert client.docmd(command)[0] == 250
            process.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            assert client.sendmail("a@b.c", ["ann@d.e"], HAM % 1) == {}
        assert process.process.wait(30) == 0

    run_until_success(send_during_the_end)
    assert len(smtp_sink.messages) == 1


def test_a_server_that_ends_waits_for_each_command_before_a_message(serve, trained_db, smtp_sink):
    """Each pause is shorter than `START_S`, and all of them together are longer."""

    def send_slowly():
        process = serve("--db", trained_db, "--smtp", "127.0.0.1:0", "--next", smtp_sink.address)
        with smtplib.SMTP("127.0.0.1", port_of(process, "smtp"), timeout=30) as client:
            process.process.send_signal(signal.SIGTERM)
            for command in ("EHLO a.b", "NOOP", XFORWARD):
                time.sleep(0.5 * START_S)
                assert client.docmd(command)[0] == 250
            time.sleep(0.5 * START_S)
            assert client.sendmail("a@b.c", ["ann@d.e"], HAM % 1) == {}
        assert process.process.wait(30) == 0

    run_until_success(send_slowly)
    assert len(smtp_sink.messages) == 1


@pytest.mark.parametrize("is_ending", [False, True])
@pytest.mark.parametrize("commands", [["RSET"], ["RSET", XFORWARD]], ids=len)
def test_a_server_that_ends_takes_the_next_message_of_a_checked_connection(
    serve, trained_db, smtp_sink, commands, is_ending
):
    """Postfix checks a used connection by RSET; it holds the message if it then ends before MAIL."""

    def send_again():
        process = serve("--db", trained_db, "--smtp", "127.0.0.1:0", "--next", smtp_sink.address)
        with smtplib.SMTP("127.0.0.1", port_of(process, "smtp"), timeout=30) as client:
            client.sendmail("a@b.c", ["ann@d.e"], HAM % 1)
            for command in commands:
                assert client.docmd(command)[0] == 250
            process.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            if is_ending:
                assert client.docmd("RSET")[0] == 250
            assert client.sendmail("a@b.c", ["ann@d.e"], HAM % 2) == {}
        assert process.process.wait(30) == 0

    run_until_success(send_again)
    assert len(smtp_sink.messages) >= 2


@pytest.mark.parametrize("delay_s", [0.5, 1.5])  # less and more than `START_S`
def test_a_server_that_ends_takes_a_message_whose_sender_the_next_hop_still_checks(
    serve, trained_db, smtp_sink, delay_s
):
    process = serve("--db", trained_db, "--smtp", "127.0.0.1:0", "--next", smtp_sink.address)
    with smtplib.SMTP("127.0.0.1", port_of(process, "smtp"), timeout=30) as client:
        client.sendmail("a@b.c", ["ann@d.e"], HAM % 1)
        smtp_sink.mail_delay = delay_s
        client.putcmd("MAIL FROM:<a@b.c>")
        time.sleep(0.2)
        process.process.send_signal(signal.SIGTERM)
        assert client.getreply()[0] == 250
        assert client.rcpt("ann@d.e")[0] == 250
        assert client.data(HAM % 2)[0] == 250
    assert process.process.wait(30) == 0
    assert len(smtp_sink.messages) == 2


@pytest.mark.parametrize("envelope", [b"", b"M", b"MR"])
def test_a_milter_that_ends_gives_the_verdict_on_a_begun_message(serve, trained_db, envelope):
    """Postfix would accept the message unmarked, even if it is spam to refuse."""

    def bring_during_the_end():
        process = serve("--db", trained_db, "--milter", "127.0.0.1:0")
        port = port_of(process, "milter")
        with MailServer(port) as server, MailServer(port) as used:
            used.bring(HAM % 1)
            for kind in envelope:
                server.send(bytes([kind]), b"<ann@d.e>\0")
            time.sleep(0.2)
            process.process.send_signal(signal.SIGTERM)
            assert used.stream.read() == b""  # its message is answered, so it ends at once
            edits, ending = server.bring(HAM % 2)
            assert ending == b"a"
            assert b"Ham" in edits[-1][1]
        assert process.process.wait(30) == 0

    run_until_success(bring_during_the_end)


def test_the_end_of_a_connection_waits_for_a_verdict_that_is_being_recorded(
    trained_db, smtp_sink, monkeypatch
):
    """The database closes next, and the verdict would be lost."""
    is_recording, may_end = threading.Event(), threading.Event()
    recorded = []

    def record_slowly(*arguments):
        is_recording.set()
        assert may_end.wait(60)
        recorded.append(arguments)

    with Mailbox(trained_db) as mailbox:
        mailboxes = Mailboxes(mailbox)
        monkeypatch.setattr(mailboxes, "record", record_slowly)
        with listening("smtp", lambda: proxy(parse_hop(smtp_sink.address), mailboxes)) as port:
            with smtplib.SMTP("127.0.0.1", port, timeout=60) as client:
                client.sendmail("a@b.c", ["ann@d.e"], HAM % 1)
                assert is_recording.wait(60)
            threading.Timer(0.3, may_end.set).start()
        assert len(recorded) == 1


def test_clients_that_send_nothing_do_not_delay_the_end(serve, trained_db, smtp_sink):
    process = serve(
        "--db", trained_db, "--smtp", "127.0.0.1:0", "--milter", "127.0.0.1:0",
        "--next", smtp_sink.address, lines=3,
    )  # fmt: skip
    smtp, milter = (port_of(process, name) for name in ("smtp", "milter"))
    with smtplib.SMTP("127.0.0.1", smtp, timeout=30), MailServer(milter) as server:
        server.send(b"M", b"<a@b.c>\0")
        process.process.send_signal(signal.SIGTERM)
        assert process.process.wait(10) == 0  # of `DRAIN_S`, 20 s


def test_a_message_that_was_refused_does_not_delay_the_end(serve, trained_db, smtp_sink):
    process = serve("--db", trained_db, "--smtp", "127.0.0.1:0", "--next", smtp_sink.address)
    with smtplib.SMTP("127.0.0.1", port_of(process, "smtp"), timeout=30) as client:
        client.ehlo()
        client.mail("a@b.c")
        client.rcpt("ann@d.e")
        code, _ = client.data(b"x" * (50 << 20) + b"x")  # more than the limit of 50 MiB
        assert code == 552
        process.process.send_signal(signal.SIGTERM)
        assert process.process.wait(10) == 0  # of `DRAIN_S`, 20 s


def test_a_start_imports_no_module_of_http_before_mail_can_come(tmp_path):
    """Mail waits during the start of a server."""
    options = [
        "serve",
        "--users",
        "--lmtp",
        "127.0.0.1:0",
        "--next",
        "lmtp:/x",
        "--http",
        "127.0.0.1:0",
    ]
    program = [STREAMNB[0], "-X", "importtime", *STREAMNB[1:], *options]
    environment = {**os.environ, "STREAMNB_USERS": str(tmp_path)}
    imported = set()
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stderr:
            imported.add(line.rpartition("|")[2].strip())
            if "(http)" in line:
                break
        process.terminate()
        process.stderr.read()
    assert "streamnb.mailbox.service.proxy" in imported
    assert not imported & {
        "prometheus_client",
        "starlette",
        "uvicorn",
        "streamnb.mailbox.service.api",
    }


@pytest.mark.performance
def test_a_restart_by_socket_activation_delays_no_message_by_more_than_a_second(
    trained_db, smtp_sink
):
    service = Service(trained_db, smtp_sink.address, is_activated=True)
    load, _ = restart_under_load(service, smtp_sink, count=300)
    assert load.longest_s < 1.0


@pytest.mark.performance
def test_a_reload_delays_no_message_by_half_a_second(trained_db, smtp_sink, systemd):
    service = ReloadedService(systemd, trained_db, smtp_sink.address, True)
    load, _ = restart_under_load(service, smtp_sink, count=300)
    assert load.longest_s < 0.5
