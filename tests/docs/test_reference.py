"""The reference names everything that the code has."""

import ast
import importlib.util
import inspect
import json
import re
from pathlib import Path

import pytest
from commands import streamnb_command

import streamnb
from streamnb import naive_bayes
from streamnb.cli.group import COMMANDS
from streamnb.config import experiment, schema
from streamnb.config.sections import Section

REPOSITORY = Path(__file__).parents[2]
REFERENCE = REPOSITORY / "docs" / "reference"
SECTIONS = {
    "corpus": schema.CorpusConfig,
    "evaluate": schema.EvaluateConfig,
    "output": schema.OutputConfig,
    "spark": schema.SparkConfig,
}


def spell_default(value):
    """Return a default as YAML has it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_has_all_keys_of_a_section_with_their_defaults(name):
    page = (REFERENCE / "configuration.md").read_text(encoding="utf-8")
    section = page.split(f"\n## `{name}`\n")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \|.*?\| `([^|]*?)` \| [^|]*\|$", section, re.M))
    keys = SECTIONS[name].declared_keys.items()
    assert rows == {name: spell_default(key.default) for name, key in keys}


def test_the_page_has_all_feedback_policies():
    page = (REFERENCE / "configuration.md").read_text(encoding="utf-8")
    section = page.split("\n## `feedback`\n")[1].split("\n## ")[0]
    policies = [
        policy
        for policy in vars(schema).values()
        if isinstance(policy, type)
        and issubclass(policy, schema.Section)
        and policy.__name__.endswith("Config")
        and "kind" in policy.declared_keys
        and policy is not schema.CorpusConfig
        and not issubclass(policy, schema.ParameterSection)
    ]
    assert len(policies) == 7
    for policy in policies:
        (row,) = re.findall(rf"^\| `{policy.declared_keys['kind'].default}` \|.*$", section, re.M)
        for name in set(policy.declared_keys) - {"kind"}:
            assert f"`{name}`" in row


CALL = re.compile(r"`([A-Z]\w+\([^`]*=[^`]*\))`")


def test_the_parameters_of_calls_in_sentences_exist():
    pages = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    calls = {call for page in pages for call in CALL.findall(page.read_text(encoding="utf-8"))}
    assert len(calls) > 5
    for text in calls:
        call = ast.parse(text, mode="eval").body
        kind = getattr(streamnb, call.func.id, None) or getattr(naive_bayes, call.func.id, None)
        if kind is not None:
            known_names = inspect.signature(kind).parameters
            assert {keyword.arg for keyword in call.keywords} <= set(known_names), text


def load_script(name):
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / "docs" / f"{name}.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_the_page_of_experiments_is_that_of_the_code():
    script = load_script("make_experiments")
    assert script.PAGE.read_text(encoding="utf-8") == script.page()
    kinds = {
        section.declared_keys["kind"].default
        for section in vars(experiment).values()
        if isinstance(section, type) and issubclass(section, Section) and section.declared_keys
        if "kind" in section.declared_keys
    }
    assert len(kinds) > 15
    for kind in kinds - {"csv"}:  # another name of table
        assert f"kind: {kind}`" in script.page() or f"| `{kind}` |" in script.page()


@pytest.mark.parametrize("page", ["reference/experiments.md", "guides/tables.md"])
def test_the_experiments_that_a_page_shows_run(page, tmp_path):
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    (example,) = re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S)
    (tmp_path / "corpora").symlink_to(REPOSITORY / "corpora")
    (tmp_path / "example.yaml").write_text(example)
    command = ["experiment", tmp_path / "example.yaml", "--set", "splits.trials=2"]
    status, out, error = streamnb_command(*command)
    assert (status, error) == (0, "")
    assert "gaussian" in out


def test_the_page_of_commands_has_every_command_and_option():
    hook = load_script("make_commands")
    page = hook.on_page_markdown((REFERENCE / "commands.md").read_text(encoding="utf-8"))
    context = hook.click.Context(hook.commands)
    for name in COMMANDS:
        section = page.split(f"### streamnb {name} {{")[1].split("\n### ")[0]
        for option in hook.select_options(hook.commands.get_command(context, name)):
            assert f"`{option.opts[-1]}`" in section, (name, option)


def test_the_page_of_a_notebook_has_its_cells_and_names_its_file():
    pytest.importorskip("mkdocs")
    path = REPOSITORY / "docs" / "notebooks" / "naive_bayes.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    page = load_script("make_notebooks").format_notebook(notebook, path.name)
    assert all("".join(cell["source"]) in page for cell in notebook["cells"])
    assert f"jupyter lab docs/notebooks/{path.name}" in page
