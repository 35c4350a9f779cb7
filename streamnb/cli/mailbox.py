"""`streamnb learn`, `forget`, `classify` and `upgrade`: messages and the mailbox's database."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

import click

from streamnb.cli import options
from streamnb.cli.quick import notify_not_ready
from streamnb.cli.sources import (
    binary_option,
    imap_access,
    is_imap_url,
    read_sources,
    server_options,
)
from streamnb.errors import (
    BusyError,
    CorpusError,
    StreamNBError,
    UnexpectedError,
    describe_os_error,
    message_count,
    printable,
)

if TYPE_CHECKING:
    from streamnb.mailbox.mailbox import Mailbox
    from streamnb.mailbox.sources import SourceMessage
    from streamnb.mailbox.stored_classifier import Outcome

Message = TypeVar("Message")
_PROGRESS_S = 0.5  # seconds between two updates of the progress line
_OUTCOMES = {
    "learned": "learned",
    "corrected": "learned; its earlier label {before} was removed",
    "known": "unchanged: already learned as {before}",
    "confirmed": "{before} confirmed: a program had learned it, now it is your label",
    "kept": "unchanged: a person labelled it {before}",
    "retired": "unchanged: label {before} cannot be removed, because `compact --ledger` dropped "
    "the features",
    "forgotten": "forgotten: it was learned as {before}",
    "unknown": "unchanged: it was never learned",
}


@contextmanager
def _collected_errors() -> Iterator[list[StreamNBError]]:
    """Collect errors of single messages; exit with the status of the last error."""
    errors: list[StreamNBError] = []
    yield errors
    if errors:
        raise click.exceptions.Exit(errors[-1].exit_code)


def _with_progress(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages. On a terminal, print their number from time to time."""
    last_update = time.monotonic()
    is_shown = False
    try:
        for number, message in enumerate(messages):
            now = time.monotonic()
            if now - last_update > _PROGRESS_S and sys.stderr.isatty():
                sys.stderr.write(f"\r{number:,} messages ...")
                sys.stderr.flush()
                last_update, is_shown = now, True
            yield message
    finally:
        if is_shown:
            sys.stderr.write("\r\033[K")


def _readable(
    messages: Iterable[tuple[str, SourceMessage]],
    errors: list[StreamNBError],
    can_be_empty: bool = False,
) -> Iterator[tuple[str, str, bytes]]:
    """Yield label, name and content of each message; print and collect errors of unreadable ones.

    An empty file is an error, unless it `can_be_empty`.
    """
    for label, message in _with_progress(messages):
        content = message.content
        if not content and not can_be_empty:
            content = CorpusError(f"{message.name}: not learned: it is empty")
        if isinstance(content, StreamNBError):
            errors.append(content)
            options.notify(content)
        else:
            yield label, message.name, content


def _report(outcomes: Iterable[tuple[str, bytes, Outcome]], as_json: bool) -> None:
    """Print the outcome of a single message, or the number of messages with each outcome."""
    counts: Counter[str] = Counter()
    first: tuple[str, Outcome] | None = None
    try:
        for name, key, outcome in outcomes:
            counts[outcome.result] += 1
            first = first or (name, outcome)
            if as_json:
                line = {"path": name, "digest": key.hex(), **outcome._asdict()}
                click.echo(json.dumps(line))
    finally:
        if not as_json and first is not None:
            if counts.total() == 1:
                text = _OUTCOMES[first[1].result].format(before=first[1].before)
                click.echo(printable(f"{first[0]}: {text}"))
            else:
                summary = ", ".join(f"{n:,} {outcome}" for outcome, n in sorted(counts.items()))
                click.echo(f"{counts.total():,} messages: {summary}")


@click.command()
@click.argument("arguments", nargs=-1, required=True, metavar="(LABEL SOURCE... | LABEL=SOURCE...)")
@click.option(
    "--program",
    is_flag=True,
    help="Store the labels as those of a program, such as a script. They never replace a person's "
    "labels.",
)
@binary_option
@server_options
@options.database_options
@options.json_option
def learn(arguments: tuple[str, ...], program: bool, as_json: bool, binary: bool) -> None:
    """Learn that the messages of each SOURCE are LABEL (spam, ham, or any word).

    SOURCE is a message file, an mbox, a Maildir, a folder of those, imap://USER@HOST/FOLDER, or -
    for standard input.

    Learn several classes in one command, as LABEL=SOURCE: their messages are then mixed. If
    many messages of one class come in a row, the command learns all messages of the database again
    at its end, in mixed order.

    Messages are committed in groups of a few hundred, then reported. A message that has this label
    already is not learned again. If it has another label, that label is removed first.

    \b
    Example:
      streamnb learn spam=Maildir/.Junk ham=Maildir/.Archive
      streamnb learn ham message.eml
    """  # noqa: D301 (\b tells click to keep the lines)
    from streamnb.mailbox.batch import LabelledMessage, learn_many
    from streamnb.mailbox.digest import digest
    from streamnb.mailbox.ledger import HUMAN, PROGRAM

    labelled_sources = _labelled_sources(arguments)
    names = tuple(chain.from_iterable(labelled_sources.values()))
    imap_access(*names)  # raises an error before a database is created
    labelled_by = PROGRAM if program else HUMAN
    with _collected_errors() as errors:
        messages = _readable(_mix_sources(labelled_sources, binary), errors)
        first = next(messages, None)
        if first is None:  # without a message, no database is created
            return
        examples = (
            LabelledMessage(content, label, f"learn {name}")
            for label, name, content in chain([first], messages)
        )
        with options.open_mailbox(create=True) as mailbox:
            outcomes = (
                (str(example.source).removeprefix("learn "), digest(example.message), outcome)
                for example, outcome in learn_many(mailbox, examples, labelled_by)
            )
            _report(outcomes, as_json)
            _rebuild_if_due(mailbox, as_json)
            with mailbox.reading():
                options.notify_doubtful_labels(mailbox.classifier.messages())


def _rebuild_if_due(mailbox: Mailbox, quiet: bool = False) -> None:
    """Learn all messages again in mixed order if many came in runs of one class."""
    from streamnb.mailbox.rebuild import is_due, rebuild

    def with_bar(rows: list[int]) -> Iterator[int]:
        text = f"learning all {len(rows):,} messages again, in mixed order"
        with click.progressbar(rows, label=text, file=sys.stderr) as bar:
            yield from bar

    if is_due(mailbox):
        rebuild(mailbox, iter if quiet else with_bar)


def _labelled_sources(arguments: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the sources of each class."""
    if "=" not in arguments[0]:
        if len(arguments) < 2:
            raise click.UsageError("Missing argument 'SOURCE...'.")
        label, sources = parse_label(arguments[0]), list(arguments[1:])
        _check_single_class(label, sources)
        return {label: sources}
    labelled_sources: dict[str, list[str]] = {}
    for pair in arguments:
        label, equals, source = pair.partition("=")
        if not equals or not source:
            raise click.BadParameter(f"{pair!r} is not LABEL=SOURCE", param_hint="LABEL=SOURCE")
        labelled_sources.setdefault(parse_label(label), []).append(source)
    return labelled_sources


def _check_single_class(label: str, sources: list[str]) -> None:
    """Raise click.UsageError if a source is probably the name of another class.

    `learn spam JUNK ham INBOX` must not learn INBOX as spam. A source that is missing can also be a
    file that has moved, such as message 3 of an MH folder.
    """
    for i, word in enumerate(sources):
        is_missing = not os.path.lexists(word)
        is_word = word != "-" and not set("/.") & set(word) and not word.isdecimal()
        is_class = is_word and (is_missing or word in {"spam", "ham"} - {label})
        if is_class and (any(map(os.path.lexists, sources[i + 1 :])) or "=" in word):
            pair = word if "=" in word else f"{word}=SOURCE"
            raise click.UsageError(
                f"{word}: a class or a folder? To learn several classes, write "
                f"{label}={sources[0]} {pair}; for a folder, ./{word}"
            )


def parse_label(text: str) -> str:
    """Return a class's name from the command line. Raise click.BadParameter if it cannot be one."""
    from streamnb.mailbox.ledger import read_label

    try:
        return read_label(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="LABEL") from None


def _mix_sources(
    labelled_sources: dict[str, list[str]], binary: bool
) -> Iterator[tuple[str, SourceMessage]]:
    """Yield the messages of all classes, mixed in proportion to their numbers."""
    from streamnb.mailbox.sources import is_pipe, messages, mixed

    sizes = dict.fromkeys(labelled_sources, 1)
    if len(labelled_sources) > 1:
        for label, names in labelled_sources.items():
            # Standard input, pipes and servers can be read once, so the largest known number of
            # messages replaces theirs.
            countable = [
                name
                for name in names
                if name != "-" and not is_imap_url(name) and not is_pipe(name)
            ]
            sizes[label] = sum(1 for name in countable for _ in messages(name))
        largest = max(sizes.values())
        sizes = {label: size or largest for label, size in sizes.items()}
    readers = {
        label: partial(read_sources, names, binary) for label, names in labelled_sources.items()
    }
    return mixed(readers, sizes)


@click.command()
@click.argument("source", nargs=-1)
@click.option(
    "--digest",
    "digests",
    multiple=True,
    metavar="HEX",
    help="Digest of a message whose file is gone. `learn --json` and `export` print digests.",
)
@click.option(
    "--erase",
    is_flag=True,
    help="Also delete the messages from the ledger's history and from the stored verdicts.",
)
@click.option(
    "--sender",
    metavar="TEXT",
    help="With --erase: forget all messages with a stored verdict whose sender contains TEXT.",
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
    """Unlearn the messages of each SOURCE, exactly.

    SOURCE is as for `streamnb learn`. One transaction unlearns all messages: if the database fails,
    none is unlearned. A file that cannot be read is reported, and the others are unlearned.
    `streamnb undo` unlearns all messages of a period.

    \b
    Example:
      streamnb forget message.eml

    Exit status with --erase: 4 if the database has none of the named messages.
    """  # noqa: D301 (\b tells click to keep the lines)
    if sender is not None and not erase:
        raise click.UsageError("--sender needs --erase")
    if sender is not None and not sender.strip():
        raise click.UsageError("--sender is empty; name an address or a part of it")
    if not source and not digests and sender is None:
        raise click.UsageError("Missing argument 'SOURCE...' (or --digest).")
    keys = [_parse_digest(text) for text in digests]
    from streamnb.mailbox.digest import digest
    from streamnb.mailbox.verdict_log import VerdictLog

    with _collected_errors() as errors, options.open_mailbox() as mailbox:
        messages = _readable((("", item) for item in read_sources(source)), errors, True)
        if not erase:
            named = [(key.hex(), key) for key in keys]
            named += [(name, digest(content)) for _, name, content in messages]
            outcomes = mailbox.forget_digests(key for _, key in named)
            _report(((*pair, x) for pair, x in zip(named, outcomes, strict=True)), as_json)
            return
        keys += [digest(content) for _, _, content in messages]
        erased = VerdictLog(mailbox).erase(keys, sender)
    total = f", of {len(keys):,} named" if keys else ""
    result = {"erased": erased, "named": len(keys)}
    options.echo_result(as_json, result, f"{message_count(erased)} erased{total}")
    missing_count = 0 if sender is not None else len(set(keys)) - erased
    if missing_count:
        options.notify(
            f"{message_count(missing_count)} not found in the database; name the learned files, "
            "their digests (--digest), or the sender (--sender)"
        )
        if not erased and not errors:
            raise click.exceptions.Exit(4)


def _parse_digest(text: str) -> bytes:
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
    """Learn your mail again in the database NEW, with the features of this version.

    A database never changes the kinds of features (views) with which it was created. SOURCE is as
    for `streamnb learn`. NEW learns each message that has a label in the old database, with that
    label, in the order of the SOURCEs. The old database is not changed. If NEW exists from an
    interrupted upgrade, the command continues it.

    In NEW, `undo` restores no label that was replaced before the upgrade, and `undo --last` counts
    each message of the upgrade as a change. Use NEW with --db or STREAMNB_DB. Never move a database
    over one that is in use.

    \b
    Example:
      streamnb upgrade new.db Maildir --db mail.db

    Exit status: 0 all messages were found, 4 some messages were in none of the SOURCEs.
    """  # noqa: D301 (\b tells click to keep the lines)
    from streamnb.mailbox.digest import digest
    from streamnb.mailbox.recover import copy_label, count_missing, create_upgraded

    imap_access(*source)  # raises an error before a database is created
    with _collected_errors() as errors, options.open_mailbox() as old:
        messages = _readable((("", item) for item in read_sources(source)), errors)
        first = next(messages, None)
        if first is None:  # without a message, no database is created
            return
        with create_upgraded(old, new, options.shared_value("wait")) as upgraded:
            outcomes = (
                (name, digest(content), copy_label(old, upgraded, content))
                for _, name, content in chain([first], messages)
            )
            _report(outcomes, as_json)
            _rebuild_if_due(upgraded, as_json)
            missing_count = count_missing(old, upgraded)
        if missing_count:
            options.notify(
                f"not found in the sources: {message_count(missing_count)} of the old database; "
                "name more sources, or use the new database without them"
            )
            if not errors:
                raise click.exceptions.Exit(4)


@contextmanager
def _errors_exit_with_3() -> Iterator[None]:
    """Exit with status 3 for errors, because 1 and 2 are ham and unsure."""
    try:
        yield
    except (BusyError, click.exceptions.Exit, BrokenPipeError):
        raise
    except StreamNBError as error:
        options.notify(error)
        raise click.exceptions.Exit(3) from None
    except OSError as error:
        options.notify(describe_os_error(error))
        os._exit(3)  # a normal exit would try to write the buffered output again
    except Exception as error:
        raise UnexpectedError(error, 3) from error


@click.command(cls=options.MailCommand)
@click.argument("source", nargs=-1)
@click.option(
    "--reasons",
    metavar="N",
    type=options.WholeRange(0, 100),
    default=0,
    help="Print the N features with the strongest evidence for each message.",
)
@options.judge_options
@binary_option
@server_options
@options.database_options
@options.json_option
def classify(source: tuple[str, ...], reasons: int, as_json: bool, binary: bool) -> None:
    """Print a line for each message: S for spam, H for ham or U for unsure, the score and the path.

    Messages of a class that is not ready (see `streamnb status`) are U too. The score is the
    log-odds of spam: above 0, spam is more likely than not. With classes other than ham and spam,
    the score is the log-odds of the most probable class, whose name replaces the letter.

    Without a SOURCE, one message is read from standard input. The command is faster while
    `streamnb serve` runs.

    \b
    Example:
      streamnb classify message.eml

    Exit status for one message: 0 spam, 1 ham or another class, 2 unsure, 3 error. For several
    messages: 0, or 3 after an error.
    """  # noqa: D301 (\b tells click to keep the lines)
    if not source and sys.stdin is not None and sys.stdin.isatty():
        raise click.UsageError("Missing argument 'SOURCE...' (or a message on standard input).")
    statuses: list[int] = []
    not_ready: set[str] = set()
    client = options.connect(reasons)
    with _errors_exit_with_3(), client:
        for message in read_sources(source or ("-",), binary):
            if isinstance(message.content, StreamNBError):
                options.notify(message.content)
                statuses.append(3)
                continue
            verdict = client.classify(message.content)
            statuses.append(verdict.status)
            if verdict.label is not None and not verdict.ready:
                not_ready.add(verdict.label)
            if as_json:
                click.echo(json.dumps({"path": message.name, **verdict._asdict()}))
                continue
            click.echo(printable(f"{verdict.mark} {verdict.score:.4f} {message.name}"))
            for feature, log_odds in verdict.reasons:
                click.echo(printable(f"  {log_odds:+.3f} {feature}"))
        if sys.stdout is not None:
            sys.stdout.flush()
    if not_ready:
        notify_not_ready(not_ready)
    if len(statuses) == 1 or 3 in statuses:
        raise click.exceptions.Exit(max(statuses) if 3 in statuses else statuses[0])
