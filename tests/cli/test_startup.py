"""The start-up of commands: mail servers start one for every message."""

import os
import resource
import subprocess
import sys

import pytest
from commands import STREAMNB, streamnb_command

MESSAGE = b"From: ann@example.org\nSubject: lunch\n\nlunch at noon, as on Mondays\n"
# Packages that no command which runs once a message may import.
SLOW = {"click", "rich", "scipy", "yaml", "pydantic", "narwhals", "pandas", "sklearn", "matplotlib"}
# Modules that a process for one message without a server needs for none of its steps.
SPARED = {
    "streamnb.corpus",
    "streamnb.mailbox.rebuild",
    "streamnb.mailbox.service.mailboxes",
    "streamnb.mailbox.undo",
    "streamnb._core.styles",
    "streamnb._core.exact_sums",
}
SPARED |= {"pathlib", "urllib.parse", "socket", "html", "difflib", "webencodings"}
SPARED |= {"concurrent.futures", "tempfile", "numpy._typing"}
COMMANDS = {
    "filter": (["filter"], SPARED),
    "classify": (["classify", "MESSAGE"], SPARED | {"hashlib"}),
    "learn": (["learn", "ham", "MESSAGE"], {"streamnb.corpus.tabular"}),
    "status": (["status"], {"streamnb.corpus.tabular"}),
    "top": (["top"], {"streamnb.corpus.tabular"}),
    "explain": (["explain", "MESSAGE"], {"streamnb.corpus.tabular"}),
    "--help": (["--help"], {"numpy", "sqlite3", "river"}),
    "--version": (["--version"], {"numpy", "sqlite3", "river"}),
}
USES = {
    "learn": {"click"},
    "status": {"click", "rich"},
    "top": {"click", "rich"},
    "explain": {"click", "rich"},
    "--help": {"click"},
    "--version": {"click"},
}


@pytest.fixture
def message(tmp_path, monkeypatch):
    path = tmp_path / "message.eml"
    path.write_bytes(MESSAGE)
    monkeypatch.setenv("STREAMNB_DB", str(tmp_path / "mail.db"))
    assert streamnb_command("learn", "ham", path)[0] == 0
    spam = tmp_path / "spam.eml"
    spam.write_bytes(MESSAGE + b"pills\n")
    assert streamnb_command("learn", "spam", spam)[0] == 0
    return path


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_what_it_needs_only(name, message):
    words, others = COMMANDS[name]
    words = [str(message) if word == "MESSAGE" else word for word in words]
    program = [STREAMNB[0], "-X", "importtime", *STREAMNB[1:], *words]
    ran = subprocess.run(program, input=MESSAGE, capture_output=True, check=False)
    assert ran.returncode in (0, 2)  # 2: unsure
    lines = [line.rpartition("|")[2].strip() for line in ran.stderr.decode().splitlines()]
    imported = set(lines[lines.index("site") :])  # before it an editable installation imports much
    assert "streamnb.cli" in imported
    assert not imported & (SLOW | others) - USES.get(name, set())


@pytest.mark.performance
@pytest.mark.parametrize("words", [["filter"], ["classify", "MESSAGE"]], ids=["filter", "classify"])
def test_a_message_without_server_costs_little_more_than_numpy(words, message):
    words = [str(message) if word == "MESSAGE" else word for word in words]
    programs = {
        "python": [sys.executable, "-c", "pass"],
        "numpy": [sys.executable, "-c", "import numpy"],
        "command": [*STREAMNB, *words],
    }
    least = dict.fromkeys(programs, float("inf"))
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for _ in range(10):  # by turns, so load on the machine affects all of them
        for name, program in programs.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                program, input=MESSAGE, capture_output=True, env=environment, check=False
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            least[name] = min(least[name], cpu_s)
    assert least["command"] - least["python"] < 1.8 * (least["numpy"] - least["python"])
