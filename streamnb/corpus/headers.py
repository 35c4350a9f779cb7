"""A look at the header of a message, before it is read."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from streamnb.corpus.entry import Entry, Labels, read
from streamnb.errors import CorpusError

if TYPE_CHECKING:  # what only asks a running `streamnb serve` must not wait for the parsers
    from streamnb.mail import Mail

_BYTES = 1 << 16


def _header(entry: Entry) -> Mail:
    """The header of a message; an empty one where the file cannot be read.

    (A file that cannot be read is reported when its turn comes.)
    """
    from streamnb.mail import Limits, Mail, parse

    try:
        content = read(entry, _BYTES)
    except CorpusError:
        return Mail()
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    return parse(data[:_BYTES], Limits(parts=1))


def header_field(entry: Entry, name: str) -> str:
    """The first header field of that name; "" where there is none."""
    return _header(entry).get(name)


def message_envelope(entry: Entry) -> tuple[float | None, list[str]]:
    """When a message was sent, and the addresses it was sent to."""
    from email.utils import getaddresses

    from streamnb.mail.decode import decode_words

    mail = _header(entry)
    to = [
        decode_words(value)
        for name, value in mail.fields
        if name.lower() in (b"to", b"cc", b"delivered-to", b"x-original-to")
    ]
    try:
        addresses = [address for _, address in getaddresses(to) if address]
    except RecursionError:  # of parentheses within parentheses
        addresses = []
    return message_date(mail.get("date")), addresses


def message_date(text: str) -> float | None:
    """A Date field's time in seconds since 1970; None where it tells none."""
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(text)
        if date.tzinfo is None:  # -0000: universal time, and where it was is not told
            date = date.replace(tzinfo=UTC)
        return date.timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def labelled(entry: Entry, name: str | None, labels: Labels, where: str) -> Entry:
    """An entry with the label in a header field, in small letters; without a name as it is."""
    if name is None:
        return entry
    return entry._replace(label=labels.word(header_field(entry, name).lower().strip(), where))
