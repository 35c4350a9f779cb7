"""The client of a mailbox. It uses a running `streamnb serve`, or opens the database."""

from __future__ import annotations

import os
import resource
import time
from typing import TYPE_CHECKING, Self

from streamnb.errors import StateError
from streamnb.limits import MAX_MESSAGE
from streamnb.mailbox import location
from streamnb.mailbox.service import protocol
from streamnb.mailbox.service.response import JudgeOptions, Response, judge

if TYPE_CHECKING:
    from pathlib import Path

    from streamnb.mailbox.mailbox import Mailbox

_LEAST_MEMORY = 128 << 20  # bytes; with less memory, OpenBLAS ends the process when it starts
# seconds to wait for the whole reply of a server, before the client opens the database
_TIMEOUT = 2.0
_BYTES_PER_S = 1 << 23  # bytes of a message per additional second of the timeout


def _check_memory() -> None:
    """Raise StateError if memory is too small: OpenBLAS would end the process and lose a mail."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    if 0 <= allowed < _LEAST_MEMORY:
        raise StateError(
            f"the memory limit of {allowed >> 20} MB is too low: allow {_LEAST_MEMORY >> 20} MB "
            "(ulimit -v), or run `streamnb serve`"
        )


class MailboxClient:
    """Client that uses the running server, or opens the database on first use.

    Parameters
    ----------
    database
        The database. None for the default database, or that of the user.
    wait
        Seconds to wait for other processes, if the client opens the database.
    options
        The options of verdicts.
    learn
        Whether to learn messages with a sure verdict, as a program's label.
    user
        The owner of the database. None for a server of one database.
    record
        Whether the server records its verdicts.
    base
        The site's model, if the client opens the database.
    """

    def __init__(
        self,
        database: str | Path | None,
        wait: float = location.WAIT,
        options: JudgeOptions | None = None,
        learn: bool = False,
        user: str | None = None,
        record: bool = False,
        base: str | None = None,
    ) -> None:
        path = database or (location.default_path() if user is None else location.user_path(user))
        self.database: str = os.fspath(path)
        self.socket: str = location.socket_path(self.database, user)
        self.wait = wait
        self.options: JudgeOptions = options or JudgeOptions()
        self.learn = learn
        self.record = record
        self.base = base
        self.user = user
        self.mailbox: Mailbox | None = None  # None until this process opens the database
        # `streamnb-filter` sets this variable if the server did not answer in time.
        self._use_server = not os.environ.get("STREAMNB_UNSERVED")
        self._unrecorded: tuple[bytes, Response] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.mailbox is not None:
            self.mailbox.close()

    def classify(self, message: bytes) -> Response:
        """Return the verdict on a message."""
        if self._use_server:
            try:
                return self.ask_server(message)
            except (OSError, ValueError, TypeError, LookupError):
                self._use_server = False  # the server is absent or fails
        if self.mailbox is None:
            _check_memory()
            from streamnb.mailbox.site_model import open_with_site_model

            base = self.base or location.base_path(self.user)
            # the site's model gives the verdict
            create = self.user is not None and base is not None
            self.mailbox = open_with_site_model(self.database, create, self.wait, base)
        response = judge(self.mailbox, message, self.options)
        self._unrecorded = message, response
        return response

    def finish(self) -> None:
        """Record the last verdict, and learn the message if requested. A server does both itself.

        Raises
        ------
        StreamNBError
            If the database cannot be written.
        """
        if self._unrecorded is not None and self.mailbox is not None:
            from streamnb.mailbox.verdict_log import record_verdict

            record_verdict(self.mailbox, *self._unrecorded, "filter", self.learn)

    def _file(self) -> tuple[int, int]:
        """Return device and inode of the database; (0, 0) if this process has no access."""
        try:
            if location.is_url(self.database):
                return location.identity_of(self.database)
            status = os.stat(self.database)
        except PermissionError:
            return 0, 0
        except FileNotFoundError:
            if self.user is None:
                raise
            return 0, 0  # the user has no database yet
        return status.st_dev, status.st_ino

    def ask_server(self, message: bytes) -> Response:
        """Return the server's verdict on a message.

        Raises
        ------
        OSError, ValueError, LookupError
            If there is no server, it belongs to another user, or it gives no valid reply in time.
        BusyError, StreamNBError
            If the server reports an error.
        """
        message = message[:MAX_MESSAGE]
        request = protocol.Request(
            self._file(), len(message), self.options, self.learn, self.user, self.record
        )
        timeout = _TIMEOUT + len(message) / _BYTES_PER_S
        deadline = time.monotonic() + timeout
        os.stat(self.socket)  # raises OSError without a server, before the slow import
        import socket

        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            connection.connect(self.socket)
            if protocol.peer_uid(connection, self.socket) not in (os.getuid(), 0):
                raise OSError("the server belongs to another user")
            connection.sendall(protocol.write_request(request) + message)
            reply = bytearray()
            while len(reply) < protocol.LONGEST_REPLY:
                connection.settimeout(max(deadline - time.monotonic(), 1e-3))
                part = connection.recv(1 << 16)
                if not part:
                    break
                reply += part
        return protocol.read_reply(bytes(reply))
