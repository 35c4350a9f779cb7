"""Rebuild of a mailbox: train on all its messages again, in mixed order; and verification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamnb._core import SparseRows
from streamnb.counts.database import SqlCounts
from streamnb.counts.memory import MemoryCounts
from streamnb.counts.protocol import Counts, Label
from streamnb.errors import StateError
from streamnb.features.token_counts import TokenCounts
from streamnb.mailbox.ledger import IS_MESSAGE, Row
from streamnb.mailbox.schema import missing_columns
from streamnb.mailbox.stored_classifier import StoredClassifier
from streamnb.naive_bayes.receipt import Receipt
from streamnb.naive_bayes.text_model import TextModel

# A rebuild is due if at least `_MIN_IN_RUNS` messages, and a share of all, came in runs of one
# class. The first share is for up to `_MANY_MESSAGES`, the second for the messages above.
# tests/benchmarks/regimes.py measures the effect of runs, with and without --mailbox.
_MIN_IN_RUNS, _SHARE_OF_FEW, _SHARE_OF_MANY, _MANY_MESSAGES = 10, 0.1, 0.2, 1000

_MESSAGES = "messages"
_REBUILT = "rebuilt"  # name of the state that holds the moment of the last rebuild
_IS_ACTIVE_MESSAGE = f"removed_at IS NULL AND {IS_MESSAGE}"
_IS_ACTIVE_SUM = f"removed_at IS NULL AND NOT ({IS_MESSAGE})"  # rows that cannot be learned again

Progress = Callable[[list[int]], Iterable[int]]


def is_due(mailbox: StoredClassifier) -> bool:
    """Return whether a rebuild is needed, because many messages came in runs of one class."""
    with mailbox.reading():
        weights = mailbox.counts[0].weights
        missed = mailbox.classifier.model.messages_in_runs - mailbox.settled
        n = sum(weights)
        due = max(_MIN_IN_RUNS, _SHARE_OF_FEW * n) + max(n - _MANY_MESSAGES, 0) * (
            _SHARE_OF_MANY - _SHARE_OF_FEW
        )
        return sum(weight > 0 for weight in weights) > 1 and missed > due


def rebuild(mailbox: StoredClassifier, progress: Progress = iter) -> int:
    """Train on all messages of the ledger again, in mixed order, and replace counts and state.

    Meanwhile other processes predict with the old counts; threads that share this `Mailbox` wait.
    Counts of messages whose features were dropped do not change. The receipts in the ledger are
    replaced. A receipt depends on all messages learned before it. So `undo` and `redo` of changes
    before a rebuild run another rebuild.

    Parameters
    ----------
    mailbox : StoredClassifier
        The mailbox.
    progress : callable, default iter
        Iterates over a list and shows the progress.

    Returns
    -------
    int
        Number of messages learned.
    """
    for last in (False, False, True):
        with mailbox.reading():
            before = _signature(mailbox)
            learned = _train_again(mailbox, progress)
        with mailbox.writing():
            if _signature(mailbox) != before or not _catch_up(mailbox, learned):
                if not last:
                    continue  # outside a transaction, so other processes do not wait
                learned = _train_again(mailbox, progress)
            _swap(mailbox, learned)
        break
    return len(learned.receipts)


class _RebuiltModel(NamedTuple):
    """The rebuilt model in memory, each feature's number of messages by view, and the receipts."""

    model: TextModel
    message_counts: list[MemoryCounts]
    receipts: dict[int, Receipt]

    def unlearn(self, row: Row, labels: Sequence[Label], receipt: Receipt) -> None:
        """Subtract the message of a row, given the receipt of learning it."""
        views = row.tokens or ()
        self.model.unlearn_checked(self.model.join_views(views), labels[row.label], receipt)
        self.tally(views, receipt, -1)

    def tally(self, tokens: Sequence[TokenCounts], receipt: Receipt, sign: int) -> None:
        """Add a message to each feature's number of messages (sign 1), or subtract it (sign -1)."""
        for counts, view, weight in zip(
            self.message_counts, tokens, receipt.view_weights, strict=True
        ):
            if weight:
                ones = TokenCounts.unchecked(view.fingerprints, np.ones(len(view)), None, None)
                (counts.add if sign > 0 else counts.subtract)(ones, _MESSAGES, 1.0)


def _signature(mailbox: StoredClassifier) -> Any:
    """Return a value that changes if another process does what `_catch_up` cannot apply."""
    sums = mailbox.ledger.numbers(_IS_ACTIVE_SUM)
    return sums, mailbox.compactions, mailbox.database.read_value("identity")


def _catch_up(mailbox: StoredClassifier, learned: _RebuiltModel) -> bool:
    """Apply the changes that other processes committed meanwhile. Return False if it cannot."""
    active = set(mailbox.ledger.numbers(_IS_ACTIVE_MESSAGE))
    removed_ids = learned.receipts.keys() - active
    model = learned.model
    for number in sorted(removed_ids):
        rows = mailbox.ledger.find("id = ?", (number,))
        if not rows:  # `undo` deleted the row
            return False
        learned.unlearn(rows[0], mailbox.labels, learned.receipts.pop(number))
    for member in model.view_models:
        member.counts.add_classes(mailbox.labels)
    for number in sorted(active - learned.receipts.keys()):
        _learn(mailbox, learned, number)
    return True


def _train_again(mailbox: StoredClassifier, progress: Progress) -> _RebuiltModel:
    """Return a model that learned all messages, in mixed order, in memory."""
    mailbox.check_places()  # without this check, damaged content of blocks would be learned
    model = mailbox.untrained_model()
    learned = _RebuiltModel(model, [MemoryCounts(keep_names=False) for _ in model.view_models], {})
    if mailbox.ledger.numbers(_IS_ACTIVE_SUM):
        _copy_other_counts(mailbox, learned)
    for number in progress(_mixed_order(mailbox)):
        _learn(mailbox, learned, number)
    return learned


def _learn(mailbox: StoredClassifier, learned: _RebuiltModel, number: int) -> None:
    row = mailbox.ledger.row(number)
    views = row.tokens or ()
    message = learned.model.join_views(views)
    receipt = learned.model.relearn_one(message, mailbox.labels[row.label], row.receipt)
    learned.tally(views, receipt, 1)
    learned.receipts[number] = receipt


def _copy_other_counts(mailbox: StoredClassifier, learned: _RebuiltModel) -> None:
    """Copy the mailbox's counts to the model, without the messages that can be learned again."""
    model = learned.model
    for member, message_counts, counts in zip(
        model.view_models, learned.message_counts, mailbox.counts, strict=True
    ):
        fingerprints, rows, times, _ = counts.rows()
        cells = rows.dense(len(counts.labels))
        tokens = TokenCounts.unchecked(fingerprints, np.ones(len(cells)), None, None)
        member.counts.add_matrix(tokens, cells, counts.labels, counts.weights)
        messages = sum(counts.weights)
        message_counts.add_matrix(tokens, times[:, :1].astype(np.float64), [_MESSAGES], [messages])
    model.restore(mailbox.classifier.model.state())
    for row in mailbox.ledger.rows(_IS_ACTIVE_MESSAGE):
        learned.unlearn(row, mailbox.labels, row.receipt)


def _mixed_order(mailbox: StoredClassifier) -> list[int]:
    """Return the rows' ids in mixed order: row i of the n rows of a class is at i / n."""
    place = (
        "CAST(row_number() OVER (PARTITION BY label ORDER BY digest) - 1 AS DOUBLE PRECISION) "
        "/ count(*) OVER (PARTITION BY label)"
    )
    return mailbox.ledger.numbers(_IS_ACTIVE_MESSAGE, order=f"{place}, label, id")


def _swap(mailbox: StoredClassifier, learned: _RebuiltModel) -> None:
    """Replace counts, state and receipts by those of a model, within a transaction."""
    model = learned.model
    for member, messages, counts in zip(
        model.view_models, learned.message_counts, mailbox.counts, strict=True
    ):
        fingerprints, ends, classes, amounts, *_ = member.counts.table.entries()
        cells = SparseRows(ends, classes, amounts)
        counts.replace(fingerprints, cells, messages.get_counts(fingerprints)[0].sum(axis=1))
        counts.weights = list(member.counts.weights)
    mailbox.classifier.model.restore(model.state())
    mailbox.ledger.replace_receipts(learned.receipts)
    mailbox.settled = model.messages_in_runs
    mailbox.database.store_value(_REBUILT, mailbox.moment())


def is_rebuilt_since(mailbox: StoredClassifier, moment: float) -> bool:
    """Return whether `rebuild` replaced the counts at this moment or later."""
    with mailbox.database.reading():
        rebuilt_at = mailbox.database.read_value(_REBUILT)
        return rebuilt_at is not None and float(rebuilt_at) >= moment


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
        model.reapply_checked(message, mailbox.labels[row.label], row.receipt)
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
    "presence": "the positions of the classes",
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
