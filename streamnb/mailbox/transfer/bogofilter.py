"""bogofilter's dump (`bogoutil -d`): in how many messages of spam and ham each word was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from streamnb import _core
from streamnb.classifier import MailClassifier
from streamnb.counts.memory import MemoryCounts
from streamnb.errors import StateError
from streamnb.features.token_counts import TokenCounts
from streamnb.mailbox.store import Mailbox
from streamnb.mailbox.transfer.extract import Extract, digest_of_file, of_counts

__all__ = ["read_dump", "write_dump"]

# What bogofilter calls the words of header fields, where it differs from us.
_PREFIXES = {b"subj:": b"subject:", b"rtrn:": b"return-path:", b"rcvd:": b"received:"}


def write_dump(mailbox: Mailbox, left_out: dict[str, int]) -> Iterator[bytes]:
    """In how many messages of ham and spam each word was: recounted from the ledger.

    How many messages other classes have, for which a dump has no place, is added to `left_out`.
    """
    words = MemoryCounts(keep_names=False)
    messages: defaultdict[str, float] = defaultdict(float)
    for row in mailbox.ledger.rows():
        label = str(mailbox.labels[row.label])
        messages[label] += row.receipt.mass
        if label in ("ham", "spam") and row.tokens is not None:
            words.add(row.tokens[0], label, 1.0)
    left_out |= {
        label: round(messages[label]) for label in messages if label not in ("ham", "spam")
    }
    words.declare(["spam", "ham"])
    columns = [words.labels.index(label) for label in ("spam", "ham")]
    yield b".MSG_COUNT %d %d\n" % (round(messages["spam"]), round(messages["ham"]))
    fingerprints, _, _, names = mailbox.counts[0].rows()
    cells, _ = words.gather(fingerprints)
    lines = []
    for name, counts in zip(names, cells[:, columns].round().astype(int).tolist(), strict=True):
        word = None if name is None else _core.decode_name(name)
        if isinstance(word, str) and any(counts) and word.split() == [word]:
            token = word.encode()
            for theirs, ours in _PREFIXES.items():
                if token.startswith(ours):
                    token = theirs + token.removeprefix(ours)
            lines.append(b"%s %d %d\n" % (token, *counts))
    yield from sorted(lines)


def read_dump(path: str, shown: str) -> Extract:
    """What a dump holds; `shown` is its name in errors."""
    classifier = MailClassifier(label_noise=0.0)
    words: dict[str, list[float]] = {}
    weights = [0.0, 0.0]
    for number, line in enumerate(_text_lines(path), 1):
        fields = line.split()
        if not fields:
            continue
        try:
            token, counts = fields[0], [float(int(text)) for text in fields[1:3]]
            if len(counts) != 2 or min(counts) < 0 or max(counts) > 1e15:
                raise ValueError
        except (ValueError, OverflowError):
            raise StateError(f"{shown}:{number}: expected 'token spam-count ham-count'") from None
        if token == b".MSG_COUNT":
            weights = counts
        elif not token.startswith(b"."):
            for theirs, ours in _PREFIXES.items():
                if token.startswith(theirs):
                    token = ours + token.removeprefix(theirs)
            words[token.decode("utf-8", "replace")] = counts
    if min(weights) <= 0:
        raise StateError(f"{shown}: no line '.MSG_COUNT spam ham' with messages of both")
    tokens = TokenCounts.from_dict(dict.fromkeys(words, 1))
    cells = np.array(list(words.values())).reshape(-1, 2)
    empty = np.zeros(0, dtype=np.uint64), np.zeros((0, 2))
    ends = [0, *(tokens.ends.tolist() if tokens.ends is not None else [])]

    def names() -> Iterator[tuple[int, int, bytes]]:
        for i, fingerprint in enumerate(tokens.fingerprints.tolist()):
            yield 0, fingerprint, (tokens.names or b"")[ends[i] : ends[i + 1]]

    return of_counts(
        shown, classifier, ["spam", "ham"], weights, [(tokens.fingerprints, cells), empty], names,
        digest_of_file(path),
    )  # fmt: skip


def _text_lines(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while line := file.readline(1 << 16):
            yield line
