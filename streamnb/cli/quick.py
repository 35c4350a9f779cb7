"""`streamnb filter` and `classify` where a server runs: without what reads a command line.

A mail server may start a process for every message, and most of its time would be spent on imports.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn

from streamnb.errors import BusyError, StreamNBError, describe_os_error, error_text, printable
from streamnb.mailbox.service.client import MailboxClient
from streamnb.mailbox.service.passthrough import pass_through

_OPTIONS = {"--db", "--user"}


def exit_status(arguments: list[str]) -> int | None:
    """Do what a command line asks, if it is a plain one; else None, and nothing was read."""
    options: dict[str, str] = {}
    rest = []
    words = iter(arguments[1:])
    for word in words:
        if word in _OPTIONS:
            options[word] = next(words, "")
        elif word == "-" or not word.startswith("-"):
            rest.append(word)
        else:
            return None
    if "" in options.values() or len(options) > 1 or sys.stdin is None or sys.stdout is None:
        return None
    record = arguments[0] == "filter"
    try:
        asking = MailboxClient(options.get("--db"), user=options.get("--user"), record=record)
        if not os.path.exists(asking.socket):
            return None
    except (StreamNBError, OSError, ValueError):
        return None  # it is told the long way
    if arguments[0] == "filter" and not rest:
        return filtered(asking, strict=False)
    plain = len(rest) == 1 and rest[0].isascii() and rest[0] != "-"
    if not record and plain and os.path.isfile(rest[0]):
        return _classified(asking, rest[0])
    return None


def _classified(asking: MailboxClient, path: str) -> int | None:
    """Ask the server of one message; None where all must be done the long way."""
    from streamnb.mailbox.service.protocol import MOST

    try:
        with open(path, "rb") as file:
            message = file.read(MOST)
        if message.startswith(b"From "):  # one message may have an mbox's separator
            message = message.partition(b"\n")[2]
            if b"\nFrom " in message or len(message) > MOST // 2:
                return None
        elif message[: 1 << 13].lstrip(b"\xef\xbb\xbf\r\n").startswith(b"From "):
            return None  # perhaps an mbox
        if b"\0" in message[: 1 << 13]:
            return None  # perhaps no message
        found = asking.ask_server(message)
    except (OSError, ValueError, TypeError, LookupError, BusyError, StreamNBError):
        return None
    try:
        sys.stdout.write(printable(f"{found.mark} {found.score:.4f} {path}") + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(141)
    except OSError as error:
        sys.stderr.write(f"streamnb: {describe_os_error(error)}\n")
        sys.stderr.flush()
        os._exit(3)  # Python would try to write what is left once more
    if found.label is not None and not found.ready:
        say_waiting({found.label})
    return found.status


def say_waiting(labels: set[str]) -> None:
    """Say of which classes nobody can be sure yet."""
    sys.stderr.write(
        f"streamnb: not ready to be sure of {printable(', '.join(sorted(labels)))} yet: "
        "`streamnb status` says how far it is\n"
    )


def filtered(asking: MailboxClient, strict: bool, unsure_field: str | None = None) -> int:
    """Copy a message from standard input to standard output, with its verdict at its head.

    Parameters
    ----------
    asking
        Who is asked.
    strict
        Whether any trouble gives 75.
    unsure_field
        Another header field, for messages whose verdict is unsure.

    Returns
    -------
    int
        The exit status.
    """
    if sys.stdin is None or sys.stdout is None:
        sys.stderr.write("streamnb: standard input or output is closed\n")
        return 75
    for stream in (sys.stdin, sys.stdout):  # what cannot be read just now is not the end
        with suppress(OSError, ValueError):
            os.set_blocking(stream.fileno(), True)
    with asking:
        try:
            trouble = pass_through(
                sys.stdin.buffer, sys.stdout.buffer, asking.classify, unsure_field
            )
        except (OSError, MemoryError) as error:
            give_up(error)
        try:
            asking.finish()
        except StreamNBError as error:
            sys.stderr.write(f"streamnb: not recorded: {printable(str(error))}\n")
    if trouble is None:
        return 0
    why = error_text(trouble)
    if strict:
        sys.stderr.write(f"streamnb: no verdict, to be tried again (status 75): {why}\n")
        return 75
    sys.stderr.write(f"streamnb: passed on unmarked: {why}\n")
    return 0


def give_up(error: BaseException) -> NoReturn:
    """Say that a message was not passed on, and end: whoever called must keep it."""
    said = getattr(error, "strerror", None) or type(error).__name__
    sys.stderr.write(f"streamnb: the message was not passed on: {said}\n")
    sys.stderr.flush()
    os._exit(75)  # Python would try to write what is left once more
