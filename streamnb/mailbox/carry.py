"""Copying settings and watched folders from an old database to a new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamnb.mailbox.transactions import Transactions

# How much is recorded, which folders were looked at, and where their messages were.
_STATES = "SELECT name, value FROM state WHERE name = 'record' OR substr(name, 1, 8) = 'watched '"
_WATCHED = "SELECT account, folder, uid, key, said, filed, since, gone FROM watched"


def carry(
    old: Transactions, new: Transactions, lost: Callable[[str, Exception], None] | None = None
) -> None:
    """Copy the owner's settings and the state of `watch` that the new database does not have.

    Parameters
    ----------
    old
        Where it is read.
    new
        Where it is written, in one transaction.
    lost
        Called with what cannot be read and why; None to raise that.
    """
    parts = (
        ("how much is recorded and which folders are watched", _STATES, "INTO state VALUES (?, ?)"),
        (
            "where the messages of watched folders were",
            _WATCHED,
            "INTO watched(account, folder, uid, key, said, filed, since, gone) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        ),
    )
    for description, find, target in parts:
        try:
            with old.reading() as connection:
                rows: list[tuple[Any, ...]] = connection.execute(find).fetchall()
        except Exception as error:
            if lost is None:
                raise
            lost(description, error)
            continue
        with new.writing() as connection:
            for row in rows:
                connection.execute(f"INSERT {target} ON CONFLICT DO NOTHING", row)
