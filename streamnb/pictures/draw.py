"""One picture each: what is drawn into a pair of axes."""

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

_MOST_CLASSES = 20
_MOST_POINTS = 2000  # of a curve
_MOST_BARS = 25


def _percent(axis: Any) -> None:
    """Shares as percentages, as many digits as there are; nothing beyond 100."""
    axis.set_major_formatter(lambda value, _: f"{100 * value:.5g} %" if value < 1.001 else "")


def _line(number: int) -> dict[str, Any]:
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % len(DASHES)]}


def curves(axes: Axes, runs: list[ReadRun]) -> None:
    """Prequential accuracy over a window, fading and so far; of several runs that of the window."""
    axes.set_title("Accuracy over the stream")
    lowest = 1.0
    for number, run in enumerate(runs):
        x = [one["messages"] for one in run.checkpoints]
        if len(runs) == 1:
            names = {"window_accuracy": "window", "fading_accuracy": "fading", "accuracy": "so far"}
        else:
            names = {"window_accuracy": abbreviate(run.name)}
        for k, (key, name) in enumerate(names.items()):
            y = [one[key] for one in run.checkpoints]
            marker = "o" if len(x) < 12 else None
            axes.plot(x, y, label=name, marker=marker, markersize=3, **_line(number + k))
            lowest = min([lowest, *y[len(y) // 10 :]])
    bounds = max(0.0, lowest - 0.02 - 0.2 * (1 - lowest)), 1 + 0.04 * (1 - lowest) + 0.001
    axes.set(ylim=bounds, xlabel="messages", ylabel="classified right")
    _percent(axes.yaxis)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.legend(loc="lower right")


def _roc_points(run: RunResults) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Percent of negatives and of positives misjudged at every threshold."""
    positive = np.array([label == run.positive for label in run.labels])
    if not 0 < positive.sum() < len(positive):
        return None
    order = np.argsort(-run.scores, kind="stable")
    scores, found = run.scores[order], positive[order]
    last = np.append(np.flatnonzero(np.diff(scores)), len(scores) - 1)  # of each score
    misses = 100 * (1 - np.cumsum(found)[last] / found.sum())
    alarms = 100 * np.cumsum(~found)[last] / (~found).sum()
    return np.concatenate(([0.0], alarms)), np.concatenate(([100.0], misses))


def roc(axes: Axes, runs: list[ReadRun]) -> None:
    """Both kinds of errors at every threshold, on log axes, the best in the upper right corner.

    As the TREC spam track drew it (Cormack and Lynam 2005): where filters are good, a square of
    linear axes shows a corner.
    """
    axes.set_title("Errors at every threshold")
    drawn = [(run, points) for run in runs if (points := _roc_points(run.run)) is not None]
    least = min((50 / len(run.run.labels) for run, _ in drawn), default=0.01)
    for number, (run, (alarms, misses)) in enumerate(drawn):
        x, y = np.maximum(alarms, least), np.maximum(misses, least)
        axes.plot(x, y, drawstyle="steps-post", label=abbreviate(run.name), **_line(number))
    axes.set(xscale="log", yscale="log", xlim=(100, least), ylim=(100, least))
    positive = abbreviate(drawn[0][0].run.positive, 16) if drawn else "positive"
    axes.set(xlabel=f"other messages taken for {positive}, %", ylabel=f"{positive} missed, %")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    if len(drawn) > 1:
        axes.legend(loc="lower left")


def reliability(axes: Axes, bins: list[dict[str, Any]], what: str) -> None:
    """Probabilities claimed, and how often it was so; the number of messages of each above."""
    axes.set_title("Can probabilities be believed?")
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=1, linestyle="--")
    points = [(one["mean_probability"], one["fraction_true"]) for one in bins]
    axes.plot(*zip(*points, strict=True), color=COLOURS[2], marker="o", markersize=5)
    style: dict[str, Any] = {"ha": "center", "fontsize": 8, "color": "#444444"}
    for one, (claimed, true) in zip(bins, points, strict=True):
        beside = (0, 7 if true < 0.9 else -13)
        text = f"{one['messages']:,}"
        axes.annotate(text, (claimed, true), beside, textcoords="offset points", **style)
    axes.set(xlim=(-0.05, 1.05), ylim=(-0.05, 1.1))
    axes.set(xlabel=f"probability of {what} claimed", ylabel="came true")
    _percent(axes.xaxis)
    _percent(axes.yaxis)


def confusion(axes: Axes, table: dict[str, dict[str, int]], title: str) -> None:
    """Which class was taken for which, as shares of each true class."""
    sizes = {true: sum(row.values()) for true, row in table.items()}
    trues = sorted(table, key=lambda true: -sizes[true])[:_MOST_CLASSES]
    if len(table) <= _MOST_CLASSES:
        trues = list(table)
    given = [*trues, *(["?"] if any("?" in row for row in table.values()) else [])]
    shares = np.array(
        [[table[true].get(one, 0) / max(sizes[true], 1) for one in given] for true in trues]
    ).reshape(len(trues), len(given))
    axes.set_title(title)
    axes.grid(visible=False)
    axes.imshow(np.sqrt(shares), cmap="Greys", vmin=0, vmax=1.2, aspect="auto")
    size = 9 if len(given) <= 6 else 7 if len(given) <= 12 else 5
    for i, true in enumerate(trues):
        for j, one in enumerate(given):
            count = table[true].get(one, 0)
            if count:
                colour = "white" if np.sqrt(shares[i, j]) > 0.65 else "black"
                axes.text(j, i, f"{count:,}", ha="center", va="center", color=colour, fontsize=size)
    crowded = len(given) > 6 and max(map(len, given)) > 3
    turned: dict[str, Any] = {"rotation": 45, "ha": "right"} if crowded else {}
    axes.set_xticks(
        range(len(given)), [abbreviate(one, 12) for one in given], fontsize=size, **turned
    )
    axes.set_yticks(range(len(trues)), [abbreviate(one, 12) for one in trues], fontsize=size)
    axes.set(xlabel="taken for", ylabel="true class")


def telling(axes: Axes, label: str, pairs: list[tuple[str, float]], colour: str) -> None:
    """The tokens that speak most for a class, and by how much."""
    axes.set_title(f"What speaks for {abbreviate(label, 16)}")
    pairs = pairs[:14]
    places = range(len(pairs))
    axes.barh(places, [gain for _, gain in pairs], color=colour, height=0.7)
    axes.set_yticks(places, [abbreviate(token, 24) for token, _ in pairs], fontsize=8)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("log-odds of one occurrence")


def learning_curve(axes: Axes, models: dict[str, Any]) -> None:
    """Mean accuracy at each share tested, with a band of one standard deviation."""
    axes.set_title("Accuracy by the share that is tested")
    for number, (name, result) in enumerate(models.items()):
        # Of points with the same share, that with the most trials.
        points = list({point["test"]: point for point in result["points"]}.values())
        x, mean, sd = (np.array([point[k] for point in points]) for k in ("test", "mean", "sd"))
        style = _line(number)
        axes.fill_between(x, mean - sd, np.minimum(mean + sd, 1), color=style["color"], alpha=0.12)
        marker = "o" if len(points) < 12 else None
        axes.plot(x, mean, label=abbreviate(name), marker=marker, markersize=4, **style)
    xlabel = "share of the rows tested; the others are learned"
    axes.set(ylim=(0, 1.02), xlabel=xlabel, ylabel="classified right")
    _percent(axes.xaxis)
    _percent(axes.yaxis)
    axes.legend(loc="lower left")


def prequential_curve(axes: Axes, models: dict[str, Any]) -> None:
    """How often the row at each place of the stream was told right."""
    axes.set_title("Accuracy row by row")
    for number, (name, result) in enumerate(models.items()):
        right = np.array(result["curve"])
        width = max(1, len(right) // 25)
        smooth = np.convolve(right, np.ones(width) / width, mode="valid")
        places = np.arange(len(smooth)) + width
        every = max(1, len(smooth) // _MOST_POINTS)
        axes.plot(places[::every], smooth[::every], label=abbreviate(name), **_line(number))
    axes.set(ylim=(0, 1.02), xlabel="rows learned before", ylabel="classified right")
    _percent(axes.yaxis)
    axes.legend(loc="lower right")


_HATCHES = ["", "//", "..", "xx", "\\\\", "++", "oo"]


def _bar(number: int) -> dict[str, Any]:
    colour = ["#555555", *COLOURS[1:]][number % len(COLOURS)]
    return {"color": colour, "hatch": _HATCHES[number % len(_HATCHES)], "edgecolor": "white"}


def accuracies(axes: Axes, models: dict[str, Any]) -> None:
    """How often trials had which accuracy."""
    last = {name: result["points"][-1]["accuracies"] for name, result in models.items()}
    trials = max(len(of) for of in last.values())
    axes.set_title(f"Accuracies of {trials:,} trials")
    values = sorted({round(x, 9) for of in last.values() for x in of})
    step = min((b - a for a, b in pairwise(values)), default=1.0)
    places = np.array([(value - values[0]) / step for value in values])
    if places[-1] <= _MOST_BARS and np.allclose(places, places.round(), atol=1e-3):
        # Few rows are tested: a bar for each accuracy there can be.
        edges = values[0] + step * (np.arange(round(places[-1]) + 2) - 0.5)
    else:
        edges = np.histogram_bin_edges(
            np.concatenate(list(last.values())), min(25, 4 + trials // 4)
        )
    width = 0.8 / len(last)
    for number, (name, of) in enumerate(last.items()):
        counts, _ = np.histogram(of, edges)
        middles, spans = (edges[:-1] + edges[1:]) / 2, np.diff(edges)
        left = middles + spans * (width * (number + 0.5) - 0.4)
        mean = float(np.mean(of))
        told = f"{abbreviate(name)}: mean {100 * mean:.1f} %"
        axes.bar(left, counts / len(of), spans * width, **_bar(number), label=told)
        axes.axvline(mean, **_line(number), linewidth=1)
    if len(values) <= 6:
        axes.set_xticks(values)
    axes.set(xlabel="classified right in a trial", ylabel="share of the trials")
    _percent(axes.xaxis)
    _percent(axes.yaxis)
    axes.set_ylim(0, axes.get_ylim()[1] * (1.1 + 0.08 * len(last)))
    axes.legend(loc="upper left", frameon=True, framealpha=1, edgecolor="white")


def wrong_rows(axes: Axes, labels: list[str], models: dict[str, Any]) -> None:
    """How often each row was taken for another class, of the times it was tested."""
    axes.set_title("How often each row goes wrong")
    width = 0.8 / len(models)
    for number, (name, result) in enumerate(models.items()):
        wrong, tested = np.array(result["wrong"]), np.maximum(np.array(result["tested"]), 1)
        places = np.arange(len(labels)) + width * (number + 0.5) - 0.4
        axes.bar(places, wrong / tested, width, label=abbreviate(name), **_bar(number))
    titles = [f"{i + 1}\n{abbreviate(label, 8)}" for i, label in enumerate(labels)]
    axes.set_xticks(range(len(labels)), titles, fontsize=8)
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("taken for another class")
    _percent(axes.yaxis)
    if len(models) > 1:
        axes.legend()


def means(axes: Axes, images: dict[str, list[float]], shape: tuple[int, int]) -> None:
    """The mean image of each class, side by side."""
    height, width = shape
    columns = max(5, math.isqrt(len(images)))
    step = 1.4 * height  # from row to row: there are labels between them
    size = 10 if len(images) <= 20 else 6
    for number, (label, pixels) in enumerate(images.items()):
        top, left = number // columns * step, number % columns * 1.1 * width
        place = (left, left + width, top + height, top)
        axes.imshow(np.array(pixels).reshape(shape), cmap="Greys", extent=place)
        axes.text(left + width / 2, top, abbreviate(label, 10), ha="center", va="bottom", size=size)
    axes.set(
        xlim=(0, 1.1 * width * min(len(images), columns)),
        ylim=(math.ceil(len(images) / columns) * step, -0.4 * height),
        title="Means of the classes",
    )
    axes.set_axis_off()
