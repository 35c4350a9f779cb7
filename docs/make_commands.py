"""A hook of mkdocs: write the section of each command from the command itself."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import click

from streamnb.cli.group import SECTIONS, commands

# Options of the commands of the mailbox, and of those that read an account.
SHARED = (
    "--db", "--base", "--user", "--wait", "--plaintext", "--ca-file", "--password-file",
    "--password-command", "--token-command",
)  # fmt: skip
MARK = "<!-- commands made from the code -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the mark in a page by all commands (mkdocs calls this for each page)."""
    return markdown.replace(MARK, "\n".join(format_commands())) if MARK in markdown else markdown


def format_commands() -> Iterator[str]:
    """Yield lines of Markdown: a table of the groups, then each command."""
    context = click.Context(commands, info_name="streamnb")
    yield "| group | commands |\n|---|---|"
    for title, section in SECTIONS.items():
        yield f"| {title} | {', '.join(f'[`{name}`](#streamnb-{name})' for name in section)} |"
    learn = commands.get_command(context, "learn")
    assert learn is not None
    yield "\n## Shared options\n"
    yield format_options([each for each in select_options(learn) if each.opts[-1] in SHARED])
    for title, section in SECTIONS.items():
        yield f"\n## {title}\n"
        for name in section:
            command = commands.get_command(context, name)
            assert command is not None
            yield from format_command(command, f"streamnb {name}")


def format_command(command: click.Command, name: str, depth: int = 3) -> Iterator[str]:
    """Yield lines of Markdown: usage, description, examples and options of a command."""
    context = click.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"{'#' * depth} {name} {{ #{name.replace(' ', '-')} }}\n"
    yield f"```sh\n{name} {usage}\n```\n"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield f"{format_paragraph(paragraph)}\n"
    options = select_options(command)
    shared = [option for option in options if option.opts[-1] in SHARED]
    yield format_options([option for option in options if option not in shared])
    if shared:
        names = ", ".join(f"`{option.opts[-1]}`" for option in shared)
        yield f"Also the [shared options](#shared-options) {names}.\n"
    if isinstance(command, click.Group):
        for each, subcommand in command.commands.items():
            yield from format_command(subcommand, f"{name} {each}", depth + 1)


def select_options(command: click.Command) -> list[click.Option]:
    """Return the options of a command that its help shows, but for --help."""
    return [
        parameter
        for parameter in command.get_params(click.Context(command))
        if isinstance(parameter, click.Option)
        and not parameter.hidden
        and "--help" not in parameter.opts
    ]


def format_paragraph(paragraph: str) -> str:
    """Return a paragraph of a help text; one that click leaves as it is becomes a code block."""
    if not paragraph.startswith("\b"):
        return escape(" ".join(paragraph.split()))
    lines = paragraph.removeprefix("\b\n").splitlines()
    title = [lines.pop(0)] if lines[0].endswith(":") else []
    return "\n".join([*title, "", "```text", inspect.cleandoc("\n".join(["", *lines])), "```"])


def format_options(options: list[click.Option]) -> str:
    """Return a table of options; "" if there are none."""
    if not options:
        return ""
    rows = map(format_option, options)
    return "\n".join(["| option | meaning | default |", "|---|---|---|", *rows, ""])


def format_option(option: click.Option) -> str:
    """Return the row of an option: names and value, meaning and range, default."""
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    value = ""
    if not option.is_flag and not option.count:
        metavar = option.make_metavar(click.Context(commands)).replace("|", "\\|")
        value = f" `{metavar.replace(' RANGE', '')}`"
    limits = ""
    if isinstance(option.type, click.IntRange | click.FloatRange):
        limits = f" From {option.type.min} to {option.type.max}." if option.type.max else ""
    default = option.default
    is_plain = isinstance(default, str | int | float) and not isinstance(default, bool)
    cells = (
        f"{names}{value}",
        f"{escape(option.help or '')}{limits}",
        f"`{default}`" if is_plain else "",
    )
    return f"| {' | '.join(cells)} |"


def escape(text: str) -> str:
    """Return text for a table or paragraph of Markdown; what stands between backticks stays."""
    pieces = re.split(r"(`[^`]*`)", text)
    pieces[::2] = (re.sub(r"([<>|*_\[\]])", r"\\\1", piece) for piece in pieces[::2])
    return "".join(pieces)
