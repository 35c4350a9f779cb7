"""A milter: Postfix and Sendmail ask while the client that brings a message still waits."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from anyio import BrokenResourceError, ClosedResourceError, EndOfStream
from anyio.abc import SocketStream
from kilter.protocol import Accept, Header, Reject
from kilter.service import START, Runner, Session

from streamnb.errors import StreamNBError
from streamnb.mailbox.service.answers import Answer, Question, answer, field_of
from streamnb.mailbox.service.judge import Mailboxes, afterwards
from streamnb.mailbox.service.protocol import MOST

logging.getLogger("kilter").addHandler(logging.NullHandler())


def milter(
    mailboxes: Mailboxes,
    say: Callable[[str], None],
    question: Question | None = None,
    reject: float | None = None,
) -> Callable[[socket.socket], Coroutine[Any, Any, None]]:
    """What talks to mail servers that ask.

    Parameters
    ----------
    mailboxes
        Who judges.
    say
        Is told what goes wrong.
    question
        How messages are judged.
    reject
        Probability from which on spam that is sure is refused; None to mark all mail only.
    """

    def judged(message: bytes) -> Answer:
        with mailboxes.of(None) as mailbox:
            return answer(mailbox, message, question or Question())

    def record(message: bytes, found: Answer) -> None:
        with mailboxes.of(None) as mailbox:
            afterwards(mailbox, message, found, "milter", learn=False)

    async def mark(session: Session) -> Accept | Reject:
        """Judge a message; on any trouble it passes unmarked."""
        message, forged = await _read(session)
        try:
            found = await asyncio.to_thread(judged, message)
        except Exception as error:  # whatever it is, the message matters more
            say(f"passed on unmarked: {str(error) or type(error).__name__:.300}")
            return Accept()
        for header in forged:
            await session.headers.delete(header)
        name, _, value = field_of(found).partition(": ")
        await session.headers.insert(Header(name, value.encode("ascii", "replace")), START)
        try:
            await asyncio.to_thread(record, message, found)
        except StreamNBError as error:
            say(f"not recorded: {error!s:.300}")
        if reject is not None and found.mark == "S" and found.probability >= reject:
            return Reject()
        return Accept()

    async def talk(connection: socket.socket) -> None:
        stream = await SocketStream.from_socket(connection)
        try:
            await Runner(mark)(_Ending(stream))  # type: ignore[arg-type]  # as much of one as it uses
        except* _EndedError:
            pass
        finally:
            await stream.aclose()

    return talk


class _EndedError(Exception):
    """The mail server has gone."""


class _Ending:
    """A stream whose end ends the session: kilter would wait for its filters, and they for mail."""

    def __init__(self, stream: SocketStream) -> None:
        self.send, self.aclose = stream.send, stream.aclose
        self._receive = stream.receive

    async def receive(self, most: int) -> bytes:
        try:
            return await self._receive(most)
        except (EndOfStream, BrokenResourceError, ClosedResourceError):
            raise _EndedError from None


async def _read(session: Session) -> tuple[bytes, list[Header]]:
    """The beginning of a message, and its fields that are called as ours."""
    message = bytearray()
    forged = []
    async with session.headers as headers:
        async for header in headers:
            if len(message) < MOST:
                value = bytes(header.value)
                message += header.name.encode("utf-8", "surrogateescape") + b": " + value + b"\n"
            if header.name.lower() == "x-streamnb":
                forged.append(header)
    message += b"\n"
    async with session.body as body:
        async for part in body:
            message += bytes(part[: max(MOST - len(message), 0)])
    return bytes(message[:MOST]), forged
