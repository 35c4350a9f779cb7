"""A filter in a mail server's path: it takes a message by SMTP or LMTP, and hands it on.

Every command is put to the next hop and answered as that answers, so nothing is accepted that the
next hop did not take: a message is either there or still here, and comes twice at most, where
this process is killed between the next hop's 250 and ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import re
import smtplib
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, AnyStr, NamedTuple

from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP, Envelope, Session

from streamnb.errors import StreamNBError, root_cause
from streamnb.mailbox.service.mailboxes import Mailboxes
from streamnb.mailbox.service.monitor import Monitor
from streamnb.mailbox.service.passthrough import pass_through
from streamnb.mailbox.service.protocol import MOST
from streamnb.mailbox.service.response import JudgeOptions, Response, header_field
from streamnb.mailbox.service.server import DRAIN_S, IDLE_S, Activity, ConnectionHandler
from streamnb.mailbox.service.sockets import Address

LARGEST = 50 << 20  # bytes of a message
_LONGEST_LINE = 1 << 20
_PATIENCE = 300.0  # seconds, for either side; RFC 5321, 4.5.3.2 asks for as much
_SOON = 0.05  # seconds after an answer
_GREETING = 30.0  # seconds for the next hop to be reached
_STRESS_S = 10.0  # seconds that a client may be silent within a message while others wait
_MOST_RECIPIENTS = 1000  # of a message; RFC 5321 asks for at least 100
_MOST_LINES = 1_000_000  # of a message
_POOL = ThreadPoolExecutor(64, "streamnb-hop")
_DOTS = re.compile(rb"(\A|\r\n)\.")  # a line's first dot is doubled on the way: RFC 5321, 4.5.2
_LATER = "451 4.3.0 the next hop cannot be reached; try again later"
_PASSED_ON = ("8bitmime", "smtputf8")

logging.getLogger("mail.log").addHandler(logging.NullHandler())  # whoever connects could fill it


class NextHop(NamedTuple):
    """Where messages go.

    Attributes
    ----------
    lmtp
        Whether LMTP is spoken there, not SMTP.
    address
        Where it is.
    """

    lmtp: bool
    address: Address


def proxy(
    hop: NextHop,
    mailboxes: Mailboxes,
    monitor: Monitor | None = None,
    lmtp: bool = False,
    options: JudgeOptions | None = None,
    tls: ssl.SSLContext | None = None,
) -> ConnectionHandler:
    """Return the SMTP or LMTP server for incoming connections.

    Parameters
    ----------
    hop
        The next hop, which every message is handed to.
    mailboxes
        The mailboxes that judge. Of many users, each recipient's own, by what stands before @.
    monitor
        Log and metrics.
    lmtp
        Whether clients speak LMTP, not SMTP.
    options
        How messages are judged.
    tls
        Context with which STARTTLS is offered. None to offer none.
    """
    log = monitor or Monitor()

    async def handle(connection: socket.socket, activity: Activity | None = None) -> None:
        loop = asyncio.get_running_loop()
        activity = activity or Activity()
        passing = _Passing(hop, mailboxes, log, lmtp, options)
        kind = _Lmtp if lmtp else _Ending
        closed = loop.create_future()

        def create() -> _Ending:
            server = kind(
                passing,
                loop=loop,
                hostname=socket.gethostname(),
                ident="streamnb",
                data_size_limit=LARGEST,
                enable_SMTPUTF8=True,
                tls_context=tls,
                timeout=_PATIENCE,
                auth_exclude_mechanism=["LOGIN", "PLAIN"],
            )
            server.closed, server.activity = closed, activity
            return server

        _, server = await loop.connect_accepted_socket(create, connection)
        try:
            await asyncio.shield(closed)
        except asyncio.CancelledError:  # the server stops, or others wait for a connection
            server.end()
            await asyncio.wait({closed}, timeout=DRAIN_S)
            raise
        finally:
            if server.transport is not None:
                server.transport.close()
            await _in_thread(passing.close)

    return handle


class _Ending(SMTP):
    """A server of one connection, with limits for lines, and an orderly end."""

    line_length_limit = _LONGEST_LINE
    closed: asyncio.Future[None]
    activity: Activity
    is_ending = False
    received = lines = 0  # since the last command that began something

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        if b"\n" in data:
            self._touch()
        self.lines += data.count(b"\n")
        if self.lines > _MOST_LINES:  # the library keeps each by itself: no more of this message
            self.line_length_limit = 0
        if self.received > 2 * LARGEST:  # a line that never ends is kept as a whole
            if isinstance(self.transport, asyncio.Transport):
                self.transport.write(b"421 4.3.0 too much\r\n")
                self.transport.close()
            return
        super().data_received(data)

    def begin(self) -> None:
        """Expect another message."""
        self.received = self.lines = 0
        self.line_length_limit = _LONGEST_LINE

    async def push(self, status: AnyStr) -> None:
        """Send a reply, and end the connection behind the last one if it is to end."""
        if self.line_length_limit == 0 and str(status).startswith("500 Line too long"):
            await super().push(f"552 5.3.4 more than {_MOST_LINES:,} lines")
        else:
            await super().push(status)
        self._touch()
        if self.is_ending and not self.in_transaction:
            self._close()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if not self.closed.done():
            self.closed.set_result(None)

    @property
    def in_transaction(self) -> bool:
        """Return whether a message was begun and is not yet answered."""
        return self.envelope is not None and self.envelope.mail_from is not None

    def _touch(self) -> None:
        self.activity.touch(IDLE_S if not self.in_transaction else _STRESS_S, self.in_transaction)

    def end(self) -> None:
        """End the connection: at once if it is evicted or idle, else after the message in hand."""
        self.is_ending = True
        passing = self.event_handler
        if not self.in_transaction or (self.activity.is_evicted and not passing.is_handing_on):
            self._close()

    def _close(self) -> None:
        if isinstance(self.transport, asyncio.Transport) and not self.transport.is_closing():
            if self.activity.is_evicted:
                self.transport.write(b"421 4.4.2 idle, and others wait; try again\r\n")
            self.transport.close()


class _Lmtp(_Ending, LMTP):
    pass


@dataclass(eq=False, repr=False)
class _Passing:
    """Puts what one client says to the next hop; a handler of aiosmtpd.

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
        self._many = self.mailboxes.single is None
        # Whether each recipient has a verdict, or an answer, of its own.
        self._one_at_a_time = not self.lmtp and (self._many or self.hop.lmtp)
        self._options: list[str] = []  # of the MAIL command
        self._sender = ""
        self.client: smtplib.SMTP | None = None
        self._handing: asyncio.Task[list[str]] | None = None
        self._unrecorded: list[tuple[str, bytes, Response]] = []
        self._recording: asyncio.Task[None] | None = None
        self._begun = False  # whether the next hop knows of a message
        self._closing = False
        self._turn = threading.RLock()  # whoever has it speaks to the next hop

    @property
    def is_handing_on(self) -> bool:
        """Return whether a message is being handed to the next hop."""
        return self._handing is not None and not self._handing.done()

    # What aiosmtpd calls

    async def handle_EHLO(  # noqa: N802 (the library's name)
        self,
        server: SMTP,
        session: Session,
        envelope: Envelope,
        hostname: str,
        responses: list[str],
    ) -> list[str]:
        session.host_name = hostname
        offered = await _in_thread(self._offered)
        kept = []
        for response in responses:
            word = response[4:].split(" ")[0].lower()
            if word == "size":
                size = offered.get("size", "")
                most = int(size) if size.isdecimal() and len(size) < 16 else 0
                kept.append(f"250-SIZE {min(most, LARGEST) if most else LARGEST}")
            elif word != "auth" and (word not in ("8bitmime", "smtputf8") or word in offered):
                kept.append(response)
        return kept

    async def handle_MAIL(  # noqa: N802
        self,
        server: SMTP,
        session: Session,
        envelope: Envelope,
        address: str | None,
        options: list[str],
    ) -> str:
        server.begin()  # type: ignore[attr-defined]  # an _Ending
        sender = "" if address is None or address == "<>" else address
        if server.is_ending:  # type: ignore[attr-defined]  # an _Ending
            return "421 4.3.2 shutting down; try again"
        self._sender, self._options = sender, list(options)
        reply: str = await _in_thread(self._begin, sender, options)
        if reply.startswith("2"):
            envelope.mail_from = address
            envelope.mail_options.extend(options)
        return reply

    async def handle_RCPT(  # noqa: N802
        self,
        server: SMTP,
        session: Session,
        envelope: Envelope,
        address: str,
        options: list[str],
    ) -> str:
        if self._one_at_a_time and envelope.rcpt_tos:
            return "452 4.5.3 one recipient at a time"
        if len(envelope.rcpt_tos) >= _MOST_RECIPIENTS:
            return "452 4.5.3 too many recipients"
        command = " ".join([f"RCPT TO:<{address}>", *options])
        reply: str = await _in_thread(self._recipient, command)
        if reply.startswith("2"):
            envelope.rcpt_tos.append(address)
            envelope.rcpt_options.extend(options)
        return reply

    async def handle_RSET(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        await _in_thread(self._reset)
        return "250 2.0.0 ok"

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        message = envelope.original_content or b""
        if message.count(b"\n") != message.count(b"\r\n"):  # some would take it for the end
            return "550 5.6.11 a line feed without a carriage return (RFC 5321, 2.3.8)"
        recipients = list(envelope.rcpt_tos)
        self._handing = asyncio.ensure_future(_in_thread(self._hand_on, recipients, message))
        replies = await asyncio.shield(self._handing)  # it is done also where the client has gone
        self._recording = asyncio.create_task(self._record_soon())
        return "\r\n".join(replies)

    async def _record_soon(self) -> None:
        await asyncio.sleep(_SOON)  # the answer goes first
        await _in_thread(self._record)

    # What is put to the next hop, in a thread

    def _connected(self) -> smtplib.SMTP:
        if self.client is None:
            self.client = _client(self.hop)
        return self.client

    def _offered(self) -> dict[str, str]:
        with self._turn:
            try:
                return self._connected().esmtp_features
            except (OSError, smtplib.SMTPException) as error:
                self._lost(error)
                return dict.fromkeys(_PASSED_ON, "")  # it is told when there is a message

    def _begin(self, sender: str, options: list[str]) -> str:
        with self._turn:
            if self._begun:  # the client's message was given up, and nobody said so
                self._reset()
            idle = self.client is not None
            try:
                known = self._connected().esmtp_features
            except (OSError, smtplib.SMTPException) as error:
                return self._lost(error)
            wanted = [one for one in options if _knows(known, one)]
            if len(wanted) < len(options) and not _are_hints(set(options) - set(wanted)):
                return "553 5.6.7 the next hop does not take such messages"
            reply = self._command(" ".join([f"MAIL FROM:<{sender}>", *wanted]))
            if idle and self.client is None:  # it hung up between two messages
                return self._begin(sender, options)
            self._begun = reply.startswith("2")
            return reply

    def _recipient(self, command: str) -> str:
        with self._turn:
            return self._command(command) if self._begun else _LATER

    def _reset(self) -> None:
        with self._turn:
            if self._begun and self.client is not None:
                self._command("RSET")
            self._begun = False

    def _command(self, command: str) -> str:
        client = self.client
        if client is None:
            return _LATER
        try:
            client.command_encoding = "utf-8"  # SMTPUTF8; all else is ASCII anyway
            return _line(*client.docmd(command))
        except ValueError:  # it was not sent
            return "553 5.1.3 no such address can be handed on"
        except (OSError, smtplib.SMTPException) as error:
            return self._lost(error)

    def _hand_on(self, recipients: list[str], message: bytes) -> list[str]:
        """Judge a message and hand it on.

        Of many users, each recipient's own mailbox judges: the next hop gets one message for each
        different verdict. Return one reply for each recipient in LMTP, else a single one.
        """
        started = time.monotonic()
        results = self._judge(recipients, message)
        groups: dict[str, list[str]] = {}  # recipients by the field that they get
        for recipient in dict.fromkeys(recipients):
            result = results[self._user(recipient)]
            field = header_field(result) if isinstance(result, Response) else ""
            groups.setdefault(field, []).append(recipient)
        replies: dict[str, str] = {}
        with self._turn:
            begun, self._begun = self._begun, False
            if not begun or self.client is None:
                replies = dict.fromkeys(recipients, _LATER)
            elif len(groups) == 1:
                result = results[self._user(recipients[0])]
                replies = self._send(recipients, _mark(message, result))
            else:
                self._command("RSET")
                for members in groups.values():
                    result = results[self._user(members[0])]
                    replies |= self._send_anew(members, message, result)
        self._note(recipients, message, results, replies, started)
        each = [replies[recipient] for recipient in recipients]
        return each if self.lmtp else each[:1]

    def _judge(
        self, recipients: list[str], message: bytes
    ) -> dict[str | None, Response | Exception]:
        """Return the verdict, or the error, of each recipient's mailbox, by user."""
        results: dict[str | None, Response | Exception] = {}
        for user in dict.fromkeys(map(self._user, recipients)):
            try:
                results[user] = self.mailboxes.judge(user, message[:MOST], self.options)
            except Exception as error:  # whatever went wrong, the message must be passed on
                results[user] = error
        return results

    def _send_anew(
        self, recipients: list[str], message: bytes, result: Response | Exception
    ) -> dict[str, str]:
        """Hand a message to some of its recipients, in a transaction of its own."""
        reply = self._begin(self._sender, self._options)
        if not reply.startswith("2"):
            return dict.fromkeys(recipients, reply)
        replies = {to: self._recipient(f"RCPT TO:<{to}>") for to in recipients}
        taken = [to for to, reply in replies.items() if reply.startswith("2")]
        self._begun = False
        if taken and self.client is not None:
            replies |= self._send(taken, _mark(message, result))
        elif taken:  # the connection was lost after they were taken
            replies |= dict.fromkeys(taken, _LATER)
        elif self.client is not None:
            self._command("RSET")
        return replies

    def _send(self, recipients: list[str], marked: bytes) -> dict[str, str]:
        """Send the content of a message whose recipients the next hop knows; their replies."""
        client = self.client
        if client is None:
            return dict.fromkeys(recipients, _LATER)
        replies: list[str] = []
        try:
            code, text = client.docmd("DATA")
            if code != 354:
                if not 400 <= code < 600:  # not a reply to DATA
                    raise smtplib.SMTPServerDisconnected("no answer to DATA")
                self._command("RSET")
                return dict.fromkeys(recipients, _line(code, text))
            ends = marked.endswith(b"\r\n") or not marked
            if client.sock is not None:  # smtplib would close it, and lose the reply
                client.sock.sendall(_DOTS.sub(rb"\1..", marked))
                client.sock.sendall(b".\r\n" if ends else b"\r\n.\r\n")
            for _ in range(len(recipients) if self.hop.lmtp else 1):
                replies.append(_line(*client.getreply()))
        except (OSError, smtplib.SMTPException) as error:
            refused = "" if replies else _refused(client)
            later = self._lost(error)
            replies += [refused or later] * len(recipients)  # replies that came are passed on
        if not self.hop.lmtp:
            replies = replies[:1] * len(recipients)
        return dict(zip(recipients, replies, strict=False))

    def _note(
        self,
        recipients: list[str],
        message: bytes,
        results: dict[str | None, Response | Exception],
        replies: dict[str, str],
        started: float,
    ) -> None:
        """Log the message for each recipient, and keep the verdicts to be recorded."""
        listener = "lmtp" if self.lmtp else "smtp"
        recorded = set()
        for recipient in dict.fromkeys(recipients):
            user, reply = self._user(recipient), replies[recipient]
            result = results[user]
            marked = "marked" if isinstance(result, Response) else "unmarked"
            action = {"2": marked, "4": "deferred"}.get(reply[:1], "refused")
            self.monitor.message(listener, result, action, started, message, recipient)
            if action in ("deferred", "refused"):
                self.monitor.refuse(listener, f"next_hop_{reply[:1]}xx")
            elif isinstance(result, Response) and user not in recorded:
                recorded.add(user)
                self._unrecorded.append((recipient, message[:MOST], result))

    def _user(self, recipient: str) -> str | None:
        return recipient.partition("@")[0].partition("+")[0].lower() if self._many else None

    def _record(self) -> None:
        """Record the last verdicts; they were answered already."""
        unrecorded, self._unrecorded = self._unrecorded, []
        place = "lmtp" if self.lmtp else "smtp"
        for recipient, message, response in unrecorded:
            try:
                self.mailboxes.record(self._user(recipient), message, response, place)
            except (StreamNBError, LookupError) as error:
                self.monitor.warn(f"not recorded: {error!s:.300}")

    def _lost(self, error: Exception) -> str:
        why = root_cause(error)
        if not self._closing:
            self.monitor.warn(f"{self.hop.address}: the next hop: {why:.200}")
        client, self.client = self.client, None
        self._begun = False
        if client is not None:
            client.close()
        return _LATER

    def close(self) -> None:
        """Record what is left, and say good-bye to the next hop.

        Where another thread still speaks to it, that is cut short: what is not whole is not taken.
        """
        self._closing = True
        if not self._turn.acquire(blocking=False):
            client = self.client
            if client is not None and client.sock is not None:
                with contextlib.suppress(OSError):
                    client.sock.shutdown(socket.SHUT_RDWR)
            self._turn.acquire()
        try:
            client, self.client = self.client, None
            if client is not None:
                with contextlib.suppress(OSError, smtplib.SMTPException):
                    if client.sock is not None:
                        client.sock.settimeout(2.0)
                    client.quit()
                client.close()
        finally:
            self._turn.release()
        self._record()


def _mark(message: bytes, result: Response | Exception) -> bytes:
    """Return a message with its verdict and without forged ones."""
    target = io.BytesIO()
    classify = (lambda _: result) if isinstance(result, Response) else None
    pass_through(io.BytesIO(message), target, classify, line_end=b"\r\n")
    return target.getvalue()


async def _in_thread(act: Callable[..., Any], *arguments: Any) -> Any:
    """Do what waits for others in a thread of our own: a hop that hangs holds up nobody else."""
    return await asyncio.get_running_loop().run_in_executor(_POOL, act, *arguments)


def _client(hop: NextHop) -> smtplib.SMTP:
    """A connection to the next hop that has been greeted."""
    address = hop.address
    # Python's client of LMTP is that of SMTP with another greeting, and reaches Unix sockets, too.
    kind = smtplib.LMTP if hop.lmtp or address.path else smtplib.SMTP
    name = socket.gethostname()
    client = kind(local_hostname=name, timeout=_GREETING)
    client.ehlo_msg = "lhlo" if hop.lmtp else "ehlo"
    client._host = address.host or name  # type: ignore[attr-defined]  # whose certificate it must be
    try:
        code, said = client.connect(address.path or address.host, address.port)
        if code != 220:
            raise smtplib.SMTPConnectError(code, said)
        client.ehlo()
        if not address.is_local and client.has_extn("starttls"):
            client.starttls(context=ssl.create_default_context())
            client.ehlo()
        if not client.does_esmtp:
            raise smtplib.SMTPConnectError(502, "it speaks no extended SMTP")
        if client.sock is not None:
            client.sock.settimeout(_PATIENCE)
            if address.path is None:  # a message's end would wait for the answer to its beginning
                client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        client.close()
        raise
    return client


def _knows(features: dict[str, str], option: str) -> bool:
    """Whether a hop takes an option of MAIL."""
    name = option.partition("=")[0].lower()
    return {"body": "8bitmime", "ret": "dsn", "envid": "dsn"}.get(name, name) in features


def _are_hints(options: set[str]) -> bool:
    """Whether options can be left out and the message is the same."""
    return all(one.partition("=")[0].lower() in ("size", "body") for one in options)


def _refused(client: smtplib.SMTP) -> str:
    """What the next hop refused a message with for good, before it hung up; else ""."""
    with contextlib.suppress(OSError, smtplib.SMTPException):
        if client.sock is not None:
            client.sock.settimeout(_SOON)
            code, said = client.getreply()
            if code >= 500:
                return _line(code, said)
    return ""


def _line(code: int, said: bytes) -> str:
    """A reply as one line; SMTPServerDisconnected for what is no reply."""
    if not 200 <= code < 600:
        raise smtplib.SMTPServerDisconnected("it answers nonsense")
    return f"{code} {' '.join(said.decode('ascii', 'replace').split())[:480]}"
