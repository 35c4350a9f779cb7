"""The mailboxes of a server: a single one, or those of many users, opened on demand."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from streamnb.errors import (
    BusyError,
    ConfigError,
    DamagedDatabaseError,
    OutputError,
    StateError,
    StreamNBError,
)
from streamnb.locks import ForkSafeLock
from streamnb.mailbox.location import WAIT, is_url, user_path, users_folder
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.service.addresses import AddressBook
from streamnb.mailbox.service.response import JudgeOptions, Response, judge
from streamnb.mailbox.site_model import Guest, SiteModel
from streamnb.mailbox.verdict_log import record_verdict

_SLOW_FAILURE_S = 1.0  # seconds: after an error that took longer, later messages fail at once
_FIRST_RETRY_S, _LAST_RETRY_S = 1.0, 30.0  # seconds between attempts to reach a database


class NoMailboxError(LookupError):
    """The user has no database, or this server does not serve the database."""


class NoCommonVerdictError(StreamNBError):
    """The recipients of a milter's message disagree about the verdict, or are too many."""


@dataclass(eq=False, repr=False)
class Mailboxes:
    """The mailboxes of a server.

    Parameters
    ----------
    single
        The only mailbox. None if there are many users, or until `open_single` opens it.
    base
        The site's model, for all users.
    open_limit
        Maximum number of open mailboxes of users. The least recently used is closed first.
    addresses
        The map from mail addresses to users.
    find_base
        Returns the site's model if it was created after the server started. None for no search.
    open_single
        Opens the only mailbox if that failed at the start, or if it was removed or replaced. None
        for no attempts.
    location
        Path or URL of the only mailbox.
    warn
        Called with a line if a database is damaged or cannot be reached.
    """

    single: Mailbox | None
    base: SiteModel | None = None
    open_limit: int = 200
    addresses: AddressBook = field(default_factory=AddressBook)
    find_base: Callable[[], SiteModel | None] | None = None
    open_single: Callable[[], Mailbox] | None = None
    location: str | None = None
    warn: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        if self.single is not None:
            self.location = self.single.location
        self.pending: list[Future[None]] = []  # work that continues after the replies
        self._users = _UserMailboxes(self.open_limit, self._site)
        self._lock = ForkSafeLock()
        self._guest = Guest()
        self._closed = threading.Event()
        self._outage: BusyError | DamagedDatabaseError | None = None  # why it cannot be opened
        self._damage: str | None = None  # the error of a damaged database
        self._damaged_users: set[str | None] = set()  # whose last message met a damaged database

    @property
    def open_count(self) -> int:
        """Return the number of open databases."""
        return self._users.open_count + (self.single is not None)

    @property
    def is_single(self) -> bool:
        """Return whether there is a single mailbox, not those of many users."""
        return self.single is not None or self.open_single is not None

    @property
    def fault(self) -> tuple[str, str] | None:
        """Return the state "away" or "damaged" of the single database and its error, or None."""
        if (outage := self._outage) is not None:
            is_damaged = isinstance(outage, DamagedDatabaseError)
            return "damaged" if is_damaged else "away", str(outage)
        return None if self._damage is None else ("damaged", self._damage)

    @property
    def has_fault(self) -> bool:
        """Return whether the single database has a fault, or a user's database is damaged."""
        return self.fault is not None or bool(self._damaged_users)

    def check_replaced(self) -> None:
        """Begin an outage if the single database was removed or replaced.

        Raises
        ------
        StateError
            If it cannot be opened again.
        """
        mailbox = self.single
        try:
            if mailbox is None or not mailbox.database.is_replaced():
                return
        except OutputError as error:  # the database is usable again when its path is
            if self.warn is not None:
                self.warn(str(error))
            return
        problem = f"{mailbox.path}: the database was removed or replaced by another file"
        if self.open_single is None:
            raise StateError(f"{problem}; restart the server")
        if self.warn is not None:
            self.warn(f"{problem}; it is opened again")
        with self._lock:  # the thread of an outage can have opened the database meanwhile
            if self.single is mailbox:
                self.begin_outage(BusyError(problem))  # first, because messages need one of the two
                self.single = None

    def begin_check(self) -> None:
        """Check the single database in the background, so damage is known before mail meets it."""
        threading.Thread(target=self._check, name="streamnb-check", daemon=True).start()

    def _check(self) -> None:
        # other errors than damage, such as too many open files, are errors of the messages, too
        with suppress(Exception):
            from streamnb.mailbox.status import check_file  # here: `filter` needs none

            checked = self.single
            try:
                # another connection, because a check of a large file takes seconds
                with Mailbox(str(self.location), create=False) as mailbox:
                    check_file(mailbox)
            except DamagedDatabaseError as error:
                self._note_damage(checked, error)
                if self.warn is not None:
                    self.warn(f"some mail may pass unmarked: {error}")

    def _note_damage(self, mailbox: Mailbox | None, error: DamagedDatabaseError) -> None:
        """Remember the damage of the single database, unless a new file has replaced it."""
        with self._lock:
            if mailbox is self.single:
                self._damage = str(error)

    @contextmanager
    def borrow(
        self, user: str | None, file: tuple[int, int] | None = None, writes: bool = False
    ) -> Iterator[Mailbox]:
        """Open the mailbox of a user, or the only mailbox, during a `with` block.

        Parameters
        ----------
        user
            The user. None for the only mailbox.
        file
            Required device and inode of the database. None for any.
        writes
            Whether the block writes. A lock of another process then does not begin an outage:
            messages can still be classified.

        Raises
        ------
        NoMailboxError
            If the user does not exist, or the database is another one.
        BusyError, DamagedDatabaseError
            If the only database cannot be reached or opened.
        """
        if (user is None) != self.is_single:
            raise NoMailboxError("this server does not serve that database")
        source = self._borrow_single(file, writes) if user is None else self._users.borrow(user)
        with source as mailbox:
            if mailbox.database.is_replaced():
                raise StateError(
                    f"{mailbox.path}: the database was replaced by another file; send the message "
                    "again"
                )
            if file is not None and file != mailbox.database.file:
                raise NoMailboxError("this server does not serve that database")
            yield mailbox

    @contextmanager
    def _borrow_single(self, file: tuple[int, int] | None, writes: bool) -> Iterator[Mailbox]:
        """Return the only mailbox; a slow error in the `with` block begins an outage."""
        self.check_replaced()
        with self._lock:  # the thread of an outage changes both
            mailbox, outage = self.single, self._outage
        if outage is not None:
            if file is not None and mailbox is None and not is_url(str(self.location)):
                raise NoMailboxError("the client can open the file itself")
            # a new object, because Python would add the traceback of each message
            raise type(outage)(str(outage))
        assert mailbox is not None  # noqa: S101 (for the type checker)
        started = time.monotonic()
        try:
            yield mailbox
        except StreamNBError as error:
            is_slow = time.monotonic() - started > _SLOW_FAILURE_S
            is_lock = writes and isinstance(error, BusyError)
            if isinstance(error, DamagedDatabaseError):
                self._note_damage(mailbox, error)
            if mailbox is self.single and is_slow and not is_lock:
                self.begin_outage(error)
            raise

    def judge(
        self,
        user: str | None,
        message: bytes,
        options: JudgeOptions | None,
        file: tuple[int, int] | None = None,
    ) -> Response:
        """Return the verdict of a user's mailbox, or of the only one; `file` as for `borrow`.

        The site's model gives the verdict if the database is damaged or cannot be reached or
        created, or if the user cannot have one.
        """
        options = options or JudgeOptions()
        if not self._is_guest(user):
            try:
                with self.borrow(user, file) as mailbox:
                    response = judge(mailbox, message, options)
                self._damaged_users.discard(user)
                return response
            except (BusyError, DamagedDatabaseError, OutputError) as error:
                if isinstance(error, DamagedDatabaseError) and not self.is_single:
                    self._damaged_users.add(user)
                if self._site() is None:
                    raise
                if self.warn is not None:
                    self.warn(f"only the site's model is used: {error}")
        self._guest.base = self._site()
        return judge(self._guest, message, options)

    def record(self, user: str | None, message: bytes, response: Response, place: str) -> None:
        """Record a verdict of `judge` after it was sent, if the user can have a database."""
        if self._is_guest(user):
            return
        with self.borrow(user, writes=True) as mailbox:
            record_verdict(mailbox, message, response, place, learn=False)

    def _is_guest(self, user: str | None) -> bool:
        """Return whether only the site's model gives the verdicts of a user."""
        return user is not None and _database_path(user) is None and self._site() is not None

    def _site(self) -> SiteModel | None:
        """Return the site's model, also if it was made since the server started."""
        if self.base is None and self.find_base is not None:
            self.base = self.find_base()
        return self.base

    def begin_outage(self, error: StreamNBError) -> None:
        """Make calls fail at once, and try in the background to reach the database."""
        with self._lock:
            if self._outage is None:
                self._outage = _outage_of(error)
                threading.Thread(target=self._retry, name="streamnb-retry", daemon=True).start()

    def _retry(self) -> None:
        delay_s = _FIRST_RETRY_S
        while not self._closed.wait(delay_s):
            try:
                self.check_replaced()
                if self.single is None and self.open_single is not None:
                    self.single = self.open_single()
                mailbox = self.single
                if mailbox is not None:
                    judge(mailbox, b"")
            # an error must not end the retries, or the outage would be permanent
            except Exception as error:
                self._outage = _outage_of(error)
                delay_s = min(2 * delay_s, _LAST_RETRY_S)
                continue
            with self._lock:
                if self.single is not mailbox:  # the database was replaced again
                    continue
                self._outage = self._damage = None
            self.begin_check()
            return

    def close(self) -> None:
        """Close the users' mailboxes, and stop trying to reach a database."""
        self._closed.set()
        if self.open_single is not None and self.single is not None:
            self.single.close()
        self._users.close()


def _outage_of(error: Exception) -> BusyError | DamagedDatabaseError:
    """Return the error that messages get while the database cannot be opened, given its reason."""
    if isinstance(error, DamagedDatabaseError):
        return error
    return BusyError(str(error) or type(error).__name__)


def _database_path(user: str) -> str | None:
    """Return the path of a user's database, None if the name cannot have one."""
    with suppress(ConfigError):
        return user_path(user)
    return None


@dataclass
class _OpenMailbox:
    """A user's mailbox, None until it is opened, and the number of its current borrowers."""

    mailbox: Mailbox | None = None
    borrowers: int = 0
    lock: ForkSafeLock = field(default_factory=ForkSafeLock)


class _UserMailboxes:
    """The open mailboxes of users, at most `limit` of them if no more are borrowed at once."""

    def __init__(self, limit: int, find_base: Callable[[], SiteModel | None]) -> None:
        self._limit = limit
        self._find_base = find_base
        self._open: OrderedDict[str, _OpenMailbox] = OrderedDict()
        self._lock = ForkSafeLock()

    @property
    def open_count(self) -> int:
        return len(self._open)

    @contextmanager
    def borrow(self, user: str) -> Iterator[Mailbox]:
        """Open the mailbox of a user during a `with` block."""
        with self._lock:
            entry = self._open.setdefault(user, _OpenMailbox())
            entry.borrowers += 1
            self._open.move_to_end(user)
        try:
            # this lock is per user, so a slow database does not delay other users
            with entry.lock:
                mailbox = self._open_mailbox(user, entry)
            yield mailbox
        finally:
            self._release(user)

    def _open_mailbox(self, user: str, entry: _OpenMailbox) -> Mailbox:
        if (
            entry.mailbox is not None
            and entry.borrowers == 1
            and entry.mailbox.database.is_replaced()
        ):
            entry.mailbox.close()
            entry.mailbox = None
        base = self._find_base()
        if entry.mailbox is not None:
            entry.mailbox.base = base
        else:
            path = _database_path(user)
            if path is None:
                raise NoMailboxError(f"{user!r:.100}: this name cannot have a database")
            if not os.path.isdir(folder := users_folder()):  # perhaps it is not mounted
                raise BusyError(
                    f"{folder}: the folder of the users is missing; mount or restore it"
                )
            if base is None and not os.path.exists(path):
                raise NoMailboxError(
                    f"{user}: this user has no database yet, and there is no model of the site"
                )
            entry.mailbox = Mailbox(path, True, WAIT, base=base)
        return entry.mailbox

    def _release(self, user: str) -> None:
        with self._lock:
            entry = self._open[user]
            entry.borrowers -= 1
            idle = [name for name, other in self._open.items() if not other.borrowers]
            surplus = idle[: max(len(self._open) - self._limit, 0)]
            if not entry.borrowers and entry.mailbox is None and user not in surplus:
                surplus.append(user)
            closing = [self._open.pop(name).mailbox for name in surplus]
        for mailbox in closing:
            if mailbox is not None:
                mailbox.close()

    def close(self) -> None:
        with self._lock:
            for entry in self._open.values():
                if entry.mailbox is not None:
                    entry.mailbox.close()
