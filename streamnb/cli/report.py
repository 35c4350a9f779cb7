"""`streamnb report`."""

from __future__ import annotations

import os

import click


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
    from streamnb.errors import ConfigError
    from streamnb.pictures import write_report

    of_run = os.path.realpath(os.path.dirname(path) or ".") in map(os.path.realpath, runs)
    if of_run and os.path.exists(path) and not path.endswith((".html", ".htm")):
        raise ConfigError(f"{path}: it is a file of that run; name another one")
    write_report(list(runs), path)
    if path != "-":
        click.echo(path)
