"""Paths of databases and of a server's socket. Functions here open nothing."""

from __future__ import annotations

import os

from streamnb.errors import ConfigError, StateError

WAIT = 10.0  # seconds to wait for a transaction of another process

_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@+-")


def is_url(path: str | os.PathLike[str]) -> bool:
    """Return whether this is the URL of a database server, not a file."""
    return os.fspath(path).startswith(("postgresql://", "postgres://"))


def identity_of(url: str) -> tuple[int, int]:
    """Return numbers that identify a database of a server, as device and inode identify a file."""
    import hashlib  # imported here because most databases are files

    digest = hashlib.sha256(url.encode("utf-8", "surrogateescape")).digest()
    return 0, int.from_bytes(digest[:6])


def companion_path(database: str | os.PathLike[str], ending: str) -> str:
    """Return a path next to a database or, for a server's database, in the data folder."""
    if not is_url(database):
        return f"{os.path.realpath(database)}{ending}"
    return f"{_data_folder()}/postgresql-{identity_of(os.fspath(database))[1]:012x}{ending}"


def _data_folder() -> str:
    data = os.environ.get("XDG_DATA_HOME")
    base = data if data and os.path.isabs(data) else os.path.expanduser("~/.local/share")
    if not os.path.isabs(base):
        raise StateError(
            "the home directory is unknown; name the database with --db or STREAMNB_DB"
        )
    return f"{base}/streamnb"


def default_path() -> str:
    """Return STREAMNB_DB, or mail.db in the user's data folder."""
    return os.environ.get("STREAMNB_DB") or f"{_data_folder()}/mail.db"


def users_folder() -> str:
    """Return the folder of the users' databases: STREAMNB_USERS, or users in the data folder."""
    return os.environ.get("STREAMNB_USERS") or f"{_data_folder()}/users"


def user_path(user: str) -> str:
    """Return the path of a user's database. The case of letters is ignored.

    Raises
    ------
    ConfigError
        If the name has other characters than letters, digits and ``._@+-``, or begins with ``.`` or
        ``-``.
    """
    if user.lower() == "site":
        raise ConfigError("'site' is the name of the site's model and cannot be a user")
    if not user or len(user) > 200 or user[0] in ".-" or not _NAME.issuperset(user):
        raise ConfigError(
            f"user name {user!r:.100} is not valid: use at most 200 letters, digits and ._@+-; the "
            "first character must not be . or -"
        )
    return os.path.join(users_folder(), f"{user.lower()}.db")


def base_path(user: str | None) -> str | None:
    """Return the site's model: STREAMNB_BASE, or site.snb or site.db in the users' folder."""
    named = os.environ.get("STREAMNB_BASE")
    if named:
        return named
    if user is not None:
        for name in ("site.snb", "site.db"):
            path = os.path.join(users_folder(), name)
            if os.path.exists(path):
                return path
    return None


def socket_path(database: str | os.PathLike[str], user: str | None = None) -> str:
    """Return the socket of a database's server: STREAMNB_SOCKET, or a path next to the database.

    One server serves all users of a folder.
    """
    named = os.environ.get("STREAMNB_SOCKET")
    if named:
        return named
    if user is not None:
        return os.path.join(os.path.realpath(users_folder()), "streamnb.sock")
    return companion_path(database, ".sock")


def user_name(user_id: int) -> str:
    """Return the name of a user, or the number of a user without a name."""
    import pwd  # not on Windows

    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)


def owner_advice(path: str | os.PathLike[str]) -> str | None:
    """Return advice for a file or folder of another user; None if both belong to this user."""
    import shlex  # here: few processes need it

    own_id = os.geteuid()
    for name in (os.path.abspath(path), os.path.dirname(os.path.abspath(path))):
        if os.path.exists(name) and (owner_id := os.stat(name).st_uid) != own_id:
            owner, own_name = user_name(owner_id), user_name(own_id)
            return (
                f"{name} belongs to {owner}; run the command as {owner}, or as root: "
                f"chown {own_name} {shlex.quote(name)}"
            )
    return None
