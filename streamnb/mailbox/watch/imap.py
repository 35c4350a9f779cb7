"""An IMAP account, by IMAPClient. It marks no message as read, and no move loses a message."""

from __future__ import annotations

import contextlib
import imaplib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from streamnb import __version__
from streamnb.errors import (
    ConfigError,
    CorpusError,
    MailCopyError,
    MailRefusedError,
    MailServerError,
    require_extra,
    root_cause,
)
from streamnb.limits import MAX_MESSAGE
from streamnb.mail import parse
from streamnb.mailbox.sources import SourceMessage
from streamnb.mailbox.watch.access import Access, ImapAddress, parse_imap_url
from streamnb.mailbox.watch.account import (
    JUNK_KEYWORDS,
    NOT_JUNK_KEYWORDS,
    UNKNOWN_KEYWORD,
    ListedMessage,
    junk_keyword,
)
from streamnb.mailbox.watch.folder_names import (
    decode_folder_name,
    encode_folder_name,
    find_folder,
    names_by_text,
)
from streamnb.patterns import lazy_pattern

_TIMEOUT_S = 30.0  # seconds to wait for an answer of the server
_HEADERS = "BODY.PEEK[HEADER]<0.65536>"
_BODY = f"BODY.PEEK[]<0.{MAX_MESSAGE}>"
_BATCH = 200  # messages fetched by one command
_UID_RANGE = 50_000  # number of UIDs searched by one command
_BATCH_BYTES = 8 << 20  # bytes of messages fetched by one command
_MAX_REFUSALS = 8  # number of messages tried alone before a server counts as out of order
_IDLE_S = 25 * 60.0  # seconds; RFC 2177 allows 29 minutes
_IDLE_STEP_S = 5.0  # seconds of one idle step
_MAX_IDLE_REFUSALS = 3  # number of consecutive failures after which the server is polled
# errors of IMAPClient about an answer that it cannot parse
_GARBLED = (LookupError, AttributeError, TypeError, AssertionError)
_PLACEHOLDER_SENDER = b"Microsoft Exchange Server"
_PLACEHOLDER_BYTES = 1 << 14  # bytes of a message that are searched for this sender
_LITERAL = lazy_pattern(r"\[?\bb(['\"])(.*?)\1\]?", re.S)
_LOCAL = ("localhost", "127.0.0.1", "::1")
# SPECIAL-USE (RFC 6154) and other attributes of folders to leave out.
_UNLISTED = set(rb"\trash \drafts \sent \all \flagged \important \noselect \nonexistent".split())
_MISSING = {rb"\noselect", rb"\nonexistent"}  # folders that only contain other folders


class ImapAccount:
    """The folders of an account on a server. A lost connection is reopened on demand.

    Parameters
    ----------
    address
        The account.
    access
        The source of the password, and the certificates.

    Raises
    ------
    ConfigError
        If IMAPClient or the password is missing.
    MailServerError
        If the server cannot be reached or refuses. All methods raise it, too.
    """

    def __init__(self, address: ImapAddress, access: Access) -> None:
        self.address = address
        self.access = access
        self.name: str = address.name
        self._selected: tuple[str, bool] | None = None
        self._uid_validity = 0
        self._validities: dict[str, int] = {}  # UIDVALIDITY by folder, when last selected
        self._size: tuple[Any, Any] = None, None  # EXISTS and UIDNEXT of the selected folder
        # the same values when the folder was listed
        self._listed_sizes: dict[str, tuple[Any, Any]] = {}
        # UIDVALIDITY and all UIDs, ascending, of each listed folder
        self._listed_uids: dict[str, tuple[str, list[int]]] = {}
        self._idle_refusals = 0  # consecutive refusals
        self._stored_names: dict[str, str] = {}  # names of folders in modified UTF-7
        self._delimiters: dict[str, str] = {}  # hierarchy delimiter by folder
        self._spam_folders: list[str] = []  # folders that the server marks as spam's
        self._personal_namespaces: list[tuple[str, str]] = []  # prefixes and delimiters
        self._password = "" if access.token_command else access.password(address)
        self._client: Any = None
        self.connect()

    def connect(self) -> None:
        """Log in."""
        with require_extra("imap", "imap:// needs IMAPClient"):
            from streamnb.mailbox.watch.imap_client import TolerantClient
        self.close()
        address = self.address
        if self.access.plaintext and address.host not in _LOCAL:
            raise ConfigError(
                "--plaintext: only for a server on this machine; remove the option to use TLS"
            )
        context, token = self.access.tls_context(), self.access.token()
        with self._translated_errors():
            self._client = TolerantClient(
                address.host, address.port, ssl=address.tls, ssl_context=context, timeout=_TIMEOUT_S
            )
            self._client.folder_encode = False  # folder_names.py has the codec for all accounts
            if not address.tls and not self.access.plaintext:
                if not self._client.has_capability("STARTTLS"):
                    self._disconnect()
                    hint = "use imaps://, which begins with TLS on another port"
                    if address.host in _LOCAL:
                        hint = "for a server on this machine, use --plaintext"
                    raise MailServerError(f"{self.name}: the server offers no TLS; {hint}")
                self._client.starttls(context)
            self._log_in(token)

    def _log_in(self, token: str | None) -> None:
        """Log in by a token, by LOGIN, or by PLAIN if LOGIN is off or the text is not ASCII.

        A server can greet a client as logged in.
        """
        client, user, password = self._client, self.address.user, self._password
        if client.welcome.upper().startswith(b"* PREAUTH"):
            return
        needs_plain = not (user + password).isascii() or client.has_capability("LOGINDISABLED")
        if token is not None:
            client.oauth2_login(user, token)
        elif needs_plain and client.has_capability("AUTH=PLAIN"):
            client.plain_login(user, password)
        else:
            client.login(user, password)
        if client.has_capability("ID"):  # 163.com opens no folder for a client without a name
            with contextlib.suppress(Exception):  # a server may refuse it
                client.id_({"name": "streamnb", "version": __version__})

    def close(self) -> None:
        """Log out, if connected."""
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.logout()
            self._disconnect()

    @contextlib.contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Translate the library's errors; a broken connection is closed."""
        from imapclient.exceptions import IMAPClientAbortError, IMAPClientError, LoginError

        try:
            yield
        except LoginError as error:
            self._disconnect()
            raise MailServerError(
                f"{self.name}: the login was refused: {_error_line(error)}"
            ) from None
        except IMAPClientError as error:
            self._selected = None
            fatal = (IMAPClientAbortError, imaplib.IMAP4.readonly)
            if isinstance(error, fatal) or not self._is_alive():
                self._disconnect()
                raise MailServerError(f"{self.name}: {_error_line(error)}") from None
            raise MailRefusedError(f"{self.name}: {_error_line(error)}") from None
        except MailServerError:
            raise
        except (OSError, ValueError) as error:
            self._disconnect()
            raise MailServerError(f"{self.name}: {_error_line(error)}") from None
        except _GARBLED as error:
            self._disconnect()
            raise MailServerError(
                f"{self.name}: the server's answer cannot be read ({_error_line(error)})"
            ) from None
        except BaseException:
            self._disconnect()  # its state is unknown
            raise

    @contextlib.contextmanager
    def _connected(self) -> Iterator[None]:
        """Provide a connection, and translate the library's errors."""
        with self._translated_errors():
            if self._client is None:
                self.connect()
            yield

    def _is_alive(self) -> bool:
        """Return whether the server answers after it refused a command."""
        try:
            self._client.noop()
        except Exception:
            return False
        return True

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        self._selected = None
        if client is not None:
            with contextlib.suppress(Exception):
                client.shutdown()

    def _stored_name(self, folder: str) -> str:
        """Return a folder's name in the server's spelling."""
        return self._stored_names.get(folder) or encode_folder_name(folder)

    def _select(self, folder: str, writable: bool = False) -> None:
        if self._selected == (folder, writable):
            return
        self._selected = None
        try:
            response = self._client.select_folder(self._stored_name(folder), readonly=not writable)
        except _unreadable() as error:
            error.args = (f"{folder}: {_error_line(error)}",)
            raise
        self._uid_validity = self._validities[folder] = int(response.get(b"UIDVALIDITY", 0))
        self._size = response.get(b"EXISTS"), response.get(b"UIDNEXT")
        self._selected = folder, writable

    def canonical_name(self, folder: str) -> str:
        """Return the canonical name of a folder.

        `folder` can be INBOX in any case, or modified UTF-7. It can lack the prefix of the server's
        names, and have "/" in place of their delimiter.
        """
        if folder.upper() == "INBOX":
            return "INBOX"
        if not self._stored_names:
            self._list_folders()
        text = decode_folder_name(folder)
        prefix, delimiter = self._namespace()
        names = [folder, text, folder.replace("/", delimiter), text.replace("/", delimiter)]
        names += [prefix + name for name in names]
        text = text.replace("/", delimiter)
        default = prefix + (
            text[len(prefix) :] if text.upper().startswith(prefix.upper()) else text
        )
        return find_folder(names, self._stored_names) or default

    def _namespace(self) -> tuple[str, str]:
        """Return the prefix of the names of all folders except the inbox, and the delimiter.

        On some servers all folders are below the inbox, with the prefix "INBOX.".
        """
        prefix, delimiter = self._namespaces()[0]
        return decode_folder_name(prefix), delimiter

    def _namespaces(self) -> list[tuple[str, str]]:
        """Return the prefix and the delimiter of each personal namespace, the main one first."""
        if not self._personal_namespaces:
            personal = None
            with contextlib.suppress(MailRefusedError), self._connected():
                if self._client.has_capability("NAMESPACE"):
                    personal = self._client.namespace().personal
            self._personal_namespaces = [
                (_text(prefix), _text(delimiter or "/"))
                for prefix, delimiter in personal or [(b"", b"/")]
            ]
        return self._personal_namespaces

    def folder_names(self) -> list[str]:
        """Return the names of the folders that a person may move mail to.

        Folders that the server marks as trash, drafts, sent mail or views of other folders
        (SPECIAL-USE, RFC 6154) are left out. So are further namespaces, which can have views, too.
        """
        self._list_folders()
        return list(self._delimiters)

    def has_folder(self, folder: str) -> bool:
        """Return whether a folder existed when folders were last listed."""
        if not self._stored_names:
            self._list_folders()
        return folder == "INBOX" or folder in self._stored_names

    def is_renamed(self, folder: str, old_name: str) -> bool:
        """Return whether no folder, or another one, has the old name. A move changes the uid."""
        is_other = self._validities.get(old_name) != self._validities.get(folder)
        return is_other or not self.has_folder(old_name)

    def _list_folders(self) -> None:
        """Store the names, the delimiters and the special uses of the server's folders."""
        folders: dict[str, str] = {}
        listed, junk = [], []
        further_prefixes = tuple(prefix for prefix, _ in self._namespaces()[1:] if prefix)
        with self._connected():
            for flags, delimiter, name in self._client.list_folders():
                stored = _text(name)
                attributes = {flag.lower() for flag in flags}
                if not attributes & _MISSING:
                    folders[stored] = _text(delimiter or "/")
                if not attributes & _UNLISTED and not stored.startswith(further_prefixes):
                    listed.append(stored)
                if rb"\junk" in attributes:
                    junk.append(stored)
        names = names_by_text(folders)
        self._stored_names = {
            # two folders can have one name, in modified UTF-7 and in 8-bit characters
            text if text != stored or _decode_utf8(text) in names else _decode_utf8(text): stored
            for text, stored in names.items()
        }
        self._spam_folders = [text for text, name in self._stored_names.items() if name in junk]
        self._delimiters = {
            "INBOX" if text.upper() == "INBOX" else text: folders[stored]
            for text, stored in self._stored_names.items()
            if stored in set(listed)
        }

    def spam_folder(self) -> str:
        """Return "Junk" if it exists, else the folder that the server marks as spam's (RFC 6154).

        Gmail, Outlook and Yahoo have other names for it.
        """
        usual = self.canonical_name("Junk")
        is_usual = usual.endswith("Junk") and self.has_folder(usual)
        is_usual = is_usual or not self._spam_folders
        return usual if is_usual else self._spam_folders[0]

    def is_below(self, folder: str, parent: str) -> bool:
        """Return whether a folder lies below another one in the server's hierarchy."""
        if not self._delimiters:
            self._list_folders()
        delimiter = self._delimiters.get(folder) or self._delimiters.get(parent) or "/"
        return folder.startswith(parent + delimiter)

    def folder_state(self, folder: str) -> object:
        """Return a value that changes with a folder; None if the server has no counters.

        Without CONDSTORE, the counters do not change with a flag. The value then has the UIDs of
        the messages with flags that `list_messages` reads.
        """
        with self._connected():
            has_changes = self._client.has_capability("CONDSTORE")
            if self._selected is not None and self._selected[0] == folder:
                # without this, a server may report the counters of an earlier command
                self._client.noop()
        items = ["MESSAGES", "UIDNEXT", "UIDVALIDITY", *["HIGHESTMODSEQ"] * has_changes]
        try:
            with self._connected():
                status = self._client.folder_status(self._stored_name(folder), items)
                flags = [] if has_changes else self._flagged_uids(folder)
        except MailRefusedError:
            if has_changes:
                raise
            return None  # the listing shows whether the folder can be opened
        return (*sorted(status.items()), *flags) if len(status) == len(items) else None

    def _flagged_uids(self, folder: str) -> list[tuple[int, ...]]:
        """Return the UIDs of the messages marked as deleted, as junk, and as not junk."""
        self._selected = None  # a new selection shows the current state
        self._select(folder)
        criteria = ("DELETED", _any_keyword(JUNK_KEYWORDS), _any_keyword(NOT_JUNK_KEYWORDS))
        return [tuple(self._client.search(criterion)) for criterion in criteria]

    def list_messages(self, folder: str) -> dict[str, ListedMessage]:
        """Return the messages of a folder by UIDVALIDITY and UID, without deleted ones."""
        messages: dict[str, ListedMessage] = {}
        with self._connected():
            self._selected = None  # a new selection shows the current state
            self._select(folder)
            self._listed_sizes[folder] = self._size
            uids = self._all_uids()
            ordered = sorted(uids)
            self._listed_uids[folder] = str(self._uid_validity), ordered
            numbers = {uid: number for number, uid in enumerate(ordered, 1)}
            for batch in _batches(uids, 10 * _BATCH):
                response = self._fetch(batch, ["FLAGS"])
                # A report about the message with this number, without its UID, replaced the flags.
                doubtful = [
                    uid
                    for uid, data in response.items()
                    if data is not None and data.get(b"SEQ") == uid and numbers[uid] != uid
                ]
                for uid in doubtful:
                    response |= self._fetch([uid], ["FLAGS"])
                for uid, data in response.items():
                    flags = _flags(data)
                    if b"\\deleted" not in flags:
                        messages[f"{self._uid_validity}/{uid}"] = ListedMessage(
                            UNKNOWN_KEYWORD if data is None else junk_keyword(flags),
                            b"\\seen" in flags,
                        )
        return messages

    def _fetch(self, uids: list[int], items: list[str]) -> dict[int, dict[bytes, Any] | None]:
        """Fetch items of messages; None for a message that the server refuses or garbles.

        One such message makes the command fail for all. Each half is then fetched again.

        Raises
        ------
        IMAPClientError
            If the server gives the items of no message.
        """
        response: dict[int, dict[bytes, Any] | None] = {}
        parts = [uids]
        while parts:
            part = parts.pop()
            try:
                fetched = self._client.fetch(part, items)
            except _unreadable():
                if not self._is_alive():
                    raise
                if len(part) > 1:
                    middle = len(part) // 2
                    parts += part[middle:], part[:middle]
                    continue
                response[part[0]] = None
                is_tried = len(response) >= _MAX_REFUSALS or not parts
                if is_tried and not any(response.values()) and not self._gives(items, uids):
                    raise
            else:
                # without simultaneous reports about other messages
                response |= {uid: fetched[uid] for uid in part if uid in fetched}
        return response

    def _gives(self, items: list[str], refused: list[int]) -> bool:
        """Return whether the server gives items of the newest message not in `refused`."""
        newest = max(set(self._all_uids()) - set(refused), default=None)
        try:
            return newest is not None and newest in self._client.fetch([newest], items)
        except _unreadable():
            return False

    def _all_uids(self) -> list[int]:
        """Return all UIDs of the selected folder, searched in ranges because a line is limited.

        A server can give a UIDNEXT that is too low.
        """
        count, end = self._size
        uids: list[int] = []
        if end is not None and end <= 100 * _UID_RANGE:
            for start in range(1, int(end), _UID_RANGE):
                uids += self._client.search(["UID", f"{start}:{start + _UID_RANGE - 1}"])
            if len(uids) >= int(count or 0):
                return uids
        return list(self._client.search("ALL"))

    def _valid_uids(self, uids: list[str]) -> list[int]:
        """Return the UIDs of the current UIDVALIDITY."""
        return [
            int(uid)
            for validity, _, uid in (text.partition("/") for text in uids)
            if validity == str(self._uid_validity)
        ]

    def _renumbered_uids(self, folder: str, uid: str) -> list[int]:
        """Return the UID of a listed message, if the server gives new ones at each selection.

        The order of messages stays. [] if their number has changed.
        """
        validity, _, number = uid.partition("/")
        listed_validity, listed = self._listed_uids.get(folder, ("", []))
        current = sorted(self._all_uids())
        if validity != listed_validity or len(listed) != len(current) or int(number) not in listed:
            return []
        return [current[listed.index(int(number))]]

    def fetch_headers(self, folder: str, uids: list[str]) -> dict[str, bytes | None]:
        """Return the headers of messages, each at most 64 KiB."""
        headers: dict[str, bytes | None] = {}
        with self._connected():
            self._select(folder)
            for batch in _batches(self._valid_uids(uids), _BATCH):
                for uid, data in self._fetch(batch, [_HEADERS]).items():
                    headers[f"{self._uid_validity}/{uid}"] = _section(data)
        return headers

    def fetch_message(self, folder: str, uid: str) -> bytes | None:
        """Return a message; None if it does not exist."""
        with self._connected():
            self._select(folder)
            uids = self._valid_uids([uid]) or self._renumbered_uids(folder, uid)
            bodies = self._client.fetch(uids, [_BODY]) if uids else {}
        return _section(bodies.get(uids[0])) if uids else None

    def iter_messages(self, folder: str) -> Iterator[SourceMessage]:
        """Yield each message of a folder, without deleted ones."""
        with self._connected():
            self._list_folders()
            self._select(folder)
            uids = self._all_uids()
        for some_uids in _batches(uids, _BATCH):
            with self._connected():
                response = self._fetch(some_uids, ["RFC822.SIZE", "FLAGS"])
                sizes = {
                    uid: int((data or {}).get(b"RFC822.SIZE") or 0)
                    for uid, data in response.items()
                    if b"\\deleted" not in _flags(data)
                }
            batch: list[int] = []
            free_bytes = _BATCH_BYTES
            for uid in filter(sizes.__contains__, some_uids):
                size = min(sizes[uid], MAX_MESSAGE)
                if batch and size > free_bytes:
                    yield from self._messages(folder, batch)
                    batch, free_bytes = [], _BATCH_BYTES
                batch.append(uid)
                free_bytes -= size
            if batch:
                yield from self._messages(folder, batch)

    def _messages(self, folder: str, uids: list[int]) -> Iterator[SourceMessage]:
        with self._connected():
            self._select(folder)
            response = self._fetch(uids, [_BODY])
        for uid, data in response.items():
            name = f"{self.name}/{folder};UID={uid}"
            body = _section(data)
            error = CorpusError(f"{name}: the server cannot read the message")
            yield SourceMessage(name, error if body is None else body)

    def create_folder(self, folder: str) -> None:
        """Create a folder and subscribe to it, unless it exists."""
        with self._connected():
            name = self._stored_name(folder)
            if not self._client.folder_exists(name):
                self._client.create_folder(name)
                self._client.subscribe_folder(name)

    def move_message(self, folder: str, uid: str, target: str, junk: bool) -> bool:
        """Move a message into another folder, with the keyword $Junk if `junk`.

        With the extension MOVE, it is one step. Without MOVE, the original is marked as deleted
        only after its copy was found, and no other message is expunged.
        """
        with self._connected():
            self._select(folder, writable=True)
            uids = self._valid_uids([uid])
            if not uids or uids[0] not in self._client.fetch(uids, ["UID"]):
                return False
            with contextlib.suppress(Exception):  # some servers refuse keywords
                if junk:
                    self._client.add_flags(uids, [b"$Junk"], silent=True)
            try:
                if self._client.has_capability("MOVE"):
                    self._client.move(uids, self._stored_name(target))
                    self._client.select_folder(self._stored_name(folder), readonly=True)
                    if uids[0] in self._client.fetch(uids, ["UID"]):
                        raise MailCopyError(
                            f"{self.name}: the server reported a move of {folder}/{uid} to "
                            f"{target}, but the message is still in {folder}"
                        )
                else:
                    self._copy_and_delete(folder, uids[0], target)
            except Exception:
                # without this, $Junk would look like a person's label
                with contextlib.suppress(Exception):
                    self._client.select_folder(self._stored_name(folder))
                    if junk:
                        self._client.remove_flags(uids, [b"$Junk"], silent=True)
                raise
            finally:
                self._selected = None
        return True

    def _copy_and_delete(self, folder: str, uid: int, target: str) -> None:
        """Move a message by COPY, and delete the original after the copy was found."""
        client = self._client
        items = [b"RFC822.SIZE", b"BODY.PEEK[HEADER.FIELDS (MESSAGE-ID DATE FROM SUBJECT)]"]
        original = client.fetch([uid], items).get(uid)
        if original is None:
            return
        stored_target = self._stored_name(target)
        next_uid = int(client.folder_status(stored_target, ["UIDNEXT"])[b"UIDNEXT"])
        client.copy([uid], stored_target)
        client.select_folder(stored_target, readonly=True)
        self._selected = None
        new_uids = [n for n in client.search(["UID", f"{next_uid}:*"]) if n >= next_uid]
        copies = client.fetch(new_uids, items) if new_uids else {}
        identity = _identity(original)
        if not any(_identity(copy) == identity for copy in copies.values()):
            raise MailCopyError(
                f"{self.name}: {target}: the copy of {folder}/{uid} is missing; "
                f"the message stays in {folder}"
            )
        uid_validity = self._uid_validity
        self._select(folder, writable=True)
        if self._uid_validity != uid_validity:
            raise MailCopyError(
                f"{self.name}: {folder}: the server renumbered the messages during a "
                f"move; one message can be in {folder} and in {target}"
            )
        client.add_flags([uid], [b"\\Deleted"], silent=True)
        if client.has_capability("UIDPLUS"):
            client.uid_expunge([uid])

    def _start_idle(self) -> bool:
        """Begin to idle. If that fails, disconnect and return False."""
        try:
            self._client.idle()
        except Exception:
            self._idle_refusals += 1
            self._disconnect()
            return False
        self._idle_refusals = 0
        return True

    def wait(self, folder: str, seconds: float, should_stop: Callable[[], bool]) -> None:
        """Wait for a change in a folder, at most `seconds`."""
        end = time.monotonic() + min(seconds, _IDLE_S)
        with self._connected():
            self._selected = None
            self._select(folder)
            if self._size != self._listed_sizes.get(folder, self._size):
                return  # the folder changed while other folders were listed
            while (remaining_s := end - time.monotonic()) > 0 and not should_stop():
                can_idle = self._idle_refusals < _MAX_IDLE_REFUSALS
                if not can_idle or not self._client.has_capability("IDLE"):
                    time.sleep(min(remaining_s, 0.5))
                elif not self._start_idle() or self._idle(
                    min(remaining_s, _IDLE_STEP_S), should_stop
                ):
                    return

    def _idle(self, seconds: float, should_stop: Callable[[], bool]) -> bool:
        """Idle for `seconds`, and return whether the server reported a change.

        A report that arrives together with the answer to IDLE is returned only when idling ends, so
        `wait` idles in short steps.
        """
        end = time.monotonic() + seconds
        reports: list[Any] = []
        try:
            while (remaining_s := end - time.monotonic()) > 0 and not should_stop():
                start = time.monotonic()
                reports = self._client.idle_check(timeout=min(remaining_s, 1.0))
                if any(map(_is_change, reports)):
                    break
                if not reports and time.monotonic() - start < min(remaining_s, 1.0) / 2:
                    raise OSError("the connection is lost")
        finally:
            _, last_reports = self._client.idle_done()
        return any(map(_is_change, [*reports, *last_reports]))


def _error_line(error: BaseException) -> str:
    """Return the server's or library's message as one line of at most 200 characters."""
    text = root_cause(error) or type(error).__name__
    if error.args and isinstance(error.args[0], bytes):  # a line from the server
        text = error.args[0].decode("utf-8", "replace")
    # imaplib prints bytes as Python literals, and IMAPClient adds a paragraph of advice
    text = _LITERAL.sub(r"\2", str(text).partition("\n\n")[0])
    return " ".join(text.split())[:200]


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _decode_utf8(name: str) -> str:
    """Return a name of 8-bit bytes, given as Latin-1, as text if the bytes are UTF-8."""
    try:
        return name.encode("latin-1").decode()
    except UnicodeError:
        return name


def _unreadable() -> tuple[type[Exception], ...]:
    """Return the errors of an answer that refuses or that cannot be parsed."""
    from imapclient.exceptions import IMAPClientError

    return IMAPClientError, *_GARBLED


def _is_change(report: Any) -> bool:
    """Return whether a report of an idling server is about a change of the folder."""
    changes = (b"EXISTS", b"EXPUNGE", b"FETCH", b"RECENT", b"VANISHED")
    return len(report) > 1 and report[1] in changes


def _section(data: dict[bytes, Any] | None) -> bytes | None:
    """Return the section of a message that was fetched. Servers differ in its name."""
    names = (b"BODY[", b"RFC822")
    values = (value for key, value in (data or {}).items() if key.startswith(names))
    section = next((value for value in values if isinstance(value, bytes)), None)
    return None if section is None or _is_placeholder(section) else section


def _is_placeholder(message: bytes) -> bool:
    """Return whether Exchange sent its own text in place of a message that it cannot convert.

    Its subject names the protocol in each language. A forged one was delivered, so it is received.
    """
    if message.find(_PLACEHOLDER_SENDER, 0, _PLACEHOLDER_BYTES) < 0:
        return False
    mail = parse(message[:_PLACEHOLDER_BYTES])
    return (
        b"received" not in mail.index
        and mail.get("from").lstrip('"').startswith(_PLACEHOLDER_SENDER.decode())
        and "IMAP4" in mail.get("subject")
    )


def _flags(data: dict[bytes, Any] | None) -> set[bytes]:
    """Return a message's flags and keywords in lower case, without keywords of digits only."""
    flags = (data or {}).get(b"FLAGS") or ()
    return {flag.lower() for flag in flags if isinstance(flag, bytes)}


def _any_keyword(keywords: tuple[bytes, ...]) -> str:
    """Return the criterion of messages with one of these keywords."""
    terms = [f"KEYWORD {keyword.decode()}" for keyword in keywords]
    return "OR " * (len(terms) - 1) + " ".join(terms)


def _identity(data: dict[bytes, Any]) -> Any:
    """Return the header fields that identify a message, or its size if it has none."""
    fields = next((value for key, value in data.items() if key.startswith(b"BODY")), b"")
    return bytes(fields or b"").split() or data.get(b"RFC822.SIZE")


def _batches(uids: list[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(uids), size):
        yield list(uids[start : start + size])


def folder_messages(url: str, access: Access) -> Iterator[SourceMessage]:
    """Yield the messages of imap://USER@HOST/FOLDER."""
    address = parse_imap_url(url)
    with contextlib.closing(ImapAccount(address, access)) as account:
        yield from account.iter_messages(address.folder)
