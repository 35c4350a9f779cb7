"""The pages, and what is done by their buttons."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

from jinja2 import Environment, FileSystemLoader
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from streamnb.classifier.verdict import Verdict, feature_name
from streamnb.errors import StreamNBError, UnexpectedError
from streamnb.mailbox.record import WEB, Entry, Record
from streamnb.mailbox.service.http import COOKIE
from streamnb.mailbox.status import status
from streamnb.mailbox.store import Mailbox
from streamnb.mailbox.watch.account import Account
from streamnb.web.figures import lessons, mistakes, reliability
from streamnb.web.reading import fetched, tinted

_HERE = Path(__file__).parent
_PAGE = 50  # messages on a page
_KINDS = ("unsure", "moved", "taught", "all")
_SECURITY = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
_MOST_FORM = 1 << 20


def pages(mailbox: Mailbox, session: str, account: Account | None = None) -> Starlette:
    """An application that shows a mailbox to its owner.

    Parameters
    ----------
    mailbox
        The mailbox.
    session
        The secret that a browser gets for its cookie.
    account
        Where messages can be fetched from; None where they cannot.
    """
    site = _Site(mailbox, session, account)
    routes = [
        Route("/", site.page(site.look), methods=["GET"]),
        Route("/message/{number}", site.page(site.message), methods=["GET"]),
        Route("/figures", site.page(site.figures), methods=["GET"]),
        Route("/words", site.page(site.words), methods=["GET"]),
        Route("/teach", site.action(site.teach), methods=["POST"]),
        Route("/back", site.action(site.back), methods=["POST"]),
        Route("/unlearn", site.action(site.unlearn), methods=["POST"]),
        Route("/static/{name}", _static, methods=["GET"]),
    ]
    return Starlette(routes=routes, exception_handlers={404: site.missing})


async def _static(request: Request) -> Response:
    kinds = {"style.css": "text/css", "keys.js": "text/javascript", "icon.svg": "image/svg+xml"}
    name = request.path_params["name"]
    if name not in kinds:
        return Response("no such file\n", 404, media_type="text/plain")
    return FileResponse(_HERE / "static" / name, media_type=kinds[name], headers=_SECURITY)


class _Site:
    """The pages of one mailbox; arguments as for `pages`."""

    def __init__(self, mailbox: Mailbox, session: str, account: Account | None) -> None:
        self.mailbox = mailbox
        self.record = Record(mailbox)
        self.session = session
        self.account = account
        self.form_token = hmac.new(session.encode(), b"form", hashlib.sha256).hexdigest()
        self.templates = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.filters["time"] = _time
        self.templates.filters["feature"] = feature_name

    # What answers

    def page(self, make: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint that shows something."""

        async def endpoint(request: Request) -> Response:
            if "token" in request.query_params:  # the address that was printed: once
                rest = [one for one in request.query_params.multi_items() if one[0] != "token"]
                where = f"{request.url.path}?{urlencode(rest)}".rstrip("?")
                response = RedirectResponse(where, 303, _SECURITY)
                response.set_cookie(COOKIE, self.session, httponly=True, samesite="strict")
                return response
            return await asyncio.to_thread(self._guarded, make, request)

        return endpoint

    def action(
        self, act: Callable[[dict[str, list[str]]], dict[str, Any]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint that does something, and goes back to where it was asked for."""

        async def endpoint(request: Request) -> Response:
            body = bytearray()
            async for part in request.stream():
                body += part
                if len(body) > _MOST_FORM:
                    return self._told("The form is too long.", 413)
            try:
                form = parse_qs(body.decode("utf-8", "replace"), max_num_fields=10_000)
            except ValueError:
                return self._told("The form is too long.", 413)
            given = form.get("form", [""])[0]
            if not hmac.compare_digest(given.encode(), self.form_token.encode()):
                return self._told("The form is not from here, or too old.", 403)

            def done(_: Request) -> Response:
                where = _address(form.get("where", ["/"])[0], act(form))
                return RedirectResponse(where, 303, _SECURITY)

            return await asyncio.to_thread(self._guarded, done, request)

        return endpoint

    def _guarded(self, make: Callable[[Request], Response], request: Request) -> Response:
        try:
            return make(request)
        except _MissingError:
            return self._told("There is no such thing here.", 404)
        except StreamNBError as error:
            return self._told(str(error), 500)
        except Exception as error:  # whatever is in a message must not end the server
            return self._told(str(UnexpectedError(error)), 500)

    async def missing(self, request: Request, error: Exception) -> Response:
        """The page for what is not there."""
        return self._told("There is no such thing here.", 404)

    def _told(self, what: str, code: int) -> Response:
        return self._shown("told.html", code, what=what)

    def _shown(self, template: str, code: int = 200, **values: Any) -> Response:
        values |= {"form": self.form_token, "name": str(self.mailbox.path).rpartition("/")[2]}
        shown = self.templates.get_template(template).render(values)
        data = shown.encode("utf-8", "replace")  # texts of mail can hold half a character
        return Response(data, code, _SECURITY, media_type="text/html")

    def _classes(self) -> list[str]:
        known = [str(label) for label in self.mailbox.labels]
        return list(dict.fromkeys([*known, "spam", "ham"]))

    # The pages

    def look(self, request: Request) -> Response:
        """What to look at."""
        asked = request.query_params
        kind = asked.get("kind", "unsure")
        search = asked.get("search", "")[:100]
        before = _number(asked["before"]) if "before" in asked else None
        if kind not in _KINDS:
            raise _MissingError
        found = self.record.entries(kind, search, _PAGE + 1, before)
        rows = [(entry, self._words(entry)) for entry in found[:_PAGE]]
        return self._shown(
            "look.html",
            kind=kind,
            kinds=_KINDS,
            search=search,
            rows=rows,
            more=found[_PAGE - 1].id if len(found) > _PAGE else None,
            classes=self._classes(),
            where=f"/?{urlencode({'kind': kind, 'search': search})}",
            bounds=self.record.bounds,
            **self._did(asked),
        )

    def _did(self, asked: Any) -> dict[str, Any]:
        """What was done just now, so that it can be taken back."""
        did, label = asked.get("did", ""), asked.get("as", "")
        words = asked.get("ids", "")[:20_000].split(",")
        ids = [_number(word) for word in words if word.isdecimal() and len(word) < 18]
        known = did in ("taught", "back") and (did == "back" or label in self._classes())
        gone = asked.get("gone", "0")
        return {
            "did": did if known else "",
            "did_as": label,
            "did_ids": ids[:1000],
            "did_gone": int(gone) if gone.isascii() and gone.isdecimal() and len(gone) < 18 else 0,
        }

    def _words(self, entry: Entry, most: int = 4) -> list[tuple[str, float]]:
        """The words that a verdict rests on, as it would be given now."""
        try:
            counted = self.record.counted(entry.id)
        except (StreamNBError, LookupError):  # another process has dropped it meanwhile
            return []
        with self.mailbox.reading():
            verdict = self.mailbox.classifier.classify_features(counted, most)
        return [(feature_name(reason.feature)[:40], reason.log_odds) for reason in verdict.reasons]

    def message(self, request: Request) -> Response:
        """One message."""
        entry = self.record.entry(_number(request.path_params["number"]))
        if entry is None:
            raise _MissingError
        text = fetched(self.mailbox, self.account, entry)
        label = entry.taught or entry.label
        verdict = self._verdict(entry, text)
        return self._shown(
            "message.html",
            entry=entry,
            verdict=verdict,
            pieces=None if text is None or label is None else tinted(self.mailbox, text, label),
            label=label,
            classes=self._classes(),
            where=f"/message/{entry.id}",
            **self._did(request.query_params),
        )

    def _verdict(self, entry: Entry, text: bytes | None) -> Verdict:
        """What a message would be: by the site, too, where it and the message can be read."""
        if text is not None and self.mailbox.base is not None:
            with contextlib.suppress(StreamNBError):
                return self.mailbox.classify(text, 20)
        with self.mailbox.reading():
            return self.mailbox.classifier.classify_features(self.record.counted(entry.id), 20)

    def figures(self, request: Request) -> Response:
        """How well it does."""
        return self._shown(
            "figures.html",
            status=status(self.mailbox),
            mistakes=mistakes(self.mailbox),
            reliability=reliability(self.mailbox),
            lessons=lessons(self.mailbox),
            where="/figures",
        )

    def words(self, request: Request) -> Response:
        """What it knows."""
        wanted = request.query_params.get("word", "").strip()[:100]
        with self.mailbox.reading():
            classifier = self.mailbox.classifier
            found = self._counts_of(wanted) if wanted else []
            strongest = {
                str(label): [
                    (
                        feature_name(name)[:60],
                        gain,
                        classifier.models[view].class_counts(fingerprint),
                    )
                    for name, gain, view, fingerprint in features
                    if not isinstance(name, bytes)
                ][:25]
                for label, features in classifier.strongest(self.mailbox.labels, 100).items()
            }
        labels = [str(label) for label in self.mailbox.labels]
        return self._shown(
            "words.html", word=wanted, found=found, strongest=strongest, labels=labels
        )

    def _counts_of(self, word: str) -> list[tuple[str, dict[str, float]]]:
        """How much of a word, or of one with a prefix, was learned in each class."""
        from streamnb.features.token_counts import TokenCounts

        rows = []
        prefixes = ("", "subject:", "from:", "to:", "url:")
        for name in dict.fromkeys(f"{prefix}{word}" for prefix in prefixes):
            fingerprint = int(TokenCounts.from_dict({name: 1}).fingerprints[0])
            summed: dict[str, float] = {}
            for model in self.mailbox.models:
                for label, count in model.class_counts(fingerprint).items():
                    summed[str(label)] = summed.get(str(label), 0.0) + count
            if any(summed.values()):
                rows.append((name, summed))
        return rows

    # The buttons

    def teach(self, form: dict[str, list[str]]) -> dict[str, Any]:
        """Learn one message, or those that are marked."""
        one = form.get("one", [""])[0]
        if one:
            first, _, label = one.partition(":")
            numbers = [_number(first)]
        else:
            label = form.get("many", [""])[0]
            numbers = [_number(text) for text in form.get("id", [])]
        # Some may have left the record since the page was shown.
        here = [number for number in dict.fromkeys(numbers) if self.record.entry(number)]
        if label not in self._classes() or not here:
            raise _MissingError
        taught = [
            number
            for number in here
            if self.record.teach(number, label).what in ("learned", "corrected", "confirmed")
        ]
        gone = len(set(numbers)) - len(here)
        return {"did": "taught", "as": label, "ids": ",".join(map(str, taught)), "gone": gone}

    def back(self, form: dict[str, list[str]]) -> dict[str, Any]:
        """Take back what was said here of messages: what held before holds again.

        Only what the form was about: a second press takes nothing older back.
        """
        taken, label = [], form.get("as", [""])[0]
        for number in dict.fromkeys(_number(text) for text in form.get("id", [])):
            entry = self.record.entry(number)
            known = None if entry is None else self.mailbox.label_of(entry.digest)
            if entry is not None and known is not None and known[::2] == (label, WEB):
                self.mailbox.retract(entry.digest)
                taken.append(number)
        return {"did": "back", "ids": ",".join(map(str, taken))}

    def unlearn(self, form: dict[str, list[str]]) -> dict[str, Any]:
        """Take a lesson of the ledger back."""
        number = _number(form.get("id", [""])[0])
        with self.mailbox.reading():
            rows = list(self.mailbox.ledger.rows("id = ? AND removed_at IS NULL", (number,)))
        for row in rows:
            self.mailbox.retract(row.digest)
        return {}


class _MissingError(Exception):
    """There is no such thing."""


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise _MissingError
    return int(text)


def _address(where: str, more: dict[str, Any]) -> str:
    """An address of this site with other parameters; "/" for one that is elsewhere."""
    path, _, query = where.partition("?")
    if not path.startswith("/") or path[1:2] in ("/", "\\"):
        path = "/"
    kept = {name: values[0] for name, values in parse_qs(query).items()}
    for name in ("did", "ids", "as", "gone"):
        kept.pop(name, None)
    return f"{path}?{urlencode({**kept, **more})}"


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds):%F %H:%M}"
