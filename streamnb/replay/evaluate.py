"""The evaluation of a trained classifier, which does not learn."""

from __future__ import annotations

import time

from streamnb.classifier import Classifier
from streamnb.config import Config
from streamnb.corpus import Corpus
from streamnb.errors import ConfigError, CorpusError, printable
from streamnb.evaluate import PrequentialRun, ResultFiles, RunningMetrics, Step
from streamnb.replay.examples import (
    count_selected,
    iterate_examples,
    labelled_entries,
    open_configured_corpus,
    select_entries,
)
from streamnb.replay.interruption import Interruption
from streamnb.replay.run import OnStep, Report, peak_memory, positive_error, top_tokens
from streamnb.replay.workers import stream_features


def evaluate_model(
    config: Config, classifier: Classifier, name: str, on_step: OnStep | None = None
) -> Report:
    """Classify a corpus with a trained classifier, which does not learn.

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
        As of `replay_corpus`, with 0 messages learned.

    Raises
    ------
    StreamNBError
        If corpus or output are at fault, or no label of the corpus is a class of the model.
    """
    corpus = open_configured_corpus(config)
    skipped: list[str] = []
    report = Report(config, corpus.description, features=classifier.features, skipped=skipped)
    metrics = RunningMetrics(
        config.evaluate.positive, config.evaluate.window, config.evaluate.fading
    )
    _check_label_headers(corpus, classifier, name)
    run = PrequentialRun(classifier.model)
    config_text = f"# {printable(f'streamnb evaluate {name} {corpus.path}')}\n"
    total = count_selected(corpus, config)
    start = time.perf_counter()
    with (
        ResultFiles(config.output.folder, config_text) as files,
        Interruption(bool) as interruption,
    ):
        labelled = labelled_entries(corpus, config, skipped)
        entries = select_entries(labelled, config)
        features = stream_features(entries, classifier.tokenizer, config.jobs)
        stream = interruption.until_interrupted(features)
        for example in iterate_examples(stream, config, skipped, with_envelope=False):
            step = run.classify(example._replace(classify=True))
            assert step is not None  # noqa: S101 (for the type checker)
            scores = {str(label): score for label, score in step.scores.items()}
            step = Step(step.y, str(step.predicted), scores, step.tag)
            files.write_step(step, metrics.record(step))
            if metrics.messages % config.evaluate.every == 0:
                files.write_checkpoint(metrics.checkpoint())
            if on_step is not None:
                on_step(metrics, total)
        report.seconds = time.perf_counter() - start
        report.interrupted = interruption.requested
        if not metrics.messages and not report.interrupted:
            reason = "every message failed" if skipped else "there are no messages"
            raise CorpusError(f"{corpus.path}: nothing to evaluate: {reason}")
        report.summary = metrics.summary(config.evaluate.intervals)
        report.peak_memory_bytes = peak_memory()
        _check_known_labels(corpus, classifier, report)
        error = positive_error(config, list(report.summary.classes))
        if error is not None:
            raise error
        if report.interrupted and not metrics.messages:
            files.discard()
        elif report.interrupted and files.has_earlier_results:
            report.not_written.append(f"{files.folder}: the earlier results stay as they are")
        else:
            if metrics.messages:
                files.write_checkpoint(metrics.checkpoint())
            tokens = {} if files.folder is None else top_tokens(classifier)
            files.finish(report.as_dict(), tokens)
    return report


def _check_label_headers(corpus: Corpus, classifier: Classifier, name: str) -> None:
    """Raise ConfigError if the model would read the header field that holds the label."""
    tokenizers = getattr(classifier.tokenizer, "tokenizers", [classifier.tokenizer])
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
