"""`streamnb watch`: classify new mail, and learn from the messages that its owner moves."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from streamnb.cli.mailbox import parse_label
from streamnb.cli.options import FiniteRange, database_options, open_mailbox
from streamnb.cli.sources import imap_access, is_imap_url, server_options
from streamnb.errors import (
    BusyError,
    ConfigError,
    CorpusError,
    MailServerError,
    OutputError,
    describe_os_error,
    printable,
)
from streamnb.mailbox.service.addresses import canonical_address
from streamnb.mailbox.service.line_writer import LineWriter, has_reader
from streamnb.mailbox.watch.account import Account, pause
from streamnb.mailbox.watch.plan import FolderPlan
from streamnb.patterns import lazy_pattern

if TYPE_CHECKING:
    from streamnb.mailbox.watch.watcher import Watcher

_SENDER = lazy_pattern(r"[^@\s<>]*@[^@\s<>]+")
_MAX_PAUSE_S = 300.0  # maximum seconds between attempts to connect
_MOVE_S = 1.0  # seconds within which a move in two steps deletes the original


def _parse_folders(
    ctx: click.Context, param: click.Parameter, pairs: str | list[str] | None
) -> dict[str, str] | None:
    """Parse LABEL=FOLDER,... or pairs from YAML into the class of each folder."""
    if pairs is None:
        return None

    labels: dict[str, str] = {}
    for pair in _split_pairs(pairs) if isinstance(pairs, str) else pairs or [""]:
        label, equals, folder = (part.strip() for part in pair.partition("="))
        if not equals or not folder:
            raise click.BadParameter(f"{pair!r:.80} is not LABEL=FOLDER")
        if folder in labels:
            raise click.BadParameter(
                f"{folder!r:.80} is the folder of two classes; choose different folders"
            )
        labels[folder] = label if label == "?" else parse_label(label)
    if any(label == "?" and folder.upper() != "INBOX" for folder, label in labels.items()):
        raise click.BadParameter("? is only for the inbox: write ?=INBOX for mail without a class")
    return labels


def _split_pairs(text: str) -> list[str]:
    """Split at commas. A part without "=" continues the preceding folder's name."""
    pairs: list[str] = []
    for part in text.split(","):
        if pairs and "=" not in part:
            pairs[-1] += f",{part}"
        else:
            pairs.append(part)
    return pairs


def _parse_senders(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """Parse ADDRESS=FOLDER of --pin, or ADDRESS of --never, into a folder for each sender."""
    folders: dict[str, str] = {}
    for value in values:
        address, equals, folder = (part.strip() for part in value.partition("="))
        is_pin = param.name == "pinned"
        if not _SENDER.fullmatch(address) or bool(equals) != is_pin or bool(folder) != is_pin:
            shape = "ADDRESS=FOLDER" if is_pin else "ADDRESS"
            raise click.BadParameter(f"{value!r:.80} is not {shape}; ADDRESS can be @DOMAIN")
        folders[canonical_address(address)] = folder
    return folders


def _read_config(ctx: click.Context, param: click.Parameter, path: str | None) -> None:
    """Take options from a YAML file unless the command line sets them."""
    if path is None:
        return
    from streamnb.config.yaml_files import read_yaml

    options = {
        option.opts[0].removeprefix("--"): option
        for option in ctx.command.params
        if isinstance(option, click.Option)
    }
    defaults: dict[str, Any] = {}
    for key, value in read_yaml(path).items():
        if key not in options or key == "config":
            names = ", ".join(sorted(set(options) - {"config", "help"}))
            raise ConfigError(f"{path}: {key!r:.60}: no such option of watch; there are {names}")
        defaults[options[key].name or ""] = _option_value(f"{path}: {key}", options[key], value)
    ctx.default_map = defaults


def _option_value(place: str, option: click.Option, value: Any) -> Any:
    """Convert a value of YAML to the argument of an option."""
    if option.is_flag:
        if not isinstance(value, bool):
            raise ConfigError(f"{place}: expected true or false, not {value!r:.60}")
        return value
    if isinstance(value, dict):
        if not all(isinstance(text, str) for pair in value.items() for text in pair):
            raise ConfigError(f"{place}: names and folders must be text, not {value!r:.60}")
        value = [f"{name}={folder}" for name, folder in value.items()]
    elif option.multiple and isinstance(value, str):
        value = [value]
    takes_list = option.multiple or option.name == "folders"
    is_text_list = isinstance(value, list) and all(isinstance(text, str) for text in value)
    is_scalar = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    if not (is_text_list if takes_list and not isinstance(value, str) else is_scalar):
        raise ConfigError(f"{place}: expected text, a number, or a list or mapping of texts")
    return value if isinstance(value, list) else str(value)


@click.command()
@click.argument("source")
@click.option(
    "--config",
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_read_config,
    help="YAML with any of these options, such as `folders: {work: Work, spam: Junk}`.",
)
@click.option(
    "--folders",
    type=click.UNPROCESSED,  # pairs from YAML are a list: a folder's name can have a comma
    metavar="LABEL=FOLDER,...",
    callback=_parse_folders,
    help="The folder of each class. LABEL=INBOX sets the inbox's class, ?=INBOX sets no class. "
    "Default: ham=INBOX, and spam=Junk; if Junk is missing, the folder that the server marks as "
    "the one for spam.",
)
@click.option("--spam-folder", metavar="NAME", help="Short for --folders spam=NAME,ham=INBOX.")
@click.option(
    "--folder",
    "others",
    multiple=True,
    metavar="NAME",
    help="Learn from messages that you move from this folder, too. Default: from all folders "
    "except those that a server marks as trash, drafts, sent, all, flagged or important mail.",
)
@click.option(
    "--unsure",
    metavar="FOLDER",
    help="With --move: folder for unsure mail whose most probable class is ready.",
)
@click.option(
    "--pin",
    "pinned",
    multiple=True,
    metavar="ADDRESS=FOLDER",
    callback=_parse_senders,
    help="Move all mail of this sender (or @DOMAIN) to FOLDER. Nothing is learned.",
)
@click.option(
    "--never",
    multiple=True,
    metavar="ADDRESS",
    callback=_parse_senders,
    help="Never move mail of this sender (or @DOMAIN).",
)
@click.option("--create", is_flag=True, help="Create missing folders.")
@click.option(
    "--move", is_flag=True, help="Move mail to the folder of its class. Default: print only."
)
@click.option("--existing", is_flag=True, help="Classify mail that is already in the inbox, too.")
@click.option(
    "--ham-after",
    type=FiniteRange(0),
    metavar="DAYS",
    help="Learn mail as ham if it was read and stays in the inbox for DAYS. Default: never.",
)
@click.option(
    "--every",
    type=FiniteRange(0.1, 86400),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between two scans. A server with IDLE reports changes at once.",
)
@click.option("--once", "scans_once", is_flag=True, help="Scan once and exit.")
@server_options
@database_options
def watch(
    source: str,
    folders: dict[str, str] | None,
    spam_folder: str | None,
    others: tuple[str, ...],
    unsure: str | None,
    pinned: dict[str, str],
    never: dict[str, str],
    create: bool,
    move: bool,
    existing: bool,
    ham_after: float | None,
    every: float,
    scans_once: bool,
) -> None:
    """Classify new mail in SOURCE, and learn from the messages that you move.

    SOURCE is a Maildir, a folder of Maildirs, or imap://USER@HOST. Each folder of --folders is a
    class.

    \b
    You move a message        streamnb
    into a class's folder     learns it as that class, or corrects its label
    from there to the inbox   removes the label of your move; without one, learns it as ham
    anywhere else             learns nothing

    Mail in a class's folder is learned only if an earlier scan saw it in another folder. Other
    mail there is ignored, because a program put it there. The first scan of a run also finds moves
    made since the last run.

    Mail is moved only with --move, and only into the folder of a class that is ready (`streamnb
    status`). The command ends on SIGTERM, and when the program that reads its output ends.

    \b
    Example:
      streamnb watch ~/Maildir --spam-folder Junk
      streamnb watch imaps://ann@mail.example.org --move --password-command 'pass show mail'
      streamnb watch ~/Maildir --folders work=Work,spam=Junk --unsure Look --move --create
    """  # noqa: D301 (\b tells click to keep the lines)
    from streamnb.mailbox.watch.watcher import Watcher

    if duplicates := set(pinned) & set(never):
        raise ConfigError(
            f"--pin and --never: both name {sorted(duplicates)[0]}; remove one of the options"
        )
    signals: list[int] = []
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda number, _: signals.append(number))
    # The account is first, because one that cannot be read must leave no database.
    account, inbox = open_account(source)
    with closing(account), open_mailbox(create=True) as mailbox, _open_report(scans_once) as report:
        folders = folders or {spam_folder or account.spam_folder(): "spam"}
        plan = _folder_plan(account, inbox, folders, unsure, pinned)
        plan = dataclasses.replace(
            plan,
            others=tuple(map(account.canonical_name, others)),
            move=move,
            ham_after=None if ham_after is None else ham_after * 86400,
            existing=existing,
            pinned={**plan.pinned, **never},
        )
        if create:
            for folder in set(plan.all_folders) - {inbox}:
                account.create_folder(folder)

        def should_stop() -> bool:
            if not scans_once and not has_reader(sys.stdout):
                signals.append(signal.SIGPIPE)
            return bool(signals)

        watcher = Watcher(mailbox, account, plan, report, should_stop)
        _run(watcher, account, every, scans_once, bool(others))
        if signal.SIGPIPE in signals:
            raise BrokenPipeError
        if signals:
            report("stopped")


def _folder_plan(
    account: Account,
    inbox: str,
    folders: dict[str, str],
    unsure: str | None,
    pinned: dict[str, str],
) -> FolderPlan:
    """Return the account's rules, with each folder in the account's spelling."""
    canonical = account.canonical_name
    inbox = canonical(inbox)
    classes: dict[str, str] = {}
    for folder, label in folders.items():
        if classes.setdefault(canonical(folder), label) != label:
            raise ConfigError(f"{folder} is the folder of two classes; choose different folders")
    ham = classes.pop(inbox, "ham")
    unsure_folder = None if unsure is None else canonical(unsure)
    if unsure_folder == inbox or unsure_folder in classes:
        raise ConfigError(
            f"--unsure {unsure}: choose a folder that is neither the inbox nor that of a class"
        )
    if ham == "spam":
        raise ConfigError("--folders: the inbox cannot be the folder of spam; name another folder")
    if not classes:
        raise ConfigError("--folders: name at least one folder besides the inbox")
    return FolderPlan(
        inbox,
        classes,
        ham=None if ham == "?" else ham,
        unsure=unsure_folder,
        pinned={address: canonical(folder) for address, folder in pinned.items()},
    )


@contextmanager
def _open_report(scans_once: bool) -> Iterator[Callable[[str], None]]:
    """Return a function that prints a line with the time; one scan waits for a slow reader."""

    def format_line(line: str) -> str:
        return printable(f"{datetime.now():%F %T} {line}")

    if scans_once or sys.stdout is None:
        yield lambda line: click.echo(format_line(line))
        return
    with closing(LineWriter(sys.stdout, format_line)) as writer:
        yield lambda line: writer.write(format_line(line))


def open_account(source: str) -> tuple[Account, str]:
    """Return the account of a Maildir or an imap:// URL, and the name of its inbox."""
    if is_imap_url(source):
        from streamnb.mailbox.watch.access import parse_imap_url
        from streamnb.mailbox.watch.imap import ImapAccount

        address = parse_imap_url(source)
        return ImapAccount(address, imap_access(source)), address.folder
    from streamnb.mailbox.watch.maildir import INBOX, MaildirAccount

    return MaildirAccount(os.path.expanduser(source)), INBOX


def _run(
    watcher: Watcher, account: Account, every: float, scans_once: bool, has_fixed_folders: bool
) -> None:
    """Scan and wait until the watcher must stop. After an error, pause and try again."""
    from streamnb.mailbox.rebuild import is_due, rebuild

    pause_s = 0.0
    is_started = False
    while not watcher.should_stop():
        try:
            if not has_fixed_folders:
                others = tuple(account.folder_names())
                watcher.plan = dataclasses.replace(watcher.plan, others=others)
            watcher.scan()
            if is_due(watcher.mailbox):
                watcher.report("learning all messages again, in mixed order")
                rebuild(watcher.mailbox)
            if not is_started:
                watcher.report(f"watching {account.name}: {', '.join(watcher.plan.all_folders)}")
                _print_not_ready(watcher)
            is_second_scan = is_started
            is_started, pause_s = True, 0.0
            if scans_once and (is_second_scan or not watcher.has_copies):
                return
            if scans_once:
                pause(_MOVE_S, watcher.should_stop)
                continue
            account.wait(watcher.plan.inbox, every, watcher.should_stop)
        except (MailServerError, BusyError, OutputError, CorpusError, OSError) as error:
            if scans_once or not is_started:
                raise
            pause_s = min(max(2 * pause_s, 1.0), _MAX_PAUSE_S)
            reason = describe_os_error(error) if isinstance(error, OSError) else error
            watcher.report(f"{reason}; again in {pause_s:g} s")
            pause(pause_s, watcher.should_stop)


def _print_not_ready(watcher: Watcher) -> None:
    """Print the classes whose mail is not moved yet, and the messages that they need."""
    from streamnb.mailbox.status import readiness_by_label

    missing = readiness_by_label(watcher.mailbox, watcher.plan.folders.values())
    waiting = [f"{label} ({text})" for label, text in missing.items() if text != "ready"]
    if waiting and watcher.plan.move:
        watcher.report(f"not ready to move {', '.join(waiting)} yet")
