"""A mailbox in PostgreSQL, where several hosts learn: the same tables, ledger and promises.

Needs `streamnb[postgres]`. Writers wait for each other, as with a file: a transaction begins by
taking a lock that the server gives back when the transaction, the client or the connection ends.
So nothing can interleave, and what a client that was killed had begun is as if it had never been.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from streamnb.errors import BusyError, OutputError, StateError
from streamnb.mailbox.location import WAIT, identity_of
from streamnb.mailbox.transactions import SCHEMA, Transactions, TransientError

__all__ = ["PostgresDatabase", "shown_url"]

# What it says of a lost connection is said by our errors.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

_NAMESPACE = "streamnb"  # where the tables are, unless the URL's options set a search_path
_LOCK = 0x736E6231  # whose lock it is; with it goes the number of the schema
_FORMAT = 1
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
_AGAIN = ("08", "40", "57P01", "57P02", "57P03")
_HELD = ("55P03",)
_FULL = ("53",)
_NOT_ALLOWED = ("28", "42501", "3D000", "25006")


def shown_url(url: str) -> str:
    """Where a database is, without the password."""
    try:
        known = conninfo_to_dict(url)
    except psycopg.Error:
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


class _Connection:
    """A connection that is spoken to as one to SQLite is."""

    def __init__(self, real: psycopg.Connection[Any]) -> None:
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

    def __init__(self, url: str, create: bool = True, wait: float = WAIT) -> None:
        super().__init__(shown_url(url), wait)
        self.location = url
        self.file = identity_of(url)
        with self.speaking():
            self._connect()
            try:
                self._set_up(create)
            except BaseException:
                self.connection.real.close()
                raise

    def _connect(self) -> None:
        timeout = max(2, min(60, round(self.wait)))
        real: psycopg.Connection[Any] = psycopg.connect(
            self.location, autocommit=True, connect_timeout=timeout, application_name="streamnb"
        )
        real.execute("SET client_encoding TO 'UTF8'")
        (path,) = real.execute("SHOW search_path").fetchone() or ("",)
        if path == '"$user", public':  # nobody has chosen another one
            real.execute(f"SET search_path TO {_NAMESPACE}")
        self.connection = _Connection(real)

    def _set_up(self, create: bool) -> None:
        run = self.connection.real.execute
        with self.connection.real.transaction():
            (namespace,) = run("SELECT current_schemas(false)").fetchone() or ([],)
            (path,) = run("SHOW search_path").fetchone() or ("",)
            name = path.split(",")[0].strip().strip('"')
            if not create and (not namespace or not self.tables()):
                raise StateError(
                    f"{self.path}: there are no tables of streamnb; `streamnb learn` makes them"
                )
            run("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCK, name))
            if not namespace:
                quoted = name.replace('"', '""')
                run(f'CREATE SCHEMA IF NOT EXISTS "{quoted}"'.encode())
            tables = self.tables()
            if not tables:
                self._make_tables()
            elif "streamnb_format" not in tables:
                raise StateError(f"{self.path}: schema {name!r} has tables of another program")
            (version,) = run("SELECT version FROM streamnb_format").fetchone() or (None,)
            if version != _FORMAT:
                raise StateError(
                    f"{self.path}: a database of version {version}, and this streamnb reads "
                    f"version {_FORMAT}: use the streamnb that wrote it, or its `export`"
                )
        self._name = name

    def _make_tables(self) -> None:
        for statement in SCHEMA.split(";\n"):
            if statement.strip():
                self.connection.execute(statement)
        self.connection.execute("CREATE TABLE streamnb_format(version INTEGER NOT NULL)")
        self.connection.execute("INSERT INTO streamnb_format VALUES (?)", (_FORMAT,))
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
        state = error.sqlstate or ""
        lines = str(error).strip().splitlines()
        why = (lines[0] if lines else type(error).__name__)[:200]
        if state.startswith(_HELD):
            return BusyError(
                f"{self.path}: another process holds the database; waited {self.wait:g} s: "
                "try again later"
            )
        if state.startswith(_NOT_ALLOWED) or (not state and not hasattr(self, "_name")):
            return StateError(f"{self.path}: the database cannot be used: {why}")
        if state.startswith(_AGAIN) or (not state and isinstance(error, psycopg.OperationalError)):
            return TransientError(f"{self.path}: the server went away ({why}); try again")
        if state.startswith(_FULL):
            return OutputError(f"{self.path}: the server has no room: {why}; nothing was changed")
        if state.startswith("42"):  # a table or column that is not there
            return StateError(f"{self.path}: not a streamnb database, or a damaged one ({why})")
        return StateError(f"{self.path}: the database refuses: {why}")

    def _begin(self, writes: bool, durable: bool) -> None:
        if self.connection.real.closed or self.connection.real.broken:
            self._connect()
        run = self.connection.real.execute
        try:
            self._begin_with(run, writes, durable)
        except psycopg.OperationalError as error:
            if error.sqlstate is not None and not error.sqlstate.startswith(_AGAIN):
                self._roll_back(durable)
                raise
            self._connect()  # it went away while nothing was asked: nothing is lost
            self._begin_with(self.connection.real.execute, writes, durable)

    def _begin_with(self, run: Any, writes: bool, durable: bool) -> None:
        if not writes:
            run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return
        # Read committed: what others did while this waited for the lock must be seen.
        run("BEGIN ISOLATION LEVEL READ COMMITTED")
        run(f"SET LOCAL lock_timeout = {int(1000 * self.wait) or 1}")
        if not durable:
            run("SET LOCAL synchronous_commit = off")
        run("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCK, self._name))

    def _commit(self, durable: bool) -> None:
        self.connection.real.execute("COMMIT")

    def _roll_back(self, durable: bool) -> None:
        with contextlib.suppress(psycopg.Error):
            if not self.connection.real.closed:
                self.connection.real.execute("ROLLBACK")

    def stream(self, statement: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """Rows of a table that may be large, while others are asked for."""
        with self.connection.real.cursor(f"rows{id(values)}", withhold=False) as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(_translated(statement).encode(), list(values))
            yield from cursor

    def tables(self) -> set[str]:
        """The names of the tables there are."""
        found = self.connection.real.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        )
        return {name for (name,) in found}

    def numbers(self, numbers: list[int]) -> list[int]:
        """A list of numbers as the value of ``json_each(?) j``."""
        return numbers

    def size(self) -> int:
        """Bytes of the tables and indexes."""
        row = self.connection.real.execute(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class WHERE "
            "relkind = 'r' AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = "
            "current_schema())"
        ).fetchone()
        return int(row[0]) if row else 0

    def shrink(self) -> bool:
        """Give the space that is free back; nobody can be in the way for longer than a moment."""
        with self._lock, self.speaking():
            for table in sorted(self.tables()):
                self.connection.real.execute(f'VACUUM FULL "{table}"'.encode())
        return True

    def _close(self) -> None:
        self.connection.real.close()
