"""The plain text of a message with the evidence of each word. HTML is never rendered."""

from __future__ import annotations

import html
import json
import re
from typing import NamedTuple

from streamnb.errors import StreamNBError
from streamnb.mail import parse
from streamnb.mailbox.digest import digest
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.verdict_log import LoggedVerdict
from streamnb.mailbox.watch.account import Account
from streamnb.patterns import lazy_pattern

_MAX_CHARS = 100_000  # characters of a text to show
_TAG = lazy_pattern(r"<[^<>]*>")
_BLANK = lazy_pattern(r"\n\n\s*")
_HIDDEN = lazy_pattern(r"<(style|script).*?(?:(?=</\1)|\Z)", re.A | re.I | re.S)
_HUGE = lazy_pattern(r"&#[0-9a-fx]{100,}", re.I)  # Python refuses to convert very long numbers
_LEVELS = 5  # number of tints for each sign
# Log-odds (nats) that the page calls strong and shows with the darkest tint. With half the value,
# most words of a typical verdict have this tint; with twice the value, hardly any.
STRONG_LOG_ODDS = 2.0


class TintedText(NamedTuple):
    """A part of a text, its evidence for a class from -5 (against it) to 5, and its log-odds."""

    text: str
    level: int
    log_odds: float


def fetch_recorded(mailbox: Mailbox, account: Account | None, entry: LoggedVerdict) -> bytes | None:
    """Return the message of a stored verdict; None if it cannot be found."""
    try:
        name, folder, uid = json.loads(entry.place)
    except (ValueError, TypeError):
        return None
    if account is None or name != account.name:
        return None
    for location in [(folder, uid), *_later_locations(mailbox, name, uid)]:
        try:
            message = account.fetch_message(*location)
            if message is None:  # a Maildir must be listed first
                account.list_messages(location[0])
                message = account.fetch_message(*location)
        except StreamNBError:
            continue
        if message is not None and digest(message) == entry.digest:
            return message
    return None


def _later_locations(mailbox: Mailbox, account: str, uid: str) -> list[tuple[str, str]]:
    """Return the later folders and uids at which the watcher saw a message."""
    with mailbox.database.reading() as connection:
        return connection.execute(
            "SELECT folder, uid FROM watched WHERE account = ? AND missing_since IS NULL "
            "AND key IN (SELECT key FROM watched WHERE account = ? AND uid = ?) LIMIT 10",
            (account, account, uid),
        ).fetchall()


def plain_text(message: bytes) -> str:
    r"""Return the text of a message without tags, at most `_MAX_CHARS` characters.

    Examples
    --------
    >>> plain_text(b"Content-Type: text/html\n\n<style>p {}</style><p>Cheap &amp; <b>good</b>")
    'Cheap & good'
    """
    texts = []
    free_chars = _MAX_CHARS
    for part in parse(message).parts:
        if not part.is_text or free_chars <= 0:
            continue
        text = part.text[: 4 * _MAX_CHARS]
        if part.content_type == "text/html":
            text = html.unescape(_HUGE.sub("\ufffd", _TAG.sub(" ", _HIDDEN.sub("", text))))
            text = re.sub(r"[^\S\n]+", " ", text)
        text = "\n".join([line.rstrip() for line in text.split("\n")])
        text = _BLANK.sub("\n\n", text).strip()[:free_chars]
        free_chars -= len(text)
        texts.append(text)
    return "\n\n".join(filter(None, texts))


def tint_level(log_odds: float) -> int:
    """Return the tint of log-odds in nats, from -5 (strong evidence against a class) to 5.

    Examples
    --------
    >>> [tint_level(value) for value in (-3.0, -0.5, 0.0, 0.08, 2.0)]
    [-5, -3, 0, 1, 5]
    """
    size = abs(log_odds)
    level = _LEVELS
    if size < STRONG_LOG_ODDS:
        level = min(int(_LEVELS * (size / STRONG_LOG_ODDS) ** 0.5 + 0.5), _LEVELS - 1)
    return level if log_odds >= 0 else -level


def tint(mailbox: Mailbox, message: bytes, label: str) -> list[TintedText]:
    """Return the text of a message in parts, each with its evidence for a class."""
    with mailbox.reading():
        explanation = mailbox.classifier.explain_one(message)
    target = next((y for y in explanation.scores if str(y) == label), None)
    evidence = (
        {}
        if target is None
        else dict(explanation.top_features(target, len(explanation.contributions)))
    )
    words = {name: value for name, value in evidence.items() if isinstance(name, str)}
    parts: list[TintedText] = []
    for text in re.findall(r"\w+|\W+", plain_text(message)):
        value = words.get(text, words.get(text.lower(), 0.0))
        level = tint_level(value)
        if parts and level == 0 == parts[-1].level:
            parts[-1] = TintedText(parts[-1].text + text, 0, 0.0)
        else:
            parts.append(TintedText(text, level, value))
    return parts
