"""Tables as the commands print them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def new_console() -> Console:
    """Standard output, without colours that mean nothing and without markup."""
    from rich.console import Console

    # Wider than any table: a terminal wraps long lines, where rich would leave figures out.
    return Console(highlight=False, markup=False, emoji=False, width=10_000)


def new_table(*titles: str) -> Table:
    """A plain table: the first column to the left, the others to the right."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for number, title in enumerate(titles):
        table.add_column(title, justify="right" if number else "left", no_wrap=True)
    return table
