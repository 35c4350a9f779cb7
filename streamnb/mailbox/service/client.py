"""Asking what a message is: of a running `streamnb serve`, or else of the database itself."""

from __future__ import annotations

import json
import os
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from streamnb.errors import BusyError, StreamNBError
from streamnb.mailbox.database import WAIT, default_path

if TYPE_CHECKING:
    from streamnb.mailbox.store import Mailbox

__all__ = ["MOST", "Answer", "Asking", "answer", "socket_path"]

MOST = 1 << 22  # bytes of a message that are looked at
_LONGEST = 1 << 20  # of an answer
_PATIENCE = 5.0  # seconds for a server that does not answer; then the database is asked


class Answer(NamedTuple):
    """What is said of a message, as it goes over a socket.

    Attributes
    ----------
    mark
        "S" for spam, "H" for ham, "U" where it is unsure or not ready; the class where it is
        another one.
    status
        Exit status: 0 for spam, 1 for anything else, 2 for unsure.
    score
        Log-odds of spam; of the class where there are others than ham and spam.
    label
        The class; None where nothing was learned.
    probability
        Its probability.
    reasons
        Features and what they added to the log-odds of the class.
    ready
        Whether the class was called rightly often enough that nobody needs to look.
    """

    mark: str
    status: int
    score: float
    label: str | None
    probability: float
    reasons: list[tuple[str, float]]
    ready: bool = True


def socket_path(database: str | Path) -> str:
    """Where the server of a database listens: STREAMNB_SOCKET, or beside the database."""
    return os.environ.get("STREAMNB_SOCKET") or f"{os.path.realpath(database)}.sock"


def _owner(connection: socket.socket, path: str) -> int:
    """Who is at the other end of a Unix socket, or at least made it."""
    if not hasattr(socket, "SO_PEERCRED"):  # not Linux
        return os.lstat(path).st_uid
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", packed)[1])


def answer(mailbox: Mailbox, message: bytes, reasons: int = 0) -> Answer:
    """Ask a mailbox what a message is."""
    verdict = mailbox.classify(message, reasons)
    if verdict.label is None:
        return Answer("U", 2, 0.0, None, 0.0, [], False)
    label = str(verdict.label)
    two = {str(known) for known in verdict.probabilities} <= {"ham", "spam"}
    score = verdict.log_odds if not two or label == "spam" else -verdict.log_odds
    unsure = verdict.unsure or not verdict.ready
    mark = {"spam": "S", "ham": "H"}.get(label, label)
    return Answer(
        "U" if unsure else mark,
        2 if unsure else int(label != "spam"),
        min(max(score, -1e9), 1e9) + 0.0,  # JSON knows no infinity, and nobody a zero below zero
        label,
        verdict.probability,
        [(str(reason.feature), reason.log_odds) for reason in verdict.reasons],
        verdict.ready,
    )


class Asking:
    """Something to ask: the server where one runs, or the database, opened when first needed.

    Parameters
    ----------
    database
        The database; None for the default.
    wait
        Seconds to wait for other processes.
    """

    def __init__(self, database: str | Path | None, wait: float = WAIT) -> None:
        self.database = Path(database or default_path())
        self.wait = wait
        self._mailbox: Mailbox | None = None
        self._served = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._mailbox is not None:
            self._mailbox.close()

    def classify(self, message: bytes, reasons: int = 0) -> Answer:
        """Ask what a message is."""
        if self._served:
            try:
                return self._ask(message[:MOST], reasons)
            except (OSError, ValueError, TypeError, LookupError, RecursionError):
                self._served = False  # there is none, or it fails
        if self._mailbox is None:
            from streamnb.mailbox.store import Mailbox

            self._mailbox = Mailbox(self.database, create=False, wait=self.wait)
        return answer(self._mailbox, message, reasons)

    def _ask(self, message: bytes, reasons: int) -> Answer:
        request: dict[str, Any] = {
            "database": os.path.realpath(self.database),
            "size": len(message),
            "reasons": reasons,
            "wait": self.wait,
        }
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_PATIENCE + self.wait)
            path = socket_path(self.database)
            connection.connect(path)
            if _owner(connection, path) not in (os.getuid(), 0):
                raise OSError("somebody else listens there")
            connection.sendall(json.dumps(request).encode() + b"\n" + message)
            with connection.makefile("rb") as file:
                reply = json.loads(file.readline(_LONGEST))
        if "error" in reply:
            raise (BusyError if reply["busy"] else StreamNBError)(str(reply["error"]))
        fields = reply["answer"]
        if fields[1] not in (0, 1, 2):
            raise ValueError("no status")
        return Answer(
            str(fields[0]),
            int(fields[1]),
            float(fields[2]),
            fields[3],
            float(fields[4]),
            [(str(name), float(gain)) for name, gain in fields[5]],
            bool(fields[6]),
        )
