"""Files of text or tables: compression, encodings and pipes."""

from __future__ import annotations

import atexit
import bz2
import gzip
import io
import os
import re
import select
import shutil
import stat
import sys
import tempfile
import time
import zlib
from codecs import (
    BOM_UTF8,
    BOM_UTF16_BE,
    BOM_UTF16_LE,
    BOM_UTF32_BE,
    BOM_UTF32_LE,
    getincrementaldecoder,
)
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain
from lzma import LZMAError, LZMAFile
from pathlib import Path
from typing import Any, BinaryIO, cast
from zipfile import BadZipFile, ZipFile, ZipInfo

from streamnb.corpus.entry import iterate_lines
from streamnb.errors import (
    ConfigError,
    CorpusError,
    convert_os_errors,
    names_of_copies,
    require_extra,
)
from streamnb.mail.charsets import LATIN, decode_text, guess_fallback
from streamnb.patterns import lazy_pattern

# Suffixes of compressed files, and their first bytes.
COMPRESSIONS = {
    ".gz": b"\x1f\x8b",
    ".bz2": b"BZh",
    ".xz": b"\xfd7zXZ\0",
    ".zst": b"\x28\xb5\x2f\xfd",
    ".zip": b"PK\3\4",
}
MAX_ROW = 1 << 26  # maximum bytes of a line and characters of a cell; the rest is ignored
HEAD_BYTES = 1 << 18  # bytes of a file that are read to detect format, delimiter and columns
PIPE_WAIT_S = 10.0  # seconds to wait for a program that opens a named pipe for writing
# Byte order marks; that of UTF-32 begins with one of UTF-16.
_WIDE_MARKS = {
    BOM_UTF32_LE: "utf-32",
    BOM_UTF32_BE: "utf-32",
    BOM_UTF16_LE: "utf-16",
    BOM_UTF16_BE: "utf-16",
}
_TAR_MARK = slice(257, 262), b"ustar"
# Control characters that text does not have. Data with at least four, and one in fifty bytes, is
# not text.
_NO_TEXT = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1a\x1b"))
# Data files of other programs, by suffix, and how to convert them.
_FOREIGN_FILES = {
    **dict.fromkeys(
        (".rda", ".rdata", ".rds"),
        'data of R; convert it there with write.csv(data, "data.csv", row.names=FALSE)',
    ),
    **dict.fromkeys((".xls", ".xlsb"), "a spreadsheet; save it as CSV"),
    **dict.fromkeys(
        (".dta", ".feather", ".pickle", ".pkl", ".sas7bdat"),
        "not text; read it with pandas, and write it with to_csv(index=False)",
    ),
}
# Text files of other programs: a pattern of their beginning, or of each line, and a remedy. A line
# "1 | a text" of Vowpal Wabbit is also one of a table whose delimiter is "|".
_ARFF_START = lazy_pattern(rb"(?:\s|%[^\n]*\n)*@relation\s", re.IGNORECASE)
_NUMBER = rb"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?"
_FOREIGN_LINES = (
    (
        lazy_pattern(rb"%b(?: qid:\d+)?(?: +\d+:%b)+(?: *#.*)?" % (_NUMBER, _NUMBER)),
        "LIBSVM lines; read them with load_svmlight_file of sklearn.datasets, and train a model of "
        "counts in a program",
    ),
    (
        lazy_pattern(
            rb"%b(?: +%b)*(?: +'?[^\s|:]*)? +\|(?:[^\s|]|.*\s[^\s|]+:%b(?:\s|\Z)).*"
            % (_NUMBER, _NUMBER, _NUMBER)
        ),
        "Vowpal Wabbit lines; write each as LABEL<TAB>TEXT",
    ),
)
_PROBE_LINES = 20  # first lines of a file that are compared with these patterns
# Exceptions of decompressors and parsers for damaged files.
_COMPRESSION_ERRORS = (EOFError, zlib.error, LZMAError, BadZipFile)
DAMAGE_ERRORS = (ValueError, NotImplementedError, *_COMPRESSION_ERRORS)


def bare_suffix(path: Path) -> str:
    """Return the suffix of a file name in lower case, without the suffix of a compression.

    Examples
    --------
    >>> bare_suffix(Path("reviews.CSV.gz"))
    '.csv'
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def check_text(path: Path, head: bytes) -> None:
    """Raise CorpusError with the detected type if a file is neither text nor Parquet.

    Parameters
    ----------
    path
        The file.
    head
        Its first bytes, as `read_head` returns them.
    """
    if head.startswith(b"PAR1"):
        return
    problem = ""
    control_characters = len(head) - len(head.translate(None, _NO_TEXT))
    if _is_utf_16(head):
        problem = "not text in UTF-8, but perhaps in UTF-16 without mark; save the file as UTF-8"
    elif head[_TAR_MARK[0]] == _TAR_MARK[1]:
        problem = "a tar archive; unpack it first"
    elif re.match(rb"\s*\[\s*\{", head.removeprefix(BOM_UTF8)):
        problem = (
            "a JSON array; expected JSON Lines, one object a line: convert it with jq -c '.[]', "
            'or in pandas with to_json(orient="records", lines=True)'
        )
    elif control_characters >= max(4, len(head) / 50):
        problem = (
            "not text: it has many control characters; convert it to CSV, JSON Lines or Parquet"
        )
    elif _ARFF_START.match(head):
        problem = "ARFF, the format of Weka; save it as CSV there"
    else:
        lines = [line.strip(b" \r") for line in head.split(b"\n", _PROBE_LINES)[:_PROBE_LINES]]
        lines = [line for line in lines if line]
        for pattern, remedy in _FOREIGN_LINES:
            if lines and all(map(pattern.fullmatch, lines)):
                problem = remedy
    if problem:
        raise CorpusError(f"{path}: {_FOREIGN_FILES.get(bare_suffix(path), problem)}")


def _is_utf_16(head: bytes) -> bool:
    """Return whether about every second byte is zero, and few of the other bytes."""
    zeros = sorted(head[start::2].count(b"\0") for start in (0, 1))
    return 4 * zeros[1] > len(head) > 20 * zeros[0]


# Pipes


def remove_copies() -> None:
    """Remove the copies that `as_regular_file` made."""
    while names_of_copies:
        shutil.rmtree(os.path.dirname(names_of_copies.popitem()[0]), ignore_errors=True)


atexit.register(remove_copies)


def missing_file_hint(name: str, takes_texts: bool) -> str:
    """Return what to do about a file that does not exist.

    `takes_texts` tells whether the command reads texts, so the name may be one.
    """
    if "://" in name:
        return "; download it first, because streamnb reads files"
    is_text = takes_texts and (" " in name or not any(char in name for char in "/."))
    return "; pass a text on standard input: echo TEXT | streamnb COMMAND ... -" if is_text else ""


def as_regular_file(name: str | Path, head: bytes = b"", takes_texts: bool = False) -> Path:
    """Return a path that can be read twice: a copy of standard input ("-") or of a pipe.

    The copy begins with `head`, the bytes that have been read. It is a temporary file, which is
    removed at the end of the process.

    Raises
    ------
    CorpusError
        If the file or folder does not exist, or cannot be read.
    """
    path = Path(name)
    is_input = str(name) == "-"
    if not is_input and not path.exists():
        hint = missing_file_hint(str(name), takes_texts)
        raise CorpusError(f"{name}: no such file or folder{hint}")
    if not is_input and (path.is_dir() or path.is_file()):
        return path
    if not is_input and not path.is_fifo():
        raise CorpusError(f"{path}: cannot be read: neither a file, a folder nor a pipe")
    label = "standard input" if is_input else str(path)
    if is_input and sys.stdin is None:
        raise CorpusError("standard input: it is closed")
    parts = _read_parts(None if is_input else path, label)
    copy = _copy_parts(chain([head], parts), "stdin" if is_input else path.name, label)
    if not copy.stat().st_size:
        raise CorpusError(f"{label}: it is empty")
    return copy


def as_plain_file(path: Path) -> Path:
    """Return a file, or its copy as UTF-8 if it is compressed or not in UTF-8."""
    with open(path, "rb") as file:
        is_encoded = bool(_compression(file)) or bool(_wide_encoding(file.read(4)))
    if not is_encoded:
        return path
    with open_decompressed(path) as stream:
        return _copy_parts(_stream_parts(stream, path), path.name, str(path))


def _stream_parts(stream: BinaryIO, path: Path) -> Iterator[bytes]:
    """Read a stream in parts. Errors name the path."""
    with convert_os_errors(CorpusError, f"{path}: cannot be read", *DAMAGE_ERRORS):
        yield from iter(lambda: stream.read(1 << 20), b"")


def _copy_parts(parts: Iterable[bytes], name: str, label: str) -> Path:
    """Write a temporary file with a name. Errors have the label of the source instead."""
    folder = tempfile.mkdtemp(prefix="streamnb-")
    copy = Path(folder) / name
    names_of_copies[str(copy)] = label
    failure = f"{label}: cannot be copied to {folder}; set TMPDIR to a folder with enough space"
    with convert_os_errors(CorpusError, failure), open(copy, "wb") as file:
        file.writelines(parts)
    os.utime(copy, (0, 0))  # an old time, so readers of an mbox do not wait for changes
    return copy


def _read_parts(path: Path | None, label: str) -> Iterator[bytes]:
    """Read a pipe, or standard input without a path, in parts."""
    with convert_os_errors(CorpusError, f"{label}: cannot be read"):
        if path is None:
            yield from iter(lambda: sys.stdin.buffer.read(1 << 20), b"")
        else:
            yield from read_pipe(path)


def read_pipe(path: str | Path) -> Iterator[bytes]:
    """Read a pipe or another file in parts.

    Raises
    ------
    CorpusError
        If no program opens a named pipe for writing within `PIPE_WAIT_S` seconds.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            yield _wait_for_writer(descriptor, path)
        os.set_blocking(descriptor, True)
        while part := os.read(descriptor, 1 << 20):
            yield part
    finally:
        os.close(descriptor)


def _wait_for_writer(descriptor: int, path: str | Path) -> bytes:
    """Wait for a program to open a pipe for writing; return the bytes in the pipe."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    deadline = time.monotonic() + PIPE_WAIT_S
    while time.monotonic() < deadline:
        is_ready = poller.poll(20)  # data, or a writer that closed the pipe
        try:
            part = os.read(descriptor, 1 << 16)
        except BlockingIOError:  # a writer without data
            return b""
        if part or is_ready:
            return part
    raise CorpusError(
        f"{path}: no program writes into this pipe (waited {PIPE_WAIT_S:g} s); start the writer "
        "first, or name a file"
    )


# Compression and encoding


def is_compressed_file(path: Path) -> bool:
    """Return whether a file is compressed, by its first bytes."""
    with convert_os_errors(CorpusError, f"{path}: cannot be read"), open(path, "rb") as file:
        return bool(_compression(file))


def _compression(file: BinaryIO) -> str:
    """Return the suffix of the compression of a file, "" without one."""
    magic = file.read(6)
    file.seek(0)
    return next((suffix for suffix, mark in COMPRESSIONS.items() if magic.startswith(mark)), "")


@contextmanager
def open_decompressed(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, decompressed. UTF-16 and UTF-32 with a mark become UTF-8.

    gzip, bzip2, xz, Zstandard, and zip archives of one file are decompressed.
    """
    with open(path, "rb") as file:
        suffix = _compression(file)
        with _decompressor(file, suffix, path) if suffix else nullcontext(file) as stream:
            try:
                encoding = _wide_encoding(cast(io.BufferedReader, stream).peek(4))
                yield io.BufferedReader(_ToUtf8(stream, encoding)) if encoding else stream
            except _COMPRESSION_ERRORS as error:
                raise CorpusError(f"{path}: cannot be read: {error}") from None


def _wide_encoding(head: bytes) -> str:
    """Return the encoding of a file whose head has the mark of UTF-16 or UTF-32, else ""."""
    return next((name for mark, name in _WIDE_MARKS.items() if head.startswith(mark)), "")


class _ToUtf8(io.RawIOBase):
    """A stream that converts UTF-16 or UTF-32 with a mark to UTF-8; damage becomes U+FFFD."""

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._stream = stream
        self._decoder = getincrementaldecoder(encoding)("replace")
        self._decoded = b""  # converted bytes that have not been read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with converted bytes; convert the next part if there are none."""
        while not self._decoded:
            part = self._stream.read(len(buffer))
            self._decoded = self._decoder.decode(part, final=not part).encode("utf-8", "replace")
            if not part:
                break
        content, self._decoded = self._decoded[: len(buffer)], self._decoded[len(buffer) :]
        buffer[: len(content)] = content
        return len(content)


def _decompressor(file: BinaryIO, suffix: str, path: Path) -> BinaryIO:
    """Return a stream that decompresses a file; import modules on demand."""
    stream: Any = _open_stream(file, suffix, "rb")
    if stream is not None:
        return cast(BinaryIO, stream)
    if suffix == ".zip":
        try:
            archive = ZipFile(file)
        except BadZipFile:
            raise CorpusError(f"{path}: cannot be read: damaged zip archive") from None
        members = [member for member in archive.infolist() if not member.is_dir()]
        if len(members) != 1 or members[0].flag_bits & 1:
            raise CorpusError(f"{path}: {_describe_archive(members)}")
        stream = archive.open(members[0])
    else:
        try:
            from compression import zstd  # type: ignore[import-not-found]  # Python 3.14

            stream = zstd.ZstdFile(file)
        except ImportError:
            with require_extra("parquet", f"{path}: Zstandard needs pyarrow"):
                import pyarrow
            stream = io.BufferedReader(pyarrow.CompressedInputStream(file, "zstd"))
    return cast(BinaryIO, stream)


def _describe_archive(members: list[ZipInfo]) -> str:
    """Return the kind of a zip archive that cannot be read as one file, and advice."""
    names = {member.filename for member in members}
    if "header.npy" in names:
        return "a model, not data; name the model first, then the data"
    if "xl/workbook.xml" in names:
        return "a spreadsheet; save it as CSV"
    if "content.xml" in names:  # of LibreOffice: a spreadsheet, a text or slides
        return "an office document; save it as CSV or text"
    reason = "it is encrypted" if len(members) == 1 else f"it holds {len(members)} files"
    return f"a zip archive or an office document; unpack it: {reason}"


@contextmanager
def open_compressed(file: BinaryIO, path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing, compressed as the suffix of a path says.

    Raises
    ------
    ConfigError
        If the suffix is that of Zstandard, which can only be read.
    """
    suffix = path.suffix.lower()
    stream = _open_stream(file, suffix, "wb")
    if stream is not None:
        with stream:
            yield stream
    elif suffix in COMPRESSIONS:
        raise ConfigError(f"{path}: {suffix} cannot be written; use .gz, .bz2 or .xz")
    else:
        yield file


def _open_stream(file: BinaryIO, suffix: str, mode: Any) -> BinaryIO | None:
    """Return a gzip, bzip2 or xz stream in the mode "rb" or "wb"; None for other suffixes."""
    stream: Any = None
    if suffix == ".gz":
        stream = gzip.GzipFile("", mode, fileobj=file, mtime=0)
    elif suffix == ".bz2":
        stream = bz2.BZ2File(file, mode)
    elif suffix == ".xz":
        stream = LZMAFile(file, mode)  # noqa: SIM115 (the caller closes it)
    return cast("BinaryIO | None", stream)


def read_head(path: Path, size: int = HEAD_BYTES) -> bytes:
    """Return the first bytes of a file, decompressed."""
    with (
        convert_os_errors(CorpusError, f"{path}: cannot be read", *DAMAGE_ERRORS),
        open_decompressed(path) as file,
    ):
        return file.read(size)


def guess_encoding(head: bytes) -> str:
    """Return the encoding of those lines of a file that are not UTF-8, by its first bytes.

    The result is an argument of `decode_line`. It is `LATIN`, which means Windows-1252, if the
    lines are Latin or too few.
    """
    return guess_fallback((line, "") for line in head.splitlines())


def describe_encoding(head: bytes) -> str:
    r"""Return the encoding in which a file is read, by its first bytes; "" if it is UTF-8.

    Examples
    --------
    >>> describe_encoding("label,text\n1,доставка задержана\n".encode("cp1251"))
    'cp1251'
    >>> describe_encoding("1,Größe\n".encode("latin-1")), describe_encoding("1,Größe\n".encode())
    ('Windows-1252', '')
    """
    try:
        getincrementaldecoder("utf-8")().decode(head)  # the last character may be incomplete
        return ""
    except UnicodeDecodeError:
        encoding = guess_encoding(head)
        return "Windows-1252" if encoding == LATIN else encoding


def decode_line(line: bytes, encoding: str = LATIN) -> str:
    """Decode UTF-8, or `encoding` if the bytes are not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return decode_text(line, fallback=encoding)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield numbered lines as text, without byte order mark, each of at most `MAX_ROW` bytes."""
    encoding = guess_encoding(read_head(path))
    with open_decompressed(path) as file:
        for number, line in enumerate_whole_lines(file):
            yield number, decode_line(line, encoding)


def enumerate_whole_lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines without byte order mark, each truncated to `MAX_ROW` bytes."""
    for number, line in iterate_lines(file, MAX_ROW):
        if number == 1 and b"\r" in line and not line.endswith(b"\n"):
            yield from enumerate(_split_at_returns(line), 1)
            return
        remainder = line
        while remainder and not remainder.endswith(b"\n"):
            remainder = file.readline(1 << 20)
        yield number, line.removeprefix(BOM_UTF8) if number == 1 else line


def _split_at_returns(content: bytes) -> list[bytes]:
    """Return the lines of a file without line feeds, which end at carriage returns."""
    lines = content.removeprefix(BOM_UTF8).split(b"\r")
    return [line + b"\n" for line in lines if line]
