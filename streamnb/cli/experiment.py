"""`streamnb experiment`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from streamnb.cli.options import plot_option, set_option, notify
from streamnb.cli.tables import new_console, new_table, progress_bar
from streamnb.errors import ConfigError, printable, abbreviate

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from streamnb.config.experiment import ExperimentConfig
    from streamnb.tables.experiment.results import Answer, Experiment, ModelResult


@click.command()
@click.argument("config_file", metavar="CONFIG")
@set_option("splits.seed=2")
@click.option("--out", metavar="DIR", help="Write experiment.json, config.yaml, rows.csv.")
@plot_option("the figures")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def experiment(
    config_file: str,
    settings: tuple[str, ...],
    out: str | None,
    plot: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run the experiment that CONFIG, a YAML file, describes: models over splits of a table.

    Every model learns and tests the same rows: at random, stratified by class, or one row after the
    other. A learning curve tests many shares of the rows.

    \b
    Examples:
      streamnb experiment configs/experiments/weather.yaml
      streamnb experiment configs/experiments/wheat.yaml --out wheat --plot wheat.svg
      streamnb experiment configs/experiments/digits.yaml --set splits.trials=10 --json

    Exit status: 0 done, 2 wrong option or configuration, 3 the table cannot be read, 5 results
    cannot be written, 130 interrupted (what was measured until then is reported).
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.tables.experiment import run
    from streamnb.tables.experiment.result_files import make_folder, write_experiment

    config = _configured(config_file, settings)
    if out is not None:
        make_folder(out)
    plain = as_json or quiet or not sys.stderr.isatty()
    try:
        found = run(config) if plain else _with_progress(config)
    except ConfigError as error:
        raise ConfigError(f"{config_file}: {error}") from None
    if out is not None:
        write_experiment(found, config, out)
    if plot is not None:
        from streamnb.pictures import draw_experiment

        draw_experiment(found.as_dict(), plot)
    if as_json:
        click.echo(json.dumps(found.as_dict()))
    elif not quiet:
        _print(found)
    if found.interrupted:
        notify("interrupted; the figures are of the trials until then")
        sys.exit(130)


def _configured(config_file: str, settings: tuple[str, ...]) -> ExperimentConfig:
    from streamnb.config.experiment import build_experiment
    from streamnb.config.yaml_files import read_yaml, resolve_paths, set_key

    data = read_yaml(config_file)
    resolve_paths(data, "data", ("path", "images", "labels"), config_file)
    for assignment in settings:
        set_key(data, assignment)
    return build_experiment(data, config_file)


def _with_progress(config: ExperimentConfig) -> Experiment:
    from streamnb.tables.experiment import run

    text = "{task.completed:,.0f} of {task.total:,.0f} trials"
    with progress_bar(text, total=1, auto_refresh=True) as draw:
        return run(config, lambda done, total: draw(total=total, completed=done))


def _print(found: Experiment) -> None:
    console = new_console()
    shape = f"{found.rows:,} rows, {found.features:,} features, {len(found.classes)} classes"
    splits = "" if found.kind == "none" else f"; {found.kind} splits"
    console.print(printable(f"{found.name}: {shape}{splits}"), soft_wrap=True)
    for answer in found.answers:
        console.print()
        _print_answer(answer, console)
    if found.kind == "none":
        return
    console.print()
    _print_points(found, console)
    console.print()
    _print_times(found, console)
    results = list(found.models.values())
    if results and len(results[0].points) and len({point.test for point in results[0].points}) == 1:
        if results[0].points[-1].tested <= _FEW:
            console.print("", _histogram(found))
        if found.rows <= _FEW:
            console.print("", _rows_table(found))
    if 2 < len(found.classes) <= _FEW:
        for name, result in found.models.items():
            console.print("", _confusion_table(name, result))


_FEW = 20  # rows or classes that are abbreviate one by one


def _print_answer(answer: Answer, console: Console) -> None:
    asked = ", ".join(f"{name} {value}" for name, value in answer.question.items())
    console.print(printable(asked or "nothing known"), soft_wrap=True)
    table = new_table("", "class", "prior x likelihood", "probability")
    for name, likelihoods in answer.likelihoods.items():
        for label, likelihood in likelihoods.items():
            share = answer.probabilities[name][label]
            table.add_row(abbreviate(name), abbreviate(label), f"{likelihood:.4g}", f"{share:.2%}")
    console.print(table)


def _print_points(found: Experiment, console: Console) -> None:
    models = list(found.models)
    points = [result.points for result in found.models.values()]
    if not points or not points[0]:
        return
    table = new_table("tested", "rows", "trials", *map(abbreviate, models))
    step = max(1, len(points[0]) // 10)
    chosen = [*range(0, len(points[0]) - 1, step), len(points[0]) - 1]
    for i in chosen:
        first = points[0][i]
        cells = [f"{of[i].mean:.2%} ± {of[i].sd:.2%}" for of in points]
        table.add_row(f"{first.test:.1%}", f"{first.tested:,}", f"{first.trials:,}", *cells)
    console.print(table)
    if len(chosen) < len(points[0]):
        console.print(f"({len(points[0])} shares were tested; --out writes all of them)")


def _print_times(found: Experiment, console: Console) -> None:
    if not any(result.points for result in found.models.values()):
        return
    table = new_table("mean of a trial", *map(abbreviate, found.models))
    for title, key in (("fit", "fit_seconds"), ("predict", "predict_seconds")):
        table.add_row(title, *(f"{1e6 * getattr(of, key):,.0f} µs" for of in found.models.values()))
    console.print(table)


def _histogram(found: Experiment) -> Table:
    table = new_table("accuracy", *map(abbreviate, found.models))
    last = {name: result.points[-1].accuracies for name, result in found.models.items()}
    for value in sorted({round(x, 6) for of in last.values() for x in of}):
        cells = []
        for of in last.values():
            share = sum(round(x, 6) == value for x in of) / len(of)
            cells.append(f"{'█' * round(40 * share)} {share:.1%}")
        table.add_row(f"{value:.0%}", *cells)
    for column in table.columns[1:]:
        column.justify = "left"
    return table


def _rows_table(found: Experiment) -> Table:
    titles = [f"{abbreviate(name)}: wrong" for name in found.models]
    table = new_table("row", "class", *titles)
    for i in range(found.rows):
        cells = []
        for result in found.models.values():
            share = result.wrong[i] / result.tested[i] if result.tested[i] else 0.0
            cells.append(f"{result.wrong[i]:,} of {result.tested[i]:,} ({share:.0%})")
        table.add_row(f"{i + 1}", abbreviate(found.labels[i]), *cells)
    return table


def _confusion_table(name: str, result: ModelResult) -> Table:
    classes = list(result.confusion)
    table = new_table(f"{abbreviate(name)} took", *(abbreviate(one, 8) for one in classes))
    for true, row in result.confusion.items():
        whole = sum(row.values()) or 1
        cells = [f"{row[one] / whole:.1%}" if row[one] else "" for one in classes]
        table.add_row(abbreviate(true, 20), *cells)
    return table
