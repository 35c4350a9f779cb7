"""Entries of a corpus: the location of labelled messages, and the reading of their content."""

from __future__ import annotations

import bz2
import lzma
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from streamnb.data_format import DataFormat
from streamnb.errors import CorpusError, root_cause
from streamnb.limits import MAX_MESSAGE

# imported here because clients of `streamnb serve` import this module and parse no mail
if TYPE_CHECKING:
    from streamnb.mail import Mail

_HEADER_BYTES = 1 << 16  # bytes of a message that are searched for header fields
_QUOTED = re.compile(rb"(?<![^\r\n])>(>*From )")


class Entry(NamedTuple):
    """The location of one labelled message; it can be sent to other processes.

    Attributes
    ----------
    name
        Its name in results: the path within the corpus, or file and line.
    label
        The label; "" without one.
    path
        The file with the message.
    start, end
        The bytes of the message in an mbox file; `end` is -1 for a file with one message.
    text
        The message, if the corpus was read with it; else None.
    classify, learn
        Whether to classify the message, and to learn it.
    problem
        The reason why a line of the corpus is not a message. Such an entry has no label.
    date
        The date in a column of a table, in seconds since 1970; None without such a column.
    """

    name: str
    label: str
    path: str
    start: int = 0
    end: int = -1
    text: str | None = None
    classify: bool = True
    learn: bool = True
    problem: str = ""
    date: float | None = None

    def date_sent(self) -> float | None:
        """Return the date, or that of the header field Date; None without a date."""
        return message_date(header_field(self, "date")) if self.date is None else self.date


def iterate_lines(file: BinaryIO, max_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Read numbered lines, from 1; a line longer than `max_bytes` is returned in pieces."""
    return enumerate(iter(lambda: file.readline(max_bytes), b""), 1)


@dataclass
class Corpus:
    """A stream of labelled messages.

    Attributes
    ----------
    kind
        The reader, one of `KINDS`.
    path
        The file or folder.
    description
        Description of the detected format, in one line.
    content
        "mail" for whole messages, "text" for plain text.
    entries
        A function that returns a new iterator over the entries, in the order of the corpus.
    drop_headers
        Header fields with labels, which the classifier must not read.
    size
        The number of entries; None if it is not known before they are read.
    data_format
        The columns of a table; None in other kinds.
    notices
        What looks wrong in the data, for the user.
    """

    kind: str
    path: Path
    description: str
    content: str
    entries: Callable[[], Iterator[Entry]]
    drop_headers: tuple[str, ...] = field(default=())
    size: int | None = None
    data_format: DataFormat | None = None
    notices: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Entry]:
        return self.entries()


def _unquote(message: bytes) -> bytes:
    """Remove one `>` from lines that were quoted because they look like a separator."""
    return _QUOTED.sub(rb"\1", message) if message.find(b">From ") >= 0 else message


# Programs such as Dovecot compress the files of a Maildir. Pattern of the first bytes, name and
# decompressor; None for an unsupported one.
_COMPRESSIONS: tuple[tuple[re.Pattern[bytes], str, Callable[[], Any] | None], ...] = (
    (re.compile(rb"\x1f\x8b\x08"), "gzip", lambda: zlib.decompressobj(zlib.MAX_WBITS | 16)),
    (re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), "bzip2", bz2.BZ2Decompressor),
    (re.compile(rb"\xfd7zXZ\x00"), "xz", lambda: lzma.LZMADecompressor(memlimit=1 << 28)),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "zstd", None),
    (re.compile(rb"Dovecot-LZ4\r\*\x9b\xc5"), "lz4", None),
)
_PIECE = 4096  # bytes for a decompressor at a time
_COMPRESSED = re.compile(b"|".join(pattern.pattern for pattern, *_ in _COMPRESSIONS))


def is_compressed(data: bytes) -> bool:
    """Return whether a file with these first bytes is compressed."""
    return _COMPRESSED.match(data) is not None


def decompress(data: bytes, max_bytes: int, name: str) -> bytes:
    """Return the first bytes of a message, decompressed if it is compressed.

    Parameters
    ----------
    data
        The file, or its first bytes.
    max_bytes
        Maximum length of the result, because a small file can contain a huge message.
    name
        The name of the file in errors.

    Raises
    ------
    CorpusError
        If the data is damaged, or in an unsupported format.
    """
    if not is_compressed(data):
        return data
    for pattern, kind, make_decompressor in _COMPRESSIONS:
        if not pattern.match(data):
            continue
        if make_decompressor is None:
            raise CorpusError(
                f"{name}: {kind} compression is not supported here: decompress the file first"
            )
        try:
            return _read_streams(data, max_bytes, pattern, make_decompressor)
        except (zlib.error, lzma.LZMAError, OSError, ValueError) as error:
            raise CorpusError(f"{name}: damaged {kind} data: {error}") from None
    return data


def _read_streams(
    data: bytes, max_bytes: int, pattern: re.Pattern[bytes], make_decompressor: Callable[[], Any]
) -> bytes:
    """Return the first bytes of compressed streams, which programs append to each other.

    At the end of a stream, its decompressor copies the rest of its input. So it gets small pieces:
    a hostile file can have a stream in every 20 bytes.
    """
    text, start, decompressor = bytearray(), 0, None
    while start < len(data) and len(text) < max_bytes:
        if decompressor is None:
            if not pattern.match(data, start):
                break
            decompressor = make_decompressor()
        piece = data[start : start + _PIECE]
        text += decompressor.decompress(piece, max_bytes - len(text))
        start += len(piece)
        if decompressor.eof:
            start -= len(decompressor.unused_data)
            decompressor = None
    return bytes(text)


def read(entry: Entry, max_bytes: int = MAX_MESSAGE, follow_links: bool = True) -> bytes | str:
    """Return the content of a message.

    Parameters
    ----------
    entry
        The location of the message.
    max_bytes
        Maximum length of the content, in bytes.
    follow_links
        Whether the file may be a symbolic link.

    Raises
    ------
    CorpusError
        If the message cannot be read, naming the file.
    """
    if entry.problem:
        raise CorpusError(entry.problem)
    if entry.text is not None:
        return entry.text
    try:
        # O_NONBLOCK: a pipe without a writer must not block the replay.
        flags = os.O_RDONLY | os.O_NONBLOCK | (0 if follow_links else os.O_NOFOLLOW)
        descriptor = os.open(entry.path, flags)
        try:
            if entry.end >= 0:
                size = min(entry.end - entry.start, max_bytes)
                return _unquote(os.pread(descriptor, size, entry.start))
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise CorpusError(f"{entry.path}: cannot be read: not a regular file")
            data = _read_bytes(descriptor, min(status.st_size + 1, max_bytes))
            if is_compressed(data):  # bzip2 has no first bytes without a block of up to 900 kB
                data += _read_bytes(descriptor, min(status.st_size, MAX_MESSAGE))
            return decompress(data, max_bytes, entry.path)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise CorpusError(f"{entry.path}: cannot be read: {root_cause(error).lower()}") from None


def _read_bytes(descriptor: int, size: int) -> bytes:
    data = os.read(descriptor, size)
    # A file system can return fewer bytes than requested.
    while 0 < len(data) < size - 1 and (piece := os.read(descriptor, size - len(data))):
        data += piece
    return data


def _parse_header(entry: Entry) -> Mail:
    """Return the header of a message; an empty header if the file cannot be read.

    The error is reported when the message itself is read.
    """
    from streamnb.mail import Limits, Mail, parse

    try:
        content = read(entry, _HEADER_BYTES)
    except CorpusError:
        return Mail()
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    return parse(data[:_HEADER_BYTES], Limits(parts=1))


def header_field(entry: Entry, name: str) -> str:
    """Return the first header field with a name; "" if there is none."""
    return _parse_header(entry).get(name)


def message_envelope(entry: Entry) -> tuple[float | None, list[str]]:
    """Return the date of a message, in seconds since 1970, and the addresses of its recipients."""
    from email.utils import getaddresses

    from streamnb.mail.decode import decode_words

    mail = _parse_header(entry)
    recipients = [
        decode_words(value)
        for name, value in mail.fields
        if name.lower() in (b"to", b"cc", b"delivered-to", b"x-original-to")
    ]
    try:
        addresses = [address for _, address in getaddresses(recipients) if address]
    except RecursionError:  # parentheses nested thousands deep
        addresses = []
    date = message_date(mail.get("date")) if entry.date is None else entry.date
    return date, addresses


def message_date(text: str) -> float | None:
    """Return the time of a Date field in seconds since 1970; None if it is not a date."""
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(text)
        if date.tzinfo is None:  # -0000 is universal time
            date = date.replace(tzinfo=UTC)
        return date.timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def label_from_header(entry: Entry, name: str | None) -> Entry:
    """Return an entry with the label in a header field, unfolded and in lower case.

    If no field is named, the entry keeps its label.
    """
    if name is None:
        return entry
    return entry._replace(label=" ".join(header_field(entry, name).lower().split()))
