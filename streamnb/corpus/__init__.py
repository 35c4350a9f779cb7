"""Corpora: readers that stream labelled messages, and the detection of which reader fits.

A corpus gives `Entry` objects, which say where a message lies; `read` fetches its content. So a
corpus of any size costs the memory of its file names, and worker processes can read for
themselves.
"""

from streamnb.corpus.detect import KINDS, open_corpus
from streamnb.corpus.entry import Corpus, Entry, read
from streamnb.corpus.order import ordered

__all__ = ["KINDS", "Corpus", "Entry", "open_corpus", "ordered", "read"]
