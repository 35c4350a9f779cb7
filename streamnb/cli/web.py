"""`streamnb web`, a page in a browser, and `streamnb verdicts`, the verdicts that it shows."""

from __future__ import annotations

import json
import secrets
import sys
from contextlib import closing, nullcontext
from datetime import datetime
from typing import Any

import click

from streamnb.cli import options
from streamnb.cli.sources import server_options
from streamnb.cli.watch import open_account
from streamnb.errors import ConfigError, printable, require_extra
from streamnb.mailbox.service import sockets
from streamnb.mailbox.service.http_token import database_token


@click.command()
@click.argument("account", required=False)
@click.option(
    "--listen",
    default="127.0.0.1:8026",
    show_default=True,
    metavar="HOST:PORT",
    help="Address of the page; port 0 for any free port.",
)
@server_options
@options.database_options
def web(account: str | None, listen: str) -> None:
    """Serve a page for a browser on this machine, with mail to check, accuracy and words.

    The page lists mail with an unsure verdict of `streamnb watch`, `filter` or `serve`, and moved
    mail. One click labels a message, and another click removes the label. With an ACCOUNT (a
    Maildir or imap://USER@HOST) it shows the text of messages. It loads nothing from the network.

    The printed address contains a secret: everyone who has it can see and label your mail.

    \b
    Example:
      streamnb web
      streamnb web ~/Maildir --listen 127.0.0.1:0
    """  # noqa: D301 (\b tells click to keep the lines)
    with require_extra("web", "{}: not installed"):
        from streamnb.mailbox.service.http import AuthMiddleware, http
        from streamnb.web.app import pages
    from streamnb.mailbox.service.mailboxes import Mailboxes
    from streamnb.mailbox.service.server import Listener, serve

    address = sockets.parse_address(listen)
    if not address.is_local or address.path is not None:
        raise ConfigError(f"{listen}: the page is only for this machine; listen on 127.0.0.1:PORT")
    with options.open_mailbox(create=True) as mailbox:
        token, session = database_token(mailbox.location), secrets.token_urlsafe(32)
        opened = None if account is None else open_account(account)[0]
        with nullcontext() if opened is None else closing(opened):
            guard = AuthMiddleware(
                pages(mailbox, session, opened), lambda user: token, session=session
            )
            listener = Listener("web", sockets.listen(address), http(guard))
            click.echo(f"http://{listener.address}/?token={token}")
            serve(Mailboxes(mailbox), [listener], options.echo_err)


@click.command()
@click.option(
    "--most",
    type=options.WholeRange(0, 100_000),
    metavar="N",
    help="Change the largest number of stored verdicts; 0 stores none. A new database stores 500.",
)
@click.option(
    "--days",
    type=options.FiniteRange(0, 36_500),
    metavar="DAYS",
    help="Change how long verdicts are stored. A new database stores them for 30 days.",
)
@click.option(
    "--find",
    "text",
    metavar="TEXT",
    help="List the stored verdicts whose sender, subject, queue id or Message-ID contains "
    "TEXT. Exit status 1 if there is none.",
)
@options.database_options
@options.json_option
def verdicts(most: int | None, days: float | None, text: str | None, as_json: bool) -> None:
    """Show or set the limits of stored verdicts, or find verdicts.

    The database stores sender, subject, verdict and features of classified mail for `streamnb
    web`: at most 500 messages of the last 30 days. `streamnb forget --erase` deletes the verdicts
    of a message or a sender.

    \b
    Example:
      streamnb verdicts
      streamnb verdicts --most 0
      streamnb verdicts --find 4fWxyz12AbC
    """  # noqa: D301 (\b tells click to keep the lines)
    from streamnb.mailbox.verdict_log import VerdictLog

    limits = {"most": most, "days": days}
    changed: dict[str, Any] = {name: value for name, value in limits.items() if value is not None}
    with options.open_mailbox() as mailbox:
        record = VerdictLog(mailbox)
        if changed:
            record.limit(record.limits._replace(**changed))
        bounds, entries = record.limits, record.entries(search=text or "", most=100_000)
    if as_json:
        for entry in entries:
            click.echo(json.dumps({**entry._asdict(), "digest": entry.digest.hex()}))
    elif text is not None:
        for entry in entries:
            verdict = (
                f"{entry.mark} {entry.label or 'unknown'} {entry.probability:.4f} ({entry.place})"
            )
            time = f"{datetime.fromtimestamp(entry.time):%F %T}"
            click.echo(printable(f"{time} {verdict}: {entry.sender}: {entry.subject}"))
    else:
        click.echo(
            f"{len(entries):,} verdicts; limit: {bounds.most:,} verdicts, {bounds.days:g} days"
        )
    if text is not None and not entries:
        options.echo_err(f"no stored verdict has {printable(text)!r:.100}")
        sys.exit(1)
