"""The ledger: what was learned, from whom and when, and how to take it back exactly."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamnb.counts.protocol import Label
from streamnb.errors import StateError
from streamnb.features.token_counts import TokenCounts
from streamnb.mailbox.transactions import Transactions
from streamnb.naive_bayes.receipt import Receipt

__all__ = [
    "COLUMNS",
    "HUMAN",
    "PROGRAM",
    "TEACHERS",
    "Ledger",
    "Row",
    "check_origin",
    "of_known",
    "pack_tokens",
    "read_label",
    "row_of",
    "select_row",
    "unpack_tokens",
]

HUMAN, PROGRAM = "human", "program"
# Rows of an import, and of what was dropped, stand for many messages.
TEACHERS = (HUMAN, PROGRAM, "import", "retired")
_VIEW = struct.Struct("<IB")  # how many features, and how their counts are written


def check_origin(teacher: str, source: str) -> None:
    """Raise ValueError for what is no teacher, or no source, of a lesson."""
    if teacher not in (HUMAN, PROGRAM) or not isinstance(source, str):
        raise ValueError(f"teacher: {HUMAN!r} or {PROGRAM!r}, source: text")


def read_label(text: str) -> str:
    """The class that somebody names; ham and spam in small letters.

    Raises
    ------
    ValueError
        For what is no word, or stands for something else.
    """
    label = text.strip()
    if label.lower() in ("ham", "spam"):
        label = label.lower()
    if label.lower() in ("s", "h", "u", "unsure"):
        raise ValueError(f"{label} is what `classify` says")
    if label == "?":
        raise ValueError("? stands for no class at all")
    if not label or len(label) > 64 or label.split() != [label] or not label.isprintable():
        raise ValueError(f"{label!r:.80} is not one word")
    return label


def of_known(known: Sequence[Label], label: Label) -> Label:
    """The class that is spelt as that, of those that are known."""
    return next((other for other in known if str(other) == str(label)), label)


class Row(NamedTuple):
    """One learning of one message.

    Attributes
    ----------
    id
        Its number in this database; 0 for one that is not yet there.
    digest
        Which message.
    label
        Number of its class.
    teacher
        One of `TEACHERS`.
    source
        Where the message came from, for people to read.
    time
        When it was learned, seconds since 1970; of what was imported, there.
    added, ended
        When it came into this ledger, and when it was taken back: these never run backwards.
    expected
        Number of the class that it had been taken for, None where nothing was known.
    tokenizer
        Which tokenizer made the tokens.
    receipt
        What was added.
    tokens
        The features of each view, without their names; None where they were dropped.
    """

    id: int
    digest: bytes
    label: int
    teacher: str
    source: str
    time: float
    added: float
    ended: float | None
    expected: int | None
    tokenizer: str
    receipt: Receipt
    tokens: tuple[TokenCounts, ...] | None


# How the counts of a view are written.
_ANY, _ONCE, _SMALL = 0, 1, 2
_COUNTS = {_ANY: "<f8", _SMALL: "u1"}


def pack_tokens(views: Sequence[TokenCounts]) -> bytes:
    """The features of a message as bytes."""
    parts = [struct.pack("<B", len(views))]
    for view in views:
        counts = view.counts
        if (counts == 1).all():
            how = _ONCE
        else:
            how = _SMALL if (counts <= 255).all() and (counts == np.rint(counts)).all() else _ANY
        parts += [_VIEW.pack(len(view), how), view.fingerprints.astype("<u8").tobytes()]
        parts.append(counts.astype(_COUNTS[how]).tobytes() if how != _ONCE else b"")
    return b"".join(parts)


def unpack_tokens(packed: bytes) -> tuple[TokenCounts, ...]:
    """What `pack_tokens` packed; ValueError where it is not sound."""
    views = []
    at = 1
    for _ in range(packed[0] if packed else 0):
        if at + _VIEW.size > len(packed):
            raise ValueError("the tokens are cut off")
        size, how = _VIEW.unpack_from(packed, at)
        if how not in (*_COUNTS, _ONCE):
            raise ValueError("the tokens are not sound")
        at += _VIEW.size
        end = at + size * (8 + (0 if how == _ONCE else np.dtype(_COUNTS[how]).itemsize))
        if end > len(packed):
            raise ValueError("the tokens are cut off")
        # astype: copies lie as the processor wants them.
        fingerprints = np.frombuffer(packed, "<u8", size, at).astype(np.uint64)
        counts = np.ones(size)
        if how != _ONCE:
            counts = np.frombuffer(packed, _COUNTS[how], size, at + 8 * size).astype(np.float64)
        views.append(TokenCounts(fingerprints, counts))
        at = end
    if at != len(packed):
        raise ValueError("the tokens are not sound")
    return tuple(views)


COLUMNS = (
    "id, digest, label, teacher, source, time, added, ended, expected, tokenizer, receipt, tokens"
)
# What each column but the last two must be.
_TYPES = (int, bytes, int, str, str, float, float, float | None, int | None, str)


def _storable(columns: Sequence[Any]) -> list[Any]:
    """Columns with text that SQLite can hold: names of files need not be UTF-8."""
    return [
        x.encode("utf-8", "backslashreplace").decode() if isinstance(x, str) else x for x in columns
    ]


def row_of(columns: Sequence[Any]) -> Row:
    """The row that the columns of the table are; any exception where they are not sound."""
    *plain, receipt, tokens = columns
    if not all(isinstance(x, kind) for x, kind in zip(plain, _TYPES, strict=True)):
        raise ValueError("a column of another type")
    return Row._make(
        (*plain, Receipt.of_text(receipt), None if tokens is None else unpack_tokens(tokens))
    )


def select_row(database: Transactions, number: int) -> Sequence[Any] | None:
    """The columns of one row; None where there is none of that number."""
    found: Sequence[Any] | None = database.connection.execute(
        f"SELECT {COLUMNS} FROM ledger WHERE id = ?",  # noqa: S608 (a constant)
        (number,),
    ).fetchone()
    return found


class Ledger:
    """The rows of a database's ledger, within its transactions.

    Parameters
    ----------
    database
        Where it is.
    check
        Raises ValueError for a row that does not belong there.
    """

    def __init__(self, database: Transactions, check: Callable[[Row], None]) -> None:
        self.database = database
        self.check = check

    def _row(self, columns: Sequence[Any]) -> Row:
        try:
            row = row_of(columns)
            self.check(row)
            return row
        except Exception as error:  # whatever was done to the file
            raise StateError(
                f"{self.database.path}: the database is damaged: row {columns[0]} of the ledger "
                f"({error}); restore it from a backup, or see `streamnb rescue`"
            ) from None

    def active(self, digest: bytes) -> Row | None:
        """What is learned of a message now, None where nothing is."""
        found = self.database.connection.execute(
            f"SELECT {COLUMNS} FROM ledger WHERE digest = ? AND ended IS NULL",  # noqa: S608
            (digest,),
        ).fetchone()
        return None if found is None else self._row(found)

    def said_of(self, digest: bytes) -> tuple[Any, Any] | None:
        """The number of a message's class and who said so, as they stand; None where nothing is.

        Unlike `active` it does not read what was learned.
        """
        found: tuple[Any, Any] | None = self.database.connection.execute(
            "SELECT label, teacher FROM ledger WHERE digest = ? AND ended IS NULL", (digest,)
        ).fetchone()
        return found

    def labels_of(self, digests: Sequence[bytes], labels: Sequence[Label]) -> dict[bytes, Label]:
        """The class of those of some messages that have one."""
        asked = ", ".join("?" * len(digests))
        statement = f"SELECT digest, label FROM ledger WHERE ended IS NULL AND digest IN ({asked})"  # noqa: S608
        found = self.database.connection.execute(statement, tuple(digests)) if digests else ()
        numbers = {bytes(key): number for key, number in found}
        if not all(number in range(len(labels)) for number in numbers.values()):
            raise StateError(
                f"{self.database.path}: the database is damaged: a label in the ledger; restore it "
                "from a backup, or see `streamnb rescue`"
            )
        return {key: labels[number] for key, number in numbers.items()}

    def rows(self, where: str = "ended IS NULL", values: Sequence[Any] = ()) -> Iterator[Row]:
        """Rows in the order they were learned in."""
        statement = f"SELECT {COLUMNS} FROM ledger WHERE {where} ORDER BY id"  # noqa: S608 (ours)
        for columns in self.database.stream(statement, values):
            yield self._row(columns)

    def write(self, row: Row) -> None:
        """Write a new row."""
        self.database.connection.execute(
            f"INSERT INTO ledger({COLUMNS.removeprefix('id, ')}) "  # noqa: S608 (a constant)
            f"VALUES (?{', ?' * 10})",
            (*_storable(row[1:10]), json.dumps(row.receipt.as_json()), self._packed(row)),
        )

    @staticmethod
    def _packed(row: Row) -> bytes | None:
        return None if row.tokens is None else pack_tokens(row.tokens)

    def replace_tokens(self, row: Row) -> None:
        """Write the tokens and receipt of a row anew."""
        self.database.connection.execute(
            "UPDATE ledger SET receipt = ?, tokens = ? WHERE id = ?",
            (json.dumps(row.receipt.as_json()), self._packed(row), row.id),
        )

    def replace_receipts(self, receipts: Mapping[int, Receipt]) -> None:
        """Write the receipts of rows, by their numbers, anew."""
        self.database.connection.executemany(
            "UPDATE ledger SET receipt = ? WHERE id = ?",
            [(json.dumps(receipt.as_json()), number) for number, receipt in receipts.items()],
        )

    def end(self, row: Row, time: float | None) -> None:
        """Say when a row was taken back; None: it holds again."""
        self.database.connection.execute("UPDATE ledger SET ended = ? WHERE id = ?", (time, row.id))

    def remove(self, row: Row) -> None:
        """Leave no trace of a row."""
        self.database.connection.execute("DELETE FROM ledger WHERE id = ?", (row.id,))
