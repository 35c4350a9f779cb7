"""Who may import whom, and what an import costs."""

import ast
import json
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import streamnb

# Each module, and the modules of streamnb that stand above it. A package includes its modules.
MAY_IMPORT = {
    "errors": (),
    "files": ("errors",),
    "_core": (),
    "margin": ("_core",),
    "tokens": ("_core",),
    "mail": ("_core",),
    "mail_tokens": ("_core", "mail", "tokens"),
    "byte_tokens": ("_core", "mail", "mail_tokens", "tokens"),
    "views": ("byte_tokens", "mail", "tokens"),
    "counts": ("_core", "tokens"),
    "naive_bayes": ("_core", "counts", "errors", "files", "tokens"),
    "classifier": ("margin", "byte_tokens", "counts", "errors", "mail_tokens", "naive_bayes", "tokens", "views"),
    "corpus": ("errors", "mail"),
    "evaluate": ("_core", "errors", "margin"),
    "mailbox": ("_core", "classifier", "corpus", "counts", "errors", "files", "mail_tokens", "margin", "naive_bayes", "tokens"),
    "config": ("corpus", "errors"),
    "feed": ("corpus", "errors", "tokens"),
    "assemble": ("classifier", "config", "corpus", "errors", "evaluate", "mail_tokens", "naive_bayes", "tokens"),
    "replay": ("assemble", "classifier", "config", "corpus", "errors", "evaluate", "feed"),
    "sweep": ("assemble", "config", "errors", "files", "replay"),
    "experiment": ("config", "errors", "files", "naive_bayes"),
    "pictures": ("errors", "files", "evaluate"),
    "cli": ("margin", "classifier", "config", "errors", "evaluate", "experiment", "mailbox", "pictures", "replay", "sweep"),
    "__main__": ("cli",),
    "sklearn": ("naive_bayes", "tokens"),
}  # fmt: skip
SOURCE = Path(streamnb.__file__).parent


def imported(path: Path):
    """The modules of streamnb that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "streamnb":
            yield from (f"streamnb.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


@pytest.mark.parametrize("module", MAY_IMPORT)
def test_modules_import_only_what_stands_above(module):
    files = [SOURCE / f"{module}.py"] if (SOURCE / f"{module}.py").exists() else []
    files += (SOURCE / module).rglob("*.py")
    assert files or module == "_core"
    for path in files:
        for name in imported(path):
            top, _, rest = name.partition(".")
            part = rest.partition(".")[0]
            if top == "streamnb" and part not in ("", module, "__version__"):
                assert part in MAY_IMPORT[module], f"{path.name} imports {name}"


def test_the_table_is_complete_and_has_no_cycle():
    found = {module.name for module in pkgutil.iter_modules([str(SOURCE)])}
    assert found == set(MAY_IMPORT)
    order = list(MAY_IMPORT)
    for module, above in MAY_IMPORT.items():
        assert all(order.index(other) < order.index(module) for other in above)


def loaded(statement: str) -> set[str]:
    program = f"{statement}; import json, sys; print(json.dumps(sorted(sys.modules)))"
    out = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, check=True)
    return {name.partition(".")[0] for name in json.loads(out.stdout.splitlines()[-1])}


HEAVY = {
    "matplotlib",
    "pandas",
    "sklearn",
    "scipy",
    "click",
    "yaml",
    "msgspec",
    "rich",
    "polars",
    "pyarrow",
}


def test_importing_is_cheap():
    assert loaded("import streamnb").isdisjoint(HEAVY | {"numpy", "river"})
    models = "import streamnb; streamnb.MultinomialNB, streamnb.Tokenizer, streamnb.load"
    assert loaded(models).isdisjoint(HEAVY)
    version = "import sys; sys.argv = ['streamnb', '--version']; import streamnb.cli as c\ntry: c.main()\nexcept SystemExit: pass\nimport sys"
    assert loaded(f"exec({version!r})").isdisjoint((HEAVY | {"numpy", "river"}) - {"click"})


def test_the_source_without_its_compiled_module_says_so(tmp_path):
    shutil.copytree(SOURCE, tmp_path / "streamnb", ignore=shutil.ignore_patterns("*.so", "*.c"))
    for name in ("GaussianNB", "Tokenizer", "MailClassifier", "Mailbox", "load"):
        # An editable installation would find the compiled module all the same.
        program = (
            "import sys; sys.meta_path = [f for f in sys.meta_path if 'Editable' not in repr(f)]; "
            f"from streamnb import {name}"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 1
        assert "Run Python from another folder or with -P" in done.stderr.splitlines()[-1]


def test_exported_names_are_there():
    assert sorted(streamnb._HOMES) == sorted(set(streamnb.__all__) - {"__version__"})
    for name in streamnb.__all__:
        assert getattr(streamnb, name) is not None
    assert dir(streamnb) == sorted(streamnb.__all__)
    with pytest.raises(AttributeError, match="'streamnb' has no attribute 'nothing'"):
        _ = streamnb.nothing
