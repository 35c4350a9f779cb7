"""Options that exclude each other: without the error, a command would ignore one of them."""

from __future__ import annotations

import click
from click.core import ParameterSource

# Pairs for all commands that have both options. `serve` has further rules, because systemd can
# pass its listeners.
EXCLUDES = (
    ("--db", "--user"),
    ("--threshold", "--costs"),
    ("--password-command", "--password-file"),
    ("--password-command", "--token-command"),
    ("--password-file", "--token-command"),
    ("--plaintext", "--ca-file"),
    ("--folders", "--spam-folder"),
    ("--quiet", "--details"),
    ("--redo", "--dry-run"),
    ("--redo", "--yes"),
    *(("--model", name) for name in ("--db", "--user", "--base", "--wait")),
)
# Options that need a source on a mail server.
_SERVER_OPTIONS = (
    "--password-command",
    "--password-file",
    "--token-command",
    "--ca-file",
    "--plaintext",
)


def check_options(ctx: click.Context) -> None:
    """Raise UsageError if two options of a command exclude each other, or one has no effect.

    Options of a configuration file are defaults, which options of the command line may replace.
    """
    sources: dict[str, ParameterSource | None] = {}
    arguments: list[object] = []
    for param in ctx.command.params:
        if isinstance(param, click.Argument):
            arguments.append(ctx.params.get(param.name or ""))
            continue
        source = ctx.get_parameter_source(param.name or "")
        if source in (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP):
            sources |= dict.fromkeys(param.opts, source)
    for first, second in EXCLUDES:
        if first in sources and sources[first] == sources.get(second):
            raise click.UsageError(f"{first} and {second} cannot be combined; give one of them")
    if not any(mark in str(arguments) for mark in ("imap://", "imaps://")):
        for name in _SERVER_OPTIONS:
            if name in sources:
                raise click.UsageError(f"{name} needs a source imap://USER@HOST; remove the option")
