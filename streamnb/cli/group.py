"""The group of all commands: lazy imports, help, and exit statuses."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

import click

from streamnb import __version__
from streamnb.cli.option_rules import check_options
from streamnb.patterns import lazy_pattern


class _Entry(NamedTuple):
    """A command in `streamnb --help`: its module and a summary of at most 60 characters."""

    module: str
    summary: str


# A command's module is imported only when the command runs, so `--help` reads these lines.
SECTIONS: dict[str, dict[str, _Entry]] = {
    "Start here": {
        "replay": _Entry("replay", "Measure accuracy on a corpus, message by message."),
        "learn": _Entry("mailbox", "Train the mailbox with sorted messages."),
        "classify": _Entry("mailbox", "Print the class of messages."),
    },
    "Evaluate": {
        "compare": _Entry("compare", "Compare replays of one corpus, with intervals."),
        "report": _Entry("report", "Write an HTML page with charts of replays."),
        "experiment": _Entry("experiment", "Evaluate models on a table of numbers or levels."),
        "spark": _Entry("spark", "Train, score and evaluate on Spark."),
        "trec-run": _Entry("trec", "Run as a filter of the TREC spam toolkit."),
    },
    "Models": {
        "fit": _Entry("fit", "Train a model on labelled data and save it."),
        "predict": _Entry("predict", "Label new data with a saved model."),
        "evaluate": _Entry("predict", "Measure a saved model on labelled data."),
        "explain": _Entry("explain", "Show which tokens decided a message's class."),
        "top": _Entry("explain", "Show the tokens with the largest log-odds for each class."),
        "merge-models": _Entry("fit", "Merge models trained on different messages."),
    },
    "Mailbox": {
        "forget": _Entry("mailbox", "Unlearn messages."),
        "undo": _Entry("maintenance", "Undo the last changes, or all changes since a given time."),
        "filter": _Entry("delivery", "Add a message's class to its header, at delivery."),
        "watch": _Entry("watch", "Sort a mail account and learn from moved messages."),
        "verdicts": _Entry("web", "Find stored verdicts, or set how many are stored."),
    },
    "Server": {
        "serve": _Entry("serve", "Run a server: Unix socket, HTTP, SMTP, LMTP, milter."),
        "web": _Entry("web", "Show the mailbox in a browser."),
    },
    "Maintenance": {
        "status": _Entry("maintenance", "Show what the mailbox has learned and what it needs."),
        "verify": _Entry("maintenance", "Compare the database's counts with its ledger."),
        "compact": _Entry("maintenance", "Drop rare features and old history; shrink the file."),
        "recover": _Entry("maintenance", "Copy the undamaged rows of a database to a new one."),
        "upgrade": _Entry("mailbox", "Relearn the mailbox's messages with this version."),
        "export": _Entry("maintenance", "Write the mailbox to a file."),
        "import": _Entry("maintenance", "Add an export, a model or a bogofilter word list."),
        "merge": _Entry("maintenance", "Add one mailbox's database to another."),
    },
}
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}
# Names that users of other programs try, and the commands to use.
_SYNONYMS = {
    "train": ("learn", "fit"),
    "test": ("evaluate", "replay"),
    "score": ("predict", "evaluate"),
    "label": ("predict",),
    "unlearn": ("forget",),
    "info": ("status",),
    "server": ("serve",),
    "backup": ("export",),
    "restore": ("import",),
    "repair": ("recover", "verify"),
    "help": ("--help",),
}


class _HelpFormatter(click.HelpFormatter):
    """Writes headings of a help text in bold on a terminal."""

    def write_heading(self, heading: str) -> None:
        super().write_heading(click.style(heading, bold=True))


class _Context(click.Context):
    formatter_class = _HelpFormatter

    def invoke(self, *arguments: Any, **values: Any) -> Any:
        """Run the command, unless its options exclude each other."""
        check_options(self)
        try:
            return super().invoke(*arguments, **values)
        except Exception as error:
            _name_options(error, self.command)
            raise


class ContextGroup(click.Group):
    """A group whose errors of usage name the command that shows help."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command of the group. An error of usage gets the command's context."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            name = ctx.invoked_subcommand
            command = self.get_command(ctx, name or "")
            if (
                error.ctx is None and command is not None
            ):  # an error of the parser, such as an option without value
                error.ctx = click.Context(command, ctx, name)
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name; an error suggests the nearest one."""
        name, names = args[0] if args else "", self.list_commands(ctx)
        if name not in names and not name.startswith("-"):
            raise click.UsageError(f"no such command: {name!r}{_suggestion(name, names)}", ctx)
        return super().resolve_command(ctx, args)


class _Commands(ContextGroup):
    """A group that imports a command when it runs, and lists commands by section."""

    context_class: type[click.Context] = _Context

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = import_module(f"streamnb.cli.{COMMANDS[name].module}")
        name = name.replace("-", "_")
        command: click.Command = getattr(module, name, None) or getattr(module, f"{name}_")
        _prepare_command(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                for name, entry in section.items():
                    formatter.write(f"  {name:{width}}  {entry.summary}\n")

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _convert_endings():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _convert_endings():
            return super().invoke(ctx)


class _NotEmpty(click.types.StringParamType):
    """Text that is not empty, because an empty file name would be the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text; fail if it is empty."""
        if value == "":
            self.fail("it is empty; is a shell variable unset?", param, ctx)
        return super().convert(value, param, ctx)


def _prepare_command(command: click.Command) -> None:
    """Make a command, and the commands of a group, refuse empty arguments and options.

    Options with a callback check their text themselves. Headings of help texts become bold.
    """
    command.context_class = _Context
    for param in command.params:
        if param.type is click.STRING and param.callback is None:
            param.type = _NotEmpty()
    for member in getattr(command, "commands", {}).values():
        _prepare_command(member)


def _name_options(error: Exception, command: click.Command) -> None:
    """Add the command's option to each configuration key in an error: corpus.skip (--skip)."""
    from streamnb.errors import StreamNBError

    if isinstance(error, StreamNBError) and re.search(r"\b(corpus|evaluate|output)\.", str(error)):
        from streamnb.cli.replay import OPTION_KEYS

        text = str(error)
        for param in command.params:
            key = OPTION_KEYS.get(param.name or "", "")
            if "." in key:
                # A path or a file's name with a line can contain a key; in parentheses, it explains
                # an option.
                pattern = rf"(?<![\w./(-]){re.escape(key)}(?![\w./(-]|:\d)"
                text = re.sub(pattern, f"{key} ({param.opts[-1]})", text)
        error.args = (text, *error.args[1:])


def _suggestion(name: str, names: Sequence[str]) -> str:
    """Return "; did you mean ...?" for a command that does not exist."""
    synonyms = [synonym for synonym in _SYNONYMS.get(name.lower(), ()) if synonym in names]
    near = synonyms or get_close_matches(name.lower(), names, 1)
    if not near and "replay" in names and os.path.exists(name):
        return f"; to measure accuracy on a corpus: streamnb replay {name}"
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


@contextmanager
def _convert_endings() -> Iterator[None]:
    """Pass Ctrl-C and closed pipes to `main`, which reports them in place of click."""
    try:
        yield
    except KeyboardInterrupt:  # click would print an empty line
        raise click.Abort from None
    except BrokenPipeError as error:  # click would exit with status 1
        raise SystemExit(141) from error


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="streamnb")
def commands() -> None:
    """Streaming Naive Bayes for text and mail.

    \b
    Measure accuracy on a corpus:
      streamnb replay corpora/sample
    Train a model on a file, and label another file with it:
      streamnb fit tickets.csv -o tickets.snb
      streamnb predict tickets.snb new.csv --out labelled.csv
    Train your mailbox, and classify a message:
      streamnb learn spam=Maildir/.Junk ham=Maildir
      streamnb classify message.eml
    """  # noqa: D301 (\b is click's mark for preformatted lines)


_LONG_NUMBER = lazy_pattern(r"(\d{60})\d+")  # the end of the line must stay readable


def _usage_error_text(error: click.ClickException) -> str:
    """Return an error of the command line as one line, with the command that shows help."""
    from streamnb.errors import printable

    ctx = getattr(error, "ctx", None)
    message = _LONG_NUMBER.sub(r"\1...", " ".join(error.format_message().split()))
    text = printable(message).rstrip(".")
    if isinstance(error, click.NoSuchOption):
        text = f"no such option: {printable(error.option_name)}"
        options = _find_setting(error.option_name, ctx) or _close_options(error.option_name, ctx)
        if options:
            text += f"; did you mean {' or '.join(options)}?"
        elif ctx is not None and ctx.command is commands:
            text += "; options of a command come after its name"
    return text if ctx is None else f"{text} (see {ctx.command_path} --help)"


def _find_setting(name: str, ctx: click.Context | None) -> list[str]:
    """Return the option that sets what an unknown option names, in a command with --set."""
    params = {} if ctx is None else {param.name: param for param in ctx.command.params}
    word = name.strip("-").lower().replace("-", "_")
    if "settings" not in params or word in params:
        return []
    from streamnb.config import experiment, schema
    from streamnb.config.sections import find_key

    if "order" in params and word in ("seed", "random_state", "shuffle"):
        return ["--order shuffled:SEED"]
    sections = schema.SETTINGS if "order" in params else experiment.SETTINGS
    if "model_file" in params:  # a saved model has its settings
        sections = {name: sections[name] for name in ("corpus", "evaluate", "output")}
    key = find_key(word, sections)
    return [] if key is None else [f"--set {key}=VALUE"]


def _close_options(name: str, ctx: click.Context | None) -> list[str]:
    """Return the options of a command that resemble an unknown one; dashes and case are ignored."""
    letters = name.strip("-").lower().replace("_", "-")
    if ctx is None or len(letters) < 2:  # a single letter resembles every option
        return []
    options = [option for param in ctx.command.get_params(ctx) for option in param.opts]
    return get_close_matches(f"--{letters}", options, 2, cutoff=0.7)


class _Termination(SystemExit):
    """Raised on SIGTERM, so handlers remove partial files before the exit."""


def _on_sigterm(*_: Any) -> None:
    raise _Termination


def _prepare_process() -> None:
    # Without this, pydantic searches all installed packages for plug-ins, which streamnb does not
    # use.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)


def _discard_output() -> None:
    """Redirect standard output to the null device, so Python's last flush succeeds.

    Python 3.13 and newer print a traceback if that flush fails.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _report(error: BaseException) -> int:
    """Print an error as one line, and return the exit status."""
    from streamnb.errors import LIMITS, StreamNBError, UnexpectedError, describe_os_error, printable

    if type(error).__name__ == "NoArgsIsHelpError":  # click before 8.2 does not have it
        error.show()  # type: ignore[attr-defined]
        return 2
    if isinstance(error, click.ClickException):
        text, status = _usage_error_text(error), error.exit_code
    elif isinstance(error, (click.Abort, KeyboardInterrupt)):
        text, status = "interrupted", 130
    elif isinstance(error, OSError):
        _discard_output()
        text = describe_os_error(error)
        status = 3 if error.filename is not None else 1 if error.errno in LIMITS else 5
    elif isinstance(error, MemoryError):
        text, status = "out of memory; use --limit, or a tokenizer with fewer n-grams", 1
    else:
        failure = error if isinstance(error, StreamNBError) else UnexpectedError(error)
        if isinstance(failure, UnexpectedError) and os.environ.get("STREAMNB_TRACEBACK"):
            raise error
        text, status = printable(str(failure)), failure.exit_code
    click.echo(f"streamnb: {text}", err=True)
    return status


def _end_by_sigterm() -> None:
    """End by the signal, not with an exit status.

    So a mail server retries the mail, and does not return it to the sender.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    from streamnb.corpus.text_files import remove_copies

    remove_copies()  # a signal ends the process without the functions of `atexit`
    signal.raise_signal(signal.SIGTERM)


def main() -> None:
    """Run the command line. A failure is printed as one line and sets the exit status."""
    _prepare_process()
    try:
        status = commands(standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except _Termination:
        _end_by_sigterm()
        raise
    except (BrokenPipeError, SystemExit) as error:
        # Rich and `_convert_endings` raise SystemExit if the reader has closed the pipe.
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        _discard_output()
        sys.stderr.close()  # the reader closed the pipe, so no error is printed
        status = 141
    except (Exception, KeyboardInterrupt) as error:
        status = _report(error)
    sys.exit(status)
