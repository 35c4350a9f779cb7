"""The words, sentences and code lines of the documentation follow the project's style."""

import ast
import inspect
import json
import re
from pathlib import Path

import click
import pytest

from streamnb.cli.group import COMMANDS, commands

REPOSITORY = Path(__file__).parents[2]
PAGES = [*sorted(REPOSITORY.glob("*.md")), *sorted((REPOSITORY / "docs").rglob("*.md"))]
PAGES += [*sorted((REPOSITORY / "corpora").glob("**/README.md"))]
PAGES += [*sorted((REPOSITORY / "tests").glob("**/README.md"))]
by_page = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: "-".join(page.relative_to(REPOSITORY).with_suffix("").parts)
)
MAX_WORDS = 25
MAX_CODE = 88  # characters that a page shows without scrolling
# Commands that have to be one line for their readers: the README's two, run by the CI word for word.
LONG_LINES = re.compile(r"^python3 -m venv \.venv && ")
# Tables of measurements, whose notes are records rather than instructions.
RECORDS = {"parameters.md": "reference"}
FORBIDDEN = {
    r"\bbe it\b": "say 'if'",
    r"\bfor ever\b": "say 'always' or 'without a limit'",
    r"\bno longer\b(?! than)": "describe the present",
    r"\bas before\b(?! the)": "describe the present",
    r"\bwas tried\b": "belongs to the benchmarks",
    r"\b(?:line|task|row|byte|bytes|time) an? (?:message|feature|page|class)\b": "say 'for each'",
    r"\bone's\b": "say 'your'",
    r"\bsomebody\b": "say who",
    r"\bnobody\b": "say who",
    r"\bwhoever\b": "say who",
    r"\b(?:is|are|was|were|been) (?:told|asked|said|taught)\b": "name the actor; train, predict",
    r"\bof one's own\b": "say 'your own'",
    r"\bsimply\b|\beasily\b|\bobviously\b": "leave it out",
}


def prose(text: str) -> str:
    """Return the text of a page without front matter, code, comments, links and tables."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
    text = re.sub(r"^ *```.*?^ *```", "\n", text, flags=re.M | re.S)
    text = re.sub(r"<!--.*?-->", "\n", text, flags=re.S)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^ *\|.*$|^#.*$|^:::.*$|^    \S.*$", "", text, flags=re.M)
    return re.sub(r"`[^`]*`", "X", text)


def sentences(text: str) -> list[str]:
    """Return the sentences of prose; an item of a list, or a part after a colon, is one."""
    text = re.sub(r"\n(?= *(?:[-*]|\d+\.) )", "\n\n", text)
    parts = re.split(r"\n\s*\n|(?<=[.!?:;])[)*_\"]*\s+", text)
    return [" ".join(part.split()) for part in parts if part.strip()]


def find_accidental_items(text: str) -> list[str]:
    """Return the lines within a sentence that Markdown reads as items of a list."""
    text = re.sub(r"^ *```.*?^ *```", "\n", text, flags=re.M | re.S)
    return re.findall(r"[^\s.;:!?|)*`>] *\n *((?:[-+*]|\d+\.) .*)", text)


def find_swallowed_items(text: str) -> list[str]:
    """Return the items of a list that Markdown reads as text of the indented paragraph above."""
    text = re.sub(r"^ *```.*?^ *```", "\n", text, flags=re.M | re.S)
    paragraphs = re.findall(r"^\n(?: {2,}(?![-+*] |\d+\. )\S.*\n)((?:.+\n)+)", text, flags=re.M)
    return [item for part in paragraphs for item in re.findall(r"^(?:[-+*]|\d+\.) .*", part, re.M)]


def is_record(page: Path) -> bool:
    """Return whether a page is a record of measurements or written by the code."""
    return RECORDS.get(page.name) == page.parent.name


def find_long_sentences(text: str) -> list[str]:
    """Return the sentences that a reader has to read twice."""
    return [
        sentence
        for sentence in sentences(prose(text))
        if len(re.findall(r"[\w'’.-]+", sentence)) > MAX_WORDS
    ]


def find_forbidden_words(text: str) -> list[tuple[str, str, str]]:
    """Return each forbidden word, its surroundings, and what to do."""
    text = " ".join(prose(text).split())
    return [
        (match[0], text[max(match.start() - 40, 0) : match.end() + 20], advice)
        for pattern, advice in FORBIDDEN.items()
        for match in re.finditer(pattern, text, re.I)
    ]


@by_page
def test_sentences_are_short(page):
    if is_record(page):
        pytest.skip("a record")
    assert find_long_sentences(page.read_text(encoding="utf-8")) == []


@by_page
def test_words_are_plain(page):
    if is_record(page):
        pytest.skip("a record")
    assert find_forbidden_words(page.read_text(encoding="utf-8")) == []


@by_page
def test_code_is_no_wider_than_the_page(page):
    if is_record(page):
        pytest.skip("a record")
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    wide = [line for block in blocks for line in block.splitlines() if len(line) > MAX_CODE]
    assert [line for line in wide if not LONG_LINES.search(line)] == []


@by_page
def test_no_line_of_a_sentence_begins_a_list(page):
    assert find_accidental_items(page.read_text(encoding="utf-8")) == []


@by_page
def test_no_paragraph_swallows_an_item(page):
    assert find_swallowed_items(page.read_text(encoding="utf-8")) == []


def test_an_item_that_a_paragraph_swallows_is_found():
    text = "1. Pool:\n\n    A mean\n    of systems.\n2. Noise:\n   - one.\n\n    Its weight.\n\n3. Last."
    assert find_swallowed_items(text) == ["2. Noise:"]


def test_a_line_that_begins_a_list_by_accident_is_found():
    text = "1. Complement: log((n + a) / (N\n   + a W)) is\n   divided by m.\n2. Bound:\n   - one;"
    assert find_accidental_items(text) == ["+ a W)) is"]


@pytest.mark.parametrize("path", sorted((REPOSITORY / "docs" / "notebooks").glob("*.ipynb")))
def test_notebooks_have_narrow_code_and_plain_prose(path):
    sources = {"code": [], "markdown": []}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        sources[cell["cell_type"]].append("".join(cell["source"]))
    lines = [line for text in sources["code"] for line in text.splitlines()]
    assert [line for line in lines if len(line) > MAX_CODE] == []
    text = "\n\n".join(sources["markdown"])
    assert find_long_sentences(text) == []
    assert find_forbidden_words(text) == []


def help_texts():
    """Return the help of each command, without examples, and of its options."""
    context = click.Context(commands)
    for name in COMMANDS:
        command = commands.get_command(context, name)
        paragraphs = inspect.cleandoc(command.help).split("\n\n")
        paragraphs += [getattr(each, "help", None) or "" for each in command.params]
        # An example is shown as it stands; a list of exit statuses is a list.
        yield name, [each for each in paragraphs if not re.match("\b|Exit status", each)]


@pytest.mark.parametrize(("name", "paragraphs"), list(help_texts()), ids=[*COMMANDS])
def test_help_is_plain_and_its_sentences_are_short(name, paragraphs):
    text = "\n\n".join(paragraphs)
    assert find_long_sentences(text) == []
    assert find_forbidden_words(text) == []


def prose_of_docstring(text: str) -> str:
    """Return a docstring without examples, references, headings and names of parameters."""
    body, *sections = re.split(r"^(?=\w[\w ]*\n-{3,}$)", text, flags=re.M)
    for section in sections:
        title, _, *lines = section.splitlines()
        if title not in ("Examples", "References"):
            body += "\n\n" + "\n".join(line[4:] if line[:1] == " " else "" for line in lines)
    return body


def docstrings(module: Path) -> list[str]:
    """Return the raw docstrings of a module, without commands: theirs are help texts."""
    nodes = ast.walk(ast.parse(module.read_text(encoding="utf-8")))
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(node) for node in nodes if isinstance(node, kinds)]
    return [text for text in texts if text and "\b\n" not in text]


REGULAR_EXPRESSION = re.compile(r"\(\?|\\\.")


def messages(module: Path) -> list[str]:
    """Return the texts of a module that users read: all strings but docstrings; X for values."""
    nodes = [*ast.walk(ast.parse(module.read_text(encoding="utf-8")))]
    parts = {part for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    parts |= {node.value for node in nodes if isinstance(node, ast.Expr)}
    texts = []
    for node in nodes:
        if isinstance(node, (ast.JoinedStr, ast.Constant)) and node not in parts:
            pieces = [piece.value for piece in getattr(node, "values", [node])]
            texts.append("".join(piece if isinstance(piece, str) else "X" for piece in pieces))
    return [text for text in texts if not REGULAR_EXPRESSION.search(text)]


NAMES = re.compile(r"\*{0,2}\w+(?:, \*{0,2}\w+)*(?: : .+)?")


def find_sentences_among_names(text: str) -> list[str]:
    """Return the lines that a list of parameters or attributes shows as names, but are none."""
    _, *sections = re.split(r"^(?=\w[\w ]*\n-{3,}$)", text, flags=re.M)
    return [
        line
        for section in sections
        if section.startswith(("Parameters\n", "Attributes\n"))
        for line in section.splitlines()[2:]
        if line and line[0] != " " and not NAMES.fullmatch(line)
    ]


PACKAGE = REPOSITORY / "streamnb"
FOLDERS = sorted({module.parent for module in PACKAGE.rglob("*.py")})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(REPOSITORY)))
def test_docstrings_are_plain_and_their_sentences_are_short(folder):
    texts = {module.name: docstrings(module) for module in sorted(folder.glob("*.py"))}
    assert find_problems(texts, lambda text: find_long_sentences(prose_of_docstring(text))) == {}
    assert find_problems(texts, lambda text: find_forbidden_words(prose_of_docstring(text))) == {}
    assert find_problems(texts, find_sentences_among_names) == {}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(REPOSITORY)))
def test_messages_are_plain_and_their_sentences_are_short(folder):
    texts = {module.name: messages(module) for module in sorted(folder.glob("*.py"))}
    assert find_problems(texts, find_long_sentences) == {}
    assert find_problems(texts, find_forbidden_words) == {}


def test_a_message_is_found(tmp_path):
    module = tmp_path / "a.py"
    module.write_text(
        '"""A docstring."""\nif x:\n    raise E(f"cannot {read(file)} it, "\n        "nobody")\n'
        'echo("a" if b else C[d])\n'
    )
    assert {"cannot X it, nobody", "a"} <= set(messages(module))
    assert "A docstring." not in messages(module)


def find_problems(texts, find):
    """Return what `find` returns for the texts of each module, without modules that have nothing."""
    problems = {name: [each for text in own for each in find(text)] for name, own in texts.items()}
    return {name: each for name, each in problems.items() if each}


def test_a_long_sentence_is_found():
    text = "Short one. " + " ".join(["word"] * 26) + ". `code " + "x " * 30 + "`."
    assert [len(each.split()) for each in sentences(prose(text)) if len(each.split()) > 25] == [26]
