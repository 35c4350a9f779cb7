"""The first steps of a new user: labels and headers as people write them, a failing `learn`."""

import gzip
import json
import os
import subprocess

import pytest
from commands import STREAMNB, streamnb_command

import streamnb

TEXTS = {"spam": "win money now prize", "ham": "lunch at noon on friday"}


def write_table(path, labels, header="text,label"):
    rows = [f"{TEXTS[label.lower()]} number {i},{label}" for i, label in enumerate(labels)]
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


MIXED_CASE = ["spam", "ham"] * 10 + ["Spam", "ham", "SPAM"]


@pytest.mark.parametrize(
    "command", [("replay", "T"), ("fit", "T", "-o", "M"), ("fit", "T", "-o", "M", "--json")]
)
@pytest.mark.parametrize("labels", [MIXED_CASE, ["spam", "ham"] * 10])
def test_labels_that_differ_in_case_only_get_a_notice(tmp_path, command, labels):
    table = write_table(tmp_path / "t.csv", labels)
    names = {"T": table, "M": tmp_path / "m.snb"}
    status, _, error = streamnb_command(*(names.get(word, word) for word in command))
    assert status == 0
    assert ("SPAM, Spam, spam are different classes" in error) == (labels is MIXED_CASE)
    assert error.count("\n") == (labels is MIXED_CASE)


def test_evaluate_compares_the_case_of_labels_with_the_model(tmp_path):
    model = tmp_path / "m.snb"
    table = write_table(tmp_path / "t.csv", ["spam", "ham"] * 10)
    assert streamnb_command("fit", table, "-o", model)[0] == 0
    other = write_table(tmp_path / "o.csv", ["SPAM", "ham"] * 10)
    status, _, error = streamnb_command("evaluate", model, other)
    assert status == 0
    assert "SPAM, spam are different classes" in error


def test_learn_names_classes_that_differ_in_case_only(tmp_path):
    database = tmp_path / "mail.db"
    for number, label in enumerate(["work", "Work"]):
        (tmp_path / "m").write_text(f"Subject: {number}\n\nlunch\n")
        status, _, error = streamnb_command("learn", label, tmp_path / "m", "--db", database)
        assert status == 0
        assert ("Work, work are different classes" in error) == number


def test_a_model_of_one_class_gets_a_notice(tmp_path):
    table = write_table(tmp_path / "t.csv", ["spam"] * 10)
    status, _, error = streamnb_command("fit", table, "-o", tmp_path / "m.snb")
    assert status == 0
    assert "all messages have the label spam" in error


FAILURES = {
    "missing": "nowhere",
    "empty": "empty.eml",
    "empty folder": "folder",
    "binary": "binary",
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_first_learn_that_fails_makes_no_database(tmp_path, kind):
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.eml").touch()
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0")
    database = tmp_path / "new" / "mail.db"
    source = tmp_path / FAILURES[kind]
    status, _, error = streamnb_command("learn", "ham", source, "--db", database)
    assert status == 3
    assert error.count("\n") == 1
    assert not database.parent.exists()


HEADERS = {
    "Customer Message,Kind of it": True,
    "Ticket text,Ticket category": True,
    "Nachricht (Kunde),Art": True,
    "words,kind": True,
    "please call me back at 5 today,urgent": False,
    "Win 1000 now,lottery": False,
    None: False,
}


@pytest.mark.parametrize("header", HEADERS)
def test_every_command_takes_the_same_line_for_the_header(tmp_path, header):
    table = write_table(tmp_path / "t.csv", ["spam", "ham"] * 10, header or "x")
    if header is None:
        table.write_text(table.read_text().partition("\n")[2])
    expected = 20 + (header is not None and not HEADERS[header])
    status, out, _ = streamnb_command("fit", table, "-o", tmp_path / "m.snb", "--json")
    assert status == 0
    assert json.loads(out)["learned"] == expected
    status, out, error = streamnb_command("predict", tmp_path / "m.snb", table, "--json")
    assert (status, error) == (0, "")
    rows = list(map(json.loads, out.splitlines()))
    assert len(rows) == expected
    if HEADERS[header]:
        assert list(rows[0])[:2] == header.split(",")
    status, out, _ = streamnb_command("evaluate", tmp_path / "m.snb", table, "--json")
    assert json.loads(out)["messages"] == expected


@pytest.mark.parametrize(
    ("name", "content", "header"),
    [
        ("new.csv", "id,text\n", "id,text,label,probability,unsure\n"),
        ("new.csv", "text,label\n", "text,label,predicted_label,probability,unsure\n"),
        ("new.csv", "text,Label\n", "text,Label,predicted_label,probability,unsure\n"),
        ("new.tsv", "id\ttext\n", "id\ttext\tlabel\tprobability\tunsure\n"),
        ("new.csv", "", None),
        ("new.txt", "\n\n", None),
    ],
)
def test_predict_labels_no_rows_of_a_table_with_a_header_only(tmp_path, name, content, header):
    table = write_table(tmp_path / "t.csv", ["spam", "ham"] * 10, "text,label")
    streamnb_command("fit", table, "-o", tmp_path / "m.snb")
    (tmp_path / name).write_text(content)
    command = ["predict", tmp_path / "m.snb", tmp_path / name, "--out", tmp_path / "out"]
    command += ["--format", "tsv" if name.endswith("tsv") else "csv"]
    status, out, error = streamnb_command(*command)
    if header is None:
        assert (status, error.count("\n"), (tmp_path / "out").exists()) == (3, 1, False)
    else:
        assert (status, error, "no rows" in out) == (0, "", True)
        assert (tmp_path / "out").read_text() == header


def test_an_upgrade_from_nothing_makes_no_database(tmp_path):
    database, new = tmp_path / "mail.db", tmp_path / "new.db"
    (tmp_path / "m").write_text("Subject: a\n\nlunch\n")
    assert streamnb_command("learn", "ham", tmp_path / "m", "--db", database)[0] == 0
    status, _, error = streamnb_command("upgrade", new, tmp_path / "nowhere", "--db", database)
    assert (status, error.count("\n"), new.exists()) == (3, 1, False)


@pytest.mark.parametrize("suffix", [".csv", ".CSV", ".tsv", ".jsonl"])
@pytest.mark.parametrize("command", [("learn", "ham"), ("classify",)])
def test_a_table_is_not_taken_for_a_message(tmp_path, suffix, command):
    database = tmp_path / "mail.db"
    (tmp_path / "m").write_text("Subject: a\n\nlunch\n")
    assert streamnb_command("learn", "ham", tmp_path / "m", "--db", database)[0] == 0
    table = write_table(tmp_path / f"t{suffix}", ["spam", "ham"] * 5)
    status, out, error = streamnb_command(*command, table, "--db", database)
    assert (status, out, error.count("\n")) == (3, "", 1)
    assert "streamnb fit" in error
    options = ["--binary", "--db", database]
    status, out, error = streamnb_command(*command, table, *options)
    assert "not a message" not in error
    assert out.count("\n") == 1


def test_a_long_line_of_a_form_is_not_a_header(tmp_path):
    lines = [f"some words of text {i},{'spam' if i % 2 else 'ham'}" for i in range(60)]
    for count in (3, 40):
        table = tmp_path / "form.csv"
        table.write_text("\n".join([f"Sign here {'_' * count} 2024,other", *lines]) + "\n")
        assert streamnb_command("fit", table, "-o", tmp_path / "m.snb", timeout=60)[0] == 0


@pytest.mark.parametrize("name", ["a.txt.gz", "a.jsonl.gz", "a.csv.gz"])
def test_compressed_data_that_end_early_are_one_line(tmp_path, name):
    fit = write_table(tmp_path / "t.csv", ["spam", "ham"] * 10)
    assert streamnb_command("fit", fit, "-o", tmp_path / "m.snb")[0] == 0
    text = "\n".join(json.dumps({"text": f"some words {i} {i * i}"}) for i in range(40_000))
    whole = gzip.compress(text.encode(), mtime=0)
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    status, _, error = streamnb_command("predict", tmp_path / "m.snb", tmp_path / name)
    assert status == 3
    assert name in error.splitlines()[-1]


MBOXES = {
    "quoted lines": b"From a Thu Nov 26 00:00:00 2026\nSubject: lunch\n\nat noon\n>From here\n",
    "only a separator": b"From a Thu Nov 26 00:00:00 2026\n",
    "line ends of one byte": b"From a Thu Nov 26 00:00:00 2026\rSubject: lunch\r\rat noon\r",
    "two messages with LF CR": b"From a Thu Nov 26 00:00:00 2026\n\rSubject: a\n\r\n\rat noon\n\r\n\r"
    * 2,
    "a record of a mail program": b"From MAILER-DAEMON Thu Nov 26 00:00:00 2026\n"
    b"Subject: DON'T DELETE THIS MESSAGE -- FOLDER INTERNAL DATA\n\nx\n",
}


@pytest.mark.parametrize("kind", MBOXES)
def test_classify_reads_a_mailbox_file_alike_with_and_without_options(tmp_path, kind):
    for label, text in TEXTS.items():
        (tmp_path / label).mkdir()
        for i in range(5):
            (tmp_path / label / f"{i}.eml").write_text(f"Subject: {text} {i}\n\n{text}\n")
    db = ("--db", tmp_path / "db")
    assert streamnb_command("learn", *db, *(f"{k}={tmp_path / k}" for k in TEXTS))[0] == 0
    (tmp_path / "m").write_bytes(MBOXES[kind])
    quick = streamnb_command("classify", *db, tmp_path / "m")
    assert quick == streamnb_command("classify", *db, "--wait", "10", tmp_path / "m")


def test_a_label_that_the_terminal_cannot_show_is_escaped(tmp_path):
    for label, text in {"größe": TEXTS["spam"], "ham": TEXTS["ham"]}.items():
        (tmp_path / label).mkdir()
        for i in range(120):
            (tmp_path / label / f"{i}.eml").write_text(f"Subject: {text} {i}\n\n{text}\n")
    db = ("--db", tmp_path / "db")
    folders = [f"{label}={tmp_path / label}" for label in ("größe", "ham")]
    assert streamnb_command("learn", *db, *folders)[0] == 0
    done = subprocess.run(
        [*STREAMNB, "classify", "--db", tmp_path / "db", tmp_path / "größe" / "1.eml"],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert done.stderr == b""
    assert done.stdout


def test_an_infinite_evidence_is_null_in_json(tmp_path):
    model = streamnb.MultinomialNB(prior={"ham": 1.0, "spam": 0.0})
    classifier = streamnb.Classifier(streamnb.Tokenizer(), model)
    classifier.learn_one("lunch", "ham")
    classifier.learn_one("free pills", "spam")
    classifier.save(tmp_path / "m.snb")
    (tmp_path / "m.eml").write_text("Subject: lunch\n\nlunch\n")
    _, output, _ = streamnb_command("explain", tmp_path / "m.snb", tmp_path / "m.eml", "--json")
    assert json.loads(output, parse_constant=lambda name: pytest.fail(name))["log_odds"] is None
