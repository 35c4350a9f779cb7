"""One message, as a command is given it."""

from __future__ import annotations

import sys

from streamnb.errors import CorpusError

__all__ = ["read_message"]

_MOST = 1 << 22  # bytes that are looked at


def read_message(path: str) -> bytes:
    """Read the beginning of a file, or (-) of standard input."""
    if path == "-":
        if sys.stdin is None:
            raise CorpusError("-: standard input is closed")
        return sys.stdin.buffer.read(_MOST)
    try:
        with open(path, "rb") as file:
            return file.read(_MOST)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = getattr(error, "strerror", None) or str(error)
        raise CorpusError(f"{path}: cannot be read: {why.lower()}") from None
