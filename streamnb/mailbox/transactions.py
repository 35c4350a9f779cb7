"""Transactions of a database, wherever it is: one at a time, whole or not at all."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from streamnb.errors import BusyError, StateError
from streamnb.locks import ForkSafeLock

Result = TypeVar("Result")

FORMAT = 1
STATE = "known"  # what the state is called
# The table with a second copy of the classifier's description. Without a description no row of the
# ledger can be recovered, and one lost page of the file would take a single copy with it.
STATE_COPY = "state_copy"

SCHEMA = """
CREATE TABLE state(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE state_copy(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE ledger(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    digest BLOB NOT NULL,      -- which message (`digest.digest`)
    label INTEGER NOT NULL,    -- number of its class
    labelled_by TEXT NOT NULL,     -- 'human' or 'program'
    source TEXT NOT NULL,      -- where it came from
    time REAL NOT NULL,        -- when it was learned, seconds since 1970
    added_at REAL NOT NULL,    -- when it came into this ledger
    removed_at REAL,                -- when it was taken back or overruled
    predicted INTEGER,          -- number of the class it had been taken for before
    tokenizer TEXT NOT NULL,   -- which tokenizer made the tokens
    receipt TEXT NOT NULL,     -- what learning it added, to take it back exactly
    tokens BLOB                -- its features (`packed`); NULL where they were dropped
);
CREATE UNIQUE INDEX ledger_active ON ledger(digest) WHERE removed_at IS NULL;
CREATE TABLE watched(
    account TEXT NOT NULL,
    folder TEXT NOT NULL,
    uid TEXT NOT NULL,         -- UIDVALIDITY and UID of IMAP, the unique name of a Maildir
    key BLOB NOT NULL,         -- which message (`digest.header_key`)
    said TEXT NOT NULL,        -- what its keywords said: 'junk', 'notjunk' or ''
    filed TEXT NOT NULL,       -- whether a program put it there, or is about to move it
    since REAL NOT NULL,       -- when it was first seen there
    gone REAL,                 -- when it was no longer there
    PRIMARY KEY (account, folder, uid)
) WITHOUT ROWID;
CREATE INDEX watched_key ON watched(account, key);
"""


class TransientError(BusyError):
    """A server that is away: the transaction was not done, or its answer was lost."""


class Transactions:
    """The interface of databases that a mailbox uses.

    Threads can share it: a transaction of one waits for that of another, as long as `wait` says.
    SQL is what SQLite and PostgreSQL both understand, but for what is said here.

    Parameters
    ----------
    path
        Where it is, as messages name it.
    wait
        Seconds to wait for other processes.

    Attributes
    ----------
    connection
        Has `execute` and `executemany`, with `?` for values.
    location
        What opens it again.
    changes
        A number that grows whenever others may have changed what was read.
    file
        Which it is: device and inode of a file, or what stands for them.
    """

    connection: Any
    path: Path | str
    file: tuple[int, int]
    loses_answers = False  # whether a transaction may be done and nobody be told

    def __init__(self, path: Path | str, wait: float) -> None:
        self.path = path
        self.location: str = str(path)
        self.wait: float = wait
        self.changes: int = 0
        self.open: bool = True
        self.writes: bool | None = None  # within a transaction: whether it may write
        self._lock = ForkSafeLock()

    # What differs from one kind of database to another

    def speaking(self) -> contextlib.AbstractContextManager[None]:
        """Say the database's errors in our words."""
        raise NotImplementedError

    def _begin(self, writes: bool, durable: bool) -> None:
        raise NotImplementedError

    def _commit(self, durable: bool) -> None:
        raise NotImplementedError

    def _roll_back(self, durable: bool) -> None:
        """Take back what was begun, if anything was, and if that can still be said."""
        raise NotImplementedError

    def _set_wait(self, seconds: float) -> None:
        self.wait = seconds

    def stream(self, statement: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """Rows of a table that may be large, while others are asked for."""
        raise NotImplementedError

    def tables(self) -> set[str]:
        """The names of the tables there are."""
        raise NotImplementedError

    def numbers(self, numbers: list[int]) -> Any:
        """A list of numbers as the value of ``json_each(?) j``, whose columns are key and value."""
        raise NotImplementedError

    def size(self) -> int:
        """Bytes that it takes."""
        raise NotImplementedError

    def version(self) -> int:
        """Return the version of the format."""
        raise NotImplementedError

    def _check_version(self) -> None:
        """Raise StateError unless it has the format of this streamnb."""
        if self.version() != FORMAT:
            raise StateError(
                f"{self.path}: a database of version {self.version()}, and this streamnb reads "
                f"version {FORMAT}: use the streamnb that wrote it, or its `export`"
            )

    def shrink(self) -> bool:
        """Give the space that is free back; whether nobody was in the way."""
        raise NotImplementedError

    def leave_no_traces(self) -> None:
        """From now on what is deleted is overwritten, where it would stay otherwise."""

    def problems(self) -> list[str]:
        """Return what the database finds wrong with its own files, a line each."""
        return []

    def replaced(self) -> bool:
        """Return whether the open database was removed or replaced by another one."""
        return False

    def _close(self) -> None:
        raise NotImplementedError

    # What does not

    @contextlib.contextmanager
    def reading(self) -> Iterator[Any]:
        """A transaction that sees one state of the database, whatever others write.

        Within another one it is part of that.
        """
        yield from self._transaction(False)

    @contextlib.contextmanager
    def writing(self, durable: bool = True) -> Iterator[Any]:
        """A transaction that is done as a whole, and on the disk, or not at all.

        Parameters
        ----------
        durable
            Whether it is waited until it is on the disk. If not, the last transactions can be lost
            when the power fails, and nothing else.

        Raises
        ------
        RuntimeError
            Within another transaction of this connection.
        """
        yield from self._transaction(True, durable)

    @contextlib.contextmanager
    def waiting(self, seconds: float) -> Iterator[None]:
        """Wait so long for other processes that write, and no longer."""
        with self._lock:
            before = self.wait
            self._set_wait(seconds)
            try:
                yield
            finally:
                self._set_wait(before)

    def _held(self, holder: str) -> BusyError:
        return BusyError(
            f"{self.path}: another {holder} holds the database; waited {self.wait:g} s: "
            "try again later"
        )

    def _transaction(self, writes: bool, durable: bool = True) -> Iterator[Any]:
        if not self._lock.acquire(timeout=self.wait):
            raise self._held("thread")
        try:
            if not self.open:
                raise ValueError(f"{self.path}: the database was closed")
            if self.writes is None:
                yield from self._outermost(writes, durable)
            elif not writes:
                yield self.connection
            else:
                raise RuntimeError("nothing can be learned within a transaction that is open")
        finally:
            self._lock.release()

    def _outermost(self, writes: bool, durable: bool) -> Iterator[Any]:
        if self.replaced():
            raise StateError(f"{self.path}: the database was removed or replaced: start again")
        with self.speaking():
            try:
                self._begin(writes, durable)
                self.writes = writes
                self.changes += 1
                yield self.connection
                if writes:
                    self._commit(durable)
                else:  # SQLite does not commit after it has met a damaged page
                    self._roll_back(durable)
            except BaseException:  # Ctrl-C, perhaps, while it was waited for others
                self.changes += 1
                self._roll_back(durable)
                raise
            finally:
                self.writes = None

    def retry(self, action: Callable[[], Result]) -> Result:
        """Run a transaction; run it again while the server is away, for at most `wait` seconds."""
        deadline = time.monotonic() + self.wait
        pause = 0.01
        while True:
            try:
                return action()
            except TransientError:
                if self.writes is not None or time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    def value(self, name: str, table: str = "state") -> Any:
        """Return the JSON value stored under a name, None if there is none."""
        row = self.connection.execute(
            f"SELECT CAST(value AS BLOB) FROM {table} WHERE name = ?",  # noqa: S608 (ours)
            (name,),
        ).fetchone()  # as bytes: it may be no UTF-8
        if row is None:
            return None
        try:
            return json.loads(row[0])
        except ValueError:
            raise StateError(f"{self.path}: the database is damaged: state {name!r}") from None

    def forget_undone(self) -> None:
        """Forget what the last `undo` took back."""
        self.connection.execute("DROP TABLE IF EXISTS undone")

    def keep(self, name: str, value: Any, table: str = "state") -> None:
        """Store a JSON value under a name."""
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
        self.connection.execute(
            f"INSERT INTO {table} VALUES (?, ?) "  # noqa: S608 (ours)
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, text),
        )

    def close(self) -> None:
        """Close it; what was committed is safe with or without this."""
        with self._lock, self.speaking():
            self.open = False
            self._close()
