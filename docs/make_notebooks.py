"""A hook of mkdocs: show the executed notebooks as pages of the site."""

import json
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

FOLDER = Path(__file__).parent / "notebooks"
HOW_TO_RUN = """
## Run this notebook

This page is the file `docs/notebooks/{name}` of the repository. Run in a clone:

```sh
pip install '.[sklearn]' jupyterlab
jupyter lab docs/notebooks/{name}
```
"""


def on_config(config: Any) -> Any:
    """Add the notebooks to the tutorials in the navigation."""
    pages = [f"notebooks/{path.stem}.md" for path in sorted(FOLDER.glob("*.ipynb"))]
    for section in config.nav or []:
        if pages and isinstance(section, dict) and "Tutorials" in section:
            section["Tutorials"].append({"Notebooks": pages})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add a page of Markdown for each notebook."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        page = format_notebook(json.loads(path.read_text(encoding="utf-8")), path.name)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page))
    return files


def format_notebook(notebook: dict[str, Any], name: str) -> str:
    """Return the cells of a notebook and their outputs as Markdown, and how to run its file."""
    blocks = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            blocks.append(source)
            continue
        blocks.append(f"```python\n{source}\n```")
        blocks += map(format_output, cell["outputs"])
    blocks.append(HOW_TO_RUN.format(name=name))
    return "\n\n".join(blocks) + "\n"


def format_output(output: dict[str, Any]) -> str:
    """Return an output of a cell: a picture, HTML, or text."""
    data = {name: "".join(value) for name, value in output.get("data", {}).items()}
    if "image/png" in data:
        return f'<img alt="output" src="data:image/png;base64,{data["image/png"].strip()}">'
    for kind in ("image/svg+xml", "text/html"):
        if kind in data:
            lines = [line.strip() for line in data[kind].splitlines() if line.strip()]
            return f"<div>{' '.join(lines)}</div>"
    text = data.get("text/plain") or "".join(output.get("text", []))
    return f"```text\n{text.rstrip()}\n```"
