"""Style of the pictures, and functions that write them.

The colours are those of Okabe and Ito (2008), which people with any colour vision can distinguish.
Each line also has its own dash pattern, for black and white.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamnb.errors import ConfigError, require_extra
from streamnb.storage import replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ["#000000", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]
DASHES: list[Any] = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (7, 3))]
_MISSING_LETTER = "Glyph .* missing"
_SUFFIXES = (".svg", ".pdf", ".png")
_DATELESS = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}  # files of equal pictures are equal

_STYLE = {
    "text.parse_math": False,  # a token can contain dollar signs
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
    "svg.fonttype": "none",  # text is not converted to outlines
    "pdf.fonttype": 42,  # TrueType, because many publishers refuse the default, Type 3
    "savefig.facecolor": "white",
}


def check_target(path: str, option: str = "") -> None:
    """Raise ConfigError if a picture cannot be written to this file, before the work begins.

    Errors begin with `option`.
    """
    target = Path(path)
    if target.suffix.lower() not in _SUFFIXES:
        raise ConfigError(f"{option}{path}: expected a name that ends in {', '.join(_SUFFIXES)}")
    if not target.parent.is_dir():
        raise ConfigError(f"{option}{path}: there is no folder {target.parent}")
    _matplotlib()


def _matplotlib() -> Any:
    with require_extra("plot", "pictures need matplotlib"):
        import matplotlib
    return matplotlib


@contextmanager
def apply_style() -> Iterator[None]:
    """Apply the style within a block, without changing the settings of the program."""
    matplotlib = _matplotlib()
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        # In an SVG, a browser takes a letter that matplotlib's font lacks from another font.
        warnings.filterwarnings("ignore", message=_MISSING_LETTER)
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return a figure of a size in inches, without a window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, path: str) -> bool:
    """Write a figure to a file, atomically; return whether it has boxes in place of letters.

    An SVG has none, because its viewer replaces fonts.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    kind = Path(path).suffix.lower().removeprefix(".")
    with replace_file(path, "the picture") as file, warnings.catch_warnings(record=True) as caught:
        if kind != "svg":
            warnings.filterwarnings("always", message=_MISSING_LETTER)
        figure.savefig(file, format=kind, dpi=150, metadata=_DATELESS.get(kind, {}))
    is_missing = [bool(re.match(_MISSING_LETTER, str(warning.message))) for warning in caught]
    for warning, is_letter in zip(caught, is_missing, strict=True):
        if not is_letter:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    return any(is_missing)


def as_svg(figure: Figure, name: str) -> str:
    """Return a figure as an SVG element; its ids are derived from `name`."""
    matplotlib = _matplotlib()
    out = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(out, format="svg", metadata=_DATELESS["svg"])
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    # The ids of groups repeat in all figures of a page, and nothing refers to them.
    return re.sub(r'(<g\b[^>]*?) id="[^"]*"', r"\1", svg)
