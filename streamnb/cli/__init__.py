"""The command line: it makes a configuration of options, calls the library and prints."""

from __future__ import annotations

import sys

import click

from streamnb import __version__

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="streamnb")
def commands() -> None:
    """Streaming Naive Bayes for text and mail.

    Replay a corpus and see how well it is told apart:

        streamnb replay corpora/sample
    """


def _register() -> None:
    from streamnb.cli.compare import compare
    from streamnb.cli.explain import explain, top
    from streamnb.cli.replay import replay
    from streamnb.cli.trec import trec

    for command in (replay, compare, explain, top, trec):
        commands.add_command(command)


def main() -> None:
    """Run the command line; every failure is one line and an exit status."""
    from streamnb.errors import StreamNBError, printable

    _register()
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
    sys.exit(status)
