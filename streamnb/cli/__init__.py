"""The command line: it makes a configuration of options, calls the library and prints."""

from __future__ import annotations

import io
import os
import sys


def _prepare_output() -> None:
    """Give standard output a buffer where PYTHONUNBUFFERED or -u took it away.

    To write without one may take only a part, and whoever wrote is not told: a mail would be cut.
    Where standard error is closed, what is said there is lost, and nothing else.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (until the program ends)
    out = sys.stdout
    if isinstance(getattr(out, "buffer", None), io.RawIOBase):
        sys.stdout = open(  # noqa: SIM115 (until the program ends)
            out.fileno(), "w", 1, encoding=out.encoding, errors=out.errors, closefd=False
        )


def main() -> None:
    """Run the command line; every failure is one line and an exit status."""
    if sys.argv[1:2] != ["experiment"]:
        # Nothing else multiplies matrices; where the memory for more threads is missing, OpenBLAS
        # ends the process, and a mail with it.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _prepare_output()
    try:
        if sys.argv[1:2] in (["filter"], ["classify"]):
            from streamnb.cli.quick import exit_status

            status = exit_status(sys.argv[1:])
            if status is not None:
                sys.exit(status)
        from streamnb.cli import group
    except KeyboardInterrupt:  # as early as this there is nothing to tell of
        sys.stderr.write("streamnb: interrupted\n")
        sys.exit(130)
    group.main()
