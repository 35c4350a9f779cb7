"""A look at the header of a message, before it is read."""

from __future__ import annotations

from streamnb.corpus.entry import Entry, read
from streamnb.errors import CorpusError
from streamnb.mail import Limits, parse

__all__ = ["header_field", "header_label"]

_BYTES = 1 << 16


def header_field(entry: Entry, name: str) -> str:
    """The first header field of that name; "" where there is none or the file cannot be read.

    (A file that cannot be read is reported when its turn comes.)
    """
    try:
        content = read(entry, _BYTES)
    except CorpusError:
        return ""
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    return parse(data[:_BYTES], Limits(parts=1)).get(name)


def header_label(entry: Entry, name: str) -> str:
    """The label in a header field, as one word; "" where there is none."""
    return "-".join(header_field(entry, name).lower().split())
