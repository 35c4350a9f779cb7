"""Folders: one for each class, or a Maildir."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from streamnb.corpus.entry import Corpus, Entry, Labels
from streamnb.corpus.headers import labelled
from streamnb.errors import CorpusError, convert_os_errors

_MEANINGS = {
    "ham": "ham", "notspam": "ham", "nonspam": "ham", "nospam": "ham", "notjunk": "ham",
    "spam": "spam", "junk": "spam",
}  # fmt: skip
# What archives of corpora hold besides messages.
_IGNORED = {"cmds", "summary.txt", "readme", "readme.txt"}


def is_maildir(path: Path) -> bool:
    """Whether a folder is a Maildir."""
    return os.path.isdir(path / "cur") and os.path.isdir(path / "new")


# File systems without ":" in names get ";" or "!" from some mail programs.
_FLAGS = re.compile(r"[:;!]2,")


def split_maildir_flags(name: str) -> tuple[str, str, str]:
    """Split a Maildir file's name into its unique name, the separator and the flags.

    Separator and flags are "" if the name has none.

    Examples
    --------
    >>> split_maildir_flags("1.host:2,ST"), split_maildir_flags("1.host")
    (('1.host', ':2,', 'ST'), ('1.host', '', ''))
    """
    separator = _FLAGS.search(name)
    if separator is None:
        return name, "", ""
    return name[: separator.start()], separator[0], name[separator.end() :]


def class_of(name: str) -> str:
    """The class a folder or file name stands for.

    A name that is `ham`, `spam` or `junk` but for numbers and a word on how hard it is means that;
    any other name is a class of its own.

    Examples
    --------
    >>> [class_of(name) for name in ("easy-ham-1", "spam_2", ".Junk", "rec.ham-radio", "notspam")]
    ['ham', 'spam', 'spam', 'rec.ham-radio', 'ham']
    """
    plain = "-".join(name.lstrip(".").split())
    words = plain.lower().replace("_", "-").replace(".", "-").split("-")
    core = "".join(word for word in words if not word.isdecimal() and word not in ("easy", "hard"))
    return _MEANINGS.get(core, plain)


def check_classes(names: Iterable[str], where: Path) -> None:
    """Raise CorpusError where names that mean no class of their own would be one class."""
    labels = Labels()
    for name in names:
        if class_of(name) not in _MEANINGS.values():
            labels.word(name.lstrip("."), str(where))


def _is_folder(item: os.DirEntry[str]) -> bool:
    try:
        return item.is_dir()
    except OSError:  # what cannot be read is reported when its turn comes
        return False


def _listing(folder: Path) -> tuple[list[str], int]:
    """The names of a folder's messages, and how many folders are in it."""
    names, folders = [], 0
    with convert_os_errors(CorpusError, f"{folder}: cannot be listed"), os.scandir(folder) as found:
        for item in found:
            if item.name.startswith(".") or item.name.lower() in _IGNORED:
                continue
            if _is_folder(item):
                folders += 1
            else:
                names.append(item.name)
    return sorted(names), folders


def _messages(folder: Path) -> tuple[list[tuple[str, str]], int]:
    """(file name, path within the folder) of the messages of a class folder or Maildir.

    And how many folders are in it, which are not read.
    """
    if not is_maildir(folder):
        names, inner = _listing(folder)
        return [(name, name) for name in names], inner
    found = []
    for place in ("cur", "new"):
        found += [(name, f"{place}/{name}") for name in _listing(folder / place)[0]]
    return found, 0


def class_folders(path: Path, content: str = "mail") -> Corpus | None:
    """One folder a class, messages as files in it: in the order of their names across classes."""
    folders = sorted(
        item
        for item in path.iterdir()
        if item.is_dir() and (is_maildir(item) or not item.name.startswith("."))
    )
    listed = [(folder, *_messages(folder)) for folder in folders]
    found = [(folder, messages) for folder, messages, _ in listed if messages]
    if not found:
        return None
    unread = sum(inner for _, _, inner in listed)
    check_classes((folder.name for folder, _ in found), path)
    class_in = {folder.name: class_of(folder.name) for folder, _ in found}
    classes = list(dict.fromkeys(class_in.values()))

    def entries() -> Iterator[Entry]:
        everything = [
            (name, folder.name, inside) for folder, messages in found for name, inside in messages
        ]
        for _, folder_name, inside in sorted(everything):
            yield Entry(
                f"{folder_name}/{inside}", class_in[folder_name], f"{path}/{folder_name}/{inside}"
            )

    number = sum(len(messages) for _, messages in found)
    shown = ", ".join(classes[:6]) + (", ..." if len(classes) > 6 else "")
    more = f"; NOT read: {unread} folders within them" if unread else ""
    return Corpus(
        "folders",
        path,
        f"{len(found)} folders of messages, {number} files, classes {shown}{more}",
        content,
        entries,
        size=number,
    )


def maildir(path: Path, label: str | None = None, label_header: str | None = None) -> Corpus:
    """One Maildir, labelled by its name, or by a header field."""
    chosen = label or class_of(path.name)

    def entries() -> Iterator[Entry]:
        labels = Labels()
        for _, inside in sorted(_messages(path)[0]):
            entry = Entry(inside, chosen, f"{path}/{inside}")
            yield labelled(entry, label_header, labels, entry.path)

    how = f"labels from the field {label_header}" if label_header else f"all of class {chosen}"
    return Corpus(
        "maildir",
        path,
        f"a Maildir, {how}",
        "mail",
        entries,
        (label_header,) if label_header else (),
    )
