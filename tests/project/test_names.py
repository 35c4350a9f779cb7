"""Names are nouns and verbs, and docstrings begin with them: what `CONTRIBUTING.md` asks of every line.

`python tests/project/test_names.py [PATH ...]` lists the places.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
# Prepositions, pronouns, adverbs and participles that say nothing of what a variable holds.
# (`on` is the name that river gives to the field a transformer reads.)
FUNCTION_WORDS = frozenset(
    """
    of one more here there why what some found said told given made known left rest mine theirs ours
    who whose which how where when whether with_ by at to into onto beside besides also once such
    shown asked taught kept taken gone meant seen than then thus again else_ these those both else
    somebody nobody anybody something nothing anything afterwards seldom already whatever
    """.split()  # noqa: SIM905 (a list of sixty lines is harder to read)
)
# Words of names of tests that hide the subject, or name a computation by a verb of speech.
VAGUE_WORDS = re.compile(
    r"test_(?:what|who|whatever|when|where|of)_"
    r"|_(?:told|said|asked|taught|judged|nobody|somebody|whatever|whoever|anew|taken_back)(?:_|$)"
)
HEADLESS = re.compile(r"(What|Whether|How|Which|Where|Who|Whose|As|Of|That|Why|When)\b")
FOLDERS = ("streamnb", "tests", "corpora", "docs", ".build")


def python_files(paths: list[str]) -> Iterator[Path]:
    for path in map(Path, paths):
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def names(node: ast.AST) -> Iterator[str]:
    """The variable, parameter, attribute, function or class that a node names, if any."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.alias) and node.asname:
        yield node.asname
    elif isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name


def problems(node: ast.AST) -> Iterator[str]:
    """Each name and docstring of a node that breaks the rules."""
    yield from (name for name in names(node) if name.strip("_") in FUNCTION_WORDS)
    is_test = isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    if is_test and VAGUE_WORDS.search(node.name):
        yield node.name
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        docstring = ast.get_docstring(node) or ""
        if HEADLESS.match(docstring):
            yield docstring.splitlines()[0]


def places(path: Path) -> list[str]:
    return [
        f"{path}:{getattr(node, 'lineno', 1)}: {problem}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for problem in problems(node)
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_names_are_not_function_words_and_docstrings_have_a_subject(folder):
    paths = python_files([str(REPOSITORY / folder)])
    assert [place for path in paths for place in places(path)] == []


if __name__ == "__main__":
    for path in python_files(sys.argv[1:] or list(FOLDERS)):
        sys.stdout.writelines(f"{place}\n" for place in places(path))
