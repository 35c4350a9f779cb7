"""A mailbox as a file and back: JSON lines, a model file, bogofilter's dump."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from streamnb import _core
from streamnb.classifier import Classifier, MailClassifier
from streamnb.counts import MemoryCounts
from streamnb.errors import OutputError, StateError
from streamnb.mailbox.ledger import Row, pack_tokens, receipt_of, unpack_tokens
from streamnb.mailbox.parcel import Absorbed, Parcel, absorb, of_counts, of_mailbox
from streamnb.mailbox.store import Mailbox
from streamnb.naive_bayes.storage import from_outline, outline, plain_label, read_label
from streamnb.tokens import TokenCounts

__all__ = ["FORMATS", "export", "import_file", "merge"]

FORMATS = ("lines", "model", "bogofilter")
_HEAD = "streamnb mailbox"
_LINE = 1 << 28  # bytes of a line: one import may be a whole model
# What bogofilter calls the words of header fields, where it differs from us.
_PREFIXES = {b"subj:": b"subject:", b"rtrn:": b"return-path:", b"rcvd:": b"received:"}


@contextlib.contextmanager
def _written(path: str) -> Iterator[BinaryIO]:
    """A file that is there as a whole when all went well, for its owner alone; "-" for output."""
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    temporary = None
    try:
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file():
            raise OutputError(f"{path}: cannot be written: not a regular file")
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        if isinstance(error, (OSError, ValueError)):
            why = getattr(error, "strerror", None) or error
            raise OutputError(f"{path}: cannot be written: {why}") from None
        raise


def export(mailbox: Mailbox, path: str, kind: str = "lines", messages: bool = True) -> None:
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
    """
    with mailbox.reading():
        if kind == "model":
            _export_model(mailbox, path)
            return
        lines = _lines(mailbox, messages) if kind == "lines" else _bogofilter_lines(mailbox)
        with _written(path) as file:
            for line in lines:
                file.write(line)


def _export_model(mailbox: Mailbox, path: str) -> None:
    model = from_outline(outline(mailbox.classifier.model))
    for member, counts in zip(getattr(model, "models", [model]), mailbox.counts, strict=True):
        fingerprints, cells, _, names = counts.rows()
        member.counts.declare(counts.labels)
        text, ends = _joined(names)
        member.counts.add_matrix(
            TokenCounts._trusted(fingerprints, np.ones(len(cells)), text, ends),
            cells, counts.labels, counts.weights,
        )  # fmt: skip
    made = Classifier.from_settings(model, mailbox.classifier.settings())
    if path != "-":
        made.save(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        made.save(f"{folder}/model")
        with open(f"{folder}/model", "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def _joined(names: list[bytes | None]) -> tuple[bytes | None, Any]:
    if not any(names):
        return None, None
    parts = [name or b"" for name in names]
    return b"".join(parts), np.cumsum([len(part) for part in parts], dtype=np.uint32)


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def _lines(mailbox: Mailbox, messages: bool) -> Iterator[bytes]:
    labels = [str(label) for label in mailbox.labels]
    weights = mailbox.counts[0].weights
    alive = [k for k in sorted(range(len(labels)), key=labels.__getitem__) if weights[k] > 0]
    head: dict[str, Any] = {
        "format": _HEAD,
        "version": 1,
        "model": outline(mailbox.classifier.model),
        "settings": mailbox.classifier.settings(),
        "classes": [[plain_label(mailbox.labels[k]), weights[k]] for k in alive],
    }
    recalibration = head["model"].get("recalibration")
    for name, nothing in (("biases", 0.0), ("bias_squares", 1.0)):
        if recalibration is not None:
            numbers = recalibration[name]
            recalibration[name] = [numbers[k] if k < len(numbers) else nothing for k in alive]
    yield _json(head)
    for view, counts in enumerate(mailbox.counts):
        fingerprints, cells, _, names = counts.rows()
        for i in np.argsort(fingerprints).tolist():
            found = {labels[k]: cells[i, k] for k in alive if cells[i, k]}
            line: dict[str, Any] = {"view": view, "counts": found}
            line["fingerprint"] = f"{int(fingerprints[i]):016x}"
            if names[i] is not None:
                line["name"] = _shown(names[i])
            yield _json(line)
    if messages:
        connection = mailbox.database.connection
        order = connection.execute("SELECT id FROM ledger WHERE ended IS NULL ORDER BY digest")
        for number in order.fetchall():
            (row,) = mailbox.ledger.rows("id = ?", number)
            yield _json(_row_line(row, labels, alive))


def _shown(name: Any) -> str:
    decoded = _core.decode_name(name)
    return decoded if isinstance(decoded, str) else f"\0{name.hex()}"


def _row_line(row: Row, labels: list[str], alive: list[int]) -> dict[str, Any]:
    step = row.receipt.step
    if step is not None:  # by our order of classes; so that histories make no difference
        biases, squares = (
            [part[k] if k < len(part) else 0.0 for k in alive]
            for part in (step.biases, step.bias_squares)
        )
        step = step._replace(biases=tuple(biases), bias_squares=tuple(squares))
    return {
        "digest": row.digest.hex(),
        "label": labels[row.label],
        "teacher": row.teacher,
        "source": row.source,
        "time": row.time,
        "expected": None if row.expected is None else labels[row.expected],
        "tokenizer": row.tokenizer,
        "receipt": row.receipt._replace(step=step),
        "tokens": None
        if row.tokens is None
        else base64.b64encode(pack_tokens(row.tokens)).decode(),
    }


def import_file(mailbox: Mailbox, path: str, kind: str | None = None) -> Absorbed:
    """Add what a file holds that `export`, `streamnb replay --save` or `bogoutil -d` wrote.

    Parameters
    ----------
    path
        The file, "-" for standard input.
    kind
        One of `FORMATS`; None to find out.
    """
    with contextlib.ExitStack() as stack:
        if path == "-":
            copy = stack.enter_context(tempfile.NamedTemporaryFile(prefix="streamnb-"))
            if sys.stdin is None:
                raise StateError("-: standard input is closed")
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.flush()
            real = copy.name
        else:
            real = path
        try:
            with open(real, "rb") as file:
                head = file.read(4)
                if not stat_regular(file):
                    raise OSError(None, "not a regular file")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise StateError(f"{path}: cannot be read: {why}") from None
        kind = kind or {b"PK": "model", b'{"': "lines"}.get(head[:2], "bogofilter")
        reader = {"model": _model_parcel, "lines": _lines_parcel, "bogofilter": _bogofilter_parcel}
        return absorb(mailbox, reader[kind](real, path))


def stat_regular(file: IO[bytes]) -> bool:
    """Whether an open file is a regular one."""
    import stat

    return stat.S_ISREG(os.fstat(file.fileno()).st_mode)


def merge(mailbox: Mailbox, other: Mailbox) -> Absorbed:
    """Add what another mailbox knows."""
    if os.path.samefile(mailbox.path, other.path):
        raise StateError(f"{other.path}: a database cannot be merged with itself")
    with other.reading():
        return absorb(mailbox, of_mailbox(other))


def _digest_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _model_parcel(path: str, shown: str) -> Parcel:
    classifier = Classifier.load(path)
    tables = [model.counts for model in classifier.models]

    def names() -> Iterator[tuple[int, int, bytes]]:
        for view, counts in enumerate(tables):
            fingerprints, _, text, ends = counts.table.arrays()
            if text is None or ends is None:
                continue
            spans = [0, *ends.tolist()]
            for i, fingerprint in enumerate(fingerprints.tolist()):
                yield view, fingerprint, text[spans[i] : spans[i + 1]]

    return of_counts(
        shown, classifier, list(tables[0].labels), list(tables[0].weights),
        [counts.everything() for counts in tables], names, _digest_of(path),
    )  # fmt: skip


def _numbered(path: str, shown: str) -> Iterator[tuple[int, Any]]:
    with open(path, "rb") as file:
        number = 0
        while line := file.readline(_LINE):
            number += 1
            try:
                value = json.loads(line)
                if not isinstance(value, dict):
                    raise ValueError("not an object")
            except (ValueError, RecursionError) as error:
                raise StateError(
                    f"{shown}:{number}: not what export writes ({error!s:.100})"
                ) from None
            yield number, value


@contextlib.contextmanager
def _sound(shown: str, number: int) -> Iterator[None]:
    """Say which line is not what `export` writes."""
    try:
        yield
    except StateError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error!s:.100}"
        raise StateError(f"{shown}:{number}: not what export writes ({why})") from None


def _lines_parcel(path: str, shown: str) -> Parcel:
    first: dict[str, Any] = next((line for _, line in _numbered(path, shown)), {})
    with _sound(shown, 1):
        if first.get("format") != _HEAD or first.get("version") != 1:
            raise StateError(f"{shown}:1: not what `streamnb export` of this version wrote")
        classifier = Classifier.from_settings(from_outline(first["model"]), first["settings"])
        labels = [read_label(label) for label, _ in first["classes"]]
        weights = [float(weight) for _, weight in first["classes"]]
        if len(set(map(str, labels))) != len(labels) or not all(0 <= w < 1e100 for w in weights):
            raise ValueError("the classes are not sound")
    place = {str(label): k for k, label in enumerate(labels)}

    def names() -> Iterator[tuple[int, int, bytes]]:
        for number, line in _numbered(path, shown):
            with _sound(shown, number):
                if isinstance(line.get("name"), str):
                    text = line["name"]
                    hidden = text.startswith("\0")
                    name = bytes.fromhex(text[1:]) if hidden else _core.encode_name(text)
                    view, fingerprint = int(line["view"]), int(line["fingerprint"], 16)
                    if not 0 <= view < len(classifier.models) or not 0 <= fingerprint < 1 << 64:
                        raise ValueError("no such feature")
                    yield view, fingerprint, name

    def rows() -> Iterator[Row]:
        for number, line in _numbered(path, shown):
            if "digest" in line:
                with _sound(shown, number):
                    row = _row_of(line, place, len(classifier.models))
                yield row

    if any("digest" in line for _, line in _numbered(path, shown)):
        return Parcel(shown, classifier, labels, rows, names)
    tables = _tables(path, shown, place, len(classifier.models))
    return of_counts(shown, classifier, labels, weights, tables, names, _digest_of(path))


def _row_of(line: dict[str, Any], place: dict[str, int], views: int) -> Row:
    tokens = line["tokens"]
    unpacked = None if tokens is None else unpack_tokens(base64.b64decode(tokens, validate=True))
    receipt = receipt_of(json.dumps(line["receipt"]))
    step = receipt.step
    if len(receipt.weights) != views or (unpacked is not None and len(unpacked) != views):
        raise ValueError("a message of other views")
    if step is not None and (
        len(step.gains) != views
        or len(step.gain_squares) != views
        or not len(step.biases) == len(step.bias_squares) <= len(place)
    ):
        raise ValueError("a step of other views or classes")
    if receipt.mass < 0 or min(receipt.weights) < 0:
        raise ValueError("a weight below zero")
    key = bytes.fromhex(line["digest"])
    if len(key) != 32 or line["teacher"] not in ("human", "program", "import", "retired"):
        raise ValueError("no such message, or no such teacher")
    expected = line["expected"]
    return Row(
        0,
        key,
        place[line["label"]],
        line["teacher"],
        str(line["source"]),
        float(line["time"]),
        None,
        None if expected is None else place.get(expected),
        str(line["tokenizer"]),
        receipt,
        unpacked,
    )


def _tables(path: str, shown: str, place: dict[str, int], views: int) -> list[tuple[Any, Any]]:
    keys: list[list[int]] = [[] for _ in range(views)]
    cells: list[list[list[float]]] = [[] for _ in range(views)]
    for number, line in _numbered(path, shown):
        if "fingerprint" in line:
            with _sound(shown, number):
                found = [0.0] * len(place)
                for label, count in line["counts"].items():
                    if not 0 <= float(count) < 1e100:
                        raise ValueError("a count below zero, or too large")
                    found[place[label]] = float(count)
                keys[line["view"]].append(int(line["fingerprint"], 16))
                cells[line["view"]].append(found)
    return [
        (np.array(keys[j], dtype=np.uint64), np.array(cells[j]).reshape(-1, len(place)))
        for j in range(views)
    ]


def _bogofilter_lines(mailbox: Mailbox) -> Iterator[bytes]:
    """In how many messages of ham and spam each word was: recounted from the ledger."""
    words = MemoryCounts(keep_names=False)
    messages: defaultdict[str, float] = defaultdict(float)
    for row in mailbox.ledger.rows():
        label = str(mailbox.labels[row.label])
        if label in ("ham", "spam"):
            messages[label] += row.receipt.mass
            if row.tokens is not None:
                words.add(row.tokens[0], label, 1.0)
    words.declare(["spam", "ham"])
    columns = [words.labels.index(label) for label in ("spam", "ham")]
    yield b".MSG_COUNT %d %d\n" % (round(messages["spam"]), round(messages["ham"]))
    fingerprints, _, _, names = mailbox.counts[0].rows()
    cells, _ = words.gather(fingerprints)
    lines = []
    for name, counts in zip(names, cells[:, columns].round().astype(int).tolist(), strict=True):
        word = None if name is None else _core.decode_name(name)
        if isinstance(word, str) and any(counts) and word.split() == [word]:
            token = word.encode()
            for theirs, ours in _PREFIXES.items():
                if token.startswith(ours):
                    token = theirs + token.removeprefix(ours)
            lines.append(b"%s %d %d\n" % (token, *counts))
    yield from sorted(lines)


def _bogofilter_parcel(path: str, shown: str) -> Parcel:
    classifier = MailClassifier(label_noise=0.0)
    words: dict[str, list[float]] = {}
    weights = [0.0, 0.0]
    for number, line in enumerate(_text_lines(path), 1):
        fields = line.split()
        if not fields:
            continue
        try:
            token, counts = fields[0], [float(int(text)) for text in fields[1:3]]
            if len(counts) != 2 or min(counts) < 0 or max(counts) > 1e15:
                raise ValueError
        except ValueError:
            raise StateError(f"{shown}:{number}: expected 'token spam-count ham-count'") from None
        if token == b".MSG_COUNT":
            weights = counts
        elif not token.startswith(b"."):
            for theirs, ours in _PREFIXES.items():
                if token.startswith(theirs):
                    token = ours + token.removeprefix(theirs)
            words[token.decode("utf-8", "replace")] = counts
    if min(weights) <= 0:
        raise StateError(f"{shown}: no line '.MSG_COUNT spam ham' with messages of both")
    tokens = TokenCounts.from_dict(dict.fromkeys(words, 1))
    cells = np.array(list(words.values())).reshape(-1, 2)
    empty = np.zeros(0, dtype=np.uint64), np.zeros((0, 2))
    ends = [0, *(tokens.ends.tolist() if tokens.ends is not None else [])]

    def names() -> Iterator[tuple[int, int, bytes]]:
        for i, fingerprint in enumerate(tokens.fingerprints.tolist()):
            yield 0, fingerprint, (tokens.names or b"")[ends[i] : ends[i + 1]]

    return of_counts(
        shown, classifier, ["spam", "ham"], weights, [(tokens.fingerprints, cells), empty], names,
        _digest_of(path),
    )  # fmt: skip


def _text_lines(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while line := file.readline(1 << 16):
            yield line
