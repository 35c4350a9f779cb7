"""A message through and out again, byte for byte, with a verdict at its head."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from typing import BinaryIO

from streamnb import __version__
from streamnb.mailbox.client import MOST, Answer

__all__ = ["field_of", "pass_through"]

_LINE = 1 << 16  # bytes of a line looked at together
_OURS = re.compile(rb"x-streamnb[ \t]*:", re.I)
_FIRST_END = re.compile(rb"\r?\n")


def field_of(answer: Answer) -> str:
    """The header field that tells a verdict.

    Examples
    --------
    >>> from streamnb.mailbox.client import Answer
    >>> field_of(Answer("S", 0, 3.25, "spam", 0.9627, []))[:50]
    'X-Streamnb: Spam, score=3.2500, probability=0.9627'
    """
    words = {"S": "Spam", "H": "Ham", "U": "Unsure"}
    mark = words.get(answer.mark, "".join(c for c in answer.mark if c.isalnum() or c in "-_."))
    return (
        f"X-Streamnb: {mark}, score={answer.score:.4f}, probability={answer.probability:.4f}, "
        f"version={__version__}"
    )


def pass_through(
    source: BinaryIO, target: BinaryIO, ask: Callable[[bytes], Answer]
) -> Exception | None:
    """Copy a message with its verdict added and any forged one removed.

    Parameters
    ----------
    source, target
        Where it comes from and where it goes.
    ask
        Gives the verdict on (the beginning of) a message.

    Returns
    -------
    Exception or None
        What went wrong; then the message was copied unchanged.

    Raises
    ------
    OSError
        Where the message cannot be read or written: whoever called must keep it.
    """
    head = source.read(MOST)
    try:
        field = field_of(ask(head)).encode("ascii", "replace")
    except Exception as error:  # whatever it is, the message matters more
        target.write(head)
        shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        return error
    _Copy(target).run(head, source, field)
    target.flush()
    return None


class _Copy:
    """Copies a message line by line until its header ends; then as it comes."""

    def __init__(self, target: BinaryIO) -> None:
        self.target = target
        self.rest = b""

    def run(self, head: bytes, source: BinaryIO, field: bytes) -> None:
        """Copy `head`, and what follows it in `source`, with the field first."""
        self.head, self.at, self.source = head, 0, source
        first = _FIRST_END.search(head, 0, _LINE)
        end = first[0] if first else b"\n"
        line = self.line()
        if line.startswith(b"From "):  # an mbox's separator stays where it is
            self.target.write(line)
            while line and not line.endswith(b"\n"):
                line = self.line()
                self.target.write(line)
            line = self.line()
        self.target.write(field + end)
        ours, begins = False, True
        while line:
            if begins and line in (b"\n", b"\r\n"):
                break
            if begins and line[:1] not in (b" ", b"\t"):
                ours = _OURS.match(line) is not None
            if not ours:
                self.target.write(line)
            begins = line.endswith(b"\n")
            line = self.line()
        self.target.write(line)
        self.target.write(self.head[self.at :])
        shutil.copyfileobj(self.source, self.target, 1 << 20)

    def line(self) -> bytes:
        """The next line, or as much of it as is looked at together."""
        end = self.head.find(b"\n", self.at, self.at + _LINE) + 1
        if not end and len(self.head) - self.at < _LINE:  # it may go on in what was not yet read
            self.head, self.at = self.head[self.at :] + self.source.read(MOST), 0
            end = self.head.find(b"\n", 0, _LINE) + 1
        begin, self.at = self.at, end or min(self.at + _LINE, len(self.head))
        return self.head[begin : self.at]
