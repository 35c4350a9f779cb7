"""Read the messages of a file, standard input, an mbox, a Maildir or a folder."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import merge
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from streamnb.corpus import Entry, read
from streamnb.corpus.entry import decompress, is_compressed
from streamnb.corpus.folders import is_maildir
from streamnb.corpus.maildir_flags import split_maildir_flags
from streamnb.corpus.mbox import is_mbox, open_mbox
from streamnb.errors import CorpusError, StreamNBError, convert_os_errors, printable, root_cause
from streamnb.limits import MAX_MESSAGE
from streamnb.patterns import lazy_pattern

_LINK = "not read: symbolic links in a folder are not followed; name the target of the link"


class SourceMessage(NamedTuple):
    """A message, or the error of one that cannot be read.

    Attributes
    ----------
    name
        Its name in results.
    content
        The message, up to the limit of length, or the error.
    """

    name: str
    content: bytes | StreamNBError


_LOOKED_AT = 1 << 13
# Bytes of a header that are searched for marks of deletion. Pine and Dovecot write them behind the
# fields of mail servers, which often have more than 8 KiB.
_HEADER_BYTES = 1 << 16
# files read to decide whether an empty file beside them is an mbox, and whether a text is a message
_MAX_NEIGHBOURS = 20
# Files of programs without mail: indexes and rules of Thunderbird, Evolution, Dovecot, Cyrus,
# Eudora and Apple Mail, Apple Mail's attachments, removed messages of MH (`,12` and `#12`), labels
# and settings that Proton and Google export beside mail, files of Windows, and the history of the
# SpamAssassin corpus.
_PROGRAM_FILES = lazy_pattern(
    r".*\.(?:msf|mozmsgs|sbd\.lock|cmeta|ev-summary(?:-meta)?|ibex\.index(?:\.data)?)"
    r"|msgFilterRules\.dat|filterlog\.html|popstate\.dat"
    r"|dovecot[.-].*|subscriptions|maildirsize|maildirfolder|cyrus\.[a-z]+|.*\.emlxpart"
    r"|Info\.plist|table_of_contents|[,#][0-9]+|.*\.toc|.*\.metadata\.json|labels\.json"
    r"|.*\.meta|.*\.imap"
    r"|archive_browser\.html|desktop\.ini|Thumbs\.db|.*~|#.*#|cmds",
    re.I,
)
# The subject of the first message of an mbox by c-client and UW IMAP, which has internal data.
_FOLDER_DATA = b"DON'T DELETE THIS MESSAGE -- FOLDER INTERNAL DATA"
_FOLDER_SUBJECT = lazy_pattern(rb"^subject:[^\n]*%b" % _FOLDER_DATA, re.I | re.M)
# A message that a mail program has marked as deleted and will remove from the mbox later:
# Thunderbird's flag 8, or the status D of c-client and Dovecot. (The D in a word such as "read"
# does not count.)
_DELETED = lazy_pattern(
    rb"^(?:x-mozilla-status[ \t]*:[ \t]*[0-9a-f]{0,3}[89a-f][ \t]*$"
    rb"|x-status[ \t]*:[ \t]*(?-i:[A-Z]{0,9}D[A-Z]{0,9})[ \t]*$)",
    re.I | re.M,
)
_HEADER_END = lazy_pattern(rb"\n\r?\n")
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_DBOX = b"2 M1e C"
_FROM_DOVECOT = "Dovecot's storage; read it by IMAP: learn spam=imap://ann@host/Junk"
# Formats of other programs: how a file begins, and what to do with it.
_FOREIGN_FORMATS = {
    _DBOX: _FROM_DOVECOT,
    b"CRYPTED\x03\x07": _FROM_DOVECOT,
    b"!BDN": "Outlook's storage (PST, OST); convert it to mbox, for example by readpst",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "Outlook's format (MSG); save the mail as EML",
    b"\xcf\xad\x12\xfe": "Outlook Express' storage (DBX); convert it to mbox or EML",
    b"SQLite format 3\0": "a database; export the mail to mbox or EML",
    b"*mbx*\r\n": "UW IMAP's mbx; convert it to mbox, for example by mailutil",
    b"%PDF-": "a PDF",
    **dict.fromkeys((b"PK\x03\x04", b"7z\xbc\xaf", b"Rar!\x1a\x07"), "an archive; unpack it"),
}
# A field that most messages have, or the separator of an mbox.
_USUAL_FIELD = lazy_pattern(
    rb"(?:\A|[\r\n])(?:\xef\xbb\xbf)?(?:From |(?:received|return-path|delivered-to|message-id|date"
    rb"|from|sender|reply-to|to|cc|subject|mime-version|content-type)[ \t]*:)",
    re.I,
)
_FIELD = lazy_pattern(rb"(?:>?From [^\r\n]*[\r\n]{1,3})?[!-9;-~]+:")


def describe_binary(content: bytes) -> str | None:
    r"""Return what data of another format is, and what to do; None for a message or text.

    Data with zero bytes that begins with no header is binary, and so is a tar archive, whose first
    name can look like a field. A file of Dovecot's sdbox is a message, but one of its mdbox has
    several.

    Examples
    --------
    >>> [describe_binary(content) for content in (b"%PDF-1.7", b"To: ann\n\n\0", b"just text")]
    ['a PDF', None, None]
    """
    is_dbox = content.startswith(_DBOX)
    if is_dbox or content.startswith(_UTF16_MARKS):
        # Imported here, because the pages of the manual are made before the modules are compiled.
        from streamnb.mail.unwrap import unwrap

        content = unwrap(content)
    for beginning, description in _FOREIGN_FORMATS.items():
        if content.startswith(beginning):
            return description
    if content.startswith(b"ustar", 257):
        return _FOREIGN_FORMATS[b"PK\x03\x04"]
    if content.find(b"\0", 0, _LOOKED_AT) >= 0 and not _FIELD.match(content):
        unknown = "binary data without a header; to read it as a message, add --binary"
        return _FROM_DOVECOT if is_dbox else unknown
    return None


def _is_mbox(head: bytes) -> bool:
    """Return whether the first bytes of a file are those of an mbox, perhaps in UTF-16."""
    return is_mbox(_as_utf8(head))


def _has_header(content: bytes) -> bool:
    """Return whether content has a usual header field in its first bytes."""
    return _USUAL_FIELD.search(_as_utf8(content[:_LOOKED_AT])) is not None


def _as_utf8(head: bytes) -> bytes:
    """Return bytes in UTF-16 with a byte order mark as UTF-8."""
    is_utf16 = head.startswith(_UTF16_MARKS)
    return head.decode("utf-16", "replace").encode() if is_utf16 else head


def messages(source: str) -> Iterator[SourceMessage]:
    """Read the messages of a source, one after the other.

    Parameters
    ----------
    source
        "-" for standard input, or the path of a message, an mbox, a Maildir or a folder of those.

    Yields
    ------
    SourceMessage
        Each message, or the error of one that cannot be read. A missing or empty source gives one
        error.
    """
    path = Path(source)
    if source != "-" and os.path.isdir(path):
        number = 0
        for number, message in enumerate(_folder(path), 1):  # noqa: B007 (counted below)
            yield message
        if number == 0:
            hidden = ", ".join(sorted(str(child.parent) for child in path.glob(".*/cur")))
            remedy = f"; name its folders: {printable(hidden):.300}" if hidden else ""
            yield SourceMessage(
                source, CorpusError(f"{source}: the folder contains no message{remedy}")
            )
    elif source != "-" and os.path.isfile(path):
        yield from _file(path)
    elif source == "-":
        yield from _standard_input()
    elif is_pipe(source):
        yield from _messages_of_pipe(source)
    else:
        try:
            yield SourceMessage(source, read_one(source))
        except CorpusError as error:
            yield SourceMessage(source, error)


def _standard_input() -> Iterator[SourceMessage]:
    """Yield the message, or the messages of an mbox, on standard input."""
    if sys.stdin is None:
        yield SourceMessage("-", CorpusError("-: standard input is closed"))
        return
    stream = sys.stdin.buffer
    try:
        head = stream.read(_LOOKED_AT)
        if is_compressed(head) or _is_mbox(head):
            yield from _messages_of_pipe("-", head)
        else:
            yield SourceMessage("-", head + stream.read(MAX_MESSAGE - len(head)))
    except OSError as error:
        yield SourceMessage("-", CorpusError(f"-: cannot be read: {root_cause(error).lower()}"))


def _messages_of_pipe(source: str, head: bytes = b"") -> Iterator[SourceMessage]:
    """Yield the messages of an mbox, or the one message, in a pipe whose `head` is read."""
    from streamnb.corpus.text_files import as_regular_file

    try:
        copy = as_regular_file(source, head)
    except CorpusError as error:
        yield SourceMessage(source, error)
        return
    yield from _messages_of_copy(source, copy)


def _messages_of_copy(source: str, copy: Path) -> Iterator[SourceMessage]:
    """Yield the messages of a temporary copy of a source, and remove the copy."""
    try:
        for message in _file(copy):
            name = source + message.name.removeprefix(str(copy))
            yield SourceMessage(name, _content_of_copy(message, str(copy), source))
    finally:
        copy.unlink(missing_ok=True)


def _content_of_copy(message: SourceMessage, copy: str, source: str) -> bytes | StreamNBError:
    """Return the content of a message in a copy. Errors name the source instead of the copy."""
    if isinstance(message.content, StreamNBError):
        return CorpusError(str(message.content).replace(copy, source))
    return message.content


def mixed(
    sources: Mapping[str, Callable[[], Iterator[SourceMessage]]], sizes: Mapping[str, int]
) -> Iterator[tuple[str, SourceMessage]]:
    """Yield the messages of several classes in mixed order: message i of n has the position i / n.

    Parameters
    ----------
    sources
        Iterables of messages, one for each class.
    sizes
        Number of messages of each class.
    """

    def place_messages(
        number: int, label: str
    ) -> Iterator[tuple[float, int, int, str, SourceMessage]]:
        for i, message in enumerate(sources[label]()):
            yield (i + 0.5) / max(sizes[label], 1), number, i, label, message

    for *_, label, message in merge(
        *(place_messages(number, label) for number, label in enumerate(sources))
    ):
        yield label, message


def read_one(path: str) -> bytes:
    """Read at most `MAX_MESSAGE` bytes of one message from a file, a pipe or standard input (-)."""
    if path == "-":
        if sys.stdin is None:
            raise CorpusError("-: standard input is closed")
        return decompress(sys.stdin.buffer.read(MAX_MESSAGE), MAX_MESSAGE, path)
    try:
        with open(path, "rb") as file:
            return decompress(file.read(MAX_MESSAGE), MAX_MESSAGE, path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        from streamnb.corpus.text_files import missing_file_hint  # only errors need it

        hint = missing_file_hint(path, True) if isinstance(error, FileNotFoundError) else ""
        raise CorpusError(f"{path}: cannot be read: {root_cause(error).lower()}{hint}") from None


def _folder(path: Path) -> Iterator[SourceMessage]:
    """Yield all messages in a folder and its subfolders, in the order of their names.

    Symbolic links in it are not followed. A user with write access could use a link to make this
    process learn any file that it can read. Text without a header beside mail is an error, because
    programs export metadata and copies of pages there.
    """
    waiting = [(path, True)]
    mail_folders: dict[Path, bool] = {}
    while waiting:
        current, is_folder = waiting.pop()
        if not is_folder:
            for message in _file(current, follow=False):
                yield _checked(message, current, mail_folders)
            continue
        maildir = is_maildir(current)
        for place in (current / "new", current / "cur") if maildir else (current,):
            try:
                if maildir and place.is_symlink():
                    raise CorpusError(f"{place}: {_LINK}")
                items = _list_entries(place)
            except CorpusError as error:
                yield SourceMessage(str(place), error)
            else:
                waiting += reversed([item for item in items if not maildir or _is_mail(item)])


def _checked(message: SourceMessage, path: Path, mail_folders: dict[Path, bool]) -> SourceMessage:
    """Return the message of a file in a folder; an error for text without a header beside mail.

    `mail_folders` caches which folders have mail with a header.
    """
    content, folder = message.content, path.parent
    if not content or isinstance(content, StreamNBError) or message.name != str(path):
        return message
    if _has_header(content) or describe_binary(content):
        return message
    if folder not in mail_folders:
        is_part = folder.name in ("cur", "new") and is_maildir(folder.parent)
        mail_folders[folder] = not is_part and _has_mail(folder)
    if not mail_folders[folder]:
        return message
    problem = "text without a header beside mail; to read it as a message, name the file"
    return message._replace(content=CorpusError(f"{path}: not a message: {problem}"))


def _has_mail(folder: Path, depth: int = 1) -> bool:
    """Return whether one of the first files of a folder, or of its subfolders, has a header."""
    try:
        items = _list_entries(folder)
    except CorpusError:  # the folder was removed meanwhile
        return False
    names = [item.name for item, is_folder in items if not is_folder]
    subfolders = [item for item, is_folder in items if is_folder] if depth else []
    return _has_neighbour(folder, names, _has_header) or any(
        _has_mail(subfolder, depth - 1) for subfolder in subfolders[:_MAX_NEIGHBOURS]
    )


def _is_mail(item: tuple[Path, bool]) -> bool:
    """Return whether an item of a Maildir is a message that is not marked as deleted."""
    path, folder = item
    return not folder and "T" not in split_maildir_flags(path.name)[2]


def _list_entries(path: Path) -> list[tuple[Path, bool]]:
    """Return the entries of a folder, each with whether it is a folder.

    Hidden files and the internal files of mail programs are left out.
    """
    with convert_os_errors(CorpusError, f"{path}: cannot be listed"):
        with os.scandir(path) as entries:
            items = {item.name: item.is_dir(follow_symlinks=False) for item in entries}
        return [
            (path / name, folder)
            for name, folder in sorted(items.items())
            if not name.startswith(".") and not _is_internal(path, name, items)
        ]


def _is_internal(path: Path, name: str, items: Mapping[str, bool]) -> bool:
    """Return whether an item of a folder with these items belongs to a mail program."""
    if items[name]:
        # copies by Apple Mail, and settings of Gmail
        return (name == "Attachments" and "Messages" in items) or name == "User Settings"
    if _PROGRAM_FILES.fullmatch(name):
        return True
    with contextlib.suppress(FileNotFoundError):  # a removed file is an error of this file alone
        # Mail programs create empty mboxes.
        if not (path / name).lstat().st_size:
            names = (name for name in items if not items[name])
            return f"{name}.msf" in items or _has_neighbour(path, names, is_mbox)
    return False


def _has_neighbour(path: Path, names: Iterable[str], is_kind: Callable[[bytes], bool]) -> bool:
    """Return whether one of the first files of a folder with these files is of a kind."""
    for name in islice(sorted(names), _MAX_NEIGHBOURS):
        head = _read(Entry(str(path / name), "", str(path / name)), False, _LOOKED_AT).content
        if isinstance(head, bytes) and is_kind(head):
            return True
    return False


def is_pipe(name: str) -> bool:
    """Return whether a name is that of a pipe; False if it cannot be looked up."""
    try:
        return stat.S_ISFIFO(os.stat(name).st_mode)
    except (OSError, ValueError):
        return False


def _file(path: Path, follow: bool = True) -> Iterator[SourceMessage]:
    """Yield the message of a file, or the messages of an mbox."""
    whole = Entry(str(path), "", str(path))
    if not follow and path.is_symlink():
        yield SourceMessage(str(path), CorpusError(f"{path}: {_LINK}"))
        return
    try:
        head = _read(whole, follow, _LOOKED_AT)
        if isinstance(head.content, StreamNBError):
            yield head
            return
        if not _is_mbox(head.content):
            is_whole = os.path.getsize(path) < _LOOKED_AT > len(head.content)
            yield head if is_whole else _read(whole, follow)
            return
        from streamnb.corpus.text_files import as_plain_file

        plain = as_plain_file(path)
        if plain == path:
            yield from _mbox_messages(path, follow)
        else:
            yield from _messages_of_copy(str(path), plain)
    except StreamNBError as error:
        yield SourceMessage(str(path), error)
    except OSError as error:  # another program has removed or renamed the file meanwhile
        yield SourceMessage(str(path), CorpusError(f"{path}: cannot be read: {error.strerror}"))


def _mbox_messages(path: Path, follow: bool) -> Iterator[SourceMessage]:
    """Read an mbox without the internal data of mail programs and without deleted messages."""
    read = deleted = 0
    for entry in _mbox_entries(path):
        message = _read(entry, follow)
        if not isinstance(message.content, StreamNBError):
            header = _header_of(message.content)
            if header.find(_FOLDER_DATA) >= 0 and _FOLDER_SUBJECT.search(header):
                continue
            if message.name != str(path) and _DELETED.search(header):
                deleted += 1
                continue
        read += 1
        yield message
    if deleted and not read:
        yield SourceMessage(str(path), CorpusError(f"{path}: all messages are marked as deleted"))


def _header_of(content: bytes) -> bytes:
    """Return the header of a message, at most 64 KiB of it, with LF as line end."""
    head = content[:_HEADER_BYTES]
    end = _HEADER_END.search(head)
    return (head if end is None else head[: end.start() + 1]).replace(b"\r\n", b"\n")


def _mbox_entries(path: Path) -> Iterator[Entry]:
    """Yield the messages of an mbox; a single one has the name of the file."""
    entries = iter(open_mbox([path], path))
    first = next(entries)
    try:
        second = next(entries, None)
    except CorpusError:
        yield first._replace(name=f"{path}:1")
        raise
    if second is None:  # a single message with an mbox separator
        yield first._replace(name=str(path))
        return
    for entry in chain([first, second], entries):
        yield entry._replace(name=f"{path}:{entry.name.rpartition(':')[2]}")


def _read(entry: Entry, follow: bool, most: int = MAX_MESSAGE) -> SourceMessage:
    try:
        content = read(entry, most, follow)
    except StreamNBError as error:
        return SourceMessage(entry.name, error)
    return SourceMessage(entry.name, content if isinstance(content, bytes) else content.encode())
