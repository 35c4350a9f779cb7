"""mbox files: a sequence of messages, each after a line that begins with "From ".

MMDF files are read too. Each of their messages is between two lines of four ^A. Babyl files of
Emacs are read by the header that Rmail shows.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from streamnb.corpus.entry import Corpus, Entry, label_from_header
from streamnb.corpus.folders import check_class_names, class_name
from streamnb.errors import CorpusError, convert_os_errors
from streamnb.limits import MAX_MESSAGE
from streamnb.patterns import lazy_pattern

_CHUNK = 1 << 20
# A separator is a line that begins with "From ", after a blank line or at the start of the file,
# and before a header field. Behind "From " is nothing, a sender, or a sender and a date or time,
# because a sentence can begin with "From", and a line such as "Note: x" can follow it.
# Before a message without a header, the separator must be complete (RFC 4155: sender and date).
# After a line that is not blank, it must be complete, or have "From " only, as Thunderbird writes
# it. Editors and shells write byte order marks and empty lines before the first separator.
_FROM = b"From "
_LINE_END = rb"(?:\r*+\n(?!\r[^\n])|\n\r|\r(?!\n))"  # LF, CRLF, LF CR or CR
_START = rb"(?:\xef\xbb\xbf)?[\r\n]{0,64}"
_BEFORE_FIRST = lazy_pattern(_START)
_BLANK_LINE = lazy_pattern(rb"(?:\n\r*\n\r?|\r\r)\Z")
_FIELD = rb"(?=[!-9;-~]{1,200}+[ \t]{0,20}+:|>From )"
_NAMED_FIELD = rb"(?=[A-Za-z][!-9;-~]{0,200}+:[ \t\r\n])"  # no address of a page, and no time
_QUOTED = rb"\"(?:[^\"\\\r\n]|\\.){1,300}+\"\S{0,300}+"
_SENDER = rb"(?:%b|\S{1,500}+)(?: at \S{1,300}+| <[^>\r\n]{1,300}+>)?" % _QUOTED
_TIME = rb"\d?\d:\d\d(?::\d\d)?"
_ZONE = rb"(?: \(?[A-Z+-]\w{0,4}\)?){0,2}"
_WEEKDAY = rb"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),?"
# The date of asctime(), or of RFC 5322; Dovecot and mutt read both.
_DATE = (
    rb"From %b {1,20}+%b"
    rb" (?:[A-Z][a-z]{2} {1,2}\d?\d %b%b \d{2,4}|\d?\d [A-Z][a-z]{2} \d{2,4} %b)"
    rb"(?:%b| remote from \S{1,300}+)%b"
) % (_SENDER, _WEEKDAY, _TIME, _ZONE, _TIME, _ZONE, _LINE_END)
# The beginning of a date of any program: a weekday, a date of ISO 8601, or a time and a year.
_ANY_DATE = (
    rb"(?:%b |\d{4}-\d\d-\d\d|(?>[^\r\n]{0,300}?\d\d:\d\d)[^\r\n]{0,60}?\b[12]\d{3}\b"
    rb"|(?>[^\r\n]{0,300}?\b[12]\d{3}[^\w\r\n]{1,3}\d?\d:)\d\d)"
) % _WEEKDAY
_LINE = lazy_pattern(
    rb"From (?:%b)?[ \t]{0,20}+(?:(?<=[ \t])%b[^\r\n]{0,1000}+)?%b%b|%b(?=[\r\n])"
    % (_SENDER, _ANY_DATE, _LINE_END, _FIELD, _DATE)
)
_COMPLETE_LINE = lazy_pattern(rb"%b%b|From %b%b" % (_DATE, _FIELD, _LINE_END, _NAMED_FIELD))
# `git format-patch` begins each patch with this line, whose date is constant. A patch within a
# message, such as an attachment, has it, too.
_PATCH_LINE = lazy_pattern(rb"From (?:[0-9a-f]{40}|[0-9a-f]{64}) Mon Sep 17 00:00:00 2001[\r\n]")
_FIRST = lazy_pattern(rb"%bFrom [^\r\n]*\d\d:\d\d[^\r\n]*\b[12]\d{3}\b[^\r\n]*[\r\n]" % _START)
_MMDF = lazy_pattern(rb"^\x01{4}\r?\n", re.M)
_CONTENT_LENGTH = lazy_pattern(rb"\ncontent-length[ \t]*:[ \t]*(\d{1,12})[ \t]*\r?\n")
_HEADER_END = lazy_pattern(rb"\n\r?\n")
_MAX_HEADER = 1 << 14  # bytes of a header that are searched for a Content-Length
# The bytes after a message with a correct Content-Length.
_AFTER_CONTENT = lazy_pattern(rb"(?:\r?\n){0,2}(?:\Z|From )")
_LOCK_TIMEOUT_S = 5.0  # seconds; deliveries take less
# Seconds without a change after which a message without an empty line at its end is complete.
# Programs without a lock write the next block of a message earlier.
_QUIET_S = 1.0
_PARAGRAPH_S = 0.5  # as `_QUIET_S`, after an empty line, which can end a paragraph or the message
_STALE_LOCK_S = 600.0  # seconds; mail programs remove older lock files
_OVERLAP = 2048  # bytes; longer than a separator with the name of a field


def is_mbox(head: bytes) -> bool:
    """Return whether text begins like an mbox or MMDF file."""
    return (
        head.startswith((b"\1\1\1\1\n", b"\1\1\1\1\r\n", b"BABYL OPTIONS:"))
        # a text can begin with "From", too
        or (head.startswith(_FROM) and any(_find_separators(BytesIO(head))))
        or _FIRST.match(head.lstrip(b"\0")[:_OVERLAP]) is not None
    )


def _find_separators(file: BinaryIO) -> Iterator[tuple[int, int]]:
    """Return the start and the end of each separator line, reading one chunk at a time.

    The first line of a patch is a separator only in a file that begins with one.
    """
    window_start = 0
    tail = b""
    previous = -1
    has_patches = True
    while True:
        chunk = file.read(_CHUNK)
        window = tail + chunk
        position = window.find(_FROM)
        while position >= 0:
            match = _match_separator(window, position, is_start=window_start == 0)
            if match is not None and window_start + position > previous:
                is_patch = _PATCH_LINE.match(window, position) is not None
                has_patches = has_patches if previous >= 0 else is_patch
                previous = window_start + position
                if has_patches or not is_patch:
                    yield previous, window_start + match.end()
            position = window.find(_FROM, position + 1)
        if not chunk:
            return
        overlap = min(len(window), _OVERLAP)
        window_start += len(window) - overlap
        tail = window[len(window) - overlap :]


def _match_separator(window: bytes, position: int, is_start: bool) -> re.Match[bytes] | None:
    """Return the match of a separator at a position of a part of a file, or None."""
    before = window[max(position - 4, 0) : position]
    if is_start and _BEFORE_FIRST.fullmatch(window, 0, position):
        return _LINE.match(window, position)
    if before[-1:] not in (b"\n", b"\r", b"\0"):  # a crash can leave NULs in place of a message
        return None
    return (_LINE if _BLANK_LINE.search(before) else _COMPLETE_LINE).match(window, position)


def _find_mmdf_messages(file: BinaryIO) -> Iterator[tuple[int, int]]:
    """Return the first byte of each message of an MMDF file, and the byte after its last.

    Empty lines between two messages belong to neither.
    """
    begin = position = 0
    is_empty = True
    while line := file.readline(_CHUNK):
        if _MMDF.match(line):
            if not is_empty:
                yield begin, position
            begin, is_empty = position + len(line), True
        elif line.strip():
            is_empty = False
        position += len(line)
    if not is_empty:
        yield begin, position


def _find_babyl_messages(file: BinaryIO) -> Iterator[tuple[int, int]]:
    """Return the first byte of each message of a Babyl file, and the byte after its last.

    The header before the line EOOH, which Rmail does not show, is left out.
    """
    begin, position = -1, 0
    while line := file.readline(_CHUNK):
        if line.rstrip() == b"*** EOOH ***" and begin < 0:
            begin = position + len(line)
        elif line.startswith(b"\x1f") and begin >= 0:
            yield begin, position
            begin = -1
        position += len(line)
    if begin >= 0:
        yield begin, position


def _content_end(file: BinaryIO, begin: int) -> int:
    """Return the end of a message by its Content-Length; `begin` if the field is wrong.

    The field is correct if a separator or the end of the file follows.
    """
    head = os.pread(file.fileno(), _MAX_HEADER, begin)
    blank_line = _HEADER_END.search(head)
    if blank_line is None:
        return begin
    # lower() and a literal at the start of the pattern are ten times as fast as re.IGNORECASE
    length = _CONTENT_LENGTH.search(b"\n" + head[: blank_line.start() + 1].lower())
    if length is None:
        return begin
    end = begin + blank_line.end() + int(length[1])
    size = os.fstat(file.fileno()).st_size
    is_right = end <= size and _AFTER_CONTENT.match(os.pread(file.fileno(), 9, end))
    return end if is_right else begin


def _find_messages(path: Path) -> Iterator[tuple[int, int]]:
    """Return the first byte of each message, after its separator, and the byte after its last.

    Raises
    ------
    CorpusError
        After all messages except the last one, if another program is writing to the file.
    """
    with open(path, "rb") as file:
        size, is_free = _unlocked_size(file, path)
        mark = file.read(6)
        file.seek(0)
        if mark.startswith(b"\1\1\1\1"):
            messages = _find_mmdf_messages(file)
        elif mark == b"BABYL ":
            messages = _find_babyl_messages(file)
        else:
            messages = _find_mbox_messages(file, size)
        for begin, end in messages:
            if begin >= size:
                return
            if end >= size and not (is_free and _is_complete(file, begin, size)):
                raise CorpusError(
                    f"{path}: the last message was not read, because another program has locked "
                    "the file or is writing to it; run the command again"
                )
            yield begin, min(end, size)


def _find_mbox_messages(file: BinaryIO, size: int) -> Iterator[tuple[int, int]]:
    """Return the first byte of each message before `size`, and the byte after its last."""
    begin = content_end = -1
    for separator_start, separator_end in _find_separators(file):
        if separator_start >= size:
            break
        if separator_start < content_end:  # a line of the message with the form of a separator
            continue
        if begin >= 0:
            yield begin, separator_start
        begin = separator_end
        content_end = _content_end(file, begin)
    if begin >= 0:
        yield begin, size


def _unlocked_size(file: BinaryIO, path: Path) -> tuple[int, bool]:
    """Return the size of an mbox as soon as it is not locked, and whether it was unlocked in time.

    Mail programs lock an mbox by a file with the suffix .lock, by fcntl, by flock, or by several of
    these. Messages that they append later are beyond this size.
    """
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        size = os.fstat(file.fileno()).st_size
        is_free = not _is_locked(file, path) and os.fstat(file.fileno()).st_size == size
        if is_free or time.monotonic() > deadline:
            return size, is_free
        time.sleep(0.05)


def _has_end(file: BinaryIO, begin: int, size: int) -> bool:
    """Return whether the last message has an end: an empty line after a body, or a line of MMDF."""
    end = os.pread(file.fileno(), 16, max(size - 16, begin)).replace(b"\r", b"")
    if not end.endswith((b"\n\n", b"\n\1\1\1\1\n")):
        return False
    blank_line = _HEADER_END.search(os.pread(file.fileno(), _MAX_HEADER, begin))
    return blank_line is None or begin + blank_line.end() < size


def _is_complete(file: BinaryIO, begin: int, size: int) -> bool:
    """Return whether the last message, from `begin` to `size`, is complete.

    Some programs write without a lock. If the message has no visible end and the file has just
    changed, the function waits for further changes.
    """
    is_old = abs(time.time() - os.fstat(file.fileno()).st_mtime) > _QUIET_S
    if not is_old and _content_end(file, begin) != size:
        deadline = time.monotonic() + (_PARAGRAPH_S if _has_end(file, begin, size) else _QUIET_S)
        while time.monotonic() < deadline and os.fstat(file.fileno()).st_size == size:
            time.sleep(0.05)
    return _is_whole(file, size)


def _is_whole(file: BinaryIO, size: int) -> bool:
    """Return whether an mbox grew beyond this size by complete messages only, or not at all."""
    if os.fstat(file.fileno()).st_size <= size:
        return True
    added = os.pread(file.fileno(), _OVERLAP, size)
    return re.match(rb"[\r\n]{0,64}From ", added) is not None


def _is_locked(file: BinaryIO, path: Path) -> bool:
    """Return whether another program has locked an mbox."""
    try:
        lock_time = os.stat(f"{path}.lock").st_mtime
    except OSError:
        lock_time = 0.0
    if time.time() - lock_time < _STALE_LOCK_S:
        return True
    for lock in (fcntl.lockf, fcntl.flock):  # in Linux, the one does not see the other
        try:
            lock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            lock(file, fcntl.LOCK_UN)
        except OSError as error:  # the file system may not support locks
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return True
    return False


def open_mbox(paths: list[Path], root: Path, label_header: str | None = None) -> Corpus:
    """Return the corpus of mbox files, labelled by file name or by a header field."""
    if label_header is None:
        check_class_names((path.stem for path in paths), root)

    def entries() -> Iterator[Entry]:
        for path in paths:
            label = class_name(path.stem)
            name = path.relative_to(root).as_posix() if path != root else path.name
            number = 0
            with convert_os_errors(CorpusError, f"{path}: cannot be read"):
                for number, (start, end) in enumerate(_find_messages(path), 1):
                    entry = Entry(
                        f"{name}:{number}", label, str(path), start, min(end, start + MAX_MESSAGE)
                    )
                    yield label_from_header(entry, label_header)
            if number == 0:
                raise CorpusError(
                    f"{path}: no message found; an mbox begins with a line 'From sender date', and "
                    "a message of a Babyl file with '*** EOOH ***'"
                )

    source = f"labels from the field {label_header}" if label_header else "labelled by file name"
    files = paths[0].name if len(paths) == 1 else f"{len(paths)} files"
    drop_headers = (label_header,) if label_header else ()
    return Corpus("mbox", root, f"mbox, {files}, {source}", "mail", entries, drop_headers)
