"""HTML of results for notebooks. All text is escaped: tokens and labels come from mail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["Tinted", "html_table"]

_TINTS = {True: "0,120,60", False: "190,60,30"}  # red, green, blue of evidence for and against
_FULL_TINT = 4.0  # nats of log-odds with the darkest tint
_MAX_OPACITY = 0.4  # opacity at which both black and white text are readable


class Tinted(str):
    """Text with a background that shows evidence.

    Parameters
    ----------
    text
        The text.
    log_odds
        The evidence. Negative values are also underlined, because colour must not be the only sign.
    """

    log_odds: float

    def __new__(cls, text: str, log_odds: float) -> Tinted:
        """Return the text with its evidence."""
        tinted = super().__new__(cls, text)
        tinted.log_odds = log_odds
        return tinted


def _cell(value: object) -> str:
    if isinstance(value, Tinted):
        opacity = _MAX_OPACITY * min(abs(value.log_odds) / _FULL_TINT, 1.0)
        line = "" if value.log_odds >= 0 else ";text-decoration:underline dotted"
        colour = f"rgba({_TINTS[value.log_odds >= 0]},{opacity:.2f})"
        return f'<td><span style="background:{colour}{line}">{escape(value)}</span></td>'
    if isinstance(value, float):
        return f'<td style="text-align:right">{value:.4g}</td>'
    return f"<td>{escape(str(value))}</td>"


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with a caption; floats have four digits.

    Examples
    --------
    >>> html_table("A & B", ["x"], [["<i>"]])
    '<table><caption>A &amp; B</caption><tr><th>x</th></tr><tr><td>&lt;i&gt;</td></tr></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><tr>{head}</tr>{body}</table>"
