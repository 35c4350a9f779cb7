"""Names are nouns and verbs, and docstrings begin with them: what `CONTRIBUTING.md` asks of every line.

`python tests/project/test_names.py [PATH ...]` lists the places.
"""

import ast
import re
import sys
from collections.abc import Iterator
from keyword import iskeyword
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
# A class of one word that is a participle. (The policies of labels are adjectives, as in a configuration.)
PARTICIPLE_CLASS = re.compile(r"_?(?!Delayed)[A-Z][a-z]+(?:ed|one)")
HEADLESS = re.compile(r"(What|Whether|How|Which|Where|Who|Whose|As|Of|That|Why|When)\b")
FOLDERS = ("streamnb", "tests", "corpora", "docs", ".build")


def python_files(paths: list[str]) -> Iterator[Path]:
    for path in map(Path, paths):
        yield from sorted([*path.rglob("*.py"), *path.rglob("*.pyi")]) if path.is_dir() else [path]


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


# Columns and tables of the statements that create tables, which a release freezes.
TABLE = re.compile(
    r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)\s*\(\s*(\w+)|^ {4}(\w+) (?:TEXT|\{\w+\})", re.M
)
# Names that a macro or an assignment of a template introduces.
TEMPLATE_NAME = re.compile(r"\{%-? *(?:set|for|macro \w+\() *([\w, =\"']*)")


def column_words(path: Path) -> list[str]:
    """The tables and columns that a module creates and are called by a function word."""
    text = path.read_text(encoding="utf-8")
    if "CREATE TABLE" not in text:
        return []
    found_names = {name for groups in TABLE.findall(text) for name in groups}
    return [
        f"{path}: {name}" for name in sorted(found_names & (FUNCTION_WORDS | {"since", "filed"}))
    ]


def template_words(path: Path) -> list[str]:
    """The function words among the variables of a template."""
    text = path.read_text(encoding="utf-8")
    names = {name for part in TEMPLATE_NAME.findall(text) for name in re.findall(r"\w+", part)}
    return [f"{path}: {name}" for name in sorted(names & FUNCTION_WORDS)]


# A string, a comment, or C that a module includes; C has comments of its own.
NOT_CODE = re.compile(r'"""(?:.|\n)*?"""|"(?:\\.|[^"\\\n])*"|#.*|/\*(?:.|\n)*?\*/|//.*')
C_BLOCK = re.compile(r'(extern from \*:\s*)"""((?:.|\n)*?)"""')


def cython_words(path: Path) -> list[str]:
    """The function words in the code of a Cython file, and in C that it includes."""
    text = NOT_CODE.sub("", C_BLOCK.sub(r"\1\2", path.read_text(encoding="utf-8")))
    words = {word for word in re.findall(r"\w+", text) if word.strip("_") in FUNCTION_WORDS}
    return [f"{path}: {word}" for word in sorted(words) if not iskeyword(word)]


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


def test_classes_are_nouns():
    nodes = [
        (path, node)
        for path in python_files([str(REPOSITORY / "streamnb")])
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    names = [
        f"{path}: {node.name}" for path, node in nodes if PARTICIPLE_CLASS.fullmatch(node.name)
    ]
    assert names == []


def test_columns_and_variables_of_templates_are_not_function_words():
    modules = python_files([str(REPOSITORY / "streamnb")])
    assert [place for path in modules for place in column_words(path)] == []
    templates = sorted((REPOSITORY / "streamnb").rglob("*.html"))
    assert [place for path in templates for place in template_words(path)] == []


def test_columns_and_variables_of_templates_are_found(tmp_path):
    path = tmp_path / "a.html"
    path.write_text("{% macro did(what, label) %}{% for one in rows %}{% set more = 1 %}")
    assert [place.rpartition(" ")[2] for place in template_words(path)] == ["more", "one", "what"]
    path.write_text('"""CREATE TABLE kept(said TEXT, x TEXT,\n    gone {real}\n)"""')
    assert [place.rpartition(" ")[2] for place in column_words(path)] == ["gone", "kept", "said"]


def test_variables_of_cython_are_not_function_words():
    paths = sorted((REPOSITORY / "streamnb").rglob("*.p[xy][xd]"))
    assert len(paths) > 10
    assert [place for path in paths for place in cython_words(path)] == []


def test_variables_of_cython_are_found(tmp_path):
    path = tmp_path / "a.pyx"
    path.write_text(
        'cdef extern from *:\n    """\n    int left; /* to here */\n    """\n'
        'cdef int f(char *to, int n) except -1:\n    """At one end."""\n    taken = 1  # by n\n'
    )
    assert [place.rpartition(" ")[2] for place in cython_words(path)] == ["left", "taken", "to"]


if __name__ == "__main__":
    for path in python_files(sys.argv[1:] or list(FOLDERS)):
        sys.stdout.writelines(f"{place}\n" for place in places(path))
