"""A mailbox in PostgreSQL, where several hosts learn: the same tables, ledger and promises.

Needs `streamnb[postgres]`. Writers wait for each other, as with a file: a transaction begins by
taking a lock that the server gives back when the transaction, the client or the connection ends.
So nothing can interleave, and what a client that was killed had begun is as if it had never been.
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
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import sql
from psycopg.abc import RV, PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.waiting import Ready

from streamnb.errors import OutputError, StateError
from streamnb.mailbox.location import WAIT, identity_of
from streamnb.mailbox.transactions import FORMAT, SCHEMA, Transactions, TransientError

# What it says of a lost connection is said by our errors.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

_NAMESPACE = "streamnb"  # where the tables are, unless the URL's options set a search_path
_LOCK = 0x736E6231  # whose lock it is; with it goes the number of the schema
_AT_ONCE = 1000  # rows of a long answer that are fetched together

# What is written in another way.
_DIALECT = (
    (re.compile(r"%"), "%%"),
    (re.compile(r"--[^\n]*"), ""),
    (re.compile(r"\?"), "%s"),
    (
        re.compile(r"json_each\(%s\) j"),
        "(SELECT at - 1 AS key, value FROM unnest(%s::bigint[]) WITH ORDINALITY u(value, at)) j",
    ),
    (re.compile(r"\bCROSS JOIN\b"), "JOIN"),
    (re.compile(r"\bINTEGER PRIMARY KEY AUTOINCREMENT\b"), "BIGSERIAL PRIMARY KEY"),
    (re.compile(r"\bCAST\(value AS BLOB\)"), "value"),
    (re.compile(r"\bBLOB\b"), "BYTEA"),
    (re.compile(r"\bREAL\b"), "DOUBLE PRECISION"),
    (re.compile(r"\bINTEGER\b"), "BIGINT"),
    (re.compile(r"\bWITHOUT ROWID\b"), ""),
    (re.compile(r"\bLIKE\b"), "ILIKE"),
)
# Where the server is gone, or another transaction was in the way: to be tried again as a whole.
_AGAIN = ("08", "40", "57P01", "57P02", "57P03", "57P04", "57P05", "25P03")
_HELD = ("55P03", "57014")  # a lock, or a time limit of the server's
_FULL = ("53",)
_NOT_ALLOWED = ("28", "42501", "3D000", "25006")
# What a server that could be reached says where it does no good to try again.
_REFUSED = (
    "authentication failed",
    "does not exist",
    "no password",
    "pg_hba.conf",
    "permission",
    "invalid",
)
# Seconds without an answer, beside those of waiting for a lock. A statement that takes longer is
# given up, too, but for those of `shrink`.
_PATIENCE = 120.0
_SILENT = "no answer"
_UNREACHED = (
    "Connection refused",
    "No such file or directory",
    "timeout expired",
    _SILENT,
    "could not translate host name",
    "No route to host",
)
# A server that vanishes with its host is noticed within a minute, unless the URL says otherwise.
_ALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
_ALIVE["tcp_user_timeout"] = 60_000  # milliseconds
# A client that vanishes with its host is noticed within a minute, too, and its lock given back.
_SESSION = (
    "SET client_encoding TO 'UTF8'",
    "SET tcp_keepalives_idle = 30",
    "SET tcp_keepalives_interval = 10",
    "SET tcp_keepalives_count = 3",
    "SET idle_in_transaction_session_timeout = '1h'",
    "SET idle_session_timeout = 0",
)
_OURS = re.compile(
    r"state|ledger|watched|verdicts|site|undone|streamnb_format|(?:features|blocks)_[0-9]+"
)


def shown_url(url: str) -> str:
    """Return a database's URL without the password or anything that may be part of it."""
    try:
        known = conninfo_to_dict(url)
    except psycopg.Error:
        known = {}
    unclear = any(mark in f"{known.get('dbname', '')}" for mark in "@/:")
    if not known or unclear or url.count("@") > 1:
        return "postgresql:"
    host = f"{known.get('host') or known.get('hostaddr') or ''}"
    host = "" if host.startswith("/") else host  # the folder of a socket
    port = f":{known['port']}" if known.get("port") else ""
    return f"postgresql://{host}{port}/{known.get('dbname', '')}"


@lru_cache(maxsize=512)
def _translated(statement: str) -> str:
    """A statement as PostgreSQL understands it."""
    for pattern, other in _DIALECT:
        statement = pattern.sub(other, statement)
    return statement


def _storable(value: Any) -> Any:
    """A value that text can hold: NUL is the one character it cannot."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value


class _Patient(psycopg.Connection[Any]):
    """A connection that gives up a server that says nothing: one that hangs would hold mail up."""

    patience: float = math.inf  # seconds

    def wait(self, gen: PQGen[RV], *arguments: Any, **options: Any) -> RV:
        """Wait for the server, with a time limit."""
        return super().wait(self._bounded(gen), *arguments, **options)

    def _bounded(self, gen: PQGen[RV]) -> PQGen[RV]:
        last = time.monotonic()
        try:
            ready = yield next(gen)
            while True:
                now = time.monotonic()
                if ready != Ready.NONE:
                    last = now
                elif now - last > self.patience:
                    self.close()
                    raise psycopg.OperationalError(_SILENT)
                ready = yield gen.send(ready)
        except StopIteration as done:
            result: RV = done.value
            return result


class _Connection:
    """A connection that is spoken to as one to SQLite is."""

    def __init__(self, real: _Patient) -> None:
        self.real = real

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        return self.real.execute(
            _translated(statement).encode(), [_storable(value) for value in values]
        )

    def executemany(self, statement: str, rows: Any) -> None:
        with self.real.cursor() as cursor:
            cursor.executemany(
                _translated(statement).encode(), [[_storable(of) for of in row] for row in rows]
            )


class PostgresDatabase(Transactions):
    """A database of a server.

    Parameters
    ----------
    url
        ``postgresql://user@host/database``, or whatever else libpq takes that begins so. A
        password is better kept in ``~/.pgpass`` than in it.
    create
        Whether to make the tables where they are missing.
    wait
        Seconds to wait for other writers.

    Raises
    ------
    StateError
        Where the server, the database or the tables are not there, or not ours.
    BusyError
        Where another one holds it for longer than that, or the server goes away.
    """

    connection: _Connection
    loses_answers = True

    def __init__(self, url: str, create: bool = True, wait: float = WAIT) -> None:
        super().__init__(shown_url(url), wait)
        self.location = url
        self.file: tuple[int, int] = identity_of(url)
        self._schema = ""
        self._cursors = itertools.count()
        until = time.monotonic() + wait
        while True:
            try:
                with self.speaking():
                    self._connect()
                break
            except TransientError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)
        try:
            with self.speaking():
                self._set_up(create)
        except BaseException:
            self.connection.real.close()
            raise

    def _connect(self) -> None:
        timeout = max(2, min(60, round(self.wait)))
        given = conninfo_to_dict(self.location)
        unasked: dict[str, Any] = {
            name: value for name, value in _ALIVE.items() if name not in given
        }
        real = _Patient.connect(
            self.location,
            autocommit=True,
            connect_timeout=timeout,
            application_name="streamnb",
            **unasked,
        )
        real.patience = _PATIENCE + self.wait
        self.connection = _Connection(real)
        self._process = os.getpid()
        try:
            for statement in _SESSION:
                real.execute(statement.encode())
            if self._asked("SHOW synchronous_commit") == "off":
                real.execute("SET synchronous_commit = on")
            if self._schema:
                self._use(self._schema)
        except BaseException:
            real.close()
            raise

    def _asked(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """The one value that a question has for an answer, None where there is none."""
        row = self.connection.real.execute(statement.encode(), values).fetchone()
        return None if row is None else row[0]

    def _use(self, schema: str) -> None:
        path = sql.SQL("SET search_path TO {}").format(sql.Identifier(schema))
        self.connection.real.execute(path)
        self._schema = schema
        oid = self._asked("SELECT oid::bigint FROM pg_namespace WHERE nspname = %s", (schema,))
        self._key = None if oid is None else (_LOCK << 32) | oid

    def _set_up(self, create: bool) -> None:
        encoding = self._asked("SHOW server_encoding")
        if encoding not in ("UTF8", "SQL_ASCII"):
            raise StateError(
                f"{self.path}: its encoding is {encoding}, which cannot hold all text: make a "
                "database with ENCODING 'UTF8'"
            )
        self._use(self._named())
        if not self._is_there():
            if not create:
                raise StateError(
                    f"{self.path}: there are no tables of streamnb; `streamnb learn` makes them"
                )
            self._make_all()
        self._check_version()

    def _named(self) -> str:
        """The schema that the URL names, or ours."""
        path = str(self._asked("SHOW search_path"))
        if path == '"$user", public':  # nobody has chosen another one
            return _NAMESPACE
        try:
            parts = self._asked("SELECT parse_ident(%s)", (path,))
        except psycopg.Error:
            parts = []
        if len(parts) != 1 or parts[0] == "$user" or parts[0].startswith("pg_"):
            raise StateError(
                f"{self.path}: search_path must name one schema, such as "
                "options=-csearch_path%3Dmail"
            )
        return str(parts[0])

    def _is_there(self) -> bool:
        """Return whether the tables exist. Raise StateError if others have their names."""
        if "streamnb_format" in self.tables():
            return True
        others = self._asked(
            "SELECT count(*) FROM pg_tables WHERE schemaname = %s", (self._schema,)
        )
        if others:
            raise StateError(f"{self.path}: schema {self._schema!r} has tables of another program")
        return False

    def _make_all(self) -> None:
        """Make schema and tables, unless another one was faster."""
        run = self.connection.real.execute
        with self.connection.real.transaction():
            run(f"SET LOCAL lock_timeout = {self._patience()}".encode())
            run("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCK, self._schema))
            if self._key is None:
                schema = sql.Identifier(self._schema)
                run(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
                self._use(self._schema)
            if not self._is_there():
                self._make_tables()

    def _patience(self) -> int:
        """Milliseconds to wait for a lock, as the server takes them; 0 would be for ever."""
        return max(1, min(int(1000 * self.wait), 2**31 - 1))

    def _make_tables(self) -> None:
        for statement in SCHEMA.split(";\n"):
            if statement.strip():
                self.connection.execute(statement)
        self.connection.execute("CREATE TABLE streamnb_format(version INTEGER NOT NULL)")
        self.connection.execute("INSERT INTO streamnb_format VALUES (?)", (FORMAT,))
        self.connection.execute(
            "CREATE FUNCTION instr(TEXT, TEXT) RETURNS INT LANGUAGE sql IMMUTABLE "
            "AS 'SELECT strpos($1, $2)'"
        )

    @contextlib.contextmanager
    def speaking(self) -> Iterator[None]:
        """Say the server's errors in our words."""
        try:
            yield
        except psycopg.Error as error:
            raise self._said(error) from error

    def _said(self, error: psycopg.Error) -> Exception:
        state, text = error.sqlstate or "", str(error).strip()
        if not state and not isinstance(error, psycopg.OperationalError):
            # Of the URL itself, perhaps: what libpq says of it may quote a password.
            return StateError(f"{self.path}: the URL of the database is not sound")
        if not state and "FATAL" not in text:
            known = [cause for cause in _UNREACHED if cause in text]
            return TransientError(
                f"{self.path}: the server is away ({known[0] if known else 'no connection'}): "
                "try again later"
            )
        why = text.rpartition("FATAL:")[2].strip().splitlines()[0][:200]
        if state.startswith(_HELD):
            return self._held("process")
        refused = not state and any(cause in why for cause in _REFUSED)
        if refused or state.startswith(_NOT_ALLOWED):
            return StateError(f"{self.path}: the database cannot be used: {why}")
        if not state or state.startswith(_AGAIN):
            return TransientError(f"{self.path}: the server went away ({why}): try again later")
        if state.startswith(_FULL):
            return OutputError(f"{self.path}: the server has no room: {why}; nothing was changed")
        if state.startswith("42"):  # a table or column that is not there
            return StateError(f"{self.path}: not a streamnb database, or a damaged one ({why})")
        return StateError(f"{self.path}: the database refuses: {why}")

    def _begin(self, writes: bool, durable: bool) -> None:
        real = self.connection.real
        # Where this is another process, the connection is still that one's.
        if self._process != os.getpid() or real.closed or real.broken:
            self._connect()
            real = self.connection.real
        try:
            self._begin_with(writes, durable)
        except psycopg.OperationalError as error:
            if error.sqlstate is not None and not error.sqlstate.startswith(_AGAIN):
                raise
            real.close()
            self._connect()  # it went away while nothing was asked: nothing is lost
            self._begin_with(writes, durable)

    def _begin_with(self, writes: bool, durable: bool) -> None:
        run = self.connection.real.execute
        if not writes:
            run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return
        # Read committed: what others did while this waited for the lock must be seen.
        run("BEGIN ISOLATION LEVEL READ COMMITTED")
        run(f"SET LOCAL lock_timeout = {self._patience()}".encode())
        if not durable:
            run("SET LOCAL synchronous_commit = off")
        run("SELECT pg_advisory_xact_lock(%s)", (self._key,))

    def _commit(self, durable: bool) -> None:
        try:
            done = self.connection.real.execute("COMMIT")
        except psycopg.OperationalError as error:
            raise TransientError(
                f"{self.path}: the server went away while it was asked to commit: whether it did "
                "is not known; look before you do it again"
            ) from error
        if done.statusmessage != "COMMIT":  # one of its statements had failed
            raise StateError(f"{self.path}: the database took the transaction back")

    def _roll_back(self, durable: bool) -> None:
        real = self.connection.real
        with contextlib.suppress(psycopg.Error):
            if not real.closed and real.info.transaction_status != TransactionStatus.IDLE:
                real.execute("ROLLBACK")

    def stream(self, statement: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """Rows of a table that may be large, while others are asked for."""
        with self.connection.real.cursor(f"rows{next(self._cursors)}") as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(_translated(statement).encode(), list(values))
            yield from cursor

    def tables(self) -> set[str]:
        """The names of the tables there are, those of streamnb."""
        found = self.connection.real.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        )
        return {name for (name,) in found if _OURS.fullmatch(name)}

    def numbers(self, numbers: list[int]) -> list[int]:
        """A list of numbers as the value of ``json_each(?) j``."""
        return numbers

    def size(self) -> int:
        """Bytes of the tables and indexes."""
        with self.reading():
            found = self._asked(
                "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class WHERE "
                "relkind = 'r' AND relname = ANY(%s) AND relnamespace = "
                "(SELECT oid FROM pg_namespace WHERE nspname = current_schema())",
                (sorted(self.tables()),),
            )
        return int(found)

    def version(self) -> int:
        """Return the version of the format."""
        return int(self._asked("SELECT version FROM streamnb_format"))

    def shrink(self) -> bool:
        """Give the space that is free back; whether nobody was in the way, and it is allowed."""
        with self.reading():
            theirs = self._asked(
                "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() "
                "AND tablename = ANY(%s) AND NOT pg_has_role(tableowner, 'USAGE')",
                (sorted(self.tables()),),
            )
        if theirs:
            return False
        with self._lock, self.speaking():
            run = self.connection.real.execute
            self.connection.real.patience = math.inf  # large tables take their time
            try:
                run(f"SET lock_timeout = {self._patience()}".encode())
                for table in sorted(self.tables()):
                    run(sql.SQL("VACUUM FULL {}").format(sql.Identifier(table)))
            except psycopg.errors.LockNotAvailable:
                return False
            finally:
                with contextlib.suppress(psycopg.Error):
                    run("SET lock_timeout = 0")
                self.connection.real.patience = _PATIENCE + self.wait
        return True

    def _close(self) -> None:
        if self._process == os.getpid():
            self.connection.real.close()
