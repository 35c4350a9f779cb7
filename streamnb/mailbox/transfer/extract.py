"""What one database knows, taken out of it to be added to another."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple

from streamnb.classifier import Classifier
from streamnb.counts.memory import column_of
from streamnb.counts.protocol import Label
from streamnb.errors import StateError
from streamnb.mailbox.groups import grouped, in_order
from streamnb.mailbox.ledger import HUMAN, IMPORT, PROGRAM, Row
from streamnb.mailbox.lessons import add_row, confirm, take_back
from streamnb.mailbox.memory import check_kind
from streamnb.mailbox.store import Mailbox
from streamnb.naive_bayes.receipt import Receipt

# Features that have a name: view, fingerprint and encoded name.
Names = Iterable[tuple[int, int, bytes]]
_NAMES = 10_000  # that are written in one statement


@dataclass
class LedgerExport:
    """Ledger rows, and what goes with them.

    Attributes
    ----------
    where
        Where it comes from, for errors.
    classifier
        The classifier, without counts; its recalibration is the sum of the rows' steps.
    labels
        The classes, by the numbers the rows have.
    rows
        Makes an iterator over the rows.
    names
        Makes an iterator over view, fingerprint and name of features.
    """

    where: str
    classifier: Classifier
    labels: list[Label]
    rows: Callable[[], Iterator[Row]]
    names: Callable[[], Names]


class MergeResult(NamedTuple):
    """How many rows were added, were known, overruled one of ours, or were overruled by it."""

    rows_added: int
    known: int
    overruling: int
    overruled: int


def of_mailbox(other: Mailbox) -> LedgerExport:
    """What another mailbox knows; within its `reading`."""

    def rows() -> Iterator[Row]:
        with other.database.speaking():
            yield from other.ledger.rows()

    def names() -> Iterator[tuple[int, int, bytes]]:
        with other.database.speaking():
            for view in range(len(other.counts)):
                for key, name in other.database.connection.execute(
                    f"SELECT fingerprint, name FROM features_{view} WHERE name IS NOT NULL"  # noqa: S608
                ):
                    if not isinstance(name, bytes):
                        raise StateError(f"{other.path}: the database is damaged: a name")
                    yield view, key % (1 << 64), name

    other.check_places()  # or what is damaged in the blocks would be taken over
    return LedgerExport(str(other.path), other.classifier, list(other.labels), rows, names)


def digest_of_file(path: str) -> bytes:
    """What tells one file from another."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def named(view: int, fingerprints: Any, text: bytes, ends: Any) -> Names:
    """Features of a view that have names, given one after the other and where each ends."""
    start = 0
    for fingerprint, end in zip(fingerprints.tolist(), ends.tolist(), strict=True):
        yield view, fingerprint, text[start:end]
        start = end


def of_counts(
    where: str,
    classifier: Classifier,
    labels: list[Label],
    weights: list[float],
    views: list[tuple[Any, Any]],
    names: Callable[[], Names],
    identity: bytes,
) -> LedgerExport:
    """Counts without a ledger: a row for each class, as if it were one long message.

    Parameters
    ----------
    weights
        Weight of the messages of each class.
    views
        Fingerprints (V,) and counts (V, K) of each view.
    identity
        What tells this import from another one: importing it twice is importing it once.
    """
    parts = classifier.model.deltas_since(classifier.model.clone())

    def rows() -> Iterator[Row]:
        once = parts
        for k in range(len(labels)):
            if not weights[k]:
                continue
            tokens = tuple(column_of(*view, k) for view in views)
            receipt, once = Receipt(0, weights[k], (1.0,) * len(views), once), {}
            key = hashlib.sha256(identity + str(labels[k]).encode()).digest()
            yield Row(
                0, key, k, IMPORT, f"import {where}", time.time(), 0.0, None, None, "", receipt,
                tokens,
            )  # fmt: skip

    return LedgerExport(where, classifier, labels, rows, names)


def merge_export(mailbox: Mailbox, extract: LedgerExport) -> MergeResult:
    """Add what an extract knows: the same as having learned both, exactly.

    A message that both know is not added again; of two labels a person's counts before a
    program's, then the later one. The recalibration is taken over by a mailbox that has learned
    nothing; another one keeps its own.
    """
    check_kind(extract.classifier, extract.where)
    tally: Counter[str] = Counter()
    with _naming(extract.where), mailbox.absorbing(extract.classifier) as new:
        _check_same(mailbox, extract)
        now = mailbox.moment()
        if not new:
            _check_retired(mailbox, extract)
        places = _places(mailbox, extract.labels)
        order = [
            places.index(k) if k in places else None for k in range(max(places, default=-1) + 1)
        ]
        model = mailbox.classifier.model

        def ours(row: Row) -> Row:
            if new:
                receipt = model.remap_classes(row.receipt, order)
            else:
                receipt = row.receipt._replace(deltas={})
            predicted = None if row.predicted is None else places[row.predicted]
            label = places[row.label]
            return row._replace(label=label, predicted=predicted, receipt=receipt, added_at=now)

        for rows in grouped(mailbox, map(ours, extract.rows()), mailbox.views_of):
            tally += _added(mailbox, rows)
        for view, names in groupby(extract.names(), itemgetter(0)):
            while some := [name[1:] for name in islice(names, _NAMES)]:
                mailbox.counts[view].name_features(some)
    return MergeResult(*(tally[what] for what in MergeResult._fields))


@contextmanager
def _naming(where: str) -> Iterator[None]:
    """Blame the extract for what its rows do to the database."""
    try:
        yield
    except StateError as error:
        if isinstance(error.__cause__, sqlite3.IntegrityError):
            raise StateError(f"{where}: what it holds is not sound ({error.__cause__})") from None
        if "the database is damaged: its state" not in str(error):
            raise
        raise StateError(f"{where}: what it holds is not sound") from None


def _check_same(mailbox: Mailbox, extract: LedgerExport) -> None:
    mine, theirs = mailbox.classifier, extract.classifier
    if mine.settings()["tokenizer"] != theirs.settings()["tokenizer"] or [
        type(model) for model in mine.models
    ] != [type(model) for model in theirs.models]:
        raise StateError(
            f"{extract.where}: its features were made in another way than those of {mailbox.path}; "
            "import it into a new database (--db)"
        )


def _check_retired(mailbox: Mailbox, extract: LedgerExport) -> None:
    """Refuse messages that we know and whose counts cannot be told from those of others."""
    for row in extract.rows():
        if row.tokens is None and mailbox.ledger.active(row.digest) is not None:
            raise StateError(
                f"{extract.where}: it no longer has the features of messages that {mailbox.path} "
                "knows too (`compact --ledger`), so they would be counted twice; import it into "
                "a new database (--db)"
            )


def _places(mailbox: Mailbox, labels: list[Label]) -> list[int]:
    """Our numbers of their classes."""
    known = {str(label): label for label in mailbox.labels}
    ours = [known.setdefault(str(label), label) for label in labels]
    for counts in mailbox.counts:
        counts.add_classes(ours)
    return [mailbox.labels.index(label) for label in ours]


def _added(mailbox: Mailbox, rows: list[Row]) -> Counter[str]:
    tally: Counter[str] = Counter()
    known = set(mailbox.ledger.labels_of([row.digest for row in rows], mailbox.labels))

    def is_new(row: Row) -> bool:
        seen = row.digest in known
        known.add(row.digest)
        return not seen

    def settle(row: Row) -> None:
        tally[_settle(mailbox, row)] += 1

    in_order(mailbox, rows, is_new, mailbox.views_of, settle)
    return tally


def _settle(mailbox: Mailbox, row: Row) -> str:
    """Add a row, unless what we know of its message holds; gives a field of `MergeResult`."""
    before = mailbox.ledger.active(row.digest)
    if before is None:
        add_row(mailbox, row)
        return "rows_added"
    if before.label == row.label:
        if row.labelled_by == HUMAN and before.labelled_by == PROGRAM:
            confirm(mailbox, before, row.source, row.added_at)
        return "known"
    rank = (row.labelled_by == HUMAN, row.time) > (before.labelled_by == HUMAN, before.time)
    if not rank or before.tokens is None or row.tokens is None:
        return "overruled"
    take_back(mailbox, before, row.added_at)
    add_row(mailbox, row)
    return "overruling"
