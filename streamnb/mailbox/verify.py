"""Verification of a database: recounts the ledger and compares the counts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from streamnb.counts.database import SqlCounts
from streamnb.counts.protocol import Counts
from streamnb.errors import StateError
from streamnb.mailbox.schema import missing_columns
from streamnb.mailbox.stored_classifier import StoredClassifier


def verify(mailbox: StoredClassifier) -> list[str]:
    """Recount the ledger of a mailbox and return a line for each difference."""
    with mailbox.reading():
        try:
            return file_problems(mailbox) or _compare_with_ledger(mailbox)
        except StateError as error:
            return [str(error)]
        except Exception as error:  # the file can have any content
            return [f"the ledger cannot be counted: {type(error).__name__}: {error!s:.100}"]


def file_problems(mailbox: StoredClassifier) -> list[str]:
    """Return a line for each damaged page, or else for each missing table or column."""
    with mailbox.database.reading():
        problems = mailbox.database.problems()
        missing = missing_columns(mailbox.database, len(mailbox.counts))
    return problems or [f"it lacks {name}" for name in missing]


def _compare_with_ledger(mailbox: StoredClassifier) -> list[str]:
    """Return a line for each difference of the stored state from the sums of the ledger."""
    model = mailbox.untrained_model()
    times: Counter[bytes] = Counter()
    for row in mailbox.ledger.rows():
        times[row.digest] += 1
        message = model.join_views(mailbox.views_of(row))
        model.reapply(message, mailbox.labels[row.label], row.receipt)
    problems = [f"message {key.hex()} is learned {n} times" for key, n in times.items() if n > 1]
    for view, (member, stored) in enumerate(zip(model.view_models, mailbox.counts, strict=True)):
        problems += _compare_counts(view, member.counts, stored)
    stored_state = mailbox.classifier.model.state()
    for name, expected in model.state().items():
        if name in stored_state and not _close(expected, stored_state[name]):
            problems.append(
                f"{_STATES.get(name, name)} is not the sum of the changes in the ledger"
            )
    return problems


_STATES = {
    "recalibration": "the recalibration",
    "noise": "the label noise",
    "turns": "the weight of runs of one class",
    "runs": "the length of runs of one class",
    "corrections": "the sum of consecutive mistakes",
    "random": "the probability of random labels",
    "counted": "the sums of update weights",
    "record": "the reliability of the classes",
}


def _compare_counts(view: int, counts: Counts, stored: SqlCounts) -> list[str]:
    """Return a line for each difference of a view's stored counts from those of the ledger."""
    problems = []
    for name, expected_sums, stored_sums in (
        ("messages", counts.weights, stored.weights),
        ("total", counts.totals, stored.totals),
    ):
        for label, a, b in zip(stored.labels, expected_sums, stored_sums, strict=True):
            if not _close(a, b):
                problems.append(
                    f"view {view}, class {label}: {name} is {b!r}, but the ledger has {a!r}"
                )
    if counts.features != stored.features:
        problems.append(
            f"view {view}: {stored.features} features, but the ledger has {counts.features}"
        )
    try:
        fingerprints, cells = stored.items()
    except StateError as error:
        return [*problems, str(error)]
    expected, is_counted = counts.get_counts(fingerprints)
    differ = ~np.isclose(expected, cells, rtol=1e-9, atol=1e-9).all(axis=1) | (is_counted == 0)
    if differ.any() or len(cells) != counts.features:
        problems.append(
            f"view {view}: the counts of {int(differ.sum())} features differ from the ledger; "
            f"{counts.features - len(cells) + int((is_counted == 0).sum())} features of the ledger "
            "have no counts"
        )
    return problems


def _close(a: Any, b: Any) -> bool:
    """Return whether two states agree up to rounding."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_close(a[name], b[name]) for name in a)
    if isinstance(a, list):
        if all(type(x) is int for x in a + b):
            return bool(a == b)
        # A class without remaining messages has an intercept of 0 and a sum of squares of 1.
        short = min(len(a), len(b))
        return np.allclose(a[:short], b[:short], rtol=1e-9, atol=1e-9) and set(
            a[short:] + b[short:]
        ) <= {0.0, 1.0}
    if isinstance(a, float) and isinstance(b, (int, float)):
        return bool(np.isclose(a, b, rtol=1e-9, atol=1e-9))
    return bool(a == b)
