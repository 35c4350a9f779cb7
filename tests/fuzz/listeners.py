"""Every listener and page: for any bytes of a connection, it ends, and the next connection is served.

Each input goes through a connected pair of sockets to the function that serves real connections, in an event
loop of this process. An error that the loop reports is a find, too.
"""

import asyncio
import atexit
import contextlib
import hashlib
import hmac
import itertools
import logging
import re
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from fuzz.files import FOLDER, HAM, SPAM
from fuzz.target import Choices, Target

import streamnb.mailbox.service.next_hop
import streamnb.mailbox.service.proxy
import streamnb.mailbox.service.server
from streamnb import Mailbox
from streamnb.errors import StreamNBError
from streamnb.mailbox.service.api import api
from streamnb.mailbox.service.http import AuthMiddleware, cookie_name, http
from streamnb.mailbox.service.mailboxes import Mailboxes
from streamnb.mailbox.service.milter import milter
from streamnb.mailbox.service.next_hop import NextHop
from streamnb.mailbox.service.protocol import (
    Request,
    read_reply,
    read_request,
    write_reply,
    write_request,
)
from streamnb.mailbox.service.proxy import proxy
from streamnb.mailbox.service.response import JudgeOptions, Response, judge
from streamnb.mailbox.service.server import socket_handler
from streamnb.mailbox.service.sockets import parse_address
from streamnb.mailbox.verdict_log import VerdictLog
from streamnb.web.app import pages as pages_of

__all__ = ["TARGETS"]

TOKEN, SESSION = "a-token", "a-session"
LONGEST = 10.0  # seconds for one input
HOP_PATIENCE = 0.3  # seconds to wait for a silent next hop
ConnectionHandler = Callable[[socket.socket], Coroutine[Any, Any, None]]


class Site:
    """A trained mailbox, an event loop, and the faults that it reports."""

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(dir=FOLDER))
        self.box = Mailbox(self.place / "mail.db")
        for number in range(6):
            self.box.learn(SPAM + b"%d" % number, "spam")
            self.box.learn(HAM + b"%d" % number, "ham")
        for message in (SPAM, HAM):
            VerdictLog(self.box).note(message, judge(self.box, message), "test")
        self.mailboxes = Mailboxes(self.box)
        logging.getLogger("streamnb").addHandler(
            logging.NullHandler()
        )  # errors of a peer are logged
        self.faults: list[str] = []
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda _, context: self.faults.append(str(context)))
        atexit.register(self.close)

    def close(self) -> None:
        """Close everything."""
        for sink in _SINKS.values():
            sink.listening.close()
        self.loop.close()
        self.box.close()

    def over(self, talk: ConnectionHandler, data: bytes, patience: float | None = 0.0) -> bytes:
        """Return the answer of a listener to some bytes.

        The client says that it ends after so many quiet seconds; never, if that is None.
        """
        client_end, server_end = socket.socketpair()
        server_end.setblocking(False)
        client_end.setblocking(False)

        async def converse() -> bytes:
            task = self.loop.create_task(talk(server_end))
            answer = bytearray()

            async def client() -> None:
                waits = patience
                step = 1 if len(data) < 500 and sum(data) % 8 == 0 else max(len(data), 1)
                with contextlib.suppress(ConnectionError):  # it may disconnect while we send
                    for start in range(0, len(data), step):  # sometimes single bytes
                        await self.loop.sock_sendall(client_end, data[start : start + step])
                        await asyncio.sleep(0)
                    while True:
                        try:
                            part = await asyncio.wait_for(
                                self.loop.sock_recv(client_end, 1 << 16), waits
                            )
                        except TimeoutError:
                            client_end.shutdown(socket.SHUT_WR)
                            waits = None
                            continue
                        if not part:
                            return
                        answer.extend(part)

            _, pending = await asyncio.wait(
                [task, self.loop.create_task(client())], timeout=LONGEST
            )
            for case in pending:
                case.cancel()
            if pending:
                raise SystemError("the connection did not end")
            task.result()
            return bytes(answer)

        try:
            answer = self.loop.run_until_complete(converse())
        finally:
            client_end.close()
            server_end.close()
        assert not self.faults, self.faults
        return answer


_SITE: list[Site] = []


def site() -> Site:
    """Return the site of this process, created on first use."""
    if not _SITE:
        _SITE.append(Site())
    return _SITE[0]


_TALKS: dict[str, ConnectionHandler] = {}


def talk_of(name: str, make: Callable[[], ConnectionHandler]) -> ConnectionHandler:
    """Return a listener of this process, created on first use."""
    if name not in _TALKS:
        _TALKS[name] = make()
    return _TALKS[name]


# Requests of `streamnb-filter`


def ask(data: bytes) -> None:
    """Check that the answer is valid, an error of one line, or empty."""
    server = site()
    reply = server.over(talk_of("ask", lambda: socket_handler(server.mailboxes)), data)
    if reply:
        try:
            answer = read_reply(reply)
        except StreamNBError:
            assert reply.count(b"\n") == 1
        else:
            assert 0 <= answer.probability <= 1 + 1e-9
    second = server.over(_TALKS["ask"], write_request(Request((0, 0), len(SPAM))) + SPAM)
    assert read_reply(second).label == "spam"


def _questions() -> list[bytes]:
    full = Request(
        (0, 0), len(SPAM), JudgeOptions(3, 0.9, (1.0, 2.0, 0.5)), learn=True, record=True
    )
    return [write_request(Request((0, 0), len(HAM))) + HAM, write_request(full) + SPAM,
            write_request(Request((1, 2), 0, user="ann"))]  # fmt: skip


def request(data: bytes) -> None:
    """Check that a line is a request that is written as it was read, or gives a ValueError."""
    try:
        answer = read_request(data)
    except (ValueError, LookupError):
        return
    try:
        line = write_request(answer)
    except UnicodeEncodeError:
        return
    assert repr(read_request(line)) == repr(answer)


def reply(data: bytes) -> None:
    """Check that a reply is written as it was read, or gives an error that the client handles."""
    try:
        answer = read_reply(data)
    except (ValueError, LookupError, StreamNBError):
        return
    try:
        line = write_reply(answer)
    except (ValueError, LookupError):
        return
    assert repr(read_reply(line)) == repr(answer)


# HTTP


def _sound_http(answer: bytes, bodies: bool = True) -> None:
    """Check that responses are complete, and none reports an internal error."""
    while answer:
        head = re.match(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n", answer)
        assert head, answer[:200]
        assert int(head[1]) < 500, answer[:2000]
        length = re.search(rb"^content-length: (\d+)", head[2], re.M | re.I)
        if not length or not bodies:
            return  # chunks, or all remaining bytes
        assert len(answer) >= head.end() + int(length[1]), "it is cut off"
        answer = answer[head.end() + int(length[1]) :]


def ask_authorised(
    talk: ConnectionHandler, data: bytes, credentials: bytes, form: bytes = b""
) -> bytes:
    """Return the answer to an input, raw or with valid host, token and length."""
    choice = Choices(data)
    if choice.below(4) == 0:
        answer = site().over(talk, choice.remaining_bytes(), 0.05)
        _sound_http(answer, bodies=b"HEAD" not in data)
        return answer
    method = (b"GET", b"POST", b"HEAD", b"PUT")[choice.below(4)]
    path = choice.take(choice.below(256))
    body = choice.remaining_bytes()
    path = re.sub(rb"[^!-~]", lambda odd: b"%%%02x" % odd[0][0], path)
    body = form + body if form and method == b"POST" else body
    whole = (
        b"%b /%b HTTP/1.1\r\nHost: localhost\r\n%b\r\nConnection: close\r\nContent-Length: %d\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\n\r\n%b"
        % (method, path, credentials, len(body), body)
    )
    answer = site().over(talk, whole, None)
    _sound_http(answer, bodies=method != b"HEAD")
    return answer


def _guarded(name: str, app: Callable[[], Any]) -> ConnectionHandler:
    return talk_of(name, lambda: http(AuthMiddleware(app(), lambda _: TOKEN, session=SESSION)))


def programs(data: bytes) -> None:
    """Check HTTP for programs: classify, learn, forget, status, metrics."""
    server = site()
    talk = _guarded("http", lambda: api(server.mailboxes))
    ask_authorised(talk, data, b"Authorization: Bearer " + TOKEN.encode())


def pages(data: bytes) -> None:
    """Check the pages for a browser."""
    server = site()
    talk = _guarded("pages", lambda: pages_of(server.box, SESSION))
    form = hmac.new(SESSION.encode(), b"form", hashlib.sha256).hexdigest()
    answer = ask_authorised(
        talk, data, f"Cookie: {cookie_name(None)}={SESSION}".encode(), f"form={form}&".encode()
    )
    assert b"<script>" not in answer


def _requests() -> list[bytes]:
    def case(method: int, path: bytes, body: bytes = b"") -> bytes:
        return bytes([1, method, len(path)]) + path + body

    whole = b"\0GET /status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a-token\r\n\r\n"
    return [
        whole, whole + whole[1:], case(0, b"status"), case(0, b"metrics"), case(0, b""),
        case(1, b"classify?reasons=3&threshold=0.9&learn=sure", SPAM), case(1, b"learn?label=ham", HAM),
        case(1, b"forget", HAM), case(1, b"forget?digest=" + b"0" * 64), case(0, b"?kind=all&search=x"),
        case(0, b"words?word=pills"), case(0, b"figures"), case(0, b"message/1"),
        case(1, b"label", b"label=spam&number=1&where=/"), case(1, b"back"), case(1, b"unlearn", b"number=1"),
    ]  # fmt: skip


# Mail in transit


class Sink:
    """A next hop on a socket that answers like SMTP servers, or by a script."""

    def __init__(self, lmtp: bool = False) -> None:
        self.lmtp = lmtp
        self.script: list[bytes] | None = None
        self.hangs = False  # whether it is silent after the script, or disconnects
        self.messages: list[bytes] = []
        self.spoken = b""
        self.path = tempfile.mktemp(dir=FOLDER)  # noqa: S306 (in a folder of our own)
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(self.path)
        self.listening.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    @property
    def hop(self) -> NextHop:
        return NextHop(self.lmtp, parse_address(self.path))

    def serve(self) -> None:
        while True:
            connection, _ = self.listening.accept()
            threading.Thread(target=self.speak, args=[connection], daemon=True).start()

    def say(self, connection: socket.socket, usual: bytes) -> None:
        if self.script is not None:
            if not self.script:
                time.sleep(2 * HOP_PATIENCE if self.hangs else 0)
                raise OSError("nothing more to say")
            usual = self.script.pop(0)
        self.spoken += usual
        connection.sendall(usual)

    def speak(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as lines:
                self.say(connection, b"220 sink\r\n")
                recipients = 0
                while line := lines.readline():
                    word = line[:4].upper()
                    recipients = recipients + 1 if word == b"RCPT" else recipients
                    if word in (b"EHLO", b"LHLO"):
                        self.say(connection, b"250-sink\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n")
                    elif word == b"DATA":
                        self.say(connection, b"354 go on\r\n")
                        message = b""
                        while (line := lines.readline()) != b".\r\n":
                            if not line:
                                return
                            message += line
                        self.messages.append(message)
                        for _ in range(recipients if self.lmtp else 1):
                            self.say(connection, b"250 2.0.0 ok\r\n")
                        recipients = 0
                    elif word == b"QUIT":
                        self.say(connection, b"221 bye\r\n")
                        return
                    else:
                        self.say(connection, b"250 ok\r\n")
        except OSError:
            return


_SINKS: dict[str, Sink] = {}


def _mail(data: bytes, lmtp: bool) -> None:
    """Check that the proxy accepts exactly the messages that the next hop got."""
    server, name = site(), "lmtp" if lmtp else "smtp"
    sink = _SINKS.setdefault(name, Sink(lmtp)) if name not in _SINKS else _SINKS[name]
    talk = talk_of(name, lambda: proxy(sink.hop, server.mailboxes, lmtp=lmtp))
    before = len(sink.messages)
    lines = server.over(talk, data, 0.05).split(b"\r\n")[:-1]
    for line in lines:
        assert re.match(rb"[2-5]\d\d[ -]", line), line
    delivered = sink.messages[before:]
    accepted = sum(a[:3] == b"354" and b[:1] == b"2" for a, b in itertools.pairwise(lines))
    assert accepted <= len(delivered) <= data.upper().count(b"DATA")
    for message in delivered:
        assert message.count(b"\n") == message.count(b"\r\n")
        assert re.search(rb"^X-Streamnb: ", message, re.M)
    HANDED_ON[name] += accepted
    if before > 1000:
        sink.messages.clear()


HANDED_ON: Counter[str] = Counter()


def smtp(data: bytes) -> None:
    _mail(data, lmtp=False)


def lmtp(data: bytes) -> None:
    _mail(data, lmtp=True)


def _dialogues(hello: bytes) -> list[bytes]:
    mail = SPAM.replace(b"\n", b"\r\n")
    begin = hello + b" me\r\nMAIL FROM:<a@b.c>\r\nRCPT TO:<ann@d.e>\r\n"
    return [
        begin + b"DATA\r\n" + mail + b".\r\nQUIT\r\n",
        begin
        + b"RCPT TO:<bob@d.e>\r\nDATA\r\n..x\r\n.\r\nRSET\r\nNOOP\r\nVRFY x\r\nHELP\r\nQUIT\r\n",
        hello + b" me\r\nMAIL FROM:<> BODY=8BITMIME SMTPUTF8 SIZE=10\r\nMAIL FROM:<x>\r\nDATA\r\n",
    ]


def next_hop(data: bytes) -> None:
    """Check that with any answers of a next hop, only messages that it accepted count as accepted."""
    server = site()
    sink = _SINKS.setdefault("hostile", Sink()) if "hostile" not in _SINKS else _SINKS["hostile"]
    sink.hangs, sink.spoken = data[:1] == b"\1", b""
    sink.script = [part for part in data[1:].split(b"\xff") if part]
    talk = talk_of("next_hop", lambda: proxy(sink.hop, server.mailboxes))
    lines = server.over(talk, _dialogues(b"EHLO")[0], 3 * HOP_PATIENCE).split(b"\r\n")[:-1]
    for line in lines:
        assert re.match(rb"[2-5]\d\d[ -]", line), line
    if any(a[:3] == b"354" and b[:1] == b"2" for a, b in itertools.pairwise(lines)):
        HANDED_ON["next_hop"] += 1  # then its first reply after 354 was positive
        begin = re.search(rb"(?m)^354.*\n", sink.spoken)
        assert begin
        assert re.match(rb"(?:2\d\d-.*\n)*2\d\d(?!-)", sink.spoken[begin.end() :])


def _hops() -> list[bytes]:
    usual = [b"220 x\r\n", b"250-x\r\n250 8BITMIME\r\n", b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n",
             b"250 ok\r\n", b"221 bye\r\n"]  # fmt: skip
    refused = [*usual[:5], b"451 later\r\n", b"221 x\r\n"]
    cut = [[*usual[:n], usual[n][:half]] for n in range(7) for half in (0, 3)]
    dialogues = [usual, refused, [*usual[:4], b"250 what\r\n"], [b"554 no\r\n"]]
    return [b"\0" + b"\xff".join(case) for case in dialogues] + [
        b"\1" + b"\xff".join(case) for case in cut
    ]


def asked_by_milter(data: bytes) -> None:
    """Check that a session with any packets of a mail server ends, and the next one is answered."""
    server = site()
    talk = talk_of("milter", lambda: milter(server.mailboxes))
    with contextlib.suppress(StreamNBError):  # an invalid session is ended, and logged
        server.over(talk, data)
    assert not server.faults, server.faults
    assert b"X-Streamnb" in server.over(talk, _packets()[0])


def _packets() -> list[bytes]:
    def packet(kind: bytes, content: bytes = b"") -> bytes:
        return (len(content) + 1).to_bytes(4, "big") + kind + content

    options = packet(
        b"O", (6).to_bytes(4, "big") + (0x1FF).to_bytes(4, "big") + (0x1FFFFF).to_bytes(4, "big")
    )
    begin = options + packet(b"C", b"host\x004\x00\x19127.0.0.1\0") + packet(b"H", b"me\0")
    sender = packet(b"M", b"<a@b.c>\0") + packet(b"R", b"<ann@d.e>\0")
    fields = packet(b"L", b"Subject\0pills\0") + packet(b"L", b"X-Streamnb\0Ham\0") + packet(b"N")
    whole = begin + sender + fields + packet(b"B", b"buy now\r\n") + packet(b"E")
    return [
        whole + packet(b"Q"),
        begin + packet(b"A") + packet(b"Q"),
        options,
        whole + sender + fields,
    ]


def quiet() -> None:
    """Shorten all waits, so an input ends with its last byte."""
    streamnb.mailbox.service.server._PATIENCE = 2.0
    streamnb.mailbox.service.next_hop.PATIENCE_S = HOP_PATIENCE
    streamnb.mailbox.service.next_hop._GREETING_S = HOP_PATIENCE
    streamnb.mailbox.service.next_hop.ANSWER_S = HOP_PATIENCE
    streamnb.mailbox.service.next_hop._LAST_WORDS_S = 0.0
    streamnb.mailbox.service.proxy.PATIENCE_S = HOP_PATIENCE
    streamnb.mailbox.service.proxy._RECORD_AFTER_S = 0.0


quiet()
HTTP_WORDS = (b"Host: localhost\r\n", b"Content-Length: ", b"Transfer-Encoding: chunked\r\n", b"\r\n\r\n",
              b"Expect: 100-continue\r\n", b"Cookie: streamnb-token=", b"label=", b"threshold=", b"%00", b"&user=",
              b"number=", b"search=", b"where=//", b"digest=")  # fmt: skip
MAIL_WORDS = (b"MAIL FROM:<", b"RCPT TO:<", b"DATA\r\n", b"\r\n.\r\n", b"RSET\r\n", b"BODY=8BITMIME",
              b"SMTPUTF8", b"SIZE=", b"STARTTLS\r\n", b"AUTH PLAIN ", b"EHLO ", b"LHLO ", b"QUIT\r\n", b"\n.\n")  # fmt: skip

TARGETS = {
    "ask": Target(
        ask, _questions, (b"streamnb/1 ", b"size=", b"file=0:0", b"costs=1,1,1", b"learn=1"), 2048
    ),
    "request": Target(
        request, lambda: [q.split(b"\n")[0] for q in _questions()], (b" user=", b" costs="), 256
    ),
    "reply": Target(
        reply,
        lambda: [
            write_reply(Response("S", 0, 1.5, "spam", 0.9, [("pills", 2.0)])),
            b"busy x\n",
            b"error y\n",
        ],
        (b"\t", b"ok\n", b"\\u1234", b"\\x00", b"nan", b"inf"),
        512,
    ),
    "http": Target(programs, _requests, HTTP_WORDS, 2048),
    "pages": Target(pages, _requests, HTTP_WORDS, 2048),
    "smtp": Target(
        smtp, lambda: _dialogues(b"EHLO"), MAIL_WORDS, 2048, lambda: HANDED_ON["smtp"] > 0
    ),
    "lmtp": Target(
        lmtp, lambda: _dialogues(b"LHLO"), MAIL_WORDS, 2048, lambda: HANDED_ON["lmtp"] > 0
    ),
    "next_hop": Target(
        next_hop, _hops, (b"250-", b"354 ", b"421 ", b"\xff", b"\r\n", b"550 5.7.1 "), 1024
    ),
    "milter": Target(asked_by_milter, _packets, (b"\0\0\0\1", b"\0\0\0\5", b"\0\0\0\x0d"), 1024),
}
