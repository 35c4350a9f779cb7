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


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Each variable, parameter, attribute, function and class that a file names, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.lineno, node.name


def function_words(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        f"{path}:{line}: {name}" for line, name in names(tree) if name.strip("_") in FUNCTION_WORDS
    ]


def vague_names(path: Path) -> list[str]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef))
    return [
        f"{path}:{function.lineno}: {function.name}"
        for function in functions
        if function.name.startswith("test_") and VAGUE_WORDS.search(function.name)
    ]


def headless_docstrings(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    places = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node) or ""
            if HEADLESS.match(docstring):
                places.append(f"{path}:{getattr(node, 'lineno', 1)}: {docstring.splitlines()[0]}")
    return places


def places(path: Path) -> list[str]:
    return function_words(path) + vague_names(path) + headless_docstrings(path)


@pytest.mark.parametrize("folder", FOLDERS)
def test_names_are_not_function_words_and_docstrings_have_a_subject(folder):
    paths = python_files([str(REPOSITORY / folder)])
    assert [place for path in paths for place in places(path)] == []


if __name__ == "__main__":
    for path in python_files(sys.argv[1:] or list(FOLDERS)):
        sys.stdout.writelines(f"{place}\n" for place in places(path))
