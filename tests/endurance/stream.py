"""A year of mail of any length; equal seeds give equal mail.

The vocabulary grows as in real mail: ranks are drawn from a Pareto law. A million words have about 35,000
distinct ones (enron1, enron5, spamassassin and 20news have 33,000 to 45,000). Of ten words of a message,
six belong to all classes, and two or three to its class alone. Each of the latter is replaced by another word
every four months. Spam also comes in campaigns of hundreds of similar messages. A third class begins in
the fifth month. One message of 200 gets a wrong label that is corrected later, and one of 1,000 is forgotten.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

__all__ = ["LATE", "MONTHS", "Message", "stream"]

MONTHS = 12
LATE = 4  # the month, counted from 0, in which the third class begins
_TAIL, _HEAD = 0.6, 30.0  # exponent and scale of the Pareto law
_BLOCK = 1000
_CLASSES = ("ham", "spam", "list")
_SHARES = (
    (0.45, 0.55, 0.0),
    (0.40, 0.48, 0.12),
)  # frequencies of the classes before and after the third one begins
_COMMON = [f"w{rank}" for rank in range(50_000)]


class Message(NamedTuple):
    """A message, and the labels by its reader.

    Attributes
    ----------
    month
        Month of arrival, counted from 0.
    content
        The mail.
    label
        Its true label.
    first_label
        The first label by its reader; a mistake if it differs from `label`.
    forgotten
        True if the reader removes that label.
    """

    month: int
    content: bytes
    label: str
    first_label: str
    forgotten: bool


def stream(messages: int, seed: int = 1, words: float = 20.0) -> Iterator[Message]:
    """Generate a year of messages, given their number and the median number of words."""
    rng = np.random.default_rng(seed)
    for start in range(0, messages, _BLOCK):
        month = start * MONTHS // messages
        yield from _block(rng, start, min(_BLOCK, messages - start), month, words)


def _block(
    rng: np.random.Generator, start: int, size: int, month: int, words: float
) -> Iterator[Message]:
    shares = _SHARES[month >= LATE]
    classes = rng.choice(3, size, p=shares)
    lengths = np.clip(rng.lognormal(np.log(words), 0.9, size), 3, 2000).astype(int)
    senders = (_ranks(rng, size) + 7 * month).tolist()
    ends = np.cumsum(lengths)
    everything = _words(rng, np.repeat(classes, lengths), month)
    campaign = _campaign(rng, month) if rng.random() < 0.3 else None
    slips, others = rng.random(size), rng.integers(1, 3, size)
    for i in range(size):
        k = int(classes[i])
        message_words = everything[ends[i] - lengths[i] : ends[i]]
        if campaign is not None and k == 1 and i % 2:
            message_words = campaign + message_words[:5]
        label = _CLASSES[k]
        wrong = _CLASSES[(k + int(others[i])) % (3 if month >= LATE else 2)]
        yield Message(
            month,
            b"From: %b%d@%b.example\nTo: ann@site.example\nSubject: %b\nMessage-ID: <%d@x>\n\n%b\n"
            % (label[:1].encode(), senders[i], label.encode() if i % 3 else b"mail",
               " ".join(message_words[:4]).encode(), start + i, " ".join(message_words).encode()),
            label,
            wrong if slips[i] < 0.005 else label,
            0.005 <= slips[i] < 0.006,
        )  # fmt: skip


def _ranks(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return random ranks of words, from a Pareto law."""
    return np.minimum(_HEAD * (rng.random(size) ** (-1 / _TAIL) - 1), 1e15).astype(np.int64)


def _words(rng: np.random.Generator, classes: np.ndarray, month: int) -> list[str]:
    """Return a word for each given class."""
    ranks = _ranks(rng, len(classes))
    own = rng.random(len(classes)) < 0.4
    stray = rng.random(len(classes)) < 0.45  # a word of any class
    word_classes = np.where(
        stray, rng.integers(0, 3 if month >= LATE else 2, len(classes)), classes
    )
    since = (month + ranks % 4) // 4  # how often it was replaced
    return [
        f"{'hsl'[k]}{rank}x{age}" if is_own else _COMMON[rank] if rank < 50_000 else f"w{rank}"
        for rank, is_own, k, age in zip(
            ranks.tolist(), own.tolist(), word_classes.tolist(), since.tolist(), strict=True
        )
    ]


def _campaign(rng: np.random.Generator, month: int) -> list[str]:
    return _words(rng, np.ones(15, dtype=int), month) + [f"c{rng.integers(1 << 40)}"]
