"""HTTP for programs and browsers on this machine: who may ask, and the connections."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import secrets
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from streamnb.errors import OutputError, convert_os_errors
from streamnb.mailbox.location import beside
from streamnb.mailbox.service.server import Activity, ConnectionHandler

Scope = dict[str, Any]
App = Callable[[Scope, Any, Any], Coroutine[Any, Any, None]]

COOKIE = "streamnb-token"
logging.getLogger("uvicorn").addHandler(logging.NullHandler())
logging.getLogger("uvicorn").propagate = False  # whoever connects could fill it
_HEADER = 10.0  # seconds until a request must have begun: nobody has shown a token before
_LONGEST = 120.0  # seconds that a connection lives
_GRACE = 10.0  # seconds that a request may take to its end when the server stops
_LARGEST = 64 << 20  # bytes of a request's body
_HERE = ("localhost", "127.0.0.1", "[::1]")


def database_token(database: str | os.PathLike[str]) -> str:
    """The secret of whoever may use a database over HTTP; made at the first start.

    It is in a file beside the database that its owner alone can read.
    """
    path = beside(database, ".token")
    made = secrets.token_urlsafe(32)
    with convert_os_errors(OutputError, f"{path}: the token cannot be kept", ValueError):
        os.makedirs(os.path.dirname(os.path.abspath(path)), mode=0o700, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            with open(path, encoding="ascii") as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    raise OutputError(f"{path}: others can read the token: chmod 600 it") from None
                known = file.read(200).strip()
            if len(known) < 20:
                raise OutputError(f"{path}: no token: remove the file to have one made") from None
            return known
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(f"{made}\n")
    return made


@dataclass(eq=False, repr=False)
class AuthMiddleware:
    """Lets only those through who were sent by their own page or program, with the token.

    Parameters
    ----------
    app
        What they are let through to.
    token
        Gives the token for what is asked, given the user; LookupError where there is none such.
    session
        What a browser's cookie may have in place of the token.
    """

    app: App
    token: Callable[[str | None], str]
    session: str | None = None

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Response a request, or have it answered."""
        if scope["type"] != "http":
            return
        refused = self._refused(scope)
        if refused is not None:
            status, why = refused
            response = PlainTextResponse(f"{why}\n", status, {"connection": "close"})
            await response(scope, receive, send)
            return
        left = _LARGEST

        async def bounded() -> Any:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, "the message is too large")
            return message

        await self.app(scope, bounded, send)

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name not in _HERE:  # a page elsewhere whose name now leads here
            return 421, "this is another server"
        origin = headers.get(b"origin")
        if origin is not None and origin != f"http://{host}":
            return 403, "another page asks"
        if not 0 <= int(headers.get(b"content-length", "0")) <= _LARGEST:
            return 413, "the message is too large"
        asked = parse_qs(scope["query_string"].decode("latin-1"))
        users = asked.get("user", [None])
        try:
            wanted = self.token(users[0])
        except LookupError:  # who has no token is not told who is there
            wanted = secrets.token_urlsafe(32)
        scheme, _, token = headers.get(b"authorization", "").partition(" ")
        given = [token if scheme.lower() == "bearer" else "", *asked.get("token", [])]
        pairs = [(one, wanted) for one in given]
        if self.session is not None:
            pairs += [(one, self.session) for one in _cookies(headers.get(b"cookie", ""))]
        right = any(hmac.compare_digest(one.encode(), secret.encode()) for one, secret in pairs)
        if len(users) > 1 or not right:
            return 401, "the token is missing or wrong (it is in the .token file)"
        return None


def _cookies(header: str) -> list[str]:
    pairs = (pair.strip().partition("=") for pair in header.split(";"))
    return [value for name, _, value in pairs if name == COOKIE]


def http(app: App) -> ConnectionHandler:
    """What talks HTTP over connections."""
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
        asked, ended = asyncio.Event(), asyncio.Event()

        class Protocol(H11Protocol):
            def handle_events(self) -> None:
                super().handle_events()
                if self.cycle is not None:
                    asked.set()

            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                asked.set()
                ended.set()

        transport, protocol = await asyncio.get_running_loop().connect_accepted_socket(
            lambda: Protocol(config, state, {}), connection
        )
        try:
            async with asyncio.timeout(_HEADER):
                await asked.wait()
            async with asyncio.timeout(_LONGEST):
                await ended.wait()
        except TimeoutError:
            transport.abort()
        except asyncio.CancelledError:  # we stop: what is being done is done and said
            cycle = protocol.cycle
            if cycle is not None and cycle.more_body:  # nothing was begun, and it may never come
                transport.abort()
            protocol.shutdown()
            try:
                async with asyncio.timeout(_GRACE):
                    await ended.wait()
            except TimeoutError:
                transport.abort()
            raise

    return talk
