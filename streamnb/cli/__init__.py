"""The command line."""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys


def _prepare_collector() -> None:
    """Let the garbage collector run seldom, and not at the exit."""
    # Collections every 700 objects take a twentieth of a replay; few objects form cycles.
    gc.set_threshold(20_000, 20, 50)
    # Python collects three times when it exits, which takes as long as importing numpy.
    atexit.register(gc.freeze)


def _prepare_streams() -> None:
    """Give standard output a buffer, and replace a closed standard error by the null device.

    With PYTHONUNBUFFERED or -u a write may be partial without an error, which would truncate a
    mail.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (open until the end)
    stdout = sys.stdout
    if isinstance(getattr(stdout, "buffer", None), io.RawIOBase):
        sys.stdout = open(  # noqa: SIM115 (open until the end)
            stdout.fileno(), "w", 1, encoding=stdout.encoding, errors=stdout.errors, closefd=False
        )
    if isinstance(sys.stdout, io.TextIOWrapper):  # a label may have characters that it cannot show
        sys.stdout.reconfigure(errors="backslashreplace")


def _exit_at_once(status: int) -> None:
    """Exit without freeing each object first, which takes 3 ms.

    If output cannot be written, exit as Python does.
    """
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError):
        sys.exit(status)
    os._exit(status)


def main() -> None:
    """Run the command line; a failure is printed as one line and ends with its exit status."""
    if sys.argv[1:2] != ["experiment"]:
        # Only `experiment` multiplies matrices. Without memory for its threads OpenBLAS ends the
        # process, which would lose a mail.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _prepare_collector()
    _prepare_streams()
    try:
        if sys.argv[1:2] in (["filter"], ["classify"]):
            gc.disable()  # one message leaves little garbage
            from streamnb.cli.quick import exit_status

            status = exit_status(sys.argv[1:])
            if status is not None:
                _exit_at_once(status)
            gc.enable()
        from streamnb.cli import group
    except KeyboardInterrupt:
        sys.stderr.write("streamnb: interrupted\n")
        sys.exit(130)
    group.main()
