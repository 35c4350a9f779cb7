"""What a mailbox knows: `streamnb status`, `verify`, `undo`, `compact`, `export` and so on."""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from typing import TYPE_CHECKING

import click

from streamnb.cli.options import (
    FiniteRange,
    database_options,
    echo_err,
    notify,
    open_mailbox,
    parse_time,
    shared_value,
)
from streamnb.errors import ConfigError, StateError, printable

if TYPE_CHECKING:
    from streamnb.mailbox.transfer.extract import MergeResult

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_dry_run = click.option("--dry-run", is_flag=True, help="Only say what would be done.")


@click.command()
@database_options
@_json
def status(as_json: bool) -> None:
    """Say what was learned: by class and source, with features, size and recent errors.

    For each class it shows how often it was predicted, rightly and wrongly, before the message was
    learned, and whether that is often enough. Until it is, `classify`, `filter` and `watch` are
    sure of no message of it.

    \b
    Example:
      streamnb status
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.cli.tables import new_console, new_table
    from streamnb.mailbox.status import status as status_of

    with open_mailbox() as mailbox:
        found = status_of(mailbox)
    if as_json:
        click.echo(json.dumps(found.as_json()))
        return
    console = new_console()
    last = "never" if found.last is None else f"{datetime.fromtimestamp(found.last):%F %T}"
    words = " + ".join(f"{n:,}" for n in found.features)
    console.print(printable(f"{found.path}: {found.bytes / 1e6:.1f} MB, {words} features"))
    console.print(f"last learned: {last}")
    table = new_table("class", "said by", "source", "messages")
    for one in found.learned:
        table.add_row(
            printable(one.label), one.labelled_by, printable(one.source), f"{one.messages:,}"
        )
    console.print(table)
    table = new_table("class", "called rightly", "wrongly", "ready")
    for of in found.classes:
        called = ["-" if n is None else f"{n:,}" for n in (of.right, of.wrong)]
        table.add_row(printable(of.label), *called, "yes" if of.ready else "not yet")
    console.print(table)
    if found.one_sided:
        console.print(
            "many messages came in runs of one class: the next `streamnb learn` learns all of them "
            "anew, mixed"
        )
    if found.recent:
        console.print(
            f"of the last {found.recent:,} labels from a person, {found.wrong:,} "
            f"({found.wrong / found.recent:.1%}) were not what had been expected"
        )
    console.print(f"labels corrected: {found.corrected:,}, taken back: {found.taken_back:,}")


@click.command()
@database_options
def verify() -> None:
    """Add the whole ledger up again and compare it with the counts; exit status 4 if they differ.

    \b
    Example:
      streamnb verify
    """  # noqa: D301 (click's mark for lines that stay as they are)
    with open_mailbox() as mailbox:
        problems = mailbox.verify()
        path = mailbox.path
    for problem in problems:
        named = problem if problem.startswith(f"{path}: ") else f"{path}: {problem}"
        echo_err(named)
    if problems:
        notify(
            "the database is damaged; `streamnb recover NEW.db` makes a new one of what the ledger "
            "still has"
        )
        raise click.exceptions.Exit(4)
    click.echo(printable(f"{path}: counts and ledger agree"))


@click.command()
@click.argument("new")
@click.option(
    "--class",
    "classes",
    multiple=True,
    metavar="NAME",
    help="A class, in the order they were first learned: where the database has lost their names.",
)
@database_options
def recover(new: str, classes: tuple[str, ...]) -> None:
    """Make the database NEW of every sound row of a damaged one's ledger; the old one is only read.

    What is left out is said on standard error. Messages whose rows are damaged can be learned again
    from the mail itself.

    \b
    Example:
      streamnb recover new.db --db damaged.db

    Exit status: 0 all was kept, 4 something was left out, or nothing could be kept.
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.mailbox.location import default_path
    from streamnb.mailbox.rescue import rescue as rescued

    damaged = str(shared_value("db") or default_path())
    done = rescued(damaged, new, classes, shared_value("wait"))
    for line in done.left:
        echo_err(f"{damaged}: left out: {line}")
    click.echo(printable(f"{new}: {done.rows_added:,} learnings kept"))
    if done.left:
        raise click.exceptions.Exit(4)


_ASK = 100  # learnings that are taken back without a question


@click.command()
@click.option("--since", metavar="TIME", help="2026-11-20T14:30, or 2h, 3d ago.")
@click.option(
    "--last",
    is_flag=False,
    flag_value=1,
    type=click.IntRange(1),
    metavar="[N]",
    help="Go back to before the last N learnings (default 1). What was forgotten since counts "
    "again; a merge or import is undone as a whole.",
)
@click.option("--redo", is_flag=True, help="Undo the last undo: learn all that again, exactly.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_dry_run
@database_options
def undo(since: str | None, last: int | None, redo: bool, yes: bool, dry_run: bool) -> None:
    """Go back to what was known at TIME: as if nothing had been learned or corrected since.

    It asks before more than a hundred learnings are taken back.

    \b
    Example:
      streamnb undo --since 2h --dry-run
      streamnb undo --last
      streamnb undo --redo
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.mailbox.undo import last_learned, moment_of
    from streamnb.mailbox.undo import redo as redone

    if (since is not None) + (last is not None) + redo != 1:
        raise click.UsageError("one of --since TIME, --last [N] and --redo")
    if redo and dry_run:
        raise click.UsageError("--redo has no --dry-run")
    at = None if since is None else parse_time(since)
    with open_mailbox() as mailbox:
        if redo:
            learned, ended, left = redone(mailbox)
            said = f"{learned:,} learnings made again, {ended:,} earlier ones ended again"
            click.echo(said if learned or ended or left else "there is nothing to redo")
            if left:
                click.echo(f"{left:,} stay as they are: something else was said of them since")
            return
        if last is not None:
            at = last_learned(mailbox, last)
        if at is None:
            click.echo("nothing was learned")
            return
        shown = datetime.fromtimestamp(at)
        if since is not None:
            at = moment_of(mailbox, at)
        done = mailbox.undo(at, dry_run=True)
        if not dry_run:
            if done.unlearned + done.restored > _ASK and not yes:
                _ask(f"{done.unlearned:,} learnings would be taken back and {done.restored:,} "
                     "earlier ones restored")  # fmt: skip
            done = mailbox.undo(at)
    would = "would be " if dry_run else ""
    click.echo(
        f"since {shown:%F %T}: {done.unlearned:,} learnings {would}taken back"
        f", {done.restored:,} earlier ones {would}restored"
    )
    if done.retired:
        click.echo(f"{done.retired:,} stay: the ledger no longer has their features (`compact`)")


def _ask(what: str) -> None:
    """Go on only if whoever is there says so."""
    if not sys.stdin.isatty():
        raise ConfigError(f"{what}: --yes does it without a question, --dry-run only says so")
    if not click.confirm(f"{what}. Go on?", err=True):
        raise click.Abort


@click.command()
@click.option(
    "--once",
    type=FiniteRange(0),
    default=180,
    show_default=True,
    metavar="DAYS",
    help="Drop features that one message had and none for so long.",
)
@click.option(
    "--ledger",
    type=FiniteRange(0),
    metavar="DAYS",
    help="Let the ledger reach back so far: older messages cannot be forgotten. Default: for ever.",
)
@_dry_run
@database_options
@_json
def compact(once: float, ledger: float | None, dry_run: bool, as_json: bool) -> None:
    """Drop what is rare and old, and make the file smaller.

    \b
    Example:
      streamnb compact --once 365 --ledger 730 --dry-run
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.mailbox.compact import compact as compacted

    with open_mailbox() as mailbox:
        done = compacted(mailbox, once, ledger, dry_run)
    if as_json:
        click.echo(json.dumps(done._asdict()))
        return
    would = "would be " if dry_run else ""
    click.echo(
        f"features {would}dropped: {done.features:,}; messages that can no longer be forgotten: "
        f"{done.retired:,}; earlier learnings {would}dropped: {done.history:,}"
    )
    if not dry_run:
        click.echo(f"{done.before / 1e6:.1f} MB before, {done.after / 1e6:.1f} MB after")


_kind = click.option(
    "--format",
    "kind",
    type=click.Choice(["lines", "model", "bogofilter"]),
    help="JSON lines (the default of export), a model file, or bogofilter's dump.",
)


@click.command()
@click.argument("file")
@_kind
@click.option("--no-messages", is_flag=True, help="Leave out which messages were learned.")
@database_options
def export(file: str, kind: str | None, no_messages: bool) -> None:
    """Write all that is known to FILE; - for standard output.

    The lines are sorted: equal states give equal bytes. They hold the ledger too, so that
    importing them gives a database that can do all that this one can.

    \b
    Example:
      streamnb export backup.jsonl
      streamnb export model.snb --format model && streamnb top model.snb --class spam
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.mailbox.transfer.formats import export as exported

    with open_mailbox() as mailbox:
        left_out = exported(mailbox, file, kind or "lines", not no_messages)
    if left_out:
        classes = ", ".join(f"{label} ({n:,} messages)" for label, n in sorted(left_out.items()))
        notify(f"{file}: left out, for {kind} knows ham and spam only: {classes}")


def _said(done: MergeResult) -> str:
    return (
        f"added {done.rows_added:,}, known {done.known:,}, overruled ours {done.overruling:,}, "
        f"overruled by ours {done.overruled:,}"
    )


@click.command("import")
@click.argument("file")
@_kind
@database_options
def import_(file: str, kind: str | None) -> None:
    """Add what FILE holds: an export, a model of `streamnb replay --save`, `bogoutil -d`'s output.

    Messages that are known are not added again; nor is the same file.

    \b
    Example:
      streamnb import backup.jsonl --db new.db
      bogoutil -d ~/.bogofilter/wordlist.db | streamnb import -
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.mailbox.transfer.formats import import_file

    if file != "-" and not os.path.exists(file):
        raise StateError(f"{file}: no such file")
    with open_mailbox(create=True) as mailbox:
        click.echo(_said(import_file(mailbox, file, kind)))


@click.command()
@click.argument("other")
@database_options
def merge(other: str) -> None:
    """Add what the database OTHER knows, message by message.

    A message that both know is not added again. Of two labels a person's counts before a
    program's, then the later one. Merge the smaller into the larger: what was learned about
    calibration stays this one's.

    \b
    Example:
      streamnb merge laptop.db
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.mailbox.store import Mailbox
    from streamnb.mailbox.transfer.formats import merge as merged

    with (
        Mailbox(other, create=False, wait=shared_value("wait")) as theirs,
        open_mailbox(create=True) as mailbox,
    ):
        click.echo(_said(merged(mailbox, theirs)))
