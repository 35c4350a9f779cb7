"""The SQLite file of a mailbox: opening it, its transactions and its errors."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from streamnb.database import FORMAT, SQLITE, Database
from streamnb.errors import (
    DamagedDatabaseError,
    OutputError,
    StateError,
    StreamNBError,
    convert_os_errors,
    require_extra,
)
from streamnb.mailbox.location import WAIT, is_url, owner_advice
from streamnb.mailbox.schema import COLUMNS, SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

_APPLICATION = 0x736E6231  # "snb1": application_id in the header of the file
_PAGE_BYTES = 2048  # bytes; with larger pages, each message writes more
_MIN_FREE_BYTES = 1 << 16  # bytes; a disk with less free space counts as full
_WAL_BYTES = 8_192_000  # size of the write-ahead log at which SQLite copies it into the file
# Error codes of SQLite for a damaged file.
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
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_NOLFS,
)


def open_database(path: str | Path, create: bool = True, wait: float = WAIT) -> Database:
    """Open the database at a path, or the one of a server at ``postgresql://...``.

    Raises
    ------
    StateError, OutputError, BusyError
        If the URL is of another kind, or the database cannot be opened: see `SqliteDatabase` and
        `streamnb.mailbox.postgres.PostgresDatabase`.
    """
    if not is_url(path):
        if "://" in os.fspath(path) and not os.path.exists(path):
            raise StateError(
                f"{path}: not a database; name a file, or postgresql://USER@HOST/DATABASE"
            )
        return SqliteDatabase(path, create, wait)
    with require_extra("postgres", error_class=StateError):
        from streamnb.mailbox.postgres import PostgresDatabase
    return PostgresDatabase(str(path), create, wait)


class SqliteDatabase(Database):
    """A connection to the file of a mailbox.

    Threads can share it: a transaction waits for those of other threads, at most `wait` seconds.

    Parameters
    ----------
    path
        The file. It and its folder are created with access for their owner only.
    create
        Whether to create a missing file.
    wait
        Seconds to wait for other processes.
    is_damaged
        Whether to read the rows that can be found in a damaged or truncated file.

    Raises
    ------
    StateError
        If the file is missing or damaged, or belongs to another program.
    OutputError
        If it cannot be created or written.
    BusyError
        If another process holds it for longer than `wait`.
    """

    dialect = SQLITE

    def __init__(
        self, path: str | Path, create: bool = True, wait: float = WAIT, is_damaged: bool = False
    ) -> None:
        super().__init__(os.path.abspath(path), wait)  # SQLite interprets some names
        self._is_damaged = is_damaged
        with self.convert_errors():
            if create:
                self._make_file()
            self._check_file()
            # check_same_thread is False, because the lock separates the threads.
            self.connection: sqlite3.Connection = sqlite3.connect(
                self.path, timeout=wait, isolation_level=None, check_same_thread=False
            )
            try:
                if is_damaged:  # without this, SQLite reads no page of a truncated file
                    self.connection.execute("PRAGMA writable_schema = ON")
                self._set_up(create)
            except BaseException:
                self.connection.close()
                raise

    def _make_file(self) -> None:
        """Create the file and its folder, readable for the owner only, unless they exist."""
        folder = os.path.dirname(self.path)
        with convert_os_errors(
            OutputError, f"{self.path}: the database cannot be created", ValueError
        ):
            if not os.path.isdir(folder):
                from pathlib import Path

                Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            except FileExistsError:
                pass
            except PermissionError:
                advice = owner_advice(self.path)
                if advice is None:
                    raise
                raise OutputError(
                    f"{self.path}: the database cannot be created: {advice}"
                ) from None

    def _check_file(self) -> None:
        """Raise StateError unless the file can be opened safely; store its identity."""
        with convert_os_errors(StateError, f"{self.path}: the database cannot be read", ValueError):
            try:
                status = os.stat(self.path)
            except FileNotFoundError:
                if os.path.islink(self.path):
                    raise StateError(
                        f"{self.path}: a symbolic link to {os.readlink(self.path)}, which does "
                        "not exist; check that its disk is mounted"
                    ) from None
                raise StateError(
                    f"{self.path}: no such database; create it with `streamnb learn`, or name "
                    "another one with --db"
                ) from None
        self.file: tuple[int, int] = status.st_dev, status.st_ino
        self._log: tuple[int, int] | None = None  # device and inode of the write-ahead log
        if not stat.S_ISREG(status.st_mode):
            raise StateError(f"{self.path}: the database cannot be read: not a regular file")
        if status.st_nlink > 1:  # SQLite finds the write-ahead log by the name of the file
            raise StateError(
                f"{self.path}: the file has {status.st_nlink} hard links, and changes made by one "
                "name can be lost for the other; remove the other names, or copy the file"
            )

    def _set_up(self, create: bool) -> None:
        """Set the options of the connection, and create or check the tables."""
        run = self.connection.execute
        run("BEGIN")  # another process may be creating the tables
        (tables,) = run("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = run("PRAGMA application_id").fetchone()
        version = self.version()
        run("COMMIT")
        if (application, version) == (0, 0):
            if tables:
                raise StateError(f"{self.path}: a database of another program; name another file")
            if not create:
                raise StateError(
                    f"{self.path}: the file is empty; create a database in it with `streamnb learn`"
                )
            self._make_tables()
        elif application != _APPLICATION:
            raise StateError(f"{self.path}: a database of another program; name another file")
        else:
            self._check_version()
        # FULL: committed transactions survive a power failure.
        run("PRAGMA synchronous = FULL")
        run(f"PRAGMA wal_autocheckpoint = {_WAL_BYTES // _PAGE_BYTES}")
        run(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        if self._size_of("-wal") > 1.1 * _WAL_BYTES:  # a checkpoint failed, perhaps on a full disk
            self._checkpoint_log()
        run("PRAGMA cache_size = -16000")

    def _make_tables(self) -> None:
        run = self.connection.execute
        run(f"PRAGMA page_size = {_PAGE_BYTES}")
        self._to_wal()
        run("BEGIN IMMEDIATE")
        try:
            if self.version() == 0:  # unless another process was faster
                for statement in SCHEMA.split(";\n"):
                    self.create(statement)
                run(f"PRAGMA application_id = {_APPLICATION}")
                run(f"PRAGMA user_version = {FORMAT}")
            run("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    def _to_wal(self) -> None:
        """Turn on write-ahead logging. Retry here, because SQLite does not wait for others."""
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
    def convert_errors(self) -> Iterator[None]:
        """Re-raise errors of SQLite as errors of streamnb."""
        try:
            yield
        except sqlite3.Error as error:
            converted = self._convert_error(error)
            if converted is error:
                raise
            raise converted from error
        except UnicodeDecodeError as error:  # SQLite's message quotes the damaged content
            raise self._damaged("it contains invalid text") from error

    def _damaged(self, reason: object) -> DamagedDatabaseError:
        remedy = "run `streamnb recover`" if self._is_recoverable() else "learn its mail again"
        return DamagedDatabaseError(
            f"{self.path}: not a streamnb database, or a damaged one ({reason}); restore it from "
            f"a backup or an export, or {remedy}"
        )

    def _is_recoverable(self) -> bool:
        """Return whether `recover` can open the file. Without the first page, it cannot."""
        if self._is_damaged:
            return False
        try:
            SqliteDatabase(self.path, create=False, wait=0, is_damaged=True).close()
        except DamagedDatabaseError:
            return False
        except StreamNBError:  # such as the lock of another process
            pass
        return True

    def _convert_error(self, error: sqlite3.Error) -> Exception:
        """Return streamnb's error for an error of SQLite."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if _busy(error):
            return self._lock_error(self.wait)
        failed = code == sqlite3.SQLITE_IOERR
        if code == sqlite3.SQLITE_FULL or (failed and self._no_room()):
            before = self._size_of("-wal")
            self._checkpoint_log()
            freed = before - self._size_of("-wal")
            advice = f"; {freed:,} bytes of its log were freed: try again" if freed > 0 else ""
            return OutputError(f"{self.path}: the disk is full; nothing was changed{advice}")
        if failed:
            return OutputError(
                f"{self.path}: the database cannot be used: {error}; check the disk for errors, "
                "this user's quota (quota -v), and the limit of file sizes (ulimit -f)"
            )
        if code in _UNUSABLE and (limit := _reached_limit()) is not None:
            return OutputError(f"{self.path}: the database cannot be used: {limit}")
        if code in _UNUSABLE and self._is_read_only():
            return OutputError(
                f"{self.path}: the database cannot be used: its file system is read-only; mount "
                "it read-write (mount -o remount,rw), or use a copy"
            )
        if code in _UNUSABLE:
            # SQLite creates the log and its index with the current mode of the database.
            companions = [f"{self.path}{ending}" for ending in ("-wal", "-shm")]
            locked = [
                path for path in companions if os.path.exists(path) and not os.access(path, os.W_OK)
            ]
            reason = f"{locked[0]} is read-only (chmod u+w)" if locked else error
            owner = None if locked else owner_advice(self.path)
            if owner is not None:
                return OutputError(f"{self.path}: the database cannot be used: {owner}")
            return OutputError(
                f"{self.path}: the database cannot be used: {reason}; allow this user to write "
                "the file and its folder, or use a copy"
            )
        # A table or column.
        missing = code == sqlite3.SQLITE_ERROR and str(error).startswith("no such ")
        if code in _DAMAGED or missing or str(error).startswith("Could not decode to UTF-8"):
            return self._damaged(error)
        return error

    def _lock_error(self, wait_s: float, holder: str = "process") -> StreamNBError:
        if holder == "thread" or self._has_locks():
            return super()._lock_error(wait_s, holder)
        # SQLite reports a lock that the file system refuses as a lock of another process.
        return OutputError(
            f"{self.path}: the file system refuses locks; move the database to a local disk, "
            "or start the lock service of NFS"
        )

    def _has_locks(self) -> bool:
        """Return whether files in the database's folder can be locked."""
        import fcntl  # here: few processes need them
        import tempfile

        try:
            with tempfile.TemporaryFile(dir=os.path.dirname(self.path)) as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
        return True

    def _is_read_only(self) -> bool:
        """Return whether the database's file system is mounted read-only."""
        with contextlib.suppress(OSError):
            return bool(os.statvfs(os.path.dirname(self.path)).f_flag & os.ST_RDONLY)
        return False

    def _no_room(self) -> bool:
        """Return whether the disk is full, including the folder of SQLite's temporary files."""
        try:
            usage = os.statvfs(os.path.dirname(self.path))
        except OSError:
            return False
        return (
            usage.f_bavail * usage.f_frsize < _MIN_FREE_BYTES or usage.f_favail == 0 < usage.f_files
        )

    def _begin(self, writes: bool, durable: bool) -> bool:
        run = self.connection.execute
        if not writes:
            run("BEGIN")
            return True
        if not durable:
            run("PRAGMA synchronous = NORMAL")
        run("PRAGMA busy_timeout = 0")
        try:
            run("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            self._roll_back(durable)
            if not _busy(error):
                raise
            return False
        finally:
            self._wait_for_others()
        return True

    def _commit(self, durable: bool) -> None:
        self.connection.execute("COMMIT")
        if not durable:
            self.connection.execute("PRAGMA synchronous = FULL")

    def _roll_back(self, durable: bool = True) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        if not durable:
            self.connection.execute("PRAGMA synchronous = FULL")

    def _wait_for_others(self) -> None:
        """Make statements wait for other processes, which block readers only for moments."""
        self.connection.execute(f"PRAGMA busy_timeout = {int(1000 * self.wait)}")

    def stream(self, statement: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """Yield the rows of a large table; other statements may run meanwhile."""
        yield from self.connection.execute(statement, values)

    def tables(self) -> set[str]:
        """Return the names of all tables."""
        return {name for (name,) in self.connection.execute("SELECT name FROM sqlite_master")}

    def columns(self) -> set[tuple[str, str]]:
        """Return table and column of each column of all tables."""
        return set(self.connection.execute(COLUMNS))

    def numbers(self, numbers: list[int]) -> str:
        """Return a list of integers as JSON, the value of `number_table`."""
        return str(numbers)

    def overwrite_deleted(self) -> None:
        """Overwrite deleted content from now on."""
        self.connection.execute("PRAGMA secure_delete = ON")

    def problems(self) -> list[str]:
        """Return one line for each problem that SQLite finds in the file."""
        rows = self.connection.execute("PRAGMA integrity_check(10)").fetchall()
        # A row can have several lines, after a heading with the name of the database.
        lines = [line for (text,) in rows for line in text.splitlines() if line[:3] != "***"]
        return [f"SQLite reports: {line}" for line in lines if line != "ok"]

    def size(self) -> int:
        """Return the bytes of the file and its log."""
        return self._size_of("") + self._size_of("-wal")

    def version(self) -> int:
        """Return the version of the format; 0 for an empty file."""
        (version,) = self.connection.execute("PRAGMA user_version").fetchone()
        return int(version)

    def _size_of(self, ending: str) -> int:
        try:
            return os.stat(f"{self.path}{ending}").st_size
        except OSError:
            return 0

    def _checkpoint_log(self) -> None:
        """Copy the write-ahead log into the file and empty it, unless another process reads it."""
        with contextlib.suppress(sqlite3.Error), self._lock:
            self._roll_back()
            self.connection.execute("PRAGMA busy_timeout = 0")
            try:
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                self._wait_for_others()

    def shrink(self) -> bool:
        """Release free space of the file; return False if another process prevents it."""
        with self._lock, self.convert_errors():
            # VACUUM writes tables in the order of sqlite_schema. Blocks have the places of
            # features, so they come before the ledger: then the rows of a truncated file can be
            # recovered.
            self.connection.execute("PRAGMA writable_schema = ON")
            try:
                self.connection.execute(
                    "UPDATE sqlite_schema SET rowid = -rootpage "
                    "WHERE type = 'table' AND name GLOB 'blocks_[0-9]*'"
                )
            finally:
                self.connection.execute("PRAGMA writable_schema = OFF")
            self.connection.execute("VACUUM")
            (busy, *_) = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def is_replaced(self) -> bool:
        """Return whether the open file or its log was removed or replaced by another one.

        Other processes cannot read a removed log, so it is copied into the file.
        """
        log = _identity_of(f"{self.path}-wal")
        self._log = self._log or log
        if _identity_of(str(self.path)) == self.file and log == self._log:
            return False
        if log is None:
            self._checkpoint_log()
        # without this, closing would delete the log of another process
        if sys.version_info >= (3, 12):
            self.connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)
        return True

    def _close(self) -> None:
        self.connection.close()


def _identity_of(path: str) -> tuple[int, int] | None:
    """Return device and inode of a file, None if there is none."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise OutputError(
            f"{path}: the database cannot be used: {error.strerror}; allow this user to enter its "
            "folder (chmod u+x), and check the disk"
        ) from None
    return status.st_dev, status.st_ino


def _reached_limit() -> str | None:
    """Return why this process cannot open the files of a database, or None.

    SQLite does not report it. No file of a database is opened here: closing it would release all of
    SQLite's locks (fcntl(2)).
    """
    with contextlib.ExitStack() as stack:
        try:
            for _ in range(3):  # the database, its log and the log's index
                stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                return f"{error.strerror}; raise the limit (ulimit -n, LimitNOFILE in a unit)"
    return None


def _busy(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
