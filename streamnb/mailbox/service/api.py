"""HTTP requests to mailboxes, with answers in JSON."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamnb import __version__
from streamnb.errors import BusyError, StreamNBError, UnexpectedError
from streamnb.limits import MAX_MESSAGE
from streamnb.mailbox.digest import digest, of_hex
from streamnb.mailbox.ledger import HUMAN, PROGRAM, read_label
from streamnb.mailbox.service.mailboxes import Mailboxes, NoMailboxError
from streamnb.mailbox.service.monitor import SECONDS, Monitor
from streamnb.mailbox.service.response import JudgeOptions
from streamnb.mailbox.sources import describe_binary
from streamnb.mailbox.status import status
from streamnb.mailbox.verdict_log import learn_if_sure


class Change(NamedTuple):
    """The label after a change by a request ("" for none), and the result as in `Outcome`."""

    label: str
    result: str


Answer = tuple[Any, Change | None]
Action = Callable[[Mailboxes, str | None, Request, bytes], Answer]


class RequestError(StreamNBError):
    """A parameter of a request is not valid."""


class BodyError(RequestError):
    """The body of a request is not the message itself."""


def _number(request: Request, name: str, low: float, high: float) -> float | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise RequestError(f"{name}: expected a number from {low:g} to {high:g}, not {text!r:.40}")
    return value


def _label(request: Request) -> str:
    try:
        return read_label(request.query_params.get("label", ""))
    except ValueError as error:
        raise RequestError(f"label: {error}") from None


def _one_of(request: Request, name: str, values: tuple[str, ...]) -> str | None:
    value = request.query_params.get(name)
    if value is not None and value not in values:
        raise RequestError(f"{name}: expected {' or '.join(values)}, not {value!r:.40}")
    return value


def _classify(mailboxes: Mailboxes, user: str | None, request: Request, message: bytes) -> Answer:
    reasons = int(_number(request, "reasons", 0, 100) or 0)
    options = JudgeOptions(reasons, _number(request, "threshold", 0.5, 1))
    learns = _one_of(request, "learn", ("sure",)) is not None
    response = mailboxes.judge(user, message, options)
    change = None
    if learns:
        with mailboxes.borrow(user, writes=True) as mailbox:
            outcome = learn_if_sure(mailbox, message, response)
        change = outcome and Change(response.label or "", outcome.result)
    return response._asdict(), change


def _learn(mailboxes: Mailboxes, user: str | None, request: Request, message: bytes) -> Answer:
    labelled_by = _one_of(request, "labelled_by", (HUMAN, PROGRAM)) or HUMAN
    if not message or describe_binary(message):
        raise RequestError("the body is not a mail: it is empty or binary")
    feedback = _one_of(request, "feedback", ("all", "errors"))
    label = _label(request)
    with mailboxes.borrow(user, writes=True) as mailbox:
        outcome = mailbox.learn(message, label, labelled_by, "http", feedback=feedback)
    return outcome._asdict(), Change(label, outcome.result)


def _forget(mailboxes: Mailboxes, user: str | None, request: Request, message: bytes) -> Answer:
    hexadecimal = request.query_params.get("digest")
    try:
        key = digest(message) if hexadecimal is None else of_hex(hexadecimal)
    except ValueError:
        raise RequestError("digest: expected 64 hexadecimal digits") from None
    with mailboxes.borrow(user, writes=True) as mailbox:
        (outcome,) = mailbox.forget_digests([key])
    return outcome._asdict(), Change("", outcome.result)


def _status(mailboxes: Mailboxes, user: str | None, request: Request, message: bytes) -> Answer:
    with mailboxes.borrow(user) as mailbox:
        return status(mailbox).as_json(), None


_WRAPPERS = ("multipart/form-data", "application/json")
_PARAMETERS: dict[Action, tuple[str, ...]] = {
    _classify: ("user", "reasons", "threshold", "learn"),
    _learn: ("user", "label", "labelled_by", "feedback"),
    _forget: ("user", "digest"),
    _status: ("user",),
}
_STATUSES = ((BodyError, 415), (RequestError, 400), (BusyError, 503), (StreamNBError, 500))


def _check_body(request: Request, message: bytes) -> None:
    """Raise BodyError if a program has wrapped the message, for example as a form's field."""
    if not message:
        return
    advice = "send the message itself as the body, as curl --data-binary @FILE does"
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise BodyError(f"the body is encoded ({encoding:.40}); {advice}")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in _WRAPPERS:
        raise BodyError(f"the body is {kind}, not a message; {advice}")
    if kind == "application/x-www-form-urlencoded" and b"\n" not in message:
        raise BodyError(f"the body has no line end (curl --data removes them); {advice}")


def _act(
    mailboxes: Mailboxes, action: Action, request: Request, message: bytes, monitor: Monitor
) -> tuple[int, Any]:
    """Do the work of a request. Return the HTTP status, and the answer or the exception raised."""
    try:
        for name in request.query_params:
            if name not in _PARAMETERS[action]:
                raise RequestError(f"{name!r:.40}: not a parameter of this request")
            if len(request.query_params.getlist(name)) > 1:
                raise RequestError(f"{name}: it occurs twice")
        _check_body(request, message)
        user = mailboxes.addresses.user_of_query(request.query_params.get("user"))
        answer, change = action(mailboxes, user, request, message)
        if change is not None:
            monitor.learned("http", *change, message, user)
        return 200, answer
    except StreamNBError as error:
        return next(code for kind, code in _STATUSES if isinstance(error, kind)), error
    except NoMailboxError as error:
        return 404, error
    except Exception as error:  # no message may stop the server
        return 500, UnexpectedError(error)


async def read_body(request: Request) -> bytes:
    """Return the body of a request up to the limit of a message; read the remainder without use."""
    body = bytearray()
    async for part in request.stream():
        body += part[: MAX_MESSAGE - len(body)]
    return bytes(body)


async def answer_error(request: Request, error: Exception) -> Response:
    """Return the JSON answer to a request that failed before it reached an endpoint."""
    if not isinstance(error, HTTPException):
        return JSONResponse({"error": str(UnexpectedError(error))}, 500)
    text = "there is no such path" if error.status_code == 404 else error.detail
    return JSONResponse({"error": text}, error.status_code, error.headers)


_ERROR_HANDLERS: Any = {HTTPException: answer_error, Exception: answer_error}


class RequestMetrics:
    """The metrics of requests, and the paths /metrics and /health."""

    def __init__(self, monitor: Monitor | None) -> None:
        self.monitor: Monitor = monitor or Monitor()
        self.registry: CollectorRegistry = self.monitor.registry
        self._requests = Counter(
            "streamnb_requests", "Requests.", ["what", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "streamnb_request_seconds",
            "Seconds that a request took.",
            ["what"],
            registry=self.registry,
            buckets=SECONDS,
        )

    def record(self, name: str, status_code: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(name, str(status_code)).inc()
        self._seconds.labels(name).observe(seconds)

    def application(
        self, routes: list[Route], fault: Callable[[], tuple[str, str] | None] = lambda: None
    ) -> Starlette:
        """Return an application with these routes, /metrics and /health.

        `fault` returns status and error if requests fail at present, else None.
        """

        async def metrics(request: Request) -> Response:
            return Response(generate_latest(self.registry), media_type="text/plain; version=0.0.4")

        async def health(request: Request) -> Response:
            answer = {"status": "ok", "version": __version__}
            full = ", ".join(self.monitor.not_accepting)
            if (failure := fault()) is not None:
                answer["status"], answer["error"] = failure
            elif full:
                answer |= {"status": "full", "error": f"{full}: connections wait, none is accepted"}
            return JSONResponse(answer, 200 if answer["status"] == "ok" else 503)

        monitoring = [Route("/metrics", metrics), Route("/health", health)]
        application = Starlette(routes=[*routes, *monitoring], exception_handlers=_ERROR_HANDLERS)
        # Behind a reverse proxy, a redirect would name a host that the client cannot reach.
        application.router.redirect_slashes = False
        return application


def api(mailboxes: Mailboxes, monitor: Monitor | None = None) -> Starlette:
    """Return the web application by which programs classify and learn messages."""
    monitor = monitor or Monitor()
    metrics = RequestMetrics(monitor)
    verdicts = Counter("streamnb_verdicts", "Verdicts.", ["mark"], registry=metrics.registry)
    # a locked database does not delay other requests
    pool = ThreadPoolExecutor(64, "streamnb-http")

    def endpoint_of(name: str, action: Action) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            started = time.perf_counter()
            message = await read_body(request) if request.method == "POST" else b""
            loop = asyncio.get_running_loop()
            code, result = await loop.run_in_executor(
                pool, _act, mailboxes, action, request, message, monitor
            )
            if action is _classify and code == 200:
                verdicts.labels(result["mark"]).inc()
            metrics.record(name, code, time.perf_counter() - started)
            if isinstance(result, Exception):
                result = {"error": str(result)}
            return Response(
                json.dumps(result) + "\n", status_code=code, media_type="application/json"
            )

        return endpoint

    posts = {"classify": _classify, "learn": _learn, "forget": _forget}
    routes = [
        Route(f"/{name}", endpoint_of(name, action), methods=["POST"])
        for name, action in posts.items()
    ]
    routes.append(Route("/status", endpoint_of("status", _status), methods=["GET"]))
    return metrics.application(routes, lambda: mailboxes.fault)
