"""A process that stays: it answers on a Unix socket, so that nobody waits for an interpreter."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamnb.errors import BusyError, OutputError, StateError, StreamNBError
from streamnb.mailbox.service.client import MOST, answer, socket_path
from streamnb.mailbox.store import Mailbox

__all__ = ["serve"]

_PATIENCE = 30.0  # seconds for a client to send its message
_AT_ONCE = 64  # messages that are held in memory


def serve(mailbox: Mailbox, ready: Callable[[str], None]) -> None:
    """Answer on the socket of a mailbox until SIGTERM or SIGINT.

    Parameters
    ----------
    mailbox
        What is asked.
    ready
        Called with the path of the socket once it is open.

    Raises
    ------
    OutputError
        Where the socket cannot be made, or another server has it.
    StateError
        Where another file has taken the place of the database.
    """
    path = socket_path(mailbox.path)
    listening = _listen(path)
    ours = os.stat(path).st_ino
    try:
        asyncio.run(_serve(mailbox, listening, lambda: ready(path)))
    finally:
        listening.close()
        with contextlib.suppress(OSError):
            if os.stat(path).st_ino == ours:
                os.unlink(path)


def _listen(path: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if Path(path).is_socket():
            if _answers(path):
                raise OutputError(f"{path}: another `streamnb serve` is running")
            os.unlink(path)  # its server was killed
        umask = os.umask(0o177)  # for the owner alone
        try:
            listening.bind(path)
        finally:
            os.umask(umask)
        listening.listen(128)
    except OSError as error:
        listening.close()
        why = error.strerror or str(error)
        raise OutputError(
            f"{path}: the socket cannot be made: {why}; STREAMNB_SOCKET names another place"
        ) from None
    except BaseException:
        listening.close()
        raise
    return listening


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


async def _serve(mailbox: Mailbox, listening: socket.socket, ready: Callable[[], None]) -> None:
    room = asyncio.Semaphore(_AT_ONCE)
    stop = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with room, asyncio.timeout(_PATIENCE):
                reply = await _replied(mailbox, reader)
                writer.write(json.dumps(reply).encode() + b"\n")
                await writer.drain()
                if mailbox.database.replaced():
                    stop.set()
        except (OSError, asyncio.IncompleteReadError, ValueError, RecursionError):
            pass  # whoever asked has gone, or does not know how to ask
        finally:
            writer.close()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = await asyncio.start_unix_server(talk, sock=listening)
    try:
        ready()
        await stop.wait()
    finally:
        server.close()  # whoever is still sending is not waited for
    if mailbox.database.replaced():
        raise StateError(f"{mailbox.path}: another file has taken its place: start again")


async def _replied(mailbox: Mailbox, reader: asyncio.StreamReader) -> dict[str, Any]:
    request = json.loads(await reader.readline())
    if not isinstance(request, dict):
        raise ValueError("not a request")
    size, reasons = request.get("size"), request.get("reasons")
    if type(size) is not int or not 0 <= size <= MOST or type(reasons) is not int:
        raise ValueError("not a request")
    message = await reader.readexactly(size)
    if request.get("database") != os.path.realpath(mailbox.path) or mailbox.database.replaced():
        return {}  # the client will look for itself
    try:
        return {"answer": answer(mailbox, message, min(max(reasons, 0), 100))}
    except StreamNBError as error:
        return {"error": str(error), "busy": isinstance(error, BusyError)}
    except Exception as error:  # whatever is in a message must not end the server
        return {"error": f"{type(error).__name__}: {error!s:.200}", "busy": False}
