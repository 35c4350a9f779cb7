"""The folder in which each message of an account was last seen, to detect moves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from streamnb.database import Database
from streamnb.mailbox.watch.account import UNKNOWN_KEYWORD

_KEPT_S = 90 * 86400.0  # seconds after which the row of a message in no folder is deleted
# Precedes the target of a failed move. No folder of a server has this character in its name.
FAILED_MOVE = "\x01"


class MessageLocation(NamedTuple):
    """The last seen location of a message: a row of the table `watched`.

    Attributes
    ----------
    key
        Identifies the message (`digest.header_key`).
    keyword
        Its keyword, as in `ListedMessage`.
    moved_to
        If streamnb moved the message, the target folder. The folder itself, if the message stays
        there: the server refused the move, or it is a copy in the folder of a class. `FAILED_MOVE`
        and the target, if the server reported the move and left the message. "" if another program
        put the message here. None if a person may have put it here.
    first_seen
        Time at which it was first seen here, in seconds since 1970.
    missing_since
        Time at which it was first missing here; None while it is here.
    """

    folder: str
    uid: str
    key: bytes
    keyword: str
    moved_to: str | None
    first_seen: float
    missing_since: float | None

    @property
    def is_left_behind(self) -> bool:
        """True if the server reported a move of the message, and left it."""
        return self.moved_to is not None and self.moved_to.startswith(FAILED_MOVE)


def _encode_moved_to(moved_to: str | None) -> str:
    """Return the text of `moved_to` in the database: 0 for None, 1 for "", else = and a folder."""
    return "0" if moved_to is None else f"={moved_to}" if moved_to else "1"


def _location(row: Sequence[Any]) -> MessageLocation:
    location = MessageLocation(*row)
    text = str(location.moved_to)
    moved_to = text[1:] if text.startswith("=") else "" if text == "1" else None
    return location._replace(moved_to=moved_to)


class LocationTable:
    """The locations of one account's messages.

    Parameters
    ----------
    database
        The database that stores them.
    account
        The account's name.
    """

    def __init__(self, database: Database, account: str) -> None:
        self.database = database
        self.account = account
        self._listed_key = f"watched {account}"
        self._look_key = f"looked {account}"
        self._keywords_key = f"keywords {account}"

    def in_folder(self, folder: str) -> dict[str, MessageLocation]:
        """Return the messages that were in a folder when it was last listed, by uid."""
        locations = self._select("folder = ? AND missing_since IS NULL", folder)
        return {location.uid: location for location in locations}

    def folders(self) -> set[str]:
        """Return the folders that had messages when they were last listed."""
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT DISTINCT folder FROM watched WHERE account = ? AND missing_since IS NULL",
                (self.account,),
            ).fetchall()
        return {str(folder) for (folder,) in rows}

    def get(self, folder: str, uid: str) -> MessageLocation | None:
        """Return the last known message with a uid of a folder; None if there is none."""
        return next(iter(self._select("folder = ? AND uid = ?", folder, uid)), None)

    def elsewhere(self, location: MessageLocation) -> list[MessageLocation]:
        """Return the other locations of a message, seen before the scan that first saw this one.

        A message that a scan first sees in two folders was delivered to both, or one of the folders
        is a view of the other.
        """
        return self._select(
            "key = ? AND first_seen <> ? "
            "AND NOT (folder = ? AND uid = ? AND missing_since IS NULL)",
            *(location.key, location.first_seen, location.folder, location.uid),
        )

    def copies(self, key: bytes, since: float) -> list[MessageLocation]:
        """Return the copies of a message in folders of classes that were first seen after `since`.

        See `MessageLocation.moved_to`.
        """
        locations = self._select("key = ? AND missing_since IS NULL AND first_seen > ?", key, since)
        return [location for location in locations if location.moved_to == location.folder]

    def _select(self, condition: str, *values: object) -> list[MessageLocation]:
        with self.database.reading() as connection:
            rows = connection.execute(
                f"SELECT {', '.join(MessageLocation._fields)} FROM watched "  # noqa: S608
                f"WHERE account = ? AND {condition}",  # the conditions are constants of this file
                (self.account, *values),
            ).fetchall()
        return [_location(row) for row in rows]

    def put(self, location: MessageLocation) -> None:
        """Store the location of a message, within a transaction."""
        self.database.connection.execute(
            f"INSERT INTO watched(account, {', '.join(MessageLocation._fields)}) "  # noqa: S608
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (account, folder, uid) DO UPDATE SET "
            "key = excluded.key, keyword = excluded.keyword, moved_to = excluded.moved_to, "
            "first_seen = excluded.first_seen, missing_since = excluded.missing_since",
            (self.account, *location._replace(moved_to=_encode_moved_to(location.moved_to))),
        )

    def put_all(
        self, locations: Iterable[MessageLocation], listed_folder: str | None = None
    ) -> None:
        """Store the locations of messages, and that a folder was listed, in one transaction."""
        with self.database.writing():
            for location in locations:
                self.put(location)
            if listed_folder is not None:
                folders = self.database.read_value(self._listed_key) or []
                self.database.store_value(self._listed_key, sorted({*folders, listed_folder}))

    def has_keywords(self) -> bool:
        """Return whether the stored keywords were read from the messages.

        A database can lack the keywords of a Maildir, if an older streamnb listed it.
        """
        if not self.account.startswith("maildir:"):
            return True
        with self.database.reading():
            return bool(self.database.read_value(self._keywords_key))

    def set_keywords_unknown(self) -> None:
        """Store that no keyword is known, so the next listing defines them."""
        with self.database.writing() as connection:
            connection.execute(
                "UPDATE watched SET keyword = ? WHERE account = ?", (UNKNOWN_KEYWORD, self.account)
            )
            self.database.store_value(self._keywords_key, True)

    def delete(self, location: MessageLocation) -> None:
        """Delete a location, within a transaction."""
        self.database.connection.execute(
            "DELETE FROM watched WHERE account = ? AND folder = ? AND uid = ?",
            (self.account, location.folder, location.uid),
        )

    def end_scan(self, now: float) -> None:
        """Store the end of a scan of the account; delete messages missing for 90 days."""
        with self.database.writing() as connection:
            connection.execute(
                "DELETE FROM watched WHERE account = ? AND missing_since < ?",
                (self.account, now - _KEPT_S),
            )
            self.database.store_value(self._look_key, now)

    def last_scan(self) -> float | None:
        """Return the end of the last scan, in seconds since 1970; None before the first scan."""
        with self.database.reading():
            time: float | None = self.database.read_value(self._look_key)
        return time

    def was_listed(self, folder: str) -> bool:
        """Return whether a folder was listed before."""
        with self.database.reading():
            return folder in (self.database.read_value(self._listed_key) or [])
