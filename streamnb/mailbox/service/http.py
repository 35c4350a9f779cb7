"""HTTP for programs and browsers on this machine: authentication and connections."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import socket
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from streamnb.mailbox.service.memory_budget import MemoryBudget
from streamnb.mailbox.service.server import Activity, ConnectionHandler
from streamnb.mailbox.service.sockets import is_ip

Scope = dict[str, Any]
App = Callable[[Scope, Any, Any], Coroutine[Any, Any, None]]

_COOKIE = "streamnb-token"
logging.getLogger("uvicorn").addHandler(logging.NullHandler())
# The library's log is off, because clients without a token could fill it.
logging.getLogger("uvicorn").propagate = False
_HEADER = 10.0  # seconds within which a request must begin, because the client has no token yet
_LONGEST = 120.0  # age in seconds after which a connection ends with its next answer
_CLOSE = (b"connection", b"close")
_GRACE = 10.0  # seconds for a request to end when the server stops
_LARGEST = 64 << 20  # limit in bytes of a request's body
HOST_NAME = "localhost"  # the only name of this server unless others are given


@dataclass(eq=False, repr=False)
class AuthMiddleware:
    """Middleware that passes requests from this machine with the right token.

    Parameters
    ----------
    app
        The application.
    token
        Function that returns a user's token; the user is None for a single database. It raises
        LookupError for an unknown user.
    session
        The secret in a browser's cookie, which replaces the token. None without browsers; errors
        are then in JSON.
    path_tokens
        Further tokens by path: each is valid for its path only.
    open_paths
        Paths that need no token.
    host_names
        Names of this server. Requests can also name any numeric address.
    budget
        Memory that the bodies of all requests share. If it is used up, a large request waits, and
        gets status 503 after the time limit.
    """

    app: App
    token: Callable[[str | None], str]
    session: str | None = None
    path_tokens: Mapping[str, str] = field(default_factory=dict)
    open_paths: frozenset[str] = frozenset()
    host_names: frozenset[str] = frozenset([HOST_NAME])
    budget: MemoryBudget = field(default_factory=MemoryBudget)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Refuse a request or pass it."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await self._response(*refusal)(scope, receive, send)
            return
        memory = self.budget.message()

        async def receive_bounded() -> Any:
            message = await receive()
            size = len(message.get("body", b""))
            if memory.size + size > _LARGEST:
                raise HTTPException(
                    413, f"the body is too large; the limit is {_LARGEST >> 20} MiB"
                )
            if not await memory.take(size):
                raise HTTPException(503, "too many large messages at once; try again later")
            return message

        try:
            await self.app(scope, receive_bounded, send)
        finally:
            memory.release()

    def _response(self, status: int, reason: str) -> Response:
        headers = {"connection": "close"}
        if self.session is None:
            return JSONResponse({"error": reason}, status, headers)
        return PlainTextResponse(f"{reason}\n", status, headers)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return status and reason of a refusal, or None to pass the request."""
        request = Request(scope)
        headers = request.headers
        host = headers.get("host")  # None in requests of HTTP 1.0, which browsers do not send
        # a page of another site whose name now resolves to this machine
        if host is not None and not self._is_own_name(host):
            names = ", ".join(sorted(self.host_names))
            return 421, f"the Host {host!r:.100} is not this server; use 127.0.0.1 or {names}"
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return (
                403,
                f"the Origin {origin!r:.100} is another site; requests of other sites are refused",
            )
        if not 0 <= int(headers.get("content-length", "0")) <= _LARGEST:
            return 413, "the message is too large"
        path = request.scope.get("path", "")
        if path in self.open_paths:
            return None
        users = request.query_params.getlist("user")
        valid = [self.path_tokens[path]] if path in self.path_tokens else []
        with suppress(LookupError):  # a client without a token must not find out which users exist
            valid.append(self.token(users[0] or None if users else None))
        scheme, _, token = headers.get("authorization", "").partition(" ")
        sent = [token if scheme.lower() == "bearer" else "", *request.query_params.getlist("token")]
        pairs = [(text, secret) for text in sent for secret in valid]
        if self.session is not None:
            cookies = request.cookies.items()
            pairs += [(text, self.session) for name, text in cookies if name.startswith(_COOKIE)]
        is_valid = any(hmac.compare_digest(text.encode(), key.encode()) for text, key in pairs)
        if len(users) > 1 or not is_valid:
            return 401, "the token is missing or wrong; send the content of the .token file"
        return None

    def _is_own_name(self, host: str) -> bool:
        """Return whether a field Host has a name of this server, or a numeric address."""
        name = (host if host.endswith("]") else host.rpartition(":")[0] or host).lower()
        return name in self.host_names or is_ip(name.strip("[]"))


def cookie_name(port: int | None) -> str:
    """Return the name of the cookie of a page at a port.

    Browsers send cookies to all ports of a host, so pages of several databases would replace
    each other's.
    """
    return _COOKIE if port is None else f"{_COOKIE}-{port}"


def http(app: App) -> ConnectionHandler:
    """Return the handler of connections that speak HTTP."""
    config = Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=10,
    )
    config.load()
    state = ServerState()

    async def talk(connection: socket.socket, activity: Activity | None = None) -> None:
        activity = activity or Activity()
        transport, protocol = await asyncio.get_running_loop().connect_accepted_socket(
            lambda: _Protocol(activity, config, state, {}), connection
        )
        try:
            try:
                async with asyncio.timeout(_HEADER):
                    await protocol.requested.wait()
            except TimeoutError:
                transport.abort()
            for _ in range(2):
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LONGEST):
                        await protocol.ended.wait()
                protocol.close_after_answer()
            await protocol.finish()
        except asyncio.CancelledError:  # the server stops, or other connections wait
            await protocol.finish()
            raise

    return talk


class _Protocol(H11Protocol):
    """A connection that reports when its first request starts, and when it ends itself."""

    def __init__(self, activity: Activity, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.activity = activity
        self.requested, self.ended = asyncio.Event(), asyncio.Event()
        self._is_old = False

    def handle_events(self) -> None:
        self.activity.touch()
        super().handle_events()
        if self.cycle is not None:
            self.requested.set()
        if self._is_old:
            self.close_after_answer()

    def close_after_answer(self) -> None:
        """Mark the next answer as the last one, so the client connects again."""
        self._is_old = True
        if self.cycle is not None and _CLOSE not in self.cycle.scope["headers"]:
            # the library copies it from the request to the answer
            self.cycle.scope["headers"] = [*self.cycle.scope["headers"], _CLOSE]

    def send_400_response(self, msg: str) -> None:
        """Answer data that is not HTTP, in JSON instead of the library's plain text."""
        body = json.dumps({"error": msg}).encode()
        head = (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.requested.set()
        self.ended.set()

    async def finish(self) -> None:
        """Answer the current request and close the connection, within a time limit."""
        if self.ended.is_set():
            return
        # no request has begun, and perhaps none comes
        if self.cycle is not None and self.cycle.more_body:
            self.transport.abort()
        self.shutdown()
        try:
            async with asyncio.timeout(_GRACE):
                await self.ended.wait()
        except TimeoutError:
            self.transport.abort()
