"""The command line."""

from __future__ import annotations

import os
import sys

# Modules of numpy that only add docstrings. Their import takes a tenth of the time of a message, so
# empty modules replace them. No command shows numpy's docstrings.
_DOCSTRING_MODULES = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars")
# Modules of numpy with types of annotations, which take a twentieth of the time of a message.
_TYPE_MODULES = ("numpy.typing", "numpy._typing")

_ModuleType = type(sys)


def _replace_types() -> object:
    """Put a small module in the place of numpy's types, and return it.

    Nothing reads annotations at run time until a further library is imported.
    """
    types = _ModuleType("numpy.typing")
    vars(types).update(NDArray=list, ArrayLike=list)
    for name in _TYPE_MODULES:
        sys.modules.setdefault(name, types)
    return types


def _prepare_collector() -> None:
    """Make the garbage collector run rarely, and not at exit."""
    import atexit
    import gc

    # With Python's default, a collection every 700 objects, the collector takes 5 % of a replay's
    # time. Few objects form cycles.
    gc.set_threshold(20_000, 20, 50)
    # At exit, Python runs the collector three times, which takes as long as importing numpy.
    atexit.register(gc.freeze)


def _prepare_streams() -> None:
    """Buffer standard output, and send standard error to the null device if it is closed.

    With PYTHONUNBUFFERED or -u, a write can be partial without an error. A mail would be
    truncated.
    """
    import io

    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (open until the end)
    stdout = sys.stdout
    if isinstance(getattr(stdout, "buffer", None), io.RawIOBase):
        sys.stdout = open(  # noqa: SIM115 (open until the end)
            stdout.fileno(), "w", 1, encoding=stdout.encoding, errors=stdout.errors, closefd=False
        )
    # The terminal's encoding may lack characters of a label, and file names need not be UTF-8.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _exit_at_once(status: int) -> None:
    """Exit without freeing each object, which would take 3 ms.

    If output cannot be written, exit as Python does.
    """
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError):
        sys.exit(status)
    os._exit(status)


def _end_at_interrupt() -> None:
    """Let Ctrl-C end the process, because Python prints a traceback for it during its exit."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> None:
    """Run the command line. A failure is printed as one line and sets the exit status.

    Ctrl-C is handled only in here, so the module imports no other one before.
    """
    try:
        if sys.argv[1:2] != ["experiment"]:
            # Without memory for its threads, OpenBLAS ends the process, and a mail would be lost.
            # One thread is enough, because only `experiment` multiplies matrices.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        _prepare_collector()
        _prepare_streams()
        for name in _DOCSTRING_MODULES:
            sys.modules.setdefault(name, _ModuleType(name))
        if sys.argv[1:2] in (["filter"], ["classify"]):
            import gc

            gc.disable()  # one message leaves little garbage
            types = _replace_types()
            from streamnb.cli.quick import exit_status

            status = exit_status(sys.argv[1:])
            if status is not None:
                _exit_at_once(status)
            for name in _TYPE_MODULES:
                if sys.modules[name] is types:
                    del sys.modules[name]
            gc.enable()
        from streamnb.cli import group

        group.main()
    except KeyboardInterrupt:  # not within the part of `group.main` that handles it
        sys.stderr.write("streamnb: interrupted\n")
        sys.exit(130)
    finally:
        _end_at_interrupt()
