"""Teaching a classifier whole corpora: no figures, all processors."""

from __future__ import annotations

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
from streamnb.corpus import Corpus, Entry, order_entries, read
from streamnb.errors import ConfigError, CorpusError, StreamNBError
from streamnb.features.views import tokenizer_config
from streamnb.partial import Piece, Row, assembled, check_sums, count, merge, plan_of
from streamnb.replay.build import make_classifier, make_tokenizer, missing_prior
from streamnb.replay.run import labelled, open_of, skip
from streamnb.replay.workers import feed

_SHARE = 4000  # messages that one process counts at a time, at least

OnLearned = Callable[[int, int], None]


@dataclass
class Fitted:
    """A classifier that was taught.

    Attributes
    ----------
    classifier
        It.
    learned
        Messages learned.
    seconds
        That it took.
    skipped
        Messages that could not be read, where that does not stop.
    """

    classifier: Classifier
    learned: int = 0
    seconds: float = 0.0
    skipped: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The figures, as JSON can hold them."""
        return {
            "learned": self.learned,
            "classes": {str(y): n for y, n in self.classifier.messages().items()},
            "features": self.classifier.features,
            "seconds": self.seconds,
            "skipped": len(self.skipped),
        }


def fit(config: Config, paths: list[str], on_learned: OnLearned | None = None) -> Fitted:
    """Teach a classifier all messages of some corpora.

    Models that are sums are counted by `config.jobs` processes, each a share of the messages, and
    added up: the same model, whoever counted. Others learn one message after the other, which the
    other processes read and tokenise.

    Parameters
    ----------
    config
        What to make; its `corpus.order` is that of all the messages together.
    paths
        The corpora.
    on_learned
        Called with how many messages are learned, and how many there are.

    Raises
    ------
    StreamNBError
        Where corpus or configuration are at fault.
    """
    began = time.perf_counter()
    skipped: list[str] = []
    corpora = [open_of(_at(config, path)) for path in paths]
    tokenizer = make_tokenizer(config, corpora[0])
    for path, corpus in zip(paths, corpora, strict=True):
        if tokenizer_config(make_tokenizer(config, corpus)) != tokenizer_config(tokenizer):
            raise ConfigError(
                f"{path}: its messages are of another kind than those of {paths[0]}; say by "
                "--set tokenizer.kind=mail or text what they are"
            )
    classifier = make_classifier(config, tokenizer)
    entries = [
        entry
        for entry in order_entries(
            _all(config, paths, corpora, skipped), config.corpus.order, config.corpus.limit
        )
        if entry.learn
    ]
    found = Fitted(classifier, skipped=skipped)
    tell = on_learned or (lambda done, of: None)
    try:
        check_sums(classifier)
        alone = config.jobs == 1 or len(entries) < 2 * _SHARE
    except ValueError:
        alone = True
    if alone:
        _in_sequence(config, entries, found, tell)
    else:
        found.classifier = _in_shares(config, entries, found, tell)
    if not found.learned:
        what = "every message failed" if skipped else "there are no messages"
        raise CorpusError(f"{paths[0]}: nothing to learn: {what}")
    wrong = missing_prior(config, found.classifier.labels)
    if wrong is not None:
        raise wrong
    found.seconds = time.perf_counter() - began
    return found


def _at(config: Config, path: str) -> Config:
    return config.with_changes(corpus=config.corpus.with_changes(path=path))


def _all(
    config: Config, paths: list[str], corpora: list[Corpus], skipped: list[str]
) -> Iterator[Entry]:
    for path, corpus in zip(paths, corpora, strict=True):
        yield from labelled(corpus, _at(config, path), skipped)


def _in_sequence(config: Config, entries: list[Entry], found: Fitted, tell: OnLearned) -> None:
    model = found.classifier.model
    for entry, result in feed(entries, found.classifier.tokenizer, config.jobs):
        if isinstance(result, StreamNBError):
            skip(config, str(result), found.skipped, entry.name)
            continue
        model.learn_one(result, entry.label)
        found.learned += 1
        tell(found.learned, len(entries))


def _in_shares(config: Config, entries: list[Entry], found: Fitted, tell: OnLearned) -> Classifier:
    """Let processes count a share of the messages each, and add up what they counted."""
    plan = plan_of(found.classifier)
    share = max(_SHARE, -(-len(entries) // (4 * config.jobs)))
    shares = [(at, entries[at : at + share]) for at in range(0, len(entries), share)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(config.jobs, len(shares)), context, _deaf) as crew:
        waiting = [crew.submit(_counted, plan, config, *one) for one in shares]

        def pieces() -> Iterator[Piece]:
            for (_, mine), future in zip(shares, waiting, strict=True):
                counted, skipped = future.result()
                yield from counted
                found.skipped += skipped
                found.learned += len(mine) - len(skipped)
                tell(found.learned, len(entries))

        try:
            model: Classifier = assembled(plan, merge(plan, pieces()))
        except BrokenProcessPool:
            raise StreamNBError(
                "a counting process ended unexpectedly; try again with --jobs 1"
            ) from None
        finally:
            crew.shutdown(wait=False, cancel_futures=True)
    return model


def _deaf() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process decides when to end


def _counted(
    plan: str, config: Config, start: int, entries: list[Entry]
) -> tuple[list[Piece], list[str]]:
    """Count a share of the messages; those that cannot be read come as their errors."""
    skipped: list[str] = []

    def rows() -> Iterator[Row]:
        for place, entry in enumerate(entries, start):
            try:
                message = read(entry)
            except StreamNBError as error:
                skip(config, str(error), skipped, entry.name)
                continue
            yield Row(place, entry.label, message)

    return list(count(plan, rows())), skipped
