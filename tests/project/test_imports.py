"""The import table of the packages, and the cost of an import."""

import ast
import json
import pkgutil
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import streamnb

# Each package, and the packages of streamnb that stand above it: what it may import.
MAY_IMPORT = {
    "patterns": (),
    "errors": ("patterns",),
    "_core": ("patterns",),
    "locks": (),
    "limits": (),
    "database": ("errors", "locks"),
    "markup": (),
    "data_format": (),
    "storage": ("errors",),
    "pickled_states": (),
    "foreign_names": (),
    "constraints": ("storage",),
    "parameters": ("constraints", "foreign_names", "locks", "patterns", "pickled_states"),
    "scores": ("_core", "parameters"),
    "header_fields": ("patterns",),
    "mail": ("_core", "header_fields", "patterns"),
    "features": ("_core", "constraints", "mail", "parameters", "patterns"),
    "counts": ("_core", "errors", "features", "pickled_states", "storage", "database"),
    "naive_bayes": ("_core", "constraints", "counts", "errors", "features", "parameters", "scores", "storage"),
    "classifier": ("constraints", "counts", "data_format", "errors", "features", "markup", "naive_bayes", "parameters", "scores", "storage"),
    "corpus": ("data_format", "errors", "limits", "mail", "patterns", "storage"),
    "evaluate": ("_core", "constraints", "errors", "markup", "scores"),
    "tables": ("_core", "constraints", "counts", "errors", "features", "naive_bayes", "parameters", "pickled_states", "scores", "storage"),
    "any_model": ("classifier", "data_format", "errors", "naive_bayes", "tables"),
    "mailbox": ("_core", "classifier", "corpus", "counts", "errors", "features", "header_fields", "limits", "locks", "mail", "naive_bayes", "patterns", "scores", "storage", "tables", "database"),
    "web": ("classifier", "errors", "evaluate", "features", "mail", "mailbox", "patterns"),
    "config": ("classifier", "constraints", "corpus", "errors", "features", "foreign_names", "naive_bayes", "parameters", "patterns", "tables"),
    "partial": ("classifier", "counts", "errors", "evaluate", "features", "naive_bayes", "parameters", "storage", "tables"),
    "replay": ("classifier", "config", "corpus", "data_format", "errors", "evaluate", "features", "locks", "naive_bayes", "partial", "scores", "storage"),
    "tables.experiment": ("config", "corpus", "errors", "evaluate", "naive_bayes", "patterns", "storage", "tables"),
    "pictures": ("errors", "evaluate", "markup", "patterns", "storage"),
    "spark": ("classifier", "errors", "evaluate", "mailbox", "partial", "scores", "tables"),
    "cli": ("any_model", "classifier", "config", "corpus", "data_format", "errors", "evaluate", "mailbox", "naive_bayes", "patterns", "pictures", "replay", "scores", "spark", "storage", "tables", "tables.experiment", "web"),
    "__main__": ("cli",),
    "sklearn": ("_core", "classifier", "constraints", "counts", "features", "foreign_names", "naive_bayes", "parameters", "scores", "tables"),
}  # fmt: skip
SOURCE = Path(streamnb.__file__).parent


def module_of(path: Path) -> str:
    """The name of a module within streamnb; "" for streamnb itself."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {module_of(path): path for path in SOURCE.rglob("*.py")}


def package_of(module: str) -> str:
    """The entry of the table that a module belongs to."""
    names = [name for name in MAY_IMPORT if module == name or module.startswith(f"{name}.")]
    return max(names, key=len)


def modules_of(node: ast.AST) -> set[str]:
    """Return the modules that an import statement loads; no module for any other statement."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if not isinstance(node, ast.ImportFrom):
        return set()
    assert node.level == 0, f"{node.module}: relative import"
    # `from package import module` imports the module, not a name of the package.
    whole = [f"{node.module}.{alias.name}" for alias in node.names]
    return {
        name if name.removeprefix("streamnb.") in {*MODULES, "_core"} else str(node.module)
        for name in whole
    }


def imported(path: Path) -> set[str]:
    """Return the modules of streamnb that a file imports, anywhere in it, also for type checkers."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    names = {name for node in nodes for name in modules_of(node) if name.startswith("streamnb.")}
    return {name.removeprefix("streamnb.") for name in names} & {*MODULES, "_core"}


def imported_at_start(statements: list[ast.stmt]) -> set[str]:
    """Return the modules that a file loads when it is imported."""
    names = set()
    for node in statements:
        names |= modules_of(node)
        is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not is_for_types and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for field in ("body", "orelse", "finalbody"):
                names |= imported_at_start(getattr(node, field, []))
    return names


def loaded_by(module: str, started: dict[str, set[str]]) -> set[str]:
    """Return the modules that are loaded as soon as a module of streamnb is."""
    names, waiting = set(), [f"streamnb.{module}"]
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            waiting += [name.rpartition(".")[0], *started.get(name.removeprefix("streamnb."), ())]
    return names


def test_imports_within_functions_save_time():
    """The modules of such an import are not loaded already by the imports at the top of the file."""
    trees = {module: ast.parse(path.read_text()) for module, path in MODULES.items()}
    started = {module: imported_at_start(tree.body) for module, tree in trees.items()}
    for module, tree in trees.items():
        functions = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        late = {
            name
            for function in functions
            for node in ast.walk(function)
            for name in modules_of(node)
        }
        useless = late & loaded_by(module, started)
        assert not useless, f"{module}: import {useless} at the top of the file"


@pytest.mark.parametrize("module", sorted(set(MODULES) - {""}))
def test_modules_import_only_packages_above_them(module):
    package = package_of(module)
    for name in imported(MODULES[module]):
        other = package_of(name)
        assert other == package or other in MAY_IMPORT[package], f"{module} imports {name}"


def test_the_table_is_complete_and_has_no_cycle():
    packages = {module.name for module in pkgutil.iter_modules([str(SOURCE)])}
    assert packages == {name for name in MAY_IMPORT if "." not in name}
    order = list(MAY_IMPORT)
    for module, above in MAY_IMPORT.items():
        assert all(order.index(other) < order.index(module) for other in above)


def test_no_modules_import_each_other():
    """Nor in a circle, also not by imports within functions."""
    graph = {module: imported(path) - {module} for module, path in MODULES.items()}
    while graph:
        free = [module for module, above in graph.items() if not above & set(graph)]
        assert free, f"a cycle among {sorted(graph)}"
        for module in free:
            del graph[module]


def loaded(statement: str) -> set[str]:
    # The commands put empty modules, which have no spec, in the place of two of numpy.
    names = "[name for name, module in sys.modules.items() if getattr(module, '__spec__', None)]"
    program = f"{statement}; import json, sys; print(json.dumps({names}))"
    out = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, check=True)
    return {name.partition(".")[0] for name in json.loads(out.stdout.splitlines()[-1])}


HEAVY = {
    "matplotlib",
    "pandas",
    "sklearn",
    "scipy",
    "click",
    "yaml",
    "pydantic",
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
    replays = "from streamnb.config import build; import streamnb.replay; build({})"
    assert loaded(replays).isdisjoint(HEAVY)


def test_the_source_without_its_compiled_module_gives_an_error(tmp_path):
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


def test_every_part_of_the_core_is_distributed(repository):
    """A source distribution holds the headers only if pyproject.toml names them."""
    project = tomllib.loads((repository / "pyproject.toml").read_text())
    modules = project["tool"]["setuptools"]["ext-modules"]
    core = repository / "streamnb/_core"
    headers, sources = (
        {f"streamnb/_core/{path.name}" for path in core.glob(pattern)}
        for pattern in ("*.pxd", "*.pyx")
    )
    assert {source for module in modules for source in module["sources"]} == sources
    assert all(set(module["depends"]) == headers for module in modules)
