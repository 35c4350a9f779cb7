"""Ctrl-C during a replay."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any


class Interruption:
    """Handler of Ctrl-C: the first ends the stream after a message, the second the program.

    It raises no exception, because that could happen between recording a message and writing its
    results.
    """

    def __init__(self, should_stop: Callable[[], bool]) -> None:
        self.requested: bool = False
        self._should_stop = should_stop
        self._previous_handler: Any = None

    def __enter__(self) -> Interruption:
        is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as with nohup
        if threading.current_thread() is threading.main_thread() and not is_ignored:
            self._previous_handler = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._previous_handler is not None:
            signal.signal(signal.SIGINT, self._previous_handler)

    def _on_signal(self, number: int, frame: object) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def until_interrupted(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the items until Ctrl-C, or until `should_stop` returns True."""
        for item in items:
            if self._should_stop():
                self.requested = True
            if self.requested:
                return
            yield item
