"""What all corpora are made of."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from streamnb.errors import CorpusError

__all__ = ["MAX_MESSAGE", "Corpus", "Entry", "read"]

# Of a file longer than this only the beginning is read; the parsers look at less.
MAX_MESSAGE = 1 << 22
_QUOTED = re.compile(rb"^>(>*From )", re.M)


class Entry(NamedTuple):
    """Where one labelled message lies.

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
    """

    name: str
    label: str
    path: str
    start: int = 0
    end: int = -1
    text: str | None = None
    classify: bool = True
    learn: bool = True


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
    """

    kind: str
    path: Path
    description: str
    content: str
    entries: Callable[[], Iterator[Entry]]
    drop_headers: tuple[str, ...] = field(default=())

    def __iter__(self) -> Iterator[Entry]:
        return self.entries()


def _unquoted(message: bytes) -> bytes:
    """Take one `>` off the lines that were quoted because they begin like a separator."""
    return _QUOTED.sub(rb"\1", message) if b">From " in message else message


def read(entry: Entry) -> bytes | str:
    """Fetch the content of a message.

    Raises
    ------
    CorpusError
        Naming the file, where it cannot be read.
    """
    if entry.text is not None:
        return entry.text
    try:
        descriptor = os.open(entry.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            if entry.end >= 0:
                size = min(entry.end - entry.start, MAX_MESSAGE)
                return _unquoted(os.pread(descriptor, size, entry.start))
            data = os.read(descriptor, 1 << 16)
            if len(data) < 1 << 16:
                return data
            pieces = [data]
            size = len(data)
            while size < MAX_MESSAGE and (data := os.read(descriptor, 1 << 20)):
                pieces.append(data)
                size += len(data)
            return b"".join(pieces)[:MAX_MESSAGE]
        finally:
            os.close(descriptor)
    except OSError as error:
        raise CorpusError(
            f"{entry.path}: cannot be read: {(error.strerror or str(error)).lower()}"
        ) from None
