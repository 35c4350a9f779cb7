"""The command line: it makes a configuration of options, calls the library and prints."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; every failure is one line and an exit status."""
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
