"""A milter: Postfix and Sendmail request a verdict while the sending client waits.

The protocol is libmilter's (Sendmail's `include/libmilter/mfdef.h`): packets of a length, a letter
and data. streamnb reads only the recipients of the envelope, as bytes: for the log, and to find the
databases of users. It asks the mail server to omit the other data, and skips data that comes
anyway. So an invalid name or address cannot end the session and leave a message without a verdict.
(The library kilter reads all data, and closes the connection if a name is not valid IDNA.)
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import struct
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial

from streamnb.errors import StreamNBError
from streamnb.limits import MAX_MESSAGE
from streamnb.mailbox.service.mailboxes import Mailboxes, NoCommonVerdictError
from streamnb.mailbox.service.memory_budget import MemoryBudget, MessageMemory
from streamnb.mailbox.service.monitor import Monitor
from streamnb.mailbox.service.response import FIELD, JudgeOptions, Response, header_field
from streamnb.mailbox.service.server import Activity, ConnectionHandler, drain_on_cancel

_LARGEST = 1 << 20  # bytes of a packet; mail servers send bodies in parts of 64 KiB
_IDLE = 3600.0  # seconds; mail servers disconnect their clients earlier
_STRESS_S = 60.0  # seconds of silence allowed while other mail servers wait
_CLOSING = 1.0  # seconds for the peer to read the last data
_VERSION = 6
_ADD_FIELDS, _CHANGE_FIELDS = 0x01, 0x10
# The consequence if the mail server does not allow an action.
_EFFECTS = {
    _ADD_FIELDS: "milter: the mail server does not allow added fields (SMFIF_ADDHDRS), so mail "
    "passes unmarked",
    _CHANGE_FIELDS: "milter: the mail server does not allow changed fields (SMFIF_CHGHDRS), so "
    "forged verdicts stay in messages",
}
REJECT_TEXT = "This message looks like spam"
_LOGGED_REASONS = 10  # reasons of a refused message; the log leaves out evidence for ham
_LONGEST_ID = 100  # bytes of a queue id
# The mail server shall not send: connection, name, sender, unknown commands, start of data.
_LEFT_OUT = 0x0001 | 0x0002 | 0x0004 | 0x0100 | 0x0200
_MOST_RECIPIENTS = 20  # maximum number of recipients that are logged and whose databases are used
_LONGEST_ADDRESS = 320  # bytes of a recipient
# Commands without an answer, if the mail server offers that.
_UNANSWERED = {
    b"L": 0x80, b"C": 0x1000, b"H": 0x2000, b"M": 0x4000, b"R": 0x8000, b"T": 0x10000,
    b"U": 0x20000, b"N": 0x40000, b"B": 0x80000,
}  # fmt: skip


_Verdicts = dict[str | None, Response]  # by user; the key is None if there is one database


def _common_verdict(verdicts: _Verdicts) -> Response:
    """Return the verdict with the lowest probability."""
    return min(verdicts.values(), key=lambda verdict: verdict.probability)


def milter(
    mailboxes: Mailboxes,
    monitor: Monitor | None = None,
    options: JudgeOptions | None = None,
    reject: float | None = None,
    reject_text: str = REJECT_TEXT,
    budget: MemoryBudget | None = None,
) -> ConnectionHandler:
    """Return the handler of connections from mail servers by the milter protocol.

    Parameters
    ----------
    mailboxes
        The mailboxes. With many users, those of the recipients classify the message. If they agree,
        the message gets the verdict with the lowest probability, else it passes unmarked.
    monitor
        Log and metrics.
    options
        The options of verdicts.
    reject
        Probability from which on sure spam is refused. None to refuse nothing. Mail of
        authenticated clients, the site's own users, is never refused.
    reject_text
        The text of a refusal, in printable ASCII. The message's id follows it.
    budget
        Memory that all connections share. If it is used up, a large message waits; after the time
        limit, only its beginning is classified.
    """
    options = options or JudgeOptions()
    if reject is not None:  # the log contains the reasons of refusals
        options = options._replace(reasons=max(options.reasons, _LOGGED_REASONS))
    budget = budget or MemoryBudget()
    judges = _Judges(mailboxes, monitor or Monitor(), options, reject, reject_text)

    async def converse(connection: socket.socket, activity: Activity) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        memory = budget.message()
        try:
            await _Session(reader, writer, judges, activity, memory).run()
        except (OSError, EOFError):  # the mail server has closed the connection
            pass
        finally:
            memory.release()
            writer.close()
            try:
                async with asyncio.timeout(_CLOSING):
                    await writer.wait_closed()
            except OSError:  # it has closed the connection, or does not read the rest
                writer.transport.abort()

    return drain_on_cancel(converse)


@dataclass(eq=False, repr=False)
class _Judges:
    """Computes and records verdicts on messages; the attributes are the arguments of `milter`."""

    mailboxes: Mailboxes
    monitor: Monitor
    options: JudgeOptions
    reject: float | None
    reject_text: str

    async def decide(self, message: _Message) -> tuple[_Verdicts, bytes]:
        """Return the verdicts, none after an error, and the packet that ends the message."""
        content = bytes(message.content)
        log_message = partial(
            self.monitor.message,
            "milter",
            started=time.monotonic(),
            message=content,
            recipient=message.recipient,
        )
        try:
            verdicts = await asyncio.to_thread(self._judge_for_all, message, content)
        except Exception as error:  # after any error, the message must be passed on
            log_message(error, "unmarked", queue_id=message.queue_id)
            return {}, b"a"
        response = _common_verdict(verdicts)
        users = ",".join(user for user in verdicts if user is not None)
        log_message = partial(log_message, user=users or None)
        if not self._is_refused(message, response):
            action = "marked" if message.can_be_marked else "unmarked"
            log_message(response, action, queue_id=message.queue_id)
            return verdicts, b"a"
        message.queue_id = message.queue_id or hashlib.sha256(content).hexdigest()[:12]
        log_message(response, "rejected", queue_id=message.queue_id)
        self.monitor.refuse("milter", "spam")
        reply = f"550 5.7.1 {self.reject_text} (id {message.queue_id})".replace(
            "%", "%%"
        )  # % has a meaning in replies
        return verdicts, b"y" + reply.encode("ascii", "replace") + b"\0"

    def _judge_for_all(self, message: _Message, content: bytes) -> _Verdicts:
        mailboxes = self.mailboxes
        users: list[str | None] = [None]
        if not mailboxes.is_single:
            users = list(dict.fromkeys(map(mailboxes.addresses.user, message.recipients)))
            if not users:
                raise NoCommonVerdictError("the message has no recipient")
            if message.recipients_left_out:
                raise NoCommonVerdictError(
                    f"the message has more than {_MOST_RECIPIENTS} recipients"
                )
        verdicts = {user: mailboxes.judge(user, content, self.options) for user in users}
        if len({(verdict.mark, verdict.label) for verdict in verdicts.values()}) > 1:
            raise NoCommonVerdictError("the databases of the message's recipients disagree")
        return verdicts

    def _is_refused(self, message: _Message, response: Response) -> bool:
        is_probable = self.reject is not None and response.probability >= self.reject
        return is_probable and response.mark == "S" and not message.is_authenticated

    async def record(self, message: _Message, verdicts: _Verdicts) -> None:
        """Record the verdicts of a message that was answered."""
        content, place = bytes(message.content), f"milter {message.queue_id}".strip()
        for user, response in verdicts.items():
            try:
                await asyncio.to_thread(self.mailboxes.record, user, content, response, place)
            except Exception as error:  # the message is answered, so the session continues
                self.monitor.warn(f"the verdict was not stored: {error!s:.300}")


@dataclass(eq=False, repr=False)
class _Session:
    """Answers the packets of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    judges: _Judges
    activity: Activity
    memory: MessageMemory

    def __post_init__(self) -> None:
        self._answered = set(_UNANSWERED)
        self._actions = 0
        self._is_authenticated = False
        self._queue_id = ""
        self._begin()

    def _begin(self) -> None:
        """Expect another message."""
        self._message = _Message()
        self.memory.release()

    async def run(self) -> None:
        """Answer packets until the mail server has no more."""
        while (kind := (packet := await _packet(self.reader))[:1]) != b"Q":
            data, is_content = packet[1:], kind in (b"L", b"N", b"B", b"E")
            is_opened = self.activity.is_opened or kind in (b"M", b"R")
            self.activity.touch(_STRESS_S, is_content, is_opened)
            if is_content and not self._message.is_cut:
                self._message.is_cut = not await self.memory.take(len(packet))
            if kind == b"O":
                await self._agree(data)
            else:
                self._take(kind, data)
            if kind == b"E":
                await self._end()
            if kind in (b"C", b"K", b"H", b"M", b"A", b"E"):  # another message may begin
                self._begin()
                if kind != b"M":  # the macros of MAIL come before it
                    self._queue_id, self._is_authenticated = "", False
            if kind in (b"A", b"E"):
                self.activity.touch(_STRESS_S)
                if self.activity.is_ending:
                    return
            if kind in self._answered:
                await _send(self.writer, b"c")

    async def _agree(self, data: bytes) -> None:
        """Agree on the packets that the mail server sends."""
        if len(data) < 12:
            raise StreamNBError("a mail server's packet of options is truncated")
        version, actions, steps = struct.unpack_from("!LLL", data)
        steps &= sum(_UNANSWERED.values()) | _LEFT_OUT
        self._actions = actions & (_ADD_FIELDS | _CHANGE_FIELDS)
        for action, effect in _EFFECTS.items():
            if not actions & action:
                self.judges.monitor.warn(effect)
        self._answered = {kind for kind, step in _UNANSWERED.items() if not steps & step}
        agreed = struct.pack("!LLL", min(version, _VERSION), self._actions, steps)
        await _send(self.writer, b"O" + agreed)

    def _take(self, kind: bytes, data: bytes) -> None:
        """Add a part of the message, or of its envelope."""
        if kind == b"D":
            self._queue_id = _macro(data, b"i") or self._queue_id
            if data[:1] == b"M":
                self._is_authenticated = bool(_macro(data, b"auth_authen"))
        elif kind == b"R":
            self._message.add_recipient(data)
        elif kind == b"L":
            self._message.add_field(data)
        elif kind == b"N":
            self._message.add(b"\n")
        elif kind in (b"B", b"E"):
            self._message.add(data)

    async def _end(self) -> None:
        """Answer the end of a message, and record its verdicts."""
        message = self._message
        message.queue_id, message.is_authenticated = self._queue_id, self._is_authenticated
        message.can_be_marked = bool(self._actions & _ADD_FIELDS)
        verdicts, ending = await self.judges.decide(message)
        response = _common_verdict(verdicts) if verdicts else None
        edits = message.edits(response, self._actions) if ending == b"a" else []
        await _send(self.writer, *edits, ending)
        await self.judges.record(message, verdicts)


def _macro(data: bytes, name: bytes) -> str:
    """Return the value of a macro in a packet of macros, or "" if it is missing."""
    words = data[1:].split(b"\0")  # the first byte is the command to which the macros belong
    for key, value in zip(words[::2], words[1::2], strict=False):
        if key.strip(b"{}") == name:
            return value[:_LONGEST_ID].decode("ascii", "replace")
    return ""


async def _packet(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(_IDLE):
        (size,) = struct.unpack("!L", await reader.readexactly(4))
        if not 0 < size <= _LARGEST:
            raise StreamNBError(
                f"a packet has the invalid length of {size} bytes; is the client a mail server?"
            )
        return await reader.readexactly(size)


async def _send(writer: asyncio.StreamWriter, *packets: bytes) -> None:
    for packet in packets:
        writer.write(struct.pack("!L", len(packet)) + packet)
    async with asyncio.timeout(_IDLE):
        await writer.drain()


class _Message:
    """The beginning of a message, and the positions of fields with streamnb's names."""

    def __init__(self) -> None:
        self.queue_id = ""
        self.is_authenticated = False  # True if the sender has logged in
        self.can_be_marked = True  # False if the mail server allows no added fields
        self.is_cut = False  # whether the rest is left out
        self.recipients: list[str] = []
        self.recipients_left_out = False
        self.content = bytearray()
        self._named: Counter[bytes] = Counter()
        # (index among the fields of this name, name) of each forged field
        self._forged: list[tuple[int, bytes]] = []

    @property
    def recipient(self) -> str | None:
        """Return the addresses of the recipients, or None if they are unknown."""
        return ",".join(self.recipients) or None

    def add_recipient(self, data: bytes) -> None:
        """Add a recipient: an address in angle brackets, and parameters."""
        address = data.partition(b"\0")[0].strip(b"<>")[:_LONGEST_ADDRESS]
        if address and len(self.recipients) < _MOST_RECIPIENTS:
            self.recipients.append(address.decode("utf-8", "replace"))
        elif address:
            self.recipients_left_out = True

    def add(self, part: bytes) -> None:
        """Add a part of the message."""
        if self.is_cut:
            return
        self.content += part[: max(MAX_MESSAGE - len(self.content), 0)]

    def add_field(self, data: bytes) -> None:
        """Add a field of the header: name and value, each ended by a zero."""
        name, _, value = data.partition(b"\0")
        self.add(name + b": " + value.removesuffix(b"\0") + b"\n")
        lower = name.lower()
        if lower.strip() == FIELD.lower().encode():
            self._named[lower] += 1
            self._forged.append((self._named[lower], name))

    def edits(self, response: Response | None, actions: int) -> list[bytes]:
        """Return packets that remove forged fields and insert streamnb's field first."""
        packets = []
        # from last to first, so the indices of the remaining fields do not change
        if actions & _CHANGE_FIELDS:
            packets += [
                b"m" + struct.pack("!L", number) + name + b"\0\0"
                for number, name in reversed(self._forged)
            ]
        if response is not None and actions & _ADD_FIELDS:
            name, _, value = header_field(response).partition(": ")
            field = f"{name}\0{value}\0".encode("ascii", "replace")
            packets.append(b"i" + struct.pack("!L", 0) + field)
        return packets
