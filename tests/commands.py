"""The commands, run as a user runs them."""

import subprocess
import sys

STREAMNB = [sys.executable, "-P", "-c", "from streamnb.cli import main; main()"]


def streamnb_command(*arguments, **options):
    """Exit status, standard output and error; never a traceback."""
    done = subprocess.run(
        [*STREAMNB, *map(str, arguments)], capture_output=True, text=True, timeout=300, **options
    )
    assert "Traceback" not in done.stderr + done.stdout
    return done.returncode, done.stdout, done.stderr
