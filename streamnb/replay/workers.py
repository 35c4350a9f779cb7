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
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streamnb.corpus import Entry, read
from streamnb.errors import StreamNBError, UnexpectedError
from streamnb.features.token_counts import TokenCounts

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

    context, switch_s = _context(), sys.getswitchinterval()
    is_stopped = context.RawValue("b", 0)  # without a lock, which a killed process could hold
    with ProcessPoolExecutor(jobs - 1, context, _init_worker, (tokenizer, is_stopped)) as pool:
        try:
            sys.setswitchinterval(_SWITCH_S)
            yield from _distribute(iter(entries), tokenizer, pool, jobs)
        except BrokenProcessPool:
            raise StreamNBError(
                "a reading process ended unexpectedly; try again with --jobs 1"
            ) from None
        finally:
            is_stopped.value = 1
            sys.setswitchinterval(switch_s)


@dataclass
class _Chunk:
    """Some entries, and their results: a future, if a worker counts them, or a list."""

    entries: list[Entry]
    future: Future[_Packed] | None = None
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
        results = _unpack(head.future.result()) if head.future else head.results
        yield from zip(head.entries, results or (), strict=True)


def _submit(pool: ProcessPoolExecutor, entries: list[Entry]) -> Future[_Packed]:
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


def _count_chunk(entries: list[Entry]) -> _Packed:
    return _pack(
        [_count_in_worker(entry, _tokenizer) for entry in entries if not _is_stopped.value]
    )


def _context() -> Any:
    """Return the fork context if forking is safe, because spawning a process takes 0.1 s."""
    import multiprocessing

    is_safe = sys.platform == "linux" and threading.active_count() == 1
    return multiprocessing.get_context("fork" if is_safe else "spawn")


class _Packed(NamedTuple):
    """Results as a few long arrays, because pickling many small ones takes longer than tokenising.

    `view_counts` has the number of views of each result, 0 for a result that is not a tuple.
    `name_bytes` has the length of the names of each view, -1 without names.
    """

    view_counts: list[int]
    sizes: list[int]
    name_bytes: list[int]
    fingerprints: NDArray[np.uint64]
    counts: NDArray[np.float64] | None  # None: all are 1
    ends: NDArray[np.uint32]
    names: bytes
    errors: dict[int, StreamNBError]


def _pack(results: list[Result]) -> _Packed:
    """Return results as the arrays of `_Packed`."""
    errors = {i: result for i, result in enumerate(results) if isinstance(result, StreamNBError)}
    view_counts: list[int] = []
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
    ends = [tokens.ends for tokens in features if tokens.ends is not None]
    return _Packed(
        view_counts,
        sizes,
        name_bytes,
        np.concatenate([np.empty(0, np.uint64), *(tokens.fingerprints for tokens in features)]),
        None if (counts == 1).all() else counts,  # usually all are 1
        np.concatenate([np.empty(0, np.uint32), *ends]),
        b"".join(tokens.names or b"" for tokens in features),
        errors,
    )


def _unpack(packed: _Packed) -> list[Result]:
    """Return the results that `_pack` packed."""
    features = _split_features(packed)
    results: list[Result] = []
    start = 0
    for views in packed.view_counts:
        results.append(tuple(features[start : start + views]) if views else features[start])
        start += views or 1
    for i, error in packed.errors.items():
        if isinstance(error, UnexpectedError):
            raise error
        results.insert(i, error)
    return results


def _split_features(packed: _Packed) -> list[TokenCounts]:
    """Return the features of each view, as slices of the arrays."""
    bounds = list(accumulate(packed.sizes, initial=0))
    counts = np.ones(bounds[-1]) if packed.counts is None else packed.counts
    features = [
        TokenCounts.unchecked(packed.fingerprints[start:end], counts[start:end], None, None)
        for start, end in pairwise(bounds)
    ]
    first = name_start = 0
    for tokens, length in zip(features, packed.name_bytes, strict=True):
        if length >= 0:
            tokens.names = packed.names[name_start : name_start + length]
            tokens.ends = packed.ends[first : first + len(tokens)]
            first += len(tokens)
            name_start += length
    return features
