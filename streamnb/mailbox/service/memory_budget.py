"""The memory budget for messages, shared by all connections of a server."""

from __future__ import annotations

import asyncio

FREE_BYTES = 1 << 18  # bytes of each message that do not count; nearly all mail is smaller
_SIZE = 1 << 27  # bytes of all messages beyond that; forwarding copies a message three times
_WAIT_S = 60.0  # seconds that a message waits for memory; mail servers wait for five minutes


class MemoryBudget:
    """The bytes that the messages of all connections may use together.

    If the budget is used up, messages wait for others to end. The first waiting message can exceed
    the budget, so two large messages never wait for each other. A budget belongs to one event loop.

    Parameters
    ----------
    size
        Bytes.
    free_bytes
        Bytes of each message that do not count.
    wait_s
        Maximum seconds that a message waits.
    """

    def __init__(
        self, size: int = _SIZE, free_bytes: int = FREE_BYTES, wait_s: float = _WAIT_S
    ) -> None:
        self.size: int = size
        self.free_bytes = free_bytes
        self.wait_s = wait_s
        self.used: int = 0
        self._overdrawn: MessageMemory | None = None
        self.freed: asyncio.Event = (
            asyncio.Event()
        )  # set when memory is free again; each change has its own

    def message(self) -> MessageMemory:
        """Return the memory of a new message."""
        return MessageMemory(self)

    def _take(self, holder: MessageMemory, size: int) -> bool:
        is_over = self.used + size > self.size
        if is_over and self._overdrawn not in (None, holder):
            return False
        if is_over:
            self._overdrawn = holder
        self.used += size
        return True

    def _give(self, holder: MessageMemory, size: int) -> None:
        self.used -= size
        if self._overdrawn is holder:
            self._overdrawn = None
        self.freed.set()
        self.freed = asyncio.Event()


class MessageMemory:
    """The part of the budget that one message uses; created by `MemoryBudget.message`."""

    def __init__(self, budget: MemoryBudget) -> None:
        self.budget = budget
        self.size: int = 0
        self._charged = 0

    def take_now(self, size: int) -> bool:
        """Take bytes and return True, or return False if the budget is used up."""
        charge = max(self.size + size - self.budget.free_bytes, 0) - self._charged
        if charge > 0 and not self.budget._take(self, charge):
            return False
        self.size += size
        self._charged += max(charge, 0)
        return True

    async def take(self, size: int) -> bool:
        """Take bytes as soon as they are free. Return False after the time limit."""
        try:
            async with asyncio.timeout(self.budget.wait_s):
                while not self.take_now(size):
                    await self.budget.freed.wait()
        except TimeoutError:
            return False
        return True

    def release(self) -> None:
        """Return all bytes to the budget, before the next message or at the end."""
        charged, self._charged, self.size = self._charged, 0, 0
        if charged:
            self.budget._give(self, charged)
