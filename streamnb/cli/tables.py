"""Tables and progress bars of the commands, and the tables of a run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

from streamnb.errors import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from streamnb.evaluate import Summary

_REDRAW_INTERVAL_S = 0.1


def new_console() -> Console:
    """Return a console for standard output without markup and automatic colours."""
    from rich.console import Console

    # Wider than any table: the terminal wraps long lines, but rich would omit cells.
    return Console(highlight=False, markup=False, emoji=False, width=10_000)


@contextmanager
def progress_bar(
    is_wanted: bool, text: str, extra_text: str = "", auto_refresh: bool = False, **task: Any
) -> Iterator[Callable[..., None]]:
    """Show a progress bar on standard error; yield a function that updates it.

    Parameters
    ----------
    is_wanted
        Whether to show a bar if standard error is a terminal. Without a bar, the yielded function
        does nothing.
    text, extra_text
        Text before and after the bar, in rich's format: "{task.completed:,.0f} messages".
    auto_refresh
        Whether a thread redraws the bar. Without the thread, processes can be forked safely.
    task
        Initial fields of rich's task, such as `total`. The yielded function takes such fields, too,
        and redraws at most ten times a second.
    """
    if not (is_wanted and sys.stderr.isatty()):
        yield lambda **_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = [SpinnerColumn(), TextColumn(text, markup=False), BarColumn(bar_width=30)]
    if extra_text:
        columns.append(TextColumn(extra_text, markup=False))
    columns.append(TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, auto_refresh=auto_refresh) as bar:
        task_id = bar.add_task("", **{"total": None, **task})
        last_drawn = time.monotonic()

        def draw(**fields: Any) -> None:
            nonlocal last_drawn
            if time.monotonic() - last_drawn >= _REDRAW_INTERVAL_S:
                last_drawn = time.monotonic()
                bar.update(task_id, refresh=True, **fields)

        yield draw


def new_table(*titles: str) -> Table:
    """Return an empty table without lines: first column left-aligned, others right-aligned."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for index, title in enumerate(titles):
        table.add_column(title, justify="right" if index else "left", no_wrap=True)
    return table


def print_summary(
    title: str, summary: Summary, extra_rows: list[tuple[str, str]], details: bool = False
) -> None:
    """Print the figures of a run.

    Parameters
    ----------
    title
        First line.
    summary
        The figures.
    extra_rows
        Further names and values.
    details
        Whether to print the reliability table.
    """
    from rich.table import Table

    console = new_console()
    console.print(printable(title), soft_wrap=True)
    figures = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    figures.add_column(style="dim")
    figures.add_column(justify="right")
    for name, value in (*_figure_rows(summary), *extra_rows):
        figures.add_row(name, value)
    console.print(figures)
    if summary.classes:
        console.print("", _class_table(summary))
    if len(summary.classes) > 2:
        console.print("", _confusion_table(summary))
    if details and summary.reliability:
        console.print("", _reliability_table(summary))


def _class_table(summary: Summary) -> Table:
    """Return precision, recall and F1 of each class; with two classes also the confusion."""
    predicted: list[str] = []
    if len(summary.classes) <= 2:
        predicted = list(dict.fromkeys(chain(summary.classes, *summary.confusion.values())))
    titles = [f"as {printable(name)}" for name in predicted]
    table = new_table("class", "messages", "precision", "recall", "F1", *titles)
    for name in _largest_first(summary) if len(summary.classes) > 2 else summary.classes:
        row = summary.classes[name]
        figures = [
            f"{row.messages:,}",
            f"{row.precision:.2%}",
            f"{row.recall:.2%}",
            f"{row.f1:.2%}",
        ]
        counts_of_class = summary.confusion.get(name, {})
        counts = [f"{counts_of_class.get(column, 0):,}" for column in predicted]
        table.add_row(printable(name), *figures, *counts)
    return table


def _largest_first(summary: Summary) -> list[str]:
    """Return the classes, those with most messages first."""
    return sorted(summary.classes, key=lambda name: -summary.classes[name].messages)


def _confusion_table(summary: Summary, limit: int = 20) -> Table:
    """Return the true classes (rows) and predicted classes (columns), the largest classes."""
    largest = _largest_first(summary)[:limit]
    columns = [*largest, "?"] if any("?" in row for row in summary.confusion.values()) else largest
    table = new_table("predicted as", *(printable(name[:8]) for name in columns))
    for name in largest:
        row = summary.confusion.get(name, {})
        table.add_row(printable(name[:20]), *(f"{row.get(column, 0):,}" for column in columns))
    return table


def _reliability_table(summary: Summary) -> Table:
    """Return predicted probabilities and the fraction of messages for which they were true."""
    title = f"P({summary.positive})" if summary.one_minus_roca_percent is not None else "P(class)"
    table = new_table(printable(title), "messages", "mean", "came true")
    for row in summary.reliability:
        table.add_row(
            f"{row.low:.1f} to {row.high:.1f}",
            f"{row.messages:,}",
            f"{row.mean_probability:.3f}",
            f"{row.fraction_true:.3f}",
        )
    return table


def _figure_rows(summary: Summary) -> list[tuple[str, str]]:
    """Return the name and the text of each figure that is defined."""
    rows = [("messages", f"{summary.messages:,}")]
    if summary.accuracy is not None:
        rows.append(("accuracy", _format_figure(summary, "accuracy")))
    if summary.kappa is not None:
        rows.append(("kappa, temporal", f"{summary.kappa:.4f}, {summary.kappa_temporal:.4f}"))
    if summary.log_loss is not None:
        rows.append(("log loss", _format_figure(summary, "log_loss")))
        errors = f"{summary.brier:.4f}, {summary.expected_calibration_error:.4f}"
        rows.append(("Brier, calibration error", errors))
    if summary.one_minus_roca_percent is not None:
        miss_rates = (
            summary.sm_at_hm_0_1_percent,
            summary.sm_at_hm_0_5_percent,
            summary.sm_at_hm_1_percent,
        )
        error_rates = (summary.hm_percent, summary.sm_percent, summary.lam_percent)
        rows += [
            ("(1-ROCA)%", _format_figure(summary, "one_minus_roca_percent")),
            ("sm% at hm% = .1, .5, 1", ", ".join(f"{figure:.2f}" for figure in miss_rates)),
            ("hm%, sm%, lam%", ", ".join(f"{figure:.2f}" for figure in error_rates)),
            ("positive class", f"{summary.positive}"),
        ]
    elif summary.macro_f1 is not None and len(summary.classes) > 2:
        means = (summary.macro_precision, summary.macro_recall, summary.macro_f1)
        figures = ", ".join(f"{mean:.2%}" for mean in means if mean is not None)
        rows.append(("macro precision, recall, F1", figures))
    return rows


def _format_figure(summary: Summary, name: str) -> str:
    """Return a figure and its 95 % interval as text."""
    from streamnb.evaluate.outcomes import FIGURES

    figure = FIGURES[name]
    text = figure.format(getattr(summary, name))
    if name not in summary.intervals:
        return text
    low, high = (figure.format(bound).removesuffix(" %") for bound in summary.intervals[name])
    return f"{text}  (95 %: {low} to {high})"
