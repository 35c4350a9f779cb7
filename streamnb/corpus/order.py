"""The order in which a corpus is replayed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import islice

from streamnb.corpus.entry import Entry
from streamnb.errors import ConfigError

ORDERS = ("indexed", "name", "date", "shuffled")


def order_entries(
    entries: Iterable[Entry], order: str = "indexed", limit: int | None = None, skip: int = 0
) -> Iterator[Entry]:
    """Return entries in an order.

    Parameters
    ----------
    entries
        The corpus.
    order
        "indexed" is the order of the corpus, which needs no memory. "name" sorts by name. "date"
        sorts by `Entry.date_sent`; messages without date come last. "shuffled:SEED" is random.
    limit
        Maximum number of entries; None for all.
    skip
        Number of entries to leave out at the beginning.

    Examples
    --------
    >>> from streamnb.corpus import Entry, order_entries
    >>> entries = [Entry("b", "ham", ""), Entry("a", "spam", "")]
    >>> [entry.name for entry in order_entries(entries, "name")]
    ['a', 'b']
    """
    end = None if limit is None else skip + limit
    kind, _, seed = order.partition(":")
    is_seed = not seed or (kind == "shuffled" and seed.isdecimal() and len(seed) <= 18)
    if kind not in ORDERS or not is_seed:
        raise ConfigError(
            f"order: {order!r:.80} is not one of {', '.join(ORDERS)} or shuffled:SEED"
        )
    if kind == "indexed":
        return islice(entries, skip, end)
    all_entries = list(entries)
    if kind == "name":
        all_entries.sort(key=lambda entry: entry.name)
    elif kind == "date":
        all_entries.sort(key=_date_key)
        if all_entries and all_entries[0].text is not None and _date_key(all_entries[0])[0]:
            raise ConfigError(
                "order: no text has a date; for a table, set corpus.date_column to the name of the "
                "column of dates"
            )
    else:
        random.Random(int(seed or 1)).shuffle(all_entries)  # noqa: S311 (not a secret)
    return islice(all_entries, skip, end)


def _date_key(entry: Entry) -> tuple[bool, float]:
    date = entry.date_sent()
    return date is None, date or 0.0
