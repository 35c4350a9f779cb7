"""The notebooks of the documentation run, and their stored outputs are those of this version."""

from pathlib import Path

import pytest
from notebooks import execute, read_notebook

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_notebooks():
    assert len(NOTEBOOKS) == 4


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_its_stored_outputs(path):
    notebook = read_notebook(path)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell, outputs in zip(cells, execute(notebook), strict=True):
        for stored in cell["outputs"]:
            stored.pop("execution_count", None)
        assert outputs == cell["outputs"], "run tests/helpers/notebooks.py on it"
