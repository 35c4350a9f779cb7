"""`explain`, `top` and `trec` on the command line."""

import errno
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios

import click
import numpy as np
import pytest
from commands import STREAMNB, streamnb_command

from streamnb import Mailbox
from streamnb.classifier import Classifier, TextClassifier
from streamnb.cli import group as group_module
from streamnb.config import build
from streamnb.errors import describe_os_error
from streamnb.replay import replay_corpus


@pytest.fixture
def model(sample, tmp_path):
    path = tmp_path / "model.snb"
    status, _, error = streamnb_command("replay", sample, "--save", path, "--quiet")
    assert (status, error) == (0, "")
    return path


@pytest.mark.parametrize(("number", "label"), [("005", "spam"), ("001", None)])
def test_explain_gives_the_reasons_of_the_classifier_in_log_odds_of_spam(
    sample, model, number, label
):
    classifier = Classifier.load(model)
    message = sample / "data" / f"{number}.eml"
    verdict = classifier.classify(message.read_bytes(), 7)
    assert label in (verdict.label, None)
    status, out, error = streamnb_command("explain", message, "--model", model, "-n", 7, "--json")
    assert (status, error) == (0, "")
    result = json.loads(out)
    sign = 1 if verdict.label == "spam" else -1
    assert (result["label"], result["log_odds_of"]) == (verdict.label, "spam")
    assert result["log_odds"] == sign * verdict.log_odds
    assert [(item["evidence"], item["log_odds"], item["counts"]) for item in result["reasons"]] == [
        (verdict.side(reason.log_odds), sign * reason.log_odds, reason.counts)
        for reason in verdict.reasons
    ]
    for item in result["reasons"]:
        assert item["evidence"] == ("for spam" if item["log_odds"] > 0 else "for ham")


def test_explain_and_classify_agree_for_a_mailbox_and_a_model(sample, tmp_path):
    database, model = tmp_path / "mail.db", tmp_path / "m.snb"
    data = sample / "data"
    with Mailbox(database) as mailbox:
        for number, label in enumerate(["ham", "spam"] * 5, 1):
            mailbox.learn((data / f"{number:03}.eml").read_bytes(), label)
    export = streamnb_command("export", model, "--format", "model", "--db", database)
    assert export[0] == 0, export
    results = []
    for options in (["--db", database], ["--model", model]):
        status, out, _ = streamnb_command("explain", data / "020.eml", "--json", *options)
        assert status == 0
        results.append(json.loads(out))
    assert results[0].keys() == results[1].keys()
    assert results[0]["log_odds"] == pytest.approx(results[1]["log_odds"])
    classify = ["classify", data / "020.eml", "--json", "--reasons", 9, "--db", database]
    response = json.loads(streamnb_command(*classify)[1])
    assert results[0]["log_odds"] == pytest.approx(response["score"])
    by_token = {item["token"]: item["log_odds"] for item in results[0]["reasons"]}
    assert [by_token[token] for token, _ in response["reasons"]] == pytest.approx(
        [log_odds for _, log_odds in response["reasons"]]
    )


def test_explain_prints_a_table(sample, model):
    message = sample / "data" / "005.eml"
    status, out, _ = streamnb_command("explain", message, "--model", model)
    assert status == 0
    assert out.startswith("spam\nprobabilities: spam ")
    assert "token" in out.splitlines()[3]
    assert len(out.splitlines()) == 24


def test_top_shows_what_the_model_holds(model):
    status, out, _ = streamnb_command("top", model, "-n", 5, "--json")
    assert status == 0
    results = json.loads(out)
    classifier = Classifier.load(model)
    assert set(results) == {"ham", "spam"}
    for label, rows in results.items():
        gains = [row["log_odds"] for row in rows]
        assert gains == [gain for _, gain, _ in classifier.top_features(label, 5)]
        assert gains == sorted(gains, reverse=True)
        assert all(row["counts"][label] > 0 for row in rows)
    status, out, _ = streamnb_command("top", model, "--class", "spam")
    assert out.splitlines()[0] == "for spam"
    status, _, error = streamnb_command("top", model, "--class", "list")
    assert status == 2
    assert "'list' is neither a class of" in error


@pytest.mark.parametrize(("classes", "columns"), [(4, 4), (5, 4), (16, 4)])
def test_tables_of_many_classes_stay_narrow(tmp_path, classes, columns):
    data, model = tmp_path / "data.csv", tmp_path / "m.snb"
    data.write_text("label,text\n" + "".join(f"c{k},word{k} noon\n" for k in range(classes)) * 4)
    assert streamnb_command("fit", data, "-o", model, "--quiet")[0] == 0
    message = tmp_path / "message.txt"
    message.write_text("word3 word1")
    verdict = Classifier.load(model).classify("word3 word1")
    status, out, _ = streamnb_command("explain", message, "--model", model, "-n", 1)
    assert status == 0
    header = next(line for line in out.splitlines() if line.startswith("token"))
    probable = sorted(verdict.probabilities.values())[-columns:]
    labels = [label for label in verdict.probabilities if f"in {label} " in f"{header} "]
    assert sorted(verdict.probabilities[label] for label in labels) == probable
    assert (f"and {classes - columns} less probable" in out) == (classes > columns)
    out = streamnb_command("explain", message, "--model", model, "-n", 1, "--json")[1]
    assert len(json.loads(out)["reasons"][0]["counts"]) == classes

    rows = json.loads(streamnb_command("top", model, "c3", "-n", 1, "--json")[1])["c3"]
    _, header, line = streamnb_command("top", model, "c3", "-n", 1)[1].splitlines()
    assert ("in all others" in header) == (classes > 4)
    if classes > 4:
        counts = rows[0]["counts"]
        sums = [counts["c3"], sum(counts.values()) - counts["c3"]]
        assert [float(cell) for cell in line.split()[-2:]] == pytest.approx(sums, rel=1e-3)


def test_models_of_every_kind_explain(sample, tmp_path):
    for kind in ("multinomial", "bernoulli", "complement", "discriminative"):
        path = tmp_path / kind
        settings = ["--set", f"model.kind={kind}", "--set", "model.keep_names=false"]
        assert streamnb_command("replay", sample, "--save", path, "--quiet", *settings)[0] == 0
        assert streamnb_command("top", path)[0] == 0
        status, out, _ = streamnb_command("explain", sample / "data" / "005.eml", "--model", path)
        assert status == 0
        assert "#" in out  # names were not kept


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["explain", "{dir}/none", "--model", "{model}"], 3, "none: cannot be read: no such file"),
        (["explain", "{model}", "--model", "{dir}/none"], 4, "none: the model cannot be read"),
        (["explain", "{model}", "--model", "{sample}"], 4, "index: not a streamnb model"),
        (["explain", "{dir}", "--model", "{model}"], 3, "cannot be read: is a directory"),
        (["explain", "{sample}", "--db", "{dir}/none"], 4, "no such database"),
        (["top", "--db", "{dir}/none"], 4, "no such database"),
        (["top", "{sample}"], 4, "not a streamnb model"),
        (["top", "tickets.csv"], 4, "`streamnb fit`"),
        (["top", "TICKETS.CSV"], 4, "`streamnb fit`"),
        (["top", "{model}", "-n", "0"], 2, "0"),
        (
            ["trec-run", "classify", "{sample}", "--state", "{dir}/none"],
            4,
            "none: the model cannot",
        ),
        (["trec-run", "train", "eggs", "{sample}"], 2, "eggs"),
        (["trec-run", "initialize", "--state", "{dir}/no/such"], 5, "cannot be written"),
        (["replay", "{sample}", "--save", "{dir}/no/such"], 5, "cannot be written"),
    ],
)
def test_errors_are_one_line(sample, model, tmp_path, arguments, status, message):
    names = {"dir": tmp_path, "model": model, "sample": sample / "index"}
    results, _, error = streamnb_command(*(argument.format(**names) for argument in arguments))
    assert (results, "Traceback" in error) == (status, False)
    assert message in error


def test_learn_reads_a_pipe_once(sample, tmp_path):
    spam, ham = sample / "data" / "005.eml", sample / "data" / "001.eml"
    read_end, write_end = os.pipe()
    os.write(write_end, b"From a Mon Jan 5 12:00:00 2026\nSubject: pills\n\nbuy pills\n")
    os.close(write_end)
    command = [sys.executable, "-P", "-m", "streamnb", "learn", "--db", tmp_path / "db"]
    classes = [f"spam=/dev/fd/{read_end}", f"spam={spam}", f"ham={ham}"]
    run = subprocess.run(
        [*command, *classes], pass_fds=[read_end], capture_output=True, text=True, check=False
    )
    os.close(read_end)
    assert (run.returncode, run.stderr) == (0, "")
    with Mailbox(tmp_path / "db") as mailbox:
        assert mailbox.verify() == []
        assert len(list(mailbox.ledger.rows())) == 3


def test_a_source_that_cannot_be_looked_up_hides_no_other(sample, tmp_path):
    classes = [f"spam={sample}/data/005.eml", f"ham={sample}/data/001.eml", f"ham={'a' * 300}"]
    status, out, error = streamnb_command("learn", *classes, "--db", tmp_path / "db")
    assert (status, error.count("\n")) == (3, 1)
    assert "cannot be read: file name too long" in error
    assert " 2 learned" in out


def test_learn_does_not_take_a_second_class_for_a_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("junk", "inbox", "ham"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.eml").write_text(f"Subject: {name}\n\nwords of {name}\n")
    learn = ["learn", "--db", "mail.db"]
    for word, pair in (
        ("not-spam", "not-spam=SOURCE"), ("ham", "ham=SOURCE"), ("ham=inbox", "ham=inbox"),
    ):  # fmt: skip
        status, out, error = streamnb_command(*learn, "spam", "junk", word, "inbox")
        assert (status, out) == (2, "")
        assert f"{word}: a class or a folder?" in error
        assert f"write spam=junk {pair}; for a folder, ./{word}" in error
        assert not (tmp_path / "mail.db").exists()
    # a file can move before it is read, so the other files are learned
    status, out, error = streamnb_command(*learn, "spam", "junk", "inbox/2.eml")
    assert (status, out) == (3, "junk/1.eml: learned\n")
    assert "inbox/2.eml: cannot be read" in error
    status, out, _ = streamnb_command(*learn, "ham", "3", "junk/gone", "inbox", "ham")
    assert (status, out) == (3, "2 messages: 2 learned\n")
    assert streamnb_command(*learn, "spam", "jnk")[0] == 3


def test_trec_wants_a_filter_of_ham_and_spam(sample, model, tmp_path):
    corpus = tmp_path / "texts.txt"
    corpus.write_text("".join(f"{label}\tword {label}\n" for label in ("a", "b", "c") * 5))
    assert streamnb_command("replay", corpus, "--quiet", "--save", tmp_path / "abc")[0] == 0
    status, _, error = streamnb_command("trec-run", "classify", corpus, "--state", tmp_path / "abc")
    assert (status, error.count("\n")) == (4, 1)
    assert "classes other than ham and spam" in error
    streamnb_command("trec-run", "initialize", "--state", tmp_path / "new")
    for command in (["top", tmp_path / "new"], ["explain", corpus, "--model", tmp_path / "new"]):
        status, _, error = streamnb_command(*command)
        assert status == 4
        assert "no message was learned yet" in error


def test_top_needs_two_classes(tmp_path):
    (tmp_path / "a.eml").write_text("Subject: pills\n\nbuy pills\n")
    assert streamnb_command("learn", "spam", tmp_path / "a.eml", "--db", tmp_path / "db")[0] == 0
    for names in ([], ["spam"]):
        status, out, error = streamnb_command("top", *names, "--db", tmp_path / "db")
        assert (status, out, error.count("\n")) == (4, "", 1)
        assert "all messages are spam" in error
        assert "learn messages of another class first" in error


def test_a_key_of_the_message_is_for_programs(sample, tmp_path):
    classifier = TextClassifier(on="text")
    classifier.learn_one({"text": "free"}, "spam")
    classifier.learn_one({"text": "lunch"}, "ham")
    classifier.save(tmp_path / "m")
    for command in (
        ["explain", sample / "index", "--model"],
        ["trec-run", "classify", sample / "index", "--state"],
    ):
        assert streamnb_command(*command, tmp_path / "m")[0] == 0


def test_results_are_not_written_through_existing_links(sample, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "run" / "summary.json.partial").symlink_to(tmp_path / "kept")
    os.mkfifo(tmp_path / "run" / "results.txt.partial")
    assert streamnb_command("replay", sample, "--limit", 30, "--out", tmp_path / "run")[0] == 0
    assert (tmp_path / "kept").read_text() == "kept"
    assert len((tmp_path / "run" / "results.txt").read_text().splitlines()) == 30


def test_standard_streams_may_be_closed(sample, model):
    run = f"{sys.executable} -P -c 'from streamnb.cli import main; main()'"
    for command, status in (
        (f"explain - --model {model} <&-", 3),
        (f"top {model} >&-", (0, 5, 1)),
        (f"replay {sample} --limit 20 2>&-", 0),
        (f"replay {sample}/none 2>&-", 3),
    ):
        done = subprocess.run(["bash", "-c", f"{run} {command}"], capture_output=True, text=True)
        assert done.returncode == status or done.returncode in np.atleast_1d(status)
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "replay {sample} --limit 20",
        "replay {sample} --limit 20 --json",
        "replay {sample} --limit 20 --set 'sweep={{model.alpha: [1]}}'",
        "replay {sample} --limit 20 --set 'sweep={{model.alpha: [1]}}' --json",
        "status --db {db}",
        "learn ham {sample}/data/001.eml --db {db}",
    ],
)
def test_a_reader_that_has_gone_has_its_own_status(sample, tmp_path, command):
    db = tmp_path / "db"
    streamnb_command("learn", "ham", sample / "data" / "005.eml", "--db", db)
    run = f"{sys.executable} -P -c 'from streamnb.cli import main; main()'"
    piped = f"{run} {command.format(sample=sample, db=db)} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", piped], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (141, "")


def test_commands_on_a_database_print_one_json_object(sample, tmp_path):
    spam, ham, db = sample / "data" / "005.eml", sample / "data" / "001.eml", tmp_path / "db"
    streamnb_command("learn", "ham", ham, "--db", db)
    streamnb_command("learn", "spam", spam, "--db", tmp_path / "other")
    streamnb_command("export", tmp_path / "lines", "--db", tmp_path / "other")
    results = {}
    for command in (
        f"merge {tmp_path}/other",
        f"import {tmp_path}/lines",
        "verify",
        "undo --last --dry-run",
        "undo --last",
        "undo --redo",
        f"recover {tmp_path}/new",
        "compact",
        "status",
    ):
        status, out, error = streamnb_command(*command.split(), "--json", "--db", db)
        assert (status, error) == (0, ""), command
        results[command.split(" /")[0]] = json.loads(out)
    merged, imported = results["merge"], results["import"]
    assert (merged["rows_added"], merged["unchanged"]) == (1, 0)
    assert (imported["rows_added"], imported["unchanged"]) == (0, 1)
    assert imported["readiness"].keys() == {"ham", "spam"}
    assert results["verify"] == {"path": str(db), "problems": []}
    assert results["undo --last"] == results["undo --last --dry-run"] | {"dry_run": False}
    assert results["undo --last"]["unlearned"] == results["undo --redo"]["learned"] == 1
    assert results["recover"] == {"rows_added": 2, "losses": []}


def test_termination_leaves_no_partial_file(sample, tmp_path):
    """SIGTERM when a part of a mailbox is written."""
    with Mailbox(tmp_path / "db") as mailbox:
        for number in range(300):
            mailbox.learn(
                b"Subject: %d\n\n" % number + b" ".join(b"w%d" % i for i in range(400)), "ham"
            )
    program = (
        "import os, signal, streamnb.mailbox.transfer.json_lines as lines\n"
        "shown = lines._json\n"
        "lines._json = lambda line: os.kill(os.getpid(), signal.SIGTERM) or shown(line)\n"
        "from streamnb.cli import main; main()"
    )
    run = [
        sys.executable,
        "-P",
        "-c",
        program,
        "export",
        tmp_path / "out.jsonl",
        "--db",
        tmp_path / "db",
    ]
    before = sorted(tmp_path.iterdir())
    done = subprocess.run(run, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")
    assert sorted(tmp_path.iterdir()) == before


# Runs a command, and ends it by SIGTERM after it has copied standard input.
COPY_AND_END = """
import os, signal, sys
end = sys.argv.pop(1)
set_times = os.utime
def set_times_and_end(*arguments):
    set_times(*arguments)
    if end == "SIGTERM":
        os.kill(os.getpid(), signal.SIGTERM)
os.utime = set_times_and_end
from streamnb.cli import main
main()
"""
COPYING = (["learn", "ham", "-"], ["import", "-"], ["fit", "-", "-o", "m.snb"])


@pytest.mark.parametrize("command", COPYING, ids=lambda command: command[0])
@pytest.mark.parametrize("end", ["SIGTERM", "exit"])
def test_no_copy_of_standard_input_stays(tmp_path, command, end):
    """A copy of mail must not fill the folder of temporary files."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-P", "-c", COPY_AND_END, end, *command],
        input=b"From a@b.c Mon Jan  1 00:00:00 2024\nSubject: x\n\nlunch\n\n" * 2,
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary), "STREAMNB_DB": str(tmp_path / "db")},
    )
    assert (done.returncode == -signal.SIGTERM) == (end == "SIGTERM")
    assert list(temporary.iterdir()) == []


def test_a_full_folder_of_temporary_files_is_named(tmp_path):
    """Standard input itself can be read."""
    run = f"ulimit -f 1; {sys.executable} -P -m streamnb fit - -o {tmp_path}/m.snb"
    done = subprocess.run(
        ["bash", "-c", run],
        input=b"label,text\n" + b"ham,lunch at noon\n" * 1000,
        capture_output=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert (done.returncode, done.stderr.count(b"\n")) == (3, 1)
    assert f"standard input: cannot be copied to {tmp_path}/".encode() in done.stderr


def test_output_that_is_closed_and_numbers_without_end(tmp_path):
    with Mailbox(tmp_path / "db") as mailbox:
        mailbox.learn(b"Subject: x\n\n", "ham")
    run = f"{sys.executable} -P -c 'from streamnb.cli import main; main()'"
    for command, status, report_lines in (
        (f"export - --db {tmp_path}/db >&-", 5, "standard output is closed"),
        (f"undo --last {10**30} --db {tmp_path}/db", 0, ""),
        (f"filter --db {tmp_path}/db <&- >&- 2>&-", 75, ""),
    ):
        done = subprocess.run(["bash", "-c", f"{run} {command}"], capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        assert report_lines in done.stderr


def test_limits_of_the_system_are_not_the_output():
    assert describe_os_error(OSError(errno.EMFILE, "Too many open files")).startswith(
        "a limit of the system"
    )
    assert describe_os_error(OSError(errno.ENOSPC, "No space left")).startswith("standard output")


def test_wrong_options_are_one_line(sample, tmp_path):
    for arguments, message in (
        (["replay", sample, "--ordr", "name"], "no such option"),
        (["replay", sample, "--jobs", "0"], "--jobs"),
        (["undo", "--since", "2x", "--db", tmp_path / "db"], "is not a time"),
        (["learn", "", sample, "--db", tmp_path / "db"], "is a shell variable unset?"),
        (["nothing"], "no such command"),
        (["classfy", sample], "did you mean 'classify'?"),
        (["spark", "fti"], "no such command: 'fti'; did you mean 'fit'?"),
        (["trec-run", "trian"], "no such command: 'trian'; did you mean 'train'?"),
        (["undo", "--db", tmp_path / "db"], "one of --since"),
        (["undo", "--redo", "--last", "--db", tmp_path / "db"], "one of --since"),
        (["status", "--db", tmp_path / "db", "--user", "ann"], "cannot be combined"),
    ):
        status, out, error = streamnb_command(*arguments)
        assert (status, out, error.count("\n")) == (2, "", 1)
        assert error.startswith("streamnb: ")
        assert message in error
        assert "--help" in error or "undo" in arguments or "--user" in arguments
    assert "Usage: " in streamnb_command()[2]


@pytest.mark.parametrize("command", ["predict", "evaluate", "top", "explain"])
def test_a_missing_model_names_the_command_that_writes_one(tmp_path, command):
    (tmp_path / "a.csv").write_text("label,text\nx,a\n")
    for name in ("none.snb", "a.csv"):
        status, out, error = streamnb_command(command, tmp_path / name, tmp_path / "a.csv")
        if name == "a.csv" and command in ("top", "explain"):
            assert status != 0  # a file without a model is a label or a message
            continue
        assert (status, out, error.count("\n")) == (4, "", 1)
        assert "`streamnb fit`" in error


def test_export_to_bogofilter_names_the_omitted_classes(sample, tmp_path):
    db = ["--db", tmp_path / "db"]
    for label, name in (("ham", "001"), ("spam", "005"), ("work", "002"), ("lists", "003")):
        streamnb_command("learn", label, sample / "data" / f"{name}.eml", *db)
    status, _, error = streamnb_command("export", tmp_path / "d", "--format", "bogofilter", *db)
    assert (status, error.count("\n")) == (0, 1)
    assert "left out" in error
    assert "lists (1 message), work (1 message)" in error
    assert (tmp_path / "d").read_bytes().startswith(b".MSG_COUNT 1 1\n")


@pytest.mark.parametrize("folder", ["", "cur"])
def test_an_empty_file_is_not_learned(tmp_path, folder):
    """A full disk leaves empty files in a Maildir."""
    for name in ("cur", "new", "tmp") if folder else ("",):
        (tmp_path / "box" / name).mkdir(parents=True)
    empty = tmp_path / "box" / folder / "1"
    empty.touch()
    for source in (empty, tmp_path / "box", "/dev/null"):
        name = source if source == "/dev/null" else empty
        status, out, error = streamnb_command("learn", "spam", source, "--db", tmp_path / "db")
        assert (status, out, error) == (3, "", f"streamnb: {name}: not learned: it is empty\n")
    (tmp_path / "box" / folder / "2").write_text("Subject: x\n\ny\n")
    status, out, error = streamnb_command(
        "learn", "spam", tmp_path / "box", "--db", tmp_path / "db"
    )
    assert (status, out.count(": learned\n"), error.count("it is empty")) == (3, 1, 1)


def test_any_bytes_can_be_explained(model, tmp_path):
    for raw in (bytes(range(256)) * 40, b"\x1b[31mred\n" * 9):
        (tmp_path / "m").write_bytes(raw)
        status, out, error = streamnb_command("explain", tmp_path / "m", "--model", model)
        assert (status, error) == (0, "")
        assert "\x1b" not in out


def test_a_message_without_text_is_not_explained(model, tmp_path):
    (tmp_path / "m").write_bytes(b"")
    status, out, error = streamnb_command("explain", tmp_path / "m", "--model", model)
    assert (status, out) == (3, "")
    assert error == f"streamnb: {tmp_path / 'm'}: there is no text to explain\n"


def test_the_trec_protocol_gives_the_scores_of_a_replay(sample, tmp_path):
    state = ["--state", tmp_path / "state"]
    assert streamnb_command("trec-run", "initialize", *state) == (0, "", "")
    corpus = {"path": str(sample), "limit": 12}
    replay_corpus(build({"corpus": corpus, "output": {"folder": str(tmp_path / "run")}}))
    for line in (tmp_path / "run" / "results.txt").read_text().splitlines():
        name, judge, arguments_, score = line.split()
        status, out, _ = streamnb_command(
            "trec-run", "classify", sample / name, "100", "200", *state
        )
        assert status == 0
        expected = "ham" if arguments_ == "class=?" else arguments_.removeprefix("class=")
        assert out == f"class={expected} {score}\n"
        label = judge.removeprefix("judge=")
        train = ["trec-run", "train", label, sample / name, expected, "tfile", *state]
        assert streamnb_command(*train) == (0, "", "")
    assert streamnb_command("trec-run", "finalize", *state) == (0, "", "")


def test_a_value_that_is_not_a_message_is_refused(tmp_path):
    db, binary, mail = tmp_path / "m.db", tmp_path / "program", tmp_path / "mail.eml"
    binary.write_bytes(b"\x7fELF\0\0" + bytes(5000))
    mail.write_bytes(b"To: ann@example.org\n\n\0 but a message")
    status, out, error = streamnb_command("learn", "--db", db, "ham", binary, mail)
    assert (status, out) == (3, f"{mail}: learned\n")
    assert f"{binary}: not a message: binary data without a header;" in error
    status, _, error = streamnb_command("classify", "--db", db, binary)
    assert status == 3
    assert "not a message" in error
    for command in (("learn", "--binary", "--db", db, "ham"), ("forget", "--db", db)):
        assert streamnb_command(*command, binary)[0] == 0


def test_a_message_to_classify_may_come_from_standard_input(tmp_path):
    db = tmp_path / "m.db"
    streamnb_command("learn", "--db", db, "ham", "-", input="To: ann\n\nlunch\n")
    status, out, _ = streamnb_command("classify", "--db", db, input="To: ann\n\nlunch at noon\n")
    assert (status, out) == (2, "U 0.0000 -\n")


def read_terminal(*command):
    """Return what a command prints on a terminal."""
    terminal, terminal_of_command = pty.openpty()
    fcntl.ioctl(terminal_of_command, termios.TIOCSWINSZ, struct.pack("4H", 40, 100, 0, 0))
    process = subprocess.Popen(
        [*STREAMNB, *map(str, command)],
        stdin=terminal_of_command,
        stdout=terminal_of_command,
        stderr=terminal_of_command,
        env=os.environ | {"TERM": "xterm"},
    )
    os.close(terminal_of_command)
    output = b""
    while True:
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # Linux: the command has closed the terminal
            break
        if not data:
            break
        output += data
    os.close(terminal)
    assert process.wait() == 0
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.decode())


@pytest.mark.parametrize(
    ("options", "next_command"),
    [
        ([], "add --out DIR, then run: streamnb report DIR"),
        (["--out", "my run"], "run: streamnb report 'my run'"),
    ],
)
def test_a_terminal_shows_accuracy_and_the_next_command(
    sample, tmp_path, monkeypatch, options, next_command
):
    sample = sample.absolute()
    monkeypatch.chdir(tmp_path)
    output = read_terminal("replay", sample, "--no-intervals", *options)
    assert re.search(r"messages .* accuracy \d+\.\d+%", output)
    assert f"for a page of pictures {next_command}" in output.splitlines()[-1]


def test_lists_of_commands_show_whole_sentences():
    """Click cuts a first line of the help that is too long for the list of commands."""

    def commands_of(group, context):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            inner = click.Context(command, parent=context, info_name=name)
            yield from commands_of(command, inner) if isinstance(command, click.Group) else ()
        formatter = context.make_formatter()
        group.format_commands(context, formatter)
        yield formatter.getvalue()

    (commands,) = (it for it in vars(group_module).values() if isinstance(it, click.Group))
    texts = list(commands_of(commands, click.Context(commands, info_name="streamnb")))
    assert len(texts) == 3
    assert not [line for text in texts for line in text.splitlines() if line.endswith("...")]


@pytest.mark.parametrize(
    "command", [[], ["fit"], ["spark"], ["spark", "fit"], ["trec-run", "train"]]
)
def test_headings_of_help_are_bold_on_a_terminal_only(command):
    context = group_module.commands.make_context("streamnb", [], resilient_parsing=True)
    member = group_module.commands
    for name in command:
        member = member.get_command(context, name)
        context = member.make_context(name, [], parent=context, resilient_parsing=True)
    assert "\x1b[1mOptions\x1b[0m" in member.get_help(context)
    assert "\x1b" not in streamnb_command(*command, "--help")[1]
