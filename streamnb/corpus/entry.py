"""What all corpora are made of."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from streamnb.errors import CorpusError, root_cause

# Of a file longer than this only the beginning is read; the parsers look at less.
MAX_MESSAGE = 1 << 22
_QUOTED = re.compile(rb"^>(>*From )", re.M)


class Entry(NamedTuple):
    """Where one labelled message lies; plain values, for they go to other processes as such.

    Attributes
    ----------
    name
        What it is called in results: its path within the corpus, or file and place.
    label
        Its label; "" where it has none.
    path
        The file it lies in.
    start, end
        The bytes of it in an mbox file; end -1 for a file that is one message.
    text
        The message itself, where reading the corpus has read it already.
    classify, learn
        Whether it is to be classified, and learned.
    problem
        Why there is no message, of a line that should be one; it has no label then.
    """

    name: str
    label: str
    path: str
    start: int = 0
    end: int = -1
    text: str | None = None
    classify: bool = True
    learn: bool = True
    problem: str = ""


def iterate_lines(file: BinaryIO, most: int) -> Iterator[tuple[int, bytes]]:
    """Lines and their numbers from 1; one that is longer than so many bytes is several."""
    return enumerate(iter(lambda: file.readline(most), b""), 1)


class Labels:
    """Labels as results can hold them: one word each.

    Two that would be one word are refused.
    """

    def __init__(self) -> None:
        self._spelt: dict[str, str] = {}

    def word(self, text: str, where: str) -> str:
        """A label as one word."""
        words = text.split()
        word = "-".join(words)
        before = self._spelt.setdefault(word, " ".join(words))
        if before != " ".join(words):
            raise CorpusError(
                f"{where}: classes {before!r} and {' '.join(words)!r} would both be {word!r} in "
                "results; rename one"
            )
        return word


@dataclass
class Corpus:
    """A stream of labelled messages.

    Attributes
    ----------
    kind
        Which reader it is.
    path
        Where it lies.
    description
        One line for the user: what was recognised.
    content
        "mail" for whole messages, "text" for plain text.
    entries
        Makes a new iterator over the entries, in the corpus's own order.
    drop_headers
        Header fields that must not be read, because the label is in them.
    size
        How many entries there are, where that is known before.
    """

    kind: str
    path: Path
    description: str
    content: str
    entries: Callable[[], Iterator[Entry]]
    drop_headers: tuple[str, ...] = field(default=())
    size: int | None = None

    def __iter__(self) -> Iterator[Entry]:
        return self.entries()


def _unquoted(message: bytes) -> bytes:
    """Take one `>` off the lines that were quoted because they begin like a separator."""
    return _QUOTED.sub(rb"\1", message) if message.find(b">From ") >= 0 else message


def read(entry: Entry, most: int = MAX_MESSAGE, follow: bool = True) -> bytes | str:
    """Fetch the content of a message, at most so many bytes of it.

    Parameters
    ----------
    entry
        Where it lies.
    most
        Bytes that are read at the most.
    follow
        Whether the file may be a symbolic link.

    Raises
    ------
    CorpusError
        Naming the file, where it cannot be read.
    """
    if entry.problem:
        raise CorpusError(entry.problem)
    if entry.text is not None:
        return entry.text
    try:
        # Not blocking: a pipe that nobody writes to must not hold the replay up.
        flags = os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
        descriptor = os.open(entry.path, flags)
        try:
            if entry.end >= 0:
                size = min(entry.end - entry.start, most)
                return _unquoted(os.pread(descriptor, size, entry.start))
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise CorpusError(f"{entry.path}: cannot be read: not a regular file")
            return _read_bytes(descriptor, min(status.st_size + 1, most))
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise CorpusError(f"{entry.path}: cannot be read: {root_cause(error).lower()}") from None


def _read_bytes(descriptor: int, size: int) -> bytes:
    data = os.read(descriptor, size)
    while 0 < len(data) < size - 1 and (more := os.read(descriptor, size - len(data))):
        data += more  # a file system may give less than was asked for
    return data
