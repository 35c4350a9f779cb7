"""The log of the latest verdicts, for a person to check and correct.

Number and age of its entries are limited, and it can be turned off. It stores the features of each
message, so a deleted message can still be learned.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from streamnb.errors import BusyError, StateError, damage_error, message_count, printable
from streamnb.features.token_counts import TokenCounts
from streamnb.mail import parse
from streamnb.mailbox.blend import delete_scores
from streamnb.mailbox.digest import digest
from streamnb.mailbox.ledger import (
    ERASED,
    HUMAN,
    PROGRAM,
    Row,
    pack_tokens,
    places_in,
    unpack_tokens,
)
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.message_id import message_id
from streamnb.mailbox.service.response import Response
from streamnb.mailbox.stored_classifier import Outcome

WEB = "web"  # source of labels that the user sets on the page
LIMITS = "record"  # name of the stored limits

_SCHEMA = """
CREATE TABLE IF NOT EXISTS verdicts(
    id {row_id},
    digest {blob} NOT NULL UNIQUE,  -- identity of the message (`digest.digest`)
    time {real} NOT NULL,           -- time of the verdict, seconds since 1970
    place TEXT NOT NULL,            -- location: account, folder and uid in JSON, or a word
    moved TEXT,                     -- the folder that it was moved to
    sender TEXT NOT NULL,
    subject TEXT NOT NULL,
    mark TEXT NOT NULL,             -- mark of the verdict (`Response`)
    label TEXT,
    score {real} NOT NULL,
    probability {real} NOT NULL,
    tokenizer TEXT NOT NULL,        -- identity of the tokenizer that made the tokens
    tokens {blob} NOT NULL,         -- features of the message (`pack_tokens`)
    names {blob} NOT NULL           -- names of the features, compressed; some views have none
)
"""
_MAX_FIELD_LENGTH = 200  # characters of a sender or subject
_MAX_WAIT_S = 1.0  # seconds to wait for other writers before a verdict is dropped
# The age of entries is measured from the latest entry that is older than a grace period. The period
# is this share of the maximum age: 1 day of 30 days. So a clock that is ahead deletes nothing if it
# is corrected within the period. Entries stay longer by the period: 2 days with twice the share.
_GRACE_SHARE = 1 / 30
_MAX_NAME_BYTES = 1 << 14  # bytes of the names of a message


class LogLimits(NamedTuple):
    """The limits of the log of verdicts.

    Attributes
    ----------
    most
        Maximum number of messages; 0 turns the log off.
    days
        Maximum age in days; 0 turns the log off.
    """

    most: int = 500
    days: float = 30.0

    def check(self) -> None:
        """Raise ValueError if a limit is out of range."""
        if not 0 <= self.most <= 100_000 or not 0 <= self.days <= 36_500:
            raise ValueError(
                "verdicts are stored for at most 100,000 messages and 36,500 days, not for "
                f"{self.most:,} messages and {self.days:g} days"
            )


class LoggedVerdict(NamedTuple):
    """The verdict on a message.

    Attributes
    ----------
    id, digest, time
        Number of the entry, digest of the message, time of the verdict.
    place, moved
        Location of the message, and the folder that it was moved to.
    sender, subject
        Fields of its header.
    mark, label, score, probability
        As `Response`.
    learned_label
        The label that the message has in the ledger, None if it was not learned.
    labelled_by
        The author of that label.
    """

    id: int
    digest: bytes
    time: float
    place: str
    moved: str | None
    sender: str
    subject: str
    mark: str
    label: str | None
    score: float
    probability: float
    learned_label: str | None = None
    labelled_by: str | None = None


_COLUMNS = LoggedVerdict._fields[:-2]  # the last two are from the ledger


class VerdictLog:
    """The log of a mailbox's verdicts.

    Parameters
    ----------
    mailbox
        The mailbox.
    """

    def __init__(self, mailbox: Mailbox) -> None:
        self.mailbox = mailbox

    @property
    def limits(self) -> LogLimits:
        """The limits of the log."""
        with self.mailbox.database.reading():
            stored = self.mailbox.database.read_value(LIMITS)
        try:
            return (
                LogLimits()
                if stored is None
                else LogLimits(int(stored["most"]), float(stored["days"]))
            )
        except (TypeError, ValueError, KeyError):
            raise damage_error(self.mailbox.path, "state 'record'") from None

    def limit(self, limits: LogLimits) -> None:
        """Set the limits, and delete verdicts beyond them without a trace in the file.

        Raises
        ------
        BusyError
            If another process reads the database, so traces of deleted verdicts stay in the file.
        """
        limits.check()
        earlier = self.limits
        self.mailbox.database.overwrite_deleted()
        with self._writing() as connection:
            self.mailbox.database.store_value(LIMITS, limits._asdict())
            deleted = self._purge(connection, limits, time.time() - limits.days * 86400)
        if deleted or (limits.most <= earlier.most and limits.days <= earlier.days):
            self._release_space(f"verdicts on {message_count(deleted)}")

    def note(
        self, message: bytes, response: Response, place: str, moved: str | None = None
    ) -> None:
        """Log a verdict; it replaces an earlier one on the same message.

        Parameters
        ----------
        message
            The message.
        response
            The verdict.
        place
            Location of the message.
        moved
            The folder it was moved to.
        """
        limits = self.limits
        if 0 in limits:
            return
        mailbox = self.mailbox
        views = mailbox.classifier.model.views_of(mailbox.classifier.count(message))
        header = {name.lower(): value for name, value in reversed(parse(message).headers)}
        row = (
            digest(message),
            time.time(),
            place,
            moved,
            _one_line(header.get("from", "")),
            _one_line(header.get("subject", "")),
            response.mark,
            response.label,
            response.score,
            response.probability,
            mailbox.tokenizer_id,
            pack_tokens(views),
            _pack_names(views),
        )
        with self._writing(_MAX_WAIT_S) as connection:
            connection.execute("DELETE FROM verdicts WHERE digest = ?", (row[0],))
            columns = ", ".join((*_COLUMNS[1:], "tokenizer", "tokens", "names"))
            values = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO verdicts({columns}) VALUES ({values})", row)  # noqa: S608 (ours)
            self._purge(connection, limits, self._expiry(connection, limits))

    @contextmanager
    def _writing(self, wait: float | None = None) -> Iterator[Any]:
        """Open a transaction that does not wait for the disk: power failures can lose a verdict."""
        database = self.mailbox.database
        with database.writing(durable=False, wait=wait) as connection:
            database.create(_SCHEMA)
            yield connection

    @staticmethod
    def _expiry(connection: Any, limits: LogLimits) -> float | None:
        """Return the time before which entries are too old; None if no entry is too old.

        Entries with a time in the future, from a clock that was ahead, are ignored. If the first
        entry is such an entry, no entry would ever expire.
        """
        now, age_s = time.time(), limits.days * 86400
        (first,) = connection.execute(
            "SELECT time FROM verdicts WHERE time <= ? ORDER BY id LIMIT 1", (now,)
        ).fetchone() or (now,)
        if first >= now - age_s:
            return None
        (latest,) = connection.execute(
            "SELECT time FROM verdicts WHERE time <= ? ORDER BY id DESC LIMIT 1",
            (now - _GRACE_SHARE * age_s,),
        ).fetchone()
        return None if first >= latest - age_s else float(latest - age_s)

    @staticmethod
    def _purge(connection: Any, limits: LogLimits, expiry: float | None) -> int:
        """Delete verdicts beyond the limits; return their number."""
        deleted = 0
        if expiry is not None:
            deleted = connection.execute("DELETE FROM verdicts WHERE time < ?", (expiry,)).rowcount
        surplus = connection.execute(
            "DELETE FROM verdicts WHERE id <= "
            "(SELECT id FROM verdicts ORDER BY id DESC LIMIT 1 OFFSET ?)",
            (limits.most,),
        )
        return int(deleted + surplus.rowcount)

    def _has_table(self) -> bool:
        return "verdicts" in self.mailbox.database.tables()

    def entries(
        self, kind: str = "all", search: str = "", most: int = 50, before: int | None = None
    ) -> list[LoggedVerdict]:
        """Return the latest verdicts, newest first.

        Parameters
        ----------
        kind
            "unsure", "moved", "labelled" or "all".
        search
            Text that sender, subject or place must contain.
        most
            Maximum number of entries.
        before
            Return only entries with smaller numbers.
        """
        condition = {
            "all": "TRUE",
            "unsure": "v.mark = 'U' AND l.id IS NULL",
            "moved": "v.moved IS NOT NULL",
            "labelled": "l.id IS NOT NULL",
        }[kind]
        escaped = search.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return self._select(
            f"{condition} AND v.id < ? AND lower(v.sender || ' ' || v.subject || ' ' || v.place) "
            "LIKE lower(?) ESCAPE '\\' ORDER BY v.id DESC LIMIT ?",
            (2**62 if before is None else before, f"%{escaped}%", most),
        )

    def entry(self, number: int) -> LoggedVerdict | None:
        """Return the entry with this number, None if there is none."""
        return next(iter(self._select("v.id = ?", (number,))), None)

    def _select(self, condition: str, values: tuple[Any, ...]) -> list[LoggedVerdict]:
        with self.mailbox.reading():
            if not self._has_table():
                return []
            columns = ", ".join(f"v.{name}" for name in _COLUMNS)
            rows = self.mailbox.database.connection.execute(
                f"SELECT {columns}, l.label, l.labelled_by FROM verdicts AS v LEFT JOIN "  # noqa: S608 (ours)
                f"ledger AS l ON l.digest = v.digest AND l.removed_at IS NULL WHERE {condition}",
                values,
            ).fetchall()
            labels = self.mailbox.labels
            return [
                LoggedVerdict._make(
                    (*plain, None if label is None else str(labels[label]), labelled_by)
                )
                for *plain, label, labelled_by in rows
            ]

    def counted(self, number: int) -> Any:
        """Return the features of a logged message, as the mailbox's model takes them.

        Raises
        ------
        StateError
            If another tokenizer computed them, or they are damaged.
        LookupError
            If there is no such message.
        """
        with self.mailbox.reading():
            row = None
            if self._has_table():
                row = self.mailbox.database.connection.execute(
                    "SELECT tokenizer, tokens, names FROM verdicts WHERE id = ?", (number,)
                ).fetchone()
            if row is None:
                raise LookupError("the log of verdicts does not have this message")
            if row[0] != self.mailbox.tokenizer_id:
                raise StateError(
                    "the features of this message are from another tokenizer; learn its mail by "
                    "`streamnb learn`"
                )
            model = self.mailbox.classifier.model
            try:
                views = unpack_tokens(row[1])
                if len(views) != len(model.view_models):
                    raise ValueError("it has other views")
                return model.join_views(_with_names(views, row[2]))
            except Exception as error:  # the file can have any content
                raise damage_error(
                    self.mailbox.path, f"a row of the log of verdicts ({error})"
                ) from None

    def learn(self, number: int, label: str) -> Outcome:
        """Learn a logged message with the label of a person."""
        entry = self.entry(number)
        if entry is None:
            raise LookupError("the log of verdicts does not have this message")
        counted = self.counted(number)
        return self.mailbox.transact(
            lambda: self.mailbox.learn_features(
                lambda: (counted, None), entry.digest, label, HUMAN, WEB, None, "errors"
            )
        )

    def erase(self, keys: Sequence[bytes] = (), sender: str | None = None) -> int:
        """Unlearn messages, and remove them from the log and the ledger.

        Parameters
        ----------
        keys
            Their digests.
        sender
            Text in the sender of logged messages.

        Returns
        -------
        int
            Number of messages erased.
        """
        from streamnb.mailbox.undo import undone_messages  # here: `filter` needs none

        mailbox = self.mailbox
        mailbox.database.overwrite_deleted()
        erased_keys = set(keys)
        erased = 0
        features: list[tuple[TokenCounts, ...]] = []
        with mailbox.writing():
            run = mailbox.database.connection.execute
            undone = undone_messages(mailbox)
            mailbox.database.drop_undo_log()
            has_table = self._has_table()
            if sender is not None and has_table:
                senders = run("SELECT digest, sender FROM verdicts").fetchall()
                erased_keys |= {key for key, name in senders if sender.lower() in name.lower()}
            numbers: defaultdict[bytes, list[int]] = defaultdict(list)
            for number, key in run("SELECT id, digest FROM ledger"):
                if key in erased_keys:
                    numbers[key].append(number)
            for key in erased_keys:
                removed = len(numbers[key])
                for row in map(mailbox.ledger.row, numbers[key]):
                    _erase_row(mailbox, row)
                    features += [] if row.tokens is None else [row.tokens]
                delete_scores(mailbox.database, key)
                if has_table:
                    removed += run("DELETE FROM verdicts WHERE digest = ?", (key,)).rowcount
                erased += removed > 0 or key in undone
            _erase_features(mailbox, features)
        self._release_space(message_count(erased))
        return erased

    def _release_space(self, erased: str) -> None:
        """Remove the traces of deleted rows from the file; raise BusyError if they stay."""
        if not self.mailbox.database.shrink():
            raise BusyError(
                f"{self.mailbox.path}: {erased} erased, but traces stay in the file because "
                "another process reads the database; stop it, then run this command again"
            )


def learn_if_sure(mailbox: Mailbox, message: bytes, response: Response) -> Outcome | None:
    """Learn a message with a sure verdict, with the program as the source of its label."""
    if response.status == 2 or response.label is None:
        return None
    return mailbox.learn(message, response.label, PROGRAM, "filter")


def record_verdict(
    mailbox: Mailbox, message: bytes, response: Response, place: str, learn: bool
) -> Outcome | None:
    """Record a verdict after it was sent, and learn the message if the verdict is sure.

    Parameters
    ----------
    mailbox
        The mailbox that gave the verdict.
    message, response
        The message and its verdict.
    place
        Name of the listener, and the mail server's queue id if it is known. The Message-ID is
        added.
    learn
        Whether to learn the message if the verdict is sure.

    Returns
    -------
    Outcome or None
        The result of learning, None if the message was not learned.

    Raises
    ------
    StreamNBError
        If the database cannot be written.
    """
    place = f"{place} {printable(message_id(message))}".strip()
    VerdictLog(mailbox).note(message, response, place)
    return learn_if_sure(mailbox, message, response) if learn else None


def _erase_row(mailbox: Mailbox, row: Row) -> None:
    """Unlearn a row and delete it."""
    if row.removed_at is None and row.tokens is None:
        # The sums of `compact` include a dropped message. Its row stays, without its identity.
        mailbox.database.connection.execute(
            "UPDATE ledger SET digest = ?, source = ?, predicted = NULL WHERE id = ?",
            (os.urandom(32), ERASED, row.id),
        )
        return
    if row.removed_at is None:
        mailbox.unlearn_row(row)
    mailbox.ledger.remove(row)


def _erase_features(mailbox: Mailbox, messages: Sequence[tuple[TokenCounts, ...]]) -> None:
    """Delete features without a count or row, and names that only the erased messages had."""
    named = [np.zeros(counts.places, bool) for counts in mailbox.counts]  # in the ledger
    for (packed,) in mailbox.database.stream("SELECT tokens FROM ledger WHERE tokens IS NOT NULL"):
        for marks, places in zip(named, places_in(packed), strict=False):
            marks[places[places < len(marks)]] = True
    for view, (counts, marks) in enumerate(zip(mailbox.counts, named, strict=True)):
        fingerprints = [tokens[view].fingerprints for tokens in messages]
        counts.erase(np.concatenate([np.empty(0, np.uint64), *fingerprints]), marks)


def _one_line(value: str) -> str:
    """Return a header field as one printable line."""
    return (
        printable(" ".join(value[:_MAX_FIELD_LENGTH].split())).encode("utf-8", "replace").decode()
    )


def _pack_names(views: Sequence[TokenCounts]) -> bytes:
    parts = []
    room = _MAX_NAME_BYTES
    for view in views:
        ends, names = None, b""
        if view.names is not None and view.ends is not None and len(view.names) <= room:
            ends, names = view.ends.tolist(), view.names
        room -= len(names)
        parts.append([ends, names.decode("latin-1")])
    return zlib.compress(json.dumps(parts).encode(), 6)


def _with_names(views: Sequence[TokenCounts], packed: bytes) -> tuple[TokenCounts, ...]:
    unpacking = zlib.decompressobj()
    parts = json.loads(unpacking.decompress(packed, 1 << 22))
    return tuple(
        view
        if ends is None
        else TokenCounts(view.fingerprints, view.counts, names.encode("latin-1"), np.array(ends))
        for view, (ends, names) in zip(views, parts, strict=True)
    )
