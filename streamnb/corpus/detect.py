"""The detection of the right reader for a file or folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamnb.corpus.delimited import (
    find_learned_delimiter,
    has_known_header,
    is_tabbed,
    labels_of_lines,
    open_delimited,
)
from streamnb.corpus.entry import Corpus, Entry
from streamnb.corpus.folders import is_maildir, open_class_folders, open_maildir
from streamnb.corpus.mbox import is_mbox, open_mbox
from streamnb.corpus.tabular import FORMATS, detect_format
from streamnb.corpus.text_files import as_regular_file, check_text, is_compressed_file, read_head
from streamnb.corpus.trec import find_trec_index, is_trec_index, open_trec_index
from streamnb.data_format import DataFormat
from streamnb.errors import ConfigError, CorpusError, check_paths_differ

TABLE_KINDS = ("tabs", *FORMATS)
KINDS = ("trec", "folders", "maildir", "mbox", *TABLE_KINDS)
_EXPECTED = (
    "a TREC index (lines 'label path' in a file 'index'); a folder for each class; mbox files; "
    "a Maildir; lines label<TAB>text; CSV, JSON Lines, Parquet or fastText lines"
)


def open_corpus(
    path: str | Path | Sequence[str | Path],
    kind: str | None = None,
    label_header: str | None = None,
    label_column: str | None = None,
    text_column: str | None = None,
    delimiter: str | None = None,
    has_header: bool | None = None,
    learned: DataFormat | None = None,
    date_column: str | None = None,
) -> Corpus:
    """Open the corpus at a path with the right reader.

    Parameters
    ----------
    path
        A file, a folder, "-" for standard input, or a list of those, which are read one after the
        other.
    kind
        One of `KINDS`, or None to detect it.
    label_header
        The header field with the label, for mbox and Maildir. The classifier does not read it.
    label_column, text_column
        Names of the columns of a table; without a header, their numbers, counted from 1.
    delimiter
        The delimiter of a CSV file; None to detect it.
    has_header
        Whether the first line of a CSV file names the columns; None to detect it.
    learned
        The columns that a model was trained on. A table with a header must have them, unless
        `label_column` and `text_column` name others.
    date_column
        The column with the date of each text, for the order "date" and for late labels.

    Raises
    ------
    CorpusError
        If there is no corpus; the message lists the kinds.
    ConfigError
        If an option does not fit the kind of corpus, or if the list names a path twice.
    """
    if kind is not None and kind not in KINDS:
        raise ConfigError(f"corpus.kind: {kind!r} is not one of {', '.join(KINDS)}")
    opener = _Opener(
        kind, label_header, (label_column, text_column, date_column), delimiter, has_header, learned
    )
    if isinstance(path, (str, Path)):
        return opener.open(path)
    check_paths_differ(path, "messages")
    return _join([opener.open(item) for item in path])


def _join(corpora: list[Corpus]) -> Corpus:
    """Return corpora as one corpus, read one after the other."""
    if not corpora:
        raise ConfigError("corpus.path: name at least one path")
    first = corpora[0]
    for corpus in corpora:
        if corpus.content != first.content:
            raise CorpusError(
                f"{corpus.path} contains {corpus.content}, but {first.path} contains "
                f"{first.content}: use them separately"
            )
    if len(corpora) == 1:
        return first

    def entries() -> Iterator[Entry]:
        for corpus in corpora:
            yield from corpus.entries()

    sizes = [corpus.size for corpus in corpora if corpus.size is not None]
    return Corpus(
        first.kind,
        first.path,
        "; ".join(corpus.description for corpus in corpora[:4]),
        first.content,
        entries,
        tuple(dict.fromkeys(name for corpus in corpora for name in corpus.drop_headers)),
        sum(sizes) if len(sizes) == len(corpora) else None,
        first.data_format,
        tuple(notice for corpus in corpora for notice in corpus.notices),
    )


def _open_boxes(boxes: list[Path], root: Path, label_header: str | None) -> Corpus:
    """Return the corpus in mbox files; CorpusError if one of them is compressed."""
    for box in boxes:
        if is_compressed_file(box):
            raise CorpusError(f"{box}: the mbox is compressed; decompress it first")
    return open_mbox(boxes, root, label_header)


@dataclass(frozen=True)
class _Opener:
    """Opens a file or a folder with the options of a corpus."""

    kind: str | None
    label_header: str | None
    columns: tuple[str | None, str | None, str | None]
    delimiter: str | None
    has_header: bool | None
    learned: DataFormat | None

    def open(self, name: str | Path) -> Corpus:
        """Return the corpus at a path."""
        if name == "":  # pathlib reads it as the current folder
            raise ConfigError("corpus.path: it is empty; use '.' for the present folder")
        path = as_regular_file(name)
        if path.is_dir() and not os.access(path, os.R_OK | os.X_OK):
            raise CorpusError(f"{path}: cannot be listed: permission denied")
        corpus = self.open_folder(path) if path.is_dir() else self.open_file(path)
        if corpus is None:
            of_kind = f" of kind {self.kind}" if self.kind else ""
            raise CorpusError(f"{path}: not a corpus{of_kind}; expected {_EXPECTED}")
        if any(self.columns) and corpus.kind not in TABLE_KINDS:
            raise ConfigError(
                f"corpus.label_column, corpus.text_column, corpus.date_column: {path} has no "
                f"columns (it is {corpus.description}); leave them out"
            )
        if self.label_header is not None and corpus.kind not in ("mbox", "maildir"):
            raise ConfigError(
                f"corpus.label_header: {path} is {corpus.description}, but the option is for mbox "
                "and Maildir; leave it out"
            )
        return corpus

    def open_file(self, path: Path) -> Corpus | None:
        """Return the corpus in a file; None if it is no corpus of the wanted kind."""
        kind = self.kind
        head = read_head(path)
        if not head:
            raise CorpusError(f"{path}: the file is empty")
        is_index = path.name == "index" or is_trec_index(head, path.parent)
        if kind == "trec" or (kind is None and is_index):
            return open_trec_index(path)
        if kind == "mbox" or (kind is None and _is_box(path, head)):
            return _open_boxes([path], path, self.label_header)
        return self.open_table(path, path, head)

    def open_table(self, path: Path, root: Path, head: bytes) -> Corpus | None:
        """Return the corpus in a tabular file; None if it is not tabular."""
        kind = self.kind
        if kind is not None and kind not in TABLE_KINDS:
            return None
        check_text(path, head)
        table_format = detect_format(path, head) if kind in (None, "csv") else kind
        delimiter, learned = self.delimiter, self.learned
        learned_delimiter = find_learned_delimiter(head, learned) if learned else None
        if learned_delimiter and table_format in (None, "csv"):
            table_format, delimiter = "csv", delimiter or learned_delimiter
        if kind == "tabs" or (table_format is None and kind is None and is_tabbed(head)):
            table_format, delimiter = "csv", delimiter or "\t"
        has_options = kind == "csv" or delimiter is not None or any(self.columns)
        is_detected = kind is None and bool(labels_of_lines(path))
        if table_format is None and (has_options or has_known_header(head) or is_detected):
            table_format = "csv"
        if table_format is None:
            return None
        return open_delimited(
            path, root, *self.columns, table_format, delimiter, self.has_header, learned
        )

    def open_folder(self, path: Path) -> Corpus | None:
        """Return the corpus in a folder; None if it is no corpus of the wanted kind."""
        kind = self.kind
        index = find_trec_index(path)
        if kind in (None, "trec") and index is not None:
            return open_trec_index(index)
        if kind in (None, "maildir") and is_maildir(path):
            return open_maildir(path, None, self.label_header)
        folders = open_class_folders(path) if kind in (None, "folders") else None
        if folders is not None:
            return folders
        files = sorted(
            (item for item in path.iterdir() if item.is_file() and not item.name.startswith(".")),
            # In a corpus with a split, the training part comes first.
            key=lambda item: ("train" not in item.name.lower(), item.name),
        )
        heads = {item: head for item in files if (head := read_head(item, 1 << 16))}
        boxes = [item for item, head in heads.items() if _is_box(item, head)]
        if kind in (None, "mbox") and boxes:
            return _open_boxes(boxes, path, self.label_header)
        tables = [
            item
            for item, head in heads.items()
            if detect_format(item, head) is not None or is_tabbed(head) or has_known_header(head)
        ]
        corpora = [self.open_table(item, path, heads[item]) for item in tables]
        opened = [corpus for corpus in corpora if corpus is not None]
        return _join(opened) if opened else None


def _is_box(path: Path, head: bytes) -> bool:
    """Return whether a file is an mbox; a table can begin with "From", too."""
    return is_mbox(head) and detect_format(path, head) is None
