"""Corpora in folders: one folder for each class, or a Maildir."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from streamnb.corpus.entry import Corpus, Entry, label_from_header
from streamnb.errors import CorpusError, convert_os_errors

_MEANINGS = {
    "ham": "ham", "notspam": "ham", "nonspam": "ham", "nospam": "ham", "notjunk": "ham",
    "spam": "spam", "junk": "spam",
}  # fmt: skip
# Files in archives of corpora that are not messages.
_IGNORED = {"cmds", "summary.txt", "readme", "readme.txt"}


def is_maildir(path: Path) -> bool:
    """Return whether a folder is a Maildir."""
    return os.path.isdir(path / "cur") and os.path.isdir(path / "new")


def class_name(name: str) -> str:
    """Return the class for the name of a folder or file of mail.

    Numbers, "easy" and "hard" are ignored. The remaining name is ham (`ham`, `notspam`, `notjunk`),
    spam (`spam`, `junk`) or another class. Labels in tables are not converted this way.

    Examples
    --------
    >>> [class_name(name) for name in ("easy-ham-1", ".Junk", "rec.ham-radio", "not spam")]
    ['ham', 'spam', 'rec.ham-radio', 'ham']
    """
    label = name.lstrip(".").strip()
    words = re.split(r"[-_.\s]+", label.lower())
    core = "".join(word for word in words if not word.isdecimal() and word not in ("easy", "hard"))
    return _MEANINGS.get(core, label)


def check_class_names(names: Iterable[str], location: Path) -> None:
    """Raise CorpusError if two names become one class other than ham and spam."""
    known_names: dict[str, str] = {}
    for name in names:
        label = class_name(name)
        if label not in _MEANINGS.values() and known_names.setdefault(label, name) != name:
            raise CorpusError(
                f"{location}: {known_names[label]!r} and {name!r} would both be the class "
                f"{label!r}; rename one"
            )


def _is_folder(item: os.DirEntry[str]) -> bool:
    try:
        return item.is_dir()
    except OSError:  # an unreadable file is reported when it is read
        return False


def _list_files(folder: Path) -> tuple[list[str], int]:
    """Return the sorted names of the messages in a folder, and the number of its subfolders."""
    names, subfolders = [], 0
    with convert_os_errors(CorpusError, f"{folder}: cannot be listed"), os.scandir(folder) as items:
        for item in items:
            if item.name.startswith(".") or item.name.lower() in _IGNORED:
                continue
            if _is_folder(item):
                subfolders += 1
            else:
                names.append(item.name)
    return sorted(names), subfolders


def _list_messages(folder: Path) -> tuple[list[tuple[str, str]], int]:
    """Return (file name, path within the folder) of each message of a class folder or Maildir.

    Also return the number of subfolders, which are not read.
    """
    if not is_maildir(folder):
        names, subfolders = _list_files(folder)
        return [(name, name) for name in names], subfolders
    messages = []
    for subfolder in ("cur", "new"):
        messages += [(name, f"{subfolder}/{name}") for name in _list_files(folder / subfolder)[0]]
    return messages, 0


def open_class_folders(path: Path) -> Corpus | None:
    """Return a corpus with one folder for each class; None if no folder has messages.

    Each file is a message. Messages are ordered by file name across the classes.
    """
    folders = sorted(
        item
        for item in path.iterdir()
        if item.is_dir() and (is_maildir(item) or not item.name.startswith("."))
    )
    listed = [(folder, *_list_messages(folder)) for folder in folders]
    messages_in = [(folder, messages) for folder, messages, _ in listed if messages]
    if not messages_in:
        return None
    unread = sum(subfolders for _, _, subfolders in listed)
    check_class_names((folder.name for folder, _ in messages_in), path)
    classes = {folder.name: class_name(folder.name) for folder, _ in messages_in}
    labels = list(dict.fromkeys(classes.values()))

    def entries() -> Iterator[Entry]:
        locations = [
            (name, folder.name, inside)
            for folder, messages in messages_in
            for name, inside in messages
        ]
        for _, folder_name, inside in sorted(locations):
            yield Entry(
                f"{folder_name}/{inside}", classes[folder_name], f"{path}/{folder_name}/{inside}"
            )

    size = sum(len(messages) for _, messages in messages_in)
    label_list = ", ".join(labels[:6]) + (", ..." if len(labels) > 6 else "")
    meanings = [
        f"{name!r} is {label}"
        for name, label in classes.items()
        if label in _MEANINGS.values() and label not in name.lower()
    ]
    label_list += f" ({', '.join(meanings)})" if meanings else ""
    warning = f"; NOT read: {unread} folders within them" if unread else ""
    return Corpus(
        "folders",
        path,
        f"{len(messages_in)} folders of messages, {size} files, classes {label_list}{warning}",
        "mail",
        entries,
        size=size,
    )


def open_maildir(path: Path, label: str | None = None, label_header: str | None = None) -> Corpus:
    """Return the corpus of one Maildir, labelled by its name or by a header field."""
    folder_label = label or class_name(path.name)

    def entries() -> Iterator[Entry]:
        for _, inside in sorted(_list_messages(path)[0]):
            entry = Entry(inside, folder_label, f"{path}/{inside}")
            yield label_from_header(entry, label_header)

    source = (
        f"labels from the field {label_header}" if label_header else f"all of class {folder_label}"
    )
    return Corpus(
        "maildir",
        path,
        f"a Maildir, {source}",
        "mail",
        entries,
        (label_header,) if label_header else (),
    )
