"""The server: a listener for each protocol, in one event loop, until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from streamnb.errors import StateError
from streamnb.mailbox.service import protocol
from streamnb.mailbox.service.handover import hand_over, notify_predecessor
from streamnb.mailbox.service.mailboxes import Mailboxes, NoMailboxError
from streamnb.mailbox.service.memory_budget import MemoryBudget
from streamnb.mailbox.service.monitor import Monitor
from streamnb.mailbox.service.next_hop import ANSWER_S
from streamnb.mailbox.service.response import Response
from streamnb.mailbox.service.sockets import (
    Address,
    Network,
    is_loopback,
    is_within,
    notify_systemd,
    peer_host,
    watchdog_interval,
)
from streamnb.mailbox.verdict_log import record_verdict

DRAIN_S = 20.0  # seconds to finish current messages when the server stops
# Seconds for a client's next command before it begins a message, when the server stops. Postfix
# needs milliseconds, and holds a message for 5 minutes if its new connection ends before MAIL. Half
# of it can be too short on a busy machine; with twice of it, a silent client delays a restart by 2
# seconds.
START_S = 1.0
_TURNS = 5  # turns of the event loop; the handler of a new connection begins within three
_REQUEST_S = 30.0  # seconds for a client of the Unix socket to send its message
_PENDING_S = 10.0  # seconds to record and learn the last messages when the server stops
_CHECK_S = 1.0  # seconds between checks that the database is still the same file
_PAUSE_S = 1.0  # seconds to wait after a connection could not be accepted
WAITING_S = 5.0  # seconds of a connection's wait after which its listener counts as not accepting
IDLE_S = 2.0  # seconds of idleness allowed while another connection waits
_HANGUP_IGNORED = "SIGHUP is ignored: changed files are read without it; restart for other options"
_NO_SUCCESSOR = "the new process could not start, so this one continues"


class Activity:
    """The last use of a connection, and its allowed idleness while others wait.

    Attributes
    ----------
    allowed_s
        Seconds of idleness allowed while other connections wait.
    is_busy
        Whether the connection processes a message. The server finishes the message before it stops.
    is_opened
        Whether a client is about to send a message. True for a new connection, for an SMTP command
        without an answer, and after RSET or XFORWARD. For a milter, true after its client has named
        the sender or a recipient. A server that stops waits `START_S` for the next command.
    is_evicted
        Whether the connection must end because other connections wait.
    is_ending
        Whether the connection must end after the current message.
    used_at
        Monotonic time of the last use, in seconds.
    """

    def __init__(self) -> None:
        self.allowed_s: float = IDLE_S
        self.is_evicted = self.is_ending = False
        self.is_busy: bool = False
        self.is_opened: bool = True
        self.used_at: float = time.monotonic()

    def touch(
        self, allowed_s: float = IDLE_S, is_busy: bool = False, is_opened: bool = False
    ) -> None:
        """Store the time of use of the connection, and its allowed idleness from now on."""
        self.allowed_s = allowed_s
        self.is_busy, self.is_opened = is_busy, is_opened
        self.used_at = time.monotonic()

    def overdue_s(self) -> float:
        """Return the seconds of idleness minus the allowed time; it can be negative."""
        return time.monotonic() - self.used_at - self.allowed_s


# A function that serves a connection and closes it. It is cancelled if the server stops or others
# wait (`Activity.is_evicted`); then it finishes the current message.
ConnectionHandler = Callable[[socket.socket, Activity], Coroutine[Any, Any, None]]


@dataclass(eq=False)
class Listener:
    """A listening socket, and the handler of its connections.

    Attributes
    ----------
    name
        Name of the protocol, for the log and the metrics.
    socket
        The socket.
    handler
        Serves a connection.
    limit
        Maximum number of simultaneous connections. Others wait in the kernel.
    address_limit
        Maximum number of connections from one address. None for a quarter of `limit`, and no limit
        for this machine.
    trusted
        Networks that can connect in addition to this machine. None for all.
    is_owned
        Whether this service, not systemd, created the socket. Its path is then removed at the end,
        unless another process has taken the socket.
    accepted
        Number of connections accepted so far.
    """

    name: str
    socket: socket.socket
    handler: ConnectionHandler
    limit: int = 64
    address_limit: int | None = None
    trusted: tuple[Network, ...] | None = None
    is_owned: bool = True
    accepted: int = 0

    @property
    def address(self) -> str:
        """Return the address of the socket as text."""
        name = self.socket.getsockname()
        return name if isinstance(name, str) else str(Address(None, *name[:2]))

    def reason_to_refuse(self, host: str, open_from_host: int) -> tuple[str, str] | None:
        """Return cause and reply of a refusal, or None to accept a connection."""
        if not host:  # a Unix socket
            return None
        is_local = is_loopback(host)
        if not is_local and self.trusted is not None and not is_within(host, self.trusted):
            return "untrusted", f"554 5.7.1 {host} is not allowed to send mail here (see --trust)"
        limit = self.address_limit
        if limit is None and not is_local:
            limit = max(self.limit // 4, 1)
        if limit is not None and open_from_host >= limit:
            return "address", f"421 4.7.0 too many connections from {host} (at most {limit})"
        return None


def serve(
    mailboxes: Mailboxes,
    listeners: Sequence[Listener],
    announce: Callable[[str], None],
    monitor: Monitor | None = None,
) -> None:
    """Serve all listeners until SIGTERM, SIGINT or a hangup, then finish the current messages.

    A terminal that is closed sends SIGHUP. In a service of systemd, this signal starts a new
    process with the same sockets, and this one ends when the new one is ready. Another process
    without a terminal ignores the signal, because administrators send it when files have changed.

    Parameters
    ----------
    mailboxes
        The mailboxes that give the verdicts.
    listeners
        The listeners.
    announce
        Called with a line for each listener when it is ready.
    monitor
        Log and metrics.

    Raises
    ------
    StateError
        If the single database was removed or replaced, and cannot be opened again.
    """
    inodes = [
        (listener, path, os.stat(path).st_ino)
        for listener in listeners
        if isinstance(path := listener.socket.getsockname(), str)
    ]
    try:
        asyncio.run(_serve(mailboxes, listeners, announce, monitor or Monitor()))
    finally:
        for listener in listeners:
            listener.socket.close()
        for listener, path, inode in inodes:
            with contextlib.suppress(OSError):
                if listener.is_owned and os.stat(path).st_ino == inode:
                    os.unlink(path)
        wait(mailboxes.pending, _PENDING_S)
        mailboxes.close()


async def _serve(
    mailboxes: Mailboxes,
    listeners: Sequence[Listener],
    announce: Callable[[str], None],
    monitor: Monitor,
) -> None:
    """Do the work of `serve` in an event loop."""
    loop = asyncio.get_running_loop()
    # a locked database does not delay other connections of a milter
    threads = max(listener.limit for listener in listeners)
    loop.set_default_executor(ThreadPoolExecutor(threads, "streamnb-milter"))
    loop.set_exception_handler(
        lambda _, context: monitor.warn(str(context.get("message")), context.get("exception") or "")
    )
    signals = _StopSignals(listeners, monitor)
    accepting = [asyncio.create_task(accept(listener, monitor)) for listener in listeners]
    for listener in listeners:
        suffix = "" if listener.name == "ask" else f" ({listener.name})"
        announce(f"listening on {listener.address}{suffix}")
    watch = _AcceptWatch(listeners, monitor)
    state, notify_at = "READY=1", 0.0
    if notify_predecessor():  # systemd ignores this process until the predecessor has told it both
        state, notify_at = "WATCHDOG=1", time.monotonic() + watchdog_interval()
    try:
        while not signals.stop.is_set():
            watch.check()
            if time.monotonic() >= notify_at and notify_systemd(state):
                state, notify_at = "WATCHDOG=1", time.monotonic() + watchdog_interval()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(signals.stop.wait(), _CHECK_S)
            mailboxes.check_replaced()
    finally:
        if signals.handover is not None:
            signals.handover.cancel()
        if not signals.is_replaced:
            notify_systemd("STOPPING=1")
        for task in accepting:
            task.cancel()
        await asyncio.gather(*accepting, return_exceptions=True)


class _StopSignals:
    """Handles the signals that end the server. A hangup can hand it over to a new process."""

    def __init__(self, listeners: Sequence[Listener], monitor: Monitor) -> None:
        self.stop = asyncio.Event()
        self.handover: asyncio.Task[None] | None = None
        self.is_replaced = False
        self._listeners = listeners
        self._monitor = monitor
        self._has_terminal = _has_terminal()  # a closed terminal cannot be opened
        actions = {signal.SIGTERM: self.stop.set, signal.SIGINT: self.stop.set}
        for number, act in {**actions, signal.SIGHUP: self._hang_up}.items():
            if signal.getsignal(number) != signal.SIG_IGN:  # as `nohup` sets it
                asyncio.get_running_loop().add_signal_handler(number, act)

    def _hang_up(self) -> None:
        if self._has_terminal:
            self.stop.set()
        elif "NOTIFY_SOCKET" not in os.environ:
            self._monitor.warn(_HANGUP_IGNORED)
        elif not self.stop.is_set() and (self.handover is None or self.handover.done()):
            self.handover = asyncio.create_task(self._replace())

    async def _replace(self) -> None:
        """Start a new process with the same sockets. If it is ready, stop this one."""
        names = [listener.name for listener in self._listeners]
        sockets = [listener.socket for listener in self._listeners]
        own = [listener.name for listener in self._listeners if listener.is_owned]
        self.is_replaced = await hand_over(names, sockets, own)
        if self.is_replaced:
            for listener in self._listeners:
                listener.is_owned = False
            self.stop.set()
        else:
            self._monitor.warn(_NO_SUCCESSOR)


def _has_terminal() -> bool:
    """Return whether the process has a terminal, which sends SIGHUP when it is closed."""
    with contextlib.suppress(OSError), open("/dev/tty", "rb", buffering=0):
        return True
    return False


class _AcceptWatch:
    """Detects listeners that accept no connections while some wait.

    It asks the kernel, so it detects a fault of the accepting loop, too.
    """

    def __init__(self, listeners: Sequence[Listener], monitor: Monitor) -> None:
        self._listeners = listeners
        self._monitor = monitor
        self._accepted = [listener.accepted for listener in listeners]
        # latest time at which the listener had accepted a connection, or none waited
        self._accepted_at = [time.monotonic()] * len(listeners)

    def check(self) -> None:
        """Check all listeners, and report to the monitor."""
        now = time.monotonic()
        accepting: dict[str, bool] = {}
        for i, listener in enumerate(self._listeners):
            if listener.accepted != self._accepted[i] or not _is_waited_for(listener.socket):
                self._accepted[i], self._accepted_at[i] = listener.accepted, now
            accepts = now - self._accepted_at[i] < WAITING_S
            accepting[listener.name] = accepting.get(listener.name, True) and accepts
        self._monitor.show_accepting(accepting)


def _is_waited_for(listening: socket.socket) -> bool:
    """Return whether a connection waits at a socket."""
    poll = select.poll()
    poll.register(listening, select.POLLIN)
    return bool(poll.poll(0))


class _Connections:
    """The open connections of a listener."""

    def __init__(self, listener: Listener, monitor: Monitor) -> None:
        self.listener = listener
        self.monitor = monitor
        self.tasks: dict[asyncio.Task[None], tuple[str, Activity]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def add(self, connection: socket.socket) -> None:
        """Serve a connection, or refuse it."""
        host = peer_host(connection)
        same_host = sum(other == host for other, _ in self.tasks.values())
        refusal = self.listener.reason_to_refuse(host, same_host)
        if refusal is not None:
            cause, reply = refusal
            self.monitor.refuse(self.listener.name, cause, reply)
            with connection, contextlib.suppress(OSError):
                if self.listener.name in ("smtp", "lmtp"):
                    connection.send(f"{reply}\r\n".encode())
            return
        activity = Activity()
        task = asyncio.create_task(self.listener.handler(connection, activity))
        self.tasks[task] = host, activity
        self.monitor.opened(self.listener.name)
        task.add_done_callback(self._remove)

    def _remove(self, task: asyncio.Task[None]) -> None:
        del self.tasks[task]
        self._ending.discard(task)
        self.monitor.closed(self.listener.name)
        if not task.cancelled() and (error := task.exception()) is not None:
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            self.monitor.warn(f"a connection was dropped: {type(error).__name__}", error)

    async def make_room(self) -> None:
        """Wait until another connection can be served. End idle ones while one waits."""
        while len(self.tasks) >= self.listener.limit:
            waiting = asyncio.create_task(_wait_readable(self.listener.socket))
            try:
                await asyncio.wait({waiting, *self.tasks}, return_when=asyncio.FIRST_COMPLETED)
                is_waited_for = waiting.done()
            finally:
                # Wait until the task has ended: at its end, it would remove the reader that a
                # later task adds to the socket.
                waiting.cancel()
                await asyncio.wait({waiting})
            if is_waited_for and len(self.tasks) >= self.listener.limit:
                overdue_s = self._end_idlest()
                pause_s = min(max(-overdue_s, 0.05), _PAUSE_S)
                await asyncio.wait(self.tasks, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)

    def _end_idlest(self) -> float:
        """End the connection that is idle for longest, if it is overdue; return `overdue_s`."""
        candidates = {
            task: activity.overdue_s()
            for task, (_, activity) in self.tasks.items()
            if task not in self._ending
        }
        if not candidates:
            return -_PAUSE_S
        idlest = max(candidates, key=candidates.__getitem__)
        if candidates[idlest] >= 0:
            self.tasks[idlest][1].is_evicted = True
            self.monitor.refuse(self.listener.name, "idle")
            self._end(idlest)
        return candidates[idlest]

    def _end(self, task: asyncio.Task[None]) -> None:
        if task not in self._ending:  # a second cancellation would interrupt the current message
            self._ending.add(task)
            task.cancel()

    async def drain(self) -> None:
        """Let all connections finish their current message, for a limited time."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        for task in self.tasks:
            self._end(task)
        for limit_s in (2 * DRAIN_S + ANSWER_S + 1, 1.0):
            if tasks := set(self.tasks):
                await asyncio.wait(tasks, timeout=limit_s)
            for task in self.tasks:
                task.cancel()


async def _wait_readable(listening: socket.socket) -> None:
    """Wait for a connection to accept."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(listening, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(listening)


async def _accept_one(listening: socket.socket) -> socket.socket:
    """Accept a connection. A cancelled `loop.sock_accept` can lose one."""
    while True:
        with contextlib.suppress(BlockingIOError, InterruptedError):
            connection, _ = listening.accept()
            connection.setblocking(False)
            if connection.family != socket.AF_UNIX:
                # Without TCP_NODELAY, the body of an answer waits for the acknowledgement of its
                # header, for 40 ms. asyncio sets it only if the socket names its protocol.
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        await _wait_readable(listening)


async def accept(listener: Listener, monitor: Monitor) -> None:
    """Accept the connections of a listener until cancelled, then drain them."""
    connections = _Connections(listener, monitor)
    try:
        while True:
            await connections.make_room()
            try:
                connection = await _accept_one(listener.socket)
            except OSError as error:  # probably the limit of open files
                monitor.warn("connections cannot be accepted", f"{error.strerror}; trying again")
                await asyncio.sleep(_PAUSE_S)
                continue
            listener.accepted += 1
            connections.add(connection)
    finally:
        if listener.is_owned:  # clients that come later are refused, and try again
            listener.socket.close()
        await connections.drain()


def socket_handler(
    mailboxes: Mailboxes, monitor: Monitor | None = None, budget: MemoryBudget | None = None
) -> ConnectionHandler:
    """Return the handler for `streamnb classify`, `filter` and `streamnb-filter`.

    If the memory of the budget is used up, a large message waits. Its client then opens the
    database itself.
    """
    answer = _SocketAnswers(mailboxes, monitor or Monitor(), budget or MemoryBudget())
    return drain_on_cancel(answer.converse)


class _SocketAnswers:
    """Answers the requests of the Unix socket."""

    def __init__(self, mailboxes: Mailboxes, monitor: Monitor, budget: MemoryBudget) -> None:
        self.mailboxes = mailboxes
        self.monitor = monitor
        self.budget = budget
        # a locked database does not delay other clients
        self._pool = ThreadPoolExecutor(64, "streamnb-ask")

    async def converse(self, connection: socket.socket, activity: Activity) -> None:
        """Answer the request of one connection."""
        reader, writer = await asyncio.open_connection(sock=connection, limit=protocol.LONGEST_LINE)
        memory = self.budget.message()
        try:
            async with asyncio.timeout(_REQUEST_S):
                request = protocol.read_request(await reader.readline())
                activity.touch()
                if await memory.take(request.size):
                    message = await reader.readexactly(request.size)
                    activity.touch(_REQUEST_S, is_busy=True)
                    await self._answer(request, message, writer)
        except (OSError, EOFError, ValueError, LookupError):
            # The client closed the connection, sent an invalid request, or needs another database.
            pass
        finally:
            memory.release()
            writer.close()

    async def _answer(
        self, request: protocol.Request, message: bytes, writer: asyncio.StreamWriter
    ) -> None:
        started = time.monotonic()
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(self._pool, _judge, self.mailboxes, request, message)
        if isinstance(result, Response):
            writer.write(protocol.write_reply(result))
        elif not isinstance(result, StateError):  # the client then opens the database
            writer.write(protocol.write_error(result))
        action = "answered" if isinstance(result, Response) else "failed"
        self.monitor.message("ask", result, action, started, message, request.user)
        if isinstance(result, Response) and (request.record or request.learn):
            pending = self.mailboxes.pending
            pending[:] = [future for future in pending if not future.done()]
            work = self.mailboxes, request, message, result, self.monitor
            pending.append(self._pool.submit(_record, *work))
        await writer.drain()


def built_later(build: Callable[[], ConnectionHandler]) -> ConnectionHandler:
    """Return a handler that a thread builds at the first connection.

    So a server that starts need not wait for the modules of this handler.
    """
    handler: asyncio.Future[ConnectionHandler] | None = None

    async def handle(connection: socket.socket, activity: Activity) -> None:
        nonlocal handler
        if handler is None:
            handler = asyncio.ensure_future(asyncio.to_thread(build))
        try:
            serve_connection = await asyncio.shield(handler)
        except BaseException:  # the server stops
            connection.close()
            raise
        await serve_connection(connection, activity)

    return handle


def drain_on_cancel(
    converse: Callable[[socket.socket, Activity], Coroutine[Any, Any, None]],
) -> ConnectionHandler:
    """Return a handler that finishes its current message after a cancellation."""

    async def handle(connection: socket.socket, activity: Activity | None = None) -> None:
        activity = activity or Activity()
        task = asyncio.create_task(converse(connection, activity))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await finish(task, activity)
            raise

    return handle


async def wait_for_start(end: asyncio.Future[None], activity: Activity) -> None:
    """Wait until a client begins its message, or sends no command for `START_S`.

    Parameters
    ----------
    end
        Is done when the connection ends.
    activity
        The activity of the connection.
    """
    for _ in range(int(DRAIN_S / START_S)):
        used_at = activity.used_at
        if not activity.is_opened or not (await asyncio.wait({end}, timeout=START_S))[1]:
            return
        if activity.used_at == used_at:
            return


async def finish(task: asyncio.Future[None], activity: Activity) -> None:
    """Wait for a task to finish its current message, unless its connection was evicted."""
    activity.is_ending = True
    try:
        if not activity.is_evicted:
            await wait_for_start(task, activity)
        if activity.is_busy and not activity.is_evicted:
            await asyncio.wait({task}, timeout=DRAIN_S)
    finally:
        task.cancel()
        await asyncio.wait({task}, timeout=1.0)


def _file(request: protocol.Request) -> tuple[int, int] | None:
    return request.file if any(request.file) else None


def _judge(mailboxes: Mailboxes, request: protocol.Request, message: bytes) -> Response | Exception:
    """Return the verdict on a message, or the error.

    Raises
    ------
    NoMailboxError
        If this server does not serve that database.
    """
    try:
        return mailboxes.judge(request.user, message, request.options, _file(request))
    except NoMailboxError:
        raise
    except Exception as error:  # no message may stop the server
        return error


def _record(
    mailboxes: Mailboxes,
    request: protocol.Request,
    message: bytes,
    response: Response,
    monitor: Monitor,
) -> None:
    try:
        with mailboxes.borrow(request.user, _file(request), writes=True) as mailbox:
            outcome = record_verdict(mailbox, message, response, "filter", request.learn)
        if outcome is not None:
            monitor.learned("ask", response.label or "", outcome.result, message, request.user)
    except Exception as error:  # no message may stop the server
        monitor.warn(f"the verdict was not stored: {error!s:.300}")
