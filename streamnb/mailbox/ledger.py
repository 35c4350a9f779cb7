"""The ledger: a row for each learned label, with the data to unlearn it exactly.

A row has the features of its message as bytes. The first byte is the number of views. Each view
follows: the number of its features, the types of features and counts, the features, and the counts.
A feature is a fingerprint of 8 bytes.

Most features have a place in `streamnb.counts.database`, which takes a quarter of the bytes. If
some features are written by place, the first byte has the flags `PLACED`, and zlib compresses the
other bytes. Then the features of a view are sorted by place, and those without a place come first.
A feature is written as the difference of its 1 + place from that of the previous feature. The
lowest bytes of all differences come first, then the next bytes. The fingerprints of the features
without a place follow.
"""

from __future__ import annotations

import io
import json
import math
import struct
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamnb.counts.database import SqlCounts
from streamnb.counts.places import distinct
from streamnb.counts.protocol import Ints, Keys, Label, check_labels
from streamnb.database import Database
from streamnb.errors import damage_error
from streamnb.features.token_counts import TokenCounts
from streamnb.naive_bayes.receipt import Receipt
from streamnb.naive_bayes.text_model import TextModel

# Functions that return the features at places of a view, and the places of features (-1: no place).
FeaturesAt = Callable[[int, Ints], Keys]
PlacesOf = Callable[[int, Keys], Ints]

_VIEW = struct.Struct("<IB")  # number of features, format of features and counts
# Format byte: the type of the counts, plus 16 times the number of bytes of a place.
_ANY, _ONCE, _SMALL, _PLACE = 0, 1, 2, 16
_COUNTS = {_ANY: "<f8", _SMALL: "u1"}
_MAX_PLACE_BYTES = 4
# The first byte is the number of views. These two flags are added to it if the features are stored
# by place, and compressed.
_PLACED = 0xC0
PLACED = bytes([_PLACED])  # in queries: features with places begin with this byte or a larger one
# limit in bytes of a message's features; the largest message needs a tenth of it
_MAX_BYTES = 1 << 28


def pack_tokens(views: Sequence[TokenCounts], places_of: PlacesOf | None = None) -> bytes:
    """Return a message's features as bytes.

    With `places_of`, features that have a place are written by place, sorted within each view.
    """
    parts = []
    flags = 0
    for number, view in enumerate(views):
        counts = view.counts
        width, features = 0, view.fingerprints.astype("<u8").tobytes()
        if places_of is not None:
            places = places_of(number, view.fingerprints)
            if -1 < places.max(initial=-1) < (1 << (8 * _MAX_PLACE_BYTES)) - 1:
                order = np.argsort(places, kind="stable")
                counts = counts[order]
                width, features = _with_places(view.fingerprints[order], places[order])
                flags = _PLACED
        if (counts == 1).all():
            count_kind = _ONCE
        else:
            is_small = (counts <= 255).all() and (counts == np.rint(counts)).all()
            count_kind = _SMALL if is_small else _ANY
        parts += [_VIEW.pack(len(view), count_kind + _PLACE * width), features]
        parts.append(counts.astype(_COUNTS[count_kind]).tobytes() if count_kind != _ONCE else b"")
    content = b"".join(parts)
    return bytes([len(views) | flags]) + (zlib.compress(content) if flags else content)


def _with_places(fingerprints: Keys, places: Ints) -> tuple[int, bytes]:
    """Return the bytes of a difference of places, and the order of the features by place."""
    differences = np.diff(places, prepend=-1)
    width = (int(differences.max()).bit_length() + 7) // 8
    numbers = differences.astype("<u8").view("u1").reshape(-1, 8)[:, :width]
    return width, numbers.T.tobytes() + fingerprints[places < 0].astype("<u8").tobytes()


def unpack_tokens(packed: bytes, features_at: FeaturesAt | None = None) -> tuple[TokenCounts, ...]:
    """Return the features that `pack_tokens` packed. Raise ValueError for damaged bytes."""
    flags = packed[0] & _PLACED if packed else 0
    if flags and (features_at is None or flags != _PLACED):
        raise ValueError("the tokens are damaged")
    reader = _Reader(_decompress(packed[1:]) if flags else packed[1:])
    views = []
    for number in range(packed[0] - flags if packed else 0):
        size, count_kind = _VIEW.unpack(reader.take(_VIEW.size))
        width, count_kind = divmod(count_kind, _PLACE)
        if count_kind not in (*_COUNTS, _ONCE) or width > _MAX_PLACE_BYTES or (width and not flags):
            raise ValueError("the tokens are damaged")
        if width and features_at is not None:
            written = reader.numbers("u1", size * width)
            numbers = np.zeros((size, 8), "u1")
            numbers[:, :width] = written.reshape(width, size).T
            places = numbers.view("<u8")[:, 0].astype(np.int64).cumsum() - 1
            is_placed = places >= 0
            fingerprints = features_at(number, places[is_placed])
            if len(fingerprints) < size:
                placed, fingerprints = fingerprints, np.empty(size, np.uint64)
                fingerprints[is_placed] = placed
                fingerprints[~is_placed] = reader.numbers("<u8", size - len(placed))
        else:
            fingerprints = reader.numbers("<u8", size).astype(np.uint64)
        counts = np.ones(size)
        if count_kind != _ONCE:
            counts = reader.numbers(_COUNTS[count_kind], size).astype(np.float64)
        views.append(TokenCounts(fingerprints, counts))
    if reader.read(1):
        raise ValueError("the tokens are damaged")
    return tuple(views)


def _decompress(content: bytes) -> bytes:
    """Return the decompressed bytes. Raise ValueError for damaged ones."""
    decompressor = zlib.decompressobj()
    try:
        plain = decompressor.decompress(content, _MAX_BYTES)
    except zlib.error:
        raise ValueError("the tokens are damaged") from None
    if not decompressor.eof or decompressor.unused_data:
        raise ValueError("the tokens are cut off")
    return plain


def places_in(packed: bytes) -> list[Ints]:
    """Return the places of each view, up to the first damaged byte."""
    view_places: list[Ints] = []

    def note_places(view: int, places: Ints) -> Keys:
        view_places.extend([np.empty(0, np.int64)] * (view - len(view_places)))
        view_places.append(places)
        return places.astype(np.uint64)

    with suppress(ValueError):
        unpack_tokens(packed, note_places)
    return view_places


class _Reader(io.BytesIO):
    """A reader of consecutive bytes."""

    def take(self, size: int) -> bytes:
        """Return the next bytes. Raise ValueError if there are too few."""
        content = self.read(size)
        if len(content) < size:
            raise ValueError("the tokens are cut off")
        return content

    def numbers(self, kind: str, size: int) -> NDArray[Any]:
        """Return the next numbers of a type."""
        return np.frombuffer(self.take(size * np.dtype(kind).itemsize), kind)


HUMAN, PROGRAM, IMPORT, RETIRED = "human", "program", "import", "retired"
ERASED = "erased"  # source of a row whose message was erased after its features were dropped
LABELLERS = (HUMAN, PROGRAM, IMPORT, RETIRED)
_COMMANDS = "commands"  # name of the stored time spans of commands
# number of recent commands that `undo --last` can undo; each takes 40 bytes
_MAX_COMMANDS = 100

# SQL conditions. Rows of an import, and of dropped messages, represent many messages.
IS_RETIRED = f"labelled_by = '{RETIRED}'"
IS_SUM = f"labelled_by IN ('{IMPORT}', '{RETIRED}')"
IS_MESSAGE = f"tokens IS NOT NULL AND NOT {IS_SUM}"  # a row of one message with its features


def check_origin(labelled_by: str, source: str) -> None:
    """Raise ValueError unless author and source of a label are valid."""
    if labelled_by not in (HUMAN, PROGRAM) or not isinstance(source, str):
        raise ValueError(f"labelled_by must be {HUMAN!r} or {PROGRAM!r}, and source must be text")


def read_label(text: str) -> str:
    """Return the class that a text names, in Unicode's form NFC; ham and spam in lower case.

    Raises
    ------
    ValueError
        If the text is not one word, or is reserved, such as ``unsure``.
    """
    label = unicodedata.normalize("NFC", text.strip())  # labels that look the same are one class
    if label.lower() in ("ham", "spam"):
        label = label.lower()
    if label.lower() in ("s", "h", "u", "unsure"):
        raise ValueError(f"the label {label} is a verdict of `classify`; choose another word")
    if label == "?":
        raise ValueError("? means no class, so it is not a label")
    word = label.split() == [label] and label.isprintable() and "\ufffd" not in label
    if not word or len(label) > 64:
        raise ValueError(f"{label!r:.80} is not one word")
    return label


def check_label(label: Label) -> Label:
    """Return a label as the database stores it: text as `read_label` reads it.

    Raises
    ------
    ValueError
        If no class can have that label.
    """
    check_labels([label])
    return read_label(label) if isinstance(label, str) else label


def of_known(labels: Sequence[Label], label: Label) -> Label:
    """Return the known label with the same spelling, or `label` itself."""
    return next((other for other in labels if str(other) == str(label)), label)


class Row(NamedTuple):
    """One learning of one message.

    Attributes
    ----------
    id
        Its number in this database; 0 for a row that is not stored yet.
    digest
        Identity of the message (`digest.digest`).
    label
        Index of its class.
    labelled_by
        One of `LABELLERS`.
    source
        Origin of the message, for people to read.
    time
        Time of learning, in seconds since 1970. An imported row has its original time.
    added_at, removed_at
        Moments at which it was added to this ledger and removed (`StoredClassifier.moment`).
    predicted
        Index of the class predicted before learning; None if nothing was learned before.
    tokenizer
        Identity of the tokenizer that computed the tokens.
    receipt
        The changes that learning made to the model.
    tokens
        The features of each view, without names; None if they were dropped.
    """

    id: int
    digest: bytes
    label: int
    labelled_by: str
    source: str
    time: float
    added_at: float
    removed_at: float | None
    predicted: int | None
    tokenizer: str
    receipt: Receipt
    tokens: tuple[TokenCounts, ...] | None


COLUMNS = ", ".join(Row._fields)
_SELECT = f"SELECT {COLUMNS} FROM ledger WHERE {{}} ORDER BY id"  # noqa: S608 (ours)
# Errors that a damaged row can raise. A failing database raises other errors.
_UNSOUND = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
# Types of all columns but the last two.
_TYPES = (int, bytes, int, str, str, float, float, float | None, int | None, str)


def _storable(columns: Sequence[Any]) -> list[Any]:
    """Return columns with text that SQLite can store, because a file name may not be UTF-8."""
    return [
        x.encode("utf-8", "backslashreplace").decode() if isinstance(x, str) else x for x in columns
    ]


def _receipt_text(receipt: Receipt) -> str:
    return json.dumps(receipt.to_json(), separators=(",", ":"))


def row_of(columns: Sequence[Any], features_at: FeaturesAt) -> Row:
    """Return the row for columns of the table; damage raises an exception of any type."""
    *plain, receipt, tokens = columns
    if not all(isinstance(x, kind) for x, kind in zip(plain, _TYPES, strict=True)):
        raise ValueError("a column has the wrong type")
    views = None if tokens is None else unpack_tokens(tokens, features_at)
    return Row._make((*plain, Receipt.from_text(receipt), views))


def check_row(row: Row, model: TextModel, classes: int) -> None:
    """Raise ValueError for a row of another model, or of a model with more classes."""
    predicted_classes = () if row.predicted is None else (row.predicted,)
    if any(k not in range(classes) for k in (row.label, *predicted_classes)):
        raise ValueError("unknown class")
    if row.tokens is not None and len(row.tokens) != len(model.view_models):
        raise ValueError("the number of views differs")
    model.check_receipt(row.receipt, classes)
    if row.receipt.decay_halvings != 0:
        raise ValueError("the receipt has decay, which a database does not support")
    if row.removed_at is not None and not row.added_at <= row.removed_at < math.inf:
        raise ValueError("the row was removed before it was added")
    if row.labelled_by not in LABELLERS:
        raise ValueError(f"labelled_by: expected one of {', '.join(LABELLERS)}")


def select_row(database: Database, number: int) -> Sequence[Any] | None:
    """Return the columns of the row with this id, None if there is none."""
    return database.connection.execute(_SELECT.format("id = ?"), (number,)).fetchone()


class Ledger:
    """The rows of a database's ledger, within its transactions.

    Parameters
    ----------
    database
        The database that holds them.

    Attributes
    ----------
    model
        The model that learned the rows.
    counts
        The counts of the model's views, which have the place of each feature.
    """

    model: TextModel
    counts: list[SqlCounts]

    def __init__(self, database: Database) -> None:
        self.database = database
        self._held: dict[bytes, Row] | None = None

    def features_at(self, view: int, places: Ints) -> Keys:
        """Return the features at the given places of a view."""
        return self.counts[view].features_at(places)

    def places_of(self, view: int, features: Keys) -> Ints:
        """Return the place of each feature of a view, -1 for a feature without one."""
        return self.counts[view].places_of(features)

    def _row(self, columns: Sequence[Any]) -> Row:
        try:
            row = row_of(columns, self.features_at)
            check_row(row, self.model, len(self.counts[0].labels))
            return row
        except _UNSOUND as error:
            raise damage_error(
                self.database.path, f"row {columns[0]} of the ledger is not valid ({error})"
            ) from None

    def active(self, digest: bytes) -> Row | None:
        """Return the active row of a message, None if it is not learned."""
        return next(iter(self.find("digest = ? AND removed_at IS NULL", (digest,))), None)

    def label_of(self, digest: bytes) -> tuple[Any, Any, Any] | None:
        """Return class index, `labelled_by` and source of a message, None if it is not learned.

        The values are not checked. Unlike `active`, this does not read the features.
        """
        if self._held is not None and digest in self._held:
            row = self._held[digest]
            return row.label, row.labelled_by, row.source
        return self.database.connection.execute(
            "SELECT label, labelled_by, source FROM ledger WHERE digest = ? AND removed_at IS NULL",
            (digest,),
        ).fetchone()

    def labels_of(self, digests: Sequence[bytes], labels: Sequence[Label]) -> dict[bytes, Label]:
        """Return the class of each message that is learned."""
        marks = ", ".join("?" * len(digests))
        statement = (
            f"SELECT digest, label FROM ledger WHERE removed_at IS NULL AND digest IN ({marks})"  # noqa: S608
        )
        rows = self.database.connection.execute(statement, tuple(digests)) if digests else ()
        numbers = {bytes(key): number for key, number in rows}
        if not all(number in range(len(labels)) for number in numbers.values()):
            raise damage_error(self.database.path, "a label in the ledger is not valid")
        return {key: labels[number] for key, number in numbers.items()}

    def rows(
        self, condition: str = "removed_at IS NULL", values: Sequence[Any] = ()
    ) -> Iterator[Row]:
        """Yield rows in the order in which they were learned."""
        for columns in self.database.stream(_SELECT.format(condition), values):
            yield self._row(columns)

    def find(self, condition: str, values: Sequence[Any]) -> list[Row]:
        """Return the few rows that satisfy an SQL condition, in the order of `rows`."""
        selected = self.database.connection.execute(_SELECT.format(condition), values).fetchall()
        return [self._row(columns) for columns in selected]

    @contextmanager
    def deferring_writes(self) -> Iterator[None]:
        """Write new rows when the context ends, because their features have no places before.

        Each message may get one new row. Until the context ends, only `label_of` finds the row.
        """
        held = self._held = {}
        try:
            yield
        finally:
            self._held = None
        for row in held.values():
            self.write(row)

    def row(self, number: int) -> Row:
        """Return a row. Raise StateError if it does not exist."""
        for row in self.find("id = ?", (number,)):
            return row
        raise damage_error(self.database.path, f"row {number} of the ledger is missing")

    def write(self, row: Row) -> None:
        """Write a new row."""
        if self._held is not None:
            self._held[row.digest] = row
            return
        self.database.connection.execute(
            f"INSERT INTO ledger({COLUMNS.removeprefix('id, ')}) "  # noqa: S608 (a constant)
            f"VALUES (?{', ?' * 10})",
            (
                *_storable(row[1:10]),
                _receipt_text(row.receipt),
                None if row.tokens is None else pack_tokens(row.tokens, self.places_of),
            ),
        )

    def replace_tokens(self, row: Row, by_place: bool = True) -> None:
        """Replace the tokens of a row, packed by places or by fingerprints."""
        places_of = self.places_of if by_place else None
        packed = None if row.tokens is None else pack_tokens(row.tokens, places_of)
        self.database.connection.execute(
            "UPDATE ledger SET tokens = ? WHERE id = ?", (packed, row.id)
        )

    def repack(self, numbers: Sequence[int], by_place: bool) -> None:
        """Replace the tokens of rows, given by id. Memory holds all of them."""
        rows = [self.row(number) for number in numbers]
        tokens = [row.tokens for row in rows if row.tokens]
        for view, row_tokens in enumerate(zip(*tokens, strict=True) if by_place else ()):
            # The cache of places finds adjacent ones faster.
            self.places_of(
                view, distinct(np.concatenate([tokens.fingerprints for tokens in row_tokens]))
            )
        for row in rows:
            self.replace_tokens(row, by_place)

    def packed(self, by_place: bool) -> list[int]:
        """Return the ids of the rows with features packed by place, or by fingerprint."""
        return self.numbers(f"substr(tokens, 1, 1) {'>=' if by_place else '<'} ?", (PLACED,))

    def numbers(self, condition: str, values: Sequence[Any] = (), order: str = "id") -> list[int]:
        """Return the ids of the rows that satisfy an SQL condition."""
        statement = f"SELECT id FROM ledger WHERE {condition} ORDER BY {order}"  # noqa: S608 (ours)
        return [number for (number,) in self.database.connection.execute(statement, values)]

    def replace_receipts(self, receipts: Mapping[int, Receipt]) -> None:
        """Replace the receipts of rows, given by id."""
        self.database.connection.executemany(
            "UPDATE ledger SET receipt = ? WHERE id = ?",
            [(_receipt_text(receipt), number) for number, receipt in receipts.items()],
        )

    def end(self, row: Row, time: float | None) -> None:
        """Set the moment at which a row was removed; None marks the row as active again."""
        self.database.connection.execute(
            "UPDATE ledger SET removed_at = ? WHERE id = ?", (time, row.id)
        )

    def remove(self, row: Row) -> None:
        """Delete a row."""
        self.database.connection.execute("DELETE FROM ledger WHERE id = ?", (row.id,))

    def record_command(self, start: float, end: float) -> None:
        """Record that one command made all changes after the moment `start`, until `end`."""
        spans = [span for span in self.command_spans() if span[0] != start]
        spans.append((start, end))
        self.database.store_value(_COMMANDS, spans[-_MAX_COMMANDS:])

    def command_spans(self) -> list[tuple[float, float]]:
        """Return the moments just before the first and at the last change of recent commands."""
        return [(start, end) for start, end in self.database.read_value(_COMMANDS) or ()]
