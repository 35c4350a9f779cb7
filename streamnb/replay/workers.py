"""From entries of a corpus to token counts, in order, in this process and others.

Every message is read and tokenised on its own, so who does it makes no difference to the result.
The main process helps: while the next messages in order are not there yet, it takes later ones.
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

_CHUNK = 32  # messages handed over at a time, if what comes of them fits into a pipe:
_FILLED = 0.75  # a process that fills one waits for who reads it
_FIRST_CHUNK = 16
_AHEAD = 16  # chunks read ahead for each process
_PIPE = 1 << 20
_ENDED = "a reading process ended unexpectedly; try again with --jobs 1"

Result = TokenCounts | tuple[TokenCounts, ...] | StreamNBError


class Counting(Protocol):
    """A tokenizer, or one that makes several views of a message."""

    def count(self, x: Any) -> TokenCounts | tuple[TokenCounts, ...]:
        """Count the features of a message."""


def _count(entry: Entry, tokenizer: Counting) -> Result:
    try:
        return tokenizer.count(read(entry))
    except StreamNBError as error:
        return error


def _count_or_report(entry: Entry, tokenizer: Counting) -> Result:
    """As `_count`, for a worker: a fault of the program, too, is reported to the main process."""
    try:
        return _count(entry, tokenizer)
    except Exception as error:
        return UnexpectedError(error)


def feed(
    entries: Iterable[Entry], tokenizer: Counting, jobs: int = 1
) -> Iterator[tuple[Entry, Result]]:
    """Read and tokenise messages.

    Parameters
    ----------
    entries
        Where the messages lie.
    tokenizer
        What makes tokens of them.
    jobs
        How many processes, this one included, read and tokenise.

    Yields
    ------
    tuple
        Each entry, in order, with its tokens, or with the error that kept it from being read.
    """
    if jobs <= 1:
        for entry in entries:
            yield entry, _count(entry, tokenizer)
        return
    crew: list[_Worker] = []
    try:
        for _ in range(jobs - 1):
            crew.append(_Worker(tokenizer, crew))
        yield from _shared(iter(entries), tokenizer, crew)
    finally:
        for worker in crew:
            worker.stop()


class _Chunk:
    """Some entries, and their results once someone has them."""

    __slots__ = ("entries", "results")

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.results: list[Result] | None = None


def _shared(
    entries: Iterator[Entry], tokenizer: Counting, crew: list[_Worker]
) -> Iterator[tuple[Entry, Result]]:
    chunks: deque[_Chunk] = deque()
    free: deque[_Chunk] = deque()  # those nobody has taken, also in order

    def refill() -> None:
        while len(chunks) < _AHEAD * (len(crew) + 1):
            size = min([_CHUNK, *(int(_FILLED * _PIPE / of.message_bytes) for of in crew)])
            taken = list(islice(entries, max(size, 1)))
            if not taken:
                return
            chunk = _Chunk(taken)
            chunks.append(chunk)
            free.append(chunk)

    refill()
    while chunks:
        for worker in crew:
            worker.collect(block=False)
            while free and worker.wants_more:
                worker.give(free.popleft())
        head = chunks[0]
        if head.results is None:
            if free:
                mine = free.popleft()
                mine.results = [_count(entry, tokenizer) for entry in mine.entries]
            else:
                next(worker for worker in crew if head in worker.given).collect(block=True)
            continue
        chunks.popleft()
        yield from zip(head.entries, head.results, strict=True)
        refill()


class _Worker:
    """Another process that reads and tokenises."""

    def __init__(self, tokenizer: Counting, crew: list[_Worker]) -> None:
        self.given: deque[_Chunk] = deque()
        self.message_bytes = _FILLED * _PIPE / _FIRST_CHUNK  # of what came of the last messages
        context = _context()
        self._tasks_out, self._tasks = context.Pipe(duplex=False)
        self._answers, answers_in = context.Pipe(duplex=False)
        _enlarge(answers_in)
        # A forked process has the ends of ours too. It must close them, or it would never notice
        # that we have gone.
        ours = [self._tasks, self._answers]
        ours += [end for worker in crew for end in (worker._tasks, worker._answers)]
        inherited = ours if context.get_start_method() == "fork" else []
        self._process = context.Process(
            target=_work, args=(self._tasks_out, answers_in, tokenizer, inherited), daemon=True
        )
        with warnings.catch_warnings():
            # Python 3.12 warns of forking with threads. numpy's linear algebra keeps some, idle and
            # prepared for a fork, and the child never calls on them.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        self._tasks_out.close()
        answers_in.close()

    @property
    def wants_more(self) -> bool:
        return len(self.given) < 3

    def give(self, chunk: _Chunk) -> None:
        self.given.append(chunk)
        try:
            self._tasks.send_bytes(marshal.dumps(list(map(tuple, chunk.entries))))
        except OSError:
            raise StreamNBError(_ENDED) from None

    def collect(self, block: bool) -> None:
        """Take the answers that are there; with `block`, wait for one."""
        try:
            while self.given and (block or self._answers.poll()):
                chunk = self.given.popleft()
                chunk.results, length = _unpack(self._answers)
                self.message_bytes = (length + 1) / len(chunk.entries)
                block = False
        except (EOFError, OSError):
            raise StreamNBError(_ENDED) from None

    def stop(self) -> None:
        self._answers.close()
        # It holds nothing that could be lost, and SIGTERM it may have been forked to ignore.
        self._process.kill()
        self._process.join()
        self._tasks.close()


def _context() -> Any:
    """Fork where that is safe: a new interpreter starts as slowly as a small corpus is read."""
    import multiprocessing  # which is slow to import, and one process needs none

    safe = sys.platform == "linux" and threading.active_count() == 1
    return multiprocessing.get_context("fork" if safe else "spawn")


def _enlarge(connection: Connection) -> None:
    """Let a whole chunk fit into the pipe, so that the worker need not wait for its reader."""
    try:
        import fcntl

        fcntl.fcntl(connection.fileno(), fcntl.F_SETPIPE_SZ, _PIPE)
    except (ImportError, AttributeError, OSError):
        pass


def _work(
    tasks: Connection,
    answers: Connection,
    tokenizer: Counting,
    inherited: list[Connection],
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process decides when to end
    gc.freeze()  # what was there before lives on: looking at it would copy its pages
    for end in inherited:
        end.close()
    waiting: SimpleQueue[list[Entry]] = SimpleQueue()
    threading.Thread(target=_receive, args=(tasks, waiting), daemon=True).start()
    try:
        while True:
            _pack(answers, [_count_or_report(entry, tokenizer) for entry in waiting.get()])
    except OSError:  # nobody is left to read it
        return


def _receive(tasks: Connection, waiting: SimpleQueue[list[Entry]]) -> None:
    """Take tasks as they come, so that whoever gives them never waits.

    A main process that waited to give a task would not read answers, and this one would wait for
    that: long messages, of which a few fill a pipe, held both up for ever.
    """
    try:
        while True:
            taken = marshal.loads(tasks.recv_bytes())  # noqa: S302 (of the main process)
            waiting.put(list(map(Entry._make, taken)))
    except (EOFError, OSError):  # the main process has gone
        os._exit(0)


def _pack(answers: Connection, results: list[Result]) -> None:
    """Send results as a few large arrays: many small arrays would cost more than tokenising did."""
    errors = {i: result for i, result in enumerate(results) if isinstance(result, StreamNBError)}
    shapes: list[int] = []  # how many views a result has; 0 for one that is not a tuple of them
    good: list[TokenCounts] = []
    for result in results:
        if isinstance(result, tuple):
            shapes.append(len(result))
            good += result
        elif isinstance(result, TokenCounts):
            shapes.append(0)
            good.append(result)
    sizes = [len(tokens) for tokens in good]
    # Of the names of each view; -1 where none are kept.
    name_bytes = [-1 if tokens.names is None else len(tokens.names) for tokens in good]
    counts = np.concatenate([np.empty(0), *(tokens.counts for tokens in good)])
    ones = bool((counts == 1).all())  # as most tokenizers have it
    ends = [tokens.ends for tokens in good if tokens.ends is not None]
    parts: list[Any] = [
        np.concatenate([np.empty(0, np.uint64), *(tokens.fingerprints for tokens in good)]),
        np.empty(0) if ones else counts,
        np.concatenate([np.empty(0, np.uint32), *ends]),
        b"".join(tokens.names or b"" for tokens in good),
    ]
    length = sum(memoryview(part).nbytes for part in parts)
    answers.send_bytes(marshal.dumps((shapes, sizes, name_bytes, ones, bool(errors), length)))
    for part in parts:
        left = memoryview(part).cast("B")
        while left:
            left = left[os.write(answers.fileno(), left) :]
    if errors:
        answers.send(errors)


def _unpack(answers: Connection) -> tuple[list[Result], int]:
    """The results that were sent, and how many bytes they took."""
    header = marshal.loads(answers.recv_bytes())  # noqa: S302 (of our worker)
    shapes, sizes, name_bytes, ones, failed, length = header
    buffer = np.empty(length, np.uint8)
    left = buffer.data
    while left:
        came = os.readv(answers.fileno(), [left])
        if not came:
            raise EOFError
        left = left[came:]
    parts = _parts(buffer, sizes, name_bytes, ones)
    results: list[Result] = []
    at = 0
    for views in shapes:
        results.append(tuple(parts[at : at + views]) if views else parts[at])
        at += views or 1
    for i, error in answers.recv().items() if failed else ():
        if isinstance(error, UnexpectedError):
            raise error
        results.insert(i, error)
    return results, length


def _parts(
    buffer: NDArray[np.uint8], sizes: list[int], name_bytes: list[int], ones: bool
) -> list[TokenCounts]:
    """The features of each view, of the buffer that `_pack` sent."""
    named = sum(size for size, length in zip(sizes, name_bytes, strict=True) if length >= 0)
    bounds = list(accumulate(sizes, initial=0))
    total = bounds[-1]
    fingerprints = buffer[: 8 * total].view(np.uint64)
    counts = np.ones(total) if ones else buffer[8 * total : 16 * total].view(np.float64)
    parts = [
        TokenCounts.unchecked(fingerprints[here:end], counts[here:end], None, None)
        for here, end in pairwise(bounds)
    ]
    start = 8 * total if ones else 16 * total
    at, text = 0, start + 4 * named
    ends = buffer[start:text].view(np.uint32)
    for tokens, length in zip(parts, name_bytes, strict=True):
        if length >= 0:
            tokens.names = buffer[text : text + length].tobytes()
            tokens.ends = ends[at : at + len(tokens)]
            at += len(tokens)
            text += length
    return parts
