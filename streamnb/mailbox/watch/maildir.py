"""A Maildir as an account. Folders contain files, and a move renames a file."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from streamnb.corpus.entry import decompress, is_compressed
from streamnb.corpus.folders import is_maildir
from streamnb.corpus.maildir_flags import split_maildir_flags
from streamnb.errors import CorpusError, OutputError, convert_os_errors
from streamnb.limits import MAX_MESSAGE
from streamnb.mailbox.watch.account import UNKNOWN_KEYWORD, ListedMessage, junk_keyword, pause
from streamnb.mailbox.watch.folder_names import (
    decode_folder_name,
    encode_folder_name,
    find_folder,
    names_by_text,
)
from streamnb.patterns import lazy_pattern
from streamnb.storage import move_file

INBOX = "INBOX"
_PARTS = ("cur", "new", "tmp")  # subfolders of every Maildir
_HEADER_BYTES = 1 << 16
_KEYWORDS_BYTES = 1 << 14  # bytes of a list of keywords; it has at most 26, of about 20 bytes
# mbsync and OfflineIMAP write the UID of a message into its name. In another folder, a second
# message can have this UID, and mbsync then refuses to synchronise the folder.
_SERVER_UID = lazy_pattern(r",U=\d+")
_MAX_DEPTH = 8  # depth to which folders are searched for Maildirs


class MaildirAccount:
    """The folders of a Maildir, or of a folder of Maildirs.

    There are three layouts. Maildir++ has `.Junk` in the Maildir (Dovecot, Courier). The second has
    the folder `Junk` next to `cur`. The third has Maildirs next to each other, `Mail/Inbox` and
    `Mail/Junk` (mbsync, OfflineIMAP).

    Parameters
    ----------
    path
        A Maildir; or, in the third layout, the inbox or the folder that contains it.

    Raises
    ------
    CorpusError
        If the path is none of these.
    """

    def __init__(self, path: str | Path) -> None:
        self.root: Path = Path(path)
        self._inbox = self.root
        if not is_maildir(self.root):
            self._inbox = self._find_inbox(self.root)
        elif self.root.name.lower() == "inbox" and not _maildirs_in(self.root):
            parent = Path(os.path.realpath(self.root)).parent
            if len(_maildirs_in(parent)) > 1:
                self.root = parent
        self._is_nested = self._inbox != self.root  # the third layout
        self.name: str = f"maildir:{os.path.realpath(self.root)}"
        self._folders: dict[str, Path] = {}
        self._paths: dict[str, dict[str, str]] = {}  # by folder and uid
        # Device and inode of each folder when it was last listed, also of missing folders.
        self._directories: dict[str, tuple[int, int]] = {}
        self._separator = ":2,"

    @staticmethod
    def _find_inbox(root: Path) -> Path:
        names = [name for name in _maildirs_in(root) if name.lower() == "inbox"]
        if not names:
            problem = (
                "not a Maildir: it has no folders cur and new, and no folder INBOX that has them"
            )
            raise CorpusError(
                f"{root}: {problem if root.is_dir() else 'no such folder'}; name a Maildir, or "
                "imaps://USER@HOST"
            )
        return root / min(names)  # sorted as INBOX, Inbox, inbox

    def close(self) -> None:
        """Do nothing, because no file stays open."""

    def folder_names(self) -> list[str]:
        """Return the names of all folders, the inbox first."""
        self._scan()
        return [INBOX, *(name for name in self._folders if name != INBOX)]

    def has_folder(self, folder: str) -> bool:
        """Return whether a folder exists."""
        path = self._folders.get(folder)
        return path is not None and is_maildir(path)

    def is_renamed(self, folder: str, old_name: str) -> bool:
        """Return whether a directory had the old name when it was listed.

        A move can keep the uid, so the directories are compared. After a restart, the former names
        are unknown. The result is then whether no folder has the old name any more.
        """
        old_directory = self._directories.get(old_name)
        if old_directory is None:
            return not self.has_folder(old_name)
        return self._directories.get(folder) == old_directory

    def _scan(self) -> None:
        """Find all Maildirs below the root, by their names as text."""
        self._folders = {INBOX: self._inbox}
        self._scan_below(self.root, "", 0)
        if self._is_nested:
            self._folders.pop(_text(self._inbox.name), None)
            self._folders[INBOX] = self._inbox

    def _scan_below(self, parent: Path, prefix: str, depth: int) -> None:
        try:
            items = sorted(item for item in parent.iterdir() if item.name not in _PARTS)
        except OSError:
            if depth == 0:
                raise
            return  # subfolders of an unreadable folder cannot be watched
        stored: dict[str, Path] = {}
        for item in items:  # .Junk sorts before Junk
            stored.setdefault(_text(item.name).removeprefix("."), item)
        for name, key in names_by_text(stored).items():
            path = stored[key]
            is_folder = is_maildir(path)
            if is_folder:
                self._folders.setdefault(f"{prefix}{name}", path)
            is_searched = is_folder or not path.name.startswith(".")
            if depth < _MAX_DEPTH and is_searched and path.is_dir() and not path.is_symlink():
                self._scan_below(path, f"{prefix}{name}/", depth + 1)

    def canonical_name(self, folder: str) -> str:
        """Return the name of an existing or new folder in the spelling of `folder_names`.

        Raises
        ------
        CorpusError
            If the text cannot be a folder's name.
        """
        plain = folder.removeprefix(".")
        if plain.upper() == INBOX:
            return INBOX
        self._scan()
        codecs = (str, _text, decode_folder_name)
        names = [decode(name) for name in (folder, plain) for decode in codecs]
        existing = find_folder(names, self._folders)
        if existing is not None:
            return existing
        parts = plain.split("/") if self._is_nested else [plain]
        is_sound = plain == _text(plain) and "\\" not in plain and "\0" not in plain
        if not is_sound or not all(_is_sound_part(part) for part in parts):
            raise CorpusError(f"{self.root}: {folder!r} cannot be the name of a folder")
        return decode_folder_name(plain)

    def spam_folder(self) -> str:
        """Return "Junk", because a Maildir does not mark the folder for spam."""
        return "Junk"

    def is_below(self, folder: str, parent: str) -> bool:
        """Return whether a folder lies below another one in the hierarchy of names."""
        return folder.startswith((f"{parent}.", f"{parent}/"))

    def _folder(self, folder: str) -> Path:
        for is_scanned in (False, True):
            if is_scanned:
                self._scan()
            path = self._folders.get(folder)
            if path is not None and is_maildir(path):
                return path
        names = ", ".join(map(repr, self.folder_names()))
        raise CorpusError(
            f"{self.root}: no folder {folder!r}; there are {names}; create missing ones with "
            "--create"
        )

    def folder_state(self, folder: str) -> object:
        """Return None: a folder is listed each time, because that is fast."""
        self._folder(folder)  # raises CorpusError if it is missing
        return None

    def list_messages(self, folder: str) -> dict[str, ListedMessage]:
        """Return the messages of a folder by their unique names."""
        folder_path = self._folder(folder)
        messages: dict[str, ListedMessage] = {}
        paths: dict[str, str] = {}
        for part in ("cur", "new"):
            with (
                convert_os_errors(CorpusError, f"{folder_path / part}: cannot be listed"),
                os.scandir(folder_path / part) as items,
            ):
                names = [item.name for item in items if not item.is_dir(follow_symlinks=False)]
            keywords = _read_keywords(
                folder_path
            )  # read after the names, so it has the keywords of most names
            for name in names:
                unique_name, separator, flags = split_maildir_flags(name)
                self._separator = separator or self._separator
                if name.startswith(".") or "T" in flags:  # T: marked as deleted
                    continue
                uid = _text(unique_name)
                paths[uid] = f"{folder_path}/{part}/{name}"
                messages[uid] = ListedMessage(_listed_keyword(flags, keywords), "S" in flags)
        self._paths[folder] = paths
        with contextlib.suppress(OSError):
            status = folder_path.stat()
            self._directories[folder] = status.st_dev, status.st_ino
        return messages

    def _read(self, folder: str, uid: str, max_bytes: int) -> bytes | None:
        for is_relisted in (False, True):
            if is_relisted:  # the flags in its name may have changed
                self.list_messages(folder)
            try:
                path = self._paths[folder][uid]
                content = _read_file(path, max_bytes)
                if is_compressed(content):  # the first bytes can need the whole of a block
                    content = _read_file(path, MAX_MESSAGE)
            except (KeyError, FileNotFoundError):
                continue
            if not content:
                raise OSError(errno.EINVAL, "the file is empty")
            try:
                return decompress(content, max_bytes, f"{folder}/{uid}")
            except CorpusError as error:
                raise OSError(errno.EINVAL, str(error)) from None
        return None

    def fetch_headers(self, folder: str, uids: list[str]) -> dict[str, bytes | None]:
        """Return the first 64 KiB of messages; None for one that cannot be read."""
        headers: dict[str, bytes | None] = {}
        for uid in uids:
            try:
                header = self._read(folder, uid, _HEADER_BYTES)
            except OSError:
                headers[uid] = None
                continue
            if header is not None:
                headers[uid] = header
        return headers

    def fetch_message(self, folder: str, uid: str) -> bytes | None:
        """Return a message; None if it does not exist."""
        return self._read(folder, uid, MAX_MESSAGE)

    def create_folder(self, folder: str) -> None:
        """Create a folder in the layout of the account, unless it exists."""
        with contextlib.suppress(CorpusError):
            self._folder(folder)
            return
        if self._is_nested:
            path = self.root.joinpath(*map(encode_folder_name, folder.split("/")))
        else:
            path = self.root / f".{encode_folder_name(folder)}"
        with convert_os_errors(OutputError, f"{path}: cannot be created"):
            # Create each folder with its mode, because mkdir creates parents with the mode of the
            # umask.
            for parent in (*reversed(path.parents), path, *(path / part for part in _PARTS)):
                if not parent.exists():
                    parent.mkdir(mode=0o700, exist_ok=True)

    def wait(self, folder: str, seconds: float, should_stop: Callable[[], bool]) -> None:
        """Wait for `seconds`, because a folder does not report changes."""
        pause(seconds, should_stop)

    def move_message(self, folder: str, uid: str, target: str, junk: bool) -> bool:
        """Move a message. At each moment it is in one of the folders, or in both."""
        target_path = self._folder(target) / "cur"
        for _ in range(2):
            source = self._paths.get(folder, {}).get(uid)
            if source is not None and self._move_file(source, target_path):
                return True
            self.list_messages(folder)  # the flags in its name may have changed
        return False

    def _move_file(self, source: str, target: Path) -> bool:
        """Move a file to a folder under a free name; return False if the file does not exist."""
        unique_name, separator, flags = split_maildir_flags(os.path.basename(source))
        unique_name = _SERVER_UID.sub("", unique_name)
        flags = _translate_flags(
            flags, _read_keywords(Path(source).parent.parent), _read_keywords(target.parent)
        )
        for attempt in range(100):
            suffix = f".{attempt}" if attempt else ""
            name = f"{unique_name}{suffix}{separator or self._separator}{flags}"
            try:
                move_file(source, f"{target}/{name}")
            except FileNotFoundError:
                return False
            except FileExistsError:
                continue  # another message has this name
            except OSError as error:
                raise OutputError(
                    f"{target}/{name}: the message cannot be moved: {error.strerror}"
                ) from None
            return True
        raise OutputError(
            f"{target}/{unique_name}: the message cannot be moved: another file has this name"
        )


def _read_file(path: str | Path, max_bytes: int) -> bytes:
    """Return the first bytes of a regular file; raise OSError if it is another thing."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return file.read(max_bytes)


def _read_keywords(folder: Path) -> dict[str, bytes]:
    """Return the keyword of each flag from a to z in a Maildir of Dovecot, in lower case.

    The file `dovecot-keywords` has a line for each keyword: the number of the letter and the name.
    """
    try:
        lines = _read_file(folder / "dovecot-keywords", _KEYWORDS_BYTES).lower().splitlines()
    except OSError:
        return {}  # of another program, or not readable
    keywords = {}
    for line in lines:
        number, _, name = line.partition(b" ")
        if number.isdigit() and len(number) < 3 and int(number) < 26:
            keywords[chr(ord("a") + int(number))] = name
    return keywords


def _listed_keyword(flags: str, keywords: dict[str, bytes]) -> str:
    """Return the keyword of a message in a listing, given the keyword of each flag.

    A letter without a keyword is that of another program, or the list of keywords is damaged.
    """
    letters = [flag for flag in flags if "a" <= flag <= "z"]
    if not keywords.keys() >= set(letters):
        return UNKNOWN_KEYWORD
    return junk_keyword([keywords[letter] for letter in letters])


def _translate_flags(flags: str, source: dict[str, bytes], target: dict[str, bytes]) -> str:
    """Return flags with the letters that their keywords have in the target's folder.

    A keyword that the target's folder does not have is left out. A letter without a keyword is left
    out, too, if it could be another keyword in the target's folder.
    """
    letters = {keyword: letter for letter, keyword in target.items()}

    def translate(flag: str) -> str:
        if flag in source:
            return letters.get(source[flag], "")
        return "" if target and "a" <= flag <= "z" else flag

    return "".join(sorted(map(translate, flags)))


def _maildirs_in(path: Path) -> list[str]:
    """Return the names of the Maildirs in a folder; [] if it cannot be read."""
    try:
        return [
            item.name for item in path.iterdir() if item.name not in _PARTS and is_maildir(item)
        ]
    except OSError:
        return []


def _is_sound_part(part: str) -> bool:
    """Return whether a part of a folder's name is valid."""
    try:
        encode_folder_name(part)
    except UnicodeEncodeError:
        return False
    return bool(part.strip(".")) and "/" not in part and part not in _PARTS and part[0] != "."


def _text(name: str) -> str:
    r"""Return a file's name as text, with \xNN for bytes that are not UTF-8."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
