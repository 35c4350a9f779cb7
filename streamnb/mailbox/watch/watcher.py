"""Watching an account: new mail is classified, and what its owner does with mail is learned.

Moves are told by comparing what lies in the folders now with what lay there before, so they are
noticed also when they were made while nobody watched.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from streamnb.errors import (
    BusyError,
    MailCopyError,
    MailRefusedError,
    OutputError,
    StateError,
    StreamNBError,
    root_cause,
)
from streamnb.mail import parse
from streamnb.mailbox.digest import digest, header_key
from streamnb.mailbox.ledger import HUMAN, PROGRAM
from streamnb.mailbox.record import Record
from streamnb.mailbox.service.response import Response, judge
from streamnb.mailbox.store import Mailbox
from streamnb.mailbox.watch.locations import Place, Places
from streamnb.mailbox.watch.plan import Plan, sender_of

_RECENT = 86400.0  # seconds that a watcher may have been away for while a message was moved
_AGED = 1e12  # `Place.since` of what has lain there long enough, and was seen to


class Listed(NamedTuple):
    """A message as a folder lists it.

    Attributes
    ----------
    said
        "junk" or "notjunk" where exactly one of the keywords $Junk and $NotJunk is set; else "".
    read
        Whether it was read.
    """

    said: str
    read: bool


class Account(Protocol):
    """Folders of messages, on a server or a disk."""

    name: str

    def folders(self) -> list[str]:
        """The names of all folders but the bin and such."""

    def canonical(self, folder: str) -> str:
        """The name that `folders` has for a folder: one folder has one name."""

    def state(self, folder: str) -> object:
        """Something that differs when the folder has changed; None where that cannot be told."""

    def listing(self, folder: str) -> dict[str, Listed]:
        """All messages of a folder by uid; a uid never means another message."""

    def headers(self, folder: str, uids: list[str]) -> dict[str, bytes | None]:
        """Header fields of messages that are still there; None for one that cannot be read."""

    def fetch(self, folder: str, uid: str) -> bytes | None:
        """The message, as much of it as is looked at; None where it is gone."""

    def file(self, folder: str, uid: str, target: str, junk: bool) -> bool:
        """Move a message into another folder, as junk or not; False where it is gone."""

    def make(self, folder: str) -> None:
        """Make a folder, where it is missing."""

    def wait(self, folder: str, seconds: float, stopping: Callable[[], bool]) -> None:
        """Wait until something happens in a folder, or so long; asked whether to stop meanwhile."""

    def close(self) -> None:
        """Let go of what is held open."""


def pause(seconds: float, stopping: Callable[[], bool]) -> None:
    """Wait so long, or until it is to stop."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not stopping():
        time.sleep(min(left, 0.2))


@dataclass(eq=False, repr=False)
class Watcher:
    """Looks at an account again and again.

    Parameters
    ----------
    mailbox
        What classifies and learns.
    account, plan
        What is watched, and how.
    say
        Called with a line for everything that is done.
    stopping
        Tells whether to stop; asked between messages.
    """

    mailbox: Mailbox
    account: Account
    plan: Plan
    say: Callable[[str], None]
    stopping: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        self.places = Places(self.mailbox.database, self.account.name)
        self._record = Record(self.mailbox)
        self._states: dict[str, object] = {}
        # What was put off, and when it was looked before that: what is gone since then was moved.
        self._put_off: dict[tuple[str, str], float] = {}
        self._existing: list[Place] | None = None  # what lies in the inbox and is to be judged
        self._before = time.time() - _RECENT  # when it was looked at before
        self._filed: set[bytes] = set()  # the keys of what was filed in this look

    def look(self) -> None:
        """Look at all folders once, and do what there is to do."""
        now = self._now()
        if self.mailbox.database.replaced():
            raise StateError(f"{self.mailbox.path}: the database was removed or replaced")
        appeared: list[Place] = []
        try:
            states = {folder: self.account.state(folder) for folder in self.plan.all_folders}
            for folder, state in states.items():
                waiting = folder == self.plan.inbox and self.plan.ham_after is not None
                if state is not None and self._states.get(folder) == state and not waiting:
                    continue
                self._states[folder] = state
                appeared += self._compare(folder, self.account.listing(folder), now)
            if self._existing is None:
                here = self.places.of_folder(self.plan.inbox) if self.plan.existing else {}
                self._existing = [place for place in here.values() if not place.filed]
            self._filed.clear()
            # The inbox last: of what is in its class's folder it may have got another copy.
            for place in sorted(appeared, key=lambda place: place.folder == self.plan.inbox):
                if self.stopping():
                    return
                self._attempt(self._new, place)
            while self._existing and not self.stopping():
                self._attempt(self._lay_there, self._existing.pop())
        except BaseException:
            self._states.clear()  # look at everything again
            raise
        self.places.purge(now)
        self._before = now

    def _now(self) -> float:
        """The time, and never before the last look: what is gone since is told by it."""
        return max(time.time(), self._before)

    def _attempt(self, act: Callable[..., None], place: Place, *rest: object) -> None:
        """Do something with a message; one that cannot be handled does not stop the others."""
        try:
            act(place, *rest)
            self._put_off.pop((place.folder, place.uid), None)
        except MailCopyError as error:
            self.say(f"{place.folder}/{place.uid}: left alone: {error}")
        except (BusyError, OutputError, MailRefusedError, OSError) as error:
            self._later(place.folder, place.uid, root_cause(error))
        except StreamNBError:
            raise
        except Exception as error:  # whatever is in a mail must not end the watching
            self.say(f"{place.folder}/{place.uid}: left alone: {type(error).__name__}: {error}")
            self.places.put_all([place])

    def _later(self, folder: str, uid: str, why: str) -> None:
        """Put a message off until the next look."""
        if (folder, uid) not in self._put_off:  # said once
            self.say(f"{folder}/{uid}: later: {why}")
            self._put_off[folder, uid] = self._before
        self._states.clear()

    def _compare(self, folder: str, listing: dict[str, Listed], now: float) -> list[Place]:
        """What has come to a folder; what has gone is noted, and what keywords say is learned."""
        known = self.places.of_folder(folder)
        for one in [one for one in self._put_off if one[0] == folder and one[1] not in listing]:
            del self._put_off[one]
        gone = [place._replace(gone=now) for uid, place in known.items() if uid not in listing]
        if gone:
            self.places.put_all(gone)
        for uid, place in known.items():
            if uid in listing and not self.stopping():
                self._attempt(self._stayed, place, listing[uid], now)
        new = [uid for uid in listing if uid not in known]
        seen = self.places.looked_at(folder)
        appeared = []
        for uid, header in self.account.headers(folder, new).items():
            if header is None:
                if seen:
                    self._later(folder, uid, "it cannot be read")
                    continue
                header = uid.encode()
            place = Place(folder, uid, header_key(header), listing[uid].said, False, now, None)
            appeared.append((place, header))
        if not seen:  # what lay there before tells nothing
            self.places.put_all((place for place, _ in appeared), folder)
            self.say(f"{folder}: {len(appeared):,} messages are there already")
            return []
        return [
            place._replace(filed=self.plan.is_filed(folder, header)) for place, header in appeared
        ]

    def _stayed(self, place: Place, listed: Listed, now: float) -> None:
        """A message is where it was: its keywords may have changed, or it may have aged."""
        again = place.filed or (place.folder, place.uid) in self._put_off
        if again and place.folder == self.plan.inbox:  # we were stopped while filing it, or refused
            self._appeared(place._replace(said=listed.said))
        elif listed.said != place.said:
            label = {"junk": "spam", "notjunk": self.plan.ham or "ham"}.get(listed.said)
            self._teach(place._replace(said=listed.said), label)
        elif (
            self.plan.ham_after is not None
            and place.folder == self.plan.inbox
            and listed.read
            and now - place.since > self.plan.ham_after
        ):
            self._grown_old(place)

    def _grown_old(self, place: Place) -> None:
        """Take what was read and kept for ham, unless something was said of it; once."""
        message = self.account.fetch(place.folder, place.uid)
        if message is None:
            return
        done = place._replace(since=_AGED)
        if self.mailbox.label_of(digest(message)) is not None:
            self._arrive(done, None)
            return
        source = f"watch {place.folder}"
        label = self.plan.ham or "ham"
        self.mailbox.learn(message, label, PROGRAM, source, also=lambda: self._note(done, None))
        self.say(f"{place.folder}/{place.uid}: read and kept: {label}")

    def _new(self, place: Place) -> None:
        """A message is where it was not; another watcher may have seen to it meanwhile."""
        known = self.places.at(place.folder, place.uid)
        if known is None or known.gone is not None or known.key != place.key:
            self._appeared(place)

    def _appeared(self, place: Place) -> None:
        """A message has come: by delivery, or by its owner's hand."""
        plan = self.plan
        since = self._put_off.get((place.folder, place.uid), self._before)
        before = self.places.of_message(place.key, (place.folder, place.uid), since)
        moved = before is not None and before.gone is not None
        if place.folder in plan.folders:
            self._into_class(place, before)
        elif before is not None and moved and before.folder == place.folder:
            if before.filed and place.folder == plan.inbox:
                if place.key in self._filed:  # another copy, which was here before that
                    self._delivered(place._replace(filed=False))
                else:  # we filed it; here it is again
                    self._teach(place._replace(filed=False), plan.ham, before)
            else:  # only its uid is new
                self._arrive(place._replace(filed=before.filed, since=before.since), before)
        elif before is not None and moved and plan.is_retracted(_origin(before), place.folder):
            if before.gone is not None and before.gone >= since:
                self._teach(place._replace(filed=False), plan.ham, before)
            else:  # out of the bin, or another mail of the same header
                self._arrive(place._replace(filed=False), before)
        elif place.folder == plan.inbox and not moved:
            self._delivered(place._replace(filed=False))
        else:
            self._arrive(place._replace(filed=False), before)

    def _lay_there(self, place: Place) -> None:
        """Classify what lay in the inbox before, unless somebody has ever said what it is."""
        message = self.account.fetch(place.folder, place.uid)
        if message is not None and not self.mailbox.was_taught(digest(message)):
            self._delivered(place)

    def _arrive(self, place: Place, before: Place | None) -> None:
        """Note where a message is; where it was is not where it is any more."""
        with self.mailbox.database.writing():
            self._note(place, before)

    def _note(self, place: Place, before: Place | None) -> None:
        if before is not None and before.gone is not None:
            self.places.drop(before)
        self.places.put(place)  # last: a file that comes back to a Maildir has its old name

    def _into_class(self, place: Place, before: Place | None) -> None:
        """Only what its owner moved there is learned, not what a program did."""
        ours = place.filed
        if (
            before is not None
            and before.gone is None
            and self.account.fetch(before.folder, before.uid) is None
        ):  # no copy: it was moved between the listing of that folder and that of this one
            before = before._replace(gone=self._now())
        if before is not None:
            ours = before.folder == self.plan.inbox and before.filed in (1, place.folder)
        if before is not None and before.folder == place.folder:
            self._arrive(place._replace(filed=before.filed), before)
        elif ours:
            self._arrive(place._replace(filed=True), before)
        else:
            self._teach(place._replace(filed=False), self.plan.folders[place.folder], before)

    def _teach(self, place: Place, label: str | None, before: Place | None = None) -> None:
        """Learn what the owner says of a message; taking back what he said takes it back."""
        message = self.account.fetch(place.folder, place.uid)
        if message is None:
            return  # it has moved on; where it has come to, it is found
        where = f"{place.folder}/{place.uid}"
        key = digest(message)
        known = self.mailbox.label_of(key)
        ours = known is not None and known[1] == HUMAN and known[2].startswith("watch ")
        back = label is None or label == self.plan.ham
        note = partial(self._note, place, before)
        if known is not None and ours and back and known[0] != label:
            self.mailbox.retract(key, [label] if label else [], also=note)
            self.say(f"{where}: taken back: {known[0]}")
        elif label is None:
            self._arrive(place, before)
        else:
            source = f"watch {place.folder}"
            outcome = self.mailbox.learn(message, label, HUMAN, source, also=note)
            self.say(f"{where}: {label} ({outcome.what})")

    def _delivered(self, place: Place) -> None:
        """Classify new mail, and file it if told so."""
        message = self.account.fetch(place.folder, place.uid)
        if message is None:
            return
        line, target, found = self._judged(place, message)
        moved = None
        if target is None or target == place.folder:
            self._arrive(place, None)
            self.say(line)
        elif not self.plan.move:
            self._arrive(place, None)
            self.say(f"{line}: would be moved to {target} (--move)")
        elif self._file(place, target, line):
            moved = target
        if found is not None:
            where = json.dumps([self.account.name, moved or place.folder, place.uid])
            with contextlib.suppress(BusyError):
                self._record.note(message, found, where, moved)

    def _judged(self, place: Place, message: bytes) -> tuple[str, str | None, Response | None]:
        """What is said of a message, where it belongs (None where it stays), and the verdict."""
        where = f"{place.folder}/{place.uid}"
        if self.plan.pinned:
            values = [value for name, value in parse(message).fields if name.lower() == b"from"]
            pin = self.plan.pin_of(sender_of(values[0])) if len(values) == 1 else None
            if pin is not None:
                return f"{where}: of a sender that is pinned", pin or None, None
        found = judge(self.mailbox, message)
        line = f"{where}: {found.mark} {found.score:.4f}"
        label = found.label or ""
        target = self.plan.folder_of(label)
        if found.status != 2:
            return line, target, found
        if target is not None and not found.ready:
            return f"{line}: not ready to move {label} yet (streamnb status)", None, found
        return line, self.plan.unsure if found.ready else None, found

    def _file(self, place: Place, target: str, line: str) -> bool:
        """Move a message; noted before, so that its owner is not taken for having done it."""
        if not self._note_unless_gone(place._replace(filed=target)):
            return False
        try:
            junk = self.plan.folders.get(target) == "spam"
            moved = self.account.file(place.folder, place.uid, target, junk)
        except (MailRefusedError, OutputError):
            with self.mailbox.database.writing():
                self.places.drop(place)  # so that it is new to the next look, whoever looks
            raise
        if moved:
            self._filed.add(place.key)
            self._arrive(place._replace(filed=target, gone=self._now()), None)
            self.say(f"{line}: moved to {target}")
            return True
        self._note_unless_gone(place)
        self.say(f"{line}: it was moved meanwhile")
        return False

    def _note_unless_gone(self, place: Place) -> bool:
        """Note where a message is, unless another watcher noted meanwhile that it has moved it."""
        with self.mailbox.database.writing():
            known = self.places.at(place.folder, place.uid)
            gone = known is not None and known.key == place.key and known.gone is not None
            if not gone:
                self._note(place, None)
        return not gone


def _origin(before: Place) -> str:
    """The folder that a message came from: if we had moved it meanwhile, the one we moved it to."""
    return before.filed if isinstance(before.filed, str) else before.folder
