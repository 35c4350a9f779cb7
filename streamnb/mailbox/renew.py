"""A database with the views of this version, from the messages of one that has others."""

from __future__ import annotations

from pathlib import Path

from streamnb.classifier.presets import PresetClassifier
from streamnb.errors import StateError
from streamnb.features.views import tokenizer_config
from streamnb.mailbox.carry import carry
from streamnb.mailbox.digest import digest
from streamnb.mailbox.location import WAIT, is_url
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.stored_classifier import Outcome

_OF_THE_OWNER = ("positive", "costs", "label_noise", "preset", "keep_names", "words")


def successor(old: Mailbox, new: str | Path, wait: float = WAIT) -> Mailbox:
    """A mailbox for what an old one has learned, with the views that are chosen now.

    What its owner chose (costs, the positive class, the tokenizer of words, the preset, what is
    thought of labels, how much is recorded) is the old one's, and so is what `watch` knows.

    Raises
    ------
    StateError
        Where somebody else chose the old one's views, both are the same, or there is another one.
    """
    classifier = old.classifier
    if not isinstance(classifier, PresetClassifier) or classifier.views is not None:
        raise StateError(f"{old.path}: its views were chosen by hand; there are no newer ones")
    files = not is_url(old.location) and Path(new).exists()
    if str(new) == old.location or (files and Path(new).samefile(old.path)):
        raise StateError(f"{old.path}: is the old database; name another one")
    fresh = type(classifier)(**{name: getattr(classifier, name) for name in _OF_THE_OWNER})
    renewed = Mailbox(new, create=True, wait=wait, classifier=fresh)
    if tokenizer_config(renewed.classifier.tokenizer) != tokenizer_config(fresh.tokenizer):
        renewed.close()
        raise StateError(f"{renewed.path}: is there already, with other views; name another one")
    carry(old.database, renewed.database)
    return renewed


def bring(old: Mailbox, new: Mailbox, message: bytes) -> Outcome:
    """Learn a message as the old mailbox did; an outcome "unknown" where it did not."""
    with old.reading():
        row = old.ledger.active(digest(message))
        if row is None:
            return Outcome("unknown")
        label = old.labels[row.label]
    return new.learn(message, label, row.labelled_by, row.source, row.time)


def missing(old: Mailbox, new: Mailbox) -> int:
    """Return how many messages the old mailbox has learned that the new one has not."""
    find = "SELECT digest FROM ledger WHERE removed_at IS NULL"
    with old.reading(), new.reading():
        keys = old.database.connection.execute(find)
        return sum(new.ledger.label_of(key) is None for (key,) in keys)
