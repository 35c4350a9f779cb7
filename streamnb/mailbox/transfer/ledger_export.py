"""Ledger rows from a database or file, and merging them into another database."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple

from streamnb.classifier import Classifier
from streamnb.counts.memory import column_of
from streamnb.counts.protocol import Label
from streamnb.errors import StateError, damage_error
from streamnb.mailbox.batch import group_items, in_order
from streamnb.mailbox.ledger import HUMAN, IMPORT, PROGRAM, RETIRED, Row, check_label
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.stored_classifier import check_kind
from streamnb.mailbox.verdict_log import LIMITS, LogLimits
from streamnb.naive_bayes.receipt import Receipt

# Features that have a name: view, fingerprint and encoded name.
Names = Iterable[tuple[int, int, bytes]]
_NAME_BATCH = 10_000  # number of names that one statement writes


@dataclass
class LedgerExport:
    """Ledger rows with their classifier, classes and names of features.

    Attributes
    ----------
    origin
        The file or database, for errors.
    classifier
        The classifier without counts. Its calibration is the sum of the changes of the rows.
    labels
        The classes, by the indices in the rows.
    rows
        Returns an iterator over the rows.
    names
        Returns an iterator over view, fingerprint and name of each named feature.
    verdict_limits
        The limits of stored verdicts. None if they were never set.
    """

    origin: str
    classifier: Classifier
    labels: list[Label]
    rows: Callable[[], Iterator[Row]]
    names: Callable[[], Names]
    verdict_limits: LogLimits | None = None


class MergeResult(NamedTuple):
    """Numbers of rows that a merge added, kept and replaced.

    Attributes
    ----------
    rows_added
        Rows of messages that the database did not have.
    unchanged
        Rows whose message had the same label.
    overruling
        Rows that replaced another label.
    overruled
        Rows that were not added because the database has another label.
    """

    rows_added: int
    unchanged: int
    overruling: int
    overruled: int


def export_of_mailbox(other: Mailbox) -> LedgerExport:
    """Return the ledger of another mailbox. Use it within the mailbox's `reading`."""

    def rows() -> Iterator[Row]:
        with other.database.convert_errors():
            yield from other.ledger.rows()

    def names() -> Iterator[tuple[int, int, bytes]]:
        with other.database.convert_errors():
            for view in range(len(other.counts)):
                for fingerprint, name in other.database.connection.execute(
                    f"SELECT fingerprint, name FROM features_{view} WHERE name IS NOT NULL"  # noqa: S608
                ):
                    if not isinstance(name, bytes):
                        raise damage_error(other.path, "the name of a feature is not valid")
                    yield view, fingerprint % (1 << 64), name

    other.check_places()  # without this check, damaged blocks would be copied
    return LedgerExport(str(other.path), other.classifier, list(other.labels), rows, names)


def file_digest(path: str) -> bytes:
    """Return the SHA-256 digest of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def split_names(view: int, fingerprints: Any, text: bytes, ends: Any) -> Names:
    """Yield view, fingerprint and name of each feature; a name ends in `text` at its end."""
    start = 0
    for fingerprint, end in zip(fingerprints.tolist(), ends.tolist(), strict=True):
        yield view, fingerprint, text[start:end]
        start = end


def export_of_counts(
    origin: str,
    classifier: Classifier,
    labels: list[Label],
    weights: list[float],
    views: list[tuple[Any, Any]],
    names: Callable[[], Names],
    identity: bytes,
) -> LedgerExport:
    """Return counts without a ledger as rows: one row for each class, in the form of a message.

    Parameters
    ----------
    weights
        Weight of the messages of each class.
    views
        Fingerprints (V,) and counts (V, K) of each view.
    identity
        Identifies the import, so a second import adds nothing.
    """
    parts = classifier.model.deltas_since(classifier.model.clone())

    def rows() -> Iterator[Row]:
        deltas = parts
        for k in range(len(labels)):
            if not weights[k]:
                continue
            tokens = tuple(column_of(*view, k) for view in views)
            receipt = Receipt(0, weights[k], (1.0,) * len(views), deltas)
            deltas = {}  # the first row has the calibration
            key = hashlib.sha256(identity + str(labels[k]).encode()).digest()
            yield Row(
                0, key, k, IMPORT, f"import {origin}", time.time(), 0.0, None, None, "", receipt,
                tokens,
            )  # fmt: skip

    return LedgerExport(origin, classifier, labels, rows, names)


# Changes of the calibration that are sums over messages: whether classes are ready.
_ADDITIVE = ("record",)


def has_calibration(row: Row) -> bool:
    """Return whether a row changed more than counts and numbers of predictions."""
    return row.receipt.without_calibration(_ADDITIVE).deltas != row.receipt.deltas


def merge_export(
    mailbox: Mailbox, export: LedgerExport, replaced: Sequence[Row] = ()
) -> MergeResult:
    """Add an export's rows to a mailbox. The result is exactly that of learning both.

    A message that both have is not added again. If its labels differ, a person's label replaces a
    program's; of two labels by persons or by programs, the later one stays. An empty mailbox gets
    the calibration of the export, and its limits of stored verdicts unless it has limits already;
    another mailbox keeps its own, unless a row of `replaced` has one. It adds the numbers of
    correct predictions of imported counts, so several small word lists can make a class ready.

    If a row is added, the rows of `replaced` are removed in the same transaction. No row is added
    if the same file was imported before.
    """
    with_calibration = any(map(has_calibration, replaced))
    check_kind(export.classifier, export.origin)
    counts_by_outcome: Counter[str] = Counter()
    with _naming_import(export.origin), mailbox.importing(export.classifier) as new:
        _check_same(mailbox, export)
        now = mailbox.moment()
        if not new:
            _check_retired(mailbox, export)
        elif export.verdict_limits is not None and mailbox.database.read_value(LIMITS) is None:
            mailbox.database.store_value(LIMITS, export.verdict_limits._asdict())
        indices = _label_indices(mailbox, export.labels)
        order = [
            indices.index(k) if k in indices else None for k in range(max(indices, default=-1) + 1)
        ]
        model = mailbox.classifier.model

        def convert(row: Row) -> Row:
            receipt = row.receipt
            if not (new or with_calibration):
                receipt = receipt.without_calibration(
                    _ADDITIVE if row.labelled_by == IMPORT else ()
                )
            receipt = model.remap_classes(receipt, order)
            predicted = None if row.predicted is None else indices[row.predicted]
            label = indices[row.label]
            return row._replace(label=label, predicted=predicted, receipt=receipt, added_at=now)

        for rows in group_items(mailbox, map(convert, export.rows()), mailbox.views_of):
            counts_by_outcome += _merge_rows(mailbox, rows)
        for view, names in groupby(export.names(), itemgetter(0)):
            while batch := [name[1:] for name in islice(names, _NAME_BATCH)]:
                mailbox.counts[view].name_features(batch)
        if counts_by_outcome["rows_added"]:
            for row in replaced:
                mailbox.retract_label(row.digest, (), None)
    return MergeResult(*(counts_by_outcome[outcome] for outcome in MergeResult._fields))


@contextmanager
def _naming_import(origin: str) -> Iterator[None]:
    """Re-raise database errors caused by an import as errors of the import."""
    try:
        yield
    except StateError as error:
        if isinstance(error.__cause__, sqlite3.IntegrityError):
            raise StateError(
                f"{origin}: inconsistent rows ({error.__cause__}); use another backup"
            ) from None
        if "the database is damaged: its state" not in str(error):
            raise
        raise StateError(f"{origin}: inconsistent rows; use another backup") from None


def _check_same(mailbox: Mailbox, export: LedgerExport) -> None:
    current, other = mailbox.classifier, export.classifier
    if current.settings()["tokenizer"] != other.settings()["tokenizer"] or [
        type(model) for model in current.models
    ] != [type(model) for model in other.models]:
        raise StateError(
            f"{export.origin}: its tokenizers or models differ from those of {mailbox.path}; "
            "import it into a new database (--db)"
        )


def _check_retired(mailbox: Mailbox, export: LedgerExport) -> None:
    """Raise StateError if the counts of messages without features would be added twice.

    `compact` drops the features of old messages, and adds their counts to rows of sums. If the
    mailbox has all rows of sums of the export, no count is added.
    """
    has_known_message = has_new_sum = False
    for row in export.rows():
        if row.tokens is None:
            has_known_message |= mailbox.ledger.active(row.digest) is not None
        elif row.labelled_by == RETIRED:
            has_new_sum |= mailbox.ledger.active(row.digest) is None
    if has_known_message and has_new_sum:
        raise StateError(
            f"cannot merge {export.origin} into {mailbox.path}: both contain messages whose "
            "features `compact --ledger` dropped; import into a new database (--db)"
        )


def _label_indices(mailbox: Mailbox, labels: list[Label]) -> list[int]:
    """Return the mailbox's index of each class of the export, adding new classes."""
    try:
        labels = [check_label(label) for label in labels]
    except ValueError as error:
        raise StateError(f"{mailbox.path}: a class cannot be imported: {error}") from None
    labels_by_name = {str(label): label for label in mailbox.labels}
    merged_labels = [labels_by_name.setdefault(str(label), label) for label in labels]
    for counts in mailbox.counts:
        counts.add_classes(merged_labels)
    return [mailbox.labels.index(label) for label in merged_labels]


def _merge_rows(mailbox: Mailbox, rows: list[Row]) -> Counter[str]:
    counts_by_outcome: Counter[str] = Counter()
    seen_digests = set(mailbox.ledger.labels_of([row.digest for row in rows], mailbox.labels))

    def is_new(row: Row) -> bool:
        is_seen = row.digest in seen_digests
        seen_digests.add(row.digest)
        return not is_seen

    def settle(row: Row) -> None:
        counts_by_outcome[_merge_row(mailbox, row)] += 1

    in_order(mailbox, rows, is_new, mailbox.views_of, settle)
    return counts_by_outcome


def _merge_row(mailbox: Mailbox, row: Row) -> str:
    """Add a row unless the mailbox's label has precedence; return a field of `MergeResult`."""
    current = mailbox.ledger.active(row.digest)
    if current is None:
        mailbox.add_row(row)
        return "rows_added"
    if current.label == row.label:
        if row.labelled_by == HUMAN and current.labelled_by == PROGRAM:
            mailbox.confirm(current, row.source, row.added_at)
        return "unchanged"
    is_stronger = (row.labelled_by == HUMAN, row.time) > (
        current.labelled_by == HUMAN,
        current.time,
    )
    if not is_stronger or current.tokens is None or row.tokens is None:
        return "overruled"
    mailbox.end_row(current, row.added_at)
    mailbox.add_row(row)
    return "overruling"
