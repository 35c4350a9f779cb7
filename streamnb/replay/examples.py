"""The labelled messages of a corpus, the handling of unreadable ones, and Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from streamnb.config import Config
from streamnb.corpus import Corpus, Entry, open_corpus, order_entries
from streamnb.corpus.entry import message_envelope
from streamnb.data_format import DataFormat
from streamnb.errors import ConfigError, CorpusError, StreamNBError
from streamnb.evaluate import Example
from streamnb.features.views import Views
from streamnb.features.words import ScanningTransformer
from streamnb.replay.workers import stream_features


class Interruption:
    """Handler of Ctrl-C: the first ends the stream after a message, the second the program.

    It raises no exception, because that could happen between recording a message and writing its
    results.
    """

    def __init__(self, should_stop: Callable[[], bool]) -> None:
        self.requested: bool = False
        self._should_stop = should_stop
        self._previous_handler: Any = None

    def __enter__(self) -> Interruption:
        is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as with nohup
        if threading.current_thread() is threading.main_thread() and not is_ignored:
            self._previous_handler = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._previous_handler is not None:
            signal.signal(signal.SIGINT, self._previous_handler)

    def _on_signal(self, number: int, frame: object) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def until_interrupted(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the items until Ctrl-C, or until `should_stop` returns True."""
        for item in items:
            if self._should_stop():
                self.requested = True
            if self.requested:
                return
            yield item


def open_configured_corpus(config: Config, learned: DataFormat | None = None) -> Corpus:
    """Open the corpus that a configuration names. `learned` is as for `open_corpus`."""
    section = config.corpus
    if section.path is None:
        raise ConfigError("corpus.path: missing; name the corpus to replay")
    return open_corpus(
        section.path,
        section.kind,
        section.label_header,
        section.label_column,
        section.text_column,
        section.delimiter,
        section.header,
        learned,
        section.date_column,
    )


def labelled_entries(
    entries: Iterable[Entry], config: Config, skipped: list[str]
) -> Iterator[Entry]:
    """Yield the entries with a label. An entry without one stops the replay or is skipped."""
    for entry in entries:
        if entry.label and entry.label != "?":
            yield entry
            continue
        header = config.corpus.label_header
        reason = f"has no {f'field {header}' if header else 'label'}"
        if entry.label:
            reason = "has the label '?', which means no prediction in results; rename the label"
        error = entry.problem or f"{entry.path}: message {entry.name} {reason}"
        skip_or_stop(config, error, skipped)


def select_entries(entries: Iterable[Entry], config: Config) -> Iterator[Entry]:
    """Return the entries that `corpus.order`, `skip` and `limit` choose. None: the stored order."""
    section = config.corpus
    return order_entries(entries, section.order or "indexed", section.limit, section.skip)


def count_selected(corpus: Corpus, config: Config) -> int | None:
    """Return the maximum number of messages that `select_entries` returns; None if unknown."""
    section = config.corpus
    if corpus.size is None:
        return section.limit
    size = max(corpus.size - section.skip, 0)
    return size if section.limit is None else min(size, section.limit)


def why_empty(config: Config, skipped: list[str]) -> str:
    """Return the reason why no message of a corpus was used."""
    if skipped:
        return "every message failed"
    skip = config.corpus.skip
    return (
        f"corpus.skip leaves out the first {skip:,} messages" if skip else "there are no messages"
    )


def skip_or_stop(config: Config, error: str, skipped: list[str], name: str = "") -> None:
    """Add the error of a message to `skipped`; raise it if `corpus.on_error` is "stop"."""
    if config.corpus.on_error == "stop":
        message = f"message {name}; " if name else ""
        raise CorpusError(f"{error} ({message}use --on-error skip to leave out such messages)")
    skipped.append(error)


def iterate_examples(
    corpus: Corpus,
    config: Config,
    tokenizer: ScanningTransformer | Views,
    skipped: list[str],
    interruption: Interruption,
    with_envelope: bool = False,
) -> Iterator[Example]:
    """Yield an `Example` for each selected message, until the interruption.

    `skip_or_stop` gets the error of each message that fails. With `with_envelope`, each example has
    its date and recipients.
    """
    # Workers read ahead, so each error of the corpus waits until the messages before it are used.
    label_errors: list[str] = []
    errors_before: deque[list[str]] = deque()  # for each selected entry
    failures: list[StreamNBError] = []

    def read_entries() -> Iterator[Entry]:
        try:
            for entry in select_entries(labelled_entries(corpus, config, label_errors), config):
                errors_before.append(label_errors.copy())
                label_errors.clear()
                yield entry
        except StreamNBError as error:
            failures.append(error)

    features = stream_features(read_entries(), tokenizer, config.jobs)
    for entry, result in interruption.until_interrupted(features):
        skipped += errors_before.popleft()
        if isinstance(result, StreamNBError):
            skip_or_stop(config, str(result), skipped, entry.name)
            continue
        example = Example(result, entry.label, entry.name, entry.classify, entry.learn)
        if with_envelope:
            date, recipients = message_envelope(entry)
            example = example._replace(date=date, recipients=recipients)
        yield example
    if not interruption.requested:
        skipped += label_errors
        if failures:
            raise failures[0]
