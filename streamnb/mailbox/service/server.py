"""The process that stays: a listener for each protocol that is asked for, in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import NamedTuple

from streamnb.errors import StateError
from streamnb.mailbox.service import protocol
from streamnb.mailbox.service.mailboxes import Mailboxes, NoMailboxError, record_verdict
from streamnb.mailbox.service.response import judge
from streamnb.mailbox.service.sockets import (
    Address,
    ConnectionHandler,
    accept,
    notify,
    rate_limited,
)

_PATIENCE = 30.0  # seconds for a client to send its message
_LAST = 10.0  # seconds for what is still to be recorded or learned when the server ends
_CHECK = 1.0  # seconds between looks whether the database is still the same


class Listener(NamedTuple):
    """A socket, and what is done with those who connect to it.

    Attributes
    ----------
    name
        What it is called where its address is told.
    listening
        The socket.
    handle
        Talks over a connection and closes it.
    most
        How many connections are held at once.
    mine
        Whether its path is removed in the end; not where systemd made it.
    """

    name: str
    listening: socket.socket
    handle: ConnectionHandler
    most: int = 64
    mine: bool = True

    @property
    def where(self) -> str:
        """Its address, to be shown."""
        name = self.listening.getsockname()
        return name if isinstance(name, str) else str(Address(None, *name[:2]))


def serve(mailboxes: Mailboxes, listeners: Sequence[Listener], say: Callable[[str], None]) -> None:
    """Response on all listeners until SIGTERM or SIGINT.

    Parameters
    ----------
    mailboxes
        Who is asked.
    listeners
        Where.
    say
        Called with a line for everything that somebody should know.

    Raises
    ------
    StateError
        Where another file has taken the place of the only database.
    """
    made = {
        path: os.stat(path).st_ino
        for one in listeners
        if one.mine and isinstance(path := one.listening.getsockname(), str)
    }
    try:
        asyncio.run(_serve(mailboxes, listeners, say))
    finally:
        for one in listeners:
            one.listening.close()
        for path, number in made.items():
            with contextlib.suppress(OSError):
                if os.stat(path).st_ino == number:
                    os.unlink(path)
        wait(mailboxes.left, _LAST)
        mailboxes.close()


async def _serve(
    mailboxes: Mailboxes, listeners: Sequence[Listener], say: Callable[[str], None]
) -> None:
    loop = asyncio.get_running_loop()
    tell = rate_limited(say)
    loop.set_exception_handler(
        lambda _, fault: tell(str(fault.get("message")), fault.get("exception"))
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    accepting = [
        asyncio.create_task(accept(one.listening, one.most, one.handle, say)) for one in listeners
    ]
    for one in listeners:
        said = f"listening on {one.where}"
        say(said if one.name == "ask" else f"{said} ({one.name})")
    notify("READY=1")
    only = mailboxes.one
    try:
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _CHECK)
            if only is not None and only.database.replaced():
                raise StateError(f"{only.path}: another file has taken its place: start again")
    finally:
        notify("STOPPING=1")
        for task in accepting:
            task.cancel()
        await asyncio.gather(*accepting, return_exceptions=True)


def asked(mailboxes: Mailboxes, say: Callable[[str], None]) -> ConnectionHandler:
    """What answers `streamnb classify` and `filter`."""
    pool = ThreadPoolExecutor(8, "streamnb-ask")  # a database that is locked holds up nobody else
    left = mailboxes.left

    async def talk(connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection, limit=protocol.LONGEST_LINE)
        try:
            async with asyncio.timeout(_PATIENCE):
                request = protocol.read_request(await reader.readline())
                message = await reader.readexactly(request.size)
                loop = asyncio.get_running_loop()
                reply, later = await loop.run_in_executor(pool, _reply, mailboxes, request, message)
                writer.write(reply)
                if later is not None:  # nobody's mail waits for that
                    left.append(pool.submit(_done, later, say))
                    left[:] = [one for one in left if not one.done()]
                await writer.drain()
        except (OSError, EOFError, ValueError, LookupError):
            pass  # whoever asked has gone, does not know how to ask, or asks for another database
        finally:
            writer.close()

    return talk


def _done(later: Callable[[], object], say: Callable[[str], None]) -> None:
    try:
        later()
    except Exception as error:  # whatever is in a message must not end the server
        say(f"not recorded: {error!s:.300}")


def _reply(
    mailboxes: Mailboxes, request: protocol.Request, message: bytes
) -> tuple[bytes, Callable[[], object] | None]:
    """The reply to a request, and what is to be done when it was sent."""
    file = request.file if any(request.file) else None
    try:
        with mailboxes.borrow(request.user, file) as mailbox:
            found = judge(mailbox, message, request.question)
    except NoMailboxError:
        raise
    except StateError:
        return b"", None  # the client will look for itself
    except Exception as error:  # whatever is in a message must not end the server
        return protocol.write_trouble(error), None

    def later() -> None:
        with mailboxes.borrow(request.user, file) as mailbox:
            record_verdict(mailbox, message, found, "filter", request.learn)

    return protocol.write_reply(found), later if request.record or request.learn else None
