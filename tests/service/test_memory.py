"""The memory that the messages of all connections share."""

import asyncio
import contextlib
import smtplib
import socket
import threading

import pytest
from serving import FIELD, SPAM, MailServer, as_sent, poll

from streamnb.cli.server_process import parse_hop
from streamnb.mailbox.service import proxy as proxy_module
from streamnb.mailbox.service.memory_budget import MemoryBudget
from streamnb.mailbox.service.milter import milter
from streamnb.mailbox.service.monitor import Monitor
from streamnb.mailbox.service.next_hop import HopClient
from streamnb.mailbox.service.proxy import proxy
from streamnb.mailbox.service.server import Activity, Listener, accept

LARGE = as_sent(SPAM % 1 + b"buy cheap pills " * 70 * 100)  # 110 kB
SMALL = as_sent(SPAM % 2)


@contextlib.contextmanager
def listening(name, make_handler):
    """Serve a listener in a thread; yield its port."""
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    started = threading.Event()
    state = {}

    async def main():
        state["loop"], state["stop"] = asyncio.get_running_loop(), asyncio.Event()
        task = asyncio.create_task(accept(Listener(name, sock, make_handler()), Monitor()))
        started.set()
        await state["stop"].wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    started.wait(10)
    try:
        yield sock.getsockname()[1]
    finally:
        state["loop"].call_soon_threadsafe(state["stop"].set)
        thread.join(30)


def test_a_message_waits_until_another_one_ends_and_the_first_that_waits_goes_on():
    async def main():
        budget = MemoryBudget(size=100, free_bytes=10, wait_s=20)
        first, second, third, small = (budget.message() for _ in range(4))
        assert first.take_now(60)
        assert second.take_now(60)
        assert small.take_now(10), "small messages need no budget"
        assert second.take_now(50), "one may go beyond the budget"
        assert not first.take_now(50)
        assert not third.take_now(50)
        waiting = [asyncio.create_task(message.take(50)) for message in (first, third)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        second.release()
        assert await waiting[0]
        first.release()
        assert await waiting[1]
        third.release()
        assert budget.used == 0

    asyncio.run(main())


def test_a_message_waits_for_a_limited_time():
    async def main():
        budget = MemoryBudget(size=100, free_bytes=0, wait_s=0.01)
        first, second = budget.message(), budget.message()
        assert await first.take(150)
        assert not await second.take(1)
        first.release()
        assert await second.take(1)

    asyncio.run(main())


def begin(server, message):
    """Bring the header and the body of a message, but not its end."""
    header, _, body = message.partition(b"\r\n\r\n")
    for line in header.splitlines():
        server.send(b"L", line.replace(b": ", b"\0", 1) + b"\0")
    server.send(b"N")
    for start in range(0, len(body), 1 << 14):
        server.send(b"B", body[start : start + (1 << 14)])


@pytest.mark.parametrize("wait_s", [0.05, 30])
def test_milter_marks_all_messages_with_a_budget_that_is_used_up(mailboxes, wait_s):
    budget = MemoryBudget(size=50_000, free_bytes=1000, wait_s=wait_s)
    with (
        listening("milter", lambda: milter(mailboxes, budget=budget)) as port,
        MailServer(port) as first,
        MailServer(port) as second,
        MailServer(port) as third,
    ):
        begin(first, LARGE)
        begin(second, LARGE)
        edits, action = third.bring(SMALL)
        assert action == b"a"
        assert b"X-Streamnb" in edits[0][1]
        for server in (first, second):  # the second waits for the first, or is cut
            edits, action = server.end()
            assert action == b"a"
            assert b"X-Streamnb" in edits[0][1]
    assert budget.used == 0


def data(port, message, end=b"\r\n.\r\n"):
    """Bring a message by SMTP; return the connection."""
    client = smtplib.SMTP("127.0.0.1", port, timeout=30)
    client.ehlo()
    client.mail("a@b")
    client.rcpt("c@d")
    client.docmd("DATA")
    client.send(message + end)
    return client


def test_smtp_passes_all_messages_with_a_budget_that_is_used_up(mailboxes, smtp_sink):
    budget = MemoryBudget(size=50_000, free_bytes=1000)
    hop = parse_hop(smtp_sink.address)
    with (
        listening("smtp", lambda: proxy(hop, mailboxes, budget=budget)) as port,
        contextlib.ExitStack() as stack,
    ):
        first = stack.enter_context(data(port, LARGE, b""))
        clients = [stack.enter_context(data(port, LARGE)) for _ in range(3)]
        small = stack.enter_context(data(port, SMALL))
        assert small.getreply()[0] == 250
        first.send(b"\r\n.\r\n")
        assert [client.getreply()[0] for client in (first, *clients)] == [250] * 4
    assert len(smtp_sink.messages) == 5
    assert all(FIELD.match(content) for _, content in smtp_sink.messages)
    assert budget.used == 0


def test_smtp_asks_for_a_message_later_if_no_memory_becomes_free(mailboxes, smtp_sink):
    budget = MemoryBudget(size=50_000, free_bytes=1000, wait_s=0.05)
    hop = parse_hop(smtp_sink.address)
    with (
        listening("smtp", lambda: proxy(hop, mailboxes, budget=budget)) as port,
        data(port, LARGE, b"") as first,
    ):
        poll(lambda: budget.used > len(LARGE) - 2000)
        second = data(port, LARGE)
        assert second.getreply()[0] == 452
        second.close()
        first.send(b"\r\n.\r\n")
        assert first.getreply()[0] == 250
    assert len(smtp_sink.messages) == 1
    assert budget.used == 0


def test_a_stop_as_a_client_leaves_still_closes_the_connection_to_the_next_hop(
    mailboxes, smtp_sink, monkeypatch
):
    closed = []

    async def leave_and_stop():
        is_closing, may_close = asyncio.Event(), asyncio.Event()

        async def close_late(close):
            is_closing.set()
            await may_close.wait()
            close()
            closed.append(close)

        monkeypatch.setattr(proxy_module, "_in_thread", close_late)
        near, far = socket.socketpair()
        near.setblocking(False)
        handling = asyncio.create_task(
            proxy(parse_hop(smtp_sink.address), mailboxes)(near, Activity())
        )
        far.close()
        await asyncio.wait_for(is_closing.wait(), 60)
        handling.cancel()
        await asyncio.sleep(0)
        may_close.set()
        await asyncio.wait({handling})

    asyncio.run(leave_and_stop())
    assert len(closed) == 1


def test_no_connection_to_the_next_hop_is_opened_for_a_client_that_has_left(smtp_sink):
    client = HopClient(parse_hop(smtp_sink.address), pytest.fail)
    client.close()
    client.extensions()
    assert client._client is None
