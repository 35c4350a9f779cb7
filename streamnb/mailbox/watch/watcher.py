"""Watching of an account: it classifies new mail, and learns from a person's moves of mail.

A scan compares each folder with the locations that the last scan stored. So it detects moves that
were made while no watcher ran, too.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from streamnb.errors import (
    BusyError,
    CorpusError,
    MailCopyError,
    MailRefusedError,
    OutputError,
    StateError,
    StreamNBError,
    message_count,
    root_cause,
)
from streamnb.mail import parse
from streamnb.mailbox.digest import digest, header_key
from streamnb.mailbox.ledger import HUMAN, PROGRAM
from streamnb.mailbox.mailbox import Mailbox
from streamnb.mailbox.service.response import Response, judge
from streamnb.mailbox.verdict_log import VerdictLog
from streamnb.mailbox.watch.account import UNKNOWN_KEYWORD, Account, ListedMessage
from streamnb.mailbox.watch.locations import FAILED_MOVE, LocationTable, MessageLocation
from streamnb.mailbox.watch.plan import FolderPlan, sender_address

_AWAY_S = 86400.0  # seconds from the assumed last scan to the start, if no scan is stored
_TICK_S = 1e-3  # minimum seconds between scans
# Within this number of seconds, a copy into a class's folder and the deletion of its original are
# one move. Programs that synchronise folders one after the other take minutes.
_COPY_S = 3600.0
# Seconds for which each scan tries a message again that cannot be read or moved, and after that the
# seconds between two attempts. Each attempt lists the folder.
_RETRY_S = 600.0
_AGED = 1e12  # `first_seen` of a message that `ham_after` has handled


@dataclass(eq=False, repr=False)
class Watcher:
    """Lists an account's folders repeatedly, and learns and classifies their mail.

    A person labels a message by moving it between two scans: into the folder of a class, or from
    there back to the inbox. A scan must have seen the message at its old location. A change of a
    keyword is a label, too. Other mail in a class's folder is not learned: a program put it there.

    Parameters
    ----------
    mailbox
        Classifies and learns.
    account
        The account that is watched.
    plan
        Its rules.
    report
        Called with a line for each classified, learned or moved message.
    should_stop
        Polled between messages.
    """

    mailbox: Mailbox
    account: Account
    plan: FolderPlan
    report: Callable[[str], None]
    should_stop: Callable[[], bool] = lambda: False

    @property
    def has_copies(self) -> bool:
        """True if messages wait for the next scan, because their move may be incomplete."""
        return bool(self._copies)

    def __post_init__(self) -> None:
        self.locations: LocationTable = LocationTable(self.mailbox.database, self.account.name)
        self._verdicts = VerdictLog(self.mailbox)
        self._states: dict[str, object] = {}
        self._listed_folders: set[str] = set()
        self._skipped_folders: set[str] = set()  # folders that could not be listed
        # For each deferred message, the time of the last scan before the first attempt, and the
        # failed action.
        self._deferred: dict[tuple[str, str], tuple[float, Callable[..., None] | None]] = {}
        # For each folder with deferred messages, the time from which it is listed again.
        self._retry_at: dict[str, float] = {}
        self._copies: set[tuple[str, str]] = set()  # messages whose original was still there
        self._existing: list[MessageLocation] | None = None  # inbox mail still to be classified
        stored_scan = self.locations.last_scan()
        self._last_scan = time.time() - _AWAY_S if stored_scan is None else stored_scan
        self._is_look_stored = False
        self._has_departures = False
        self._moved_keys: set[bytes] = set()  # keys of the messages that this scan moved
        # copies whose original left its folder since the last scan
        self._late_moves: list[MessageLocation] = []

    def scan(self) -> None:
        """List all folders once, and learn, classify and move what changed."""
        now = self._now()
        if self.mailbox.database.is_replaced():
            raise StateError(
                f"{self.mailbox.path}: the database was removed or replaced; "
                "start `streamnb watch` again"
            )
        if not self.locations.has_keywords():
            self.locations.set_keywords_unknown()
        arrivals: dict[tuple[str, str], MessageLocation] = {}
        self._has_departures = False
        try:
            self._leave_missing_folders(set(self.plan.all_folders), now)
            for folder, state in self._folder_states().items():
                try:
                    arrivals |= self._compare_if_changed(folder, state, now)
                except (MailRefusedError, CorpusError, OSError) as error:
                    self._skip_folder(folder, error)
            if self._has_departures:  # perhaps into the inbox, after it was listed
                # The second listing replaces the first one: the server may have renumbered it.
                arrivals = {
                    key: item for key, item in arrivals.items() if key[0] != self.plan.inbox
                }
                arrivals |= self._compare(self.plan.inbox, now)
            if self._existing is None:
                stored = self.locations.in_folder(self.plan.inbox) if self.plan.existing else {}
                self._existing = [item for item in stored.values() if item.moved_to is None]
            self._moved_keys.clear()
            # Views of other folders are last, because they have copies of arrivals; the inbox can
            # have a second copy of a message in a class's folder.
            order = (*self.plan.folders, self.plan.inbox)
            for location in sorted(
                arrivals.values(),
                key=lambda item: order.index(item.folder) if item.folder in order else len(order),
            ):
                if self.should_stop():
                    return
                self._attempt(self._handle_arrival, location)
            for copy in self._late_moves.copy():
                if self.should_stop():
                    return
                self._attempt(self._handle_new, copy)
                if (copy.folder, copy.uid) not in self._deferred:
                    self._late_moves.remove(copy)
            while self._existing and not self.should_stop():
                location = self._existing.pop()
                if (location.folder, location.uid) not in self._deferred:  # it waits for its label
                    self._attempt(self._classify_existing, location)
        except BaseException:
            self._states.clear()  # list everything again
            raise
        # A scan without changes is not stored, unless the stored one had changes.
        is_changed = bool(arrivals) or self._has_departures
        if is_changed or not self._is_look_stored:
            self.locations.end_scan(now)
            self._is_look_stored = not is_changed
        self._last_scan = now

    def _folder_states(self) -> dict[str, object]:
        """Return the state of each folder that can be opened, before any folder is listed."""
        states: dict[str, object] = {}
        for folder in self.plan.all_folders:
            try:
                states[folder] = self.account.folder_state(folder)
            except (MailRefusedError, CorpusError, OSError) as error:
                self._skip_folder(folder, error)
        return states

    def _compare_if_changed(
        self, folder: str, state: object, now: float
    ) -> dict[tuple[str, str], MessageLocation]:
        """Return the new messages of a folder; {} without listing it if its state is the same."""
        can_age = folder == self.plan.inbox and self.plan.ham_after is not None
        is_due = can_age or now >= self._retry_at.get(folder, math.inf)
        if state is not None and self._states.get(folder) == state and not is_due:
            return {}
        self._retry_at.pop(folder, None)
        arrivals = self._compare(folder, now)
        self._states[folder] = state
        self._skipped_folders.discard(folder)
        return arrivals

    def _skip_folder(self, folder: str, error: Exception) -> None:
        """Report a folder that cannot be listed, once. Raise the error if the plan needs it."""
        needed = (self.plan.inbox, self.plan.unsure, *self.plan.folders)
        if folder in needed or folder in self.plan.pinned.values():
            raise error
        if folder not in self._skipped_folders:
            self._skipped_folders.add(folder)
            self.report(f"{folder}: not watched: {root_cause(error)}")

    def _leave_missing_folders(self, listed: set[str], now: float) -> None:
        """Store that messages of deleted and renamed folders are missing."""
        if listed == self._listed_folders:
            return
        for folder in self.locations.folders() - listed:
            if not self.account.has_folder(folder):
                self._depart(self.locations.in_folder(folder), now)
        self._listed_folders = listed

    def _depart(self, locations: dict[str, MessageLocation], now: float) -> None:
        """Store that messages have left their folder."""
        if locations:
            self._has_departures = True
            self.locations.put_all(item._replace(missing_since=now) for item in locations.values())
            self._late_moves += (
                copy
                for item in locations.values()
                if self._class_folder(item.folder) not in self.plan.folders
                for copy in self.locations.copies(item.key, now - _COPY_S)
                if copy.folder in self.plan.folders
            )

    def _now(self) -> float:
        """Return the time; it is after the last scan, even if the clock was set back."""
        return max(time.time(), self._last_scan + _TICK_S)

    def _attempt(
        self, action: Callable[..., None], location: MessageLocation, *arguments: object
    ) -> None:
        """Handle a message. An error of one message does not stop the others."""
        try:
            action(location, *arguments)
            if (location.folder, location.uid) not in self._copies:
                self._deferred.pop((location.folder, location.uid), None)
        except MailCopyError as error:
            self.report(f"{location.folder}/{location.uid}: skipped: {error}")
        except (BusyError, OutputError, MailRefusedError, OSError) as error:
            self._defer(location.folder, location.uid, root_cause(error), action)
        except StreamNBError:
            raise
        except Exception as error:  # no mail may stop the watcher
            self.report(
                f"{location.folder}/{location.uid}: skipped: {type(error).__name__}: {error}"
            )
            self.locations.put_all([location])

    def _defer(
        self, folder: str, uid: str, reason: str = "", action: Callable[..., None] | None = None
    ) -> None:
        """Defer a message until the next scan; after `_RETRY_S`, until a scan in `_RETRY_S`."""
        if (folder, uid) not in self._deferred:
            if reason:  # report each message once
                self.report(f"{folder}/{uid}: skipped until the next scan: {reason}")
            self._deferred[folder, uid] = self._last_scan, action
        is_old = self._last_scan - self._deferred[folder, uid][0] > _RETRY_S
        retry_at = self._last_scan + (_RETRY_S if is_old else 0.0)
        self._retry_at[folder] = min(retry_at, self._retry_at.get(folder, retry_at))

    def _compare(self, folder: str, now: float) -> dict[tuple[str, str], MessageLocation]:
        """Return the new messages of a folder. Store missing ones, and learn from keywords."""
        listing = self.account.list_messages(folder)
        stored = self.locations.in_folder(folder)
        for key in [key for key in self._deferred if key[0] == folder and key[1] not in listing]:
            del self._deferred[key]
            self._copies.discard(key)
        self._depart({uid: item for uid, item in stored.items() if uid not in listing}, now)
        present = {uid: item for uid, item in stored.items() if uid in listing}
        for uid, location in (present | self._store_first_keywords(present, listing)).items():
            if not self.should_stop():
                self._attempt(self._handle_present, location, listing[uid], now)
        new_uids = [uid for uid in listing if uid not in stored]
        was_listed = self.locations.was_listed(folder)
        arrivals = {}
        for uid, header in self.account.fetch_headers(folder, new_uids).items():
            if header is None:
                if was_listed:
                    self._defer(folder, uid, "it cannot be read")
                    continue
                header = uid.encode()
            arrivals[folder, uid] = MessageLocation(
                folder, uid, header_key(header), listing[uid].keyword, None, now, None
            )
        if was_listed:
            return arrivals
        self.locations.put_all(
            arrivals.values(), folder
        )  # mail from before the first scan is not learned
        self.report(f"{folder}: {message_count(len(arrivals))} there already")
        return {}

    def _store_first_keywords(
        self, present: dict[str, MessageLocation], listing: dict[str, ListedMessage]
    ) -> dict[str, MessageLocation]:
        """Store and return the messages whose keyword was unknown. They are not learned."""
        first_known = {
            uid: location._replace(keyword=listing[uid].keyword)
            for uid, location in present.items()
            if location.keyword == UNKNOWN_KEYWORD != listing[uid].keyword
        }
        if first_known:
            self.locations.put_all(first_known.values())
        return first_known

    def _handle_present(self, location: MessageLocation, listed: ListedMessage, now: float) -> None:
        """Handle a message that was not moved; its keyword or age may have changed."""
        if listed.keyword == UNKNOWN_KEYWORD:
            listed = listed._replace(keyword=location.keyword)
        uid = (location.folder, location.uid)
        _, action = self._deferred.get(uid, (0.0, None))
        old_keyword, location = location.keyword, location._replace(keyword=listed.keyword)
        if location.folder == self.plan.inbox:
            self._copies.discard(uid)  # another watcher has handled it
        is_interrupted = (
            location.folder == self.plan.inbox
            and bool(location.moved_to)
            and not location.is_left_behind
        )
        if is_interrupted:
            location = location._replace(moved_to=None)
        # a person can mark the message before its move is retried
        if is_interrupted and not location.keyword == "notjunk" != old_keyword:
            self._handle_new(location)
        elif location.keyword != old_keyword:
            self._change_keyword(location, old_keyword)
        elif action == self._classify_existing:
            self._classify_existing(location)
        elif (
            self.plan.ham_after is not None
            and location.folder == self.plan.inbox
            and listed.is_read
            and now - location.first_seen > self.plan.ham_after
        ):
            self._learn_aged(location)

    def _learn_aged(self, location: MessageLocation) -> None:
        """Learn a message as ham that was read and stays in the inbox, unless it has a label."""
        message = self.account.fetch_message(location.folder, location.uid)
        if message is None:
            return
        aged = location._replace(first_seen=_AGED)
        if self.mailbox.label_of(digest(message)) is not None:
            self._store(aged)
            return
        source = f"watch {location.folder}"
        label = self.plan.ham or "ham"
        self.mailbox.learn(message, label, PROGRAM, source, run_first=lambda: self._put(aged))
        self.report(f"{location.folder}/{location.uid}: {label} (read and left in the inbox)")

    def _handle_arrival(self, location: MessageLocation) -> None:
        """Handle a new message in a folder, unless another watcher has handled it."""
        stored = self.locations.get(location.folder, location.uid)
        if stored is None or stored.missing_since is not None or stored.key != location.key:
            self._handle_new(location)

    def _handle_new(self, location: MessageLocation) -> None:
        """Learn a message that a person moved here, or classify a delivered one."""
        uid = (location.folder, location.uid)
        since, _ = self._deferred.get(uid, (self._last_scan, None))
        previous = self._previous_location(location, since)
        is_moved = previous is not None and previous.missing_since is not None
        location = location._replace(moved_to=None)
        if previous is not None and is_moved and self._is_in_renamed_folder(location, previous):
            self._store_unmoved(location, previous)
        elif location.folder in self.plan.folders:
            self._enter_class_folder(location, previous)
        elif previous is not None and is_moved and previous.folder == location.folder:
            if (
                location.folder != self.plan.inbox
                or previous.moved_to in (None, location.folder)
                or previous.is_left_behind
            ):
                self._store_unmoved(location, previous)  # only the uid is new
            elif location.key in self._moved_keys:  # a second copy, older than the move
                self._classify(location)
            else:  # streamnb moved it, and it is in the inbox again
                self._leave_class_folder(location, previous)
        elif previous is not None and is_moved and self._is_retraction(previous, location.folder):
            if previous.missing_since is not None and previous.missing_since > since:
                self._leave_class_folder(location, previous)
            else:  # restored from the trash, or another mail with the same header
                self._store(location, previous)
        elif location.folder == self.plan.inbox and not is_moved:
            self._classify_arrival(location, previous)
        elif previous is not None and self._has_new_keyword(location, previous):
            self._change_keyword(location, previous.keyword, previous)
        else:
            self._store(location, previous)

    def _previous_location(self, location: MessageLocation, since: float) -> MessageLocation | None:
        """Return the previous location of a message; None if it was never seen elsewhere.

        Locations that the message left after the time `since` come first, then those where it still
        is. A message can have several of them: copies, or views such as labels and search folders.
        The best of these is the one from which streamnb moved it, then that in a class's folder,
        then that in the inbox.
        """

        def rank(item: MessageLocation) -> tuple[object, ...]:
            is_recent = item.missing_since is not None and item.missing_since > since
            is_inbox = item.folder == self.plan.inbox
            folder_rank = (
                is_inbox and bool(item.moved_to),
                self._class_folder(item.folder) in self.plan.folders,
                is_inbox,
            )
            has_rank = is_recent or item.missing_since is None
            return (
                is_recent,
                item.missing_since is None,
                *(folder_rank if has_rank else ()),
                item.missing_since or 0.0,
                item.first_seen,
            )

        return max(self.locations.elsewhere(location), key=rank, default=None)

    def _is_in_renamed_folder(self, location: MessageLocation, previous: MessageLocation) -> bool:
        """Return whether only the name of a message's folder changed."""
        return (
            location.uid == previous.uid
            and location.folder != previous.folder
            and self.account.is_renamed(location.folder, previous.folder)
        )

    def _store_unmoved(self, location: MessageLocation, previous: MessageLocation) -> None:
        """Store a new location of a message that was not moved, with what the old one records."""
        location = location._replace(moved_to=previous.moved_to, first_seen=previous.first_seen)
        self._store(location, previous)

    def _change_keyword(
        self, location: MessageLocation, old_keyword: str, previous: MessageLocation | None = None
    ) -> None:
        """Learn the class of a new keyword. Without one, remove the label of the old keyword."""
        label = self._keyword_label(location.keyword)
        removed = self._keyword_label(old_keyword) if label is None else None
        self._learn(location, label, previous, is_explicit=True, removed=removed)

    def _leave_class_folder(self, location: MessageLocation, previous: MessageLocation) -> None:
        """Learn that a person moved a message to the inbox: the inbox's class, or no label.

        Mail programs set the keyword $NotJunk when they move a message that is not spam.
        """
        if location.keyword == "notjunk" and previous.keyword != "notjunk":
            self._learn(location, self._keyword_label("notjunk"), previous, is_explicit=True)
        else:
            self._learn(location, self.plan.ham, previous)

    def _keyword_label(self, keyword: str) -> str | None:
        """Return the class of a keyword; None if the keyword was removed."""
        return {"junk": "spam", "notjunk": self.plan.ham or "ham"}.get(keyword)

    def _has_new_keyword(self, location: MessageLocation, previous: MessageLocation) -> bool:
        """Return whether a person changed a keyword before moving a message to another folder."""
        is_known = UNKNOWN_KEYWORD not in (location.keyword, previous.keyword)
        is_new = is_known and location.keyword != previous.keyword
        return is_new and previous.moved_to is None and previous.folder not in self.plan.folders

    def _classify_arrival(
        self, location: MessageLocation, previous: MessageLocation | None
    ) -> None:
        """Classify new mail, except the first half of a move out of a class's folder.

        Some mail programs copy a message before they delete the original.
        """
        uid = (location.folder, location.uid)
        is_copy = (
            previous is not None
            and previous.folder != location.folder
            and self._is_retraction(previous, location.folder)
        )
        if is_copy and uid not in self._copies:
            self._copies.add(uid)
            self._defer(*uid)
        else:
            self._copies.discard(uid)
            self._classify(location)

    def _is_retraction(self, previous: MessageLocation, folder: str) -> bool:
        """Return whether a move removes a message from the folder of its class."""
        # If streamnb was moving the message, its old folder is the target of that move.
        return folder == self.plan.inbox and self._class_folder(
            previous.moved_to or previous.folder
        ) in (self.plan.unsure, *self.plan.folders)

    def _class_folder(self, folder: str) -> str:
        """Return the folder of a class at or above a folder; without one, the folder itself."""
        parents = [
            parent
            for parent in (*self.plan.folders, self.plan.unsure)
            if parent is not None and (folder == parent or self.account.is_below(folder, parent))
        ]
        return max(parents, key=len, default=folder)

    def _classify_existing(self, location: MessageLocation) -> None:
        """Classify a message from before the first scan, unless it ever had a label."""
        message = self.account.fetch_message(location.folder, location.uid)
        if message is not None and not self.mailbox.was_learned(digest(message)):
            self._classify(location)

    def _store(self, location: MessageLocation, previous: MessageLocation | None = None) -> None:
        """Store the location of a message, and delete the previous one."""
        with self.mailbox.database.writing():
            self._put(location, previous)

    def _put(self, location: MessageLocation, previous: MessageLocation | None = None) -> None:
        if previous is not None and previous.missing_since is not None:
            self.locations.delete(previous)
        # stored last, because a file that returns to a Maildir has its old name
        self.locations.put(location)

    def _enter_class_folder(
        self, location: MessageLocation, previous: MessageLocation | None
    ) -> None:
        """Learn a message that a person moved into the folder of a class.

        If no scan saw the message before, a program put it there, and it is not learned. A copy is
        learned as soon as its original has left its folder.
        """
        uid = (location.folder, location.uid)
        if previous is None:
            self._store(location._replace(moved_to=""))
            return
        is_copy = previous.missing_since is None
        if is_copy and self._is_gone(previous):
            # It was moved after its old folder was listed and before this folder was listed.
            previous = previous._replace(missing_since=self._now())
            is_copy = False
        own_moves = ("", location.folder, FAILED_MOVE + location.folder)
        is_ours = previous.folder == self.plan.inbox and previous.moved_to in own_moves
        if self._class_folder(previous.folder) == location.folder:
            self._store(location._replace(moved_to=previous.moved_to), previous)
        elif is_ours:
            self._store(location._replace(moved_to=""), previous)
        elif is_copy and uid not in self._copies:
            self._copies.add(uid)  # a move in two steps deletes the original before the next scan
            self._defer(*uid)
        elif is_copy:
            self._copies.discard(uid)
            self._store(location._replace(moved_to=location.folder))
        else:
            self._copies.discard(uid)
            self._learn(location, self.plan.folders[location.folder], previous)

    def _is_gone(self, location: MessageLocation) -> bool:
        """Return whether a message has left its folder, or the folder cannot be opened."""
        return (
            location.folder in self._skipped_folders
            or self.account.fetch_message(location.folder, location.uid) is None
        )

    def _learn(
        self,
        location: MessageLocation,
        label: str | None,
        previous: MessageLocation | None = None,
        is_explicit: bool = False,
        removed: str | None = None,
    ) -> None:
        """Learn a person's label of a message, or remove an earlier one.

        The class of the inbox only removes another label, unless a keyword names the class. Only
        the label `removed` is removed; None for any label.
        """
        message = self.account.fetch_message(location.folder, location.uid)
        if message is None:
            return  # the message was moved again, and this scan finds it there
        name = f"{location.folder}/{location.uid}"
        key = digest(message)
        current = self.mailbox.label_of(key)
        if label is None and removed is not None and (current is None or current[0] != removed):
            self._store(location, previous)
            return
        is_ours = current is not None and current[1] == HUMAN and current[2].startswith("watch ")
        is_retraction = label is None or (label == self.plan.ham and not is_explicit)
        put = partial(self._put, location, previous)
        if current is not None and is_ours and is_retraction and current[0] != label:
            self.mailbox.retract(key, [label] if label else [], run_first=put)
            self.report(f"{name}: label removed: {current[0]}")
        elif label is None:
            self._store(location, previous)
        else:
            source = f"watch {location.folder}"
            outcome = self.mailbox.learn(
                message, label, HUMAN, source, run_first=put, feedback="errors"
            )
            self.report(f"{name}: {label} ({outcome.result})")

    def _classify(self, location: MessageLocation) -> None:
        """Classify new mail, move it according to the plan, and store the verdict."""
        message = self.account.fetch_message(location.folder, location.uid)
        if message is None:
            return
        line, target, verdict = self._verdict(location, message)
        moved_to = None
        if target is None or target == location.folder:
            self._store(location)
            self.report(line)
        elif not self.plan.move:
            self._store(location)
            self.report(f"{line}: would be moved to {target} (--move)")
        elif self._move(location, target, line):
            moved_to = target
        if verdict is not None:
            place = json.dumps([self.account.name, moved_to or location.folder, location.uid])
            with contextlib.suppress(BusyError):
                self._verdicts.note(message, verdict, place, moved_to)

    def _verdict(
        self, location: MessageLocation, message: bytes
    ) -> tuple[str, str | None, Response | None]:
        """Return the report line for a message, the target (None if it stays) and the verdict."""
        name = f"{location.folder}/{location.uid}"
        if self.plan.pinned:
            values = [value for name, value in parse(message).fields if name.lower() == b"from"]
            pin = self.plan.pinned_folder(sender_address(values[0])) if len(values) == 1 else None
            if pin is not None:
                return f"{name}: the sender is pinned", pin or None, None
        verdict = judge(self.mailbox, message)
        line = f"{name}: {verdict.mark} {verdict.score:.4f}"
        label = verdict.label or ""
        target = self.plan.folder_of(label)
        if verdict.status != 2:
            return line, target, verdict
        if target is not None and not verdict.ready:
            return f"{line}: not ready to move {label} yet (streamnb status)", None, verdict
        return line, self.plan.unsure if verdict.ready else None, verdict

    def _move(self, location: MessageLocation, target: str, line: str) -> bool:
        """Move a message. The move is stored first, to distinguish it from a person's move."""
        if not self._store_unless_gone(location._replace(moved_to=target)):
            return False
        try:
            junk = self.plan.folders.get(target) == "spam"
            is_moved = self.account.move_message(location.folder, location.uid, target, junk)
        except MailCopyError:
            # A copy may be in the target, and a second attempt would make another one.
            self._store(location._replace(moved_to=FAILED_MOVE + target))
            raise
        except (MailRefusedError, OutputError):
            # The next scan of any watcher retries the move.
            self._store(location._replace(moved_to=location.folder))
            raise
        if is_moved:
            self._moved_keys.add(location.key)
            self._store(location._replace(moved_to=target, missing_since=self._now()))
            self.report(f"{line}: moved to {target}")
            return True
        self._store_unless_gone(location)
        self.report(f"{line}: it was moved by another program")
        return False

    def _store_unless_gone(self, location: MessageLocation) -> bool:
        """Store the location of a message, unless another watcher has stored a move of it."""
        with self.mailbox.database.writing():
            stored = self.locations.get(location.folder, location.uid)
            is_gone = (
                stored is not None
                and stored.key == location.key
                and stored.missing_since is not None
            )
            if not is_gone:
                self._put(location)
        return not is_gone
