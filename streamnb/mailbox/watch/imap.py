"""An IMAP account, through IMAPClient: nothing is marked as read, and nothing is lost in a move."""

from __future__ import annotations

import contextlib
import imaplib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from streamnb.corpus.entry import MAX_MESSAGE
from streamnb.errors import (
    ConfigError,
    MailCopyError,
    MailRefusedError,
    MailServerError,
    require_extra,
    root_cause,
)
from streamnb.mailbox.sources import Found
from streamnb.mailbox.watch.access import Access, Address, address_of
from streamnb.mailbox.watch.ignored_folders import is_bin
from streamnb.mailbox.watch.watcher import Listed

_TIMEOUT = 30.0  # seconds without a word from the server
_HEADERS = "BODY.PEEK[HEADER]<0.65536>"
_BATCH = 200  # messages asked for together
_UIDS = 50_000  # UIDs looked for together
_BYTES = 8 << 20  # bytes of messages asked for together
_IDLE = 25 * 60.0  # seconds; RFC 2177 allows 29 minutes
_SPELL = 5.0  # seconds of idling at a time
_LOCAL = ("localhost", "127.0.0.1", "::1")
_NEVER = set(rb"\trash \drafts \sent \all \flagged \noselect \nonexistent".split())


class ImapAccount:
    """The folders of an account on a server; connected again when needed.

    Parameters
    ----------
    address
        Which account.
    access
        How to get in.

    Raises
    ------
    ConfigError
        Where the library or the password is missing.
    MailServerError
        Where the server cannot be reached or refuses; also by all methods.
    """

    def __init__(self, address: Address, access: Access) -> None:
        self.address = address
        self.access = access
        self.name = address.name
        self._selected: tuple[str, bool] | None = None
        self._validity = 0
        self._size: tuple[Any, Any] = None, None  # of the selected folder
        self._listed: dict[str, tuple[Any, Any]] = {}  # sizes of folders when they were listed
        self._refusals = 0  # how often in a row it would not idle
        self._password = access.password(address)
        self._client: Any = None
        self.connect()

    def connect(self) -> None:
        """Log in."""
        with require_extra("imap", "imap:// needs IMAPClient"):
            import imapclient
        self.close()
        address = self.address
        if self.access.plaintext and address.host not in _LOCAL:
            raise ConfigError("--plaintext: only for a server on this machine")
        context = self.access.context()
        with self._asking():
            self._client = imapclient.IMAPClient(
                address.host, address.port, ssl=address.tls, ssl_context=context, timeout=_TIMEOUT
            )
            if not address.tls and not self.access.plaintext:
                if not self._client.has_capability("STARTTLS"):
                    self._drop()
                    hint = "imaps:// begins with it, on another port"
                    if address.host in _LOCAL:
                        hint = "--plaintext does without, on this machine"
                    raise MailServerError(f"{self.name}: the server offers no TLS; {hint}")
                self._client.starttls(context)
            self._client.login(address.user, self._password)

    def close(self) -> None:
        """Say good-bye, if there is anybody."""
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.logout()
            self._drop()

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Say the library's errors in our words; a broken connection is not used any more."""
        from imapclient.exceptions import IMAPClientAbortError, IMAPClientError, LoginError

        try:
            yield
        except LoginError as error:
            self._drop()
            raise MailServerError(f"{self.name}: the login was refused: {_text(error)}") from None
        except IMAPClientError as error:
            self._selected = None
            ended = (IMAPClientAbortError, imaplib.IMAP4.readonly)
            if isinstance(error, ended) or not self._lives():
                self._drop()
                raise MailServerError(f"{self.name}: {_text(error)}") from None
            raise MailRefusedError(f"{self.name}: {_text(error)}") from None
        except MailServerError:
            raise
        except (OSError, ValueError) as error:
            self._drop()
            raise MailServerError(f"{self.name}: {_text(error)}") from None
        except (LookupError, AttributeError, TypeError, AssertionError) as error:
            self._drop()
            raise MailServerError(
                f"{self.name}: the server's answer is none that can be read ({_text(error)})"
            ) from None
        except BaseException:
            self._drop()  # in whatever state it was left
            raise

    @contextlib.contextmanager
    def _speaking(self) -> Iterator[None]:
        """Speak to the server, which is connected to anew where the last connection failed."""
        with self._asking():
            if self._client is None:
                self.connect()
            yield

    def _lives(self) -> bool:
        """Whether a server that said no goes on."""
        try:
            self._client.noop()
        except Exception:  # whatever it is, it fails
            return False
        return True

    def _drop(self) -> None:
        client, self._client = self._client, None
        self._selected = None
        if client is not None:
            with contextlib.suppress(Exception):
                client.shutdown()

    def _select(self, folder: str, writing: bool = False) -> None:
        if self._selected == (folder, writing):
            return
        self._selected = None
        found = self._client.select_folder(folder, readonly=not writing)
        self._validity = int(found.get(b"UIDVALIDITY", 0))
        self._size = found.get(b"EXISTS"), found.get(b"UIDNEXT")
        self._selected = folder, writing

    def canonical(self, folder: str) -> str:
        """The name of a folder: only the inbox has several."""
        return "INBOX" if folder.upper() == "INBOX" else folder

    def folders(self) -> list[str]:
        """Names of the folders where mail may be moved to, the rubbish bin and such apart."""
        found = []
        with self._speaking():
            for flags, _, name in self._client.list_folders():
                name = name if isinstance(name, str) else name.decode("utf-8", "replace")
                if not {flag.lower() for flag in flags} & _NEVER and not is_bin(name):
                    found.append(name)
        return found

    def state(self, folder: str) -> object:
        """What the server says changes with the folder; None where it does not say."""
        with self._speaking():
            if not self._client.has_capability("CONDSTORE"):
                return None
            if self._selected is not None and self._selected[0] == folder:
                self._client.noop()  # so that what is told is not what was told before
            what = ["MESSAGES", "UIDNEXT", "UIDVALIDITY", "HIGHESTMODSEQ"]
            found = self._client.folder_status(folder, what)
            return None if b"HIGHESTMODSEQ" not in found else tuple(sorted(found.items()))

    def listing(self, folder: str) -> dict[str, Listed]:
        """All messages of a folder by UIDVALIDITY and UID."""
        found: dict[str, Listed] = {}
        with self._speaking():
            self._selected = None  # a folder that is selected anew is seen as it is now
            self._select(folder)
            self._listed[folder] = self._size
            for some in _batches(self._all(), 10 * _BATCH):
                for number, data in self._client.fetch(some, ["FLAGS"]).items():
                    flags = {flag.lower() for flag in data.get(b"FLAGS", ())}
                    if b"\\deleted" not in flags:
                        found[f"{self._validity}/{number}"] = Listed(
                            _said(flags), b"\\seen" in flags
                        )
        return found

    def _all(self) -> list[int]:
        """All UIDs of the selected folder, asked for in parts: lines of an answer are limited."""
        _, end = self._size
        if end is None or end > 100 * _UIDS:
            return list(self._client.search("ALL"))
        found: list[int] = []
        for start in range(1, int(end), _UIDS):
            found += self._client.search(["UID", f"{start}:{start + _UIDS - 1}"])
        return found

    def _numbers(self, uids: list[str]) -> list[int]:
        """UIDs that still mean what they did."""
        return [
            int(number)
            for validity, _, number in (uid.partition("/") for uid in uids)
            if validity == str(self._validity)
        ]

    def headers(self, folder: str, uids: list[str]) -> dict[str, bytes | None]:
        """Headers of messages."""
        found: dict[str, bytes | None] = {}
        with self._speaking():
            self._select(folder)
            for some in _batches(self._numbers(uids), _BATCH):
                for number, data in self._client.fetch(some, [_HEADERS]).items():
                    header = data.get(b"BODY[HEADER]<0>")
                    if header is not None:
                        found[f"{self._validity}/{number}"] = header
        return found

    def fetch(self, folder: str, uid: str) -> bytes | None:
        """The message; None where it is gone."""
        with self._speaking():
            self._select(folder)
            numbers = self._numbers([uid])
            found = self._bodies(numbers) if numbers else {}
        return found.get(numbers[0]) if numbers else None

    def _bodies(self, numbers: list[int]) -> dict[int, bytes]:
        what = f"BODY.PEEK[]<0.{MAX_MESSAGE}>"
        return {
            number: data[b"BODY[]<0>"]
            for number, data in self._client.fetch(numbers, [what]).items()
            if data.get(b"BODY[]<0>") is not None
        }

    def messages(self, folder: str) -> Iterator[tuple[str, bytes]]:
        """All messages of a folder, a few at a time."""
        with self._speaking():
            self._select(folder)
            numbers = self._all()
        for some in _batches(numbers, _BATCH):
            with self._speaking():
                found = self._client.fetch(some, ["RFC822.SIZE"])
                sizes = {uid: int(data.get(b"RFC822.SIZE", 0)) for uid, data in found.items()}
            batch: list[int] = []
            room = _BYTES
            for number in some:
                size = min(sizes.get(number, 0), MAX_MESSAGE)
                if batch and size > room:
                    yield from self._named(folder, batch)
                    batch, room = [], _BYTES
                batch.append(number)
                room -= size
            yield from self._named(folder, batch)

    def _named(self, folder: str, numbers: list[int]) -> Iterator[tuple[str, bytes]]:
        with self._speaking():
            bodies = self._bodies(numbers)
        for number in numbers:
            if number in bodies:
                yield f"{self.name}/{folder};UID={number}", bodies[number]

    def make(self, folder: str) -> None:
        """Make a folder, where it is missing."""
        with self._speaking():
            if not self._client.folder_exists(folder):
                self._client.create_folder(folder)
                self._client.subscribe_folder(folder)

    def file(self, folder: str, uid: str, target: str, junk: bool) -> bool:
        """Move a message into another folder, and say $Junk of it where that is for spam.

        With MOVE the server does it as one step. Without, the copy is looked for before the
        original is marked as deleted; and only that one is expunged, or none.
        """
        with self._speaking():
            self._select(folder, writing=True)
            numbers = self._numbers([uid])
            if not numbers or not self._client.fetch(numbers, ["UID"]):
                return False
            with contextlib.suppress(Exception):  # a server may know no such keyword
                if junk:
                    self._client.add_flags(numbers, [b"$Junk"], silent=True)
            try:
                if self._client.has_capability("MOVE"):
                    self._client.move(numbers, target)
                else:
                    self._copy_and_delete(folder, numbers[0], target)
            except Exception:
                with contextlib.suppress(Exception):  # or it would be taken for its owner's word
                    self._client.select_folder(folder)
                    if junk:
                        self._client.remove_flags(numbers, [b"$Junk"], silent=True)
                raise
            finally:
                self._selected = None
        return True

    def _copy_and_delete(self, folder: str, number: int, target: str) -> None:
        client = self._client
        key = [b"RFC822.SIZE", b"BODY.PEEK[HEADER.FIELDS (MESSAGE-ID DATE FROM SUBJECT)]"]
        original = client.fetch([number], key).get(number)
        if original is None:
            return
        before = int(client.folder_status(target, ["UIDNEXT"])[b"UIDNEXT"])
        client.copy([number], target)
        client.select_folder(target, readonly=True)
        self._selected = None
        new = [n for n in client.search(["UID", f"{before}:*"]) if n >= before]
        copies = client.fetch(new, key) if new else {}
        wanted = _comparable(original)
        if not any(_comparable(copy) == wanted for copy in copies.values()):
            raise MailCopyError(
                f"{self.name}: {target}: the copy of {folder}/{number} is not there"
            )
        validity = self._validity
        self._select(folder, writing=True)
        if self._validity != validity:
            raise MailCopyError(f"{self.name}: {folder}: its UIDs have changed meanwhile")
        client.add_flags([number], [b"\\Deleted"], silent=True)
        if client.has_capability("UIDPLUS"):
            client.uid_expunge([number])

    def _idled(self) -> bool:
        """Begin to idle; where that fails, be it that something came just now, connect anew."""
        try:
            self._client.idle()
        except Exception:
            self._refusals += 1  # a server that never will is asked thrice
            self._drop()
            return False
        self._refusals = 0
        return True

    def wait(self, folder: str, seconds: float, stopping: Callable[[], bool]) -> None:
        """Wait until something happens in a folder, or so long."""
        until = time.monotonic() + min(seconds, _IDLE)
        with self._speaking():
            self._selected = None
            self._select(folder)
            if self._size != self._listed.get(folder, self._size):
                return  # something came while we were looking elsewhere
            while (left := until - time.monotonic()) > 0 and not stopping():
                if self._refusals >= 3 or not self._client.has_capability("IDLE"):
                    time.sleep(min(left, 0.5))
                elif not self._idled() or self._told(min(left, _SPELL), stopping):
                    return

    def _told(self, seconds: float, stopping: Callable[[], bool]) -> bool:
        """Idle for so long; whether the server told anything.

        What it told together with its consent lies in a buffer that nothing looks at until the
        spell is over, so spells are short.
        """
        until = time.monotonic() + seconds
        told: list[Any] = []
        try:
            while (left := until - time.monotonic()) > 0 and not stopping():
                begun = time.monotonic()
                told = self._client.idle_check(timeout=min(left, 1.0))
                if any(_news(one) for one in told):
                    break
                if not told and time.monotonic() - begun < min(left, 1.0) / 2:
                    raise OSError("the connection is gone")
        finally:
            _, more = self._client.idle_done()
        return any(_news(one) for one in [*told, *more])


def _text(error: BaseException) -> str:
    text = root_cause(error) or type(error).__name__
    if error.args and isinstance(error.args[0], bytes):  # what the server said, as it said it
        text = error.args[0].decode("utf-8", "replace")
    elif re.fullmatch(r"b(['\"]).*\1", str(text), re.S):  # imaplib shows bytes as Python does
        text = str(text)[2:-1]
    return " ".join(str(text).split())[:200]


def _news(told: Any) -> bool:
    """Whether what a server tells while it idles is worth a look."""
    return len(told) > 1 and told[1] in (b"EXISTS", b"EXPUNGE", b"FETCH", b"RECENT", b"VANISHED")


def _said(flags: set[bytes]) -> str:
    junk, good = b"$junk" in flags, b"$notjunk" in flags
    return "" if junk == good else "junk" if junk else "notjunk"


def _comparable(data: dict[bytes, Any]) -> Any:
    """The fields that tell a message, or its size where it has none of them."""
    fields = next((value for key, value in data.items() if key.startswith(b"BODY")), b"")
    return bytes(fields or b"").split() or data.get(b"RFC822.SIZE")


def _batches(numbers: list[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(numbers), size):
        yield list(numbers[start : start + size])


def folder_messages(url: str, access: Access) -> Iterator[Found]:
    """The messages of imap://USER@HOST/FOLDER."""
    address = address_of(url)
    with contextlib.closing(ImapAccount(address, access)) as account:
        for name, content in account.messages(address.folder):
            yield Found(name, content)
