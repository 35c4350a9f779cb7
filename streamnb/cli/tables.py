"""Tables and progress bars of the commands."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

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
