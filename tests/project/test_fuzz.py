"""Replay every stored input of the fuzzers: earlier finds, and the inputs that reach most code."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from fuzz import run


@pytest.mark.parametrize("module", run.MODULES)
def test_stored_and_seed_inputs_pass(module, tmp_path):
    """In a process of its own: listeners leave threads."""
    done = subprocess.run(
        [sys.executable, "-W", "error", run.__file__, "--replay", *run.MODULES[module].split()],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_target_is_run():
    modules = {path.stem for path in Path(run.__file__).parent.glob("*.py")} - {"run", "target"}
    assert modules == set(run.MODULES)
    for module in set(modules) - {"listeners"}:  # which begins threads
        assert sorted(import_module(f"fuzz.{module}").TARGETS) == sorted(
            run.MODULES[module].split()
        )
    assert {path.name.split(".")[0] for path in (run.HERE / "corpus").glob("*.txt")} <= set(
        run.TARGETS
    )


def test_a_corpus_is_kept_as_it_was_given(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "HERE", tmp_path)
    (tmp_path / "corpus").mkdir()
    inputs = [b"\xff\n'\"", b"", b"x" * 3000]
    run.store("words", [*inputs, b""])
    assert run.stored("words") == sorted(inputs)
