"""MailboxClient what a message is: of a running `streamnb serve`, or else of the database itself."""

from __future__ import annotations

import os
import resource
import socket
import time
from typing import TYPE_CHECKING, Self

from streamnb.errors import StateError
from streamnb.mailbox import location
from streamnb.mailbox.service import protocol
from streamnb.mailbox.service.response import JudgeOptions, Response, judge

if TYPE_CHECKING:
    from pathlib import Path

    from streamnb.mailbox.store import Mailbox

_LEAST_MEMORY = 128 << 20  # bytes; OpenBLAS is content with less, but not the rest
_PATIENCE = 2.0  # seconds for a server to answer, all in all; then the database is asked


def _check_memory() -> None:
    """Refuse to load what ends the process, and a mail with it, where it gets no memory."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    if 0 <= allowed < _LEAST_MEMORY:
        raise StateError(
            f"{allowed >> 20} MB of memory are too few without a server: allow "
            f"{_LEAST_MEMORY >> 20} (ulimit -v), or run `streamnb serve`"
        )


class MailboxClient:
    """Something to ask: the server where one runs, or the database, opened when first needed.

    Parameters
    ----------
    database
        The database; None for the default, or that of the user.
    wait
        Seconds to wait for other processes, where the database itself is asked.
    question
        How messages are judged.
    learn
        Whether messages are then learned, as a program's word, where the verdict is sure.
    record
        Whether the server records its verdicts.
    base
        What a site knows, where the database itself is asked.
    user
        Whose database it is, where there are many.
    """

    def __init__(
        self,
        database: str | Path | None,
        wait: float = location.WAIT,
        question: JudgeOptions | None = None,
        learn: bool = False,
        user: str | None = None,
        record: bool = False,
        base: str | None = None,
    ) -> None:
        named = database or (location.default_path() if user is None else location.user_path(user))
        self.database = os.fspath(named)
        self.socket = location.socket_path(self.database, user)
        self.wait = wait
        self.question = question or JudgeOptions()
        self.learn = learn
        self.record = record
        self.base = base
        self.user = user
        self._mailbox: Mailbox | None = None
        # `streamnb-filter` has asked the server already, and waited.
        self._served = not os.environ.get("STREAMNB_UNSERVED")
        self._later: tuple[bytes, Response] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._mailbox is not None:
            self._mailbox.close()

    def classify(self, message: bytes) -> Response:
        """Ask what a message is."""
        if self._served:
            try:
                return self.ask_server(message)
            except (OSError, ValueError, TypeError, LookupError):
                self._served = False  # there is none, or it fails
        if self._mailbox is None:
            _check_memory()
            from streamnb.mailbox.base import with_base

            base = self.base or location.base_path(self.user)
            new = self.user is not None and base is not None  # the site has a word on their mail
            self._mailbox = with_base(self.database, new, self.wait, base)
        found = judge(self._mailbox, message, self.question)
        self._later = message, found
        return found

    def finish(self) -> None:
        """Record the last verdict, and learn it if so wanted; a server does that by itself.

        Raises
        ------
        StreamNBError
            Where that cannot be.
        """
        if self._later is not None and self._mailbox is not None:
            from streamnb.mailbox.service.mailboxes import record_verdict

            record_verdict(self._mailbox, *self._later, "filter", self.learn)

    def _file(self) -> tuple[int, int]:
        """Which database is meant; (0, 0) for the server's own, where we may not look."""
        try:
            if location.is_url(self.database):
                return location.identity_of(self.database)
            status = os.stat(self.database)
        except PermissionError:
            return 0, 0
        except FileNotFoundError:
            if self.user is None:
                raise
            return 0, 0  # whose database is made when it is first needed
        return status.st_dev, status.st_ino

    def ask_server(self, message: bytes) -> Response:
        """Ask the server alone.

        Raises
        ------
        OSError, ValueError, LookupError
            Where there is none, it is somebody else's or does not answer in time or to the point.
        BusyError, StreamNBError
            What it says is wrong.
        """
        message = message[: protocol.MOST]
        request = protocol.Request(
            self._file(), len(message), self.question, self.learn, self.user, self.record
        )
        until = time.monotonic() + _PATIENCE
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_PATIENCE)
            connection.connect(self.socket)
            if protocol.peer_of(connection, self.socket) not in (os.getuid(), 0):
                raise OSError("somebody else listens there")
            connection.sendall(protocol.write_request(request) + message)
            reply = bytearray()
            while len(reply) < protocol.LONGEST_REPLY:
                connection.settimeout(max(until - time.monotonic(), 1e-3))
                part = connection.recv(1 << 16)
                if not part:
                    break
                reply += part
        return protocol.read_reply(bytes(reply))
