"""`streamnb serve`: the process that stays."""

from __future__ import annotations

import click

from streamnb.cli.options import database_options, open_mailbox
from streamnb.errors import printable

__all__ = ["serve"]


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
    from streamnb.mailbox.location import socket_path
    from streamnb.mailbox.service.judge import Mailboxes
    from streamnb.mailbox.service.listening import Address, listen
    from streamnb.mailbox.service.server import Listener, asked
    from streamnb.mailbox.service.server import serve as served

    with open_mailbox(db, wait, create=True) as mailbox:
        mailboxes = Mailboxes(mailbox)
        listening = listen(Address(socket_path(mailbox.path)))
        served(mailboxes, [Listener("ask", listening, asked(mailboxes, _say))], _say)


def _say(line: str) -> None:
    click.echo(printable(line), err=True)
