"""Who judges: one mailbox, or those of many users, as many of them open as there is room for."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

from streamnb.errors import StateError
from streamnb.mailbox.base import Base
from streamnb.mailbox.ledger import PROGRAM
from streamnb.mailbox.lessons import Outcome
from streamnb.mailbox.location import WAIT, user_path
from streamnb.mailbox.service.response import JudgeOptions, Response, judge
from streamnb.mailbox.store import Mailbox


def learn_if_sure(mailbox: Mailbox, message: bytes, found: Response) -> Outcome | None:
    """Learn what a message was taken for, as a program's word, where that is sure."""
    if found.status == 2 or found.label is None:
        return None
    return mailbox.learn(message, found.label, PROGRAM, "filter")


def record_verdict(
    mailbox: Mailbox, message: bytes, found: Response, place: str, learn: bool
) -> None:
    """What is done with a message that was judged, when nobody waits for it any more.

    Parameters
    ----------
    mailbox
        Who judged.
    message, found
        The message, and what was said of it.
    place
        Where it came by.
    learn
        Whether it is learned, where the verdict is sure.

    Raises
    ------
    StreamNBError
        Where that cannot be.
    """
    from streamnb.mailbox.record import Record

    Record(mailbox).note(message, found, place)
    if learn:
        learn_if_sure(mailbox, message, found)


class NoMailboxError(LookupError):
    """There is no such user, or it is another database."""


@dataclass(eq=False, repr=False)
class Mailboxes:
    """The mailboxes of a server, opened when first needed.

    Parameters
    ----------
    one
        The only one; None where there are many users.
    base
        What the site knows, for all users.
    most
        How many are open at once; the least recently used is closed first.
    """

    one: Mailbox | None
    base: Base | None = None
    most: int = 200

    def __post_init__(self) -> None:
        self.left: list[Future[None]] = []  # what is done after the answers, and not yet done
        self._open: OrderedDict[str, _Held] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def borrow(self, user: str | None, file: tuple[int, int] | None = None) -> Iterator[Mailbox]:
        """The mailbox of a user, or the only one.

        Parameters
        ----------
        user
            The user; None where there are not many.
        file
            Device and inode that the database must have.

        Raises
        ------
        NoMailboxError
            Where it is another database, or there are no users, or only users.
        """
        if (user is None) != (self.one is not None):
            raise NoMailboxError("not that database")
        mailbox = self.one if user is None else self._taken(user)
        assert mailbox is not None  # noqa: S101 (for the type checker)
        try:
            if mailbox.database.replaced():
                raise StateError(f"{mailbox.path}: another file has taken its place: start again")
            if file is not None and file != mailbox.database.file:
                raise NoMailboxError("not that database")
            yield mailbox
        finally:
            if user is not None:
                self._give_back(user)

    def judge(self, user: str | None, message: bytes, question: JudgeOptions | None) -> Response:
        """Ask the mailbox of a user, or the only one, what a message is."""
        with self.borrow(user) as mailbox:
            return judge(mailbox, message, question or JudgeOptions())

    def record(self, user: str | None, message: bytes, found: Response, place: str) -> None:
        """Record what `judge` found, when that was told."""
        with self.borrow(user) as mailbox:
            record_verdict(mailbox, message, found, place, learn=False)

    def _taken(self, user: str) -> Mailbox:
        with self._lock:
            held = self._open.get(user)
            if held is not None and not held.users and held.mailbox.database.replaced():
                self._open.pop(user).mailbox.close()
                held = None
            if held is None and self.base is None and not os.path.exists(user_path(user)):
                raise NoMailboxError(f"{user}: nothing was taught yet")
            if held is None:
                held = _Held(Mailbox(user_path(user), True, WAIT, base=self.base))
                self._open[user] = held
            held.users += 1
            self._open.move_to_end(user)
            return held.mailbox

    def _give_back(self, user: str) -> None:
        with self._lock:
            self._open[user].users -= 1
            idle = [name for name, held in self._open.items() if not held.users]
            for name in idle[: max(len(self._open) - self.most, 0)]:
                self._open.pop(name).mailbox.close()

    def close(self) -> None:
        """Close those of users."""
        with self._lock:
            for held in self._open.values():
                held.mailbox.close()
            self._open.clear()


@dataclass
class _Held:
    """An open mailbox, and by how many it is used just now."""

    mailbox: Mailbox
    users: int = 0
