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


def test_every_command_of_the_readme_has_these_options(repository):
    """Commands shown in the README parse: no misspelt or vanished option."""
    streamnb.cli._register()
    text = (repository / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\s*(?:\$ )?(?:\.venv/bin/)?streamnb (replay [^|&\n#]*)", text, re.M)
    assert len(shown) >= 5
    command = streamnb.cli.commands.commands["replay"]
    for line in shown:
        command.make_context("replay", shlex.split(line)[1:])


def test_what_the_first_command_prints(repository, monkeypatch):
    """The README shows what the replay of the sample prints, to the last digit."""
    monkeypatch.chdir(repository)
    streamnb.cli._register()
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
    streamnb.cli._register()
    for command in ([], ["replay"]):
        out = CliRunner().invoke(streamnb.cli.commands, [*command, "--help"])
        assert out.exit_code == 0
        assert "streamnb replay corpora/sample" in out.output
