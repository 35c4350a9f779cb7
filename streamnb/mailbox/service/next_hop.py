"""The connection to the next hop: the mail server that gets all messages by SMTP or LMTP."""

from __future__ import annotations

import contextlib
import smtplib
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from textwrap import TextWrapper
from typing import NamedTuple

from streamnb.errors import root_cause
from streamnb.mailbox.service.sockets import Address, is_ip, is_loopback, peer_host
from streamnb.patterns import lazy_pattern

PATIENCE_S = 300.0  # seconds without data from either side; RFC 5321, 4.5.3.2 recommends it
# seconds for the answer to a whole message; RFC 5321, 4.5.3.2.6
ANSWER_S = 600.0
LATER = "451 4.3.0 the next hop cannot be reached; try again later"
_GREETING_S = 30.0  # seconds to connect to the next hop
# seconds to read a refusal that was sent before the next hop closed the connection
_LAST_WORDS_S = 0.05
_GOODBYE_S = 2.0  # seconds for the answer to QUIT
# the first dot of a line is doubled for transport: RFC 5321, 4.5.2
_DOTS = lazy_pattern(rb"(\A|\r\n)\.")
_UNPRINTABLE = lazy_pattern(rb"[^ -~]")  # a reply is printable ASCII: RFC 5321, 4.2
# code, mark and text of a line of a reply: RFC 5321, 4.2
_REPLY_LINE = lazy_pattern(rb"([2-5]\d\d)(?:([ -])(.*))?\r?\n")
_LONGEST_LINE = 1 << 12  # bytes of a line of a reply; RFC 5321, 4.5.3.1.5 allows 512
_MOST_LINES = 1000  # lines of a reply; an EHLO has about 15
# bytes of a message with a time limit of their own: a slow next hop gets large messages, too
_PIECE = 1 << 16
_COMMAND_LENGTH = 480  # characters after the verb; RFC 5321, 4.5.3.1.4 allows 512 for a command
_EXTENSIONS = ("8bitmime", "smtputf8")  # extensions offered if the next hop cannot be reached
_EXTENSION_OF_OPTION = {
    "body": "8bitmime", "ret": "dsn", "envid": "dsn", "notify": "dsn", "orcpt": "dsn"
}  # fmt: skip
# Options that can be omitted without changing the message's meaning. A client uses the extensions
# of the mail server before streamnb, which may have more of them than the next hop.
_HINTS = ("size", "body", "auth", "ret", "envid", "notify", "orcpt")


class NextHop(NamedTuple):
    """The mail server that gets all messages.

    Attributes
    ----------
    lmtp
        Whether it uses LMTP instead of SMTP.
    address
        Its address.
    """

    lmtp: bool
    address: Address


class HopClient:
    """One SMTP or LMTP connection to the next server, for one incoming connection.

    Methods block: call them in a thread.

    Parameters
    ----------
    hop
        The next hop.
    warn
        Called with a line when the next hop fails.

    Attributes
    ----------
    turn
        Lock for the thread that uses the connection.
    is_begun
        True from an accepted MAIL to the end of its transaction.
    has_sent
        Whether the next hop received the content of the current message, for one of its recipients
        at least. If the client then gets no answer, it sends the message again.
    forwarded
        Attributes of the current message's original client (Postfix's XFORWARD).
    """

    def __init__(self, hop: NextHop, warn: Callable[[str], None]) -> None:
        self.hop = hop
        self.warn = warn
        self.turn: threading.RLock = threading.RLock()
        self.is_begun: bool = False
        self.has_sent: bool = False
        self.forwarded: dict[str, str] = {}
        self._client: smtplib.SMTP | None = None
        self._is_closing = False

    def _require_client(self) -> smtplib.SMTP:
        if self._is_closing:
            raise smtplib.SMTPServerDisconnected("the client closed the connection")
        if self._client is None:
            self._client = _connect(self.hop)
        return self._client

    def extensions(self) -> dict[str, str]:
        """Return the ESMTP extensions that the next hop offers, with their parameters."""
        with self.turn:
            try:
                return self._require_client().esmtp_features
            except (OSError, smtplib.SMTPException) as error:
                self._lose(error)
                # MAIL is refused later if the next hop still cannot be reached
                return dict.fromkeys(_EXTENSIONS, "")

    def begin(self, sender: str, options: Sequence[str]) -> str:
        """Begin a message; return the next hop's reply to MAIL."""
        with self.turn:
            if self.is_begun:  # the client dropped its message without RSET
                self.reset()
            was_connected = self._client is not None
            try:
                extensions = self._require_client().esmtp_features
            except (OSError, smtplib.SMTPException) as error:
                return self._lose(error)
            accepted = _accepted_options(extensions, options)
            if accepted is None:
                return "553 5.6.7 the next hop does not support messages with this option"
            self._forward(extensions)
            reply = self._command(" ".join([f"MAIL FROM:<{sender}>", *accepted]))
            if reply.startswith("421"):  # the next hop closes the connection
                self._drop()
            # the next hop closed the connection between two messages
            if was_connected and self._client is None:
                return self.begin(sender, options)
            self.is_begun = reply.startswith("2")
            return reply

    def _forward(self, extensions: dict[str, str]) -> None:
        """Send the client's attributes that the next hop supports; ignore a refusal."""
        names = extensions.get("xforward", "").upper().split()
        pairs = [f"{name}={value}" for name, value in self.forwarded.items() if name in names]
        wrapper = TextWrapper(_COMMAND_LENGTH, break_long_words=False, break_on_hyphens=False)
        for line in wrapper.wrap(" ".join(pairs)):
            self._command(f"XFORWARD {line}")

    def add_recipient(self, address: str, options: Sequence[str]) -> str:
        """Return the next hop's reply to RCPT."""
        with self.turn:
            if not self.is_begun or self._client is None:
                return LATER
            accepted = _accepted_options(self._client.esmtp_features, options)
            if accepted is None:
                return "555 5.5.4 the next hop does not support recipients with this option"
            return self._command(" ".join([f"RCPT TO:<{address}>", *accepted]))

    def reset(self) -> None:
        """Abort the current message."""
        with self.turn:
            if self.is_begun and self._client is not None:
                self._command("RSET")
            self.is_begun = False

    def send(self, recipients: Sequence[str], content: bytes) -> dict[str, str]:
        """Send the content of the current message; return the reply for each recipient."""
        with self.turn:
            is_begun, self.is_begun = self.is_begun, False
            if not is_begun or self._client is None:
                return dict.fromkeys(recipients, LATER)
            return self._send(self._client, recipients, content)

    def send_anew(
        self,
        sender: str,
        options: Sequence[str],
        recipients: Mapping[str, Sequence[str]],
        content: bytes,
    ) -> dict[str, str]:
        """Send a message in its own transaction to recipients, each with its options.

        Return the reply for each recipient.
        """
        with self.turn:
            reply = self.begin(sender, options)
            if not reply.startswith("2"):
                return dict.fromkeys(recipients, reply)
            replies = {
                recipient: self.add_recipient(recipient, recipient_options)
                for recipient, recipient_options in recipients.items()
            }
            accepted = [name for name, reply in replies.items() if reply.startswith("2")]
            if accepted:
                replies |= self.send(accepted, content)
            else:
                self.reset()
            return replies

    def _command(self, command: str) -> str:
        client = self._client
        if client is None:
            return LATER
        try:
            client.command_encoding = "utf-8"  # for SMTPUTF8; other commands are ASCII
            return _reply_line(*client.docmd(command))
        except ValueError:  # it was not sent
            return "553 5.1.3 this address cannot be forwarded"
        except (OSError, smtplib.SMTPException) as error:
            return self._lose(error)

    def _send(
        self, client: smtplib.SMTP, recipients: Sequence[str], content: bytes
    ) -> dict[str, str]:
        """Send the content of a message; return the reply for each recipient."""
        replies: list[str] = []
        try:
            code, text = client.docmd("DATA")
            if code != 354:
                if not 400 <= code < 600:  # not a reply to DATA
                    raise smtplib.SMTPServerDisconnected("no answer to DATA")
                self._command("RSET")
                return dict.fromkeys(recipients, _reply_line(code, text))
            is_ended = content.endswith(b"\r\n") or not content
            if client.sock is not None:  # smtplib would close the connection and lose a reply
                data = memoryview(_DOTS.sub(rb"\1..", content))
                for begin in range(0, len(data), _PIECE):
                    client.sock.sendall(data[begin : begin + _PIECE])
                self.has_sent = True
                client.sock.sendall(b".\r\n" if is_ended else b"\r\n.\r\n")
                client.sock.settimeout(ANSWER_S)
            for _ in range(len(recipients) if self.hop.lmtp else 1):
                replies.append(_reply_line(*client.getreply()))
            if client.sock is not None:
                client.sock.settimeout(PATIENCE_S)
        except (OSError, smtplib.SMTPException) as error:
            refusal = "" if replies else _last_refusal(client)
            later = self._lose(error)
            # pass the replies that were received
            replies += [refusal or later] * len(recipients)
        if not self.hop.lmtp:
            replies = replies[:1] * len(recipients)
        return dict(zip(recipients, replies, strict=False))

    def _lose(self, error: Exception) -> str:
        if not self._is_closing:
            self.warn(f"{self.hop.address}: the next hop: {root_cause(error):.200}")
        self._drop()
        return LATER

    def _drop(self) -> None:
        client, self._client = self._client, None
        self.is_begun = False
        if client is not None:
            client.close()

    def close(self) -> None:
        """Close the connection to the next hop.

        If another thread uses it, its message is truncated, so the next hop does not accept the
        message.
        """
        self._is_closing = True
        if not self.turn.acquire(blocking=False):
            client = self._client
            if client is not None and client.sock is not None:
                with contextlib.suppress(OSError):
                    client.sock.shutdown(socket.SHUT_RDWR)
            self.turn.acquire()
        try:
            client, self._client = self._client, None
            if client is not None:
                with contextlib.suppress(OSError, smtplib.SMTPException):
                    if client.sock is not None:
                        client.sock.settimeout(_GOODBYE_S)
                    client.quit()
                client.close()
        finally:
            self.turn.release()


class _StrictClient(smtplib.LMTP):
    """A client for which a reply that is cut off or inconsistent is no reply.

    Python's LMTP client is its SMTP client with another greeting, and supports Unix sockets.
    """

    def getreply(self) -> tuple[int, bytes]:
        """Return the code and the text of the next reply.

        Raises
        ------
        SMTPServerDisconnected
            If the reply is cut off, or its lines have different codes. The connection is closed.
        """
        if self.file is None and self.sock is not None:
            self.file = self.sock.makefile("rb")
        texts: list[bytes] = []
        line = code = b""
        while self.file is not None and len(texts) < _MOST_LINES:
            line = self.file.readline(_LONGEST_LINE)
            match = _REPLY_LINE.fullmatch(line)
            if match is None or (texts and match[1] != code):
                break
            code = match[1]
            texts.append(match[3] or b"")
            if match[2] != b"-":
                return int(code), b"\n".join(texts)
        self.close()
        cause = "its answer is not an SMTP reply" if line else "it closed the connection"
        raise smtplib.SMTPServerDisconnected(cause)


def _connect(hop: NextHop) -> smtplib.SMTP:
    """Return a connection to the next hop, after the greeting."""
    address = hop.address
    name = socket.gethostname()
    client = _StrictClient(local_hostname=name, timeout=_GREETING_S)
    client.ehlo_msg = "lhlo" if hop.lmtp else "ehlo"
    client._host = address.host or name  # type: ignore[attr-defined]  # whose certificate it must be
    try:
        code, text = client.connect(address.path or address.host, address.port)
        if code != 220:
            raise smtplib.SMTPConnectError(code, text)
        client.ehlo()
        if not _is_local(address, client.sock) and client.has_extn("starttls"):
            client.starttls(context=ssl.create_default_context())
            client.ehlo()
        if not client.does_esmtp:
            raise smtplib.SMTPConnectError(502, "it does not support extended SMTP (EHLO)")
        if client.sock is not None:
            client.sock.settimeout(PATIENCE_S)
            # Without TCP_NODELAY, the end of a message waits for the acknowledgement of its
            # beginning.
            if address.path is None:
                client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        client.close()
        raise
    return client


def _is_local(address: Address, connection: socket.socket | None) -> bool:
    """Return whether the next hop is on this machine, also by a name of this machine.

    In Debian, the name of a machine stands for 127.0.1.1.
    """
    if address.is_local or connection is None or is_ip(address.host):
        return address.is_local
    return is_loopback(peer_host(connection))


def _accepted_options(extensions: dict[str, str], options: Sequence[str]) -> list[str] | None:
    """Return the options that a server with these extensions accepts; other hints are omitted.

    Return None if it does not accept an option that changes the message's meaning.
    """
    accepted = []
    for option in options:
        name = option.partition("=")[0].lower()
        if _EXTENSION_OF_OPTION.get(name, name) in extensions:
            accepted.append(option)
        elif name not in _HINTS:
            return None
    return accepted


def _last_refusal(client: smtplib.SMTP) -> str:
    """Return the last refusal that the next hop sent before it closed the connection, or ""."""
    with contextlib.suppress(OSError, smtplib.SMTPException):
        if client.sock is not None:
            client.sock.settimeout(_LAST_WORDS_S)
            code, text = client.getreply()
            if code >= 500:
                return _reply_line(code, text)
    return ""


def _reply_line(code: int, text: bytes) -> str:
    """Return a reply as one line.

    Raises
    ------
    SMTPServerDisconnected
        If the text is not a final reply: neither success nor failure.
    """
    if code // 100 not in (2, 4, 5):
        raise smtplib.SMTPServerDisconnected("its answer is not an SMTP reply")
    line = _UNPRINTABLE.sub(b"?", b" ".join(text.split()))
    return f"{code} {line[:480].decode()}"
