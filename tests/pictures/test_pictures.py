"""Pictures and the page: that they are drawn, say what was measured, and fetch nothing."""

import dataclasses
import json
import math
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pytest
from commands import streamnb_command
from matplotlib.figure import Figure

from streamnb.errors import ConfigError, CorpusError, OutputError
from streamnb.pictures import check_target, draw, draw_results, show_results, style, write_report
from streamnb.pictures.read import ReadRun, read_folder


@pytest.fixture(scope="module")
def runs(repository, tmp_path_factory):
    """Two replays of the sample, and two experiments."""
    folder = tmp_path_factory.mktemp("runs")
    sample = repository / "corpora" / "sample"
    faster = ["--quiet", "--set", "evaluate.every=10", "--set", "evaluate.window=50"]
    assert streamnb_command("replay", sample, "--out", folder / "default", *faster)[0] == 0
    assert (
        streamnb_command(
            "replay", sample, "--out", folder / "plain", "--set", "model.kind=multinomial", *faster
        )[0]
        == 0
    )
    experiments = repository / "configs" / "experiments"
    for name, settings in (
        ("words", []),
        ("weather", ["splits.trials=50"]),
        ("digits", ["splits.trials=2"]),
        ("wheat", ["splits.trials=2"]),
    ):
        options = [part for setting in settings for part in ("--set", setting)]
        assert (
            streamnb_command(
                "experiment",
                experiments / f"{name}.yaml",
                "--out",
                folder / name,
                "--quiet",
                *options,
            )[0]
            == 0
        )
    (folder / "prequential.yaml").write_text(
        f"data: {{kind: table, path: '{repository}/corpora/tables/weather.csv'}}\n"
        "models: {naive: {kind: categorical}, aode: {kind: aode}}\nsplits: {kind: prequential, trials: 5}\n"
    )
    assert (
        streamnb_command(
            "experiment", folder / "prequential.yaml", "--out", folder / "prequential", "--quiet"
        )[0]
        == 0
    )
    return folder


def test_the_most_telling_tokens_are_kept(runs):
    run = read_folder(str(runs / "default"))
    assert isinstance(run, ReadRun)
    assert set(run.tokens) == {"spam", "ham"}
    gains = [gain for _, gain in run.tokens["spam"]]
    assert len(gains) == 20
    assert gains == sorted(gains, reverse=True)


def test_the_curve_of_errors_is_that_of_its_definition(runs):
    run = read_folder(str(runs / "default")).run
    alarms, misses = draw._roc_points(run)
    positive = np.array([label == run.positive for label in run.labels])
    for threshold in (*run.scores[:20], run.scores.max() + 1):
        hm = 100 * (run.scores[~positive] >= threshold).mean()
        sm = 100 * (run.scores[positive] < threshold).mean()
        assert any(np.isclose(hm, alarms) & np.isclose(sm, misses))
    area = np.trapezoid(misses, alarms) / 100  # (1-ROCA)%
    summary = json.loads((runs / "default" / "summary.json").read_text())
    assert area == pytest.approx(summary["one_minus_roca_percent"], rel=1e-9)


def lines(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def test_curves_show_the_checkpoints(runs):
    run = read_folder(str(runs / "default"))
    axes = Figure().subplots()
    draw.curves(axes, [run])
    drawn = lines(axes)
    assert set(drawn) == {"window", "fading", "total"}
    assert drawn["window"].get_ydata().tolist() == [
        item["window_accuracy"] for item in run.checkpoints
    ]
    assert (
        len({str(line.get_linestyle()) for line in drawn.values()}) == 3
    )  # distinguished without colour


def test_the_axis_of_messages_has_whole_numbers(runs):
    run = read_folder(str(runs / "default"))
    run = dataclasses.replace(
        run, checkpoints=[c for c in run.checkpoints if 100 <= c["messages"] <= 120]
    )
    axes = Figure().subplots()
    draw.curves(axes, [run])
    assert [tick % 1 for tick in axes.get_xticks()] == [0.0] * len(axes.get_xticks())


@pytest.mark.parametrize(("name", "notices"), [("zh.png", 1), ("zh.pdf", 1), ("zh.svg", 0)])
def test_missing_letters_of_a_picture_are_reported(tmp_path, name, notices):
    # U+10FFFF is in no font.
    (tmp_path / "zh.csv").write_text("label,text\na,x\n\U0010ffff,y\na,x\n\U0010ffff,y\n", "utf-8")
    status, _, error = streamnb_command(
        "replay", tmp_path / "zh.csv", "--plot", tmp_path / name, "--quiet"
    )
    assert (status, error.count("lacks letters")) == (0, notices)
    assert error.count("\n") == notices


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
@pytest.mark.filterwarnings("default:constrained_layout")
def test_other_warnings_report_no_missing_letters(tmp_path, suffix):
    with style.apply_style():
        figure = Figure(figsize=(0.3, 0.3), layout="constrained")
        figure.subplots().set_title("wider than the figure")
        with pytest.warns(UserWarning, match="constrained_layout not applied"):
            figure.savefig(tmp_path / "warns.png")
        with pytest.warns(UserWarning, match="constrained_layout not applied"):
            assert not style.save(figure, str(tmp_path / f"a.{suffix}"))


@pytest.mark.parametrize("name", ["default", "weather"])
def test_a_notebook_shows_the_pictures_of_a_folder(runs, name):
    page = show_results(str(runs / name), "A & B")._repr_html_()
    root = ET.fromstring(page)
    assert root.tag.endswith("svg")
    assert "A & B" in "".join(root.itertext())
    with pytest.raises(CorpusError):
        show_results(str(runs / "nothing"))


@pytest.mark.parametrize("name", ["default", "weather", "wheat", "digits", "prequential"])
def test_each_picture_can_be_drawn_alone_in_a_given_size(runs, tmp_path, name):
    folder, path = str(runs / name), str(tmp_path / "picture.svg")
    with pytest.raises(ValueError, match="expected '") as error:
        show_results(folder, picture="nothing")
    names = re.findall("'([^']+)'", str(error.value))[1:]
    assert "confusion" in " ".join(names)
    titles = set()
    for picture in names:
        assert draw_results(folder, path, picture=picture, size=(8, 4.5)) is False
        root = ET.parse(path).getroot()
        assert [root.get(side) for side in ("width", "height")] == ["576pt", "324pt"]
        text = "".join(root.itertext())
        assert folder not in text
        titles.add(text)
        page = ET.fromstring(show_results(folder, "My title", picture)._repr_html_())
        assert "My title" in "".join(page.itertext())
    assert len(titles) == len(names) > 1


def test_a_pdf_contains_a_font_that_publishers_accept(runs, tmp_path):
    path = tmp_path / "picture.pdf"
    draw_results(str(runs / "default"), str(path), picture="reliability")
    content = path.read_bytes()
    assert b"/Subtype /CIDFontType2" in content  # TrueType
    assert b"/Subtype /Type3" not in content


def test_experiments_show_their_points(runs):
    result = read_folder(str(runs / "wheat"))
    axes = Figure().subplots()
    draw.learning_curve(axes, result["models"])
    assert lines(axes)["streamnb"].get_ydata().tolist() == [
        point["mean"] for point in result["models"]["streamnb"]["points"]
    ]
    weather = read_folder(str(runs / "weather"))
    axes = Figure().subplots()
    draw.accuracies(axes, weather["models"])
    heights = [bar.get_height() for bar in axes.patches]
    assert sum(heights) == pytest.approx(1)
    axes = Figure().subplots()
    draw.wrong_rows(axes, weather["labels"], weather["models"])
    assert len(axes.patches) == 14


@pytest.mark.parametrize("suffix", ["svg", "pdf", "png"])
def test_pictures_of_the_commands(repository, runs, tmp_path, suffix):
    targets = {name: tmp_path / f"{name}.{suffix}" for name in ("replay", "compare", "experiment")}
    replayed = ["replay", repository / "corpora" / "sample", "--quiet"]
    assert (
        streamnb_command(*replayed, "--limit", 60, "--plot", targets["replay"], cwd=tmp_path)[0]
        == 0
    )
    assert (
        streamnb_command("compare", runs / "plain", runs / "default", "--plot", targets["compare"])[
            0
        ]
        == 0
    )
    weather = repository / "configs" / "experiments" / "weather.yaml"
    assert (
        streamnb_command(
            "experiment",
            weather,
            "--quiet",
            "--set",
            "splits.trials=20",
            "--plot",
            targets["experiment"],
        )[0]
        == 0
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        path.name for path in targets.values()
    )
    magic = {"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}[suffix]
    for path in targets.values():
        assert path.read_bytes().startswith(magic)


def test_a_picture_that_cannot_be_is_refused_before_the_work(repository, tmp_path):
    status, out, err = streamnb_command(
        "replay", repository / "corpora" / "sample", "--plot", "x.jpeg", cwd=tmp_path
    )
    assert (status, out) == (2, "")
    assert "ends in .svg, .pdf, .png" in err
    status, _, err = streamnb_command(
        "replay",
        repository / "corpora" / "sample",
        "--quiet",
        "--limit",
        50,
        "--plot",
        tmp_path / "no" / "x.svg",
    )
    assert (status, "there is no folder" in err) == (2, True)
    with pytest.raises(ConfigError):
        check_target("nothing")


@pytest.mark.parametrize("run", ["default", "weather"])
def test_a_picture_of_a_wrong_name_or_size_is_an_error(runs, tmp_path, run):
    for name in ("x", "x.jpeg", "no/x.svg"):
        with pytest.raises(ConfigError, match=rf"^{tmp_path / name}: "):
            draw_results(str(runs / run), str(tmp_path / name))
    for size in ((0, 3), (3, -1), (3, math.nan), (3, 101), (3, math.inf), (3,), ("3", "3"), 3):
        with pytest.raises(ValueError, match=r"^size: "):
            draw_results(str(runs / run), str(tmp_path / "x.svg"), size=size)
        with pytest.raises(ValueError, match=r"^size: "):
            show_results(str(runs / run), size=size)
    assert list(tmp_path.iterdir()) == []


class Page(HTMLParser):
    """Parser that records what a page loads, and its text."""

    def __init__(self):
        super().__init__()
        self.fetched, self.text, self.ids = [], [], []

    def handle_starttag(self, tag, attributes):
        for key, value in attributes:
            if key in ("src", "href", "xlink:href", "data", "action") and not (
                value or ""
            ).startswith(("#", "data:")):
                self.fetched.append((tag, value))
            if key == "id":
                self.ids.append(value)
        assert tag not in ("script", "link", "iframe", "object", "embed")

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def page(runs):
    names = ["default", "plain", "words", "weather", "digits", "wheat", "prequential"]
    status, out, err = streamnb_command(
        "report", *(runs / name for name in names), "-o", runs / "page.html"
    )
    assert (status, out.strip(), err) == (0, str(runs / "page.html"), "")
    return runs / "page.html"


def test_the_page_holds_everything(page, runs):
    text = page.read_text(encoding="utf-8")
    read = Page()
    read.feed(text)
    assert read.fetched == []
    assert len(read.ids) == len(set(read.ids))
    assert "http-equiv" in text
    answer = " ".join(read.text)
    summary = json.loads((runs / "default" / "summary.json").read_text())
    assert f"{100 * summary['accuracy']:.2f} %" in answer
    assert f"{summary['one_minus_roca_percent']:.4f}" in answer
    low, high = summary["intervals"]["accuracy"]
    assert f"(95 %: {100 * low:.2f} % to {100 * high:.2f} %)" in answer
    for title in (
        "Accuracy over the stream",
        "Errors at every threshold",
        "Reliability of the probabilities",
        "Confusion",
        "Top tokens for spam",
        "Accuracy by the fraction tested",
        "Accuracies of",
        "Errors of each row",
        "Accuracy row by row",
    ):
        assert title in answer
    for svg in re.findall(r"<svg.*?</svg>", text, re.S):
        ET.fromstring(svg)


HOSTILE = [
    "<script>alert(1)</script>",
    "$\\frac{1}{0}$",
    "a&b\"'",
    "\u202eevil",
    "日本語",
    "x" * 500,
]


def test_hostile_names_are_shown_not_obeyed(runs, tmp_path):
    shutil.copytree(runs / "default", tmp_path / "run")
    shutil.copytree(runs / "weather", tmp_path / "w")
    tokens = {
        label: [[name, 1.5 - k / 10] for k, name in enumerate(HOSTILE)] for label in HOSTILE[:3]
    }
    (tmp_path / "run" / "tokens.json").write_text(json.dumps(tokens))
    result = json.loads((tmp_path / "w" / "experiment.json").read_text())
    result["models"] = dict.fromkeys(HOSTILE, result["models"]["categorical"])
    result["labels"] = [HOSTILE[i % 6] for i in range(14)]
    result["name"] = HOSTILE[0]
    (tmp_path / "w" / "experiment.json").write_text(json.dumps(result))
    write_report([str(tmp_path / "run"), str(tmp_path / "w")], str(tmp_path / "page.html"))
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    read = Page()
    read.feed(text)
    assert read.fetched == []
    assert "<script" not in text
    for svg in re.findall(r"<svg.*?</svg>", text, re.S):
        ET.fromstring(svg)


def test_classes_of_any_bytes_are_drawn(tmp_path):
    for name in (b"h\xe4m", "\U0001f480".encode()):  # the latter is a pair with an udc80 in JSON
        os.makedirs(os.fsencode(tmp_path) + b"/mail/" + name)
        for number in range(5):
            with open(os.fsencode(tmp_path) + b"/mail/%b/%d.eml" % (name, number), "wb") as file:
                file.write(b"Subject: %d\n\nhello %b\n" % (number, name))
    replayed = streamnb_command("replay", tmp_path / "mail", "--out", tmp_path / "run")
    assert replayed[0] == 0, replayed[2]
    write_report([str(tmp_path / "run")], str(tmp_path / "page.html"))
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert r"h\xe4m" in text
    assert "\U0001f480" in text


def damaged(folder):
    yield "nothing there", lambda position: shutil.rmtree(position)
    yield "no results", lambda position: (position / "results.txt").unlink()
    yield (
        "checkpoints.jsonl:1",
        lambda position: (position / "checkpoints.jsonl").write_text("{}\n"),
    )
    yield "summary.json", lambda position: (position / "summary.json").write_text("[1")
    yield "tokens.json", lambda position: (position / "tokens.json").write_bytes(b"\xff\xfe")
    yield (
        "tokens.json: cannot",
        lambda position: (position / "tokens.json").write_text('{"a": [1, 2]}'),
    )
    yield (
        "summary.json: cannot",
        lambda position: (position / "summary.json").write_text('{"reliability": [{"low": "x"}]}'),
    )


def test_results_and_summary_of_different_runs_are_refused(runs, tmp_path):
    shutil.copytree(runs / "default", tmp_path / "run")
    results = tmp_path / "run" / "results.txt"
    lines_before = results.read_text().splitlines(keepends=True)
    wrong = next(i for i, line in enumerate(lines_before) if "judge=spam class=ham" in line)
    changed = lines_before[wrong].replace("class=ham", "class=spam")
    for lines_after in (
        lines_before[1:],
        [*lines_before[:wrong], changed, *lines_before[wrong + 1 :]],
    ):
        results.write_text("".join(lines_after))
        status, _, error = streamnb_command(
            "report", tmp_path / "run", "-o", tmp_path / "page.html"
        )
        assert (status, error.count("\n")) == (3, 1)
        assert "summary.json: " in error
        assert "and in results.txt" in error


@pytest.mark.parametrize("number", range(7))
def test_damaged_runs_are_one_line(runs, tmp_path, number):
    position = tmp_path / "run"
    shutil.copytree(runs / "default", position)
    reason, damage = list(damaged(position))[number]
    damage(position)
    status, out, err = streamnb_command("report", position, "-o", tmp_path / "page.html")
    assert (status, out, err.count("\n")) == (3, "", 1)
    assert str(position) in err
    if number > 1:
        assert reason in err
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    "change", [{"models": 3}, {"labels": None}, {"models": {"a": {"points": [{}]}}}, {"name": []}]
)
def test_damaged_experiments_are_one_line(runs, tmp_path, change):
    shutil.copytree(runs / "digits", tmp_path / "d")
    result = json.loads((tmp_path / "d" / "experiment.json").read_text())
    (tmp_path / "d" / "experiment.json").write_text(json.dumps({**result, **change}))
    with pytest.raises(CorpusError, match=r"experiment\.json"):
        read_folder(str(tmp_path / "d"))


def paths_in(value, path=()):
    """Yield the path of each value in JSON; a list is represented by its first item."""
    yield path
    entries = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:1])
        if isinstance(value, list)
        else ()
    )
    for key, entry in entries:
        yield from paths_in(entry, (*path, key))


def changed(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


STRANGE = ["text", None, -1, 10**400, 1e999, [], {}, [["a", "b"]], True]


DAMAGED = {
    "words": ("experiment", {"name", "labels", "models", "answers"}),
    "weather": ("experiment", {"models", "labels"}),
    "digits": ("experiment", {"shape", "class_means"}),
    "default": ("summary", {"reliability", "confusion", "intervals"}),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", DAMAGED)
def test_every_damage_is_drawn_or_named(runs, tmp_path, kind, full):
    """Warnings are errors here, so what is drawn is drawn without one."""
    file, parts = DAMAGED[kind]
    shutil.copytree(runs / kind, tmp_path / "d")
    position = tmp_path / "d" / f"{file}.json"
    sound = json.loads(position.read_text())
    errors = []
    places = [path for path in paths_in(sound) if parts.intersection(path)]
    for number, path in enumerate(places):
        for new in STRANGE if full else STRANGE[number % 19 :: 19]:
            position.write_text(json.dumps(changed(sound, path, new)))
            try:
                read_folder(str(tmp_path / "d"))
            except CorpusError as error:
                errors.append(str(error))
            else:
                write_report([str(tmp_path / "d")], str(tmp_path / "page.html"))
    assert len(errors) > 10
    assert all(f"{file}.json: " in error for error in errors)


def test_pages_and_pictures_take_no_place_that_is_not_a_file(runs, tmp_path):
    (tmp_path / "page.html").write_text("before")
    (tmp_path / "link").symlink_to(tmp_path / "page.html")
    status, _, err = streamnb_command("report", runs / "weather", "-o", tmp_path / "link")
    assert (status, err) == (0, "")
    assert (tmp_path / "link").is_symlink()
    assert "<html" in (tmp_path / "page.html").read_text()
    for target, expected in ((tmp_path, 5), ("", 2), ("/", 5)):
        status, _, err = streamnb_command("report", runs / "weather", "-o", target)
        assert (status, err.count("\n")) == (expected, 1)
    (previous,) = (path for path in (runs / "weather").iterdir() if path.suffix == ".json")
    before = previous.read_bytes()
    status, _, err = streamnb_command("report", runs / "weather", "-o", previous)
    assert (status, err.count("\n"), previous.read_bytes()) == (2, 1, before)
    status, out, err = streamnb_command("report", runs / "weather", "-o", "-")
    assert (status, err) == (0, "")
    assert out.startswith("<!DOCTYPE html>")
    assert out.endswith("</html>\n")


def test_a_page_goes_to_a_pipe_that_is_read(runs, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        status, _, err = streamnb_command("report", runs / "weather", "-o", pipe)
        if status != 0:
            reader.kill()
        assert (status, err) == (0, "")
        assert reader.stdout.read().startswith("<!DOCTYPE html>")


def test_a_page_that_cannot_be_written(runs, tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        write_report([str(runs / "weather")], str(tmp_path / "no" / "page.html"))


def test_pictures_need_matplotlib(repository, tmp_path):
    """Without it, an error of one line names the package to install."""
    program = "import sys; sys.modules['matplotlib'] = None; from streamnb.cli import main; main()"
    arguments = [
        sys.executable,
        "-P",
        "-c",
        program,
        "replay",
        repository / "corpora" / "sample",
        "--plot",
        "x.svg",
    ]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'streamnb[plot]'" in done.stderr


BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.mark.browser
def test_a_browser_shows_the_page(page, tmp_path):
    """Drawn without an error, with all its pictures, none of them empty."""
    browser = next(result for name in BROWSERS if (result := shutil.which(name)))
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    shot = tmp_path / "page.png"
    arguments = [*options, "--window-size=1250,9000", f"--screenshot={shot}", page.as_uri()]
    subprocess.run([browser, *arguments], check=True, capture_output=True, timeout=120)
    dumped = subprocess.run(
        [browser, *options, "--enable-logging=stderr", "--v=0", "--dump-dom", page.as_uri()],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert dumped.stdout.count("<svg") == page.read_text(encoding="utf-8").count("<svg") > 20
    assert "CONSOLE" not in dumped.stderr  # nothing was refused or fetched in vain
    from matplotlib.image import imread

    image = imread(shot)[:, :, :3]
    assert image.shape[1] == 1250
    ink = image.min(axis=2) < 0.5
    rows = ink.reshape(-1, 100, 1250).any(axis=(1, 2)) if len(ink) % 100 == 0 else ink.any(axis=1)
    assert rows.mean() > 0.6  # the page is filled
    colours = {
        tuple((image[y, x] * 255).astype(int))
        for y, x in zip(*np.nonzero(ink), strict=True)
        if y % 7 == 0
    }
    assert (0, 114, 178) in colours  # the curve of reliability
