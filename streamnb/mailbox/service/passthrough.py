"""A message through and out again, byte for byte, with a verdict at its head."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import BinaryIO

from streamnb.mailbox.service.protocol import MOST
from streamnb.mailbox.service.response import FIELD, Response, header_field

_LINE = 1 << 16  # bytes of a line looked at together
_FIRST_END = re.compile(rb"\r?\n")
_BARE = re.compile(rb"\r(?!\n|\Z)")


def pass_through(
    source: BinaryIO,
    target: BinaryIO,
    ask: Callable[[bytes], Response] | None,
    unsure_field: str | None = None,
    ending: bytes | None = None,
) -> Exception | None:
    """Copy a message with its verdict added and any forged one removed.

    Parameters
    ----------
    source, target
        Where it comes from and where it goes.
    ask
        Gives the verdict on (the beginning of) a message; None for no verdict.
    unsure_field
        Another header field, which is added where the verdict is unsure.
    ending
        What ends a line; None for what ends the message's first.

    Returns
    -------
    Exception or None
        What went wrong; then the message was copied without a verdict, a forged one removed.

    Raises
    ------
    OSError
        Where the message cannot be read or written: whoever called must keep it.
    """
    head = source.read(MOST)
    names = [FIELD]
    if unsure_field is not None:
        names.append(unsure_field.partition(":")[0].strip())
    fields, trouble = [], None
    try:
        if ask is not None:
            answer = ask(head)
            fields = [header_field(answer)]
            if unsure_field is not None and answer.status == 2:
                fields.append(unsure_field)
    except Exception as error:  # whatever it is, the message matters more
        trouble = error
    lines = _Lines(head, source)
    lines.ending = ending or lines.ending
    ours = "|".join(map(re.escape, names)).encode("ascii", "replace")
    added = b"".join(field.encode("ascii", "replace") + lines.ending for field in fields)
    # A colon, or blanks up to the end of what is looked at together.
    _copy_header(lines, target, added, re.compile(rb"(?:%b)[ \t]*(?::|[ \t]\Z)" % ours, re.I))
    lines.copy_rest(target)
    target.flush()
    return trouble


def _copy_header(lines: _Lines, target: BinaryIO, added: bytes, forged: re.Pattern[bytes]) -> None:
    """Copy the lines of a header and the empty line after it, the lines `added` first."""
    placed, ours, first = not added, False, True
    before = written = b"\n"  # the last byte of what was read, and of what was written
    while line := lines.next():
        if before in b"\r\n":
            empty = line in (b"\n", b"\r\n")
            rest = empty and before == b"\r"  # CR CR LF ends one line
            continues = rest or line[:1] in (b" ", b"\t")
            # An mbox's separator stays first, and so do lines that would continue our field.
            separator = first and line.startswith(b"From ")
            if not placed and before == b"\n" and not continues and not separator:
                target.write(added)
                placed = True
            if empty and not rest:
                target.write(line)
                return
            ours = ours if continues else forged.match(line) is not None
            first = False
        before = line[-1:]
        if ours:  # of a line that was begun, the end stays
            line = b"\n" if before == b"\n" != written else b""
        target.write(line)
        written = line[-1:] or written
    if not placed:  # there was no other line than such
        target.write((b"" if written == b"\n" else lines.ending) + added)


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
        """The next line, or as much of it as is looked at together.

        A bare CR ends one, too: some programs read it so, and a forged field could stand behind it.
        """
        end = self.head.find(b"\n", self.at, self.at + _LINE) + 1
        if not end and len(self.head) - self.at < _LINE:  # it may go on in what was not yet read
            self.head, self.at = self.head[self.at :] + self.source.read(MOST), 0
            end = self.head.find(b"\n", 0, _LINE) + 1
        begin, end = self.at, end or min(self.at + _LINE, len(self.head))
        bare = _BARE.search(self.head, begin, end)
        self.at = bare.end() if bare else end
        if self.at == begin + _LINE and self.head[self.at - 1 : self.at] == b"\r":
            self.at -= 1  # what follows it decides what it is
        return self.head[begin : self.at]

    def copy_rest(self, target: BinaryIO) -> None:
        """Copy all that was not asked for."""
        target.write(self.head[self.at :])
        while part := self.source.read(1 << 20):
            target.write(part)
