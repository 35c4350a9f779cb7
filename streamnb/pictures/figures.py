"""Whole figures: pictures of a run, of runs side by side, and of an experiment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from streamnb.errors import abbreviate
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
_ROW_BY_ROW = "How often the row at each place was told right, over all orders, smoothed."
_SHARES = "Mean over the trials of each share; the band is one standard deviation."
_TRIALS = "How many trials had which accuracy; the line is their mean."
_ROWS = "Of the times a row was tested, how often it was taken for another class."

Picture = tuple[str, Callable[["Axes"], None]]  # what it shows, and what draws it


def pictures_of_run(run: ReadRun) -> Iterator[Picture]:
    """What there is to be seen of a replay."""
    if run.checkpoints:
        yield _OVER_STREAM, partial(draw.curves, runs=[run])
    two = len(set(run.run.labels)) == 2
    if two:
        yield _THRESHOLDS, partial(draw.roc, runs=[run])
    bins = run.summary.get("reliability") or []
    if bins:
        what = abbreviate(run.run.positive, 16) if two else "the class given"
        yield _RELIABILITY, partial(draw.reliability, bins=bins, what=what)
    table = run.summary.get("confusion") or {}
    if table:
        yield _CONFUSION, partial(draw.confusion, table=table, title="What was taken for what")
    for number, (label, pairs) in enumerate(list(run.tokens.items())[:8]):
        colour = COLOURS[1:][number % (len(COLOURS) - 1)]
        drawn = partial(draw.telling, label=label, pairs=pairs, colour=colour)
        yield f"The tokens that speak most for {label}, at the end.", drawn


def pictures_of_comparison(runs: list[ReadRun]) -> Iterator[Picture]:
    """What there is to be seen of runs over one stream."""
    with_curves = [run for run in runs if run.checkpoints]
    if with_curves:
        yield "Accuracy over a window.", partial(draw.curves, runs=with_curves)
    if all(len(set(run.run.labels)) == 2 for run in runs):
        yield _THRESHOLDS, partial(draw.roc, runs=runs)


def pictures_of_experiment(found: dict[str, Any]) -> Iterator[Picture]:
    """What there is to be seen of an experiment."""
    models = {name: of for name, of in found["models"].items() if of["points"]}
    if not models:
        return
    shares = {point["test"] for of in models.values() for point in of["points"]}
    if any(of["curve"] for of in models.values()):
        yield _ROW_BY_ROW, partial(draw.prequential_curve, models=models)
    if len(shares) > 1:
        yield _SHARES, partial(draw.learning_curve, models=models)
    else:
        yield _TRIALS, partial(draw.accuracies, models=models)
    if len(found["labels"]) <= FEW_ROWS:
        yield _ROWS, partial(draw.wrong_rows, labels=found["labels"], models=models)
    for name, of in models.items():
        title = f"{abbreviate(name)}: what was taken for what"
        confusion = partial(draw.confusion, table=of["confusion"], title=title)
        yield f"{name}: {_CONFUSION}", confusion
    # Where rows are images; what the classes look like does not depend on the model.
    of_each = [of["class_means"] for of in found["models"].values()]
    means: dict[str, list[float]] = next(filter(None, of_each), {})
    if means:
        images = dict(list(means.items())[:_MOST_IMAGES])
        yield "The mean of each class.", partial(draw.means, images=images, shape=found["shape"])


def _panel(drawn: Iterable[Picture], title: str) -> Figure:
    pictures = list(drawn)
    columns = min(len(pictures), 3) or 1
    rows = math.ceil(len(pictures) / columns) or 1
    figure = new_figure(5.4 * columns, 4.2 * rows + 0.4)
    figure.suptitle(abbreviate(title, 120), fontsize=13, x=0.01, ha="left")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for one in axes[len(pictures) :]:
        one.set_axis_off()
    for one, (_, draw_into) in zip(axes, pictures, strict=False):
        draw_into(one)
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
    title = f"{found['name']}, {found['kind']} splits"
    with styled():
        save(_panel(pictures_of_experiment(found), title), path)
