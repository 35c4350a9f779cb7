"""Exports and imports of a mailbox: JSON lines, a model file, bogofilter's dump."""

from __future__ import annotations

import codecs
import io
import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from streamnb import _core
from streamnb.classifier import Classifier, MailClassifier
from streamnb.corpus.entry import is_compressed, iterate_lines
from streamnb.corpus.text_files import as_regular_file
from streamnb.counts.memory import NO_NAME, MemoryCounts
from streamnb.errors import CorpusError, ModelFileError, OutputError, StateError, convert_os_errors
from streamnb.features.mail_words import MailTokenizer
from streamnb.features.token_counts import TokenCounts
from streamnb.mailbox.ledger import IMPORT, Row
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.transfer import ledger_export
from streamnb.mailbox.transfer.json_lines import read_lines, write_lines
from streamnb.mailbox.transfer.ledger_export import (
    LedgerExport,
    export_of_counts,
    file_digest,
    split_names,
)
from streamnb.naive_bayes.class_sums import ClassReliability
from streamnb.naive_bayes.text_model import TextModel
from streamnb.storage import open_output

# Prefixes of words in header fields: bogofilter's and streamnb's, if they differ.
_OUR_PREFIXES = {b"subj:": b"subject:", b"rtrn:": b"return-path:", b"rcvd:": b"received:"}
_BOGOFILTER_PREFIXES = {prefix: original for original, prefix in _OUR_PREFIXES.items()}
# Number of messages of a class in a list that count as one correct prediction. So a class with 200
# messages is ready. At half the value, lists of 200 messages give sure verdicts, of which 1 to 2 %
# are wrong. At twice the value, a list of 1,000 messages, a third of them spam, leaves all spam
# unsure.
_MESSAGES_PER_CORRECT = 10
# Number of messages at which the words of a list have half the weight of those in a large list.
# Chosen on three corpora, with lists of 40 to 3,000 messages. At twice the value, the log loss of
# a list of 1,000 is 5 % higher; at half, a list of 200 makes three times as many sure mistakes.
_HALF_TRUST = 100.0
_VIEWS = ("header", "body")
# The slope of each view for a large list. A model of plain counts learns slopes of 1 to 2 for the
# body, and smaller ones for the header, whose words are more redundant. With 1 for the body, lists
# of 1,000 messages leave twice as many mails of enron5 unsure as bogofilter does. With 3,
# spamassassin has a third more mistakes.
_SLOPES = {"header": 1.0, "body": 1.5}
# bogofilter's prefix of words in header fields that have no prefix of their own, and of all text of
# a message without an empty line after its header. These words replace words of bodies that are not
# in the list.
_ANY_FIELD = "head"
_BODY_PREFIXES = ("url", "html", "type", "name")  # prefix of words outside the header


def _rename_prefix(token: bytes, prefixes: Mapping[bytes, bytes]) -> bytes:
    """Return a token with its prefix replaced."""
    for old, new in prefixes.items():
        if token.startswith(old):
            return new + token.removeprefix(old)
    return token


def write_dump(mailbox: Mailbox, omitted: dict[str, int]) -> Iterator[bytes]:
    """Yield the lines of a dump, counted from the ledger.

    The number of messages of each class other than ham and spam is added to `omitted`.
    """
    tokenizers = mailbox.classifier.tokenizer.tokenizers
    views = [
        view for view, tokenizer in enumerate(tokenizers) if isinstance(tokenizer, MailTokenizer)
    ]
    words = MemoryCounts(keep_names=False)
    words.add_classes(["spam", "ham"])
    messages: defaultdict[str, float] = defaultdict(float)
    for row in mailbox.ledger.rows():
        label = str(mailbox.labels[row.label])
        messages[label] += row.receipt.class_weight
        if label in ("ham", "spam") and row.tokens is not None:
            for view in views:
                words.add(row.tokens[view], label, 1.0)
    omitted |= {label: round(messages[label]) for label in messages if label not in ("ham", "spam")}
    yield b".MSG_COUNT %d %d\n" % (round(messages["spam"]), round(messages["ham"]))
    lines = []
    for view in views:
        fingerprints, _, _, names = mailbox.counts[view].rows()
        cells, _ = words.get_counts(fingerprints)
        for name, counts in zip(names, cells.round().astype(int).tolist(), strict=True):
            word = None if name is None else _core.decode_name(name)
            if isinstance(word, str) and any(counts) and word.split() == [word]:
                lines.append(
                    b"%s %d %d\n" % (_rename_prefix(word.encode(), _BOGOFILTER_PREFIXES), *counts)
                )
    yield from sorted(lines)


def _credit(classifier: MailClassifier, weights: Sequence[float]) -> None:
    """Set the calibration by the number of counted messages.

    With the calibration of an untrained model, all messages would be unsure until the owner has
    labelled many.
    """
    model = classifier.model
    size = 2 * min(weights)
    for system in model.calibration.recalibration.systems:
        for view, name in enumerate(classifier.view_names):
            if name in _SLOPES:
                slope = _SLOPES[name] * size / (size + _HALF_TRUST)
                system.shared.slopes[view] = max(system.shared.slopes[view], slope)
    record = [
        number
        for k, weight in enumerate(weights)
        for number in (k, int(min(weight / _MESSAGES_PER_CORRECT, ClassReliability.MIN_CORRECT)), 0)
    ]
    model.calibration.reliability.apply({"record": record}, 1)


def _read_tokens(path: str, name: str) -> Iterator[tuple[bytes, list[float]]]:
    """Yield each token of a dump, and the numbers of spam and ham messages that have it."""
    with open(path, "rb") as file:
        for number, line in iterate_lines(file, 1 << 16):
            fields = line.split()
            if not fields:
                continue
            try:
                counts = [float(int(text)) for text in fields[1:3]]
                if len(counts) != 2 or min(counts) < 0 or max(counts) > 1e15:
                    raise ValueError
            except (ValueError, OverflowError):
                raise StateError(
                    f"{name}:{number}: not an export, a model file or the output of `bogoutil "
                    "-d`: expected 'token spam-count ham-count'"
                ) from None
            yield fields[0], counts


def read_dump(path: str, name: str) -> LedgerExport:
    """Return the counts of a dump. `name` is the file's name in errors."""
    classifier = MailClassifier(label_noise=0.0)
    views: dict[str, dict[str, list[float]]] = {name: {} for name in classifier.view_names}
    unplaced_words: dict[str, list[float]] = {}
    weights = [0.0, 0.0]
    for token, counts in _read_tokens(path, name):
        if token == b".MSG_COUNT":
            weights = counts
        elif not token.startswith(b"."):
            word = _rename_prefix(token, _OUR_PREFIXES).decode("utf-8", "replace")
            prefix, colon, unplaced_word = word.partition(":")
            if prefix == _ANY_FIELD and colon:
                unplaced_words[unplaced_word] = counts
            else:
                is_header = colon and prefix not in _BODY_PREFIXES
                views[_VIEWS[0] if is_header else _VIEWS[1]][word] = counts
    if min(weights) <= 0:
        raise StateError(
            f"{name}: the line '.MSG_COUNT SPAM HAM' is missing, or one of its numbers is 0"
        )
    views[_VIEWS[1]] = unplaced_words | views[_VIEWS[1]]
    _credit(classifier, weights)
    tokens = [TokenCounts.from_dict(dict.fromkeys(words, 1)) for words in views.values()]

    def names() -> Iterator[tuple[int, int, bytes]]:
        for view, features in enumerate(tokens):
            yield from split_names(
                view, features.fingerprints, features.names or b"", features.ends
            )

    tables = [
        (features.fingerprints, np.array(list(words.values())).reshape(-1, 2))
        for features, words in zip(tokens, views.values(), strict=True)
    ]
    return export_of_counts(
        name, classifier, ["spam", "ham"], weights, tables, names, file_digest(path)
    )


FORMATS = ("lines", "model", "bogofilter")


def export(mailbox: Mailbox, path: str, kind: str = "lines") -> dict[str, int]:
    """Write a mailbox to a file.

    Parameters
    ----------
    path
        The file, "-" for standard output.
    kind
        One of `FORMATS`. "lines" is sorted JSON with everything; equal mailboxes give equal bytes.
        "model" is a model file for `streamnb explain` and programs. "bogofilter" is a word list
        for `bogoutil -l`, with the number of messages of each word.

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
        lines = write_lines(mailbox) if kind == "lines" else write_dump(mailbox, omitted)
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
    content = io.BytesIO()  # a pipe cannot be written at any position
    classifier.save(content)
    with open_output(path, "the export", private=True) as target:
        target.write(content.getbuffer())


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
        Whether to remove an earlier import in the same transaction: the import of a file with this
        name, or the only import. Use it for counts without messages, such as bogofilter's.

    Raises
    ------
    CorpusError
        If the file cannot be read.
    StateError
        If the file has another format, or `replace` is set and several files were imported.
    """
    replaced = _earlier_import(mailbox, path) if replace else []
    with convert_os_errors(StateError, f"{path}: cannot be read"):
        real = str(as_regular_file(path)) if path == "-" or Path(path).is_fifo() else path
        head = _head(real, path)
        _refuse_other_files(head, path)
        start = head.removeprefix(codecs.BOM_UTF8)[:2]
        kind = kind or {b"PK": "model", b'{"': "lines"}.get(start, "bogofilter")
        reader = {"model": _model_export, "lines": read_lines, "bogofilter": read_dump}
        # rows are read lazily
        return ledger_export.merge_export(mailbox, reader[kind](real, path), replaced)


def _earlier_import(mailbox: Mailbox, path: str) -> list[Row]:
    """Return the rows of an earlier import that `import --replace` removes."""
    with mailbox.reading():
        imported = mailbox.database.connection.execute(
            "SELECT source, added_at, digest FROM ledger "
            "WHERE removed_at IS NULL AND labelled_by = ?",
            (IMPORT,),
        ).fetchall()
        sources = {source for source, _, _ in imported}
        source = f"import {path}"
        if source not in sources and len(sources) == 1:
            (source,) = sources
        if sources and source not in sources:
            names = ", ".join(sorted(name.removeprefix("import ") for name in sources))
            raise StateError(
                f"{path}: --replace: several files were imported ({names}); give the new file the "
                "name of the one that it replaces"
            )
        replaced = [item for item in imported if item[0] == source]
        if source == "import -" and len({added_at for _, added_at, _ in replaced}) > 1:
            raise StateError(
                f"{path}: --replace: several files without a name were imported from standard "
                "input; import all files by name into a new database (--db)"
            )
        rows = [mailbox.ledger.active(digest) for _, _, digest in replaced]
    return [row for row in rows if row is not None]


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
    """Raise StateError for empty files and those of other programs, which cannot be imported."""
    if not head.strip():
        raise StateError(f"{path}: the file {'begins with blank lines' if head else 'is empty'}")
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
