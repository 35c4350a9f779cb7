"""Addresses of IMAP accounts, and the sources of their passwords."""

from __future__ import annotations

import os
import shlex
import ssl
import stat
import subprocess
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from streamnb.errors import ConfigError, MailServerError, convert_os_errors, root_cause


class ImapAddress(NamedTuple):
    """An account on a mail server, and a folder of it.

    Attributes
    ----------
    tls
        True if the connection begins with TLS (imaps://), False if it is upgraded by STARTTLS.
    """

    user: str
    host: str
    port: int
    tls: bool
    folder: str

    @property
    def name(self) -> str:
        """The account, without its folder."""
        return f"imap://{self.user}@{self.host}:{self.port}"


def parse_imap_url(url: str) -> ImapAddress:
    """Parse imap://USER@HOST:PORT/FOLDER, or imaps://.

    Everything after the host is the folder's name, including "?" and "#". %XX stands for a byte.

    Raises
    ------
    ConfigError
        If the text is not such an address, or contains a password.

    Examples
    --------
    >>> parse_imap_url("imaps://ann%40example.org@mail.example.org/Spam%20box")[:3]
    ('ann@example.org', 'mail.example.org', 993)
    >>> parse_imap_url("imap://ann@localhost").folder
    'INBOX'
    >>> parse_imap_url("imap://ann@localhost/Bills?#1").folder
    'Bills?#1'
    """
    scheme, _, location = url.partition("://")
    authority, _, path = location.partition("/")
    if ":" in authority.rpartition("@")[0]:
        raise ConfigError(
            "all users of this machine can read a password on the command line; use "
            "--password-command, --password-file, STREAMNB_PASSWORD or the keyring"
        )
    try:
        parts = urlsplit(f"{scheme}://{authority}")
        tls = parts.scheme == "imaps"
        port = parts.port or (993 if tls else 143)
    except ValueError as error:
        raise ConfigError(f"{url!r:.200}: not the address of an IMAP account ({error})") from None
    if not parts.username or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(f"{url!r:.200}: expected imap://USER@HOST/FOLDER (%40 for @ in USER)")
    folder = unquote(path) or "INBOX"
    user = unquote(parts.username)
    if any(ord(c) < 32 for c in folder + user):
        raise ConfigError(f"{url!r:.200}: it has a control character; remove it")
    return ImapAddress(user, parts.hostname, port, tls, folder)


@dataclass(frozen=True)
class Access:
    """The source of the password or token, and the certificates that are trusted.

    Attributes
    ----------
    password_command
        A command that prints the password.
    password_file
        A file that holds the password and that only its owner can read.
    ca_file
        Certificates that are trusted in addition to the system's.
    plaintext
        Whether to use no TLS. Only allowed for a server on this machine.
    token_command
        A command that prints an access token of OAuth 2.0, which replaces the password.
    """

    password_command: str | None = None
    password_file: str | None = None
    ca_file: str | None = None
    plaintext: bool = False
    token_command: str | None = None

    def tls_context(self) -> ssl.SSLContext:
        """Return the settings of TLS. Raise ConfigError if `ca_file` cannot be used."""
        context = ssl.create_default_context()
        if self.ca_file:
            try:
                context.load_verify_locations(cafile=self.ca_file)
            except OSError as error:
                reason = error.strerror or "it contains no certificate"
                raise ConfigError(f"{self.ca_file}: cannot be used: {reason}") from None
        return context

    def password(self, address: ImapAddress) -> str:
        """Return the password of an account.

        Raises
        ------
        ConfigError
            If no source has a password, or the source cannot be read.
        """
        if self.password_command:
            return _run_command("--password-command", self.password_command)
        if self.password_file:
            return _read_password_file(self.password_file)
        password = os.environ.get("STREAMNB_PASSWORD") or _keyring_password(address)
        if password is None:
            raise ConfigError(
                f"{address.name}: no password: use --password-command, --password-file, "
                f"STREAMNB_PASSWORD, or `keyring set streamnb {address.user}@{address.host}`"
            )
        return password

    def token(self) -> str | None:
        """Return a new access token, because tokens expire; None without `token_command`.

        Raises
        ------
        MailServerError
            If the command fails, for example because the network is down at present.
        """
        if not self.token_command:
            return None
        try:
            return _run_command("--token-command", self.token_command)
        except ConfigError as error:
            raise MailServerError(str(error)) from None


def _run_command(option: str, command: str) -> str:
    """Return the first line that a command prints, without a shell."""
    try:
        words = shlex.split(command)
        if not words:
            raise ConfigError(f"{option}: the command is empty")
        completed = subprocess.run(  # noqa: S603 (the user's own command, without a shell)
            words, stdout=subprocess.PIPE, check=True, timeout=60
        )
        return _first_line(completed.stdout, option)
    except subprocess.CalledProcessError as error:
        status = error.returncode
        ending = f"exit status {status}" if status >= 0 else f"ended by signal {-status}"
        raise ConfigError(f"{option}: {ending}") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{option}: the command did not end within 60 seconds") from None
    except OSError as error:
        raise ConfigError(f"{option}: cannot run {words[0]!r}: {root_cause(error)}") from None
    except ValueError as error:
        raise ConfigError(f"{option}: {root_cause(error)}") from None


def _read_password_file(path: str) -> str:
    with (
        convert_os_errors(ConfigError, f"{path}: the password cannot be read", ValueError),
        open(path, "rb") as file,
    ):
        status = os.fstat(file.fileno())
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise ConfigError(f"{path}: other users can read the password: run chmod 600 {path}")
        return _first_line(file.read(4096), path)


def _first_line(data: bytes, source: str) -> str:
    line = data.decode("utf-8", "strict").split("\n", 1)[0].rstrip("\r")
    if not line:
        raise ConfigError(f"{source}: its first line is empty")
    return line


def _keyring_password(address: ImapAddress) -> str | None:
    try:
        import keyring
        import keyring.errors
    except ImportError:
        return None
    try:
        password: str | None = keyring.get_password("streamnb", f"{address.user}@{address.host}")
    except keyring.errors.NoKeyringError:
        return None
    except keyring.errors.KeyringError as error:
        raise MailServerError(f"the keyring cannot be read: {error}") from None
    return password
