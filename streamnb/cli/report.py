"""`streamnb report`."""

from __future__ import annotations

import os

import click

from streamnb.errors import ConfigError, printable


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "-o",
    "--output",
    "path",
    default="report.html",
    show_default=True,
    metavar="FILE",
    help="Write the page to FILE; - for standard output.",
)
def report(runs: tuple[str, ...], path: str) -> None:
    """Write a page of pictures about RUNs: folders that `replay` or `experiment` wrote with --out.

    The page is one HTML file that loads nothing from the network. It shows accuracy over the
    stream, errors at every threshold, reliability, confusion, top tokens, learning curves and
    histograms. Runs over one stream are also compared.

    \b
    Examples:
      streamnb replay corpora/sample --out run
      streamnb experiment configs/experiments/weather.yaml --out weather
      streamnb report run weather -o report.html

    Exit status: 0 success, 2 wrong option, 3 a run cannot be read, 5 the page cannot be written.
    """  # noqa: D301 (\b is click's mark for preformatted lines)
    from streamnb.pictures import write_report

    folder = os.path.realpath(os.path.dirname(path) or ".")
    is_in_run = folder in map(os.path.realpath, runs)
    if is_in_run and os.path.exists(path) and not path.endswith((".html", ".htm")):
        raise ConfigError(
            f"{path}: the run has a file of this name; choose another name for the page"
        )
    write_report(list(runs), path)
    if path != "-":
        click.echo(printable(path))
