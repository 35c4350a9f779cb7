"""Which reader fits what lies at a path."""

from __future__ import annotations

import os
from pathlib import Path

from streamnb.corpus.delimited import csv_columns, delimited_csv, delimited_tabs, looks_tabbed
from streamnb.corpus.entry import Corpus
from streamnb.corpus.folders import class_folders, is_maildir, maildir
from streamnb.corpus.mbox import is_mbox, mbox
from streamnb.corpus.trec import looks_like_index, trec_index
from streamnb.errors import ConfigError, CorpusError, convert_os_errors

KINDS = ("trec", "folders", "maildir", "mbox", "tabs", "csv")
_SOUGHT = (
    "a TREC index (a file 'index' of 'label path' lines), one folder of messages a class, "
    "mbox files, a Maildir, label<TAB>text lines or CSV with named columns"
)


def open_corpus(
    path: str | Path,
    kind: str | None = None,
    label_header: str | None = None,
    label_column: str | None = None,
    text_column: str | None = None,
) -> Corpus:
    """Open the corpus at a path with the reader that fits.

    Parameters
    ----------
    path
        A file or a folder.
    kind
        One of `KINDS`, or None to find out.
    label_header
        Header field with the label, for mbox and Maildir; it is not read as part of the message.
    label_column, text_column
        Names of the columns of a CSV file.

    Raises
    ------
    CorpusError
        Where there is no corpus, with what was looked for.
    """
    path = Path(path)
    if not path.exists():
        raise CorpusError(f"{path}: no such file or folder")
    if kind is not None and kind not in KINDS:
        raise ConfigError(f"corpus.kind: {kind!r} is not one of {', '.join(KINDS)}")
    if path.is_dir():
        if not os.access(path, os.R_OK | os.X_OK):
            raise CorpusError(f"{path}: cannot be listed: permission denied")
        found = _open_folder(path, kind, label_header)
    elif path.is_file():
        found = _open_file(path, kind, label_header, label_column, text_column)
    else:
        raise CorpusError(f"{path}: neither a file nor a folder")
    if found is None:
        raise CorpusError(
            f"{path}: not a corpus{f' of kind {kind}' if kind else ''}; looked for {_SOUGHT}"
        )
    return found


def _head(path: Path) -> bytes:
    with convert_os_errors(CorpusError, f"{path}: cannot be read"), open(path, "rb") as file:
        return file.read(1 << 16)


def _is_utf_16(head: bytes) -> bool:
    """Whether it begins with UTF-16's mark, or about every second byte alone is zero."""
    zeros = sorted(head[place::2].count(b"\0") for place in (0, 1))
    marked = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    return marked or (4 * zeros[1] > len(head) > 20 * zeros[0])


def _open_file(
    path: Path,
    kind: str | None,
    label_header: str | None,
    label_column: str | None,
    text_column: str | None,
) -> Corpus | None:
    head = _head(path)
    if not head:
        raise CorpusError(f"{path}: the file is empty")
    named = path.name == "index"
    if kind == "trec" or (kind is None and (named or looks_like_index(head, path.parent))):
        return trec_index(path)
    if kind == "mbox" or (kind is None and is_mbox(head)):
        return mbox([path], path, label_header)
    if _is_utf_16(head):
        raise CorpusError(f"{path}: not text in UTF-8, but perhaps in UTF-16; save it as UTF-8")
    if kind == "csv" or (kind is None and (path.suffix.lower() == ".csv" or label_column)):
        columns = csv_columns(path, label_column, text_column)
        if columns is None:
            raise CorpusError(
                f"{path}:1: cannot tell which columns hold label and text; "
                "set corpus.label_column and corpus.text_column"
            )
        return delimited_csv(path, *columns)
    if kind == "tabs" or (kind is None and looks_tabbed(head)):
        return delimited_tabs([path], path)
    return None


def _open_folder(path: Path, kind: str | None, label_header: str | None) -> Corpus | None:
    for index in (path / "index", path / "full" / "index"):
        if kind in (None, "trec") and index.is_file():
            return trec_index(index)
    if kind in (None, "maildir") and is_maildir(path):
        return maildir(path, None, label_header)
    folders = class_folders(path) if kind in (None, "folders") else None
    if folders is not None:
        return folders
    files = sorted(
        (item for item in path.iterdir() if item.is_file() and not item.name.startswith(".")),
        # Where a corpus is split, what is to be learned from comes first.
        key=lambda item: ("train" not in item.name.lower(), item.name),
    )
    boxes: list[Path] = []
    tabbed: list[Path] = []
    for item in files:
        head = _head(item)
        if is_mbox(head):
            boxes.append(item)
        elif looks_tabbed(head):
            tabbed.append(item)
    if kind in (None, "mbox") and boxes:
        return mbox(boxes, path, label_header)
    if kind in (None, "tabs") and tabbed:
        return delimited_tabs(tabbed, path)
    return None
