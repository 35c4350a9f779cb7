"""An IMAPClient that reads the answers of servers that differ from RFC 3501."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any

import imapclient

from streamnb.patterns import lazy_pattern

# An answer to LIST: attributes, delimiter and name. The name can lack its quotes, or contain some.
# Extended data (RFC 5258) can follow.
_FOLDER = lazy_pattern(
    rb' *(?:\(([^)]*)\)|NIL) +(?:"(.*?)"|NIL) +(.+?)(?: \("[A-Z-]+" .*\))?', re.I | re.S
)
_MAX_LINE = 8192  # bytes; the time of the pattern is quadratic
# The UIDs of an answer to SEARCH in the form of IMAP4rev2 (RFC 9051), such as "1:3,7".
_ESEARCH_UIDS = lazy_pattern(rb" ALL ([0-9:,]+)", re.I)
_MAX_UIDS = 1 << 20  # UIDs of such an answer that are read; they take 60 MB
_UID = lazy_pattern(rb"(?<!\S)\d+(?!\S)")  # no number of (MODSEQ 5), which can follow the UIDs
_ANSWER = lazy_pattern(rb"\* +(?:(\d+) +)?([A-Za-z-]+)(?=[ \r])")
_NUMBERS = {"EXISTS", "RECENT", "UIDNEXT", "UIDVALIDITY", "HIGHESTMODSEQ"}


class TolerantClient(imapclient.IMAPClient):  # type: ignore[misc]
    """IMAPClient, with answers of LIST and SEARCH line by line, and folder names of 8 bits.

    Lines that are no answer are skipped, such as those of a message that is longer than announced.
    """

    def _create_IMAP4(self) -> Any:  # noqa: N802 (IMAPClient's name)
        """Return the connection of imaplib, which refuses answers that other clients read."""
        imap = super()._create_IMAP4()
        imap.readline = partial(_read_line, imap.readline)
        imap._get_response = partial(_read_answer, imap._get_response, imap.abort)
        return imap

    def _process_select_response(self, resp: dict[str, list[Any]]) -> Any:
        """Return the items of an answer to SELECT; without counters that are no numbers."""
        answer = dict(resp)
        for name in answer.keys() & _NUMBERS:
            digits = re.match(rb"\d+", answer.pop(name)[0] or b"")
            if digits is not None:
                answer[name] = [digits[0]]
        return super()._process_select_response(answer)

    def _proc_folder_list(self, folder_data: Iterable[Any]) -> list[tuple[Any, Any, Any]]:
        """Return attributes, delimiter and name of each folder.

        IMAPClient parses all lines as one. So one name with a space and no quotes, as Exchange
        sends it, would hide all folders.
        """
        folders: list[tuple[Any, Any, Any]] = []
        for line in folder_data:
            try:
                parsed = super()._proc_folder_list([line])
                is_sound = len(parsed) < 2 and all(
                    None not in (flags, name) for flags, _, name in parsed
                )
            except (ValueError, TypeError, RecursionError, imapclient.exceptions.IMAPClientError):
                is_sound = False
            is_readable = isinstance(line, bytes) and len(line) <= _MAX_LINE and not is_sound
            match = _FOLDER.fullmatch(line) if is_readable else None
            if match is not None:
                name = match[3][1:-1] if match[3][:1] == b'"' == match[3][-1:] else match[3]
                parsed = [((match[1] or b"").split(), match[2], re.sub(rb"\\(.)", rb"\1", name))]
            folders += parsed if is_sound or match is not None else []
        return folders

    def _raw_command_untagged(self, command: bytes, *arguments: Any, **options: Any) -> Any:
        """Return the server's answer. IMAPClient expects that of SEARCH on one line.

        Some servers of IMAP4rev2 answer ESEARCH to a SEARCH.
        """
        data = super()._raw_command_untagged(command, *arguments, **options)
        if command != b"SEARCH":
            return data
        lists = self._imap.untagged_responses.pop("ESEARCH", [])
        uids = islice(chain.from_iterable(map(_listed_uids, lists)), _MAX_UIDS)
        pieces = [*filter(None, data), *(b"%d" % uid for uid in uids)]
        return [b" ".join(_UID.findall(b" ".join(pieces)))]

    def _normalise_folder(self, folder_name: str) -> Any:
        """Return a folder's name in quotes. It can have bytes that are not ASCII, as Latin-1."""
        quoted = super()._normalise_folder(folder_name)
        return quoted.encode("latin-1") if isinstance(quoted, str) else quoted


def _read_line(readline: Callable[[], bytes]) -> bytes:
    """Return a line of the server, with CRLF at its end, and its answer as imaplib expects it.

    That is one blank between words, names in upper case, and a number before FETCH.
    """
    line = readline()
    if line.endswith(b"\n") and not line.endswith(b"\r\n"):
        line = line[:-1] + b"\r\n"
    match = _ANSWER.match(line)
    if match is None:
        return line
    number, name = match[1], match[2].upper()
    if name == b"FETCH":
        number = number or b"0"
    return b" ".join(filter(None, (b"*", number, name))) + line[match.end() :]


def _read_answer(get_response: Callable[[], Any], abort: type[Exception]) -> Any:
    """Return the next answer of the server. Other lines are skipped."""
    while True:
        try:
            return get_response()
        except abort as error:
            if not str(error).startswith("unexpected "):
                raise


def _listed_uids(answer: bytes) -> Iterator[int]:
    """Yield the UIDs of an answer in the form of ESEARCH."""
    match = _ESEARCH_UIDS.search(answer or b"")
    for item in match[1].split(b",") if match else ():
        first, _, last = item.partition(b":")
        if first and (last or b":" not in item):
            numbers = sorted((int(first[:10]), int((last or first)[:10])))
            yield from range(numbers[0], numbers[1] + 1)
