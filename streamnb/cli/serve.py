"""`streamnb serve`: the server process."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from streamnb.cli import options
from streamnb.cli.listeners import HandlerFactory, command_address, open_listeners
from streamnb.cli.serve_settings import KINDS, Settings, check_options
from streamnb.errors import (
    BusyError,
    ConfigError,
    DamagedDatabaseError,
    OutputError,
    StreamNBError,
    convert_os_errors,
    require_extra,
)

if TYPE_CHECKING:
    import ssl

    from streamnb.mailbox.service.mailboxes import Mailboxes
    from streamnb.mailbox.service.model_api import Predictor
    from streamnb.mailbox.service.monitor import Monitor
    from streamnb.mailbox.service.sockets import Network

_LONGEST_TEXT = 300  # characters of a refusal: a reply's line has at most 512 (RFC 5321, 4.5.3.1)
_URL_CHARACTERS = frozenset(":/ ")  # they are in a URL or a port, not in the name of a host


_PREFIX = "STREAMNB_"
_VARIABLES = ("STREAMNB_BASE", "STREAMNB_DB", "STREAMNB_PASSWORD", "STREAMNB_SOCKET",
              "STREAMNB_TRACEBACK", "STREAMNB_UNSERVED", "STREAMNB_URL",
              "STREAMNB_USERS")  # fmt: skip


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
    from streamnb.mailbox.service.sockets import parse_network

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
    help="Log a line for every message: key=value pairs, or JSON.",
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
    the current messages. A service ignores SIGHUP, because it reads changed files without it.

    systemd can open the sockets. FileDescriptorName is then lmtp, smtp, milter or http; for the
    Unix socket of streamnb's commands it is ask.

    \b
    Example:
      streamnb serve &
      streamnb serve --smtp 127.0.0.1:10025 --next smtp:127.0.0.1:10026
      streamnb serve --model tickets.snb --http 127.0.0.1:8025
      streamnb serve --users --lmtp /run/streamnb/lmtp --next lmtp:/run/dovecot/lmtp
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.mailbox.service.monitor import Monitor, configure_logging
    from streamnb.mailbox.service.sockets import inherited_sockets, raise_file_limit

    # A server runs for months, so it collects cycles more often than other commands do (`main`).
    gc.set_threshold(20_000, 10, 10)
    settings = Settings(**values)
    passed = inherited_sockets()
    if unknown := set(passed) - {*KINDS, "ask"}:
        raise ConfigError(
            f"systemd passed a socket with the unknown name {min(unknown)!r}; set its "
            f"FileDescriptorName to one of {', '.join([*KINDS, 'ask'])}"
        )
    check_options(settings.is_set(passed))
    log = configure_logging(settings.log_format)
    raise_file_limit()
    with require_extra("server", "{}: not installed"):
        monitor = Monitor(settings.log_format, metrics=bool(settings.http or "http" in passed))
    for warning in _misspelt_variables(os.environ):
        monitor.warn(warning)
    try:
        if settings.model is not None:
            _serve_model(settings, passed, monitor)
        else:
            _serve_mailboxes(settings, passed, monitor)
    finally:
        log.close()
    os._exit(0)  # a normal exit would wait for a thread that a hanging next hop blocks


def _serve_mailboxes(
    settings: Settings, passed: dict[str, list[socket.socket]], monitor: Monitor
) -> None:
    """Serve one mailbox, or those of all users, until SIGTERM."""
    from streamnb.mailbox.service.memory_budget import MemoryBudget
    from streamnb.mailbox.service.monitor import announce
    from streamnb.mailbox.service.server import serve as served

    next_hop = settings.next_hop()
    tls = _tls(settings, monitor)
    with ExitStack() as stack:
        if settings.users:
            mailboxes = _users_mailboxes(settings, monitor)
        else:
            has_mail = settings.is_set(passed)["--lmtp, --smtp or --milter"]
            mailboxes = _single_mailbox(stack, monitor, has_mail)
        monitor.watch_databases(lambda: mailboxes.open_count, lambda: mailboxes.has_fault)
        make = HandlerFactory(
            settings,
            mailboxes,
            next_hop,
            tls,
            monitor,
            options.current_judge_options(),
            MemoryBudget(),
        )
        addresses = {"ask": command_address(mailboxes), **settings.addresses}
        listeners = open_listeners(stack, addresses, passed, make.handler, settings)
        mailbox = mailboxes.single
        if mailbox is not None and mailbox.base is None and not mailbox.active_labels:
            monitor.warn(
                f"{mailbox.path}: it has learned nothing, so all verdicts are unsure; "
                "train it with `streamnb learn`"
            )
        served(mailboxes, listeners, announce, monitor)


def _single_mailbox(stack: ExitStack, monitor: Monitor, has_mail: bool) -> Mailboxes:
    """Return the only mailbox.

    If it is damaged or its server cannot be reached, the site's model gives the verdicts until it
    can be opened. Without a site's model, mail passes unmarked. A server without a listener for
    mail raises the error. If --base or STREAMNB_BASE names a damaged site's model, any server
    raises the error, because the path may be misspelt.
    """
    from streamnb.mailbox.location import base_path, default_path, is_url
    from streamnb.mailbox.service.mailboxes import Mailboxes
    from streamnb.mailbox.site_model import open_with_site_model, site_model_of

    path = options.shared_value("db") or default_path()
    wait, base = options.shared_value("wait"), options.site_model_path()
    named_path = options.shared_value("base") or base_path(None)
    site_model = site_model_of(path, wait, named_path)
    if site_model is not None:
        site_model.check()
    reopen = partial(open_with_site_model, path, False, wait, base, monitor.warn)
    try:
        mailbox = stack.enter_context(options.open_mailbox(True, monitor.warn))
    except (BusyError, DamagedDatabaseError) as error:
        if not has_mail:
            raise
        fallback = site_model_of(path, wait, base, monitor.warn)
        effect = "mail passes unmarked" if fallback is None else "only the site's model is used"
        monitor.warn(f"{effect}: {error}")
        # If an administrator deletes a damaged file to restore it, no empty one may replace it.
        if is_url(path) or not os.path.lexists(path):
            reopen = partial(open_with_site_model, path, True, wait, base, monitor.warn)
        mailboxes = Mailboxes(
            None,
            fallback,
            open_single=reopen,
            location=path if is_url(path) else os.path.abspath(path),
            warn=monitor.warn,
        )
        mailboxes.begin_outage(error)
    else:
        mailboxes = Mailboxes(mailbox, mailbox.base, open_single=reopen, warn=monitor.warn)
        mailboxes.begin_check()
    return mailboxes


def _misspelt_variables(environment: Iterable[str]) -> list[str]:
    """Return a line for each variable whose name is nearly one of streamnb's.

    Examples
    --------
    >>> _misspelt_variables(["STREAMNB_USER", "STREAMNB_DB", "HOME"])
    ['STREAMNB_USER: warning: unknown variable; did you mean STREAMNB_USERS?']
    """
    from difflib import get_close_matches

    # without the common prefix, which makes all names similar
    endings = [variable.removeprefix(_PREFIX) for variable in _VARIABLES]
    return [
        f"{name}: warning: unknown variable; did you mean {_PREFIX}{near}?"
        for name in sorted(environment)
        if name.startswith(_PREFIX) and name not in _VARIABLES
        for near in get_close_matches(name.removeprefix(_PREFIX), endings, 1, 0.8)
    ]


def _users_mailboxes(settings: Settings, monitor: Monitor) -> Mailboxes:
    """Return the mailboxes of many users, with the site's model."""
    from streamnb.mailbox.location import base_path, users_folder
    from streamnb.mailbox.service.addresses import DELIMITERS, AddressBook
    from streamnb.mailbox.service.mailboxes import Mailboxes
    from streamnb.mailbox.site_model import SiteModel

    delimiters = DELIMITERS if settings.delimiter is None else settings.delimiter
    addresses = AddressBook(settings.full_address, settings.aliases, monitor.warn, delimiters)
    folder = users_folder()
    with convert_os_errors(
        OutputError, f"{folder}: the folder of the users (STREAMNB_USERS) cannot be made"
    ):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    named_path, wait = options.site_model_path(), options.shared_value("wait")

    def find_base() -> SiteModel | None:
        path = named_path or base_path("all")
        if path is None:
            return None
        base = SiteModel(path, wait, monitor.warn)
        try:
            _ = base.version
        except StreamNBError as error:
            if named_path:  # the path may be misspelt; a default path is not, and mail must pass
                raise
            monitor.warn(f"the site's model is not used: {error}")
        return base

    mailboxes = Mailboxes(
        None, find_base(), addresses=addresses, find_base=find_base, warn=monitor.warn
    )
    monitor.watch_file("aliases", lambda: addresses.is_stale)
    monitor.watch_file("site", lambda: mailboxes.base is not None and mailboxes.base.is_stale)
    return mailboxes


def _serve_model(
    settings: Settings, passed: dict[str, list[socket.socket]], monitor: Monitor
) -> None:
    """Answer with the predictions of a model file until SIGTERM."""
    with require_extra("server", "{}: not installed"):
        from streamnb.mailbox.service.http import AuthMiddleware, database_token, http
        from streamnb.mailbox.service.model_api import model_api
    from streamnb.mailbox.service.mailboxes import Mailboxes
    from streamnb.mailbox.service.monitor import announce
    from streamnb.mailbox.service.server import serve as served
    from streamnb.mailbox.watched_file import WatchedFile

    path = str(settings.model)
    model = WatchedFile(path, _read_predictor, monitor.warn)
    monitor.watch_file("model", lambda: model.is_stale)
    token = database_token(path)
    guard = AuthMiddleware(
        model_api(lambda: model.content, monitor),
        lambda user: token,
        path_tokens={"/metrics": database_token(f"{path}.metrics")},
        open_paths=frozenset(["/health", "/openapi.json"]),
        host_names=settings.all_host_names(),
    )
    passed_http = {name: sockets for name, sockets in passed.items() if name == "http"}
    with ExitStack() as stack:
        listeners = open_listeners(
            stack, {"http": settings.http}, passed_http, lambda name: http(guard), settings
        )
        served(Mailboxes(None), listeners, announce, monitor)


def _read_predictor(path: str) -> Predictor:
    """Return the model of a file: a classifier of texts, or a model of rows."""
    from streamnb.any_model import load
    from streamnb.mailbox.service.model_api import RowPredictor, TextPredictor
    from streamnb.naive_bayes.model_files import read

    model = load(path)  # it reads models of tables, too
    if not isinstance(read(path)[1], dict):
        return RowPredictor(model)
    return TextPredictor(options.load_classifier(path))


def _tls(settings: Settings, monitor: Monitor) -> Callable[[], ssl.SSLContext] | None:
    """Return a function that returns the context for STARTTLS from the current files."""
    if settings.certificate is None or settings.key is None:
        return None
    from streamnb.mailbox.service.certificate import watch_certificate

    file = watch_certificate(settings.certificate, settings.key, monitor.warn)
    monitor.watch_file("certificate", lambda: file.is_stale)
    return lambda: file.content
