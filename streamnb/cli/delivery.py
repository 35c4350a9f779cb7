"""`streamnb filter`: where mail is delivered."""

from __future__ import annotations

import sys

import click

from streamnb.cli import options
from streamnb.errors import StreamNBError


class _Passing(options.MailCommand):
    """The message passes also where an option is wrong."""

    usage_status = 75

    def on_usage_error(self) -> None:
        pass_unmarked()


def pass_unmarked() -> None:
    """Copy a message without a verdict."""
    from streamnb.cli.quick import give_up
    from streamnb.mailbox.service.passthrough import pass_through

    if sys.stdin is not None and sys.stdout is not None:
        try:
            pass_through(sys.stdin.buffer, sys.stdout.buffer, None)
        except OSError as error:
            give_up(error)


def _field(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    from streamnb.mailbox.service.response import FIELD

    if text is None:
        return None
    name, colon, value = text.partition(":")
    printable = all(32 <= ord(c) < 127 for c in text)
    if not colon or not name or not value.strip() or " " in name or not printable:
        raise click.BadParameter(f"{text!r:.100} is not 'Name: value', in ASCII")
    if name.strip().lower() == FIELD.lower():
        raise click.BadParameter(f"{name} is the field of the verdict")
    return text


@click.command("filter", cls=_Passing)
@click.option("--strict", is_flag=True, help="Exit with 75 on any trouble, so that it is retried.")
@click.option(
    "-u",
    "--update",
    is_flag=True,
    help="Learn each sure verdict, as a program's word: it never overrules a person's.",
)
@click.option(
    "--unsure-header",
    "unsure_field",
    metavar="'NAME: VALUE'",
    callback=_field,
    help="Another header field, for messages whose verdict is unsure.",
)
@options.judge_options
@options.database_options
def filter_(strict: bool, update: bool, unsure_field: str | None) -> None:
    """Copy a message from standard input to standard output, with its verdict at its head.

    Not a byte is changed but for the field `X-Streamnb: Spam, score=...`, which is added, and any
    of that name, which are removed. On any trouble the message passes unmarked and the exit
    status is 0, or 75 with --strict. If it cannot be written it is 75: the message must be kept.

    The verdict comes from a running `streamnb serve`, within two seconds, or from the database.
    The program `streamnb-filter` does the same faster.

    \b
    Example:
      streamnb filter < message.eml
      streamnb filter -u --threshold 0.99 < message.eml
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.cli.quick import filter_stream

    try:
        client = options.connect(learn=update, record=True)
    except StreamNBError as error:
        pass_unmarked()
        options.notify(f"passed on unmarked: {error}")
        raise click.exceptions.Exit(75 if strict else 0) from None
    status = filter_stream(client, strict, unsure_field)
    if status:
        raise click.exceptions.Exit(status)
