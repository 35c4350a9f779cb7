"""`streamnb replay`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streamnb.cli.options import on_error_option, plot_option, set_option, notify
from streamnb.cli.tables import new_console, new_table, progress_bar
from streamnb.errors import ConfigError, printable

if TYPE_CHECKING:
    from rich.table import Table

    from streamnb.config import Config
    from streamnb.evaluate import Summary, Tally
    from streamnb.replay.run import OnStep, Report

Found = TypeVar("Found")


@click.command()
@click.argument("target")
@click.option(
    "--config", "config_file", metavar="FILE", help="YAML file with the settings for TARGET."
)
@set_option("model.alpha=0.1")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N messages.")
@click.option("--order", metavar="ORDER", help="indexed, name, date, shuffled or shuffled:SEED.")
@click.option(
    "--jobs", type=click.IntRange(1, 256), metavar="N", help="Read and tokenise in N processes."
)
@click.option(
    "--out",
    metavar="DIR",
    help="Write results.txt, checkpoints.jsonl, summary.json, tokens.json, config.yaml.",
)
@plot_option("the figures")
@on_error_option
@click.option(
    "--intervals/--no-intervals",
    default=None,
    help="Work out 95 % intervals by resampling, or save the time.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--details", is_flag=True, help="Print also how far probabilities can be trusted.")
@click.option(
    "--save",
    "save_to",
    metavar="FILE",
    help="Write the trained model, with its tokenizer, to FILE.",
)
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def replay(
    target: str,
    config_file: str | None,
    settings: tuple[str, ...],
    as_json: bool,
    details: bool,
    quiet: bool,
    plot: str | None,
    **options: Any,
) -> None:
    """Replay TARGET, a corpus or a YAML file: classify each message, then learn it.

    A corpus is a TREC index or the folder it lies in, one folder of messages for each class, an
    mbox, a Maildir, lines of label<TAB>text, or CSV. Which it is, is found out and told.

    \b
    Examples:
      streamnb replay corpora/sample
      streamnb replay mail/ --order date --set model.alpha=0.1 --out run
      streamnb replay configs/sample.yaml --json

    Exit status: 0 done, 2 wrong option or configuration, 3 the corpus cannot be read, 5 results
    cannot be written, 130 interrupted (what was measured until then is reported).
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.replay.run import replay as run

    config = configured(target, config_file, settings, options)
    plain = as_json or quiet or not sys.stderr.isatty()
    if config.sweep:
        for name, given in (("--plot", plot is not None), ("--details", details)):
            if given:
                raise ConfigError(f"{name}: not of a sweep; replay one of its settings")
        _sweep(config, plain, as_json, quiet)
        return
    with _folder_to_draw(config, plot) as config:
        report = run(config) if plain else _with_progress(config, run)
        if plot is not None:
            _draw(config, report, plot)
    if as_json:
        click.echo(json.dumps(report.as_dict()))
    elif not quiet:
        title = f"{report.config.corpus.path}: {report.corpus}"
        print_summary(title, report.summary, _of_run(report), details)
    tell_skipped(report.skipped)
    _tell_first(report.left, "{} more were left alone")
    if report.interrupted:
        notify("interrupted; the figures are of the messages until then")
        sys.exit(130)


@contextmanager
def _folder_to_draw(config: Config, plot: str | None) -> Iterator[Config]:
    """The configuration of a run that writes its results somewhere if it is to be drawn."""
    if plot is None or config.output.folder is not None:
        yield config
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as scratch:
        output = config.output.but(folder=scratch)
        yield config.but(output=output)


def _draw(config: Config, report: Report, plot: str) -> None:
    """Draw a run; one that was interrupted never in place of what was there before it."""
    from streamnb.pictures import draw_run

    folder = config.output.folder or ""
    if report.interrupted and (
        report.left or os.path.exists(plot) or not os.path.exists(f"{folder}/summary.json")
    ):
        report.left.append(f"{plot}: not drawn: the run was interrupted")
    else:
        draw_run(folder, config.corpus.path or "", plot)


def tell_skipped(lines: list[str]) -> None:
    """Say which messages were left out, and why: the first of them."""
    _tell_first([f"skipped: {line}" for line in lines], "skipped {} more messages")


def _tell_first(lines: list[str], more: str) -> None:
    for line in lines[:3]:
        notify(line)
    if len(lines) > 3:
        notify(more.format(len(lines) - 3))


# Where the value of each option goes.
_KEYS = {
    "limit": ("corpus", "limit"),
    "order": ("corpus", "order"),
    "on_error": ("corpus", "on_error"),
    "intervals": ("evaluate", "intervals"),
    "out": ("output", "folder"),
    "save_to": ("output", "model"),
    "jobs": ("jobs",),
}


def configured(
    target: str, config_file: str | None, settings: tuple[str, ...], options: dict[str, Any]
) -> Config:
    """The configuration that options and a YAML file make."""
    from streamnb.config import build

    if target.lower().endswith((".yaml", ".yml")):
        if config_file is not None:
            raise ConfigError(f"--config {config_file}: {target} is a configuration already")
        config_file, target = target, ""
    data: dict[str, Any] = {}
    if config_file is not None or settings:
        from streamnb.config.yaml_files import read_yaml, resolve_paths, set_key

        data = read_yaml(config_file) if config_file is not None else {}
    if config_file is not None and not target:
        resolve_paths(data, "corpus", ("path",), config_file)
    given = {_KEYS[name]: value for name, value in options.items() if value is not None}
    if target:
        given["corpus", "path"] = target
    for (*sections, last), value in given.items():
        section = data
        for name in sections:
            if section.get(name) is None:  # also where the file has only the section's name
                section[name] = {}
            section = section[name]
        if isinstance(section, dict):  # else the file is wrong there, which is said below
            section[last] = value
    for assignment in settings:
        set_key(data, assignment)
    return build(data, config_file or "configuration")


def _sweep(config: Config, plain: bool, as_json: bool, quiet: bool) -> None:
    from streamnb.replay.sweep import settings_of, sweep

    ranked = sweep(config) if plain else _with_progress(config, sweep)
    if as_json:
        click.echo(json.dumps([one.as_dict() for one in ranked]))
    elif not quiet:
        console = new_console()
        grid = isinstance(config.sweep, dict)
        keys = list(config.sweep) if grid else ["setting"]
        table = new_table("", *keys, "(1-ROCA)%", "accuracy", "log loss", "")
        for place, one in enumerate(ranked, 1):
            summary = one.report.summary
            values = one.settings.values() if grid else [one.settings or "as it stands"]
            figures = [
                "" if figure is None else f"{figure:{form}}"
                for figure, form in (
                    (summary.one_minus_roca_percent, ".4f"),
                    (summary.accuracy, ".2%"),
                    (summary.log_loss, ".4f"),
                )
            ]
            note = one.report.trouble or ("interrupted" if one.report.interrupted else "")
            figures.append(printable(str(note)))
            table.add_row(f"{place}", *(printable(_plain(value)) for value in values), *figures)
        console.print(table)
    tell_skipped(ranked[0].report.skipped[:3] if ranked else [])
    _tell_first([line for one in ranked for line in one.report.left], "{} more were left alone")
    if len(ranked) < settings_of(config) or any(one.report.interrupted for one in ranked):
        notify("interrupted; the figures are of the messages until then")
        sys.exit(130)


def _plain(value: Any) -> str:
    """A value as YAML has it, on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_plain(of)}" for key, of in value.items())
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_plain, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value}"


def _with_progress(config: Config, run: Callable[[Config, OnStep], Found]) -> Found:
    import time

    began = time.monotonic()
    more = "{task.fields[rate]:,.0f}/s  accuracy {task.fields[accuracy]:.2%}"
    with progress_bar("{task.completed:,.0f} messages", more, rate=0.0, accuracy=0.0) as draw:

        def on_step(tally: Tally, total: int | None) -> None:
            if tally.messages % 64 == 0:
                done, rate = tally.messages, tally.messages / (time.monotonic() - began)
                draw(total=total, completed=done, rate=rate, accuracy=tally.accuracy)

        return run(config, on_step)


def print_summary(
    title: str, summary: Summary, more: list[tuple[str, str]], details: bool = False
) -> None:
    """Print the figures of a run, and more lines of names and values."""
    from rich.table import Table

    console = new_console()
    console.print(printable(title), soft_wrap=True)
    figures = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    figures.add_column(style="dim")
    figures.add_column(justify="right")
    for name, value in (*_figures(summary), *more):
        figures.add_row(name, value)
    console.print(figures)
    if summary.classes:
        console.print("", _class_table(summary))
    if len(summary.classes) > 2:
        console.print("", _confusion_table(summary))
    if details and summary.reliability:
        console.print("", _reliability_table(summary))


def _class_table(summary: Summary) -> Table:
    """How well each class was told; with two classes, also what each was taken for."""
    given: list[str] = []
    if len(summary.classes) <= 2:
        given = list(dict.fromkeys(chain(summary.classes, *summary.confusion.values())))
    titles = [f"as {printable(name)}" for name in given]
    table = new_table("class", "messages", "precision", "recall", "F1", *titles)
    for name, of in summary.classes.items():
        figures = [f"{of.messages:,}", f"{of.precision:.2%}", f"{of.recall:.2%}", f"{of.f1:.2%}"]
        taken = [f"{summary.confusion.get(name, {}).get(other, 0):,}" for other in given]
        table.add_row(printable(name), *figures, *taken)
    return table


def _confusion_table(summary: Summary, most: int = 20) -> Table:
    """What each class (rows) was taken for (columns), the largest classes."""
    largest = sorted(summary.classes, key=lambda name: -summary.classes[name].messages)[:most]
    columns = [*largest, "?"] if any("?" in row for row in summary.confusion.values()) else largest
    table = new_table("taken for", *(printable(name[:8]) for name in columns))
    for name in largest:
        row = summary.confusion.get(name, {})
        table.add_row(printable(name[:20]), *(f"{row.get(other, 0):,}" for other in columns))
    return table


def _reliability_table(summary: Summary) -> Table:
    """What probabilities were claimed, and how often it was so."""
    what = f"P({summary.positive})" if summary.one_minus_roca_percent is not None else "P(class)"
    table = new_table(printable(what), "messages", "mean", "came true")
    for one in summary.reliability:
        bounds = f"{one.low:.1f} to {one.high:.1f}"
        table.add_row(bounds, f"{one.messages:,}", f"{one.claimed:.3f}", f"{one.true:.3f}")
    return table


def _figures(summary: Summary) -> list[tuple[str, str]]:
    rows = [("messages", f"{summary.messages:,}")]
    if summary.accuracy is not None:
        rows.append(("accuracy", _with_interval(summary, "accuracy", 100, ".2f", " %")))
    if summary.kappa is not None:
        rows.append(("kappa, temporal", f"{summary.kappa:.4f}, {summary.kappa_temporal:.4f}"))
    if summary.log_loss is not None:
        rows.append(("log loss", _with_interval(summary, "log_loss", 1, ".4f")))
        errors = f"{summary.brier:.4f}, {summary.expected_calibration_error:.4f}"
        rows.append(("Brier, calibration error", errors))
    if summary.one_minus_roca_percent is not None:
        at = (
            summary.sm_at_hm_0_1_percent,
            summary.sm_at_hm_0_5_percent,
            summary.sm_at_hm_1_percent,
        )
        own = (summary.hm_percent, summary.sm_percent, summary.lam_percent)
        rows += [
            ("(1-ROCA)%", _with_interval(summary, "one_minus_roca_percent", 1, ".4f")),
            ("sm% at hm% = .1, .5, 1", ", ".join(f"{figure:.2f}" for figure in at)),
            ("hm%, sm%, lam%", ", ".join(f"{figure:.2f}" for figure in own)),
            ("positive class", f"{summary.positive}"),
        ]
    elif summary.macro_f1 is not None and len(summary.classes) > 2:
        macro = (summary.macro_precision, summary.macro_recall, summary.macro_f1)
        figures = ", ".join(f"{of:.2%}" for of in macro if of is not None)
        rows.append(("macro precision, recall, F1", figures))
    return rows


def _of_run(report: Report) -> list[tuple[str, str]]:
    rows = [
        ("features", f"{report.features:,}"),
        ("time", f"{report.seconds:.2f} s, {report.messages_per_second:,.0f} messages a second"),
        ("peak memory", f"{report.peak_memory_bytes / 1e6:,.0f} MB"),
    ]
    if report.learned != report.summary.messages:
        rows.append(("labels learned", f"{report.learned:,}"))
    if report.skipped:
        rows.append(("skipped", f"{len(report.skipped):,} unreadable messages"))
    return rows


def _with_interval(summary: Summary, name: str, times: float, form: str, unit: str = "") -> str:
    """A figure and its 95 % interval."""
    text = f"{times * getattr(summary, name):{form}}{unit}"
    if name not in summary.intervals:
        return text
    low, high = summary.intervals[name]
    return f"{text}  (95 %: {times * low:{form}} to {times * high:{form}})"
