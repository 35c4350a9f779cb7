"""The SQLite file of a mailbox: opening it, transactions, and what can go wrong in one line."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamnb.errors import BusyError, OutputError, StateError
from streamnb.mailbox.location import WAIT

__all__ = ["Database"]

_APPLICATION = 0x736E6231  # "snb1": whose file it is, in its header
_FORMAT = 1
_PAGE = 2048  # bytes: less is written than with larger pages
_LOG = 8_192_000  # bytes of the write-ahead log from which on it is put into the file
_SCHEMA = """
CREATE TABLE state(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE ledger(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    digest BLOB NOT NULL,      -- which message (`digest.digest`)
    label INTEGER NOT NULL,    -- number of its class
    teacher TEXT NOT NULL,     -- 'human' or 'program'
    source TEXT NOT NULL,      -- where it came from
    time REAL NOT NULL,        -- when it was learned, seconds since 1970
    added REAL NOT NULL,       -- when it came into this ledger
    ended REAL,                -- when it was taken back or overruled
    expected INTEGER,          -- number of the class it had been taken for before
    tokenizer TEXT NOT NULL,   -- which tokenizer made the tokens
    receipt TEXT NOT NULL,     -- what learning it added, to take it back exactly
    tokens BLOB                -- its features; NULL where they were dropped
);
CREATE UNIQUE INDEX ledger_active ON ledger(digest) WHERE ended IS NULL;
CREATE TABLE watched(
    account TEXT NOT NULL,
    folder TEXT NOT NULL,
    uid TEXT NOT NULL,         -- UIDVALIDITY and UID of IMAP, the unique name of a Maildir
    key BLOB NOT NULL,         -- which message (`digest.header_key`)
    said TEXT NOT NULL,        -- what its keywords said: 'junk', 'notjunk' or ''
    filed INTEGER NOT NULL,    -- whether a program put it there, or is about to move it
    since REAL NOT NULL,       -- when it was first seen there
    gone REAL,                 -- when it was no longer there
    PRIMARY KEY (account, folder, uid)
) WITHOUT ROWID;
CREATE INDEX watched_key ON watched(account, key);
"""


# What SQLite says of a file that is not what it should be.
_DAMAGED = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_TOOBIG,
)
_UNUSABLE = (
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_NOLFS,
)


class Database:
    """A connection to the file, which is made where it is missing and `create` says so.

    Threads can share it: a transaction of one waits for that of another, as long as `wait` says.

    Parameters
    ----------
    path
        The file. It and its folder are made for their owner alone.
    create
        Whether to make it where it is missing.
    wait
        Seconds to wait for other processes.

    Raises
    ------
    StateError
        Where the file is missing, damaged or not one of ours.
    OutputError
        Where it cannot be made or written.
    BusyError
        Where another process holds it for longer than that.
    """

    def __init__(self, path: str | Path, create: bool = True, wait: float = WAIT) -> None:
        self.path = Path(os.path.abspath(path))  # SQLite gives some names a meaning
        self.wait = wait
        self.changes = 0  # a number that grows whenever what was read may no longer hold
        self.open = True
        self.within = ""  # "BEGIN" or "BEGIN IMMEDIATE" within a transaction
        self._lock = threading.RLock()
        with self.speaking():
            if create:
                self._make_file()
            self._check_file()
            # check_same_thread: the lock keeps threads apart.
            self.connection = sqlite3.connect(
                self.path, timeout=wait, isolation_level=None, check_same_thread=False
            )
            try:
                self._set_up(create)
            except BaseException:
                self.connection.close()
                raise

    def _make_file(self) -> None:
        try:
            if not self.path.parent.is_dir():
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise OutputError(f"{self.path}: the database cannot be made: {why}") from None

    def _check_file(self) -> None:
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            raise StateError(
                f"{self.path}: no such database; `streamnb learn` makes one, --db names another"
            ) from None
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise StateError(f"{self.path}: the database cannot be read: {why}") from None
        self.file = status.st_dev, status.st_ino
        if not stat.S_ISREG(status.st_mode):
            raise StateError(f"{self.path}: the database cannot be read: not a regular file")

    def _set_up(self, create: bool) -> None:
        run = self.connection.execute
        run("BEGIN")  # another process may be making the tables
        (tables,) = run("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = run("PRAGMA application_id").fetchone()
        (version,) = run("PRAGMA user_version").fetchone()
        run("COMMIT")
        if (application, version) == (0, 0):
            if tables:
                raise StateError(f"{self.path}: a database of another program")
            if not create:
                raise StateError(f"{self.path}: an empty file; `streamnb learn` makes a database")
            self._make_tables()
        elif application != _APPLICATION:
            raise StateError(f"{self.path}: a database of another program")
        elif version != _FORMAT:
            raise StateError(
                f"{self.path}: a database of version {version}, and this streamnb reads version "
                f"{_FORMAT}: use the streamnb that wrote it, or its `export`"
            )
        # FULL: what was acknowledged is on the disk, also when the power fails.
        run("PRAGMA synchronous = FULL")
        run(f"PRAGMA wal_autocheckpoint = {_LOG // _PAGE}")
        run(f"PRAGMA journal_size_limit = {_LOG}")
        if self._log_size() > 2 * _LOG:  # it could not be put away: the disk was full, perhaps
            self._put_log_away()
        run("PRAGMA cache_size = -16000")
        # A message's features are spread over a thousand pages: to map the file spares a system
        # call for each of them, a third of the time of a classification.
        run("PRAGMA mmap_size = 1073741824")

    def _make_tables(self) -> None:
        run = self.connection.execute
        run(f"PRAGMA page_size = {_PAGE}")
        self._to_wal()
        run("BEGIN IMMEDIATE")
        try:
            (version,) = run("PRAGMA user_version").fetchone()
            if version == 0:  # or another process was faster
                for statement in _SCHEMA.split(";\n"):
                    run(statement)
                run(f"PRAGMA application_id = {_APPLICATION}")
                run(f"PRAGMA user_version = {_FORMAT}")
            run("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    def _to_wal(self) -> None:
        """Write-ahead logging; SQLite does not wait for others here, so this does."""
        until = time.monotonic() + self.wait
        while True:
            try:
                self.connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if not _busy(error) or time.monotonic() > until:
                    raise
                time.sleep(0.01)

    @contextlib.contextmanager
    def speaking(self) -> Iterator[None]:
        """Say SQLite's errors in our words."""
        try:
            yield
        except sqlite3.Error as error:
            said = self._said(error)
            if said is error:
                raise
            raise said from error
        except UnicodeDecodeError as error:  # SQLite's message, which quotes what is damaged
            raise self._damaged("its text is no text") from error

    def _damaged(self, why: object) -> StateError:
        return StateError(
            f"{self.path}: not a streamnb database, or a damaged one ({why}); restore it from a "
            "backup or from what `streamnb export` wrote, or try `streamnb rescue`"
        )

    def _said(self, error: sqlite3.Error) -> Exception:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if _busy(error):
            return BusyError(
                f"{self.path}: another process holds the database; waited {self.wait:g} s: "
                "try again later"
            )
        if code == sqlite3.SQLITE_FULL:
            before = self._log_size()
            self._put_log_away()
            freed = before - self._log_size()
            more = f"; {freed:,} bytes of its log were freed: try again" if freed > 0 else ""
            return OutputError(f"{self.path}: the disk is full; nothing was changed{more}")
        if code in _UNUSABLE:
            return OutputError(
                f"{self.path}: the database cannot be used: {error}; whoever uses it must be able "
                "to write it and its folder"
            )
        missing = code == sqlite3.SQLITE_ERROR and str(error).startswith(
            "no such "
        )  # table, column
        if code in _DAMAGED or missing:
            return self._damaged(error)
        return error

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A transaction that sees one state of the database, whatever others write.

        Within another one it is part of that.
        """
        yield from self._transaction("BEGIN")

    @contextlib.contextmanager
    def writing(self, durable: bool = True) -> Iterator[sqlite3.Connection]:
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
        yield from self._transaction("BEGIN IMMEDIATE", durable)

    @contextlib.contextmanager
    def waiting(self, seconds: float) -> Iterator[None]:
        """Wait so long for other processes that write, and no longer."""
        with self._lock:
            before, self.wait = self.wait, seconds
            self.connection.execute(f"PRAGMA busy_timeout = {int(1000 * seconds)}")
            try:
                yield
            finally:
                self.wait = before
                self.connection.execute(f"PRAGMA busy_timeout = {int(1000 * before)}")

    def _transaction(self, begin: str, durable: bool = True) -> Iterator[sqlite3.Connection]:
        if not self._lock.acquire(timeout=self.wait):
            raise BusyError(
                f"{self.path}: another thread holds the database; waited {self.wait:g} s: "
                "try again later"
            )
        try:
            if not self.open:
                raise ValueError(f"{self.path}: the database was closed")
            if not self.within:
                yield from self._outermost(begin, durable)
            elif begin == "BEGIN":
                yield self.connection
            else:
                raise RuntimeError("nothing can be learned within a transaction that is open")
        finally:
            self._lock.release()

    def _outermost(self, begin: str, durable: bool) -> Iterator[sqlite3.Connection]:
        if self.replaced():
            raise StateError(f"{self.path}: the database was removed or replaced: start again")
        with self.speaking():
            if not durable:
                self.connection.execute("PRAGMA synchronous = NORMAL")
            self.connection.execute(begin)
            self.within = begin
            self.changes += 1
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                self.changes += 1
                self._roll_back()
                raise
            finally:
                self.within = ""
                if not durable:
                    self.connection.execute("PRAGMA synchronous = FULL")

    def _roll_back(self) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def _log_size(self) -> int:
        try:
            return os.stat(f"{self.path}-wal").st_size
        except OSError:
            return 0

    def _put_log_away(self) -> None:
        """Put the write-ahead log into the file and empty it, if nobody reads it just now."""
        with contextlib.suppress(sqlite3.Error):
            run = self.connection.execute
            if self.connection.in_transaction:
                run("ROLLBACK")
            run("PRAGMA busy_timeout = 0")
            try:
                run("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                run(f"PRAGMA busy_timeout = {int(1000 * self.wait)}")

    def shrink(self) -> bool:
        """Give the space that is free in the file back; whether nobody was in the way."""
        with self._lock, self.speaking():
            self.connection.execute("VACUUM")
            (busy, *_) = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def value(self, name: str) -> Any:
        """What is kept under a name, None where nothing is."""
        find = "SELECT CAST(value AS BLOB) FROM state WHERE name = ?"  # it may be no UTF-8
        row = self.connection.execute(find, (name,)).fetchone()
        if row is None:
            return None
        try:
            return json.loads(row[0])
        except ValueError:
            raise StateError(f"{self.path}: the database is damaged: state {name!r}") from None

    def keep(self, name: str, value: Any) -> None:
        """Keep anything that JSON can hold under a name."""
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
        self.connection.execute("REPLACE INTO state VALUES (?, ?)", (name, text))

    def replaced(self) -> bool:
        """Whether another file has taken the place of the one that is open, or none."""
        try:
            status = os.stat(self.path)
        except OSError:
            return True
        return (status.st_dev, status.st_ino) != self.file

    def close(self) -> None:
        """Close the file; what was committed is safe with or without this."""
        with self._lock, self.speaking():
            self.open = False
            self.connection.close()


def _busy(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
