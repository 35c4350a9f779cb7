"""The transactions of a database, in a file or on a server: one at a time, atomic."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from streamnb.errors import BusyError, StateError, StreamNBError, damage_error
from streamnb.locks import ForkSafeLock

Result = TypeVar("Result")

FORMAT = 1
# Seconds between two attempts to write while another process writes. SQLite itself waits up to 0.1.
# With half the value, a waiting process uses twice the time; with twice, it can wait 0.02 s longer.
_PAUSE_S = 0.02


class Dialect(NamedTuple):
    """Expressions that differ between SQLite and PostgreSQL. All other SQL is the same."""

    row_id: str
    integer: str
    real: str
    blob: str
    without_rowid: str
    raw_text: str  # expression that reads a column of text even if it is not UTF-8
    number_table: str  # table (columns key and value) of the list of integers that `?` passes


SQLITE = Dialect(
    row_id="INTEGER PRIMARY KEY AUTOINCREMENT",
    integer="INTEGER",
    real="REAL",
    blob="BLOB",
    without_rowid=" WITHOUT ROWID",
    raw_text="CAST({} AS BLOB)",
    number_table="json_each(?)",
)
POSTGRESQL = Dialect(
    row_id="BIGSERIAL PRIMARY KEY",
    integer="BIGINT",
    real="DOUBLE PRECISION",
    blob="BYTEA",
    without_rowid="",
    raw_text="{}",
    number_table="(SELECT position - 1 AS key, value FROM unnest(?::bigint[]) "
    "WITH ORDINALITY AS numbers(value, position))",
)


class TransientError(BusyError):
    """The connection to the server is lost; the transaction may be committed or not."""


class Database:
    """The interface of databases that a mailbox uses.

    Threads can share it: a transaction waits for those of other threads, at most `wait` seconds.
    Statements are SQL that both SQLite and PostgreSQL accept; `Dialect` has the few exceptions.

    Parameters
    ----------
    path
        The name of the database in messages.
    wait
        Seconds to wait for other processes.

    Attributes
    ----------
    connection
        Has `execute` and `executemany`, with `?` for values.
    location
        The path or URL that opens it again.
    changes
        A counter that increases when other processes may have changed the data.
    file
        Device and inode of a file, or numbers that identify a server's database.
    """

    dialect: Dialect
    connection: Any
    path: str
    file: tuple[int, int]
    loses_answers = False  # True if the answer to a successful commit can be lost

    def __init__(self, path: str, wait: float) -> None:
        self.path = path
        self.location: str = path
        self.wait: float = wait
        self.changes: int = 0
        self.open: bool = True
        self.writes: bool | None = None  # within a transaction: whether writing is allowed
        self._lock = ForkSafeLock()
        self._waiting: set[threading.Thread] = set()  # threads that wait for another process

    # Methods that differ by kind of database

    def convert_errors(self) -> contextlib.AbstractContextManager[None]:
        """Re-raise errors of the database as errors of streamnb."""
        raise NotImplementedError

    def _begin(self, writes: bool, durable: bool) -> bool:
        """Begin a transaction; return False, soon, if another process writes."""
        raise NotImplementedError

    def _commit(self, durable: bool) -> None:
        raise NotImplementedError

    def _roll_back(self, durable: bool) -> None:
        """Roll back an open transaction, if the connection still exists."""
        raise NotImplementedError

    def stream(self, statement: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """Yield the rows of a large table; other statements may run meanwhile."""
        raise NotImplementedError

    def tables(self) -> set[str]:
        """Return the names of all tables."""
        raise NotImplementedError

    def columns(self) -> set[tuple[str, str]]:
        """Return table and column of each column of all tables."""
        raise NotImplementedError

    def numbers(self, numbers: list[int]) -> Any:
        """Return a list of integers in the form for the `?` of `Dialect.number_table`."""
        raise NotImplementedError

    def size(self) -> int:
        """Return its size in bytes."""
        raise NotImplementedError

    def version(self) -> int:
        """Return the version of the format."""
        raise NotImplementedError

    def _check_version(self) -> None:
        """Raise StateError unless the database has the format of this streamnb."""
        if self.version() != FORMAT:
            raise StateError(
                f"{self.path}: the database has version {self.version()}, but this streamnb reads "
                f"version {FORMAT}; use the streamnb that wrote it, or its `export`"
            )

    def shrink(self) -> bool:
        """Release free space; return False if another process prevents it."""
        raise NotImplementedError

    def overwrite_deleted(self) -> None:
        """Overwrite deleted content from now on, if the database would keep it."""

    def problems(self) -> list[str]:
        """Return one line for each problem that the database reports in its files."""
        return []

    def is_replaced(self) -> bool:
        """Return whether the open database was removed or replaced by another one."""
        return False

    def _close(self) -> None:
        raise NotImplementedError

    # Methods that are the same for all kinds

    @contextlib.contextmanager
    def reading(self) -> Iterator[Any]:
        """Open a transaction that reads one state of the database.

        Within another transaction it is part of that one.
        """
        yield from self._transaction(False)

    @contextlib.contextmanager
    def writing(self, durable: bool = True, wait: float | None = None) -> Iterator[Any]:
        """Open a transaction that is committed to the disk as a whole, or not at all.

        While another process writes, other threads can read.

        Parameters
        ----------
        durable
            Whether to wait until the transaction is on the disk. If not, a power failure can lose
            the last transactions, but does not damage the database.
        wait
            Seconds to wait for other writers. None for the database's `wait`.

        Raises
        ------
        RuntimeError
            Within another transaction of this connection.
        """
        yield from self._transaction(True, durable, wait)

    def _lock_error(self, wait_s: float, holder: str = "process") -> StreamNBError:
        return BusyError(
            f"{self.path}: another {holder} holds the database; waited {wait_s:g} s: try again "
            "later"
        )

    def _transaction(
        self, writes: bool, durable: bool = True, wait: float | None = None
    ) -> Iterator[Any]:
        wait_s = self.wait if wait is None else wait
        deadline = time.monotonic() + wait_s
        if not self._lock.acquire(timeout=wait_s):
            raise self._lock_error(wait_s, "thread")
        try:
            if not self.open:
                raise ValueError(f"{self.path}: the database was closed")
            if self.writes is None:
                yield from self._outermost(writes, durable, wait_s, deadline)
            elif not writes:
                yield self.connection
            else:
                raise RuntimeError("a transaction is already open: learn after it has ended")
        finally:
            self._lock.release()

    def _outermost(
        self, writes: bool, durable: bool, wait_s: float, deadline: float
    ) -> Iterator[Any]:
        self._check_replaced()
        with self.convert_errors():
            try:
                while not self._begin(writes, durable):
                    if time.monotonic() >= deadline:
                        raise self._lock_error(wait_s)
                    self._pause()
                self.writes = writes
                self.changes += 1
                yield self.connection
                if writes:
                    self._check_replaced()
                    self._commit(durable)
                else:  # SQLite does not commit after it read a damaged page
                    self._roll_back(durable)
            except BaseException:  # for example, Ctrl-C during a wait for other processes
                self.changes += 1
                self._roll_back(durable)
                raise
            finally:
                self.writes = None

    def _pause(self) -> None:
        """Wait a moment without the lock, so that other threads can read."""
        thread = threading.current_thread()
        self._waiting.add(thread)
        try:
            threading.Condition(self._lock).wait(_PAUSE_S)  # it has the lock also after Ctrl-C
        finally:
            self._waiting.discard(thread)

    def retry(self, action: Callable[[], Result]) -> Result:
        """Run a transaction. If the server is lost, run it again, for at most `wait` seconds."""
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

    def _check_replaced(self) -> None:
        """Raise StateError if other processes cannot see the commits of this process."""
        if self.is_replaced():
            raise StateError(
                f"{self.path}: the database or its log was removed or replaced during use; "
                "start this command or server again"
            )

    def read_text(self, name: str, table: str = "state") -> bytes | None:
        """Return the text of the JSON value stored under a name, None if there is none."""
        row = self.connection.execute(
            f"SELECT {self.dialect.raw_text.format('value')} FROM {table} WHERE name = ?",  # noqa: S608
            (name,),
        ).fetchone()
        if row is None:
            return None
        return row[0].encode() if isinstance(row[0], str) else bytes(row[0])

    def read_value(self, name: str, table: str = "state") -> Any:
        """Return the JSON value stored under a name, None if there is none."""
        text = self.read_text(name, table)
        return None if text is None else self.parse_value(name, text)

    def parse_value(self, name: str, text: bytes) -> Any:
        """Return the JSON value of a text from `read_text`."""
        try:
            return json.loads(text)
        except ValueError:
            raise damage_error(self.path, f"state {name!r}") from None

    def create(self, statement: str) -> None:
        """Run a statement that creates a table, with the types of this database."""
        self.connection.execute(statement.format_map(self.dialect._asdict()))

    def drop_undo_log(self) -> None:
        """Delete the rows that the last `undo` stored for `redo`."""
        self.connection.execute("DROP TABLE IF EXISTS undone")

    def store_value(self, name: str, value: Any, table: str = "state") -> bytes:
        """Store a JSON value under a name, and return its text."""
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
        self.connection.execute(
            f"INSERT INTO {table} VALUES (?, ?) "  # noqa: S608 (ours)
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, text),
        )
        return text.encode()

    def close(self) -> None:
        """Close the connection. Committed transactions are on the disk already.

        Threads that wait for another process can write first.
        """
        while True:
            with self._lock, self.convert_errors():
                # A forked process has no other threads.
                if not any(thread.is_alive() for thread in self._waiting):
                    self.open = False
                    self._close()
                    return
            time.sleep(_PAUSE_S)
