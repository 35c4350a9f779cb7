"""The replay of a corpus: read, tokenise, classify, record, train, report.

`evaluate_model` does the same with a trained classifier, without training.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Hashable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from streamnb.classifier import Classifier
from streamnb.classifier.verdict import feature_name
from streamnb.config import Config
from streamnb.corpus import Corpus
from streamnb.errors import ConfigError, CorpusError, StreamNBError, printable
from streamnb.evaluate import Example, PrequentialRun, ResultFiles, RunningMetrics, Step, Summary
from streamnb.evaluate.result_files import EVALUATION
from streamnb.replay.build import (
    absent_class_error,
    class_error,
    make_classifier,
    make_prequential_run,
    make_tokenizer,
    needs_envelope,
    resolved_yaml,
    training_key,
)
from streamnb.replay.examples import (
    Interruption,
    count_selected,
    iterate_examples,
    open_configured_corpus,
    why_empty,
)
from streamnb.scores import label_keys


@dataclass
class Report:
    """Results of a replay.

    Attributes
    ----------
    config
        The configuration.
    corpus
        Description of the detected corpus.
    summary
        The figures.
    features
        Number of features of the model.
    seconds
        Time from the first message to the last.
    peak_memory_bytes
        Peak memory of this process. Processes that only read and tokenise do not count.
    skipped
        Errors of the messages that could not be read and were skipped.
    learned
        Number of messages learned.
    interrupted
        Whether the replay was stopped before the end.
    problem
        The reason why the figures are meaningless; None if they are meaningful.
    notices
        What looks wrong in the corpus.
    not_written
        Files that exist already and were not replaced, because the run is doubtful.
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
    problem: StreamNBError | None = None
    notices: tuple[str, ...] = ()
    not_written: list[str] = field(default_factory=list)

    @property
    def messages_per_second(self) -> float:
        """Messages classified or learned per second, whichever is more."""
        return max(self.summary.messages, self.learned) / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return all values except the configuration as plain data for JSON."""
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
            "problem": None if self.problem is None else str(self.problem),
        }


_TOP_TOKENS = 20  # tokens of each class in tokens.json

OnStep = Callable[[RunningMetrics, int | None], None]


def replay_corpus(config: Config, on_step: OnStep | None = None) -> Report:
    """Replay a corpus: classify each message, record the prediction, learn the message.

    Parameters
    ----------
    config
        The configuration. Results are written to `output.folder`, if set.
    on_step
        Called after each classified message with the running figures and the number of messages
        of the corpus (None if unknown).

    Returns
    -------
    Report
        After Ctrl-C, with the figures until then. Files of an interrupted replay do not replace
        existing ones.

    Raises
    ------
    StreamNBError
        If there is an error in the corpus, the configuration or the output. Files written before it
        stay.

    Examples
    --------
    >>> from streamnb.config import build
    >>> from streamnb.replay import replay_corpus
    >>> report = replay_corpus(build({"corpus": {"path": "corpora/sample"}}))  # doctest: +SKIP
    """
    report = replay_models([config], on_step, keep_earlier=True)[0]
    if report.problem is not None:
        notes = "".join(f"; {note}" for note in report.not_written)
        raise type(report.problem)(f"{report.problem}{notes}")
    return report


def replay_models(
    configs: list[Config],
    on_step: OnStep | None = None,
    should_stop: Callable[[], bool] = bool,
    keep_earlier: bool = False,
) -> list[Report]:
    """Replay a corpus once for several models; messages are read and tokenised once for all.

    Parameters
    ----------
    configs
        Configurations that differ only in models, feedback and output.
    on_step
        As for `replay_corpus`, called with the figures of the first model.
    should_stop
        Called between messages; returning True stops the replay, as Ctrl-C does.
    keep_earlier
        Whether meaningless figures, too, do not replace the results of an earlier run.

    Returns
    -------
    list of Report
        One for each configuration. Meaningless figures are reported in `Report.problem`.
    """
    config = configs[0]
    corpus = open_configured_corpus(config)
    skipped: list[str] = []
    trainers: dict[Hashable, _ModelRun] = {}
    runs = [_ModelRun(each, corpus, skipped, trainers) for each in configs]
    total = count_selected(corpus, config)
    with ExitStack() as files, Interruption(should_stop) as interruption:
        for run in runs:
            files.enter_context(run.record.files)
        start = time.perf_counter()
        with_envelope = any(needs_envelope(each) for each in configs)
        tokenizer = runs[0].classifier.tokenizer
        for example in iterate_examples(
            corpus, config, tokenizer, skipped, interruption, with_envelope
        ):
            for run in runs:
                run.classify(example)
            # all predictions come before training, because some models share counts
            for run in runs:
                run.train(example)
            if on_step is not None and example.classify:
                on_step(runs[0].record.metrics, total)
        seconds = time.perf_counter() - start
        for run in runs:
            intervals = config.evaluate.intervals and len(runs) == 1
            run.summarize(seconds, interruption.requested, intervals)
            if not interruption.requested:
                labels, report = run.classifier.labels, run.record.report
                report.problem = _find_problem(corpus, run.config, report, labels)
        for run in runs:
            is_doubtful = keep_earlier and run.record.report.problem is not None
            run.write(interruption.requested or is_doubtful)
    return [run.record.report for run in runs]


def positive_error(config: Config, classes: list[str]) -> ConfigError | None:
    """Return the error if the configured positive class has no message; otherwise None."""
    positive = config.evaluate.positive
    if positive is None or not classes or positive in classes:
        return None
    return absent_class_error("evaluate.positive", positive, classes)


class RunRecord:
    """The figures of a model on a corpus, its result files and its report.

    Parameters
    ----------
    config, corpus
        The configuration and the corpus.
    skipped
        List that receives the errors of skipped messages.
    config_text
        Content of `config.yaml`.
    """

    def __init__(
        self, config: Config, corpus: Corpus, skipped: list[str], config_text: str
    ) -> None:
        self.config = config
        self._corpus_path = corpus.path
        self.metrics: RunningMetrics = RunningMetrics(
            config.evaluate.positive, config.evaluate.window, config.evaluate.fading
        )
        self.report: Report = Report(
            config, corpus.description, skipped=skipped, notices=corpus.notices
        )
        self.files: ResultFiles = ResultFiles(config.output.folder, config_text)

    def record(self, step: Step) -> None:
        """Record a prediction."""
        self.files.write_step(step, self.metrics.record(step))
        if self.metrics.messages % self.config.evaluate.every == 0:
            self.files.write_checkpoint(self.metrics.checkpoint())

    def summarize(
        self, action: str, learned: int, seconds: float, interrupted: bool, intervals: bool
    ) -> None:
        """Fill in the report. Raise CorpusError, with the verb `action`, if no message was used."""
        report, metrics = self.report, self.metrics
        report.learned, report.seconds, report.interrupted = learned, seconds, interrupted
        if not learned and not metrics.messages and not interrupted:
            reason = why_empty(self.config, report.skipped)
            raise CorpusError(f"{self._corpus_path}: nothing to {action}: {reason}")
        if metrics.messages % self.config.evaluate.every:
            self.files.write_checkpoint(metrics.checkpoint())
        report.summary = metrics.summary(intervals)

    def write(self, classifier: Classifier, keep_earlier: bool) -> None:
        """Write the result files; with `keep_earlier`, only if there are no earlier ones."""
        report = self.report
        report.features = classifier.features
        report.peak_memory_bytes = peak_memory()
        if report.interrupted and not self.metrics.messages and not report.learned:
            self.files.discard()
        elif keep_earlier and self.files.has_earlier_results:
            report.not_written.append(f"{self.files.folder}: the earlier results are not changed")
        else:
            tokens = {} if self.files.folder is None else top_tokens(classifier)
            self.files.finish(report.as_dict(), tokens)


class _ModelRun:
    """One model of a replay, with its figures and result files.

    Parameters
    ----------
    config, corpus, skipped
        As for `RunRecord`.
    trainers
        The first run of each `training_key`. Only this run trains; runs with the same key use its
        counts, because they differ only in formula parameters.
    """

    def __init__(
        self,
        config: Config,
        corpus: Corpus,
        skipped: list[str],
        trainers: dict[Hashable, _ModelRun],
    ) -> None:
        model_config = _without_unused_names(config)
        tokenizer = make_tokenizer(model_config, corpus)
        self.config = config
        self.classifier = make_classifier(model_config, tokenizer)
        self.classifier.data_format = corpus.data_format
        self.prequential = make_prequential_run(config, self.classifier)
        key = training_key(config)
        self._trainer = self if key is None else trainers.setdefault(key, self)
        if not self._is_trainer:
            pairs = zip(self.classifier.models, self._trainer.classifier.models, strict=True)
            for model, trained_model in pairs:
                model.counts = trained_model.counts
        self._step: Step | None = None
        has_files = config.output.folder is not None
        config_text = resolved_yaml(config, corpus, tokenizer) if has_files else ""
        self.record = RunRecord(config, corpus, skipped, config_text)

    @property
    def _is_trainer(self) -> bool:
        return self._trainer is self

    def classify(self, example: Example) -> None:
        """Classify a message and record the prediction."""
        self._step = self.prequential.classify(example)
        if self._step is not None:
            self.record.record(self._step)

    def train(self, example: Example) -> None:
        """Learn the labels due after a message, unless another run trains the shared counts."""
        if self._is_trainer:
            self.prequential.train(example, self._step)

    def summarize(self, seconds: float, interrupted: bool, intervals: bool) -> None:
        """Fill in the report."""
        learned = self._trainer.prequential.labels_learned
        self.record.summarize("replay", learned, seconds, interrupted, intervals)

    def write(self, keep_earlier: bool) -> None:
        """Write the model and the result files; with `keep_earlier`, replace none."""
        path = self.config.output.model
        if path is not None and keep_earlier and os.path.exists(path):
            self.record.report.not_written.append(f"{path}: the earlier model is not changed")
        elif path is not None:
            self.classifier.save(path)
        self.record.write(self.classifier, keep_earlier)


def _without_unused_names(config: Config) -> Config:
    """Return the configuration with `keep_names` off if neither results nor a model are written."""
    if config.output.folder is not None or config.output.model is not None:
        return config
    return config.with_changes(model=config.model.with_changes(keep_names=False))


def top_tokens(classifier: Classifier) -> dict[str, list[tuple[str, float]]]:
    """Return the tokens with the largest log-odds for each class; words before byte n-grams."""
    tokens = {}
    labels = classifier.models[0].counts.labels
    keys = label_keys(labels)
    for label, features in classifier.strongest(labels, 10 * _TOP_TOKENS).items():
        words = [feature for feature in features if not isinstance(feature[0], bytes)] or features
        tokens[keys[label]] = [(feature_name(name), gain) for name, gain, *_ in words[:_TOP_TOKENS]]
    return tokens


def _find_problem(
    corpus: Corpus, config: Config, report: Report, labels: Iterable[Any]
) -> StreamNBError | None:
    """Return the reason why the figures are meaningless; None if they are meaningful."""
    classes = list(report.summary.classes)
    if report.summary.messages and report.learned == 0:
        if any(getattr(section, "recipients", None) for section in config.feedback):
            reason = "no message was sent to one of feedback.recipients"
        elif needs_envelope(config):
            reason = (
                "feedback.hours needs messages with dates, in order (--order date); for a table, "
                "set corpus.date_column"
            )
        else:
            reason = (
                "no label was released by the feedback policy (in a TREC index, messages whose "
                "label begins with a capital are only classified)"
            )
        return CorpusError(f"{corpus.path}: no message was learned: {reason}")
    if len(classes) == 1:
        return CorpusError(
            f"{corpus.path}: all {report.summary.messages} messages are of class {classes[0]}; "
            "a replay needs at least two classes"
        )
    error = positive_error(config, classes)
    if error is not None:
        return error
    names = list(dict.fromkeys([*classes, *map(str, labels)]))
    error = class_error(config, names, report.interrupted)
    if error is not None:
        return error
    for section in config.feedback:
        shares = getattr(section, "share", None)
        unknown = [y for y in shares if y not in names] if isinstance(shares, dict) else []
        if names and unknown:
            return absent_class_error("feedback.share", unknown[0], names)
    return None


def peak_memory() -> int:
    """Return the peak resident memory of this process in bytes."""
    try:
        # Linux's getrusage includes the memory of the process before exec.
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return 1024 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def evaluate_model(
    config: Config, classifier: Classifier, name: str, on_step: OnStep | None = None
) -> Report:
    """Classify a corpus with a trained classifier, without learning.

    Parameters
    ----------
    config
        The corpus and the output; the model and the feedback are not used.
    classifier
        The trained classifier.
    name
        Name of the model, for errors and config.yaml.
    on_step
        As for `replay_corpus`.

    Returns
    -------
    Report
        As from `replay_corpus`, with 0 messages learned.

    Raises
    ------
    StreamNBError
        If the corpus cannot be read, the output not written, or no label is a class of the model.
    """
    corpus = open_configured_corpus(config, classifier.data_format)
    _check_label_headers(corpus, classifier, name)
    skipped: list[str] = []
    config_text = f"{EVALUATION}{printable(f'{name} {corpus.path}')}\n"
    record, run = RunRecord(config, corpus, skipped, config_text), PrequentialRun(classifier.model)
    total = count_selected(corpus, config)
    start = time.perf_counter()
    with record.files, Interruption(bool) as interruption:
        for example in iterate_examples(
            corpus, config, classifier.tokenizer, skipped, interruption
        ):
            step = run.classify(example._replace(classify=True))
            assert step is not None  # noqa: S101 (for the type checker)
            scores = {str(label): score for label, score in step.scores.items()}
            record.record(Step(step.y, str(step.predicted), scores, step.tag))
            if on_step is not None:
                on_step(record.metrics, total)
        seconds, interrupted = time.perf_counter() - start, interruption.requested
        record.summarize("evaluate", 0, seconds, interrupted, config.evaluate.intervals)
        _check_known_labels(corpus, classifier, record.report)
        error = positive_error(config, list(record.report.summary.classes))
        if error is not None:
            raise error
        record.write(classifier, record.report.interrupted)
    return record.report


def _check_label_headers(corpus: Corpus, classifier: Classifier, name: str) -> None:
    """Raise ConfigError if the model would read the header field with the label."""
    tokenizers = classifier.tokenizer.tokenizers
    for tokenizer in tokenizers:
        dropped = {header.lower() for header in getattr(tokenizer, "drop_headers", None) or ()}
        for header in corpus.drop_headers:
            if header.lower() not in dropped:
                raise ConfigError(
                    f"corpus.label_header: {name} reads the field {header}, which holds the label; "
                    f"fit the model with --set corpus.label_header={header}"
                )


def _check_known_labels(corpus: Corpus, classifier: Classifier, report: Report) -> None:
    """Raise CorpusError if no message has a label that the model knows."""
    summary = report.summary
    labels = [label for label, row in summary.classes.items() if row.messages]
    classes = [str(label) for label in classifier.labels]
    if summary.messages and not set(labels) & set(classes):
        raise CorpusError(
            f"{corpus.path}: no label is a class of the model; labels: {', '.join(labels[:10])}; "
            f"classes: {', '.join(classes[:10])}"
        )
