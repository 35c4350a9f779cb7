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
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP, Envelope, Session

from streamnb.errors import StreamNBError
from streamnb.mailbox.service.answers import Answer, Question, answer
from streamnb.mailbox.service.judge import Mailboxes, afterwards
from streamnb.mailbox.service.listening import Address
from streamnb.mailbox.service.passthrough import pass_through
from streamnb.mailbox.service.protocol import MOST

__all__ = ["LARGEST", "Hop", "proxy"]

LARGEST = 50 << 20  # bytes of a message
_LONGEST_LINE = 1 << 20
_PATIENCE = 300.0  # seconds, for either side; RFC 5321, 4.5.3.2 asks for as much
_SOON = 0.05  # seconds after an answer
_LAST = 10.0  # seconds for a message that is being handed on when this process ends
_DOTS = re.compile(rb"(\A|\r\n)\.")  # a line's first dot is doubled on the way: RFC 5321, 4.5.2
_LATER = "451 4.3.0 the next hop cannot be reached; try again later"
_PASSED_ON = ("8bitmime", "smtputf8", "starttls", "size")

logging.getLogger("mail.log").addHandler(logging.NullHandler())  # whoever connects could fill it


class Hop(NamedTuple):
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
    hop: Hop,
    mailboxes: Mailboxes,
    say: Callable[[str], None],
    lmtp: bool = False,
    question: Question | None = None,
    tls: ssl.SSLContext | None = None,
) -> Callable[[socket.socket], Coroutine[Any, Any, None]]:
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
    many = mailboxes.one is None

    def judged(recipient: str, message: bytes, then: Answer | None) -> Answer:
        user = recipient.partition("@")[0].partition("+")[0].lower() if many else None
        with mailboxes.of(user) as mailbox:
            if then is None:
                return answer(mailbox, message, question or Question())
            afterwards(mailbox, message, then, "lmtp" if lmtp else "smtp", learn=False)
            return then

    async def talk(connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        passing = _Passing(hop, judged, say, lmtp, one_at_a_time=many or (hop.lmtp and not lmtp))
        kind = _Lmtp if lmtp else _Smtp
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
            await asyncio.to_thread(passing.close)

    return talk


class _Ending(SMTP):
    """Tells when its connection has ended, and takes long lines."""

    line_length_limit = _LONGEST_LINE
    ended: asyncio.Future[None]

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if not self.ended.done():
            self.ended.set_result(None)


class _Smtp(_Ending):
    pass


class _Lmtp(_Ending, LMTP):
    pass


class _Passing:
    """Puts what one client says to the next hop; a handler of aiosmtpd.

    Parameters
    ----------
    hop, say, lmtp
        As for `proxy`.
    judged
        Judges a message for a recipient; given what was said of it, records that.
    one_at_a_time
        Whether a message goes to one recipient only: each has a verdict, or an answer, of its own.
    """

    def __init__(
        self,
        hop: Hop,
        judged: Callable[[str, bytes, Answer | None], Answer],
        say: Callable[[str], None],
        lmtp: bool,
        one_at_a_time: bool,
    ) -> None:
        self.hop = hop
        self.judged = judged
        self.say = say
        self.lmtp = lmtp
        self.one_at_a_time = one_at_a_time
        self.client: smtplib.SMTP | None = None
        self._handing: asyncio.Task[list[str]] | None = None
        self._unrecorded: list[tuple[str, bytes, Answer]] = []
        self._recording: asyncio.Task[None] | None = None

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
        offered = await asyncio.to_thread(self._offered)
        kept = []
        for response in responses:
            word = response[4:].split(" ")[0].lower()
            if word == "size" and int(offered.get("size") or 0) > 0:
                kept.append(f"250-SIZE {min(int(offered['size']), LARGEST)}")
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
        sender = "" if address is None or address == "<>" else address
        reply = await asyncio.to_thread(self._begin, sender, options)
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
        if self.one_at_a_time and envelope.rcpt_tos:
            return "452 4.5.3 one recipient at a time"
        command = " ".join([f"RCPT TO:<{address}>", *options])
        reply = await asyncio.to_thread(self._command, command)
        if reply.startswith("2"):
            envelope.rcpt_tos.append(address)
            envelope.rcpt_options.extend(options)
        return reply

    async def handle_RSET(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        if self.client is not None:
            await asyncio.to_thread(self._command, "RSET")
        return "250 2.0.0 ok"

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        message = envelope.original_content or b""
        self._handing = asyncio.create_task(
            asyncio.to_thread(self._hand_on, envelope.rcpt_tos, message)
        )
        replies = await self._handing
        self._recording = asyncio.create_task(self._record_soon())
        return "\r\n".join(replies)

    async def _record_soon(self) -> None:
        await asyncio.sleep(_SOON)  # the answer goes first
        await asyncio.to_thread(self._record)

    # What is put to the next hop, in a thread

    def _connected(self) -> smtplib.SMTP:
        if self.client is None:
            self.client = _client(self.hop)
        return self.client

    def _offered(self) -> dict[str, str]:
        try:
            return self._connected().esmtp_features
        except (OSError, smtplib.SMTPException) as error:
            self._lost(error)
            return dict.fromkeys(_PASSED_ON, "")  # it is told when there is a message

    def _begin(self, sender: str, options: list[str]) -> str:
        try:
            known = self._connected().esmtp_features
        except (OSError, smtplib.SMTPException) as error:
            return self._lost(error)
        wanted = [one for one in options if _knows(known, one)]
        if len(wanted) < len(options) and not _are_hints(set(options) - set(wanted)):
            return "553 5.6.7 the next hop does not take such messages"
        return self._command(" ".join([f"MAIL FROM:<{sender}>", *wanted]))

    def _command(self, command: str) -> str:
        try:
            client = self._connected()
            client.command_encoding = "utf-8"  # SMTPUTF8; all else is ASCII anyway
            return _line(*client.docmd(command))
        except (OSError, smtplib.SMTPException, ValueError) as error:
            return self._lost(error)

    def _hand_on(self, recipients: list[str], message: bytes) -> list[str]:
        """Judge a message and hand it on; the answers, one for each recipient where it is LMTP."""
        many = len(recipients) if self.lmtp else 1
        try:
            client = self.client
            if client is None:
                return [_LATER] * many
            stamped, found = self._stamped(recipients[0], message)
            code, said = client.docmd("DATA")
            if code != 354:
                return [_line(code, said)] * many
            client.send(_DOTS.sub(rb"\1..", stamped))
            client.send(b".\r\n" if stamped.endswith(b"\r\n") or not stamped else b"\r\n.\r\n")
            answers = len(recipients) if self.hop.lmtp else 1
            replies = [_line(*client.getreply()) for _ in range(answers)]
        except (OSError, smtplib.SMTPException) as error:
            return [self._lost(error)] * many
        if found is not None and replies[0].startswith("2"):
            self._unrecorded.append((recipients[0], message[:MOST], found))
        return replies if len(replies) == many else replies[:1] * many

    def _stamped(self, recipient: str, message: bytes) -> tuple[bytes, Answer | None]:
        target = io.BytesIO()
        found: list[Answer] = []

        def ask(head: bytes) -> Answer:
            found.append(self.judged(recipient, head, None))
            return found[0]

        trouble = pass_through(io.BytesIO(message), target, ask, ending=b"\r\n")
        if trouble is not None:
            self.say(f"passed on unchanged: {str(trouble) or type(trouble).__name__:.300}")
        return target.getvalue(), found[0] if found else None

    def _record(self) -> None:
        """Record the last verdicts; they were answered already."""
        left, self._unrecorded = self._unrecorded, []
        for one in left:
            try:
                self.judged(*one)
            except (StreamNBError, LookupError) as error:
                self.say(f"not recorded: {error!s:.300}")

    def _lost(self, error: Exception) -> str:
        why = getattr(error, "strerror", None) or str(error)
        self.say(f"{self.hop.address}: the next hop: {why:.200}")
        self.close()
        return _LATER

    def close(self) -> None:
        """Record what is left, and say good-bye to the next hop."""
        self._record()
        client, self.client = self.client, None
        if client is not None:
            with contextlib.suppress(OSError, smtplib.SMTPException):
                if client.sock is not None:
                    client.sock.settimeout(2.0)
                client.quit()
            client.close()


def _client(hop: Hop) -> smtplib.SMTP:
    """A connection to the next hop that has been greeted."""
    kind = smtplib.LMTP if hop.lmtp else smtplib.SMTP
    address = hop.address
    name = socket.gethostname()
    if address.path is not None:
        client = kind(local_hostname=name, timeout=_PATIENCE)
        if hop.lmtp:
            client.connect(address.path)
        else:
            client.sock = _unix(address.path)
            client._host = name  # type: ignore[attr-defined]  # for STARTTLS, which is not used
            code, said = client.getreply()
            if code != 220:
                raise smtplib.SMTPConnectError(code, said)
    else:
        client = kind(address.host, address.port, local_hostname=name, timeout=_PATIENCE)
    try:
        client.ehlo()
        if not address.here and client.has_extn("starttls"):
            client.starttls(context=ssl.create_default_context())
            client.ehlo()
        if not client.does_esmtp:
            raise smtplib.SMTPConnectError(502, "it speaks no extended SMTP")
    except BaseException:
        client.close()
        raise
    return client


def _unix(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_PATIENCE)
    try:
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection


def _knows(features: dict[str, str], option: str) -> bool:
    """Whether a hop takes an option of MAIL."""
    name = option.partition("=")[0].lower()
    return {"body": "8bitmime", "ret": "dsn", "envid": "dsn"}.get(name, name) in features


def _are_hints(options: set[str]) -> bool:
    """Whether options can be left out and the message is the same."""
    return all(one.partition("=")[0].lower() in ("size", "body") for one in options)


def _line(code: int, said: bytes) -> str:
    """A reply as one line."""
    if not 200 <= code < 600:
        return _LATER
    return f"{code} {' '.join(said.decode('ascii', 'replace').split())[:480]}"
