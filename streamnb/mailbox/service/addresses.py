"""The map from mail addresses to users: by local part or whole address, and by aliases."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from streamnb.errors import ConfigError, convert_os_errors
from streamnb.mailbox.location import user_path
from streamnb.mailbox.watched_file import WatchedFile

_LARGEST = 64 << 20  # limit in bytes of a file of aliases


class AddressBook:
    """The map from mail addresses to users.

    Parameters
    ----------
    whole_address
        Whether the name of a user is the whole address, not the local part.
    aliases
        A file of aliases, read again after changes. None for no aliases.
    warn
        Called with a line if a changed file cannot be read. The earlier aliases then stay valid.

    Raises
    ------
    ConfigError
        If the file cannot be read.
    """

    def __init__(
        self,
        whole_address: bool = False,
        aliases: str | None = None,
        warn: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.whole_address = whole_address
        self._aliases = None if aliases is None else WatchedFile(aliases, read_aliases, warn)

    @property
    def is_stale(self) -> bool:
        """Return whether the file of aliases has changed and cannot be read."""
        return self._aliases is not None and self._aliases.is_stale

    def user(self, address: str) -> str:
        """Return the user of an address.

        The extension after ``+`` and the case of letters are ignored. An alias of the address
        takes precedence over one of its domain.

        Examples
        --------
        >>> AddressBook().user("Ann+lists@example.org")
        'ann'
        >>> AddressBook(whole_address=True).user("Ann+lists@example.org")
        'ann@example.org'
        """
        local_part, separator, domain = address.lower().rpartition("@")
        if not separator:
            local_part, domain = domain, ""
        local_part = local_part.partition("+")[0]
        aliases = {} if self._aliases is None else self._aliases.content
        user = aliases.get(f"{local_part}@{domain}")
        if user is None:
            user = aliases.get(f"@{domain}", "")
            if user.startswith("@"):
                domain = user[1:]
                user = aliases.get(f"{local_part}@{domain}", "")
        if user:
            return user
        return f"{local_part}@{domain}" if self.whole_address and domain else local_part

    def user_of_query(self, text: str | None) -> str | None:
        """Return the user for the name or address in a request.

        A name with ``@`` is resolved like a mail address, unless it is a user's name.

        Examples
        --------
        >>> AddressBook().user_of_query("ann@example.org"), AddressBook().user_of_query("Ann")
        ('ann', 'Ann')
        """
        if text is None or "@" not in text:
            return text
        with suppress(ConfigError):  # not a user's name
            if os.path.exists(user_path(text)):
                return text
        return self.user(text)


def read_aliases(path: str) -> dict[str, str]:
    """Read a file of aliases.

    A line has an address and its user, or ``@DOMAIN`` and a user or another ``@DOMAIN``. Empty
    lines and lines that begin with ``#`` are skipped.

    Raises
    ------
    ConfigError
        If the file cannot be read, or a line has another form.
    """
    with convert_os_errors(ConfigError, f"{path}: cannot be read"), open(path, "rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ConfigError(f"{path}: larger than {_LARGEST >> 20} MB")
    aliases: dict[str, str] = {}
    for number, line in enumerate(content.decode("utf-8", "replace").split("\n"), 1):
        words = line.lower().split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2 or "@" not in words[0]:
            raise ConfigError(
                f"{path}:{number}: not an alias: write ADDRESS USER, @DOMAIN USER or "
                "@DOMAIN @DOMAIN"
            )
        if words[0] in aliases:
            raise ConfigError(f"{path}:{number}: {words[0]:.100} occurs twice")
        if words[1].startswith("@") and not words[0].startswith("@"):
            raise ConfigError(
                f"{path}:{number}: an address cannot be mapped to a whole domain; name a user"
            )
        aliases[words[0]] = words[1]
    return aliases
