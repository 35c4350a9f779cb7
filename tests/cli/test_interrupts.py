"""Ctrl-C at any moment of a command: at most one line, and the exit status of an interrupt."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import streamnb

# Sends Ctrl-C to itself at the call with a given number, counted from that of `main`. With
# 0, it prints the number of calls before the exit. Python itself ignores, and prints, an exception
# of a finaliser or of a callback of a weak reference.
PROGRAM = """
import os, signal, sys
from streamnb.cli import main

moment, calls = int(sys.argv.pop(1)), 0

def count(frame, event, argument):
    global calls
    if event == "call" and frame.f_code.co_name not in ("__del__", "_remove", "remove", "cb"):
        calls += 1
        if calls == moment:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

sys.setprofile(count)
try:
    main.__globals__["main"]()
finally:
    if not moment:
        sys.setprofile(None)
        print(calls, file=sys.stderr)
"""
INTERRUPTED = (130, -signal.SIGINT)


def _run(moment, words, folder):
    program = [sys.executable, "-P", "-c", PROGRAM, str(moment), *words]
    return subprocess.run(program, capture_output=True, text=True, cwd=folder, check=False)


@pytest.fixture
def folder(tmp_path):
    rows = [f"word{i % 7} text{i % 5},{'ab'[i % 2]}\n" for i in range(30)]
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(rows))
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [["--version"], ["fit", "rows.csv", "-o", "rows.snb", "--quiet"]],
    ids=lambda words: words[0],
)
def test_an_interrupt_at_any_moment_is_at_most_a_line(words, folder):
    calls = int(_run(0, words, folder).stderr.split()[-1])
    moments = {2, calls // 2} | {int(calls ** (power / 5)) for power in range(1, 5)}
    for moment in sorted(moments):
        ran = _run(moment, words, folder)
        assert ran.returncode in INTERRUPTED, (moment, ran.stderr)
        assert ran.stderr.strip() in ("", "streamnb: interrupted"), moment


def test_an_interrupt_while_python_exits_prints_nothing(folder):
    calls = int(_run(0, ["--version"], folder).stderr.split()[-1])
    for moment in (calls + 3, calls + 9):
        ran = _run(moment, ["--version"], folder)
        assert ran.returncode in (0, *INTERRUPTED)
        assert ran.stderr == ""


def test_nothing_is_imported_before_interrupts_are_handled():
    program = "import os, sys; before = set(sys.modules); import streamnb.cli; "
    program += "print(*sorted(set(sys.modules) - before))"
    ran = subprocess.run(
        [sys.executable, "-P", "-S", "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(Path(streamnb.__file__).parents[1])},
        check=True,
    )
    assert ran.stdout.split() == ["__future__", "streamnb", "streamnb.cli"]
