"""`streamnb filter` and `classify` of one message, without importing click.

A mail server may start a process for each message, which would spend most of its time on imports.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn

from streamnb.errors import BusyError, StreamNBError, describe_os_error, error_text, printable
from streamnb.mailbox.service.client import MailboxClient
from streamnb.mailbox.service.passthrough import pass_through

_QUICK_BYTES = 1 << 21  # bytes: the command of click reads a longer file
# Suffixes of tables. The command of click reports that a table is not a message.
TABLE_SUFFIXES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson")
# The first bytes of gzip, bzip2, xz, Zstandard and LZ4 files. `corpus.entry` reads them, but its
# import takes longer than a request to the server.
_COMPRESSION_MARKS = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"Dovecot-LZ4")
_MBOX_MARKS = (b"\nFrom ", b"\rFrom ", b">From ", b"FOLDER INTERNAL DATA")
_OPTIONS = {"--db", "--user"}


def exit_status(arguments: list[str]) -> int | None:
    """Run a simple command line and return its exit status; None if click must run it."""
    options: dict[str, str] = {}
    paths = []
    words = iter(arguments[1:])
    for word in words:
        if word in _OPTIONS:
            options[word] = next(words, "")
        elif word == "-" or not word.startswith("-"):
            paths.append(word)
        else:
            return None
    if "" in options.values() or len(options) > 1 or sys.stdin is None or sys.stdout is None:
        return None
    record = arguments[0] == "filter"
    try:
        client = MailboxClient(options.get("--db"), user=options.get("--user"), record=record)
    except (StreamNBError, OSError, ValueError):
        return None  # the command of click reports the error
    if record and not paths:
        return filter_stream(client, strict=False)
    plain = len(paths) == 1 and paths[0].isascii() and paths[0] != "-"
    plain = plain and not paths[0].lower().endswith(TABLE_SUFFIXES)
    if not record and plain and os.path.isfile(paths[0]):
        return _classify_file(client, paths[0])
    return None


def _read_message(path: str) -> bytes | None:
    """Return the message in a file; None if the file may be something else."""
    with open(path, "rb") as file:
        message = file.read(_QUICK_BYTES)
    if message.startswith(b"From "):  # a single message can begin with an mbox separator
        message = message.partition(b"\n")[2]
        # The command of click reads files with several messages, quoted lines, or a mail program's
        # data.
        if not message or any(mark in message for mark in _MBOX_MARKS):
            return None
    head = message[: 1 << 13]
    is_other = (
        len(message) == _QUICK_BYTES
        or head.lstrip(b"\xef\xbb\xbf\r\n").startswith((b"From ", b"\1\1\1\1", b"BABYL OPTIONS:"))
        or b"\0" in head
        or head.startswith(_COMPRESSION_MARKS)
    )
    return None if is_other else message


def _classify_file(client: MailboxClient, path: str) -> int | None:
    """Print the verdict on one message; None if click must read the file or report an error."""
    try:
        message = _read_message(path)
        if message is None:
            return None
        with client:
            verdict = client.classify(message)
    except BusyError as error:  # the command of click would wait a second time
        sys.stderr.write(f"streamnb: {printable(str(error))}\n")
        return error.exit_code
    except Exception:  # the command of click tries again and reports the error
        return None
    try:
        sys.stdout.write(printable(f"{verdict.mark} {verdict.score:.4f} {path}") + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(141)
    except OSError as error:
        sys.stderr.write(f"streamnb: {describe_os_error(error)}\n")
        sys.stderr.flush()
        os._exit(3)  # Python would try to flush again
    if verdict.label is not None and not verdict.ready:
        notify_not_ready({verdict.label})
    return verdict.status


def notify_not_ready(labels: set[str]) -> None:
    """Print the classes whose verdicts cannot be sure yet."""
    sys.stderr.write(
        f"streamnb: no sure verdicts yet for {printable(', '.join(sorted(labels)))}: "
        "`streamnb status` shows the progress\n"
    )


def filter_stream(client: MailboxClient, strict: bool, unsure_field: str | None = None) -> int:
    """Copy a message from standard input to standard output with its verdict in a header field.

    Parameters
    ----------
    client
        The client of the mailbox.
    strict
        Whether any failure gives the exit status 75.
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
    for stream in (sys.stdin, sys.stdout):  # a non-blocking read would look like the end
        with suppress(OSError, ValueError):
            os.set_blocking(stream.fileno(), True)
    with client:
        try:
            trouble = pass_through(
                sys.stdin.buffer, sys.stdout.buffer, client.classify, unsure_field
            )
        except (OSError, MemoryError) as error:
            give_up(error)
        try:
            client.finish()
        except StreamNBError as error:
            sys.stderr.write(f"streamnb: the verdict was not stored: {printable(str(error))}\n")
    if trouble is None:
        return 0
    reason = error_text(trouble)
    if strict:
        sys.stderr.write(f"streamnb: no verdict; exit status 75 asks for a retry: {reason}\n")
        return 75
    sys.stderr.write(f"streamnb: passed on unmarked: {reason}\n")
    return 0


def give_up(error: BaseException) -> NoReturn:
    """Report that a message was not passed on, and exit with 75: the caller keeps the message."""
    reason = getattr(error, "strerror", None) or type(error).__name__
    sys.stderr.write(f"streamnb: the message was not passed on: {reason}\n")
    sys.stderr.flush()
    os._exit(75)  # Python would try to flush again
