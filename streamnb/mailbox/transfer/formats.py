"""Exports and imports of a mailbox: JSON lines, a model file, bogofilter's dump."""

from __future__ import annotations

import codecs
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from streamnb.classifier import Classifier
from streamnb.corpus.entry import is_compressed
from streamnb.corpus.text_files import as_regular_file
from streamnb.counts.memory import NO_NAME, MemoryCounts
from streamnb.errors import (
    CorpusError,
    ModelFileError,
    OutputError,
    StateError,
    convert_os_errors,
)
from streamnb.features.token_counts import TokenCounts
from streamnb.mailbox.ledger import IMPORT
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.transfer import ledger_export
from streamnb.mailbox.transfer.bogofilter import read_dump, write_dump
from streamnb.mailbox.transfer.json_lines import read_lines, write_lines
from streamnb.naive_bayes.text_model import TextModel
from streamnb.storage import open_output

FORMATS = ("lines", "model", "bogofilter")


def export(
    mailbox: Mailbox, path: str, kind: str = "lines", messages: bool = True
) -> dict[str, int]:
    """Write a mailbox to a file.

    Parameters
    ----------
    path
        The file, "-" for standard output.
    kind
        One of `FORMATS`. "lines" is sorted JSON with everything; equal mailboxes give equal bytes.
        "model" is a model file for `streamnb explain` and programs. "bogofilter" is a word list
        for `bogoutil -l`, with the number of messages of each word.
    messages
        Whether "lines" includes the ledger.

    Returns
    -------
    dict
        The number of messages of each class that the format cannot store.
    """
    path = os.fspath(path)  # programs also give a Path
    omitted: dict[str, int] = {}
    database_files = {
        os.path.realpath(mailbox.path) + ending for ending in ("", "-wal", "-shm", ".sock")
    }
    if path != "-" and os.path.realpath(path) in database_files:
        raise OutputError(f"{path}: the file is the database itself; export to another file")
    with mailbox.reading():
        if kind == "model":
            _export_model(mailbox, path)
            return omitted
        lines = write_lines(mailbox, messages) if kind == "lines" else write_dump(mailbox, omitted)
        with open_output(path, "the export", private=True) as file:
            for line in lines:
                file.write(line)
    return omitted


def _export_model(mailbox: Mailbox, path: str) -> None:
    model = TextModel.from_header(mailbox.classifier.model.to_header())
    for member, counts in zip(model.view_models, mailbox.counts, strict=True):
        fingerprints, cells, _, names = counts.rows()
        member.counts.add_classes(counts.labels)
        text, ends = _join_names(names)
        member.counts.add_matrix(
            TokenCounts.unchecked(fingerprints, np.ones(len(cells)), text, ends),
            cells.dense(len(counts.labels)), counts.labels, counts.weights,
        )  # fmt: skip
    classifier = Classifier.from_settings(model, mailbox.classifier.settings())
    with (
        tempfile.TemporaryDirectory(prefix="streamnb-") as folder,
        open_output(path, "the export", private=True) as target,
    ):
        classifier.save(f"{folder}/model")
        with open(f"{folder}/model", "rb") as file:
            shutil.copyfileobj(file, target)


def _join_names(names: list[bytes | None]) -> tuple[bytes | None, Any]:
    if not any(names):
        return None, None
    texts = [NO_NAME if name is None else name for name in names]
    return b"".join(texts), np.cumsum([len(text) for text in texts], dtype=np.uint32)


def import_file(
    mailbox: Mailbox, path: str, kind: str | None = None, replace: bool = False
) -> ledger_export.MergeResult:
    """Add a file that `export`, `streamnb replay --save` or `bogoutil -d` wrote.

    Parameters
    ----------
    path
        The file, "-" for standard input.
    kind
        One of `FORMATS`; None to detect it.
    replace
        Whether to remove an earlier import once this one is added: the import of a file with this
        name, or the only import. Use it for counts without messages, such as bogofilter's.

    Raises
    ------
    CorpusError
        If the file cannot be read.
    StateError
        If the file has another format, or `replace` is set and several files were imported.
    """
    replaced = _imported_digests(mailbox, path) if replace else []
    with convert_os_errors(StateError, f"{path}: cannot be read"):
        real = str(as_regular_file(path)) if path == "-" or Path(path).is_fifo() else path
        head = _head(real, path)
        _refuse_other_files(head, path)
        start = head.removeprefix(codecs.BOM_UTF8)[:2]
        kind = kind or {b"PK": "model", b'{"': "lines"}.get(start, "bogofilter")
        reader = {"model": _model_export, "lines": read_lines, "bogofilter": read_dump}
        # rows are read lazily
        result = ledger_export.merge_export(mailbox, reader[kind](real, path))
    if result.rows_added:  # no row is added if this file was imported before
        mailbox.forget_digests(replaced)
    return result


def _imported_digests(mailbox: Mailbox, path: str) -> list[bytes]:
    """Return the digests of the rows of an earlier import that `import --replace` removes."""
    with mailbox.reading():
        rows = mailbox.database.connection.execute(
            "SELECT source, digest FROM ledger WHERE removed_at IS NULL AND labelled_by = ?",
            (IMPORT,),
        ).fetchall()
    sources = {source for source, _ in rows}
    source = f"import {path}"
    if source not in sources and len(sources) > 1:
        names = ", ".join(sorted(name.removeprefix("import ") for name in sources))
        raise StateError(
            f"{path}: --replace: several files were imported ({names}); give the new file the "
            "name of the one that it replaces"
        )
    return [digest for name, digest in rows if name == source or source not in sources]


# Beginnings of files that users try to import, and the description and remedy of each.
_OTHER_FILES = (
    (
        rb"v\t\d+\tdb_version",
        "a backup of SpamAssassin (sa-learn --backup): its tokens are hashes instead of words; run "
        "`streamnb learn` on the mail itself",
    ),
    (
        rb"\"?\d+\"?,\"?\d+\"?\r?\n",
        "an export of SpamBayes (sb_dbexpimp): its tokens follow other rules; run `streamnb learn` "
        "on the mail itself",
    ),
    (
        rb"SQLite format 3\0",
        "a database; run `streamnb merge` if it is streamnb's, or import the output of `bogoutil "
        "-d` if it is bogofilter's",
    ),
    # Berkeley DB: a hash or B-tree in both byte orders
    (
        rb"(?s).{12}(?:\x61\x15\x06\0|\0\x06\x15\x61|\x62\x31\x05\0|\0\x05\x31\x62)",
        "a database of Berkeley DB; if it is bogofilter's, import the output of `bogoutil -d`",
    ),
    (
        rb"From (?!\d+ \d)|(?:Return-Path|Received|Delivered-To|From|Subject|Date|Message-ID): ",
        "mail; run `streamnb learn` on it",
    ),
)


def _refuse_other_files(head: bytes, path: str) -> None:
    """Raise StateError for files of other programs, which cannot be imported."""
    if is_compressed(head):
        raise StateError(
            f"{path}: the file is compressed; decompress it, or pipe it into `streamnb import -`"
        )
    for pattern, description in _OTHER_FILES:
        if re.match(pattern, head):
            raise StateError(f"{path}: {description}")


def _head(path: str, name: str) -> bytes:
    """Return the first bytes of a regular file."""
    with (
        convert_os_errors(CorpusError, f"{name}: cannot be read", ValueError),  # NUL in the name
        open(path, "rb") as file,
    ):
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(None, "not a regular file")
        return file.read(64)


def merge(mailbox: Mailbox, other: Mailbox) -> ledger_export.MergeResult:
    """Add the messages of another mailbox."""
    if mailbox.database.file == other.database.file:
        raise StateError(f"{other.path}: a database cannot be merged with itself")
    with other.reading():
        return ledger_export.merge_export(mailbox, ledger_export.export_of_mailbox(other))


def _model_export(path: str, name: str) -> ledger_export.LedgerExport:
    """Return the counts of a model file, as rows of a ledger."""
    try:
        classifier = Classifier.load(path)
    except ModelFileError as error:  # the error may name a copy of standard input
        raise ModelFileError(str(error).replace(path, name)) from None
    tables = [model.counts for model in classifier.models]

    def names() -> Iterator[tuple[int, int, bytes]]:
        for view, counts in enumerate(tables):
            if not isinstance(counts, MemoryCounts):
                continue
            fingerprints, _, text, ends = counts.table.arrays()
            if text is not None:
                named_features = ledger_export.split_names(view, fingerprints, text, ends)
                yield from (item for item in named_features if item[2] != NO_NAME)

    return ledger_export.export_of_counts(
        name, classifier, list(tables[0].labels), list(tables[0].weights),
        [counts.items() for counts in tables], names, ledger_export.file_digest(path),
    )  # fmt: skip
