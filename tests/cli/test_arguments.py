"""Arguments of all commands: an empty one, as from an unset variable, is not the current folder."""

import click
import pytest
from commands import streamnb_command

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


def test_the_help_names_the_value_of_each_option():
    context = click.Context(commands)
    for name in COMMANDS:
        command = commands.get_command(context, name)
        members = getattr(command, "commands", None) or {"": command}
        for member in members.values():
            lines = [param.get_help_record(context) for param in member.params]
            assert not [line for line in lines if line and " RANGE" in line[0]], name
