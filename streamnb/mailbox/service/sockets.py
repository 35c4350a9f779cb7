"""Sockets that wait for connections: made here or by systemd, and never more than there is room."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
import time
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from streamnb.errors import ConfigError, OutputError, convert_os_errors, root_cause

_FIRST = 3  # descriptor of the first socket that systemd passes on (sd_listen_fds(3))
_PAUSE = 1.0  # seconds after a connection could not be accepted
_QUIET = 60.0  # seconds for which the same fault is not told again


ConnectionHandler = Callable[
    [socket.socket], Coroutine[Any, Any, None]
]  # over a connection, and closes it


class Address(NamedTuple):
    """Where to listen or connect: the path of a Unix socket, or a host and port."""

    path: str | None
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        if self.path is not None:
            return self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def here(self) -> bool:
        """Whether it is on this machine."""
        return self.path is not None or self.host in ("localhost", "127.0.0.1", "::1")


def parse_address(text: str) -> Address:
    """Take an address apart.

    Examples
    --------
    >>> str(parse_address("127.0.0.1:2525")), parse_address("/run/streamnb/lmtp").path
    ('127.0.0.1:2525', '/run/streamnb/lmtp')
    """
    if text.startswith(("/", "unix:/")):
        return Address(text.removeprefix("unix:"))
    named, _, port = text.rpartition(":")
    host = named.strip("[]")
    if not host or not port.isdecimal() or not 0 <= int(port) < 1 << 16:
        raise ConfigError(f"{text!r:.100}: not an address: HOST:PORT, or /PATH of a Unix socket")
    return Address(None, host, int(port))


def listen(address: Address, mode: int = 0o600) -> socket.socket:
    """A socket that listens.

    Parameters
    ----------
    address
        Where.
    mode
        Who may connect, where it is a path.

    Raises
    ------
    OutputError
        Where that cannot be, or another process has it.
    """
    try:
        if address.path is None:
            family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
            found = socket.create_server((address.host, address.port), family=family, backlog=128)
            found.setblocking(False)
            return found
        return _listen_at(address.path, mode)
    except (OSError, ValueError) as error:
        ours = (address.path or "").endswith(".sock")
        hint = "; STREAMNB_SOCKET names another place" if ours else ""
        raise OutputError(f"{address}: cannot be listened on: {root_cause(error)}{hint}") from None


def _listen_at(path: str, mode: int) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(os.stat(path).st_mode):
                if _answers(path):
                    raise OutputError(f"{path}: another `streamnb serve` is running")
                os.unlink(path)  # its server was killed
        umask = os.umask(0o777 & ~mode)
        try:
            listening.bind(path)
        finally:
            os.umask(umask)
        listening.listen(128)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        # Of other faults it is busy.
        return probe.connect_ex(path) not in (errno.ECONNREFUSED, errno.ENOENT)


def inherited() -> dict[str, list[socket.socket]]:
    """The sockets that systemd passes on, by their FileDescriptorName: a unit can have several."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return {}
    try:
        number = int(os.environ.get("LISTEN_FDS", "0"))
    except ValueError:
        raise ConfigError("LISTEN_FDS: not a number") from None
    names = os.environ.get("LISTEN_FDNAMES", "").split(":")
    found: dict[str, list[socket.socket]] = {}
    for i in range(number):
        with convert_os_errors(ConfigError, f"LISTEN_FDS: {_FIRST + i} is no socket"):
            passed = socket.socket(fileno=_FIRST + i)
        passed.setblocking(False)
        found.setdefault(names[i] if i < len(names) else "", []).append(passed)
    return found


def notify(state: str) -> None:
    """Tell systemd how far this process is, where it wants to know (sd_notify(3))."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as telling, contextlib.suppress(OSError):
        telling.connect("\0" + path[1:] if path.startswith("@") else path)
        telling.sendall(state.encode())


def rate_limited(say: Callable[[str], None]) -> Callable[[str, object], None]:
    """What tells of faults, each kind of fault once a minute."""
    told: dict[str, float] = {}

    def tell(fault: str, more: object) -> None:
        now = time.monotonic()
        if now - told.get(fault, -_QUIET) >= _QUIET:
            told[fault] = now
            say(f"{fault}: {more!s:.200}")

    return tell


async def _next_connection(listening: socket.socket) -> socket.socket:
    """As `loop.sock_accept`, which loses a connection that comes as it is cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        with contextlib.suppress(BlockingIOError, InterruptedError):
            connection, _ = listening.accept()
            connection.setblocking(False)
            return connection
        came = asyncio.Event()
        loop.add_reader(listening, came.set)
        try:
            await came.wait()
        finally:
            loop.remove_reader(listening)


async def accept(
    listening: socket.socket,
    most: int,
    handle: ConnectionHandler,
    say: Callable[[str], None],
) -> None:
    """Accept connections, as many at once as there is room for; the others wait in the kernel.

    Parameters
    ----------
    listening
        Where they come.
    most
        How many are held at once.
    handle
        What is done with each; it closes it.
    say
        Is told what fails, each kind of fault once a minute.
    """
    room = asyncio.Semaphore(most)
    talking: set[asyncio.Task[None]] = set()
    tell = rate_limited(say)

    def done(task: asyncio.Task[None]) -> None:
        talking.discard(task)
        room.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            tell(f"a connection was given up: {type(error).__name__}", error)

    try:
        while True:
            await room.acquire()
            try:
                connection = await _next_connection(listening)
            except OSError as error:  # out of descriptors, most likely
                room.release()
                tell("connections cannot be accepted", f"{error.strerror}; trying again")
                await asyncio.sleep(_PAUSE)
                continue
            except BaseException:
                room.release()
                raise
            task = asyncio.create_task(handle(connection))
            talking.add(task)
            task.add_done_callback(done)
    finally:
        for task in talking:
            task.cancel()
        if talking:
            await asyncio.wait(talking)
