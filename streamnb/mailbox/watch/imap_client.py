"""An IMAPClient that reads the answers of servers that differ from RFC 3501."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import imapclient

# An answer to LIST: attributes, delimiter and name. The name can lack its quotes, or contain some.
# Extended data (RFC 5258) can follow.
_FOLDER = re.compile(
    rb' *(?:\(([^)]*)\)|NIL) +(?:"(.*?)"|NIL) +(.+?)(?: \("[A-Z-]+" .*\))?', re.I | re.S
)
_MAX_LINE = 8192  # bytes; the time of the pattern is quadratic


class TolerantClient(imapclient.IMAPClient):  # type: ignore[misc]
    """IMAPClient, with answers of LIST and SEARCH line by line, and folder names of 8 bits."""

    def _proc_folder_list(self, folder_data: Iterable[Any]) -> list[tuple[Any, Any, Any]]:
        """Return attributes, delimiter and name of each folder.

        IMAPClient parses all lines as one. So one name with a space and no quotes, as Exchange
        sends it, would hide all folders.
        """
        folders: list[tuple[Any, Any, Any]] = []
        for line in folder_data:
            try:
                parsed = super()._proc_folder_list([line])
                is_sound = len(parsed) < 2 and all(
                    None not in (flags, name) for flags, _, name in parsed
                )
            except (ValueError, TypeError, RecursionError, imapclient.exceptions.IMAPClientError):
                is_sound = False
            is_readable = isinstance(line, bytes) and len(line) <= _MAX_LINE and not is_sound
            match = _FOLDER.fullmatch(line) if is_readable else None
            if match is not None:
                name = match[3][1:-1] if match[3][:1] == b'"' == match[3][-1:] else match[3]
                parsed = [((match[1] or b"").split(), match[2], re.sub(rb"\\(.)", rb"\1", name))]
            folders += parsed if is_sound or match is not None else []
        return folders

    def _raw_command_untagged(self, command: bytes, *arguments: Any, **options: Any) -> Any:
        """Return the server's answer. IMAPClient expects that of SEARCH on one line."""
        data = super()._raw_command_untagged(command, *arguments, **options)
        return [b" ".join(b" ".join(filter(None, data)).split())] if command == b"SEARCH" else data

    def _normalise_folder(self, folder_name: str) -> Any:
        """Return a folder's name in quotes. It can have bytes that are not ASCII, as Latin-1."""
        quoted = super()._normalise_folder(folder_name)
        return quoted.encode("latin-1") if isinstance(quoted, str) else quoted
