"""The process of `streamnb serve`: its mailboxes, its listeners, and their handlers."""

from __future__ import annotations

import gc
import os
import socket
import ssl
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from difflib import get_close_matches
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, NoReturn

import click

from streamnb.cli import options
from streamnb.cli.serve_settings import KINDS, MAIL_KINDS, Settings, check_options
from streamnb.errors import (
    BusyError,
    ConfigError,
    DamagedDatabaseError,
    OutputError,
    StreamNBError,
    convert_os_errors,
    require_extra,
)
from streamnb.mailbox.location import (
    base_path,
    companion_path,
    default_path,
    is_url,
    socket_path,
    user_path,
    users_folder,
)
from streamnb.mailbox.service import server
from streamnb.mailbox.service.addresses import DELIMITERS, AddressBook
from streamnb.mailbox.service.certificate import watch_certificate
from streamnb.mailbox.service.handover import owned_names
from streamnb.mailbox.service.http_token import database_token
from streamnb.mailbox.service.mailboxes import Mailboxes
from streamnb.mailbox.service.memory_budget import MemoryBudget
from streamnb.mailbox.service.milter import REJECT_TEXT, milter
from streamnb.mailbox.service.monitor import Monitor, announce, configure_logging
from streamnb.mailbox.service.next_hop import NextHop
from streamnb.mailbox.service.server import ConnectionHandler, Listener, built_later, socket_handler
from streamnb.mailbox.service.sockets import (
    inherited_sockets,
    is_loopback,
    listen,
    parse_address,
    raise_file_limit,
)
from streamnb.mailbox.site_model import SiteModel, open_with_site_model, site_model_of
from streamnb.mailbox.watched_file import WatchedFile
from streamnb.naive_bayes.model_files import read

if TYPE_CHECKING:
    from streamnb.mailbox.service.model_api import Predictor

_MAIL_LIMIT = 20  # simultaneous connections that bring mail
_PREFIX = "STREAMNB_"
_VARIABLES = ("STREAMNB_BASE", "STREAMNB_DB", "STREAMNB_PASSWORD", "STREAMNB_SOCKET",
              "STREAMNB_TRACEBACK", "STREAMNB_UNSERVED", "STREAMNB_URL",
              "STREAMNB_USERS")  # fmt: skip


def run(settings: Settings) -> NoReturn:
    """Serve until SIGTERM, then end the process; raise UsageError if options lack others."""
    # A server runs for months, so it collects cycles more often than other commands do (`main`).
    gc.set_threshold(20_000, 10, 10)
    passed = inherited_sockets()
    if unknown := set(passed) - {*KINDS, "ask"}:
        raise ConfigError(
            f"systemd passed a socket with the unknown name {min(unknown)!r}; set its "
            f"FileDescriptorName to one of {', '.join([*KINDS, 'ask'])}"
        )
    check_options(settings.is_set(passed))
    log = configure_logging(settings.log_format)
    raise_file_limit()
    monitor = Monitor(settings.log_format)
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
    next_hop = _next_hop(settings)
    tls = _tls(settings, monitor)
    with ExitStack() as stack:
        if settings.users:
            mailboxes = _users_mailboxes(settings, monitor)
        else:
            has_mail = settings.is_set(passed)["--lmtp, --smtp or --milter"]
            mailboxes = _single_mailbox(stack, monitor, has_mail)
        monitor.watch_databases(lambda: mailboxes.open_count, lambda: mailboxes.has_fault)
        budget = MemoryBudget()

        def make_handler(name: str) -> ConnectionHandler:
            return _make_handler(name, settings, mailboxes, monitor, next_hop, tls, budget)

        addresses = {"ask": command_address(mailboxes), **settings.addresses}
        listeners = open_listeners(stack, addresses, passed, make_handler, settings)
        mailbox = mailboxes.single
        if mailbox is not None and mailbox.base is None and not mailbox.active_labels:
            monitor.warn(
                f"{mailbox.path}: it has learned nothing, so all verdicts are unsure; "
                "train it with `streamnb learn`"
            )
        server.serve(mailboxes, listeners, announce, monitor)


def _single_mailbox(stack: ExitStack, monitor: Monitor, has_mail: bool) -> Mailboxes:
    """Return the only mailbox.

    If it is damaged or its server cannot be reached, the site's model gives the verdicts until it
    can be opened. Without a site's model, mail passes unmarked. A server without a listener for
    mail raises the error. If --base or STREAMNB_BASE names a damaged site's model, any server
    raises the error, because the path may be misspelt.
    """
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
        from streamnb.mailbox.service.http import AuthMiddleware, http
        from streamnb.mailbox.service.model_api import model_api

    path = str(settings.model)
    model = WatchedFile(path, _read_predictor, monitor.warn)
    monitor.watch_file("model", lambda: model.is_stale)
    token = database_token(path)
    guard = AuthMiddleware(
        model_api(lambda: model.content, monitor),
        lambda user: token,
        path_tokens={"/metrics": database_token(f"{path}.metrics")},
        open_paths=frozenset(["/health", "/openapi.json"]),
        host_names=_all_host_names(settings),
    )
    passed_http = {name: sockets for name, sockets in passed.items() if name == "http"}
    with ExitStack() as stack:
        listeners = open_listeners(
            stack, {"http": settings.http}, passed_http, lambda name: http(guard), settings
        )
        server.serve(Mailboxes(None), listeners, announce, monitor)


def _read_predictor(path: str) -> Predictor:
    """Return the model of a file: a classifier of texts, or a model of rows."""
    from streamnb.any_model import load
    from streamnb.mailbox.service.model_api import RowPredictor, TextPredictor

    model = load(path)  # it reads models of tables, too
    if not isinstance(read(path)[1], dict):
        return RowPredictor(model)
    return TextPredictor(options.load_classifier(path))


def _tls(settings: Settings, monitor: Monitor) -> Callable[[], ssl.SSLContext] | None:
    """Return a function that returns the context for STARTTLS from the current files."""
    if settings.certificate is None or settings.key is None:
        return None
    file = watch_certificate(settings.certificate, settings.key, monitor.warn)
    monitor.watch_file("certificate", lambda: file.is_stale)
    return lambda: file.content


def _next_hop(settings: Settings) -> NextHop | None:
    """Return the next mail server; raise UsageError if it is this server itself."""
    if settings.hop is None:
        return None
    hop = parse_hop(settings.hop)
    if hop.address in [parse_address(text) for text in (settings.lmtp, settings.smtp) if text]:
        raise click.UsageError(
            f"--next {hop.address}: the server itself listens there; give "
            "the address of the next mail server"
        )
    return hop


def _all_host_names(settings: Settings) -> frozenset[str]:
    """Return the names by which programs may address the HTTP listener."""
    from streamnb.mailbox.service.http import HOST_NAME

    return frozenset([HOST_NAME, *map(str.lower, settings.host_name)])


def parse_hop(text: str) -> NextHop:
    """Return the next mail server of the option `--next`."""
    kind, _, address = text.partition(":")
    if kind not in ("lmtp", "smtp"):
        raise click.BadParameter(
            f"{text!r:.100} is not lmtp:ADDRESS or smtp:ADDRESS", param_hint="--next"
        )
    return NextHop(kind == "lmtp", parse_address(address))


def _make_handler(
    name: str,
    settings: Settings,
    mailboxes: Mailboxes,
    monitor: Monitor,
    next_hop: NextHop | None,
    tls: Callable[[], ssl.SSLContext] | None,
    budget: MemoryBudget,
) -> ConnectionHandler:
    """Return the handler of a kind of listener."""
    if name == "ask":
        return socket_handler(mailboxes, monitor, budget)
    judge_options = options.current_judge_options()
    if name == "milter":
        reject, text = settings.reject, settings.reject_text or REJECT_TEXT
        return milter(mailboxes, monitor, judge_options, reject, text, budget)
    if name == "http":
        return _http_handler(settings, mailboxes, monitor, budget)
    with require_extra("server", "{}: not installed"):
        from streamnb.mailbox.service.proxy import proxy
    assert next_hop is not None  # noqa: S101 (checked by the command)
    return proxy(next_hop, mailboxes, monitor, name == "lmtp", judge_options, tls, budget)


def _http_handler(
    settings: Settings, mailboxes: Mailboxes, monitor: Monitor, budget: MemoryBudget
) -> ConnectionHandler:
    """Return the handler of HTTP. The first request imports its modules.

    They take a third of the time of a start, in which mail waits.
    """
    with require_extra("server", "{}: not installed"):
        for name in ("prometheus_client", "starlette", "uvicorn"):
            if find_spec(name) is None:
                raise ModuleNotFoundError(name=name)
    token, scrape_token = _token(mailboxes, monitor), _scrape_token(mailboxes)

    def build() -> ConnectionHandler:
        from streamnb.mailbox.service.api import api
        from streamnb.mailbox.service.http import AuthMiddleware, http

        guard = AuthMiddleware(
            api(mailboxes, monitor),
            token,
            path_tokens={"/metrics": scrape_token},
            open_paths=frozenset(["/health"]),
            host_names=_all_host_names(settings),
            budget=budget,
        )
        return http(guard)

    return built_later(build)


def _token(mailboxes: Mailboxes, monitor: Monitor) -> Callable[[str | None], str]:
    """Return a function that returns the token of a user's database, or of the only one."""
    only = None if mailboxes.location is None else database_token(mailboxes.location)

    def of_user(user: str | None) -> str:
        if only is not None and user is None:
            return only
        with suppress(ConfigError):
            path = user_path(mailboxes.addresses.user_of_query(user) or "")
            try:
                if only is None and os.path.exists(path):
                    return database_token(path)
            except OutputError as error:
                monitor.warn(str(error))
        raise LookupError("no such user")

    return of_user


def _scrape_token(mailboxes: Mailboxes) -> str:
    """Return the token in the file `metrics.token`, which is valid only for the metrics."""
    location = mailboxes.location
    if location is None:
        return database_token(f"{users_folder()}/metrics")
    return database_token(companion_path(location, ".metrics"))


def command_address(mailboxes: Mailboxes) -> str:
    """Return the address of the Unix socket for streamnb's commands."""
    location = mailboxes.location
    path = socket_path("", "all") if location is None else socket_path(location)
    if location is not None and is_url(location):  # no database has created the folder
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    return f"unix:{path}"


def open_listeners(
    stack: ExitStack,
    wanted: dict[str, str | None],
    passed: dict[str, list[socket.socket]],
    handler: Callable[[str], ConnectionHandler],
    settings: Settings,
) -> list[Listener]:
    """Return listeners at all addresses of the options and of systemd; the stack closes them.

    Raises
    ------
    ConfigError
        If a listener would accept mail from other machines without `--trust`.
    """
    addresses = {
        name: parse_address(text) for name, text in wanted.items() if text and name not in passed
    }
    most = {"lmtp": _MAIL_LIMIT, "smtp": _MAIL_LIMIT, "milter": 5 * _MAIL_LIMIT}
    handlers = {name: handler(name) for name in (*addresses, *passed)}
    listeners: list[Listener] = []
    for name, address in addresses.items():
        # the mail server must be a member of this server's group
        mode = 0o660 if name in most else 0o600
        sock = stack.enter_context(listen(address, mode))
        listeners.append(Listener(name, sock, handlers[name], most.get(name, 64)))
    for name, sockets in passed.items():
        for sock in map(stack.enter_context, sockets):
            limit = most.get(name, 64)
            is_owned = name in owned_names()
            listeners.append(Listener(name, sock, handlers[name], limit, is_owned=is_owned))
    _set_access(listeners, settings)
    return listeners


def _set_access(listeners: Iterable[Listener], settings: Settings) -> None:
    """Set the networks that may connect. Raise ConfigError if any machine could send mail."""
    for listener in listeners:
        listener.address_limit = settings.per_address
        if listener.name in MAIL_KINDS:
            listener.trusted = settings.trust
            host = listener.socket.getsockname()
            if isinstance(host, tuple) and not is_loopback(host[0]) and not settings.trust:
                raise ConfigError(
                    f"--{listener.name} {listener.address}: other machines could send mail "
                    "through it; listen on 127.0.0.1, or name the allowed networks with "
                    "--trust NETWORK"
                )
