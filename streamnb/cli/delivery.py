"""`streamnb filter` and `serve`: where mail is delivered."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, NoReturn

import click

from streamnb.cli.options import MailCommand, database_options, open_mailbox
from streamnb.errors import printable

if TYPE_CHECKING:
    from streamnb.mailbox.service.client import Answer

__all__ = ["filter_", "serve"]


class _Passing(MailCommand):
    """The message passes also where an option is wrong."""

    misused = 75

    def on_misuse(self) -> None:
        if sys.stdin is not None and sys.stdout is not None:
            try:
                shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer, 1 << 20)
                sys.stdout.buffer.flush()
            except OSError as error:
                _give_up(error)


@click.command("filter", cls=_Passing)
@click.option("--strict", is_flag=True, help="Exit with 75 on any trouble, so that it is retried.")
@database_options
def filter_(strict: bool, db: str | None, wait: float) -> None:
    """Copy a message from standard input to standard output, with its verdict at its head.

    Not a byte is changed but for the field `X-Streamnb: Spam, score=...`, which is added, and any
    of that name, which are removed. On any trouble the message passes unchanged and the exit
    status is 0, or 75 with --strict. If it cannot be written it is 75: the message must be kept.

    \b
    Example:
      streamnb filter < message.eml
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.mailbox.service.client import Asking

    if sys.stdin is None or sys.stdout is None:
        click.echo("streamnb: standard input or output is closed", err=True)
        raise click.exceptions.Exit(75)
    with ExitStack() as stack:

        def ask(message: bytes) -> Answer:
            return stack.enter_context(Asking(db, wait)).classify(message)

        trouble = _passed(ask)
    if trouble is not None:
        why = printable(str(trouble) or type(trouble).__name__)
        if strict:
            click.echo(f"streamnb: no verdict, to be tried again (status 75): {why}", err=True)
            raise click.exceptions.Exit(75)
        click.echo(f"streamnb: passed on unchanged: {why}", err=True)


def _give_up(error: BaseException) -> NoReturn:
    """Say that a message was not passed on: whoever called must keep it."""
    said = getattr(error, "strerror", None) or type(error).__name__
    click.echo(f"streamnb: the message was not passed on: {said}", err=True)
    os._exit(75)  # Python would try to write what is left once more


def _passed(ask: Callable[[bytes], Answer]) -> Exception | None:
    from streamnb.mailbox.service.passthrough import pass_through

    try:
        return pass_through(sys.stdin.buffer, sys.stdout.buffer, ask)
    except (OSError, MemoryError) as error:
        _give_up(error)


@click.command()
@database_options
def serve(db: str | None, wait: float) -> None:
    """Stay and answer `streamnb classify` and `filter` on a Unix socket beside the database.

    They find it by themselves, and do without where it does not run. STREAMNB_SOCKET names another
    place for the socket. It ends with SIGTERM or Ctrl-C.

    \b
    Example:
      streamnb serve &
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.mailbox.service.server import serve as served

    with open_mailbox(db, wait, create=True) as mailbox:
        served(mailbox, lambda path: click.echo(printable(f"listening on {path}"), err=True))
