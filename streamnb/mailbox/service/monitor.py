"""The log and the metrics of a server's messages."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from streamnb.errors import BusyError, StreamNBError, printable
from streamnb.locks import ForkSafeLock
from streamnb.mailbox.message_id import message_id
from streamnb.mailbox.service.line_writer import LineWriter
from streamnb.mailbox.service.mailboxes import NoCommonVerdictError, NoMailboxError
from streamnb.mailbox.service.response import Response
from streamnb.patterns import lazy_pattern

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

_REPEAT_S = 60.0  # seconds before a warning of the same kind is repeated
_MAX_KINDS = 1000  # maximum number of kinds of warnings, because clients choose some of the words
_LONGEST_REASONS = 300  # characters of the reasons in a line
_PLAIN = lazy_pattern(r"[^\s\"=\\]+")
SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2, 10)  # bounds of the histograms' buckets

# Causes of missing verdicts in the metrics; "error" for all others.
_CAUSES = (
    (NoMailboxError, "no_database"),
    (NoCommonVerdictError, "recipients"),
    (BusyError, "busy"),
    (StreamNBError, "database"),
)

_notices = logging.getLogger("streamnb.serve")
_messages = logging.getLogger("streamnb.mail")


class _LogHandler(logging.Handler):
    """Writes records to standard error without waiting for its reader.

    With the format "json", every record is one object. Otherwise a line begins with the time,
    unless journald adds it or the line is about the start of the server.
    """

    def __init__(self, log_format: str | None) -> None:
        super().__init__()
        self._is_json = log_format == "json"
        self.writer = LineWriter(sys.stderr, self._format_notice)

    def emit(self, record: logging.LogRecord) -> None:
        self.writer.write(self.format(record))

    def format(self, record: logging.LogRecord) -> str:
        line = record.getMessage()
        is_message = record.name == _messages.name
        if self._is_json and not is_message:
            fields = {"time": _time(record.created), "level": record.levelname.lower()}
            line = json.dumps(fields | {"message": line})
        elif not self._is_json and (is_message or record.levelno > logging.INFO):
            line = line if os.environ.get("JOURNAL_STREAM") else f"{_time(record.created)} {line}"
        return line

    def _format_notice(self, text: str) -> str:
        record = logging.makeLogRecord({"msg": text, "levelno": 30, "levelname": "WARNING"})
        return self.format(record)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="milliseconds")


def configure_logging(log_format: str | None) -> LineWriter:
    """Write the log of this process to standard error, and return the writer to close."""
    handler = _LogHandler(log_format)
    for name, level in (("streamnb", logging.INFO), ("asyncio", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level)
        logger.propagate = False
    return handler.writer


def announce(line: str) -> None:
    """Log a line about the start of the server."""
    _notices.info("%s", printable(line))


@dataclass(eq=False)
class _Metric:
    """A metric of prometheus_client, and its values by the values of its labels.

    prometheus_client is imported when the metrics are read. At the start, mail would wait for it.
    """

    kind: str  # Counter, Gauge or Histogram
    name: str
    text: str
    labels: Sequence[str] = ()
    values: dict[tuple[str, ...], Any] = field(default_factory=dict)
    lock: ForkSafeLock = field(default_factory=ForkSafeLock)

    def add(self, *labels: str, amount: int = 1) -> None:
        """Add an amount to the value of these labels."""
        with self.lock:
            self.values[labels] = self.values.get(labels, 0) + amount

    def read(self) -> Metric:
        """Return the metric with its present values. A value can be a function."""
        from prometheus_client import core

        make_family = getattr(core, f"{self.kind}MetricFamily")
        family: Metric = make_family(self.name, self.text, labels=self.labels)
        with self.lock:
            values = dict(self.values)
        for labels, value in values.items():
            self._read_value(family, labels, value)
        return family

    def _read_value(self, family: Any, labels: tuple[str, ...], value: Any) -> None:
        family.add_metric(labels, value() if callable(value) else value)


class _Histogram(_Metric):
    """A histogram; the value of labels is the number of observations by bucket, and their sum."""

    def observe(self, *labels: str, seconds: float) -> None:
        """Count an observation."""
        with self.lock:
            counts, total = self.values.get(labels, ((0,) * (len(SECONDS) + 1), 0.0))
            bucket = bisect_left(SECONDS, seconds)
            counts = (*counts[:bucket], counts[bucket] + 1, *counts[bucket + 1 :])
            self.values[labels] = counts, total + seconds

    def _read_value(self, family: Any, labels: tuple[str, ...], value: Any) -> None:
        counts, total = value
        bounds = [*map(str, map(float, SECONDS)), "+Inf"]
        family.add_metric(labels, list(zip(bounds, accumulate(counts), strict=True)), total)


class Monitor:
    """Logs and counts the messages, refusals and connections of a server.

    Parameters
    ----------
    log_format
        Format of the line for each message: "text" for key=value pairs, "json" for JSON, None for
        no line. Warnings are always logged.
    """

    def __init__(self, log_format: str | None = None) -> None:
        self.log_format = log_format
        self._last_warned: dict[str, float] = {}  # by kind of warning, in monotonic seconds
        self.not_accepting: list[str] = []  # listeners that let connections wait
        self._judged = _Metric(
            "Counter",
            "streamnb_messages",
            "Messages with a verdict, by class and by whether the verdict was sure.",
            ("listener", "class", "sure"),
        )
        causes = "listener", "cause"
        self._unmarked = _Metric(
            "Counter", "streamnb_unmarked", "Messages without a verdict.", causes
        )
        self._refused = _Metric(
            "Counter", "streamnb_refusals", "Messages and connections refused.", causes
        )
        self._labels = _Metric(
            "Counter",
            "streamnb_labels",
            "Labels that messages were given through the server, by class and result.",
            ("listener", "class", "result"),
        )
        self._seconds = _Histogram(
            "Histogram",
            "streamnb_message_seconds",
            "Seconds from the end of a message to its answer.",
            ("listener",),
        )
        self._open = _Metric("Gauge", "streamnb_connections", "Open connections.", ("listener",))
        self._accepting = _Metric(
            "Gauge",
            "streamnb_accepting",
            "0 if connections wait and none is accepted.",
            ("listener",),
        )
        self._stale = _Metric(
            "Gauge",
            "streamnb_stale_files",
            "1 if a changed file is damaged, so its earlier content is used.",
            ("file",),
        )
        self._databases = _Metric("Gauge", "streamnb_databases", "Open databases.")
        self._faulty = _Metric(
            "Gauge",
            "streamnb_database_fault",
            "1 while a database is damaged, or the only one cannot be reached.",
        )

    @cached_property
    def registry(self) -> CollectorRegistry:
        """Return the registry that exports the metrics."""
        from prometheus_client import CollectorRegistry

        registry = CollectorRegistry()
        registry.register(self)
        return registry

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, as a collector of prometheus_client does."""
        return (metric.read() for metric in vars(self).values() if isinstance(metric, _Metric))

    def watch_databases(self, count: Callable[[], float], is_faulty: Callable[[], bool]) -> None:
        """Register the gauges of databases: their number, and whether one has a fault."""
        self._databases.values[()] = count
        self._faulty.values[()] = is_faulty

    def watch_file(self, name: str, is_stale: Callable[[], bool]) -> None:
        """Add a file to the metric `streamnb_stale_files`: 1 while `is_stale` returns True."""
        self._stale.values[name,] = is_stale

    def warn(self, kind: str, detail: object = "") -> None:
        """Log a warning; one of the same kind at most once a minute."""
        now = time.monotonic()
        if now - self._last_warned.get(kind, -_REPEAT_S) >= _REPEAT_S:
            if len(self._last_warned) >= _MAX_KINDS:
                self._last_warned.clear()
            self._last_warned[kind] = now
            _notices.warning("%s", printable(f"{kind}: {detail!s:.300}" if detail else kind))

    def message(
        self,
        listener: str,
        result: Response | Exception,
        action: str,
        started: float,
        message: bytes,
        recipient: str | None = None,
        queue_id: str = "",
        user: str | None = None,
        reply: str | None = None,
    ) -> None:
        """Log and count a message with its verdict or error.

        Parameters
        ----------
        listener
            Name of the listener that received the message.
        result
            The verdict, or the error that prevented it.
        action
            The action on the message: "marked", "unmarked", "rejected", "refused", "deferred",
            "answered" or "failed".
        started
            Time at which the message was completely received, by `time.monotonic()`.
        message
            The beginning of the message, with its Message-ID.
        recipient
            Address of the recipient, or the user. None if unknown.
        queue_id
            Queue id of the mail server, if known.
        user
            The user whose database gave the verdict, or several users, with commas. None for a
            single database.
        reply
            The next hop's reply, if it refused or deferred the message.
        """
        seconds = time.monotonic() - started
        self._seconds.observe(listener, seconds=seconds)
        if isinstance(result, Response):
            sure = "no" if result.status == 2 else "yes"
            self._judged.add(listener, result.label or "", sure)
        else:
            self._unmarked.add(listener, _cause(result))
        if self.log_format is None:
            if not isinstance(result, Response):  # otherwise the line below has the error
                effect = "passed on unmarked" if action == "unmarked" else f"{action}, no verdict"
                self.warn(f"{listener}: {effect}: {str(result) or type(result).__name__:.300}")
            return
        fields: dict[str, Any] = {
            "listener": listener,
            "queue_id": queue_id or None,
            "message_id": message_id(message),
            "recipient": recipient,
            "user": user,
        }
        if isinstance(result, Response):
            fields |= {
                "class": result.label or "",
                "probability": round(result.probability, 4),
                "score": round(result.score, 4),
                "ready": result.ready,
                "sure": result.status != 2,
            }
            if result.reasons and action == "rejected":
                pairs = (
                    f"{name} {log_odds:+.1f}"
                    for name, log_odds in result.reasons
                    if log_odds > 0  # evidence for spam
                )
                fields["reasons"] = ", ".join(pairs)[:_LONGEST_REASONS]
        else:
            fields["error"] = str(result)[:200] or type(result).__name__
        self._log_fields(**fields, reply=reply, action=action, ms=round(seconds * 1000, 1))

    def learned(
        self, listener: str, label: str, result: str, message: bytes, user: str | None = None
    ) -> None:
        """Log and count a label from a program or from the server itself.

        Parameters
        ----------
        listener
            Name of the listener that received the label.
        label
            The class; "" if the message was unlearned.
        result
            The result, as in `Outcome`.
        message
            The message; empty if only its digest is known.
        user
            The user whose database learned it. None for a single database.
        """
        self._labels.add(listener, label, result)
        if self.log_format is None:
            return
        self._log_fields(
            listener=listener, message_id=message_id(message), user=user, label=label, action=result
        )

    def show_accepting(self, listeners: dict[str, bool]) -> None:
        """Export which listeners accept connections."""
        for name, accepts in listeners.items():
            self._accepting.values[name,] = int(accepts)
            if not accepts:
                self.warn(f"{name}: connections wait, and none is accepted")
        self.not_accepting = [name for name, accepts in listeners.items() if not accepts]

    def _log_fields(self, **fields: Any) -> None:
        """Log a line with all fields that are not None."""
        present = {name: value for name, value in fields.items() if value is not None}
        if self.log_format == "json":
            line = json.dumps({"time": _time(time.time()), **present})
        else:
            line = " ".join(f"{name}={_value(value)}" for name, value in present.items())
        _messages.info("%s", line)

    def refuse(self, listener: str, cause: str, detail: str = "", **fields: str | None) -> None:
        """Count a refused message or connection; warn if there is a detail, log any fields."""
        self._refused.add(listener, cause)
        if detail:
            self.warn(f"refused ({listener}, {cause})", detail)
        if fields and self.log_format is not None:
            self._log_fields(listener=listener, **fields)

    def opened(self, listener: str) -> None:
        """Count a connection that was opened."""
        self._open.add(listener)

    def closed(self, listener: str) -> None:
        """Count a connection that was closed."""
        self._open.add(listener, amount=-1)


def _cause(error: Exception) -> str:
    return next((cause for kind, cause in _CAUSES if isinstance(error, kind)), "error")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = printable(str(value)).encode("utf-8", "replace").decode()
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
