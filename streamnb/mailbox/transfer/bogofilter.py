"""bogofilter's word list (`bogoutil -d`): for each word the numbers of spam and ham with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from streamnb import _core
from streamnb.classifier import MailClassifier
from streamnb.corpus.entry import iterate_lines
from streamnb.counts.memory import MemoryCounts
from streamnb.errors import StateError
from streamnb.features.mail_words import MailTokenizer
from streamnb.features.token_counts import TokenCounts
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.transfer.ledger_export import (
    LedgerExport,
    export_of_counts,
    file_digest,
    split_names,
)
from streamnb.naive_bayes.reliability import ClassReliability

# Prefixes of words in header fields: bogofilter's and streamnb's, if they differ.
_OUR_PREFIXES = {b"subj:": b"subject:", b"rtrn:": b"return-path:", b"rcvd:": b"received:"}
_BOGOFILTER_PREFIXES = {prefix: original for original, prefix in _OUR_PREFIXES.items()}
# Number of messages of a class in a list that count as one correct prediction. So a class with 200
# messages is ready. At half the value, lists of 200 messages give sure verdicts, of which 1 to 2 %
# are wrong. At twice the value, a list of 1,000 messages, a third of them spam, leaves all spam
# unsure.
_MESSAGES_PER_CORRECT = 10
# Number of messages at which the words of a list have half the weight of those in a large list.
# Chosen on three corpora, with lists of 40 to 3,000 messages. At twice the value, the log loss of
# a list of 1,000 is 5 % higher; at half, a list of 200 makes three times as many sure mistakes.
_HALF_TRUST = 100.0
_VIEWS = ("header", "body")
# The slope of each view for a large list. A model of plain counts learns slopes of 1 to 2 for the
# body, and smaller ones for the header, whose words are more redundant. With 1 for the body, lists
# of 1,000 messages leave twice as many mails of enron5 unsure as bogofilter does. With 3,
# spamassassin has a third more mistakes.
_SLOPES = {"header": 1.0, "body": 1.5}
# bogofilter's prefix of words in header fields that have no prefix of their own, and of all text of
# a message without an empty line after its header. These words replace words of bodies that are not
# in the list.
_ANY_FIELD = "head"
_BODY_PREFIXES = ("url", "html", "type", "name")  # prefix of words outside the header


def _rename_prefix(token: bytes, prefixes: Mapping[bytes, bytes]) -> bytes:
    """Return a token with its prefix replaced."""
    for old, new in prefixes.items():
        if token.startswith(old):
            return new + token.removeprefix(old)
    return token


def write_dump(mailbox: Mailbox, omitted: dict[str, int]) -> Iterator[bytes]:
    """Yield the lines of a dump, counted from the ledger.

    The number of messages of each class other than ham and spam is added to `omitted`.
    """
    tokenizers = mailbox.classifier.tokenizer.tokenizers
    views = [
        view for view, tokenizer in enumerate(tokenizers) if isinstance(tokenizer, MailTokenizer)
    ]
    words = MemoryCounts(keep_names=False)
    words.add_classes(["spam", "ham"])
    messages: defaultdict[str, float] = defaultdict(float)
    for row in mailbox.ledger.rows():
        label = str(mailbox.labels[row.label])
        messages[label] += row.receipt.class_weight
        if label in ("ham", "spam") and row.tokens is not None:
            for view in views:
                words.add(row.tokens[view], label, 1.0)
    omitted |= {label: round(messages[label]) for label in messages if label not in ("ham", "spam")}
    yield b".MSG_COUNT %d %d\n" % (round(messages["spam"]), round(messages["ham"]))
    lines = []
    for view in views:
        fingerprints, _, _, names = mailbox.counts[view].rows()
        cells, _ = words.get_counts(fingerprints)
        for name, counts in zip(names, cells.round().astype(int).tolist(), strict=True):
            word = None if name is None else _core.decode_name(name)
            if isinstance(word, str) and any(counts) and word.split() == [word]:
                lines.append(
                    b"%s %d %d\n" % (_rename_prefix(word.encode(), _BOGOFILTER_PREFIXES), *counts)
                )
    yield from sorted(lines)


def _credit(classifier: MailClassifier, weights: Sequence[float]) -> None:
    """Set the calibration by the number of counted messages.

    With the calibration of an untrained model, all messages would be unsure until the owner has
    labelled many.
    """
    model = classifier.model
    size = 2 * min(weights)
    for system in model.recalibration.systems:
        for view, name in enumerate(classifier.view_names):
            if name in _SLOPES:
                slope = _SLOPES[name] * size / (size + _HALF_TRUST)
                system.shared.slopes[view] = max(system.shared.slopes[view], slope)
    record = [
        number
        for k, weight in enumerate(weights)
        for number in (k, int(min(weight / _MESSAGES_PER_CORRECT, ClassReliability.MIN_CORRECT)), 0)
    ]
    model.reliability.apply({"record": record}, 1)


def _read_tokens(path: str, name: str) -> Iterator[tuple[bytes, list[float]]]:
    """Yield each token of a dump with its numbers of spam and ham."""
    with open(path, "rb") as file:
        for number, line in iterate_lines(file, 1 << 16):
            fields = line.split()
            if not fields:
                continue
            try:
                counts = [float(int(text)) for text in fields[1:3]]
                if len(counts) != 2 or min(counts) < 0 or max(counts) > 1e15:
                    raise ValueError
            except (ValueError, OverflowError):
                raise StateError(
                    f"{name}:{number}: not an export, a model file or the output of `bogoutil "
                    "-d`: expected 'token spam-count ham-count'"
                ) from None
            yield fields[0], counts


def read_dump(path: str, name: str) -> LedgerExport:
    """Return the counts of a dump. `name` is the file's name in errors."""
    classifier = MailClassifier(label_noise=0.0)
    views: dict[str, dict[str, list[float]]] = {name: {} for name in classifier.view_names}
    unplaced_words: dict[str, list[float]] = {}
    weights = [0.0, 0.0]
    for token, counts in _read_tokens(path, name):
        if token == b".MSG_COUNT":
            weights = counts
        elif not token.startswith(b"."):
            word = _rename_prefix(token, _OUR_PREFIXES).decode("utf-8", "replace")
            prefix, colon, unplaced_word = word.partition(":")
            if prefix == _ANY_FIELD and colon:
                unplaced_words[unplaced_word] = counts
            else:
                is_header = colon and prefix not in _BODY_PREFIXES
                views[_VIEWS[0] if is_header else _VIEWS[1]][word] = counts
    if min(weights) <= 0:
        raise StateError(
            f"{name}: the line '.MSG_COUNT SPAM HAM' is missing, or one of its numbers is 0"
        )
    views[_VIEWS[1]] = unplaced_words | views[_VIEWS[1]]
    _credit(classifier, weights)
    tokens = [TokenCounts.from_dict(dict.fromkeys(words, 1)) for words in views.values()]

    def names() -> Iterator[tuple[int, int, bytes]]:
        for view, features in enumerate(tokens):
            yield from split_names(
                view, features.fingerprints, features.names or b"", features.ends
            )

    tables = [
        (features.fingerprints, np.array(list(words.values())).reshape(-1, 2))
        for features, words in zip(tokens, views.values(), strict=True)
    ]
    return export_of_counts(
        name, classifier, ["spam", "ham"], weights, tables, names, file_digest(path)
    )
