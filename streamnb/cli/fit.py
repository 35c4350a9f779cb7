"""`streamnb fit` and `streamnb merge-models`."""

from __future__ import annotations

import json
from typing import Any

import click

from streamnb.cli import options
from streamnb.cli.replay import (
    column_options,
    make_config,
    print_notices,
    print_skipped,
    range_options,
)
from streamnb.cli.tables import progress_bar
from streamnb.errors import ConfigError, check_paths_differ, message_count, printable


@click.command()
@click.argument("targets", nargs=-1, metavar="[CORPUS]...")
@click.option("-o", "--output", "save_to", metavar="FILE", help="Write the model to FILE.")
@click.option("--config", "config_file", metavar="FILE", help="Read the settings from a YAML file.")
@options.set_option("model.kind=multinomial")
@column_options
@range_options
@click.option(
    "--order",
    metavar="ORDER",
    help="Order of the messages: indexed (as stored), name, date, shuffled or shuffled:SEED. "
    "Default: --skip and --limit select messages as stored, and these are learned shuffled.",
)
@click.option("--jobs", type=options.WholeRange(1, 256), metavar="N", help="Use N processes.")
@options.on_error_option
@options.json_object_option
@options.quiet_option
def fit(
    targets: tuple[str, ...],
    config_file: str | None,
    settings: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    **values: Any,
) -> None:
    """Train a model on labelled data and write it to a file.

    CORPUS is as for `streamnb replay`. In a YAML file, corpus.path names it, and output.model the
    file of the model. A corpus of texts is a table with a column of labels and one of texts.
    `streamnb predict` then labels new messages, and `streamnb evaluate` measures the model on
    labelled ones.

    If streamnb does not recognise the columns of a table by their names, name them with
    --label-column and --text-column.

    --jobs processes read the messages, and one model learns them one after the other.
    The result does not depend on --jobs. Use --jobs for 10,000 mails or more; for short texts
    it saves no time.

    \b
    Examples:
      streamnb fit tickets.csv -o tickets.snb
      streamnb fit tickets.csv --label-column topic --text-column subject -o tickets.snb
      streamnb fit corpora/sample -o mail.snb
      streamnb fit 2024/ 2025/ --set model.kind=multinomial --jobs 8 -o mail.snb

    Exit status: 0 success, 2 wrong option or configuration, 3 a corpus cannot be read, 5 the model
    cannot be written, 130 interrupted (nothing is written).
    """  # noqa: D301 (\b is click's mark for preformatted lines)
    from streamnb.replay.fit import fit_corpora

    config = make_config(targets, config_file, settings, values)
    output, path = config.output.model, config.corpus.path
    if output is None or path is None:
        missing = "CORPUS (corpus.path)" if path is None else "-o FILE (output.model)"
        raise ConfigError(f"{missing} is missing")
    kinds = tuple(section.kind for section in config.feedback)
    if config.sweep or config.model.window or kinds != ("immediate",):
        raise ConfigError(
            "`fit` does not support the keys sweep, feedback and model.window; use `streamnb "
            "replay`"
        )
    with progress_bar(not (as_json or quiet), "{task.completed:,.0f} messages") as draw:
        fitted = fit_corpora(
            config,
            [path] if isinstance(path, str) else list(path),
            lambda learned, total: draw(completed=learned, total=total),
        )
    fitted.classifier.save(output)
    if as_json:
        click.echo(json.dumps(fitted.as_dict()))
    elif not quiet:
        for description in fitted.corpora:
            click.echo(printable(description))
        classes = ", ".join(f"{n:,.0f} {y}" for y, n in fitted.classifier.messages().items())
        click.echo(
            printable(
                f"{output}: {message_count(fitted.learned)} ({classes}), "
                f"{fitted.classifier.features:,} features, {fitted.seconds:.1f} s"
            )
        )
    print_skipped(fitted.skipped)
    print_notices(fitted.notices)
    labels = fitted.classifier.labels
    options.notify_doubtful_labels(fitted.classifier.messages())
    if len(labels) == 1:
        options.notify(
            f"{output}: all messages have the label {labels[0]}, so the model predicts it for "
            "every message; add messages of another class"
        )


@click.command("merge-models")
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@click.option("-o", "--output", required=True, metavar="FILE", help="Write the merged model.")
def merge_models(models: tuple[str, ...], output: str) -> None:
    """Merge models that were trained on different messages.

    The models must be of one kind, with the same tokenizer. For the models multinomial, bernoulli
    and complement without decay, the result equals training on all messages. For the default model
    the counts are added, and the calibration of the model with most messages is kept. The merged
    model reads the columns of the first model that was trained on a table.

    \b
    Example:
      streamnb merge-models monday.snb tuesday.snb -o week.snb

    Exit status: 0 success, 4 a model cannot be read, or is of another kind, 5 the merged model
    cannot be written.
    """  # noqa: D301 (\b is click's mark for preformatted lines)
    from streamnb.any_model import merge_files
    from streamnb.naive_bayes.model_files import save

    options.check_outputs([output], models)
    check_paths_differ(models, "counts")
    model, header, paths_by_columns = merge_files(models)
    save(model, output, header)
    click.echo(printable(f"{output}: {len(models)} model{'s' * (len(models) > 1)} merged"))
    if len(paths_by_columns) > 1:
        columns = "; ".join(f"{paths[0]}: {names}" for names, paths in paths_by_columns.items())
        options.notify(
            f"{output}: has the columns of the first model, because they differ ({columns})"
        )
