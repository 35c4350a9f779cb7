"""Reading and tokenising of corpus entries, in order, in this process and in workers.

Each message is read and tokenised independently, so the result does not depend on the number of
processes. While the next messages in order are not ready, the main process reads later ones.
"""

from __future__ import annotations

import gc
import marshal
import os
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice, pairwise
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from streamnb.corpus import Entry, read
from streamnb.errors import StreamNBError, UnexpectedError
from streamnb.features.token_counts import TokenCounts

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_CHUNK_SIZE = 32  # maximum messages per task; fewer if their results would not fit into a pipe
_FIRST_CHUNK_SIZE = 16  # messages per task before the size of results is known
_CHUNKS_PER_PROCESS = 16  # number of tasks to read ahead
_PIPE_BYTES = 1 << 20
_PIPE_FILL = 0.75  # maximum fraction of a pipe for a result, because a full pipe blocks the worker
_WORKER_ENDED = "a reading process ended unexpectedly; try again with --jobs 1"

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
    pool: list[_Worker] = []
    try:
        for _ in range(jobs - 1):
            pool.append(_Worker(tokenizer, pool))
        yield from _distribute(iter(entries), tokenizer, pool)
    finally:
        for worker in pool:
            worker.stop()


class _Chunk:
    """Some entries, and their results (None until they are ready)."""

    __slots__ = ("entries", "results")

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.results: list[Result] | None = None


def _distribute(
    entries: Iterator[Entry], tokenizer: FeatureCounter, pool: list[_Worker]
) -> Iterator[tuple[Entry, Result]]:
    chunks: deque[_Chunk] = deque()
    unassigned: deque[_Chunk] = deque()

    def read_ahead() -> None:
        while len(chunks) < _CHUNKS_PER_PROCESS * (len(pool) + 1):
            fitting = (int(_PIPE_FILL * _PIPE_BYTES / worker.bytes_per_message) for worker in pool)
            size = max(min([_CHUNK_SIZE, *fitting]), 1)
            chunk_entries = list(islice(entries, size))
            if not chunk_entries:
                return
            chunk = _Chunk(chunk_entries)
            chunks.append(chunk)
            unassigned.append(chunk)

    read_ahead()
    while chunks:
        for worker in pool:
            worker.collect(block=False)
            while unassigned and worker.has_capacity:
                worker.assign(unassigned.popleft())
        head = chunks[0]
        if head.results is None:
            if unassigned:
                chunk = unassigned.popleft()
                chunk.results = [_count(entry, tokenizer) for entry in chunk.entries]
            else:
                next(worker for worker in pool if head in worker.assigned).collect(block=True)
            continue
        chunks.popleft()
        yield from zip(head.entries, head.results, strict=True)
        read_ahead()


class _Worker:
    """A process that reads and tokenises.

    Parameters
    ----------
    tokenizer
        The tokenizer.
    pool
        The workers started before this one.
    """

    def __init__(self, tokenizer: FeatureCounter, pool: list[_Worker]) -> None:
        self.assigned: deque[_Chunk] = deque()
        self.bytes_per_message = _PIPE_FILL * _PIPE_BYTES / _FIRST_CHUNK_SIZE  # of the last results
        context = _context()
        tasks_reader, self._tasks = context.Pipe(duplex=False)
        self._results, results_writer = context.Pipe(duplex=False)
        _enlarge_pipe(results_writer)
        # A forked process inherits the main process's ends of all pipes. It must close them, or
        # it would not notice that the main process has ended.
        main_ends = [self._tasks, self._results]
        main_ends += [end for worker in pool for end in (worker._tasks, worker._results)]
        inherited = main_ends if context.get_start_method() == "fork" else []
        self._process = context.Process(
            target=_run_worker,
            args=(tasks_reader, results_writer, tokenizer, inherited),
            daemon=True,
        )
        with warnings.catch_warnings():
            # Python 3.12 warns of forking with threads. The threads are those of numpy's linear
            # algebra library, which are idle, and the child never uses them.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        tasks_reader.close()
        results_writer.close()

    @property
    def has_capacity(self) -> bool:
        return len(self.assigned) < 3

    def assign(self, chunk: _Chunk) -> None:
        """Send a chunk to the worker."""
        self.assigned.append(chunk)
        try:
            self._tasks.send_bytes(marshal.dumps(list(map(tuple, chunk.entries))))
        except OSError:
            raise StreamNBError(_WORKER_ENDED) from None

    def collect(self, block: bool) -> None:
        """Receive the results that are ready; with `block`, wait for at least one chunk."""
        try:
            while self.assigned and (block or self._results.poll()):
                chunk = self.assigned.popleft()
                chunk.results, length = _receive_results(self._results)
                self.bytes_per_message = (length + 1) / len(chunk.entries)
                block = False
        except (EOFError, OSError):
            raise StreamNBError(_WORKER_ENDED) from None

    def stop(self) -> None:
        """Kill the process. Nothing is lost."""
        self._results.close()
        self._process.kill()  # not by SIGTERM, which the process can have inherited as ignored
        self._process.join()
        self._tasks.close()


def _context() -> Any:
    """Return the fork context if forking is safe: starting an interpreter takes 0.1 s."""
    import multiprocessing  # here: slow to import, and a single process does not need it

    is_safe = sys.platform == "linux" and threading.active_count() == 1
    return multiprocessing.get_context("fork" if is_safe else "spawn")


def _enlarge_pipe(connection: Connection) -> None:
    """Let a whole result fit into the pipe, so that the worker need not wait for its reader."""
    try:
        import fcntl

        fcntl.fcntl(connection.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except (ImportError, AttributeError, OSError):
        pass


def _run_worker(
    tasks: Connection,
    results: Connection,
    tokenizer: FeatureCounter,
    inherited: list[Connection],
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the main process
    gc.freeze()  # a collection would write to, and so copy, pages shared with the main process
    for end in inherited:
        end.close()
    queue: SimpleQueue[list[Entry]] = SimpleQueue()
    threading.Thread(target=_receive_tasks, args=(tasks, queue), daemon=True).start()
    try:
        while True:
            counted = [_count_in_worker(entry, tokenizer) for entry in queue.get()]
            _send_results(results, counted)
    except OSError:  # the main process has ended
        return


def _receive_tasks(tasks: Connection, queue: SimpleQueue[list[Entry]]) -> None:
    """Move tasks into a queue as they arrive, so that sending a task never blocks.

    Otherwise both processes could wait for each other: the main process to send a task, this one
    to send results that the main process does not read meanwhile.
    """
    try:
        while True:
            chunk = marshal.loads(tasks.recv_bytes())  # noqa: S302 (of the main process)
            queue.put(list(map(Entry._make, chunk)))
    except (EOFError, OSError):  # the main process has ended
        os._exit(0)


def _send_results(connection: Connection, results: list[Result]) -> None:
    """Send results as a few large arrays: pickling many small ones costs more than tokenising."""
    errors = {i: result for i, result in enumerate(results) if isinstance(result, StreamNBError)}
    view_counts: list[int] = []  # views of each result; 0 for a result that is not a tuple
    features: list[TokenCounts] = []
    for result in results:
        if isinstance(result, tuple):
            view_counts.append(len(result))
            features += result
        elif isinstance(result, TokenCounts):
            view_counts.append(0)
            features.append(result)
    sizes = [len(tokens) for tokens in features]
    name_bytes = [-1 if tokens.names is None else len(tokens.names) for tokens in features]
    counts = np.concatenate([np.empty(0), *(tokens.counts for tokens in features)])
    all_ones = bool((counts == 1).all())  # the usual case; then counts are not sent
    ends = [tokens.ends for tokens in features if tokens.ends is not None]
    arrays: list[Any] = [
        np.concatenate([np.empty(0, np.uint64), *(tokens.fingerprints for tokens in features)]),
        np.empty(0) if all_ones else counts,
        np.concatenate([np.empty(0, np.uint32), *ends]),
        b"".join(tokens.names or b"" for tokens in features),
    ]
    length = sum(memoryview(array).nbytes for array in arrays)
    header = (view_counts, sizes, name_bytes, all_ones, bool(errors), length)
    connection.send_bytes(marshal.dumps(header))
    for array in arrays:
        unsent = memoryview(array).cast("B")
        while unsent:
            unsent = unsent[os.write(connection.fileno(), unsent) :]
    if errors:
        connection.send(errors)


def _receive_results(connection: Connection) -> tuple[list[Result], int]:
    """Return the results that `_send_results` sent, and their size in bytes."""
    header = marshal.loads(connection.recv_bytes())  # noqa: S302 (of our worker)
    view_counts, sizes, name_bytes, all_ones, has_errors, length = header
    buffer = np.empty(length, np.uint8)
    unfilled = buffer.data
    while unfilled:
        received = os.readv(connection.fileno(), [unfilled])
        if not received:
            raise EOFError
        unfilled = unfilled[received:]
    features = _split_features(buffer, sizes, name_bytes, all_ones)
    results: list[Result] = []
    start = 0
    for views in view_counts:
        results.append(tuple(features[start : start + views]) if views else features[start])
        start += views or 1
    for i, error in connection.recv().items() if has_errors else ():
        if isinstance(error, UnexpectedError):
            raise error
        results.insert(i, error)
    return results, length


def _split_features(
    buffer: NDArray[np.uint8], sizes: list[int], name_bytes: list[int], all_ones: bool
) -> list[TokenCounts]:
    """Return the features of each view, as slices of the buffer that `_send_results` sent."""
    named = sum(size for size, length in zip(sizes, name_bytes, strict=True) if length >= 0)
    bounds = list(accumulate(sizes, initial=0))
    total = bounds[-1]
    fingerprints = buffer[: 8 * total].view(np.uint64)
    counts = np.ones(total) if all_ones else buffer[8 * total : 16 * total].view(np.float64)
    features = [
        TokenCounts.unchecked(fingerprints[start:end], counts[start:end], None, None)
        for start, end in pairwise(bounds)
    ]
    ends_start = 8 * total if all_ones else 16 * total
    first, name_start = 0, ends_start + 4 * named
    ends = buffer[ends_start:name_start].view(np.uint32)
    for tokens, length in zip(features, name_bytes, strict=True):
        if length >= 0:
            tokens.names = buffer[name_start : name_start + length].tobytes()
            tokens.ends = ends[first : first + len(tokens)]
            first += len(tokens)
            name_start += length
    return features
