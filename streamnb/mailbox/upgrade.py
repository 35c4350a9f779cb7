"""Upgrade: create a database with the current views from the messages of an older one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamnb.classifier.presets import PresetClassifier
from streamnb.errors import StateError
from streamnb.features.views import tokenizer_config
from streamnb.mailbox.digest import digest
from streamnb.mailbox.ledger import ERASED, IS_RETIRED
from streamnb.mailbox.location import WAIT, is_url
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.stored_classifier import Outcome
from streamnb.transactions import Transactions

# SQL for the limits of the log of verdicts, the watched folders, and the locations of messages.
_SELECT_STATES = (
    "SELECT name, value FROM state WHERE name = 'record' OR substr(name, 1, 8) = 'watched '"
)
_WATCHED = "account, folder, uid, key, said, filed, since, gone"
_OWNER_SETTINGS = ("positive", "costs", "label_noise", "preset", "keep_names", "words")


def create_upgraded(old: Mailbox, new: str | Path, wait: float = WAIT) -> Mailbox:
    """Create a mailbox with the current views and the settings of `old`.

    The settings are costs, positive class, tokenizer of words, preset, label noise, limits of the
    log of verdicts, and the state of `watch`.

    Raises
    ------
    StateError
        If the user chose the old views, both databases are the same, or the new one exists with
        other views.
    """
    classifier = old.classifier
    if not isinstance(classifier, PresetClassifier) or classifier.views is not None:
        raise StateError(
            f"{old.path}: its views were chosen by hand, so there is no newer version of them"
        )
    files = not is_url(old.location) and Path(new).exists()
    if str(new) == old.location or (files and Path(new).samefile(old.path)):
        raise StateError(f"{old.path}: the file is the old database; name another file")
    fresh = type(classifier)(**{name: getattr(classifier, name) for name in _OWNER_SETTINGS})
    renewed = Mailbox(new, create=True, wait=wait, classifier=fresh)
    if tokenizer_config(renewed.classifier.tokenizer) != tokenizer_config(fresh.tokenizer):
        renewed.close()
        raise StateError(f"{renewed.path}: the file exists and has other views; name another file")
    copy_settings(old.database, renewed.database)
    return renewed


def copy_label(old: Mailbox, new: Mailbox, message: bytes) -> Outcome:
    """Learn a message with the old mailbox's label; the outcome is "unknown" without one."""
    with old.reading():
        row = old.ledger.active(digest(message))
        if row is None:
            return Outcome("unknown")
        label = old.labels[row.label]
    return new.learn(message, label, row.labelled_by, row.source, row.time)


def count_missing(old: Mailbox, new: Mailbox) -> int:
    """Return the number of messages that only the old mailbox has learned."""
    # Neither sums of old messages nor erased rows have the digest of a message.
    find = f"SELECT digest FROM ledger WHERE removed_at IS NULL AND NOT {IS_RETIRED}"  # noqa: S608
    with old.reading(), new.reading():
        keys = old.database.connection.execute(f"{find} AND source <> ?", (ERASED,))
        return sum(new.ledger.label_of(key) is None for (key,) in keys)


def copy_settings(
    old: Transactions, new: Transactions, on_loss: Callable[[str, Exception], None] | None = None
) -> None:
    """Copy the owner's settings and the state of `watch`, unless the new database has them.

    Parameters
    ----------
    old
        The database to read.
    new
        The database to write, in one transaction for each kind.
    on_loss
        Called with a description of what cannot be read and the error. None raises the error.
    """
    parts = (
        (
            "the limits of the log and the watched folders",
            _SELECT_STATES,
            "INTO state VALUES (?, ?)",
        ),
        (
            "the locations of messages in watched folders",
            f"SELECT {_WATCHED} FROM watched",  # noqa: S608 (a constant)
            f"INTO watched({_WATCHED}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        ),
    )
    for description, find, target in parts:
        try:
            with old.reading() as connection:
                rows: list[tuple[Any, ...]] = connection.execute(find).fetchall()
        except Exception as error:
            if on_loss is None:
                raise
            on_loss(description, error)
            continue
        with new.writing() as connection:
            for row in rows:
                connection.execute(f"INSERT {target} ON CONFLICT DO NOTHING", row)
