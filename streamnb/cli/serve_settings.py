"""The settings of `streamnb serve`, and the rules for its options."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

import click

from streamnb.cli import options
from streamnb.mailbox.service.sockets import Network

MAIL_KINDS = ("lmtp", "smtp")
KINDS = (*MAIL_KINDS, "milter", "http")
# An option, and the option that it needs.
_NEEDS = (
    ("--lmtp or --smtp", "--next"),
    ("--next", "--lmtp or --smtp"),
    ("--certificate", "--key"),
    ("--key", "--certificate"),
    ("--certificate", "--lmtp or --smtp"),
    ("--trust", "--lmtp or --smtp"),
    ("--reject", "--milter"),
    ("--reject-text", "--reject"),
    ("--threshold", "--lmtp, --smtp or --milter"),
    ("--costs", "--lmtp, --smtp or --milter"),
    ("--full-address", "--users"),
    ("--aliases", "--users"),
    ("--delimiter", "--users"),
    ("--host-name", "--http"),
    ("--model", "--http"),
)
# An option, and what it excludes.
_EXCLUDES = (
    ("--users", "--db or --user"),
    ("--model", "--lmtp or --smtp"),
    ("--model", "--milter"),
    ("--model", "--users"),
)


def check_options(is_set: dict[str, bool]) -> None:
    """Raise UsageError if an option lacks another one, or two exclude each other."""
    for name, needed in _NEEDS:
        if is_set[name] and not is_set[needed]:
            raise click.UsageError(f"{name} needs {needed}")
    for name, excluded in _EXCLUDES:
        if is_set[name] and is_set[excluded]:
            raise click.UsageError(f"{name} excludes {excluded}; remove {excluded}")


class Settings(NamedTuple):
    """The options of `serve`, by the names of its parameters."""

    lmtp: str | None
    smtp: str | None
    hop: str | None
    milter: str | None
    reject: float | None
    reject_text: str | None
    http: str | None
    host_name: tuple[str, ...]
    model: str | None
    users: bool
    full_address: bool
    aliases: str | None
    delimiter: str | None
    certificate: str | None
    key: str | None
    trust: tuple[Network, ...]
    per_address: int | None
    log_format: str | None

    @property
    def addresses(self) -> dict[str, str | None]:
        """The addresses to listen on, by kind of listener."""
        return {name: getattr(self, name) for name in KINDS}

    def is_set(self, passed: Container[str]) -> dict[str, bool]:
        """Return which options are given on the command line or by a socket of systemd."""
        values = {f"--{name}".replace("_", "-"): value for name, value in self._asdict().items()}
        is_set = {name: value not in (None, False, ()) for name, value in values.items()}
        mail = any(getattr(self, name) or name in passed for name in MAIL_KINDS)
        milter = bool(self.milter or "milter" in passed)
        return is_set | {
            "--lmtp or --smtp": mail,
            "--milter": milter,
            "--lmtp, --smtp or --milter": mail or milter,
            "--threshold": options.shared_value("threshold") is not None,
            "--costs": options.shared_value("costs") is not None,
            "--http": bool(self.http or "http" in passed),
            "--next": self.hop is not None,
            "--db or --user": options.shared_value("db") is not None,
        }
