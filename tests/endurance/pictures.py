"""Draw the records of a year of mail: tests/endurance/pictures.py library.jsonl ... [--out FOLDER]

Each file gives one picture of its name. It shows, over the messages of a year, latencies, errors before
learning, the memory of the process, and the size of the model.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from streamnb.pictures.style import COLOURS, DASHES, apply_style, new_figure, save

SHARES = {"p50": "median", "p99": "99 %", "p999": "99.9 %", "worst": "worst"}


def latencies(axes: Axes, lines: list[dict[str, Any]], column: str, title: str) -> None:
    """Milliseconds by percentile."""
    timed = [line for line in lines if column in line]
    axes.set_visible(bool(timed))
    for (share, name), colour, dash in zip(SHARES.items(), COLOURS, DASHES, strict=False):
        axes.semilogy([line["messages"] for line in timed], [line[column][share] for line in timed],
                      color=colour, linestyle=dash, label=name, linewidth=1)  # fmt: skip
    axes.set_title(title)
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    axes.yaxis.set_minor_formatter(lambda *_: "")
    axes.set_ylabel("milliseconds")
    axes.legend(ncols=2, fontsize=7, loc="upper center")
    axes.margins(y=0.25)


def read(path: Path) -> list[dict[str, Any]]:
    """Read the records of a run; ValueError if there are none, or the file is something else."""
    lines = path.read_text().splitlines() if path.is_file() else []
    records = [json.loads(line) for line in lines]
    if not records or not all(isinstance(line, dict) and "messages" in line for line in records):
        raise ValueError
    return records


def drawn(path: Path, lines: list[dict[str, Any]], folder: Path) -> None:
    """Draw the picture of a run."""
    figure = new_figure(9, 6)
    (judge, learn), (errors, sizes) = figure.subplots(2, 2)
    latencies(judge, lines, "judge", "Judging a message")
    latencies(learn, lines, "learn", "Learning a message")
    message_numbers = [line["messages"] for line in lines]
    errors.plot(
        message_numbers, [100 * line["errors"] for line in lines], color=COLOURS[0], linewidth=1
    )
    errors.set_title("Errors")
    errors.set_ylabel("%")
    errors.set_ylim(bottom=0)
    for name, colour, dash in zip(("memory", "database", "table"), COLOURS, DASHES, strict=False):
        if name in lines[0]:
            sizes.plot(
                message_numbers,
                [line[name] for line in lines],
                color=colour,
                linestyle=dash,
                label=name,
            )
    sizes.set_title("Memory and size")
    sizes.set_ylabel("megabytes")
    sizes.set_ylim(bottom=0)
    sizes.legend()
    for axes in (judge, learn, errors, sizes):
        axes.set_xlabel("messages")
        axes.xaxis.set_major_formatter(
            lambda x, _: f"{x / 1e6:g} M" if x >= 1e6 else f"{x / 1e3:g} k"
        )
        axes.locator_params(axis="x", nbins=5)
    save(figure, str(folder / f"year-{path.stem}.svg"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("."))
    chosen = parser.parse_args()
    runs = []
    for path in chosen.files:
        try:
            runs.append((path, read(path)))
        except ValueError:
            parser.error(f"{path}: there is nothing in it to draw")
    with apply_style():
        for path, lines in runs:
            drawn(path, lines, chosen.out)


if __name__ == "__main__":
    main()
