"""Targets of the fuzzers, and choices made from bytes."""

from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Choices", "Target"]


class Target(NamedTuple):
    """A part of streamnb that reads the inputs of a fuzzer.

    Attributes
    ----------
    check
        Reads an input, and raises an error for a fault.
    seeds
        Returns the first inputs of a run.
    words
        Words that the fuzzer inserts as a whole.
    most
        Maximum bytes of an input.
    reached
        Returns whether the seeds reached the code that they should.
    """

    check: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    words: tuple[bytes, ...] = ()
    most: int = 4096
    reached: Callable[[], bool] = lambda: True


class Choices:
    """Choices from the beginning of an input; zeros after its end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def __bool__(self) -> bool:
        return self.position < len(self.data)

    def below(self, most: int) -> int:
        """Return a number from 0 to most - 1, from one byte or two."""
        return int.from_bytes(self.take(1 if most <= 256 else 2), "little") % most

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        self.position += size
        return self.data[self.position - size : self.position]

    def take_some(self) -> bytes:
        """Return as many bytes as the next byte says."""
        return self.take(self.below(256))

    def remaining_bytes(self) -> bytes:
        """Return all remaining bytes."""
        return self.take(len(self.data))
