"""Figures of a replay, of replays side by side, and of an experiment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from streamnb.errors import abbreviate
from streamnb.markup import Html
from streamnb.pictures import draw
from streamnb.pictures.read import ReadRun, read_folder
from streamnb.pictures.style import COLOURS, apply_style, as_svg, check_target, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEW_ROWS = 40
_MAX_IMAGES = 100
_MAX_INCHES = 100.0  # of a side of a figure: 15,000 pixels in a PNG
_OVER_STREAM = "Each message is classified before it is learned: recent messages, and all."
_THRESHOLDS = "False positives and misses at every threshold, on log axes; the upper right is best."
_RELIABILITY = "On the diagonal, probabilities are exact. Numbers are messages."
_CONFUSION = "Rows are true classes; the shade is the fraction of the row."
_ROW_BY_ROW = "Accuracy at each position of the stream, over all orders, smoothed."
_FRACTIONS = "Mean over the trials of each fraction; the band is one standard deviation."
_TRIALS = "Accuracies of the trials; the line is their mean."
_ROWS = "Fraction of each row's tests in which it was misclassified."

Picture = tuple[str, str, Callable[["Axes"], None]]  # name, caption and drawing function


def pictures_of_run(run: ReadRun) -> Iterator[Picture]:
    """Yield the pictures of a replay, without pictures whose data is missing."""
    if run.checkpoints:
        yield "accuracy", _OVER_STREAM, partial(draw.curves, runs=[run])
    has_two_classes = len(set(run.run.labels)) == 2
    if has_two_classes:
        yield "thresholds", _THRESHOLDS, partial(draw.roc, runs=[run])
    bins = run.summary.get("reliability") or []
    if bins:
        event = abbreviate(run.run.positive, 16) if has_two_classes else "the predicted class"
        yield "reliability", _RELIABILITY, partial(draw.reliability, bins=bins, event=event)
    table = run.summary.get("confusion") or {}
    if table:
        yield "confusion", _CONFUSION, partial(draw.confusion, table=table, title="Confusion")
    for index, (label, pairs) in enumerate(list(run.tokens.items())[:8]):
        colour = COLOURS[1:][index % (len(COLOURS) - 1)]
        picture = partial(draw.top_tokens, label=label, pairs=pairs, colour=colour)
        caption = f"The tokens with the largest log-odds for {label}, at the end."
        yield f"tokens {label}", caption, picture


def pictures_of_comparison(runs: list[ReadRun]) -> Iterator[Picture]:
    """Yield the pictures of runs over one stream."""
    with_curves = [run for run in runs if run.checkpoints]
    if with_curves:
        yield "accuracy", "Accuracy over a window.", partial(draw.curves, runs=with_curves)
    if all(len(set(run.run.labels)) == 2 for run in runs):
        yield "thresholds", _THRESHOLDS, partial(draw.roc, runs=runs)


def pictures_of_experiment(experiment: dict[str, Any]) -> Iterator[Picture]:
    """Yield the pictures of an experiment."""
    models = {name: model for name, model in experiment["models"].items() if model["points"]}
    if not models:
        return
    fractions = {point["test"] for model in models.values() for point in model["points"]}
    if any(model["curve"] for model in models.values()):
        yield "accuracy", _ROW_BY_ROW, partial(draw.prequential_curve, models=models)
    if len(fractions) > 1:
        yield "fractions", _FRACTIONS, partial(draw.learning_curve, models=models)
    else:
        yield "trials", _TRIALS, partial(draw.accuracies, models=models)
    if len(experiment["labels"]) <= FEW_ROWS:
        yield "rows", _ROWS, partial(draw.wrong_rows, labels=experiment["labels"], models=models)
    for name, model in models.items():
        title = f"{abbreviate(name)}: confusion"
        confusion = partial(draw.confusion, table=model["confusion"], title=title)
        yield f"confusion {name}", f"{name}: {_CONFUSION}", confusion
    # Only if rows are images. The means do not depend on the model, so the first model's are drawn.
    model_means = [model["class_means"] for model in experiment["models"].values()]
    means: dict[str, list[float]] = next(filter(None, model_means), {})
    if means:
        images = dict(list(means.items())[:_MAX_IMAGES])
        yield (
            "means",
            "The mean of each class.",
            partial(draw.means, images=images, shape=experiment["shape"]),
        )


def _panel(
    items: Iterable[Picture], title: str, picture: str = "", size: tuple[float, float] | None = None
) -> Figure:
    """Return a figure of the picture of this name, or of all in a grid of at most three columns."""
    drawings = {name: draw_into for name, _, draw_into in items}
    if picture:
        if picture not in drawings:
            raise ValueError(
                f"{picture!r:.80} is not a picture of these results; expected "
                f"{', '.join(map(repr, drawings))}"
            )
        drawings = {picture: drawings[picture]}
    columns = min(len(drawings), 3) or 1
    rows = math.ceil(len(drawings) / columns) or 1
    figure = new_figure(*(size or (5.4 * columns, 4.2 * rows + 0.4)))
    if title:
        figure.suptitle(abbreviate(title, 120), fontsize=13, x=0.01, ha="left")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for unused in axes[len(drawings) :]:
        unused.set_axis_off()
    for cell, draw_into in zip(axes, drawings.values(), strict=False):
        draw_into(cell)
    return figure


def _panel_of_results(
    folder: str, title: str, picture: str, size: tuple[float, float] | None
) -> Figure:
    try:
        is_valid = size is None or (len(size) == 2 and all(0 < x <= _MAX_INCHES for x in size))
    except TypeError:
        is_valid = False
    if not is_valid:
        raise ValueError(
            f"size: {size!r:.80} is not a width and a height in inches, each above 0 and at most "
            f"{_MAX_INCHES:g}"
        )
    run = read_folder(folder)
    pictures = pictures_of_run(run) if isinstance(run, ReadRun) else pictures_of_experiment(run)
    return _panel(pictures, title or ("" if picture else folder), picture, size)


def show_results(
    folder: str, title: str = "", picture: str = "", size: tuple[float, float] | None = None
) -> Html:
    """Return the pictures of a replay or an experiment, read from its folder, for a notebook.

    Parameters
    ----------
    folder
        The folder that `--out` named.
    title
        The title above the pictures; "" for the folder, or for none above a single picture.
    picture
        The name of a single picture; "" for all. A replay has "accuracy", "thresholds",
        "reliability", "confusion", and "tokens spam" for a class "spam". An experiment has
        "accuracy", "fractions", "trials", "rows", "means", and "confusion MODEL" for a model.
        Pictures without data are missing.
    size
        Width and height in inches, at most 100; None for 5.4 by about 4.6 for each picture.

    Raises
    ------
    CorpusError
        If the folder does not have such results.
    ValueError
        If the results have no such picture, or the size is not valid. The error names all
        pictures.
    """
    with apply_style():
        return Html(as_svg(_panel_of_results(folder, title, picture, size), folder + picture))


def draw_results(
    folder: str,
    path: str,
    title: str = "",
    picture: str = "",
    size: tuple[float, float] | None = None,
) -> bool:
    """Draw a replay or an experiment to a file. Return True if its font lacks letters.

    Parameters
    ----------
    folder, title, picture, size
        Those of `show_results`.
    path
        A file that ends in .svg, .pdf or .png. A PNG has 150 pixels for each inch.

    Raises
    ------
    CorpusError, ValueError
        As for `show_results`.
    ConfigError
        If the file has another suffix, or its folder does not exist.
    OutputError
        If the file cannot be written.
    """
    check_target(path)
    with apply_style():
        return save(_panel_of_results(folder, title, picture, size), path)


def draw_comparison(folders: list[str], path: str) -> bool:
    """Draw runs over one stream to a file. Return True if its font lacks letters."""
    runs = [run for folder in folders if isinstance(run := read_folder(folder), ReadRun)]
    with apply_style():
        return save(_panel(pictures_of_comparison(runs), "Runs side by side"), path)


def draw_experiment(experiment: dict[str, Any], path: str) -> bool:
    """Draw an experiment to a file. Return True if its font lacks letters."""
    title = f"{experiment['name']}, {experiment['kind']} splits"
    with apply_style():
        return save(_panel(pictures_of_experiment(experiment), title), path)
