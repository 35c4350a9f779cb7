"""`streamnb learn`, `forget`, `classify`, `upgrade`: the owner of a mailbox and its messages."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from streamnb.cli import options
from streamnb.cli.sources import access_of, binary_option, is_server, server_options, sources
from streamnb.errors import (
    BusyError,
    CorpusError,
    StreamNBError,
    UnexpectedError,
    describe_os_error,
    printable,
)

if TYPE_CHECKING:
    from streamnb.mailbox.lessons import Outcome
    from streamnb.mailbox.sources import Found
    from streamnb.mailbox.store import Mailbox

Message = TypeVar("Message")
_EVERY = 0.5  # seconds between two times that it is said how many messages there were
_SAID = {
    "learned": "learned",
    "corrected": "corrected: {before} was taken back",
    "known": "nothing to do: it was learned as {before} before",
    "confirmed": "{before}, as a program had said: now it is your word",
    "kept": "not learned: a person said {before}",
    "retired": "not changed: {before} was learned so long ago that its features were dropped",
    "forgotten": "forgotten: it was learned as {before}",
    "unknown": "nothing to do: it was not learned",
}


@contextmanager
def _failing_last() -> Iterator[list[StreamNBError]]:
    """What could not be read: the command ends with its exit status, when all else is done."""
    failed: list[StreamNBError] = []
    yield failed
    if failed:
        raise click.exceptions.Exit(failed[-1].exit_code)


def _counted_aloud(messages: Iterable[Message]) -> Iterator[Message]:
    """The same; how many there were is shown on a terminal, where it takes long."""
    last = time.monotonic()
    told = False
    try:
        for number, message in enumerate(messages):
            now = time.monotonic()
            if now - last > _EVERY and sys.stderr.isatty():
                sys.stderr.write(f"\r{number:,} messages ...")
                sys.stderr.flush()
                last, told = now, True
            yield message
    finally:
        if told:
            sys.stderr.write("\r\033[K")


def _readable(
    messages: Iterable[tuple[str, Found]],
    failed: list[StreamNBError],
    not_empty: Collection[str] = (),
) -> Iterator[tuple[str, str, bytes]]:
    """Class, name and content of every message; what cannot be read is told and goes to `failed`.

    An empty file that is one of `not_empty` is such: a slip, where one of many in a folder may be a
    message.
    """
    named = {str(Path(name)) for name in not_empty}
    for label, found in _counted_aloud(messages):
        content = found.content
        if not content and found.name in named:
            content = CorpusError(f"{found.name}: not learned: it is empty")
        if isinstance(content, StreamNBError):
            failed.append(content)
            options.notify(content)
        else:
            yield label, found.name, content


def _report(outcomes: Iterable[tuple[str, bytes, Outcome]], as_json: bool) -> int:
    """Print a line for a single message, or a few words on many; gives how many there were."""
    tally: Counter[str] = Counter()
    first: tuple[str, Outcome] | None = None
    try:
        for name, key, outcome in outcomes:
            tally[outcome.what] += 1
            first = first or (name, outcome)
            if as_json:
                line = {"path": name, "digest": key.hex(), **outcome._asdict()}
                click.echo(json.dumps(line))
    finally:
        if not as_json and first is not None:
            if tally.total() == 1:
                said = _SAID[first[1].what].format(before=first[1].before)
                click.echo(printable(f"{first[0]}: {said}"))
            else:
                counts = ", ".join(f"{n:,} {what}" for what, n in sorted(tally.items()))
                click.echo(f"{tally.total():,} messages: {counts}")
    return tally.total()


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="(LABEL SOURCE... | LABEL=SOURCE...)")
@click.option(
    "--program",
    is_flag=True,
    help="No person said so: never overrule one (for rules and scripts).",
)
@binary_option
@server_options
@options.database_options
@options.json_option
def learn(what: tuple[str, ...], program: bool, as_json: bool, binary: bool) -> None:
    """Learn that the messages of each SOURCE are LABEL (spam, ham, or any word).

    SOURCE is a message file, an mbox, a Maildir, a folder of those, imap://USER@HOST/FOLDER, or -
    for standard input. Several classes are best learned at once, as LABEL=SOURCE: their messages
    are mixed then. Where one class came after the other, all is learned anew in the end, mixed.

    What was learned is safe as soon as it is told, some hundred messages at a time. A message that
    was learned before is not learned again, and one that was learned as something else is taken
    back first, exactly.

    \b
    Example:
      streamnb learn spam=Maildir/.Junk ham=Maildir/.Archive
      streamnb learn ham message.eml
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.mailbox.digest import digest
    from streamnb.mailbox.groups import Lesson, learn_many
    from streamnb.mailbox.ledger import HUMAN, PROGRAM

    taught = _taught(what)
    names = tuple(chain.from_iterable(taught.values()))
    access_of(*names)  # before a database is made
    teacher = PROGRAM if program else HUMAN
    with _failing_last() as failed, options.open_mailbox(create=True) as mailbox:
        found = _readable(_mixed(taught, binary), failed, names)
        lessons = (Lesson(content, label, f"learn {name}") for label, name, content in found)
        learned = (
            (str(lesson.source).removeprefix("learn "), digest(lesson.message), outcome)
            for lesson, outcome in learn_many(mailbox, lessons, teacher)
        )
        _report(learned, as_json)
        _settle(mailbox, as_json)


def _settle(mailbox: Mailbox, quiet: bool = False) -> None:
    """Learn a mailbox anew where it was taught one class after the other."""
    from streamnb.mailbox.rebuild import is_due, rebuild

    def shown(rows: list[int]) -> Iterator[int]:
        said = f"learning all {len(rows):,} messages anew, mixed"
        with click.progressbar(rows, label=said, file=sys.stderr) as bar:
            yield from bar

    if is_due(mailbox):
        rebuild(mailbox, iter if quiet else shown)


def _taught(what: tuple[str, ...]) -> dict[str, list[str]]:
    """The sources of each class."""
    if "=" not in what[0]:
        if len(what) < 2:
            raise click.UsageError("Missing argument 'SOURCE...'.")
        return {label_of(what[0]): list(what[1:])}
    taught: dict[str, list[str]] = {}
    for pair in what:
        label, equals, source = pair.partition("=")
        if not equals or not source:
            raise click.BadParameter(f"{pair!r} is not LABEL=SOURCE", param_hint="LABEL=SOURCE")
        taught.setdefault(label_of(label), []).append(source)
    return taught


def label_of(text: str) -> str:
    """A class's name, on the command line."""
    from streamnb.mailbox.ledger import read_label

    try:
        return read_label(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="LABEL") from None


def _mixed(taught: dict[str, list[str]], binary: bool) -> Iterator[tuple[str, Found]]:
    """The messages of all classes, mixed in proportion to how many there are of each."""
    from streamnb.mailbox.sources import messages, mixed

    sizes = dict.fromkeys(taught, 1)
    if len(taught) > 1:
        for label, names in taught.items():
            # What cannot be read twice for nothing is taken for as long as the longest.
            here = [name for name in names if name != "-" and not is_server(name)]
            sizes[label] = sum(1 for name in here for _ in messages(name))
        longest = max(sizes.values())
        sizes = {label: size or longest for label, size in sizes.items()}
    return mixed({label: partial(sources, names, binary) for label, names in taught.items()}, sizes)


@click.command()
@click.argument("source", nargs=-1)
@click.option(
    "--digest",
    "digests",
    multiple=True,
    metavar="HEX",
    help="Of a message that is gone: its digest, as `learn --json` and `export` print it.",
)
@click.option(
    "--erase",
    is_flag=True,
    help="Leave no trace: remove it from the ledger and the record of verdicts, too.",
)
@click.option(
    "--sender",
    metavar="TEXT",
    help="With --erase: all messages in the record of verdicts whose sender has TEXT in it.",
)
@server_options
@options.database_options
@options.json_option
def forget(
    source: tuple[str, ...],
    digests: tuple[str, ...],
    erase: bool,
    sender: str | None,
    as_json: bool,
) -> None:
    """Take back what was learned of the messages of each SOURCE, exactly.

    SOURCE is as for `streamnb learn`. For all messages of some time there is `streamnb undo`.

    \b
    Example:
      streamnb forget message.eml
    """  # noqa: D301 (click's mark for lines that stay as they are)
    if sender is not None and not (erase and sender.strip()):
        raise click.UsageError("--sender goes with --erase, and is not empty")
    if not source and not digests and sender is None:
        raise click.UsageError("Missing argument 'SOURCE...' (or --digest).")
    keys = [_key(text) for text in digests]
    from streamnb.mailbox.digest import digest
    from streamnb.mailbox.record import Record

    with _failing_last() as failed, options.open_mailbox() as mailbox:
        found = _readable((("", one) for one in sources(source)), failed)
        if not erase:
            gone = ((key.hex(), key, mailbox.forget_digest(key)) for key in keys)
            here = ((name, digest(mail), mailbox.forget(mail)) for _, name, mail in found)
            _report(chain(gone, here), as_json)
            return
        keys += [digest(content) for _, _, content in found]
        erased = Record(mailbox).erase(keys, sender)
    if as_json:
        click.echo(json.dumps({"erased": erased, "named": len(keys)}))
    else:
        named = f", of {len(keys):,} that were named" if keys else ""
        click.echo(f"{erased:,} messages erased{named}")


def _key(text: str) -> bytes:
    from streamnb.mailbox.digest import of_hex

    try:
        return of_hex(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r:.80} is not 64 hexadecimal digits", param_hint="--digest"
        ) from None


@click.command()
@click.argument("new")
@click.argument("source", nargs=-1, required=True)
@server_options
@options.database_options
@options.json_option
def upgrade(new: str, source: tuple[str, ...], as_json: bool) -> None:
    """Make the database NEW, with the views of this version, of messages that can still be read.

    An older database keeps the views it was made with; for new ones the messages themselves must be
    learned again. NEW learns each message in the SOURCEs (as for `streamnb learn`) that the old
    database has learned, with its label and who said so. The old database is only read. If NEW is
    there from an earlier attempt, this goes on where that ended.

    `undo` knows NEW's messages in the order of the SOURCEs: go back in the old one, before. Use NEW
    by --db or STREAMNB_DB; never move a database over one that is in use.

    \b
    Example:
      streamnb upgrade new.db Maildir --db mail.db

    Exit status: 0 all was brought, 4 messages were in none of the SOURCEs.
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.mailbox.digest import digest
    from streamnb.mailbox.renew import bring, missing, successor

    access_of(*source)  # before a database is made
    with (
        _failing_last() as failed,
        options.open_mailbox() as old,
        successor(old, new, options.shared_value("wait")) as fresh,
    ):
        found = (("", one) for one in sources(source))
        brought = (
            (name, digest(content), bring(old, fresh, content))
            for _, name, content in _readable(found, failed, source)
        )
        _report(brought, as_json)
        _settle(fresh, as_json)
        left = missing(old, fresh)
        if left:
            options.notify(
                f"{left:,} messages of the old database were in none of these sources: "
                "name more of them, or go on without"
            )
            if not failed:
                raise click.exceptions.Exit(4)


@contextmanager
def _errors_are_three() -> Iterator[None]:
    """Let 1 and 2 mean ham and unsure: what goes wrong is 3."""
    try:
        yield
    except (BusyError, click.exceptions.Exit, BrokenPipeError):
        raise
    except StreamNBError as error:
        options.notify(error)
        raise click.exceptions.Exit(3) from None
    except OSError as error:
        options.notify(describe_os_error(error))
        os._exit(3)  # Python would try to write what is left once more
    except Exception as error:
        raise UnexpectedError(error, 3) from error


@click.command(cls=options.MailCommand)
@click.argument("source", nargs=-1)
@click.option("--reasons", type=click.IntRange(0, 100), default=0, help="Show so many reasons.")
@options.judge_options
@binary_option
@server_options
@options.database_options
@options.json_option
def classify(source: tuple[str, ...], reasons: int, as_json: bool, binary: bool) -> None:
    """Print `S score path` for spam, `H` for ham, `U` where it is unsure, a line a message.

    It also prints U for a class it has predicted correctly too rarely so far (`streamnb status`
    shows the counts).

    The score is the log-odds of spam: above 0 it is more likely than not. With other classes than
    ham and spam, the class is printed, and its own log-odds. For one message the exit status is
    0 for spam, 1 for ham, 2 for unsure; for several it is 0; 3 is an error. A running `streamnb
    serve` is asked, which is faster; what it cannot do is done here.

    Without a SOURCE, the message is read from standard input.

    \b
    Example:
      streamnb classify message.eml
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.cli.quick import say_waiting

    if not source and sys.stdin is not None and sys.stdin.isatty():
        raise click.UsageError("Missing argument 'SOURCE...' (or a message on standard input).")
    statuses: list[int] = []
    waiting: set[str] = set()
    asking = options.connect(reasons)
    with _errors_are_three(), asking:
        for found in sources(source or ("-",), binary):
            if isinstance(found.content, StreamNBError):
                options.notify(found.content)
                statuses.append(3)
                continue
            answer = asking.classify(found.content)
            statuses.append(answer.status)
            if answer.label is not None and not answer.ready:
                waiting.add(answer.label)
            if as_json:
                click.echo(json.dumps({"path": found.name, **answer._asdict()}))
                continue
            click.echo(printable(f"{answer.mark} {answer.score:.4f} {found.name}"))
            for feature, gain in answer.reasons:
                click.echo(printable(f"  {gain:+.3f} {feature}"))
        if sys.stdout is not None:
            sys.stdout.flush()
    if waiting:
        say_waiting(waiting)
    if len(statuses) == 1 or 3 in statuses:
        raise click.exceptions.Exit(max(statuses) if 3 in statuses else statuses[0])
