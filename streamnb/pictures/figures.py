"""Whole figures: pictures of a run, of runs side by side, and of an experiment."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamnb.errors import shown
from streamnb.pictures import draw
from streamnb.pictures.read import ReadRun, read_folder
from streamnb.pictures.style import COLOURS, new_figure, save, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEW_ROWS = 40
_MOST_IMAGES = 100
_OVER_STREAM = "Each message is classified before it is learned; recent messages, and all so far."
_THRESHOLDS = "Both kinds of errors for every threshold, on log axes; the upper right is best."
_RELIABILITY = (
    "Points on the diagonal can be believed; beside each how many messages it stands for."
)
_CONFUSION = "Rows are true classes; the darker, the larger the share of its row."

Picture = tuple[str, Callable[["Axes"], None]]  # what it shows, and what draws it


def pictures_of_run(run: ReadRun) -> list[Picture]:
    """What there is to be seen of a replay."""
    found: list[Picture] = []
    if run.checkpoints:
        found.append((_OVER_STREAM, lambda axes: draw.curves(axes, [run])))
    two = len(set(run.run.judges)) == 2
    if two:
        found.append((_THRESHOLDS, lambda axes: draw.roc(axes, [run])))
    bins = run.summary.get("reliability") or []
    if bins:
        what = shown(run.run.positive, 16) if two else "the class given"
        found.append((_RELIABILITY, lambda axes: draw.reliability(axes, bins, what)))
    table = run.summary.get("confusion") or {}
    if table:
        found.append(
            (
                _CONFUSION,
                lambda axes: draw.confusion(axes, table, "What was taken for what"),
            )
        )
    for number, (label, pairs) in enumerate(list(run.tokens.items())[:8]):
        colour = COLOURS[1:][number % (len(COLOURS) - 1)]
        found.append(
            (f"The tokens that speak most for {label}, at the end.", _telling(label, pairs, colour))
        )
    return found


def _telling(label: str, pairs: list[tuple[str, float]], colour: str) -> Callable[[Axes], None]:
    return lambda axes: draw.telling(axes, label, pairs, colour)


def pictures_of_comparison(runs: list[ReadRun]) -> list[Picture]:
    """What there is to be seen of runs over one stream."""
    found: list[Picture] = []
    with_curves = [run for run in runs if run.checkpoints]
    if with_curves:
        found.append(("Accuracy over a window.", lambda axes: draw.curves(axes, with_curves)))
    if all(len(set(run.run.judges)) == 2 for run in runs):
        found.append((_THRESHOLDS, lambda axes: draw.roc(axes, runs)))
    return found


def pictures_of_experiment(found: dict[str, Any]) -> list[Picture]:
    """What there is to be seen of an experiment."""
    models = {name: of for name, of in found["models"].items() if of["points"]}
    if not models:
        return []
    pictures: list[Picture] = []
    shares = {point["test"] for of in models.values() for point in of["points"]}
    if any(of["curve"] for of in models.values()):
        pictures.append(
            (
                "How often the row at each place was told right, over all orders, smoothed.",
                lambda axes: draw.prequential_curve(axes, models),
            )
        )
    if len(shares) > 1:
        pictures.append(
            (
                "Mean over the trials of each share; the band is one standard deviation.",
                lambda axes: draw.learning_curve(axes, models),
            )
        )
    else:
        pictures.append(
            (
                "How many trials had which accuracy; the line is their mean.",
                lambda axes: draw.accuracies(axes, models),
            )
        )
    if len(found["labels"]) <= FEW_ROWS:
        labels = found["labels"]
        pictures.append(
            (
                "Of the times a row was tested, how often it was taken for another class.",
                lambda axes: draw.wrong_rows(axes, labels, models),
            )
        )
    for name, of in models.items():
        pictures.append((f"{name}: {_CONFUSION}", _confusion(name, of["confusion"])))
    if means := _means(found):
        shape = found["shape"]
        pictures.append(("The mean of each class.", lambda axes: draw.means(axes, means, shape)))
    return pictures


def _confusion(name: str, table: dict[str, dict[str, int]]) -> Callable[[Axes], None]:
    return lambda axes: draw.confusion(axes, table, f"{shown(name)}: what was taken for what")


def _means(found: dict[str, Any]) -> dict[str, list[float]]:
    """The mean of each class, where rows are images."""
    for of in found["models"].values():
        if of["class_means"]:
            return dict(list(of["class_means"].items())[:_MOST_IMAGES])
    return {}


def _panel(pictures: list[Picture], title: str) -> Figure:
    columns = min(len(pictures), 3) or 1
    rows = math.ceil(len(pictures) / columns) or 1
    figure = new_figure(5.4 * columns, 4.2 * rows + 0.4)
    figure.suptitle(shown(title, 120), fontsize=13, x=0.01, ha="left")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for one in axes[len(pictures) :]:
        one.set_axis_off()
    for one, (_, drawn) in zip(axes, pictures, strict=False):
        drawn(one)
    return figure


def draw_run(folder: str, title: str, path: str) -> None:
    """Draw what a replay wrote into a folder to a file."""
    run = read_folder(folder)
    if isinstance(run, ReadRun):
        with styled():
            save(_panel(pictures_of_run(run), title), path)


def draw_comparison(folders: list[str], path: str) -> None:
    """Draw runs over one stream to a file."""
    runs = [run for folder in folders if isinstance(run := read_folder(folder), ReadRun)]
    with styled():
        save(_panel(pictures_of_comparison(runs), "Runs side by side"), path)


def draw_experiment(found: dict[str, Any], path: str) -> None:
    """Draw an experiment to a file."""
    pictures = pictures_of_experiment(found)
    title = f"{found['name']}, {found['kind']} splits"
    with styled():
        save(_panel(pictures, title), path)
