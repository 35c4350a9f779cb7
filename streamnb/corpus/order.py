"""In which order a corpus is replayed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import islice

from streamnb.corpus.entry import Entry
from streamnb.corpus.headers import header_field, message_date
from streamnb.errors import ConfigError

ORDERS = ("indexed", "name", "date", "shuffled")


def ordered(
    entries: Iterable[Entry], order: str = "indexed", limit: int | None = None
) -> Iterator[Entry]:
    """Put entries in order.

    Parameters
    ----------
    entries
        The corpus.
    order
        "indexed" (its own order: nothing is held in memory), "name", "date" (of the Date field;
        messages without one keep their place after those that have one), or "shuffled:SEED".
    limit
        Stop after so many messages.

    Examples
    --------
    >>> from streamnb.corpus import Entry, ordered
    >>> [entry.name for entry in ordered([Entry("b", "ham", ""), Entry("a", "spam", "")], "name")]
    ['a', 'b']
    """
    kind, _, seed = order.partition(":")
    if kind not in ORDERS or (seed and (kind != "shuffled" or not seed.isdecimal())):
        raise ConfigError(f"order: {order!r} is not one of {', '.join(ORDERS)} or shuffled:SEED")
    if kind == "indexed":
        return islice(entries, limit)
    listed = list(entries)
    if kind == "name":
        listed.sort(key=lambda entry: entry.name)
    elif kind == "date":
        listed.sort(key=_date)
    else:
        random.Random(int(seed or 1)).shuffle(listed)  # noqa: S311 (an experiment, not a secret)
    return islice(listed, limit)


def _date(entry: Entry) -> tuple[bool, float]:
    date = message_date(header_field(entry, "date"))
    return date is None, date or 0.0
