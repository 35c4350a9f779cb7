"""Requests by HTTP and by the Unix socket: wrapped bodies, names of the server, shared memory."""

import asyncio
import contextlib
import errno
import gzip
import json
import os
import shutil
import socket
from http import client

import pytest
from serving import HAM, SPAM, Serving, Web, poll, port_of
from test_memory import listening

from streamnb.errors import OutputError
from streamnb.mailbox.service import http as service_http
from streamnb.mailbox.service.api import api
from streamnb.mailbox.service.http import AuthMiddleware, http
from streamnb.mailbox.service.http_token import database_token
from streamnb.mailbox.service.memory_budget import MemoryBudget
from streamnb.mailbox.service.server import socket_handler

FORM = b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\n%b\r\n--x--\r\n'


@pytest.mark.parametrize("path", ["/classify", "/learn?label=spam", "/forget"])
@pytest.mark.parametrize(
    ("headers", "wrap"),
    [
        ({"Content-Type": "multipart/form-data; boundary=x"}, lambda mail: FORM % mail),
        ({"Content-Type": "application/json"}, lambda mail: json.dumps({"mail": mail.decode()})),
        (
            {"Content-Type": "application/x-www-form-urlencoded"},  # curl --data @FILE
            lambda mail: mail.replace(b"\r\n", b""),
        ),
        ({"Content-Encoding": "gzip"}, gzip.compress),
    ],
    ids=["form", "json", "without-lines", "gzip"],
)
def test_a_wrapped_message_is_not_taken_for_a_message(shared_web, path, headers, wrap):
    before = shared_web("GET", "/status")[1]
    status, answer = shared_web("POST", path, wrap(SPAM % 99), **headers)
    assert status == 415
    assert "curl --data-binary" in answer["error"]
    assert shared_web("GET", "/status")[1]["learned"] == before["learned"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "message/rfc822"},
        {"Content-Type": "application/x-www-form-urlencoded"},  # curl --data-binary @FILE
        {"Content-Encoding": "identity"},
        {"Content-Encoding": ""},
    ],
)
def test_a_message_may_have_any_other_type(shared_web, headers):
    assert shared_web("POST", "/classify", SPAM % 99, **headers)[1]["mark"] == "S"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("10.1.2.3:8025", 200),  # a probe of Kubernetes
        ("[2001:db8::1]:8025", 200),
        ("LOCALHOST:8025", 200),
        ("Mail.Example.org:8025", 200),
        ("streamnb", 200),
        ("other.example.org", 421),
        ("10.1.2.3.example.org", 421),
        ("", 421),
    ],
)
def test_a_server_has_its_numeric_addresses_and_the_names_that_it_is_given(named, host, status):
    for path in ("/health", "/status"):
        assert named("GET", path, Host=host)[0] == status


@pytest.fixture(scope="module")
def named(trained_db):
    process = Serving("--db", trained_db, "--http", "127.0.0.1:0",
                      "--host-name", "mail.example.org", "--host-name", "streamnb")  # fmt: skip
    token = trained_db.with_name("mail.db.token").read_text().strip()
    yield Web(port_of(process, "http"), token)
    process.stop()
    process.process.stderr.close()


def test_bodies_share_the_memory_of_all_messages(mailboxes):
    budget = MemoryBudget(size=50_000, free_bytes=1000, wait_s=0.05)
    large = HAM % 1 + b"meet at noon? " * 10_000
    held = budget.message()

    def make_handler():
        return http(AuthMiddleware(api(mailboxes), lambda user: "t", budget=budget))

    with listening("http", make_handler) as port:
        web = Web(port, "t")
        assert held.take_now(50_000 + 1000)
        assert held.take_now(10), "the first may go beyond the budget"
        status, answer = web("POST", "/classify", large)
        assert (status, list(answer)) == (503, ["error"])
        assert web("POST", "/classify", HAM % 2)[0] == 200
        held.release()
        assert web("POST", "/classify", large)[0] == 200
        poll(lambda: budget.used == 0)


def test_messages_of_the_unix_socket_share_it_too(mailboxes, trained_db):
    """Without memory the server does not answer, so the client opens the database."""
    budget = MemoryBudget(size=50_000, free_bytes=1000, wait_s=0.05)
    large = HAM % 1 + b"meet at noon? " * 10_000
    held = budget.message()
    handler = socket_handler(mailboxes, budget=budget)

    async def ask(message):
        near, server = socket.socketpair()
        server.setblocking(False)
        task = asyncio.create_task(handler(server))
        reader, writer = await asyncio.open_connection(sock=near)
        file = mailboxes.single.database.file
        writer.write(b"streamnb/1 file=%d:%d size=%d\n" % (*file, len(message)) + message)
        reply = await reader.read()
        writer.close()
        await task
        return reply

    async def main():
        held.take_now(51_000)
        held.take_now(10)
        assert await ask(large) == b""
        assert (await ask(HAM % 2)).startswith(b"ok\n")
        held.release()
        assert (await ask(large)).startswith(b"ok\n")
        assert budget.used == 0

    asyncio.run(main())


def test_a_request_is_answered_though_its_connection_is_old(monkeypatch):
    """A program that sends one request after the other keeps its connection for hours."""
    monkeypatch.setattr(service_http, "_LONGEST", 0.3)

    async def slow(scope, receive, send):
        await asyncio.sleep(0.15)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    with (
        listening("http", lambda: http(slow)) as port,
        contextlib.closing(client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection,
    ):
        for _ in range(5):
            connection.request("GET", "/")  # it connects again after "Connection: close"
            reply = connection.getresponse()
            assert (reply.status, reply.read()) == (200, b"done")


def test_a_token_that_others_can_read_is_refused_and_named(serve, tmp_path, trained_db):
    users = tmp_path / "users"
    users.mkdir()
    shutil.copy(trained_db, users / "ann.db")
    process = serve("--users", "--http", "127.0.0.1:0",
                    env={**os.environ, "STREAMNB_USERS": str(users)})  # fmt: skip
    token = users / "ann.db.token"
    web = Web(port_of(process, "http"), "x" * 30)
    assert web("GET", "/status?user=ann")[0] == 401
    web.token = token.read_text().strip()
    assert web("GET", "/status?user=ann")[0] == 200
    token.chmod(0o644)
    assert web("GET", "/status?user=ann")[0] == 401
    assert f"chmod 600 {token}" in process.stop()


def test_a_token_that_cannot_be_stored_leaves_no_empty_file(tmp_path):
    """A file without a token would prevent all later starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        with pytest.raises(OutputError, match=r"mail\.db\.token: the token cannot be written"):
            database_token(tmp_path / "mail.db")
    assert list(tmp_path.iterdir()) == []
    token = database_token(tmp_path / "mail.db")
    assert database_token(tmp_path / "mail.db") == token
    assert (tmp_path / "mail.db.token").stat().st_mode & 0o777 == 0o600


def full_disk(_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
