"""Sources of messages as commands name them, mail servers included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from streamnb.cli.options import combine_options, shared_value, shared_option
from streamnb.errors import CorpusError

if TYPE_CHECKING:
    from streamnb.mailbox.sources import Found
    from streamnb.mailbox.watch.access import Access


# Add what a mail server asks for, for `access_of`.
server_options = combine_options(
    shared_option("--password-command", metavar="COMMAND", help="Prints the password of imap://."),
    shared_option(
        "--password-file",
        metavar="FILE",
        help="Holds it; nobody else may read it. Else STREAMNB_PASSWORD, else the keyring.",
    ),
    shared_option("--ca-file", metavar="FILE", help="Certificates to trust besides the system's."),
    shared_option(
        "--plaintext", is_flag=True, help="Speak to imap:// without TLS (on this machine only)."
    ),
)


binary_option = click.option(
    "--binary", is_flag=True, help="Take what has no header and is no text for a message, too."
)


def is_server(name: str) -> bool:
    """Whether a source is a mail server's."""
    return name.startswith(("imap://", "imaps://"))


def access_of(*names: str) -> Access:
    """How to reach servers; ConfigError where one of the addresses is none."""
    from streamnb.mailbox.watch.access import Access, address_of

    for name in filter(is_server, names):
        address_of(name)
    given = ("password_command", "password_file", "ca_file", "plaintext")
    return Access(*map(shared_value, given))


def sources(names: Iterable[str], binary: bool = True) -> Iterator[Found]:
    """The messages of all sources; what is none is an error, unless `binary` is wanted."""
    from streamnb.mailbox.sources import is_binary, messages

    for name in names:
        if is_server(name):
            from streamnb.mailbox.watch.imap import folder_messages

            yield from folder_messages(name, access_of(name))
            continue
        for found in messages(name):
            if not binary and isinstance(found.content, bytes) and is_binary(found.content):
                why = "not a message: it has no header, and is no text; --binary takes it as one"
                yield found._replace(content=CorpusError(f"{found.name}: {why}"))
            else:
                yield found
