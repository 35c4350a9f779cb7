"""A mailbox as JSON lines: sorted, so that equal states give equal bytes.

The first line is the classifier; a line a feature, with its counts for people to read; a line a
message with what it added, which is what is added up again when they are read; the last says how
many lines there are before it.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from streamnb import _core
from streamnb.corpus.entry import iterate_lines
from streamnb.errors import StateError
from streamnb.mailbox.ledger import Row
from streamnb.mailbox.memory import check_row, classifier_of
from streamnb.mailbox.packed import pack_tokens, unpack_tokens
from streamnb.mailbox.store import Mailbox
from streamnb.mailbox.transfer.extract import LedgerExport, digest_of_file, of_counts
from streamnb.naive_bayes.base import TextModel
from streamnb.naive_bayes.receipt import Receipt
from streamnb.storage import label_from_json, label_to_json

_HEAD = "streamnb mailbox"
_LINE = 1 << 28  # bytes of a line: one import may be a whole model


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def write_lines(mailbox: Mailbox, messages: bool) -> Iterator[bytes]:
    """All lines; without `messages`, only what is counted."""
    labels = [str(label) for label in mailbox.labels]
    weights = mailbox.counts[0].weights
    alive = [k for k in sorted(range(len(labels)), key=labels.__getitem__) if weights[k] > 0]
    head: dict[str, Any] = {
        "format": _HEAD,
        "ends": True,  # the last line says how many there are before it
        "version": 1,
        "model": mailbox.classifier.model.reordered_header(alive),
        "settings": mailbox.classifier.settings(),
        "classes": [[label_to_json(mailbox.labels[k]), weights[k]] for k in alive],
    }
    yield _json(head)
    lines = 1
    for view, counts in enumerate(mailbox.counts):
        fingerprints, cells, _, names = counts.rows()
        for i in np.argsort(fingerprints).tolist():
            found = {labels[k]: cells[i, k] for k in alive if cells[i, k]}
            line: dict[str, Any] = {"view": view, "counts": found}
            line["fingerprint"] = f"{int(fingerprints[i]):016x}"
            if names[i] is not None:
                line["name"] = _shown(names[i])
            yield _json(line)
        lines += len(fingerprints)
    if messages:
        for number in mailbox.ledger.numbers("removed_at IS NULL", order="digest"):
            row = mailbox.ledger.row(number)
            yield _json(_row_line(row, mailbox.classifier.model, labels, alive))
            lines += 1
    yield _json({"lines": lines})


def _shown(name: Any) -> str:
    """A name as text, or, after a NUL, in hexadecimal."""
    decoded = _core.decode_name(name)
    plain = isinstance(decoded, str) and not decoded.startswith("\0")
    return decoded if plain else f"\0{name.hex()}"


def _read_name(text: str) -> bytes:
    """What `_shown` showed."""
    return bytes.fromhex(text[1:]) if text.startswith("\0") else _core.encode_name(text)


def _row_line(row: Row, model: TextModel, labels: list[str], alive: list[int]) -> dict[str, Any]:
    # Classes by our order, so that histories make no difference.
    receipt = model.remap_classes(row.receipt, alive)
    tokens = None if row.tokens is None else base64.b64encode(pack_tokens(row.tokens)).decode()
    return {
        "digest": row.digest.hex(),
        "label": labels[row.label],
        "labelled_by": row.labelled_by,
        "source": row.source,
        "time": row.time,
        "predicted": labels[row.predicted] if row.predicted in alive else None,
        "tokenizer": row.tokenizer,
        "receipt": receipt.to_json(),
        "tokens": tokens,
    }


def _numbered(path: str, shown: str, having: bytes = b"") -> Iterator[tuple[int, Any]]:
    """The lines that have something, read, with their numbers."""
    with open(path, "rb") as file:
        for number, line in iterate_lines(file, _LINE):
            if having not in line:
                continue
            try:
                value = json.loads(line.decode("utf-8-sig"))
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
        why = f"{'no such thing' if isinstance(error, LookupError) else 'unsound'}: {error!s:.100}"
        raise StateError(f"{shown}:{number}: not what export writes ({why})") from None


def read_lines(path: str, shown: str) -> LedgerExport:
    """What a file holds that `write_lines` wrote; `shown` is its name in errors."""
    first: dict[str, Any] = next((line for _, line in _numbered(path, shown)), {})
    with _sound(shown, 1):
        if first.get("format") != _HEAD or first.get("version") != 1:
            raise StateError(f"{shown}:1: not what `streamnb export` of this version wrote")
        classifier = classifier_of(first)
        labels = [label_from_json(label) for label, _ in first["classes"]]
        weights = [float(weight) for _, weight in first["classes"]]
        if len(set(map(str, labels))) != len(labels) or not all(0 <= w < 1e100 for w in weights):
            raise ValueError("the classes are not sound")
        if first.get("ends"):
            _check_whole(path, shown)
    place = {str(label): k for k, label in enumerate(labels)}

    def names() -> Iterator[tuple[int, int, bytes]]:
        for number, line in _numbered(path, shown, b'"name"'):
            with _sound(shown, number):
                if isinstance(line.get("name"), str):
                    name = _read_name(line["name"])
                    view, fingerprint = int(line["view"]), int(line["fingerprint"], 16)
                    if not 0 <= view < len(classifier.models) or not 0 <= fingerprint < 1 << 64:
                        raise ValueError("no such feature")
                    yield view, fingerprint, name

    def rows() -> Iterator[Row]:
        for number, line in _numbered(path, shown, b'"digest"'):
            if "digest" in line:
                with _sound(shown, number):
                    row = _row_of(line, place, classifier.model)
                yield row

    if sum("digest" in line for _, line in _numbered(path, shown)):  # each line is one
        return LedgerExport(shown, classifier, labels, rows, names)
    tables = _tables(path, shown, place, len(classifier.models))
    return of_counts(shown, classifier, labels, weights, tables, names, digest_of_file(path))


def _check_whole(path: str, shown: str) -> None:
    """Raise StateError for a file without all its lines.

    One that was cut off between two lines would be taken for a smaller mailbox.
    """
    with open(path, "rb") as file:
        ((number, last),) = deque(iterate_lines(file, _LINE), 1)
    try:
        whole = json.loads(last) == {"lines": number - 1}
    except (ValueError, RecursionError):
        whole = False
    if not whole:
        raise StateError(
            f"{shown}:{number}: it is cut off, or lines were taken out or added; where that is "
            'meant, take "ends" out of its first line and its last line away'
        )


def _row_of(line: dict[str, Any], place: dict[str, int], model: TextModel) -> Row:
    tokens = line["tokens"]
    receipt = Receipt.from_json(line["receipt"])
    if receipt.class_weight < 0 or min(receipt.view_weights, default=-1.0) < 0:
        raise ValueError("a weight below zero")
    if not abs(float(line["time"])) < 1e12:
        raise ValueError("no such time")
    key = bytes.fromhex(line["digest"])
    if len(key) != 32:
        raise ValueError("no such message")
    predicted = line["predicted"]
    row = Row(
        id=0,
        digest=key,
        label=place[line["label"]],
        labelled_by=line["labelled_by"],
        source=str(line["source"]),
        time=float(line["time"]),
        added_at=0.0,
        removed_at=None,
        predicted=None if predicted is None else place.get(predicted),
        tokenizer=str(line["tokenizer"]),
        receipt=receipt,
        tokens=None if tokens is None else unpack_tokens(base64.b64decode(tokens, validate=True)),
    )
    check_row(row, model, len(place))
    return row


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
    if any(len(set(some)) != len(some) for some in keys):
        raise StateError(f"{shown}: a feature occurs twice")
    return [
        (np.array(mine, np.uint64), np.array(rows, np.float64).reshape(len(mine), len(place)))
        for mine, rows in zip(keys, cells, strict=True)
    ]
