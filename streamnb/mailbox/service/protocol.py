r"""What goes over the socket of `streamnb serve`, as text that a client in C can read, too.

A request is a line of words, ``streamnb/1 KEY=VALUE ...``, and then `size` bytes of a message::

    streamnb/1 file=2049:1311 size=5210 reasons=3 threshold=0.9 learn=1
    From: ...

`file` tells which database is meant, by its device and inode (0:0, where the client may not look,
for the server's own); `user` whose it is where there are
many. The reply is a line "ok", the header field, a line of the answer's other values between tabs,
and a line for each reason; or one line with "busy" or "error" and what is wrong; or nothing, where
the server does not know that database.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

from streamnb.errors import BusyError, StreamNBError
from streamnb.mailbox.service.response import JudgeOptions, Response, header_field

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST = 1 << 22  # bytes of a message that are looked at
LONGEST_LINE = 1 << 12  # of a request
LONGEST_REPLY = 1 << 20
_HELLO = "streamnb/1"


class Request(NamedTuple):
    """What is asked.

    Attributes
    ----------
    file
        Device and inode of the database.
    size
        How many bytes of the message follow.
    question
        How it is judged.
    learn
        Whether it is then learned, as a program's word, where the verdict is sure.
    user
        Whose database it is, where there are many.
    record
        Whether the verdict is recorded, for its owner to look at.
    """

    file: tuple[int, int]
    size: int
    question: JudgeOptions = JudgeOptions()
    learn: bool = False
    user: str | None = None
    record: bool = False


def write_request(request: Request) -> bytes:
    r"""The line of a request.

    Examples
    --------
    >>> from streamnb.mailbox.service.protocol import Request, read_request, write_request
    >>> write_request(Request((2049, 1311), 5210))
    b'streamnb/1 file=2049:1311 size=5210 reasons=0\n'
    >>> read_request(write_request(Request((1, 2), 3, learn=True, user="ann"))).user
    'ann'
    """
    question = request.question
    device, inode = request.file
    words = [_HELLO, f"file={device}:{inode}", f"size={request.size}"]
    words.append(f"reasons={question.reasons}")
    if question.threshold is not None:
        words.append(f"threshold={question.threshold!r}")
    if question.costs is not None:
        words.append("costs=" + ",".join(repr(float(cost)) for cost in question.costs))
    if request.learn:
        words.append("learn=1")
    if request.record:
        words.append("record=1")
    if request.user is not None:
        words.append(f"user={request.user}")
    return " ".join(words).encode("ascii") + b"\n"


def read_request(line: bytes) -> Request:
    """What a line asks; ValueError where it is not sound."""
    hello, *words = line.decode("ascii").split()
    if hello != _HELLO:
        raise ValueError("not a request")
    given: Mapping[str, str] = dict(word.split("=", 1) for word in words)
    device, inode = map(int, given["file"].split(":"))
    size, reasons = int(given["size"]), int(given.get("reasons", "0"))
    if not 0 <= size <= MOST:
        raise ValueError("not a size")
    threshold = float(given["threshold"]) if "threshold" in given else None
    costs = tuple(map(float, given["costs"].split(","))) if "costs" in given else None
    if costs is not None and (len(costs) != 3 or not all(0 <= cost < 1e12 for cost in costs)):
        raise ValueError("not costs")
    question = JudgeOptions(min(max(reasons, 0), 100), threshold, costs)
    learn, record = (given.get(name) == "1" for name in ("learn", "record"))
    return Request((device, inode), size, question, learn, given.get("user"), record)


def write_reply(answer: Response) -> bytes:
    """An answer as it goes over the socket."""
    values = [
        _escaped(answer.mark),
        str(answer.status),
        repr(answer.score),
        "" if answer.label is None else "=" + _escaped(answer.label),
        repr(answer.probability),
        str(int(answer.ready)),
    ]
    lines = ["ok", header_field(answer), "\t".join(values)]
    lines += [f"{gain!r}\t{_escaped(name)}" for name, gain in answer.reasons]
    return ("\n".join(lines) + "\n").encode("ascii")


def write_trouble(error: Exception) -> bytes:
    """What is wrong as it goes over the socket."""
    kind = "busy" if isinstance(error, BusyError) else "error"
    said = str(error) if isinstance(error, StreamNBError) else f"{type(error).__name__}: {error}"
    return f"{kind} {_escaped(said[:2000])}\n".encode("ascii")


def read_reply(reply: bytes) -> Response:
    """The answer that a server gave.

    Raises
    ------
    BusyError, StreamNBError
        What the server says is wrong.
    ValueError, LookupError
        Where it is no answer.
    """
    if not reply.endswith(b"\n"):
        raise ValueError("the reply is cut off")
    first, *lines = reply.decode("ascii").split("\n")[:-1]
    kind, _, said = first.partition(" ")
    if kind in ("busy", "error"):
        raise (BusyError if kind == "busy" else StreamNBError)(_unescaped(said))
    mark, status, score, label, probability, ready = lines[1].split("\t")
    if kind != "ok" or status not in ("0", "1", "2"):
        raise ValueError("not an answer")
    reasons = [line.split("\t") for line in lines[2:]]
    return Response(
        _unescaped(mark),
        int(status),
        float(score),
        _unescaped(label[1:]) if label else None,
        float(probability),
        [(_unescaped(name), float(gain)) for gain, name in reasons],
        ready == "1",
    )


def _escaped(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")


def _unescaped(text: str) -> str:
    return text.encode("ascii").decode("unicode_escape")


def peer_of(connection: socket.socket, path: str) -> int:
    """Who is at the other end of a Unix socket, or at least made it."""
    if not hasattr(socket, "SO_PEERCRED"):  # not Linux
        return os.lstat(path).st_uid
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", packed)[1])
