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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, AnyStr, NamedTuple

from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP, Envelope, Session

from streamnb.errors import StreamNBError, root_cause
from streamnb.mailbox.service.mailboxes import Mailboxes
from streamnb.mailbox.service.passthrough import pass_through
from streamnb.mailbox.service.protocol import MOST
from streamnb.mailbox.service.response import JudgeOptions, Response
from streamnb.mailbox.service.sockets import Address, ConnectionHandler

LARGEST = 50 << 20  # bytes of a message
_LONGEST_LINE = 1 << 20
_PATIENCE = 300.0  # seconds, for either side; RFC 5321, 4.5.3.2 asks for as much
_SOON = 0.05  # seconds after an answer
_GREETING = 30.0  # seconds for the next hop to be reached
_LAST = 10.0  # seconds for a message that is being handed on when this process ends
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
    say: Callable[[str], None],
    lmtp: bool = False,
    question: JudgeOptions | None = None,
    tls: ssl.SSLContext | None = None,
) -> ConnectionHandler:
    """What talks to those who bring mail.

    Parameters
    ----------
    hop
        Where messages go.
    mailboxes
        Who judges them: where there are many users, each recipient's own, by what stands before @.
    say
        Is told what goes wrong.
    lmtp
        Whether LMTP is spoken to us, not SMTP.
    question
        How messages are judged.
    tls
        What STARTTLS is offered with, if it is.
    """

    async def talk(connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        passing = _Passing(hop, mailboxes, say, lmtp, question)
        kind = _Lmtp if lmtp else _Ending
        ended = loop.create_future()

        def made() -> SMTP:
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
            server.ended = ended
            return server

        await loop.connect_accepted_socket(made, connection)
        try:
            await ended
        except asyncio.CancelledError:  # this process ends
            await passing.finished()
            raise
        finally:
            await _in_thread(passing.close)

    return talk


class _Ending(SMTP):
    """Tells when its connection has ended, and takes long lines, but not without end."""

    line_length_limit = _LONGEST_LINE
    ended: asyncio.Future[None]
    received = lines = 0  # since the last command that began something

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
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
        """Give an answer; the library's to a message of too many lines speaks of long ones."""
        if self.line_length_limit == 0 and str(status).startswith("500 Line too long"):
            await super().push(f"552 5.3.4 more than {_MOST_LINES:,} lines")
        else:
            await super().push(status)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if not self.ended.done():
            self.ended.set_result(None)


class _Lmtp(_Ending, LMTP):
    pass


@dataclass(eq=False, repr=False)
class _Passing:
    """Puts what one client says to the next hop; a handler of aiosmtpd.

    Parameters
    ----------
    hop, mailboxes, say, lmtp, question
        As for `proxy`.
    """

    hop: NextHop
    mailboxes: Mailboxes
    say: Callable[[str], None]
    lmtp: bool
    question: JudgeOptions | None

    def __post_init__(self) -> None:
        self._many = self.mailboxes.one is None
        # Whether each recipient has a verdict, or an answer, of its own.
        self._one_at_a_time = self._many or (self.hop.lmtp and not self.lmtp)
        self.client: smtplib.SMTP | None = None
        self._handing: asyncio.Task[list[str]] | None = None
        self._unrecorded: list[tuple[str, bytes, Response]] = []
        self._recording: asyncio.Task[None] | None = None
        self._begun = False  # whether the next hop knows of a message
        self._closing = False
        self._turn = threading.RLock()  # whoever has it speaks to the next hop

    async def finished(self) -> None:
        """Wait until a message that is being handed on is there, and that was answered."""
        if self._handing is not None and not self._handing.done():
            await asyncio.wait([self._handing], timeout=_LAST)
            await asyncio.sleep(0.1)

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
        """Judge a message and hand it on; the answers, one for each recipient where it is LMTP."""
        many = len(recipients) if self.lmtp else 1
        with self._turn:
            begun, self._begun = self._begun, False
            client = self.client
            if client is None or not begun:
                return [_LATER] * many
            stamped, found = self._stamped(recipients[0], message)
            replies: list[str] = []
            try:
                code, said = client.docmd("DATA")
                if code != 354:
                    if not 400 <= code < 600:  # it is not the reply to that
                        raise smtplib.SMTPServerDisconnected("no answer to DATA")
                    self._command("RSET")
                    return [_line(code, said)] * many
                ends = stamped.endswith(b"\r\n") or not stamped
                if client.sock is not None:  # smtplib would close it and what was said be lost
                    client.sock.sendall(_DOTS.sub(rb"\1..", stamped))
                    client.sock.sendall(b".\r\n" if ends else b"\r\n.\r\n")
                for _ in range(len(recipients) if self.hop.lmtp else 1):
                    replies.append(_line(*client.getreply()))
            except (OSError, smtplib.SMTPException) as error:
                refused = "" if replies else _refused(client)
                later = self._lost(error)
                replies += [refused or later] * many  # who was answered, was answered
                return replies[:many]
        if found is not None and replies[0].startswith("2"):
            self._unrecorded.append((recipients[0], message[:MOST], found))
        return replies if len(replies) == many else replies[:1] * many

    def _user(self, recipient: str) -> str | None:
        return recipient.partition("@")[0].partition("+")[0].lower() if self._many else None

    def _stamped(self, recipient: str, message: bytes) -> tuple[bytes, Response | None]:
        target = io.BytesIO()
        found: list[Response] = []

        def ask(head: bytes) -> Response:
            found.append(self.mailboxes.judge(self._user(recipient), head, self.question))
            return found[0]

        trouble = pass_through(io.BytesIO(message), target, ask, ending=b"\r\n")
        if trouble is not None:
            self.say(f"passed on unmarked: {str(trouble) or type(trouble).__name__:.300}")
        return target.getvalue(), found[0] if found else None

    def _record(self) -> None:
        """Record the last verdicts; they were answered already."""
        left, self._unrecorded = self._unrecorded, []
        place = "lmtp" if self.lmtp else "smtp"
        for recipient, message, found in left:
            try:
                self.mailboxes.record(self._user(recipient), message, found, place)
            except (StreamNBError, LookupError) as error:
                self.say(f"not recorded: {error!s:.300}")

    def _lost(self, error: Exception) -> str:
        why = root_cause(error)
        if not self._closing:
            self.say(f"{self.hop.address}: the next hop: {why:.200}")
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
        if not address.here and client.has_extn("starttls"):
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
