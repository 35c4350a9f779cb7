"""`streamnb watch`: mail is classified as it comes, and what its owner does with it is learned."""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from streamnb.cli.options import Finite, database_options, open_mailbox
from streamnb.cli.sources import is_server, server_options
from streamnb.errors import BusyError, MailServerError, OutputError, printable

if TYPE_CHECKING:
    from streamnb.mailbox.watch.watcher import Watcher

__all__ = ["watch"]

_LONGEST = 300.0  # seconds between attempts to connect again


@click.command()
@click.argument("source")
@click.option("--spam-folder", default="Junk", show_default=True, metavar="NAME")
@click.option(
    "--folder",
    "others",
    multiple=True,
    metavar="NAME",
    help="Another folder where mail may be moved to; default: all but Trash, Sent and Drafts.",
)
@click.option("--move", is_flag=True, help="Move spam to the spam folder; else it is only said.")
@click.option("--existing", is_flag=True, help="Classify what lies in the inbox already, too.")
@click.option(
    "--ham-after",
    type=Finite(0),
    metavar="DAYS",
    help="Take for ham what lies read in the inbox for so long. Default: never.",
)
@click.option(
    "--every",
    type=Finite(0.1, 86400),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="How often to look; a server that can tell is listened to between.",
)
@click.option("--once", is_flag=True, help="Look once and end.")
@server_options
@database_options
def watch(
    source: str,
    spam_folder: str,
    others: tuple[str, ...],
    move: bool,
    existing: bool,
    ham_after: float | None,
    every: float,
    once: bool,
    db: str | None,
    wait: float,
    **servers: Any,
) -> None:
    """Watch SOURCE, a Maildir or imap://USER@HOST: classify new mail, learn its owner's moves.

    What is moved into the spam folder is learned as spam, what is moved out of it as ham; what is
    moved back is taken back. Moves to the bin teach nothing. Nothing is moved without
    --move. What was done while nobody watched is noticed at the next look. It ends with SIGTERM.

    \b
    Example:
      streamnb watch ~/Maildir --spam-folder Junk
      streamnb watch imaps://ann@mail.example.org --move --password-command 'pass show mail'
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.mailbox.watch.watcher import Plan, Watcher

    stopped: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: stopped.append(number))
    with open_mailbox(db, wait, create=True) as mailbox:
        account, inbox = _account(source, servers)
        try:
            plan = Plan(
                inbox=inbox,
                junk=spam_folder,
                others=others,
                move=move,
                ham_after=None if ham_after is None else ham_after * 86400,
                existing=existing,
            )
            watcher = Watcher(mailbox, account, plan, _say, lambda: bool(stopped))
            _run(watcher, account, every, once, stopped, bool(others))
        finally:
            if hasattr(account, "close"):
                account.close()
    if stopped:
        _say("stopped")


def _say(line: str) -> None:
    click.echo(printable(f"{datetime.now():%F %T} {line}"))


def _account(source: str, servers: dict[str, Any]) -> tuple[Any, str]:
    if is_server(source):
        from streamnb.mailbox.watch.access import Access, address_of
        from streamnb.mailbox.watch.imap import ImapAccount

        address = address_of(source)
        return ImapAccount(address, Access(**servers)), address.folder
    from streamnb.mailbox.watch.maildir import INBOX, MaildirAccount

    return MaildirAccount(os.path.expanduser(source)), INBOX


def _run(
    watcher: Watcher, account: Any, every: float, once: bool, stopped: list[int], fixed: bool
) -> None:
    """Look, wait, look again; connect again where the connection was lost."""
    from streamnb.mailbox.rebuild import is_due, rebuild

    pause = 0.0
    looked = False
    while not stopped:
        try:
            if not fixed:
                watcher.plan = dataclasses.replace(watcher.plan, others=tuple(account.folders()))
            watcher.look()
            if is_due(watcher.mailbox):
                _say("learning all messages anew, mixed")
                rebuild(watcher.mailbox)
            if not looked:
                _say(f"watching {account.name}: {', '.join(watcher.plan.folders)}")
            looked, pause = True, 0.0
            if once:
                return
            _wait(account, watcher.plan.inbox, every, lambda: bool(stopped))
        except (MailServerError, BusyError, OutputError) as error:
            if once or not looked:
                raise
            pause = min(max(2 * pause, 1.0), _LONGEST)
            _say(f"{error}; again in {pause:g} s")
            _sleep(pause, lambda: bool(stopped))


def _wait(account: Any, inbox: str, seconds: float, stopping: Callable[[], bool]) -> None:
    if hasattr(account, "wait"):
        account.wait(inbox, seconds, stopping)
    else:
        _sleep(seconds, stopping)


def _sleep(seconds: float, stopping: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not stopping():
        time.sleep(min(left, 0.2))
