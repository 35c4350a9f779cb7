"""A mailbox in PostgreSQL for several hosts, with the tables and guarantees of a file.

It needs `streamnb[postgres]`. Writers wait for each other, as with a file: a transaction first
takes a lock. The server releases the lock when the transaction, the client or the connection ends.
So transactions do not interleave, and the server rolls back the transaction of a killed client.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import os
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.abc import RV, PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.waiting import Ready

from streamnb.database import FORMAT, POSTGRESQL, Database, TransientError
from streamnb.errors import ConfigError, OutputError, StateError, damage_error
from streamnb.mailbox.location import WAIT, identity_of
from streamnb.mailbox.schema import SCHEMA
from streamnb.patterns import lazy_pattern

# psycopg's own warnings are off, because streamnb's errors report a lost connection.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

_NAMESPACE = "streamnb"  # schema of the tables, unless the URL's options set a search_path
_LOCK = 0x736E6231  # first key of the advisory lock; the second key is the schema's number
_FETCH_ROWS = 1000  # rows of a long result to fetch at a time

# SQLSTATEs of a lost server or a conflict: the whole transaction is retried.
_TRANSIENT_CODES = ("08", "40", "57P01", "57P02", "57P03", "57P04", "57P05", "25P03")
_BUSY_CODES = ("55P03", "57014")  # a lock, or a time limit set on the server
_DISK_FULL_CODES = ("53",)
_READ_ONLY = "25006"  # SQLSTATE of a server that has become a standby
_DENIED_CODES = ("28", "42501", "3D000", _READ_ONLY)
# Parts of error messages after which a retry is useless.
_DENIED_REASONS = (
    "authentication failed",
    "does not exist",
    "no password",
    "pg_hba.conf",
    "permission",
    "invalid",
    "unsupported startup parameter",
)
# Seconds to wait for the answer to a statement, in addition to the wait for a lock.
# `shrink` has no limit.
_ANSWER_TIMEOUT_S = 120.0
_NO_ANSWER = "no answer"
_UNREACHABLE_REASONS = (
    "Connection refused",
    "No such file or directory",
    "timeout expired",
    _NO_ANSWER,
    "could not translate host name",
    "No route to host",
)
# Messages of libpq and of the resolver about a wrong part of the URL.
_MALFORMED = lazy_pattern(r"invalid (\w+ value|port number)|Servname not supported")
# The loss of the server's host is noticed within a minute, unless the URL sets other values.
_KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
_KEEPALIVES["tcp_user_timeout"] = 60_000  # milliseconds
# Number of attempts to lock without waiting; then the milliseconds to wait in the server's queue.
_MOST_POLLS, _QUEUE_MS = 5, 100
# The loss of a client's host is noticed within a minute, too, and its lock is released.
_SESSION_SETTINGS = (
    "SET tcp_keepalives_idle = 30",
    "SET tcp_keepalives_interval = 10",
    "SET tcp_keepalives_count = 3",
    "SET idle_in_transaction_session_timeout = '1h'",
    "SET idle_session_timeout = 0",
)
_TABLE_NAMES = lazy_pattern(
    r"state|state_copy|ledger|watched|verdicts|site|undone|streamnb_format|(?:features|blocks)_[0-9]+"
)


def shown_url(url: str) -> str:
    """Return a database's URL without the password or any part of it."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        parts = {}
    unclear = any(mark in f"{parts.get('dbname', '')}" for mark in "@/:")
    if not parts or unclear or url.count("@") > 1:
        return "postgresql:"
    host = f"{parts.get('host') or parts.get('hostaddr') or ''}"
    host = "" if host.startswith("/") else host  # the folder of a socket
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{host}{port}/{parts.get('dbname', '')}"


def _with_psycopg_marks(statement: str) -> bytes:
    """Return a statement with psycopg's placeholders. Statements have no other % or ? signs."""
    return statement.replace("?", "%s").encode()


def _storable(value: Any) -> Any:
    """Return a value that PostgreSQL can store: text without NUL."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value


class _Patient(psycopg.Connection[Any]):
    """A connection with a time limit for answers, because a wait would delay mail."""

    patience: float = math.inf  # seconds

    def wait(self, gen: PQGen[RV], *arguments: Any, **options: Any) -> RV:
        """Wait for the server, with a time limit."""
        return super().wait(self._limit_wait(gen), *arguments, **options)

    def _limit_wait(self, gen: PQGen[RV]) -> PQGen[RV]:
        last = time.monotonic()
        try:
            ready = yield next(gen)
            while True:
                now = time.monotonic()
                if ready != Ready.NONE:
                    last = now
                elif now - last > self.patience:
                    self.close()
                    raise psycopg.OperationalError(_NO_ANSWER)
                ready = yield gen.send(ready)
        except StopIteration as done:
            result: RV = done.value
            return result


class _Connection:
    """A connection with the methods of sqlite3."""

    def __init__(self, real: _Patient) -> None:
        self.real = real

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        return self.real.execute(
            _with_psycopg_marks(statement), [_storable(value) for value in values]
        )

    def executemany(self, statement: str, rows: Any) -> None:
        with self.real.cursor() as cursor:
            cursor.executemany(
                _with_psycopg_marks(statement),
                [[_storable(value) for value in row] for row in rows],
            )


class PostgresDatabase(Database):
    """A database of a server.

    Parameters
    ----------
    url
        ``postgresql://user@host/database`` or another URL of libpq. Write a password to
        ``~/.pgpass``, not into the URL.
    create
        Whether to create missing tables.
    wait
        Seconds to wait for other writers.

    Raises
    ------
    StateError
        If the server, the database or the tables do not exist or belong to another program.
    BusyError
        If another writer holds it for longer than `wait`, or the connection is lost.
    """

    dialect = POSTGRESQL
    connection: _Connection
    loses_answers = True

    def __init__(self, url: str, create: bool = True, wait: float = WAIT) -> None:
        super().__init__(shown_url(url), wait)
        self.location = url
        self._failed_locks = 0  # consecutive attempts
        self.file: tuple[int, int] = identity_of(url)
        self._schema = ""
        self._cursors = itertools.count()
        self.retry(self._connect_first)
        try:
            with self.convert_errors():
                self._set_up(create)
        except BaseException:
            self.connection.real.close()
            raise

    def _connect_first(self) -> None:
        with self.convert_errors():
            self._connect()

    def _connect(self) -> None:
        """Connect to the server, and set the options of the connection."""
        timeout = max(2, min(60, round(self.wait)))
        try:
            chosen = conninfo_to_dict(self.location)
            defaults: dict[str, Any] = {
                name: value for name, value in _KEEPALIVES.items() if name not in chosen
            }
            real = _Patient.connect(
                self.location,
                autocommit=True,
                connect_timeout=timeout,
                application_name="streamnb",
                client_encoding="UTF8",
                **defaults,
            )
        except psycopg.Error as error:
            if isinstance(error, psycopg.ProgrammingError) or _MALFORMED.search(str(error)):
                # libpq's message can quote the URL with its password.
                raise ConfigError(f"{self.path}: the URL of the database is malformed") from None
            raise
        real.patience = _ANSWER_TIMEOUT_S + self.wait
        self.connection = _Connection(real)
        self._process = os.getpid()
        try:
            # Through a pooler, such as PgBouncer, each transaction can have another connection.
            self._is_pooled = self._fetch_value("SELECT pg_backend_pid()") != real.info.backend_pid
            if self._is_pooled:
                real.prepare_threshold = None
            else:
                for statement in _SESSION_SETTINGS:
                    real.execute(statement.encode())
            self._commits_late = self._fetch_value("SHOW synchronous_commit") == "off"
            if self._schema:
                self._use(self._schema)
        except BaseException:
            real.close()
            raise

    def _fetch_value(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """Return the first value of the first row of a query, None without a row."""
        row = self.connection.real.execute(statement.encode(), values).fetchone()
        return None if row is None else row[0]

    def _use(self, schema: str) -> None:
        self._schema = schema
        path = sql.SQL("SET LOCAL search_path TO {}").format(sql.Identifier(schema))
        self._search_path = path.as_string(self.connection.real)
        oid = self._fetch_value(
            "SELECT oid::bigint FROM pg_namespace WHERE nspname = %s", (schema,)
        )
        self._key = None if oid is None else (_LOCK << 32) | oid

    def _set_up(self, create: bool) -> None:
        encoding = self._fetch_value("SHOW server_encoding")
        if encoding not in ("UTF8", "SQL_ASCII"):
            raise StateError(
                f"{self.path}: its encoding is {encoding}, which cannot store all text; create a "
                "database with ENCODING 'UTF8'"
            )
        self._use(self._named_schema())
        self._check_options()
        if not self._has_tables():
            if not create:
                raise StateError(
                    f"{self.path}: it has no tables of streamnb; create them with `streamnb learn`"
                )
            self._create_schema()
        with self.reading():
            self._check_version()

    def _named_schema(self) -> str:
        """Return the schema that the URL names, or the default one."""
        path = str(self._fetch_value("SHOW search_path"))
        if path == '"$user", public':  # the user chose no other schema
            return _NAMESPACE
        try:
            parts = self._fetch_value("SELECT parse_ident(%s)", (path,))
        except psycopg.Error:
            parts = []
        if len(parts) != 1 or parts[0] == "$user" or parts[0].startswith("pg_"):
            raise StateError(
                f"{self.path}: name exactly one schema in search_path, such as "
                "options=-csearch_path%3Dmail"
            )
        return str(parts[0])

    def _check_options(self) -> None:
        """Raise StateError if a pooler ignored the schema that the URL names."""
        in_url = conninfo_to_dict(self.location).get("options")
        options = str(in_url or os.environ.get("PGOPTIONS", ""))
        named = re.findall(r"search_path=(\S+)", options)
        if self._is_pooled and named and named[-1].strip('"').lower() != self._schema.lower():
            raise StateError(
                f"{self.path}: a pooler ignores the search_path of the URL; set it for the user "
                "(ALTER ROLE ... SET search_path), or connect to the server itself"
            )

    def _has_tables(self) -> bool:
        """Return whether the tables exist. Raise StateError if the schema has other tables."""
        if "streamnb_format" in self.tables():
            return True
        others = self._fetch_value(
            "SELECT count(*) FROM pg_tables WHERE schemaname = %s", (self._schema,)
        )
        if others:
            raise StateError(
                f"{self.path}: schema {self._schema!r} has tables of another program; name "
                "another schema, such as options=-csearch_path%3Dmail"
            )
        return False

    def _create_schema(self) -> None:
        """Create schema and tables, unless another process has created them."""
        run = self.connection.real.execute
        with self.connection.real.transaction():
            run(f"SET LOCAL lock_timeout = {self._lock_timeout_ms()}".encode())
            run("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCK, self._schema))
            if self._key is None:
                schema = sql.Identifier(self._schema)
                run(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
                self._use(self._schema)
            run(self._search_path.encode())
            if not self._has_tables():
                self._make_tables()

    def _lock_timeout_ms(self) -> int:
        """Return the milliseconds to wait for a lock: at least 1, because 0 means no limit."""
        return max(1, min(int(1000 * self.wait), 2**31 - 1))

    def _make_tables(self) -> None:
        for statement in SCHEMA.split(";\n"):
            self.create(statement)
        self.create("CREATE TABLE streamnb_format(version {integer} NOT NULL)")
        self.connection.execute("INSERT INTO streamnb_format VALUES (?)", (FORMAT,))
        self.connection.execute(
            "CREATE FUNCTION instr(TEXT, TEXT) RETURNS INT LANGUAGE sql IMMUTABLE "
            "AS 'SELECT strpos($1, $2)'"
        )

    @contextlib.contextmanager
    def convert_errors(self) -> Iterator[None]:
        """Re-raise errors of the server as errors of streamnb."""
        try:
            yield
        except psycopg.Error as error:
            converted = self._convert_error(error)
            if converted is error:
                raise
            raise converted from error

    def _convert_error(self, error: psycopg.Error) -> Exception:
        """Return streamnb's error for an error of the server."""
        state, text = error.sqlstate or "", str(error).strip()
        if not state and not isinstance(error, psycopg.OperationalError):
            return error  # a mistake of the program, such as a missing parameter of a query
        if not state and "FATAL" not in text:
            causes = [cause for cause in _UNREACHABLE_REASONS if cause in text]
            return TransientError(
                f"{self.path}: the server cannot be reached "
                f"({causes[0] if causes else 'no connection'}): "
                "try again later"
            )
        reason = text.rpartition("FATAL:")[2].strip().splitlines()[0][:200]
        if state.startswith(_BUSY_CODES):
            return self._lock_error(self.wait)
        refused = not state and any(cause in reason for cause in _DENIED_REASONS)
        if refused or state.startswith(_DENIED_CODES):
            return StateError(f"{self.path}: the database cannot be used: {reason}")
        if not state or state.startswith(_TRANSIENT_CODES):
            return TransientError(
                f"{self.path}: the connection was lost ({reason}); try again later"
            )
        if state.startswith(_DISK_FULL_CODES):
            return OutputError(
                f"{self.path}: the server's disk or memory is full: {reason}; nothing was changed"
            )
        if state.startswith("42"):  # a missing table or column
            return damage_error(self.path, reason)
        return StateError(f"{self.path}: the server refused the request: {reason}")

    def _begin(self, writes: bool, durable: bool) -> bool:
        real = self.connection.real
        # After a fork, the connection belongs to the parent process.
        if self._process != os.getpid() or real.closed or real.broken:
            self._connect()
            real = self.connection.real
        try:
            return self._begin_with(writes, durable)
        except (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction) as error:
            state = error.sqlstate
            if state is not None and not state.startswith((*_TRANSIENT_CODES, _READ_ONLY)):
                raise
            real.close()
            # Nothing is lost between two transactions. After a failover, the URL can lead to
            # another server.
            self._connect()
            return self._begin_with(writes, durable)

    def _begin_with(self, writes: bool, durable: bool) -> bool:
        run = self.connection.real.execute
        if not writes:
            run(f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {self._search_path}".encode())
            return True
        # Read committed makes changes visible that were committed during the wait for the lock.
        run(
            f"BEGIN ISOLATION LEVEL READ COMMITTED; {self._search_path}; "
            f"SET LOCAL lock_timeout = {self._lock_timeout_ms()}".encode()
        )
        if not durable or self._commits_late:
            run(f"SET LOCAL synchronous_commit = {'on' if durable else 'off'}".encode())
        if not self._lock_for_writing():
            self._roll_back(durable)
            return False
        if self._fetch_value("SHOW transaction_read_only") == "on":
            raise psycopg.errors.ReadOnlySqlTransaction(
                "it is read-only, for example a standby; name all hosts in the URL, with "
                "target_session_attrs=read-write"
            )
        return True

    def _lock_for_writing(self) -> bool:
        """Take the lock of writers, and return whether this succeeded.

        A statement that waits for the lock delays the other threads, which read. So the first
        attempts don't wait. But a busy writer takes the lock again between two of them, and the
        server's queue is fair.
        """
        run = self.connection.real.execute
        is_queued = self._failed_locks >= _MOST_POLLS
        self._failed_locks += 1
        if is_queued:
            run(f"SET LOCAL lock_timeout = {_QUEUE_MS}".encode())
            try:
                run("SELECT pg_advisory_xact_lock(%s)", (self._key,))
            except psycopg.errors.LockNotAvailable:
                return False
            run(f"SET LOCAL lock_timeout = {self._lock_timeout_ms()}".encode())
        elif not self._fetch_value("SELECT pg_try_advisory_xact_lock(%s)", (self._key,)):
            return False
        self._failed_locks = 0
        return True

    def _commit(self, durable: bool) -> None:
        try:
            done = self.connection.real.execute("COMMIT")
        except psycopg.OperationalError as error:
            raise TransientError(
                f"{self.path}: the connection was lost during a commit, so the transaction may or "
                "may not be committed; check with `streamnb status` before you try again"
            ) from error
        if done.statusmessage != "COMMIT":  # a statement of the transaction failed
            raise StateError(
                f"{self.path}: the server rolled the transaction back, so nothing "
                "changed; try again"
            )

    def _roll_back(self, durable: bool) -> None:
        real = self.connection.real
        with contextlib.suppress(psycopg.Error):
            if not real.closed and real.info.transaction_status != TransactionStatus.IDLE:
                real.execute("ROLLBACK")

    def stream(self, statement: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """Yield the rows of a large table; other statements may run meanwhile."""
        with self.connection.real.cursor(f"rows{next(self._cursors)}") as cursor:
            cursor.itersize = _FETCH_ROWS
            cursor.execute(_with_psycopg_marks(statement), list(values))
            yield from cursor

    def tables(self) -> set[str]:
        """Return the names of streamnb's tables in the schema."""
        rows = self.connection.real.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", (self._schema,)
        )
        return {name for (name,) in rows if _TABLE_NAMES.fullmatch(name)}

    def columns(self) -> set[tuple[str, str]]:
        """Return table and column of each column of streamnb's tables in the schema."""
        rows = self.connection.real.execute(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = %s",
            (self._schema,),
        )
        return {(table, column) for table, column in rows if _TABLE_NAMES.fullmatch(table)}

    def numbers(self, numbers: list[int]) -> list[int]:
        """Return a list of integers as the value of `number_table`."""
        return numbers

    def size(self) -> int:
        """Return the bytes of the tables and indexes."""
        with self.reading():
            size = self._fetch_value(
                "SELECT coalesce(sum(pg_total_relation_size(quote_ident(tablename)::regclass)), 0)"
                "::bigint FROM pg_tables WHERE schemaname = current_schema() "
                "AND tablename = ANY(%s)",
                (sorted(self.tables()),),
            )
        return int(size)

    def version(self) -> int:
        """Return the version of the format."""
        return int(self._fetch_value("SELECT version FROM streamnb_format"))

    def shrink(self) -> bool:
        """Release free space. Return False if another process or a missing right prevents it.

        A pooler prevents it, because the time to wait for locks cannot be set for one connection.
        """
        if self._is_pooled:
            return False
        with self.reading():
            foreign_tables = self._fetch_value(
                "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() "
                "AND tablename = ANY(%s) AND NOT pg_has_role(tableowner, 'USAGE')",
                (sorted(self.tables()),),
            )
        if foreign_tables:
            return False
        with self._lock, self.convert_errors():
            run = self.connection.real.execute
            self.connection.real.patience = math.inf  # large tables take long
            try:
                run(f"SET lock_timeout = {self._lock_timeout_ms()}".encode())
                for table in sorted(self.tables()):
                    run(sql.SQL("VACUUM FULL {}").format(sql.Identifier(self._schema, table)))
            except psycopg.errors.LockNotAvailable:
                return False
            finally:
                with contextlib.suppress(psycopg.Error):
                    run("SET lock_timeout = 0")
                self.connection.real.patience = _ANSWER_TIMEOUT_S + self.wait
        return True

    def _close(self) -> None:
        if self._process == os.getpid():
            self.connection.real.close()
