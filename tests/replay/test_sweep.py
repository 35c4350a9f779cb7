"""Sweeps and comparisons, through the library and the command line."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
from test_replay import interrupt, streamnb_command

from streamnb.config import build
from streamnb.errors import ConfigError, CorpusError
from streamnb.evaluate.compare import compare, read_run
from streamnb.replay import replay_corpus
from streamnb.replay.sweep import sweep


def config(sample, **sections):
    return build({"corpus": {"path": str(sample), "limit": 120}, **sections})


GRIDS = [
    {"model.kind": ["multinomial", "bernoulli"], "model.alpha": [0.1, 1.0], "model.length_norm": [None, 2.0]},
    {"model.kind": ["classifier"], "model.alpha": [0.05, 0.5], "model.views": [["words"], ["bytes"]]},
    {"model.kind": ["complement", "discriminative"], "tokenizer.ngrams": [[1, 1], [1, 2]]},
    {"model.ngram_step": [0, 2], "model.preset": ["default", "small"]},
]  # fmt: skip


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize(
    "feedback", [{}, {"kind": "delayed", "messages": 20}, {"kind": "on_error"}]
)
def test_a_sweep_gives_what_single_runs_give(sample, tmp_path, grid, feedback):
    sections = {"feedback": feedback} if feedback else {}
    result = sweep(config(sample, sweep=grid, output={"folder": str(tmp_path / "s")}, **sections))
    assert len(result) == np.prod([len(values) for values in grid.values()])
    numbered = json.loads((tmp_path / "s" / "sweep.json").read_text())
    assert [item["settings"] for item in numbered] == [
        json.loads(json.dumps(item.settings)) for item in result
    ]
    for number in (1, 2, len(result)):
        alone = tmp_path / f"alone{number}"
        streamnb_command("replay", tmp_path / "s" / f"{number}" / "config.yaml", "--out", alone)
        swept = tmp_path / "s" / f"{number}" / "results.txt"
        assert (alone / "results.txt").read_bytes() == swept.read_bytes()


def test_a_sweep_in_several_processes_gives_the_same(sample, tmp_path):
    grid = {"model.alpha": [0.1, 1.0], "model.kind": ["multinomial", "classifier"]}
    for jobs in (1, 2):
        folder = {"folder": str(tmp_path / f"{jobs}")}
        result = sweep(config(sample, sweep=grid, output=folder, jobs=jobs))
        assert len(result) == 4
    for number in range(1, 5):
        item, two = (tmp_path / f"{jobs}" / f"{number}" / "results.txt" for jobs in (1, 2))
        assert item.read_bytes() == two.read_bytes()


def test_an_error_in_another_process_is_one_line(sample, tmp_path):
    (tmp_path / "file").write_text("")
    status, _, error = streamnb_command(
        "replay", sample, "--jobs", 2, "--set", "sweep={model.alpha: [1, 2]}", "--out",
        tmp_path / "file",
    )  # fmt: skip
    assert status == 5
    assert error.startswith("streamnb: ")
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_of_any_process_stops_the_others(sample, monkeypatch, failing):
    stop_events, futures = [], []

    class Pool:
        """One group fails; the others wait."""

        def __init__(self, *_, initargs, **__):
            stop_events.extend(initargs)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            assert stop_events[0].is_set()
            assert [future.cancelled() for future in futures] == [
                index != failing for index in (0, 1)
            ]

        def submit(self, *_):
            futures.append(Future())
            if len(futures) == failing + 1:
                futures[failing].set_exception(CorpusError("no such file"))
            return futures[-1]

    monkeypatch.setattr("streamnb.replay.sweep.ProcessPoolExecutor", Pool)
    with pytest.raises(CorpusError, match="no such file"):
        sweep(config(sample, sweep={"model.kind": ["multinomial", "bernoulli"]}, jobs=2))
    assert len(futures) == 2


def test_a_sweep_says_how_many_messages_are_skipped(tmp_path):
    rows = [f"t{n} word,{'' if n % 5 == 3 else 'ab'[n % 2]}\n" for n in range(60)]
    (tmp_path / "x.csv").write_text("text,label\n" + "".join(rows))
    status, _, error = streamnb_command(
        "replay", tmp_path / "x.csv", "--on-error", "skip", "--set", "sweep={model.alpha: [1, 2]}"
    )
    assert status == 0
    assert error.count("skipped: ") == 3
    assert "skipped 9 more messages" in error


def test_settings_can_be_listed(sample):
    listed = [{}, {"model.kind": "multinomial"}, {"feedback": {"kind": "noisy", "share": 0.3}}]
    result = sweep(config(sample, sweep=listed))
    assert sorted(map(str, (item.settings for item in result))) == sorted(map(str, listed))
    noisy = next(item for item in result if "feedback" in item.settings)
    assert noisy.report.config.feedback[0].share == 0.3
    status, out, _ = streamnb_command(
        "replay", sample, "--limit", 60, "--set", f"sweep={json.dumps(listed)}"
    )
    assert status == 0
    assert "kind: noisy, share: 0.3" in out


def test_sweeps_rank_and_print(sample):
    grid = "sweep={model.alpha: [0.1, 1], model.rate: [0, 0.3]}"
    status, out, error = streamnb_command("replay", sample, "--set", grid, "--limit", 100)
    assert (status, error) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["model.alpha", "model.rate", "(1-ROCA)%", "accuracy", "log", "loss"]
    ranked = [float(line.split()[3]) for line in lines[1:]]
    assert len(ranked) == 4
    assert ranked == sorted(ranked)
    _, out, _ = streamnb_command("replay", sample, "--set", grid, "--limit", 100, "--json")
    assert [round(item["one_minus_roca_percent"], 4) for item in json.loads(out)] == ranked


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (
            {"corpus.path": ["a"]},
            "sweep.corpus.path: only keys of the sections model, tokenizer, feedback",
        ),
        ([{"output.folder": "x"}], "sweep.output.folder: only keys"),
        (
            [{"feedback": {"kind": "late"}}],
            "feedback.kind: .*'late' is not one of immediate, delayed",
        ),
        ([3], r"sweep: expected"),
        ({"model.alpha": []}, "sweep.model.alpha: there are no values"),
        ({"model.alhpa": [1]}, "sweep: model.alhpa: unknown key; did you mean 'alpha'"),
        ({"model.alpha": [1, -1]}, "sweep: model.alpha: -1 is not a number > 0"),
        (
            {"model.alpha": list(range(1, 50)), "model.length_norm": list(range(1, 50))},
            "more than 1000",
        ),
    ],
)
def test_bad_sweeps_are_refused(sample, grid, message):
    with pytest.raises(ConfigError, match=message):
        sweep(config(sample, sweep=grid))


@pytest.fixture
def runs(sample, tmp_path):
    for kind in ("classifier", "multinomial"):
        replay_corpus(config(sample, model={"kind": kind}, output={"folder": str(tmp_path / kind)}))
    return [tmp_path / "multinomial", tmp_path / "classifier"]


def test_compared_figures_are_those_of_the_runs(runs):
    result = compare([read_run(run) for run in runs], resamples=50)
    for k, run in enumerate(runs):
        summary = json.loads((run / "summary.json").read_text())
        for name in result.figures:
            assert result.figures[name][k] == pytest.approx(summary[name])
    for name, [(value, (low, high))] in result.differences.items():
        first, second = result.figures[name]
        assert value == pytest.approx(second - first)
        assert low <= value <= high


def test_compare_prints(runs):
    status, out, error = streamnb_command("compare", *runs)
    assert (status, error) == (0, "")
    assert "120 messages" in out
    assert "(1-ROCA)% (lower is better)" in out
    status, out, _ = streamnb_command("compare", *runs, runs[0] / "results.txt", "--json")
    assert status == 0
    assert [len(source) for source in json.loads(out)["differences"].values()] == [2] * 10
    assert json.loads(out)["differences"]["accuracy"][1] == [0, [0, 0]]


def test_other_streams_are_refused(runs, tmp_path):
    lines = (runs[0] / "results.txt").read_text().splitlines()
    changes = {
        "line 2 is .* judge=": [lines[0], lines[2], *lines[3:]],
        "119 messages, expected 120": lines[:-1],
        ":3: expected 'NAME judge=": [*lines[:2], "what", *lines[3:]],
        ":1: expected 'NAME judge=": [lines[0].replace("score=", "score=nan#"), *lines[1:]],
        "the file holds no results": [],
    }
    for message, changed in changes.items():
        (tmp_path / "other.txt").write_text("\n".join(changed) + "\n" * bool(changed))
        with pytest.raises(CorpusError, match=message):
            compare([read_run(runs[0]), read_run(tmp_path / "other.txt")], 2)
    with pytest.raises(CorpusError, match="scores are for class ham, expected spam"):
        compare([read_run(runs[0]), read_run(runs[1], "ham")], 2)
    with pytest.raises(CorpusError, match="for class spam; eggs is not one of its classes"):
        read_run(runs[0], "eggs")


def test_scores_of_the_other_class_are_turned_round(runs):
    spam, ham = (read_run(runs[1], positive).outcomes() for positive in ("spam", "ham"))
    assert ham.figures()["one_minus_roca_percent"] == spam.figures()["one_minus_roca_percent"]
    assert ham.figures()["sm_percent"] == spam.figures()["hm_percent"]


def test_hostile_results_end_at_once(runs, tmp_path):
    (tmp_path / "long").write_text(" judge=a class=b" * 3000 + "\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "results.txt").write_text("a judge=x class=y score=1\n" * 3)
    (tmp_path / "deep" / "summary.json").write_text("[" * 200_000)
    assert read_run(tmp_path / "deep").positive == "spam"
    os.mkfifo(tmp_path / "pipe")
    (runs[0] / "summary.json").unlink()
    os.mkfifo(runs[0] / "summary.json")
    assert read_run(runs[0]).positive == "spam"
    for name, message in (("long", ":1: expected 'NAME"), ("pipe", "not a regular file")):
        with pytest.raises(CorpusError, match=message):
            read_run(tmp_path / name)
    with pytest.raises(CorpusError, match="not a regular file"):
        read_run("/dev/zero")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "Missing argument"),
        (["{0}"], 2, "at least two runs"),
        (["{0}", "/nowhere"], 3, "/nowhere: cannot be read: no such file"),
        (["{0}", "/dev/null"], 3, "/dev/null: cannot be read: not a regular file"),
    ],
)
def test_errors_of_compare_name_file_and_line(runs, arguments, status, message):
    result, _, error = streamnb_command("compare", *(a.format(runs[0]) for a in arguments))
    assert (result, "Traceback" in error) == (status, False)
    assert message in error


def test_a_setting_that_learns_nothing_does_not_end_a_sweep(sample):
    listed = [{}, {"feedback": {"kind": "partial", "share": 0}}]
    status, out, _ = streamnb_command(
        "replay", sample, "--limit", 60, "--set", f"sweep={json.dumps(listed)}"
    )
    assert status == 0
    assert "no message was learned" in out
    apart = [{"model.ngram_max": 2, **listed[1]}, {}]  # another tokenizer, a replay of its own
    status, out, _ = streamnb_command(
        "replay", sample, "--limit", 60, "--set", f"sweep={json.dumps(apart)}"
    )
    assert (status, out.count("no message was learned")) == (0, 1)
    status, out, error = streamnb_command(
        "replay", sample, "--limit", 60, "--set", f"sweep={json.dumps(listed[1:])}"
    )
    assert (status, out) == (3, "")
    assert "no message was learned" in error


def test_ctrl_c_ends_a_sweep_with_what_it_has(sample, tmp_path):
    grid = {
        "model.alpha": [round(0.05 * n, 2) for n in range(1, 301)],
        "model.ngram_max": [2, 4, 6],
    }
    command = [sys.executable, "-P", "-c", "from streamnb.cli import main; main()", "replay"]
    command += [str(sample), "--jobs", "2", "--set", f"sweep={json.dumps(grid)}"]
    command += ["--out", str(tmp_path)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 300
    while not any(path.stat().st_size for path in tmp_path.glob("*/results.txt*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, error = process.communicate(timeout=300)
    assert process.returncode == 130, error
    assert "Traceback" not in error
    assert "the figures cover the messages read so far" in error
    assert "interrupted" in out


def test_ctrl_c_leaves_an_earlier_sweep_alone(sample, tmp_path):
    run = tmp_path / "run"
    sweep = ["--out", run, "--set", "sweep={model.alpha: [0.1, 1.0]}", "--quiet"]
    interrupt(sample, *sweep, after=0)
    assert not list(run.glob("*/*"))  # nothing for runs that saw no message
    assert streamnb_command("replay", sample, "--limit", 60, *sweep)[0] == 0
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    error = interrupt(sample, *sweep)
    assert {file: file.read_bytes() for file in before} == before
    assert "sweep.json: the earlier ranking is not changed" in error
    assert "1: the earlier results are not changed" in error


@pytest.mark.parametrize("arguments", [["--save", "m"], ["--details"]])
def test_options_that_a_sweep_does_not_support_are_refused(sample, arguments):
    grid = ["--set", "sweep={model.alpha: [1]}"]
    status, _, error = streamnb_command("replay", sample, *grid, *arguments)
    assert status == 2
    assert "sweep" in error


def test_results_of_other_programs_can_be_compared(tmp_path):
    text = "".join(
        f"m{n} judge={'spam' if n % 3 else 'ham'} class={'spam' if n % 2 else 'ham'} score={n % 7}.5\n"
        for n in range(60)
    )
    Path(tmp_path / "jig").write_text(text)
    result = compare([read_run(tmp_path / "jig")] * 2, 10)
    assert result.differences["one_minus_roca_percent"] == [(0, (0, 0))]


def test_runs_of_many_classes_are_compared_by_the_figures_of_classes(tmp_path):
    rows = [(f"c{n % 4}", f"c{n % 4 if n % 5 else n % 3}") for n in range(80)]
    text = "".join(f"m{n} judge={y} class={p} score=1\n" for n, (y, p) in enumerate(rows))
    (tmp_path / "mine").write_text(text)
    (tmp_path / "best").write_text(
        "".join(f"m{n} judge={y} class={y} score=1\n" for n, (y, _) in enumerate(rows))
    )
    result = compare([read_run(tmp_path / name) for name in ("mine", "best")], 20)
    names = ["accuracy", "kappa", "macro_precision", "macro_recall", "macro_f1"]
    assert list(result.figures) == names
    assert all(value == 1 for _, value in result.figures.values())
    status, out, _ = streamnb_command("compare", tmp_path / "mine", tmp_path / "best")
    assert status == 0
    assert out.count("macro F1") == 2
