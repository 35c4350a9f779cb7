"""A Maildir as an account: folders of files, in which a move is a rename."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from streamnb.corpus.entry import MAX_MESSAGE
from streamnb.corpus.folders import is_maildir
from streamnb.errors import CorpusError, OutputError, convert_os_errors
from streamnb.mailbox.watch.ignored_folders import is_bin
from streamnb.mailbox.watch.watcher import Listed, pause

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

    def close(self) -> None:
        """Nothing is held open."""

    def folders(self) -> list[str]:
        """The names of all folders but the bin and such."""
        return [INBOX, *(name for name in self._by_name() if not is_bin(name))]

    def _by_name(self) -> dict[str, Path]:
        """The folders below this one by their names as text."""
        return {
            _shown(item.name.removeprefix(".")): item
            for item in sorted(self.root.iterdir())
            if item.name not in ("cur", "new", "tmp") and is_maildir(item)
        }

    def canonical(self, folder: str) -> str:
        """The name that `folders` has for a folder: one folder has one name.

        Raises
        ------
        CorpusError
            For what cannot be a folder's name.
        """
        name = folder.removeprefix(".")
        if name.upper() == INBOX:
            return INBOX
        shown = _shown(name)
        if shown in self._by_name():
            return shown
        sound = name == shown and name.strip(".") and not any(c in name for c in "/\\\0")
        if not sound or name in ("cur", "new", "tmp"):
            raise CorpusError(f"{self.root}: {folder!r} cannot be the name of a folder")
        with contextlib.suppress(CorpusError):
            return _shown(self._folder(name).name.removeprefix("."))
        return _on_disk(name)

    def _folder(self, folder: str) -> Path:
        if folder == INBOX:
            return self.root
        for name in dict.fromkeys((folder, _on_disk(folder))):
            for path in (self.root / f".{name}", self.root / name):
                if is_maildir(path):
                    return path
        known = self._by_name()
        if folder in known:  # its bytes are no UTF-8
            return known[folder]
        there = ", ".join(map(repr, self.folders()))
        raise CorpusError(
            f"{self.root}: no folder {folder!r}; there are {there}; --create makes those missing"
        )

    def state(self, folder: str) -> object:
        """None: a folder is always listed, which costs little."""
        self._folder(folder)  # it is there
        return None

    def listing(self, folder: str) -> dict[str, Listed]:
        """All messages by their unique names."""
        here = self._folder(folder)
        found: dict[str, Listed] = {}
        paths: dict[str, str] = {}
        for place in ("cur", "new"):
            with (
                convert_os_errors(CorpusError, f"{here / place}: cannot be listed"),
                os.scandir(here / place) as items,
            ):
                names = [item.name for item in items if not item.is_dir(follow_symlinks=False)]
            for name in names:
                unique, _, info = name.partition(":2,")
                if name.startswith(".") or "T" in info:  # T: deleted, not yet removed
                    continue
                unique = _shown(unique)
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
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise OSError(errno.EINVAL, "not a regular file")
                return file.read(most)
        return None

    def headers(self, folder: str, uids: list[str]) -> dict[str, bytes | None]:
        """The beginnings of messages."""
        found: dict[str, bytes | None] = {}
        for uid in uids:
            try:
                head = self._open(folder, uid, _HEADER)
            except OSError:
                found[uid] = None
                continue
            if head is not None:
                found[uid] = head
        return found

    def fetch(self, folder: str, uid: str) -> bytes | None:
        """The message; None where it is gone."""
        return self._open(folder, uid, MAX_MESSAGE)

    def make(self, folder: str) -> None:
        """Make a folder as Maildir++ has them, where it is missing."""
        with contextlib.suppress(CorpusError):
            self._folder(folder)
            return
        with convert_os_errors(OutputError, f"{self.root}/.{folder}: cannot be made"):
            # One by one: a parent that mkdir makes has the mode of the umask.
            for place in ("", "tmp", "new", "cur"):
                (self.root / f".{folder}" / place).mkdir(mode=0o700, exist_ok=True)

    def wait(self, folder: str, seconds: float, stopping: Callable[[], bool]) -> None:
        """Wait so long: a folder of files tells nothing by itself."""
        pause(seconds, stopping)

    def file(self, folder: str, uid: str, target: str, junk: bool) -> bool:
        """Move a message, so that at any moment it is in one of both folders, or in both."""
        goal = self._folder(target) / "cur"
        for _ in range(2):
            source = self._paths.get(folder, {}).get(uid)
            if source is not None and self._moved(source, goal):
                return True
            self.listing(folder)  # it was read or marked meanwhile, and is called otherwise now
        return False

    def _moved(self, source: str, goal: Path) -> bool:
        unique, mark, info = os.path.basename(source).partition(":2,")
        for number in range(100):
            name = f"{unique}{f'.{number}' if number else ''}{mark or ':2,'}{info}"
            try:
                _move(source, f"{goal}/{name}")
            except FileNotFoundError:
                return False
            except FileExistsError:
                continue  # another message's: take another name
            except OSError as error:
                why = error.strerror
                raise OutputError(f"{goal}/{name}: the message cannot be moved: {why}") from None
            return True
        raise OutputError(f"{goal}/{unique}: the message cannot be moved: its names are taken")


def _move(source: str, goal: str) -> None:
    """Move a file, never over another one; what a kill left half done is finished."""
    try:
        os.link(source, goal)
    except FileExistsError:
        if not os.path.samefile(source, goal):
            raise
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        if os.path.lexists(goal):  # a file system without links: the names are unique anyway
            raise FileExistsError(errno.EEXIST, "it exists", goal) from None
        os.rename(source, goal)
        return
    os.unlink(source)


def _on_disk(name: str) -> str:
    """A folder's name as mail servers write it on disk."""
    if name.isascii():
        return name
    try:
        from imapclient.imap_utf7 import encode
    except ImportError:
        return name
    try:
        return str(encode(name).decode("ascii"))
    except UnicodeEncodeError:  # bytes that are no UTF-8
        return name


def _shown(name: str) -> str:
    """A name as text, whatever its bytes are."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
