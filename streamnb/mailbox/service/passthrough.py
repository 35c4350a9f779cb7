"""A message through and out again, byte for byte, with a verdict at its head."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from typing import BinaryIO

from streamnb import __version__
from streamnb.mailbox.service.client import MOST, Answer

__all__ = ["field_of", "pass_through"]

_LINE = 1 << 16  # bytes of a line looked at together
_OURS = re.compile(rb"x-streamnb[ \t]*:", re.I)
_FIRST_END = re.compile(rb"\r?\n")


def field_of(answer: Answer) -> str:
    """The header field that tells a verdict.

    Examples
    --------
    >>> from streamnb.mailbox.service.client import Answer
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
    lines = _Lines(head, source)
    _copy_header(lines, target, field)
    lines.copy_rest(target)
    target.flush()
    return None


def _copy_header(lines: _Lines, target: BinaryIO, field: bytes) -> None:
    """Copy the lines of a header and the empty line after it, our field first."""
    placed = ours = False
    begins = first = True
    while line := lines.next():
        if begins:
            # An mbox's separator stays first, and so do lines that would continue our field.
            continues = line[:1] in (b" ", b"\t")
            if not placed and not continues and not (first and line.startswith(b"From ")):
                target.write(field + lines.ending)
                placed = True
            if line in (b"\n", b"\r\n"):
                target.write(line)
                return
            ours = ours if continues else _OURS.match(line) is not None
            first = False
        if not ours:
            target.write(line)
        begins = line.endswith(b"\n")
    if not placed and begins:
        target.write(field + lines.ending)


class _Lines:
    """The lines of a message of which the beginning was read already.

    Parameters
    ----------
    head
        The beginning.
    source
        Where the rest comes from.
    """

    def __init__(self, head: bytes, source: BinaryIO) -> None:
        self.head = head
        self.source = source
        self.at = 0
        first = _FIRST_END.search(head, 0, _LINE)
        self.ending = first[0] if first else b"\n"

    def next(self) -> bytes:
        """The next line, or as much of it as is looked at together."""
        end = self.head.find(b"\n", self.at, self.at + _LINE) + 1
        if not end and len(self.head) - self.at < _LINE:  # it may go on in what was not yet read
            self.head, self.at = self.head[self.at :] + self.source.read(MOST), 0
            end = self.head.find(b"\n", 0, _LINE) + 1
        begin, self.at = self.at, end or min(self.at + _LINE, len(self.head))
        return self.head[begin : self.at]

    def copy_rest(self, target: BinaryIO) -> None:
        """Copy all that was not asked for."""
        target.write(self.head[self.at :])
        shutil.copyfileobj(self.source, target, 1 << 20)
