"""Targets of the fuzzers, and choices made from bytes."""

from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Choices", "Target"]


class Target(NamedTuple):
    """A piece of streamnb that is given what a fuzzer comes up with.

    Attributes
    ----------
    check
        Feeds it bytes, and raises where it does what it must not.
    seeds
        Makes the inputs that a run begins with.
    words
        What the fuzzer puts into its inputs whole.
    most
        Bytes of an input.
    reached
        Whether the seeds have come as far as they should.
    """

    check: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    words: tuple[bytes, ...] = ()
    most: int = 4096
    reached: Callable[[], bool] = lambda: True


class Choices:
    """Choices read off the beginning of an input; zeros where it has ended."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def __bool__(self) -> bool:
        return self.position < len(self.data)

    def below(self, most: int) -> int:
        """A number from 0 to most - 1, of one byte, or of two."""
        return int.from_bytes(self.take(1 if most <= 256 else 2), "little") % most

    def take(self, size: int) -> bytes:
        """The next bytes."""
        self.position += size
        return self.data[self.position - size : self.position]

    def take_some(self) -> bytes:
        """So many bytes as the next one says."""
        return self.take(self.below(256))

    def remaining_bytes(self) -> bytes:
        """All that is left."""
        return self.take(len(self.data))
