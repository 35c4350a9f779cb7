"""An IMAP account with any answers of the server: each step returns its type, or raises an error of one line."""

import atexit
import contextlib
import imaplib
import os
import re
import socket
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import imapclient
from fuzz.target import Target

from streamnb.errors import StreamNBError
from streamnb.mailbox.watch.access import Access, parse_imap_url
from streamnb.mailbox.watch.imap import ImapAccount

__all__ = ["TARGETS"]

MOST = 1 << 22  # maximum bytes of an answer that are read


atexit.register(lambda: Scripted.sock.close())


class Scripted(imaplib.IMAP4):
    """A connection with prepared answers of a server; `%T` in them is the expected tag."""

    script = b""
    hangs = False  # whether the connection stays silent after the script, or ends
    sock = socket.socket()  # not used for data

    def __init__(self, *_: Any) -> None:
        super().__init__("nowhere")

    def open(self, *_: Any, **__: Any) -> None:
        self.script_left = Scripted.script
        self.tag_text = b"%T"
        self.read_so_far = 0

    def _take(self, size: int) -> bytes:
        data, self.script_left = self.script_left[:size], self.script_left[size:]
        self.read_so_far += len(data)
        assert self.read_so_far < MOST
        if not data and size and Scripted.hangs:
            WENT.add("hung")
            raise TimeoutError("timed out")
        return data

    def read(self, size: int) -> bytes:
        return self._take(size)

    def readline(self) -> bytes:
        end = self.script_left.find(b"\n") + 1
        return self._take(end or max(len(self.script_left), 1)).replace(b"%T", self.tag_text)

    def send(self, data: bytes) -> None:
        tag = re.match(rb"[A-Z]{4}\d+(?= )", bytes(data))
        if tag:
            self.tag_text = tag[0]

    def shutdown(self) -> None:
        self.script_left = b""

    def socket(self) -> Any:
        return self.sock


STEPS: tuple[Callable[[ImapAccount], object], ...] = (
    lambda account: account.folder_names(),
    lambda account: account.folder_state("INBOX"),
    lambda account: account.list_messages("INBOX"),
    lambda account: account.fetch_headers("INBOX", [f"{account._uid_validity}/1", "9/2"]),
    lambda account: account.fetch_message("INBOX", f"{account._uid_validity}/1"),
    lambda account: list(account.iter_messages("Junk")),
    lambda account: account.create_folder("Junk"),
    lambda account: account.move_message("INBOX", f"{account._uid_validity}/1", "Junk", junk=True),
    lambda account: account.wait("INBOX", 0.01, lambda: True),
)


def imap(data: bytes) -> None:
    """Call every method of an account; an invalid answer must give an error of one line."""
    Scripted.script, Scripted.hangs = data[1:], data[:1] >= b"\x80"
    steps = STEPS[data[0] % 4 :] if data else STEPS
    with (
        mock.patch.object(imapclient.IMAPClient, "_create_IMAP4", lambda _: Scripted()),
        mock.patch.object(Access, "tls_context", lambda _: None),  # certificates are read slowly
        mock.patch.dict(os.environ, {"STREAMNB_PASSWORD": "x"}),
    ):
        try:
            account = ImapAccount(parse_imap_url("imap://ann@localhost/"), Access(plaintext=True))
        except StreamNBError as error:
            assert "\n" not in str(error)
            return
        for step in steps:
            try:
                data = step(account)
                _sound(data)
                if data:
                    WENT.add(STEPS.index(step))
            except StreamNBError as error:
                assert "\n" not in str(error)
                assert "Traceback" not in str(error)
        with contextlib.suppress(StreamNBError):
            account.close()


# The steps that ever returned a result, and whether a wait ever timed out.
WENT: set[object] = set()


def _sound(data: object) -> None:
    """Check the types of a result."""
    if isinstance(data, dict):
        for key, value in data.items():
            assert isinstance(key, str)
            assert not isinstance(value, str)
    if isinstance(data, list):
        for item in data:
            assert isinstance(item, str) or isinstance(item[1], bytes)


DONE = b"%T OK done\r\n"
CAPABLE = b"* CAPABILITY IMAP4rev1 IDLE UIDPLUS CONDSTORE MOVE\r\n" + DONE
# From Python 3.14 on, the answer to the login can have the capabilities; else they are requested.
AT_ONCE = sys.version_info >= (3, 14)
LOGIN = b"* OK hi\r\n" + CAPABLE + (b"" if AT_ONCE else DONE) + CAPABLE
FOLDERS = b'* LIST (\\HasNoChildren) "/" INBOX\r\n* LIST (\\Junk) "/" {4}\r\nJunk\r\n' + DONE
SELECTED = (
    b"* 2 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n* OK [UIDNEXT 3] x\r\n* FLAGS (\\Seen $Junk)\r\n"
    b"%T OK [READ-ONLY] selected\r\n"
)
FOUND = b"* SEARCH 1 2\r\n" + DONE
FLAGS = b"* 1 FETCH (UID 1 FLAGS (\\Seen))\r\n* 2 FETCH (UID 2 FLAGS ($Junk))\r\n" + DONE
BODY = b"* 1 FETCH (UID 1 BODY[]<0> {14}\r\nSubject: x\r\n\r\n)\r\n" + DONE
HEADER = b"* 1 FETCH (UID 1 BODY[HEADER]<0> {14}\r\nSubject: x\r\n\r\n)\r\n" + DONE
SIZES = b"* 1 FETCH (UID 1 RFC822.SIZE 14)\r\n" + DONE
STATUS = b"* STATUS INBOX (MESSAGES 2 UIDNEXT 3 UIDVALIDITY 7 HIGHESTMODSEQ 9)\r\n" + DONE
JUNK = b'* LIST () "/" Junk\r\n' + DONE
WRITING = SELECTED.replace(b"READ-ONLY", b"READ-WRITE")
MOVED = b"* 1 FETCH (UID 1)\r\n" + DONE + DONE + b"* OK [COPYUID 7 1 9] x\r\n* 1 EXPUNGE\r\n" + DONE
WHOLE = (
    LOGIN + FOLDERS + STATUS + SELECTED + FOUND + FLAGS + HEADER + BODY
    + FOLDERS + SELECTED + FOUND + SIZES + BODY + JUNK + WRITING + MOVED + SELECTED + b"+ idling\r\n" + DONE
)  # fmt: skip


def _dialogues() -> list[bytes]:
    return [
        *(b"\x80" + WHOLE[:n] for n in range(0, len(WHOLE), 5)),
        b"\0" + WHOLE,
        b"\0* BYE too many\r\n",
        b"\0* OK hi\r\n" + CAPABLE + b"%T NO [AUTHENTICATIONFAILED] no\r\n",
        b"\0" + LOGIN + b"%T BAD what\r\n" * 20,
    ]


TARGETS = {
    "imap": Target(
        imap,
        _dialogues,
        (b"%T OK\r\n", b"%T NO ", b"%T BAD ", b"* ", b"FETCH (", b"{4}\r\n", b"{99999999}\r\n", b"UID ", b"NIL",
         b"[UIDVALIDITY ", b"[ALERT] ", b"* BYE\r\n", b"(((((", b'"\\"', b"FLAGS (", b"BODY[]<0> ", b"+ \r\n"),
        4096,
        lambda: {"hung", 0, 1, 2, 3, 4, 5, 7} <= WENT,
    )
}  # fmt: skip
