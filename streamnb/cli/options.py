"""Options that commands share, and how they open a mailbox."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streamnb.errors import StreamNBError

if TYPE_CHECKING:
    from streamnb.mailbox.store import Mailbox


class Finite(click.FloatRange):
    """A number within a range; NaN is in none."""

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """The number that was given."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return float(number)


class MailCommand(click.Command):
    """A command that mail programs run: what is wrong with its options has its own status."""

    misused = 3

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """The options as they were given."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            error.exit_code = self.misused  # type: ignore[misc]  # of this error alone
            self.on_misuse()
            raise

    def on_misuse(self) -> None:
        """What must be done all the same."""


Command = TypeVar("Command", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, a line a message.")
on_error_option = click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    help="What to do with a message that cannot be read, or a line without label and text.",
)


def all_of(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Several options as one decorator; the last comes first in the help."""

    def decorated(command: Command) -> Command:
        for option in options:
            command = option(command)
        return command

    return decorated


def set_option(example: str) -> Callable[[Command], Command]:
    """Settings of a configuration, one by one, as `settings`."""
    told = f"Change a setting: {example}"
    return click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help=told)


_USER, _BASE = "streamnb.user", "streamnb.base"  # where the context has them


def _of_user(ctx: click.Context, param: click.Parameter, user: str | None) -> None:
    ctx.meta[_USER] = user


def _database(ctx: click.Context, param: click.Parameter, db: str | None) -> str | None:
    from streamnb.mailbox.location import user_path

    if db == "":  # a variable that is not set, perhaps
        raise click.BadParameter("it is empty", ctx, param)
    user = ctx.meta[_USER]
    if user is None:
        return db
    if db is not None:
        raise click.UsageError("--db and --user name two databases")
    try:
        return user_path(user)
    except StreamNBError as error:
        raise click.BadParameter(str(error), ctx, param_hint="--user") from None


def _of_base(ctx: click.Context, param: click.Parameter, base: str | None) -> None:
    ctx.meta[_BASE] = base


def current_base() -> str | None:
    """What --base names, or stands for it."""
    from streamnb.mailbox.location import base_path

    meta = click.get_current_context().meta
    return meta[_BASE] or base_path(meta[_USER])


def current_user() -> str | None:
    """Who --user names."""
    return click.get_current_context().meta[_USER]


# Add --db, --user and --wait; a user's database is given as `db`.
database_options = all_of(
    click.option(
        "--wait",
        type=Finite(0, 3600),
        default=10.0,
        show_default=True,
        help="Seconds to wait for another process that writes; then exit status 75.",
    ),
    click.option(
        "--user",
        metavar="NAME",
        is_eager=True,
        expose_value=False,
        callback=_of_user,
        help="One of many: the database is NAME.db in STREAMNB_USERS, else in streamnb/users.",
    ),
    click.option(
        "--base",
        metavar="FILE",
        expose_value=False,
        callback=_of_base,
        help="A model or database of the whole site, asked beside your own; else STREAMNB_BASE, "
        "or with --user site.snb or site.db beside the users' databases.",
    ),
    click.option(
        "--db",
        metavar="FILE",
        callback=_database,
        help="The database; else STREAMNB_DB, else streamnb/mail.db in your data folder.",
    ),
)


def question_options(command: Command) -> Command:
    """Add how messages are judged, as `question`."""
    from functools import wraps

    @wraps(command)
    def judged(*args: Any, threshold: float | None, costs: Any, **rest: Any) -> Any:
        from streamnb.mailbox.service.answers import Question

        return command(*args, question=Question(0, threshold, costs), **rest)

    options = all_of(
        click.option(
            "--costs",
            type=(Finite(0), Finite(0), Finite(0)),
            metavar="ALARM MISS UNSURE",
            help="What a false alarm, a missed spam and a look cost. Default: 10 1 0.2.",
        ),
        click.option(
            "--threshold",
            type=Finite(0.5, 1),
            metavar="P",
            help="Be sure of a class from this probability on, in place of the costs.",
        ),
    )
    return options(judged)  # type: ignore[return-value]


def open_mailbox(db: str | None, wait: float, create: bool = False) -> Mailbox:
    """The mailbox that --db or --user names."""
    from streamnb.mailbox.base import with_base
    from streamnb.mailbox.location import default_path

    return with_base(db or default_path(), create, wait, current_base())


_SPAN = re.compile(r"(\d{1,9})\s*([smhdw])[a-z]*(?:\s+ago)?")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def time_of(text: str) -> float:
    """A moment, in seconds since 1970: `2026-11-20 14:30`, or `2h` for two hours ago."""
    span = _SPAN.fullmatch(text.strip().lower())
    try:
        if span:
            at = time.time() - int(span[1]) * _SECONDS[span[2]]
        else:
            at = datetime.fromisoformat(text.strip()).timestamp()
        datetime.fromtimestamp(at)  # it can be shown
        return at
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{text!r:.80} is no time: say 2026-11-20, 2026-11-20T14:30, or 2h, 3d, 1w (ago)"
        ) from None
