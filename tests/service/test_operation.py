"""The server in operation: files that change, labels in the log, refusals, full listeners."""

import asyncio
import configparser
import contextlib
import json
import os
import shutil
import signal
import smtplib
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from commands import STREAMNB, streamnb_command
from ports import free_port
from serving import FIELD, HAM, SPAM, MailServer, Web, as_sent, poll, port_of, train
from test_serve import greet

from streamnb import Mailbox, MailClassifier
from streamnb.errors import ConfigError, ListenError, convert_os_errors
from streamnb.mailbox.service import api, server
from streamnb.mailbox.service.client import MailboxClient
from streamnb.mailbox.service.milter import milter
from streamnb.mailbox.service.monitor import Monitor
from streamnb.mailbox.service.server import Listener
from streamnb.mailbox.service.sockets import Address, listen
from streamnb.mailbox.watched_file import WatchedFile

XFORWARD = "XFORWARD NAME=x.example ADDR=192.0.2.1 IDENT=E1B116D260D"


def make_site_model(path, swapped=False, kind="snb"):
    labels = ("ham", "spam") if swapped else ("spam", "ham")
    partial = path.with_name("partial")
    if kind == "db":
        with Mailbox(partial) as box:
            train(box, 60, labels=labels)
    else:
        classifier = MailClassifier()
        for i in range(60):
            classifier.learn_one(SPAM % i, labels[0])
            classifier.learn_one(HAM % i, labels[1])
        classifier.save(partial)
    os.replace(partial, path)  # another file: a database in use must not change under its readers


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_an_answer_in_two_parts_does_not_wait_for_the_client(host):
    """Nagle's algorithm is off, so the second part does not wait for an acknowledgement."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"{host} is missing here")
    with (
        listening,
        socket.create_connection(listening.getsockname()[:2]),
        asyncio.run(server._accept_one(listening)) as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("kind", ["snb", "db"])
def test_the_model_of_a_site_is_used_as_soon_as_it_is_there_or_changes(
    serve, lmtp_sink, tmp_path, kind
):
    users, path, http = tmp_path / "users", tmp_path / "in", f"127.0.0.1:{free_port()}"
    environment = {**os.environ, "STREAMNB_USERS": str(users)}
    process = serve("--users", "--lmtp", path, "--next", lmtp_sink.address, "--http", http,
                    env=environment, lines=3)  # fmt: skip
    web = Web(port_of(process, "http"), (users / "metrics.token").read_text().strip())
    site = users / f"site.{kind}"

    def mark():
        with smtplib.LMTP() as client:
            client.connect(str(path))
            client.sendmail("a@b.c", ["ann@d.e"], SPAM % 99)
        match = FIELD.match(lmtp_sink.messages[-1][1])
        return match and match[1]

    def is_stale():
        return 'streamnb_stale_files{file="site"} 1.0' in web("GET", "/metrics")[1]

    assert mark() is None
    make_site_model(site, kind=kind)
    assert mark() == b"Spam"
    make_site_model(site, swapped=True, kind=kind)
    assert mark() == b"Ham"
    assert not is_stale()
    (users / "damaged").write_bytes(b"damaged")
    os.replace(users / "damaged", site)
    earlier = b"Ham" if kind == "snb" else None  # a database whose file is gone is not read
    assert [mark(), mark()] == [earlier, earlier]
    assert is_stale()
    make_site_model(site, kind=kind)
    assert mark() == b"Spam"
    assert not is_stale()
    warning = "the earlier content is used" if kind == "snb" else "the site's model is not used"
    lines = process.stop().splitlines()
    assert sum(warning in line for line in lines) == 1
    assert sum(str(site) in line for line in lines) >= 1


@pytest.mark.parametrize("listener", ["smtp", "milter"])
def test_a_listener_that_was_full_serves_all_who_come_later(serve, trained_db, smtp_sink, listener):
    options = ["--next", smtp_sink.address] if listener == "smtp" else []
    process = serve("--db", trained_db, f"--{listener}", "127.0.0.1:0", *options, lines=2)
    port = port_of(process, listener)
    limit = 20 if listener == "smtp" else 100
    for count in (limit, limit + 5, limit):
        connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
        for connection in connections:
            connection.close()
        if listener == "smtp":
            with smtplib.SMTP("127.0.0.1", port, timeout=60) as client:
                assert client.noop()[0] == 250
        else:
            with MailServer(port) as mail_server:
                assert mail_server.bring(HAM % 99)[1] in (b"a", b"c")


@pytest.mark.parametrize(("listener", "limit"), [("smtp", 20), ("milter", 100)])
def test_a_socket_that_outlives_a_killed_server_is_served_again(trained_db, listener, limit):
    """Connections wait in the socket of systemd while the server is killed."""
    begin = (
        "import os, sys; os.dup2(int(sys.argv[1]), 3); os.set_inheritable(3, True);"
        "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1', LISTEN_FDNAMES=sys.argv[2]);"
        "os.execv(sys.argv[3], sys.argv[3:])"
    )
    options = ["--next", "smtp:127.0.0.1:9"] if listener == "smtp" else []
    with socket.create_server(("127.0.0.1", 0), backlog=300) as listening:
        number, address = listening.fileno(), listening.getsockname()

        def start():
            process = subprocess.Popen(
                [sys.executable, "-c", begin, str(number), listener, *STREAMNB, "serve",
                 "--db", str(trained_db), *options],
                pass_fds=[number], stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            assert [process.stderr.readline() for _ in range(2)][1].startswith("listening")
            return process

        process = start()
        try:
            waiting = [socket.create_connection(address) for _ in range(limit + 100)]
            process.kill()
            process.communicate()
            for connection in waiting[::2]:
                connection.close()
            process = start()
            for connection in waiting[1::2]:
                connection.close()
            if listener == "smtp":
                with smtplib.SMTP(*address, timeout=60) as client:
                    assert client.noop()[0] == 250
            else:
                with MailServer(address[1]) as mail_server:
                    assert mail_server.bring(HAM % 99)[1] in (b"a", b"c")
        finally:
            process.kill()
            process.communicate()


def test_a_listener_that_lets_connections_wait_is_seen(monkeypatch):
    monkeypatch.setattr(server, "WAITING_S", 0.0)
    monitor = Monitor()
    scope = {"type": "http", "method": "GET", "path": "/health", "headers": [], "query_string": b""}
    health = []

    async def send(part):
        health.append(part)

    async def look():
        health.clear()
        mailboxes = SimpleNamespace(fault=None, single=None)
        await api.api(mailboxes, Monitor())(scope, None, send)
        assert health[0]["status"] == 200
        application = api.api(mailboxes, monitor)
        for waiting, status in ((False, 200), (True, 503), (False, 200)):
            with listen(Address(None, "127.0.0.1")) as listening:
                watch = server._AcceptWatch([Listener("smtp", listening, greet, 1)], monitor)
                if waiting:
                    with socket.create_connection(listening.getsockname()):
                        monkeypatch.setattr(server, "WAITING_S", 0.0)
                        watch.check()
                else:
                    monkeypatch.setattr(server, "WAITING_S", 60.0)
                    watch.check()
            health.clear()
            await application(scope, None, send)
            assert health[0]["status"] == status
            assert ("smtp" in json.loads(health[1]["body"]).get("error", "")) == waiting
            value = monitor.registry.get_sample_value("streamnb_accepting", {"listener": "smtp"})
            assert value == (not waiting)

    asyncio.run(look())


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_each_label_that_is_learned_through_the_server_is_in_the_log(serve, tmp_path, log_format):
    path, http = tmp_path / "mail.db", f"127.0.0.1:{free_port()}"
    with Mailbox(path) as box:
        train(box)
    process = serve("--db", path, "--http", http, "--log", log_format, lines=2)
    web = Web(port_of(process, "http"), (tmp_path / "mail.db.token").read_text().strip())
    message = b"Message-ID: <1@x>\n" + SPAM % 99
    web("POST", "/learn?label=ham", message)
    web("POST", "/learn?label=spam", message)
    web("POST", "/learn?label=a%0Ab", message)  # is refused, and is not in the log
    web("POST", "/forget", message)
    web("POST", "/classify?learn=sure", SPAM % 98)
    with MailboxClient(path, learn=True) as client:
        client.ask_server(SPAM % 97)
    samples = 'streamnb_labels_total{class="spam",listener="%s",result="learned"} 1.0'
    for listener in ("http", "ask"):
        poll(lambda name=listener: samples % name in web("GET", "/metrics")[1])
    lines = [line for line in process.stop().splitlines() if "label" in line]
    if log_format == "json":
        lines = [json.loads(line) for line in lines]
        actions = [(line["label"], line["action"]) for line in lines]
        assert lines[0]["message_id"] == "<1@x>"
    else:
        actions = [tuple(word.split("=")[1] for word in line.split()[-2:]) for line in lines]
        assert "message_id=<1@x>" in lines[0]
    assert actions[:4] == [("ham", "learned"), ("spam", "corrected"), ('""', "forgotten"),
                           ("spam", "learned")][:4] or actions[2][0] == ""  # fmt: skip
    assert len(actions) == 5


@pytest.mark.parametrize("kind", ["lmtp", "smtp"])
@pytest.mark.parametrize("text", ["E1B116D260D", "<77@example.org>", "e1b116d260d"])
def test_a_message_is_found_by_queue_id_and_message_id(
    serve, smtp_sink, tmp_path, trained_db, kind, text
):
    path = tmp_path / "mail.db"
    path.write_bytes(trained_db.read_bytes())
    process = serve("--db", path, f"--{kind}", "127.0.0.1:0", "--next", smtp_sink.address, lines=2)
    client_kind = smtplib.LMTP if kind == "lmtp" else smtplib.SMTP
    with client_kind("127.0.0.1", port_of(process, kind)) as client:
        client.ehlo()
        client.docmd(XFORWARD)
        client.sendmail(
            "a@b.c", ["ann@d.e"], as_sent(b"Message-ID: <77@example.org>\n" + SPAM % 99)
        )
    line = poll(lambda: streamnb_command("verdicts", "--find", text, "--db", path)[1])
    assert f"({kind} E1B116D260D <77@example.org>)" in line
    assert streamnb_command("verdicts", "--find", "4fWxyz12AbC", "--db", path)[:2] == (1, "")
    status, out, error = streamnb_command("verdicts", "--json", "--find", "none", "--db", path)
    assert (status, out, error.count("\n")) == (1, "", 1)


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_message_that_is_too_large_is_in_the_log(
    serve, smtp_sink, trained_db, tmp_path, is_announced
):
    process = serve("--db", trained_db, "--smtp", "127.0.0.1:0", "--next", smtp_sink.address,
                    lines=2)  # fmt: skip
    with smtplib.SMTP("127.0.0.1", port_of(process, "smtp"), timeout=60) as client:
        client.ehlo()
        if is_announced:
            code, _ = client.mail("a@b.c", ["SIZE=70000000"])
        else:
            client.mail("a@b.c")
            client.rcpt("ann@d.e")
            code, _ = client.data(as_sent(HAM % 1 + (b"x" * 998 + b"\r\n") * 53_000))
        assert code == 552
    (line,) = [line for line in process.stop().splitlines() if "size" in line]
    assert "52428800 bytes" in line


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can take on another user")
@pytest.mark.parametrize("owned", ["file", "folder"])
def test_an_error_names_another_owner(tmp_path, owned):
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o711)
    path = tmp_path / "mail.db"
    if owned == "file":
        with Mailbox(path) as box:
            box.learn(SPAM % 1, "spam")
        os.chmod(path, 0o600)
        os.chown(tmp_path, 12345, 12345)
    os.seteuid(12345)
    try:
        with pytest.raises(Exception, match=r"belongs to root; .* chown 12345 ") as raised:
            Mailbox(path)
    finally:
        os.seteuid(0)
    assert str(path if owned == "file" else tmp_path) in str(raised.value)


def test_a_folder_of_users_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("STREAMNB_USERS", str(tmp_path / "file" / "users"))
    status, _, error = streamnb_command("serve", "--users")
    assert (status, error.count("\n")) == (5, 1)
    assert "STREAMNB_USERS" in error
    assert str(tmp_path / "file" / "users") in error


@pytest.mark.parametrize("name", ["STREAMNB_USER", "STREAMNB_DBS", "STREAMNB_USRES"])
def test_a_variable_that_is_misspelt_is_named(serve, trained_db, name):
    process = serve("--db", trained_db, env={**os.environ, name: "x"}, lines=2)
    assert name in process.lines[0]
    assert "did you mean" in process.lines[0]


@pytest.mark.parametrize("name", ["STREAMNB_SERVERS", "STREAMNB_TESTS", "STREAMNB_URL", "STREAM"])
def test_other_variables_are_not_taken_for_misspelt_ones(serve, trained_db, name):
    process = serve("--db", trained_db, env={**os.environ, name: "x"}, lines=1)
    assert process.lines[0].startswith("listening on")


def test_locked_databases_delay_no_connection_of_a_milter(monkeypatch):
    """The milter uses the threads of the event loop."""
    monkeypatch.setattr(server.signal, "getsignal", lambda number: signal.SIG_IGN)
    barrier = threading.Barrier(100)
    mailboxes = SimpleNamespace(check_replaced=lambda: None)

    async def main(listeners):
        serving = asyncio.create_task(server._serve(mailboxes, listeners, print, Monitor()))
        await asyncio.sleep(0)
        await asyncio.gather(*(asyncio.to_thread(barrier.wait, 60) for _ in range(100)))
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        asyncio.run(main([Listener("milter", listening, milter(mailboxes), limit=100)]))


def test_a_restored_file_is_not_stale(tmp_path):
    path, warnings = tmp_path / "file", []
    path.write_text("first")
    watched = WatchedFile(str(path), read_text, warnings.append)
    path.rename(tmp_path / "moved")
    assert (watched.content, watched.content, watched.is_stale) == ("first", "first", True)
    assert len(warnings) == 1
    (tmp_path / "moved").rename(path)
    assert (watched.content, watched.is_stale) == ("first", False)


def test_a_file_that_cannot_be_read_is_stale(tmp_path):
    def read(path):
        if errors:
            raise errors.pop()
        return Path(path).read_text()

    path, warnings, errors = tmp_path / "file", [], []
    path.write_text("first")
    watched = WatchedFile(str(path), read, warnings.append)
    path.write_text("the second")
    errors += [OSError("Input/output error")]
    assert (watched.content, watched.content, watched.is_stale) == ("first", "first", True)
    assert warnings == ["the earlier content is used: Input/output error"]
    path.write_text("the third one")
    errors += [MemoryError()]
    with pytest.raises(MemoryError):
        _ = watched.content
    assert (watched.content, watched.is_stale) == ("the third one", False)


def read_text(path):
    with convert_os_errors(ConfigError, f"{path}: cannot be read"), open(path) as file:
        return file.read()


@pytest.mark.parametrize("is_watched", [True, False], ids=["watched", "not watched"])
def test_the_server_notifies_the_watchdog_of_systemd(serve, trained_db, tmp_path, is_watched):
    """A server that hangs tells nothing, so that systemd starts another one (WatchdogSec)."""
    variables = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    if is_watched:
        variables["WATCHDOG_USEC"] = "3000000"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(variables["NOTIFY_SOCKET"])
        notified.settimeout(60)
        process = serve("--db", trained_db, env={**os.environ, **variables}, lines=1)
        began = time.monotonic()
        states = [notified.recv(100) for _ in range(3 if is_watched else 1)]
        seconds = time.monotonic() - began
        process.stop()
        states.append(notified.recv(100))
    watchdogs = [b"WATCHDOG=1"] * (2 if is_watched else 0)
    assert states[: 1 + len(watchdogs)] == [b"READY=1", *watchdogs]
    assert is_watched or states[-1] == b"STOPPING=1"
    assert not is_watched or seconds > 1.2  # half of the time limit, not each second


def test_a_systemd_that_hangs_delays_no_mail(serve, trained_db, tmp_path):
    variables = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000000"}
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
    ):
        notified.bind(variables["NOTIFY_SOCKET"])
        notified.settimeout(60)
        sender.connect(variables["NOTIFY_SOCKET"])
        sender.setblocking(False)
        with contextlib.suppress(OSError):
            while True:
                sender.send(b"full")
        options = ("--db", trained_db, "--http", "127.0.0.1:0")
        process = serve(*options, env={**os.environ, **variables}, lines=2)
        web = Web(port_of(process, "http"), "")
        assert web("GET", "/health")[0] == 200
        states = (notified.recv(100) for _ in range(100_000))
        assert next(state for state in states if state != b"full") == b"READY=1"
        assert web("GET", "/health")[0] == 200


@pytest.mark.parametrize("name", ["streamnb", "streamnb-users"])
def test_systemd_never_gives_up(repository, name):
    """After five starts in ten seconds it would leave the service and its socket failed."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(repository / f"docs/systemd/{name}.service")
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"
    assert unit["Service"]["Restart"] == "always"
    assert float(unit["Service"]["RestartSec"]) > 1


@pytest.mark.parametrize("option", [None, "--base"])
def test_a_damaged_model_of_the_site_stops_no_mail_at_a_start(
    serve, lmtp_sink, tmp_path, trained_db, option
):
    """A crash can damage the default file, so mail must pass. A file named by an option may be misspelt."""
    users = tmp_path / "users"
    users.mkdir()
    shutil.copy(trained_db, users / "ann.db")
    (users / "site.db").write_bytes(b"SQLite format 3\0" + b"damaged" * 1000)
    arguments = ["--users", "--lmtp", tmp_path / "in", "--next", lmtp_sink.address]
    environment = {**os.environ, "STREAMNB_USERS": str(users)}
    if option is not None:
        command = [*STREAMNB, "serve", *map(str, arguments), option, users / "site.db"]
        assert subprocess.run(command, env=environment, capture_output=True, timeout=60).returncode
        return
    process = serve(*arguments, env=environment, lines=3)
    assert "the site's model is not used" in process.lines[0]
    with smtplib.LMTP() as client:
        client.connect(str(tmp_path / "in"))
        for user in ("ann", "new"):
            client.sendmail("x@y.z", [f"{user}@d.e"], SPAM % 99)
    first, second = (FIELD.match(content) for _, content in lmtp_sink.messages)
    assert first[1] == b"Spam"
    assert second is None


@pytest.mark.parametrize("listener", ["smtp", "milter"])
def test_a_damaged_database_stops_no_mail_at_a_start(
    serve, trained_db, smtp_sink, tmp_path, listener
):
    """The server passes mail unmarked, and uses a restored database without a restart."""
    path, http = tmp_path / "mail.db", f"127.0.0.1:{free_port()}"
    path.write_bytes(b"damaged" * 1000)
    assert streamnb_command("serve", "--db", path)[0] == 4  # no mail would wait
    arguments = ["--smtp", "127.0.0.1:0", "--next", smtp_sink.address]
    if listener == "milter":
        arguments = ["--milter", "127.0.0.1:0"]
    process = serve("--db", path, *arguments, "--http", http, lines=4)
    port = port_of(process, listener)
    web = Web(port_of(process, "http"), path.with_name("mail.db.metrics.token").read_text().strip())

    def is_marked():
        if listener == "milter":
            with MailServer(port) as mail_server:
                edits, verdict = mail_server.bring(SPAM % 99)
                assert verdict == b"a"
                return bool(edits)
        with smtplib.SMTP("127.0.0.1", port, timeout=30) as client:
            client.sendmail("a@b.c", ["ann@d.e"], SPAM % 99)
        return FIELD.match(smtp_sink.messages[-1][1]) is not None

    assert f"mail passes unmarked: {path}: " in process.lines[0]
    assert not is_marked()
    assert web("GET", "/health")[0] == 503
    assert 'streamnb_unmarked_total{cause="database"' in web("GET", "/metrics")[1]
    path.unlink()
    time.sleep(3)  # the server tries again after 1 and 2 seconds, but creates no empty database
    assert not path.exists()
    shutil.copy(trained_db, tmp_path / "copy")
    os.replace(tmp_path / "copy", path)
    poll(is_marked, 60)
    assert web("GET", "/health")[0] == 200
    process.stop()


def run_sql(path, script):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)


def zero_table(path, table):
    """Overwrite the first page of a table with zeros."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (page,) = connection.execute(query, (table,)).fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * 2048)
        file.write(bytes(2048))


PARTS = {
    "table of labels": (lambda path: run_sql(path, "DROP TABLE ledger"), True),
    "column": (lambda path: run_sql(path, "ALTER TABLE ledger RENAME receipt TO x"), True),
    "page": (lambda path: zero_table(path, "watched"), True),
    "counts": (lambda path: run_sql(path, "DROP TABLE blocks_1"), False),
    "content of counts": (lambda path: run_sql(path, "DELETE FROM blocks_1"), False),
}


@pytest.mark.parametrize(
    ("part", "is_damaged_first"),
    [*((part, True) for part in PARTS), ("counts", False), ("content of counts", False)],
)
def test_a_server_reports_each_damaged_part_of_its_database(
    serve, trained_db, tmp_path, part, is_damaged_first
):
    """Mail passes, and gets its verdict if that does not need the part."""
    damage, is_marked = PARTS[part]
    path = tmp_path / "mail.db"
    shutil.copy(trained_db, path)
    if is_damaged_first:
        damage(path)
    milter, http = free_port(), free_port()
    process = serve("--db", path, "--milter", f"127.0.0.1:{milter}", "--http", f"127.0.0.1:{http}")
    web = Web(http, path.with_name("mail.db.metrics.token").read_text().strip())
    if not is_damaged_first:
        assert web("GET", "/health")[0] == 200
        damage(path)
    with MailServer(milter) as mail_server:
        edits, verdict = mail_server.bring(SPAM % 99)
    assert (bool(edits), verdict) == (is_marked, b"a")
    poll(lambda: web("GET", "/health")[0] == 503)
    answer = web("GET", "/health")[1]
    assert answer["status"] == "damaged"
    assert f"{path}: " in answer["error"]
    assert "streamnb recover" in answer["error"]
    assert "streamnb_database_fault 1.0" in web("GET", "/metrics")[1]
    for suffix in ("", "-wal", "-shm"):
        path.with_name(f"mail.db{suffix}").unlink(missing_ok=True)
    shutil.copy(trained_db, tmp_path / "copy")
    os.replace(tmp_path / "copy", path)
    poll(lambda: web("GET", "/health")[0] == 200, 60)
    assert str(path) in "".join(process.lines) + process.stop()


@pytest.mark.parametrize("damaged_part", ["file", "table"])
@pytest.mark.parametrize("users", [False, True])
def test_the_model_of_the_site_gives_verdicts_for_a_damaged_database(
    serve, trained_db, tmp_path, users, damaged_part
):
    make_site_model(tmp_path / "site.snb")
    path = tmp_path / "ann.db"
    shutil.copy(trained_db, path)
    if damaged_part == "file":
        path.write_bytes(b"damaged" * 1000)
    else:
        run_sql(path, "DROP TABLE blocks_1")
    environment = {**os.environ, "STREAMNB_USERS": str(tmp_path)}
    owner = ["--users"] if users else ["--user", "ann"]
    milter, http = free_port(), free_port()
    process = serve(*owner, "--milter", f"127.0.0.1:{milter}", "--http", f"127.0.0.1:{http}",
                    env=environment)  # fmt: skip
    with MailServer(milter) as mail_server:
        mail_server.send(b"R", b"<ann@example.org>\0")
        edits, verdict = mail_server.bring(SPAM % 99)
    assert b"Spam" in edits[-1][1]
    assert verdict == b"a"
    (tmp_path / "mail.eml").write_bytes(SPAM % 99)
    command = [*STREAMNB, "classify", "--user", "ann", tmp_path / "mail.eml"]

    def classify():
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        return done.returncode, done.stdout[:2]

    if users:
        assert classify() == (0, b"S ")
    token = "metrics.token" if users else "ann.db.metrics.token"
    web = Web(http, (tmp_path / token).read_text().strip())
    assert web("GET", "/health")[0] == (200 if users else 503)
    if not users:
        owner_web = Web(http, (tmp_path / "ann.db.token").read_text().strip())
        assert owner_web("POST", "/classify", SPAM % 99)[1]["mark"] == "S"
        assert owner_web("POST", "/classify?learn=sure", SPAM % 99)[0] == 500
    assert "streamnb_database_fault 1.0" in web("GET", "/metrics")[1]
    if users:
        shutil.copy(trained_db, tmp_path / "copy.db")
        os.replace(tmp_path / "copy.db", path)
        for suffix in ("-wal", "-shm"):
            path.with_name(f"ann.db{suffix}").unlink(missing_ok=True)
        poll(lambda: classify() and "streamnb_database_fault 0.0" in web("GET", "/metrics")[1])
    assert "only the site's model is used: " in "".join(process.lines) + process.stop()


def test_a_command_and_a_server_report_the_same_damage(serve, tmp_path):
    """The exit status 75 would let a mail server try again for days."""
    path = tmp_path / "mail.db"
    path.write_bytes(b"damaged" * 1000)
    (tmp_path / "mail.eml").write_bytes(SPAM % 99)
    command = "classify", "--db", path, tmp_path / "mail.eml"
    alone = streamnb_command(*command)
    process = serve("--db", path, "--milter", "127.0.0.1:0", lines=3)
    assert streamnb_command(*command) == alone
    assert alone[0] == 3
    assert "restore it from a backup or an export" in alone[2]
    process.stop()


def test_a_full_disk_of_the_log_stops_no_mail(trained_db, smtp_sink):
    port = free_port()
    arguments = ["--smtp", f"127.0.0.1:{port}", "--next", smtp_sink.address, "--log", "text"]
    command = [*STREAMNB, "serve", "--db", str(trained_db), *arguments]
    with Path("/dev/full").open("w") as full, subprocess.Popen(command, stderr=full) as process:

        def is_listening():
            with (
                contextlib.suppress(OSError),
                smtplib.SMTP("127.0.0.1", port, timeout=30) as client,
            ):
                return client.sendmail("a@b.c", ["ann@d.e"], HAM % 1) == {}

        poll(is_listening)
        process.terminate()
        assert process.wait(30) == 0
    assert FIELD.match(smtp_sink.messages[0][1])


def test_a_path_that_is_too_long_for_a_socket_is_named(tmp_path):
    path = str(tmp_path / ("x" * 200))
    with pytest.raises(ListenError, match="choose a path of at most 107 bytes"):
        listen(Address(path))


def test_a_server_whose_database_has_learned_nothing_says_so(serve, tmp_path):
    process = serve("--db", tmp_path / "mail.db", lines=2)
    assert "it has learned nothing, so all verdicts are unsure" in process.lines[0]


@pytest.mark.parametrize("kind", ["folder", "database of another program", "URL"])
def test_a_wrong_name_of_the_database_stops_the_start(tmp_path, kind):
    """Waiting does not mend it, so mail would pass unmarked for ever."""
    path = "mysql://localhost/mail" if kind == "URL" else tmp_path / "other.db"
    if kind == "folder":
        path.mkdir()
    elif kind == "database of another program":
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE mail(text)")
    arguments = ["--smtp", "127.0.0.1:0", "--next", "smtp:127.0.0.1:1"]
    status, _, error = streamnb_command("serve", "--db", path, *arguments)
    assert status == 4
    assert str(path) in error


@pytest.mark.parametrize("base", [b"damaged", b"PK damaged", None])
@pytest.mark.parametrize("database", ["new", "trained", "damaged"])
def test_a_server_with_a_damaged_site_model_of_its_options_does_not_start(
    trained_db, tmp_path, base, database
):
    path, site = tmp_path / "mail.db", tmp_path / "site.snb"
    if base is not None:
        site.write_bytes(base)
    if database == "trained":
        shutil.copy(trained_db, path)
    elif database == "damaged":
        path.write_bytes(b"damaged" * 1000)
    arguments = ["--smtp", "127.0.0.1:0", "--next", "smtp:127.0.0.1:1"]
    status, _, error = streamnb_command("serve", "--db", path, "--base", site, *arguments)
    assert status == 4
    assert str(site) in error
    assert path.exists() == (database != "new")


def test_a_damaged_site_model_in_the_folder_of_users_does_not_stop_a_server_of_one_user(
    serve, trained_db, smtp_sink, tmp_path
):
    """Nobody named it, so mail must flow after a crash, with the verdicts of the user."""
    shutil.copy(trained_db, tmp_path / "ann.db")
    (tmp_path / "site.snb").write_bytes(b"damaged")
    process = serve(
        "--user", "ann", "--smtp", "127.0.0.1:0", "--next", smtp_sink.address,
        env={**os.environ, "STREAMNB_USERS": str(tmp_path)},
    )  # fmt: skip
    with smtplib.SMTP("127.0.0.1", port_of(process, "smtp"), timeout=30) as client:
        client.sendmail("a@b.c", ["ann@d.e"], SPAM % 99)
    assert FIELD.match(smtp_sink.messages[0][1])[1] == b"Spam"
    assert "the site's model is not used" in process.stop()
