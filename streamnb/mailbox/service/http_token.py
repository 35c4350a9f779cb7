"""The secret tokens of HTTP, in files next to the databases."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress

from streamnb.errors import OutputError, convert_os_errors
from streamnb.mailbox.location import companion_path
from streamnb.storage import replace_file


def database_token(database: str | os.PathLike[str]) -> str:
    """Return the secret token for access to a database over HTTP. The first call creates it.

    The token is in a file next to the database, readable only by its owner.
    """
    path = companion_path(database, ".token")
    with convert_os_errors(OutputError, f"{path}: the token cannot be stored", ValueError):
        os.makedirs(os.path.dirname(os.path.abspath(path)), mode=0o700, exist_ok=True)
        if not os.path.lexists(path):
            with (
                suppress(FileExistsError),  # another process has created it
                replace_file(path, "the token", private=True, is_new=True) as new_file,
            ):
                new_file.write(f"{secrets.token_urlsafe(32)}\n".encode())
        with open(path, encoding="ascii") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise OutputError(f"{path}: other users can read the token; run: chmod 600 {path}")
            token = file.read(200).strip()
    if len(token) < 20:
        raise OutputError(f"{path}: the file has no token; remove the file, then try again")
    return token
