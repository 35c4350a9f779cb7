"""Run the commands and the examples of the documentation."""

import contextlib
import doctest
import importlib.util
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from docs.pages import is_output

import streamnb
import streamnb.cli.group
from streamnb import naive_bayes, tables
from streamnb.classifier import Classifier
from streamnb.features.views import TOKENIZERS
from streamnb.features.words import CallableTokenizer

# Spark's examples need Spark; tests/spark/test_spark.py reports that it is missing.
MODULES = [
    module.name
    for module in pkgutil.walk_packages(streamnb.__path__, "streamnb.", onerror=lambda name: None)
    if importlib.util.find_spec("pyspark") or not module.name.startswith("streamnb.spark")
]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("name", ["streamnb", *MODULES])
def test_docstring_examples(name, repository, monkeypatch, tmp_path):
    monkeypatch.chdir(repository)
    monkeypatch.setenv("HOME", str(tmp_path))  # with no databases of users
    for variable in ("STREAMNB_USERS", "STREAMNB_DB", "STREAMNB_BASE", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert failed == 0


def test_docstrings_of_classes_have_the_meaning_of_each_parameter():
    modules = map(importlib.import_module, MODULES)
    classes = {
        value for module in modules for value in vars(module).values() if isinstance(value, type)
    }
    tables = [getattr(each, "parameter_table", {}) for each in classes]
    assert len([table for table in tables if table]) > 50
    assert [name for table in tables for name, entry in table.items() if not entry.help] == []


def test_enough_examples_are_run():
    finder = doctest.DocTestFinder()
    examples = [
        example
        for name in MODULES
        for test in finder.find(importlib.import_module(name))
        for example in test.examples
    ]
    assert len(examples) > 60


REPOSITORY = Path(__file__).parents[2]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.parent.name != "tutorials"],  # tests/docs runs those
    ids=lambda page: page.stem,
)
def test_examples_of_the_pages(page, monkeypatch, tmp_path):
    for name in ("corpora", "configs"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    monkeypatch.chdir(tmp_path)
    failed, attempted = doctest.testfile(str(page), module_relative=False, optionflags=FLAGS)
    assert failed == 0
    assert attempted > 4 or page.stem not in ("README", "models", "tables")


@by_page
def test_the_pages_have_no_gaps(page):
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^[A-Z_]{6,}$|TODO|FIXME|TBD", text, re.M) == []


def test_the_readme_is_short():
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


@by_page
def test_links_between_files_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), target


def shown_commands():
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")  # lines that go on
        for block in re.findall(r"^```.*?^```", text, re.M | re.S):
            yield from re.findall(
                r"^\s*(?:\$ )?(?:\.venv/bin/)?streamnb ([a-z][a-z-]*\b[^|&\n#<>]*)", block, re.M
            )


def test_every_command_of_the_pages_has_these_options():
    """Commands that are shown parse: no misspelt or vanished option."""
    lines = list(shown_commands())
    context = streamnb.cli.group.commands.make_context("streamnb", ["replay"])
    existing = set(streamnb.cli.group.commands.list_commands(context))
    names = {line.split()[0] for line in lines}
    assert len(names & existing) >= 10
    assert names >= {"merge-models", "status"}  # a hyphen, and no arguments
    for line in lines:
        name, *arguments = shlex.split(line.replace("STREAM", "stream").replace("$", ""))
        command = streamnb.cli.group.commands.get_command(context, name)
        assert command is not None, line
        command.make_context(name, arguments)


@by_page
def test_commands_that_are_marked_run(page, tmp_path):
    """Blocks after `<!-- run -->` run beside the sample, and print the output that follows them."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"<!-- run -->\n+```sh\n(.*?)```\n(?:\n```text\n(.*?)```)?", text, re.S)
    for name in ("corpora", "configs"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    program = tmp_path / "bin" / "streamnb"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable} -P\nfrom streamnb.cli import main\nmain()\n")
    program.chmod(0o755)
    python = program.with_name("python3")
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
    }
    for block, output in blocks:
        done = subprocess.run(
            ["bash", "-euc", block], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert not output or is_output(output, done.stdout), done.stdout


def test_the_table_of_parameters_is_that_of_the_classes():
    spec = importlib.util.spec_from_file_location(
        "make_parameters", REPOSITORY / "docs" / "make_parameters.py"
    )
    make_parameters = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_parameters)
    assert make_parameters.PAGE.read_text(encoding="utf-8") == make_parameters.page()
    public = [
        getattr(module, name)
        for module in (streamnb, naive_bayes, tables)
        for name in module.__all__
    ]
    declared = {each for each in public if hasattr(each, "parameter_table")}
    assert {*declared, CallableTokenizer, *TOKENIZERS.values(), *Classifier.ready.values()} == set(
        make_parameters.classes()
    )
    for each in make_parameters.classes():
        defaults = map(make_parameters.spell_default, each.parameter_table.values())
        refused = pytest.raises(ValueError, match="None is not")
        with refused if "required" in defaults else contextlib.nullcontext():
            each()


def test_the_first_command_prints_its_figures(repository, monkeypatch):
    """The README shows what the replay of the sample prints, to the last digit."""
    monkeypatch.chdir(repository)
    text = (repository / "README.md").read_text(encoding="utf-8")
    block = text.split("The replay prints\n\n```\n")[1].split("```")[0].replace("...", "")
    out = CliRunner().invoke(streamnb.cli.group.commands, ["replay", "corpora/sample"]).output
    expected, printed = (
        [" ".join(line.split()) for line in part.splitlines()] for part in (block, out)
    )
    expected = [line for line in expected if line]
    assert len(expected) > 5
    assert expected == printed[: len(expected)]


def test_help_shows_an_example():
    context = streamnb.cli.group.commands.make_context("streamnb", ["replay"])
    names = streamnb.cli.group.commands.list_commands(context)
    assert len(names) > 15
    for command in ([], *([name] for name in names)):
        out = CliRunner().invoke(streamnb.cli.group.commands, [*command, "--help"])
        assert out.exit_code == 0
        assert re.search(rf"^ *(?:\$ |.* )?streamnb {' '.join(command)}", out.output, re.M), command
        assert "\b" not in out.output


def test_the_page_on_security_names_the_worst_row_of_the_dictionary_attack():
    benchmarks = (REPOSITORY / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    table = benchmarks.split("### Dictionary attack", 1)[1].split("\n### ", 1)[0]
    rows = re.findall(r"^\| \w+ \| (\d+\.\d+) \| (\d+\.\d+) \|", table, re.M)
    before, attacked = max(rows, key=lambda row: float(row[1]))
    security = (REPOSITORY / "docs" / "explanation" / "security.md").read_text(encoding="utf-8")
    assert f"rose from {before} to {attacked} %" in " ".join(security.split())
    assert all(float(after) <= float(first) * 5 / 4 for first, after in rows)


def test_the_guide_names_all_alerts(repository):
    rules = (repository / "docs" / "monitoring" / "alerts.yml").read_text()
    guide = (repository / "docs" / "guides" / "monitor.md").read_text()
    names = re.findall(r"^ *- alert: (\w+)$", rules, re.M)
    assert names
    assert re.findall(r"^\| `(Streamnb\w+)` \|", guide, re.M) == names


def test_scripts_of_sieve_are_compiled_after_a_reload(repository):
    """`sievec` uses the settings of the running Dovecot."""
    text = "".join(path.read_text() for path in (repository / "docs" / "guides").glob("*.md"))
    blocks = [block for block in re.findall(r"```sh\n(.*?)```", text, re.S) if "sievec" in block]
    assert len(blocks) == 2
    assert all("doveadm reload" in block.partition("sievec")[0] for block in blocks)


def test_the_constants_of_the_benchmark_exist():
    spec = importlib.util.spec_from_file_location(
        "constants", REPOSITORY / "tests" / "benchmarks" / "constants.py"
    )
    constants = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(constants)
    missing = {
        name
        for name, owners in constants.CONSTANTS.items()
        for owner in owners
        if not hasattr(owner, name)
    }
    assert missing == set()
