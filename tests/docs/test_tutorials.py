"""Run every line of the tutorials, and compare every output with the one that is shown."""

import importlib.util
import re
import shutil
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("pages", Path(__file__).with_name("pages.py"))
pages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pages)
TUTORIALS = sorted((REPOSITORY / "docs" / "tutorials").glob("*.md"))

# Programs that are not on every machine.
PROGRAMS = ("curl",)


def uses(program, page):
    """Return True if a line of the page begins with the program."""
    return re.search(rf"^{program}\b", page.read_text(encoding="utf-8"), re.M) is not None


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_tutorial_shows_what_its_commands_print(page, tmp_path, monkeypatch):
    missing = [name for name in PROGRAMS if uses(name, page) and not shutil.which(name)]
    if missing:
        pytest.skip(f"the page runs {', '.join(missing)}, which is missing here")
    monkeypatch.chdir(tmp_path)
    assert pages.run_page(page, tmp_path) == []


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_tutorial_shows_all_its_outputs(page):
    """Each block of commands is followed by its output, or by a sentence that it prints nothing."""
    text = page.read_text(encoding="utf-8")
    assert len(pages.BLOCK.findall(text)) > 8


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a\n...\nc\n", "a\nb\nb\nc\n", True),
        ("2026-11-25 21:29:36 S", "2027-01-02 00:00:00 S", True),
        ("spam 3.1\n", "spam 3.2\n", False),
        ("a\nb\n", "b\na\n", False),
    ],
)
def test_outputs_are_compared(expected, printed, same):
    assert pages.is_output(expected, printed) is same
    assert pages.is_output("a\nb", "b\na", any_order=True)
