"""Lines for a log or a terminal, written so that a slow reader delays no mail."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from queue import SimpleQueue
from threading import RLock, Thread
from typing import TextIO

# Lines that wait for the reader. A line has at most about 3 KB, so they need at most 3 MB; twice as
# many need 6 MB, and with half as many a shorter pause of the reader loses lines.
MAX_WAITING = 1000
_CLOSE_S = 1.0  # seconds to write the last lines when the process ends


def has_reader(stream: TextIO | None) -> bool:
    """Return False if a stream is a pipe or a socket whose reader has closed it."""
    poll = select.poll()
    if stream is not None:
        poll.register(stream, 0)
    return not any(events & select.POLLERR for _, events in poll.poll(0))


class LineWriter:
    """Writes lines to a stream in a thread, in their order.

    A line is dropped if `MAX_WAITING` lines wait, or if the stream reports an error, such as a full
    disk. Their number is written when the stream accepts lines again. `close` writes it only if the
    stream then accepts a line.

    Parameters
    ----------
    stream
        An open file, such as `sys.stderr`. The writer uses its descriptor, without its buffer.
    format_line
        Completes the notice about dropped lines, for example with the time.
    """

    def __init__(self, stream: TextIO, format_line: Callable[[str], str]) -> None:
        stream.flush()
        self._descriptor = stream.fileno()
        self._encoding = stream.encoding
        self._format_line = format_line
        # Garbage collection can log in the middle of a call, so queue and lock are reentrant.
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._dropped_count = 0
        self._lock = RLock()
        self._thread = Thread(target=self._run, name="streamnb-log", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Write a line soon, without waiting."""
        if self._lines.qsize() < MAX_WAITING:
            self._lines.put(line)
        else:
            self._drop(1)

    def close(self) -> None:
        """Wait until all lines are written, for at most a second; drop the others."""
        self._lines.put(None)
        self._thread.join(_CLOSE_S)
        if self._thread.is_alive():
            self._drop(self._lines.qsize())  # with the end for the line that is being written
        if self._dropped_count and select.select([], [self._descriptor], [], 0)[1]:
            self._write_notice()

    def _drop(self, count: int) -> None:
        with self._lock:
            self._dropped_count += count

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            if not self._write(line):
                self._drop(1)
            # a reader that stays slow gets no notice after each line
            elif self._dropped_count and self._lines.qsize() <= MAX_WAITING // 2:
                self._write_notice()

    def _write_notice(self) -> None:
        count = self._dropped_count
        notice = f"{count:,} lines were dropped, because they could not be written"
        if self._write(self._format_line(notice)):
            self._drop(-count)

    def _write(self, line: str) -> bool:
        """Write a line, and return whether the stream accepted it."""
        content = memoryview(f"{line}\n".encode(self._encoding, "backslashreplace"))
        while content:
            try:
                content = content[os.write(self._descriptor, content) :]
            except BlockingIOError:  # another process made the pipe non-blocking
                select.select([], [self._descriptor], [])
            except OSError:
                return False
        return True
