"""From entries of a corpus to token counts, in order, in this process and others.

Every message is read and tokenised on its own, so who does it makes no difference to the result.
The main process helps: while the next messages in order are not there yet, it takes later ones.
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
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from streamnb.corpus import Entry, read
from streamnb.errors import StreamNBError, UnexpectedError
from streamnb.features.token_counts import TokenCounts

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_CHUNK = 16  # messages handed over at a time: what comes of most of them fits into a pipe
_AHEAD = 32  # chunks read ahead for each process
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

    __slots__ = ("entries", "results", "taken")

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.results: list[Result] | None = None
        self.taken = False


def _shared(
    entries: Iterator[Entry], tokenizer: Counting, crew: list[_Worker]
) -> Iterator[tuple[Entry, Result]]:
    chunks: deque[_Chunk] = deque()
    free: deque[_Chunk] = deque()  # those nobody has taken, also in order

    def refill() -> None:
        while len(chunks) < _AHEAD * (len(crew) + 1):
            taken = list(islice(entries, _CHUNK))
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
            self._tasks.send(chunk.entries)
        except OSError:
            raise StreamNBError(_ENDED) from None

    def collect(self, block: bool) -> None:
        """Take the answers that are there; with `block`, wait for one."""
        try:
            while self.given and (block or self._answers.poll()):
                self.given.popleft().results = _unpack(self._answers)
                block = False
        except (EOFError, OSError):
            raise StreamNBError(_ENDED) from None

    def stop(self) -> None:
        self._answers.close()  # first: an answer nobody will read must not hold the worker up
        self._process.terminate()
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
            waiting.put(tasks.recv())
    except (EOFError, OSError):  # the main process has gone
        os._exit(0)


def _pack(answers: Connection, results: list[Result]) -> None:
    """Send results as a few large arrays: many small ones would cost more than tokenising did."""
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
    texts = [-1 if tokens.names is None else len(tokens.names) for tokens in good]
    counts = np.concatenate([np.empty(0), *(tokens.counts for tokens in good)])
    ones = bool((counts == 1).all())  # as most tokenizers have it
    answers.send((errors, shapes, [len(tokens) for tokens in good], texts, ones))
    if not good:
        return
    answers.send_bytes(np.concatenate([tokens.fingerprints for tokens in good]).data)
    if not ones:
        answers.send_bytes(counts.data)
    answers.send_bytes(b"".join(tokens.names or b"" for tokens in good))
    ends = [tokens.ends for tokens in good if tokens.ends is not None]
    answers.send_bytes(np.concatenate([np.empty(0, np.uint32), *ends]).data)


def _unpack(answers: Connection) -> list[Result]:
    errors, shapes, sizes, texts, ones = answers.recv()
    results: list[Result] = []
    if sizes:
        parts = iter(_parts(answers, sizes, texts, ones))
        for views in shapes:
            results.append(tuple(next(parts) for _ in range(views)) if views else next(parts))
    for i, error in errors.items():
        if isinstance(error, UnexpectedError):
            raise error
        results.insert(i, error)
    return results


def _parts(
    answers: Connection, sizes: list[int], texts: list[int], ones: bool
) -> Iterator[TokenCounts]:
    fingerprints = np.frombuffer(answers.recv_bytes(), dtype=np.uint64)
    counts = np.ones(len(fingerprints)) if ones else np.frombuffer(answers.recv_bytes())
    names = answers.recv_bytes()
    ends = np.frombuffer(answers.recv_bytes(), dtype=np.uint32)
    at = text = end = 0
    for size, length in zip(sizes, texts, strict=True):
        here = slice(at, at + size)
        at += size
        if length < 0:
            yield TokenCounts._trusted(fingerprints[here], counts[here], None, None)
            continue
        yield TokenCounts._trusted(
            fingerprints[here], counts[here], names[text : text + length], ends[end : end + size]
        )
        text += length
        end += size
