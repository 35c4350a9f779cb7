"""`streamnb replay`."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streamnb.cli import options
from streamnb.cli.tables import new_console, new_table, print_summary, progress_bar
from streamnb.errors import ConfigError, message_count, printable

if TYPE_CHECKING:
    from streamnb.config import Config
    from streamnb.evaluate import RunningMetrics
    from streamnb.replay import OnStep, Report

Result = TypeVar("Result")

_MAX_NOTICES = 3  # maximum number of similar notices to print
_MIN_SORTED = 10  # minimum size of the rarest class for the notice about a sorted corpus
_INTERRUPTED = "interrupted: the figures cover the messages read so far"


def _read_delimiter(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    delimiter = "\t" if value in ("\\t", "tab") else value
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise click.BadParameter(f"{value!r} is not one character, such as ';', or \\t", ctx, param)
    return delimiter


delimiter_option: options.Decorator = click.option(
    "--delimiter",
    metavar="CHARACTER",
    callback=_read_delimiter,
    help="Delimiter of a CSV file, if streamnb detects a wrong one.",
)
column_options: options.Decorator = options.combine_options(
    click.option("--text-column", metavar="NAME", help="Column of the texts in a table."),
    click.option("--label-column", metavar="NAME", help="Column of the labels in a table."),
    delimiter_option,
)


range_options: options.Decorator = options.combine_options(
    click.option(
        "--limit", type=options.WholeRange(min=1), metavar="N", help="Stop after N messages."
    ),
    click.option(
        "--skip",
        type=options.WholeRange(min=0),
        metavar="N",
        help="Leave out the first N messages, in the order of --order.",
    ),
)
# The options of `replay` and `evaluate`, in the reverse order of the help.
run_options: options.Decorator = options.combine_options(
    options.quiet_option,
    click.option(
        "--details", is_flag=True, help="Also compare predicted probabilities with the outcomes."
    ),
    options.json_object_option,
    click.option(
        "--intervals/--no-intervals",
        default=None,
        help="Compute 95 % intervals by resampling, or skip them.",
    ),
    options.on_error_option,
    options.plot_option("the figures"),
    click.option("--out", metavar="DIR", help="Write the results, for `compare` and `report`."),
    click.option(
        "--jobs",
        type=options.WholeRange(1, 256),
        metavar="N",
        help="Read and tokenise in N processes.",
    ),
    range_options,
    click.option(
        "--order",
        metavar="ORDER",
        help="Order of the messages: indexed (as stored; the default), name, date, shuffled or "
        "shuffled:SEED.",
    ),
    column_options,
    click.option(
        "--config", "config_file", metavar="FILE", help="Read the settings from a YAML file."
    ),
)


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@options.set_option("model.alpha=0.1")
@run_options
@click.option(
    "--save",
    "save_to",
    metavar="FILE",
    help="Write the trained model, with its tokenizer, to FILE.",
)
def replay(
    targets: tuple[str, ...], config_file: str | None, settings: tuple[str, ...], **values: Any
) -> None:
    """Measure accuracy on a corpus: classify each message, then learn it.

    TARGET is a corpus or a YAML file. A corpus of texts is a table (CSV, JSON Lines, Parquet,
    fastText lines) or lines of label<TAB>text. A corpus of mail is a folder for each class, an
    mbox, a Maildir, or a TREC index; - is standard input. The format is detected and printed.
    Several corpora are read one after the other.

    If streamnb does not recognise the columns of a table by their names, name them with
    --label-column and --text-column. --out writes results.txt, checkpoints.jsonl, summary.json,
    tokens.json and config.yaml.

    \b
    Examples:
      streamnb replay corpora/sample
      streamnb replay mail/ --order date --set model.alpha=0.1 --out run
      streamnb replay configs/sample.yaml --json

    Exit status: 0 success, 2 wrong option or configuration, 3 the corpus cannot be read, 5 results
    cannot be written, 130 interrupted (the figures until then are reported).
    """  # noqa: D301 (\b is click's mark for preformatted lines)
    from streamnb.replay import replay_corpus

    config = make_config(targets, config_file, settings, values)
    if not config.sweep:
        run_and_print(config, replay_corpus, **values)
        return
    for name in ("plot", "details"):
        if values[name]:
            raise ConfigError(
                f"--{name}: not supported by a sweep; replay one setting, without `sweep`"
            )
    _run_sweep(config, values["as_json"], values["quiet"])


def run_and_print(
    config: Config,
    run: Callable[[Config, OnStep | None], Report],
    *,
    as_json: bool,
    details: bool,
    quiet: bool,
    plot: str | None,
    **_: Any,
) -> Report:
    """Run a replay or an evaluation, draw and print its report; exit 130 if it was interrupted.

    Parameters
    ----------
    config
        The configuration.
    run
        Function of the configuration and a callback for progress.
    as_json, details, quiet, plot
        Options of the command; others are ignored.
    """
    no_progress = as_json or quiet or not sys.stderr.isatty()
    with _with_results_folder(config, plot) as run_config:
        report = run(run_config, None) if no_progress else _with_progress(run_config, run)
        if plot is not None:
            _draw(run_config, report, plot)
    if as_json:
        click.echo(json.dumps(report.as_dict()))
    elif not quiet:
        title = f"{_path_text(config)}: {report.corpus}"
        print_summary(title, report.summary, _run_rows(report), details)
        if not no_progress and not report.interrupted:
            options.notify(_next_command(config.output.folder))
    print_skipped(report.skipped)
    print_notices(report.notices)
    confusion = report.summary.confusion
    predicted = dict.fromkeys(chain.from_iterable(confusion.values()), 0)
    totals = {label: sum(row.values()) for label, row in confusion.items()}
    options.notify_doubtful_labels(predicted | totals)
    fewest = min(totals.values(), default=0)
    if report.learned and fewest >= _MIN_SORTED and report.summary.label_changes < len(confusion):
        options.notify(
            "the corpus is sorted by class, so the figures are too good; use --order shuffled:1"
        )
    print_notices(report.not_written, "{} more files were not written")
    if report.interrupted:
        options.notify(_INTERRUPTED)
        sys.exit(130)
    return report


def _next_command(folder: str | None) -> str:
    """Return a hint with the command for a page of pictures of a replay."""
    if folder is None:
        return "for a page of pictures add --out DIR, then run: streamnb report DIR"
    return f"for a page of pictures run: streamnb report {shlex.quote(folder)}"


@contextmanager
def _with_results_folder(config: Config, plot: str | None) -> Iterator[Config]:
    """Yield a configuration that writes results, to a temporary folder if none is configured.

    A plot needs the result files. Without a plot, the configuration is not changed.
    """
    if plot is None or config.output.folder is not None:
        yield config
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        output = config.output.with_changes(folder=folder)
        yield config.with_changes(output=output)


def _draw(config: Config, report: Report, plot: str) -> None:
    """Draw a run; an interrupted run does not replace an existing picture."""
    from streamnb.pictures import draw_results

    folder = config.output.folder or ""
    if report.interrupted and (
        report.not_written or os.path.exists(plot) or not os.path.exists(f"{folder}/summary.json")
    ):
        report.not_written.append(f"{plot}: not drawn because the replay was interrupted")
    else:
        options.notify_missing_letters(plot, draw_results(folder, plot, _path_text(config)))


def _path_text(config: Config) -> str:
    """Return the path of the corpus; several are separated by commas."""
    path = config.corpus.path or ""
    return path if isinstance(path, str) else ", ".join(path)


def print_skipped(errors: list[str]) -> None:
    """Print the errors of skipped messages on standard error, at most three of them."""
    print_notices([f"skipped: {error}" for error in errors], "skipped {} more messages")


def print_notices(lines: Sequence[str], summary: str = "{} more notices") -> None:
    """Print at most three lines, and the number of the others."""
    for line in lines[:_MAX_NOTICES]:
        options.notify(line)
    if len(lines) > _MAX_NOTICES:
        options.notify(summary.format(len(lines) - _MAX_NOTICES))


# The configuration key of each option.
OPTION_KEYS = {
    "label_column": "corpus.label_column",
    "text_column": "corpus.text_column",
    "delimiter": "corpus.delimiter",
    "skip": "corpus.skip",
    "limit": "corpus.limit",
    "order": "corpus.order",
    "on_error": "corpus.on_error",
    "intervals": "evaluate.intervals",
    "out": "output.folder",
    "save_to": "output.model",
    "jobs": "jobs",
}


def make_config(
    targets: Sequence[str],
    config_file: str | None,
    settings: tuple[str, ...],
    option_values: dict[str, Any],
) -> Config:
    """Return the configuration of a command.

    Parameters
    ----------
    targets
        Corpora, or one YAML file.
    config_file
        The argument of --config.
    settings
        The arguments of --set.
    option_values
        Values of the other options, None if not given; those without a key are ignored.
    """
    from streamnb.config import build
    from streamnb.config.sections import assign_key

    yaml_file = next((name for name in targets if name.lower().endswith((".yaml", ".yml"))), None)
    if yaml_file is not None:
        if config_file is not None:
            raise ConfigError(
                f"--config {config_file}: {yaml_file} is a configuration too; give only one"
            )
        if len(targets) > 1:
            raise ConfigError(
                f"{yaml_file} is a configuration and not a corpus; pass it as --config {yaml_file}"
            )
        config_file, targets = yaml_file, ()
    data: dict[str, Any] = {}
    if config_file is not None or settings:
        from streamnb.config.yaml_files import read_yaml, resolve_paths, set_key

        data = read_yaml(config_file) if config_file is not None else {}
    if config_file is not None and not targets:
        resolve_paths(data, "corpus", ("path",), config_file)
        resolve_paths(data, "spark", ("input",), config_file)
    values = {key: option_values.get(name) for name, key in OPTION_KEYS.items()}
    values = {key: value for key, value in values.items() if value is not None}
    if targets:
        values["corpus.path"] = targets[0] if len(targets) == 1 else list(targets)
    for key, value in values.items():
        with suppress(ValueError):  # `build` raises the error for a section without keys
            assign_key(data, key, value)
    for assignment in settings:
        set_key(data, assignment)
    config = build(data, config_file or "configuration")
    _check_outputs(config, config_file)
    return config


def _check_outputs(config: Config, config_file: str | None) -> None:
    """Raise ConfigError if the results of a run would replace its corpus or configuration."""
    outputs = [config.output.model]
    if config.output.folder is not None:
        from streamnb.evaluate.result_files import RESULT_FILES

        outputs += [os.path.join(config.output.folder, name) for name in RESULT_FILES]
    path = config.corpus.path
    options.check_outputs(
        outputs, [config_file, *([path] if isinstance(path, str) else path or ())]
    )


def _run_sweep(config: Config, as_json: bool, quiet: bool) -> None:
    """Replay each setting of a sweep, and print the ranking."""
    from streamnb.replay.sweep import count_settings, sweep

    no_progress = as_json or quiet or not sys.stderr.isatty()
    results = sweep(config) if no_progress else _with_progress(config, sweep)
    if as_json:
        click.echo(json.dumps([result.as_dict() for result in results]))
    elif not quiet:
        console = new_console()
        is_grid = isinstance(config.sweep, dict)
        keys = list(config.sweep) if is_grid else ["setting"]
        table = new_table("", *keys, "(1-ROCA)%", "accuracy", "log loss", "")
        for rank, result in enumerate(results, 1):
            summary = result.report.summary
            values = result.settings.values() if is_grid else [result.settings or "unchanged"]
            figures = [
                "" if figure is None else f"{figure:{spec}}"
                for figure, spec in (
                    (summary.one_minus_roca_percent, ".4f"),
                    (summary.accuracy, ".2%"),
                    (summary.log_loss, ".4f"),
                )
            ]
            note = result.report.problem or ("interrupted" if result.report.interrupted else "")
            figures.append(printable(str(note)))
            table.add_row(
                f"{rank}", *(printable(_format_value(value)) for value in values), *figures
            )
        console.print(table)
    print_skipped(results[0].report.skipped if results else [])
    notices = [line for result in results for line in result.report.not_written]
    print_notices(notices, "{} more files were not written")
    was_interrupted = any(result.report.interrupted for result in results)
    if len(results) < count_settings(config) or was_interrupted:
        options.notify(_INTERRUPTED)
        sys.exit(130)


def _format_value(value: Any) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_format_value(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_format_value, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value}"


def _with_progress(config: Config, run: Callable[[Config, OnStep], Result]) -> Result:
    start = time.monotonic()
    extra = "{task.fields[rate]:,.0f}/s  accuracy {task.fields[accuracy]:.2%}"
    text = "{task.completed:,.0f} messages"
    with progress_bar(True, text, extra, rate=0.0, accuracy=0.0) as draw:

        def on_step(metrics: RunningMetrics, total: int | None) -> None:
            if metrics.messages % 64 == 0:
                rate = metrics.messages / (time.monotonic() - start)
                draw(total=total, completed=metrics.messages, rate=rate, accuracy=metrics.accuracy)

        return run(config, on_step)


def _run_rows(report: Report) -> list[tuple[str, str]]:
    rows = [
        ("features", f"{report.features:,}"),
        ("time", f"{report.seconds:.2f} s, {report.messages_per_second:,.0f} messages a second"),
        ("peak memory", f"{report.peak_memory_bytes / 1e6:,.0f} MB"),
    ]
    if report.learned != report.summary.messages:
        rows.append(("labels learned", f"{report.learned:,}"))
    if report.skipped:
        rows.append(("skipped", f"{message_count(len(report.skipped))}, unreadable"))
    return rows
