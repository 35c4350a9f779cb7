"""Handover: a new process takes the listening sockets of this one, so that no client waits."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

from streamnb.mailbox.service.sockets import FIRST_PASSED, notify_systemd

# Descriptor to which the new process writes its id when it is ready, and the names of the listeners
# whose sockets systemd did not open. Colons separate them.
_VARIABLE = "STREAMNB_HANDOVER"
# The outer shell ends at once, so systemd becomes the parent of the new process. systemd does not
# wait for the end of a main process that is not its child. The script is constant: the shell does
# not read the arguments.
_START = """sh -c 'LISTEN_PID=$$ exec "$@"' sh "$@" &"""
_PAUSE_S = 0.1  # seconds before a state that systemd did not accept is sent again


def start_successor(
    names: Sequence[str], sockets: Sequence[socket.socket], names_of_own: Sequence[str]
) -> socket.socket:
    """Run the command of this process again, with its listening sockets.

    Parameters
    ----------
    names, sockets
        The name and the socket of each listener.
    names_of_own
        Names of the listeners whose sockets systemd did not open.

    Returns
    -------
    socket.socket
        Receives the id of the new process when it is ready, or end of file if it has ended.
    """
    channel, channel_of_successor = socket.socketpair()
    with channel_of_successor:
        passed = [*sockets, channel_of_successor]
        targets = range(FIRST_PASSED, FIRST_PASSED + len(passed))
        # A copy above all targets: no descriptor is overwritten before it is copied to its target.
        copies = [fcntl.fcntl(sock, fcntl.F_DUPFD_CLOEXEC, targets.stop) for sock in passed]
        environment = {
            **os.environ,
            "LISTEN_FDS": str(len(sockets)),
            "LISTEN_FDNAMES": ":".join(names),
            _VARIABLE: ":".join([str(targets[-1]), *names_of_own]),
        }
        environment.pop("WATCHDOG_PID", None)  # this process
        actions = [(os.POSIX_SPAWN_DUP2, *pair) for pair in zip(copies, targets, strict=True)]
        arguments = ["sh", "-c", _START, "sh", *sys.orig_argv]
        try:
            shell = os.posix_spawn("/bin/sh", arguments, environment, file_actions=actions)
        finally:
            for descriptor in copies:
                os.close(descriptor)
    os.waitpid(shell, 0)
    channel.setblocking(False)
    return channel


def owned_names() -> list[str]:
    """Return the names of the listeners whose sockets the predecessor of this process opened."""
    return os.environ.get(_VARIABLE, "").split(":")[1:]


def notify_predecessor() -> bool:
    """Tell the predecessor of this process that this process is ready. Return if there is one."""
    descriptor = os.environ.pop(_VARIABLE, "").partition(":")[0]
    try:
        channel = socket.socket(fileno=int(descriptor))
    except (ValueError, OverflowError, OSError):  # not set, or not by a predecessor
        return False
    with channel, suppress(OSError):
        channel.sendall(str(os.getpid()).encode())
    return True


async def hand_over(
    names: Sequence[str], sockets: Sequence[socket.socket], names_of_own: Sequence[str]
) -> bool:
    """Start a successor, and make it the main process of the service when it is ready.

    Parameters
    ----------
    names, sockets, names_of_own
        As for `start_successor`.

    Returns
    -------
    bool
        False if the successor has ended. This process then remains the main process.
    """
    notify_systemd("RELOADING=1")
    loop = asyncio.get_running_loop()
    process_id = ""
    with suppress(OSError), start_successor(names, sockets, names_of_own) as channel:
        process_id = (await loop.sock_recv(channel, 20)).decode()
    if not process_id:
        notify_systemd("READY=1")
        return False
    while not notify_systemd(f"MAINPID={process_id}\nREADY=1\nWATCHDOG=1"):
        await asyncio.sleep(_PAUSE_S)
    # systemd ignores the message of a process that has ended, so wait until it has read it
    # (sd_notify_barrier(3)).
    barrier, barrier_of_systemd = socket.socketpair()
    barrier.setblocking(False)
    with barrier:
        with barrier_of_systemd:
            while not notify_systemd("BARRIER=1", [barrier_of_systemd.fileno()]):
                await asyncio.sleep(_PAUSE_S)
        await loop.sock_recv(barrier, 1)
    return True
