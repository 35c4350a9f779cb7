"""Arguments of all commands: an empty one, as from an unset variable, is not the current folder."""

from itertools import chain

import click
import pytest
from commands import streamnb_command

from streamnb import TextClassifier
from streamnb.cli import option_rules
from streamnb.cli.group import COMMANDS, commands
from streamnb.corpus import open_corpus
from streamnb.errors import ConfigError

OPTIONS = {"fit": ["-o", "out"], "merge-models": ["-o", "out"], "spark table": ["-o", "out"]}


def commands_with_arguments():
    """Return the words of each command that has arguments, and their number."""
    context = click.Context(commands)
    for name in COMMANDS:
        command = commands.get_command(context, name)
        members = getattr(command, "commands", None) or {"": command}
        for member_name, member in members.items():
            count = sum(isinstance(param, click.Argument) for param in member.params)
            if count:
                yield f"{name} {member_name}".strip(), count


ARGUMENTS = dict(commands_with_arguments())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STREAMNB_DB", str(tmp_path / "mail.db"))
    (tmp_path / "1.eml").write_text("Subject: lunch\n\nat noon\n")
    assert streamnb_command("learn", "ham", "1.eml")[0] == 0
    return tmp_path


@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_empty_argument_is_refused(folder, name):
    before = sorted(path.name for path in folder.iterdir())
    status, out, error = streamnb_command(
        *name.split(), *[""] * ARGUMENTS[name], *OPTIONS.get(name, ())
    )
    assert (status, out, error.count("\n")) == (3 if name == "classify" else 2, "", 1)
    assert "it is empty" in error or "'' is not one of" in error
    assert sorted(path.name for path in folder.iterdir()) == before


def test_most_commands_have_arguments():
    assert len(ARGUMENTS) >= 15


@pytest.mark.parametrize("arguments", [["ham", ""], ["spam", "1.eml", ""]])
def test_an_empty_source_behind_others_is_refused(folder, arguments):
    before = streamnb_command("status", "--json")
    assert streamnb_command("learn", *arguments)[0] == 2
    assert streamnb_command("status", "--json") == before


def test_the_present_folder_has_a_name(folder):
    with pytest.raises(ConfigError, match="it is empty"):
        open_corpus("")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["compact", "--ledger", "x"], "'x' is not a valid number"),
        (["status", "--wait", "nan"], "not a finite number"),
        (["forget", "--sender", "ann"], "--sender needs --erase"),
        (["forget", "--erase", "--sender", " "], "--sender is empty"),
        (["learn", "ham", "imap://a@b", "--password-command", ""], "-command': it is empty"),
        (["watch", "imap://a@b", "--token-command", ""], "--token-command': it is empty"),
        (["watch", "imap://a@b", "--ca-file", ""], "--ca-file': it is empty"),
        (["watch", "imap://a@b", "--password-command", " "], "-command: the command is empty"),
    ],
)
def test_a_wrong_value_of_an_option_is_named(folder, arguments, text):
    status, out, error = streamnb_command(*arguments)
    assert (status, out, error.count("\n")) == (2, "", 1)
    assert text in error


VALUES = {"--costs": ["1", "1", "1"], "--folders": ["spam=Junk"], "--delimiter": [";"]}


def pairs_of_options():
    """Yield each command, and two options of it that exclude each other, with their values."""
    context = click.Context(commands)
    for name in COMMANDS.keys() - {"filter"}:  # which would pass on standard input
        params = commands.get_command(context, name).params
        flags = {option: param.is_flag for param in params for option in param.opts
                 if isinstance(param, click.Option)}  # fmt: skip
        for pair in option_rules.EXCLUDES:
            if flags.keys() >= set(pair):
                options = [
                    [option, *([] if flags[option] else VALUES.get(option, ["1"]))]
                    for option in pair
                ]
                options += [["x"] for param in params if isinstance(param, click.Argument)]
                yield (
                    name,
                    list(chain.from_iterable(options)),
                    f"{' and '.join(pair)} cannot be combined",
                )


PAIRS = sorted(pairs_of_options())


@pytest.mark.parametrize(("name", "options", "text"), PAIRS)
def test_options_that_exclude_each_other_are_refused(name, options, text):
    with pytest.raises(click.UsageError, match=text):
        commands.main([name, *options], standalone_mode=False)


def test_each_pair_of_options_is_in_a_command():
    assert len({text for _, _, text in PAIRS}) == len(option_rules.EXCLUDES)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["learn", "ham", "1.eml", "--password-file", "p"], "--password-file needs a source imap:"),
        (["watch", "Maildir", "--plaintext"], "--plaintext needs a source imap:"),
        (["web", "--ca-file", "x"], "--ca-file needs a source imap:"),
        (["explain", "m.snb", "1.eml", "--db", "x"], "--db and the model m.snb cannot"),
        (["serve", "--http", "127.0.0.1:0", "--threshold", "0.9"], "--threshold needs --lmtp, "),
    ],
)
def test_an_option_without_effect_is_refused(folder, arguments, text):
    status, out, error = streamnb_command(*arguments)
    assert (status, out, error.count("\n")) == (2, "", 1)
    assert text in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--http", "127.0.0.1:{}"],
        ["web", "--listen", "127.0.0.1:{}"],
        ["serve", "--per-address", "{}"],
        ["serve", "--trust", "10.0.0.0/{}"],
        ["learn", "spam", "imap://a@b:{}"],
        ["verdicts", "--most", "{}"],
        ["compact", "--rare", "{}"],
        ["undo", "--since", "{}h"],
        ["replay", "1.eml", "--limit", "{}"],
        ["replay", "1.eml", "--order", "shuffled:{}"],
        ["replay", "1.eml", "--set", "corpus.limit={}"],
        ["serve", "--http", "127.0.0.1:²"],
    ],
)
def test_a_number_with_any_digits_is_refused_in_one_line(folder, arguments):
    digits = "9" * 5000  # Python converts at most 4,300
    status, out, error = streamnb_command(*(text.format(digits) for text in arguments))
    assert (status, out, error.count("\n")) == (2, "", 1)
    assert "internal error" not in error


def test_a_filter_with_options_that_exclude_each_other_passes_the_message():
    message = "Subject: x\n\nhi\n"
    done = streamnb_command("filter", "--db", "x", "--user", "ann", input=message)
    assert done[:2] == (75, message)
    assert "cannot be combined" in done[2]


def test_the_help_names_the_value_of_each_option():
    context = click.Context(commands)
    for name in COMMANDS:
        command = commands.get_command(context, name)
        members = getattr(command, "commands", None) or {"": command}
        for member in members.values():
            lines = [param.get_help_record(context) for param in member.params]
            assert not [line for line in lines if line and " RANGE" in line[0]], name


@pytest.mark.parametrize("command", ["fit -o new", "evaluate model.snb", "replay"])
@pytest.mark.parametrize(
    ("options", "names"),
    [
        ("--skip 5000", ["corpus.skip (--skip) leaves out"]),
        (
            "--label-column text",
            ["corpus.label_column (--label-column)", "corpus.text_column (--text-column)"],
        ),
    ],
)
def test_an_error_names_the_option_of_a_configuration_key(tmp_path, command, options, names):
    (tmp_path / "rows.csv").write_text("text,label\nbuy pills,spam\nlunch,ham\n")
    TextClassifier().fit(["buy pills", "lunch"], ["spam", "ham"]).save(tmp_path / "model.snb")
    words = [*command.split(), "rows.csv", *options.split()]
    status, _, error = streamnb_command(*words, cwd=tmp_path)
    assert (status in (2, 3), error.count("\n")) == (True, 1)
    assert all(name in error for name in names), error


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("fit corpus.skip -o new", "corpus.skip:2: "),
        ("replay output.folder/rows.csv", "output.folder/rows.csv:2: "),
        ("replay x-corpus.skip", "x-corpus.skip:2: "),
        ("fit x.corpus.skip -o new", "x.corpus.skip:2: "),
        ("fit rows.csv", "-o FILE (output.model) is missing"),
    ],
)
def test_an_error_names_no_option_in_a_file_name_or_beside_an_option(tmp_path, arguments, expected):
    file = tmp_path / arguments.split()[1]
    file.parent.mkdir(exist_ok=True)
    file.write_text("text,label\nlunch\n")
    status, _, error = streamnb_command(*arguments.split(), cwd=tmp_path)
    assert (status in (2, 3), error.startswith(f"streamnb: {expected}")) == (True, True), error
