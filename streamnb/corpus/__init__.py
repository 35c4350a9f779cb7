"""Corpora: readers that stream labelled messages, and the detection of the reader that fits.

A corpus yields `Entry` objects, which say where a message lies; `read` returns its content. A
corpus of any size therefore needs the memory of its file names only, and worker processes read
the messages themselves.
"""

from streamnb.corpus.detect import KINDS, open_corpus
from streamnb.corpus.entry import Corpus, Entry, read
from streamnb.corpus.order import order_entries

__all__ = ["KINDS", "Corpus", "Entry", "open_corpus", "order_entries", "read"]
