"""All commands, imported when they are run, and how each of their failures is told."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from streamnb import __version__

# Which module each command is in: only the one that is run is imported.
_COMMANDS = {
    "replay": "replay",
    "fit": "fit",
    "merge-models": "fit",
    "spark": "spark",
    "compare": "compare",
    "experiment": "experiment",
    "report": "report",
    "explain": "explain",
    "top": "explain",
    "trec-run": "trec",
    "learn": "mailbox",
    "forget": "mailbox",
    "classify": "mailbox",
    "filter": "delivery",
    "serve": "serve",
    "watch": "watch",
    "web": "web",
    "verdicts": "web",
    "status": "maintenance",
    "verify": "maintenance",
    "recover": "maintenance",
    "upgrade": "mailbox",
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
        name = name.replace("-", "_")
        return getattr(module, name, None) or getattr(module, f"{name}_")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name not in _COMMANDS and not name.startswith("-"):
            near = get_close_matches(name, _COMMANDS, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _ends_ours():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _ends_ours():
            return super().invoke(ctx)


@contextmanager
def _ends_ours() -> Iterator[None]:
    """Keep from click the two ends that `main` words: Ctrl-C, and output that nobody reads."""
    try:
        yield
    except KeyboardInterrupt:  # click would print an empty line
        raise click.Abort from None
    except BrokenPipeError as error:  # click would make it status 1
        raise SystemExit(141) from error


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


def _line(error: click.ClickException) -> str:
    """What is wrong with the command line, and where to read how it is done."""
    from streamnb.errors import printable

    said = printable(" ".join(error.format_message().split()))
    ctx = getattr(error, "ctx", None)
    return said if ctx is None else f"{said} (see {ctx.command_path} --help)"


class _Ended(SystemExit):
    """SIGTERM came: on the way out, what is half-written is removed."""


def _end(*_: Any) -> None:
    raise _Ended


def _prepare() -> None:
    # Little that is made here refers to itself: to look for that after every 700 objects, as is
    # Python's way, takes a twentieth of a replay.
    gc.set_threshold(20_000, 20, 50)
    # On its way out Python looks three times through all that is there: as much as numpy's import.
    atexit.register(gc.freeze)
    # Pydantic looks through all installed packages for plug-ins, of which none is wanted here.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # names need not be UTF-8
            stream.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Send all further standard output to the null device, so that Python's last flush succeeds.

    Python 3.13 and newer print a traceback if that flush fails.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def main() -> None:
    """Run the command line; every failure is one line and an exit status."""
    from streamnb.errors import LIMITS, StreamNBError, UnexpectedError, describe_os_error, printable

    _prepare()
    try:
        status = commands(standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # click before 8.2 has none
            error.show()
        else:
            click.echo(f"streamnb: {_line(error)}", err=True)
        status = error.exit_code
    except StreamNBError as error:
        if isinstance(error, UnexpectedError) and os.environ.get("STREAMNB_TRACEBACK"):
            raise
        click.echo(f"streamnb: {printable(str(error))}", err=True)
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("streamnb: interrupted", err=True)
        status = 130
    except _Ended:
        # By the signal and not by a status: a mail server tries the mail again then, and does not
        # send it back.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)
        raise
    except (BrokenPipeError, SystemExit) as error:
        # Where nobody reads any more, rich makes a SystemExit of that, and so does _ends_ours.
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        _discard_output()
        sys.stderr.close()  # the reader has gone: nobody reads a message
        status = 141
    except OSError as error:
        _discard_output()
        click.echo(f"streamnb: {describe_os_error(error)}", err=True)
        status = 3 if error.filename is not None else 1 if error.errno in LIMITS else 5
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
