"""`streamnb compare`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from streamnb.cli.options import json_object_option, notify_missing_letters, plot_option
from streamnb.cli.tables import new_console, new_table
from streamnb.errors import message_count, printable

if TYPE_CHECKING:
    from streamnb.evaluate.compare import Comparison
    from streamnb.evaluate.outcomes import Figure, Interval


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...")
@click.option(
    "--positive", metavar="CLASS", help="The positive class, if the runs have different ones."
)
@plot_option("the accuracy of the runs, and their errors at each threshold")
@json_object_option
def compare(runs: tuple[str, ...], positive: str | None, plot: str | None, as_json: bool) -> None:
    """Compare RUNs over one stream: folders that `replay --out` wrote, or their results.txt.

    Each figure is printed with its 95 % interval, by a block bootstrap over time. Differences from
    the first run are computed message by message. A star marks a difference whose interval
    excludes zero.

    With more than two classes, log loss and Brier score are not compared, because results.txt has
    one score for each message. `replay` prints them for each run.

    results.txt may come from another program. Each line is `NAME judge=CLASS class=CLASS
    score=NUMBER`: true class, predicted class, and log-odds of the positive class (spam). If
    there is no positive class, the score is the log-odds of the predicted class.

    \b
    Examples:
      streamnb replay corpora/sample --out default
      streamnb replay corpora/sample --set model.kind=multinomial --out plain
      streamnb compare plain default

    Exit status: 0 success, 2 wrong option, 3 a run cannot be read, or has other messages.
    """  # noqa: D301 (\b is click's mark for preformatted lines)
    from streamnb.evaluate.compare import compare as compare_runs
    from streamnb.evaluate.compare import read_run

    if len(runs) < 2:
        raise click.UsageError("name at least two runs, such as folders that `replay --out` wrote")
    comparison = compare_runs([read_run(run, positive) for run in runs])
    if plot is not None:
        from streamnb.pictures import draw_comparison

        notify_missing_letters(plot, draw_comparison(list(runs), plot))
    if as_json:
        click.echo(json.dumps(comparison.as_dict()))
    else:
        _print_comparison(comparison)


def _print_comparison(comparison: Comparison) -> None:
    """Print the figures of each run, and the differences from the first run."""
    from streamnb.evaluate.outcomes import FIGURES

    console = new_console()
    console.print(message_count(comparison.messages), soft_wrap=True)
    for number, run in enumerate(comparison.runs, 1):
        console.print(printable(f"{number}  {run}"), soft_wrap=True)
    table = new_table("", *(f"{number}" for number in range(1, len(comparison.runs) + 1)))
    for name, values in comparison.figures.items():
        figure = FIGURES[name]
        cells = [
            f"{figure.format(value)} {_format_interval(figure, interval)}"
            for value, interval in zip(values, comparison.intervals[name], strict=True)
        ]
        table.add_row(figure.title, *cells)
    console.print("", table)
    numbers = range(2, len(comparison.runs) + 1)
    table = new_table("difference", *(f"{number} - 1" for number in numbers))
    for name, differences in comparison.differences.items():
        figure, cells = FIGURES[name], []
        for value, (low, high) in differences:
            star = " *" if low > 0 or high < 0 else "  "
            interval = _format_interval(figure, (low, high), "+")
            cells.append(f"{figure.format(value, '+')} {interval}{star}")
        better = "lower" if figure.lower_is_better else "higher"
        table.add_row(f"{figure.title} ({better} is better)", *cells)
    console.print("", table)


def _format_interval(figure: Figure, interval: Interval, sign: str = "") -> str:
    low, high = (figure.format(value, sign).removesuffix(" %") for value in interval)
    return f"[{low}, {high}]"
