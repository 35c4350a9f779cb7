"""Bad input of all commands: one line that names it, a documented status, and no new file."""

import os

import pytest
from commands import streamnb_command

from streamnb import Classifier, MultinomialNB, Tokenizer
from streamnb.cli.group import COMMANDS

TABLE = "label,text\n" + "spam,buy cheap pills\nham,lunch at noon\n" * 10
EXPERIMENT = "data: {kind: table, path: table.csv, label: label}\nsplits: {trials: 2}\n"
# For each command its words; INPUT is the file that is replaced by bad ones.
ENTRANCES = {
    "replay": "replay INPUT",
    "replay --config": "replay table.csv --config INPUT",
    "learn": "learn ham INPUT --db mail.db",
    "classify": "classify INPUT --db mail.db",
    "classify --db": "classify message.eml --db INPUT",
    "compare": "compare INPUT INPUT",
    "report": "report INPUT",
    "experiment": "experiment INPUT",
    "spark": "spark table INPUT -o new",
    "trec-run": "trec-run classify INPUT --state model.snb",
    "trec-run --state": "trec-run finalize --state INPUT",
    "fit": "fit INPUT -o new",
    "predict": "predict INPUT table.csv",
    "predict, data": "predict model.snb INPUT",
    "evaluate": "evaluate INPUT table.csv",
    "evaluate, data": "evaluate model.snb INPUT",
    "explain": "explain INPUT --db mail.db",
    "explain --model": "explain message.eml --model INPUT",
    "top": "top --model INPUT",
    "merge-models": "merge-models INPUT model.snb -o new",
    "forget": "forget INPUT --db mail.db",
    "undo": "undo --last --db INPUT",
    "verdicts": "verdicts --db INPUT",
    "status": "status --db INPUT",
    "verify": "verify --db INPUT",
    "compact": "compact --db INPUT",
    "recover": "recover new --db INPUT",
    "upgrade": "upgrade new INPUT --db mail.db",
    "export": "export new --db INPUT",
    "import": "import INPUT --db new",
    "merge": "merge INPUT --db mail.db",
}
# `filter` passes mail on, `watch`, `serve` and `web` have tests of their own.
NOT_HERE = {"filter", "watch", "serve", "web"}
BAD = ("missing", "empty", "folder", "binary")
# These commands accept any bytes as a message. `upgrade` creates its database before it finds none.
ACCEPTED = {
    *((name, bad) for name in ("trec-run", "forget") for bad in ("empty", "binary")),
    *(("classify", "empty"), ("explain", "binary"), ("forget", "folder"), ("upgrade", "binary")),
}
CASES = [(name, bad) for name in ENTRANCES for bad in BAD if (name, bad) not in ACCEPTED]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "table.csv").write_text(TABLE)
    (folder / "message.eml").write_text("Subject: lunch\n\nat noon\n")
    (folder / "empty").touch()
    (folder / "folder").mkdir()
    (folder / "binary").write_bytes(bytes(range(256)) * 64)
    classifier = Classifier(Tokenizer(), MultinomialNB())
    classifier.learn_many(["buy pills", "lunch"], ["spam", "ham"])
    classifier.save(folder / "model.snb")
    replayed = streamnb_command("replay", "table.csv", "--out", "run", "--quiet", cwd=folder)
    assert replayed[0] == 0
    learned = streamnb_command("learn", "ham", "message.eml", "--db", "mail.db", cwd=folder)
    assert learned[0] == 0
    return folder


def names(folder):
    return sorted(n for n in os.listdir(folder) if not n.endswith(("-wal", "-shm")))


def test_each_command_is_tested():
    assert {words.split()[0] for words in ENTRANCES.values()} == COMMANDS.keys() - NOT_HERE


@pytest.mark.parametrize(("name", "bad"), CASES)
def test_bad_input_is_one_line_that_names_it(inputs, name, bad):
    before = names(inputs)
    words = ENTRANCES[name].replace("INPUT", bad).split()
    status, out, error = streamnb_command(*words, cwd=inputs)
    assert names(inputs) == before
    assert (error.count("\n"), bad in error, status in (2, 3, 4)) == (1, True, True), error
    assert out == ""


@pytest.mark.parametrize("words", ["explain table.csv --db mail.db", "explain model.snb table.csv"])
def test_a_table_is_not_explained_as_a_message(inputs, words):
    status, out, error = streamnb_command(*words.split(), cwd=inputs)
    assert (status, out) == (3, "")
    assert "table.csv: not a message: a table; label its rows with `streamnb predict`" in error


@pytest.mark.parametrize("words", ["fit URL -o new", "predict model.snb URL", "replay URL"])
def test_an_address_is_not_a_file(inputs, words):
    url = "https://example.org/a.csv"
    status, _, error = streamnb_command(*words.replace("URL", url).split(), cwd=inputs)
    assert (status, f"{url}: no such file or folder; download it first" in error) == (3, True), (
        error
    )


def test_an_empty_file_with_a_suffix_is_empty(inputs, tmp_path):
    (tmp_path / "new.csv").touch()
    learned = streamnb_command("learn", "ham", tmp_path / "new.csv", "--db", "mail.db", cwd=inputs)
    assert learned[0] == 3
    assert "not learned: it is empty" in learned[2]
    judged = streamnb_command("classify", tmp_path / "new.csv", "--db", "mail.db", cwd=inputs)
    assert (judged[0], "a table" in judged[2]) == (2, False)


@pytest.mark.parametrize(
    "words",
    [
        "learn ham message.eml --db http://host/mail",
        "merge imap://host --db mail.db",
        "upgrade mysql://host message.eml --db mail.db",
        "status --db sqlite:///mail.db",
        "classify message.eml --db http://host/mail",
    ],
)
def test_a_database_on_another_kind_of_server_is_refused(inputs, words):
    before = names(inputs)
    status, _, error = streamnb_command(*words.split(), cwd=inputs)
    assert status in (3, 4)
    assert "not a database; name a file, or postgresql://USER@HOST/DATABASE" in error
    assert names(inputs) == before


@pytest.mark.parametrize(
    "words",
    [
        ["replay", "table.csv", "--save"],
        ["replay", "table.csv", "--config"],
        ["replay", "table.csv", "--out"],
        ["fit", "table.csv", "-o"],
        ["report", "run", "-o"],
        ["compare", "run", "run", "--positive"],
        ["top", "--model"],
        ["trec-run", "finalize", "--state"],
    ],
)
def test_an_empty_option_is_refused_by_its_name(inputs, words):
    status, _, error = streamnb_command(*words, "", cwd=inputs)
    assert (status, error.count("\n")) == (2, 1)
    assert words[-1] in error
    assert "it is empty" in error


def test_a_server_may_have_no_delimiter():
    """Postfix accepts an empty recipient_delimiter. The command finds the next problem."""
    arguments = ("--users", "--delimiter", "", "--http", "127.0.0.1:0", "--reject", "0.9")
    status, _, error = streamnb_command("serve", *arguments)
    assert (status, "--reject needs --milter" in error) == (2, True), error


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["replay", "table.csv", "--limit", "many"], "'many' is not a valid integer"),
        (["status", "--wait", "long"], "'long' is not a valid number"),
        (["status", "--db"], "Option '--db' requires an argument"),
        (["replay", "table.csv", "--json=yes"], "Option '--json' does not take a value"),
        (["classify", "message.eml", "--costs", "1"], "Option '--costs' requires 3 arguments"),
        (["spark fit", "--set"], "Option '--set' requires an argument"),
    ],
)
def test_a_wrong_value_of_an_option_names_its_type_and_the_help(inputs, words, problem):
    status, _, error = streamnb_command(*words[0].split(), *words[1:], cwd=inputs)
    assert status == (3 if words[0] == "classify" else 2)
    assert f"{problem} (see streamnb {words[0]} --help)" in error


@pytest.mark.parametrize("name", ["x" * 300, "table.csv/x"])
@pytest.mark.parametrize(
    "words",
    [
        "recover NAME --db mail.db",
        "export NAME --db mail.db",
        "fit table.csv -o NAME",
        "report run -o NAME",
        "trec-run initialize --state NAME",
    ],
)
def test_an_output_that_cannot_be_created_is_named(inputs, words, name):
    status, _, error = streamnb_command(*words.replace("NAME", name).split(), cwd=inputs)
    assert (status, error.count("\n"), name in error) == (5, 1, True), error


def test_the_name_of_a_page_is_printed_on_one_line(inputs, tmp_path):
    page = tmp_path / "a\n\x1b[1mb.html"
    status, out, _ = streamnb_command("report", "run", "-o", page, cwd=inputs)
    assert (status, out) == (0, f"{tmp_path}/a??[1mb.html\n")
