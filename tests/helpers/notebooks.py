"""Execute the code cells of a notebook, as Jupyter does, and store their outputs in it.

python tests/helpers/notebooks.py docs/notebooks/*.ipynb
"""

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

__all__ = ["execute", "read_notebook"]


def read_notebook(path: Path) -> dict[str, Any]:
    """Return a notebook of format 4."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def _outputs(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell; return its printed text, and the value of its last line if it is an expression."""
    statements = ast.parse(source).body
    last = statements[-1] if statements else None
    if isinstance(last, ast.Expr):
        statements = statements[:-1]
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(statements, []), "cell", "exec"), names)  # noqa: S102 (our own cells)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        lines = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines})
    if value is not None:
        # The digits of a `repr` differ between machines; a table has four.
        has_html = hasattr(value, "_repr_html_")
        text = f"<{type(value).__name__}>" if has_html else repr(value)
        data = {"text/plain": text.splitlines(keepends=True)}
        if has_html:
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        outputs.append({"output_type": "execute_result", "data": data, "metadata": {}})
    return outputs


def execute(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Return the outputs of each code cell, run in order in one namespace."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [_outputs("".join(cell["source"]), names) for cell in cells]


def main() -> None:
    for path in map(Path, sys.argv[1:]):
        notebook = read_notebook(path)
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        for number, (cell, outputs) in enumerate(zip(cells, execute(notebook), strict=True), 1):
            cell["execution_count"] = number
            results = [item for item in outputs if item["output_type"] == "execute_result"]
            for item in results:
                item["execution_count"] = number
            cell["outputs"] = outputs
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
