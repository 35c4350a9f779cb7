"""The commands for texts: labels unchanged, one column as a file or a pipe, models of rows."""

import csv
import io
import json

import pytest
from commands import streamnb_command

from streamnb import Classifier, MixedNB, MultinomialNB, Tokenizer
from streamnb.cli.options import notify_doubtful_labels
from streamnb.evaluate.compare import read_run


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tickets.snb"
    classifier = Classifier(Tokenizer(), MultinomialNB())
    classifier.learn_many(["cannot log in", "refund please"], ["login", "refund"])
    classifier.save(path)
    return path


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("output_format", ["csv", "tsv"])
def test_half_a_surrogate_pair_is_replaced_in_a_table(model, tmp_path, output_format):
    """JSON can have half a surrogate pair, UTF-8 cannot: some programs cut texts within a pair."""
    data = tmp_path / "data.jsonl"
    data.write_text('{"text": "refund \\ud83d"}\n{"text": "log in \\ud83d\\ude00"}\n')
    status, out, error = streamnb_command("predict", model, data, "--format", output_format)
    assert (status, error) == (0, "")
    assert [line.split("\t")[0].split(",")[0] for line in out.splitlines()[1:]] == [
        "refund \ufffd", "log in \U0001f600",
    ]  # fmt: skip


LABELS = ["not spam", "log in / account", "billing, money", "bug  report", "50%20", "a\nb", "x\ty"]


@pytest.mark.parametrize("format_name", ["csv", "jsonl"])
def test_every_command_keeps_labels_as_they_stand(tmp_path, format_name):
    rows = [{"label": y, "text": f"word{i} {n}"} for n in range(4) for i, y in enumerate(LABELS)]
    data = tmp_path / f"data.{format_name}"
    with open(data, "w", newline="") as file:
        if format_name == "csv":
            writer = csv.DictWriter(file, ["label", "text"])
            writer.writeheader()
            writer.writerows(rows)
        else:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    prior = json.dumps(dict.fromkeys(LABELS, 1 / len(LABELS)))
    options = ["--set", "model.kind=multinomial", "--set", f"model.prior={prior}"]
    status, _, error = streamnb_command("fit", data, *options, "-o", tmp_path / "m.snb")
    assert (status, error) == (0, "")
    assert sorted(Classifier.load(tmp_path / "m.snb").labels) == sorted(LABELS)
    status, out, error = streamnb_command("predict", tmp_path / "m.snb", data, "--json")
    assert (status, error) == (0, "")
    predicted = [json.loads(line) for line in out.splitlines()]
    assert [row["predicted_label"] for row in predicted] == [row["label"] for row in rows]
    options = ["--set", "evaluate.positive=not spam", "--out"]
    for command in (["evaluate", tmp_path / "m.snb", data], ["replay", data]):
        folder = tmp_path / command[0]
        status, _, error = streamnb_command(*command, *options, folder)
        assert (status, error) == (0, "")
        results = read_run(folder)
        assert sorted(set(results.labels)) == sorted(LABELS)
        assert set(results.predicted) <= {*LABELS, "?"}
        assert results.positive == "not spam"


@pytest.mark.parametrize(
    ("labels", "has_notice"),
    [
        (["1", "1.0"], True),
        (["01", "1"], True),
        (["1e3", "1000"], True),
        (["12345678901234567", "12345678901234568"], False),
        (["1.1", "1.10"], False),  # versions
        (["2024.1", "2024.10"], False),
        (["nan", "1e999999999"], False),
    ],
)
def test_two_spellings_of_an_integer_are_noticed(capsys, labels, has_notice):
    notify_doubtful_labels(dict.fromkeys(labels, 1))
    assert ("the way a number is written" in capsys.readouterr().err) == has_notice


def test_labels_that_lines_between_tabs_cannot_hold_are_refused(tmp_path):
    classifier = Classifier(Tokenizer(), MultinomialNB())
    classifier.learn_many(["free pills", "lunch"], ["a\tb", "c"])
    classifier.save(tmp_path / "m.snb")
    (tmp_path / "new.tsv").write_text("id\ttext\n1\tfree pills\n")
    status, _, error = streamnb_command("predict", tmp_path / "m.snb", tmp_path / "new.tsv")
    assert status == 2
    assert error == (
        "streamnb: the label 'a\\tb' contains a tab or line end, which tsv cannot store; use --format csv or --format "
        "jsonl\n"
    )


# One column of texts: as lines, or as CSV, from a file and from standard input.
ONE_COLUMN = {
    "CSV": ("text\nrefund\npassword\n", ["refund", "password"]),
    "CSV with quotes": ('text\n"refund, please"\npassword\n', ["refund, please", "password"]),
    "lines": ("password\nrefund\n", ["password", "refund"]),
    "lines with commas": ("text\nrefund, please\n", ["text", "refund, please"]),
    "one line": ("text\n", ["text"]),
}


@pytest.mark.parametrize("source", ["file", "stdin"])
@pytest.mark.parametrize("kind", ONE_COLUMN)
def test_one_column_is_read_alike_from_files_and_pipes(tmp_path, model, kind, source):
    content, texts = ONE_COLUMN[kind]
    (tmp_path / "new").write_text(content)
    data = tmp_path / "new" if source == "file" else "-"
    status, out, error = streamnb_command("predict", model, data, input=content)
    assert (status, error) == (0, "")
    assert [row["text"] for row in rows_of(out)] == texts


@pytest.mark.parametrize("kind", ["lines", "table"])
def test_predict_writes_a_row_for_each_line(tmp_path, model, kind):
    lines = ["refund", "", "password", "  ", "x"]
    name = "new.csv" if kind == "table" else "new.txt"
    header = "id,text\n" if kind == "table" else ""
    rows = [f"{i},{line}" if header else line for i, line in enumerate(lines)]
    (tmp_path / name).write_text(header + "\n".join(rows) + "\n")
    status, out, error = streamnb_command("predict", model, tmp_path / name)
    assert (status, error) == (0, "")
    assert [row["text"] for row in rows_of(out)] == lines


@pytest.mark.parametrize("command", ["predict", "evaluate", "top", "explain"])
def test_commands_for_texts_name_what_reads_a_model_of_rows(tmp_path, command):
    model = MixedNB()
    model.learn_many([{"n": 1, "s": "x"}, {"n": 2, "s": "y"}], ["p", "q"])
    model.save(tmp_path / "rows.snb")
    (tmp_path / "new.csv").write_text("label,text\np,refund\nq,money\n")
    data = [] if command == "top" else [tmp_path / "new.csv"]
    status, _, error = streamnb_command(command, tmp_path / "rows.snb", *data)
    assert (status, error.count("\n")) == (4, 1)
    assert "the file holds a MixedNB, not a model of texts; " in error
    assert "`streamnb.load`" in error
    assert "`streamnb serve --model`" in error


SPELLINGS = {
    "upper and lower case": ("Spam", "spam", "Spam, spam"),
    "zero-width space": ("spam", "\u200bspam", r"'spam', '\u200bspam'"),
    "mark of the byte order": ("spam", "\ufeffspam", r"'spam', '\ufeffspam'"),
    "normal forms": ("caf\u00e9", "cafe\u0301", r"'cafe\u0301', 'caf\xe9'"),
    "wide letters": ("spam", "\uff53pam", r"'spam', '\uff53pam'"),
    "hyphen": ("not spam", "not-spam", "not spam, not-spam"),
    "underscore": ("not_spam", "not  spam", "not  spam, not_spam"),
    "several": ("Not_spam", "not spam", "Not_spam, not spam"),
    "float": ("1", "1.0", "1, 1.0"),
    "leading zero": ("1", "01", "01, 1"),
}
DISTINCT = [("-1", "1"), ("C", "C++"), ("a", "b"), ("1.5", "15"), ("no", "none"), ("1-2", "12")]


def write_labels(path, labels, header="label,text"):
    rows = [f"{label},{n} word words" for n in range(10) for label in labels]
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")


@pytest.fixture
def label_notices(tmp_path):
    """Return the notices of all entrances that read labels."""

    def notices(*labels):
        write_labels(tmp_path / "t.csv", labels)
        write_labels(tmp_path / "rows.csv", labels, "label,value")
        (tmp_path / "e.yaml").write_text(
            "data: {kind: table, path: rows.csv, label: label}\n"
            "models: {m: {kind: categorical}}\nsplits: {kind: random, trials: 2}\n"
        )
        for command in (
            ["fit", tmp_path / "t.csv", "-o", tmp_path / "t.snb"],
            ["replay", tmp_path / "t.csv", "--no-intervals"],
            ["evaluate", tmp_path / "t.snb", tmp_path / "t.csv", "--no-intervals"],
            ["experiment", tmp_path / "e.yaml"],
        ):
            status, _, error = streamnb_command(*command, "--quiet")
            assert status == 0
            yield error

    return notices


@pytest.mark.parametrize("kind", SPELLINGS)
def test_two_spellings_of_a_label_are_reported(label_notices, kind):
    first, second, names = SPELLINGS[kind]
    for notice in label_notices(first, second, "other"):
        assert notice.count("\n") == 1
        assert f"{names} are different classes" in notice


@pytest.mark.parametrize("labels", DISTINCT)
def test_labels_that_only_resemble_each_other_are_not_reported(label_notices, labels):
    assert set(label_notices(*labels)) == {""}


def test_evaluate_reports_labels_that_the_model_lacks(tmp_path, model):
    data = tmp_path / "data.csv"
    write_labels(data, ["login", "Log in", "refund"])
    status, out, error = streamnb_command("evaluate", model, data, "--json")
    assert status == 0
    assert json.loads(out)["messages"] == 30
    assert (
        "10 of 30 messages count as errors: their labels are not classes of the model (Log in)"
        in (error)
    )
    write_labels(data, ["login", "refund"])
    assert streamnb_command("evaluate", model, data, "--quiet") == (0, "", "")


def write_table(path, rows):
    """Write rows of an id, a text and a label as CSV."""
    path.write_text("id,text,label\n" + "".join(f"{','.join(map(str, row))}\n" for row in rows))


ROWS = [
    (f"A-{n}", f"{'refund of' if n % 2 else 'login to'} account", "spam" if n % 2 else "harmless")
    for n in range(400)
]
DOUBTS = {
    "nothing": (ROWS, [], ""),
    "misspelt label": ([*ROWS, ("A-400", "refund", "spma")], [], "the label 'spma' (1 message) may be a misspelling of 'spam' (200); "),
    "identifiers": (ROWS, ["--text-column", "id"], "each text in the column 'id' is a different number or identifier, such as 'A-0'; "),
    "empty texts": ([(key, text if n % 3 else "", label) for n, (key, text, label) in enumerate(ROWS)], [], ""),
    "mostly empty texts": ([(key, "" if n % 3 else text, label) for n, (key, text, label) in enumerate(ROWS)], [], "most texts in the column 'text' are empty"),
}  # fmt: skip


@pytest.mark.parametrize("command", ["replay", "fit", "evaluate"])
@pytest.mark.parametrize("doubt", DOUBTS)
def test_doubtful_data_are_noticed_at_each_entrance(tmp_path, command, doubt):
    rows, options, expected = DOUBTS[doubt]
    write_table(tmp_path / "good.csv", ROWS)
    write_table(tmp_path / "data.csv", rows)
    streamnb_command("fit", tmp_path / "good.csv", "-o", tmp_path / "m.snb")
    arguments = {
        "replay": [],
        "fit": ["-o", tmp_path / "new.snb"],
        "evaluate": [tmp_path / "m.snb"],
    }
    status, _, error = streamnb_command(
        command, *arguments[command], tmp_path / "data.csv", *options, "--quiet"
    )
    assert status == 0
    assert expected in error
    assert (error.count("\n") - ("not classes of the model" in error)) == bool(expected)


def test_a_column_of_ratings_is_noticed_unless_it_is_named(tmp_path):
    rows = "".join(f"{1 + n % 5},word{n % 5} text\n" for n in range(50))
    (tmp_path / "data.csv").write_text(f"stars,text\n{rows}")
    output = ["-o", tmp_path / "m.snb", "--quiet"]
    _, _, error = streamnb_command("fit", tmp_path / "data.csv", *output)
    assert "the numbers in the column 'stars' are classes without an order" in error
    options = ["--label-column", "stars"]
    assert streamnb_command("fit", tmp_path / "data.csv", *output, *options) == (0, "", "")
    rows = "".join(f"{'good' if n % 2 else 'bad'},word{n % 5} text\n" for n in range(50))
    (tmp_path / "data.csv").write_text(f"rating,text\n{rows}")
    assert streamnb_command("fit", tmp_path / "data.csv", *output) == (0, "", "")


@pytest.mark.parametrize(
    ("counts", "has_notice"),
    [
        ({"spam": 500, "spma": 1}, True),
        ({"billing": 300, "biling": 3}, True),
        ({"billing": 299, "biling": 3}, False),  # not rare
        ({"spam": 99, "span": 0}, False),  # only predicted
        ({"car": 500, "cat": 1}, False),  # too short
        ({"topic 1": 500, "topic 2": 1}, False),
        ({"legal": 500, "illegal": 1}, False),
    ],
)
def test_a_rare_label_is_noticed_if_one_letter_is_wrong(capsys, counts, has_notice):
    notify_doubtful_labels(counts)
    assert ("may be a misspelling" in capsys.readouterr().err) == has_notice


def test_every_typo_of_one_letter_is_noticed_among_many_labels(capsys):
    name = "billing"
    pieces = [(name[:i], name[i:]) for i in range(len(name) + 1)]
    typos = {f"{head}{tail[1:]}" for head, tail in pieces}
    typos |= {f"{head}x{tail}" for head, tail in pieces}
    typos |= {f"{head}x{tail[1:]}" for head, tail in pieces}
    typos |= {f"{head}{tail[1]}{tail[0]}{tail[2:]}" for head, tail in pieces[:-2]}
    distinct = {f"class {n:04}": 200 for n in range(1000)}
    for typo in typos - {name}:
        notify_doubtful_labels({**distinct, typo: 1, name: 200})
        assert f"the label {typo!r} (1 message) may be a misspelling" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["replay", "fit", "evaluate", "experiment"])
@pytest.mark.parametrize(
    "option", ["--alpha", "--laplace", "--seed", "--random-state", "--min-length"]
)
def test_an_option_that_is_a_key_names_its_setting(command, option):
    expected = {
        "--seed": "--set splits.seed=VALUE" if command == "experiment" else "--order shuffled:SEED",
        "--alpha": "--set model.alpha=VALUE",
        "--min-length": "--set tokenizer.min_length=VALUE",
    }
    expected |= {"--random-state": expected["--seed"], "--laplace": expected["--alpha"]}
    _, _, error = streamnb_command(command, "data.csv", option, 1)
    is_key = command in ("replay", "fit") or option in ("--seed", "--random-state")
    assert (f"no such option: {option}; did you mean {expected[option]}?" in error) == is_key


@pytest.mark.parametrize("setting", ["model.alpha=3", "tokenizer.min_length=1", "model={alpha: 3}"])
def test_evaluate_refuses_settings_of_the_saved_model(model, tmp_path, setting):
    write_table(tmp_path / "data.csv", ROWS)
    status, _, error = streamnb_command("evaluate", model, tmp_path / "data.csv", "--set", setting)
    assert (status, f"--set {setting}: `evaluate` does not" in error) == (2, True)


@pytest.mark.parametrize("command", [["explain", "--model"], ["predict"], ["classify"]])
def test_a_text_in_the_place_of_a_file_names_standard_input(model, command):
    arguments = [*command, model] if command != ["classify"] else command
    for name, is_text in {"refund please": True, "refund": True, "dir/refund.eml": False}.items():
        status, _, error = streamnb_command(*arguments, name)
        assert status == 3
        assert ("echo TEXT | streamnb" in error) == is_text
    assert "echo TEXT" not in streamnb_command("replay", "sampel")[2]  # a corpus is no text


def test_fit_and_evaluate_take_corpus_and_model_from_a_configuration(tmp_path):
    write_table(tmp_path / "data.csv", ROWS)
    model = tmp_path / "m.snb"
    (tmp_path / "c.yaml").write_text(f"corpus: {{path: data.csv}}\noutput: {{model: {model}}}\n")
    for arguments in (["--config", tmp_path / "c.yaml"], [tmp_path / "c.yaml"]):
        assert streamnb_command("fit", *arguments, "--quiet") == (0, "", "")
        assert streamnb_command("evaluate", model, *arguments, "--quiet") == (0, "", "")
        model.unlink()
    for arguments, missing in (([], "CORPUS"), ([tmp_path / "data.csv"], "-o FILE")):
        status, _, error = streamnb_command("fit", *arguments)
        assert (status, error.startswith(f"streamnb: {missing} (")) == (2, True)


def test_results_of_one_kind_do_not_replace_those_of_another(tmp_path, model, repository):
    write_table(
        tmp_path / "data.csv",
        [(n, text, ["login", "refund"][n % 2]) for n, (_, text, _) in enumerate(ROWS)],
    )
    weather = repository / "configs" / "experiments" / "weather.yaml"
    commands = {
        "a replay": ["replay", tmp_path / "data.csv"],
        "an evaluation": ["evaluate", model, tmp_path / "data.csv"],
        "an experiment": ["experiment", weather, "--set", "splits.trials=1"],
    }
    for kind, command in commands.items():
        folder = tmp_path / kind
        folder.mkdir()
        (folder / "config.yaml").write_text("mine: 1\n")  # without results, nothing is protected
        out = ["--out", folder, "--quiet"]
        for _ in range(2):
            status, _, error = streamnb_command(*command, *out)
            assert status == 0, error
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        for second_command in commands.values():
            if second_command != command:
                status, _, error = streamnb_command(*second_command, *out)
                assert (status, f"has the results of {kind}; choose" in error) == (5, True)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_log_odds_without_tokens_complete_the_sum_of_a_bernoulli_model(tmp_path):
    write_table(tmp_path / "data.csv", ROWS[:301])
    kind = ["--set", "model.kind=bernoulli"]
    streamnb_command("fit", tmp_path / "data.csv", "-o", tmp_path / "m.snb", *kind)
    explain = ["explain", tmp_path / "m.snb", "-"]
    _, out, _ = streamnb_command(*explain, "--json", input="refund of account")
    result = json.loads(out)
    total = sum(reason["log_odds"] for reason in result["reasons"])
    assert abs(result["log_odds"] - total - result["log_odds_without_tokens"]) < 1e-9
    assert abs(result["log_odds_without_tokens"]) > 0.01
    _, out, _ = streamnb_command(*explain, input="refund of account")
    assert f"({result['log_odds_without_tokens']:.2f} without tokens)" in out
