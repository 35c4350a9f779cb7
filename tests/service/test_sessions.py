"""Sessions of mail servers that are slow, are cut, or meet an error of the program."""

import contextlib
import fcntl
import os
import re
import signal
import smtplib
import socket
import ssl
import subprocess
import sys
import termios
import threading
import time
import types
from pathlib import Path

import pytest
from commands import STREAMNB
from serving import HAM, SPAM, MailServer, as_sent, poll, port_of
from test_memory import listening

from streamnb import Mailbox
from streamnb.errors import ConfigError
from streamnb.mailbox.service import next_hop, server
from streamnb.mailbox.service import proxy as proxying
from streamnb.mailbox.service.certificate import watch_certificate
from streamnb.mailbox.service.client import MailboxClient
from streamnb.mailbox.service.mailboxes import Mailboxes
from streamnb.mailbox.service.monitor import Monitor
from streamnb.mailbox.service.next_hop import LATER, NextHop
from streamnb.mailbox.service.proxy import proxy
from streamnb.mailbox.service.sockets import parse_address


@pytest.fixture
def relay(mailboxes, smtp_sink):
    hop = NextHop(False, parse_address(smtp_sink.address.removeprefix("smtp:")))
    with listening("smtp", lambda: proxy(hop, mailboxes)) as port:
        yield port


@pytest.mark.parametrize(
    ("step", "method"),
    [(0, "begin"), (1, "add_recipient"), (2, "send")],
    ids=["MAIL", "RCPT", "DATA"],
)
def test_an_error_of_the_program_defers_a_message(relay, smtp_sink, monkeypatch, step, method):
    """A 5xx would bounce the message."""

    def fail(*_):
        raise RuntimeError("can't start new thread")

    with smtplib.SMTP("127.0.0.1", relay, timeout=30) as client:
        client.ehlo()
        monkeypatch.setattr(next_hop.HopClient, method, fail)
        steps = (
            lambda: client.mail("a@b.c"),
            lambda: client.rcpt("d@e.f"),
            lambda: client.data(HAM % 1),
        )
        codes = [act()[0] for act in steps[: step + 1]]
        monkeypatch.undo()
        assert codes == [250] * step + [451]
        client.rset()
        client.sendmail("a@b.c", ["ann@d.e"], HAM % 2)
    assert len(smtp_sink.messages) == 1


@pytest.mark.parametrize("lmtp", [False, True], ids=["smtp", "lmtp"])
@pytest.mark.parametrize("recipients", [1, 2])
def test_an_error_of_the_program_ends_the_transaction(
    mailboxes, smtp_sink, monkeypatch, lmtp, recipients
):
    """LMTP has a reply for each recipient. The next message needs no RSET."""

    def fail(*_):
        raise RuntimeError("can't start new thread")

    hop = NextHop(False, parse_address(smtp_sink.address.removeprefix("smtp:")))
    kind = smtplib.LMTP if lmtp else smtplib.SMTP
    with (
        listening("mail", lambda: proxy(hop, mailboxes, lmtp=lmtp)) as port,
        kind("127.0.0.1", port, timeout=30) as client,
    ):
        client.ehlo()
        for is_failing in (True, False):
            assert client.mail("a@b.c")[0] == 250
            for i in range(recipients):
                client.rcpt(f"ann{i}@d.e")
            with monkeypatch.context() as patch:
                if is_failing:
                    patch.setattr(next_hop.HopClient, "send", fail)
                codes = [client.data(HAM % 1)[0]]
                codes += [client.getreply()[0] for _ in range(recipients - 1 if lmtp else 0)]
            assert set(codes) == {451 if is_failing else 250}
        assert client.noop()[0] == 250
    assert len(smtp_sink.messages) == 1


@pytest.mark.parametrize("cause", ["database", "log"])
def test_a_delivered_message_is_not_deferred(users_mailboxes, users, monkeypatch, cause):
    """A user's database appears, or the log fails, while the next hop works on the message."""

    def answer(number, mails, command):
        if command == b"." and cause == "database":
            Mailbox(users / "ann+lists.db").close()
        return usual(command)

    def fail(*_):
        raise OSError("no space left on device")

    if cause == "log":
        monkeypatch.setattr(Monitor, "message", fail)
    hop = ScriptedHop(answer)
    with (
        listening("smtp", lambda: proxy(NextHop(False, hop.address), users_mailboxes)) as port,
        smtplib.SMTP("127.0.0.1", port, timeout=30) as client,
    ):
        client.ehlo()
        assert client.sendmail("a@b.c", ["ann+lists@d.e"], HAM % 1) == {}
    hop.close()
    assert len(hop.messages) == 1


@pytest.fixture
def users(tmp_path, monkeypatch):
    monkeypatch.setenv("STREAMNB_USERS", str(tmp_path))
    Mailbox(tmp_path / "ann.db").close()
    return tmp_path


@pytest.fixture
def users_mailboxes(users):
    mailboxes = Mailboxes(None)
    yield mailboxes
    mailboxes.close()


class Cut(bytes):
    """A reply without its line end, after which the next hop closes the connection."""


class ScriptedHop:
    """A next hop that calls `answer(connection_number, mails, word)` for each command."""

    def __init__(self, answer):
        self.answer = answer
        self.messages, self.commands = [], []
        self.connections = 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = parse_address(f"127.0.0.1:{self.listening.getsockname()[1]}")
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            self.connections += 1
            with (
                contextlib.suppress(ConnectionError),  # the client closed the connection
                connection,
                connection.makefile("rb") as lines,
            ):
                self.talk(connection, lines, self.connections)

    def talk(self, connection, lines, number):
        connection.sendall(b"220 hop\r\n")
        mails = 0
        for line in lines:
            self.commands.append(line.decode().removesuffix("\r\n"))
            word = line[:4].upper()
            mails += word == b"MAIL"
            reply = self.answer(number, mails, word) or b"250 ok"
            connection.sendall(reply + b"\r\n" * (type(reply) is bytes))
            if reply.startswith((b"421", b"221")) or isinstance(reply, Cut):
                return
            if reply.startswith(b"354"):
                self.messages.append(b"".join(iter(lines.readline, b".\r\n")))
                reply = self.answer(number, mails, b".") or b"250 ok"
                connection.sendall(reply + b"\r\n" * (type(reply) is bytes))
                if isinstance(reply, Cut):
                    return

    def close(self):
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()


def usual(word):
    return {b"DATA": b"354 go", b"QUIT": b"221 bye"}.get(word)


@pytest.fixture
def scripted(mailboxes):
    hops = []

    def make(answer):
        hops.append(ScriptedHop(answer))
        return hops[-1], lambda: proxy(NextHop(False, hops[-1].address), mailboxes)

    yield make
    for hop in hops:
        hop.close()


@pytest.mark.parametrize(
    "address",
    [
        "<a.@d.example>", "<.a@d.example>", "<a@d.example.>", "<a(b)@d.example>", "<a b@d.example>",
        "<a,b@d.example>", "<a;b@d.example>", "<a:b@d.example>", "<a@b@d.example>", "<postmaster>",
        "<=?utf-8?q?root?=@d.example>", "<=?utf-8?q?root=40x.example=3e?=@d.example>",
        "<a\\@b@d.example>", '<"a>b"@d.example>', '<"a\\"b"@d.example>', "<@r.example:a@d.example>",
        "<a@[IPv6:2001:db8::1]>", "<SRS0=h=t=x.example=a@d.example>",
    ],
)  # fmt: skip
def test_addresses_reach_the_next_hop_unchanged(scripted, address):
    """The next hop decides which addresses exist. Another address gives mail to other people."""
    hop, make_handler = scripted(lambda number, mails, command: usual(command))
    with (
        listening("smtp", make_handler) as port,
        smtplib.SMTP("127.0.0.1", port, timeout=30) as client,
    ):
        client.ehlo()
        assert client.docmd(f"MAIL FROM:{address} SIZE=20")[0] == 250
        assert client.docmd(f"RCPT TO:{address}")[0] == 250
    sent = [command for command in hop.commands if command[:4] in ("MAIL", "RCPT")]
    assert sent == [f"MAIL FROM:{address}", f"RCPT TO:{address}"]


def test_a_recipient_without_an_address_is_refused(relay, smtp_sink):
    with smtplib.SMTP("127.0.0.1", relay, timeout=30) as client:
        client.ehlo()
        assert client.docmd("MAIL FROM:<>")[0] == 250
        assert client.docmd("RCPT TO:<>")[0] == 501
        client.send("RCPT TO:<a\rb@d.example>\r\n")  # some servers would read two commands
        assert client.getreply()[0] == 553
        assert client.docmd("RCPT TO:<c@d.example>")[0] == 250
        assert client.data(HAM % 1)[0] == 250
    assert smtp_sink.messages[0][0] == ["c@d.example"]


@pytest.mark.parametrize("step", [b"RCPT", b"DATA", b"."])
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"300 x", None),
        (b"399 x", None),
        (b"550 gr\xc3\xbc\xdf a\0b\x1b[2Jc\x0bd", b"gr??? a?b?[2Jc d"),
        (b"450-a\r\n450 b", b"a b"),
        (b"599 x", b"x"),
        (b"550-a\r\n250 b", None),
        (b"250-a\r\n550-b\r\n250 c", None),
        (b"250-a\r\nb", None),
        (b"2500 x", None),
        (b"250_x", None),
        (b"250 " + b"x" * 9999, None),
        (Cut(b"250 ok"), None),
        (Cut(b"250"), None),
        (Cut(b"250-a\r\n250"), None),
        (Cut(b"2"), None),
        (b"hello", None),
        (b"\xff\xfe\0", None),
    ],
)
def test_each_answer_of_the_next_hop_becomes_a_final_printable_reply(
    scripted, step, answer, expected
):
    """A client may take another reply, such as 354, for success."""
    _, make_handler = scripted(lambda *place: answer if place == (1, 1, step) else usual(place[2]))
    with (
        listening("smtp", make_handler) as port,
        smtplib.SMTP("127.0.0.1", port, timeout=30) as client,
    ):
        client.ehlo()
        commands = "MAIL FROM:<a@b.c>", "RCPT TO:<d@e.f>"
        replies = []
        for command in (*commands, "DATA"):
            replies.append(client.docmd(command))
            if replies[-1][0] >= 400:
                break
        else:
            client.send(HAM % 1 + b".\r\n")
            replies.append(client.getreply())
        code, text = replies[-1]
        assert code == (int(answer[:3]) if expected else 451)
        assert text == (expected or LATER.encode()[4:])
        client.rset()
        assert client.sendmail("a@b.c", ["d@e.f"], HAM % 2) == {}


DSN_HOP = b"250-hop\r\n250-SIZE\r\n250-AUTH PLAIN\r\n250 DSN"


@pytest.mark.parametrize(
    ("command", "sent", "sent_to_plain_hop"),
    [
        ("MAIL FROM:<a@b.c> RET=HDRS ENVID=Qq+2Bz", "unchanged", "MAIL FROM:<a@b.c>"),
        ("MAIL FROM:<a@b.c> SIZE=20 AUTH=<>", "unchanged", "MAIL FROM:<a@b.c>"),
        ("MAIL FROM:<> size=20 body=7bit", "MAIL FROM:<> size=20", "MAIL FROM:<>"),
        ("MAIL FROM:<a@b.c> REQUIRETLS", None, None),
        ("RCPT TO:<d@e.f> NOTIFY=NEVER", "unchanged", "RCPT TO:<d@e.f>"),
        ("RCPT TO:<d@e.f> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;Ann+2B@e.f", "unchanged", "RCPT TO:<d@e.f>"),
        ("RCPT TO:<d@e.f> ORCPT=rfc822;" + "x" * 500, "unchanged", "RCPT TO:<d@e.f>"),
        ("RCPT TO:<d@e.f> UNKNOWN=1", None, None),
    ],
)  # fmt: skip
def test_parameters_are_passed_on_or_left_out(scripted, command, sent, sent_to_plain_hop):
    """Before the queue, Postfix offers DSN to clients and passes their commands on unchanged."""
    expected = {DSN_HOP: command if sent == "unchanged" else sent, None: sent_to_plain_hop}
    for greeting, line in expected.items():
        hop, make_handler = scripted(
            lambda number, mails, word, greeting=greeting: (
                greeting if word == b"EHLO" else usual(word)
            )
        )
        with (
            listening("smtp", make_handler) as port,
            smtplib.SMTP("127.0.0.1", port, timeout=30) as client,
        ):
            client.ehlo()
            assert client.has_extn("dsn") == (greeting is not None)
            if command.startswith("RCPT"):
                client.docmd("MAIL FROM:<a@b.c>")
            code = client.docmd(command)[0]
        assert code == 250 if line else code in (553, 555)
        assert [text for text in hop.commands if text.startswith(command[:4])] == [
            text for text in [line] if text
        ]


def test_each_recipient_keeps_its_parameters(users_mailboxes, users):
    """Each verdict has its own transaction, because each user has a database."""
    for i in range(70):
        for user, labels in (("ann", ("spam", "ham")), ("bob", ("ham", "spam"))):
            with Mailbox(users / f"{user}.db") as box:
                box.learn(SPAM % i, labels[0])
                box.learn(HAM % i, labels[1])
    hop = ScriptedHop(lambda number, mails, word: DSN_HOP if word == b"EHLO" else usual(word))
    with (
        listening(
            "lmtp", lambda: proxy(NextHop(False, hop.address), users_mailboxes, lmtp=True)
        ) as port,
        smtplib.LMTP("127.0.0.1", port, timeout=30) as client,
    ):
        client.ehlo()
        client.docmd("MAIL FROM:<x@y.z> ENVID=One")
        for user in ("ann", "bob"):
            client.docmd(f"RCPT TO:<{user}@d.e> NOTIFY=NEVER ORCPT=rfc822;{user}")
        client.data(SPAM % 99)
        client.getreply()
    hop.close()
    commands = [text for text in hop.commands if text[:4] in ("MAIL", "RCPT")]
    assert len(hop.messages) == 2
    mail, *recipients = (
        "MAIL FROM:<x@y.z> ENVID=One",
        *(f"RCPT TO:<{user}@d.e> NOTIFY=NEVER ORCPT=rfc822;{user}" for user in ("ann", "bob")),
    )
    assert commands == [mail, *recipients, mail, recipients[0], mail, recipients[1]]


@pytest.mark.parametrize("address", ["<a@d.example", "<a@d.example>>", "a b", '<"a@d.example>', ""])
def test_an_address_without_an_end_is_refused(relay, smtp_sink, address):
    with smtplib.SMTP("127.0.0.1", relay, timeout=30) as client:
        client.ehlo()
        assert client.docmd(f"MAIL FROM:{address}")[0] in (501, 553, 555)
    assert not smtp_sink.commands


@pytest.mark.parametrize("word", [b"MAIL", b"RSET"])
def test_a_next_hop_that_ends_its_session_by_a_421_gets_the_message_in_another(scripted, word):
    """It ends sessions that are idle, long, or had many messages."""

    def answer(number, mails, command):
        is_over = number == 1 and command == word and mails >= 2
        return b"421 4.4.2 session over" if is_over else usual(command)

    hop, make_handler = scripted(answer)
    with (
        listening("smtp", make_handler) as port,
        smtplib.SMTP("127.0.0.1", port, timeout=30) as client,
    ):
        client.ehlo()
        for i in range(3):
            if word == b"RSET" and i == 2:
                client.docmd("MAIL FROM:<a@b.c>")
                client.docmd("RSET")
            assert client.sendmail("a@b.c", ["ann@d.e"], HAM % i) == {}
    assert len(hop.messages) == 3
    assert hop.connections == 2


@pytest.mark.parametrize("end", [b"\r\n", b""], ids=["lines", "within a line"])
def test_a_client_that_sends_slowly_is_not_cut(relay, smtp_sink, monkeypatch, end):
    """The time limit is for each piece of a message."""
    monkeypatch.setattr(proxying, "PATIENCE_S", 3)
    with smtplib.SMTP("127.0.0.1", relay, timeout=30) as client:
        client.ehlo()
        client.mail("a@b.c")
        client.rcpt("ann@d.e")
        client.docmd("DATA")
        for line in (HAM % 1).splitlines() * 2:
            time.sleep(0.5)
            client.send(line + end)
        client.send(b"\r\n.\r\n")
        assert client.getreply()[0] == 250
    assert len(smtp_sink.messages) == 1


def test_a_slow_next_hop_has_a_time_limit_for_each_piece_of_a_message():
    """`sendall` has a single limit for all its data, so a large message would never arrive."""
    pieces = []
    connection = types.SimpleNamespace(sendall=pieces.append, settimeout=lambda _: None)
    library = types.SimpleNamespace(
        docmd=lambda _: (354, b""), getreply=lambda: (250, b"ok"), sock=connection
    )
    client = next_hop.HopClient(NextHop(False, parse_address("127.0.0.1:1")), print)
    content = b".x\r\n" * 99_999
    assert client._send(library, ["a@b.c"], content) == {"a@b.c": "250 ok"}
    assert b"".join(pieces) == content.replace(b".", b"..") + b".\r\n"
    assert max(map(len, pieces)) <= 1 << 16


def test_a_line_of_megabytes_passes_unchanged(scripted):
    """Some programs write pages and attachments into a single line, and Postfix passes it on."""
    hop, make_handler = scripted(lambda number, mails, word: usual(word))
    content = b"Subject: x\r\n\r\n" + b"<p>.. " * (1 << 19) + b"\r\n"
    with (
        listening("smtp", make_handler) as port,
        smtplib.SMTP("127.0.0.1", port, timeout=60) as client,
    ):
        assert client.sendmail("a@b.c", ["d@e.f"], content) == {}
    (message,) = hop.messages
    assert message.partition(b"\r\n")[2] == content


@pytest.mark.parametrize("early", [b"", b"QUIT\r\n", b"MAIL FROM:<c@d.e>\r\n", b"NOOP\r\n"])
def test_a_next_hop_may_need_longer_for_a_whole_message(scripted, monkeypatch, early):
    """If it were cut off, it would keep the message, and the client would send it again."""
    limit_s = 1.5
    monkeypatch.setattr(proxying, "PATIENCE_S", limit_s)
    monkeypatch.setattr(next_hop, "PATIENCE_S", limit_s)
    began = threading.Event()

    def answer(number, mails, command):
        if command == b".":
            began.set()
            time.sleep(2 * limit_s)
        return usual(command)

    hop, make_handler = scripted(answer)
    with (
        listening("smtp", make_handler) as port,
        smtplib.SMTP("127.0.0.1", port, timeout=30) as client,
    ):
        client.ehlo()
        client.mail("a@b.c")
        client.rcpt("ann@d.e")
        client.docmd("DATA")
        client.send(HAM % 1 + b".\r\n")
        assert began.wait(30)
        client.send(early)  # a client may send commands before the answer
        assert client.getreply()[0] == 250
        client.close()
    assert len(hop.messages) == 1


def test_a_silent_client_is_disconnected(relay, monkeypatch):
    monkeypatch.setattr(proxying, "PATIENCE_S", 0.3)
    with socket.create_connection(("127.0.0.1", relay), 30) as client, client.makefile("rb") as got:
        assert got.readline().startswith(b"220")
        client.sendall(b"NOOP\r\n")
        assert got.readline().startswith(b"250")
        assert got.read() == b""


class Terminal:
    """A terminal of a process's own."""

    def __init__(self):
        self.leader, self.follower = (os.fdopen(end, "rb", 0) for end in os.openpty())

    def take(self):
        """Make it the terminal of this process."""
        os.setsid()
        fcntl.ioctl(self.follower, termios.TIOCSCTTY, 0)


@pytest.fixture
def terminal():
    owned = Terminal()
    with owned.follower, owned.leader:
        yield owned


@pytest.mark.parametrize("is_hangup", [False, True])
def test_a_stopping_server_finishes_its_message(serve, trained_db, smtp_sink, terminal, is_hangup):
    smtp_sink.delay = 1.0
    process = serve("--db", trained_db, "--smtp", "127.0.0.1:0", "--next", smtp_sink.address,
                    preexec_fn=terminal.take)  # fmt: skip
    with smtplib.SMTP("127.0.0.1", port_of(process, "smtp"), timeout=30) as client:
        client.ehlo()
        client.mail("a@b.c")
        client.rcpt("ann@d.e")
        client.docmd("DATA")
        client.send(HAM % 1 + b".\r\n")
        poll(lambda: smtp_sink.is_busy)
        if is_hangup:
            terminal.leader.close()
        else:
            process.process.send_signal(signal.SIGTERM)
        assert client.getreply()[0] == 250
    assert process.process.wait(120) == 0  # its limits add up to 32 s
    assert len(smtp_sink.messages) == 1


def test_a_stopping_server_waits_for_the_answer_to_a_message_that_the_next_hop_has(
    scripted, monkeypatch
):
    """The next hop may keep the message, and the client would send it again."""
    monkeypatch.setattr(proxying, "DRAIN_S", 0.1)
    monkeypatch.setattr(server, "DRAIN_S", 0.1)
    monkeypatch.setattr(proxying, "_NOTICE_S", 0.05)
    warnings = []
    monkeypatch.setattr(Monitor, "warn", lambda _, kind, detail="": warnings.append(kind))
    began = threading.Event()

    def answer(number, mails, command):
        if command == b".":
            began.set()
            poll(lambda: warnings)
        return usual(command)

    hop, make_handler = scripted(answer)
    with smtplib.SMTP(timeout=30) as client:
        with listening("smtp", make_handler) as port:
            client.connect("127.0.0.1", port)
            client.ehlo()
            client.mail("a@b.c")
            client.rcpt("ann@d.e")
            client.docmd("DATA")
            client.send(HAM % 1 + b".\r\n")
            assert began.wait(30)
        assert client.getreply()[0] == 250
    assert len(hop.messages) == 1
    assert [warning.partition(" 127.")[0] for warning in warnings] == [
        "the shutdown waits for the next hop"
    ]


@pytest.mark.parametrize("is_service", [False, True])
def test_a_service_and_a_server_under_nohup_ignore_a_hangup(
    serve, trained_db, terminal, is_service
):
    def begin():
        if is_service:
            os.setsid()
        else:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            terminal.take()

    process = serve("--db", trained_db, lines=1, preexec_fn=begin)
    process.process.send_signal(signal.SIGHUP)
    with MailboxClient(trained_db) as client:
        assert client.ask_server(SPAM % 99).mark == "S"
    assert ("SIGHUP is ignored" in process.stop()) == is_service


def macros(command, **values):
    pairs = [text for pair in values.items() for text in pair]
    return command + b"".join(text.encode() + b"\0" for text in pairs)


def test_mail_of_the_sites_own_users_is_not_refused(serve, trained_db):
    """Postfix asks its milters about the submission service, too."""
    process = serve("--db", trained_db, "--milter", "127.0.0.1:0", "--reject", "0.6")
    with MailServer(port_of(process, "milter")) as server:
        for number, (login, expected) in enumerate(
            [
                ({}, b"y"),
                ({"{auth_authen}": "ann"}, b"a"),
                ({}, b"y"),
                ({"{auth_authen}": ""}, b"y"),
            ]
        ):
            server.send(b"D", macros(b"M", i=f"Q{number}", **login))
            server.send(b"M", b"<a@b.c>\0")
            edits, ending = server.bring(SPAM % 99)
            assert ending == expected, login
            assert bool(edits) == (ending == b"a")
            if login:
                server.send(b"A")


def test_a_renewed_certificate_is_used_without_a_restart(serve, trained_db, tmp_path):
    path = tmp_path / "certificate.pem"
    make_certificate(path, "first")
    process = serve("--db", trained_db, "--smtp", "127.0.0.1:0", "--next", "smtp:127.0.0.1:1",
                    "--certificate", path, "--key", path)  # fmt: skip

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def served():
        with smtplib.SMTP("127.0.0.1", port_of(process, "smtp"), timeout=30) as client:
            client.starttls(context=context)
            return client.sock.getpeercert(True)

    first = served()
    path.write_text("damaged")
    assert served() == first
    make_certificate(path, "second")
    assert served() != first
    assert "the earlier content is used" in process.stop()


@pytest.mark.parametrize(
    ("certificate", "key", "named"),
    [
        ("missing", "first", "missing: cannot be used: No such file"),
        ("first", "missing", "missing, for first: cannot be used: No such file"),
        (".", "first", ".: cannot be used: Is a directory"),
        ("first", "second", "second, for first: cannot be used: key values mismatch"),
        ("text", "first", "text: cannot be used: it contains no certificate"),
        ("made", "text", "text, for made: cannot be used: it contains no private key"),
        ("made", "locked", "locked, for made: cannot be used: it contains no private key"),
    ],
)
def test_a_file_of_a_certificate_that_cannot_be_used_is_named(
    tmp_path, monkeypatch, certificate, key, named
):
    monkeypatch.chdir(tmp_path)
    for name in ("first", "second"):
        make_certificate(tmp_path / name, name)
    Path("text").write_text("text")
    locking = [
        "openssl",
        "pkey",
        "-in",
        "second",
        "-aes128",
        "-passout",
        "pass:x",
        "-out",
        "locked",
    ]
    subprocess.run(locking, check=True, capture_output=True)
    with pytest.raises(ConfigError, match=f"^{re.escape(named)}"):
        watch_certificate(certificate, key, print)


def make_certificate(path, name):
    partial = path.with_name("partial")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subprocess.run(
        [*command, "-subj", f"/CN={name}", "-keyout", partial, "-out", path.with_name("made")],
        check=True,
        capture_output=True,
    )
    partial.write_bytes(partial.read_bytes() + path.with_name("made").read_bytes())
    os.replace(partial, path)


@pytest.mark.parametrize("kind", ["connected", "datagram"])
def test_a_socket_of_systemd_that_does_not_listen_is_named(trained_db, kind):
    """A unit with Accept=yes passes connections in place of the listening socket."""
    family = socket.SOCK_DGRAM if kind == "datagram" else socket.SOCK_STREAM
    begin = (
        "import os, sys; os.dup2(int(sys.argv[1]), 3); os.set_inheritable(3, True);"
        "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1', LISTEN_FDNAMES='milter');"
        "os.execv(sys.argv[2], sys.argv[2:])"
    )
    inherited, other = socket.socketpair(socket.AF_UNIX, family)
    with inherited, other:
        inherited.set_inheritable(True)
        result = subprocess.run(
            [sys.executable, "-c", begin, str(inherited.fileno()), *STREAMNB, "serve", "--db", trained_db],
            capture_output=True, text=True, pass_fds=[inherited.fileno()], timeout=60, check=False,
        )  # fmt: skip
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "not a listening stream socket" in result.stderr


def test_a_server_may_open_as_many_files_as_it_is_allowed(serve, trained_db):
    process = serve("--db", trained_db, lines=1, preexec_fn=few_files)
    limits = Path(f"/proc/{process.process.pid}/limits").read_text()
    assert re.search(r"^Max open files +1000 +1000 ", limits, re.M)


def few_files():
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 1000))


@pytest.mark.parametrize(
    ("last", "codes", "delivered"),
    [
        (b".\r\n", [b"220", b"250", b"250", b"250", b"354", b"250"], 1),
        (b"", [b"220", b"250", b"250", b"250", b"354"], 0),  # the message has no end
        (b".\r\nMAIL FROM:<", [b"220", b"250", b"250", b"250", b"354", b"250"], 1),
    ],
    ids=["complete", "without an end", "half a command"],
)
def test_a_client_that_has_closed_its_sending_side_gets_its_answers(
    relay, smtp_sink, last, codes, delivered
):
    """Scripts with netcat do so. Their message would be lost."""
    commands = b"EHLO a.b\r\nMAIL FROM:<a@b.c>\r\nRCPT TO:<ann@d.e>\r\nDATA\r\n"
    with socket.create_connection(("127.0.0.1", relay), timeout=30) as client:
        client.sendall(commands + as_sent(HAM % 1) + last)
        client.shutdown(socket.SHUT_WR)
        answers = client.makefile("rb").read()
    assert re.findall(rb"^(\d+) ", answers, re.M) == codes
    assert len(smtp_sink.messages) == delivered


def test_a_client_that_closes_its_sending_side_late_gets_the_next_hops_answer(relay, smtp_sink):
    """The next hop delivers the message, and without an answer the client would send it again."""
    smtp_sink.delay = 0.5
    commands = b"EHLO a.b\r\nMAIL FROM:<a@b.c>\r\nRCPT TO:<ann@d.e>\r\nDATA\r\n"
    with socket.create_connection(("127.0.0.1", relay), timeout=60) as client:
        client.sendall(commands + as_sent(HAM % 1) + b".\r\n")
        poll(lambda: smtp_sink.is_busy)
        client.shutdown(socket.SHUT_WR)
        answers = client.makefile("rb").read()
    assert re.findall(rb"^(\d+) ", answers, re.M)[-1] == b"250"
