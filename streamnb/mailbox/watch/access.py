"""How to reach a mail server: its address, and where the password is."""

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


class Address(NamedTuple):
    """A mail server's account, and a folder of it.

    Attributes
    ----------
    tls
        Whether the connection begins with TLS (imaps://); else it is upgraded by STARTTLS.
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


def address_of(url: str) -> Address:
    """Take an imap:// or imaps:// address apart.

    Examples
    --------
    >>> address_of("imaps://ann%40example.org@mail.example.org/Spam%20box")[:3]
    ('ann@example.org', 'mail.example.org', 993)
    >>> address_of("imap://ann@localhost").folder
    'INBOX'
    """
    if ":" in url.partition("://")[2].rpartition("@")[0]:
        raise ConfigError(
            "a password on the command line can be read by everybody on this machine: use "
            "--password-command, --password-file, STREAMNB_PASSWORD or the keyring"
        )
    try:
        parts = urlsplit(url)
        tls = parts.scheme == "imaps"
        port = parts.port or (993 if tls else 143)
    except ValueError as error:
        raise ConfigError(f"{url!r:.200}: not an address ({error})") from None
    if not parts.username or not parts.hostname:
        raise ConfigError(f"{url!r:.200}: expected imap://USER@HOST/FOLDER (%40 for @ in USER)")
    folder = unquote(parts.path.removeprefix("/")) or "INBOX"
    user = unquote(parts.username)
    if any(ord(c) < 32 for c in folder + user):
        raise ConfigError(f"{url!r:.200}: a control character")
    return Address(user, parts.hostname, port, tls, folder)


@dataclass(frozen=True)
class Access:
    """Where the password is, and whom to trust.

    Attributes
    ----------
    password_command
        A command that prints the password.
    password_file
        A file that holds it, readable by its owner alone.
    ca_file
        Certificates to trust besides the system's.
    plaintext
        Whether to do without TLS, which only this machine itself may be spoken to.
    """

    password_command: str | None = None
    password_file: str | None = None
    ca_file: str | None = None
    plaintext: bool = False

    def context(self) -> ssl.SSLContext:
        """How TLS is spoken."""
        context = ssl.create_default_context()
        if self.ca_file:
            try:
                context.load_verify_locations(cafile=self.ca_file)
            except OSError as error:
                why = error.strerror or "it holds no certificate"
                raise ConfigError(f"{self.ca_file}: cannot be used: {why}") from None
        return context

    def password(self, address: Address) -> str:
        """The password; ConfigError where it cannot be had."""
        if self.password_command:
            return _of_command(self.password_command)
        if self.password_file:
            return _from_file(self.password_file)
        known = os.environ.get("STREAMNB_PASSWORD") or _of_keyring(address)
        if known is None:
            raise ConfigError(
                f"{address.name}: no password: use --password-command, --password-file, "
                f"STREAMNB_PASSWORD, or `keyring set streamnb {address.user}@{address.host}`"
            )
        return known


def _of_command(command: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 (what its owner says, and no shell)
            shlex.split(command), stdout=subprocess.PIPE, check=True, timeout=60
        )
        return _line(done.stdout, "--password-command")
    except subprocess.CalledProcessError as error:
        raise ConfigError(f"--password-command: exit status {error.returncode}") from None
    except subprocess.TimeoutExpired:
        raise ConfigError("--password-command: it did not end within a minute") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"--password-command: {root_cause(error)}") from None


def _from_file(path: str) -> str:
    with (
        convert_os_errors(ConfigError, f"{path}: the password cannot be read", ValueError),
        open(path, "rb") as file,
    ):
        status = os.fstat(file.fileno())
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise ConfigError(f"{path}: others can read the password: chmod 600 it")
        return _line(file.read(4096), path)


def _line(data: bytes, where: str) -> str:
    first = data.decode("utf-8", "strict").split("\n", 1)[0].rstrip("\r")
    if not first:
        raise ConfigError(f"{where}: no password on its first line")
    return first


def _of_keyring(address: Address) -> str | None:
    try:
        import keyring
        import keyring.errors
    except ImportError:
        return None
    try:
        found: str | None = keyring.get_password("streamnb", f"{address.user}@{address.host}")
    except keyring.errors.NoKeyringError:
        return None
    except keyring.errors.KeyringError as error:
        raise MailServerError(f"the keyring cannot be asked: {error}") from None
    return found
