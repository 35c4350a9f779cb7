"""Tables as the commands print them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def new_console() -> Console:
    """Standard output, without colours that mean nothing and without markup."""
    from rich.console import Console

    # Wider than any table: a terminal wraps long lines, where rich would leave figures out.
    return Console(highlight=False, markup=False, emoji=False, width=10_000)


@contextmanager
def progress_bar(
    text: str, more: str = "", auto_refresh: bool = False, **task: Any
) -> Iterator[Callable[..., None]]:
    """A bar on standard error; what is given takes how far it is, and draws that now and then.

    Unless it is refreshed by a thread of its own, reading processes can be forked meanwhile.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = [SpinnerColumn(), TextColumn(text, markup=False), BarColumn(bar_width=30)]
    if more:
        columns.append(TextColumn(more, markup=False))
    columns.append(TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, auto_refresh=auto_refresh) as bar:
        shown = bar.add_task("", **{"total": None, **task})
        drawn = time.monotonic()

        def draw(**now: Any) -> None:
            nonlocal drawn
            if time.monotonic() - drawn >= 0.1:
                drawn = time.monotonic()
                bar.update(shown, refresh=True, **now)

        yield draw


def new_table(*titles: str) -> Table:
    """A plain table: the first column to the left, the others to the right."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for number, title in enumerate(titles):
        table.add_column(title, justify="right" if number else "left", no_wrap=True)
    return table
