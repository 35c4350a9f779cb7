"""`streamnb status`, `verify`, `undo`, `compact`, `export` and other commands on a database."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from datetime import datetime
from typing import TYPE_CHECKING

import click

from streamnb.cli import options
from streamnb.cli.tables import new_console, new_table
from streamnb.errors import ConfigError, CorpusError, StreamNBError, message_count, printable
from streamnb.mailbox.location import default_path, is_url

if TYPE_CHECKING:
    from streamnb.mailbox.mailbox import Mailbox
    from streamnb.mailbox.transfer.ledger_export import MergeResult
    from streamnb.mailbox.undo import RedoCounts

_dry_run = click.option("--dry-run", is_flag=True, help="Print what would be done; change nothing.")


def _notify_of_damaged_site_model(mailbox: Mailbox) -> None:
    if mailbox.base is not None:
        try:
            mailbox.base.check()
        except StreamNBError as error:
            options.notify(f"the site's model cannot be used: {error}")


@click.command()
@options.database_options
@options.json_object_option
def status(as_json: bool) -> None:
    """Show how many messages were learned, which classes are ready, and recent errors.

    A class is ready after enough correct predictions of it and enough messages of other classes.
    Until then, `classify` and `filter` mark its messages as unsure, and `watch` does not move them.

    \b
    Example:
      streamnb status
    """  # noqa: D301 (\b tells click to keep the lines)
    from streamnb.mailbox.status import check_file, readiness_by_label, site_opinion
    from streamnb.mailbox.status import status as status_of

    with options.open_mailbox() as mailbox:
        check_file(mailbox)
        report = status_of(mailbox)
        missing = readiness_by_label(mailbox)
        site = site_opinion(mailbox)
        site_missing = readiness_by_label(mailbox, () if site is None else site.messages)
        _notify_of_damaged_site_model(mailbox)
    if as_json:
        click.echo(json.dumps(report.as_json()))
        return
    console = new_console()
    last_learned = (
        "never" if report.last is None else f"{datetime.fromtimestamp(report.last):%F %T}"
    )
    features = " + ".join(f"{n:,}" for n in report.features)
    console.print(printable(f"{report.path}: {report.bytes / 1e6:.1f} MB, {features} features"))
    console.print(f"last learned: {last_learned}")
    if site is not None:
        ready = [label for label, text in site_missing.items() if text == "ready"]
        console.print(
            f"the site's model: {message_count(round(sum(site.messages.values())))}; "
            f"its ready classes: {printable(', '.join(ready)) or 'none'}"
        )
    table = new_table("class", "labelled by", "source", "messages")
    for group in report.learned:
        table.add_row(
            printable(group.label),
            group.labelled_by,
            printable(group.source),
            f"{group.messages:,}",
        )
    console.print(table)
    table = new_table("class", "predicted correctly", "wrongly", "ready")
    for item in report.classes:
        counts = ["-" if n is None else f"{n:,}" for n in (item.right, item.wrong)]
        table.add_row(printable(item.label), *counts, printable(missing[item.label]))
    console.print(table)
    if report.one_sided:
        console.print(
            "many messages were learned one class after the other; the next `streamnb learn` "
            "learns all messages again in mixed order"
        )
    if report.recent:
        console.print(
            f"of the last {report.recent:,} labels by a person, {report.wrong:,} "
            f"({report.wrong / report.recent:.1%}) were predicted wrongly"
        )
    console.print(f"labels corrected: {report.corrected:,}, removed: {report.removed:,}")


@click.command()
@options.database_options
@options.json_object_option
def verify(as_json: bool) -> None:
    """Check that the counts are the sums over the ledger, which has a row for each message.

    \b
    Example:
      streamnb verify

    Exit status: 0 they agree, 4 they differ.
    """  # noqa: D301 (\b tells click to keep the lines)
    with options.open_mailbox() as mailbox:
        problems = mailbox.verify()
        path = mailbox.path
    if as_json:
        click.echo(json.dumps({"path": str(path), "problems": problems}))
    for problem in problems:
        line = problem if problem.startswith(f"{path}: ") else f"{path}: {problem}"
        options.echo_err(line)
    if problems:
        options.notify(
            "the database is damaged; to copy the undamaged rows of its ledger to a new database, "
            "run `streamnb recover NEW.db`"
        )
        raise click.exceptions.Exit(4)
    if not as_json:
        click.echo(printable(f"{path}: counts and ledger agree"))


@click.command()
@click.argument("new")
@click.option(
    "--class",
    "classes",
    multiple=True,
    metavar="NAME",
    help="Name of a class. Repeat the option for all classes, in the order in which they were "
    "first learned. Needed only if the names in the database are damaged.",
)
@options.database_options
@options.json_object_option
def recover(new: str, classes: tuple[str, ...], as_json: bool) -> None:
    """Copy every undamaged row of a damaged database's ledger to the database NEW.

    The damaged database is not changed. Damaged rows and pages are left out, and reported on
    standard error. Learn their messages again from the mail itself.

    \b
    Example:
      streamnb recover new.db --db damaged.db

    Exit status: 0 all rows were copied, 4 some or all rows were left out.
    """  # noqa: D301 (\b tells click to keep the lines)
    from streamnb.mailbox.recover import recover as recover_rows

    damaged = str(options.shared_value("db") or default_path())
    recovered = recover_rows(damaged, new, classes, options.shared_value("wait"))
    options.warn_of_other_owner(new)
    for line in recovered.losses:
        options.echo_err(f"{damaged}: left out: {line}")
    options.echo_result(
        as_json, recovered._asdict(), f"{new}: {message_count(recovered.rows_added)} copied"
    )
    if recovered.losses:
        raise click.exceptions.Exit(4)


_MAX_UNCONFIRMED = 100  # number of changes that `undo` makes without confirmation
_MAX_LISTED = 20  # number of labels that `undo --dry-run` lists


@click.command()
@click.option(
    "--since",
    metavar="TIME",
    help="Go back to TIME, such as 2026-11-20T14:30 (local time), 2026-11-20T12:30Z (UTC), or 30m, "
    "2h, 3d, 1w ago.",
)
@click.option(
    "--last",
    is_flag=False,
    flag_value=1,
    type=options.WholeRange(1),
    metavar="[N]",
    help="Undo the last N changes, at most 100. Default: 1. A command, merge or import is one "
    "change.",
)
@click.option("--redo", is_flag=True, help="Reverse the last undo exactly.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@_dry_run
@options.database_options
@options.json_object_option
def undo(
    since: str | None, last: int | None, redo: bool, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Restore the labels of an earlier time, and unlearn all messages learned since.

    Give the time by --since or --last, or reverse the last undo by --redo. Labels that were
    replaced or removed since then are restored. For more than 100 changes, the command asks for
    confirmation. --dry-run lists the first 20 labels that would be removed, with time, class,
    author, source, digest and subject.

    \b
    Example:
      streamnb undo --since 2h --dry-run
      streamnb undo --last
      streamnb undo --redo
    """  # noqa: D301 (\b tells click to keep the lines)
    from streamnb.mailbox.undo import (
        LabelledMessage,
        UndoCounts,
        labels_since,
        last_learned,
        moment_of,
    )
    from streamnb.mailbox.undo import redo as redo_last

    if (since is not None) + (last is not None) + redo != 1:
        raise click.UsageError("give one of --since TIME, --last [N] and --redo")
    since_s = None if since is None else options.parse_time(since)
    with options.open_mailbox() as mailbox:
        if redo:
            _print_redone(redo_last(mailbox), as_json)
            return
        if last is not None:
            since_s = last_learned(mailbox, last)
        done = UndoCounts(0, 0, 0)
        labels: list[LabelledMessage] = []
        if since_s is not None:
            moment = since_s if last is not None else moment_of(mailbox, since_s)
            done = mailbox.undo(moment, dry_run=True)
            labels = labels_since(mailbox, moment, _MAX_LISTED)
        if since_s is not None and not dry_run:
            if done.unlearned + done.restored > _MAX_UNCONFIRMED and not yes:
                _confirm(f"{done.unlearned:,} labels would be removed and {done.restored:,} "
                         "earlier labels restored")  # fmt: skip
            done = mailbox.undo(moment)
    if as_json:
        listed = [label._asdict() for label in labels]
        result = {"since": since_s, **done._asdict(), "dry_run": dry_run, "labels": listed}
        click.echo(json.dumps(result))
        return
    if since_s is None:
        click.echo("nothing was learned")
        return
    would = "would be " if dry_run else ""
    click.echo(
        f"labels from {datetime.fromtimestamp(since_s):%F %T} on: {done.unlearned:,} {would}removed"
        f", {done.restored:,} earlier ones {would}restored"
    )
    if done.retired:
        click.echo(f"{done.retired:,} labels unchanged, because `compact` dropped their features")
    for label in labels if dry_run else ():
        time = f"{datetime.fromtimestamp(label.time):%F %T}"
        click.echo(printable(" ".join((time, *label[1:])).rstrip()))
    if dry_run and done.unlearned > len(labels):
        click.echo(f"... and {done.unlearned - len(labels):,} more")


def _print_redone(redone: RedoCounts, as_json: bool) -> None:
    text = f"{redone.learned:,} labels learned again, {redone.removed:,} earlier ones removed again"
    options.echo_result(
        as_json, redone._asdict(), text if any(redone) else "there is nothing to redo"
    )
    if redone.unchanged and not as_json:
        click.echo(
            f"{redone.unchanged:,} labels unchanged, because their messages were labelled "
            "again since"
        )


def _confirm(change: str) -> None:
    """Ask for confirmation. Raise click.Abort for no, ConfigError without a terminal."""
    if not sys.stdin.isatty():
        raise ConfigError(f"{change}: add --yes to confirm, or --dry-run to change nothing")
    if not click.confirm(f"{change}. Continue?", err=True):
        raise click.Abort


@click.command()
@click.option(
    "--rare",
    "rare_days",
    type=options.FiniteRange(0),
    default=180,
    show_default=True,
    metavar="DAYS",
    help="Drop features that only one message had, if it was learned at least DAYS ago.",
)
@click.option(
    "--ledger",
    type=options.FiniteRange(0),
    metavar="DAYS",
    help="Drop the stored features of messages learned more than DAYS ago; you cannot forget "
    "these messages afterwards. Default: keep all.",
)
@_dry_run
@options.database_options
@options.json_object_option
def compact(rare_days: float, ledger: float | None, dry_run: bool, as_json: bool) -> None:
    """Drop features that only one message had, and shrink the file.

    Few verdicts change, because such features rarely occur again. With --ledger, the command also
    drops the history of old messages. To see the numbers first, use --dry-run.

    \b
    Example:
      streamnb compact --rare 365 --ledger 730 --dry-run
    """  # noqa: D301 (\b tells click to keep the lines)
    from streamnb.mailbox.compact import compact as compact_database

    with options.open_mailbox() as mailbox:
        result = compact_database(mailbox, rare_days, ledger, dry_run)
    would = "would be " if dry_run else ""
    text = (
        f"{would}dropped: rare features {result.features:,}, features of old messages (you "
        f"cannot forget these messages) {result.retired:,}, earlier labels {result.history:,}"
    )
    options.echo_result(as_json, result._asdict(), text)
    if not (as_json or dry_run):
        click.echo(f"{result.before / 1e6:.1f} MB before, {result.after / 1e6:.1f} MB after")


_kind = click.option(
    "--format",
    "kind",
    type=click.Choice(["lines", "model", "bogofilter"]),
    help="lines (JSON lines), model (a model file) or bogofilter (its dump). Default: `export` "
    "writes lines, `import` detects the format.",
)


@click.command()
@click.argument("file")
@_kind
@options.database_options
def export(file: str, kind: str | None) -> None:
    """Write the database to FILE, or to standard output for -.

    JSON lines are sorted, so equal databases give equal files. They include the ledger, so
    importing them gives an equivalent database.

    \b
    Example:
      streamnb export backup.jsonl
      streamnb export model.snb --format model && streamnb top model.snb --class spam
    """  # noqa: D301 (\b tells click to keep the lines)
    from streamnb.mailbox.transfer.formats import export as export_mailbox

    with options.open_mailbox() as mailbox:
        omitted = export_mailbox(mailbox, file, kind or "lines")
    if omitted:
        classes = ", ".join(f"{label} ({message_count(n)})" for label, n in sorted(omitted.items()))
        options.notify(f"{file}: the format {kind} has only ham and spam; left out: {classes}")


def _result_line(result: MergeResult) -> str:
    return (
        f"rows of the ledger: {result.rows_added:,} added, {result.unchanged:,} unchanged; "
        f"other labels: {result.overruling:,} replaced, {result.overruled:,} kept"
    )


@click.command("import")
@click.argument("file")
@_kind
@click.option(
    "--replace",
    is_flag=True,
    help="Replace the earlier import of a file of this name. If only one file was imported, its "
    "name can differ. Use it for a newer word list of bogofilter.",
)
@options.database_options
@options.json_object_option
def import_(file: str, kind: str | None, replace: bool, as_json: bool) -> None:
    """Add the content of FILE: an export, a model file, or the output of `bogoutil -d`.

    Messages that the database has, and files that were imported, are not added again. After the
    import of a word list or a model, messages stay unsure until their class is ready. The command
    prints what each class needs.

    \b
    Example:
      streamnb import backup.jsonl --db new.db
      bogoutil -d ~/.bogofilter/wordlist.db | streamnb import -
    """  # noqa: D301 (\b tells click to keep the lines)
    from streamnb.mailbox.recover import remove_database
    from streamnb.mailbox.status import readiness_by_label
    from streamnb.mailbox.transfer.formats import import_file

    if file != "-" and not os.path.exists(file):
        raise CorpusError(f"{file}: no such file")
    path = str(options.shared_value("db") or default_path())
    is_new = not (is_url(path) or os.path.exists(path))
    try:
        with options.open_mailbox(create=True) as mailbox:
            result = import_file(mailbox, file, kind, replace)
            missing = readiness_by_label(mailbox)
    except BaseException:
        if is_new:  # a failed import must not leave an empty database
            with contextlib.suppress(OSError):
                remove_database(path)
        raise
    if as_json:
        click.echo(json.dumps({**result._asdict(), "readiness": missing}))
        return
    click.echo(_result_line(result))
    for label, text in missing.items():
        if text != "ready":
            click.echo(printable(f"{label}: unsure at first, {text}"))


@click.command()
@click.argument("other")
@options.database_options
@options.json_object_option
def merge(other: str, as_json: bool) -> None:
    """Add the messages of the database OTHER.

    Run the command on the larger database: its calibration is kept. A message that both databases
    have is not added again. If its labels differ, a person's label replaces a program's, and a
    later label replaces an earlier one.

    \b
    Example:
      streamnb merge laptop.db
    """  # noqa: D301 (\b tells click to keep the lines)
    from streamnb.mailbox.mailbox import Mailbox
    from streamnb.mailbox.transfer.formats import merge as merge_mailboxes

    with (
        Mailbox(other, create=False, wait=options.shared_value("wait")) as other_mailbox,
        options.open_mailbox(create=True) as mailbox,
    ):
        result = merge_mailboxes(mailbox, other_mailbox)
    options.echo_result(as_json, result._asdict(), _result_line(result))
