"""The replay of a corpus: where configuration, corpus, tokenizer, model and evaluation meet."""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from streamnb.classifier import Classifier
from streamnb.classifier.verdict import feature_name
from streamnb.config import Config
from streamnb.config.schema import NoisyConfig
from streamnb.corpus import Corpus, open_corpus, order_entries
from streamnb.corpus.entry import Entry
from streamnb.corpus.headers import message_envelope
from streamnb.errors import ConfigError, CorpusError, StreamNBError
from streamnb.evaluate import Example, ResultFiles, Step, Summary, Tally
from streamnb.replay.build import (
    complete,
    make_classifier,
    make_course,
    make_tokenizer,
    missing_prior,
    wants_envelope,
    what_is_learned,
)
from streamnb.replay.workers import feed


@dataclass
class Report:
    """What a replay found.

    Attributes
    ----------
    config
        What was replayed, complete.
    corpus
        What was recognised.
    summary
        The figures.
    features
        How many features the model has.
    seconds
        From the first message to the last.
    peak_memory_bytes
        Of this process; those that only read and tokenise have their own.
    skipped
        Messages that could not be read, where that does not stop the replay.
    learned
        Messages learned.
    interrupted
        Whether it was stopped before the end.
    trouble
        Why the figures mean nothing.
    left
        What lay there and was not replaced, because the replay was interrupted.
    """

    config: Config
    corpus: str
    summary: Summary = field(default_factory=lambda: Summary(0))
    features: int = 0
    seconds: float = 0.0
    peak_memory_bytes: int = 0
    skipped: list[str] = field(default_factory=list)
    learned: int = 0
    interrupted: bool = False
    trouble: StreamNBError | None = None
    left: list[str] = field(default_factory=list)

    @property
    def messages_per_second(self) -> float:
        """Messages classified or learned a second."""
        return max(self.summary.messages, self.learned) / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Everything but the configuration, as JSON can hold it."""
        return {
            **self.summary.as_dict(),
            "corpus": self.corpus,
            "features": self.features,
            "learned": self.learned,
            "seconds": self.seconds,
            "messages_per_second": self.messages_per_second,
            "peak_memory_bytes": self.peak_memory_bytes,
            "skipped": len(self.skipped),
            "interrupted": self.interrupted,
            "trouble": None if self.trouble is None else str(self.trouble),
        }


OnStep = Callable[[Tally, int | None], None]


def replay(config: Config, on_step: OnStep | None = None) -> Report:
    """Replay a corpus: classify each message, record, learn.

    Parameters
    ----------
    config
        What to do. Results are written where `output.folder` says.
    on_step
        Called after each message that is classified, with the figures so far and, if it is known,
        how many messages there are.

    Returns
    -------
    Report
        Also after Ctrl-C, with what was measured until then. Such results, and such a model, are
        written only where none were.

    Raises
    ------
    StreamNBError
        Where corpus, configuration or output are at fault. What was written stays.

    Examples
    --------
    >>> from streamnb.config import build
    >>> from streamnb.replay.run import replay
    >>> report = replay(build({"corpus": {"path": "corpora/sample"}}))  # doctest: +SKIP
    """
    report = replay_together([config], on_step)[0]
    if report.trouble is not None:
        raise report.trouble
    return report


def replay_together(
    configs: list[Config], on_step: OnStep | None = None, ended: Callable[[], bool] = bool
) -> list[Report]:
    """Replay a corpus once for several models.

    Parameters
    ----------
    configs
        What to do; they differ in models, feedback and output only, so reading and tokenising is
        done once for all of them.
    on_step
        As for `replay`; it is told the figures of the first.
    ended
        Asked between messages, beside Ctrl-C: whether somebody else wants the replay to end.
    """
    config = configs[0]
    corpus = open_of(config)
    skipped: list[str] = []
    taught: dict[str, _Run] = {}
    runs = [_Run(one, corpus, skipped, taught) for one in configs]
    total = (
        config.corpus.limit
        if corpus.size is None
        else min(corpus.size, config.corpus.limit or corpus.size)
    )
    with ExitStack() as files, _Interruption(ended) as interruption:
        for run in runs:
            files.enter_context(run.files)
        began = time.perf_counter()
        stream = labelled(corpus, config, skipped)
        entries = order_entries(stream, config.corpus.order, config.corpus.limit)
        fed = interruption.until(feed(entries, runs[0].classifier.tokenizer, config.jobs))
        envelope = any(wants_envelope(one) for one in configs)
        for example in _examples(fed, config, skipped, envelope):
            for run in runs:
                run.classify(example)
            for run in runs:  # not before all have said: some share what they learn
                run.teach(example)
            if on_step is not None and example.classify:
                on_step(runs[0].tally, total)
        seconds = time.perf_counter() - began
        for run in runs:
            intervals = config.evaluate.intervals and len(runs) == 1
            run.finish(seconds, interruption.asked, intervals)
    if not interruption.asked:
        for run in runs:
            labels = run.classifier.models[0].counts.labels
            run.report.trouble = _trouble(corpus, run.config, run.report, labels)
    return [run.report for run in runs]


class _Run:
    """One model on its way through the stream."""

    def __init__(
        self, config: Config, corpus: Corpus, skipped: list[str], taught: dict[str, _Run]
    ) -> None:
        made = _with_names_if_wanted(config)
        tokenizer = make_tokenizer(made, corpus)
        self.config = config
        self.classifier = make_classifier(made, tokenizer)
        self.course = make_course(config, self.classifier)
        # Models that learn the same need only one of them to learn: the parameters of the formula
        # are applied to its counts when it is asked.
        key = what_is_learned(config)
        self.teacher = taught.setdefault(key, self) if key else self
        if self.teacher is not self:
            pairs = zip(self.classifier.models, self.teacher.classifier.models, strict=True)
            for model, taught_model in pairs:
                model.counts = taught_model.counts
        self.tally = Tally(config.evaluate.positive, config.evaluate.window, config.evaluate.fading)
        self.report = Report(config, corpus.description, skipped=skipped)
        self.said: Step | None = None
        folder = config.output.folder
        said = "" if folder is None else complete(config, corpus, tokenizer)
        self.files = ResultFiles(folder, said)

    def classify(self, example: Example) -> None:
        """Classify a message and record what came of it."""
        self.said = self.course.classify(example)
        if self.said is None:
            return
        self.files.step(self.said, self.tally.record(self.said))
        if self.tally.messages % self.config.evaluate.every == 0:
            self.files.checkpoint(self.tally.checkpoint())

    def teach(self, example: Example) -> None:
        """Learn what there is to be learned after it."""
        if self.teacher is self:
            self.course.teach(example, self.said)

    def finish(self, seconds: float, interrupted: bool, with_intervals: bool) -> None:
        """Work the figures out and write them."""
        report, tally = self.report, self.tally
        report.interrupted = interrupted
        report.learned = self.teacher.course.lessons
        report.seconds = seconds
        if report.learned == 0 and tally.messages == 0 and not interrupted:
            what = "every message failed" if report.skipped else "there are no messages"
            raise CorpusError(f"{self.config.corpus.path}: nothing to replay: {what}")
        if tally.messages:
            self.files.checkpoint(tally.checkpoint())
        report.summary = tally.summary(with_intervals)
        report.features = self.classifier.features
        path = self.config.output.model
        if path is not None and interrupted and os.path.exists(path):
            report.left.append(f"{path}: the model was not written: the run was interrupted")
        elif path is not None:
            self.classifier.save(path)
        report.peak_memory_bytes = _peak_memory()
        if interrupted and not tally.messages and not report.learned:
            self.files.discard()  # files without a line in them would look like a run
        elif interrupted and self.files.earlier:
            report.left.append(f"{self.files.folder}: the earlier results were left alone")
        else:
            tokens = {} if self.files.folder is None else _telling(self.classifier)
            self.files.finish(report.as_dict(), tokens)


def _with_names_if_wanted(config: Config) -> Config:
    """The configuration, without names of features where neither results nor a model are kept."""
    if config.output.folder is not None or config.output.model is not None:
        return config
    return config.with_changes(model=config.model.with_changes(keep_names=False))


def _telling(classifier: Classifier, most: int = 20) -> dict[str, list[tuple[str, float]]]:
    """The tokens that speak most for each class, words rather than pieces where there are both."""
    found = {}
    labels = classifier.models[0].counts.labels
    for label, features in classifier.strongest(labels, 10 * most).items():
        words = [feature for feature in features if not isinstance(feature[0], bytes)] or features
        found[str(label)] = [(feature_name(name), gain) for name, gain, *_ in words[:most]]
    return found


def _trouble(
    corpus: Corpus, config: Config, report: Report, labels: Iterable[Any]
) -> StreamNBError | None:
    """Why the figures mean nothing, if so; they are written all the same."""
    classes = list(report.summary.classes)
    if report.summary.messages and report.learned == 0:
        if any(getattr(regime, "recipients", None) for regime in config.feedback):
            why = "no label of a message to one of feedback.recipients came"
        elif wants_envelope(config):
            why = "labels that come hours late need messages with dates, in order (--order date)"
        else:
            why = (
                "in a TREC index a label that begins with a capital is only classified, and "
                "feedback may never come"
            )
        return CorpusError(f"{corpus.path}: nothing was learned; {why}")
    if len(classes) == 1:
        return CorpusError(
            f"{corpus.path}: all {report.summary.messages} messages are of class {classes[0]}; "
            "a replay tells two classes or more apart"
        )
    positive = config.evaluate.positive
    if positive is not None and classes and positive not in classes:
        return ConfigError(
            f"evaluate.positive: no message is of class {positive!r}; "
            f"there are {', '.join(classes[:10])}"
        )
    known = list(dict.fromkeys([*classes, *map(str, labels)]))
    prior = missing_prior(config, known)
    if prior is not None:
        return prior
    for regime in config.feedback:
        named = regime.share if isinstance(regime, NoisyConfig) else None
        unknown = (
            [label for label in named if label not in known] if isinstance(named, dict) else []
        )
        if known and unknown:
            return ConfigError(
                f"feedback.share: no message is of class {unknown[0]!r}; "
                f"there are {', '.join(known[:10])}"
            )
    return None


class _Interruption:
    """Ctrl-C ends the stream after the message at hand; a second one ends the program.

    An exception could come between recording a message and writing it down.
    """

    def __init__(self, ended: Callable[[], bool]) -> None:
        self.asked = False
        self._ended = ended
        self._before: Any = None

    def __enter__(self) -> _Interruption:
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as under nohup
        if threading.current_thread() is threading.main_thread() and not ignored:
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, number: int, frame: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def until(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items, until Ctrl-C."""
        for item in items:
            if self._ended():  # and Ctrl-C may come meanwhile
                self.asked = True
            if self.asked:
                return
            yield item


def open_of(config: Config) -> Corpus:
    """The corpus that a configuration names."""
    where = config.corpus
    if where.path is None:
        raise ConfigError("corpus.path: missing; name the corpus to replay")
    return open_corpus(
        where.path, where.kind, where.label_header, where.label_column, where.text_column
    )


def labelled(corpus: Corpus, config: Config, skipped: list[str]) -> Iterator[Entry]:
    """The entries that have a label; the others stop, or are skipped and noted."""
    for entry in corpus:
        if entry.label and entry.label != "?":
            yield entry
            continue
        field = config.corpus.label_header
        without = f"has no {f'field {field}' if field else 'label'}"
        if entry.label:
            without = "has the label '?', which results have where nothing was learned; rename it"
        error = entry.problem or f"{entry.path}: message {entry.name} {without}"
        skip(config, error, skipped)


def skip(config: Config, error: str, skipped: list[str], name: str = "") -> None:
    """Note what is wrong with a message, whose name is told; or stop there, as is configured."""
    if config.corpus.on_error == "stop":
        message = f"message {name}; " if name else ""
        raise CorpusError(f"{error} ({message}--on-error skip goes on without it)")
    skipped.append(error)


def _examples(
    fed: Iterator[Any], config: Config, skipped: list[str], envelope: bool
) -> Iterator[Example]:
    for entry, result in fed:
        if isinstance(result, StreamNBError):
            skip(config, str(result), skipped, entry.name)
            continue
        example = Example(result, entry.label, entry.name, entry.classify, entry.learn)
        if envelope:
            date, recipients = message_envelope(entry)
            example = example._replace(date=date, recipients=recipients)
        yield example


def _peak_memory() -> int:
    try:
        # Linux's getrusage also counts what the process was before it became this program.
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return 1024 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
