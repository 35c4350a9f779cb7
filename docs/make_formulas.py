"""A hook of mkdocs: show indices and powers of formulas as such, `n_cw` as n with the index cw."""

import re
from typing import Any

PAGES = (
    "model.md",
    "how-it-works.md",
    "explanation/default-by-hand.md",
    "explanation/run-by-hand.md",
)
# A symbol of one or two letters, or a Greek one, with its index; and a power.
INDEX = re.compile(r"\b([A-Za-z]{1,2}|slope|intercept|pi)_([a-z]{1,3})\b")
POWER = re.compile(r"(?<=[\w)>])\^(\(-?[\d/.]+\)|-?[\d/.]*\d|[a-z]\b)")
CODE = re.compile(r"(```.*?```|`[^`]*`|\]\([^)]*\))", re.S)


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """Return the text of a page with formulas in HTML (mkdocs calls this for each page)."""
    if page is not None and page.file.src_uri not in PAGES:
        return markdown
    pieces = CODE.split(markdown)
    pieces[::2] = map(format_formulas, pieces[::2])
    return "".join(pieces)


def format_formulas(text: str) -> str:
    """Return a text with its indices and powers as HTML.

    Examples
    --------
    >>> format_formulas("x_w log(n_cw + a) m^(2/3) and 2^-9")
    '<i>x</i><sub>w</sub> log(<i>n</i><sub>cw</sub> + a) m<sup>2/3</sup> and 2<sup>-9</sup>'
    >>> format_formulas("n_y^2 m^p")
    '<i>n</i><sub>y</sub><sup>2</sup> m<sup>p</sup>'
    """
    text = INDEX.sub(_format_index, text)
    return POWER.sub(lambda match: f"<sup>{match[1].strip('()')}</sup>", text)


def _format_index(match: re.Match[str]) -> str:
    symbol = "π" if match[1] == "pi" else match[1]
    return f"<i>{symbol}</i><sub>{match[2]}</sub>"
