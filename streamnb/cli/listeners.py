"""The listeners of `streamnb serve`, and the handlers of their connections."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamnb.cli.serve_settings import MAIL_KINDS, Settings
from streamnb.errors import ConfigError, OutputError, require_extra

if TYPE_CHECKING:
    import ssl

    from streamnb.mailbox.service.mailboxes import Mailboxes
    from streamnb.mailbox.service.memory_budget import MemoryBudget
    from streamnb.mailbox.service.monitor import Monitor
    from streamnb.mailbox.service.next_hop import NextHop
    from streamnb.mailbox.service.response import JudgeOptions
    from streamnb.mailbox.service.server import ConnectionHandler, Listener

_MAIL_LIMIT = 20  # simultaneous connections that bring mail


@dataclass(frozen=True, eq=False)
class HandlerFactory:
    """Creates the handlers of listeners; imports only the modules that they need."""

    settings: Settings
    mailboxes: Mailboxes
    next_hop: NextHop | None
    tls: Callable[[], ssl.SSLContext] | None
    monitor: Monitor
    judge_options: JudgeOptions
    budget: MemoryBudget

    def handler(self, name: str) -> ConnectionHandler:
        """Return the handler of a kind of listener."""
        if name == "ask":
            from streamnb.mailbox.service.server import socket_handler

            return socket_handler(self.mailboxes, self.monitor, self.budget)
        if name == "milter":
            return self._milter()
        if name == "http":
            return self._http()
        with require_extra("server", "{}: not installed"):
            from streamnb.mailbox.service.proxy import proxy
        assert self.next_hop is not None  # noqa: S101 (checked by the command)
        return proxy(
            self.next_hop, self.mailboxes, self.monitor, name == "lmtp", self.judge_options,
            self.tls, self.budget,
        )  # fmt: skip

    def _milter(self) -> ConnectionHandler:
        from streamnb.mailbox.service.milter import REJECT_TEXT, milter

        reject, text = self.settings.reject, self.settings.reject_text or REJECT_TEXT
        return milter(
            self.mailboxes, self.monitor, self.judge_options, reject, text, self.budget
        )  # fmt: skip

    def _http(self) -> ConnectionHandler:
        with require_extra("server", "{}: not installed"):
            from streamnb.mailbox.service.api import api
            from streamnb.mailbox.service.http import AuthMiddleware, http
        guard = AuthMiddleware(
            api(self.mailboxes, self.monitor),
            _token(self.mailboxes, self.monitor),
            path_tokens={"/metrics": _scrape_token(self.mailboxes)},
            open_paths=frozenset(["/health"]),
            host_names=self.settings.all_host_names(),
            budget=self.budget,
        )
        return http(guard)


def _token(mailboxes: Mailboxes, monitor: Monitor) -> Callable[[str | None], str]:
    """Return a function that returns the token of a user's database, or of the only one."""
    from streamnb.mailbox.location import user_path
    from streamnb.mailbox.service.http import database_token

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
    from streamnb.mailbox.location import companion_path, users_folder
    from streamnb.mailbox.service.http import database_token

    location = mailboxes.location
    if location is None:
        return database_token(f"{users_folder()}/metrics")
    return database_token(companion_path(location, ".metrics"))


def command_address(mailboxes: Mailboxes) -> str:
    """Return the address of the Unix socket for streamnb's commands."""
    from streamnb.mailbox.location import is_url, socket_path

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
    from streamnb.mailbox.service.server import Listener
    from streamnb.mailbox.service.sockets import listen, parse_address

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
            listeners.append(Listener(name, sock, handlers[name], limit, is_owned=False))
    _set_access(listeners, settings)
    return listeners


def _set_access(listeners: Iterable[Listener], settings: Settings) -> None:
    """Set the networks that may connect. Raise ConfigError if any machine could send mail."""
    from streamnb.mailbox.service.sockets import is_loopback

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
