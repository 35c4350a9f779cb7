"""What the documentation shows is run."""

import doctest
import importlib
import pkgutil
import re
import shlex

import pytest
from click.testing import CliRunner

import streamnb
import streamnb.cli

MODULES = [module.name for module in pkgutil.walk_packages(streamnb.__path__, "streamnb.")]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("name", ["streamnb", *MODULES])
def test_docstring_examples(name, repository, monkeypatch):
    monkeypatch.chdir(repository)
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert failed == 0


def test_enough_examples_are_run():
    finder = doctest.DocTestFinder()
    examples = [
        example
        for name in MODULES
        for test in finder.find(importlib.import_module(name))
        for example in test.examples
    ]
    assert len(examples) > 60


def test_readme_examples(repository, monkeypatch):
    monkeypatch.chdir(repository)
    failed, attempted = doctest.testfile(
        str(repository / "README.md"), module_relative=False, optionflags=FLAGS
    )
    assert (failed, attempted > 5) == (0, True)


def test_the_readme_has_no_gaps(repository):
    text = (repository / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^[A-Z_]{6,}$|TODO|FIXME|TBD", text, re.M) == []


def test_every_command_of_the_readme_has_these_options(repository):
    """Commands shown in the README parse: no misspelt or vanished option."""
    text = (repository / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\s*(?:\$ )?(?:\.venv/bin/)?streamnb ([a-z]+ [^|&\n#>]*)", text, re.M)
    context = streamnb.cli.commands.make_context("streamnb", ["replay"])
    known = set(streamnb.cli.commands.list_commands(context))
    named = {line.split()[0] for line in shown}
    assert len(named & known) >= 8
    for line in shown:
        name, *arguments = shlex.split(line)
        command = streamnb.cli.commands.get_command(context, name)
        assert command is not None, line
        command.make_context(name, arguments)


def test_what_the_first_command_prints(repository, monkeypatch):
    """The README shows what the replay of the sample prints, to the last digit."""
    monkeypatch.chdir(repository)
    text = (repository / "README.md").read_text(encoding="utf-8")
    block = text.split("The first prints\n\n```\n")[1].split("```")[0].replace("...", "")
    out = CliRunner().invoke(streamnb.cli.commands, ["replay", "corpora/sample"]).output
    shown, printed = (
        [" ".join(line.split()) for line in part.splitlines()] for part in (block, out)
    )
    shown = [line for line in shown if line]
    assert len(shown) > 5
    assert shown == printed[: len(shown)]


def test_help_shows_an_example():
    context = streamnb.cli.commands.make_context("streamnb", ["replay"])
    names = streamnb.cli.commands.list_commands(context)
    assert len(names) > 15
    for command in ([], *([name] for name in names)):
        out = CliRunner().invoke(streamnb.cli.commands, [*command, "--help"])
        assert out.exit_code == 0
        assert re.search(rf"^ *(?:\$ |.* )?streamnb {' '.join(command)}", out.output, re.M), command
        assert "\b" not in out.output
