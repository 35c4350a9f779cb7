"""A mailbox as a file and back: JSON lines, a model file, bogofilter's dump."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from streamnb.classifier import Classifier
from streamnb.counts.memory import NO_NAME, MemoryCounts
from streamnb.errors import ModelFileError, OutputError, StateError, convert_os_errors
from streamnb.features.token_counts import TokenCounts
from streamnb.mailbox.store import Mailbox
from streamnb.mailbox.transfer import extract
from streamnb.mailbox.transfer.bogofilter import read_dump, write_dump
from streamnb.mailbox.transfer.json_lines import read_lines, write_lines
from streamnb.naive_bayes.base import TextModel
from streamnb.storage import open_output

FORMATS = ("lines", "model", "bogofilter")


def export(
    mailbox: Mailbox, path: str, kind: str = "lines", messages: bool = True
) -> dict[str, int]:
    """Write what a mailbox knows.

    Parameters
    ----------
    path
        The file, "-" for standard output.
    kind
        One of `FORMATS`: "lines" is JSON, sorted, and holds everything; equal states give equal
        bytes. "model" is a model file, for `streamnb explain` and programs. "bogofilter" is what
        `bogoutil -l` reads: in how many messages each word was.
    messages
        Whether "lines" holds the ledger too: which messages were learned, when, from where.

    Returns
    -------
    dict
        The classes that the format has no place for, and how many messages they have.
    """
    left_out: dict[str, int] = {}
    ours = {os.path.realpath(mailbox.path) + ending for ending in ("", "-wal", "-shm", ".sock")}
    if path != "-" and os.path.realpath(path) in ours:
        raise OutputError(f"{path}: this is the database itself: export to another file")
    with mailbox.reading():
        if kind == "model":
            _export_model(mailbox, path)
            return left_out
        lines = write_lines(mailbox, messages) if kind == "lines" else write_dump(mailbox, left_out)
        with open_output(path, "the export", private=True) as file:
            for line in lines:
                file.write(line)
    return left_out


def _export_model(mailbox: Mailbox, path: str) -> None:
    model = TextModel.from_header(mailbox.classifier.model.to_header())
    for member, counts in zip(model.view_models, mailbox.counts, strict=True):
        fingerprints, cells, _, names = counts.rows()
        member.counts.add_classes(counts.labels)
        text, ends = _joined(names)
        member.counts.add_matrix(
            TokenCounts.unchecked(fingerprints, np.ones(len(cells)), text, ends),
            cells, counts.labels, counts.weights,
        )  # fmt: skip
    made = Classifier.from_settings(model, mailbox.classifier.settings())
    with (
        tempfile.TemporaryDirectory(prefix="streamnb-") as folder,
        open_output(path, "the export", private=True) as target,
    ):
        made.save(f"{folder}/model")
        with open(f"{folder}/model", "rb") as file:
            shutil.copyfileobj(file, target)


def _joined(names: list[bytes | None]) -> tuple[bytes | None, Any]:
    if not any(names):
        return None, None
    parts = [NO_NAME if name is None else name for name in names]
    return b"".join(parts), np.cumsum([len(part) for part in parts], dtype=np.uint32)


def import_file(mailbox: Mailbox, path: str, kind: str | None = None) -> extract.MergeResult:
    """Add what a file holds that `export`, `streamnb replay --save` or `bogoutil -d` wrote.

    Parameters
    ----------
    path
        The file, "-" for standard input.
    kind
        One of `FORMATS`; None to find out.
    """
    with contextlib.ExitStack() as stack, convert_os_errors(StateError, f"{path}: cannot be read"):
        real = path
        if path == "-":
            copy = stack.enter_context(tempfile.NamedTemporaryFile(prefix="streamnb-"))
            if sys.stdin is None:
                raise StateError("-: standard input is closed")
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.flush()
            real = copy.name
        head = _head(real)
        kind = kind or {b"PK": "model", b'{"': "lines"}.get(head[:2], "bogofilter")
        reader = {"model": _model_extract, "lines": read_lines, "bogofilter": read_dump}
        return extract.merge_export(mailbox, reader[kind](real, path))  # which reads on


def _head(path: str) -> bytes:
    """How a regular file begins."""
    try:
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(None, "not a regular file")
            return file.read(4)
    except ValueError as error:  # a name that no file can have
        raise OSError(None, str(error)) from None


def merge(mailbox: Mailbox, other: Mailbox) -> extract.MergeResult:
    """Add what another mailbox knows."""
    if mailbox.database.file == other.database.file:
        raise StateError(f"{other.path}: a database cannot be merged with itself")
    with other.reading():
        return extract.merge_export(mailbox, extract.of_mailbox(other))


def _model_extract(path: str, shown: str) -> extract.LedgerExport:
    try:
        classifier = Classifier.load(path)
    except ModelFileError as error:  # which may name a copy of standard input
        raise ModelFileError(str(error).replace(path, shown)) from None
    tables = [model.counts for model in classifier.models]

    def names() -> Iterator[tuple[int, int, bytes]]:
        for view, counts in enumerate(tables):
            if not isinstance(counts, MemoryCounts):
                continue
            fingerprints, _, text, ends = counts.table.arrays()
            if text is not None:
                found = extract.named(view, fingerprints, text, ends)
                yield from (one for one in found if one[2] != NO_NAME)

    return extract.of_counts(
        shown, classifier, list(tables[0].labels), list(tables[0].weights),
        [counts.items() for counts in tables], names, extract.digest_of_file(path),
    )  # fmt: skip
