"""Evaluation of a trained classifier without learning."""

from __future__ import annotations

import time

from streamnb.classifier import Classifier
from streamnb.config import Config
from streamnb.corpus import Corpus
from streamnb.errors import ConfigError, CorpusError, printable
from streamnb.evaluate import PrequentialRun, Step
from streamnb.replay.examples import (
    count_selected,
    iterate_examples,
    open_configured_corpus,
)
from streamnb.replay.interruption import Interruption
from streamnb.replay.run import OnStep, Report, RunRecord, positive_error


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
    config_text = f"# {printable(f'streamnb evaluate {name} {corpus.path}')}\n"
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
        record.write(classifier)
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
