"""Functions that draw one picture each into matplotlib axes."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from streamnb.errors import abbreviate
from streamnb.evaluate.compare import RunResults
from streamnb.pictures.style import COLOURS, DASHES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from streamnb.pictures.read import ReadRun

_MAX_CLASSES = 20
_MAX_POINTS = 2000  # maximum number of points of a curve
_MAX_BARS = 25


def _label_percent(axis: Any) -> None:
    """Label an axis of fractions with percentages; no label above 100 %."""
    axis.set_major_formatter(lambda value, _: f"{100 * value:.5g} %" if value < 1.001 else "")


def _line_style(index: int) -> dict[str, Any]:
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": DASHES[index % len(DASHES)]}


def curves(axes: Axes, runs: list[ReadRun]) -> None:
    """Draw prequential accuracy: window, fading and total; for several runs only the window."""
    axes.set_title("Accuracy over the stream")
    lowest = 1.0
    for index, run in enumerate(runs):
        x = [checkpoint["messages"] for checkpoint in run.checkpoints]
        if len(runs) == 1:
            names = {"window_accuracy": "window", "fading_accuracy": "fading", "accuracy": "total"}
        else:
            names = {"window_accuracy": abbreviate(run.name)}
        for k, (key, name) in enumerate(names.items()):
            y = [checkpoint[key] for checkpoint in run.checkpoints]
            marker = "o" if len(x) < 12 else None
            axes.plot(x, y, label=name, marker=marker, markersize=3, **_line_style(index + k))
            lowest = min([lowest, *y[len(y) // 10 :]])
    bounds = max(0.0, lowest - 0.02 - 0.2 * (1 - lowest)), 1 + 0.04 * (1 - lowest) + 0.001
    axes.set(ylim=bounds, xlabel="messages", ylabel="classified correctly")
    _label_percent(axes.yaxis)
    axes.locator_params(axis="x", integer=True)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.legend(loc="lower right")


def _roc_points(run: RunResults) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the percentages of false positives and of misses at every threshold."""
    positive = np.array([label == run.positive for label in run.labels])
    if not 0 < positive.sum() < len(positive):
        return None
    order = np.argsort(-run.scores, kind="stable")
    scores, is_positive = run.scores[order], positive[order]
    last_of_score = np.append(np.flatnonzero(np.diff(scores)), len(scores) - 1)
    misses = 100 * (1 - np.cumsum(is_positive)[last_of_score] / is_positive.sum())
    false_positives = np.cumsum(~is_positive)[last_of_score]
    alarms = 100 * false_positives / (~is_positive).sum()
    return np.concatenate(([0.0], alarms)), np.concatenate(([100.0], misses))


def roc(axes: Axes, runs: list[ReadRun]) -> None:
    """Draw both error rates at every threshold, on log axes. The upper right corner is best.

    The TREC spam track used these axes (Cormack and Lynam 2005). On linear axes, the curves of
    good filters coincide.
    """
    axes.set_title("Errors at every threshold")
    drawn = [(run, points) for run in runs if (points := _roc_points(run.run)) is not None]
    lowest = min((50 / len(run.run.labels) for run, _ in drawn), default=0.01)
    for index, (run, (alarms, misses)) in enumerate(drawn):
        x, y = np.maximum(alarms, lowest), np.maximum(misses, lowest)
        axes.plot(x, y, drawstyle="steps-post", label=abbreviate(run.name), **_line_style(index))
    axes.set(xscale="log", yscale="log", xlim=(100, lowest), ylim=(100, lowest))
    positive = abbreviate(drawn[0][0].run.positive, 16) if drawn else "positive"
    axes.set(xlabel=f"other messages predicted as {positive}, %", ylabel=f"{positive} missed, %")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    if len(drawn) > 1:
        axes.legend(loc="lower left")


def reliability(axes: Axes, bins: list[dict[str, Any]], event: str) -> None:
    """Draw the fraction true against the predicted probability, with numbers of messages."""
    axes.set_title("Reliability of the probabilities")
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=1, linestyle="--")
    points = [(row["mean_probability"], row["fraction_true"]) for row in bins]
    axes.plot(*zip(*points, strict=True), color=COLOURS[2], marker="o", markersize=5)
    style: dict[str, Any] = {"ha": "center", "fontsize": 8, "color": "#444444"}
    for row, (probability, fraction) in zip(bins, points, strict=True):
        offset = (0, 7 if fraction < 0.9 else -13)
        text = f"{row['messages']:,}"
        axes.annotate(text, (probability, fraction), offset, textcoords="offset points", **style)
    axes.set(xlim=(-0.05, 1.05), ylim=(-0.05, 1.1))
    axes.set(xlabel=f"predicted probability of {event}", ylabel="fraction true")
    _label_percent(axes.xaxis)
    _label_percent(axes.yaxis)


def confusion(axes: Axes, table: dict[str, dict[str, int]], title: str) -> None:
    """Draw the confusion matrix; the shade is the fraction of the true class."""
    sizes = {true: sum(row.values()) for true, row in table.items()}
    trues = sorted(table, key=lambda true: -sizes[true])[:_MAX_CLASSES]
    if len(table) <= _MAX_CLASSES:
        trues = list(table)
    predicted = [*trues, *(["?"] if any("?" in row for row in table.values()) else [])]
    fractions = np.array(
        [[table[true].get(name, 0) / max(sizes[true], 1) for name in predicted] for true in trues]
    ).reshape(len(trues), len(predicted))
    axes.set_title(title)
    axes.grid(visible=False)
    axes.imshow(np.sqrt(fractions), cmap="Greys", vmin=0, vmax=1.2, aspect="auto")
    size = 9 if len(predicted) <= 6 else 7 if len(predicted) <= 12 else 5
    for i, true in enumerate(trues):
        for j, name in enumerate(predicted):
            count = table[true].get(name, 0)
            if count:
                colour = "white" if np.sqrt(fractions[i, j]) > 0.65 else "black"
                axes.text(j, i, f"{count:,}", ha="center", va="center", color=colour, fontsize=size)
    crowded = len(predicted) > 6 and max(map(len, predicted)) > 3
    turned: dict[str, Any] = {"rotation": 45, "ha": "right"} if crowded else {}
    axes.set_xticks(
        range(len(predicted)), [abbreviate(name, 12) for name in predicted], fontsize=size, **turned
    )
    axes.set_yticks(range(len(trues)), [abbreviate(name, 12) for name in trues], fontsize=size)
    axes.set(xlabel="predicted class", ylabel="true class")


def top_tokens(axes: Axes, label: str, pairs: list[tuple[str, float]], colour: str) -> None:
    """Draw the tokens with the largest log-odds for a class."""
    axes.set_title(f"Top tokens for {abbreviate(label, 16)}")
    pairs = pairs[:14]
    positions = range(len(pairs))
    axes.barh(positions, [gain for _, gain in pairs], color=colour, height=0.7)
    axes.set_yticks(positions, [abbreviate(token, 24) for token, _ in pairs], fontsize=8)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("log-odds of one occurrence")


def learning_curve(axes: Axes, models: dict[str, Any]) -> None:
    """Draw mean accuracy for each fraction tested, with a band of one standard deviation."""
    axes.set_title("Accuracy by the fraction tested")
    for index, (name, result) in enumerate(models.items()):
        # For each fraction, the point with the most trials.
        points = list({point["test"]: point for point in result["points"]}.values())
        x, mean, sd = (np.array([point[k] for point in points]) for k in ("test", "mean", "sd"))
        style = _line_style(index)
        axes.fill_between(x, mean - sd, np.minimum(mean + sd, 1), color=style["color"], alpha=0.12)
        marker = "o" if len(points) < 12 else None
        axes.plot(x, mean, label=abbreviate(name), marker=marker, markersize=4, **style)
    xlabel = "fraction of the rows tested; the others are learned"
    axes.set(ylim=(0, 1.02), xlabel=xlabel, ylabel="classified correctly")
    _label_percent(axes.xaxis)
    _label_percent(axes.yaxis)
    axes.legend(loc="lower left")


def prequential_curve(axes: Axes, models: dict[str, Any]) -> None:
    """Draw the fraction of correct predictions at each position of the stream."""
    axes.set_title("Accuracy row by row")
    for index, (name, result) in enumerate(models.items()):
        accuracy_by_row = np.array(result["curve"])
        width = max(1, len(accuracy_by_row) // 25)
        smooth = np.convolve(accuracy_by_row, np.ones(width) / width, mode="valid")
        positions = np.arange(len(smooth)) + width
        every = max(1, len(smooth) // _MAX_POINTS)
        axes.plot(positions[::every], smooth[::every], label=abbreviate(name), **_line_style(index))
    axes.set(ylim=(0, 1.02), xlabel="rows learned before", ylabel="classified correctly")
    _label_percent(axes.yaxis)
    axes.legend(loc="lower right")


_HATCHES = ["", "//", "..", "xx", "\\\\", "++", "oo"]


def _bar_style(index: int) -> dict[str, Any]:
    colour = ["#555555", *COLOURS[1:]][index % len(COLOURS)]
    return {"color": colour, "hatch": _HATCHES[index % len(_HATCHES)], "edgecolor": "white"}


def accuracies(axes: Axes, models: dict[str, Any]) -> None:
    """Draw a histogram of the accuracies of the trials."""
    last = {name: result["points"][-1]["accuracies"] for name, result in models.items()}
    trials = max(len(values) for values in last.values())
    axes.set_title(f"Accuracies of {trials:,} trials")
    values = sorted({round(x, 9) for accuracies_ in last.values() for x in accuracies_})
    step = min((b - a for a, b in pairwise(values)), default=1.0)
    positions = np.array([(value - values[0]) / step for value in values])
    if positions[-1] <= _MAX_BARS and np.allclose(positions, positions.round(), atol=1e-3):
        # If few rows are tested, each possible accuracy has a bar.
        edges = values[0] + step * (np.arange(round(positions[-1]) + 2) - 0.5)
    else:
        edges = np.histogram_bin_edges(
            np.concatenate(list(last.values())), min(25, 4 + trials // 4)
        )
    width = 0.8 / len(last)
    for index, (name, model_values) in enumerate(last.items()):
        counts, _ = np.histogram(model_values, edges)
        middles, spans = (edges[:-1] + edges[1:]) / 2, np.diff(edges)
        remaining = middles + spans * (width * (index + 0.5) - 0.4)
        mean = float(np.mean(model_values))
        label = f"{abbreviate(name)}: mean {100 * mean:.1f} %"
        axes.bar(
            remaining, counts / len(model_values), spans * width, **_bar_style(index), label=label
        )
        axes.axvline(mean, **_line_style(index), linewidth=1)
    if len(values) <= 6:
        axes.set_xticks(values)
    axes.set(xlabel="accuracy of a trial", ylabel="fraction of the trials")
    _label_percent(axes.xaxis)
    _label_percent(axes.yaxis)
    axes.set_ylim(0, axes.get_ylim()[1] * (1.1 + 0.08 * len(last)))
    axes.legend(loc="upper left", frameon=True, framealpha=1, edgecolor="white")


def wrong_rows(axes: Axes, labels: list[str], models: dict[str, Any]) -> None:
    """Draw the fraction of each row's tests in which it was misclassified."""
    axes.set_title("Errors of each row")
    width = 0.8 / len(models)
    for index, (name, result) in enumerate(models.items()):
        wrong, tested = np.array(result["wrong"]), np.maximum(np.array(result["tested"]), 1)
        positions = np.arange(len(labels)) + width * (index + 0.5) - 0.4
        axes.bar(positions, wrong / tested, width, label=abbreviate(name), **_bar_style(index))
    titles = [f"{i + 1}\n{abbreviate(label, 8)}" for i, label in enumerate(labels)]
    axes.set_xticks(range(len(labels)), titles, fontsize=8)
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("misclassified")
    _label_percent(axes.yaxis)
    if len(models) > 1:
        axes.legend()


def means(axes: Axes, images: dict[str, list[float]], shape: tuple[int, int]) -> None:
    """Draw the mean image of each class in a row."""
    height, width = shape
    columns = max(5, math.isqrt(len(images)))
    step = 1.4 * height  # distance of rows, with room for labels
    size = 10 if len(images) <= 20 else 6
    for index, (label, pixels) in enumerate(images.items()):
        top, remaining = index // columns * step, index % columns * 1.1 * width
        extent = (remaining, remaining + width, top + height, top)
        axes.imshow(np.array(pixels).reshape(shape), cmap="Greys", extent=extent)
        axes.text(
            remaining + width / 2, top, abbreviate(label, 10), ha="center", va="bottom", size=size
        )
    axes.set(
        xlim=(0, 1.1 * width * min(len(images), columns)),
        ylim=(math.ceil(len(images) / columns) * step, -0.4 * height),
        title="Means of the classes",
    )
    axes.set_axis_off()
