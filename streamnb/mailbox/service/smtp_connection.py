"""The server side of an SMTP or LMTP connection: limits, time limits, and an orderly end."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, AnyStr

from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP

from streamnb.mailbox.service.memory_budget import MessageMemory
from streamnb.mailbox.service.server import IDLE_S, Activity
from streamnb.patterns import lazy_pattern

LARGEST = 50 << 20  # bytes of a message
_TOO_LARGE = "552 Error: "  # beginning of aiosmtpd's reply to a larger message
_REFUSED_DATA = ("552 Error: Too much mail data", "500 Line too long")  # its replies to content
_STRESS_S = 10.0  # seconds of silence within a message allowed while other clients wait
_MOST_LINES = 1_000_000  # lines of a message
_CHECKED = ("SIZE", "BODY", "SMTPUTF8")  # parameters of MAIL that aiosmtpd checks
_LONGEST_COMMAND = 2048  # bytes, as in Postfix; ORCPT can have 500 (RFC 3461, 4.2)
# an address in angle brackets, of which a quoted string or an escaped character can be a part
_PATH = lazy_pattern(r'<((?:"(?:[^"\\]|\\.)*"|\\.|[^<>"\\])*)>(.*)', re.S)
_BARE_ADDRESS = lazy_pattern(r"[^\s<>]+")

# aiosmtpd's log is off, because clients could fill it.
logging.getLogger("mail.log").addHandler(logging.NullHandler())


class SmtpConnection(SMTP):
    """A client's connection; it limits the length of lines, and finishes the current message."""

    line_length_limit: int = LARGEST  # Postfix passes on longer lines than SMTP allows, too
    command_size_limit = _LONGEST_COMMAND
    command_size_limits: dict[str, int] = defaultdict(lambda: _LONGEST_COMMAND)  # noqa: RUF012
    parameters: Sequence[str] = ()  # those of the current MAIL or RCPT
    closed: asyncio.Future[None]
    activity: Activity
    memory: MessageMemory
    # Whether a command has come since the last message, or none yet.
    expects_message: bool = True
    received: int = 0  # bytes since the last command that started work
    lines: int = 0  # lines since then
    _waiting_data: list[bytes] | None = None  # received data, while the message waits for memory
    _waiter: asyncio.Future[None]

    def data_received(self, data: bytes) -> None:
        """Read data as soon as there is memory for it."""
        if self._waiting_data is not None:
            self._waiting_data.append(data)
        elif self.memory.take_now(len(data)):
            self._read(data)
        else:
            self._waiting_data = [data]
            self._pause(True)
            self._waiter = asyncio.ensure_future(self._read_later())

    async def _read_later(self) -> None:
        """Read the waiting data, or ask the client to send the message later."""
        while self._waiting_data:
            self.activity.touch(self.memory.budget.wait_s, is_busy=True)
            if not await self.memory.take(len(self._waiting_data[0])):
                self._refuse(b"452 4.3.1 too many large messages at once; try again later\r\n")
                return
            self._read(self._waiting_data.pop(0))
        self._waiting_data = None
        self._pause(False)

    def _pause(self, is_paused: bool) -> None:
        if isinstance(self.transport, asyncio.Transport) and not self.transport.is_closing():
            if is_paused:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def _refuse(self, reply: bytes) -> None:
        """Send a reply and close the connection."""
        if isinstance(self.transport, asyncio.Transport):
            self.transport.write(reply)
            self.transport.close()

    def _read(self, data: bytes) -> None:
        self.received += len(data)
        if self.in_transaction or b"\n" in data:
            self._touch(is_opened=True)
            self._restart_timeout()
        self.lines += data.count(b"\n")
        # stop reading this message, because the library stores each line separately
        if self.lines > _MOST_LINES:
            self.line_length_limit = 0
        if self.received > 2 * LARGEST:  # the library stores a line of any length as a whole
            self._refuse(b"421 4.3.0 too much\r\n")
            return
        super().data_received(data)

    def _getaddr(self, arg: str) -> tuple[str | None, str | None]:
        """Return the address of a command unchanged, and the parameters that the library checks.

        The address is None if there is none. The library would read it as a field of a header: it
        decodes encoded words, leaves out comments and adds quotation marks, so the message would go
        to another address. It refuses all parameters that it does not know.
        """
        match = _PATH.fullmatch(arg)
        address, parameters = match.groups() if match else arg.partition(" ")[::2]
        if match is None and not _BARE_ADDRESS.fullmatch(address):
            return None, None
        self.parameters = parameters.split()
        words = [word for word in self.parameters if word.partition("=")[0].upper() in _CHECKED]
        return address or "<>", " ".join(words)

    async def smtp_XFORWARD(self, argument: str | None) -> None:  # noqa: N802 (the library's name)
        """Store attributes of the original client."""
        if self.in_transaction:
            await self.push("503 5.5.1 a message has begun")
        else:
            self.expects_message = True
            await self.push(self.event_handler.forward(argument or ""))

    def _restart_timeout(self) -> None:
        """Restart the time limit at each line of the client, and at any data of a message.

        While the next hop works on a message, there is no time limit, whatever the client sends.
        """
        if self.transport is not None and not self.event_handler.is_handing_on:
            self._reset_timeout()

    def wait_for_hop(self) -> None:
        """Turn this server's time limit off until the next hop answers."""
        if self._timeout_handle is not None:
            self._timeout_handle.cancel()

    def begin(self) -> None:
        """Expect another message."""
        self.expects_message = False
        self.activity.touch(_STRESS_S, is_busy=True)  # the next hop checks the sender
        self.received = self.lines = 0
        self.memory.release()
        self.line_length_limit = LARGEST

    async def push(self, status: AnyStr) -> None:
        """Send a reply; after the last one, end the connection if it must end."""
        if str(status).startswith(_TOO_LARGE):
            self.event_handler.refuse_size(f"of more than {LARGEST} bytes")
        reply: Any = status
        # When the next hop has answered, the envelope is empty, and such a reply is its own.
        is_ours = self.envelope is not None and bool(self.envelope.rcpt_tos)
        if is_ours and str(status).startswith(_REFUSED_DATA):
            if str(status).startswith("500"):
                size = f"{LARGEST} bytes" if self.line_length_limit else f"{_MOST_LINES:,} lines"
                reply = f"552 5.3.4 more than {size}"
                self.event_handler.refuse_size(f"of more than {size}")
            reply = self.event_handler.for_each_recipient(reply, self.envelope)
            # The message has ended. The library does this after its reply.
            self._set_post_data_state()  # type: ignore[no-untyped-call]
        await super().push(reply)
        self._restart_timeout()
        self._touch(is_opened=self.expects_message)
        if not self.in_transaction:
            self.memory.release()
            if self.activity.is_ending and not self.activity.is_opened:
                self._close()

    def eof_received(self) -> bool | None:
        """Answer the received commands, because a client can close its sending side first.

        The library would drop them, and a whole message with them. If the client leaves while the
        next hop receives a message, the client will send the message again. So the relay aborts
        the transfer, unless the next hop has the whole message. TLS has no half-closed state.
        """
        relay = self.event_handler
        is_receiving = relay.is_handing_on and not relay.client.has_sent
        is_tls = self.session is None or self.session.ssl is not None
        if is_tls or self._waiting_data is not None or is_receiving:
            return super().eof_received()
        self._reader.feed_eof()
        return True

    async def handle_exception(self, error: Exception) -> str:
        """Return the reply after an error. After the end of all data, close the connection."""
        if isinstance(error, asyncio.IncompleteReadError):
            self._close()
            return "421 4.4.2 the connection was closed"
        reply: str = await super().handle_exception(error)
        return reply

    def connection_lost(self, error: Exception | None) -> None:
        """Release the memory of the message, and report the end."""
        super().connection_lost(error)
        self.memory.release()
        if self._waiting_data is not None:
            self._waiter.cancel()
        if not self.closed.done():
            self.closed.set_result(None)

    @property
    def in_transaction(self) -> bool:
        """Return whether a message has begun and has no answer yet."""
        return self.envelope is not None and self.envelope.mail_from is not None

    def _touch(self, is_opened: bool) -> None:
        is_busy = self.in_transaction
        self.activity.touch(_STRESS_S if is_busy else IDLE_S, is_busy, is_opened and not is_busy)

    def end(self) -> None:
        """End the connection: at once if it is evicted or idle, else after the current message."""
        activity, relay = self.activity, self.event_handler
        activity.is_ending = True
        is_idle = not activity.is_busy and not activity.is_opened
        if is_idle or (activity.is_evicted and not relay.is_handing_on):
            self._close()

    def _close(self) -> None:
        if isinstance(self.transport, asyncio.Transport) and not self.transport.is_closing():
            if self.activity.is_evicted:
                self.transport.write(b"421 4.4.2 idle, and others wait; try again\r\n")
            self.transport.close()


class LmtpConnection(SmtpConnection, LMTP):
    """A connection by LMTP, with one answer for each recipient."""
