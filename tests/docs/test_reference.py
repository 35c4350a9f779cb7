"""The reference names everything that the code has."""

import importlib.util
import re
from pathlib import Path

import pytest

from streamnb.cli.group import COMMANDS
from streamnb.config import schema

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


def test_the_page_of_commands_has_every_command_and_option():
    spec = importlib.util.spec_from_file_location("hook", REPOSITORY / "docs" / "make_commands.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    page = hook.on_page_markdown((REFERENCE / "commands.md").read_text(encoding="utf-8"))
    context = hook.click.Context(hook.commands)
    for name in COMMANDS:
        section = page.split(f"### streamnb {name} {{")[1].split("\n### ")[0]
        for option in hook.select_options(hook.commands.get_command(context, name)):
            assert f"`{option.opts[-1]}`" in section, (name, option)
