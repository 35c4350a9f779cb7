"""HTML page about replays and experiments, in one file."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from streamnb import __version__
from streamnb.errors import CorpusError, printable
from streamnb.evaluate.compare import compare
from streamnb.evaluate.outcomes import FIGURES
from streamnb.pictures import figures
from streamnb.pictures.read import ReadRun, read_folder
from streamnb.pictures.style import apply_style, as_svg, new_figure
from streamnb.storage import open_output

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #111; background: #fff; margin: 2rem auto;
       max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.3rem; border-top: 2px solid #111; padding-top: 1rem;
     margin-top: 3rem; overflow-wrap: anywhere; }
.pictures { display: grid; gap: 1.5rem;
            grid-template-columns: repeat(auto-fill, minmax(25rem, 1fr)); }
figure { margin: 0; } figure svg { width: 100%; height: auto; }
figcaption { font-size: .85rem; color: #444; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; } .note { color: #444; font-size: .9rem; }
@media print { body { margin: 0; } h2 { break-before: page; } figure { break-inside: avoid; } }
"""


def write_report(folders: list[str], path: str) -> None:
    """Write a page about replays and experiments: one file that loads nothing from the network.

    Parameters
    ----------
    folders
        Folders that `replay --out` and `experiment --out` wrote.
    path
        Name of the page; "-" for standard output.

    Raises
    ------
    CorpusError
        If a folder is not one of these, or damaged.
    OutputError
        If the page cannot be written.
    """
    read = [(folder, read_folder(folder)) for folder in folders]
    with apply_style():
        page = _page(read)
    with open_output(path, "the page") as file:
        file.write(page.encode(errors="replace"))


def _page(read: list[tuple[str, ReadRun | dict[str, Any]]]) -> str:
    """Return the HTML of a page about runs and experiments."""
    runs = [run for _, run in read if isinstance(run, ReadRun)]
    title = "Report: " + ", ".join(Path(folder).name or folder for folder, _ in read)
    parts = [f"<h1>{_text(title)}</h1>"]
    if len(runs) > 1:
        parts.append(_comparison(runs))
    for index, (folder, content) in enumerate(read):
        salt = f"s{index}"
        parts.append(
            _run(content, salt)
            if isinstance(content, ReadRun)
            else _experiment(folder, content, salt)
        )
    body = "\n".join(parts)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
img-src data:">
<title>{_text(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
{body}
<p class="note">Written by streamnb {__version__}.</p>
</body>
</html>
"""


def _text(value: Any) -> str:
    return escape(printable(str(value)))


def _pictures(pictures: Iterable[figures.Picture], salt: str) -> str:
    parts = []
    for index, (_, caption, draw_into) in enumerate(pictures):
        figure = new_figure(5.6, 4.3)
        draw_into(figure.subplots())
        text = _text(caption)
        svg = as_svg(figure, f"{salt}p{index}")
        svg = svg.replace("<svg", f'<svg role="img" aria-label="{text}"', 1)
        parts.append(f"<figure>{svg}<figcaption>{text}</figcaption></figure>")
    return f'<div class="pictures">{"".join(parts)}</div>'


def _table(header: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{_text(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _value(name: str, value: float) -> str:
    figure = FIGURES[name]
    return figure.format(value) if figure.as_percent else f"{value:.4f}"


def _comparison(runs: list[ReadRun]) -> str:
    try:
        comparison = compare([run.run for run in runs])
    except CorpusError as error:
        return f'<p class="note">The runs are not compared: {_text(error)}</p>'
    rows = [
        [FIGURES[name].title, *(_value(name, value) for value in values)]
        for name, values in comparison.figures.items()
    ]
    table = _table(["", *(run.name for run in runs)], rows)
    pictures = _pictures(figures.pictures_of_comparison(runs), "c")
    return f"<h2>Side by side, {comparison.messages:,} messages</h2>{table}{pictures}"


def _run(run: ReadRun, salt: str) -> str:
    outcomes = run.run.outcomes()
    rows = [["messages", f"{len(run.run.names):,}"]]
    for name, value in outcomes.figures().items():
        cell = _value(name, value)
        bounds = run.summary.get("intervals", {}).get(name)
        if bounds is not None:
            low, high = (_value(name, float(bound)) for bound in bounds)
            cell += f" (95 %: {low} to {high})"
        rows.append([FIGURES[name].title, cell])
    table = _table(["figure", ""], rows)
    return f"<h2>{_text(run.name)}</h2>{table}{_pictures(figures.pictures_of_run(run), salt)}"


_SPLITS = {"none": "", "random": ", random splits", "stratified": ", stratified splits"}


def _experiment(folder: str, experiment: dict[str, Any], salt: str) -> str:
    """Return the HTML of an experiment."""
    models = experiment["models"]
    splits = _SPLITS.get(experiment["kind"], f", {_text(experiment['kind'])}")
    heading = (
        f"<h2>{_text(folder)}: {_text(experiment['name'])}{splits}</h2>"
        f'<p class="note">{len(experiment["labels"]):,} rows</p>'
    )
    answers = "".join(map(_answer, experiment["answers"]))
    points = [model["points"] for model in models.values()]
    rows = []
    if points and points[0]:
        step = max(1, len(points[0]) // 10)
        for i in [*range(0, len(points[0]) - 1, step), len(points[0]) - 1]:
            first = points[0][i]
            cells = [f"{row[i]['mean']:.2%} ± {row[i]['sd']:.2%}" for row in points if i < len(row)]
            rows.append([f"{first['test']:.1%}", f"{first['trials']:,}", *cells])
    table = _table(["tested", "trials", *models], rows) if rows else ""
    parts = [heading, answers, table, _pictures(figures.pictures_of_experiment(experiment), salt)]
    if rows and len(experiment["labels"]) <= figures.FEW_ROWS:
        parts.append(_rows_table(experiment))
    return "".join(parts)


def _answer(answer: dict[str, Any]) -> str:
    query = ", ".join(f"{name} {value}" for name, value in answer["question"].items())
    rows = [
        [name, label, f"{likelihood:.4g}", f"{answer['probabilities'][name][label]:.2%}"]
        for name, likelihoods in answer["likelihoods"].items()
        for label, likelihood in likelihoods.items()
    ]
    header = ["", "class", "prior x likelihood", "probability"]
    return f"<p>{_text(query or 'no feature given')}</p>{_table(header, rows)}"


def _rows_table(experiment: dict[str, Any]) -> str:
    models = experiment["models"]
    rows = []
    for i, label in enumerate(experiment["labels"]):
        cells = []
        for model in models.values():
            wrong, tested = model["wrong"][i], model["tested"][i]
            cells.append(f"{wrong:,} of {tested:,} ({wrong / tested if tested else 0:.0%})")
        rows.append([f"{i + 1}", label, *cells])
    return _table(["row", "class", *(f"{name}: wrong" for name in models)], rows)
