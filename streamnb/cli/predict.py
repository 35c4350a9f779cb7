"""`streamnb predict` and `streamnb evaluate`: label new data with a saved model, and measure it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streamnb.cli import options
from streamnb.cli.replay import (
    delimiter_option,
    make_config,
    print_skipped,
    run_and_print,
    run_options,
)
from streamnb.cli.tables import progress_bar
from streamnb.errors import (
    ConfigError,
    CorpusError,
    ModelFileError,
    StreamNBError,
    abbreviate,
    message_count,
    printable,
)

if TYPE_CHECKING:
    from streamnb.classifier import Classifier
    from streamnb.cli.unlabelled import Item, UnlabelledData
    from streamnb.replay import Report

_FORMATS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
# Suffixes of formats that `predict` does not write, because programs could not read the file.
_OTHER_FORMATS = {
    ".parquet", ".json", ".xlsx", ".xls", ".ods", ".feather", ".arrow", ".html", ".snb", ".db",
}  # fmt: skip


@click.command()
@click.argument("model_file", metavar="MODEL")
@click.argument("data", nargs=-1, metavar="[DATA]...")
@click.option("-o", "--out", "output", metavar="FILE", default="-", help="Write to FILE.")
@click.option("--text-column", metavar="NAME", help="The column with the text, or its number.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["csv", "tsv", "jsonl"]),
    help="Format of the output. Default: by the suffix of --out, else the format of DATA.",
)
@delimiter_option
@options.judge_options
@options.on_error_option
@click.option("--json", "as_json", is_flag=True, help="Same as --format jsonl.")
@options.quiet_option
def predict(
    model_file: str,
    data: tuple[str, ...],
    output: str,
    text_column: str | None,
    delimiter: str | None,
    output_format: str | None,
    on_error: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Label new data with a model that `streamnb fit` or `replay --save` wrote.

    DATA is a table (CSV, JSON Lines, Parquet), lines of text, a folder, an mbox, a Maildir, a
    mail, or - for standard input. In a table, the column of texts must have the name that it had
    for `fit`; upper and lower case are equal. Several files must have the same columns. All columns
    are kept, and three are added: label, probability (of that label) and unsure. If DATA has a
    column of that name, the new one is called predicted_label, predicted_probability or
    predicted_unsure.

    A row is unsure if the expected cost of its most probable label is higher than the cost of a
    review. A wrong label costs ALARM if it is the positive class (spam), otherwise MISS. For
    example, with the costs 10 1 0.2, "ham" is sure from a probability of about 0.8 on, and "spam"
    from 0.98. A label with few learned messages needs more.

    \b
    Examples:
      streamnb fit tickets.csv -o tickets.snb
      streamnb predict tickets.snb new.csv --out labelled.csv
      streamnb predict tickets.snb new.csv --threshold 0.95 --out labelled.csv
      echo "cannot log in" | streamnb predict tickets.snb

    Exit status: 0 success, 2 wrong option, 3 the data cannot be read, 4 the model cannot be read,
    5 the output cannot be written.
    """  # noqa: D301 (\b is click's mark for preformatted lines)
    from streamnb.cli.labelled_output import make_writer
    from streamnb.cli.unlabelled import open_all_unlabelled
    from streamnb.corpus.text_files import open_compressed
    from streamnb.replay.build import is_for_mail
    from streamnb.storage import open_output

    if as_json and output_format not in (None, "jsonl"):
        raise ConfigError(f"--json and --format {output_format} cannot be combined")
    data = data or ("-",)
    options.check_outputs([output], [*data, model_file])
    judge_options = options.current_judge_options()
    classifier = _load_classifier(model_file)
    labels_of_model = set(map(str, classifier.labels))
    source = open_all_unlabelled(
        data,
        text_column,
        is_for_mail(classifier),
        delimiter,
        labels_of_model,
        classifier.data_format,
    )
    output_format = _output_format(output, "jsonl" if as_json else output_format, source.format)
    skipped: list[str] = []
    labels: Counter[str] = Counter()
    unsure = 0
    with (
        open_output(output, "the output") as raw_file,
        open_compressed(raw_file, Path(output)) as file,
        progress_bar(output != "-" and not quiet, "{task.completed:,.0f} messages") as draw,
    ):
        items = _readable_items(source, on_error, skipped)
        first_items = list(islice(items, 1))  # after an error, there is no header either
        if not first_items and (skipped or not source.may_be_empty):
            raise CorpusError(f"{', '.join(data)}: there are no messages")
        write = make_writer(file, output_format, source)
        for item, text in chain(first_items, items):
            verdict = classifier.classify(text, 0, judge_options.decision_costs)
            is_unsure = verdict.unsure or not judge_options.is_sure(verdict.probability)
            write(item, verdict.label, verdict.probability, is_unsure)
            labels[str(verdict.label)] += 1
            unsure += is_unsure
            draw(completed=labels.total())
    if output != "-" and not quiet:
        counts = ", ".join(f"{n:,} {label}" for label, n in labels.most_common(10)) or "no rows"
        total = message_count(labels.total())
        click.echo(printable(f"{output}: {total} ({counts}), {unsure:,} of them unsure"))
    print_skipped(skipped)


def _output_format(output: str, wanted: str | None, default: str) -> str:
    """Return the output's format: that of --format, of the file's suffix, or the default."""
    from streamnb.corpus.text_files import bare_suffix

    suffix = bare_suffix(Path(output))
    if output != "-" and wanted is None and suffix in _OTHER_FORMATS:
        raise ConfigError(
            f"--out {output}: {suffix.strip('.')} cannot be written; use .csv, .tsv or .jsonl"
        )
    return wanted or _FORMATS.get(suffix, default)


def _readable_items(
    source: UnlabelledData, on_error: str | None, skipped: list[str]
) -> Iterator[tuple[Item, bytes | str]]:
    """Yield each item with its text. The error of an item is raised, or added to `skipped`."""
    for item in source.items:
        if not isinstance(item.text, StreamNBError):
            yield item, item.text
        elif on_error == "skip":
            skipped.append(str(item.text))
        else:
            raise type(item.text)(f"{item.text} (use --on-error skip to leave out such messages)")


@click.command()
@click.argument("model_file", metavar="MODEL")
@click.argument("targets", nargs=-1, metavar="[DATA]...")
@options.set_option("evaluate.positive=spam")
@run_options
def evaluate(
    model_file: str,
    targets: tuple[str, ...],
    config_file: str | None,
    settings: tuple[str, ...],
    **values: Any,
) -> None:
    """Measure a saved model on labelled data that it has not learned.

    DATA are corpora, or a YAML file that names them, as for `streamnb replay`. A table has the
    columns that `fit` used. The model does not learn, so the figures are those of the model as it
    was saved. They are printed as by `streamnb replay`.

    If DATA contains messages that the model has learned, the figures are too good. The command
    cannot detect this, because a model file contains no messages. Test on other files, or on the
    rest of a corpus: `fit --limit N` learns the first N messages, and `evaluate --skip N` leaves
    them out.

    \b
    Examples:
      streamnb fit corpora/sample --limit 200 -o mail.snb
      streamnb evaluate mail.snb corpora/sample --skip 200
      streamnb evaluate tickets.snb held_out.csv --label-column topic

    Exit status: 0 success, 2 wrong option or configuration, 3 the data cannot be read, 4 the model
    cannot be read, 5 results cannot be written, 130 interrupted.
    """  # noqa: D301 (\b is click's mark for preformatted lines)
    from streamnb.replay.run import evaluate_model

    for assignment in settings:
        if assignment.partition("=")[0].partition(".")[0].strip() in ("model", "tokenizer"):
            raise ConfigError(
                f"--set {assignment:.80}: `evaluate` does not change a saved model; give the "
                "setting to `fit`"
            )
    config = make_config(targets, config_file, settings, values)
    kinds = tuple(section.kind for section in config.feedback)
    if config.sweep or kinds != ("immediate",):
        raise ConfigError(
            "`evaluate` does not support the keys sweep and feedback; use `streamnb replay`"
        )
    classifier = _load_classifier(model_file)
    report = run_and_print(
        config,
        lambda run_config, on_step: evaluate_model(run_config, classifier, model_file, on_step),
        **values,
    )
    _notify_unknown_labels(report, classifier)


def _notify_unknown_labels(report: Report, classifier: Classifier) -> None:
    """Print a notice if labels of the data are not classes of the model."""
    labels = set(map(str, classifier.labels))
    unknown = {
        label: row.messages
        for label, row in report.summary.classes.items()
        if row.messages and label not in labels
    }
    if unknown:
        names = ", ".join(map(abbreviate, list(unknown)[:10]))
        options.notify(
            f"{sum(unknown.values()):,} of {report.summary.messages:,} messages count as errors: "
            f"their labels are not classes of the model ({names})"
        )


def _load_classifier(path: str) -> Classifier:
    """Return the classifier of a model file; ModelFileError if it has learned nothing."""
    classifier = options.load_classifier(path)
    if not any(classifier.messages().values()):
        raise ModelFileError(f"{path}: the model is not trained; train it with `streamnb fit`")
    return classifier
