import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from commands import STREAMNB, streamnb_command

import streamnb.cli.group
from streamnb import Classifier, MultinomialNB
from streamnb.config import build
from streamnb.config.yaml_files import read_yaml, to_yaml
from streamnb.corpus import open_corpus
from streamnb.errors import ConfigError, CorpusError, StreamNBError, UnexpectedError
from streamnb.evaluate import Example, prequential
from streamnb.evaluate.feedback import DelayedByTime
from streamnb.features.words import Tokenizer
from streamnb.replay import replay_corpus
from streamnb.replay.build import make_tokenizer
from streamnb.replay.examples import skip_or_stop
from streamnb.replay.run import replay_models, top_tokens
from streamnb.replay.workers import stream_features


def config(path, **sections):
    return build({"corpus": {"path": str(path)}, **sections})


def test_the_files_of_a_run(sample, tmp_path):
    status, out, _ = streamnb_command("replay", sample, "--out", tmp_path / "run", "--json")
    figures = json.loads(out)
    assert status == 0
    assert figures == json.loads((tmp_path / "run" / "summary.json").read_text())
    wanted = [
        "messages",
        "accuracy",
        "one_minus_roca_percent",
        "sm_at_hm_0_1_percent",
        "lam_percent",
        "log_loss",
        "features",
        "seconds",
        "messages_per_second",
        "peak_memory_bytes",
    ]
    assert all(figures[name] > 0 for name in wanted)
    lines = (tmp_path / "run" / "results.txt").read_text().splitlines()
    index = (sample / "index").read_text().split()
    assert [line.split()[0] for line in lines] == index[1::2]
    assert [line.split()[1] for line in lines] == [f"judge={label}" for label in index[::2]]
    right = sum(
        line.split()[2] == f"class={label}" for line, label in zip(lines, index[::2], strict=True)
    )
    assert right / 300 == figures["accuracy"]
    points = [
        json.loads(line)
        for line in (tmp_path / "run" / "checkpoints.jsonl").read_text().splitlines()
    ]
    assert [point["messages"] for point in points] == [100, 200, 300]
    assert points[-1]["accuracy"] == figures["accuracy"]
    assert set(points[0]) == {"messages", "accuracy", "window_accuracy", "fading_accuracy"}


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_a_replay_of_its_own_configuration_is_identical(sample, tmp_path, jobs):
    options = ["--set", "model.alpha=.3", "--order", "shuffled:7", "--limit", "250"]
    streamnb_command("replay", sample, "--out", tmp_path / "a", *options)
    written = tmp_path / "a" / "config.yaml"
    status, _, error = streamnb_command("replay", written, "--out", tmp_path / "b", "--jobs", jobs)
    assert (status, error) == (0, "")
    assert (tmp_path / "a/results.txt").read_bytes() == (tmp_path / "b/results.txt").read_bytes()
    complete = yaml.safe_load(written.read_text())
    assert complete["corpus"]["kind"] == "trec"
    assert complete["tokenizer"]["kind"] == "mail"
    assert None not in (complete["tokenizer"]["inner"], complete["model"]["alpha"])


def test_results_do_not_change_by_accident(sample, tmp_path):
    """The scores of the first mails, to the last digit."""
    replay_corpus(config(sample, output={"folder": str(tmp_path)}))
    lines = (tmp_path / "results.txt").read_text().splitlines()
    assert lines[5:8] == GOLDEN


GOLDEN = [
    "data/005.eml judge=spam class=spam score=0.03465954615758393",
    "data/006.eml judge=spam class=spam score=1.6095771345094068",
    "data/007.eml judge=ham class=spam score=0.4314219878766645",
]


@pytest.mark.parametrize("kind", ["multinomial", "bernoulli", "complement"])
def test_every_model_replays(sample, kind):
    report = replay_corpus(config(sample, model={"kind": kind}))
    assert report.summary.accuracy > 0.8
    assert report.learned == report.summary.messages == 300


def test_training_only_and_test_only_messages(tmp_path):
    (tmp_path / "m").write_text("Subject: x\n\nx")
    (tmp_path / "index").write_text("SPAM m\nHAM m\nHam m\nspam m\n")
    report = replay_corpus(config(tmp_path))
    assert (report.summary.messages, report.learned) == (2, 3)


def test_labels_in_headers_are_not_learned(tmp_path):
    box = "".join(
        f"From a Mon Jan 5 12:00:00 2026\nX-Kind: {kind}\n\nsame\n\n" for kind in ["a", "b"] * 20
    )
    (tmp_path / "all.mbox").write_text(box)
    report = replay_corpus(
        build({"corpus": {"path": str(tmp_path / "all.mbox"), "label_header": "X-Kind"}})
    )
    assert report.summary.accuracy <= 0.5


def test_skipping_what_cannot_be_read(tmp_path):
    for number in range(6):
        (tmp_path / f"{number}").write_text(f"\n{number}")
    (tmp_path / "index").write_text("".join(f"{'sh'[n % 2]}am {n}\n" for n in range(8)))
    for jobs in (1, 2):
        with pytest.raises(
            StreamNBError, match=r"/6: cannot be read: no such file.*--on-error skip"
        ):
            replay_corpus(config(tmp_path, jobs=jobs))
    status, out, error = streamnb_command("replay", tmp_path, "--on-error", "skip", "--json")
    assert (status, json.loads(out)["skipped"], json.loads(out)["messages"]) == (0, 2, 6)
    assert error.count("skipped") == 2


def test_figures_survive_an_error(tmp_path):
    (tmp_path / "m").write_text("\nx")
    (tmp_path / "index").write_text("ham m\n" * 5 + "spam gone\n")
    status, _, error = streamnb_command("replay", tmp_path, "--out", tmp_path / "run")
    assert status == 3
    assert error.count("\n") == 1
    assert len((tmp_path / "run" / "results.txt.partial").read_text().splitlines()) == 5
    assert not (tmp_path / "run" / "summary.json").exists()


def test_a_run_that_fails_leaves_the_results_of_an_earlier_one(sample, tmp_path):
    run = tmp_path / "run"
    replay_corpus(config(sample, output={"folder": str(run)}))
    before = {file.name: file.read_bytes() for file in run.iterdir()}
    assert sorted(before) == [
        "checkpoints.jsonl",
        "config.yaml",
        "results.txt",
        "summary.json",
        "tokens.json",
    ]
    (tmp_path / "index").write_text("ham gone\n")
    with pytest.raises(StreamNBError, match="gone"):
        replay_corpus(config(tmp_path / "index", output={"folder": str(run)}))
    assert {name: (run / name).read_bytes() for name in before} == before


def test_reading_processes_end_when_the_main_one_is_killed(tmp_path):
    (tmp_path / "m").write_text("\n" + "hello world " * 500)
    (tmp_path / "index").write_text("ham m\nspam m\n" * 500_000)
    command = [*STREAMNB, "replay", tmp_path, "--out", tmp_path / "run", "--jobs", "3", "--quiet"]
    process = subprocess.Popen([str(part) for part in command], start_new_session=True)
    results = tmp_path / "run" / "results.txt.partial"
    deadline = time.monotonic() + 300
    while not (results.exists() and results.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait()

    def is_alive():
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    while is_alive() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_alive()


def test_ctrl_c_reports_what_was_measured(tmp_path):
    (tmp_path / "m").write_text("\nhello world")
    (tmp_path / "index").write_text("ham m\n" * 2_000_000)
    for jobs in (1, 2):
        command = [
            *STREAMNB,
            "replay",
            tmp_path,
            "--out",
            tmp_path / f"run{jobs}",
            "--json",
            "--jobs",
            jobs,
        ]
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        results = tmp_path / f"run{jobs}" / "results.txt"
        partial = tmp_path / f"run{jobs}" / "results.txt.partial"
        deadline = time.monotonic() + 300
        while not (partial.exists() and partial.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=300)
        assert process.returncode == 130
        assert "Traceback" not in error
        assert error.count("interrupted") == 1
        figures = json.loads(out)
        assert figures["interrupted"] is True
        assert 0 < figures["messages"] < 2_000_000
        assert len(results.read_text().splitlines()) == figures["messages"]
        assert json.loads((tmp_path / f"run{jobs}" / "summary.json").read_text()) == figures


def test_ctrl_c_is_heard_at_any_moment(sample):
    def ended():
        signal.raise_signal(signal.SIGINT)
        return False

    report = replay_models([config(sample)], should_stop=ended)[0]
    assert (report.interrupted, report.summary.messages) == (True, 0)


def interrupt(sample, *arguments, after=3):
    """Replay, with a Ctrl-C after so many messages."""
    program = f"""
import signal, sys
import streamnb.replay.run as run
from streamnb.cli import main
until = run.Interruption.until_interrupted
def interrupted(self, items):
    for number, item in enumerate(until(self, items), 1):
        if number > {after}:
            signal.raise_signal(signal.SIGINT)
            return
        yield item
run.Interruption.until_interrupted = interrupted
main()
"""
    command = [sys.executable, "-P", "-c", program, "replay", sample, *arguments]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (130, False)
    return done.stderr


def test_ctrl_c_leaves_earlier_results_and_models_alone(sample, tmp_path):
    run, model, plot = tmp_path / "run", tmp_path / "model.snb", tmp_path / "p.svg"
    options = ["--out", run, "--save", model, "--quiet"]
    assert "model was not" not in interrupt(sample, *options)
    assert json.loads((run / "summary.json").read_text())["messages"] == 3  # there were none
    assert streamnb_command("replay", sample, *options)[0] == 0
    plot.write_text("earlier")
    before = {file.name: file.read_bytes() for file in run.iterdir()}
    saved = model.read_bytes()
    error = interrupt(sample, *options, "--plot", plot)
    assert {name: (run / name).read_bytes() for name in before} == before
    assert (model.read_bytes(), plot.read_text()) == (saved, "earlier")
    assert "model.snb: the earlier model is not changed" in error
    assert "run: the earlier results are not changed" in error
    interrupt(sample, "--out", tmp_path / "none", after=0)
    assert not (tmp_path / "none").exists()


def test_ctrl_c_before_anything_is_one_line():
    for location in ("click", "streamnb.replay.run"):  # while it is imported
        program = f"""
import builtins, signal
imported = builtins.__import__
def interrupted(name, *rest):
    if name == {location!r}:
        signal.raise_signal(signal.SIGINT)
    return imported(name, *rest)
builtins.__import__ = interrupted
from streamnb.cli import main
main()
"""
        command = [sys.executable, "-P", "-c", program, "replay", "none"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (130, "streamnb: interrupted\n")


def test_a_class_cannot_have_the_name_of_no_prediction(tmp_path):
    (tmp_path / "t.tsv").write_text("?\tfoo\nham\tbar\nspam\tbaz\n?\tfoo\n")
    status, _, error = streamnb_command("replay", tmp_path / "t.tsv")
    assert (status, error.count("\n")) == (3, 1)
    assert "message t.tsv:1 has the label '?'" in error
    status, _, error = streamnb_command("learn", "?", tmp_path / "t.tsv", "--db", tmp_path / "db")
    assert (status, error.count("\n")) == (2, 1)


def test_classes_can_have_numbers_as_names(tmp_path):
    (tmp_path / "t.tsv").write_text("0\tfoo\n1\tbar\n" * 5)
    noise = "feedback={kind: noisy, share: {0: 0.1}}"
    status, out, _ = streamnb_command(
        "replay", tmp_path / "t.tsv", "--json", "--set", "evaluate.positive=1", "--set", noise
    )
    assert (status, json.loads(out)["positive"]) == (0, "1")


class Failing:
    """A tokenizer with a fault, in every process but this one."""

    def __init__(self):
        self.current = os.getpid()

    def count(self, message):
        if os.getpid() != self.current:
            raise KeyError("what is this?")
        return Tokenizer().count(message)


def test_an_error_in_another_process_is_reported(sample):
    entries = list(open_corpus(sample)) * 20
    with pytest.raises(UnexpectedError, match="KeyError: 'what is this"):
        list(stream_features(entries, Failing(), 2))


class Mixed:
    """Views and single texts, with names and without, whole counts and others, and errors."""

    def count(self, text):
        kind = len(text) % 5
        words = Tokenizer(keep_names=kind != 1).count(text)
        if kind == 3:
            raise CorpusError(f"of {len(text)} bytes")
        return words if kind == 4 else (words, Tokenizer(ngrams=(1, 2)).count(text[:kind]), words)


@pytest.mark.parametrize("tokenizer", [Tokenizer(), Tokenizer(keep_names=False), Mixed()])
def test_feed_is_the_same_for_every_number_of_jobs(sample, tokenizer):
    def plain(result):
        if isinstance(result, CorpusError):
            return str(result)
        views = result if isinstance(result, tuple) else [result]
        parts = [
            (tokens.fingerprints.tolist(), tokens.counts.tolist(), tokens.names) for tokens in views
        ]
        ends = [None if tokens.ends is None else tokens.ends.tolist() for tokens in views]
        return type(result), parts, ends

    entries = list(open_corpus(sample))
    empty = [entries[0]._replace(path=os.devnull, name=f"{i}") for i in range(70)]
    entries = [*empty, *entries]
    alone = [plain(result) for _, result in stream_features(entries, tokenizer)]
    for jobs in (2, 4):
        together = list(stream_features(entries, tokenizer, jobs))
        assert [entry for entry, _ in together] == entries
        assert [plain(result) for _, result in together] == alone


@pytest.mark.parametrize("handler", ["signal.SIG_IGN", "lambda *_: None"])
def test_worker_processes_end_with_any_handler_of_sigterm(sample, handler):
    program = (
        "import signal, sys; from streamnb.config import build; from streamnb.replay import replay_corpus;"
        f"signal.signal(signal.SIGTERM, {handler});"
        "replay_corpus(build({'corpus': {'path': sys.argv[1], 'limit': 20}, 'jobs': 3}))"
    )
    subprocess.run([sys.executable, "-c", program, str(sample)], check=True, timeout=300, cwd="/")


def test_labels_are_late_by_the_dates_of_a_table(tmp_path):
    texts = [("free pills now", "spam"), ("lunch at noon", "ham")] * 30
    rows = [f"{label},{text},{3600 * hour}" for hour, (text, label) in enumerate(texts)]
    (tmp_path / "t.csv").write_text("\n".join(["label,text,sent", *rows]) + "\n")
    corpus = {"path": str(tmp_path / "t.csv"), "order": "date", "date_column": "sent"}
    settings = {"model": {"kind": "multinomial"}, "feedback": {"kind": "delayed", "hours": 5}}
    report = replay_corpus(build({"corpus": corpus, **settings}))
    stream = [Example(x, y, date=3600.0 * hour) for hour, (x, y) in enumerate(texts)]
    model = Classifier(Tokenizer(), MultinomialNB())
    steps = list(prequential(stream, model, DelayedByTime(5 * 3600)))
    assert report.summary.accuracy == np.mean([step.predicted == step.y for step in steps])
    assert report.summary.accuracy < 54 / 60
    del corpus["date_column"], corpus["order"]
    with pytest.raises(CorpusError, match=r"feedback\.hours.*set corpus\.date_column"):
        replay_corpus(build({"corpus": corpus, **settings}))


def test_names_are_stored_if_results_need_them(sample, tmp_path, monkeypatch):
    previous = []

    def noted(config, corpus):
        previous.append(config.model.keep_names)
        return make_tokenizer(config, corpus)

    monkeypatch.setattr("streamnb.replay.run.make_tokenizer", noted)
    figures = []
    for output in ({}, {"folder": str(tmp_path / "run")}, {"model": str(tmp_path / "m.snb")}):
        report = replay_corpus(build({"corpus": {"path": str(sample)}, "output": output}))
        figures.append(report.summary.as_dict())
    assert previous == [False, True, True]
    assert figures[0] == figures[1] == figures[2]


def test_long_messages_do_not_hold_two_processes_up(tmp_path):
    """Some messages together fill the pipe to a process, their features the one from it."""
    rng = random.Random(1)
    rows = [
        f"{rng.choice(['ham', 'spam'])},{' '.join(f'{rng.getrandbits(36):x}' for _ in range(300))}\n"
        for _ in range(1200)
    ]
    (tmp_path / "long.csv").write_text("label,text\n" + "".join(rows))
    outcome = []
    for jobs in (1, 2):
        command = [*STREAMNB, "replay", str(tmp_path / "long.csv"), "--jobs", str(jobs), "--json"]
        done = subprocess.run(command, capture_output=True, timeout=300, check=True)
        outcome.append(json.loads(done.stdout)["log_loss"])
    assert outcome[0] == outcome[1]


@pytest.mark.parametrize("on_error", ["skip", "stop"])
def test_errors_come_in_order_with_any_number_of_processes(tmp_path, on_error):
    """A worker reads message 20, which has no label, before message 5 fails."""
    (tmp_path / "data").mkdir()
    for n in set(range(40)) - {5}:
        (tmp_path / f"data/{n}").write_text(f"Subject: s{n}\n\nhello {n}\n")
    lines = [f"{'?' if n in (20, 39) else ('ham', 'spam')[n % 2]} data/{n}\n" for n in range(40)]
    (tmp_path / "index").write_text("".join(lines))
    outcome = []
    for jobs in (1, 2):
        corpus = {"path": str(tmp_path), "on_error": on_error}
        settings = build({"corpus": corpus, "model": {"kind": "multinomial"}, "jobs": jobs})
        try:
            outcome.append(replay_corpus(settings).skipped)
        except StreamNBError as error:
            outcome.append([str(error)])
    assert outcome[0] == outcome[1]
    assert len(outcome[0]) == (3 if on_error == "skip" else 1)
    assert "data/5" in outcome[0][0]


def test_feed_can_be_left_early(sample):
    entries = list(open_corpus(sample)) * 20
    source = stream_features(entries, Tokenizer(), 3)
    assert [next(source)[0] for _ in range(5)] == entries[:5]
    source.close()


def test_labels_with_equal_text_have_separate_tokens():
    classifier = Classifier(Tokenizer(), MultinomialNB())
    classifier.learn_many(["free pills", "lunch"], [1, "1"])
    tokens = top_tokens(classifier)
    assert [tokens[key][0][0] for key in ("1", '"1"')] == ["free", "lunch"]


@pytest.mark.parametrize(
    ("labels", "positive"), [("ab", "b"), ("abc", None), (("ham", "spam", "c"), "spam")]
)
def test_only_two_classes_or_spam_have_a_positive_class(tmp_path, labels, positive):
    rows = [f"{label}\tword{label} {n}\n" for n in range(20) for label in labels]
    (tmp_path / "t.tsv").write_text("".join(rows))
    report = replay_corpus(build({"corpus": {"path": str(tmp_path / "t.tsv")}}))
    assert report.as_dict()["positive"] == positive


@pytest.mark.parametrize("first_closed", [0, 1])
def test_streams_that_overlap_restore_the_switch_interval(sample, first_closed):
    interval_s = sys.getswitchinterval()
    sources = [stream_features(list(open_corpus(sample)) * 5, Tokenizer(), 2) for _ in range(2)]
    for source in sources:
        next(source)
    sources[first_closed].close()
    assert sys.getswitchinterval() < interval_s
    sources[1 - first_closed].close()
    assert sys.getswitchinterval() == interval_s


def test_readers_stop_after_their_message_if_the_feed_is_left(sample, monkeypatch, tmp_path):
    log = tmp_path / "log"

    def slow(entry):
        with log.open("ab") as file:
            file.write(b".")
        time.sleep(0.05)
        return b"x"

    monkeypatch.setattr("streamnb.replay.workers.read", slow)
    source = stream_features(list(open_corpus(sample)) * 20, Tokenizer(), 3)
    next(source)
    before = log.stat().st_size
    source.close()
    assert log.stat().st_size - before < 32  # without it, about 160 messages


def test_a_reader_that_dies_is_an_error_not_a_hang(sample, monkeypatch):
    main_process = os.getpid()

    def dying(entry):
        if os.getpid() != main_process:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.02)  # so that the main process does not read all messages alone
        return b"x"

    monkeypatch.setattr("streamnb.replay.workers.read", dying)
    with pytest.raises(StreamNBError, match="ended unexpectedly"):
        list(stream_features(list(open_corpus(sample)) * 20, Tokenizer(), 2))


def test_readers_end_with_a_main_process_that_is_killed():
    program = """if True:
        import multiprocessing, os, signal
        from streamnb import Tokenizer
        from streamnb.corpus import open_corpus
        from streamnb.replay.workers import stream_features
        source = stream_features(list(open_corpus("corpora/sample")) * 20, Tokenizer(), 4)
        next(source)
        print(*(process.pid for process in multiprocessing.active_children()), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    command = [sys.executable, "-P", "-c", program]
    killed = subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=False)
    readers = [int(number) for number in killed.stdout.split()]
    assert len(readers) == 3
    until = time.monotonic() + 60
    while any(map(_is_running, readers)):
        assert time.monotonic() < until, "a reader has not ended"
        time.sleep(0.05)


def _is_running(process_id):
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


BAD_CONFIGURATIONS = {
    "model: {alhpa: 1}": "model.alhpa: unknown key; did you mean 'alpha'?",
    "model: {kind: multinomail}": "model.kind: .*'multinomail' is not one of classifier, multinomial",
    "model: {kind: MultinomialNB}": "did you mean 'multinomial'?",
    "model: {kind: TextClassifier}": "did you mean 'classifier'?",
    "model: multinomial": "model: expected keys and values, such as {kind: multinomial}",
    "model: {kind: multinomial, alpha: 0}": "use alpha=1e-10",
    "model: {kind: multinomial, prior: [0.5, 0.5]}": "write {label: share, ...}",
    "model: {kind: multinomial, prior: Uniform}": "did you mean 'uniform'?",
    "model: {kind: multinomial, laplace: 1}": "model.laplace: unknown key; did you mean 'alpha'?",
    "corpus: {kind: CSV}": "did you mean 'csv'?",
    "corpus: {order: Shuffled:3}": "did you mean 'shuffled'?",
    "corpus: {label: x}": "did you mean 'label_header' or 'label_column'?",
    "corpus: {target: x}": "did you mean 'label_header' or 'label_column'?",
    "corpus: {on_error: Skip}": "did you mean 'skip'?",
    "model: [a]": "model: expected keys and values, 'key: value'",
    "feedback: delayed": "feedback: expected keys and values, such as {kind: delayed}",
    "tokenizer: text": "tokenizer: expected keys and values, such as {kind: text}",
    "tokenizer: {lowercase: true}": "tokenizer.lowercase: unknown key; did you mean 'casefold'?",
    "tokenizer: {stop_words: english}": "streamnb has no lists of stop words",
    "model: {kind: bernoulli, binarise: 1}": "model.binarise: unknown key; did you mean 'binarize'?",
    "model: {kind: multinomial, binarize: 1}": "model.binarize: unknown key",
    "model: {alpha: 0}": "model.alpha: 0 is not a number > 0",
    "model: {alpha: one}": "model.alpha: 'one' is not a number > 0",
    "model: {alpha: .nan}": "model.alpha",
    "model: {kind: multinomial, prior: best}": "model.prior: 'best' is not one of learned, uniform",
    "model: {kind: multinomial, prior: none}": "model.prior",
    "model: {kind: multinomial, prior: {ham: -1}}": "model.prior",
    "model: {kind: multinomial, prior: {ham: 0}}": "model.prior: no class has a probability above 0",
    "model: {kind: multinomial, prior: [[[str, ham], 1]]}": "model.prior: .* is not one of learned",
    "model: 3": "model: expected",
    "feedback: {kind: delaied}": "feedback.kind: .*'delaied' is not one of immediate, delayed, partial",
    "feedback: {kind: delayed, mesages: 5}": "feedback.mesages: unknown key; did you mean 'messages'",
    "feedback: [{kind: noisy}, {kind: margin, log_ods: 5}]": r"feedback\[1\].log_ods: unknown key; did you mean",
    "feedback: {kind: delayed}": "feedback: set exactly one of messages, hours, mean",
    "feedback: {kind: partial, recipients: []}": r"feedback.recipients: \[\] is not a list of 1 values or more",
    "model: {views: [words, smells]}": r"model.views\[1\]|model.views",
    "model: {views: [words, words]}": "model.views: .*is not a list of some of words, header, body, pairs, bytes",
    "model: {views: []}": "model.views: .*is not a list of some of words, header, body, pairs, bytes",
    "model: {label_noise: 0.6}": "model.label_noise: 0.6 is not a number from 0 to below 0.5",
    "model: {decay: 0.1}": "model.decay: 0.1 is not a number from 0.5 to 1",
    "model: {window: 0}": "model.window: 0 is not a whole number from 1 to",
    "modle: {}": "modle: unknown key; did you mean 'model'?",
    "alpha: 1": "alpha: unknown key; did you mean 'model.alpha'?",
    "min_length: 2": "min_length: unknown key; did you mean 'tokenizer.min_length'?",
    "order: date": "order: unknown key; did you mean 'corpus.order'?",
    "tokenizer: {ngrams: [2, 1]}": "tokenizer.ngrams: .2, 1. is not a pair of whole numbers from 1 to 8 in ascending order",
    "tokenizer: {ngrams: [1, 9]}": "tokenizer.ngrams",
    "tokenizer: {ngrams: 2}": "tokenizer.ngrams: 2 is not a pair of whole numbers",
    "tokenizer: {kind: text, headers: true}": "tokenizer.headers: the tokenizer for text has no such",
    "tokenizer: {inner: ab}": "tokenizer.inner",
    "tokenizer: {casefold: yes please}": "tokenizer.casefold: 'yes please' is not true or false",
    "corpus: {order: random}": "corpus.order: 'random' is not one of indexed, name, date, shuffled",
    "corpus: {on_error: explode}": "corpus.on_error: 'explode' is not one of stop, skip",
    "tokenizer: {kind: post}": "tokenizer.kind: 'post' is not one of auto, text, mail",
    "evaluate: {window: 1e20}": "evaluate.window",
    "sweep: [{1: 2}]": r"sweep\[0\]: 1 is not a name; put it in quotes",
    "sweep: {1: [2]}": "sweep: 1 is not a name; put it in quotes",
    "'': 1": "c.yaml: '': unknown key; known keys: corpus",
    "model: {alpha: !!bool q}": "c.yaml:1: not YAML: 'q' is not a valid bool",
    "corpus:\n  limit: !!timestamp q": "c.yaml:2: not YAML: 'q' is not a valid timestamp",
    "model: {alpha: 1:30:00}": "c.yaml:1: not YAML: '1:30:00' is not a valid int: YAML reads it",
    "model: {bound: 1e20}": "model.bound: 1e.20 is not a number from 0.001 to 1e.09",
    "jobs: 0x" + "f" * 6000: ":1: not YAML: '0xf+' is not a valid int: .* put it in quotes",
    "tokenizer: {max_length: 100000000000000000000}": "tokenizer.max_length",
    "output: {folder: ''}": "output.folder",
    "corpus: {limit: 0}": "corpus.limit: 0 is not a whole number from 1 to",
    "corpus: {paht: x}": "corpus.paht: unknown key; did you mean 'path'?",
    "evaluate: {fading: 1}": "evaluate.fading",
    "jobs: 0": "jobs: 0 is not a whole number from 1 to 256",
    "": "the file is empty",
    "- a\n- b": "expected YAML with a mapping of keys at the top, found a list",
    "just text": "expected YAML with a mapping",
    "a: [": ":1: not YAML",
    "a: b: c": ":1: not YAML",
    "jobs: 1\njobs: 2": ":2: the key 'jobs' occurs twice",
    "a: &x [1]\nb: *x": ":2: aliases",
    "a: !!python/object/apply:os.system [ls]": "not YAML",
    "? [1, 2]\n: 3": "YAML|unknown key",
    "1: 2": "1: unknown key",
    "null: 2": "null: unknown key",
    "model: {length_norm: x}": "model.length_norm: 'x' is not a number",
    "feedback: {kind: noisy, share: {foo: 0.1}}": "feedback.share: no message is of class 'foo'; there are",
    "evaluate: {positive: 1}": "evaluate.positive: no message is of class '1'",
    "\x00": "not YAML",
    "model: {alpha: 1" + "[" * 3000: "not YAML",
}  # fmt: skip


@pytest.mark.parametrize("text", BAD_CONFIGURATIONS)
def test_bad_configurations_are_refused_with_the_key(sample, tmp_path, text):
    path = tmp_path / "c.yaml"
    path.write_text(text)

    def run():
        data = read_yaml(path)
        data.setdefault("corpus", {}).setdefault("path", str(sample))
        replay_corpus(build(data, str(path)))

    with pytest.raises(ConfigError, match=BAD_CONFIGURATIONS[text]) as caught:
        run()
    assert "\n" not in str(caught.value)
    status, _, error = streamnb_command("replay", sample, "--config", path)
    assert status == 2
    assert error.startswith("streamnb: ")
    assert error.count("\n") == 1


def test_a_replay_with_an_error_does_not_replace_earlier_results(sample, tmp_path):
    run, model = tmp_path / "run", tmp_path / "m.snb"
    command = ("replay", sample, "--limit", 30, "--out", run, "--save", model)
    assert streamnb_command(*command)[0] == 0
    before = {path: path.read_bytes() for path in (model, *run.iterdir())}
    status, _, error = streamnb_command(*command, "--set", "evaluate.positive=none")
    assert (status, error.startswith("streamnb: evaluate.positive")) == (2, True)
    assert f"{model}: the earlier model is not changed; {run}: the earlier results" in error
    assert {path: path.read_bytes() for path in before} == before
    (run / "tokens.json").unlink()
    (run / "tokens.json").mkdir()
    status, _, error = streamnb_command(*command)
    assert (status, error) == (
        5,
        f"streamnb: {run}/tokens.json: cannot be written: Is a directory\n",
    )
    assert all(
        path.read_bytes() == text for path, text in before.items() if path.name != "tokens.json"
    )


def test_yaml_that_cannot_be_read(tmp_path):
    for content in (b"\xff\xfe\xff", b"a" * (1 << 20) + b"a"):
        (tmp_path / "c.yaml").write_bytes(content)
        with pytest.raises(ConfigError, match=r"c\.yaml: (not UTF-8|longer than|not YAML)"):
            read_yaml(tmp_path / "c.yaml")
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_yaml(tmp_path / "gone.yaml")


def test_defaults_are_a_configuration_and_survive_yaml(tmp_path):
    default = build({})
    (tmp_path / "c.yaml").write_text(to_yaml(default))
    assert build(read_yaml(tmp_path / "c.yaml")) == default
    assert build(dict.fromkeys(default.declared_keys)) == default


def test_a_message_that_cannot_be_read_stops_or_is_noted():
    skipped = []
    skip_or_stop(build({"corpus": {"on_error": "skip"}}), "a: empty", skipped, "m1")
    assert skipped == ["a: empty"]
    for name, calls in (("m1", "message m1; "), ("", "")):
        with pytest.raises(CorpusError, match=rf"^a: empty \({calls}use --on-error skip"):
            skip_or_stop(build({}), "a: empty", skipped, name)


def test_a_configuration_may_name_a_corpus_in_the_home_folder(repository, tmp_path):
    (tmp_path / "c.yaml").write_text("corpus: {path: ~/sample, limit: 3}")
    home = {**os.environ, "HOME": str(repository / "corpora")}
    status, out, error = streamnb_command("replay", tmp_path / "c.yaml", "--json", env=home)
    assert (status, error, json.loads(out)["messages"]) == (0, "", 3)


def test_every_configuration_of_the_project_is_sound(repository):
    files = sorted((repository / "configs").glob("*.yaml"))
    assert {file.stem for file in files} >= {
        "sample",
        "spamassassin",
        "enron1",
        "enron3",
        "enron5",
        "sms",
        "r8",
    }
    for file in files:
        assert file.read_text().startswith("# ")
        build(read_yaml(file), str(file))
    status, out, _ = streamnb_command(
        "replay", repository / "configs" / "sample.yaml", "--json", cwd="/"
    )
    assert (status, json.loads(out)["messages"]) == (0, 300)


def bad_targets(folder: Path):
    (folder / "empty").mkdir()
    (folder / "zero").write_text("")
    (folder / "blank.csv").write_text("\n \n\n")
    (folder / "binary").write_bytes(bytes(range(256)) * 10)
    (folder / "gone").mkdir()
    (folder / "gone" / "index").write_text("ham nothing-here\n")
    (folder / "broken.yaml").write_text("corpus: [")
    return {
        "missing": ("missing: no such file or folder", 3),
        "empty": ("not a corpus; expected", 3),
        "zero": ("the file is empty", 3),
        "blank.csv": ("blank.csv: the file has only blank lines", 3),
        "binary": ("not text", 3),
        "gone": ("nothing-here: cannot be read", 3),
        "broken.yaml": (":1: not YAML", 2),
        "missing.yaml": ("cannot be read", 2),
    }


def test_bad_targets_are_one_line_and_a_status(tmp_path):
    for target, (message, expected) in bad_targets(tmp_path).items():
        status, out, error = streamnb_command("replay", tmp_path / target)
        assert (status, out) == (expected, "")
        assert message in error
        assert error.startswith("streamnb: ")
        assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--limit", "0"], "--limit"),
        (["--limit", "many"], "--limit"),
        (["--jbos", "2"], "--jobs"),
        (["--order", "random"], "corpus.order"),
        (["--set", "model.alpha"], "expected KEY=VALUE"),
        (["--set", "model.alpha=["], "not YAML"),
        (["--set", "jobs.x=1"], "jobs"),
        (["--set", "model.kind.x=1"], "model"),
        (["--config", "missing.yaml"], "missing.yaml: cannot be read"),
        (["--out", "/dev/null/x"], "cannot be written"),
        (["--on-error", "explode"], "--on-error"),
    ],
)
def test_bad_options_are_refused(sample, arguments, message):
    status, out, error = streamnb_command("replay", sample, *arguments)
    assert status in (2, 5)
    assert (out, error.count("\n")) == ("", 1)
    assert error.startswith("streamnb: ")
    assert message in error


def test_a_full_disk_is_one_line(sample, tmp_path):
    program = f"{sys.executable} -P -c 'from streamnb.cli import main; main()'"
    command = f"ulimit -f 4; exec {program} replay {sample} --out {tmp_path}/run"  # 4 KiB a file
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 5
    assert "cannot be written: File too large" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_huge_message(tmp_path):
    write = {
        "ham/huge": b"Subject: x\n\n" + b"word " * 20_000_000,
        "spam/small": b"Subject: x\n\nx",
    }
    for name, content in write.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(content)
    status, out, _ = streamnb_command("replay", tmp_path, "--json")
    figures = json.loads(out)
    assert (status, figures["messages"]) == (0, 2)
    assert figures["peak_memory_bytes"] < 200_000_000


@pytest.mark.parametrize(
    ("index", "options", "message", "expected"),
    [
        ("ham m\nham m\n", [], "all 2 messages are of class ham", 3),
        ("Ham m\nSpam m\n", [], "no message was learned", 3),
        (
            "ham m\nspam m\n",
            ["--set", "feedback={kind: partial, recipients: [a@example.org]}"],
            "no message was sent to one of feedback.recipients",
            3,
        ),
        (
            "ham m\nspam m\n",
            ["--set", "evaluate.positive=junk"],
            "no message is of class 'junk'",
            2,
        ),
    ],
)
def test_figures_that_mean_nothing_are_refused_and_written_to_a_new_folder(
    tmp_path, index, options, message, expected
):
    (tmp_path / "m").write_text("\nx")
    (tmp_path / "index").write_text(index)
    status, _, error = streamnb_command("replay", tmp_path, "--out", tmp_path / "run", *options)
    assert status == expected
    assert message in error
    assert error.count("\n") == 1
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["messages"] == 2
    assert message in summary["problem"]


def test_unlabelled_messages_stop_or_are_skipped(tmp_path):
    box = "".join(f"From a Mon Jan 5 12:00:00 2026\n{f}\n\nx\n\n" for f in ("K: a", "K: b", "J: c"))
    (tmp_path / "all.mbox").write_text(box)
    field = ["--set", "corpus.label_header=K"]
    status, _, error = streamnb_command("replay", tmp_path / "all.mbox", *field)
    assert (status, "message all.mbox:3 has no field K" in error) == (3, True)
    skip = [*field, "--on-error", "skip", "--json"]
    status, out, _ = streamnb_command("replay", tmp_path / "all.mbox", *skip)
    assert (status, json.loads(out)["messages"], json.loads(out)["skipped"]) == (0, 2, 1)


def test_control_characters_are_not_printed(tmp_path):
    (tmp_path / "t.tsv").write_text("[/x]\tfoo\n\x1b[2Jy\tbar\n[red]z\tbaz\n[/x]\tfoo\n")
    status, out, _ = streamnb_command("replay", tmp_path / "t.tsv", "--out", tmp_path / "run")
    assert status == 0
    assert "[/x]" in out
    assert "[red]z" in out
    assert "\x1b" not in out + (tmp_path / "run" / "results.txt").read_text()


def test_standard_output_that_is_full(sample):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    for options in ([], ["--json"]):
        with open("/dev/full", "w") as full:
            command = [*STREAMNB, "replay", str(sample), *options]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 5
        assert done.stderr.count("\n") == 1
        assert "cannot be written" in done.stderr


def test_numbers_with_an_exponent_are_numbers(tmp_path, sample):
    (tmp_path / "c.yaml").write_text("model: {alpha: 1e-3}")
    assert build(read_yaml(tmp_path / "c.yaml")).model.alpha == 0.001
    assert streamnb_command("replay", sample, "--set", "model.alpha=2e-2", "--quiet")[0] == 0


def test_the_table_is_readable(sample):
    out = CliRunner().invoke(streamnb.cli.group.commands, ["replay", str(sample)])
    assert out.exit_code == 0
    for word in (
        "a TREC index",
        "accuracy",
        "95 %",
        "(1-ROCA)%",
        "sm% at hm% = .1",
        "lam",
        "recall",
        "spam",
    ):
        assert word in out.output
    assert (
        CliRunner().invoke(streamnb.cli.group.commands, ["replay", str(sample), "--quiet"]).output
        == ""
    )


def test_the_field_with_the_label_is_never_read_as_text(tmp_path):
    box = "".join(
        f"From a Thu Jan  1 00:00:00 2026\nX-Label: {label}\nSubject: hi\n\nhello\n\n"
        for label in ["ham", "spam"] * 5
    )
    (tmp_path / "box").write_text(box)
    requests = ["replay", tmp_path / "box", "--set", "corpus.label_header=X-Label"]
    status, _, error = streamnb_command(*requests, "--set", "tokenizer.kind=text")
    assert status == 2
    assert "tokenizer.kind" in error
    assert "X-Label" in error
    status, out, _ = streamnb_command(*requests, "--json")
    assert status == 0
    assert json.loads(out)["accuracy"] <= 0.5  # the messages are alike


def test_intervals_can_be_left_out(sample):
    status, out, _ = streamnb_command("replay", sample, "--limit", 40, "--no-intervals", "--json")
    assert (status, json.loads(out)["intervals"]) == (0, {})


def test_paths_need_not_be_utf_8(sample, tmp_path):
    odd = os.fsdecode(b"od\xffd")
    (tmp_path / odd).mkdir()
    (tmp_path / odd / "corpus").symlink_to(sample)
    run, model = tmp_path / odd / "run", tmp_path / odd / "model.snb"
    options = ("--out", run, "--save", model, "--limit", "40", "--quiet")
    status, _, error = streamnb_command("replay", tmp_path / odd / "corpus", *options)
    assert (status, error) == (0, "")
    assert model.exists()
    before = (run / "results.txt").read_bytes()
    status, _, error = streamnb_command("replay", run / "config.yaml", "--quiet")
    assert (status, error) == (0, "")
    assert (run / "results.txt").read_bytes() == before


def test_classes_with_numbers_as_names_have_their_prior(tmp_path):
    lines = "".join(f"{n % 3 == 0:d}\tword{n % 5} text\n" for n in range(60))
    (tmp_path / "c.txt").write_text(lines)
    losses = set()
    for prior in ("{0: .9, 1: .1}", "{'0': .9, '1': .1}"):
        options = ("--set", "model.kind=multinomial", "--set", f"model.prior={prior}", "--json")
        status, out, _ = streamnb_command("replay", tmp_path / "c.txt", *options)
        assert status == 0
        losses.add(json.loads(out)["log_loss"])
    _, out, _ = streamnb_command("replay", tmp_path / "c.txt", *options[:2], "--json")
    assert len(losses) == 1
    assert losses != {json.loads(out)["log_loss"]}


def test_an_error_names_the_class_that_a_prior_omits(sample):
    options = ("--set", "model.kind=multinomial", "--set", "model.prior={ham: .5, spma: .5}")
    status, _, error = streamnb_command("replay", sample, *options, "--quiet")
    assert (status, error.count("\n")) == (2, 1)
    assert "prior: no share for class 'spam', only for" in error
    status, _, error = streamnb_command("fit", sample, *options, "-o", "prior.snb")
    assert (status, error.count("\n")) == (2, 1)
    assert not Path("prior.snb").exists()
    options = ("--set", "model.kind=multinomial", "--set", "model.prior={ham: 1, spam: 1, spma: 1}")
    for command in (("replay", sample), ("fit", sample, "-o", "prior.snb")):
        status, _, error = streamnb_command(*command, *options)
        assert (status, error.count("\n")) == (2, 1)
        assert "model.prior: no message is of class 'spma'; there are " in error


@pytest.mark.parametrize(
    ("labels", "is_sorted"),
    [("a" * 12 + "b" * 11, True), ("ab" * 12, False), ("a" * 30 + "b", False)],
)
def test_a_corpus_that_is_sorted_by_class_is_named(tmp_path, labels, is_sorted):
    rows = "".join(f"{label},text{i} of {label}\n" for i, label in enumerate(labels))
    (tmp_path / "t.csv").write_text("label,text\n" + rows)
    for options, expected in (((), is_sorted), (("--order", "shuffled:1"), False)):
        status, _, error = streamnb_command("replay", tmp_path / "t.csv", *options)
        assert (status, "sorted by class" in error) == (0, expected)
