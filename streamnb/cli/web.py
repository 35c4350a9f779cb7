"""`streamnb web`: a page in a browser. `streamnb verdicts`: what it shows."""

from __future__ import annotations

import json
import secrets
from contextlib import closing, nullcontext
from typing import Any

import click

from streamnb.cli.options import FiniteRange, database_options, echo_err, json_option, open_mailbox
from streamnb.cli.sources import server_options
from streamnb.errors import ConfigError, require_extra


@click.command()
@click.argument("account", required=False)
@click.option(
    "--listen",
    default="127.0.0.1:8026",
    show_default=True,
    metavar="HOST:PORT",
    help="Where the page is; port 0 for any that is free.",
)
@server_options
@database_options
def web(account: str | None, listen: str) -> None:
    """Open a page for a browser on this machine: what to look at, how well it does, what it knows.

    It shows mail that `streamnb watch`, `filter` and `serve` were unsure of or have moved; a click
    teaches it, another takes that back. With an ACCOUNT (a Maildir or imap://USER@HOST) it shows
    the text of messages, each word tinted by what it says. Nothing is fetched from elsewhere.

    Whoever has the address that it prints can see and teach all that: it holds a secret.

    \b
    Example:
      streamnb web
      streamnb web ~/Maildir --listen 127.0.0.1:0
    """  # noqa: D301 (click's mark for lines that stay as they are)
    with require_extra("web", "{}: not installed"):
        from streamnb.mailbox.service.http import AuthMiddleware, database_token, http
        from streamnb.web.app import pages
    from streamnb.cli.watch import open_account
    from streamnb.mailbox.service.mailboxes import Mailboxes
    from streamnb.mailbox.service.sockets import listen as listening_at
    from streamnb.mailbox.service.sockets import parse_address
    from streamnb.mailbox.service.server import Listener, serve

    address = parse_address(listen)
    if not address.here or address.path is not None:
        raise ConfigError(f"{listen}: the page is for this machine alone: 127.0.0.1:PORT")
    with open_mailbox(create=True) as mailbox:
        token, session = database_token(mailbox.location), secrets.token_urlsafe(32)
        reached = None if account is None else open_account(account)[0]
        with nullcontext() if reached is None else closing(reached):
            guard = AuthMiddleware(
                pages(mailbox, session, reached), lambda user: token, session=session
            )
            listener = Listener("web", listening_at(address), http(guard))
            click.echo(f"http://{listener.where}/?token={token}")
            serve(Mailboxes(mailbox), [listener], echo_err)


@click.command()
@click.option("--most", type=click.IntRange(0, 100_000), metavar="N", help="Keep N; 0 for none.")
@click.option("--days", type=FiniteRange(0, 36_500), metavar="DAYS", help="Keep them for so long.")
@database_options
@json_option
def verdicts(most: int | None, days: float | None, as_json: bool) -> None:
    """Say what is kept of mail that was judged, for `streamnb web`; or how much of it to keep.

    Sender, subject, verdict and features of the last 500 messages of 30 days are kept in the
    database. `streamnb forget --erase` removes a message, or a sender, from it.

    \b
    Example:
      streamnb verdicts
      streamnb verdicts --most 0
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.mailbox.record import Record

    given = {"most": most, "days": days}
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    with open_mailbox() as mailbox:
        kept = Record(mailbox)
        if changed:
            kept.limit(kept.bounds._replace(**changed))
        bounds, entries = kept.bounds, kept.entries(most=100_000)
    if as_json:
        for entry in entries:
            click.echo(json.dumps({**entry._asdict(), "digest": entry.digest.hex()}))
        return
    click.echo(f"{len(entries):,} messages; at most {bounds.most:,}, for {bounds.days:g} days")
