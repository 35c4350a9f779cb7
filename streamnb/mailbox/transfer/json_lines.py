"""A mailbox as sorted JSON lines: equal mailboxes give equal bytes.

The first line is the classifier. A line for each feature has its counts, for people to read. A line
for each message has its receipt and features, which an import sums. The last line has the number of
lines before it.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import numpy as np

from streamnb import _core
from streamnb.corpus.entry import iterate_lines
from streamnb.errors import StateError
from streamnb.mailbox.ledger import Row, check_row, pack_tokens, unpack_tokens
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.stored_classifier import classifier_of
from streamnb.mailbox.transfer.ledger_export import LedgerExport
from streamnb.mailbox.verdict_log import LIMITS, LogLimits
from streamnb.naive_bayes.receipt import Receipt
from streamnb.naive_bayes.text_model import TextModel
from streamnb.storage import label_from_json, label_to_json

Item = TypeVar("Item")

_HEAD = "streamnb mailbox"
_MAX_LINE = 1 << 28  # bytes of a line: a row of an import can have the counts of a whole model


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def write_lines(mailbox: Mailbox) -> Iterator[bytes]:
    """Yield all lines."""
    labels = [str(label) for label in mailbox.labels]
    weights = mailbox.counts[0].weights
    active = [k for k in sorted(range(len(labels)), key=labels.__getitem__) if weights[k] > 0]
    head: dict[str, Any] = {
        "format": _HEAD,
        "ends": True,  # the last line has the number of lines
        "version": 1,
        "model": mailbox.classifier.model.reordered_header(active),
        "settings": mailbox.classifier.settings(),
        "classes": [[label_to_json(mailbox.labels[k]), weights[k]] for k in active],
    }
    if (limits := mailbox.database.read_value(LIMITS)) is not None:
        head["verdict_limits"] = limits
    yield _json(head)
    lines = 1
    for view, counts in enumerate(mailbox.counts):
        fingerprints, cells, _, names = counts.rows()
        ends = [0, *cells.ends.tolist()]
        for i in np.argsort(fingerprints).tolist():
            part = slice(ends[i], ends[i + 1])
            entries = zip(cells.classes[part].tolist(), cells.counts[part].tolist(), strict=True)
            class_counts = {labels[k]: count for k, count in entries if weights[k] > 0}
            line: dict[str, Any] = {"view": view, "counts": class_counts}
            line["fingerprint"] = f"{int(fingerprints[i]):016x}"
            if names[i] is not None:
                line["name"] = _format_name(names[i])
            yield _json(line)
        lines += len(fingerprints)
    for number in mailbox.ledger.numbers("removed_at IS NULL", order="digest"):
        row = mailbox.ledger.row(number)
        yield _json(_row_line(row, mailbox.classifier.model, labels, active))
        lines += 1
    yield _json({"lines": lines})


def _format_name(name: Any) -> str:
    """Return a feature's name as text, or as NUL and hexadecimal digits if it is not text."""
    decoded = _core.decode_name(name)
    # A long name can be cut within a character.
    is_text = isinstance(decoded, str) and _core.encode_name(decoded) == name
    is_text = is_text and not decoded.startswith("\0")
    return decoded if is_text else f"\0{name.hex()}"


def _read_name(text: str) -> bytes:
    """Return the name that `_format_name` formatted."""
    return bytes.fromhex(text[1:]) if text.startswith("\0") else _core.encode_name(text)


def _row_line(row: Row, model: TextModel, labels: list[str], active: list[int]) -> dict[str, Any]:
    """Return the line of a row of the ledger."""
    # Class indices in the order of labels, which does not depend on the order of learning.
    receipt = model.remap_classes(row.receipt, active)
    tokens = None
    if row.tokens is not None:  # sorted, so the result does not depend on places in this database
        views = [view.select(np.argsort(view.fingerprints)) for view in row.tokens]
        tokens = base64.b64encode(pack_tokens(views)).decode()
    return {
        "digest": row.digest.hex(),
        "label": labels[row.label],
        "labelled_by": row.labelled_by,
        "source": row.source,
        "time": row.time,
        "predicted": labels[row.predicted] if row.predicted in active else None,
        "tokenizer": row.tokenizer,
        "receipt": receipt.to_json(),
        "tokens": tokens,
    }


def _enumerate_objects(path: str, name: str) -> Iterator[tuple[int, Any]]:
    """Yield number and object of each line."""
    with open(path, "rb") as file:
        for number, line in iterate_lines(file, _MAX_LINE):
            try:
                value = json.loads(line.decode("utf-8-sig"))
                if not isinstance(value, dict):
                    raise ValueError("not an object")
            except (ValueError, RecursionError) as error:
                raise StateError(
                    f"{name}:{number}: not a line of streamnb export ({error!s:.100})"
                ) from None
            yield number, value


def _convert_lines(
    path: str, name: str, key: str, convert: Callable[[dict[str, Any]], Item]
) -> Iterator[Item]:
    """Yield the result of `convert` for each line with a key. Errors name the line."""
    for number, line in _enumerate_objects(path, name):
        if key in line:
            with _convert_line_errors(name, number):
                item = convert(line)
            yield item


@contextlib.contextmanager
def _convert_line_errors(name: str, number: int) -> Iterator[None]:
    """Re-raise errors as StateError that names the line."""
    try:
        yield
    except StateError:
        raise
    except Exception as error:
        reason = "unknown name" if isinstance(error, LookupError) else "inconsistent"
        raise StateError(
            f"{name}:{number}: not a line of streamnb export ({reason}: {error!s:.100})"
        ) from None


def read_lines(path: str, name: str) -> LedgerExport:
    """Return the export that `write_lines` wrote. `name` is the file's name in errors."""
    header: dict[str, Any] = next((line for _, line in _enumerate_objects(path, name)), {})
    with _convert_line_errors(name, 1):
        if header.get("format") != _HEAD or header.get("version") != 1:
            raise StateError(
                f"{name}:1: not an export of this version of streamnb: expected the first line "
                "that `streamnb export` writes"
            )
        classifier = classifier_of(header)
        labels = [label_from_json(label) for label, _ in header["classes"]]
        if len(set(map(str, labels))) != len(labels):
            raise ValueError("a class occurs twice")
        limits = None
        if "verdict_limits" in header:
            limits = LogLimits(**header["verdict_limits"])
            limits.check()
        if header.get("ends"):
            _check_whole(path, name)
    label_index = {str(label): k for k, label in enumerate(labels)}

    views = len(classifier.models)

    def feature_name(line: dict[str, Any]) -> tuple[int, int, bytes]:
        return *_feature_of(line, views), _read_name(line["name"])

    def names() -> Iterator[tuple[int, int, bytes]]:
        return _convert_lines(path, name, "name", feature_name)

    def rows() -> Iterator[Row]:
        row_of_line = partial(_row_of, label_index=label_index, model=classifier.model)
        is_empty = True
        for row in _convert_lines(path, name, "digest", row_of_line):
            is_empty = False
            yield row
        if is_empty and any(weight for _, weight in header["classes"]):
            raise StateError(
                f"{name}: it has the counts of messages, but not the messages; import a model file "
                "(`streamnb export --format model`)"
            )

    return LedgerExport(name, classifier, labels, rows, names, limits)


def _check_whole(path: str, name: str) -> None:
    """Raise StateError unless the last line has the number of lines.

    A file that is truncated between two lines would be read as a smaller mailbox.
    """
    with open(path, "rb") as file:
        ((number, last),) = deque(iterate_lines(file, _MAX_LINE), 1)
    try:
        is_whole = json.loads(last) == {"lines": number - 1}
    except (ValueError, RecursionError):
        is_whole = False
    if not is_whole:
        raise StateError(
            f"{name}:{number}: the file is truncated or was edited (its last line does not "
            "have the number of lines); use another backup. To import the other lines, delete the "
            'last line, and "ends" in the first line'
        )


def _feature_of(line: dict[str, Any], views: int) -> tuple[int, int]:
    """Return view and fingerprint of a line. Raise ValueError if they are not valid."""
    view, fingerprint = int(line["view"]), int(line["fingerprint"], 16)
    if not 0 <= view < views or not 0 <= fingerprint < 1 << 64:
        raise ValueError("view or fingerprint is out of range")
    return view, fingerprint


def _row_of(line: dict[str, Any], label_index: dict[str, int], model: TextModel) -> Row:
    """Return the row of the ledger that a line describes."""
    tokens = line["tokens"]
    receipt = Receipt.from_json(line["receipt"])
    if receipt.class_weight < 0 or min(receipt.view_weights, default=-1.0) < 0:
        raise ValueError("a weight is below zero")
    if not abs(float(line["time"])) < 1e12:
        raise ValueError("the time is not valid")
    digest = bytes.fromhex(line["digest"])
    if len(digest) != 32:
        raise ValueError("the digest does not have 32 bytes")
    predicted = line["predicted"]
    row = Row(
        id=0,
        digest=digest,
        label=label_index[line["label"]],
        labelled_by=line["labelled_by"],
        source=str(line["source"]),
        time=float(line["time"]),
        added_at=0.0,
        removed_at=None,
        predicted=None if predicted is None else label_index.get(predicted),
        tokenizer=str(line["tokenizer"]),
        receipt=receipt,
        tokens=None if tokens is None else unpack_tokens(base64.b64decode(tokens, validate=True)),
    )
    check_row(row, model, len(label_index))
    return row
