"""Write reference/parameters.md from the classes' own tables: python docs/make_parameters.py."""

import re
from pathlib import Path
from pkgutil import resolve_name

from streamnb.parameters import ParametersMixin

REFERENCE = Path(__file__).parent / "reference" / "python.md"
PAGE = REFERENCE.with_name("parameters.md")
HEAD = """# Parameters

Made by `docs/make_parameters.py` from the tables that the classes themselves are made of. A
parameter's role says what it decides: *formula*, worked out when asked, which can change at any
time; *teaching*, what is learned of a message depends on it; *counts*, what is
counted, which is settled once something was learned.
"""


def classes() -> list[type[ParametersMixin]]:
    """The classes with parameters that the reference of Python documents, in its order."""
    names = re.findall("^::: (.+)$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)
    found = map(resolve_name, names)
    return [made for made in found if isinstance(made, type) and issubclass(made, ParametersMixin)]


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for made in classes():
        lines += [
            f"## {made.__name__}",
            "",
            "| parameter | default | role | |",
            "|---|---|---|---|",
        ]
        for name, known in made.parameter_table.items():
            text = known.help.replace("|", "\\|")
            lines.append(f"| `{name}` | `{known.default!r}` | {known.role} | {text} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
