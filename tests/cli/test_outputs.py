"""Outputs of commands: no input is replaced, and pipes and devices are written to."""

import os
import subprocess
from pathlib import Path

import pytest
from commands import STREAMNB, streamnb_command

from streamnb import Classifier, MultinomialNB, Tokenizer

ROWS = "label,text\n" + "spam,buy cheap pills\nham,lunch at noon\n" * 10
TABLE = "a,b,label\n" + "1,2,x\n3,4,y\n5,6,x\n7,9,y\n" * 3
CONFIG = "corpus: {path: data.csv}\n"
EXPERIMENT = (
    "data: {kind: table, path: rows.csv, label: label}\nsplits: {kind: random, trials: 2}\n"
)
# Commands in a folder of data, and the input that their output would replace.
REPLACING = {
    "fit": (["fit", "data.csv", "-o", "data.csv"], "data.csv"),
    "fit, link": (["fit", "data.csv", "-o", "link.csv"], "data.csv"),
    "fit, configuration": (["fit", "data.csv", "--config", "c.yaml", "-o", "c.yaml"], "c.yaml"),
    "replay --save": (["replay", "data.csv", "--save", "./data.csv"], "data.csv"),
    "replay --out": (["replay", "config.yaml", "--out", "."], "config.yaml"),
    "replay, setting": (["replay", "data.csv", "--set", "output.model=data.csv"], "data.csv"),
    "evaluate --out": (["evaluate", "m.snb", "results.txt", "--out", "."], "results.txt"),
    "predict --out": (["predict", "m.snb", "data.csv", "--out", "data.csv"], "data.csv"),
    "predict, model": (["predict", "m.snb", "data.csv", "--out", "m.snb"], "m.snb"),
    "merge-models": (["merge-models", "m.snb", "m.snb", "-o", "m.snb"], "m.snb"),
    "experiment": (["experiment", "e.yaml", "--out", "."], "rows.csv"),
    "fit, message of a class": (["fit", "mails", "-o", "mails/spam/1.eml"], "mails/spam/1.eml"),
    "fit, link to a folder": (["fit", "box", "-o", "mails/spam/1.eml"], "mails/spam/1.eml"),
    "fit, table in a folder": (["fit", "tables", "-o", "tables/a.csv"], "tables/a.csv"),
    "replay, index": (["replay", "trec/index", "--save", "trec/1.eml"], "trec/1.eml"),
    "replay, Maildir": (
        ["replay", "maildirs", "--save", "maildirs/ham/cur/1"],
        "maildirs/ham/cur/1",
    ),
    "replay, message of a class": (
        ["replay", "mails", "--save", "mails/spam/1.eml"],
        "mails/spam/1.eml",
    ),
    "predict, message of a class": (
        ["predict", "m.snb", "mails", "--out", "mails/spam/1.eml"],
        "mails/spam/1.eml",
    ),
    "predict, folder of texts": (["predict", "m.snb", "texts", "--out", "texts/1"], "texts/1"),
    "spark table": (["spark", "table", "data.csv", "-o", "data.csv"], "data.csv"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    files = {"data.csv": ROWS, "results.txt": ROWS, "rows.csv": TABLE, "e.yaml": EXPERIMENT}
    for name, text in (files | {"config.yaml": CONFIG, "c.yaml": CONFIG}).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "link.csv").symlink_to("data.csv")
    for name in (
        "mails/ham/1.eml",
        "mails/spam/1.eml",
        "maildirs/ham/cur/1",
        "maildirs/ham/new/2",
        "maildirs/spam/1",
        "trec/1.eml",
        "texts/1",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"Subject: {name}\n\nlunch at noon\n")
    (tmp_path / "box").symlink_to("mails")
    (tmp_path / "trec" / "index").write_text("spam 1.eml\nham ../mails/ham/1.eml\n")
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "a.csv").write_text(ROWS)
    classifier = Classifier(Tokenizer(), MultinomialNB())
    classifier.learn_many(["buy pills", "lunch"], ["spam", "ham"])
    classifier.save(tmp_path / "m.snb")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", REPLACING)
def test_no_output_replaces_an_input(folder, case):
    command, name = REPLACING[case]
    before = (folder / name).read_bytes()
    status, out, error = streamnb_command(*command)
    assert (status, out, error.count("\n")) == (2, "", 1)
    assert "choose another name" in error
    assert (folder / name).read_bytes() == before


@pytest.mark.parametrize(
    "command",
    [
        "fit data.csv -o mail.db",
        "replay data.csv --save mail.db",
        "predict m.snb data.csv --format csv --out mail.db",
        "merge-models m.snb -o link.db",
        "trec-run initialize --state mail.db",
    ],
)
def test_no_output_replaces_a_database(folder, command):
    assert streamnb_command("learn", "ham", "mails/ham", "--db", "mail.db")[0] == 0
    (folder / "link.db").symlink_to("mail.db")
    before = (folder / "mail.db").read_bytes()
    status, _, error = streamnb_command(*command.split())
    assert (status, error.count("\n")) == (5, 1)
    assert "the file is a database, which would be lost; choose another name" in error
    assert (folder / "mail.db").read_bytes() == before


def test_an_earlier_output_is_replaced(folder):
    for command in (
        ["fit", "data.csv", "-o", "n.snb"],
        ["replay", "data.csv", "--out", "run", "--save", "n.snb"],
        ["predict", "m.snb", "data.csv", "--out", "labelled.csv"],
        ["experiment", "e.yaml", "--out", "run2"],
        ["fit", "mails", "-o", "mails/n.snb"],
        ["replay", "trec", "--out", "trec/run", "--save", "trec/n.snb"],
    ):
        for _ in range(2):
            assert streamnb_command(*command)[0] == 0


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/stderr"])
@pytest.mark.parametrize("mode", ["ab", "wb"])
def test_an_open_file_is_written_from_its_position(folder, name, mode):
    command = [*STREAMNB, "predict", "m.snb", "data.csv", "--quiet", "--out"]
    expected = subprocess.run([*command, "-"], capture_output=True, check=True).stdout
    with open("log", mode) as log:
        log.write(b"before\n")
        log.flush()
        stream = "stderr" if name == "/dev/stderr" else "stdout"
        subprocess.run([*command, name], check=True, **{stream: log})
        log.seek(0, os.SEEK_END)
        log.write(b"after\n")
    assert Path("log").read_bytes() == b"before\n" + expected + b"after\n"


def test_pipes_and_devices_are_written_to(folder):
    command = [*STREAMNB, "predict", "m.snb", "data.csv", "--quiet", "--out"]
    expected = subprocess.run([*command, "-"], capture_output=True, check=True).stdout
    to_stdout = subprocess.run([*command, "/dev/stdout"], capture_output=True, check=True)
    assert to_stdout.stdout == expected
    os.mkfifo("fifo")
    with subprocess.Popen(["cat", "fifo"], stdout=subprocess.PIPE) as reader:
        subprocess.run([*command, "fifo"], check=True, timeout=60)
        assert reader.communicate(timeout=60)[0] == expected
    subprocess.run([*command, os.devnull], check=True)
    assert not os.path.isfile(os.devnull)
    full = subprocess.run([*command, "/dev/full"], capture_output=True, text=True, check=False)
    assert (full.returncode, full.stderr.count("\n")) == (5, 1)
