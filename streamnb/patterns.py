"""Regular expressions that are compiled when they are first used.

A mail server can start `streamnb` for each message. Python takes up to a millisecond to compile a
regular expression, and most messages need only a few of them.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _LazyPattern:
    """Compiles a pattern at the first use of an attribute, and caches the attribute."""

    def __init__(self, pattern: Any, flags: int) -> None:
        self._arguments = pattern, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._arguments), name)  # `re` caches the compiled pattern
        setattr(self, name, value)
        return value


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a regular expression that is compiled at its first use.

    Examples
    --------
    >>> from streamnb.patterns import lazy_pattern
    >>> lazy_pattern("[a-z]+").match("offer 1")[0]
    'offer'
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))
