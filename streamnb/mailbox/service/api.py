"""What a program can ask by HTTP: JSON in return."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamnb.errors import BusyError, StreamNBError, UnexpectedError
from streamnb.mailbox.digest import of_hex
from streamnb.mailbox.ledger import HUMAN, PROGRAM, read_label
from streamnb.mailbox.service.mailboxes import Mailboxes, NoMailboxError, learn_if_sure
from streamnb.mailbox.service.monitor import Monitor
from streamnb.mailbox.service.protocol import MOST
from streamnb.mailbox.service.response import JudgeOptions, judge
from streamnb.mailbox.sources import is_binary
from streamnb.mailbox.status import status
from streamnb.mailbox.store import Mailbox

Act = Callable[[Mailbox, Request, bytes], Any]


class _AskedWronglyError(StreamNBError):
    """A parameter of a request is wrong."""


def _number(request: Request, name: str, low: float, high: float) -> float | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise _AskedWronglyError(f"{name}: a number from {low:g} to {high:g}, not {text!r:.40}")
    return value


def _label(request: Request) -> str:
    try:
        return read_label(request.query_params.get("label", ""))
    except ValueError as error:
        raise _AskedWronglyError(f"label: {error}") from None


def _one_of(request: Request, name: str, values: tuple[str, ...]) -> str | None:
    value = request.query_params.get(name)
    if value is not None and value not in values:
        raise _AskedWronglyError(f"{name}: {' or '.join(values)}, not {value!r:.40}")
    return value


def _classify(mailbox: Mailbox, request: Request, message: bytes) -> Any:
    reasons = int(_number(request, "reasons", 0, 100) or 0)
    found = judge(mailbox, message, JudgeOptions(reasons, _number(request, "threshold", 0.5, 1)))
    if _one_of(request, "learn", ("sure",)):
        learn_if_sure(mailbox, message, found)
    return found._asdict()


def _learn(mailbox: Mailbox, request: Request, message: bytes) -> Any:
    labelled_by = _one_of(request, "labelled_by", (HUMAN, PROGRAM)) or HUMAN
    if not message or is_binary(message):
        raise _AskedWronglyError("no mail was sent, but nothing or a binary file")
    return mailbox.learn(message, _label(request), labelled_by, "http")._asdict()


def _forget(mailbox: Mailbox, request: Request, message: bytes) -> Any:
    hexadecimal = request.query_params.get("digest")
    if hexadecimal is None:
        return mailbox.forget(message)._asdict()
    try:
        key = of_hex(hexadecimal)
    except ValueError:
        raise _AskedWronglyError("digest: 64 hexadecimal digits") from None
    return mailbox.forget_digest(key)._asdict()


def _status(mailbox: Mailbox, request: Request, message: bytes) -> Any:
    return status(mailbox).as_json()


_PARAMETERS: dict[Act, tuple[str, ...]] = {
    _classify: ("user", "reasons", "threshold", "learn"),
    _learn: ("user", "label", "labelled_by"),
    _forget: ("user", "digest"),
    _status: ("user",),
}
_STATUSES = ((_AskedWronglyError, 400), (BusyError, 503), (StreamNBError, 500))


def _done(mailboxes: Mailboxes, act: Act, request: Request, message: bytes) -> tuple[int, Any]:
    """The status of an answer, and the answer or the exception that there was instead."""
    try:
        for name in request.query_params:
            if name not in _PARAMETERS[act]:
                raise _AskedWronglyError(f"{name!r:.40}: no such parameter here")
            if len(request.query_params.getlist(name)) > 1:
                raise _AskedWronglyError(f"{name}: it is there twice")
        writes = act in (_learn, _forget) or "learn" in request.query_params
        with mailboxes.borrow(request.query_params.get("user"), writes=writes) as mailbox:
            return 200, act(mailbox, request, message)
    except StreamNBError as error:
        return next(code for kind, code in _STATUSES if isinstance(error, kind)), error
    except NoMailboxError as error:
        return 404, error
    except Exception as error:  # whatever is in a message must not end the server
        return 500, UnexpectedError(error)


async def _sent(request: Request) -> bytes:
    """What was sent with a request, up to the longest message; the rest is read past."""
    parts = bytearray()
    async for part in request.stream():
        parts += part[: MOST - len(parts)]
    return bytes(parts)


def api(mailboxes: Mailboxes, monitor: Monitor | None = None) -> Starlette:
    """An application that asks and teaches mailboxes."""
    registry = (monitor and monitor.registry) or CollectorRegistry()
    asked = Counter("streamnb_requests", "Requests", ["what", "status"], registry=registry)
    verdicts = Counter("streamnb_verdicts", "Verdicts", ["mark"], registry=registry)
    seconds = Histogram(
        "streamnb_request_seconds",
        "Seconds a request took",
        ["what"],
        registry=registry,
        buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2, 10),
    )

    def answering(what: str, act: Act) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            begun = time.perf_counter()
            message = await _sent(request) if request.method == "POST" else b""
            code, found = await asyncio.to_thread(_done, mailboxes, act, request, message)
            if act is _classify and code == 200:
                verdicts.labels(found["mark"]).inc()
            asked.labels(what, str(code)).inc()
            seconds.labels(what).observe(time.perf_counter() - begun)
            if isinstance(found, Exception):
                found = {"error": str(found)}
            return Response(
                json.dumps(found) + "\n", status_code=code, media_type="application/json"
            )

        return endpoint

    async def metrics(request: Request) -> Response:
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")

    async def missing(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": "no such thing"}, status_code=404)

    posted = {"classify": _classify, "learn": _learn, "forget": _forget}
    routes = [
        Route(f"/{name}", answering(name, act), methods=["POST"]) for name, act in posted.items()
    ]
    routes.append(Route("/status", answering("status", _status), methods=["GET"]))
    routes.append(Route("/metrics", metrics, methods=["GET"]))
    return Starlette(routes=routes, exception_handlers={404: missing})
