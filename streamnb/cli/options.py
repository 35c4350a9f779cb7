"""Options that commands share, and how they open a mailbox."""

from __future__ import annotations

import json
import math
import os
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from unicodedata import normalize

import click

from streamnb.errors import ConfigError, StateError, StreamNBError, message_count, printable
from streamnb.mailbox.location import base_path, default_path, user_name, user_path
from streamnb.mailbox.service.client import MailboxClient
from streamnb.mailbox.service.response import JudgeOptions
from streamnb.patterns import lazy_pattern

if TYPE_CHECKING:
    from streamnb.classifier import Classifier
    from streamnb.mailbox.mailbox import Mailbox


class WholeRange(click.IntRange):
    """A whole number within a range."""

    name = "integer"  # in the help, and in the error for other text


class AnyText(click.types.StringParamType):
    """A text that may be empty."""


class FiniteRange(click.FloatRange):
    """A number within a range, which excludes NaN."""

    name = "number"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Return the number; fail if it is not finite."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return float(number)


class MailCommand(click.Command):
    """A command for mail programs, with a separate exit status for wrong options."""

    usage_status = 3

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the options; a wrong one raises UsageError with `usage_status`."""
        with self._own_status():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, with the work of `on_usage_error` if options exclude each other."""
        with self._own_status():
            return super().invoke(ctx)

    @contextmanager
    def _own_status(self) -> Iterator[None]:
        try:
            yield
        except click.UsageError as error:
            error.exit_code = self.usage_status  # type: ignore[misc]  # of this error alone
            self.on_usage_error()
            raise

    def on_usage_error(self) -> None:
        """Do the work that must be done even with wrong options; nothing by default."""


Command = TypeVar("Command", bound=Callable[..., Any])


class Decorator(Protocol):
    """Adds options to a command."""

    def __call__(self, command: Command, /) -> Command:
        """Return the command with the options."""
        ...


json_option: Decorator = click.option(
    "--json", "as_json", is_flag=True, help="Print one line of JSON for each message."
)
json_object_option: Decorator = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object."
)
quiet_option: Decorator = click.option("--quiet", is_flag=True, help="Print only errors.")
on_error_option: Decorator = click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    help="Action for a message or row that cannot be read. An empty text is not an error.",
)


def combine_options(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return one decorator for several options; the help lists them in reverse order."""

    def add_options(command: Command) -> Command:
        for option in options:
            command = option(command)
        return command

    return add_options


def echo_err(line: object) -> None:
    """Print a line on standard error, if that can be written.

    A full disk of a log must not stop a command or a server.
    """
    with suppress(OSError):
        click.echo(printable(str(line)), err=True)


def notify(line: object) -> None:
    """Print a notice on standard error, after the name of the program."""
    echo_err(f"streamnb: {line}")


def echo_result(as_json: bool, result: dict[str, Any], text: str) -> None:
    """Print the result of a command as one JSON object, or as a line of text."""
    click.echo(json.dumps(result) if as_json else printable(text))


_MAX_DIGITS = 28  # digits of an integer whose spellings are compared; decimal's own precision
_MODEL_HEAD = b"PK"  # the first bytes of a model file, a ZIP archive
_INVISIBLE = lazy_pattern("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]")
_SEPARATORS = lazy_pattern(r"(?<=\w)[\s_-]+(?=\w)")


def _as_number_text(name: str) -> str:
    """Return an integer without leading zeros or zero decimals; return other text unchanged.

    Examples
    --------
    >>> [_as_number_text(name) for name in ("01", "1.0", "1.10", "12345678901234567")]
    ['1', '1', '1.10', '12345678901234567']
    """
    with suppress(InvalidOperation):
        value = Decimal(name)
        is_short = value.is_finite() and abs(value.adjusted()) < _MAX_DIGITS
        if is_short and value == value.to_integral_value():
            return str(int(value))
    return name


# A label is rare if another one has this many times its messages. At half the value, rare but
# correct labels are noticed more often. At twice the value, misspellings in small data are missed.
_RARE_RATIO = 100
# Lengths of labels that can be misspellings; shorter ones are often alike.
_MIN_TYPO_LENGTH, _MAX_TYPO_LENGTH = 4, 64


def _common_length(first: str, second: str) -> int:
    """Return the length of the longest common beginning."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))


def _shortened(name: str) -> set[str]:
    """Return a name, and the name without each of its letters. Typos share one of these."""
    return {name, *(name[:i] + name[i + 1 :] for i in range(len(name)))}


def _is_typo(name: str, spelling: str) -> bool:
    """Return whether two names differ by one letter, or by two that are exchanged.

    Examples
    --------
    >>> [_is_typo(name, "spam") for name in ("spma", "spamm", "sam", "span", "pams", "spam2")]
    [True, True, True, True, False, False]
    """
    start = _common_length(name, spelling)
    end = _common_length(name[start:][::-1], spelling[start:][::-1])
    first, second = name[start : len(name) - end], spelling[start : len(spelling) - end]
    is_exchange = len(first) == 2 and first == second[::-1]
    return (is_exchange or max(len(first), len(second)) == 1) and (first + second).isalpha()


def notify_doubtful_labels(counts: Mapping[Any, float]) -> None:
    """Print a notice for labels that are probably misspelt, given the messages of each label."""
    totals: dict[str, float] = {}
    for label, count in counts.items():
        totals[str(label)] = totals.get(str(label), 0) + count
    names = [name for name in totals if _MIN_TYPO_LENGTH <= len(name) <= _MAX_TYPO_LENGTH]
    frequent: dict[str, list[str]] = {}  # by each of their `_shortened` forms
    for name in names:
        for form in _shortened(name) if totals[name] >= _RARE_RATIO else ():
            frequent.setdefault(form, []).append(name)
    for name in names:
        limit = _RARE_RATIO * totals[name]
        spellings = sorted({each for form in _shortened(name) for each in frequent.get(form, ())})
        near = [each for each in spellings if totals[each] >= limit > 0 and _is_typo(name, each)]
        if near:
            messages = message_count(round(totals[name]))
            notify(
                f"the label {name!r} ({messages}) may be a misspelling of {near[0]!r} "
                f"({totals[near[0]]:,.0f}); if so, correct it in the data"
            )
    _notify_similar_labels(totals)


def _notify_similar_labels(labels: Iterable[str]) -> None:
    """Print a notice for classes that are probably two spellings of one name."""
    spellings: dict[str, dict[str, str]] = {}
    for name in sorted(labels):
        look = _INVISIBLE.sub("", normalize("NFKC", name))
        key = _as_number_text(_SEPARATORS.sub(" ", look.casefold()))
        spellings.setdefault(key, {})[name] = look
    for looks in spellings.values():
        if len(looks) > 1:
            is_visible = len(set(looks.values())) == len(looks)
            notify(
                f"{', '.join(looks if is_visible else map(ascii, looks))} are different classes, "
                "though their names differ only in case, blanks, hyphens, characters that look the "
                "same, or the way a number is written; if they are one class, use the same "
                "spelling in all labels"
            )


def _check_plot(ctx: click.Context, param: click.Parameter, path: str | None) -> str | None:
    """Check the file name of --plot before the command begins to work."""
    if path is not None:
        from streamnb.pictures import check_target

        check_target(path, "--plot ")
    return path


def plot_option(subject: str) -> Callable[[Command], Command]:
    """Return the option `--plot FILE`; the parameter of the command is `plot`."""
    summary = f"Draw {subject}: .svg, .pdf or .png."
    return click.option("--plot", metavar="FILE", callback=_check_plot, help=summary)


def notify_missing_letters(plot: str, missing: bool) -> None:
    """Print a notice if the font of a picture lacks letters, which are then boxes."""
    if missing:
        notify(f"{plot}: matplotlib's font lacks letters of the labels or tokens; draw to .svg")


def set_option(example: str) -> Callable[[Command], Command]:
    """Return the option `--set KEY=VALUE`; the parameter of the command is `settings`."""
    summary = f"Change a setting: {example}"
    return click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help=summary)


def check_outputs(outputs: Iterable[str | Path | None], inputs: Iterable[str | None]) -> None:
    """Raise ConfigError if an output would replace a file that the command reads.

    Parameters
    ----------
    outputs
        Files that the command writes; None and "-" are ignored.
    inputs
        Files and folders that it reads; None and "-" are ignored. An output in a folder may
        replace a file that is not read.
    """
    read_paths = [path for path in inputs if path is not None and os.path.exists(path)]
    for output in outputs:
        if output is None or not os.path.isfile(output):
            continue
        if any(_is_read(output, path) for path in read_paths):
            raise ConfigError(
                f"{output}: the command reads this file, and its output would replace it; choose "
                "another name for the output"
            )


def _is_read(output: str | Path, path: str) -> bool:
    """Return whether an existing file is an input, or a file of a folder or index that is one."""
    from streamnb.corpus.detect import open_corpus
    from streamnb.corpus.text_files import read_head

    if os.path.samefile(output, path):
        return True
    is_inside = os.path.realpath(output).startswith(os.path.join(os.path.realpath(path), ""))
    if not is_inside and os.path.basename(path) != "index":
        return False
    try:
        corpus = open_corpus(path)
        if corpus.kind in ("trec", "folders", "maildir"):
            files = [str(corpus.path), *(entry.path for entry in corpus.entries())]
            return any(os.path.exists(file) and os.path.samefile(file, output) for file in files)
    except StreamNBError:  # `predict` reads every file of such a folder
        return not read_head(Path(output)).startswith(_MODEL_HEAD)
    with suppress(StreamNBError):  # a file that is not a table or an mbox is not read
        return open_corpus(output).kind == corpus.kind
    return False


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Store a value for `shared_value`, so commands need no parameter for it."""
    if value == "":
        raise click.BadParameter("it is empty; is a shell variable unset?", ctx, param)
    ctx.meta[f"streamnb.{param.name}"] = value


def shared_value(name: str) -> Any:
    """Return the value of a shared option; `db` is the database of --db or --user."""
    return click.get_current_context().meta[f"streamnb.{name}"]


shared_option: Callable[..., Decorator] = partial(click.option, expose_value=False, callback=_keep)


def _keep_database(ctx: click.Context, param: click.Parameter, db: str | None) -> None:
    user = ctx.meta["streamnb.user"]
    if user is not None and db is None:
        try:
            db = user_path(user)
        except StreamNBError as error:
            raise click.BadParameter(str(error), ctx, param_hint="--user") from None
    _keep(ctx, param, db)


def site_model_path() -> str | None:
    """Return the path of the site's model, from --base or its default; None if there is none."""
    return shared_value("base") or base_path(shared_value("user"))


# Add --db, --base, --user and --wait, for `open_mailbox` and `connect`.
database_options: Decorator = combine_options(
    shared_option(
        "--wait",
        metavar="SECONDS",
        type=FiniteRange(0, 3600),
        default=10.0,
        show_default=True,
        help="Time to wait while another process writes; then exit status 75.",
    ),
    shared_option(
        "--user",
        metavar="NAME",
        is_eager=True,
        help="Use the database NAME.db in STREAMNB_USERS, or in streamnb/users of your data "
        "folder.",
    ),
    shared_option(
        "--base",
        metavar="FILE",
        help="The shared model or database of the site. Its scores and those of your database are "
        "added. Default: STREAMNB_BASE. "
        "With --user: site.snb in the users' folder, or site.db if it is missing.",
    ),
    shared_option(
        "--db",
        metavar="FILE",
        callback=_keep_database,
        help="The database. Default: STREAMNB_DB, or streamnb/mail.db in your data folder.",
    ),
)


# Add the options of decisions, for `current_judge_options`.
judge_options: Decorator = combine_options(
    shared_option(
        "--costs",
        type=(FiniteRange(0), FiniteRange(0), FiniteRange(0)),
        metavar="ALARM MISS UNSURE",
        help="Costs of a false alarm, a missed spam and an unsure verdict. Default: the costs "
        "stored with the model; a new database stores 10 1 0.2.",
    ),
    shared_option(
        "--threshold",
        type=FiniteRange(0.5, 1),
        metavar="P",
        help="A verdict is sure if its probability is at least P. The costs are then ignored.",
    ),
)


def current_judge_options(reasons: int = 0) -> JudgeOptions:
    """Return the options of decisions of the command that runs."""
    return JudgeOptions(reasons, shared_value("threshold"), shared_value("costs"))


def connect(reasons: int = 0, learn: bool = False, record: bool = False) -> MailboxClient:
    """Return the client of the selected mailbox."""
    return MailboxClient(
        shared_value("db"),
        shared_value("wait"),
        current_judge_options(reasons),
        learn,
        shared_value("user"),
        record,
        site_model_path(),
    )


def open_mailbox(create: bool = False, warn: Callable[[str], None] | None = None) -> Mailbox:
    """Open the mailbox that --db or --user names; `warn` is as for `SiteModel`."""
    from streamnb.mailbox.site_model import open_with_site_model

    path = shared_value("db") or default_path()
    is_new = not os.path.exists(path)
    if is_new and not create and (user := shared_value("user")):
        raise StateError(
            f"{path}: the user has no database yet; `streamnb learn --user {user}` creates it, or, "
            "with a model of the site, the first mail to the user"
        )
    mailbox = open_with_site_model(path, create, shared_value("wait"), site_model_path(), warn)
    if is_new:
        warn_of_other_owner(mailbox.path)
    return mailbox


def warn_of_other_owner(path: str | Path) -> None:
    """Warn on standard error if root created a file in another user's folder."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        file_owner, folder_owner = os.stat(path).st_uid, os.stat(folder).st_uid
    except OSError:  # the database is on a server
        return
    if file_owner != folder_owner and file_owner == 0:
        echo_err(
            f"{path}: warning: the new database belongs to {user_name(file_owner)}, its folder to "
            f"{user_name(folder_owner)}, who cannot open it; "
            f"run: chown {user_name(folder_owner)} {shlex.quote(str(path))}"
        )


def load_classifier(path: str) -> Classifier:
    """Return the classifier of a model file, for data of the command line."""
    from streamnb.classifier import Classifier

    classifier = Classifier.load(path)
    classifier.on = None  # the data is the message itself, not a dict
    return classifier


_SPAN = lazy_pattern(r"(\d{1,9})\s*([smhdw])[a-z]*(?:\s+ago)?")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def parse_time(text: str) -> float:
    """Return a time in seconds since 1970: `2026-11-20 14:30`, or `2h` for two hours ago."""
    span = _SPAN.fullmatch(text.strip().lower())
    try:
        if span:
            time_s = time.time() - int(span[1]) * _SECONDS[span[2]]
        else:
            time_s = datetime.fromisoformat(text.strip()).timestamp()
        datetime.fromtimestamp(time_s)  # raises an error for a time out of range
        return time_s
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{text!r:.80} is not a time; write 2026-11-20, 2026-11-20T14:30, or 2h, 3d, 1w (ago)"
        ) from None
