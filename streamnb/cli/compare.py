"""`streamnb compare`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from streamnb.cli.options import plot_option
from streamnb.cli.tables import new_console, new_table
from streamnb.errors import printable

if TYPE_CHECKING:
    from streamnb.evaluate.compare import Comparison
    from streamnb.evaluate.outcomes import Figure, Interval


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...")
@click.option("--positive", metavar="CLASS", help="The class that scores are for.")
@plot_option("them")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def compare(runs: tuple[str, ...], positive: str | None, plot: str | None, as_json: bool) -> None:
    """Compare runs over one stream: folders that `replay --out` wrote, or their results.txt.

    Figures have 95 % intervals by a block bootstrap over time; differences from the first run are
    paired, message by message. A star marks those whose interval excludes zero.

    \b
    Examples:
      streamnb replay corpora/sample --out default
      streamnb replay corpora/sample --set model.kind=multinomial --out plain
      streamnb compare plain default

    Exit status: 0 done, 2 wrong option, 3 a run cannot be read, or is over another stream.
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.evaluate.compare import compare as side_by_side
    from streamnb.evaluate.compare import read_run

    if len(runs) < 2:
        raise click.UsageError("two runs or more can be compared")
    found = side_by_side([read_run(run, positive) for run in runs])
    if plot is not None:
        from streamnb.pictures import draw_comparison

        draw_comparison(list(runs), plot)
    if as_json:
        click.echo(json.dumps(found.as_dict()))
    else:
        _print(found)


def _print(found: Comparison) -> None:
    from streamnb.evaluate.outcomes import FIGURES

    console = new_console()
    console.print(f"{found.messages:,} messages", soft_wrap=True)
    for number, run in enumerate(found.runs, 1):
        console.print(printable(f"{number}  {run}"), soft_wrap=True)
    table = new_table("", *(f"{number}" for number in range(1, len(found.runs) + 1)))
    for name, values in found.figures.items():
        of = FIGURES[name]
        cells = [
            f"{of.format(value)} {_bounds(of, bounds)}"
            for value, bounds in zip(values, found.intervals[name], strict=True)
        ]
        table.add_row(of.title, *cells)
    console.print("", table)
    others = range(2, len(found.runs) + 1)
    table = new_table("difference", *(f"{number} - 1" for number in others))
    for name, differences in found.differences.items():
        of, cells = FIGURES[name], []
        for value, (low, high) in differences:
            star = " *" if low > 0 or high < 0 else "  "
            cells.append(f"{of.format(value, '+')} {_bounds(of, (low, high), '+')}{star}")
        better = "lower" if of.lower_is_better else "higher"
        table.add_row(f"{of.title} ({better} is better)", *cells)
    console.print("", table)


def _bounds(of: Figure, bounds: Interval, sign: str = "") -> str:
    low, high = (of.format(value, sign).removesuffix(" %") for value in bounds)
    return f"[{low}, {high}]"
