"""`streamnb predict` and `evaluate`: every form of data, every column kept, hostile input refused."""

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from commands import STREAMNB, streamnb_command

from streamnb import Classifier, MultinomialNB, Tokenizer
from streamnb.config import build
from streamnb.replay import replay_corpus
from streamnb.replay.run import evaluate_model

LOGIN = ["cannot log in", "password reset does not work", "login page broken", "wrong password"]
REFUND = ["please refund my order", "money back please", "refund for invoice", "I want my money"]
NEW = ['refund, "please"', "password again", "money\nback"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    rows = [(text, "login") for text in LOGIN] + [(text, "refund") for text in REFUND]
    table = io.StringIO()
    csv.writer(table).writerows(
        [("id", "text", "topic"), *((i, *row) for i, row in enumerate(rows))]
    )
    (folder / "tickets.csv").write_text(table.getvalue())
    columns = ["--label-column", "topic", "--text-column", "text"]
    status, out, error = streamnb_command(
        "fit", folder / "tickets.csv", *columns, "-o", folder / "tickets.snb"
    )
    assert (status, error) == (0, "")
    assert "8 messages" in out
    return folder / "tickets.snb"


@pytest.fixture(scope="module")
def mail_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("mail") / "mail.snb"
    command = ["fit", "corpora/sample", "--limit", "200", "--quiet", "-o", path]
    assert streamnb_command(*command) == (0, "", "")
    return path


# Tables as the model learned them, with the names written in another way. The label column is last.
LEARNED = {
    "lower case": "id,text,topic\n1,wrong password,login\n2,refund please,refund\n",
    "capitals": "TOPIC,Text,id\nlogin,wrong password,1\nrefund,refund please,2\n",
    "blanks": " id ; text ; Topic\n1;wrong password;login\n2;refund please;refund\n",
    "JSON Lines": '{"Topic": "login", "TEXT": "wrong password"}\n'
    '{"Topic": "refund", "TEXT": "refund please"}\n',
    "known names": "message,Text,label,Topic\nx,wrong password,y,login\nx,refund please,z,refund\n",
    "repeated names": "a,text,Topic\n1,wrong password,login\nid,text,topic\n2,refund please,refund\n",
    "byte order mark": "\ufefftext|topic\nwrong password|login\nrefund please|refund\n",
}


@pytest.mark.parametrize("is_piped", [False, True])
@pytest.mark.parametrize("kind", LEARNED)
def test_columns_are_found_by_the_names_that_the_model_learned(model, tmp_path, kind, is_piped):
    path = tmp_path / f"new.{'jsonl' if kind == 'JSON Lines' else 'csv'}"
    path.write_text(LEARNED[kind])
    target, options = ("-", {"input": LEARNED[kind]}) if is_piped else (path, {})
    status, out, error = streamnb_command("predict", model, target, "--json", **options)
    assert (status, error) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    labels = [row.get("predicted_label", row["label"]) for row in rows]
    assert (labels[0], labels[-1]) == ("login", "refund")
    status, out, error = streamnb_command("evaluate", model, target, "--json", **options)
    assert (status, "topic" in error) == (0, kind == "repeated names")
    summary = json.loads(out)
    assert (summary["messages"] - (kind == "repeated names"), summary["accuracy"] > 0.6) == (
        2,
        True,
    )


@pytest.mark.parametrize(
    ("header", "options", "missing"),
    [
        ("id,body,queue", [], "'topic' or 'text'"),
        ("id,text,queue", [], "'topic'"),
        ("id,body,topic", [], "'text'"),
        ("id,text,queue", ["--text-column", "text"], "'topic'"),
        ("id,body,topic", ["--label-column", "topic"], "'text'"),
        ("id,text,class", [], "'topic'"),
    ],
)
def test_a_missing_column_has_one_text(model, tmp_path, header, options, missing):
    (tmp_path / "new.csv").write_text(f"{header}\n" + "1,wrong password,login\n" * 9)
    status, _, error = streamnb_command("evaluate", model, tmp_path / "new.csv", *options)
    names = header.replace(",", ", ")
    assert f"no column {missing} as in the training data of the model; there are {names}" in error
    assert (status, error.count("\n")) == (3, 1)


@pytest.mark.parametrize("words", ["predict MODEL FILE", "evaluate MODEL FILE", "fit FILE -o new"])
def test_a_header_below_a_comment_is_named(model, tmp_path, words):
    path = tmp_path / "new.csv"
    path.write_text("# exported by a program\nlabel,text\n" + "login,wrong password\n" * 9)
    arguments = [{"MODEL": model, "FILE": path}.get(word, word) for word in words.split()]
    status, out, error = streamnb_command(*arguments)
    assert (status, out) == (3, "")
    assert f"{path}:2: the names of the columns are on this line; delete the lines above" in error


@pytest.mark.parametrize("command", ["predict", "evaluate"])
@pytest.mark.parametrize("is_piped", [False, True])
def test_a_table_without_the_learned_columns_is_refused(model, tmp_path, command, is_piped):
    content = "label,id,message\nlogin,1,wrong password\nrefund,2,money back\n"
    (tmp_path / "new.csv").write_text(content)
    target, options = ("-", {"input": content}) if is_piped else (tmp_path / "new.csv", {})
    status, _, error = streamnb_command(command, model, target, **options)
    assert (status, error.count("\n")) == (3, 1)
    missing = "'text'" if command == "predict" else "'topic' or 'text'"
    assert (
        f":1: no column {missing} as in the training data of the model; there are label, " in error
    )
    named = ["--text-column", "message"]
    named += ["--label-column", "label"] if command == "evaluate" else []
    assert streamnb_command(command, model, target, *named, **options)[0] == 0


def test_models_of_differently_named_columns_can_be_merged(model, tmp_path):
    content = model.with_name("tickets.csv").read_text().replace("id,text,topic", "id,body,queue")
    (tmp_path / "b.csv").write_text(content)
    columns = ["--label-column", "Queue", "--text-column", "BODY"]
    path = tmp_path / "b.snb"
    assert streamnb_command("fit", tmp_path / "b.csv", *columns, "-o", path)[0] == 0
    assert Classifier.load(path).data_format.text_column == "body"
    status, _, error = streamnb_command("merge-models", model, path, "-o", tmp_path / "c.snb")
    assert (status, error.count("\n")) == (0, 1)
    assert f"{model}: label 'topic', text 'text'; {path}: label 'queue', text 'body'" in error
    assert Classifier.load(tmp_path / "c.snb").data_format.text_column == "text"
    shutil.copy(path, tmp_path / "d.snb")
    names = (path, tmp_path / "d.snb", "-o", tmp_path / "c.snb")
    status, _, error = streamnb_command("merge-models", *names)
    assert (status, error) == (0, "")


def test_a_model_is_not_merged_with_itself(model, tmp_path):
    (tmp_path / "link.snb").symlink_to(model)
    names = (model, tmp_path / "link.snb", "-o", tmp_path / "c.snb")
    status, _, error = streamnb_command("merge-models", *names)
    assert (status, error.count("\n")) == (2, 1)
    assert f"link.snb: named twice, also as {model}; its counts would be added twice" in error
    assert not (tmp_path / "c.snb").exists()


@pytest.mark.parametrize("command", ["fit", "replay", "evaluate"])
def test_a_corpus_is_not_read_twice(model, tmp_path, command):
    data = tmp_path / "data.csv"
    data.write_text("topic,text\n" + "login,cannot log in\nrefund,my money\n" * 3)
    (tmp_path / "link.csv").symlink_to(data)
    options = {"fit": ["-o", tmp_path / "c.snb"], "replay": [], "evaluate": [model]}[command]
    names = (data, tmp_path / "link.csv")
    status, out, error = streamnb_command(command, *options, *names)
    assert (status, out) == (2, "")
    assert f"link.csv: named twice, also as {data}; its messages would be added twice" in error


def test_a_merged_model_has_the_columns_of_the_first_model_with_columns(model, tmp_path):
    classifier = Classifier.load(model)
    classifier.data_format = None
    classifier.save(tmp_path / "folder.snb")
    names = (tmp_path / "folder.snb", model, "-o", tmp_path / "c.snb")
    status, _, error = streamnb_command("merge-models", *names)
    assert (status, error) == (0, "")
    assert Classifier.load(tmp_path / "c.snb").data_format.text_column == "text"


def table_text(delimiter, names=("id", "text")):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows([names, *enumerate(NEW)])
    return out.getvalue()


def json_text():
    rows = [{"id": i, "text": text, "extra": [i, None]} for i, text in enumerate(NEW)]
    return "".join(json.dumps(row) + "\n" for row in rows)


def rows_of(text, delimiter=","):
    return list(csv.DictReader(io.StringIO(text), delimiter=delimiter))


# The content of the file, its name, and the delimiter of the output.
TABLES = {
    "commas": (table_text(",").encode(), "new.csv", ","),
    "semicolons": (table_text(";").encode(), "new.csv", ";"),
    "tabs": (table_text("\t").encode(), "new.tsv", "\t"),
    "no suffix": (table_text(",").encode(), "new", ","),
    "byte order mark": (b"\xef\xbb\xbf" + table_text(",").encode(), "new.csv", ","),
    "gzip": (gzip.compress(table_text(",").encode()), "new.csv.gz", ","),
    "bzip2": (bz2.compress(table_text(",").encode()), "new.csv.bz2", ","),
}


@pytest.mark.parametrize("kind", TABLES)
def test_every_column_of_a_table_is_kept(model, tmp_path, kind):
    data, name, delimiter = TABLES[kind]
    (tmp_path / name).write_bytes(data)
    status, out, error = streamnb_command("predict", model, tmp_path / name)
    assert (status, error) == (0, "")
    rows = rows_of(out, delimiter)
    assert list(rows[0]) == ["id", "text", "label", "probability", "unsure"]
    assert [row["text"].replace("\r", "") for row in rows] == NEW
    assert [row["label"] for row in rows] == ["refund", "login", "refund"]
    classifier = Classifier.load(model)
    for row in rows:
        verdict = classifier.classify(row["text"], 0)
        assert float(row["probability"]) == verdict.probability
        assert row["unsure"] == str(verdict.unsure).lower()


def test_json_lines_keep_their_types(model, tmp_path):
    (tmp_path / "new.jsonl").write_text(json_text())
    status, out, error = streamnb_command("predict", model, tmp_path / "new.jsonl")
    assert (status, error) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["id"], row["extra"], row["text"]) for row in rows] == [
        (i, [i, None], text) for i, text in enumerate(NEW)
    ]
    assert {type(row["unsure"]) for row in rows} == {bool}
    status, out, _ = streamnb_command("predict", model, tmp_path / "new.jsonl", "--format", "csv")
    assert rows_of(out)[1]["extra"] == "[1, null]"


NUMBERS = '{"text":"refund", "x":1e400, "y": 2.50, "n": 12345678901234567890.10, "z": [ ]}'


def test_objects_of_json_lines_are_written_as_they_stand(model, tmp_path):
    (tmp_path / "new.jsonl").write_text(f"{NUMBERS} \n")
    status, out, error = streamnb_command("predict", model, tmp_path / "new.jsonl")
    assert (status, error) == (0, "")
    assert out.startswith(f'{NUMBERS[:-1]}, "label": "refund", "probability": ')


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", 'id\ttext\n1\t"refund my\n2\t5" login\n'),
        ("a.tsv", 'id\ttext\ta\ta\n1\t"refund "" my"\t2\t3\n'),
        ("a.csv", "id,text,a,a\n1,refund,2,3\n4,login,,\n"),
        ("a.csv", "id,text,,\n1,refund,2,3\n"),
        ("a.csv", 'text\n"refund, ""please"""\nlogin\n'),
        ("a.csv", 'text;n\n"refund; please";"a\nb"\n login ;2\n'),
    ],
)
def test_columns_are_written_unchanged(model, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    status, out, error = streamnb_command("predict", model, tmp_path / name)
    assert (status, error) == (0, "")
    delimiter = "\t" if name == "a.tsv" else ";" if ";" in content.splitlines()[0] else ","
    results = rf"{delimiter}(label|login|refund){delimiter}[^{delimiter}\n]*{delimiter}\w+\n"
    assert re.sub(results, "\n", out) == content


def test_columns_of_one_name_are_numbered_in_json(model, tmp_path):
    (tmp_path / "a.csv").write_text("a,text,a,a_2\n1,refund,2,3\n")
    status, out, _ = streamnb_command("predict", model, tmp_path / "a.csv", "--json")
    assert status == 0
    assert [*json.loads(out).values()][:4] == ["1", "refund", "2", "3"]


@pytest.mark.parametrize(
    ("suffix", "open_file"), [(".gz", gzip.open), (".bz2", bz2.open), (".xz", lzma.open)]
)
def test_the_output_is_compressed_by_its_name(model, tmp_path, suffix, open_file):
    (tmp_path / "new.csv").write_text(table_text(","))
    out = tmp_path / f"out.jsonl{suffix}"
    status, _, error = streamnb_command("predict", model, tmp_path / "new.csv", "-o", out)
    assert (status, error) == (0, "")
    with open_file(out, "rt") as file:
        assert [json.loads(line)["text"] for line in file] == NEW


def test_parquet_keeps_its_types_in_json(model, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    columns = {"text": NEW, "n": [1, None, 3], "x": [0.5, float("nan"), 2.0], "ok": [True] * 3}
    parquet.write_table(pyarrow.table(columns), tmp_path / "new.parquet")
    status, out, _ = streamnb_command("predict", model, tmp_path / "new.parquet", "--json")
    assert status == 0
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["n"], row["x"], row["ok"]) for row in rows] == [
        (1, 0.5, True), (None, None, True), (3, 2.0, True)
    ]  # fmt: skip


def test_parquet_is_read(model, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    parquet.write_table(pyarrow.table({"id": [0, 1, 2], "text": NEW}), tmp_path / "new.parquet")
    status, out, error = streamnb_command("predict", model, tmp_path / "new.parquet")
    assert (status, error) == (0, "")
    assert [row["label"] for row in rows_of(out)] == ["refund", "login", "refund"]


@pytest.mark.parametrize("source", ["file", "stdin"])
def test_lines_of_text(model, tmp_path, source):
    path = tmp_path / "lines.txt"
    path.write_bytes(b"refund, please\n\ncannot log in\r\nmoney \xff back")
    data = str(path) if source == "file" else "-"
    text = path.read_bytes().decode("cp1252")
    status, out, error = streamnb_command("predict", model, data, input=text)
    assert (status, error) == (0, "")
    rows = rows_of(out)
    assert [row["text"] for row in rows] == ["refund, please", "", "cannot log in", "money ÿ back"]
    assert [row["label"] for row in rows if row["text"]] == ["refund", "login", "refund"]


def test_a_folder_of_texts(model, tmp_path):
    (tmp_path / "sub").mkdir()
    for name, text in (("b.txt", "refund"), ("sub/a.txt", "password"), (".hidden", "x")):
        (tmp_path / name).write_text(text)
    (tmp_path / "link").symlink_to(tmp_path / "b.txt")
    status, out, error = streamnb_command("predict", model, tmp_path)
    assert (status, error) == (0, "")
    assert [(row["name"], row["label"]) for row in rows_of(out)] == [
        ("b.txt", "refund"),
        ("sub/a.txt", "login"),
    ]


@pytest.mark.parametrize("place", ["index", "full/index"])
def test_a_folder_with_an_index_has_the_messages_of_the_index(model, mail_model, tmp_path, place):
    index = tmp_path / place
    index.parent.mkdir(exist_ok=True)
    for name in ("b", "a", "absent from the index", "c"):
        (index.parent / name).write_text(f"Subject: {name}\n\nrefund\n")
    index.write_text("spam b\nHAM c\nham a\n")  # HAM is only learned
    for any_model, folder in ((mail_model, tmp_path / ""), (model, None)):
        status, out, error = streamnb_command("predict", any_model, tmp_path)
        assert (status, error) == (0, "")
        root = index.parent if folder else index.parent.relative_to(tmp_path)
        assert [row["name"] for row in rows_of(out)] == [str(root / name) for name in "ba"]


def test_mail_of_every_form(mail_model, tmp_path):
    messages = [f"corpora/sample/data/{number}.eml" for number in ("005", "001")]
    contents = [Path(message).read_bytes() for message in messages]
    box = b"".join(b"From x Mon Jan  1 00:00:00 2024\n" + content + b"\n" for content in contents)
    (tmp_path / "box").write_bytes(box)
    (tmp_path / "folder").mkdir()
    for index, content in enumerate(contents):
        (tmp_path / "folder" / f"{index}").write_bytes(content)
    for source, expected in (
        (messages[0], ["spam"]),
        (tmp_path / "box", ["spam", "ham"]),
        (tmp_path / "folder", ["spam", "ham"]),
    ):
        status, out, error = streamnb_command("predict", mail_model, source)
        assert (status, error) == (0, "")
        assert [row["label"] for row in rows_of(out)] == expected


def test_names_that_are_taken_are_not_overwritten(model, tmp_path):
    (tmp_path / "a.csv").write_text("text,label,predicted_label,unsure\nrefund,x,y,z\n")
    status, out, _ = streamnb_command("predict", model, tmp_path / "a.csv")
    assert status == 0
    names = ["text", "label", "predicted_label", "unsure"]
    added = ["predicted_predicted_label", "probability", "predicted_unsure"]
    assert list(rows_of(out)[0]) == names + added
    (tmp_path / "a.jsonl").write_text('{"text": "refund"}\n{"text": "refund", "label": "x"}\n')
    status, out, _ = streamnb_command("predict", model, tmp_path / "a.jsonl")
    last = json.loads(out.splitlines()[1])
    assert (last["label"], last["predicted_label"]) == ("x", "refund")


def test_a_file_is_written_whole_or_not_at_all(model, tmp_path):
    (tmp_path / "new.csv").write_text("id,text\n1,refund\n2\n3,password\n")
    out = tmp_path / "out.jsonl"
    out.write_text("earlier")
    status, printed, error = streamnb_command("predict", model, tmp_path / "new.csv", "-o", out)
    assert (status, printed) == (3, "")
    assert "new.csv:3: fewer columns" in error
    assert "--on-error skip" in error
    assert out.read_text() == "earlier"
    skip = ["--on-error", "skip"]
    status, printed, error = streamnb_command(
        "predict", model, tmp_path / "new.csv", "--out", out, *skip
    )
    assert status == 0
    assert printed.startswith(f"{out}: 2 messages (")
    assert error.startswith("streamnb: skipped: ")
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ["1", "3"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.csv", "out.jsonl"]


# Content of the file, further options, exit status and a part of the error.
HOSTILE = {
    "empty": (b"", [], 3, "the file is empty"),
    "only blank lines": (b"\n\n \n", [], 3, "there are no messages"),
    "binary": (b"\x7fELF\0\0\0\0" * 9, [], 3, "control characters"),
    "UTF-16": ("text\nrefund\n".encode("utf-16-le"), [], 3, "UTF-16"),
    "no text column": (b"a,b,c\n1,2,3\n", ["--text-column", "text"], 3, "no column 'text'"),
    "number of no column": (b"a,text\n1,2\n", ["--text-column", "9"], 3, "no column '9'"),
    "huge number": (b"a,text\n1,2\n", ["--text-column", "9" * 99], 3, "no column"),
    "broken JSON": (b'{"text": "a"}\n{"text": \n', [], 3, "new:2: not JSON: Expecting value"),
    "deep JSON": (
        b'{"text": "a"}\n' + b"[" * 99_999 + b"\n",
        [],
        3,
        "new:2: not JSON: too long or deep",
    ),
    "no text in JSON": (b'{"text": "a"}\n{"text": 3}\n', [], 3, "new:2: no text in the key 'text'"),
    "output as Parquet": (b"text\nrefund\n", ["-o", "x.parquet"], 2, "parquet cannot be written"),
    "output in Zstandard": (b"text\nrefund\n", ["-o", "x.csv.zst"], 2, ".zst cannot be written"),
    "two formats": (b"text\nrefund\n", ["--json", "--format", "csv"], 2, "cannot be combined"),
    "no folder": (b"text\nrefund\n", ["-o", "/no/such/out.csv"], 5, "cannot be written"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_data_is_one_line_and_a_status(model, tmp_path, kind):
    data, options, expected, message = HOSTILE[kind]
    (tmp_path / "new").write_bytes(data)
    status, _, error = streamnb_command("predict", model, tmp_path / "new", *options)
    assert (status, error.count("\n")) == (expected, 1)
    assert error.startswith("streamnb: ")
    assert message in error


def test_unsuitable_model_files_are_refused(tmp_path):
    (tmp_path / "new.csv").write_text("text\nrefund\n")
    Classifier(Tokenizer(), MultinomialNB()).save(tmp_path / "untrained.snb")
    MultinomialNB().save(tmp_path / "no-tokenizer.snb")
    for name, message in (
        ("untrained.snb", "the model is not trained; train it with `streamnb fit`"),
        ("no-tokenizer.snb", "without its tokenizer"),
        ("new.csv", "not a streamnb model"),
        ("none.snb", "cannot be read"),
    ):
        for command in ("predict", "evaluate"):
            status, out, error = streamnb_command(command, tmp_path / name, tmp_path / "new.csv")
            assert (status, out, error.count("\n")) == (4, "", 1)
            assert message in error


def test_a_closed_pipe_ends_predict(model, tmp_path):
    (tmp_path / "new.txt").write_text("refund please\n" * 20_000)
    command = [*STREAMNB, "predict", str(model), str(tmp_path / "new.txt")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_evaluate_gives_the_figures_of_the_frozen_model(mail_model, tmp_path):
    classifier = Classifier.load(mail_model)
    before = mail_model.read_bytes()
    command = ["evaluate", mail_model, "corpora/sample", "--out", tmp_path / "run", "--json"]
    status, out, error = streamnb_command(*command)
    assert (status, error) == (0, "")
    report = json.loads(out)
    assert (report["messages"], report["learned"]) == (300, 0)
    assert mail_model.read_bytes() == before
    for line in (tmp_path / "run" / "results.txt").read_text().splitlines()[::30]:
        name, _, predicted, score = line.split()
        scores = classifier.joint_log_likelihood(Path("corpora/sample", name).read_bytes())
        assert predicted == f"class={max(scores, key=scores.get)}"
        assert score == f"score={scores['spam'] - scores['ham']!r}"
    status, out, _ = streamnb_command("compare", tmp_path / "run", tmp_path / "run")
    assert status == 0
    _, two_jobs, _ = streamnb_command(*command[:3], "--json", "--jobs", "2")
    assert json.loads(two_jobs)["log_loss"] == report["log_loss"]


@pytest.mark.parametrize("selection", [{}, {"limit": 20}, {"skip": 290}, {"skip": 10, "limit": 20}])
def test_replay_and_evaluate_report_the_same_progress(mail_model, selection):
    config = build({"corpus": {"path": "corpora/sample", **selection}})
    model = Classifier.load(mail_model)
    totals = []
    for run in (replay_corpus, lambda *options: evaluate_model(config, model, "m", options[1])):
        totals.append([])
        report = run(config, lambda metrics, total: totals[-1].append(total))
        assert totals[-1] == [report.summary.messages] * report.summary.messages
    assert totals[0] == totals[1]


def test_evaluate_refuses_meaningless_options(model, mail_model, tmp_path):
    (tmp_path / "other.csv").write_text("topic,text\n" + "a,refund\nb,login\n" * 5)
    status, _, error = streamnb_command("evaluate", model, tmp_path / "other.csv")
    assert (status, error.count("\n")) == (3, 1)
    assert "no label is a class of the model; labels: a, b; classes: " in error
    feedback = ["--set", "feedback.kind=on_error"]
    status, _, error = streamnb_command("evaluate", model, tmp_path / "other.csv", *feedback)
    assert (status, "does not support the keys" in error) == (2, True)
    (tmp_path / "known.csv").write_text("topic,text\n" + "login,a\nrefund,b\n" * 5)
    positive = ["--set", "evaluate.positive=refunds", "--out", tmp_path / "results"]
    status, _, error = streamnb_command("evaluate", model, tmp_path / "known.csv", *positive)
    assert (status, "no message is of class 'refunds'; there are" in error) == (2, True)
    assert not (tmp_path / "results" / "summary.json").exists()
    message = b"From x Mon Jan  1 00:00:00 2024\nX-Kind: %s\nSubject: a\n\nb\n\n"
    (tmp_path / "box").write_bytes(message % b"spam" + message % b"ham")
    header = ["--set", "corpus.label_header=X-Kind"]
    status, _, error = streamnb_command("evaluate", mail_model, tmp_path / "box", *header)
    assert (status, "reads the field X-Kind, which holds the label" in error) == (2, True)


def test_the_help_has_a_line_for_each_command():
    from streamnb.cli.group import COMMANDS, SECTIONS

    assert list(SECTIONS["Start here"]) == ["replay", "learn", "classify"]
    assert len(COMMANDS) == sum(map(len, SECTIONS.values()))
    status, out, _ = streamnb_command("--help")
    assert status == 0
    for name, entry in COMMANDS.items():
        assert len(entry.summary) <= 60
        assert entry.summary.endswith(".")
        assert any(line.split(maxsplit=1) == [name, entry.summary] for line in out.splitlines())


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (["repaly", "x"], "did you mean 'replay'?"),
        (["TRAIN", "x"], "did you mean 'learn' or 'fit'?"),
        (["corpora/sample"], "streamnb replay corpora/sample"),
        (["replay", "x", "--ordr", "name"], "did you mean --order?"),
        (["replay", "x", "-jobs", "2"], ""),
        (["replay", "x", "--on_error", "skip"], "did you mean --on-error?"),
        (["fit", "x", "--OUTPUT", "y"], "did you mean --output?"),
        (["predict", "m", "--text-colum", "y"], "did you mean --text-column?"),
        (["--jobs", "2", "replay", "x"], "options of a command come after its name"),
        (["status", "--nothing-like-it"], ""),
    ],
)
def test_unknown_commands_and_options_have_a_suggestion(arguments, suggestion):
    status, out, error = streamnb_command(*arguments)
    assert (status, out, error.count("\n")) == (2, "", 1)
    assert suggestion in error
    assert "--help" in error
    assert suggestion or "did you mean" not in error


def test_top_takes_a_class_or_a_model_in_any_place(mail_model, tmp_path, monkeypatch):
    db = ["--db", tmp_path / "db"]
    for label in ("ham", "spam"):
        (tmp_path / label).write_bytes(b"Subject: %s\n\nwords of %s" % ((label.encode(),) * 2))
        assert streamnb_command("learn", label, tmp_path / label, *db)[0] == 0
    monkeypatch.chdir(tmp_path)  # its files have the names of the classes
    for arguments, titles in (
        ([], ["for ham", "for spam"]),
        (["spam"], ["for spam"]),
        (["--class", "spam"], ["for spam"]),
        (["spam", "--model", mail_model], ["for spam"]),
        ([mail_model, "--class", "spam"], ["for spam"]),
        ([mail_model, "spam"], ["for spam"]),
        (["spam", mail_model], ["for spam"]),
        ([mail_model], ["for spam", "for ham"]),
    ):
        options = [] if {mail_model, "none.snb"} & set(arguments) else db
        status, out, error = streamnb_command("top", *arguments, *options)
        assert (status, error) == (0, "")
        assert [line for line in out.splitlines() if line.startswith("for ")] == titles
    for arguments, expected, message in (
        (["eggs"], 2, "'eggs' is neither a class of"),
        (["eggs", "--model", mail_model], 2, "classes: spam, ham"),
        (["none.snb"], 4, "none.snb: the model cannot be read"),
        (["spam", "--class", "ham"], 2, "name only one class"),
        (["spam", mail_model, "ham"], 2, "name only one class, not 'spam' and 'ham'"),
        ([mail_model, "eggs"], 2, "'eggs' is neither a class of"),
    ):
        options = [] if {mail_model, "none.snb"} & set(arguments) else db
        status, out, error = streamnb_command("top", *arguments, *options)
        assert (status, out, error.count("\n")) == (expected, "", 1)
        assert message in error


def test_explain_takes_a_model_in_any_place(mail_model, tmp_path):
    message = Path("corpora/sample/data/005.eml").absolute()
    outputs = set()
    for arguments in (
        [message, "--model", mail_model],
        [mail_model, message],
        [message, mail_model],
    ):
        status, out, error = streamnb_command("explain", *arguments)
        assert (status, error) == (0, "")
        outputs.add(out)
    assert len(outputs) == 1
    for arguments, message_part in (
        ([mail_model], "is a model: name a message too"),
        ([mail_model, message, message], "expected one message"),
    ):
        status, out, error = streamnb_command("explain", *arguments)
        assert (status, out, error.count("\n")) == (2, "", 1)
        assert message_part in error


def test_a_model_is_measured_on_the_part_of_a_corpus_that_it_has_not_learned(mail_model, tmp_path):
    command = ["evaluate", mail_model, "corpora/sample", "--order", "shuffled", "--quiet"]
    assert streamnb_command(*command, "--skip", 200, "--out", tmp_path / "rest")[0] == 0
    assert streamnb_command(*command, "--limit", 200, "--out", tmp_path / "learned")[0] == 0
    names = {
        part: {
            line.split()[0] for line in (tmp_path / part / "results.txt").read_text().splitlines()
        }
        for part in ("rest", "learned")
    }
    assert (len(names["rest"]), len(names["learned"])) == (100, 200)
    assert not names["rest"] & names["learned"]


@pytest.mark.parametrize(
    ("options", "is_unsure"),
    [
        (["--costs", "1", "1", "0"], lambda p: True),
        (["--costs", "1", "1", "1"], lambda p: False),
        (["--threshold", "0.7"], lambda p: p < 0.7),
        (["--threshold", "1"], lambda p: p < 1),
    ],
    ids=["always", "never", "threshold", "certainty"],
)
def test_costs_and_threshold_decide_what_is_unsure(model, tmp_path, options, is_unsure):
    (tmp_path / "new.txt").write_text("".join(f"{text}\n" for text in (*LOGIN, *REFUND, "lunch")))
    status, out, _ = streamnb_command("predict", model, tmp_path / "new.txt", *options)
    assert status == 0
    for row in rows_of(out):
        assert row["unsure"] == str(is_unsure(float(row["probability"]))).lower()


@pytest.mark.parametrize("command", ["fit", "replay"])
@pytest.mark.parametrize("positive", ["refunds", "1"])
def test_a_positive_class_that_no_message_has_is_refused(model, tmp_path, positive, command):
    data = model.with_name("tickets.csv")
    columns = ["--label-column", "topic", "--text-column", "text", "--quiet"]
    options = [*columns, "--set", f"model.positive={positive}"]
    if command == "fit":
        options += ["-o", tmp_path / "m.snb"]
    status, _, error = streamnb_command(command, data, *options)
    assert (status, error.count("\n"), (tmp_path / "m.snb").exists()) == (2, 1, False)
    assert "model.positive: no message is of class" in error


def test_a_model_keeps_the_costs_that_it_was_trained_with(model, tmp_path):
    data = model.with_name("tickets.csv")
    columns = ["--label-column", "topic", "--text-column", "text"]
    costs = ["--set", "model.costs=[5, 1, 0]", "--set", "model.positive=refund"]
    path = tmp_path / "unsure.snb"
    assert streamnb_command("fit", data, *columns, *costs, "-o", path)[0] == 0
    classifier = Classifier.load(path)
    assert (classifier.costs, classifier.positive) == ((5, 1, 0), "refund")
    _, out, _ = streamnb_command("predict", path, data, "--text-column", "text")
    assert {row["unsure"] for row in rows_of(out)} == {"true"}


@pytest.mark.parametrize(
    "command", [("fit", "-o", "x.snb"), ("replay",), ("evaluate",)], ids=lambda command: command[0]
)
def test_skipping_all_messages_of_a_corpus_is_an_error(model, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    name, *options = command
    data = model.with_name("tickets.csv")
    columns = ["--label-column", "topic", "--text-column", "text", "--skip", 99_999]
    targets = [model, data] if name == "evaluate" else [data]
    status, _, error = streamnb_command(name, *targets, *columns, *options)
    assert (status, "corpus.skip (--skip) leaves out the first 99,999 messages" in error) == (
        3,
        True,
    )
    assert list(tmp_path.iterdir()) == []


HEADERLESS = "".join(
    f"{label},{text}\n" for label, texts in (("login", LOGIN), ("refund", REFUND)) for text in texts
)


@pytest.mark.parametrize("command", ["fit", "replay", "evaluate", "predict"])
@pytest.mark.parametrize("delimiter", [",", ";", "|"])
def test_standard_input_is_read_as_the_file_is(model, tmp_path, command, delimiter):
    content = HEADERLESS.replace(",", delimiter)
    (tmp_path / "t.csv").write_text(content)
    targets = [model] if command in ("evaluate", "predict") else []
    options = ["-o", tmp_path / "m.snb"] if command == "fit" else []
    if command in ("replay", "evaluate"):
        options = ["--json"]
    status, expected, _ = streamnb_command(command, *targets, tmp_path / "t.csv", *options)
    assert status == 0
    status, out, error = streamnb_command(command, *targets, "-", *options, input=content)
    assert (status, error) == (0, "")
    if command == "predict":
        assert out == expected
        assert len(out.splitlines()[0].split(delimiter)) == 5
    else:
        assert "8" in out


def test_lines_that_begin_with_other_words_are_texts(model):
    status, out, _ = streamnb_command("predict", model, input="yes, please\nno, thanks\n" * 5)
    assert status == 0
    assert out.startswith("text,label,probability,unsure\n")
    assert out.splitlines()[1].startswith('"yes, please",')


@pytest.mark.parametrize("delimiter", ["~", "\t", "\\t"])
@pytest.mark.parametrize("command", ["fit", "predict"])
def test_any_delimiter_can_be_named(model, tmp_path, command, delimiter):
    character = "\t" if delimiter == "\\t" else delimiter
    rows = [
        f"{label}{character}{text}"
        for label, text in (line.split(",") for line in HEADERLESS.split("\n")[:-1])
    ]
    (tmp_path / "t.csv").write_text("\n".join(["label" + character + "text", *rows]))
    arguments = [tmp_path / "t.csv", "--delimiter", delimiter]
    if command == "fit":
        arguments += ["-o", tmp_path / "m.snb", "--quiet"]
    else:
        arguments.insert(0, model)
    status, out, error = streamnb_command(command, *arguments)
    assert (status, error) == (0, "")
    if command == "predict":
        assert out.splitlines()[0].replace("\t", character) == character.join(
            ["label", "text", "predicted_label", "probability", "unsure"]
        )


def test_a_delimiter_is_one_character(model, tmp_path):
    (tmp_path / "t.csv").write_text("text\na\n")
    status, _, error = streamnb_command("predict", model, tmp_path / "t.csv", "--delimiter", ";;")
    assert status == 2
    assert "';;' is not one character" in error


def test_several_files_are_labelled_as_one(model, tmp_path):
    (tmp_path / "a.csv").write_text("id,text\n1,password again\n")
    (tmp_path / "b.csv").write_text("id;text\n2;refund please\n")
    (tmp_path / "c.csv").write_text("text\nmoney\n")
    status, out, error = streamnb_command("predict", model, tmp_path / "a.csv", tmp_path / "b.csv")
    assert (status, error) == (0, "")
    assert [line.split(",")[:3] for line in out.splitlines()] == [
        ["id", "text", "label"], ["1", "password again", "login"], ["2", "refund please", "refund"],
    ]  # fmt: skip
    status, _, error = streamnb_command("predict", model, tmp_path / "a.csv", tmp_path / "c.csv")
    assert status == 3
    assert "c.csv: its columns (text) are not those of" in error


@pytest.mark.parametrize("name", ["m.eml", "box"])
def test_a_model_of_texts_refuses_a_mail(model, tmp_path, name):
    start = "From a@example.com Mon Jan  1 00:00:00 2024\n" if name == "box" else ""
    (tmp_path / name).write_text(f"{start}From: a@example.com\nSubject: refund\n\nmy money\n\n")
    status, _, error = streamnb_command("predict", model, tmp_path / name)
    assert status == 3
    assert "it is mail, but the model was trained on texts" in error
    assert ("rename" in error) == (name == "m.eml")  # another name changes only the suffix


def test_texts_that_begin_with_from_are_no_mail(model, tmp_path):
    (tmp_path / "lines.txt").write_text("From Berlin to Paris\nmy money\n")
    status, out, error = streamnb_command("predict", model, tmp_path / "lines.txt")
    assert (status, error) == (0, "")
    assert out.splitlines()[1].startswith("From Berlin to Paris,")
    table = tmp_path / "t.csv"
    table.write_text(
        "From address,label,text\n"
        + "".join(f"Re:{n}@example.com,{'ab'[n % 2]},the text {'xy'[n % 2]}\n" for n in range(20))
    )
    status, _, error = streamnb_command("fit", table, "-o", tmp_path / "t.snb")
    assert (status, error) == (0, "")
    status, out, error = streamnb_command("predict", tmp_path / "t.snb", table)
    assert (status, error) == (0, "")
    assert len(out.splitlines()) == 21


@pytest.mark.parametrize(
    "pattern", ["{}", "NA", "missing", "3,{}", "{} %", "\u2212{}", "$1,{}.5", "2020-01-{}"]
)
@pytest.mark.parametrize("command", ["fit", "replay"])
def test_a_column_of_numbers_is_no_text_unless_it_is_named(tmp_path, pattern, command):
    cells = [pattern.format(n + 10) if "{" in pattern or n % 3 == 0 else str(n) for n in range(20)]
    (tmp_path / "t.csv").write_text(
        "age,label\n" + "".join(f'"{cell}",{"ab"[n % 2]}\n' for n, cell in enumerate(cells))
    )
    options = ["-o", tmp_path / "m.snb"] if command == "fit" else []
    status, _, error = streamnb_command(command, tmp_path / "t.csv", *options)
    assert status == 3
    assert "the texts in the column 'age' are numbers, such as " in error
    named = ["--text-column", "age", "-o", tmp_path / "m.snb", "--quiet"]
    assert streamnb_command("fit", tmp_path / "t.csv", *named)[0] == 0


def test_texts_of_signs_are_texts(tmp_path):
    signs = ["\U0001f44d\U0001f44d", "\U0001f44e", "???", ":-)"] * 5
    rows = "".join(f"{'ab'[n % 2]}\t{text}\n" for n, text in enumerate(signs))
    (tmp_path / "t.tsv").write_text(rows)
    assert streamnb_command("replay", tmp_path / "t.tsv", "--no-intervals")[0] == 0


@pytest.mark.parametrize("command", ["fit", "replay", "evaluate", "predict"])
@pytest.mark.parametrize("skip", [False, True])
def test_errors_name_standard_input_and_not_its_copy(model, tmp_path, command, skip):
    targets = [model] if command in ("evaluate", "predict") else []
    options = ["-o", tmp_path / "m.snb"] if command == "fit" else []
    options += ["--on-error", "skip"] if skip else []
    content = ("topic" if targets else "label") + ",text\nlogin,a b\nlogin\nrefund,c d\n"
    status, _, error = streamnb_command(command, *targets, "-", *options, input=content)
    assert status == (0 if skip else 3)
    assert "standard input:3: fewer columns" in error
    assert "/stdin" not in error


def test_a_corpus_that_is_none_is_named_standard_input():
    _, _, error = streamnb_command("replay", "-", input="no corpus\n")
    assert error.startswith("streamnb: standard input: not a corpus")


@pytest.mark.parametrize("order", [None, "shuffled:3", "name"])
@pytest.mark.parametrize("is_option", [True, False])
def test_limit_of_fit_and_skip_of_evaluate_split_a_corpus(tmp_path, order, is_option):
    """The same order in options or in a file, or the default, selects each text once."""
    table, model, config = (tmp_path / name for name in ("t.csv", "m.snb", "c.yaml"))
    words = [f"word{i}" for i in range(60)]
    rows = [f"{word},{'ab'[i % 2]}" for i, word in enumerate(words)]
    table.write_text("text,label\n" + "\n".join(rows) + "\n")
    config.write_text(json.dumps({"corpus": {"order": order}}))
    options = ["--config", config] if not is_option else ["--order", order] if order else []
    fit = ("fit", table, "--limit", 40, "--set", "model.kind=multinomial", "-o", model)
    assert streamnb_command(*fit, *options)[0] == 0
    test = ("evaluate", model, table, "--skip", 40, "--out", tmp_path / "out")
    assert streamnb_command(*test, *options)[0] == 0
    lines = (tmp_path / "out" / "results.txt").read_text().splitlines()
    tested = {words[int(line.split()[0].rpartition(":")[2]) - 2] for line in lines}
    learned = {
        word for word in words if any(Classifier.load(model).model.feature_counts(word).values())
    }
    assert len(learned) == 40
    assert learned | tested == set(words)
