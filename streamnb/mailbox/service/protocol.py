r"""The text protocol of the Unix socket of `streamnb serve`, also used by the client in C.

A request is one line, ``streamnb/1 KEY=VALUE ...``, followed by `size` bytes of a message::

    streamnb/1 file=2049:1311 size=5210 reasons=3 threshold=0.9 learn=1
    From: ...

`file` is the device and inode of the database, or 0:0 for the server's own database if the client
cannot access the file. `user` is the name of a user of a server of many users.

The reply is one of:

- ``ok``, a line with the header field, a line with the other values of the response (separated by
  tabs), a line for each reason;
- one line: ``busy`` or ``error``, and the error message;
- nothing, if the server does not serve that database.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from streamnb.errors import BusyError, StreamNBError
from streamnb.limits import MAX_MESSAGE
from streamnb.mailbox.service.response import JudgeOptions, Response, header_field

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

LONGEST_LINE = 1 << 12  # bytes of a request's line
LONGEST_REPLY = 1 << 20  # bytes
_LARGEST_COST = 1e12
_MOST_REASONS = 100
_PROTOCOL = "streamnb/1"


class Request(NamedTuple):
    """A request for the verdict on a message.

    Attributes
    ----------
    file
        Device and inode of the database.
    size
        Size of the message that follows, in bytes.
    options
        The options of the verdict.
    learn
        Whether to learn the message, with a program's label, if the verdict is sure.
    user
        The owner of the database. None for a server of one database.
    record
        Whether to record the verdict for a review by the owner.
    """

    file: tuple[int, int]
    size: int
    options: JudgeOptions = JudgeOptions()
    learn: bool = False
    user: str | None = None
    record: bool = False


def write_request(request: Request) -> bytes:
    r"""Return the line of a request.

    Examples
    --------
    >>> from streamnb.mailbox.service.protocol import Request, read_request, write_request
    >>> write_request(Request((2049, 1311), 5210))
    b'streamnb/1 file=2049:1311 size=5210 reasons=0\n'
    >>> read_request(write_request(Request((1, 2), 3, learn=True, user="ann"))).user
    'ann'
    """
    options = request.options
    device, inode = request.file
    words = [_PROTOCOL, f"file={device}:{inode}", f"size={request.size}"]
    words.append(f"reasons={options.reasons}")
    if options.threshold is not None:
        words.append(f"threshold={options.threshold!r}")
    if options.costs is not None:
        words.append("costs=" + ",".join(repr(float(cost)) for cost in options.costs))
    words += [f"{name}=1" for name in ("learn", "record") if getattr(request, name)]
    if request.user is not None:
        words.append(f"user={request.user}")
    return " ".join(words).encode("ascii") + b"\n"


def read_request(line: bytes) -> Request:
    """Parse the line of a request.

    Raises
    ------
    ValueError, KeyError
        If the line is not a valid request.
    """
    protocol, *words = line.decode("ascii").split()
    if protocol != _PROTOCOL:
        raise ValueError("not a request")
    values: Mapping[str, str] = dict(word.split("=", 1) for word in words)
    device, inode = map(int, values["file"].split(":"))
    size, reasons = int(values["size"]), int(values.get("reasons", "0"))
    if not 0 <= size <= MAX_MESSAGE:
        raise ValueError("size out of range")
    threshold = float(values["threshold"]) if "threshold" in values else None
    costs = tuple(map(float, values["costs"].split(","))) if "costs" in values else None
    if costs is not None and (
        len(costs) != 3 or not all(0 <= cost < _LARGEST_COST for cost in costs)
    ):
        raise ValueError("costs out of range")
    options = JudgeOptions(min(max(reasons, 0), _MOST_REASONS), threshold, costs)
    learn, record = (values.get(name) == "1" for name in ("learn", "record"))
    return Request((device, inode), size, options, learn, values.get("user"), record)


def write_reply(response: Response) -> bytes:
    """Return the reply with a verdict."""
    values = [
        _escape(response.mark),
        str(response.status),
        repr(response.score),
        "" if response.label is None else "=" + _escape(response.label),
        repr(response.probability),
        str(int(response.ready)),
    ]
    lines = ["ok", header_field(response), "\t".join(values)]
    lines += [f"{log_odds!r}\t{_escape(name)}" for name, log_odds in response.reasons]
    return ("\n".join(lines) + "\n").encode("ascii")


def write_error(error: Exception) -> bytes:
    """Return the reply with an error."""
    kind = "busy" if isinstance(error, BusyError) else "error"
    text = str(error) if isinstance(error, StreamNBError) else f"{type(error).__name__}: {error}"
    return f"{kind} {_escape(text[:2000])}\n".encode("ascii")


def read_reply(reply: bytes) -> Response:
    """Parse a reply.

    Raises
    ------
    BusyError, StreamNBError
        If the server reports an error.
    ValueError, LookupError
        If it is not a valid reply.
    """
    if not reply.endswith(b"\n"):
        raise ValueError("the reply is cut off")
    first, *lines = reply.decode("ascii").split("\n")[:-1]
    kind, _, text = first.partition(" ")
    if kind in ("busy", "error"):
        raise (BusyError if kind == "busy" else StreamNBError)(_unescape(text))
    mark, status, score, label, probability, ready = lines[1].split("\t")
    if kind != "ok" or status not in ("0", "1", "2"):
        raise ValueError("not a reply")
    reasons = [line.split("\t") for line in lines[2:]]
    return Response(
        _unescape(mark),
        int(status),
        float(score),
        _unescape(label[1:]) if label else None,
        float(probability),
        [(_unescape(name), float(log_odds)) for log_odds, name in reasons],
        ready == "1",
    )


def _escape(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")


def _unescape(text: str) -> str:
    return text.encode("ascii").decode("unicode_escape")


def peer_uid(connection: socket.socket, path: str) -> int:
    """Return the user id of the process at the other end of a Unix socket.

    On other systems than Linux, return the owner of the socket's path.
    """
    import socket
    import struct

    if not hasattr(socket, "SO_PEERCRED"):
        return os.lstat(path).st_uid
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", packed)[1])
