"""Training of a classifier on corpora with several processes, without an evaluation."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from streamnb.classifier import Classifier
from streamnb.config import Config
from streamnb.corpus import order_entries
from streamnb.errors import ConfigError, CorpusError, StreamNBError, check_paths_differ
from streamnb.features.views import tokenizer_config
from streamnb.replay.build import class_error, make_classifier, make_tokenizer
from streamnb.replay.examples import (
    labelled_entries,
    open_configured_corpus,
    select_entries,
    skip_or_stop,
    why_empty,
)
from streamnb.replay.workers import stream_features

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
    notices
        What looks wrong in the corpora.
    """

    classifier: Classifier
    learned: int = 0
    seconds: float = 0.0
    skipped: list[str] = field(default_factory=list)
    corpora: list[str] = field(default_factory=list)
    notices: tuple[str, ...] = ()

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

    `config.jobs` processes read and tokenise, and this one learns one message after the other. So
    the result does not depend on the number of processes.

    Parameters
    ----------
    config
        The configuration. `corpus.order` is the order of the messages of all corpora together.
        None: `skip` and `limit` count in the stored order, and the selection is learned shuffled.
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
    check_paths_differ(paths, "messages")
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
    selected = select_entries(labelled, config)
    if config.corpus.order is None:
        selected = order_entries(selected, "shuffled")
    entries = [entry for entry in selected if entry.learn]
    fitted = FittedClassifier(
        make_classifier(config, tokenizer),
        skipped=skipped,
        corpora=[corpus.description for corpus in corpora],
        notices=tuple(notice for corpus in corpora for notice in corpus.notices),
    )
    fitted.classifier.data_format = corpora[0].data_format
    model = fitted.classifier.model
    for entry, result in stream_features(entries, fitted.classifier.tokenizer, config.jobs):
        if isinstance(result, StreamNBError):
            skip_or_stop(config, str(result), skipped, entry.name)
            continue
        model.learn_one(result, entry.label)
        fitted.learned += 1
        if on_progress is not None:
            on_progress(fitted.learned, len(entries))
    if not fitted.learned:
        raise CorpusError(f"{paths[0]}: nothing to learn: {why_empty(config, skipped)}")
    error = class_error(config, fitted.classifier.labels)
    if error is not None:
        raise error
    fitted.seconds = time.perf_counter() - start
    return fitted
