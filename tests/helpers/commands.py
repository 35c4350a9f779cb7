"""The commands, run as a user runs them.

Importing numpy, river and the package takes a command ten times as long as what most tests ask of
it, so commands are forked from a server that has imported them already, each with its own
descriptors, folder and environment. What a fresh interpreter does has tests of its own. Each
command imports this module, so the module imports only what the server has.
"""

import multiprocessing
import os
import subprocess
import sys
from multiprocessing import forkserver
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

from streamnb.cli.group import COMMANDS

STREAMNB = [sys.executable, "-P", "-c", "from streamnb.cli import main; main()"]

_IMPORTED = {
    *(f"streamnb.cli.{module}" for module in {entry.module for entry in COMMANDS.values()}),
    *("streamnb.replay.run", "streamnb.evaluate.metrics", "streamnb.config.yaml_files"),
    *("streamnb.mailbox.undo", "streamnb.mailbox.rebuild", "streamnb.mailbox.status"),
    *("streamnb.mailbox.sources", "rich.table"),
    *("matplotlib.figure", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg"),
}
_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(sorted(_IMPORTED))


def _run(arguments, folder, environment, files):
    """In the child, do the steps of a shell before a command, then run the command."""
    from streamnb.cli import main

    missing = _IMPORTED - sys.modules.keys()
    assert not missing, f"not imported by the server: {missing}"
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, (path, flags) in enumerate(files):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = map(os.fdopen, (0, 1, 2), "rww")
    sys.argv = ["streamnb", *arguments]
    main()


def streamnb_process(*arguments, input=b"", cwd=None, env=None, timeout=300):  # noqa: A002 (the names of subprocess.run)
    """Run a command; return what `subprocess.run` returns, with `stdout` and `stderr` as bytes."""
    with TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("input", "output", "errors")]
        paths[0].write_bytes(input)
        files = [(paths[0], os.O_RDONLY)]
        files += [(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for path in paths[1:]]
        folder_path = os.fspath(cwd or os.getcwd())
        call = (
            [os.fspath(a) if isinstance(a, os.PathLike) else str(a) for a in arguments],
            folder_path,
        )
        safe_path = os.environ.get("PYTHONSAFEPATH", "")
        os.environ["PYTHONSAFEPATH"] = "1"  # what is installed, as in STREAMNB
        forkserver.ensure_running()
        os.environ["PYTHONSAFEPATH"] = safe_path  # Python ignores an empty value
        process = _FORKING.Process(target=_run, args=(*call, dict(env or os.environ), files))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(["streamnb", *call[0]], timeout)
        out, errors = (path.read_bytes() for path in paths[1:])
        return SimpleNamespace(returncode=process.exitcode, stdout=out, stderr=errors)


def streamnb_command(*arguments, input="", **options):  # noqa: A002
    """Exit status, standard output and error as text; never a traceback."""
    done = streamnb_process(*arguments, input=input.encode(), **options)
    out, errors = (part.decode().replace("\r\n", "\n") for part in (done.stdout, done.stderr))
    assert "Traceback" not in errors + out
    return done.returncode, out, errors
