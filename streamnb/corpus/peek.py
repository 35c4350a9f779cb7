"""A look at the header of a message, before it is read."""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import parsedate_to_datetime

from streamnb.corpus.entry import Entry, read
from streamnb.errors import CorpusError
from streamnb.mail import Limits, parse

__all__ = ["header_field", "header_fields", "header_label", "message_date"]

_BYTES = 1 << 16


def header_fields(entry: Entry, names: Sequence[str]) -> list[str]:
    """The first header field of each name; "" where there is none or the file cannot be read.

    (A file that cannot be read is reported when its turn comes.)
    """
    try:
        content = read(entry, _BYTES)
    except CorpusError:
        return [""] * len(names)
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    mail = parse(data[:_BYTES], Limits(parts=1))
    return [mail.get(name) for name in names]


def header_field(entry: Entry, name: str) -> str:
    """The first header field of that name; "" where there is none."""
    return header_fields(entry, (name,))[0]


def message_date(text: str) -> float | None:
    """A Date field's time in seconds since 1970; None where it tells none."""
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def header_label(entry: Entry, name: str) -> str:
    """The label in a header field, as one word; "" where there is none."""
    return "-".join(header_field(entry, name).lower().split())
