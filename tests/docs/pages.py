"""Run a page of the documentation: its commands and its Python, in order, beside their outputs.

`python tests/docs/pages.py docs/tutorials/PAGE.md` writes the outputs into the page.
"""

import contextlib
import doctest
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "helpers"))
from ports import free_port

REPOSITORY = Path(__file__).parents[2]
BLOCK = re.compile(
    r"(?P<marks>(?:<!-- [^>]* -->\n)*)```(?P<kind>\w*)[^\n]*\n(?P<text>.*?)```", re.S
)
PORTS = ("8025", "8026")
TIMEOUT_S = 120
# Parts of an output that differ from run to run. Both sides are compared without them.
VARIABLE = [
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d", "TIME"),
    (r" *\d+\.\d+ s, [\d,]+ messages a second", " DURATION"),
    (r", \d+\.\d s$", ", DURATION"),
    (r" *\d[\d.]* [kM]B", " SIZE"),
    (r"token=[\w-]+|/[\w-]{16,}/?$", "SECRET"),
    (r"/\S*/(?=[\w.]+)", ""),  # folders of absolute paths
    (r"[ \t]+", " "),
    (r" +$", ""),
]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


class Shell:
    """One bash process, which keeps the variables and background jobs of a page."""

    def __init__(self, folder: Path) -> None:
        program = folder / "bin" / "streamnb"
        program.parent.mkdir()
        program.write_text(f"#!{sys.executable} -P\nfrom streamnb.cli import main\nmain()\n")
        program.chmod(0o755)
        (program.parent / "python3").symlink_to(sys.executable)
        environment = {name: value for name, value in os.environ.items() if name[:8] != "STREAMNB"}
        environment |= {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(folder)}
        environment |= {"COLUMNS": "88", "PYTHONUNBUFFERED": "1", "TZ": "UTC"}
        self.process = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.ports = {port: str(free_port()) for port in PORTS}

    def run(self, commands: str) -> str:
        """Return what the commands print, with the page's port numbers."""
        for port, free in self.ports.items():
            commands = commands.replace(port, free)
        script = f"{{ set -e\n{commands}\nset +e\n}} </dev/null\nprintf '\\n--end--\\n'\n"
        self.process.stdin.write(script)
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line == "--end--\n":
                break
            lines.append(line)
        else:
            raise AssertionError(f"a command of this block failed:\n{commands}\n{''.join(lines)}")
        output = "".join(lines).removesuffix("\n")
        for port, free in self.ports.items():
            output = output.replace(free, port)
        return output

    def start(self, command: str) -> str:
        """Start a command that keeps running; return its first line."""
        log = Path(self.run("mktemp").strip())
        self.run(f"{command.strip()} >{log} 2>&1 &")
        end = time.monotonic() + TIMEOUT_S
        while not log.read_text().endswith("\n"):
            assert time.monotonic() < end, f"prints nothing: {command}"
            time.sleep(0.05)
        output = log.read_text().splitlines(keepends=True)[0]
        for port, free in self.ports.items():
            output = output.replace(free, port)
        return output

    def close(self) -> None:
        """End the shell and all its jobs."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, 15)
        self.process.wait(TIMEOUT_S)
        self.process.stdin.close()
        self.process.stdout.close()


def normalize(text: str, any_order: bool = False) -> str:
    """Return an output without its variable parts."""
    for pattern, replacement in VARIABLE:
        text = re.sub(pattern, replacement, text, flags=re.M)
    lines = text.strip().splitlines()
    return "\n".join(sorted(lines) if any_order else lines)


def is_output(expected: str, printed: str, any_order: bool = False) -> bool:
    """Return whether an output is the one that the page shows; `...` stands for any text."""
    pattern = re.escape(normalize(expected, any_order)).replace(r"\.\.\.", "(?s:.*)")
    return re.fullmatch(pattern, normalize(printed, any_order)) is not None


def prepare_folder(folder: Path) -> None:
    """Put the files beside the page's commands that a clone of the repository has."""
    for name in ("corpora", "configs", "docs"):
        (folder / name).symlink_to(REPOSITORY / name)


def run_page(page: Path, folder: Path, write: bool = False) -> list[str]:
    """Return the differences between the outputs of a page and those of its commands.

    With `write` the page gets the outputs of its commands.
    """
    text = page.read_text(encoding="utf-8")
    prepare_folder(folder)
    shell, differences, names, output = Shell(folder), [], {}, None
    replacements = []
    try:
        for block in BLOCK.finditer(text):
            kind, content = block["kind"], block["text"]
            if kind == "sh" and "stays" in block["marks"]:
                output = shell.start(content)
            elif kind == "sh":
                output = shell.run(content)
            elif kind == "text" and output is not None:
                any_order = "any order" in block["marks"]
                if not is_output(content, output, any_order):
                    differences.append(f"{page.name} shows:\n{content}\nprinted:\n{output}")
                    replacements.append((block.span("text"), tidy(output, folder, any_order)))
                output = None
            elif kind == "python":
                differences += run_examples(content, names, page)
    finally:
        shell.close()
    if write:
        for (start, end), new in reversed(replacements):
            text = text[:start] + new + text[end:]
        page.write_text(text, encoding="utf-8")
    return differences


def tidy(output: str, folder: Path, any_order: bool) -> str:
    """Return an output as a page shows it: in order, and in a folder that a reader could have."""
    lines = [line.rstrip() for line in output.strip().splitlines()]
    output = "\n".join(sorted(lines) if any_order else lines) + "\n"
    return output.replace(str(folder), "/home/ann/streamnb")


def run_examples(content: str, names: dict, page: Path) -> list[str]:
    """Return the reports of the examples of a block that fail."""
    test = doctest.DocTestParser().get_doctest(content, names, page.name, str(page), 0)
    reports: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=reports.append, clear_globs=False)
    names.update(test.globs)
    return reports


def write_outputs(page: Path) -> None:
    """Write the outputs of a page's commands into it, and print what was different."""
    with tempfile.TemporaryDirectory() as temporary, contextlib.chdir(temporary):
        print("\n".join(run_page(page, Path(temporary), write=True)))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write_outputs(Path(name).resolve())
