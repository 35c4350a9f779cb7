"""`streamnb report`."""

from __future__ import annotations

import click

__all__ = ["report"]


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "-o",
    "--output",
    "path",
    default="report.html",
    show_default=True,
    metavar="FILE",
    help="The page; - for standard output.",
)
def report(runs: tuple[str, ...], path: str) -> None:
    """Write a page of pictures about RUNs: folders that `replay` or `experiment` wrote with --out.

    One file that fetches nothing: accuracy over the stream, errors at every threshold, reliability,
    confusion, telling tokens, learning curves, histograms; and runs over one stream side by side.

    \b
    Examples:
      streamnb replay corpora/sample --out run
      streamnb experiment configs/experiments/weather.yaml --out weather
      streamnb report run weather -o report.html

    Exit status: 0 done, 2 wrong option, 3 a run cannot be read, 5 the page cannot be written.
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.pictures import write_report

    write_report(list(runs), path)
    if path != "-":
        click.echo(path)
