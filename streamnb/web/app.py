"""The pages of the mailbox, and the actions of their buttons."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import math
import string
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

from jinja2 import Environment, FileSystemLoader
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from streamnb.classifier import Classifier
from streamnb.classifier.verdict import Verdict, feature_name
from streamnb.errors import StreamNBError, UnexpectedError
from streamnb.features.token_counts import TokenCounts
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.service.http import cookie_name
from streamnb.mailbox.status import readiness_by_label, status
from streamnb.mailbox.verdict_log import WEB, LoggedVerdict, VerdictLog
from streamnb.mailbox.watch.account import Account
from streamnb.web.figures import axis_ticks, ledger_rows, mistakes, reliability
from streamnb.web.reading import STRONG_LOG_ODDS, fetch_recorded, tint

_HERE = Path(__file__).parent
_PAGE = 50  # messages on a page
# Kinds of verdicts, and their titles.
_KINDS = {"unsure": "Unsure", "moved": "Moved", "labelled": "Labelled", "all": "All"}
_SECURITY = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
_MAX_FORM_BYTES = 1 << 20
_TOP_WORDS = 25  # number of words for each class
_LONGEST_BAR = 4.0  # log-odds (nats) of a full bar; a feature rarely adds more
_CERTAIN = 700.0  # nats: `exp` of a larger difference overflows
_COMMAND_KEYS = "jkxoz"  # keys of the page; classes get other keys


def pages(mailbox: Mailbox, session: str, account: Account | None = None) -> Starlette:
    """Return the web application of a mailbox, for its owner.

    Parameters
    ----------
    session
        The secret in the browser's cookie.
    account
        The account with the messages; None to show no text.
    """
    site = _Site(mailbox, session, account)
    routes = [
        Route("/", site.page(site.look), methods=["GET"]),
        Route("/message/{number}", site.page(site.message), methods=["GET"]),
        Route("/figures", site.page(site.figures), methods=["GET"]),
        Route("/words", site.page(site.words), methods=["GET"]),
        Route("/label", site.action(site.label_messages), methods=["POST"]),
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
        self.record = VerdictLog(mailbox)
        self.session = session
        self.account = account
        self.form_token = hmac.new(session.encode(), b"form", hashlib.sha256).hexdigest()
        self.templates = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.filters |= {
            "time": _time, "feature": feature_name, "count": _count, "strength": _strength,
            "bar": _bar, "percent": _percent,
        }  # fmt: skip

    # Endpoints

    def page(self, make: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that renders a page."""

        async def endpoint(request: Request) -> Response:
            if "token" in request.query_params:  # the first request, with the printed address
                query = [item for item in request.query_params.multi_items() if item[0] != "token"]
                address = f"{request.url.path}?{urlencode(query)}".rstrip("?")
                response = RedirectResponse(address, 303, _SECURITY)
                name = cookie_name(request.url.port)
                response.set_cookie(name, self.session, httponly=True, samesite="strict")
                return response
            return await asyncio.to_thread(self._respond, make, request)

        return endpoint

    def action(
        self, act: Callable[[dict[str, list[str]]], dict[str, Any]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that runs an action and redirects to the previous page."""

        async def endpoint(request: Request) -> Response:
            body, form = await request.body(), None
            if len(body) <= _MAX_FORM_BYTES:
                with contextlib.suppress(ValueError):  # too many fields
                    form = parse_qs(body.decode("utf-8", "replace"), max_num_fields=10_000)
            if form is None:
                return self._error_page("The form is too long.", 413)
            token = form.get("form", [""])[0]
            if not hmac.compare_digest(token.encode(), self.form_token.encode()):
                return self._error_page(
                    "The form is not from this page, or too old. Reload the page.", 403
                )

            def done(_: Request) -> Response:
                address = _address(form.get("where", ["/"])[0], act(form))
                return RedirectResponse(address, 303, _SECURITY)

            return await asyncio.to_thread(self._respond, done, request)

        return endpoint

    def _respond(self, make: Callable[[Request], Response], request: Request) -> Response:
        try:
            return make(request)
        except _MissingError:
            return self._error_page("No such page or message.", 404)
        except StreamNBError as error:
            return self._error_page(str(error), 500)
        except Exception as error:  # no message may stop the server
            return self._error_page(str(UnexpectedError(error)), 500)

    async def missing(self, request: Request, error: Exception) -> Response:
        """Return the page for an unknown address."""
        return self._error_page("No such page or message.", 404)

    def _error_page(self, text: str, code: int) -> Response:
        return self._render("error.html", code, text=text)

    def _render(self, template: str, code: int = 200, **values: Any) -> Response:
        values |= {"form": self.form_token, "name": str(self.mailbox.path).rpartition("/")[2]}
        text = self.templates.get_template(template).render(values)
        data = text.encode("utf-8", "replace")  # mail may have half a surrogate pair
        return Response(data, code, _SECURITY, media_type="text/html")

    def _classes(self) -> list[str]:
        labels = [str(label) for label in self.mailbox.active_labels]
        return list(dict.fromkeys([*labels, "spam", "ham"]))

    # The pages

    def look(self, request: Request) -> Response:
        """Return the page of mail to check."""
        query = request.query_params
        kind = query.get("kind", "unsure")
        search = query.get("search", "")[:100]
        before = _number(query["before"]) if "before" in query else None
        if kind not in _KINDS:
            raise _MissingError
        entries = self.record.entries(kind, search, _PAGE + 1, before)
        rows = [(entry, self._words(entry)) for entry in entries[:_PAGE]]
        unsure_labels = {entry.label for entry, _ in rows if entry.mark == "U" and entry.label}
        classes = self._classes()
        return self._render(
            "look.html",
            kind=kind,
            kinds=_KINDS,
            search=search,
            rows=rows,
            more=entries[_PAGE - 1].id if len(entries) > _PAGE else None,
            classes=classes,
            keys=class_keys(classes),
            readiness={label: self._readiness(label) for label in unsure_labels},
            where=f"/?{urlencode({'kind': kind, 'search': search})}",
            bounds=self.record.limits,
            is_empty=not any(self.mailbox.classifier.messages().values()),
            **self._last_action(query),
        )

    def _last_action(self, query: Any) -> dict[str, Any]:
        """Return the user's last action, for the button that undoes it."""
        did, label = query.get("did", ""), query.get("as", "")
        words = query.get("ids", "")[:20_000].split(",")
        ids = [number for number in map(_decimal, words) if number is not None]
        is_known = did in ("labelled", "back") and (did == "back" or label in self._classes())
        return {
            "did": did if is_known else "",
            "did_as": label,
            "did_ids": ids[:1000],
            "did_missing": _decimal(query.get("missing", "")) or 0,
        }

    def _words(self, entry: LoggedVerdict, max_words: int = 4) -> list[tuple[str, list[str]]]:
        """Return the words with the strongest evidence in a message, by favoured class.

        Features of bytes are left out if there are words.
        """
        try:
            features = self.record.counted(entry.id)
        except (StreamNBError, LookupError):  # another process deleted it
            return []
        with self.mailbox.reading():
            verdict = self.mailbox.classifier.classify_features(features, 8 * max_words)
        reasons = [reason for reason in verdict.reasons if not isinstance(reason.feature, bytes)]
        words: dict[str, list[str]] = {}
        for reason in (reasons or verdict.reasons)[:max_words]:
            side = verdict.side(reason.log_odds)
            words.setdefault(side, []).append(feature_name(reason.feature)[:40])
        return list(words.items())

    def message(self, request: Request) -> Response:
        """Return the page of one message."""
        entry = self.record.entry(_number(request.path_params["number"]))
        if entry is None:
            raise _MissingError
        text = fetch_recorded(self.mailbox, self.account, entry)
        label = entry.learned_label or entry.label
        verdict = self._verdict(entry, text)
        classes = self._classes()
        return self._render(
            "message.html",
            entry=entry,
            verdict=verdict,
            reasons=[(reason, verdict.side(reason.log_odds)) for reason in verdict.reasons],
            pieces=None if text is None or label is None else tint(self.mailbox, text, label),
            label=label,
            cause=self._unsure_cause(verdict),
            classes=classes,
            keys=class_keys(classes),
            where=f"/message/{entry.id}",
            **self._last_action(request.query_params),
        )

    def _verdict(self, entry: LoggedVerdict, text: bytes | None) -> Verdict:
        """Return the current verdict, with the site's model if the message can be read."""
        if text is not None and self.mailbox.base is not None:
            with contextlib.suppress(StreamNBError):
                return self.mailbox.classify(text, 20)
        with self.mailbox.reading():
            return self.mailbox.classifier.classify_features(self.record.counted(entry.id), 20)

    def _unsure_cause(self, verdict: Verdict) -> str:
        """Return the reason why a verdict is unsure, as text; "" if it is sure."""
        if verdict.label is None or not (verdict.unsure or not verdict.ready):
            return ""
        missing = self._readiness(verdict.label)
        if missing != "ready":
            return f"{verdict.label} is not ready, {missing}"
        with self.mailbox.reading():
            bound = _sure_probability(self.mailbox.classifier, verdict)
        classifier = self.mailbox.classifier
        costs = classifier.costs
        mistake = costs.false_alarm if verdict.label == classifier.positive else costs.miss
        # The bound is above that of the costs by more than rounding.
        is_young = bound > 1 - costs.unsure / max(mistake, costs.unsure, 1e-9) + 0.001
        return (
            f"{verdict.label} is sure from {_percent(bound)} on, since a false alarm costs "
            f"{costs.false_alarm:g}, a miss {costs.miss:g} and a review {costs.unsure:g}"
            + (", and the message could be of a new kind of another class" if is_young else "")
        )

    def figures(self, request: Request) -> Response:
        """Return the page of accuracy."""
        report = status(self.mailbox)
        periods = mistakes(self.mailbox)
        return self._render(
            "figures.html",
            status=report,
            mistakes=periods,
            ticks=axis_ticks(max((period.high for period in periods), default=0.0)),
            reliability=reliability(self.mailbox),
            unit="days" if any("-" in period.name for period in periods) else "messages",
            rows=ledger_rows(self.mailbox),
            readiness={item.label: self._readiness(item.label) for item in report.classes},
            where="/figures",
        )

    def words(self, request: Request) -> Response:
        """Return the page of words."""
        word = request.query_params.get("word", "").strip()[:100]
        with self.mailbox.reading():
            classifier = self.mailbox.classifier
            counts = self._counts_of(word) if word else []
            strongest = {
                str(label): [
                    (
                        feature_name(name)[:60],
                        log_odds,
                        classifier.models[view].class_counts(fingerprint),
                    )
                    for name, log_odds, view, fingerprint in features
                ]
                for label, features in self._top_words().items()
            }
        labels = [str(label) for label in self.mailbox.active_labels]
        return self._render(
            "words.html", word=word, matches=counts, strongest=strongest, labels=labels
        )

    def _top_words(self) -> dict[Any, list[tuple[Any, float, int, int]]]:
        """Return the strongest features of each class that are text."""
        classifier, count = self.mailbox.classifier, 4 * _TOP_WORDS
        most_features = sum(table.features for table in self.mailbox.counts)
        while True:
            top = classifier.strongest(self.mailbox.active_labels, count)
            words = {
                label: [item for item in features if not isinstance(item[0], bytes)][:_TOP_WORDS]
                for label, features in top.items()
            }
            is_complete = all(len(rows) == _TOP_WORDS for rows in words.values())
            if is_complete or count >= most_features:
                return words
            count *= 8

    def _readiness(self, label: Any) -> str:
        """Describe the messages that a class needs to be ready; "ready" if it is."""
        with self.mailbox.reading():
            own_labels = {str(y): y for y in self.mailbox.labels}
        (text,) = readiness_by_label(self.mailbox, [own_labels.get(str(label), label)]).values()
        return text

    def _counts_of(self, word: str) -> list[tuple[str, dict[str, float]]]:
        """Return the counts of a word in each class, with and without prefixes of header fields."""
        rows = []
        prefixes = ("", "subject:", "from:", "to:", "url:")
        for name in dict.fromkeys(f"{prefix}{word}" for prefix in prefixes):
            fingerprint = int(TokenCounts.from_dict({name: 1}).fingerprints[0])
            totals: dict[str, float] = {}
            for model in self.mailbox.models:
                for label, count in model.class_counts(fingerprint).items():
                    totals[str(label)] = totals.get(str(label), 0.0) + count
            if any(totals.values()):
                rows.append((name, totals))
        return rows

    # Actions

    def label_messages(self, form: dict[str, list[str]]) -> dict[str, Any]:
        """Learn one message, or all marked messages."""
        single = form.get("one", [""])[0]
        if single:
            number, _, label = single.partition(":")
            numbers = [_number(number)]
        else:
            label = form.get("many", [""])[0]
            numbers = [_number(text) for text in form.get("id", [])]
        # Some verdicts may have been deleted after the page was shown.
        stored = [number for number in dict.fromkeys(numbers) if self.record.entry(number)]
        if label not in self._classes() or not stored:
            raise _MissingError
        learned = [
            number
            for number in stored
            if self.record.learn(number, label).result in ("learned", "corrected", "confirmed")
        ]
        missing = len(set(numbers)) - len(stored)
        return {
            "did": "labelled",
            "as": label,
            "ids": ",".join(map(str, learned)),
            "missing": missing,
        }

    def back(self, form: dict[str, list[str]]) -> dict[str, Any]:
        """Remove labels that were set on this page, and restore earlier ones.

        Only the labels in the form are removed, so a second click removes no older ones.
        """
        removed, label = [], form.get("as", [""])[0]
        for number in dict.fromkeys(_number(text) for text in form.get("id", [])):
            entry = self.record.entry(number)
            current = None if entry is None else self.mailbox.label_of(entry.digest)
            if entry is not None and current is not None and current[::2] == (label, WEB):
                self.mailbox.retract(entry.digest)
                removed.append(number)
        return {"did": "back", "ids": ",".join(map(str, removed))}

    def unlearn(self, form: dict[str, list[str]]) -> dict[str, Any]:
        """Remove a label in the ledger."""
        number = _number(form.get("id", [""])[0])
        with self.mailbox.reading():
            rows = list(self.mailbox.ledger.rows("id = ? AND removed_at IS NULL", (number,)))
        for row in rows:
            self.mailbox.retract(row.digest)
        return {}


class _MissingError(Exception):
    """A page or message that does not exist."""


def _decimal(text: str) -> int | None:
    """Return the number that digits stand for; None for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None


def _number(text: str) -> int:
    number = _decimal(text)
    if number is None:
        raise _MissingError
    return number


def _address(address: str, changes: dict[str, Any]) -> str:
    """Return an address of this site with changed parameters; "/" for any other address."""
    path, _, query = address.partition("?")
    if not path.startswith("/") or path[1:2] in ("/", "\\"):
        path = "/"
    query_values = {name: values[0] for name, values in parse_qs(query).items()}
    for name in ("did", "ids", "as", "missing"):
        query_values.pop(name, None)
    return f"{path}?{urlencode({**query_values, **changes})}"


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds):%F %H:%M}"


def _count(value: float) -> str:
    """Return a count rounded to a whole number; "<1" if it is below 0.5."""
    return "<1" if 0 < value < 0.5 else f"{value:,.0f}"


def _strength(log_odds: float) -> str:
    """Return a word for the size of log-odds, in nats."""
    size = abs(log_odds)
    return "strong" if size >= STRONG_LOG_ODDS else "moderate" if size >= 0.5 else "weak"


def _bar(log_odds: float) -> int:
    """Return the length of the bar of log-odds, from 0 to 100."""
    return round(100 * min(abs(log_odds) / _LONGEST_BAR, 1.0))


def _percent(probability: float) -> str:
    """Return a probability with enough digits to differ from 100 %."""
    digits = next((n for n in (1, 2, 3, 4) if probability < 1 - 0.5 * 10 ** -(n + 2)), None)
    return "over 99.9999 %" if digits is None else f"{100 * probability:.{digits}f} %"


def class_keys(classes: Iterable[str]) -> dict[str, str]:
    """Return the key of each class: s and h for spam and ham, then 1 to 9, then other letters.

    Examples
    --------
    >>> class_keys(["spam", "list", "ham", "work"])
    {'spam': 's', 'list': '1', 'ham': 'h', 'work': '2'}
    """
    usual = {"spam": "s", "ham": "h"}
    free = [key for key in "123456789" + string.ascii_lowercase if key not in _COMMAND_KEYS + "sh"]
    spare = iter(free)
    keys = {label: usual.get(label) or next(spare, "") for label in classes}
    return {label: key for label, key in keys.items() if key}


def _sure_probability(classifier: Classifier, verdict: Verdict) -> float:
    """Return the minimum probability of a sure verdict of this class; at most 1."""
    scores = {y: math.log(p) if p > 0 else -_CERTAIN for y, p in verdict.probabilities.items()}
    messages = classifier.messages()

    def is_sure(shift: float) -> bool:
        shifted = {y: score + shift * (y == verdict.label) for y, score in scores.items()}
        label, _, unsure = classifier.decide(shifted, classifier.costs, messages)
        return label == verdict.label and not unsure

    low, high = 0.0, _CERTAIN  # unsure, and sure
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if is_sure(middle) else (middle, high)
    odds = verdict.log_odds + high
    return 1 / (1 + math.exp(-min(max(odds, -_CERTAIN), _CERTAIN)))
