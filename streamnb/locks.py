"""Locks that a forked process can use, even if other threads held them during the fork.

A fork copies all locks, but only the forking thread. A lock held by another thread would stay
locked in the child. So a fork first acquires every lock of this module. No method of the protected
objects then runs, so the child gets them in a consistent state.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from typing import Any

# Maximum seconds that a fork waits for other threads. With half the value, more objects are
# unusable in the child on a busy machine. With twice the value, a long `learn_many` delays forks
# longer.
MAX_WAIT_S = 5.0
# Maximum seconds to wait for one lock while holding others. It limits the time for which two
# threads block each other.
_STEP_S = 0.05


class ForkSafeLock(type(threading.RLock())):  # type: ignore[misc]  # the compiled class
    """A `threading.RLock` that is never locked after a fork.

    If another thread held it for longer than `MAX_WAIT_S` at the fork, the protected object may be
    inconsistent. Then the child gets a RuntimeError, not a deadlock.

    Examples
    --------
    >>> from streamnb.locks import ForkSafeLock
    >>> lock = ForkSafeLock()
    >>> with lock:
    ...     pass
    """

    def __init__(self) -> None:
        super().__init__()
        _locks.add(self)


class _AbandonedLock(ForkSafeLock):
    """A lock of a thread that does not exist in this process."""

    def acquire(self, *args: Any, **kwargs: Any) -> bool:
        """Raise RuntimeError, because the object can be inconsistent."""
        raise RuntimeError(
            "another thread was changing this object when the process was forked, so this copy "
            "can be inconsistent; load or create the object again in this process, or fork while "
            "no thread uses it"
        )

    __enter__ = acquire


_locks: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()
_fork_lock = threading.Lock()  # only one thread forks at a time
_held: list[ForkSafeLock] = []
_abandoned: list[ForkSafeLock] = []


def _acquire_all() -> None:
    """Acquire the locks of all objects, or as many as possible within `MAX_WAIT_S`."""
    _fork_lock.acquire()
    deadline = time.monotonic() + MAX_WAIT_S
    waiting = deque(_all_locks())
    while waiting:
        lock = waiting.popleft()
        remaining = deadline - time.monotonic()
        if lock.acquire(timeout=max(min(remaining, _STEP_S), 0.0)):
            _held.append(lock)
        elif remaining > 0:
            waiting.extend(_held)
            _release_all()
            waiting.appendleft(lock)
        else:
            _abandoned.append(lock)


def _all_locks() -> list[ForkSafeLock]:
    while True:
        try:
            return list(_locks)
        except RuntimeError:  # another thread created an object meanwhile
            continue


def _release_all() -> None:
    while _held:
        _held.pop().release()


def _after_in_parent() -> None:
    _release_all()
    _abandoned.clear()
    _fork_lock.release()


def _after_in_child() -> None:
    for lock in _abandoned:
        lock.__class__ = _AbandonedLock
        _locks.discard(lock)
    _after_in_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_acquire_all, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
