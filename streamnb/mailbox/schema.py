"""The tables of a mailbox's database, and the names under which it stores state."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from streamnb.counts.places import table_statements
from streamnb.database import SQLITE, Database

STATE = "classifier"  # name of the classifier's state
# Name of the table with a second copy of the classifier's description. One damaged page can destroy
# a copy, and without a description no row of the ledger can be recovered.
STATE_COPY = "state_copy"

# Statements that create tables have the names of `Dialect` in braces.
SCHEMA = """CREATE TABLE state(name TEXT PRIMARY KEY, value TEXT NOT NULL){without_rowid};
CREATE TABLE state_copy(name TEXT PRIMARY KEY, value TEXT NOT NULL){without_rowid};
CREATE TABLE ledger(
    id {row_id},
    digest {blob} NOT NULL,      -- identity of the message (`digest.digest`)
    label {integer} NOT NULL,    -- index of its class
    labelled_by TEXT NOT NULL,   -- author of the label: 'human' or 'program'
    source TEXT NOT NULL,        -- origin of the message
    time {real} NOT NULL,        -- time of learning, seconds since 1970
    added_at {real} NOT NULL,    -- moment at which the row was added
    removed_at {real},           -- moment at which the label was removed or replaced
    predicted {integer},         -- index of the class predicted before learning
    tokenizer TEXT NOT NULL,     -- identity of the tokenizer that made the tokens
    receipt TEXT NOT NULL,       -- the changes that learning made, which unlearning reverses
    tokens {blob}                -- features of the message (`pack_tokens`); NULL if dropped
);
CREATE UNIQUE INDEX ledger_active ON ledger(digest) WHERE removed_at IS NULL;
CREATE INDEX ledger_removed ON ledger(digest) WHERE removed_at IS NOT NULL;
CREATE TABLE watched(
    account TEXT NOT NULL,
    folder TEXT NOT NULL,
    uid TEXT NOT NULL,           -- UIDVALIDITY and UID of IMAP, or the unique name of a Maildir
    key {blob} NOT NULL,         -- identity of the message (`digest.header_key`)
    keyword TEXT NOT NULL,       -- 'junk', 'notjunk', '' or a question mark (unknown)
    moved_to TEXT NOT NULL,      -- target of its last move (`locations.MessageLocation`)
    first_seen {real} NOT NULL,  -- time when it was first seen in the folder
    missing_since {real},        -- time when it was first missing from the folder
    PRIMARY KEY (account, folder, uid)
){without_rowid};
CREATE INDEX watched_key ON watched(account, key)"""

# Query for table and column of each column of an SQLite database, without SQLite's own tables.
COLUMNS = """SELECT tables.name, columns.name
FROM sqlite_master AS tables JOIN pragma_table_info(tables.name) AS columns
WHERE tables.type = 'table' AND tables.name NOT GLOB 'sqlite_*'"""


def missing_columns(database: Database, views: int) -> list[str]:
    """Return the tables and columns that a database lacks, such as "ledger" or "ledger.time".

    Parameters
    ----------
    database
        The database, within a transaction.
    views
        Number of views of its classifier.
    """
    with closing(sqlite3.connect(":memory:")) as complete:
        for statement in [*SCHEMA.split(";\n"), *table_statements(views)]:
            complete.execute(statement.format_map(SQLITE._asdict()))
        missing = set(complete.execute(COLUMNS)) - (present := database.columns())
    present_tables = {table for table, _ in present}
    return sorted(
        {f"{table}.{name}" if table in present_tables else table for table, name in missing}
    )
