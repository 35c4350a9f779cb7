"""`streamnb serve`: the command and its options."""

from __future__ import annotations

from typing import Any

import click

from streamnb.cli import options
from streamnb.cli.serve_settings import Settings
from streamnb.errors import ConfigError
from streamnb.mailbox.service.sockets import Network, parse_network

_LONGEST_TEXT = 300  # characters of a refusal: a reply's line has at most 512 (RFC 5321, 4.5.3.1)
_URL_CHARACTERS = frozenset(":/ ")  # they are in a URL or a port, not in the name of a host


def _reject_text(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    if text is not None and (
        not 0 < len(text) <= _LONGEST_TEXT
        or not all(32 <= ord(character) < 127 for character in text)
    ):
        raise click.BadParameter(f"{text!r:.100}: write 1 to {_LONGEST_TEXT} ASCII characters")
    return text


def _host_names(
    ctx: click.Context, param: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    for name in names:
        if not name or not _URL_CHARACTERS.isdisjoint(name):
            raise click.BadParameter(
                f"{name!r:.100} is not the name of a host; write it without http:// and port"
            )
    return names


def _networks(
    ctx: click.Context, param: click.Parameter, networks: tuple[str, ...]
) -> tuple[Network, ...]:
    try:
        return tuple(map(parse_network, networks))
    except ConfigError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.option("--lmtp", metavar="ADDRESS", help="Receive mail by LMTP and forward it to --next.")
@click.option("--smtp", metavar="ADDRESS", help="Receive mail by SMTP and forward it to --next.")
@click.option(
    "--next",
    "hop",
    metavar="KIND:ADDRESS",
    help="Mail server that gets all mail. KIND is lmtp or smtp.",
)
@click.option("--milter", metavar="ADDRESS", help="Run as a milter for Postfix or Sendmail.")
@click.option(
    "--reject",
    type=options.FiniteRange(0.5, 1),
    metavar="P",
    help="With --milter: refuse sure spam whose probability is at least P.",
)
@click.option(
    "--reject-text",
    callback=_reject_text,
    metavar="TEXT",
    help="The text of a refusal, for example a contact address. The message's id follows it.",
)
@click.option("--http", metavar="ADDRESS", help="Serve programs by HTTP, in JSON.")
@click.option(
    "--model",
    metavar="FILE",
    help="With --http: predict by a model that `fit` or `replay --save` wrote, not by a mailbox.",
)
@click.option(
    "--host-name",
    metavar="NAME",
    multiple=True,
    callback=_host_names,
    help="With --http: another name of this server, such as the name of a container.",
)
@click.option("--users", is_flag=True, help="Serve the databases of all users.")
@click.option(
    "--full-address",
    is_flag=True,
    help="With --users: use the whole address as the user's name. Default: the part before the @.",
)
@click.option(
    "--aliases",
    metavar="FILE",
    help="With --users: a file that maps addresses to users. Each line is ADDRESS USER, @DOMAIN "
    "USER or @DOMAIN @DOMAIN (the addresses of the first domain are those of the second).",
)
@click.option(
    "--delimiter",
    type=options.AnyText(),
    metavar="CHARACTERS",
    help="With --users: characters that begin the extension of an address (ann+lists), as in "
    "Postfix's recipient_delimiter; '' for no extensions. Default: +.",
)
@click.option(
    "--certificate", metavar="FILE", help="Offer STARTTLS with this certificate (PEM; needs --key)."
)
@click.option("--key", metavar="FILE", help="The private key of the certificate.")
@click.option(
    "--trust",
    metavar="NETWORK",
    multiple=True,
    callback=_networks,
    help="Accept mail from this network. Needed if --smtp or --lmtp listens beyond this machine.",
)
@click.option(
    "--per-address",
    type=options.WholeRange(1, 1000),
    metavar="N",
    help="Maximum number of connections from one address. Default: a quarter of all connections, "
    "and no limit for this machine.",
)
@click.option(
    "--log",
    "log_format",
    type=click.Choice(["text", "json"]),
    help="Log a line for every message and label: key=value pairs, or JSON.",
)
@options.judge_options
@options.database_options
def serve(**values: Any) -> None:
    """Run a server for streamnb's commands, for a mail server, and for programs.

    It listens on a Unix socket next to the database (STREAMNB_SOCKET names another path).
    `classify`, `filter` and `streamnb-filter` use the socket if it exists, and the database
    otherwise.

    With --lmtp or --smtp, mail passes through the server, which adds the field `X-Streamnb` and
    returns the answers of the next mail server.

    With --http, programs POST a message to /classify, /learn?label=spam or /forget, and GET
    /status and /metrics. Send the token that is in the file DATABASE.token. GET /health needs no
    token. With --model, programs POST {"text": "..."} or {"texts": [...]} to /predict; GET
    /openapi.json returns the description of this API.

    An ADDRESS is HOST:PORT or the /PATH of a Unix socket. SIGTERM or Ctrl-C ends the server after
    the current messages. In a service of systemd, SIGHUP replaces the process without a pause.

    systemd can open the sockets. FileDescriptorName is then lmtp, smtp, milter or http; for the
    Unix socket of streamnb's commands it is ask.

    \b
    Example:
      streamnb serve &
      streamnb serve --smtp 127.0.0.1:10025 --next smtp:127.0.0.1:10026
      streamnb serve --model tickets.snb --http 127.0.0.1:8025
      streamnb serve --users --lmtp /run/streamnb/lmtp --next lmtp:/run/dovecot/lmtp
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.cli.server_process import run

    run(Settings(**values))
