"""The map from mail addresses to users: by local part or whole address, and by aliases."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterable
from contextlib import suppress

from streamnb.errors import ConfigError, convert_os_errors
from streamnb.mailbox.location import user_path
from streamnb.mailbox.watched_file import WatchedFile
from streamnb.patterns import lazy_pattern

_LARGEST = 64 << 20  # limit in bytes of a file of aliases
DELIMITERS = "+"  # characters that begin an extension, as Postfix's recipient_delimiter
# a quoted local part with the same meaning without quotation marks (RFC 5321, 4.1.2)
_NEEDLESSLY_QUOTED = lazy_pattern(r"\"((?:[\w!#$%&'*+/=?^`{|}~-]|\.(?!\.))+)\"")


def split_address(address: str) -> tuple[str, str]:
    """Return the canonical local part and domain of an address.

    They are in lower case and NFC, without unnecessary quotation marks, route or final dot. The
    domain is in ASCII; it is "" if the address has none.

    Examples
    --------
    >>> split_address('"Ann"@Example.org.'), split_address("ann@bücher.example")
    (('ann', 'example.org'), ('ann', 'xn--bcher-kva.example'))
    """
    local_part, separator, domain = unicodedata.normalize("NFC", address.lower()).rpartition("@")
    if not separator:
        local_part, domain = domain, ""
    if local_part.startswith("@"):  # a route: RFC 5321, appendix C
        local_part = local_part.partition(":")[2]
    local_part = _NEEDLESSLY_QUOTED.sub(r"\1", local_part) if '"' in local_part else local_part
    domain = domain.removesuffix(".")
    if not domain.isascii():
        with suppress(UnicodeError):
            domain = domain.encode("idna").decode("ascii")
    return local_part, domain


def canonical_address(text: str) -> str:
    """Return an address, ``@DOMAIN`` or user in its canonical form (see `split_address`).

    Examples
    --------
    >>> canonical_address("Ann@Bücher.example"), canonical_address("@Bücher.example")
    ('ann@xn--bcher-kva.example', '@xn--bcher-kva.example')
    """
    name, domain = split_address(text)
    return f"{name}@{domain}" if domain else name


class AddressBook:
    """The map from mail addresses to users.

    Parameters
    ----------
    whole_address
        Whether a user is named by the whole address, not by its local part.
    delimiters
        Characters that begin the extension of a local part.
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
        delimiters: str = DELIMITERS,
    ) -> None:
        self.whole_address = whole_address
        self.delimiters = delimiters
        self._aliases = None if aliases is None else WatchedFile(aliases, read_aliases, warn)

    @property
    def is_stale(self) -> bool:
        """Return whether the file of aliases has changed and cannot be read."""
        return self._aliases is not None and self._aliases.is_stale

    def user(self, address: str) -> str:
        """Return the user of an address.

        The extension of the local part and the case of letters are ignored, unless an alias or a
        database has the whole name. An alias of the address takes precedence over one of its
        domain.

        Examples
        --------
        >>> AddressBook().user("Ann+lists@example.org")
        'ann'
        >>> AddressBook(whole_address=True).user("Ann+lists@example.org")
        'ann@example.org'
        """
        local_part, domain = split_address(address)
        base = self._without_extension(local_part)
        names = dict.fromkeys((local_part, base))  # a single name without an extension
        aliases = {} if self._aliases is None else self._aliases.content
        user = _first(aliases, names, domain)
        if user is None:
            user = aliases.get(f"@{domain}", "")
            if user.startswith("@"):
                domain = user[1:]
                user = _first(aliases, names, domain)
        if user:
            return user
        ending = f"@{domain}" if self.whole_address and domain else ""
        if base != local_part and _has_database(f"{local_part}{ending}"):
            return f"{local_part}{ending}"
        return f"{base}{ending}"

    def _without_extension(self, local_part: str) -> str:
        """Return a local part up to its first delimiter after the first character."""
        ends = (local_part.find(mark, 1) for mark in self.delimiters)
        return local_part[: min((end for end in ends if end > 0), default=len(local_part))]

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
        return text if _has_database(text) else self.user(text)


def _first(aliases: dict[str, str], names: Iterable[str], domain: str) -> str | None:
    """Return the user of the first address that is an alias; None if there is none."""
    addresses = (f"{name}@{domain}" for name in names)
    return next((aliases[address] for address in addresses if address in aliases), None)


def _has_database(user: str) -> bool:
    with suppress(ConfigError):  # not a user's name
        return os.path.exists(user_path(user))
    return False


def read_aliases(path: str) -> dict[str, str]:
    """Read a file of aliases.

    A line has an address and its user, or ``@DOMAIN`` and a user or another ``@DOMAIN``. Empty
    lines and lines that begin with ``#`` are skipped.

    Raises
    ------
    ConfigError
        If the file cannot be read, or a line has another form.
    """
    with (
        convert_os_errors(ConfigError, f"--aliases {path}: cannot be read"),
        open(path, "rb") as file,
    ):
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
        words = [canonical_address(word) for word in words]
        if words[0] in aliases:
            raise ConfigError(f"{path}:{number}: {words[0]:.100} occurs twice")
        if words[1].startswith("@") and not words[0].startswith("@"):
            raise ConfigError(
                f"{path}:{number}: an address cannot be mapped to a whole domain; name a user"
            )
        aliases[words[0]] = words[1]
    return aliases
