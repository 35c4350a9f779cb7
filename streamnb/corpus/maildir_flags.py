"""Flags in the names of a Maildir's files."""

from __future__ import annotations

import re

from streamnb.patterns import lazy_pattern

# Some file systems have no ":" in names. Mail programs then write ";", "!" or "%3A", and shares of
# Windows (CIFS) a private character of Unicode.
_SEPARATOR = lazy_pattern("(?:[:;!\uf022\uf03a]|%3A)2,", re.IGNORECASE)


def split_maildir_flags(name: str) -> tuple[str, str, str]:
    """Split a Maildir file's name into its unique name, the separator and the flags.

    Separator and flags are "" if the name has none.

    Examples
    --------
    >>> split_maildir_flags("1.host:2,ST"), split_maildir_flags("1.host")
    (('1.host', ':2,', 'ST'), ('1.host', '', ''))
    """
    separator = _SEPARATOR.search(name)
    if separator is None:
        return name, "", ""
    return name[: separator.start()], separator[0], name[separator.end() :]
