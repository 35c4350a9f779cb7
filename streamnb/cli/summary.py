"""The figures of a run as tables in the terminal."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from streamnb.cli.tables import new_console, new_table
from streamnb.errors import printable

if TYPE_CHECKING:
    from rich.table import Table

    from streamnb.evaluate import Summary


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
