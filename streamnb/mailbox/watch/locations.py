"""Where each message of an account was last seen: what moves are told by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from streamnb.mailbox.transactions import Transactions

_KEPT = 90 * 86400.0  # seconds that a message is remembered which is no longer anywhere


class Place(NamedTuple):
    """A message in a folder, as it was last seen; the columns of `watched`.

    `filed` is the folder that we move it to, or true where a program has put it there.
    """

    folder: str
    uid: str
    key: bytes
    said: str
    filed: bool | str
    since: float
    gone: float | None


def _as_text(filed: bool | str) -> str:
    """`Place.filed` as the database has it: 0, 1, or = and a folder."""
    return f"={filed}" if isinstance(filed, str) else f"{int(filed)}"


def _place(row: Sequence[Any]) -> Place:
    place = Place(*row)
    text = str(place.filed)
    return place._replace(filed=text[1:] if text.startswith("=") else text == "1")


class Places:
    """What is known of the folders of one account.

    Parameters
    ----------
    database
        Where it is kept.
    account
        Which account.
    """

    def __init__(self, database: Transactions, account: str) -> None:
        self.database = database
        self.account = account
        self._name = f"watched {account}"

    def of_folder(self, folder: str) -> dict[str, Place]:
        """The messages that were there when it was last looked at, by uid."""
        found = self._find("folder = ? AND gone IS NULL", folder)
        return {place.uid: place for place in found}

    def at(self, folder: str, uid: str) -> Place | None:
        """What was last known of a place in a folder."""
        return next(iter(self._find("folder = ? AND uid = ?", folder, uid)), None)

    def of_message(self, key: bytes, but: tuple[str, str], recent: float) -> Place | None:
        """Where a message was seen before, but for where it is now.

        Where it has gone from since `recent` comes first, then where it still is.
        """
        found = self._find(
            "key = ? AND NOT (folder = ? AND uid = ? AND gone IS NULL) "
            "ORDER BY coalesce(gone >= ?, FALSE) DESC, gone IS NULL DESC, gone DESC, "
            "since DESC LIMIT 1",
            *(key, *but, recent),
        )
        return next(iter(found), None)

    def _find(self, where: str, *values: object) -> list[Place]:
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT folder, uid, key, said, filed, since, gone FROM watched "  # noqa: S608 (ours)
                f"WHERE account = ? AND {where}",
                (self.account, *values),
            ).fetchall()
        return [_place(row) for row in rows]

    def put(self, place: Place) -> None:
        """Write where a message is, within a transaction."""
        self.database.connection.execute(
            "INSERT INTO watched(account, folder, uid, key, said, filed, since, gone) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (account, folder, uid) DO UPDATE SET "
            "key = excluded.key, said = excluded.said, filed = excluded.filed, "
            "since = excluded.since, gone = excluded.gone",
            (self.account, *place._replace(filed=_as_text(place.filed))),
        )

    def put_all(self, places: Iterable[Place], looked_at: str | None = None) -> None:
        """Write where messages are, and that a folder was looked at, all or nothing."""
        with self.database.writing():
            for place in places:
                self.put(place)
            if looked_at is not None:
                before = self.database.value(self._name) or []
                self.database.keep(self._name, sorted({*before, looked_at}))

    def drop(self, place: Place) -> None:
        """Forget a place that another one has taken, within a transaction."""
        self.database.connection.execute(
            "DELETE FROM watched WHERE account = ? AND folder = ? AND uid = ?",
            (self.account, place.folder, place.uid),
        )

    def purge(self, now: float) -> None:
        """Forget messages that have been nowhere for long."""
        with self.database.writing() as connection:
            connection.execute(
                "DELETE FROM watched WHERE account = ? AND gone < ?", (self.account, now - _KEPT)
            )

    def looked_at(self, folder: str) -> bool:
        """Whether a folder was ever looked at."""
        with self.database.reading():
            return folder in (self.database.value(self._name) or [])
