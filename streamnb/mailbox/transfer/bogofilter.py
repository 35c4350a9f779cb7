"""bogofilter's dump (`bogoutil -d`): in how many messages of spam and ham each word was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from streamnb import _core
from streamnb.classifier import MailClassifier
from streamnb.corpus.entry import iterate_lines
from streamnb.counts.memory import MemoryCounts
from streamnb.errors import StateError
from streamnb.features.mail_words import MailTokenizer
from streamnb.features.token_counts import TokenCounts
from streamnb.mailbox.store import Mailbox
from streamnb.mailbox.transfer.extract import LedgerExport, digest_of_file, named, of_counts

# What bogofilter calls the words of header fields, where it differs from us.
_OURS = {b"subj:": b"subject:", b"rtrn:": b"return-path:", b"rcvd:": b"received:"}
_THEIRS = {ours: theirs for theirs, ours in _OURS.items()}
_OF_BODIES = ("url", "html", "type", "name")  # prefixes of words that stand in no header field


def _renamed(token: bytes, prefixes: Mapping[bytes, bytes]) -> bytes:
    """A token with another prefix."""
    for before, after in prefixes.items():
        if token.startswith(before):
            return after + token.removeprefix(before)
    return token


def write_dump(mailbox: Mailbox, left_out: dict[str, int]) -> Iterator[bytes]:
    """In how many messages of ham and spam each word was: recounted from the ledger.

    How many messages other classes have, for which a dump has no place, is added to `left_out`.
    """
    tokenizers = mailbox.classifier.tokenizer.tokenizers
    views = [view for view, of in enumerate(tokenizers) if isinstance(of, MailTokenizer)]
    words = MemoryCounts(keep_names=False)
    words.add_classes(["spam", "ham"])
    messages: defaultdict[str, float] = defaultdict(float)
    for row in mailbox.ledger.rows():
        label = str(mailbox.labels[row.label])
        messages[label] += row.receipt.class_weight
        if label in ("ham", "spam") and row.tokens is not None:
            for view in views:
                words.add(row.tokens[view], label, 1.0)
    left_out |= {
        label: round(messages[label]) for label in messages if label not in ("ham", "spam")
    }
    yield b".MSG_COUNT %d %d\n" % (round(messages["spam"]), round(messages["ham"]))
    lines = []
    for view in views:
        fingerprints, _, _, names = mailbox.counts[view].rows()
        cells, _ = words.get_counts(fingerprints)
        for name, counts in zip(names, cells.round().astype(int).tolist(), strict=True):
            word = None if name is None else _core.decode_name(name)
            if isinstance(word, str) and any(counts) and word.split() == [word]:
                lines.append(b"%s %d %d\n" % (_renamed(word.encode(), _THEIRS), *counts))
    yield from sorted(lines)


def read_dump(path: str, shown: str) -> LedgerExport:
    """What a dump holds; `shown` is its name in errors."""
    classifier = MailClassifier(label_noise=0.0)
    views: dict[str, dict[str, list[float]]] = {name: {} for name in classifier.view_names}
    weights = [0.0, 0.0]
    with open(path, "rb") as file:
        for number, line in iterate_lines(file, 1 << 16):
            fields = line.split()
            if not fields:
                continue
            try:
                token, counts = fields[0], [float(int(text)) for text in fields[1:3]]
                if len(counts) != 2 or min(counts) < 0 or max(counts) > 1e15:
                    raise ValueError
            except (ValueError, OverflowError):
                raise StateError(
                    f"{shown}:{number}: expected 'token spam-count ham-count'"
                ) from None
            if token == b".MSG_COUNT":
                weights = counts
            elif not token.startswith(b"."):
                word = _renamed(token, _OURS).decode("utf-8", "replace")
                prefix, colon, _ = word.partition(":")
                views["header" if colon and prefix not in _OF_BODIES else "body"][word] = counts
    if min(weights) <= 0:
        raise StateError(f"{shown}: no line '.MSG_COUNT spam ham' with messages of both")
    tokens = [TokenCounts.from_dict(dict.fromkeys(words, 1)) for words in views.values()]
    cells = [np.array(list(words.values())).reshape(-1, 2) for words in views.values()]

    def names() -> Iterator[tuple[int, int, bytes]]:
        for view, of in enumerate(tokens):
            yield from named(view, of.fingerprints, of.names or b"", of.ends)

    counts_of = [(of.fingerprints, counts) for of, counts in zip(tokens, cells, strict=True)]
    return of_counts(
        shown, classifier, ["spam", "ham"], weights, counts_of, names, digest_of_file(path)
    )
