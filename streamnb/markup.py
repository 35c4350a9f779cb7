"""HTML of results for notebooks. All text is escaped: tokens and labels come from mail."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

__all__ = ["Html", "TintedCell", "html_table", "tint_text"]

_TINTS = {True: "0,120,60", False: "190,60,30"}  # red, green, blue of evidence for and against
_FULL_TINT = 4.0  # nats of log-odds with the darkest tint
_MAX_OPACITY = 0.4  # opacity at which both black and white text are readable


class Html(str):
    """HTML that a notebook shows as a page, not as a text."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(self)


class TintedCell(str):
    """Text with a background that shows evidence.

    Parameters
    ----------
    text
        The text.
    log_odds
        The evidence. Negative values are also underlined, because colour must not be the only sign.
    """

    log_odds: float

    def __new__(cls, text: str, log_odds: float) -> TintedCell:
        """Return the text with its evidence."""
        tinted = super().__new__(cls, text)
        tinted.log_odds = log_odds
        return tinted


def _span(text: TintedCell) -> str:
    opacity = _MAX_OPACITY * min(abs(text.log_odds) / _FULL_TINT, 1.0)
    line = "" if text.log_odds >= 0 else ";text-decoration:underline dotted"
    colour = f"rgba({_TINTS[text.log_odds >= 0]},{opacity:.2f})"
    return f'<span style="background:{colour}{line}">{escape(text)}</span>'


def tint_text(text: str, evidence: Mapping[str, float]) -> str:
    """Return a text as HTML, in which words have the tint of their log-odds.

    Examples
    --------
    >>> tint_text("Free <b>", {"free": 4.0})
    '<span style="background:rgba(0,120,60,0.40)">Free</span> &lt;b&gt;'
    """
    words = sorted(filter(None, evidence), key=len, reverse=True)  # "free offer" before "free"
    if not words:
        return escape(text)
    pattern = rf"(?<!\w)({'|'.join(map(re.escape, words))})(?!\w)"
    pieces = re.split(pattern, text, flags=re.IGNORECASE)
    for i in range(1, len(pieces), 2):
        log_odds = evidence.get(pieces[i], evidence.get(pieces[i].casefold()))
        pieces[i] = (
            escape(pieces[i]) if log_odds is None else _span(TintedCell(pieces[i], log_odds))
        )
    pieces[::2] = map(escape, pieces[::2])
    return "".join(pieces)


def _cell(value: object) -> str:
    if isinstance(value, TintedCell):
        return f"<td>{_span(value)}</td>"
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
