"""`streamnb watch`: mail is classified as it comes, and what its owner does with it is learned."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from streamnb.cli.options import FiniteRange, database_options, open_mailbox
from streamnb.cli.sources import access_of, is_server, server_options
from streamnb.errors import (
    BusyError,
    ConfigError,
    CorpusError,
    MailServerError,
    OutputError,
    describe_os_error,
    printable,
)

if TYPE_CHECKING:
    from streamnb.mailbox.watch.plan import Plan
    from streamnb.mailbox.watch.watcher import Account, Watcher

_SENDER = re.compile(r"[^@\s<>]*@[^@\s<>]+")
_BETWEEN = "\x1f"
_LONGEST = 300.0  # seconds between attempts to connect again


def _pairs(ctx: click.Context, param: click.Parameter, text: str | None) -> dict[str, str] | None:
    """Folders and the class of each, of LABEL=FOLDER,..."""
    if text is None:
        return None
    from streamnb.cli.mailbox import label_of

    found: dict[str, str] = {}
    # A mapping in YAML comes with another separator: a folder's name may have a comma.
    pairs = text.split(_BETWEEN)[:-1] if _BETWEEN in text else text.split(",")
    for pair in pairs:
        label, equals, folder = (part.strip() for part in pair.partition("="))
        if not equals or not folder:
            raise click.BadParameter(f"{pair!r:.80} is not LABEL=FOLDER")
        if folder in found:
            raise click.BadParameter(f"{folder!r:.80} is the folder of two classes")
        found[folder] = label if label == "?" else label_of(label)
    if any(label == "?" and folder.upper() != "INBOX" for folder, label in found.items()):
        raise click.BadParameter("? is for the inbox: a folder that is no class is not named")
    return found


def _senders(ctx: click.Context, param: click.Parameter, pins: tuple[str, ...]) -> dict[str, str]:
    """Folders for senders, of ADDRESS=FOLDER."""
    found: dict[str, str] = {}
    for pin in pins:
        address, equals, folder = (part.strip() for part in pin.partition("="))
        wanted = param.name == "pinned"
        if not _SENDER.fullmatch(address) or bool(equals) != wanted or bool(folder) != wanted:
            shape = "ADDRESS=FOLDER" if wanted else "ADDRESS"
            raise click.BadParameter(f"{pin!r:.80} is not {shape}, or @DOMAIN for ADDRESS")
        found[address.lower()] = folder
    return found


def _configured(ctx: click.Context, param: click.Parameter, path: str | None) -> None:
    """Take the options of a YAML file where the command line gives none."""
    if path is None:
        return
    from streamnb.config.yaml_files import read_yaml

    options = [of for of in ctx.command.params if isinstance(of, click.Option)]
    known = {option.opts[0].removeprefix("--"): option for option in options}
    defaults: dict[str, Any] = {}
    for key, value in read_yaml(path).items():
        if key not in known or key == "config":
            names = ", ".join(sorted(set(known) - {"config", "help"}))
            raise ConfigError(f"{path}: {key!r:.60}: no such option of watch; there are {names}")
        defaults[known[key].name or ""] = _option(f"{path}: {key}", known[key], value)
    ctx.default_map = defaults


def _option(where: str, option: click.Option, value: Any) -> Any:
    """What YAML says of an option, as click takes it."""
    if option.is_flag:
        if not isinstance(value, bool):
            raise ConfigError(f"{where}: true or false, not {value!r:.60}")
        return value
    if isinstance(value, dict):
        if not all(isinstance(one, str) for pair in value.items() for one in pair):
            raise ConfigError(f"{where}: names and folders are text, not {value!r:.60}")
        value = [f"{name}={folder}" for name, folder in value.items()]
    elif option.multiple and isinstance(value, str):
        value = [value]
    several = option.multiple or option.name == "folders"
    of_text = isinstance(value, list) and all(isinstance(one, str) for one in value)
    plain = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    if not (of_text if several and not isinstance(value, str) else plain):
        raise ConfigError(f"{where}: text, a number, or for several a list or mapping of texts")
    if isinstance(value, list) and not option.multiple:
        return "".join(one + _BETWEEN for one in value)
    return value if option.multiple else str(value)


@click.command()
@click.argument("source")
@click.option(
    "--config",
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_configured,
    help="YAML with any of these options, as `folders: {work: Work, spam: Junk}`.",
)
@click.option(
    "--folders",
    metavar="LABEL=FOLDER,...",
    callback=_pairs,
    help="Folders that are classes, the inbox among them if it is one (?=INBOX for none). Default: "
    "spam=Junk,ham=INBOX.",
)
@click.option("--spam-folder", metavar="NAME", help="Short for --folders spam=NAME,ham=INBOX.")
@click.option(
    "--folder",
    "others",
    multiple=True,
    metavar="NAME",
    help="Another folder where mail may be moved to; default: all but Trash, Sent and Drafts.",
)
@click.option(
    "--unsure", metavar="FOLDER", help="Where mail goes that could be of several classes."
)
@click.option(
    "--pin",
    "pinned",
    multiple=True,
    metavar="ADDRESS=FOLDER",
    callback=_senders,
    help="A sender (or @DOMAIN) whose mail belongs there, whatever is in it; nothing is learned.",
)
@click.option(
    "--never",
    multiple=True,
    metavar="ADDRESS",
    callback=_senders,
    help="A sender (or @DOMAIN) whose mail is never moved.",
)
@click.option("--create", is_flag=True, help="Make folders that are missing.")
@click.option(
    "--move", is_flag=True, help="Move mail to the folder of its class; else only say so."
)
@click.option("--existing", is_flag=True, help="Classify what lies in the inbox already, too.")
@click.option(
    "--ham-after",
    type=FiniteRange(0),
    metavar="DAYS",
    help="Take for ham what lies read in the inbox for so long. Default: never.",
)
@click.option(
    "--every",
    type=FiniteRange(0.1, 86400),
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
    once: bool,
) -> None:
    """Watch SOURCE, a Maildir or imap://USER@HOST: classify new mail, learn its owner's moves.

    Each folder that --folders names is a class. What is moved into it is learned as that class;
    moved from one to another, it is corrected; moved back to the inbox, what was said is taken
    back, or where nothing was, it is learned as the inbox's class (ham). Out of the folder of spam,
    to wherever, means the same. Moves to the bin teach nothing, nor do other moves.

    Nothing is moved without --move, nor into the folder of a class that was predicted correctly too
    rarely so far (`streamnb status` shows the counts). What was done while nobody watched is
    noticed at the next look. It ends with SIGTERM.

    \b
    Example:
      streamnb watch ~/Maildir --spam-folder Junk
      streamnb watch imaps://ann@mail.example.org --move --password-command 'pass show mail'
      streamnb watch ~/Maildir --folders work=Work,spam=Junk --unsure Look --move --create
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.mailbox.watch.watcher import Watcher

    if folders is not None and spam_folder is not None:
        raise click.UsageError("--folders and --spam-folder say the same")
    if twice := set(pinned) & set(never):
        raise ConfigError(f"--pin and --never: {sorted(twice)[0]} is in both")
    stopped: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: stopped.append(number))
    with open_mailbox(create=True) as mailbox:
        account, inbox = account_of(source)
        with closing(account):
            plan = _plan(account, inbox, folders or {spam_folder or "Junk": "spam"}, unsure, pinned)
            plan = dataclasses.replace(
                plan,
                others=tuple(map(account.canonical, others)),
                move=move,
                ham_after=None if ham_after is None else ham_after * 86400,
                existing=existing,
                pinned={**plan.pinned, **never},
            )
            if create:
                for folder in set(plan.all_folders) - {inbox}:
                    account.make(folder)
            watcher = Watcher(mailbox, account, plan, _say, lambda: bool(stopped))
            _run(watcher, account, every, once, stopped, bool(others))
    if stopped:
        _say("stopped")


def _plan(
    account: Account,
    inbox: str,
    folders: dict[str, str],
    unsure: str | None,
    pinned: dict[str, str],
) -> Plan:
    """Which folder is which class, each by the one name that the account has for it."""
    from streamnb.mailbox.watch.plan import Plan

    name = account.canonical
    inbox = name(inbox)
    classes: dict[str, str] = {}
    for folder, label in folders.items():
        if classes.setdefault(name(folder), label) != label:
            raise ConfigError(f"{folder}: the folder of two classes")
    ham = classes.pop(inbox, "ham")
    look = None if unsure is None else name(unsure)
    if look == inbox or look in classes:
        raise ConfigError(f"--unsure {unsure}: a folder of its own, not the inbox or a class")
    if ham == "spam" or not classes:
        raise ConfigError("the inbox is the folder of new mail: name another one for spam")
    return Plan(
        inbox,
        classes,
        ham=None if ham == "?" else ham,
        unsure=look,
        pinned={address: name(folder) for address, folder in pinned.items()},
    )


def _say(line: str) -> None:
    click.echo(printable(f"{datetime.now():%F %T} {line}"))


def account_of(source: str) -> tuple[Account, str]:
    """An account, and its inbox."""
    if is_server(source):
        from streamnb.mailbox.watch.access import address_of
        from streamnb.mailbox.watch.imap import ImapAccount

        address = address_of(source)
        return ImapAccount(address, access_of(source)), address.folder
    from streamnb.mailbox.watch.maildir import INBOX, MaildirAccount

    return MaildirAccount(os.path.expanduser(source)), INBOX


def _run(
    watcher: Watcher, account: Account, every: float, once: bool, stopped: list[int], fixed: bool
) -> None:
    """Look, wait, look again; also where the connection was lost, or a folder is not there."""
    from streamnb.mailbox.rebuild import is_due, rebuild
    from streamnb.mailbox.watch.watcher import pause

    seconds = 0.0
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
                _say(f"watching {account.name}: {', '.join(watcher.plan.all_folders)}")
                _say_waiting(watcher)
            looked, seconds = True, 0.0
            if once:
                return
            account.wait(watcher.plan.inbox, every, lambda: bool(stopped))
        except (MailServerError, BusyError, OutputError, CorpusError, OSError) as error:
            if once or not looked:
                raise
            seconds = min(max(2 * seconds, 1.0), _LONGEST)
            why = describe_os_error(error) if isinstance(error, OSError) else error
            _say(f"{why}; again in {seconds:g} s")
            pause(seconds, lambda: bool(stopped))


def _say_waiting(watcher: Watcher) -> None:
    """Say why nothing is moved yet, where that is so."""
    with watcher.mailbox.reading():
        ready = watcher.mailbox.classifier.is_ready
        known = {str(label): ready(label) for label in watcher.mailbox.labels}
    waiting = [label for label in watcher.plan.folders.values() if not known.get(label, False)]
    if waiting and watcher.plan.move:
        _say(
            f"not ready to move {', '.join(waiting)} yet: each must first have been predicted "
            "correctly often enough (streamnb status shows the counts)"
        )
