"""`streamnb filter`, for the delivery of mail."""

from __future__ import annotations

import sys

import click

from streamnb.cli import options
from streamnb.cli.quick import filter_stream, give_up
from streamnb.errors import StreamNBError
from streamnb.mailbox.service.passthrough import pass_through
from streamnb.mailbox.service.response import FIELD


class _PassingCommand(options.MailCommand):
    """A command that copies the message even if its options are wrong."""

    usage_status = 75

    def on_usage_error(self) -> None:
        pass_unmarked()


def pass_unmarked() -> None:
    """Copy a message without a verdict."""
    if sys.stdin is not None and sys.stdout is not None:
        try:
            pass_through(sys.stdin.buffer, sys.stdout.buffer, None)
        except OSError as error:
            give_up(error)


def _field(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    if text is None:
        return None
    name, colon, value = text.partition(":")
    printable = all(32 <= ord(c) < 127 for c in text)
    if not colon or not name or not value.strip() or " " in name or not printable:
        raise click.BadParameter(f"{text!r:.100} is not 'Name: value' in ASCII")
    if name.strip().lower() == FIELD.lower():
        raise click.BadParameter(f"{name} is the field for the verdict; choose another name")
    return text


@click.command("filter", cls=_PassingCommand)
@click.option(
    "--strict",
    is_flag=True,
    help="On any error, exit with status 75, so that the mail server retries.",
)
@click.option(
    "-u",
    "--update",
    is_flag=True,
    help="Learn messages with a sure verdict. Such a label never replaces a person's label.",
)
@click.option(
    "--unsure-header",
    "unsure_field",
    metavar="'NAME: VALUE'",
    callback=_field,
    help="Header field to add if the verdict is unsure.",
)
@options.judge_options
@options.database_options
def filter_(strict: bool, update: bool, unsure_field: str | None) -> None:
    """Copy a message from standard input to standard output and add its verdict to the header.

    The field `X-Streamnb: Spam, score=...` is added, and existing fields of that name are removed.
    A carriage return ends a line, too, because some programs read it so. All other bytes stay.
    After an error, the message is copied without a verdict and the exit status is 0, or 75 with
    --strict. If the message cannot be written, the exit status is 75: keep the message.

    The verdict comes from a running `streamnb serve`, within two seconds, or from the database.
    The program `streamnb-filter` does the same faster.

    \b
    Example:
      streamnb filter < message.eml
      streamnb filter -u --threshold 0.99 < message.eml
    """  # noqa: D301 (click's mark for lines that stay as they are)
    try:
        client = options.connect(learn=update, record=True)
    except StreamNBError as error:
        pass_unmarked()
        options.notify(f"passed on unmarked: {error}")
        raise click.exceptions.Exit(75 if strict else 0) from None
    status = filter_stream(client, strict, unsure_field)
    if status:
        raise click.exceptions.Exit(status)
