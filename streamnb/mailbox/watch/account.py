"""The interface of a watched account: folders of messages, on a server or on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

# Keywords by IANA, Thunderbird and KMail. Servers can store the spelling of a search.
JUNK_KEYWORDS = (b"$Junk", b"Junk", b"$Phishing")
NOT_JUNK_KEYWORDS = (b"$NotJunk", b"NotJunk", b"NonJunk")
_JUNK, _NOT_JUNK = (
    frozenset(map(bytes.lower, keywords)) for keywords in (JUNK_KEYWORDS, NOT_JUNK_KEYWORDS)
)
# The keyword of a message with a flag whose meaning is not known.
UNKNOWN_KEYWORD = "?"


def junk_keyword(flags: Collection[bytes]) -> str:
    """Return "junk" or "notjunk" if flags mean one of these and not the other; otherwise "".

    Parameters
    ----------
    flags
        The flags and keywords of a message, in lower case.
    """
    is_junk, is_not_junk = not _JUNK.isdisjoint(flags), not _NOT_JUNK.isdisjoint(flags)
    return "" if is_junk == is_not_junk else "junk" if is_junk else "notjunk"


class ListedMessage(NamedTuple):
    """A message in the listing of a folder.

    Attributes
    ----------
    keyword
        The result of `junk_keyword` for its keywords, or `UNKNOWN_KEYWORD`.
    is_read
        Whether the message is marked as read.
    """

    keyword: str
    is_read: bool


class Account(Protocol):
    """Folders of messages, on a server or on disk.

    Attributes
    ----------
    name
        Identifies the account in the database.
    """

    name: str

    def folder_names(self) -> list[str]:
        """Return the names of all folders into which a person may move mail."""

    def has_folder(self, folder: str) -> bool:
        """Return whether a folder exists, including those that `folder_names` leaves out."""

    def is_renamed(self, folder: str, old_name: str) -> bool:
        """Return whether `old_name` was the name of a folder in which a message keeps its uid."""

    def canonical_name(self, folder: str) -> str:
        """Return the name of a folder in the spelling of `folder_names`."""

    def spam_folder(self) -> str:
        """Return the name of the folder for spam, unless a person names another one."""

    def is_below(self, folder: str, parent: str) -> bool:
        """Return whether a folder lies below another one in the hierarchy of names."""

    def folder_state(self, folder: str) -> object:
        """Return a value that changes with the folder; None if unknown."""

    def list_messages(self, folder: str) -> dict[str, ListedMessage]:
        """Return the messages of a folder by uid. A uid is never used for another message."""

    def fetch_headers(self, folder: str, uids: list[str]) -> dict[str, bytes | None]:
        """Return the headers of the messages that still exist; None for an unreadable message."""

    def fetch_message(self, folder: str, uid: str) -> bytes | None:
        """Return at most `MAX_MESSAGE` bytes of a message; None if it does not exist."""

    def move_message(self, folder: str, uid: str, target: str, junk: bool) -> bool:
        """Move a message, marked as junk or not; return False if it does not exist."""

    def create_folder(self, folder: str) -> None:
        """Create a folder unless it exists."""

    def wait(self, folder: str, seconds: float, should_stop: Callable[[], bool]) -> None:
        """Wait for a change in a folder, at most `seconds`, and poll `should_stop`."""

    def close(self) -> None:
        """Release connections."""


def pause(seconds: float, should_stop: Callable[[], bool]) -> None:
    """Sleep for `seconds`, or until `should_stop` returns True."""
    end = time.monotonic() + seconds
    while (remaining_s := end - time.monotonic()) > 0 and not should_stop():
        time.sleep(min(remaining_s, 0.2))
