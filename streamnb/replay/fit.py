"""Training of a classifier on corpora with several processes, without an evaluation."""

from __future__ import annotations

import itertools
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any

from streamnb.classifier import Classifier
from streamnb.config import Config
from streamnb.corpus import Entry, read
from streamnb.errors import ConfigError, CorpusError, StreamNBError
from streamnb.features.views import tokenizer_config
from streamnb.partial import LabelledRow, PartialCounts, assemble, check_sums, count, merge, spec_of
from streamnb.replay.build import make_classifier, make_tokenizer, prior_error
from streamnb.replay.examples import (
    labelled_entries,
    open_configured_corpus,
    select_entries,
    skip_or_stop,
    why_empty,
)
from streamnb.replay.workers import stream_features

_MIN_SHARD = 4000  # minimum number of messages that one process counts at a time

OnProgress = Callable[[int, int], None]


@dataclass
class FittedClassifier:
    """A trained classifier.

    Attributes
    ----------
    classifier
        The classifier.
    learned
        Number of messages learned.
    seconds
        Training time.
    skipped
        Errors of the messages that could not be read and were skipped.
    corpora
        The description of each corpus: its kind and columns.
    """

    classifier: Classifier
    learned: int = 0
    seconds: float = 0.0
    skipped: list[str] = field(default_factory=list)
    corpora: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as plain data for JSON."""
        return {
            "learned": self.learned,
            "classes": {str(y): n for y, n in self.classifier.messages().items()},
            "features": self.classifier.features,
            "seconds": self.seconds,
            "skipped": len(self.skipped),
            "corpora": self.corpora,
        }


def fit_corpora(
    config: Config, paths: list[str], on_progress: OnProgress | None = None
) -> FittedClassifier:
    """Train a classifier on all messages of some corpora.

    If a model's counts are sums, `config.jobs` processes count and the counts are merged. The
    result does not depend on the number of processes. Other models learn one message after the
    other, while the other processes read and tokenise.

    Parameters
    ----------
    config
        The configuration; `corpus.order` is the order of the messages of all corpora together.
    paths
        The corpora.
    on_progress
        Called with the number of messages learned and the number of all messages.

    Raises
    ------
    StreamNBError
        If there is an error in a corpus or in the configuration.
    """
    start = time.perf_counter()
    skipped: list[str] = []
    corpora = [
        open_configured_corpus(config.with_changes(corpus=config.corpus.with_changes(path=path)))
        for path in paths
    ]
    tokenizer = make_tokenizer(config, corpora[0])
    for path, corpus in zip(paths, corpora, strict=True):
        if tokenizer_config(make_tokenizer(config, corpus)) != tokenizer_config(tokenizer):
            raise ConfigError(
                f"{path}: its messages are of another kind (mail or text) than those of "
                f"{paths[0]}; choose one kind with --set tokenizer.kind=mail or --set "
                "tokenizer.kind=text"
            )
    labelled = labelled_entries(itertools.chain(*corpora), config, skipped)
    entries = [entry for entry in select_entries(labelled, config) if entry.learn]
    fitted = FittedClassifier(
        make_classifier(config, tokenizer),
        skipped=skipped,
        corpora=[corpus.description for corpus in corpora],
    )
    report = on_progress or (lambda learned, total: None)
    if config.jobs > 1 and len(entries) >= 2 * _MIN_SHARD and _is_sum(fitted.classifier):
        fitted.classifier = _fit_in_shards(config, entries, fitted, report)
    else:
        _fit_in_sequence(config, entries, fitted, report)
    if not fitted.learned:
        raise CorpusError(f"{paths[0]}: nothing to learn: {why_empty(config, skipped)}")
    error = prior_error(config, fitted.classifier.labels)
    if error is not None:
        raise error
    _check_positive(fitted.classifier)
    fitted.seconds = time.perf_counter() - start
    return fitted


def _check_positive(classifier: Classifier) -> None:
    """Raise ConfigError if no class is the positive one, which is "spam" by default."""
    labels = list(map(str, classifier.labels))
    if classifier.positive not in ("spam", *labels):
        raise ConfigError(
            f"model.positive: no message is of class {classifier.positive!r:.80}; there are "
            f"{', '.join(labels[:10])} (quote a label that looks like a number)"
        )


def _is_sum(classifier: Classifier) -> bool:
    try:
        check_sums(classifier)
    except ValueError:
        return False
    return True


def _fit_in_sequence(
    config: Config, entries: list[Entry], fitted: FittedClassifier, report: OnProgress
) -> None:
    model = fitted.classifier.model
    for entry, result in stream_features(entries, fitted.classifier.tokenizer, config.jobs):
        if isinstance(result, StreamNBError):
            skip_or_stop(config, str(result), fitted.skipped, entry.name)
            continue
        model.learn_one(result, entry.label)
        fitted.learned += 1
        report(fitted.learned, len(entries))


def _fit_in_shards(
    config: Config, entries: list[Entry], fitted: FittedClassifier, report: OnProgress
) -> Classifier:
    """Count shards of the messages in parallel and return the merged classifier."""
    spec = spec_of(fitted.classifier)
    size = max(_MIN_SHARD, -(-len(entries) // (4 * config.jobs)))
    shards = [(start, entries[start : start + size]) for start in range(0, len(entries), size)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(config.jobs, len(shards)), context, _ignore_sigint) as pool:
        futures = [pool.submit(_count_shard, spec, config, *shard) for shard in shards]

        def partial_counts() -> Iterator[PartialCounts]:
            for (_, shard_entries), future in zip(shards, futures, strict=True):
                counts, skipped = future.result()
                yield from counts
                fitted.skipped += skipped
                fitted.learned += len(shard_entries) - len(skipped)
                report(fitted.learned, len(entries))

        try:
            classifier: Classifier = assemble(spec, merge(spec, partial_counts()))
        except BrokenProcessPool:
            raise StreamNBError(
                "a counting process ended unexpectedly; try again with --jobs 1"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return classifier


def _ignore_sigint() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the main process


def _count_shard(
    spec: str, config: Config, start: int, entries: list[Entry]
) -> tuple[list[PartialCounts], list[str]]:
    """Return the counts of a shard, and the errors of the messages that were skipped."""
    skipped: list[str] = []

    def rows() -> Iterator[LabelledRow]:
        for position, entry in enumerate(entries, start):
            try:
                message = read(entry)
            except StreamNBError as error:
                skip_or_stop(config, str(error), skipped, entry.name)
                continue
            yield LabelledRow(position, entry.label, message)

    return list(count(spec, rows())), skipped
