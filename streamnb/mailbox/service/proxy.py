"""A filter between two mail servers that receives messages by SMTP or LMTP and forwards them.

It sends each command to the next hop, and returns the next hop's answer. So it accepts a message
only if the next hop has accepted it, and no message is lost. A message can arrive twice if the
process is killed after it received the next hop's 250 and before it sent its own.
"""

from __future__ import annotations

import asyncio
import io
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from aiosmtpd.smtp import SMTP, Envelope, Session, TLSSetupException

from streamnb.limits import MAX_MESSAGE
from streamnb.mailbox.service.mailboxes import Mailboxes
from streamnb.mailbox.service.memory_budget import MemoryBudget
from streamnb.mailbox.service.monitor import Monitor
from streamnb.mailbox.service.next_hop import ANSWER_S, LATER, PATIENCE_S, HopClient, NextHop
from streamnb.mailbox.service.passthrough import pass_through
from streamnb.mailbox.service.response import JudgeOptions, Response, header_field
from streamnb.mailbox.service.server import DRAIN_S, Activity, ConnectionHandler, wait_for_start
from streamnb.mailbox.service.smtp_connection import LARGEST, LmtpConnection, SmtpConnection
from streamnb.patterns import lazy_pattern

_RECORD_AFTER_S = 0.05  # seconds from an answer to the recording of its verdict
# Seconds of the end before the log names the next hop that the server waits for. At half, content
# filters, which need seconds, cause the line; at twice, an administrator sees no reason for 10 s.
_NOTICE_S = 5.0
_MOST_RECIPIENTS = 1000  # recipients of a message; RFC 5321 requires at least 100
_POOL = ThreadPoolExecutor(64, "streamnb-hop")
# Postfix's attributes of the original client: https://www.postfix.org/XFORWARD_README.html
_FORWARDED = ("NAME", "ADDR", "PORT", "PROTO", "HELO", "IDENT", "SOURCE")
_ATTRIBUTE = lazy_pattern(r"([A-Za-z]+)=([!-~]{1,255})")
_ACTIONS = {"4": "deferred", "5": "refused"}  # actions of the next hop by the digit of its reply
_BARE_CR = lazy_pattern(rb"\r(?!\n)")
_HEX_PAIR = lazy_pattern(r"\+([0-9A-Fa-f]{2})")  # xtext, RFC 3461, 4


def proxy(
    hop: NextHop,
    mailboxes: Mailboxes,
    monitor: Monitor | None = None,
    lmtp: bool = False,
    options: JudgeOptions | None = None,
    tls: Callable[[], ssl.SSLContext] | None = None,
    budget: MemoryBudget | None = None,
) -> ConnectionHandler:
    """Return the SMTP or LMTP server for incoming connections.

    Parameters
    ----------
    hop
        The next hop, which receives all messages.
    mailboxes
        The mailboxes. With many users, each recipient's mailbox gives the verdict.
    monitor
        Log and metrics.
    lmtp
        Whether clients use LMTP, not SMTP.
    options
        The options of verdicts.
    tls
        Returns the context for STARTTLS of a new connection. None to offer no STARTTLS.
    budget
        Memory that all connections share. If it is used up, a large message waits. After the time
        limit, its client receives a 452 and sends the message later.
    """
    budget = budget or MemoryBudget()
    log = monitor or Monitor()

    async def handle(connection: socket.socket, activity: Activity | None = None) -> None:
        """Serve one connection until its end."""
        loop = asyncio.get_running_loop()
        activity = activity or Activity()
        relay = _Relay(hop, mailboxes, log, lmtp, options)
        kind = LmtpConnection if lmtp else SmtpConnection
        closed = loop.create_future()

        def create() -> SmtpConnection:
            server = kind(
                relay,
                loop=loop,
                hostname=socket.gethostname(),
                ident="streamnb",
                data_size_limit=LARGEST,
                enable_SMTPUTF8=True,
                tls_context=tls and tls(),
                timeout=PATIENCE_S,
                auth_exclude_mechanism=["LOGIN", "PLAIN"],
            )
            server.closed, server.activity = closed, activity
            server.memory = budget.message()
            return server

        _, server = await loop.connect_accepted_socket(create, connection)
        try:
            await asyncio.shield(closed)
        except asyncio.CancelledError:  # the server stops, or other clients wait
            server.end()
            await _drain(relay, closed, activity)
            raise
        finally:
            if server.transport is not None:
                server.transport.close()
            closing = asyncio.ensure_future(_in_thread(relay.close))
            try:
                await asyncio.shield(closing)
            except asyncio.CancelledError:  # the server stops when the client has left
                await asyncio.wait({closing}, timeout=DRAIN_S)
                raise

    return handle


async def _drain(relay: _Relay, closed: asyncio.Future[None], activity: Activity) -> None:
    """Wait until a connection ends. Wait longer while a message has no answer of the next hop."""
    await wait_for_start(closed, activity)
    if not activity.is_opened:
        await asyncio.wait({closed}, timeout=_NOTICE_S)
        if relay.awaits_answer and not closed.done() and not activity.is_evicted:
            relay.monitor.warn(
                f"the shutdown waits for the next hop {relay.hop.address}",
                f"it has a message; its answer can take {ANSWER_S / 60:.0f} minutes",
            )
        await asyncio.wait({closed}, timeout=DRAIN_S - _NOTICE_S)
    if relay.awaits_answer:
        await asyncio.wait({closed}, timeout=ANSWER_S)


@dataclass(eq=False, repr=False)
class _Relay:
    """Forwards the commands of one client to the next hop; a handler of aiosmtpd.

    Parameters
    ----------
    hop, mailboxes, monitor, lmtp, options
        As for `proxy`.
    """

    hop: NextHop
    mailboxes: Mailboxes
    monitor: Monitor
    lmtp: bool
    options: JudgeOptions | None

    def __post_init__(self) -> None:
        self.client = HopClient(self.hop, self.monitor.warn)
        # True if each recipient has a separate verdict or answer.
        has_several_answers = not self.mailboxes.is_single or self.hop.lmtp
        self._one_at_a_time = not self.lmtp and has_several_answers
        self._mail_options: Sequence[str] = ()
        self._recipient_options: dict[str, Sequence[str]] = {}
        self._sender = ""
        self._handing: asyncio.Task[list[str]] | None = None
        self._unrecorded: deque[tuple[str | None, bytes, Response, str]] = deque()
        self._record_lock = threading.Lock()
        self._recording: asyncio.Task[None] | None = None

    @property
    def is_handing_on(self) -> bool:
        """Return whether the relay is sending a message to the next hop."""
        return self._handing is not None and not self._handing.done()

    @property
    def awaits_answer(self) -> bool:
        """Return whether the next hop has a whole message, and has not answered."""
        return self.is_handing_on and self.client.has_sent

    def refuse_size(self, size: str) -> None:
        """Log and count a message that exceeds a limit of size."""
        listener = "lmtp" if self.lmtp else "smtp"
        self.monitor.refuse(listener, "size", f"a message {size}")

    def _note_refusal(
        self, reply: str, recipient: str | None = None, cause: str | None = None
    ) -> None:
        """Log and count a reply that refuses a message, or by default the next hop's reply."""
        self.monitor.refuse(
            "lmtp" if self.lmtp else "smtp",
            cause or f"next_hop_{reply[:1]}xx",
            queue_id=_queue_id(self.client.forwarded) or None,
            recipient=recipient,
            reply=reply,
            action=_ACTIONS.get(reply[:1]),
        )

    def for_each_recipient(self, reply: str, envelope: Envelope) -> str:
        """Return a reply to a message as the client expects it: in LMTP, one for each recipient."""
        return "\r\n".join([reply] * (len(envelope.rcpt_tos) if self.lmtp else 1))

    def forward(self, argument: str) -> str:
        """Store attributes of the original client for the next message; return the reply."""
        attributes = {}
        for word in argument.split():
            match = _ATTRIBUTE.fullmatch(word)
            if match is None or match[1].upper() not in _FORWARDED:
                return "501 5.5.4 no such attribute"
            attributes[match[1].upper()] = match[2]
        self.client.forwarded |= attributes
        return "250 2.0.0 ok" if attributes else "501 5.5.4 attributes are missing"

    # Called by aiosmtpd

    async def handle_EHLO(  # noqa: N802 (the library's name)
        self,
        server: SMTP,
        session: Session,
        envelope: Envelope,
        hostname: str,
        responses: list[str],
    ) -> list[str]:
        """Return the lines that answer EHLO: the extensions that the next hop allows."""
        session.host_name = hostname
        extensions = await _in_thread(self.client.extensions)
        lines = []
        for response in responses:
            word = response[4:].split(" ")[0].lower()
            if word == "size":
                size = extensions.get("size", "")
                limit = int(size) if size.isdecimal() and len(size) < 16 else 0
                lines.append(f"250-SIZE {min(limit, LARGEST) if limit else LARGEST}")
            elif word != "auth" and (word not in ("8bitmime", "smtputf8") or word in extensions):
                lines.append(response)
        if "dsn" in extensions:
            lines.insert(-1, "250-DSN")
        lines.insert(-1, f"250-XFORWARD {' '.join(_FORWARDED)}")
        return lines

    async def handle_MAIL(  # noqa: N802
        self,
        server: SmtpConnection,
        session: Session,
        envelope: Envelope,
        address: str | None,
        options: list[str],
    ) -> str:
        """Forward the sender, and return the reply."""
        server.begin()
        sender = "" if address is None or address == "<>" else address
        self._sender, self._mail_options = sender, server.parameters
        self._recipient_options = {}
        reply: str = await _in_thread(self.client.begin, sender, server.parameters)
        if reply.startswith("2"):
            envelope.mail_from = address
        else:
            self._note_refusal(reply)
        return reply

    async def handle_RCPT(  # noqa: N802
        self,
        server: SmtpConnection,
        session: Session,
        envelope: Envelope,
        address: str,
        options: list[str],
    ) -> str:
        """Forward a recipient, and return the reply."""
        if self._one_at_a_time and envelope.rcpt_tos:
            return "452 4.5.3 one recipient at a time"
        if len(envelope.rcpt_tos) >= _MOST_RECIPIENTS:
            return "452 4.5.3 too many recipients"
        if address == "<>":  # the library's name for an empty address
            return "501 5.1.3 the address of the recipient is empty"
        if address in envelope.rcpt_tos:  # the next hop receives each recipient once
            envelope.rcpt_tos.append(address)
            return "250 2.1.5 ok"
        reply: str = await _in_thread(self.client.add_recipient, address, server.parameters)
        if reply.startswith("2"):
            envelope.rcpt_tos.append(address)
            self._recipient_options[address] = server.parameters
        else:
            self._note_refusal(reply, address)
        return reply

    async def handle_RSET(  # noqa: N802
        self, server: SmtpConnection, session: Session, envelope: Envelope
    ) -> str:
        # Postfix checks a used connection by RSET, and begins its next message on it
        server.expects_message = True
        await _in_thread(self.client.reset)
        self.client.forwarded = {}
        return "250 2.0.0 ok"

    async def handle_DATA(  # noqa: N802
        self, server: SmtpConnection, session: Session, envelope: Envelope
    ) -> str:
        """Forward a complete message, and return the reply."""
        message = envelope.original_content or b""
        line_ends = message.count(b"\r\n")
        # some servers would read it as the end of the message
        if message.count(b"\n") != line_ends:
            refusal = "550 5.6.11 a line feed without a carriage return (RFC 5321, 2.3.8)"
            self._note_refusal(refusal, ", ".join(envelope.rcpt_tos)[:200], "line_feed")
            return self.for_each_recipient(refusal, envelope)
        # A client must not send it (RFC 5321, 2.3.8), and some servers read it as the end of a
        # line. Postfix replaces it by a space, too (cleanup_replace_stray_cr_lf).
        if message.count(b"\r") != line_ends:
            message = _BARE_CR.sub(b" ", message)
        recipients = list(envelope.rcpt_tos)
        server.wait_for_hop()
        self._handing = asyncio.ensure_future(_in_thread(self._hand_on, recipients, message))
        try:
            # it continues after the client has closed the connection
            replies = await asyncio.shield(self._handing)
        except Exception as error:  # a returned reply ends the transaction, an exception does not
            replies = [await self.handle_exception(error)]
            replies *= len(recipients) if self.lmtp else 1
        self._recording = asyncio.create_task(self._record_soon())
        server.memory.release()
        return "\r\n".join(replies)

    async def handle_exception(self, error: Exception) -> str:
        """Return the reply after an error of the program: the client sends the message again."""
        if isinstance(error, TLSSetupException):  # the client's error; the library disconnects
            self.monitor.warn("a client's TLS handshake failed", error.__cause__ or "")
        else:
            self.monitor.warn(f"a message was deferred: {type(error).__name__}", error)
        return "451 4.3.0 an error of the filter; try again later"

    async def _record_soon(self) -> None:
        await asyncio.sleep(_RECORD_AFTER_S)  # send the answer first
        await _in_thread(self._record)

    # Called in threads

    def _hand_on(self, recipients: list[str], message: bytes) -> list[str]:
        """Classify a message and forward it.

        With many users, each recipient's mailbox gives the verdict, and the next hop receives one
        message for each different verdict. Return one reply for each recipient in LMTP, else a
        single reply.
        """
        started = time.monotonic()
        self.client.has_sent = False
        # a user's database or alias can appear while the next hop works on the message
        users = {recipient: self._user(recipient) for recipient in recipients}
        results = self._judge(users.values(), message)
        groups: dict[str, list[str]] = {}  # recipients by their header field
        for recipient, user in users.items():
            result = results[user]
            field = header_field(result) if isinstance(result, Response) else ""
            groups.setdefault(field, []).append(recipient)
        replies: dict[str, str] = {}
        with self.client.turn:
            if not self.client.is_begun:
                replies = dict.fromkeys(recipients, LATER)
            elif len(groups) == 1:
                result = results[users[recipients[0]]]
                replies = self.client.send(list(users), _mark(message, result))
            else:
                for members in groups.values():
                    marked = _mark(message, results[users[members[0]]])
                    options = {member: self._recipient_options[member] for member in members}
                    envelope = self._sender, self._mail_options, options
                    replies |= self.client.send_anew(*envelope, marked)
        try:
            self._note(users, message, results, replies, started)
        except Exception as error:  # the next hop has the message, so its replies are returned
            self.monitor.warn(f"a message was not logged: {type(error).__name__}", error)
        self.client.forwarded = {}
        each = [replies[recipient] for recipient in recipients]
        return each if self.lmtp else each[:1]

    def _judge(
        self, users: Iterable[str | None], message: bytes
    ) -> dict[str | None, Response | Exception]:
        """Return the verdict or error of each user's mailbox, by user."""
        results: dict[str | None, Response | Exception] = {}
        for user in dict.fromkeys(users):
            try:
                results[user] = self.mailboxes.judge(user, message[:MAX_MESSAGE], self.options)
            except Exception as error:  # pass the message after any error
                results[user] = error
        return results

    def _note(
        self,
        users: dict[str, str | None],
        message: bytes,
        results: dict[str | None, Response | Exception],
        replies: dict[str, str],
        started: float,
    ) -> None:
        """Log the message for each recipient, and store the verdicts to record."""
        listener = "lmtp" if self.lmtp else "smtp"
        queue_id = _queue_id(self.client.forwarded)
        recorded = set()
        for recipient, user in users.items():
            result, reply = results[user], replies[recipient]
            marked = "marked" if isinstance(result, Response) else "unmarked"
            action = _ACTIONS.get(reply[:1])
            self.monitor.message(
                listener, result, action or marked, started, message, recipient, queue_id, user,
                reply if action else None,
            )  # fmt: skip
            if action is not None:
                self.monitor.refuse(listener, f"next_hop_{reply[:1]}xx")
            elif isinstance(result, Response) and user not in recorded:
                recorded.add(user)
                place = f"{listener} {queue_id}".strip()
                self._unrecorded.append((user, message[:MAX_MESSAGE], result, place))

    def _user(self, recipient: str) -> str | None:
        if self.mailboxes.is_single:
            return None
        return self.mailboxes.addresses.user(recipient)

    def _record(self) -> None:
        """Record the last verdicts, after the answers were sent.

        `close` waits here for a thread that still records, because the databases close next.
        """
        with self._record_lock:
            while self._unrecorded:  # another thread can append to it
                try:
                    self.mailboxes.record(*self._unrecorded.popleft())
                except Exception as error:  # the message is answered, so the connection continues
                    self.monitor.warn(f"the verdict was not stored: {error!s:.300}")

    def close(self) -> None:
        """Close the connection to the next hop, and record the last verdicts."""
        self.client.close()
        self._record()


def _mark(message: bytes, result: Response | Exception) -> bytes:
    """Return a message with its verdict, without forged verdicts."""
    target = io.BytesIO()
    classify = (lambda _: result) if isinstance(result, Response) else None
    pass_through(io.BytesIO(message), target, classify, line_end=b"\r\n")
    return target.getvalue()


def _queue_id(attributes: dict[str, str]) -> str:
    """Return the mail server's queue id, or "" if it sent none."""
    text = attributes.get("IDENT", "")
    if text.startswith("["):  # Postfix sends [UNAVAILABLE]
        return ""
    return _HEX_PAIR.sub(lambda match: chr(int(match[1], 16)), text)


async def _in_thread(act: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that can block in a thread; other connections continue."""
    return await asyncio.get_running_loop().run_in_executor(_POOL, act, *arguments)
