"""A message as plain text, each word with what it says: never its HTML, nothing from elsewhere."""

from __future__ import annotations

import html
import json
import re
from typing import NamedTuple

from streamnb.errors import StreamNBError
from streamnb.mail import parse
from streamnb.mailbox.digest import digest
from streamnb.mailbox.record import Entry
from streamnb.mailbox.store import Mailbox
from streamnb.mailbox.watch.account import Account

_MOST = 100_000  # characters of a text that are shown
_TAG = re.compile(r"<[^<>]*>")
_BLANK = re.compile(r"\n\n\s*")
_HIDDEN = re.compile(r"<(style|script).*?(?:(?=</\1)|\Z)", re.A | re.I | re.S)
_HUGE = re.compile(r"&#[0-9a-fx]{100,}", re.I)  # Python reads no number that is very long
_LEVELS = 5  # of tint, either way


class Piece(NamedTuple):
    """A piece of text, and what it says of the class: from -5 (against it) to 5."""

    text: str
    level: int
    gain: float


def fetched(mailbox: Mailbox, account: Account | None, entry: Entry) -> bytes | None:
    """A recorded message, where it still is; None where it cannot be reached."""
    try:
        name, folder, uid = json.loads(entry.place)
    except (ValueError, TypeError):
        return None
    if account is None or name != account.name:
        return None
    for where in [(folder, uid), *_later_places(mailbox, name, uid)]:
        try:
            message = account.fetch_message(*where)
            if message is None:  # an account knows the files of what it has listed
                account.list_messages(where[0])
                message = account.fetch_message(*where)
        except StreamNBError:
            continue
        if message is not None and digest(message) == entry.digest:
            return message
    return None


def _later_places(mailbox: Mailbox, account: str, uid: str) -> list[tuple[str, str]]:
    """Where the watcher has seen a message since."""
    with mailbox.database.reading() as connection:
        return connection.execute(
            "SELECT folder, uid FROM watched WHERE account = ? AND gone IS NULL AND key IN "
            "(SELECT key FROM watched WHERE account = ? AND uid = ?) LIMIT 10",
            (account, account, uid),
        ).fetchall()


def plain_text(message: bytes) -> str:
    r"""The text of a message, tags left out, so much as is shown.

    Examples
    --------
    >>> plain_text(b"Content-Type: text/html\n\n<style>p {}</style><p>Cheap &amp; <b>good</b>")
    'Cheap & good'
    """
    shown = []
    left = _MOST
    for part in parse(message).parts:
        if not part.is_text or left <= 0:
            continue
        text = part.text[: 4 * _MOST]
        if part.content_type == "text/html":
            text = html.unescape(_HUGE.sub("\ufffd", _TAG.sub(" ", _HIDDEN.sub("", text))))
            text = re.sub(r"[^\S\n]+", " ", text)
        text = "\n".join([line.rstrip() for line in text.split("\n")])
        text = _BLANK.sub("\n\n", text).strip()[:left]
        left -= len(text)
        shown.append(text)
    return "\n\n".join(filter(None, shown))


def tinted(mailbox: Mailbox, message: bytes, label: str) -> list[Piece]:
    """The text of a message in pieces, each with what it says of a class."""
    with mailbox.reading():
        why = mailbox.classifier.explain_one(message)
    wanted = next((known for known in why.scores if str(known) == label), None)
    gains = {} if wanted is None else dict(why.top_features(wanted, len(why.contributions)))
    words = {name: gain for name, gain in gains.items() if isinstance(name, str)}
    loudest = max((abs(gain) for gain in words.values()), default=0.0) or 1.0
    pieces: list[Piece] = []
    for text in re.findall(r"\w+|\W+", plain_text(message)):
        gain = words.get(text, words.get(text.lower(), 0.0))
        level = round(_LEVELS * min(1.0, abs(gain) / loudest) ** 0.5) * (1 if gain >= 0 else -1)
        if pieces and level == 0 == pieces[-1].level:
            pieces[-1] = Piece(pieces[-1].text + text, 0, 0.0)
        else:
            pieces.append(Piece(text, level, gain))
    return pieces
