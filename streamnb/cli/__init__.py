"""The command line: it makes a configuration of options, calls the library and prints."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from streamnb import __version__

__all__ = ["main"]


# Which module each command is in: only the one that is run is imported.
_COMMANDS = {
    "replay": "replay",
    "compare": "compare",
    "experiment": "experiment",
    "report": "report",
    "explain": "explain",
    "top": "explain",
    "trec": "trec",
    "learn": "mailbox",
    "forget": "mailbox",
    "classify": "mailbox",
    "filter": "delivery",
    "serve": "delivery",
    "watch": "watch",
    "status": "maintenance",
    "verify": "maintenance",
    "rescue": "maintenance",
    "undo": "maintenance",
    "compact": "maintenance",
    "export": "maintenance",
    "import": "maintenance",
    "merge": "maintenance",
}


class _Commands(click.Group):
    """Commands that are imported when they are run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module = import_module(f"streamnb.cli.{_COMMANDS[name]}")
        found: click.Command = getattr(module, name, None) or getattr(module, f"{name}_")
        return found


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="streamnb")
def commands() -> None:
    """Streaming Naive Bayes for text and mail.

    \b
    Replay a corpus and see how well it is told apart:
      streamnb replay corpora/sample
    Teach it your mail, and ask it:
      streamnb learn spam ~/Maildir/.Junk
      streamnb classify message.eml
    """  # noqa: D301 (click's mark for lines that stay as they are)


def main() -> None:
    """Run the command line; every failure is one line and an exit status."""
    from streamnb.errors import StreamNBError, UnexpectedError, printable

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # names need not be UTF-8
            stream.reconfigure(errors="backslashreplace")
    try:
        status = commands(standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except StreamNBError as error:
        if isinstance(error, UnexpectedError) and os.environ.get("STREAMNB_TRACEBACK"):
            raise
        click.echo(f"streamnb: {printable(str(error))}", err=True)
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("streamnb: interrupted", err=True)
        status = 130
    except BrokenPipeError:
        if sys.stderr is not None:
            sys.stderr.close()  # whoever read our output has gone; there is nobody to tell
        status = 141
    except OSError as error:
        sys.stdout = None  # or Python would try to write to it once more
        click.echo(f"streamnb: standard output: cannot be written: {error.strerror}", err=True)
        status = 5
    except MemoryError:
        click.echo(
            "streamnb: out of memory; try --limit, or a tokenizer with fewer n-grams", err=True
        )
        status = 1
    except Exception as error:
        if os.environ.get("STREAMNB_TRACEBACK"):
            raise
        click.echo(f"streamnb: {printable(str(UnexpectedError(error)))}", err=True)
        status = 70
    sys.exit(status)
