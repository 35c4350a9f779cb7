"""Reading and tokenising of messages, in this process and in workers.

Messages are read independently and returned in order, so the result does not depend on the number
of processes. While the next messages in order are not ready, the main process reads later ones.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from streamnb.corpus import Entry, read
from streamnb.errors import StreamNBError, UnexpectedError
from streamnb.features.token_counts import TokenCounts
from streamnb.locks import ForkSafeLock

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

_CHUNK_SIZE = 32  # messages per task
_CHUNKS_PER_PROCESS = 8  # number of tasks to read ahead
_TASKS_PER_WORKER = 3  # one that runs, and others that wait, so the worker is never idle
# Maximum seconds that a thread waits for the interpreter. The pool's thread reads results in pieces
# of 64 KB, and waits before each. With Python's 5 ms, workers idle meanwhile, and the main process
# reads twice as many messages itself. Half and twice the value differ little.
_SWITCH_S = 0.0005


Result = TokenCounts | tuple[TokenCounts, ...] | StreamNBError


class FeatureCounter(Protocol):
    """A tokenizer, or several views of a message."""

    def count(self, x: Any) -> TokenCounts | tuple[TokenCounts, ...]:
        """Return the features of a message."""


def _count(entry: Entry, tokenizer: FeatureCounter) -> Result:
    try:
        return tokenizer.count(read(entry))
    except StreamNBError as error:
        return error


def _count_in_worker(entry: Entry, tokenizer: FeatureCounter) -> Result:
    """Return the result of `_count`, or an internal error for the main process to raise."""
    try:
        return _count(entry, tokenizer)
    except Exception as error:
        return UnexpectedError(error)


def stream_features(
    entries: Iterable[Entry], tokenizer: FeatureCounter, jobs: int = 1
) -> Iterator[tuple[Entry, Result]]:
    """Read and tokenise messages.

    Parameters
    ----------
    entries
        The messages.
    tokenizer
        The tokenizer.
    jobs
        Number of processes that read and tokenise, including this one.

    Yields
    ------
    tuple
        Each entry, in order, with its features or with the error that occurred.
    """
    if jobs <= 1:
        for entry in entries:
            yield entry, _count(entry, tokenizer)
        return
    # imported here because they are slow to import, and a single process does not need them
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    context = _context()
    is_stopped = context.RawValue("b", 0)  # without a lock, which a killed process could hold
    with (
        ProcessPoolExecutor(jobs - 1, context, _init_worker, (tokenizer, is_stopped)) as pool,
        _short_switch_interval(),
    ):
        try:
            yield from _distribute(iter(entries), tokenizer, pool, jobs)
        except BrokenProcessPool:
            raise StreamNBError(
                "a reading process ended unexpectedly; try again with --jobs 1"
            ) from None
        finally:
            is_stopped.value = 1


_switch_lock = ForkSafeLock()
_outer_intervals: list[float] = []  # Python's own switch interval, once for each open stream


@contextmanager
def _short_switch_interval() -> Iterator[None]:
    """Set the switch interval to `_SWITCH_S` while a stream of any thread is open."""
    with _switch_lock:
        _outer_intervals.append((_outer_intervals or [sys.getswitchinterval()])[0])
        sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        with _switch_lock:
            interval = _outer_intervals.pop()
            if not _outer_intervals:
                sys.setswitchinterval(interval)


@dataclass
class _Chunk:
    """Some entries, and their results: a future, if a worker counts them, or a list."""

    entries: list[Entry]
    future: Future[list[Result]] | None = None
    results: list[Result] | None = None

    @property
    def is_running(self) -> bool:
        return self.future is not None and not self.future.done()


def _distribute(
    entries: Iterator[Entry], tokenizer: FeatureCounter, pool: ProcessPoolExecutor, jobs: int
) -> Iterator[tuple[Entry, Result]]:
    """Yield the entries with their features, counted in this process and in the pool."""
    chunks: deque[_Chunk] = deque()
    unassigned: deque[_Chunk] = deque()
    while True:
        while len(chunks) < _CHUNKS_PER_PROCESS * jobs:
            chunk = _Chunk(list(islice(entries, _CHUNK_SIZE)))
            if not chunk.entries:
                break
            chunks.append(chunk)
            unassigned.append(chunk)
        if not chunks:
            return
        capacity = _TASKS_PER_WORKER * (jobs - 1) - sum(chunk.is_running for chunk in chunks)
        for _ in range(min(capacity, len(unassigned))):
            chunk = unassigned.popleft()
            chunk.future = _submit(pool, chunk.entries)
        head = chunks[0]
        if unassigned and (head.is_running or head is unassigned[0]):
            chunk = unassigned.popleft()
            chunk.results = [_count(entry, tokenizer) for entry in chunk.entries]
            continue
        chunks.popleft()
        results = head.future.result() if head.future else head.results
        for entry, result in zip(head.entries, results or (), strict=True):
            if isinstance(result, UnexpectedError):
                raise result
            yield entry, result


def _submit(pool: ProcessPoolExecutor, entries: list[Entry]) -> Future[list[Result]]:
    with warnings.catch_warnings():
        # The first task starts the processes. Python 3.12 warns about forking with threads. The
        # threads belong to numpy's linear algebra library and are idle, and the child never uses
        # them.
        warnings.simplefilter("ignore", DeprecationWarning)
        return pool.submit(_count_chunk, entries)


# set by `_init_worker` in each worker process
_tokenizer: FeatureCounter
_is_stopped: Any  # whether results are not needed


def _init_worker(tokenizer: FeatureCounter, is_stopped: Any) -> None:
    global _tokenizer, _is_stopped
    _tokenizer, _is_stopped = tokenizer, is_stopped
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the main process
    gc.freeze()  # a collection would write to, and so copy, pages shared with the main process
    threading.Thread(target=_exit_with_main_process, daemon=True).start()


def _exit_with_main_process() -> None:
    """End this process when the main process has ended, even by SIGKILL."""
    import multiprocessing

    main_process = multiprocessing.parent_process()
    if main_process is not None:
        main_process.join()
        os._exit(0)


def _count_chunk(entries: list[Entry]) -> list[Result]:
    return [_count_in_worker(entry, _tokenizer) for entry in entries if not _is_stopped.value]


def _context() -> Any:
    """Return the fork context if forking is safe, because spawning a process takes 0.1 s."""
    import multiprocessing

    is_safe = sys.platform == "linux" and threading.active_count() == 1
    return multiprocessing.get_context("fork" if is_safe else "spawn")
