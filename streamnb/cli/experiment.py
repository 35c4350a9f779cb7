"""The command `streamnb experiment`."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from typing import TYPE_CHECKING

import click

from streamnb.cli import options
from streamnb.cli.tables import new_console, new_table, progress_bar
from streamnb.errors import ConfigError, abbreviate, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from streamnb.config.experiment import ExperimentConfig
    from streamnb.tables.experiment import Experiment, ModelResult, QueryAnswer

_MAX_LISTED = 20  # most rows or classes that a table lists one by one


@click.command()
@click.argument("config_file", metavar="CONFIG")
@options.set_option("splits.seed=2")
@click.option("--out", metavar="DIR", help="Write experiment.json, config.yaml and rows.csv.")
@options.plot_option("the figures")
@options.json_object_option
@options.quiet_option
def experiment(
    config_file: str,
    settings: tuple[str, ...],
    out: str | None,
    plot: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Compare models on splits of a table.

    CONFIG is a YAML file that names the table, the models and the splits. All models learn and test
    the same rows. Splits are random, stratified by class, or prequential (each row is classified,
    then learned). With splits of the kind none, models learn all rows and answer the queries. For a
    learning curve, give several fractions of rows to test.

    \b
    Examples:
      streamnb experiment configs/experiments/weather.yaml
      streamnb experiment configs/experiments/wheat.yaml --out wheat --plot wheat.svg
      streamnb experiment configs/experiments/digits.yaml --set splits.trials=10 --json

    Exit status: 0 success, 2 wrong option or configuration, 3 the table cannot be read, 5 results
    cannot be written, 130 interrupted (the results until then are reported).
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.tables.experiment import run
    from streamnb.tables.experiment.run import RESULT_FILES, make_folder, write_experiment

    config = _read_config(config_file, settings)
    if out is not None:
        paths = getattr(config.data, "path", ())
        options.check_outputs(
            [os.path.join(out, name) for name in RESULT_FILES],
            [config_file, *([paths] if isinstance(paths, str) else paths)],
        )
        make_folder(out)
    text = "{task.completed:,.0f} of {task.total:,.0f} trials"
    try:
        with progress_bar(not (as_json or quiet), text, total=1, auto_refresh=True) as draw:
            result = run(config, lambda done, total: draw(total=total, completed=done))
    except ConfigError as error:
        raise ConfigError(f"{config_file}: {error}") from None
    for note in result.notes:
        options.notify(note)
    options.notify_doubtful_labels(Counter(result.labels))
    if out is not None:
        write_experiment(result, config, out)
    if plot is not None:
        from streamnb.pictures import draw_experiment

        options.notify_missing_letters(plot, draw_experiment(result.as_dict(), plot))
    if as_json:
        click.echo(json.dumps(result.as_dict()))
    elif not quiet:
        _print(result)
    if result.interrupted:
        options.notify("interrupted: the figures cover the trials completed so far")
        sys.exit(130)


def _read_config(config_file: str, settings: tuple[str, ...]) -> ExperimentConfig:
    from streamnb.config.experiment import build_experiment
    from streamnb.config.yaml_files import read_yaml, resolve_paths, set_key

    data = read_yaml(config_file)
    resolve_paths(data, "data", ("path", "images", "labels"), config_file)
    for assignment in settings:
        set_key(data, assignment)
    return build_experiment(data, config_file)


def _print(result: Experiment) -> None:
    """Print the tables of a result that are small enough for a terminal."""
    console = new_console()
    shape = f"{result.rows:,} rows, {result.features:,} features, {len(result.classes)} classes"
    splits = "" if result.kind == "none" else f"; {result.kind} splits"
    console.print(printable(f"{result.name}: {shape}{splits}"), soft_wrap=True)
    for answer in result.answers:
        console.print()
        _print_answer(answer, console)
    if result.kind == "none":
        return
    console.print()
    _print_points(result, console)
    console.print()
    _print_times(result, console)
    models = list(result.models.values())
    has_one_fraction = models and len({point.test for point in models[0].points}) == 1
    if has_one_fraction:
        if models[0].points[-1].tested <= _MAX_LISTED:
            console.print("", _histogram_table(result))
        if result.rows <= _MAX_LISTED:
            console.print("", _rows_table(result))
    if 2 < len(result.classes) <= _MAX_LISTED:
        for name, model in result.models.items():
            console.print("", _confusion_table(name, model))


def _print_answer(answer: QueryAnswer, console: Console) -> None:
    query = ", ".join(f"{name} {value}" for name, value in answer.question.items())
    console.print(printable(query or "a row without values"), soft_wrap=True)
    table = new_table("", "class", "prior x likelihood", "probability")
    for name, likelihoods in answer.likelihoods.items():
        for label, likelihood in likelihoods.items():
            probability = answer.probabilities[name][label]
            table.add_row(
                abbreviate(name), abbreviate(label), f"{likelihood:.4g}", f"{probability:.2%}"
            )
    console.print(table)


def _print_points(result: Experiment, console: Console) -> None:
    model_points = [model.points for model in result.models.values()]
    if not model_points or not model_points[0]:
        return
    table = new_table("tested", "rows", "trials", *map(abbreviate, result.models))
    first_points = model_points[0]
    step = max(1, len(first_points) // 10)
    indices = [*range(0, len(first_points) - 1, step), len(first_points) - 1]
    for i in indices:
        first = first_points[i]
        cells = [f"{points[i].mean:.2%} ± {points[i].sd:.2%}" for points in model_points]
        table.add_row(f"{first.test:.1%}", f"{first.tested:,}", f"{first.trials:,}", *cells)
    console.print(table)
    if len(indices) < len(first_points):
        console.print(f"({len(first_points)} fractions were tested; --out writes all of them)")


def _print_times(result: Experiment, console: Console) -> None:
    models = result.models
    if not any(model.points for model in models.values()):
        return
    table = new_table("mean of a trial", *map(abbreviate, models))
    for title, key in (("fit", "fit_seconds"), ("predict", "predict_seconds")):
        table.add_row(title, *(f"{1e6 * getattr(model, key):,.0f} µs" for model in models.values()))
    console.print(table)


def _histogram_table(result: Experiment) -> Table:
    """Return a table with the accuracies of trials and the frequency of each."""
    table = new_table("accuracy", *map(abbreviate, result.models))
    accuracies = [model.points[-1].accuracies for model in result.models.values()]
    for value in sorted({round(accuracy, 6) for values in accuracies for accuracy in values}):
        cells = []
        for values in accuracies:
            frequency = sum(round(accuracy, 6) == value for accuracy in values) / len(values)
            cells.append(f"{'█' * round(40 * frequency)} {frequency:.1%}")
        table.add_row(f"{value:.0%}", *cells)
    for column in table.columns[1:]:
        column.justify = "left"
    return table


def _rows_table(result: Experiment) -> Table:
    """Return a table with the number of misclassifications of each row."""
    titles = [f"{abbreviate(name)}: wrong" for name in result.models]
    table = new_table("row", "class", *titles)
    for i in range(result.rows):
        cells = []
        for model in result.models.values():
            wrong, tested = model.wrong[i], model.tested[i]
            cells.append(f"{wrong:,} of {tested:,} ({wrong / tested if tested else 0.0:.0%})")
        table.add_row(f"{i + 1}", abbreviate(result.labels[i]), *cells)
    return table


def _confusion_table(name: str, model: ModelResult) -> Table:
    """Return a table with the fractions of predicted classes for each true class."""
    classes = list(model.confusion)
    table = new_table(f"{abbreviate(name)} took", *(abbreviate(label, 8) for label in classes))
    for true_label, row in model.confusion.items():
        total = sum(row.values()) or 1
        cells = [f"{row[label] / total:.1%}" if row[label] else "" for label in classes]
        table.add_row(abbreviate(true_label, 20), *cells)
    return table
