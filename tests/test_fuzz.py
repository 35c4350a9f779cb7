"""What the fuzzers found, and what reaches most: every stored input through every target."""

import ast
from importlib import import_module
from pathlib import Path

import pytest
from fuzz import run

HERE = Path(__file__).parent / "fuzz"


@pytest.mark.parametrize("name", run.TARGETS)
def test_stored_and_seed_inputs_pass(name):
    target = import_module(f"fuzz.{run.TARGETS[name]}").TARGETS[name]
    for data in [*run.stored(name), *target.seeds()]:
        target.check(data)


def test_every_target_is_run():
    made = {
        name: module for module in run.MODULES for name in import_module(f"fuzz.{module}").TARGETS
    }
    assert made == run.TARGETS
    assert {path.stem for path in (HERE / "corpus").iterdir()} <= set(run.TARGETS)


def test_a_corpus_is_kept_as_it_was_given(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "HERE", tmp_path)
    (tmp_path / "corpus").mkdir()
    inputs = [b"\xff\n'\"", b"", b"x" * 3000]
    run.store("words", [*inputs, b""])
    assert run.stored("words") == sorted(inputs)
    assert ast.literal_eval((tmp_path / "corpus" / "words.txt").read_text().splitlines()[0]) == b""
