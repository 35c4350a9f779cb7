"""The server: mail that passes through it, and HTTP."""

import asyncio
import contextlib
import http.client
import json
import os
import re
import signal
import smtplib
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from aiosmtpd.controller import Controller
from commands import STREAMNB, streamnb_command
from hostile import hostile, passed_on
from ports import free_port
from serving import FIELD, HAM, SPAM, LongServer, MailServer, Sink, Web, as_sent, port_of, train
from starlette.datastructures import QueryParams
from starlette.responses import PlainTextResponse

from streamnb import Mailbox
from streamnb.mailbox.digest import digest
from streamnb.mailbox.service import api, next_hop, server
from streamnb.mailbox.service.client import MailboxClient
from streamnb.mailbox.service.http import http as talk_http
from streamnb.mailbox.service.mailboxes import Mailboxes, NoMailboxError
from streamnb.mailbox.service.monitor import Monitor
from streamnb.mailbox.service.protocol import Request
from streamnb.mailbox.service.server import Listener, accept
from streamnb.mailbox.service.sockets import Address, listen
from streamnb.mailbox.status import status as status_of


def test_a_message_passes_by_smtp_with_its_verdict(trained_db, serve, smtp_sink):
    port = free_port()
    process = serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next", smtp_sink.address)
    assert process.lines[1] == f"listening on 127.0.0.1:{port} (smtp)\n"
    with smtplib.SMTP("127.0.0.1", port) as client:
        client.ehlo()
        assert {"8bitmime", "smtputf8", "size"} <= set(client.esmtp_features)
        assert "auth" not in client.esmtp_features
        for message, mark in ((SPAM % 99, b"Spam"), (HAM % 99, b"Ham")):
            client.sendmail("a@b.c", ["ann@d.e", "bob@d.e"], message, ["BODY=8BITMIME", "SMTPUTF8"])
            recipient, got = smtp_sink.messages[-1]
            assert recipient == ["ann@d.e", "bob@d.e"]
            assert FIELD.match(got)[1] == mark
            assert FIELD.sub(b"", got) == message
        assert smtp_sink.commands[-1] == ("MAIL", "a@b.c", ["BODY=8BITMIME", "SMTPUTF8"])
        smtp_sink.answers = {"no@d.e": "550 5.1.1 no such user", "DATA": "554 5.7.1 not that"}
        assert client.docmd("MAIL FROM:<>")[0] == 250
        assert smtp_sink.commands[-1][1] == "<>"
        assert client.docmd("RCPT TO:<no@d.e>") == (550, b"5.1.1 no such user")
        assert client.docmd("RCPT TO:<ann@d.e>") == (250, b"2.1.5 recipient ok")
        assert client.data(SPAM % 1) == (554, b"5.7.1 not that")
        assert client.docmd("RSET")[0] == 250
    assert process.stop() == ""


def test_the_end_of_a_message_does_not_wait_for_an_answer_to_its_beginning(smtp_sink):
    """A message and the dot after it are written apart: held back, the dot took 40 ms longer."""
    hop = next_hop.NextHop(False, Address(None, "127.0.0.1", smtp_sink.controller.port))
    with next_hop._connect(hop) as client:
        assert client.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_recipients_keep_their_own_answers_in_lmtp(trained_db, serve, lmtp_sink, tmp_path):
    path = tmp_path / "in"
    serve("--db", trained_db, "--lmtp", path, "--next", lmtp_sink.address)
    assert path.stat().st_mode & 0o777 == 0o660
    lmtp_sink.answers = {"data bob@d.e": "452 4.2.2 full"}
    with smtplib.LMTP() as client:
        client.connect(str(path))
        client.ehlo()
        client.docmd("MAIL FROM:<a@b.c>")
        for recipient in ("ann@d.e", "bob@d.e", "cat@d.e"):
            assert client.docmd(f"RCPT TO:<{recipient}>")[0] == 250
        code, text = client.data(HAM % 3)
        assert (code, text) == (250, b"2.0.0 ann@d.e has it")
        assert client.getreply() == (452, b"4.2.2 full")
        assert client.getreply() == (250, b"2.0.0 cat@d.e has it")
    ((_, got),) = lmtp_sink.messages
    assert FIELD.sub(b"", got) == HAM % 3


def test_a_recipient_that_is_named_twice_gets_the_message_once(trained_db, serve, lmtp_sink):
    process = serve("--db", trained_db, "--lmtp", "127.0.0.1:0", "--next", lmtp_sink.address)
    lmtp_sink.answers = {"data bob@d.e": "452 4.2.2 full"}
    with smtplib.LMTP("127.0.0.1", port_of(process, "lmtp")) as client:
        client.ehlo()
        client.docmd("MAIL FROM:<a@b.c>")
        for recipient in ("ann@d.e", "bob@d.e", "ann@d.e", "bob@d.e"):
            assert client.docmd(f"RCPT TO:<{recipient}>")[0] == 250
        replies = [client.data(HAM % 3), *(client.getreply() for _ in range(3))]
        assert [code for code, _ in replies] == [250, 452, 250, 452]
        assert client.noop()[0] == 250
    ((recipients, _),) = lmtp_sink.messages
    assert recipients == ["ann@d.e", "bob@d.e"]


def test_by_smtp_to_lmtp_goes_one_recipient_at_a_time(trained_db, serve, lmtp_sink):
    port = free_port()
    serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next", lmtp_sink.address)
    with smtplib.SMTP("127.0.0.1", port) as client:
        client.ehlo()
        refused = client.sendmail("a@b.c", ["ann@d.e", "bob@d.e"], HAM % 4)
        assert refused == {"bob@d.e": (452, b"4.5.3 one recipient at a time")}
    assert [recipient for recipient, _ in lmtp_sink.messages] == [["ann@d.e"]]


@pytest.mark.long
def test_hostile_mail_passes_byte_for_byte(trained_db, serve, smtp_sink, full):
    port = free_port()
    process = serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next", smtp_sink.address)
    dots = {"dots": b"Subject: .\r\n\r\n.\r\n..\r\n.a\r\n\r\n.\r\n", "empty": b""}
    with smtplib.SMTP("127.0.0.1", port, timeout=120) as client:
        client.ehlo()
        for name, raw in {**hostile(), **dots}.items():
            message = as_sent(raw)
            if (
                len(message) > (50 << 20 if full else 1 << 18)
                or max(map(len, message.split(b"\r\n"))) > 1 << 20
            ):
                continue
            client.docmd("MAIL FROM:<a@b.c>")
            client.docmd("RCPT TO:<ann@d.e>")
            code, text = client.data(message)
            assert code == 250, (name, text)
            got = smtp_sink.messages[-1][1]
            field = re.search(rb"^X-Streamnb: (?:Spam|Ham|Unsure), score=[^\r\n]*", got, re.M)[0]
            assert got == as_sent(passed_on(message, field)), name
    assert process.stop() == ""


def test_a_next_hop_that_is_down_is_a_temporary_error(trained_db, serve, smtp_sink):
    port, down = free_port(), free_port()
    process = serve(
        "--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next", f"smtp:127.0.0.1:{down}"
    )
    with smtplib.SMTP("127.0.0.1", port) as client:
        client.ehlo()
        assert client.docmd("MAIL FROM:<a@b.c>")[0] == 451
    process.stop()
    process = serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next", smtp_sink.address)
    with smtplib.SMTP("127.0.0.1", port) as client:
        client.ehlo()
        client.docmd("MAIL FROM:<a@b.c>")
        client.docmd("RCPT TO:<ann@d.e>")
        smtp_sink.controller.stop()
        assert client.data(SPAM % 1)[0] == 451
    assert "the next hop" in process.stop()


class Raw:
    """A next hop with given replies, which stores the received lines."""

    def __init__(self, answers, lmtp=False):
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.answers, self.got = answers, b""
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listening.accept()
                with connection, connection.makefile("rb") as lines:
                    connection.sendall(b"220 hop\r\n")
                    self.talk(connection, lines)

    def talk(self, connection, lines):
        inside = False
        for line in lines:
            self.got += line
            if inside and line != b".\r\n":
                continue
            word = b"." if inside else line.split()[0].upper()
            answer = self.answers.get(word, b"250 ok\r\n")
            inside = word == b"DATA" and answer.startswith(b"354")
            if not answer:
                return
            connection.sendall(answer)

    def close(self):
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self.thread.join(5)


def test_a_message_of_too_many_lines_is_refused_for_good(trained_db, serve, smtp_sink):
    port = free_port()
    serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next", smtp_sink.address)
    with smtplib.SMTP("127.0.0.1", port, timeout=60) as client:
        with pytest.raises(smtplib.SMTPDataError) as refused:
            client.sendmail("a@b.c", ["d@e.f"], b"Subject: x\r\n\r\n" + b"1\r\n" * 1_000_100)
        assert refused.value.smtp_code == 552
        assert refused.value.smtp_error == b"5.3.4 more than 1,000,000 lines"
        client.sendmail("a@b.c", ["d@e.f"], SPAM % 1)  # and the connection is as good as before
    assert len(smtp_sink.messages) == 1


def test_an_address_that_cannot_be_handed_on_is_refused_alone(trained_db, serve, smtp_sink):
    port = free_port()
    process = serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next", smtp_sink.address)
    with socket.create_connection(("127.0.0.1", port)) as client, client.makefile("rb") as lines:

        def text(command):
            client.sendall(command + b"\r\n")
            while (line := lines.readline())[3:4] == b"-":
                pass
            return int(line[:3])

        lines.readline()
        assert text(b"EHLO x") == 250
        assert text(b"MAIL FROM:<\xff@b.c>") in (500, 501, 553)
        assert text(b"MAIL FROM:<a@b.c>") == 250
        assert text(b'RCPT TO:<"a\rb"@d.e>') in (500, 501, 553)
        assert text(b"RCPT TO:<ann@d.e>") == 250
        assert text(b"DATA") == 354
        assert text(as_sent(SPAM % 1) + b".") == 250
    assert [response[1].count(b"X-Streamnb") for response in smtp_sink.messages] == [1]
    assert "next hop" not in process.stop()


@pytest.mark.parametrize(
    ("answers", "last"),
    [
        ({b"DATA": b"250 sure\r\n"}, 451),  # it has taken nothing
        ({b"DATA": b"garbage\r\n"}, 451),
        ({b"RCPT": b"garbage\r\n250 ok\r\n"}, 503),
        ({b"MAIL": b"garbage\r\n250 ok\r\n"}, 503),
        ({b"DATA": b"354 go\r\n", b".": b"garbage\r\n"}, 451),
        ({b"DATA": b"354 go\r\n", b".": b""}, 451),
        ({b"RCPT": b""}, 503),
        ({b"EHLO": b"250-hop\r\n250 SIZE abc\r\n", b"DATA": b"354 go\r\n"}, 250),
        ({b"DATA": b"552 5.2.2 full\r\n"}, 552),
        # This server refuses by the same words, which it replaces.
        ({b"DATA": b"354 go\r\n", b".": b"500 Line too long (see RFC5321 4.5.3.1.6)\r\n"}, 500),
    ],
)
def test_a_next_hop_of_nonsense_loses_nothing(trained_db, serve, answers, last):
    hop, port = Raw(answers), free_port()
    serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next", f"smtp:127.0.0.1:{hop.port}")
    with smtplib.SMTP("127.0.0.1", port, timeout=30) as client:
        client.ehlo()
        begun = [client.docmd(command)[0] for command in ("MAIL FROM:<a@b.c>", "RCPT TO:<d@e.f>")]
        assert set(begun) <= {250, 451, 503}
        if begun == [250, 250]:
            assert client.data(SPAM % 1)[0] == last
        else:
            assert last == 503  # no recipient was accepted, so no message is requested
            assert client.docmd("DATA")[0] == 503
        if last != 503:
            client.docmd("MAIL FROM:<innocent@b.c>")  # the next one has nothing to do with that
            assert client.docmd("RSET")[0] == 250
    hop.close()


def test_a_next_hop_that_disconnects_between_messages_is_connected_again(trained_db, serve):
    hop, port = Raw({}), free_port()

    def talk(connection, lines):
        inside = False
        for line in lines:
            if inside and line != b".\r\n":
                continue
            ended = inside
            inside = not inside and line.upper().startswith(b"DATA")
            connection.sendall(b"354 go\r\n" if inside else b"250 ok\r\n")
            if ended:
                return

    hop.talk = talk
    serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next", f"smtp:127.0.0.1:{hop.port}")
    with smtplib.SMTP("127.0.0.1", port, timeout=30) as client:
        for _ in range(3):
            client.sendmail("a@b.c", ["d@e.f"], SPAM % 1)
            time.sleep(0.2)
    hop.close()


def test_a_message_that_is_refused_while_it_comes_is_not_brought_again(trained_db, serve):
    hop, port = Raw({}), free_port()

    def talk(connection, lines):
        for line in lines:
            if line.upper().startswith(b"DATA"):
                connection.sendall(b"354 go\r\n")
                connection.recv(1000)
                connection.sendall(b"552 5.3.4 too large\r\n")
                return
            connection.sendall(b"250 ok\r\n")

    hop.talk = talk
    serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next", f"smtp:127.0.0.1:{hop.port}")
    with smtplib.SMTP("127.0.0.1", port, timeout=30) as client:
        client.ehlo()
        for command in ("MAIL FROM:<a@b.c>", "RCPT TO:<d@e.f>"):
            assert client.docmd(command)[0] == 250
        code, text = client.data(SPAM % 1 + (b"m" * 998 + b"\r\n") * 10_000)
        assert (code, text) == (552, b"5.3.4 too large")
    hop.close()


def test_a_recipient_that_was_answered_for_keeps_its_answer(trained_db, serve):
    hop, port = Raw({b"LHLO": b"250 hop\r\n", b"DATA": b"354 go\r\n"}), free_port()

    def talk(connection, lines):
        inside = False
        for line in lines:
            if inside and line == b".\r\n":
                connection.sendall(b"250 first has it\r\n")
                return  # and nothing for the second
            if not inside:
                inside = line.upper().startswith(b"DATA")
                connection.sendall(b"354 go\r\n" if inside else b"250 ok\r\n")

    hop.talk = talk
    serve("--db", trained_db, "--lmtp", f"127.0.0.1:{port}", "--next", f"lmtp:127.0.0.1:{hop.port}")
    with smtplib.LMTP("127.0.0.1", port, timeout=30) as client:
        client.ehlo()
        for command in ("MAIL FROM:<a@b.c>", "RCPT TO:<d@e.f>", "RCPT TO:<g@e.f>"):
            assert client.docmd(command)[0] == 250
        assert client.data(HAM % 1) == (250, b"first has it")
        assert client.getreply()[0] == 451
    hop.close()


def test_a_disconnected_client_adds_nothing_to_its_message(trained_db, serve):
    """The hop reads late, so that the message is on its way when the client hangs up."""
    hop, port = Raw({}), free_port()
    has_begun, is_gone, read = threading.Event(), threading.Event(), threading.Event()

    def talk(connection, lines):
        for line in lines:
            word = line.split()[0].upper()
            connection.sendall(b"354 go\r\n" if word == b"DATA" else b"250 ok\r\n")
            if word == b"DATA":
                connection.recv(1, socket.MSG_PEEK)  # the message has begun to come
                has_begun.set()
                is_gone.wait(30)
                time.sleep(0.5)
                hop.got = lines.read()
                read.set()
                return

    hop.talk = talk
    serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next", f"smtp:127.0.0.1:{hop.port}")
    with contextlib.closing(smtplib.SMTP("127.0.0.1", port, timeout=30)) as client:
        client.ehlo()
        client.docmd("MAIL FROM:<a@b.c>")
        client.docmd("RCPT TO:<d@e.f>")
        client.docmd("DATA")
        client.send(b"Subject: x\r\n\r\n" + (b"0123456789" * 90 + b"\r\n") * 13_000 + b".\r\n")
        assert has_begun.wait(30)
    is_gone.set()
    assert read.wait(30)
    assert hop.got.startswith(b"Subject: x") or b"\nSubject: x" in hop.got
    assert b"quit" not in hop.got.lower()
    hop.close()


def send_unchanged(client, content):
    """Send a message with its end, byte for byte; return the code of the reply."""
    client.ehlo()
    for command in ("MAIL FROM:<a@b.c>", "RCPT TO:<d@e.f>", "DATA"):
        client.docmd(command)
    client.send(content)
    return client.getreply()[0]


def test_data_like_the_end_of_a_message_is_refused(trained_db, serve, smtp_sink):
    port = free_port()
    serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next", smtp_sink.address)
    with smtplib.SMTP("127.0.0.1", port, timeout=30) as client:
        content = b"Subject: x\r\n\r\nhi\n.\r\nMAIL FROM:<evil@b.c>\r\n.\r\n"
        assert send_unchanged(client, content) == 550
        client.sendmail("a@b.c", ["ann@d.e"], HAM % 1)
    assert len(smtp_sink.messages) == 1


@pytest.mark.parametrize(
    ("content", "reply", "reason"),
    [
        (b"Subject: x\r\n\r\nhi\nthere\r\n.\r\n", b"550 5.6.11 ", "action=refused"),
        (b"x" * (50 << 20) + b"x\r\n.\r\n", b"552 5.3.4 more than", "52428800 bytes"),
        ((b"x" * 998 + b"\r\n") * 52_500 + b".\r\n", b"552 Error: Too much", "52428800 bytes"),
    ],
    ids=["line feed", "long line", "large"],
)
def test_a_refused_message_has_a_reply_for_each_recipient_in_lmtp(
    trained_db, serve, lmtp_sink, content, reply, reason
):
    """Otherwise the client would read the reply to its next command as that for the second recipient."""
    process = serve("--db", trained_db, "--lmtp", "127.0.0.1:0", "--next", lmtp_sink.address,
                    "--log", "text")  # fmt: skip
    address = "127.0.0.1", port_of(process, "lmtp")
    with socket.create_connection(address, 60) as client, client.makefile("rb") as replies:
        assert replies.readline().startswith(b"220")
        for command in (b"LHLO x", b"MAIL FROM:<a@b.c>", b"RCPT TO:<d@e.f>", b"RCPT TO:<g@e.f>",
                        b"DATA"):  # fmt: skip
            client.sendall(command + b"\r\n")
            while replies.readline()[3:4] == b"-":
                pass
        client.sendall(content + b"NOOP\r\n")
        lines = [replies.readline() for _ in range(3)]
    assert [line.startswith(reply) for line in lines] == [True, True, False]
    assert lines[2].startswith(b"250 OK")
    assert lmtp_sink.messages == []
    has_line_feed = reply.startswith(b"550")
    log = process.stop()
    assert ('recipient="d@e.f, g@e.f" reply="550 5.6.11 ' in log) == has_line_feed
    assert ("action=refused" in log) == has_line_feed
    assert reason in log


def test_a_bare_cr_does_not_reach_the_next_hop(trained_db, serve, smtp_sink):
    """Some servers read it as the end of a line: "\\r.\\r\\n" could end the message for them."""
    port = free_port()
    serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next", smtp_sink.address)
    with smtplib.SMTP("127.0.0.1", port, timeout=30) as client:
        content = (
            b"Subject: x\rX-Streamnb: Ham\r\n\r\nhi\r.\r\nMAIL FROM:<e@b.c>\r\r\n\r\r.\r\n.\r\n"
        )
        assert send_unchanged(client, content) == 250
    ((_, content),) = smtp_sink.messages
    field, _, text = content.partition(b"\r\n")
    assert field.startswith(b"X-Streamnb: ")
    assert text == b"Subject: x X-Streamnb: Ham\r\n\r\nhi .\r\nMAIL FROM:<e@b.c> \r\n  .\r\n"


def send_often(client, chunk):
    for _ in range(300):
        client.send(chunk)


@pytest.mark.parametrize(
    "chunk",
    [b"x" * (1 << 20), b"\r\n" * (1 << 19)],
    ids=["one line", "many lines"],  # millions of them, which the library takes a minute for
)
def test_a_line_without_end_is_not_kept(trained_db, serve, smtp_sink, chunk):
    port = free_port()
    process = serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next", smtp_sink.address)
    with contextlib.closing(smtplib.SMTP("127.0.0.1", port, timeout=30)) as client:
        client.ehlo()
        client.docmd("MAIL FROM:<a@b.c>")
        client.docmd("RCPT TO:<d@e.f>")
        client.docmd("DATA")
        with pytest.raises((OSError, smtplib.SMTPException)):
            send_often(client, chunk)
    status = Path(f"/proc/{process.process.pid}/status").read_text()
    assert int(re.search(r"VmHWM:\s+(\d+)", status)[1]) < 700_000


def test_a_hanging_next_hop_delays_no_other_client(trained_db, serve):
    hop, port, web_port = Raw({}), free_port(), free_port()
    goes_on = threading.Event()
    hop.talk = lambda connection, lines: goes_on.wait(300)
    process = serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next", f"smtp:127.0.0.1:{hop.port}",
                    "--http", f"127.0.0.1:{web_port}", lines=3)  # fmt: skip
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(10)]
    for client in clients:
        client.sendall(b"EHLO x\r\nMAIL FROM:<a@b.c>\r\n")
    time.sleep(0.5)
    assert Web(web_port, "wrong")("GET", "/status")[0] == 401
    with MailboxClient(trained_db) as asking:
        assert asking.ask_server(SPAM % 1).mark == "S"
    assert not goes_on.is_set()
    for client in clients:
        client.close()
    process.stop()
    goes_on.set()
    hop.close()


def test_messages_that_cannot_be_classified_pass_unmarked(tmp_path, serve, smtp_sink, trained_db):
    port = free_port()
    process = serve(
        "--users", "--smtp", f"127.0.0.1:{port}", "--next", smtp_sink.address,
        env={**os.environ, "STREAMNB_USERS": str(tmp_path / "users")},
    )  # fmt: skip
    (tmp_path / "users" / "bad.db").write_bytes(b"no database" * 999)
    with smtplib.SMTP("127.0.0.1", port) as client:
        client.ehlo()
        client.sendmail("a@b.c", ["bad@d.e"], SPAM % 1)
        client.sendmail("a@b.c", ["'odd'@d.e"], SPAM % 2)
        client.sendmail("a@b.c", ["ann+lists@d.e"], b"X-Streamnb: Trash, score=9\r\n" + SPAM % 3)
    assert [got for _, got in smtp_sink.messages[:2]] == [SPAM % 1, SPAM % 2]
    assert smtp_sink.messages[2][1] == SPAM % 3  # of somebody who has trained_db nothing
    assert sorted(path.name for path in (tmp_path / "users").glob("*.db")) == ["bad.db"]
    assert process.stop().count("passed on unmarked") == 3


def test_stopping_waits_for_a_message_that_is_being_handed_on(trained_db, serve, smtp_sink):
    port = free_port()
    process = serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next", smtp_sink.address)
    smtp_sink.delay = 1.0
    with smtplib.SMTP("127.0.0.1", port) as client, smtplib.SMTP("127.0.0.1", port):
        threading.Timer(0.5, process.process.send_signal, (signal.SIGTERM,)).start()
        client.sendmail(
            "a@b.c", ["ann@d.e"], SPAM % 1
        )  # it receives the reply that the message was accepted
    assert process.process.wait(120) == 0
    assert len(smtp_sink.messages) == 1


def test_starttls_is_offered_with_a_certificate(trained_db, serve, smtp_sink, certificate):
    port = free_port()
    serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next", smtp_sink.address,
          "--certificate", certificate, "--key", certificate)  # fmt: skip
    with smtplib.SMTP("localhost", port) as client:
        client.starttls(context=ssl.create_default_context(cafile=certificate))
        client.sendmail("a@b.c", ["ann@d.e"], SPAM % 1)
    assert FIELD.match(smtp_sink.messages[0][1])


def test_a_client_without_tls_is_named_in_the_log(trained_db, serve, smtp_sink, certificate):
    """It may not trust the certificate. No message is deferred."""
    process = serve("--db", trained_db, "--smtp", "127.0.0.1:0", "--next", smtp_sink.address,
                    "--certificate", certificate, "--key", certificate)  # fmt: skip
    with smtplib.SMTP("127.0.0.1", port_of(process, "smtp")) as client:
        client.docmd("STARTTLS")
        client.sock.sendall(b"this is no handshake\r\n")
        while client.sock.recv(100):
            pass
        client.close()
    output = process.stop()
    assert "a client's TLS handshake failed" in output
    assert "deferred" not in output


@pytest.mark.parametrize(
    ("host", "peer", "is_local"),
    [
        ("mail.example.org", "127.0.1.1", True),  # the name of this machine, in Debian
        ("mail.example.org", "192.0.2.1", False),
        ("mail.example.org", "::1", True),
        ("127.0.0.1", "127.0.0.1", True),
    ],
)
def test_a_name_of_this_machine_needs_no_tls(host, peer, is_local):
    connection = SimpleNamespace(getpeername=lambda: (peer, 25))
    assert next_hop._is_local(Address(None, host, 25), connection) == is_local


def test_a_next_hop_on_another_machine_is_spoken_to_by_tls(trained_db, serve, certificate):
    sink, port = Sink(), free_port()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)

    class There(Controller):
        def factory(self):
            return LongServer(
                self.handler, tls_context=context, require_starttls=True, hostname="sink"
            )

    controller = There(sink, hostname="127.0.0.2", port=free_port())
    controller.start()
    for trusted in (True, False):
        environment = {**os.environ, **({"SSL_CERT_FILE": certificate} if trusted else {})}
        process = serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next",
                        f"smtp:127.0.0.2:{controller.port}", env=environment)  # fmt: skip
        with smtplib.SMTP("127.0.0.1", port, timeout=30) as client:
            client.ehlo()
            assert client.docmd("MAIL FROM:<a@b.c>")[0] == (250 if trusted else 451)
            if trusted:
                client.docmd("RSET")
                client.sendmail("a@b.c", ["ann@d.e"], SPAM % 1)
        process.stop()
    controller.stop()
    assert len(sink.messages) == 1


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-keyout", path, "-out", f"{path}.cert", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.2"],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_text(path.read_text() + Path(f"{path}.cert").read_text())
    return str(path)


def test_programs_classify_and_learn_by_http(web, tmp_path):
    status, response = web("POST", "/classify?reasons=2", SPAM % 99)
    assert (status, response["mark"], len(response["reasons"])) == (200, "S", 2)
    assert web("POST", "/classify?threshold=1", SPAM % 99)[1]["mark"] == "U"
    assert web("POST", "/learn?label=ham", SPAM % 99) == (
        200,
        {"result": "learned", "before": None},
    )
    assert web("POST", "/learn?label=spam&labelled_by=program", SPAM % 99)[1]["result"] == "kept"
    for path in ("/learn?label=spam&feedback=all", "/learn?label=ham&feedback=errors"):
        assert web("POST", path, SPAM % 99)[1]["result"] == "corrected"
    status, response = web("POST", "/learn?label=ham&feedback=mistakes", SPAM % 99)
    assert (status, response["error"]) == (400, "feedback: expected all or errors, not 'mistakes'")
    assert web("POST", "/forget", SPAM % 99) == (200, {"result": "forgotten", "before": "ham"})
    assert web("POST", f"/forget?digest={digest(SPAM % 99).hex()}")[1]["result"] == "unknown"
    assert web("GET", "/status")[1]["learned"]
    metrics = web("GET", "/metrics")[1]
    assert 'streamnb_verdicts_total{mark="S"} 1.0' in metrics
    for path, status in (
        ("/learn", 400), ("/learn?label=two%20words", 400), ("/learn?label=x&labelled_by=y", 400),
        ("/classify?reasons=x", 400), ("/classify?threshold=nan", 400), ("/forget?digest=zz", 400),
        ("/nothing", 404), ("/classify/", 404), ("/classify?user=ann", 401), ("/learn?label=U", 400),
        ("/learn?label=unsure", 400), ("/learn?label=%3F", 400), ("/classify?treshold=0.9", 400),
        ("/learn?label=%ff", 400), ("/learn?label=spam&label=ham", 400),
        ("/classify?learn=yes", 400), ("/forget?label=ham", 400),
    ):  # fmt: skip
        code, _ = web("POST", path, SPAM % 1)
        assert code == status, path
    for content in (b"", b"\x7fELF\0\0"):
        assert web("POST", "/learn?label=ham", content)[0] == 400
    assert web("POST", "/learn?label=SPAM", SPAM % 999)[1]["result"] == "learned"
    assert web("POST", "/forget", SPAM % 999)[1]["before"] == "spam"
    assert web("GET", "/classify")[0] == 405


def test_an_internal_error_is_not_reported_as_a_missing_user(tmp_path, monkeypatch):
    def broken(*arguments):
        raise KeyError("a fault")

    monkeypatch.setattr("streamnb.mailbox.service.mailboxes.judge", broken)
    near, far = Request((0, 0), 0), Request((0, 0), 0, user="ann")
    with Mailbox(tmp_path / "db", create=True) as box:
        mailboxes = Mailboxes(box)
        for query, status in (("", 500), ("user=ann", 404)):
            request = SimpleNamespace(query_params=QueryParams(query), headers={})
            assert api._act(mailboxes, api._classify, request, b"", Monitor())[0] == status
        assert isinstance(server._judge(mailboxes, near, b""), KeyError)
        with pytest.raises(NoMailboxError):
            server._judge(mailboxes, far, b"")


def test_http_is_for_those_with_the_token_and_this_page(web):
    for headers, status in (
        ({"Authorization": None}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"bearer {web.token}"}, 200),
        ({"Authorization": web.token}, 401),
        ({"Host": "evil.example.com"}, 421),
        ({"Host": f"evil.example.com:{web.port}"}, 421),
        ({"Origin": "http://evil.example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": f"http://127.0.0.1:{web.port}"}, 200),
        ({"Content-Length": "99999999999"}, 413),
    ):
        assert web("GET", "/status", **headers)[0] == status, headers


def raw_reply(port, request):
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        connection.sendall(request)
        reply = http.client.HTTPResponse(connection)
        reply.begin()
        return reply.status, reply.headers["Content-Type"], reply.read()


@pytest.mark.parametrize(("path", "status"), [("/health", 200), ("/status", 401)])
def test_a_probe_without_a_host_is_answered(web, path, status):
    """HAProxy sends HTTP 1.0. A browser always sends a Host, so no page can do it."""
    assert raw_reply(web.port, f"GET {path} HTTP/1.0\r\n\r\n".encode())[0] == status


@pytest.mark.parametrize(
    ("request_line", "headers", "status"),
    [
        ("GET /nothing", {}, 404),
        ("GET /classify", {}, 405),
        ("PUT /status", {}, 405),
        ("GET /status?wrong=1", {}, 400),
        ("GET /status", {"Authorization": "Bearer x"}, 401),
        ("GET /metrics", {"Authorization": "Bearer x"}, 401),
        ("GET /status", {"Host": "mail.example.org"}, 421),
        ("GET /health", {"Host": "mail.example.org"}, 421),
        ("GET /status", {"Origin": "http://evil.example.com"}, 403),
        ("POST /learn?label=ham", {"Content-Length": "99999999999"}, 413),
        ("\0 nonsense", {}, 400),
    ],
)
def test_every_error_by_http_is_json(web, request_line, headers, status):
    fields = {"Host": f"127.0.0.1:{web.port}", "Authorization": f"Bearer {web.token}", **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    reply = raw_reply(web.port, f"{request_line} HTTP/1.1\r\n{head}\r\n".encode())
    assert reply[:2] == (status, "application/json")
    (error,) = json.loads(reply[2]).values()
    assert error
    assert headers.get("Host", "") in error


def test_a_body_that_grows_too_large_is_refused_in_json(web):
    head = (
        f"POST /classify HTTP/1.1\r\nHost: 127.0.0.1:{web.port}\r\n"
        f"Authorization: Bearer {web.token}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"1000000\r\n" + b"x" * (1 << 24) + b"\r\n"
    status, kind, body = raw_reply(web.port, head.encode() + 5 * chunk)
    assert (status, kind) == (413, "application/json")
    assert "too large" in json.loads(body)["error"]


def test_health_needs_no_token(web):
    status, health = Web(web.port, None)("GET", "/health", Authorization=None)
    assert (status, health["status"]) == (200, "ok")


def test_health_reports_an_outage_of_the_database():
    mailboxes = SimpleNamespace(fault=("away", "mail.db: away"), single=None)
    parts = []

    async def send(part):
        parts.append(part)

    scope = {"type": "http", "method": "GET", "path": "/health", "headers": [], "query_string": b""}
    asyncio.run(api.api(mailboxes)(scope, None, send))
    assert parts[0]["status"] == 503
    assert json.loads(parts[1]["body"])["error"] == "mail.db: away"


@pytest.mark.parametrize("many", [False, True])
def test_metrics_have_a_token_of_their_own(serve, tmp_path, many):
    port, users = free_port(), tmp_path / "users"
    options = ["--users"] if many else ["--db", tmp_path / "mail.db"]
    environment = {**os.environ, "STREAMNB_USERS": str(users)}
    serve(*options, "--http", f"127.0.0.1:{port}", env=environment)
    path = users / "metrics.token" if many else tmp_path / "mail.db.metrics.token"
    assert path.stat().st_mode & 0o777 == 0o600
    scraper = Web(port, path.read_text().strip())
    status, metrics = scraper("GET", "/metrics")
    assert (status, "streamnb_connections" in metrics) == (200, True)
    for query in ("/status", "/status?user=metrics", "/metrics?user=ann&user=bob"):
        assert scraper("GET", query)[0] == 401


def test_a_stopping_server_logs_the_learned_message(serve, tmp_path):
    port, answers = free_port(), []
    process = serve("--db", tmp_path / "mail.db", "--http", f"127.0.0.1:{port}", lines=3)
    ask = Web(port, (tmp_path / "mail.db.token").read_text().strip())

    def teach(labelled_by):
        with contextlib.suppress(OSError, http.client.HTTPException):  # it has stopped
            for i in range(500):
                message = SPAM % (1000 * labelled_by + i)
                answers.append(ask("POST", "/learn?label=spam", message)[0])

    threads = [threading.Thread(target=teach, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    while not answers and any(thread.is_alive() for thread in threads):
        time.sleep(0.01)
    assert process.stop() == ""
    for thread in threads:
        thread.join()
    assert set(answers) == {200}
    with Mailbox(tmp_path / "mail.db") as box:
        assert sum(item.messages for item in status_of(box).learned) == len(answers)


def test_a_connection_while_accepting_ends_is_not_an_error():
    faults = []

    async def cancelled_as_one_comes():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, fault: faults.append(fault))
        with listen(Address(None, "127.0.0.1")) as listening:
            listener = Listener("http", listening, None, limit=1)
            accepting = asyncio.create_task(accept(listener, Monitor()))
            await asyncio.sleep(0)
            with socket.create_connection(listening.getsockname()):
                await asyncio.sleep(0)  # the loop has seen it, and has not called anybody yet
                accepting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await accepting
                await asyncio.sleep(0.01)

    asyncio.run(cancelled_as_one_comes())
    assert faults == []


async def greet(connection, activity):
    reader, writer = await asyncio.open_connection(sock=connection)
    writer.write(b"hello\n")
    await reader.read()
    writer.close()


@pytest.mark.parametrize("clients", [1, 2, 3, 4, 7])
def test_a_listener_that_was_full_accepts_again(clients):
    """Also if all clients disconnect at once, and none waits."""
    limit = 3

    async def come_and_go(address):
        reader, writer = await asyncio.open_connection(*address)
        greeting = asyncio.create_task(reader.readline())
        if clients <= limit:
            assert await asyncio.wait_for(asyncio.shield(greeting), 30) == b"hello\n"
        return writer, greeting

    async def rounds():
        with listen(Address(None, "127.0.0.1")) as listening:
            address = listening.getsockname()
            accepting = asyncio.create_task(
                accept(Listener("http", listening, greet, limit), Monitor())
            )
            for _ in range(4):
                opened = [await come_and_go(address) for _ in range(clients)]
                for (
                    writer,
                    greeting,
                ) in opened:  # a waiting client is served after another one disconnects
                    assert await asyncio.wait_for(greeting, 30) == b"hello\n"
                    writer.close()
                await asyncio.sleep(0.01)
            accepting.cancel()
            await asyncio.wait({accepting})

    asyncio.run(rounds())


def test_a_silent_http_client_is_disconnected(monkeypatch):
    """A client without a token must not block others by its connections."""
    monkeypatch.setattr("streamnb.mailbox.service.http._HEADER", 0.1)

    async def converse(*parts):
        near, far = socket.socketpair()
        near.setblocking(False)
        with far:
            talking = asyncio.create_task(talk_http(PlainTextResponse("here"))(near))
            for part in parts:
                far.sendall(part)
                await asyncio.sleep(0.01)
            await asyncio.wait_for(talking, 10)
            far.settimeout(60)
            return far.recv(1000)

    assert asyncio.run(converse()) == asyncio.run(converse(b"POST / HTTP/1.1\r\n")) == b""
    reply = asyncio.run(converse(b"GET / HTTP/1.1\r\nHost: x\r\nConnec", b"tion: close\r\n\r\n"))
    assert reply.startswith(b"HTTP/1.1 200")


def test_hostile_mail_by_http(web):
    for name, message in hostile().items():
        status, response = web("POST", "/classify", message)
        assert (status, response["mark"] in "SHU") == (200, True), name
    with socket.create_connection(("127.0.0.1", web.port)) as raw:
        raw.sendall(b"GARBAGE\r\n\r\n" + os.urandom(5000))
        assert b"400" in raw.recv(100)
    with contextlib.suppress(OSError):  # it is refused before all was sent
        assert web("POST", "/classify", b"x" * (65 << 20))[0] == 413
    assert web("GET", "/status")[0] == 200


def test_each_user_has_a_token(serve, tmp_path):
    users = tmp_path / "users"
    port = free_port()
    environment = {**os.environ, "STREAMNB_USERS": str(users)}
    serve("--users", "--http", f"127.0.0.1:{port}", env=environment)
    for name in ("ann", "bob"):
        Mailbox(users / f"{name}.db").close()
    assert Web(port, "x")("GET", "/status?user=ann")[0] == 401  # and now there is a token
    token = (users / "ann.db.token").read_text().strip()
    ann = Web(port, token)
    assert ann("POST", "/learn?user=ann&label=spam", SPAM % 1)[1]["result"] == "learned"
    assert ann("GET", "/status?user=ann")[1]["path"] == str(users / "ann.db")
    assert ann("GET", "/status?user=bob")[0] == 401
    assert ann("GET", "/status?user=ann&user=bob")[0] == 401
    for query in ("?user=..%2Fx", "?user=zed", ""):  # the answer does not show which users exist
        assert ann("GET", f"/status{query}") == ann("GET", "/status?user=bob")
    done = streamnb_command("classify", "--user", "ann", tmp_path, env=environment)
    assert done[0] == 3  # a folder without messages, but a user
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STREAMNB_USERS", str(users))
        with MailboxClient(None, user="ann") as asking:
            assert asking.ask_server(SPAM % 1).label == "spam"


@pytest.fixture(scope="module")
def users(tmp_path_factory):
    """Return the environment of a folder of users: eve and ann agree, bob disagrees with both."""
    folder = tmp_path_factory.mktemp("users")
    for name, swapped in (("ann", False), ("eve", False), ("bob", True)):
        with Mailbox(folder / f"{name}.db") as box:
            labels = ("ham", "spam") if swapped else ("spam", "ham")
            train(box, labels=labels)
    aliases = folder / "aliases"
    aliases.write_text("info@example.org ann\n")
    return {**os.environ, "STREAMNB_USERS": str(folder), "ALIASES": str(aliases)}


@pytest.mark.parametrize(
    ("recipients", "spam_answer", "cause"),
    [
        (["ann@example.org"], b"y", None),
        (["bob@example.org"], b"a", None),
        (["ANN+list@example.org", "info@example.org"], b"y", None),
        (["ann@example.org", "eve@example.org"], b"y", None),
        (["ann@example.org", "bob@example.org"], b"a", "recipients"),
        (["zed@example.org"], b"a", "no_database"),
        (["ann@example.org", "zed@example.org"], b"a", "no_database"),
        ([f"u{i}@example.org" for i in range(30)], b"a", "recipients"),
        ([], b"a", "recipients"),
    ],
)
def test_a_milter_judges_by_the_databases_of_the_recipients(
    serve, users, recipients, spam_answer, cause
):
    port, http = free_port(), free_port()
    process = serve("--users", "--milter", f"127.0.0.1:{port}", "--reject", "0.6", "--log", "json",
                    "--http", f"127.0.0.1:{http}", "--aliases", users["ALIASES"], env=users, lines=3)  # fmt: skip
    with MailServer(port, steps=0x1FFFFF & ~0x0008) as server:
        server.send(b"D", b"Ei\0Q1\0")
        for recipient in recipients:
            server.send(b"R", f"<{recipient}>\0".encode())
        edits, answer = server.bring(SPAM % 999)
    assert answer == spam_answer
    assert bool(edits) == (answer == b"a" and cause is None)
    token = (Path(users["STREAMNB_USERS"]) / "metrics.token").read_text().strip()
    metrics = str(Web(http, token)("GET", "/metrics")[1])
    causes = re.findall(r'streamnb_unmarked_total\{cause="(\w+)",listener="milter"\}', metrics)
    assert causes == ([cause] if cause else [])
    output = process.stop()
    (line,) = (json.loads(line) for line in output.splitlines() if line.startswith("{"))
    assert ("error" in line) == (cause is not None)
    assert "passed on unmarked" not in output  # the line has the error
    judges = {recipient.lower().partition("@")[0].partition("+")[0] for recipient in recipients}
    if cause is None:
        assert set(line["user"].split(",")) == {
            "ann" if name == "info" else name for name in judges
        }
    if answer == b"y":
        assert "-" not in re.sub(r"[^ ]+ ([+-])", r"\1", line["reasons"])  # no evidence for ham
    if answer == b"y":
        log = streamnb_command("verdicts", "--find", "Q1", "--user", "ann", env=users)[1]
        assert (log.count("\n"), " spam " in log) == (1, True)
        assert streamnb_command("verdicts", "--find", "Q2", "--user", "ann", env=users)[1] == ""


def test_http_takes_the_address_of_a_user(serve, users):
    port = free_port()
    serve("--users", "--http", f"127.0.0.1:{port}", "--aliases", users["ALIASES"], env=users)
    assert Web(port, "x")("GET", "/status?user=ann")[0] == 401
    web = Web(port, (Path(users["STREAMNB_USERS"]) / "ann.db.token").read_text().strip())
    for name in ("ann", "ann@example.org", "info@example.org"):
        assert web("GET", f"/status?user={name}")[1]["path"].endswith("/ann.db")
    for name in ("bob@example.org", "other@example.org", "../ann@example.org", "@", "zed"):
        assert web("GET", f"/status?user={name}")[0] == 401


def test_a_lack_of_descriptors_is_logged_once(trained_db, tmp_path, serve):
    process = serve("--db", trained_db, lines=1, preexec_fn=limit_descriptors)
    path = process.lines[0].split()[-1]
    clients = []
    for _ in range(60):
        clients.append(socket.socket(socket.AF_UNIX))
        clients[-1].connect(path)
    time.sleep(1.5)
    for client in clients:
        client.close()
    until = time.monotonic() + 20
    with MailboxClient(trained_db) as asking:
        while time.monotonic() < until:
            with contextlib.suppress(OSError, ValueError, LookupError):
                assert asking.ask_server(SPAM % 99).mark == "S"
                break
        else:
            pytest.fail("it did not recover")
    assert process.stop().count("\n") <= 1


def limit_descriptors():
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--smtp", "127.0.0.1:1"), "needs --next"),
        (("--next", "smtp:127.0.0.1:1"), "--next needs --lmtp or --smtp"),
        (("--smtp", "127.0.0.1:1", "--next", "smtp:127.0.0.1:1"), "the server itself listens"),
        (("--lmtp", "/l", "--next", "lmtp:unix:/l"), "the server itself listens"),
        (("--smtp", "nonsense", "--next", "smtp:127.0.0.1:1"), "not an address"),
        (("--smtp", "[]:25", "--next", "smtp:127.0.0.1:1"), "not an address"),
        (("--smtp", "127.0.0.1:99999", "--next", "smtp:127.0.0.1:1"), "not an address"),
        (("--smtp", "127.0.0.1:1", "--next", "http:x:1"), "lmtp:ADDRESS"),
        (("--http", "203.0.113.1:80"), "cannot listen"),
        (("--http", "/nonexistent/x"), "cannot listen"),
        (("--http", "127.0.0.1:0", "--key", "x"), "--key needs --certificate"),
        (("--http", "127.0.0.1:0", "--key", "x", "--certificate", "x"), "--certificate needs --lmtp or --smtp"),
        (("--http", "127.0.0.1:0", "--reject", "0.99"), "--reject needs --milter"),
        (("--users",), "remove --db or --user"),
        (("--full-address",), "--full-address needs --users"),
        (("--aliases", "x"), "--aliases needs --users"),
        (("--reject-text", "x"), "--reject-text needs --reject"),
        (("--reject-text", "x\ny"), "ASCII characters"),
        (("--reject-text", "ü"), "ASCII characters"),
        (("--smtp", "127.0.0.1:0", "--next", "smtp:127.0.0.1:1", "--key", "/dev/null", "--certificate", "/dev/null"),
         "/dev/null: cannot be used: it contains no certificate (PEM)"),
        (("--trust", "nonsense"), "not a network"),
        (("--trust", "192.0.2.0/24", "--http", "127.0.0.1:0"), "--trust needs --lmtp or --smtp"),
        (("--host-name", ""), "not the name of a host"),
        (("--host-name", "http://streamnb:80"), "not the name of a host"),
        (("--host-name", "streamnb:8025"), "not the name of a host"),
    ],
)  # fmt: skip
def test_misuse_is_one_line(tmp_path, options, text):
    status, out, error = streamnb_command("serve", "--db", tmp_path / "db", *options)
    assert status != 0
    assert (out, error.count("\n")) == ("", 1)
    assert text in error
    assert text == "cannot listen" or not (tmp_path / "db").exists()


FORGED = b"X-Streamnb\0Ham, forged\0"


def test_no_command_of_a_client_disables_the_milter(trained_db, serve):
    """Names that are not valid IDNA, addresses beyond ASCII, odd macros and hosts."""
    port = free_port()
    serve("--db", trained_db, "--milter", f"127.0.0.1:{port}", "--reject", "0.6")
    text = [
        (b"C", b"xn--a.example\x006\0\x19IPv6:2001:db8::1\0"),
        (b"H", b"xn--a\0"), (b"H", b"m\xc3\xbcller.de\0"), (b"H", b"\xff\0"),
        (b"D", b"Cj\0m\xc3\xbcller\0"), (b"M", b"<m\xc3\xbc@b.example>\0"),
        (b"R", b"<m\xfc@d.example>\0"), (b"R", b""), (b"C", b""), (b"U", b"\0\0"), (b"Z", b"what"),
        (b"A", b""), (b"K", b""), (b"D", b""),
    ]  # fmt: skip
    with MailServer(port) as server:
        assert server.agreed[:2] == (6, 0x11)
        for number, packet in enumerate(text):  # a session of many messages, none ended by "A"
            server.send(*packet)
            assert server.bring(SPAM % number, FORGED) == ([], b"y"), packet
        odd = [b"x-streamnb \0a\0", FORGED, b"x-STREAMNB\0b\0", b"Na\xefve\0x\0"]
        edits, verdict = server.bring(HAM % 3, *odd)
        assert verdict == b"a"
        removed = [b"\2x-STREAMNB", b"\1X-Streamnb", b"\1x-streamnb "]
        assert edits[:-1] == [(b"m", b"\0\0\0" + item + b"\0\0") for item in removed]
        assert edits[-1][0] == b"i"
        assert edits[-1][1].startswith(b"\0\0\0\0X-Streamnb\0")
        server.send(b"Q")
        assert server.stream.read() == b""


@pytest.mark.parametrize("actions", [0x01, 0x10, 0x00])
def test_a_milter_logs_what_the_mail_server_lets_it_do(trained_db, serve, actions):
    port = free_port()
    process = serve("--db", trained_db, "--milter", f"127.0.0.1:{port}", "--log", "json")
    for _ in range(2):
        with MailServer(port, actions=actions) as server:
            edits, verdict = server.bring(HAM % 3, FORGED)
            assert verdict == b"a"
            assert [kind for kind, _ in edits] == [b"i"] * (actions == 1) + [b"m"] * (actions == 16)
            server.send(b"Q")
    lines = process.stop().splitlines()
    logged = [json.loads(line) for line in lines if '"action"' in line]
    assert [line["action"] for line in logged] == ["marked" if actions & 1 else "unmarked"] * 2
    assert sum("SMFIF_ADDHDRS" in line for line in lines) == (not actions & 1)
    assert sum("SMFIF_CHGHDRS" in line for line in lines) == (not actions & 0x10)


@pytest.mark.parametrize("reject_text", [None, "100% spam; ask postmaster@example.org"])
@pytest.mark.parametrize(
    ("place", "queue_id"), [(b"E", "4fWxyz12AbC"), (b"M", "62KHjb3q012345"), (b"E", "")]
)
def test_a_refusal_has_the_id_of_its_line_in_the_log(
    trained_db, serve, reject_text, place, queue_id
):
    """Sendmail sends the id before the sender, Postfix after a recipient."""
    port = free_port()
    extra = ["--reject-text", reject_text] if reject_text else []
    process = serve("--db", trained_db, "--milter", f"127.0.0.1:{port}", "--reject", "0.6",
                    "--log", "json", *extra)  # fmt: skip
    with MailServer(port) as server:
        server.send(b"D", b"Ci\0stale\0")
        server.send(b"C", b"")
        macros = b"j\0host\0{i}\0%b\0" % queue_id.encode() if queue_id else b""
        server.send(b"D", b"M" + macros * (place == b"M"))
        server.send(b"M", b"<a@b.c>\0")
        for recipient in (b"<ann@d.e>\0NOTIFY=NEVER\0", b"<b\xfcb@d.e>\0", b"", b"\0"):
            server.send(b"R", recipient)
        server.send(b"D", b"E" + macros * (place == b"E"))
        _, verdict = server.bring(SPAM % 99)
        assert verdict == b"y"
        reply = server.reply.removesuffix(b"\0").decode().replace("%%", "%")
        server.send(b"Q")
    text, _, reply_id = reply.removesuffix(")").partition(" (id ")
    assert text == f"550 5.7.1 {reject_text or 'This message looks like spam'}"
    assert reply_id == (queue_id or reply_id) != "stale"
    (line,) = (json.loads(line) for line in process.stop().splitlines())
    assert (line["queue_id"], line["action"]) == (reply_id, "rejected")
    assert line["recipient"] == "ann@d.e,b\ufffdb@d.e"
    assert "pills +" in line["reasons"]


def test_a_milter_removes_forged_fields_after_an_error(tmp_path, trained_db, serve):
    port, path = free_port(), tmp_path / "mail.db"
    path.write_bytes(trained_db.read_bytes())
    process = serve("--db", path, "--milter", f"127.0.0.1:{port}")
    path.rename(tmp_path / "moved.db")
    path.write_bytes(trained_db.read_bytes())  # another file has taken its place
    with MailServer(port, steps=0) as server:  # one that waits for an answer to each packet
        assert server.agreed == (6, 0x11, 0)
        for kind, data in [(b"C", b"h\0U"), (b"H", b"h\0"), (b"M", b"<>\0"), (b"R", b"<a@b>\0"),
                           (b"T", b""), (b"L", FORGED), (b"N", b""), (b"B", b"hi\r\n")]:  # fmt: skip
            server.send(kind, data)
            assert server.read() == (b"c", b"")
        assert server.end() == ([(b"m", b"\0\0\0\1X-Streamnb\0\0")], b"a")
    assert "passed on unmarked" in process.stop()


@pytest.mark.parametrize("packet", [b"\0\0\0\0", b"\xff\xff\xff\xffO", b"\0\0\0\3O12", b"\0\0\1"])
def test_a_client_that_is_not_a_mail_server_is_disconnected(trained_db, serve, packet):
    port = free_port()
    serve("--db", trained_db, "--milter", f"127.0.0.1:{port}")
    with MailServer(port) as server:
        server.socket.sendall(packet)
        server.socket.shutdown(socket.SHUT_WR)
        assert server.stream.read() == b""
    with MailServer(port) as server:
        assert server.agreed[0] == 6


def test_a_unit_may_have_several_sockets_of_one_name(trained_db):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        begin = (
            "import os, sys; given = [os.dup(int(n)) for n in sys.argv[1:3]];"
            "[os.dup2(one, 3 + i) for i, one in enumerate(given)];"
            "[os.set_inheritable(3 + i, True) for i in range(2)];"
            "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='2', LISTEN_FDNAMES='http:http');"
            "os.execv(sys.argv[3], sys.argv[3:])"
        )
        fds = [item.fileno() for item in sockets]
        process = subprocess.Popen(
            [sys.executable, "-c", begin, *map(str, fds), *STREAMNB, "serve", "--db", str(trained_db)],
            pass_fds=fds, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            for item in sockets:
                client = http.client.HTTPConnection(*item.getsockname(), timeout=20)
                client.request("GET", "/status")
                assert client.getresponse().status == 401  # without the token
                client.close()
        finally:
            process.terminate()
            assert "Traceback" not in process.communicate(timeout=20)[1]


def test_the_server_stops_although_a_mail_server_does_not_read(trained_db, serve):
    port = free_port()
    process = serve("--db", trained_db, "--milter", f"127.0.0.1:{port}")
    with MailServer(port, steps=0) as server:
        server.socket.settimeout(0.5)
        server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # soon full of answers
        with contextlib.suppress(TimeoutError):
            while True:  # each wants an answer
                server.socket.sendall(b"\0\0\0\2Cx" * 10_000)
        process.stop()


XFORWARD = b"NAME=%b ADDR=192.0.2.7 HELO=%b IDENT=4f+57x" % (b"m" * 230, b"h" * 220)


@pytest.mark.parametrize("offered", [b"NAME ADDR", b"NAME ADDR PORT PROTO HELO IDENT SOURCE", b""])
def test_the_original_client_is_forwarded_by_xforward(trained_db, serve, offered):
    extension = b"250-XFORWARD %b\r\n" % offered if offered else b""
    answers = {b"EHLO": b"250-hop\r\n" + extension + b"250 SIZE\r\n", b"DATA": b"354 go\r\n"}
    hop, port = Raw(answers), free_port()
    process = serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--log", "json",
                    "--next", f"smtp:127.0.0.1:{hop.port}")  # fmt: skip
    with smtplib.SMTP("127.0.0.1", port, timeout=30) as client:
        client.ehlo()
        assert client.esmtp_features["xforward"].split()[:2] == ["NAME", "ADDR"]
        for wrong in ("", "NAME", "COLOUR=red", "NAME="):
            assert client.docmd("XFORWARD", wrong)[0] == 501
        assert client.docmd("XFORWARD", XFORWARD.decode())[0] == 250
        client.sendmail("a@b.c", ["d@e.f"], HAM % 1)
        client.sendmail("a@b.c", ["d@e.f"], HAM % 2)  # it is of one message alone
        client.docmd("MAIL FROM:<a@b.c>")
        assert client.docmd("XFORWARD", XFORWARD.decode())[0] == 503
    names = offered.split()
    expected = [pair for pair in XFORWARD.split() if pair.split(b"=")[0] in names]
    lines = [line for line in hop.got.split(b"\r\n") if line.startswith(b"XFORWARD")]
    assert [pair for line in lines for pair in line.split()[1:]] == expected
    first, second = (json.loads(line) for line in process.stop().splitlines())
    assert first["queue_id"] == "4fWx"
    assert "queue_id" not in second
    hop.close()


@pytest.mark.parametrize("next_kind", ["lmtp", "smtp"])
def test_each_recipient_gets_the_verdict_of_their_own_database(
    serve, lmtp_sink, smtp_sink, tmp_path, next_kind
):
    users, path = tmp_path / "users", tmp_path / "in"
    for name, labels in (("ann", ("spam", "ham")), ("bob", ("ham", "spam"))):
        with Mailbox(users / f"{name}.db") as box:
            train(box, labels=labels)
    sink = lmtp_sink if next_kind == "lmtp" else smtp_sink
    environment = {**os.environ, "STREAMNB_USERS": str(users)}
    serve("--users", "--lmtp", path, "--next", sink.address, "--log", "text", env=environment)
    recipients = ["ann@d.e", "bob@d.e", "cat@d.e", "no@d.e", "dan@d.e", "ann+x@d.e"]
    sink.answers = {"no@d.e": "550 5.1.1 no such user", "data dan@d.e": "452 4.2.2 full"}
    with smtplib.LMTP() as client:
        client.connect(str(path))
        client.ehlo()
        for round_number in range(2):
            client.docmd("MAIL FROM:<a@b.c>")
            accepted = [
                recipient
                for recipient in recipients
                if client.docmd(f"RCPT TO:<{recipient}>")[0] == 250
            ]
            assert accepted == [recipient for recipient in recipients if recipient != "no@d.e"]
            replies = [client.data(SPAM % (900 + round_number))]
            replies += [client.getreply() for _ in accepted[1:]]
            expected = [
                452 if recipient == "dan@d.e" and next_kind == "lmtp" else 250
                for recipient in accepted
            ]
            assert [code for code, _ in replies] == expected
    delivered = {recipient: got for tos, got in sink.messages for recipient in tos}
    assert len(sink.messages) == 2 * 3  # one transaction for each different verdict
    assert FIELD.match(delivered["ann@d.e"])[1] == FIELD.match(delivered["ann+x@d.e"])[1] == b"Spam"
    assert FIELD.match(delivered["bob@d.e"])[1] == b"Ham"
    for recipient, got in delivered.items():
        assert FIELD.sub(b"", got) == SPAM % 901, recipient
        assert (FIELD.match(got) is None) == (recipient in ("cat@d.e", "dan@d.e"))


def test_idle_connections_end_when_others_wait(trained_db, serve, smtp_sink):
    port = free_port()
    serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next", smtp_sink.address)
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(25)]
    with smtplib.SMTP("127.0.0.1", port, timeout=120) as client:
        client.sendmail("a@b.c", ["ann@d.e"], HAM % 1)
    assert len(smtp_sink.messages) == 1
    for connection in idle:
        connection.close()


def test_connections_from_one_address_are_limited(trained_db, serve, smtp_sink):
    port = free_port()
    serve("--db", trained_db, "--smtp", f"127.0.0.1:{port}", "--next", smtp_sink.address,
          "--per-address", "2")  # fmt: skip
    with smtplib.SMTP("127.0.0.1", port, timeout=30), smtplib.SMTP("127.0.0.1", port, timeout=30):
        with pytest.raises(smtplib.SMTPConnectError) as refused:
            smtplib.SMTP("127.0.0.1", port, timeout=30)
        assert refused.value.smtp_code == 421


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])  # noqa: S104 (they are refused)
def test_a_listener_for_other_machines_needs_to_know_whom_to_trust(trained_db, host):
    options = ("--db", trained_db, "--smtp", f"{host}:0", "--next", "smtp:127.0.0.1:1")
    status, _, error = streamnb_command("serve", *options)
    assert (status, error.count("\n")) == (2, 1)
    assert "--trust NETWORK" in error
