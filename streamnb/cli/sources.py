"""Sources of messages on the command line: files, folders, standard input and mail servers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from streamnb.cli.options import Decorator, combine_options, shared_option, shared_value
from streamnb.cli.quick import TABLE_SUFFIXES
from streamnb.errors import CorpusError

if TYPE_CHECKING:
    from streamnb.mailbox.sources import SourceMessage
    from streamnb.mailbox.watch.access import Access


# Adds the options of mail servers, for `imap_access`.
server_options: Decorator = combine_options(
    shared_option(
        "--password-command",
        metavar="COMMAND",
        help="Command that prints the password for imap://.",
    ),
    shared_option(
        "--password-file",
        metavar="FILE",
        help="File with the password, readable only by you. Default: STREAMNB_PASSWORD, then the "
        "keyring.",
    ),
    shared_option(
        "--token-command",
        metavar="COMMAND",
        help="Command that prints an OAuth 2.0 access token for imap://, in place of a password. "
        "It runs before each login (XOAUTH2).",
    ),
    shared_option(
        "--ca-file",
        metavar="FILE",
        help="File of certificates to trust in addition to the system's.",
    ),
    shared_option(
        "--plaintext", is_flag=True, help="Use imap:// without TLS, on this machine only."
    ),
)


binary_option: Decorator = click.option(
    "--binary", is_flag=True, help="Also accept binary data without a header."
)


def is_imap_url(name: str) -> bool:
    """Return whether a source is on a mail server."""
    return name.startswith(("imap://", "imaps://"))


def imap_access(*names: str) -> Access:
    """Return the options of mail servers. Raise ConfigError if an imap:// address is malformed."""
    from streamnb.mailbox.watch.access import Access, parse_imap_url

    for name in filter(is_imap_url, names):
        parse_imap_url(name)
    options = ("password_command", "password_file", "ca_file", "plaintext", "token_command")
    return Access(*map(shared_value, options))


def read_sources(names: Iterable[str], binary: bool = True) -> Iterator[SourceMessage]:
    """Yield the messages of all sources; without `binary`, tables and binary data are errors."""
    from streamnb.mailbox.sources import describe_binary, messages

    for name in names:
        if is_imap_url(name):
            from streamnb.mailbox.watch.imap import folder_messages

            yield from folder_messages(name, imap_access(name))
            continue
        for message in messages(name):
            content = message.content
            problem = None
            if not binary and isinstance(content, bytes) and content:
                if message.name == name and name.lower().endswith(TABLE_SUFFIXES):
                    problem = (
                        "a table; train on it with `streamnb fit`, or add --binary to read the "
                        "file as one message"
                    )
                else:
                    problem = describe_binary(content)
            if problem:
                problem = f"{message.name}: not a message: {problem}"
                message = message._replace(content=CorpusError(problem))
            yield message
