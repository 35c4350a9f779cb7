"""A Maildir as an account: folders of files, in which a move is a rename."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from streamnb.corpus.entry import MAX_MESSAGE
from streamnb.corpus.folders import is_maildir
from streamnb.errors import CorpusError, OutputError
from streamnb.mailbox.watch import Listed

__all__ = ["INBOX", "MaildirAccount"]

INBOX = "INBOX"
_HEADER = 1 << 16


class MaildirAccount:
    """The folders of a Maildir: itself, `.Junk` as Maildir++ has it, and `Junk` beside `cur`.

    Parameters
    ----------
    path
        The Maildir.

    Raises
    ------
    CorpusError
        Where it is none.
    """

    def __init__(self, path: str | Path) -> None:
        self.root = Path(path)
        if not is_maildir(self.root):
            raise CorpusError(f"{path}: not a Maildir: it has no folders cur and new")
        self.name = f"maildir:{os.path.realpath(path)}"
        self._paths: dict[str, dict[str, str]] = {}

    def folders(self) -> list[str]:
        """The names of all folders."""
        found = [INBOX]
        for item in sorted(self.root.iterdir()):
            if is_maildir(item) and item.name not in ("cur", "new", "tmp"):
                found.append(item.name.removeprefix("."))
        return found

    def _folder(self, folder: str) -> Path:
        if folder == INBOX:
            return self.root
        names = [folder]
        if not folder.isascii():  # as mail servers write them on disk
            with contextlib.suppress(ImportError):
                from imapclient.imap_utf7 import encode

                names.append(encode(folder).decode("ascii"))
        for name in names:
            for path in (self.root / f".{name}", self.root / name):
                if is_maildir(path):
                    return path
        raise CorpusError(f"{self.root}: no folder {folder!r}; there are {self.folders()}")

    def state(self, folder: str) -> object:
        """When files last came or went; None just after, as clocks are coarse."""
        return None

    def listing(self, folder: str) -> dict[str, Listed]:
        """All messages by their unique names."""
        here = self._folder(folder)
        found: dict[str, Listed] = {}
        paths: dict[str, str] = {}
        for place in ("cur", "new"):
            try:
                names = os.listdir(here / place)
            except OSError as error:
                raise CorpusError(f"{here / place}: cannot be listed: {error.strerror}") from None
            for name in names:
                unique, _, info = name.partition(":2,")
                if name.startswith(".") or "T" in info:  # T: deleted, not yet removed
                    continue
                paths[unique] = f"{here}/{place}/{name}"
                found[unique] = Listed("", "S" in info)
        self._paths[folder] = paths
        return found

    def _open(self, folder: str, uid: str, most: int) -> bytes | None:
        for again in (False, True):
            if again:  # it was read or marked meanwhile, and is called otherwise now
                self.listing(folder)
            try:
                descriptor = os.open(
                    self._paths[folder][uid], os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW
                )
            except (KeyError, FileNotFoundError):
                continue
            with open(descriptor, "rb") as file:
                return file.read(most)
        return None

    def headers(self, folder: str, uids: list[str]) -> dict[str, bytes]:
        """The beginnings of messages."""
        found: dict[str, bytes] = {}
        for uid in uids:
            try:
                head = self._open(folder, uid, _HEADER)
            except OSError:
                head = uid.encode()  # it cannot be read; that is said when it is fetched
            if head is not None:
                found[uid] = head
        return found

    def fetch(self, folder: str, uid: str) -> bytes | None:
        """The message; None where it is gone."""
        return self._open(folder, uid, MAX_MESSAGE)

    def file(self, folder: str, uid: str, target: str) -> None:
        """Move a message, so that at any moment it is in one of both folders, or in both."""
        source = self._paths[folder].get(uid)
        if source is None:
            return
        name = os.path.basename(source)
        if ":2," not in name:
            name += ":2,"
        goal = f"{self._folder(target)}/cur/{name}"
        try:
            os.link(source, goal)  # unlike a rename, this never replaces another message
            os.unlink(source)
        except FileNotFoundError:
            return  # its owner was faster
        except OSError as error:
            raise OutputError(f"{goal}: the message cannot be moved: {error.strerror}") from None
