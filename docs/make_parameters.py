"""Write reference/parameters.md from the classes' own tables: python docs/make_parameters.py."""

import re
from pathlib import Path
from pkgutil import resolve_name

from streamnb.parameters import Parameter, ParametersMixin

REFERENCE = Path(__file__).parent / "reference" / "python.md"
PAGE = REFERENCE.with_name("parameters.md")
HEAD = """# Parameters

`docs/make_parameters.py` writes this page from the classes. Each parameter has a role:

- *formula*: read at prediction time; you can change it at any time.
- *training*: decides how much is learned of a message. You can change it at any time; earlier
  messages keep their weight.
- *counts*: decides what is counted; it is fixed after the first message.
"""


def classes() -> list[type[ParametersMixin]]:
    """Return the classes with parameters that the Python reference documents, in its order."""
    links = re.findall(r"\]\((python/[\w-]+\.md)\)", REFERENCE.read_text(encoding="utf-8"))
    pages = [REFERENCE.with_name("python") / Path(link).name for link in links]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    objects = map(resolve_name, re.findall("^::: (.+)$", text, re.MULTILINE))
    return [
        each for each in objects if isinstance(each, type) and issubclass(each, ParametersMixin)
    ]


def spell_default(parameter: Parameter) -> str:
    """Return a default as Python has it; "required" if the class refuses it."""
    try:
        parameter.check("", parameter.default)
    except ValueError:
        return "required"
    return f"`{getattr(parameter.default, '__qualname__', repr(parameter.default))}`"


def page() -> str:
    """Return the page as Markdown, with each meaning in the first class that has it."""
    lines = [HEAD]
    tables: dict[str, str] = {}  # the class of each table
    meanings: dict[tuple[str, str], str] = {}  # the class of each parameter's meaning
    for model_class in classes():
        title = model_class.__name__
        lines += [f"## {title}", ""]
        parameters = model_class.parameter_table.items()
        if (first := tables.setdefault(repr(parameters), title)) != title:
            lines += [f"The parameters are those of [`{first}`](#{first.lower()}).", ""]
            continue
        lines += ["| parameter | default | role | meaning |", "|---|---|---|---|"]
        for name, parameter in parameters:
            text = parameter.help.replace("|", "\\|")
            if (first := meanings.setdefault((name, text), title)) != title:
                text = f"as for [`{first}`](#{first.lower()})"
            lines.append(f"| `{name}` | {spell_default(parameter)} | {parameter.role} | {text} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
