"""Corpora: readers of labelled messages, and the detection of the right reader.

A corpus yields `Entry` objects with the location of a message; `read` returns its content. So a
corpus needs memory only for its file names, and worker processes read the messages themselves.
"""

from typing import TYPE_CHECKING, Any

from streamnb.corpus.entry import Corpus, Entry, read
from streamnb.corpus.order import order_entries

if TYPE_CHECKING:
    from streamnb.corpus.detect import KINDS, open_corpus

__all__ = ["KINDS", "Corpus", "Entry", "open_corpus", "order_entries", "read"]


def __getattr__(name: str) -> Any:
    # Mail commands need only entries, and start faster without the readers of tables.
    if name not in __all__:
        raise AttributeError(f"module 'streamnb.corpus' has no attribute {name!r}")
    from streamnb.corpus import detect

    return getattr(detect, name)
